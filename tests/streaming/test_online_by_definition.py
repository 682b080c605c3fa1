"""The online algorithm by definition: never later than DTP allows, never more than is live."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st
from support import brute
from support.brute import Fact
from support.deep import examples
from support.programs import Case, Facts, Shape, histories, programs

import tidelog
from tidelog.analysis.analyze import simplified
from tidelog.analysis.containment import Budget
from tidelog.analysis.definitive import Pending
from tidelog.analysis.dependencies import Class, Dependencies, dependencies
from tidelog.language.program import Type, Value
from tidelog.logic.clause import FixedTick
from tidelog.logic.core import rules_of
from tidelog.logic.normalise import core
from tidelog.streaming.cell_graph import fits
from tidelog.streaming.stream import Growing, Stream


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(c.to_pylist() for c in table.columns), strict=True))


# As early as possible


PLAIN = Shape()
RECURSIVE = Shape(recursive=True)
POINTS = Shape(recursive=True, points=True)
LAST = 4


@st.composite
def streamed(draw: st.DrawFn, shape: Shape = PLAIN) -> tuple[Case, Facts]:
    case = draw(programs(shape))
    deps = dependencies(core(case.program, [case.query]), [case.query])
    assume(deps.cls is not Class.BLOCKING)
    return case, draw(histories(case.program, LAST, 8))


def as_early_as_possible(case: Case, facts: Facts) -> None:
    shapes = brute.Shapes.of(case.program)
    rigid = {n: sorted(r) for n, r in facts.items() if not shapes.temporal[n]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Growing)
        stream = Stream(case.program, [case.query], mode="online", rigid=rigid)
    known = {f for f in brute.history(case.program, facts) if f.time is None}
    types = shapes.types
    tout = 0
    for tick in range(LAST + 2):
        new = {
            n: sorted((r for r in all_rows if r[-1] == tick), key=str)
            for n, all_rows in facts.items()
            if shapes.temporal[n]
        }
        step = stream.push(tick, new)
        known |= {Fact(n, r[:-1], tick) for n, new_rows in new.items() for r in new_rows}
        first = tout
        while tout <= tick and brute.definitive(case.program, case.query, known, tick, tout):
            tout += 1
        assert step.tout == tout - 1
        want = {
            (*row, t)
            for t in range(first, tout)
            for row in brute.answers_at(case.program, case.query, known, t)
        }
        assert set(rows(step.answers[case.query])) == want
        for pending in stream.pending(5):
            assert tout <= pending.time <= tick
            comes(case, known, pending, tick, types)


def comes(
    case: Case, known: set[Fact], pending: Pending, tin: int, types: dict[str, tuple]
) -> None:
    """With what it waits for, a pending answer is an answer; it was none before."""
    if not pending.waits_for:
        return  # decided on the timeline, which gives no derivation
    fresh = {Type.INT: 77, Type.FLOAT: 77.5, Type.BOOL: True}

    def filled(predicate: str, args: tuple[Value | None, ...]) -> tuple[Value, ...]:
        kinds = types[predicate]
        return tuple(
            fresh.get(t, "fresh") if a is None else a for a, t in zip(args, kinds, strict=True)
        )

    waits = {Fact(p.predicate, filled(p.predicate, p.args), p.time) for p in pending.waits_for}
    assert all(f.time is not None and f.time > tin for f in waits)
    assert pending.until is None or max(f.time or 0 for f in waits) <= pending.until
    answer = filled(case.query, pending.args)
    now = brute.answers_at(case.program, case.query, known, pending.time)
    assert answer not in now
    assert answer in brute.answers_at(case.program, case.query, known | waits, pending.time)


@examples(7, deep=600)
@given(streamed())
def test_online_answers_at_the_first_tick_that_is_definitive(given_: tuple[Case, Facts]) -> None:
    as_early_as_possible(*given_)


@examples(4, deep=300)
@given(streamed(POINTS))
def test_online_answers_early_with_recursion_and_explicit_times(
    given_: tuple[Case, Facts],
) -> None:
    as_early_as_possible(*given_)


# As small as possible


def kept(stream: Stream) -> set[Fact]:
    """The input facts that a stream keeps."""
    return {
        Fact(name, row, time)
        for name, times in stream.facts().items()
        for time, all_rows in times.items()
        for row in all_rows
    }


def looks_at_fixed_ticks(deps: Dependencies) -> bool:
    """Whether something that is carried on begins at fixed ticks, or looks at some on its way.

    That it cannot begin, or not again, is not noticed: facts at those ticks are kept.
    """
    clauses = [c for c in rules_of(deps.core) if c.head.predicate in deps.carrying]
    times = [c.head.when for c in clauses] + [p.when for c in clauses for p in c.premises]
    return any(isinstance(when, FixedTick) for when in times)


def as_small_as_possible(case: Case, facts: Facts) -> None:
    """After every tick the facts kept are the live ones of everything that has arrived.

    Recursion keeps what it carries on instead, and then fewer facts of inputs.
    """
    deps = dependencies(core(case.program, [case.query]), [case.query])
    _, redundant = simplified(deps, Budget(2.0))
    assume(not redundant and fits(deps) and not looks_at_fixed_ticks(deps))
    shapes = brute.Shapes.of(case.program)
    rigid = {n: sorted(r) for n, r in facts.items() if not shapes.temporal[n]}
    stream = Stream(case.program, [case.query], mode="online", rigid=rigid)
    arrived: dict[str, list] = {n: rigid.get(n, []) for n in facts}
    for tick in range(LAST + 2):
        new = {
            n: sorted((r for r in all_rows if r[-1] == tick), key=str)
            for n, all_rows in facts.items()
            if shapes.temporal[n]
        }
        step = stream.push(tick, new)
        for name, new_rows in new.items():
            arrived[name] = [*arrived[name], *new_rows]
        assert step.tout is not None
        live = tidelog.live(case.program, case.query, arrived, tick, step.tout + 1)
        want = {Fact(n, r[:-1], r[-1]) for n, table in live.items() for r in rows(table)}
        if deps.carrying:
            assert kept(stream) <= want
        else:
            assert kept(stream) == want
            assert step.history == len(want)


@examples(3, deep=80)
@given(streamed(Shape(points=True)))
def test_online_keeps_the_live_facts(given_: tuple[Case, Facts]) -> None:
    as_small_as_possible(*given_)


@examples(3, deep=60)
@given(streamed(POINTS))
def test_online_keeps_no_more_than_the_live_facts_with_recursion(
    given_: tuple[Case, Facts],
) -> None:
    as_small_as_possible(*given_)


def nothing_live_can_go(case: Case, facts: Facts) -> None:
    """Brute force, without the possible program: what was forgotten makes no difference."""
    deps = dependencies(core(case.program, [case.query]), [case.query])
    shapes = brute.Shapes.of(case.program)
    rigid = {n: sorted(r) for n, r in facts.items() if not shapes.temporal[n]}
    stream = Stream(case.program, [case.query], mode="online", rigid=rigid)
    assume(not deps.carrying and fits(deps))
    known = {f for f in brute.history(case.program, facts) if f.time is None}
    fixed = set(known)
    for tick in range(LAST):
        new = {
            n: sorted((r for r in all_rows if r[-1] == tick), key=str)
            for n, all_rows in facts.items()
            if shapes.temporal[n]
        }
        step = stream.push(tick, new)
        known |= {Fact(n, r[:-1], tick) for n, new_rows in new.items() for r in new_rows}
        assert step.tout is not None
        left = kept(stream) | fixed
        try:
            updates = brute.differing_updates(
                case.program, case.query, known, left, tick, step.tout + 1
            )
            assert next(updates, None) is None
        except brute.TooLargeError:
            assume(False)


@examples(5, deep=250)
@given(streamed())
def test_what_online_forgets_makes_no_difference(given_: tuple[Case, Facts]) -> None:
    nothing_live_can_go(*given_)


# Offline: exactly the least delay, and a window of input facts


def offline_by_definition(case: Case, facts: Facts, history: Literal["derived", "strict"]) -> None:
    """Answers come at tin = tout + d, for the least d over all data of a small domain."""
    assume(not brute.points(case.program))
    try:
        least, most = brute.offsets(case.program, case.query)
    except brute.TooLargeError:
        assume(False)
    d = max(0, most or 0)
    shapes = brute.Shapes.of(case.program)
    rigid = {n: sorted(r) for n, r in facts.items() if not shapes.temporal[n]}
    stream = Stream(case.program, [case.query], history=history, rigid=rigid)
    known = brute.history(case.program, facts)
    for tick in range(LAST + 2):
        new = {
            n: sorted((r for r in all_rows if r[-1] == tick), key=str)
            for n, all_rows in facts.items()
            if shapes.temporal[n]
        }
        step = stream.push(tick, new)
        want = {
            (*row, tick - d)
            for row in brute.answers_at(case.program, case.query, known, tick - d)
            if tick >= d
        }
        assert set(rows(step.answers[case.query])) == want
        assert step.tout == tick - d
        if history == "strict":
            window = max(0, d - (0 if least is None else least))
            assert all(tick - window < f.time <= tick for f in kept(stream) if f.time is not None)


@examples(4, deep=150)
@given(streamed(), st.sampled_from(["derived", "strict"]))
def test_offline_answers_at_the_least_delay(
    given_: tuple[Case, Facts], history: Literal["derived", "strict"]
) -> None:
    offline_by_definition(*given_, history)


def test_offline_is_earlier_than_the_settling_time_where_a_rule_hides_another() -> None:
    """phi is 1 and the delay 0, though no single rule is redundant."""
    text = """
    input E(x: bool) @ time. input F @ time. input G @ time.
    Q @ T :- E(true) @ T. Q @ T :- E(false) @ T. Q @ T :- E(X) @ T, H @ T+1. H @ T :- F @ T.
    """
    for history in ("derived", "strict"):
        stream = Stream(tidelog.parse(text), ["Q"], history=history)
        for tick in range(4):
            step = stream.push(tick, {"E": [(True,)] if tick % 2 else []})
            assert rows(step.answers["Q"]) == ([(tick,)] if tick % 2 else [])
            assert step.tout == tick
