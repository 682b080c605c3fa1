"""The whole line: a middle with all facts, and two half lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tidelog.analysis.dependencies import positive_only
from tidelog.evaluation.ranges import Range
from tidelog.evaluation.timeline.clauses import mirrored, separated, span
from tidelog.evaluation.timeline.half_line import HalfLine
from tidelog.evaluation.timeline.limit import Limit, TooHard
from tidelog.evaluation.timeline.stretch import Firings, LineFact, LineWindow, Stretch
from tidelog.language.program import Row
from tidelog.logic.core import Core
from tidelog.logic.match import IndexedRows

# Ticks that a rule may reach: a line is followed at least that far.
MOST_TICKS = 2_000_000
# Arguments, first time and period: the answer holds there and every period further on.
Repeated: TypeAlias = tuple[Row, int, int]


@dataclass(frozen=True)
class Timeline:
    """The answers of one query: single ones, and those that repeat for ever.

    A negative period leads back in time.
    """

    rows: frozenset[tuple[Row, int | None]]
    repeated: frozenset[Repeated] = frozenset()


def evaluate(
    core: Core,
    facts: Mapping[str, Iterable[tuple[Row, int | None]]],
    queries: Iterable[str],
    asked: Range,
    limit: Limit,
) -> dict[str, Timeline]:
    """The answers of each query at the ticks asked for, which may be infinitely many."""
    line = _Line(core, facts, asked, limit)
    return {query: line.answers(query, asked) for query in queries}


class _Line:
    def __init__(
        self,
        core: Core,
        facts: Mapping[str, Iterable[tuple[Row, int | None]]],
        asked: Range,
        limit: Limit,
    ) -> None:
        self.limit = limit
        self.core = core
        positive_only(core, "the timeline")
        clauses = separated(core.clauses)
        self.firings = Firings(clauses)
        self.mirrored = Firings(mirrored(clauses))
        self.width = max([1, *map(span, clauses)])
        if self.width > MOST_TICKS:
            clause = max(clauses, key=span)
            raise TooHard(
                f"{clause.origin}: the rule reaches {self.width} ticks through time, and a range"
                " without end, or rules that run both ways through time, are followed tick by tick:"
                " ask for a finite range with --from and --to"
            )
        given = [(name, tick, row) for name, rows in facts.items() for row, tick in rows]
        ticks = [tick for _, tick, _ in given if tick is not None]
        ticks += [tick for clause in clauses for tick in clause.fixed_ticks]
        ticks += [int(t) for t in (asked.low, asked.high) if not math.isinf(t)]
        low, high = (min(ticks), max(ticks)) if ticks else (0, 0)
        # Half lines must not see explicit times, nor each other.
        self.low, self.high = low - self.width, high + self.width
        self.middle = Stretch(self.firings, self.low, self.high, limit)
        for fact in given:
            self.middle.add(fact)
        self.middle.fire_unconditional(self.firings)
        self.fixed: frozenset[LineFact] | None = None
        self.right_entry: LineWindow | None = None
        self.left_entry: LineWindow | None = None
        self._close()

    def _close(self) -> None:
        """Middle and half lines, until neither finds anything new."""
        while True:
            self.middle.run()
            self._halves()
            right, left = self._right_window(), self._left_window()
            self.right_entry = self.right.entry(right, self.right_entry)
            self.left_entry = self.left.entry(left, self.left_entry)
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
            self.right = HalfLine(self.firings, self.width, elsewhere, self.limit)
            self.left = HalfLine(self.mirrored, self.width, elsewhere, self.limit)
            self.right_entry = self.left_entry = None

    def _right_window(self) -> LineWindow:
        return self.middle.window(self.high - self.width + 1, self.high)

    def _left_window(self) -> LineWindow:
        last = self.width - 1
        window = self.middle.window(self.low, self.low + last)
        return frozenset((name, last - (tick or 0), row) for name, tick, row in window)

    def answers(self, query: str, asked: Range) -> Timeline:
        if not self.core.predicates[query].temporal:
            rigid = self.middle.by_tick.get((query, None), IndexedRows())
            return Timeline(frozenset((row, None) for row in rigid.rows))
        if asked.empty:
            return Timeline(frozenset())
        rows: set[tuple[Row, int | None]] = {
            (row, tick)
            for (name, tick), some in self.middle.by_tick.items()
            if name == query and tick is not None and asked.low <= tick <= asked.high
            for row in some.rows
        }
        repeated: set[Repeated] = set()
        if asked.high == math.inf:
            slices, start = self._beyond(self.right, self.right_entry, query)
            repeated |= _periodic(slices, start, self.high, 1, rows)
        if asked.low == -math.inf:
            slices, start = self._beyond(self.left, self.left_entry, query)
            repeated |= _periodic(slices, start, self.low, -1, rows)
        return Timeline(frozenset(rows), frozenset(repeated))

    def _beyond(
        self, half: HalfLine, entry: LineWindow | None, query: str
    ) -> tuple[list[set[Row]], int]:
        """Answers 1, 2, .. ticks beyond the middle until windows repeat; and from where they do."""
        assert entry is not None
        seen: dict[LineWindow, int] = {}
        slices: list[set[Row]] = []
        last = self.width - 1
        while True:
            self.limit.check(f"following the line, {len(seen)} windows", 64)
            entry = half.next[entry]
            window = half.known[entry]
            if window in seen:
                return slices, seen[window]
            seen[window] = len(slices)
            slices.append({row for name, tick, row in window if name == query and tick == last})


def _periodic(
    slices: list[set[Row]],
    start: int,
    edge: int,
    way: int,
    rows: set[tuple[Row, int | None]],
) -> set[Repeated]:
    """Each answer with its own least period, from as early as it keeps to it.

    Slice n lies n + 1 ticks beyond the edge of the middle; those from `start` on repeat. Single
    rows are taken into what repeats where they fit, so that every time is covered once; slices
    before `start` that do not fit become single rows.
    """
    for n, slice_ in enumerate(slices[:start], 1):
        rows |= {(row, edge + way * n) for row in slice_}
    cycle = slices[start:]
    repeated: set[Repeated] = set()
    for row in set().union(*cycle):
        holds = [row in slice_ for slice_ in cycle]
        period = next(
            p for p in range(1, len(cycle) + 1) if len(cycle) % p == 0 and _repeats(holds, p)
        )
        for i in range(period):
            if holds[i]:
                tick = edge + way * (start + i + 1)
                while (row, tick - way * period) in rows:
                    tick -= way * period
                    rows.remove((row, tick))
                repeated.add((row, tick, way * period))
    return repeated


def _repeats(holds: list[bool], period: int) -> bool:
    return holds[period:] == holds[:-period] or period == len(holds)
