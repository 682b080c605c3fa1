"""The passes are made once for a program and its queries, and are what the callers get."""

from __future__ import annotations

import tidelog
from tidelog.analysis.passes import Passes, passes
from tidelog.data.schema import resolve
from tidelog.language.program import Type
from tidelog.logic.core import rules_of

TEXT, INT = Type.TEXT, Type.INT
RULES = """
P(X) @ T :- E(X) @ T.
P(X) @ T :- E(X) @ T, F(X) @ T+1.
R(Y) @ T :- P(X) @ T, Near(X, Y).
"""


def test_each_pass_is_made_once() -> None:
    program = tidelog.parse(RULES)
    made = passes(program, ["R"])
    assert passes(program, ("R",)) is made
    assert made.core is made.core
    assert made.planned.core == made.reduced
    assert made.stages() is made.stages([])
    assert made.stages(["Near"]) is not made.stages()
    assert made.possible.deps.queries == ("R",)


def test_other_queries_and_equal_programs_have_passes_of_their_own() -> None:
    program, same = tidelog.parse(RULES, "a.tdl"), tidelog.parse(RULES, "b.tdl")
    assert program == same
    assert passes(program, ["R"]) is not passes(program, ["P"])
    origins = [rules_of(passes(p, ["R"]).core)[0].origin.file for p in (program, same)]
    assert origins == ["a.tdl", "b.tdl"]


def test_a_program_has_the_same_passes_whenever_its_data_has_the_same_types() -> None:
    program = tidelog.parse("P(X) @ T :- E(X) @ T.")
    texts, others, numbers = (resolve(program, {"E": (t,)}) for t in (TEXT, TEXT, INT))
    assert texts is not others
    assert passes(texts, ["P"]) is passes(others, ["P"])
    assert passes(numbers, ["P"]) is not passes(texts, ["P"])
    assert passes(numbers, ["P"]).core.predicates["E"].types == (INT,)


def test_an_input_that_is_declared_elsewhere_is_not_the_same() -> None:
    rules = tidelog.parse("P(X) @ T :- E(X) @ T.").statements
    one = tidelog.parse("input E(x: text) @ time.").statements
    other = tidelog.parse("\n\ninput E(x: text) @ time.").statements
    assert one == other
    first, second = tidelog.Program((*one, *rules)), tidelog.Program((*other, *rules))
    assert passes(first, ["P"]) is not passes(second, ["P"])
    assert passes(second, ["P"]).program is second


def test_what_is_redundant_is_left_out_of_what_runs() -> None:
    made = Passes(tidelog.parse(RULES), ("R",))
    assert len(rules_of(made.dependencies.core)) == 3
    assert len(rules_of(made.planned.core)) == 2
    assert made.dependencies_of("R").predicates == made.dependencies.predicates
