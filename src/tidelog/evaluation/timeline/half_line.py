"""What comes back from the half lines to the left and to the right of all facts."""

from __future__ import annotations

from tidelog.evaluation.timeline.limit import Limit
from tidelog.evaluation.timeline.stretch import (
    Firings,
    LineFact,
    LineRows,
    LineWindow,
    Stretch,
)


class HalfLine:
    """What comes back from a half line without input, as a table over windows of w ticks.

    The line runs to the right; for the left one, clauses are mirrored. An entry of the table is the
    window and one tick more, closed as far as is known.
    """

    def __init__(self, firings: Firings, width: int, elsewhere: LineRows, limit: Limit) -> None:
        self.firings, self.width, self.limit = firings, width, limit
        self.elsewhere = elsewhere
        self.new_rigid: set[LineFact] = set()  # derived anywhere
        self.table: dict[LineWindow, Stretch] = {}
        self.known: dict[LineWindow, LineWindow] = {}  # what is known to hold on the window
        self.next: dict[LineWindow, LineWindow] = {}  # the entry a tick further on
        self.users: dict[LineWindow, set[LineWindow]] = {}
        self.todo: dict[LineWindow, None] = {}

    def entry(self, window: LineWindow, earlier: LineWindow | None) -> LineWindow:
        """The entry for a window that has grown from an earlier one.

        What comes back from a half line is a closure: while the window holds no more than what is
        known to come of the earlier one, the same comes of both, and one entry is enough.
        """
        if earlier is not None and window <= self.known[earlier]:
            return earlier
        if window not in self.table:
            stretch = Stretch(self.firings, 0, self.width, self.limit, self.elsewhere)
            for fact in window:
                stretch.add(fact)
            self.table[window] = stretch
            self.known[window] = window
            self.todo[window] = None
        return window

    def solve(self) -> None:
        """Complete all entries: what is known of each window is then all that holds there."""
        while self.todo:
            key, _ = self.todo.popitem()
            self.limit.check(f"half line, {len(self.table)} windows", 64)
            self._grow(key)

    def _grow(self, key: LineWindow) -> None:
        """One tick more: close, shift, take what is known of the shifted window, repeat."""
        stretch = self.table[key]
        while True:
            stretch.run()
            shifted = stretch.window(1, self.width)
            following = self.next[key] = self.entry(shifted, self.next.get(key))
            self.users.setdefault(following, set()).add(key)
            for name, tick, row in self.known[following] - shifted:
                assert tick is not None
                stretch.add((name, tick + 1, row))
            if not stretch.todo:
                break
        self.new_rigid |= stretch.new_rigid
        known = stretch.window(0, self.width - 1)
        if known != self.known[key]:
            self.known[key] = known
            self.todo.update(dict.fromkeys(self.users.get(key, ())))
