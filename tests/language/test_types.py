"""The type rules of the language, one by one."""

from __future__ import annotations

import pytest

from tidelog.language.checks import check
from tidelog.language.diagnostics import Code, Diagnostic
from tidelog.language.program import Constant, Type
from tidelog.language.types import infer
from tidelog.logic.core import rules_for, rules_of
from tidelog.logic.normalise import core

INPUTS = """
input Text(v: text). input Int(v: int). input Float(v: float). input Bool(v: bool). input Any(v).
"""


def clashes(text: str) -> list[Diagnostic]:
    return [d for d in check(text).diagnostics if d.code is Code.TYPE]


def types(text: str, predicate: str) -> list[str | None]:
    report = check(text)
    assert report.errors == ()
    return [t and t.value for t in infer(report.program).columns[predicate]]


@pytest.mark.parametrize(
    ("constant", "type_"),
    [
        ("a", "text"),
        ('"1"', "text"),
        ("1", "int"),
        ("-1", "int"),
        ("1.0", "float"),
        ("1e3", "float"),
        ("true", "bool"),
        ("false", "bool"),
        ('"true"', "text"),
    ],
)
def test_constants_have_types(constant: str, type_: str) -> None:
    assert types(f"P({constant}).", "P") == [type_]


@pytest.mark.parametrize("type_", Type)
def test_types_flow_from_inputs_through_rules(type_: Type) -> None:
    text = (
        f"input E(a: {type_}, b: text) @ time. P(Y, X) @ T :- E(X, Y) @ T. Q(X) @ T :- P(_, X) @ T."
    )
    assert types(text, "P") == ["text", type_]
    assert types(text, "Q") == [type_]


def test_types_flow_from_heads_to_undeclared_inputs() -> None:
    """Whatever shares a variable shares a type, in whichever order it is written."""
    assert types("P(X) :- E(X). Q(X) :- P(X), X != a.", "E") == ["text"]


def test_nothing_known_is_no_type() -> None:
    assert types("P(X, Y) :- E(X, Y), X = Y.", "E") == [None, None]


def test_recursion() -> None:
    assert types("P(X, Y) :- P(Y, X). P(a, Y) :- E(Y).", "P") == ["text", "text"]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (a, b)
        for a in ("Text", "Int", "Float", "Bool")
        for b in ("Text", "Int", "Float", "Bool")
        if a != b
    ],
)
@pytest.mark.parametrize(
    "body", ["{0}(X), {1}(X)", "{0}(X), {1}(Y), X = Y", "{0}(X), {1}(Y), X < Y"]
)
def test_two_types_do_not_meet(left: str, right: str, body: str) -> None:
    """An int column and a float column are two types as well; both places are named."""
    diagnostics = clashes(INPUTS + f"P :- {body.format(left, right)}.")
    assert diagnostics
    said = {note.message for note in diagnostics[0].notes}
    assert said == {f"column `v` of `{n}` is {n.lower()}" for n in (left, right)}
    assert all(note.origin is not None for note in diagnostics[0].notes)


@pytest.mark.parametrize("name", ["Text", "Int", "Float"])
def test_what_has_an_order(name: str) -> None:
    for operator in ("=", "!=", "<", "<=", ">", ">="):
        assert clashes(INPUTS + f"P :- {name}(X), {name}(Y), X {operator} Y.") == []


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
def test_bool_has_no_order(operator: str) -> None:
    assert len(clashes(INPUTS + f"P :- Bool(X), Bool(Y), X {operator} Y.")) == 1
    assert len(clashes(f"P :- E(X), X {operator} true.")) == 1


@pytest.mark.parametrize("operator", ["=", "!="])
def test_bool_has_equality(operator: str) -> None:
    assert clashes(INPUTS + f"P :- Bool(X), Bool(Y), X {operator} Y, X {operator} true.") == []


def test_bool_found_only_by_a_later_rule_has_no_order_either() -> None:
    diagnostics = clashes("P :- E(X, Y), X < Y. Q(X) :- E(X, _). Q(true).")
    assert [d.message for d in diagnostics] == ["bool has no order in `X < Y`"]


def test_int_constants_widen_to_float() -> None:
    text = (
        INPUTS + "P(X) :- Float(X), X >= 80, X != 81.5. Float(7). Q(X) :- Any(X), X > 1, X < 2.5."
    )
    assert clashes(text) == []
    assert types(text, "Any") == ["float"]
    made = core(check(text).accepted())
    assert rules_for(made, "P")[0].tests[0].right == Constant(80.0, Type.FLOAT)
    assert rules_for(made, "Float")[0].head.args == (Constant(7.0, Type.FLOAT),)
    assert rules_for(made, "Q")[0].tests[0].right == Constant(1.0, Type.FLOAT)


def test_int_constants_widen_where_only_a_later_rule_says_float() -> None:
    text = "E(1). P(X) :- E(X). Q(X) :- P(X), X < 2.5."
    assert clashes(text) == []
    assert types(text, "E") == ["float"]
    assert rules_of(core(check(text).accepted()))[0].head.args == (Constant(1.0, Type.FLOAT),)


def test_int_constants_stay_int_otherwise() -> None:
    text = "E(1). P(X) :- E(X), X < 2."
    assert types(text, "P") == ["int"]
    assert rules_of(core(check(text).accepted()))[0].head.args == (Constant(1, Type.INT),)


def test_decimals_do_not_become_int() -> None:
    (diagnostic,) = clashes(INPUTS + "P :- Int(2.0).")
    assert diagnostic.hint == "write a whole number, or declare the column `float`"
    assert len(clashes(INPUTS + "P :- Int(X), X > 2.0.")) == 1


def test_an_integer_that_is_no_float_is_refused() -> None:
    assert clashes(INPUTS + f"P :- Float({2**53}).") == []
    for text in (f"P :- Float({2**53 + 1}).", f"P :- Float(X), X < {-(2**53) - 1}."):
        (diagnostic,) = clashes(INPUTS + text)
        assert "has no exact float value" in diagnostic.message


def test_an_integer_that_is_no_float_though_the_float_comes_later() -> None:
    assert len(clashes(f"E({2**53 + 1}). P :- E(X), X < 2.5.")) == 1


@pytest.mark.parametrize("constant", ["1", "1.5", "true"])
def test_quotes_are_suggested_for_text(constant: str) -> None:
    (diagnostic,) = clashes(INPUTS + f"P :- Text({constant}).")
    assert diagnostic.hint == f'text is written in quotes: `"{constant}"`'


def test_a_clash_does_not_spread() -> None:
    """One wrong constant is one error, however often the column is used."""
    uses = " ".join(f"P{i}(X) :- Int(X), X > {i}." for i in range(10))
    assert len(clashes(INPUTS + "Q :- Int(high). " + uses)) == 1


def test_the_message_names_the_argument() -> None:
    (diagnostic,) = clashes("input E(a: int, b: text). P :- E(X, X).")
    assert diagnostic.message == "`X` would be both int and text (argument 2 of `E(X, X)`)"
