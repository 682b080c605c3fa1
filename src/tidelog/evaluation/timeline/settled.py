"""What is known on the whole line: rows on some ticks, and slices that repeat on both sides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidelog.evaluation.timeline.stretch import LineRows, SliceRows
from tidelog.logic.match import IndexedRows

_NOTHING: SliceRows = IndexedRows()


@dataclass(frozen=True)
class Beyond:
    """The rows by predicate 1, 2, .. ticks beyond an edge; from number `start` on they repeat."""

    slices: Sequence[Mapping[str, SliceRows]]
    start: int


NOTHING_BEYOND = Beyond(({},), 0)


class Part(Protocol):
    """Predicates that are known on the whole line: on the ticks low to high, and beyond."""

    low: int
    high: int
    by_tick: LineRows

    def beyond(self, way: int) -> Beyond:
        """What holds after high (1) or before low (-1), counted from there."""


@dataclass
class Inputs:
    """The facts that are given; there is nothing beyond them."""

    low: int
    high: int
    by_tick: LineRows

    def beyond(self, way: int) -> Beyond:
        return NOTHING_BEYOND


@dataclass(frozen=True)
class Settled:
    """A predicate on the whole line: its rows on the ticks low to high (None: without a time).

    The slices of `right` start after high, those of `left` before low and lead back; both repeat
    with their least period.
    """

    rows: Mapping[int | None, SliceRows]
    low: int
    high: int
    right: tuple[SliceRows, ...]
    left: tuple[SliceRows, ...]

    def at(self, tick: int | None) -> SliceRows:
        if tick is not None and tick > self.high:
            return self.right[(tick - self.high - 1) % len(self.right)]
        if tick is not None and tick < self.low:
            return self.left[(self.low - 1 - tick) % len(self.left)]
        return self.rows.get(tick, _NOTHING)

    def between(self, low: int, high: int) -> Iterator[tuple[int, SliceRows]]:
        """The slices on some ticks that are not empty."""
        if low <= self.high and self.low <= high:
            for tick, rows in self.rows.items():
                if tick is not None and low <= tick <= high:
                    yield tick, rows
        outside: list[Iterable[int]] = []
        if self.endless(1):
            outside.append(range(max(low, self.high + 1), high + 1))
        if self.endless(-1):
            outside.append(range(low, min(high, self.low - 1) + 1))
        for ticks in outside:
            yield from ((tick, rows) for tick in ticks if (rows := self.at(tick)).rows)

    def endless(self, way: int) -> bool:
        return any(slice_.rows for slice_ in (self.right if way > 0 else self.left))


# A predicate without facts.
NEVER = Settled({}, 0, 0, (_NOTHING,), (_NOTHING,))


def settled(part: Part, names: Iterable[str]) -> dict[str, Settled]:
    """Some predicates of a part, apart from the others."""
    right, left = part.beyond(1), part.beyond(-1)
    rows: dict[str, dict[int | None, SliceRows]] = {name: {} for name in names}
    for (name, tick), some in part.by_tick.items():
        if name in rows and (tick is None or part.low <= tick <= part.high):
            rows[name][tick] = some
    for way, edge, beyond in ((1, part.high, right), (-1, part.low, left)):
        for n, slice_ in enumerate(beyond.slices[: beyond.start], 1):
            for name in rows.keys() & slice_.keys():
                rows[name][edge + way * n] = slice_[name]
    return {
        name: Settled(
            some,
            part.low - left.start,
            part.high + right.start,
            _least(name, right),
            _least(name, left),
        )
        for name, some in rows.items()
    }


def _least(name: str, beyond: Beyond) -> tuple[SliceRows, ...]:
    """The slices of a predicate that repeat, no more often than they must be told."""
    cycle = tuple(slice_.get(name, _NOTHING) for slice_ in beyond.slices[beyond.start :])
    return cycle[: least_period([slice_.rows for slice_ in cycle])]


def least_period(cycle: Sequence[object]) -> int:
    """The least number of elements after which a sequence that repeats for ever repeats itself.

    >>> least_period("abab"), least_period("aba")
    (2, 3)
    """
    n = len(cycle)
    return next(p for p in range(1, n + 1) if n % p == 0 and cycle[p:] == cycle[: n - p])


@dataclass(frozen=True)
class Repeating:
    """What lower strata give on a half line, in places from 0 on: with a common period."""

    lower: Mapping[str, Settled]
    edge: int
    way: int

    @property
    def period(self) -> int:
        some = self.lower.values()
        return math.lcm(*(len(one.right if self.way > 0 else one.left) for one in some))

    def slices(self, place: int) -> Iterator[tuple[str, SliceRows]]:
        """The rows at a place that are not empty, by predicate."""
        for name, one in self.lower.items():
            rows = one.at(self.edge + self.way * place)
            if rows.rows:
                yield name, rows
