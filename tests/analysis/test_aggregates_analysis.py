"""What is said of programs with aggregates holds: bounds, final answers, containment, proofs."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from oracle import naive
from oracle.aggregates import programs_with_aggregates, programs_with_reached_values
from oracle.generate import Case
from oracle.horizon import Answers, temporal_predicates
from support.deep import examples

import tidelog
from tidelog.analysis.containment import Budget
from tidelog.errors import NoAnswer
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.live_facts import LiveFacts
from tidelog.evaluation.open_answers import OpenAnswers
from tidelog.language.printer import print_literal
from tidelog.language.program import Value

Facts = dict[str, list[tuple[Value, ...]]]
randoms = st.randoms(use_true_random=False)
plain = programs_with_aggregates(connected=True, explicit_times=False, recursive=False)
either = st.one_of(
    programs_with_aggregates(connected=True, recursive=False),
    programs_with_reached_values(connected=True, recursive=False),
)


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


@examples(7, deep=600)
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


@examples(5, deep=400)
@given(either, randoms, st.integers(0, 4))
def test_what_is_final_does_not_change(case: Case, random: Random, later: int) -> None:
    question = asked(case, random)
    if question is None:
        return
    query, tout = question
    with Engine(case.program, case.facts) as engine:
        verdict = OpenAnswers(engine, query).definitive(tout + later, tout)
    if verdict.holds:
        known = between(case, -math.inf, tout + later)
        want = answers(case, known, query, tout)
        assert answers(case, dict(case.facts), query, tout) == want
        for _ in range(3):
            assert answers(case, gone_on(case, known, tout + later, random), query, tout) == want
    event(f"final: {verdict.holds}, exact: {verdict.exact}")


def gone_on(case: Case, known: Facts, tin: int, random: Random) -> Facts:
    """The facts up to tin, and any of the program's facts at ticks soon after it."""
    temporal = temporal_predicates(case.program)
    later = {
        name: [
            (*row[:-1], tin + random.randint(1, 7))
            for row in rows
            if name in temporal and random.random() < 0.5
        ]
        for name, rows in case.facts.items()
    }
    return {name: [*rows, *later.get(name, ())] for name, rows in known.items()}


SETTLES = """
    input Pulse(p: text, v: int) @ time.
    Settles(P, A) @ T :- Pulse(P, 0) @ T, A = max(V : Pulse(P, V) @ [T, T+2]), Pulse(P, 7) @ T+1.
"""


def test_an_answer_waits_for_its_aggregate_only_while_it_may_come() -> None:
    program = tidelog.parse(SETTLES)
    facts: Facts = {"Pulse": [("a", 0, 0), ("a", 6, 1), ("a", 0, 2), ("a", 7, 3)]}
    open_ = [tidelog.open_points(program, "Settles", facts, tin, 0, tin) for tin in range(5)]
    assert open_ == [[0], [], [2], [2], []]
    verdict = tidelog.definitive(program, "Settles", facts, 2, 2)
    awaited = "Pulse(a, 7) @ 3 and max(V : Pulse(a, V) @ [2, 4])"
    assert [str(p) for p in verdict.pending] == [f"Settles(a, _) @ 2 waits for {awaited}"]
    assert verdict.reason
    assert not verdict.exact


EARLY = """
    input E(x: text) @ t.
    input F(x: text, v: int) @ t.
    Rises(X) @ T :- E(X) @ T, max(V : F(X, V) @ [T, T+9]) >= 5.
    Falls(X) @ T :- E(X) @ T, 3 > min(V : F(X, V) @ [T+1, T+9]).
    Many(X) @ T :- E(X) @ T, count(F(X, _) @ [T, T+9]) >= 3.
    Calm(X) @ T :- E(X) @ T, max(V : F(X, V) @ [T, T+9]) < 5.
    Few(X) @ T :- E(X) @ T, count(F(X, _) @ [T, T+9]) < 2.
    Best(X, M) @ T :- E(X) @ T, M = max(V : F(X, V) @ [T, T+9]), M >= 5.
    Over(X) @ T :- E(X) @ T, F(X, W) @ T, max(V : F(X, V) @ [T, T+9]) >= W.
"""
COMING: Facts = {"E": [("a", 0)], "F": [("a", 4, 0), ("a", 1, 2), ("a", 6, 4), ("a", 2, 7)]}


@pytest.mark.parametrize(
    ("query", "first"),
    [("Rises", 4), ("Falls", 2), ("Many", 4), ("Calm", 9), ("Few", 9), ("Best", 9), ("Over", 9)],
)
def test_what_few_facts_decide_is_final_once_they_are_there(query: str, first: int) -> None:
    program = tidelog.parse(EARLY)
    final = [tidelog.definitive(program, query, COMING, tin, 0).holds for tin in range(11)]
    assert final == [tin >= first for tin in range(11)]
    stream = tidelog.Stream(program, [query], mode="online")
    for tin in range(11):
        new = {n: [r[:-1] for r in rows if r[-1] == tin] for n, rows in COMING.items()}
        step = stream.push(tin, new)
        assert (step.tout is not None and step.tout >= 0) is (tin >= first)
        assert bool(stream.pending()) is (tin < first)


@pytest.mark.parametrize(
    ("query", "pending"),
    [
        ("Rises", "Rises(a) @ 0 may still come: one F(a, _) by 9 would do"),
        ("Many", "Many(a) @ 0 waits for count(F(a, _) @ [0, 9])"),
        ("Calm", "Calm(a) @ 0 waits for max(V : F(a, V) @ [0, 9])"),
    ],
)
def test_pending_says_what_would_decide(query: str, pending: str) -> None:
    program = tidelog.parse(EARLY)
    assert [str(p) for p in tidelog.definitive(program, query, COMING, 2, 0).pending] == [pending]
    stream = tidelog.Stream(program, [query], mode="online")
    for tin in range(3):
        new = {n: [r[:-1] for r in rows if r[-1] == tin] for n, rows in COMING.items()}
        stream.push(tin, new)
    assert [str(p) for p in stream.pending()] == [pending]


@pytest.mark.parametrize("query", ["Rises", "Falls"])
def test_a_value_that_is_reached_is_as_wide_as_its_window_exactly(query: str) -> None:
    program = tidelog.parse(EARLY)
    for measure in (tidelog.delay(program, query), tidelog.window(program, query)):
        assert (measure.upper, measure.exact) == (9, True)


def test_a_proof_has_the_fact_that_reaches_a_value() -> None:
    (proof,) = tidelog.parse(EARLY).why("Rises(a) @ 0", COMING).proofs
    assert {(f.predicate, f.args, f.time) for f in proof.facts} == {
        ("E", ("a",), 0),
        ("F", ("a", 6), 4),
    }
    ((comparison, left, right),) = proof.steps[0].comparisons
    assert (print_literal(comparison), left, right) == ("V >= 5", 6, 5)


def test_a_miss_says_how_near_the_values_come() -> None:
    facts: Facts = {"E": [("a", 0)], "F": [("a", 1, 0), ("a", 4, 3), ("a", 2, 5)]}
    (unmet,) = tidelog.parse(EARLY).why("Rises(a) @ 0", facts).misses[0].unmet
    assert (unmet.left, unmet.right) == (4, 5)


def test_values_of_two_aggregates_have_names_of_their_own() -> None:
    """Each has its own V; one fact need not be both."""
    program = tidelog.parse(
        "input F(x: text, v: int) @ t. P(X) @ T :- F(X, V_) @ T, V_ > 0,"
        " max(V : F(X, V) @ [T, T+9]) >= 5, min(V : F(X, V) @ [T, T+9]) <= 1."
    )
    facts: Facts = {"F": [("a", 6, 0), ("a", 1, 2), ("b", 6, 0), ("b", 3, 2)]}
    assert program.query("P", facts).to_pylist() == [{"x": "a", "time": 0}]


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


@examples(5, deep=300)
@given(programs_with_aggregates(connected=True), randoms, st.integers(0, 4))
def test_what_is_forgotten_is_not_missed(case: Case, random: Random, later: int) -> None:
    question = asked(case, random)
    if question is None:
        return
    query, tout = question
    tin = tout - 1 + later
    with Engine(case.program, case.facts) as engine:
        facts = LiveFacts(engine, query)
        tables = {name: facts.table(name, select) for name, select in facts.live(tin, tout).items()}
        forgettable = facts.forgettable(tin, tout, tout - 4, Budget(1.0))
    live = {name: list(zip(*t.to_pydict().values(), strict=True)) for name, t in tables.items()}
    known = between(case, -math.inf, tin)
    for _ in range(2):
        whole = gone_on(case, known, tin, random)
        come = {name: rows[len(known[name]) :] for name, rows in whole.items()}
        less = {n: [*live.get(n, known[n]), *come[n]] for n in known}
        short = between(case, tout - 3 if forgettable.holds else -math.inf, tin)
        short = {name: [*rows, *come[name]] for name, rows in short.items()}
        for at in range(tout, tout + 4):
            want = answers(case, whole, query, at)
            assert answers(case, less, query, at) == want
            assert answers(case, short, query, at) == want
    event(f"forgettable: {forgettable.holds}")


def test_facts_beyond_the_window_of_an_aggregate_are_not_live() -> None:
    program = tidelog.parse(RULES)
    facts: Facts = {"E": [("a", 1, 0), ("a", 2, 1), ("a", 3, 4)], "F": [("a", 4)]}
    live = tidelog.live(program, "P", facts, tin=4, tout=3)
    assert sorted(live["E"].to_pydict()["t"]) == [1, 4]
    assert tidelog.forgettable(program, "P", facts, tin=4, tout=3, tmem=0).holds
    kept = tidelog.forgettable(program, "P", facts, tin=4, tout=3, tmem=1)
    assert (kept.holds, kept.exact) == (False, False)
    assert kept.reason == "an aggregate below may gather those facts"
