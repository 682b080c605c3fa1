"""Text to program: what is read, where it was, and how reading goes on after an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.deep import examples
from support.strategies import rules

from tidelog.language.checks import decode
from tidelog.language.diagnostics import Code, Source
from tidelog.language.parser import Parsed, parse_source
from tidelog.language.printer import print_rule
from tidelog.language.program import (
    Atom,
    Comparison,
    Constant,
    Input,
    Operator,
    Origin,
    Rule,
    TimeOffset,
    TimePoint,
    Type,
    Variable,
)
from tidelog.language.tokens import is_name, is_variable_name


def parse(text: str) -> Parsed:
    return parse_source(Source("rules.tdl", text))


def only_rule(text: str) -> Rule:
    parsed = parse(text)
    assert parsed.diagnostics == ()
    (rule,) = parsed.program.rules
    return rule


def test_a_rule() -> None:
    x, t = Variable("X"), Variable("T")
    assert only_rule("P(X, high) @ T+1 :- E(X, -2, 2.5, true) @ T, Near(X, _), X != y.") == Rule(
        Atom("P", (x, Constant("high", Type.TEXT)), TimeOffset(t, 1)),
        (
            Atom(
                "E",
                (x, Constant(-2, Type.INT), Constant(2.5, Type.FLOAT), Constant(True, Type.BOOL)),
                TimeOffset(t),
            ),
            Atom("Near", (x, Variable("_#1"))),
            Comparison(x, Operator.NE, Constant("y", Type.TEXT)),
        ),
    )


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("T", TimeOffset(Variable("T"))),
        ("T+0", TimeOffset(Variable("T"))),
        ("T + 3", TimeOffset(Variable("T"), 3)),
        ("T-3", TimeOffset(Variable("T"), -3)),
        ("_", TimeOffset(Variable("_#1"))),
        ("_now", TimeOffset(Variable("_now"))),
        ("5", TimePoint(5)),
        ("-5", TimePoint(-5)),
        ("- 5", TimePoint(-5)),
        ("007", TimePoint(7)),
    ],
)
def test_times(text: str, time: TimePoint | TimeOffset) -> None:
    assert only_rule(f"P @ {text} :- E.").head.time == time


@pytest.mark.parametrize(
    ("text", "operator"),
    [("=", "="), ("==", "="), ("!=", "!="), ("<", "<"), ("<=", "<="), (">", ">"), (">=", ">=")],
)
def test_comparisons(text: str, operator: str) -> None:
    for spaced in (f"X {text} -1", f"X{text}-1"):
        (comparison,) = only_rule(f"P(X) :- E(X), {spaced}.").comparisons
        assert comparison == Comparison(Variable("X"), Operator(operator), Constant(-1, Type.INT))


def test_every_anonymous_variable_is_its_own() -> None:
    rule = only_rule("P @ T :- E(_, _) @ T, F(_) @ _, _ != X.")
    assert [v.name for a in rule.atoms for v in a.variables] == ["_#1", "_#2", "_#3"]
    assert rule.atoms[1].time == TimeOffset(Variable("_#4"))
    assert rule.comparisons[0].left == Variable("_#5")


@pytest.mark.parametrize("name", ["input", "output", "not", "true", "text"])
def test_no_word_is_reserved_for_predicates(name: str) -> None:
    assert only_rule(f"{name}(X) @ T :- {name}2(X) @ T, {name}(X) @ T-1.").head.predicate == name
    assert parse(f"input {name} @ time. output {name}.").diagnostics == ()


def test_input_declarations() -> None:
    (statement,) = parse('input E(a: text, "b c": float, d) @ "the time".').program.statements
    assert isinstance(statement, Input)
    columns = [(c.name, c.type) for c in statement.columns]
    assert columns == [("a", Type.TEXT), ("b c", Type.FLOAT), ("d", None)]
    assert statement.time == "the time"


def test_one_zero() -> None:
    assert only_rule("P(-0.0).").head == only_rule("P(0.0).").head
    assert repr(only_rule("P(-0.0).").head.args[0]).find("-") == -1


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("x", False),
        ("X", True),
        ("_", True),
        ("_x", True),
        ("é", False),
        ("É", True),
        ("ǅ", True),
        ("温度", False),
        ("ß", False),
    ],
)
def test_names(name: str, variable: bool) -> None:
    assert is_name(name)
    assert is_variable_name(name) is variable


@pytest.mark.parametrize("text", ["", "1a", "a b", "a-b", "a.", "%a", '"a"', "☃", " a", "a\n"])
def test_not_names(text: str) -> None:
    assert not is_name(text)


# Origins


def test_origins() -> None:
    text = "% first line\nP(X) @ T+1 :-\n    E(X, high) @ T,\n    X != a.\n"
    rule = only_rule(text)
    assert rule.origin == Origin("rules.tdl", 2, 1, 4, 12)
    assert rule.head.origin == Origin("rules.tdl", 2, 1, 2, 11)
    assert rule.head.args[0].origin == Origin("rules.tdl", 2, 3, 2, 4)
    assert rule.head.time is not None
    assert rule.head.time.origin == Origin("rules.tdl", 2, 8, 2, 11)
    assert rule.atoms[0].args[1].origin == Origin("rules.tdl", 3, 10, 3, 14)
    assert rule.comparisons[0].origin == Origin("rules.tdl", 4, 5, 4, 11)
    assert str(rule.origin) == "rules.tdl:2"


@examples(80, deep=2000)
@given(st.lists(rules, min_size=1, max_size=4))
def test_a_rule_is_found_where_its_origin_says(made: list[Rule]) -> None:
    source = Source("", "\n".join("  " + print_rule(rule) for rule in made))
    parsed = parse_source(source).program.rules
    for rule, read in zip(made, parsed, strict=True):
        o = read.origin
        assert o.line == o.end_line
        assert source.line(o.line)[o.column - 1 : o.end_column - 1] == print_rule(rule)


# Errors


def lines_of_errors(text: str) -> list[int]:
    return [d.origin.line for d in parse(text).diagnostics]


def test_reading_goes_on_behind_the_next_dot() -> None:
    parsed = parse("P(X :- E(X). Q(a). R(. S(b).")
    assert len(parsed.diagnostics) == 2
    assert [rule.head.predicate for rule in parsed.program.rules] == ["Q", "S"]
    assert not parsed.complete


def test_a_missing_dot_costs_one_rule_only() -> None:
    parsed = parse("P(a)\nQ(a).\nR(X) :- Q(X)\nS(a).\n")
    assert [rule.head.predicate for rule in parsed.program.rules] == ["Q", "S"]
    assert lines_of_errors("P(a)\nQ(a).\nR(X) :- Q(X)\nS(a).\n") == [1, 3]


def test_dots_in_text_numbers_and_comments_end_nothing() -> None:
    assert only_rule('P("a. b.", 1.5) @ 3. % and. so. on.').head.predicate == "P"


def test_one_error_for_one_foreign_comment() -> None:
    assert lines_of_errors("# What. A. Comment.\nP(a).\n// Another. One.\n/* And. \n So. */\n") == [
        1,
        3,
        4,
    ]


def test_several_numbers_of_one_statement_are_reported() -> None:
    parsed = parse("P(99999999999999999999, 1e999) @ 9999999999999999999.")
    assert [d.code for d in parsed.diagnostics] == [Code.NUMBER] * 3
    assert parsed.program.rules == ()


@pytest.mark.parametrize("digits", [5000, 100000])
def test_very_long_numbers(digits: int) -> None:
    """Python itself refuses to convert such integers."""
    for number in ("9" * digits, "-" + "9" * digits, "9" * digits + ".5"):
        assert [d.code for d in parse(f"P({number}).").diagnostics] == [Code.NUMBER]
    assert only_rule(f"P({'0' * digits}7).").head.args == (Constant(7, Type.INT),)


def test_depth_does_not_matter() -> None:
    """Nothing in the language nests, and nothing in the parser recurses."""
    assert len(parse("P(" * 50_000).diagnostics) == 1
    wide = only_rule("P(" + ", ".join(["a"] * 50_000) + ").")
    assert len(wide.head.args) == 50_000


# Files


def test_encoding() -> None:
    source, problem = decode(b"P(a).\nQ(\xff).", "rules.tdl")
    assert problem is not None
    assert (problem.code, problem.origin.line, problem.origin.column) == (Code.ENCODING, 2, 3)
    assert "0xff" in problem.message
    assert source.line(2) == "Q(\ufffd)."


def test_encoding_error_behind_wide_characters() -> None:
    """Columns count characters, though the error is found at a byte."""
    _, problem = decode('P("温度")\xa0'.encode() + b"\xfe", "rules.tdl")
    assert problem is not None
    assert problem.origin.column == 9


@pytest.mark.parametrize("raw", [b"P(a).\r\nQ(b).\r\n", b"\xef\xbb\xbfP(a).\rQ(b).\r"])
def test_line_ends_and_byte_order_mark(raw: bytes) -> None:
    source, problem = decode(raw, "rules.tdl")
    assert problem is None
    assert source.text == "P(a).\nQ(b).\n"
