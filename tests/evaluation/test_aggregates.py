"""Programs with aggregates: the engine gives what sets of facts and exact fractions give."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from oracle import naive
from oracle.aggregates import programs_with_aggregates, programs_with_reached_values
from oracle.generate import Case
from oracle.keyed import keyed
from support.batch import agree, wanted
from support.deep import examples

from tidelog.evaluation import gathers
from tidelog.evaluation.density import Density
from tidelog.language.checks import check
from tidelog.language.program import Interval, Measure, TimeOffset, TimePoint, Value


@given(programs_with_aggregates())
@examples(13, deep=1200)
def test_any_program(case: Case) -> None:
    agree(case)


@given(programs_with_aggregates(connected=True, negation=False))
@examples(9, deep=800)
def test_connected_programs(case: Case) -> None:
    agree(case)


@given(programs_with_reached_values())
@examples(10, deep=1000)
def test_values_that_are_reached(case: Case) -> None:
    agree(case)


@given(programs_with_aggregates(), st.randoms(use_true_random=False))
@examples(5, deep=500)
def test_programs_with_a_key(case: Case, random: Random) -> None:
    agree(keyed(case, random))


@given(programs_with_aggregates())
@examples(5, deep=500)
def test_programs_whose_inputs_are_not_packed(case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Density, "is_sparse", lambda *_: True)
        agree(case)


@given(programs_with_aggregates(), st.booleans())
@examples(13, deep=500)
def test_programs_whose_aggregates_are_made_of_words(case: Case, sparse: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathers, "MANY_ROWS", 0)
        patch.setattr(Density, "is_sparse", lambda *_: sparse)
        agree(case)


@pytest.mark.slow
def test_generated_programs_are_worth_running() -> None:
    """Most have answers that rest on aggregates, and all measures and kinds of windows occur."""
    seen: list[Case] = []

    @settings(
        max_examples=60, database=None, derandomize=True, deadline=None, phases=[Phase.generate]
    )
    @given(programs_with_aggregates())
    def collect(case: Case) -> None:
        seen.append(case)

    collect()
    literals = [x for case in seen for rule in case.program.rules for x in rule.aggregated]
    assert {x.aggregate.measure for x in literals} == set(Measure)
    assert {type(x.atom.time) for x in literals} == {Interval, TimeOffset, TimePoint, type(None)}
    heads = [{r.head.predicate for r in case.program.rules if r.aggregated} for case in seen]
    answered = 0
    for case, names in zip(seen, heads, strict=True):
        asked = [q for q in case.queries if q in names]
        answers = naive.evaluate(case.program, case.facts, asked, case.low, case.high)
        answered += any(answers.values())
    assert answered > len(seen) / 4


def test_a_count_that_is_also_calculated_with_stays_a_count() -> None:
    rules = "input E(x: text) @ t. P(D) @ T :- E(X) @ T, N = count(E(X) @ [T-9, T]), N >= 2"
    facts: dict[str, list[tuple[Value, ...]]] = {"E": [("a", 0), ("a", 2), ("a", 3)]}
    for more in ("D = N + 1", "D = N * 2, D > N"):
        text = f"{rules}, {more}."
        case = Case(text, check(text).accepted(), facts, ("P",), 0, 3)
        assert len(wanted(case)["P"]) == 2
        agree(case)


@pytest.mark.parametrize("test", [">= 1", "= 0"])
def test_values_that_must_be_equal_are_not_any_values(test: str) -> None:
    """Two windows of the same facts, one of which asks for equal values."""
    text = f"""
        input E(x: text) @ t. input F(x: text, y: int, z: int) @ t.
        R(X) @ T :- E(X) @ T, count(F(X, _, _) @ [T, T+1]) {test}.
        Q(X) @ T :- E(X) @ T, count(F(X, Y, Y) @ [T, T+1]) {test}."""
    facts: dict[str, list[tuple[Value, ...]]] = {
        "E": [("a", 0), ("b", 0)],
        "F": [("a", 1, 2, 0), ("b", 2, 2, 1)],
    }
    case = Case(text, check(text).accepted(), facts, ("Q", "R"), 0, 1)
    answers = wanted(case)
    assert answers["Q"] != answers["R"]
    agree(case)
