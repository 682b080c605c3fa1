"""What comes back from the half lines to the left and to the right of all facts."""

from __future__ import annotations

from typing import TypeAlias

from tidelog.evaluation.timeline.limit import Limit
from tidelog.evaluation.timeline.settled import Repeating
from tidelog.evaluation.timeline.stretch import (
    Firings,
    LineFact,
    LineRows,
    LineWindow,
    Stretch,
)

# The place of a window on the line, modulo the period of what lower strata give, and its facts.
Entry: TypeAlias = tuple[int, LineWindow]


class HalfLine:
    """What comes back from a half line without input, as a table over windows of w ticks.

    The line runs to the right; for the left one, clauses are mirrored. What lower strata give
    repeats, so that it follows from the place of the window. An entry of the table is the window
    and one tick more, closed as far as is known.
    """

    def __init__(
        self, firings: Firings, width: int, lower: Repeating, elsewhere: LineRows, limit: Limit
    ) -> None:
        self.firings, self.width, self.limit = firings, width, limit
        self.lower, self.period = lower, lower.period
        self.elsewhere = elsewhere
        self.new_rigid: set[LineFact] = set()  # derived anywhere
        self.table: dict[Entry, Stretch] = {}
        self.known: dict[Entry, LineWindow] = {}  # what is known to hold on the window
        self.next: dict[Entry, Entry] = {}  # the entry a tick further on
        self.users: dict[Entry, set[Entry]] = {}
        self.todo: dict[Entry, None] = {}

    def entry(self, place: int, window: LineWindow, earlier: Entry | None) -> Entry:
        """The entry for a window that has grown from an earlier one at the same place.

        What comes back from a half line is a closure: while the window holds no more than what is
        known to come of the earlier one, the same comes of both, and one entry is enough.
        """
        if earlier is not None and window <= self.known[earlier]:
            return earlier
        entry = (place % self.period, window)
        if entry not in self.table:
            self.table[entry] = self._stretch(*entry)
            self.known[entry] = window
            self.todo[entry] = None
        return entry

    def _stretch(self, place: int, window: LineWindow) -> Stretch:
        stretch = Stretch(self.firings, 0, self.width, self.limit, self.elsewhere)
        if self.lower.lower:
            for tick in range(self.width + 1):
                for name, rows in self.lower.slices(place + tick):
                    stretch.take(name, tick, rows)
        for fact in window:
            stretch.add(fact)
        return stretch

    def solve(self) -> None:
        """Complete all entries: what is known of each window is then all that holds there."""
        while self.todo:
            entry, _ = self.todo.popitem()
            self.limit.check(f"half line, {len(self.table)} windows", 64)
            self._grow(entry)

    def _grow(self, entry: Entry) -> None:
        """One tick more: close, shift, take what is known of the shifted window, repeat."""
        stretch = self.table[entry]
        while True:
            stretch.run()
            shifted = stretch.window(1, self.width)
            following = self.entry(entry[0] + 1, shifted, self.next.get(entry))
            self.next[entry] = following
            self.users.setdefault(following, set()).add(entry)
            for name, tick, row in self.known[following] - shifted:
                assert tick is not None
                stretch.add((name, tick + 1, row))
            if not stretch.todo:
                break
        self.new_rigid |= stretch.new_rigid
        known = stretch.window(0, self.width - 1)
        if known != self.known[entry]:
            self.known[entry] = known
            self.todo.update(dict.fromkeys(self.users.get(entry, ())))
