"""Cycles of rules through aggregates that look strictly back: throttles, budgets, records."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from oracle import naive
from oracle.aggregates import gathers_its_own, programs_with_cycles
from oracle.generate import Case
from oracle.keyed import keyed
from support.batch import agree
from support.deep import examples

import tidelog
from tidelog.errors import NoAnswer
from tidelog.evaluation import gathers
from tidelog.language.program import Measure


@given(programs_with_cycles())
@examples(4, deep=600)
def test_any_program(case: Case) -> None:
    agree(case)


@given(programs_with_cycles(connected=True))
@examples(4, deep=900)
def test_connected_programs(case: Case) -> None:
    agree(case)


@given(programs_with_cycles(connected=True), st.randoms(use_true_random=False))
@examples(4, deep=500)
def test_programs_with_a_key(case: Case, random: Random) -> None:
    agree(keyed(case, random))


@given(programs_with_cycles())
@examples(3, deep=300)
def test_programs_whose_aggregates_are_made_of_words(case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathers, "MANY_ROWS", 0)
        agree(case)


@pytest.mark.slow
def test_generated_programs_are_worth_running() -> None:
    """All measures occur in cycles, and many programs have answers that hang on them."""
    seen: list[Case] = []

    @settings(
        max_examples=100, database=None, derandomize=True, deadline=None, phases=[Phase.generate]
    )
    @given(programs_with_cycles())
    def collect(case: Case) -> None:
        seen.append(case)

    collect()
    rules = [[r for r in c.program.rules if gathers_its_own(c.program, r)] for c in seen]
    measures = {x.aggregate.measure for some in rules for rule in some for x in rule.aggregated}
    assert measures == set(Measure)
    answered, tried = 0, 15
    for case, some in zip(seen[:tried], rules, strict=False):
        heads = [q for q in case.queries if q in {rule.head.predicate for rule in some}]
        answers = naive.evaluate(case.program, case.facts, heads, case.low, case.high)
        answered += any(answers.values())
    assert answered > tried / 4


def test_a_budget_of_many_ticks() -> None:
    """As a loop over ticks would spend it."""
    random = Random(18)
    asked = [
        (x, random.randint(1, 30), t) for t in range(80) for x in "ab" if random.random() < 0.7
    ]
    granted: list[tuple[str, int, int]] = []
    for x, v, t in asked:
        spent = sum(w for y, w, s in granted if y == x and t - 9 <= s <= t - 1)
        if spent + v <= 50:
            granted.append((x, v, t))
    program = tidelog.parse(
        "input Ask(x: text, v: int) @ t. Spent(X, V) @ T :- Grant(X, V) @ T.\n"
        "Grant(X, V) @ T :- Ask(X, V) @ T, S = sum(W : Spent(X, W) @ [T-9, T-1]), S + V <= 50."
    )
    answers = program.query("Grant", {"Ask": asked})
    assert [tuple(row.values()) for row in answers.to_pylist()] == granted


def test_it_is_refused_over_what_looks_ahead_without_end() -> None:
    program = tidelog.parse(
        "input Ask(v: int) @ t. Late @ T :- Ask(_) @ T. Late @ T :- Late @ T+1.\n"
        "Grant(V) @ T :- Ask(V) @ T, Late @ T, max(W : Grant(W) @ [T-5, T-1]) < V.\n"
        "Grant(V) @ T :- Ask(V) @ T, V < 3."
    )
    with pytest.raises(NoAnswer, match="`Grant` hangs on what its own facts come to, and Late"):
        program.query("Grant", {"Ask": [(1, 0), (4, 1)]})
