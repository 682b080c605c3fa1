"""When an object is in a window, kept up to date tick by tick: no tick is counted twice.

A window of n ticks that end with T holds of an object if it is there at K of them or more. Up to
the tick that is known, T is decided. After it, three stretches follow each other for each object: T
at which the window certainly holds, since K ticks of it are known already; T at which it may come
to hold, since the ticks to come are enough; and T whose window has no tick of it.

    certain       T < since           `since` - n is the K-th tick from the last, if there are K
    open          since <= T < last + n

With time the first of the open ones goes: it has `count` ticks, T - now are to come, and when
`count` + T - now < K it is too late. What is to be known of an object are the ticks that count for
the first open T, fewer than K.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TypeAlias

from tidelog.language.program import Row
from tidelog.logic.clause import Over

RowsAt: TypeAlias = dict[int, list[Row]]


@dataclass
class Changes:
    """By the last tick of a window, the objects of which it newly holds, may, or may no more."""

    certain: RowsAt = field(default_factory=dict)
    opened: RowsAt = field(default_factory=dict)
    lost: RowsAt = field(default_factory=dict)


class _Object:
    """What is known of an object that has been there lately."""

    __slots__ = ("last", "since", "ticks")

    def __init__(self, since: int, last: int) -> None:
        self.since = since  # the first T that is open, or would be
        self.last = last  # the last tick at which it was there
        self.ticks: deque[int] = deque()  # those that count for that T


class ObjectCounts:
    """The objects of a window, as ticks become known one after the other.

    >>> counts = ObjectCounts(Over(4, 2))
    >>> counts.advance(0, {0: [("a",)]})
    Changes(certain={}, opened={1: [('a',)], 2: [('a',)], 3: [('a',)]}, lost={})
    >>> counts.advance(1, {})
    Changes(certain={}, opened={}, lost={1: [('a',)]})
    >>> counts.advance(2, {2: [("a",)]})
    Changes(certain={2: [('a',)], 3: [('a',)]}, opened={4: [('a',)], 5: [('a',)]}, lost={})
    """

    def __init__(self, over: Over) -> None:
        self.ticks, self.least = over.ticks, over.least
        self._objects: dict[Row, _Object] = {}
        # By tick, objects of which something may be lost then; each is there once.
        self._due: dict[int, list[Row]] = {}
        self._ticks_due: list[int] = []

    def next_loss(self) -> int | None:
        """A tick before which nothing is lost."""
        return self._ticks_due[0] if self._ticks_due else None

    def advance(self, now: int, there: Mapping[int, Iterable[Row]]) -> Changes:
        """All is known up to a tick: these objects are there at ticks since the last time."""
        changes = Changes()
        for tick in sorted(there):
            self._pass(tick - 1, changes)
            for row in there[tick]:
                self._arrive(row, tick, changes)
        self._pass(now, changes)
        return changes

    def _arrive(self, row: Row, tick: int, changes: Changes) -> None:
        ticks = self.ticks
        known = self._objects.get(row)
        if known is None:
            known = self._objects[row] = _Object(tick + self.least - 1, tick)
            first = known.since
            known.ticks.append(tick)
            self._call_at(self._too_late(known), row)
        else:
            first = known.last + ticks
            known.last = tick
            known.ticks.append(tick)
        _enter(changes.opened, first, tick + ticks, row)
        if len(known.ticks) == self.least:
            until = known.ticks.popleft() + ticks
            _enter(changes.certain, known.since, until, row)
            known.since = until

    def _too_late(self, known: _Object) -> int:
        """The tick at which the first open T is lost, if the object is there no more until then."""
        return known.since + len(known.ticks) - self.least + 1

    def _call_at(self, tick: int, row: Row) -> None:
        if tick not in self._due:
            self._due[tick] = []
            heappush(self._ticks_due, tick)
        self._due[tick].append(row)

    def _pass(self, now: int, changes: Changes) -> None:
        """Objects are not there any more up to a tick."""
        while self._ticks_due and self._ticks_due[0] <= now:
            for row in self._due.pop(heappop(self._ticks_due)):
                self._lose(row, now, changes)

    def _lose(self, row: Row, now: int, changes: Changes) -> None:
        known = self._objects[row]
        while (late := self._too_late(known)) <= now:
            if known.since >= known.last + self.ticks:
                del self._objects[row]
                return
            changes.lost.setdefault(known.since, []).append(row)
            known.since += 1
            if known.ticks and known.ticks[0] <= known.since - self.ticks:
                known.ticks.popleft()
        self._call_at(late, row)


def _enter(changes: RowsAt, first: int, end: int, row: Row) -> None:
    for tick in range(first, end):
        changes.setdefault(tick, []).append(row)
