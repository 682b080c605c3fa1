"""Streams with cycles through aggregates and absent windows: what is streamed is evaluated."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TypeAlias

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from oracle.aggregates import programs_with_cycles
from oracle.generate import Case
from support.deep import examples
from support.streams import rows, streams_what_is_evaluated

import tidelog
from tidelog.streaming import offline
from tidelog.streaming.options import StreamMode

WAYS: tuple[dict[str, object], ...] = (
    {},
    {"emit": "eager"},
    {"history": "strict"},
    {"mode": "online"},
    {"mode": "online", "emit": "eager"},
    {"intervals": True},
)
randoms = st.randoms(use_true_random=False)


@examples(2, deep=800)
@given(programs_with_cycles(connected=True), st.integers(0, 3), randoms, st.sampled_from(WAYS))
def test_every_way(case: Case, late: int, random: Random, how: dict[str, object]) -> None:
    event("compared" if streams_what_is_evaluated(case, late, random, **how) else "refused")


@examples(2, deep=200)
@given(programs_with_cycles(connected=True), randoms, st.sampled_from(WAYS[:2]))
def test_across_snapshots(
    tmp_path_factory: pytest.TempPathFactory, case: Case, random: Random, how: dict[str, object]
) -> None:
    file: Path = tmp_path_factory.mktemp("kept") / "snapshot"
    streams_what_is_evaluated(case, 1, random, file, **how)


BUDGET = (
    "input Ask(x: text, v: int) @ time.\n"
    "Grant(X, V) @ T :- Ask(X, V) @ T, Ask(X, _) @ T+1, "
    "S = sum(W : Grant(X, W) @ [T-5, T-1]), S + V <= 20.\n"
)


@pytest.mark.parametrize("mode", ["offline", "online"])
def test_what_looks_ahead(mode: StreamMode) -> None:
    stream = tidelog.Stream(tidelog.parse(BUDGET), mode=mode)
    asked = {0: 15, 1: 6, 2: 5, 3: 1, 5: 1, 6: 14, 7: 1}
    steps = [stream.push(tick, {"Ask": [("a", v)]}) for tick, v in asked.items()]
    assert [step.tout for step in steps] == [-1, 0, 1, 2, 4, 5, 6]
    rows = [row for step in (*steps, stream.close()) for row in step.answers["Grant"].to_pylist()]
    # 6 at 1 and 1 at 5 would make 21, nobody asks after 3 and 7; at 6 no more than 5 is spent.
    assert [(row["v"], row["time"]) for row in rows] == [(15, 0), (5, 2), (14, 6)]


COOLED = (
    "input Hot(x: text, v: int) @ time.\n"
    "Alert(X, V) @ T :- Hot(X, V) @ T, not {} Alert(X, {}) @ [T-{}, T-{}].\n"
)
Hot: TypeAlias = tuple[str, int, int]


def cooled(hot: set[Hot], least: int, other: bool, back: int, gap: int) -> set[Hot]:
    """The alerts, tick by tick: none where enough ticks of the window before have one of the
    object, with the same value or with any.
    """
    alerts: set[Hot] = set()
    for x, v, tick in sorted(hot, key=lambda fact: fact[-1]):
        window = range(tick - back, tick - gap + 1)
        values = (0, 1) if other else (v,)
        if sum(any((x, w, before) in alerts for w in values) for before in window) < least:
            alerts.add((x, v, tick))
    return alerts


@examples(20, deep=300)
@given(
    st.sets(
        st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.integers(0, 40)),
        min_size=1,
        max_size=60,
    ),
    st.integers(1, 3),
    st.booleans(),
    st.integers(0, 11),
    st.integers(1, 4),
    randoms,
)
def test_from_ticks_to_waves_and_back(
    hot: set[Hot], least: int, other: bool, more: int, gap: int, random: Random
) -> None:
    """What is kept of a window that must not hold is the same, tick by tick and in a wave."""
    least = min(least, more + 1)
    word = "some" if least == 1 else f"at least {least}"
    program = tidelog.parse(COOLED.format(word, "_" if other else "V", gap + more, gap))
    stream = tidelog.Stream(program, "Alert")
    alerts: list[tuple[object, ...]] = []
    tick = 0
    while tick <= 40:
        until = tick + random.choice((1, 1, 1, 3, 20))
        facts = [fact for fact in hot if tick <= fact[-1] < until]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(offline, "MOST_FACTS", random.choice((0, 100)))
            alerts += rows(stream.push(until - 1, {"Hot": facts}).answers["Alert"])
        tick = until
    alerts += rows(stream.close().answers["Alert"])
    assert len(alerts) == len(set(alerts))
    assert set(alerts) == cooled(hot, least, other, gap + more, gap)
