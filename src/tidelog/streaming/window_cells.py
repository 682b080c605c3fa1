"""The cells of a window that is followed object by object: what of it changes from tick to tick."""

from __future__ import annotations

from collections.abc import Set
from heapq import heappop, heappush

from tidelog.language.program import Row
from tidelog.streaming.cell_graph import CellGraph
from tidelog.streaming.cells import Cell, CellKey, Component
from tidelog.streaming.guards import Guards
from tidelog.streaming.joins import IndexedSlice
from tidelog.streaming.object_counts import ObjectCounts, RowsAt
from tidelog.streaming.object_uses import ObjectUses
from tidelog.streaming.tracked import Tracked


class WindowCells:
    """The cells of a tracked window, among all cells of a stream."""

    def __init__(
        self, graph: CellGraph, component: Component, window: Tracked, cells: dict[CellKey, Cell]
    ) -> None:
        self.window, self.cells = window, cells
        self.number = component.number
        ((self.certain, self.known),) = component.grounds.items()
        self.shift = component.shifts[self.certain]
        self.base, self.base_shift = graph.place[window.base]
        self.base_name = graph.components[self.base].grounds[window.base]
        self.counts = ObjectCounts(window.over)
        self.uses = ObjectUses(window.over.ticks)
        names = (self.certain, self.known)
        self.above = [
            (number, step, Guards(graph.components[number], names, graph.components))
            for number, step in component.above
        ]
        self._there: dict[int, Set[Row]] = {}  # objects at ticks that are not counted yet
        self._unused: set[int] = set()  # ticks of which it is not known yet if they are needed
        self._open: list[int] = []  # layers of cells that are not final

    # What holds

    def see(self, layer: int, rows: Set[Row]) -> None:
        """Objects are there, in a cell of what the window counts."""
        tick = layer - self.base_shift
        self._there[tick] = rows
        self._unused.add(tick)

    def next_change(self) -> int | None:
        """An input time before which nothing changes without new facts."""
        tick = self.counts.next_loss()
        return None if tick is None else tick + self.window.after

    def advance(self, tin: int) -> tuple[dict[int, list[Row]], list[int]]:
        """All is known that has arrived up to tin: what changes by layer, and what is final now."""
        now = tin - self.window.after
        changes = self.counts.advance(now, self._there)
        self._there = {}
        if self.window.over.least > 1:  # else what is possible of an object is certain
            self._add(self.known, changes.opened)
            self._remove(changes.lost)
        self._add(self.certain, changes.certain)
        changed: dict[int, list[Row]] = {}
        for rows_at in (changes.opened, changes.certain, changes.lost):
            for tick, rows in rows_at.items():
                changed.setdefault(tick + self.shift, []).extend(rows)
        final: list[int] = []
        while self._open and self._open[0] - self.shift <= now:
            final.append(heappop(self._open))
        return changed, final

    def _add(self, name: str, rows_at: RowsAt) -> None:
        for tick, rows in rows_at.items():
            slices = self._cell(tick + self.shift).slices
            slices[name].add(set(rows))

    def _remove(self, rows_at: RowsAt) -> None:
        for tick, rows in rows_at.items():
            self._cell(tick + self.shift).slices[self.known].remove(set(rows))

    def _cell(self, layer: int) -> Cell:
        cell = self.cells.get((self.number, layer))
        if cell is None:
            cell = self.cells[self.number, layer] = Cell()
            cell.shown = True
            cell.slices[self.known] = known = IndexedSlice(set())
            alone = self.window.over.least == 1
            cell.slices[self.certain] = known if alone else IndexedSlice(set())
            heappush(self._open, layer)
        return cell

    # What is used

    def use(self, layer: int, rows: Set[Row]) -> list[CellKey]:
        """A cell is used for these objects; the cells below for which that makes a difference."""
        changed: list[CellKey] = []
        for tick, freed in self.uses.use(layer - self.shift, rows).items():
            key = (self.base, tick + self.base_shift)
            below = self.cells.get(key)
            if below is not None:
                reasons = below.used_by[self.base_name]
                reasons[self._reason] = reasons[self._reason] - freed
                changed.append(key)
        return changed

    def review(self, layer: int, below: Cell) -> None:
        """Tell a cell of what the window counts, if it is new, which of its objects it needs."""
        tick = layer - self.base_shift
        if tick in self._unused:
            self._unused.remove(tick)
            rows = below.slices[self.base_name].rows if self.base_name in below.slices else ()
            needed = self.uses.arrive(tick, rows)
            below.used_by.setdefault(self.base_name, {})[self._reason] = needed

    @property
    def _reason(self) -> tuple[int, int, int]:
        """As what it stands among the reasons of a cell: no clause has this number."""
        return (-1 - self.number, 0, 0)
