"""The cells of a stream at an input time: what certainly holds, and what may still come to hold.

Cells that no fact has touched are not stored: what they hold follows from how far they lie from tin
alone.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Set
from itertools import product

from tidelog.analysis.possible import FUTURE, any_pattern
from tidelog.language.graph import Bound
from tidelog.language.program import Row
from tidelog.streaming.cell_graph import FAR, CellGraph
from tidelog.streaming.cells import (
    NO_TIME,
    Cell,
    CellContent,
    CellKey,
    Component,
    Lookup,
    Stage,
    derive,
    rigid_model,
)
from tidelog.streaming.joins import EMPTY, ONE, IndexedSlice
from tidelog.streaming.tracked import Tracked
from tidelog.streaming.window_cells import WindowCells


class CellModel:
    """Cells by component and layer, and how they are read."""

    def __init__(self, graph: CellGraph, rigid: Mapping[str, set[Row]]) -> None:
        self.graph = graph
        self.components = graph.components
        self.tin: Bound = -math.inf
        self.cells: dict[CellKey, Cell] = {}
        self.windows = {
            c.number: WindowCells(graph, c, c.tracked, self.cells)
            for c in graph.components
            if c.tracked is not None
        }
        self.count = 0  # input facts and carried ones that are kept
        self.static = rigid_model(graph.deps, graph.fixed, rigid)
        self._add_static_patterns()
        self._anything = self._anything_of_carried()
        self._untouched: dict[tuple[int, Bound], CellContent] = {}

    def _add_static_patterns(self) -> None:
        """What never changes has no arbitrary arguments."""
        made = self.graph.made
        for name in self.graph.fixed:
            if not self.graph.deps.core.predicates[name].input:
                for pattern in made.patterns[name]:
                    ground = made.ground(pattern)
                    self.static[made.name(name, pattern)] = self.static[name] if ground else EMPTY

    def _anything_of_carried(self) -> CellContent:
        """What is carried on, far ahead: it may hold of anything at all."""
        anything: CellContent = {}
        for name in self.graph.deps.carrying:
            pattern = any_pattern(self.graph.deps.core.predicates[name])
            bools = sum(label is None for label in pattern)
            rows: set[Row] = set(product((True, False), repeat=bools))
            spec = self.graph.made.name(name, pattern)
            anything[spec] = anything[self.graph.loosely(spec)] = IndexedSlice(rows)
        return anything

    def read(self, lookup: Lookup, time: int | None) -> IndexedSlice:
        """What a premise finds at a time."""
        if lookup.component < 0:
            if lookup.name == FUTURE:
                assert time is not None
                return ONE if time > self.tin else EMPTY
            return self.static[lookup.name]
        layer = NO_TIME if time is None else time + lookup.shift
        return self.slice(lookup.component, layer, lookup.name)

    def slice(self, number: int, layer: int, name: str) -> IndexedSlice:
        """What a predicate or pattern holds at a layer of its component."""
        component = self.components[number]
        if component.carrying and layer > self.near(component):
            return self._anything.get(name, EMPTY)
        cell = self.cells.get((number, layer))
        if cell is not None and (component.tracked is None or name != component.tracked.anything):
            return cell.slices.get(name, EMPTY)
        return self._default(component, layer).get(name, EMPTY)

    def near(self, component: Component) -> Bound:
        """The last layer that is derived of what is carried on; anything may hold after it."""
        if self.tin < component.until <= self.tin + FAR:
            return max(self.tin + component.ahead, component.until)
        return self.tin + component.ahead

    def is_final(self, component: Component, layer: int) -> bool:
        return layer + component.final <= self.tin and component.pin <= self.tin

    def evaluated(self, component: Component, layer: int) -> CellContent:
        """What a cell holds, by its rules."""
        final = self.is_final(component, layer)
        model: CellContent = {}
        for stage in component.stages:
            clauses = stage.possible if final else [*stage.possible, *stage.certain]
            if stage.loose and not (final and component.carrying):
                clauses = [*clauses, *stage.loose]
            derive(clauses, layer, component.shifts, self.read, model)
            if final:
                self._settle(component, stage, model)
        return model

    def _settle(self, component: Component, stage: Stage, model: CellContent) -> None:
        """What is possible of known objects is certain; what is carried on is a fact then."""
        for name in stage.names:
            ground = component.grounds[name]
            if ground in model:
                model[name] = model[ground]
                if component.carrying:
                    model[self.graph.loosely(ground)] = model[ground]

    def kept(self, name: str) -> dict[int, Set[Row]]:
        """The facts of an input, or of what is carried on, that are kept, by layer."""
        number, _ = self.graph.place[name]
        component = self.components[number]
        ground = component.grounds[name]
        return {
            layer: cell.slices[ground].rows
            for (n, layer), cell in self.cells.items()
            if n == number and ground in cell.slices and (component.input or cell.frozen)
        }

    def carried(self) -> dict[str, dict[int, Set[Row]]]:
        """The facts that are carried on and final, by predicate and layer."""
        return {name: self.kept(name) for name in sorted(self.graph.deps.carrying)}

    # Cells that no fact has touched

    def forget_defaults(self) -> None:
        """What follows for cells that no fact has touched has changed."""
        self._untouched.clear()

    def _default(self, component: Component, layer: int) -> CellContent:
        """What a cell that no fact has touched holds."""
        if component.input or self.is_final(component, layer):
            return {}
        if component.tracked is not None:
            return self._default_of_window(component, component.tracked, layer)
        if component.carrying:
            if layer > self.near(component):
                return self._anything
            for n in range(1, int(layer - self.tin) + 1):
                if (component.number, n) not in self._untouched:
                    model = self._evaluated_default(component, int(self.tin) + n)
                    self._untouched[component.number, n] = model
            return self._untouched.get((component.number, layer - self.tin), {})
        # It changes at these distances from tin only.
        key = (component.number, bisect_right(component.wakes, self.tin - layer))
        known = self._untouched.get(key)
        if known is None:
            known = self._untouched[key] = self._evaluated_default(component, layer)
        return known

    def _default_of_window(self, component: Component, window: Tracked, layer: int) -> CellContent:
        """A window may hold of anything while as many ticks as it needs are to come."""
        to_come = layer - component.shifts[window.anything] + window.after - self.tin
        return {window.anything: ONE} if to_come >= window.over.least else {}

    def _evaluated_default(self, component: Component, layer: int) -> CellContent:
        model: CellContent = {}
        for stage in component.stages:
            clauses = [c for c in (*stage.possible, *stage.loose) if c.point is None]
            derive(clauses, layer, component.shifts, self._read_default, model)
        return model

    def _read_default(self, lookup: Lookup, time: int | None) -> IndexedSlice:
        if lookup.component < 0 or lookup.offset is None:
            return self.read(lookup, time)
        assert time is not None
        component = self.components[lookup.component]
        return self._default(component, time + lookup.shift).get(lookup.name, EMPTY)
