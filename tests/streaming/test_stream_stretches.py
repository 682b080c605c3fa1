"""Streams that tell from when to when: every stretch once, as soon as it has ended."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from oracle.generate import Case, programs_and_facts
from oracle.windows import programs_with_windows
from support.deep import examples
from support.streams import streams_what_is_evaluated

import tidelog
from tidelog.errors import NoAnswer
from tidelog.streaming.snapshot import SnapshotError
from tidelog.streaming.stream import Stream
from tidelog.streaming.watch import Watch

WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"emit": "eager"},
    {"history": "strict"},
    {"mode": "online"},
    {"mode": "online", "emit": "eager"},
)
ways = st.sampled_from(WAYS)
randoms = st.randoms(use_true_random=False)
lateness = st.integers(0, 3)
cases = st.one_of(programs_and_facts(), programs_with_windows(connected=True))


def streamed(case: Case, late: int, random: Random, file: Path | None, how: dict[str, Any]) -> None:
    try:
        done = streams_what_is_evaluated(case, late, random, file, intervals=True, **how)
    except NoAnswer:
        done = False
    event("compared" if done else "refused")


@examples(4, deep=120)
@given(cases, lateness, randoms, ways)
def test_any_way(case: Case, late: int, random: Random, how: dict[str, Any]) -> None:
    streamed(case, late, random, None, how)


@examples(3, deep=60)
@given(cases, lateness, randoms, ways)
def test_with_a_snapshot_at_every_tick(
    tmp_path_factory: pytest.TempPathFactory,
    case: Case,
    late: int,
    random: Random,
    how: dict[str, Any],
) -> None:
    file = tmp_path_factory.getbasetemp() / "stretches.snapshot"
    streamed(case, late, random, file, how)


RULES = "input E(x: text) @ time. input N(x: text). P(X) @ T :- E(X) @ T. R(X) :- N(X)."


def told(stream: Stream, ticks: dict[int, str]) -> list[list[tuple[object, ...]]]:
    """What each tick tells of P, and in the end the close."""
    steps = [stream.push(t, {"E": [(x,) for x in names]}) for t, names in ticks.items()]
    steps.append(stream.close())
    return [[tuple(row.values()) for row in s.answers["P"].to_pylist()] for s in steps]


def test_a_stretch_is_told_when_it_has_ended() -> None:
    stream = Stream(tidelog.parse(RULES), ["P"], intervals=True)
    got = told(stream, {0: "a", 1: "ab", 2: "b", 3: "b"})
    assert got == [[], [], [("a", 0, 1)], [], [("b", 1, 3)]]


def test_with_eager_emission_also_when_it_begins() -> None:
    stream = Stream(tidelog.parse(RULES), ["P"], intervals=True, emit="eager")
    got = told(stream, {0: "a", 1: "a", 2: "", 3: "b"})
    assert got == [[("a", 0, None)], [], [("a", 0, 1)], [("b", 3, None)], [("b", 3, 3)]]


def test_a_stretch_that_came_early_begins_when_the_tick_before_it_is_final() -> None:
    """Q @ 1 is derived at tick 1; whether Q @ 0 holds is known at tick 2."""
    program = tidelog.parse("Q @ T :- E @ T. Q @ T :- F @ T+2.")
    stream = Stream(program, ["Q"], intervals=True, emit="eager")
    facts: list[dict[str, Any]] = [{}, {"E": [()]}, {}, {}]
    steps = [stream.push(tick, some).answers["Q"].to_pylist() for tick, some in enumerate(facts)]
    assert steps == [[], [], [{"from": 1, "to": None}], []]
    assert stream.close().answers["Q"].to_pylist() == [{"from": 1, "to": 1}]


def test_queries_do_not_wait_for_each_other() -> None:
    program = tidelog.parse("P @ T :- E @ T. Q @ T :- E @ T, E @ T+9.")
    stream = Stream(program, ["P", "Q"], intervals=True)
    steps = [stream.push(t, {"E": [()]} if t == 0 else {}) for t in range(2)]
    assert [step.tout for step in steps] == [-9, -8]
    assert steps[1].answers["P"].to_pylist() == [{"from": 0, "to": 0}]


def test_timestamps_and_answers_without_a_time() -> None:
    program = tidelog.parse(f"tick 10m. output P(from). {RULES}")
    how: dict[str, Any] = {"rigid": {"N": [("n",)]}, "emit": "eager"}
    stream = Stream(program, ["P", "R"], intervals=True, **how)
    start = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
    step = stream.push(start, {"E": [("a",)]})
    assert step.answers["R"].to_pylist() == [{"x": "n"}]
    assert step.answers["P"].to_pylist() == [{"from": "a", "from2": start, "to": None}]
    step = stream.close()
    assert step.answers["P"].to_pylist() == [{"from": "a", "from2": start, "to": start}]


def test_a_snapshot_without_intervals_is_another_stream(tmp_path: Path) -> None:
    program, file = tidelog.parse(RULES), tmp_path / "snapshot"
    Stream(program, ["P"]).snapshot(file)
    with pytest.raises(SnapshotError, match="a stream with other intervals"):
        Stream(program, ["P"], intervals=True).restore(file)
    stream = Stream(program, ["P"], intervals=True)
    stream.snapshot(file)
    with pytest.raises(SnapshotError, match="a stream with other intervals"):
        Stream(program, ["P"]).restore(file)
    online = Stream(program, ["P"], mode="online", intervals=True)
    with pytest.raises(ValueError, match="watch without intervals"):
        Watch(online)
