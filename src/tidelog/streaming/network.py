"""Cells kept up to date as time goes on: what is possible, what is certain, what is used.

The possible program says what may still come to hold; its model is a set of cells. A new tick
touches the cells that look at it, those above them where something changed, and no others, so that
a tick costs what changes, whatever the age of the stream and however far the rules look.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Set

from tidelog.analysis.possible import Possible
from tidelog.language.graph import Bound
from tidelog.language.program import Row
from tidelog.streaming.cell_graph import FAR, CellGraph
from tidelog.streaming.cell_model import CellModel
from tidelog.streaming.cells import LATE, NO_TIME, Cell, CellContent, CellKey, Component
from tidelog.streaming.joins import EMPTY, IndexedSlice
from tidelog.streaming.liveness import Liveness
from tidelog.streaming.tracked import Tracked
from tidelog.streaming.window_cells import WindowCells


class Network:
    """The cells of some queries of class 1 or 2, fed tick by tick."""

    def __init__(
        self,
        made: Possible,
        queries: Iterable[str],
        rigid: Mapping[str, set[Row]],
        tracked: Mapping[str, Tracked],
    ) -> None:
        self.graph = CellGraph(made, queries, tracked)
        self.model = CellModel(self.graph, rigid)
        self.liveness = Liveness(self.model, self.graph.queries)
        self.components = self.graph.components
        self.start: Bound = -math.inf
        self._settled: Bound = -math.inf  # what is carried on is not derived again up to here
        self._dirty: dict[CellKey, None] = {}  # cells to evaluate, and the same in their order
        self._heap: list[CellKey] = []
        self._alarms: list[tuple[int, int, int]] = []  # a tick, and the cell that changes then
        self._touch_first()

    @property
    def tin(self) -> Bound:
        return self.model.tin

    def _touch_first(self) -> None:
        """Cells that are there before any fact: explicit times, and one for all later answers."""
        graph = self.graph
        for component in self.components:
            for stage in component.stages:
                for clause in (*stage.possible, *stage.certain):
                    if clause.point is not None:
                        layer = clause.point + component.shifts[clause.head]
                        self._touch((component.number, layer))
            if component.input:
                continue
            for layer in component.points:
                self._touch((component.number, layer))
            if not graph.is_fixed(component) and graph.is_rigid(component):
                self._touch((component.number, NO_TIME))
        if any(c.points for c in self.components) or graph.timeless:
            for key in graph.below_later():
                self._touch(key)

    # Time goes on

    def begin(self, start: int) -> None:
        """The input time before which there is no fact."""
        self.model.tin = self.start = start
        self._update()

    def advance(self, tin: int, facts: Mapping[str, Mapping[int, Set[Row]]]) -> None:
        """Everything up to tin has arrived: these facts, by input and time, are new."""
        before, self.model.tin = self.model.tin, tin
        for name, times in facts.items():
            number, _ = self.graph.place[name]
            for time, rows in times.items():
                self._put(number, name, time, rows)
        self._touch_windows()
        cells = self.model.cells
        while self._alarms and self._alarms[0][0] <= tin:
            _, number, layer = heapq.heappop(self._alarms)
            if (number, layer) in cells:
                self._touch((number, layer))
        for component in self.components:
            if component.carrying:
                for layer in range(tin, int(self.model.near(component)) + 1):
                    if (component.number, layer) in cells:
                        self._touch((component.number, layer))
        if any(before < pin <= tin for pin in self.graph.pins) or any(
            before < component.until <= tin + FAR for component in self.components
        ):
            self._touch_all(-1)
        self._update()

    def next_event(self, tin: int) -> int:
        """The next input time, at most tin, at which something happens without new facts."""
        now = self.model.tin
        events = [tin, *(a[0] for a in self._alarms[:1]), *(p for p in self.graph.pins if p > now)]
        losses = (window.next_change() for window in self.model.windows.values())
        events += [loss for loss in losses if loss is not None]
        for number, layer in self.model.cells:
            component = self.components[number]
            if component.carrying and layer > now:
                events.append(layer - component.ahead)
        if any(c.until > now for c in self.components):
            events.append(now + 1)
        return max(int(min(events)), int(now) + 1)

    def resume(
        self,
        start: int,
        tin: int,
        facts: Mapping[str, Mapping[int, Set[Row]]],
        carried: Mapping[str, Mapping[int, Set[Row]]],
    ) -> None:
        """Go on from what was kept at tin, with the liveness's `due` set already."""
        self.start, self.model.tin = start, tin
        if all(c.pin <= tin for c in self.components if c.carrying):
            self._settled = tin
            self._dirty = {k: None for k in self._dirty if not self._is_settled(k)}
            self._heap = sorted(self._dirty)
        self._touch_windows()
        for name, layers in facts.items():
            for layer, rows in layers.items():
                self._put(self.graph.place[name][0], name, layer, rows)
        for name, layers in carried.items():
            number, _ = self.graph.place[name]
            ground = self.components[number].grounds[name]
            for layer, rows in layers.items():
                cell = self.model.cells.setdefault((number, layer), Cell())
                cell.frozen = cell.shown = True
                cell.slices[name] = cell.slices[ground] = IndexedSlice(rows)
                cell.slices[self.graph.loosely(ground)] = cell.slices[ground]
                self.model.count += len(rows)
                self._spread((number, layer))
                self.liveness.stale[number, layer] = None
        self._update()
        self.liveness.forget()

    # What changes

    def _put(self, number: int, name: str, layer: int, rows: Set[Row]) -> None:
        """Facts of an input at a layer."""
        if not rows:
            return
        key = (number, layer)
        cell = self.model.cells.get(key)
        if cell is None:
            cell = self.model.cells[key] = Cell()
        known = cell.slices.get(name, EMPTY).rows
        self.model.count += len(rows - known)
        cell.slices[name] = IndexedSlice(known | rows)
        self._spread(key)
        self.liveness.stale[key] = None

    def _is_settled(self, key: CellKey) -> bool:
        return key[1] <= self._settled and self.components[key[0]].carrying

    def _touch(self, key: CellKey) -> None:
        if key not in self._dirty and not self._is_settled(key):
            self._dirty[key] = None
            heapq.heappush(self._heap, key)

    def _touch_windows(self) -> None:
        """As time goes on, windows that are tracked look at all that has arrived."""
        for number in self.model.windows:
            self._touch((number, NO_TIME))

    def _touch_all(self, above: int) -> None:
        """Every derived cell of later components may have changed."""
        self.model.forget_defaults()
        for key, cell in self.model.cells.items():
            if key[0] > above and not self.components[key[0]].input and not cell.frozen:
                self._touch(key)

    def _spread(self, key: CellKey) -> None:
        """A cell has changed: so may those that look at it."""
        number, layer = key
        component = self.components[number]
        if layer != NO_TIME:
            for above, step in component.above:
                if self.components[above].carrying and layer + step <= self.start:
                    continue
                self._touch((above, layer + step))
        for window in component.counted_by:
            self._show(key, self.model.windows[window])
        if layer in component.points or layer == NO_TIME:
            self._touch_all(number)

    def _update(self) -> None:
        """Evaluate what was touched, from the inputs up."""
        cells = self.model.cells
        while self._heap:
            key = heapq.heappop(self._heap)
            del self._dirty[key]
            component = self.components[key[0]]
            if component.tracked is not None:
                self._follow(self.model.windows[key[0]])
                continue
            cell = cells.get(key)
            if cell is None:
                cell = cells[key] = Cell()
                self._set_alarms(component, key[1])
            if not cell.frozen and self._evaluate(component, key[1], cell):
                cell.shown = True
                self._spread(key)

    def _show(self, key: CellKey, window: WindowCells) -> None:
        """A cell of what a window counts has changed: what it holds is known, and all of it."""
        slice_ = self.model.cells[key].slices.get(window.base_name, EMPTY)
        window.see(key[1], slice_.rows)

    def _follow(self, window: WindowCells) -> None:
        """Change the cells of a window, object by object."""
        changed, final = window.advance(int(self.model.tin))
        for layer, rows in changed.items():
            for above, step, guards in window.above:
                if self.components[above].carrying and layer + step <= self.start:
                    continue
                if guards.let_in(rows, layer - window.shift, self.model.read):
                    self._touch((above, layer + step))
        for layer in final:
            self.liveness.stale[window.number, layer] = None

    def _set_alarms(self, component: Component, layer: int) -> None:
        """A new cell changes by itself at some ticks to come."""
        if layer < LATE:
            for wake in component.wakes:
                if layer + wake > self.model.tin:
                    heapq.heappush(self._alarms, (layer + wake, component.number, layer))

    def _evaluate(self, component: Component, layer: int, cell: Cell) -> bool:
        """Derive a cell anew; whether cells that look at it may see a difference."""
        model = self.model
        before, cell.slices = cell.slices, model.evaluated(component, layer)
        if component.window:
            self._add_certain(component, before, cell)
        self.liveness.stale[component.number, layer] = None
        if component.carrying:
            if layer <= model.tin and component.pin <= model.tin:
                cell.frozen = True
                model.count += cell.carried(component)
            if layer > model.near(component):
                return False  # whatever looks at it takes anything to be possible
        if cell.shown:
            return _differ(before, cell.slices)
        # A cell that is frozen and empty is what it was taken for.
        return not cell.frozen or any(s.rows for s in cell.slices.values())

    def _add_certain(self, component: Component, before: CellContent, cell: Cell) -> None:
        """What was certain of a window still is, though facts for it are forgotten."""
        for name, ground in component.grounds.items():
            certain = before.get(name, EMPTY).rows
            for known in (name, ground, self.graph.loosely(ground)) if certain else ():
                rows = cell.slices.get(known, EMPTY).rows
                if not certain <= rows:
                    cell.slices[known] = IndexedSlice(rows | certain)


def _differ(old: CellContent, new: CellContent) -> bool:
    return any(old.get(name, EMPTY).rows != new.get(name, EMPTY).rows for name in {**old, **new})


__all__ = ["Network"]
