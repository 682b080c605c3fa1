"""Aggregates on the whole line: what facts come to repeats where the facts do."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import cached_property

from tidelog.evaluation.timeline.limit import Limit
from tidelog.evaluation.timeline.settled import Beyond, Settled
from tidelog.evaluation.timeline.stretch import LineRows, SliceRows
from tidelog.logic.aggregate import Aggregate
from tidelog.logic.match import IndexedRows


def aggregate_rows(aggregate: Aggregate, slices: Iterable[SliceRows]) -> SliceRows:
    """The aggregate of some ticks of the line, a row for each group."""
    return IndexedRows(aggregate.of_slices(slice_.rows for slice_ in slices))


class Gathered:
    """The facts of an aggregate, over a predicate that is known on the whole line.

    Beyond low and high only ticks are looked at where that one repeats.
    """

    def __init__(
        self, aggregate: Aggregate, source: Settled, low: int, high: int, limit: Limit
    ) -> None:
        self.aggregate, self.source, self.limit = aggregate, source, limit
        self.low, self.high = low, high + aggregate.ticks - 1
        self.by_tick: LineRows = {}
        if None in source.rows:
            self.by_tick[aggregate.name, None] = aggregate_rows(aggregate, [source.rows[None]])
        for tick, rows in self._between(self.low, self.high):
            self.by_tick[aggregate.name, tick] = rows

    def _between(self, low: int, high: int) -> Iterator[tuple[int, SliceRows]]:
        """What there is on some ticks: it changes where facts come into the window, or leave it."""
        ticks = self.aggregate.ticks
        there = self.source.between(low - ticks + 1, high)
        coming = deque(sorted(there, key=lambda slice_: slice_[0]))
        inside: deque[tuple[int, SliceRows]] = deque()
        rows: SliceRows = IndexedRows()
        tick = low
        while tick <= high and (coming or inside):
            self.limit.check("gathering on the line", 1 + len(inside))
            before = len(inside), len(coming)
            while coming and coming[0][0] <= tick:
                inside.append(coming.popleft())
            while inside and inside[0][0] <= tick - ticks:
                inside.popleft()
            if (len(inside), len(coming)) != before:
                rows = aggregate_rows(self.aggregate, (slice_ for _, slice_ in inside))
            if inside:
                yield tick, rows
            tick = tick + 1 if inside or not coming else max(tick + 1, coming[0][0])

    def beyond(self, way: int) -> Beyond:
        return self._after if way > 0 else self._before

    @cached_property
    def _after(self) -> Beyond:
        first = self.high + 1
        return self._repeating(range(first, first + len(self.source.right)))

    @cached_property
    def _before(self) -> Beyond:
        first = self.low - 1
        return self._repeating(range(first, first - len(self.source.left), -1))

    def _repeating(self, ticks: range) -> Beyond:
        rows = dict(self._between(min(ticks), max(ticks)))
        name = self.aggregate.name
        return Beyond([{name: rows[tick]} if tick in rows else {} for tick in ticks], 0)
