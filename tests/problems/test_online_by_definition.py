"""The online algorithm by definition: never later than DTP allows, never more than is live."""

from __future__ import annotations

from typing import Any

import brute
import pyarrow as pa
from brute import Fact
from deep import examples
from hypothesis import assume, given
from hypothesis import strategies as st
from programs import Case, Facts, Shape, histories, programs

import tidelog
from tidelog.analysis.analyze import simplified
from tidelog.analysis.containment import Budget
from tidelog.analysis.core import core
from tidelog.analysis.dependencies import Class, dependencies
from tidelog.streaming.stream import Stream


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
    stream = Stream(case.program, [case.query], mode="online", rigid=rigid)
    known = {f for f in brute.history(case.program, facts) if f.time is None}
    tout = 0
    for tick in range(LAST + 2):
        new = {
            n: sorted((r for r in found if r[-1] == tick), key=str)
            for n, found in facts.items()
            if shapes.temporal[n]
        }
        step = stream.push(tick, new)
        known |= {Fact(n, r[:-1], tick) for n, found in new.items() for r in found}
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


@examples(60)
@given(streamed())
def test_online_answers_at_the_first_tick_that_is_definitive(given_: tuple[Case, Facts]) -> None:
    as_early_as_possible(*given_)


@examples(60)
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
        for time, found in times.items()
        for row in found
    }


def as_small_as_possible(case: Case, facts: Facts) -> None:
    """After every tick the facts kept are the live ones of everything that has arrived."""
    deps = dependencies(core(case.program, [case.query]), [case.query])
    _, redundant = simplified(deps, Budget(2.0))
    assume(not redundant)
    shapes = brute.Shapes.of(case.program)
    rigid = {n: sorted(r) for n, r in facts.items() if not shapes.temporal[n]}
    stream = Stream(case.program, [case.query], mode="online", rigid=rigid)
    arrived: dict[str, list] = {n: rigid.get(n, []) for n in facts}
    for tick in range(LAST + 2):
        new = {
            n: sorted((r for r in found if r[-1] == tick), key=str)
            for n, found in facts.items()
            if shapes.temporal[n]
        }
        step = stream.push(tick, new)
        for name, found in new.items():
            arrived[name] = [*arrived[name], *found]
        assert step.tout is not None
        live = tidelog.live(case.program, case.query, arrived, tick, step.tout + 1)
        want = {Fact(n, r[:-1], r[-1]) for n, table in live.items() for r in rows(table)}
        assert kept(stream) == want
        assert step.history == len(want)


@examples(40)
@given(streamed())
def test_online_keeps_the_live_facts(given_: tuple[Case, Facts]) -> None:
    as_small_as_possible(*given_)
