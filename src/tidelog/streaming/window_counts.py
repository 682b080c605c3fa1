"""At how many ticks of a window each object is there, kept up to date tick by tick."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

from tidelog.language.program import Row
from tidelog.logic.clause import Over


class WindowCounts:
    """The objects of a window that moves on a tick at a time.

    Nothing of it has to be kept: moved anywhere else, it counts the ticks of the window anew.

    >>> there = {0: {("a",)}, 1: {("b",)}, 2: {("a",), ("b",)}, 3: {("a",)}}
    >>> window = WindowCounts(Over(3, 2))
    >>> [sorted(window.at(tick, lambda t: there.get(t, set()), there)) for tick in range(2, 6)]
    [[('a',), ('b',)], [('a',), ('b',)], [('a',)], []]
    """

    def __init__(self, over: Over) -> None:
        self.over = over
        self._done: int | None = None  # the tick up to which objects are counted
        self._counts: dict[Row, int] = {}  # without the first tick of the window that ends there
        self._enough: set[Row] = set()  # objects that are counted often enough

    def at(self, tick: int, there: Callable[[int], Set[Row]], ticks: Iterable[int]) -> set[Row]:
        """The objects of the window that ends with a tick.

        `there` gives the objects at a tick, and `ticks` are those at which there may be any.
        """
        first = tick - self.over.ticks + 1
        if self._done != tick - 1:
            self._counts, self._enough = {}, set()
            for before in ticks:
                if first <= before < tick:
                    self._enter(there(before))
        self._enter(there(tick))
        holds = set(self._enough)
        self._leave(there(first))
        self._done = tick
        return holds

    def copy(self) -> WindowCounts:
        other = WindowCounts(self.over)
        other._done = self._done
        other._counts, other._enough = dict(self._counts), set(self._enough)
        return other

    def _enter(self, rows: Set[Row]) -> None:
        counts, least = self._counts, self.over.least
        for row in rows:
            count = counts[row] = counts.get(row, 0) + 1
            if count == least:
                self._enough.add(row)

    def _leave(self, rows: Set[Row]) -> None:
        counts, least = self._counts, self.over.least
        for row in rows:
            count = counts.pop(row) - 1
            if count:
                counts[row] = count
            if count == least - 1:
                self._enough.discard(row)
