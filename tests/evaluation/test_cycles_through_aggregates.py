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

from tidelog.evaluation import gathers
from tidelog.language.program import Measure


@given(programs_with_cycles())
@examples(20, deep=600)
def test_any_program(case: Case) -> None:
    agree(case)


@given(programs_with_cycles(connected=True))
@examples(30, deep=900)
def test_connected_programs(case: Case) -> None:
    agree(case)


@given(programs_with_cycles(connected=True), st.randoms(use_true_random=False))
@examples(20, deep=500)
def test_programs_with_a_key(case: Case, random: Random) -> None:
    agree(keyed(case, random))


@given(programs_with_cycles())
@examples(10, deep=300)
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
    answered = 0
    measures: set[Measure] = set()
    for case in seen:
        rules = [rule for rule in case.program.rules if gathers_its_own(case.program, rule)]
        measures |= {x.aggregate.measure for rule in rules for x in rule.aggregated}
        heads = [q for q in case.queries if q in {rule.head.predicate for rule in rules}]
        answers = naive.evaluate(case.program, case.facts, heads, case.low, case.high)
        answered += any(answers.values())
    assert measures == set(Measure)
    assert answered > len(seen) / 4
