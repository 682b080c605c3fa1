"""What is said of programs with aggregates holds: bounds, final answers, containment, proofs."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from oracle import naive
from oracle.aggregates import programs_with_aggregates
from oracle.generate import Case
from oracle.horizon import Answers, temporal_predicates
from support.deep import examples

import tidelog
from tidelog.errors import NoAnswer
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.open_answers import OpenAnswers
from tidelog.language.program import Value

Facts = dict[str, list[tuple[Value, ...]]]
randoms = st.randoms(use_true_random=False)
plain = programs_with_aggregates(connected=True, explicit_times=False, recursive=False)


def between(case: Case, low: float, high: float) -> Facts:
    """The facts from a tick to a tick, and those without a time."""
    temporal = temporal_predicates(case.program)
    return {
        name: [row for row in rows if name not in temporal or low <= int(row[-1]) <= high]
        for name, rows in case.facts.items()
    }


def answers(case: Case, facts: Facts, query: str, tout: int) -> Answers:
    return naive.evaluate(case.program, facts, [query], tout, tout)


def asked(case: Case, random: Random) -> tuple[str, int] | None:
    queries = [q for q in case.queries if q in temporal_predicates(case.program)]
    ticks = [
        int(row[-1])
        for name, rows in case.facts.items()
        if name in temporal_predicates(case.program)
        for row in rows
    ]
    if not queries or not ticks:
        return None
    query, low, high = random.choice(queries), min(ticks) - 3, max(ticks) + 3
    there = naive.evaluate(case.program, case.facts, [query], low, high)[query]
    if there and random.random() < 0.8:
        return query, int(random.choice(sorted(there, key=str))[-1])
    return query, random.choice(ticks) + random.randint(-2, 2)


@examples(25, deep=600)
@given(plain, randoms)
def test_nothing_after_the_delay_and_before_the_window_counts(case: Case, random: Random) -> None:
    question = asked(case, random)
    if question is None:
        return
    query, tout = question
    program = tidelog.parse(case.text)
    try:
        wait = tidelog.delay(program, query, budget=1.0)
        kept = tidelog.window(program, query, budget=1.0)
    except NoAnswer:
        return
    want = answers(case, dict(case.facts), query, tout)
    assert wait.upper is not None
    tin = tout + wait.upper
    assert answers(case, between(case, -math.inf, tin), query, tout) == want
    assert kept.upper is not None
    assert answers(case, between(case, tin - kept.upper, math.inf), query, tout) == want
    event("there are answers" if want[query] else "there are none")


@examples(20, deep=400)
@given(programs_with_aggregates(connected=True, recursive=False), randoms, st.integers(0, 4))
def test_what_is_final_does_not_change(case: Case, random: Random, later: int) -> None:
    question = asked(case, random)
    if question is None:
        return
    query, tout = question
    with Engine(case.program, case.facts) as engine:
        verdict = OpenAnswers(engine, query).definitive(tout + later, tout)
    if verdict.holds:
        want = answers(case, dict(case.facts), query, tout)
        assert answers(case, between(case, -math.inf, tout + later), query, tout) == want
    event(f"final: {verdict.holds}, exact: {verdict.exact}")


RULES = """
    input E(x: text, v: int) @ t.
    input F(x: text) @ t.
    P(X, S) @ T :- F(X) @ T, S = sum(V : E(X, V) @ [T-2, T+1]).
    Q(X) @ T :- F(X) @ T, count(E(X, _) @ [T-1, T]) >= 2.
    R(X) @ T :- F(X) @ T, count(F(X) @ [T-3, T]) >= 2.
    S(X) @ T :- F(X) @ T, count(E(X, _) @ [T-3, T]) = 0.
"""


def test_an_aggregate_is_as_wide_as_its_window() -> None:
    program = tidelog.parse(RULES)
    assert tidelog.delay(program, "P").upper == 1
    assert tidelog.window(program, "P").upper == 3
    assert not tidelog.window(program, "P").exact


def test_a_count_of_one_fact_a_tick_is_a_window() -> None:
    """Then the analyses know what it is, and have witnesses."""
    program = tidelog.parse(RULES)
    assert tidelog.window(program, "R").exact
    assert tidelog.window(program, "R").upper == 3
    assert tidelog.window(program, "S").exact


def test_a_program_is_contained_in_itself() -> None:
    program = tidelog.parse(RULES)
    for query in "PQRS":
        assert tidelog.contained(program, program, query).holds is True


def test_another_aggregate_is_not_taken_for_the_same() -> None:
    other = tidelog.parse(RULES.replace("T-1, T]) >= 2", "T-2, T]) >= 2"))
    assert tidelog.contained(tidelog.parse(RULES), other, "Q").holds is not True


def test_a_window_of_any_value_is_contained_in_itself() -> None:
    text = "input E(x: text) @ t. input F(x: text, y: text) @ t."
    program = tidelog.parse(f"{text} P(X) @ T :- E(X) @ T, not some F(X, _) @ [T-1, T].")
    assert tidelog.contained(program, program, "P").holds is True


FACTS: Facts = {"E": [("a", 3, 1), ("a", 4, 2), ("b", 9, 2)], "F": [("a", 2), ("c", 2)]}


def test_a_proof_has_the_facts_that_were_gathered() -> None:
    (proof,) = tidelog.parse(RULES).why("P(a, 7) @ 2", FACTS).proofs
    assert {(f.predicate, f.args, f.time) for f in proof.facts} == {
        ("F", ("a",), 2),
        ("E", ("a", 3), 1),
        ("E", ("a", 4), 2),
    }


def test_a_sum_of_nothing_rests_on_absence() -> None:
    (proof,) = tidelog.parse(RULES).why("P(c, 0) @ 2", FACTS).proofs
    assert [(a.predicate, a.args) for a in proof.steps[0].absent] == [("E", ("c", None))]


def test_a_miss_says_what_it_comes_to_instead() -> None:
    (missing,) = tidelog.parse(RULES).why("P(a, 8) @ 2", FACTS).misses[0].missing
    assert missing.gathered is not None
    assert [getattr(fact, "value", None) for fact in missing.instead] == [7]


def test_what_is_not_done_is_refused() -> None:
    program = tidelog.parse(RULES)
    with pytest.raises(NoAnswer, match="aggregate"):
        tidelog.live(program, "P", FACTS, tin=3, tout=3)
