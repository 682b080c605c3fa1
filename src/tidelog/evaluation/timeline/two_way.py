"""One stratum on the whole line: a middle with all facts, and two half lines."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from tidelog.evaluation.timeline.clauses import Stratum, mirrored
from tidelog.evaluation.timeline.half_line import Entry, HalfLine
from tidelog.evaluation.timeline.limit import Limit
from tidelog.evaluation.timeline.settled import Beyond, Repeating, Settled
from tidelog.evaluation.timeline.stretch import (
    Firings,
    LineFact,
    LineWindow,
    SliceRows,
    Stretch,
)
from tidelog.logic.match import IndexedRows


class TwoWay:
    """The heads of a stratum whose rules may run through time both ways.

    Lower strata are known; on the ticks before low and after high they repeat.
    """

    def __init__(
        self, stratum: Stratum, lower: Mapping[str, Settled], low: int, high: int, limit: Limit
    ) -> None:
        self.limit = limit
        self.lower = lower
        self.firings = Firings(stratum.clauses)
        self.mirrored = Firings(mirrored(stratum.clauses))
        self.width = stratum.width
        # Half lines must not see explicit times, nor each other.
        self.low, self.high = low - self.width, high + self.width
        self.middle = Stretch(self.firings, self.low, self.high, limit)
        self.by_tick = self.middle.by_tick
        for name, settled in lower.items():
            if None in settled.rows:
                self.middle.take(name, None, settled.rows[None])
            for tick, rows in settled.between(self.low, self.high):
                self.middle.take(name, tick, rows)
        self.middle.fire_unconditional(self.firings)
        self.fixed: frozenset[LineFact] | None = None
        self.right_entry: Entry | None = None
        self.left_entry: Entry | None = None
        self._close()

    def _close(self) -> None:
        """Middle and half lines, until neither finds anything new."""
        while True:
            self.middle.run()
            self._halves()
            right, left = self._right_window(), self._left_window()
            self.right_entry = self.right.entry(0, right, self.right_entry)
            self.left_entry = self.left.entry(0, left, self.left_entry)
            self.right.solve()
            self.left.solve()
            for name, tick, row in self.right.known[self.right_entry] - right:
                assert tick is not None
                self.middle.add((name, self.high - self.width + 1 + tick, row))
            for name, tick, row in self.left.known[self.left_entry] - left:
                assert tick is not None
                self.middle.add((name, self.low + self.width - 1 - tick, row))
            for fact in self.right.new_rigid | self.left.new_rigid:
                self.middle.add(fact)
            if not self.middle.todo:
                return

    def _halves(self) -> None:
        """Half lines that know all rigid facts and those at explicit times."""
        rows = {
            (name, tick): some
            for (name, tick), some in self.middle.by_tick.items()
            if tick is None or (name, tick) in self.firings.points
        }
        fixed = frozenset((name, t, row) for (name, t), some in rows.items() for row in some.rows)
        if fixed != self.fixed:
            self.fixed = fixed
            elsewhere = {place: IndexedRows(some.rows) for place, some in rows.items()}
            self.right, self.left = (
                HalfLine(firings, self.width, self._repeating(way), elsewhere, self.limit)
                for firings, way in ((self.firings, 1), (self.mirrored, -1))
            )
            self.right_entry = self.left_entry = None

    def _repeating(self, way: int) -> Repeating:
        edge = self.high - self.width + 1 if way > 0 else self.low + self.width - 1
        endless = {name: one for name, one in self.lower.items() if one.endless(way)}
        return Repeating(endless, edge, way)

    def _right_window(self) -> LineWindow:
        return self.middle.window(self.high - self.width + 1, self.high)

    def _left_window(self) -> LineWindow:
        last = self.width - 1
        window = self.middle.window(self.low, self.low + last)
        return frozenset((name, last - (tick or 0), row) for name, tick, row in window)

    def beyond(self, way: int) -> Beyond:
        return self._after if way > 0 else self._before

    @cached_property
    def _after(self) -> Beyond:
        return self._followed(self.right, self.right_entry)

    @cached_property
    def _before(self) -> Beyond:
        return self._followed(self.left, self.left_entry)

    def _followed(self, half: HalfLine, entry: Entry | None) -> Beyond:
        """What holds 1, 2, .. ticks beyond the middle until windows repeat."""
        assert entry is not None
        seen: dict[Entry, int] = {}
        slices: list[dict[str, SliceRows]] = []
        last = self.width - 1
        while True:
            self.limit.check(f"following the line, {len(seen)} windows", 64)
            entry = half.next[entry]
            window = half.known[entry]
            if (entry[0], window) in seen:
                return Beyond(slices, seen[entry[0], window])
            seen[entry[0], window] = len(slices)
            slice_: dict[str, SliceRows] = {}
            for name, tick, row in window:
                if tick == last:
                    slice_.setdefault(name, IndexedRows()).add(row)
            slices.append(slice_)
