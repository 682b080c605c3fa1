"""Streams with cycles through aggregates and absent windows: what is streamed is evaluated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeAlias

import pytest
from hypothesis import event, example, given
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


Hot: TypeAlias = tuple[str, int, int]
# What a window asks for, and the facts that are meant where X and V are known.
PATTERNS: dict[str, Callable[[str, int], Callable[[str, int], bool]]] = {
    "X, V": lambda x, v: lambda a, b: (a, b) == (x, v),
    "X, _": lambda x, _: lambda a, b: a == x,
    "_, V": lambda _, v: lambda a, b: b == v,
    "X, 1": lambda x, _: lambda a, b: (a, b) == (x, 1),
    "_, _": lambda *_: lambda *_: True,
}


@dataclass(frozen=True)
class Quiet:
    """A window in which there must not be so many alerts as that."""

    pattern: str
    least: int
    ticks: int
    gap: int

    def __str__(self) -> str:
        word = "some" if self.least == 1 else f"at least {self.least}"
        back = self.gap + self.ticks - 1
        return f"not {word} Alert({self.pattern}) @ [T-{back}, T-{self.gap}]"

    def holds(self, alerts: set[Hot], x: str, v: int, tick: int) -> bool:
        meant = PATTERNS[self.pattern](x, v)
        last = tick - self.gap
        ticks = {t for a, b, t in alerts if last - self.ticks < t <= last and meant(a, b)}
        return len(ticks) < self.least


@st.composite
def quiet(draw: st.DrawFn) -> Quiet:
    ticks = draw(st.integers(1, 12))
    least = draw(st.integers(1, min(ticks, 3)))
    return Quiet(draw(st.sampled_from(list(PATTERNS))), least, ticks, draw(st.integers(1, 4)))


def alerted(hot: set[Hot], windows: list[Quiet]) -> set[Hot]:
    """The alerts, tick by tick."""
    alerts: set[Hot] = set()
    for x, v, tick in sorted(hot, key=lambda fact: fact[-1]):
        if all(window.holds(alerts, x, v, tick) for window in windows):
            alerts.add((x, v, tick))
    return alerts


facts_of_two = st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.integers(0, 40))


@examples(25, deep=300)
@example({("a", 1, t) for t in range(30)}, [Quiet("X, 1", 2, 2, 1)], Random(1))
@given(
    st.sets(facts_of_two, min_size=1, max_size=60),
    st.lists(quiet(), min_size=1, max_size=2),
    randoms,
)
def test_from_ticks_to_waves_and_back(hot: set[Hot], windows: list[Quiet], random: Random) -> None:
    """What is kept of a window that must not hold is the same, tick by tick and in a wave."""
    body = ", ".join(["Hot(X, V) @ T", *map(str, windows)])
    rules = f"input Hot(x: text, v: int) @ time.\nAlert(X, V) @ T :- {body}.\n"
    stream = tidelog.Stream(tidelog.parse(rules), "Alert")
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
    assert set(alerts) == alerted(hot, windows)
