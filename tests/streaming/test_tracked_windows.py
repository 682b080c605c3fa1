"""Windows that an online stream follows object by object: nothing but the cost is different."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, TypeAlias
from unittest.mock import patch

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from oracle.generate import Case
from oracle.windows import programs_with_windows
from support.deep import examples
from support.streams import arrivals, rigid_facts

import tidelog
from tidelog.language.program import Row
from tidelog.logic.clause import Over
from tidelog.streaming import tracked
from tidelog.streaming.liveness import Liveness
from tidelog.streaming.network import Network
from tidelog.streaming.object_counts import ObjectCounts, RowsAt
from tidelog.streaming.object_uses import ObjectUses
from tidelog.streaming.online import OnlineAlgorithm

OBJECTS: list[Row] = [("a",), ("b",)]
CANDIDATES = tracked._candidates

Pushes: TypeAlias = dict[int, dict[str, list[Row]]]


@st.composite
def windows(draw: st.DrawFn) -> Over:
    ticks = draw(st.integers(2, 12))
    return Over(ticks, draw(st.sampled_from([1, ticks, draw(st.integers(1, ticks))])))


@examples(25, deep=1000)
@given(windows(), st.randoms(use_true_random=False), st.sampled_from((0.05, 0.3, 0.7, 0.95)))
def test_counts_are_what_counting_anew_gives(over: Over, pick: Random, share: float) -> None:
    counts = ObjectCounts(over)
    there: dict[int, set[Row]] = {}
    certain: dict[int, set[object]] = {}
    possible: dict[int, set[object]] = {}

    def enter(held: dict[int, set[object]], new: RowsAt) -> None:
        for tick, rows in new.items():
            assert held.setdefault(tick, set()).isdisjoint(rows)
            held[tick].update(rows)

    now = -1
    while now < 50:
        last, now = now, now + pick.choice((1, 1, 1, 2, 7))
        new = {t: {x for x in OBJECTS if pick.random() < share} for t in range(last + 1, now + 1)}
        there |= new
        changes = counts.advance(now, {t: rows for t, rows in new.items() if rows})
        enter(certain, changes.certain)
        enter(possible, changes.opened)
        for tick, rows in changes.lost.items():
            assert possible[tick].issuperset(rows)
            possible[tick].difference_update(rows)
        for tick in range(now + over.ticks + 2):
            window = range(tick - over.ticks + 1, tick + 1)
            to_come = sum(t > now for t in window)
            for x in OBJECTS:
                count = sum(x in there.get(t, ()) for t in window)
                assert (x in certain.get(tick, ())) is (count >= over.least)
                may = count > 0 and count + to_come >= over.least
                assert (x in possible.get(tick, ())) is may


@examples(25, deep=1000)
@given(st.integers(2, 6), st.randoms(use_true_random=False))
def test_ticks_are_freed_when_no_window_needs_them(ticks: int, pick: Random) -> None:
    uses = ObjectUses(ticks)
    used: dict[int, set[Row]] = {}
    kept: dict[int, set[Row]] = {}
    for now in range(30):
        for time in (now + ticks, *(pick.randint(now, now + ticks) for _ in range(2))):
            used[time] = {x for x in OBJECTS if pick.random() < 0.5}
            for tick, freed in uses.use(time, used[time]).items():
                assert kept[tick] >= freed
                kept[tick] -= freed
        used |= {time: set() for time in used if time < now - pick.randint(0, ticks)}
        for time in used:
            for tick, freed in uses.use(time, used[time]).items():
                kept[tick] -= freed
        kept[now] = set(uses.arrive(now, OBJECTS))
        for tick, rows in kept.items():
            needed = set().union(*(used.get(tick + i, set()) for i in range(ticks)))
            assert rows <= needed
            assert tick < now or rows == needed


@contextmanager
def written_out() -> Iterator[None]:
    """No window is followed object by object, however short or long."""
    with patch.object(tracked, "_candidates", lambda deps: {}):
        yield


def told(case: Case, lateness: int, pushes: Pushes, again: bool, **how: Any) -> list[object] | None:
    """All that a stream tells, tick by tick: answers, how far it is, what is kept and awaited.

    None where no window is followed object by object. With `again` it is broken off at times.
    """

    def made() -> tidelog.Stream:
        rigid = rigid_facts(case)
        return tidelog.Stream(
            case.program, case.queries, mode="online", lateness=lateness, rigid=rigid, **how
        )

    stream = made()
    if not isinstance(stream._algorithm, OnlineAlgorithm):
        return None
    if not stream._algorithm.network.model.windows and tracked._candidates is CANDIDATES:
        return None
    steps: list[object] = []
    for number, (tick, facts) in enumerate(pushes.items()):
        step = stream.push(tick, facts)
        answers = {q: table.to_pylist() for q, table in step.answers.items()}
        steps.append((answers, step.tout, step.history, stream.facts(), stream.pending(3)))
        if again and number % 3 == 2:
            state, stream = stream._algorithm.state(), stream
            stream._algorithm = made()._algorithm
            stream._algorithm.resume(state)
    return [*steps, {q: table.to_pylist() for q, table in stream.close().answers.items()}]


@pytest.mark.filterwarnings("ignore::tidelog.errors.TidelogWarning")
@examples(10, deep=400)
@given(
    programs_with_windows(connected=True, explicit_times=False, max_rules=4),
    st.integers(0, 2),
    st.randoms(use_true_random=False),
    st.booleans(),
    st.sampled_from(("definitive", "eager")),
)
def test_all_is_told_as_if_windows_were_written_out(
    case: Case, lateness: int, pick: Random, again: bool, emit: str
) -> None:
    pushes = arrivals(case, lateness, pick)
    first = told(case, lateness, pushes, again, emit=emit)
    event("compared" if first else "no window is tracked")
    if first is not None:
        with written_out():
            assert told(case, lateness, pushes, again, emit=emit) == first, case.text


ASKED = [
    "P(X) @ T :- some Hot(X) @ [T, T+{}].",
    "P(X) @ T :- always Hot(X) @ [T, T+{}].",
    "P(X) @ T :- at least 3 Hot(X) @ [T, T+{}].",
    "P(X) @ T :- Seen(X) @ T, some Hot(X) @ [T+1, T+{}].",
    "P(X) @ T :- Seen(X) @ T, not some Hot(X) @ [T+1, T+{}].",
    "P(X) @ T :- Seen(X) @ T, not at least 3 Hot(X) @ [T-5, T+{}].",
]


def work(rule: str, ticks: int) -> float:
    """Cells that are derived, and reviewed for what they keep, a tick, once the window is full."""
    count = 0

    def counted(plain: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            return plain(*args, **named)

        return called

    program = tidelog.parse(
        f"input Hot(x: text) @ t. input Seen(x: text) @ t. {rule.format(ticks)}"
    )
    stream = tidelog.Stream(program, "P", mode="online")
    pick = Random(5)
    objects = [(f"x{i}",) for i in range(12)]
    with (
        patch.object(Network, "_evaluate", counted(Network._evaluate)),
        patch.object(Liveness, "_review", counted(Liveness._review)),
    ):
        for tick in range(2 * ticks + 50):
            count = 0 if tick == 2 * ticks else count
            hot = [x for i, x in enumerate(objects) if i < 3 or pick.random() < 0.5]
            seen = [x for x in objects if pick.random() < 0.1]
            stream.push(tick, {"Hot": hot, "Seen": seen})
    return count / 50


@pytest.mark.parametrize("rule", ASKED)
def test_a_tick_costs_the_same_whatever_the_length_of_the_window(rule: str) -> None:
    short, long = work(rule, 12), work(rule, 200)
    assert long <= 1.3 * short, (short, long)


def test_a_fact_that_only_stands_in_the_way_is_kept() -> None:
    """What no cell holds anything of may still be asked about: `not some E(_, X)` of any X."""
    program = tidelog.parse(
        "input E(c: float, x: text) @ t."
        " H(0.5) @ T :- not some E(_, X) @ [T-1, T], E(_, X) @ T. output H."
    )
    stream = tidelog.Stream(program, "H", mode="online")
    assert stream.push(0, {"E": [(0.5, "a")]}).history == 1
    with written_out():
        stream = tidelog.Stream(program, "H", mode="online")
        assert stream.push(0, {"E": [(0.5, "a")]}).history == 1
