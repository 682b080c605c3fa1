"""The passes are made once for a program and its queries, and are what the callers get."""

from __future__ import annotations

import tidelog
from tidelog.analysis.passes import Passes, passes

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
    assert made.lean.core == made.reduced
    assert made.stages() is made.stages([])
    assert made.stages(["Near"]) is not made.stages()
    assert made.possible.deps.queries == ("R",)


def test_other_queries_and_equal_programs_have_passes_of_their_own() -> None:
    program, same = tidelog.parse(RULES, "a.tdl"), tidelog.parse(RULES, "b.tdl")
    assert program == same
    assert passes(program, ["R"]) is not passes(program, ["P"])
    origins = [passes(p, ["R"]).core.clauses[0].origin.file for p in (program, same)]
    assert origins == ["a.tdl", "b.tdl"]


def test_what_is_redundant_is_left_out_of_what_runs() -> None:
    made = Passes(tidelog.parse(RULES), ("R",))
    assert len(made.dependencies.core.clauses) == 3
    assert len(made.lean.core.clauses) == 2
    assert made.dependencies_of("R").predicates == made.dependencies.predicates
