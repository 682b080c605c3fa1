"""The timeline against wide bounded closures, packed time and its own periodic descriptions."""

from __future__ import annotations

import math
import time
from collections import Counter

import pytest
from hypothesis import given
from oracle import naive
from oracle.generate import Case as AnyCase
from oracle.generate import programs_and_facts
from support import twoway
from support.deep import examples
from support.lines import agrees, as_rows, evaluated, expanded, least_period
from support.twoway import Case, Shape

import tidelog
from tidelog.analysis.dependencies import Class, dependencies
from tidelog.evaluation import timeline
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.plan import Unbounded
from tidelog.evaluation.ranges import Range
from tidelog.evaluation.timeline import Limit, TooHard
from tidelog.language.program import Value
from tidelog.logic.normalise import core

# C at 66 follows from A at 0, 11, .., 66 and B at 1, 14, .., 66, and is carried back.
MEETING = """
input A @ time.
input B @ time.
A @ T+11 :- A @ T.
B @ T+13 :- B @ T.
C @ T    :- A @ T, B @ T.
C @ T-1  :- C @ T.
"""


# The turning point may lie anywhere


def test_what_meets_far_beyond_the_data_comes_back() -> None:
    program = tidelog.parse(MEETING)
    start = time.process_time()
    both = program.query("C", {"A": [(0,)], "B": [(1,)]}, from_=0, to=0)
    alone = program.query("C", {"A": [(0,)], "B": []}, from_=0, to=0)
    assert both.to_pylist() == [{"time": 0}]
    assert alone.to_pylist() == []
    assert time.process_time() - start < 10


def test_it_comes_back_no_further_than_it_should() -> None:
    """Carried back in steps of 10 from 66 + 143 n: 6, -4, .. and, from 209, -1, -11, .. and so on.

    143 and 10 have no common factor, so that every tick is reached from some meeting.
    """
    text = MEETING.replace("T-1 ", "T-10")
    facts: twoway.Facts = {"A": {(0,)}, "B": {(1,)}}
    derived = evaluated(tidelog.parse(text), facts, Range(0, 9))
    assert as_rows(derived["C"]) == {(t,) for t in range(10)}
    # With steps of 11 only ticks that differ from 66 by a multiple of 11 are.
    text = MEETING.replace("T-1 ", "T-11")
    derived = evaluated(tidelog.parse(text), facts, Range(-20, 20))
    assert as_rows(derived["C"]) == {(-11,), (0,), (11,)}


@pytest.mark.parametrize("way", [1, -1])
def test_out_and_back_and_out_again(way: int) -> None:
    """C comes back from where A and B meet and lets D start, which goes out to meet B: that is F.

    A holds at 0, 4, 8, ..; B at 1, 6, 11, ..; they meet at 16. D holds at -1, 2, 5, ..; it meets B
    at 11. No rule spans more than 5 ticks, so that both lie on the half line.
    """
    text = f"""
    input A @ time. input B @ time. input E @ time.
    A @ T{4 * way:+d} :- A @ T.
    B @ T{5 * way:+d} :- B @ T.
    C @ T :- A @ T, B @ T.
    C @ T{-way:+d} :- C @ T.
    D @ T :- C @ T, E @ T.
    D @ T{3 * way:+d} :- D @ T.
    F @ T :- D @ T, B @ T.
    F @ T{-way:+d} :- F @ T.
    """
    program = tidelog.parse(text)
    facts: twoway.Facts = {"A": {(0,)}, "B": {(way,)}, "E": {(-way,)}}
    assert as_rows(evaluated(program, facts, Range(0, 1))["F"]) == {(0,), (1,)}
    facts["E"] = set()
    assert as_rows(evaluated(program, facts, Range(0, 1))["F"]) == set()


@pytest.mark.parametrize("n", [2, 5])
def test_a_counter_takes_as_many_ticks_as_it_has_states(n: int) -> None:
    """Carriers with the first n primes as periods meet once in their product."""
    primes = [2, 3, 5, 7, 11][:n]
    rules = [f"P{p} @ T+{p} :- P{p} @ T. P{p} @ {-p + 1}." for p in primes]
    body = ", ".join(f"P{p} @ T" for p in primes)
    program = tidelog.parse(f"{' '.join(rules)} Met @ T :- {body}.")
    described = evaluated(program, {}, Range(-math.inf, math.inf))["Met"]
    assert described.rows == frozenset()
    # Each holds at 1, 1 + p, ..; all together at 1 and every product further on.
    assert described.repeated == {((), 1, math.prod(primes))}


@given(twoway.cases(Shape(arguments=False)))
@examples(10, deep=1000)
def test_propositional_programs(case: Case) -> None:
    agrees(case)


@given(twoway.cases(Shape()))
@examples(10, deep=1000)
def test_programs_with_arguments(case: Case) -> None:
    agrees(case)


@pytest.mark.slow
@pytest.mark.grows
def test_the_generated_programs_reach_far() -> None:
    """Enough of them need more than the neighbourhood of the data; few are too far for us."""
    count: Counter[str] = Counter()

    @given(twoway.cases(Shape()))
    @examples(200)
    def collect(case: Case) -> None:
        wanted = twoway.closure(case)
        near = naive.evaluate(case.program, case.facts, case.program.heads, case.low, case.high, 6)
        count["all"] += 1
        count["unstable"] += wanted is None
        count["far"] += wanted is not None and wanted != near
        count["answers"] += wanted is not None and any(wanted.values())

    collect()
    assert count["unstable"] < 0.05 * count["all"]
    assert count["far"] > 0.02 * count["all"]
    assert count["answers"] > 0.5 * count["all"]


# Packed time


@given(programs_and_facts(huge=False))
@examples(5, deep=500)
def test_packed_time_gives_the_same(case: AnyCase) -> None:
    whole = core(case.program, case.queries)
    if any(dependencies(whole, [q]).cls is Class.BLOCKING for q in case.queries):
        return
    with Engine(case.program, case.facts) as engine:
        try:
            packed = engine.query(case.queries, case.low, case.high)
        except Unbounded:
            return
        line = timeline.answers(engine, case.queries, case.low, case.high, 60)
    assert line == packed, case.text


# Periodic answers


# Beyond this everything repeats: periods up to 5 have 60 as their common multiple.
FAR, END = 130, 260


@given(twoway.cases(Shape()))
@examples(10, deep=1000)
def test_descriptions_without_end_are_exact(case: Case) -> None:
    endless = evaluated(case.program, case.facts, Range(-math.inf, math.inf))
    bounded = evaluated(case.program, case.facts, Range(-END, END))
    for name, described in endless.items():
        rows = bounded[name].rows
        if not core(case.program).predicates[name].temporal:
            assert described == bounded[name]
            continue
        count = expanded(described, -END, END)
        assert set(count) == {(*row, tick) for row, tick in rows}, case.text
        assert set(count.values()) <= {1}, case.text
        for row, _, period in described.repeated:
            ticks = {tick for other, tick in rows if other == row and tick is not None}
            low, high = (FAR, END) if period > 0 else (-END, -FAR)
            assert abs(period) == least_period(ticks, low, high), case.text


@given(twoway.cases(Shape()))
@examples(5, deep=500)
def test_one_end_only(case: Case) -> None:
    for asked in (Range(case.low, math.inf), Range(-math.inf, case.high)):
        endless = evaluated(case.program, case.facts, asked)
        bounded = evaluated(case.program, case.facts, asked & Range(-90, 90))
        for name, described in endless.items():
            if core(case.program).predicates[name].temporal:
                count = expanded(described, -90, 90)
                assert count == Counter((*row, t) for row, t in bounded[name].rows), case.text
                assert all(asked.low <= t <= asked.high for _, t, _ in described.repeated)


def test_what_repeats_starts_as_early_as_it_can() -> None:
    program = tidelog.parse("P @ T :- E @ T. P @ T+3 :- P @ T.")
    described = evaluated(program, {"E": {(0,), (1,), (4,), (6,)}}, Range(-math.inf, math.inf))["P"]
    # 0 and 6 are on one course; 1 and 4 on another.
    assert described.rows == frozenset()
    assert described.repeated == {((), 0, 3), ((), 1, 3)}


def test_both_ways_meet_without_overlap() -> None:
    program = tidelog.parse("P @ T :- E @ T. P @ T+2 :- P @ T. P @ T-2 :- P @ T.")
    described = evaluated(program, {"E": {(0,)}}, Range(-math.inf, math.inf))["P"]
    (forth,) = [r for r in described.repeated if r[2] > 0]
    (back,) = [r for r in described.repeated if r[2] < 0]
    assert (forth[2], back[2]) == (2, -2)
    assert forth[1] - back[1] == 2
    assert described.rows == frozenset()


# Corners


def test_rules_without_atoms_ask_their_comparisons() -> None:
    program = tidelog.parse("P(a) @ 3 :- 1 < 2. P(b) @ 3 :- 2 < 1. P(X) @ T-1 :- P(X) @ T.")
    assert as_rows(evaluated(program, {}, Range(2, 3))["P"]) == {("a", 2), ("a", 3)}


def test_an_answer_may_have_a_column_called_period() -> None:
    program = tidelog.parse("input E(period: int) @ t. output P(period). P(X) @ T :- E(X) @ T.")
    answers = program.query("P", {"E": [(7, 0)]}, from_=None, to=None)
    assert answers.to_pylist() == [{"period": 7, "time": 0, "period2": None}]


def test_no_data_at_all() -> None:
    program = tidelog.parse("input E @ t. input N. P @ 5 :- N. P @ T+1 :- P @ T. P @ T :- E @ T.")
    facts: dict[str, list[tuple[Value, ...]]] = {"E": [], "N": [()]}
    # Without a first tick there is no first time to answer for.
    assert program.query("P", facts, to=None).num_rows == 0
    assert program.query("P", facts, from_=0, to=None).to_pylist() == [{"time": 5, "period": 1}]


# The limit


def test_the_limit_ends_a_long_count_and_names_the_rules() -> None:
    primes = [31, 37, 41, 43, 47]
    rules = [f"P{p} @ T+{p} :- P{p} @ T. P{p} @ 0." for p in primes]
    body = ", ".join(f"P{p} @ T+1" for p in primes)
    program = tidelog.parse(
        f"{' '.join(rules)}\nMet @ T :- {body}.\nMet @ T-1 :- Met @ T.", "r.tdl"
    )
    start = time.monotonic()
    with pytest.raises(TooHard, match=r"within 0\.2 seconds.*Met @ T needs Met.*r\.tdl:3"):
        program.query("Met", from_=5, to=5, budget=0.2)
    assert time.monotonic() - start < 20


def test_the_limit_ends_a_wide_join() -> None:
    """One rule, no recursion to speak of: the join alone takes for ever."""
    text = "R(A, B, C, D) :- E(A) @ S, E(B) @ T, E(C) @ U, E(D) @ V, A != B, B != C, C != D."
    facts: dict[str, set[tuple[Value, ...]]] = {"E": {(f"x{i}", 0) for i in range(150)}}
    program = tidelog.parse(text)
    whole = core(program)
    rows = {"E": [(row[:-1], 0) for row in facts["E"]]}
    with pytest.raises(TooHard):
        timeline.evaluate(whole, rows, ["R"], Range(0, 0), Limit(0.2, "R"))
