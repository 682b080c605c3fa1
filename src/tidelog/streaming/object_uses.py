"""Which ticks of an object a window still needs: those of some T at which it is used.

A window of n ticks that end with T rests on all ticks of an object in it. So a tick is needed while
one of the n windows that it is in is used; per object the T at which it is are kept in order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Set

from tidelog.language.program import Row


class ObjectUses:
    """The objects of a window of some ticks: when it is used of them, and when they were there.

    >>> uses = ObjectUses(3)
    >>> uses.use(5, {("a",)}), uses.use(6, {("a",)})
    ({}, {})
    >>> uses.arrive(3, [("a",), ("b",)]), uses.arrive(4, [("a",)])
    ({('a',)}, {('a',)})
    >>> uses.use(5, set()), uses.use(6, set())
    ({3: {('a',)}}, {4: {('a',)}})
    """

    def __init__(self, ticks: int) -> None:
        self.ticks = ticks
        self._used: dict[int, Set[Row]] = {}
        self._times: dict[Row, list[int]] = {}  # of an object, the T at which it is used
        self._needed: dict[Row, list[int]] = {}  # and the ticks that are needed for them

    def arrive(self, tick: int, rows: Iterable[Row]) -> Set[Row]:
        """Objects that are there at a tick; those of which the tick is needed."""
        needed: set[Row] = set()
        for row in rows:
            times = self._times.get(row)
            if times is None:
                continue
            place = bisect_left(times, tick)
            if place < len(times) and times[place] < tick + self.ticks:
                needed.add(row)
                insort(self._needed.setdefault(row, []), tick)
        return needed

    def use(self, time: int, rows: Set[Row]) -> dict[int, set[Row]]:
        """The window that ends at a time is used of these objects; which ticks that frees."""
        before = self._used.get(time, frozenset())
        for row in rows:
            if row not in before:
                insort(self._times.setdefault(row, []), time)
        freed: dict[int, set[Row]] = {}
        for row in before:
            if row not in rows:
                for tick in self._end(time, row):
                    freed.setdefault(tick, set()).add(row)
        if rows:
            self._used[time] = set(rows)
        else:
            self._used.pop(time, None)
        return freed

    def _end(self, time: int, row: Row) -> list[int]:
        """The window is not used of an object any more: its ticks that no other needs."""
        times = self._times[row]
        place = bisect_left(times, time)
        first = max(time - self.ticks, times[place - 1] if place else time - self.ticks) + 1
        last = min(time, times[place + 1] - self.ticks) if place + 1 < len(times) else time
        del times[place]
        if not times:
            del self._times[row]
        needed = self._needed.get(row, [])
        low, high = bisect_left(needed, first), bisect_right(needed, last)
        freed = needed[low:high]
        del needed[low:high]
        if not needed:
            self._needed.pop(row, None)
        return freed
