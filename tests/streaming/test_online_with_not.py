"""Online streams with `not`, against truth tables over all updates: nothing is answered too early,
nothing is forgotten that matters, and a time is answered at once where that is decided exactly.
"""

from __future__ import annotations

import warnings
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st
from support import brute, truth
from support.brute import Fact
from support.deep import examples
from support.programs import NEGATED, Case, Facts, Shape, histories, programs
from support.streams import rows

import tidelog
from tidelog.analysis.dependencies import Class, Dependencies, dependencies
from tidelog.analysis.possible import possible
from tidelog.logic.normalise import core
from tidelog.streaming.stream import Growing, Stream

PAIRS = Shape(types=("text",), rules=3, atoms=2, negated=2)
RECURSIVE = Shape(types=("text",), arity=1, negated=2, recursive=True)
CLOCKED = Shape(types=("text",), arity=1, negated=2, recursive=True, clock=True)
POINTS = Shape(types=("text",), arity=1, negated=2, points=True)
LAST = 3
REACH = 4  # for recursion, which no radius bounds


@st.composite
def streamed(draw: st.DrawFn, shape: Shape) -> tuple[Case, Facts]:
    case = draw(programs(shape))
    assume(needs(case).cls is not Class.BLOCKING)
    return case, draw(histories(case.program, LAST, 6))


def needs(case: Case) -> Dependencies:
    return dependencies(core(case.program, [case.query]), [case.query])


def made(case: Case, facts: Facts, **how: Any) -> Stream:
    shapes = brute.Shapes.of(case.program)
    rigid = {n: sorted(r) for n, r in facts.items() if not shapes.temporal[n]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Growing)
        return Stream(case.program, [case.query], mode="online", rigid=rigid, **how)


def ticks(case: Case, facts: Facts) -> list[dict[str, list[tuple[Any, ...]]]]:
    temporal = brute.Shapes.of(case.program).temporal
    return [
        {n: sorted((r for r in f if r[-1] == t), key=str) for n, f in facts.items() if temporal[n]}
        for t in range(LAST + 2)
    ]


def by_definition(case: Case, known: set[Fact], tin: int, time: int) -> truth.Verdict:
    reach = REACH if needs(case).recursive else None
    try:
        return truth.open_rows(case.program, case.query, known, tin, time, reach=reach)
    except brute.TooLargeError:
        assume(False)
    raise AssertionError


def never_too_early(case: Case, facts: Facts) -> None:
    stream, eager = made(case, facts), made(case, facts, emit="eager")
    exact = possible(needs(case)).exact and not needs(case).carrying
    known = {f for f in brute.history(case.program, facts) if f.time is None}
    answered = -1
    for tick, new in enumerate(ticks(case, facts)):
        step, early = stream.push(tick, new), eager.push(tick, new)
        known |= {Fact(n, r[:-1], tick) for n, some in new.items() for r in some}
        assert step.tout is not None
        for time in range(answered + 1, step.tout + 1):
            verdict = by_definition(case, known, tick, time)
            assert not verdict.open
            given_ = {r[:-1] for r in rows(step.answers[case.query]) if r[-1] == time}
            assert given_ == verdict.certain
        answered = step.tout
        if exact and answered < tick:
            assert by_definition(case, known, tick, answered + 1).open
        for *row, time in rows(early.answers[case.query]):
            assert tuple(row) in by_definition(case, known, tick, time).certain


def kept_is_enough(case: Case, facts: Facts) -> None:
    """Where nothing is carried on, the input facts that are kept say all that is to be said."""
    deps = needs(case)
    assume(not deps.carrying)
    stream = made(case, facts)
    known = {f for f in brute.history(case.program, facts) if f.time is None}
    rigid = set(known)
    for tick, new in enumerate(ticks(case, facts)):
        step = stream.push(tick, new)
        known |= {Fact(n, r[:-1], tick) for n, some in new.items() for r in some}
        kept = rigid | {
            Fact(name, row, time)
            for name, times in stream.facts().items()
            for time, some in times.items()
            for row in some
        }
        assert kept <= known
        assert step.tout is not None
        try:
            change = truth.differences(
                case.program, case.query, known, kept, tick, step.tout + 1, reach=REACH
            )
            assert next(change, None) is None
        except brute.TooLargeError:
            assume(False)


@examples(4, deep=400)
@given(streamed(NEGATED))
def test_online_never_answers_too_early(given_: tuple[Case, Facts]) -> None:
    never_too_early(*given_)


@examples(4, deep=200)
@given(streamed(PAIRS))
def test_online_never_answers_pairs_too_early(given_: tuple[Case, Facts]) -> None:
    never_too_early(*given_)


@examples(4, deep=200)
@given(st.one_of(streamed(RECURSIVE), streamed(CLOCKED), streamed(POINTS)))
def test_online_never_answers_too_early_with_recursion_clocks_or_fixed_ticks(
    given_: tuple[Case, Facts],
) -> None:
    never_too_early(*given_)


@examples(4, deep=400)
@given(st.one_of(streamed(NEGATED), streamed(PAIRS), streamed(POINTS)))
def test_what_online_forgets_changes_no_answer(given_: tuple[Case, Facts]) -> None:
    kept_is_enough(*given_)


# The counterexamples by name


def test_marking_what_possible_matches_use_is_not_enough() -> None:
    """With E known, B is impossible; were E forgotten, A would appear."""
    program = tidelog.parse(
        "input C @ t. input G @ t. input E @ t."
        "A @ T :- B @ T, C @ T. B @ T :- G @ T, not N @ T. N @ T :- E @ T-1."
    )
    stream = Stream(program, ["A"], mode="online")
    assert stream.push(0, {"E": [()]}).history == 1
    assert rows(stream.push(1, {"G": [()], "C": [()]}).answers["A"]) == []
    assert rows(stream.push(2, {"G": [()], "C": [()]}).answers["A"]) == [(2,)]


def test_certain_is_no_longer_what_the_facts_at_hand_derive() -> None:
    program = tidelog.parse("input E @ t. input F @ t. Q @ T :- E @ T, not F @ T+1.")
    stream = Stream(program, ["Q"], mode="online", emit="eager")
    step = stream.push(0, {"E": [()]})
    assert (rows(step.answers["Q"]), step.tout) == ([], -1)
    assert [str(p) for p in stream.pending()] == ["Q @ 0 holds unless F @ 1 arrives"]
    assert rows(stream.push(1, {"F": [()]}).answers["Q"]) == []


def test_an_answer_that_comes_either_way() -> None:
    """At once where the two rules are seen to be one; else when the two models agree."""
    inputs = "input F @ t. input A @ t. Q @ T :- F @ T, not A @ T+1."
    one = Stream(tidelog.parse(f"{inputs} Q @ T :- F @ T, A @ T+1."), ["Q"], mode="online")
    assert rows(one.push(0, {"F": [()]}).answers["Q"]) == [(0,)]
    two = tidelog.parse(f"{inputs} Q @ T :- F @ T, B @ T. B @ T :- A @ T+1. B @ T :- B @ T-1.")
    stream = Stream(two, ["Q"], mode="online")
    assert rows(stream.push(0, {"F": [()]}).answers["Q"]) == []
    assert rows(stream.push(1).answers["Q"]) == [(0,)]


def test_silence_after_an_alarm_keeps_one_slice() -> None:
    program = tidelog.parse(
        "input Over(x: text) @ t."
        "Alarm(X) @ T :- Over(X) @ T, not Alarm(X) @ T-1, not Alarm(X) @ T-2."
    )
    for mode in ("offline", "online"):
        stream = Stream(program, ["Alarm"], mode=mode)
        steps = [stream.push(tick, {"Over": [("a",)]}) for tick in range(100)]
        assert [t for step in steps for _, t in rows(step.answers["Alarm"])] == [*range(0, 100, 3)]
        assert max(step.history for step in steps) <= 3


def test_a_last_value_keeps_one_fact_whatever_the_age() -> None:
    program = tidelog.parse(
        "input Temp(x: text, v: int) @ t."
        "Level(X, V) @ T :- Temp(X, V) @ T."
        "Level(X, V) @ T+1 :- Level(X, V) @ T, not Temp(X, _) @ T+1."
    )
    for mode in ("offline", "online"):
        stream = Stream(program, ["Level"], mode=mode)
        stream.push(0, {"Temp": [("a", 1)]})
        steps = [stream.push(tick) for tick in range(1, 60)]
        assert [rows(step.answers["Level"]) for step in steps] == [
            [("a", 1, tick)] for tick in range(1, 60)
        ]
        assert {step.history for step in steps} == {1}
        assert rows(stream.push(60, {"Temp": [("a", 2)]}).answers["Level"]) == [("a", 2, 60)]
