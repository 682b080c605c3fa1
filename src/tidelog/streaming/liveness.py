"""Which facts are live: some possible answer that is still to be given rests on them.

Top-down, every cell says which rows of the cells below it its own used rows rest on. What nobody
uses is dropped, facts first of all.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence, Set
from functools import reduce
from operator import or_

from tidelog.language.graph import Bound
from tidelog.language.program import Row
from tidelog.streaming.cell_model import CellModel
from tidelog.streaming.cells import LATE, NO_TIME, Cell, CellKey, Component, PlacedClause
from tidelog.streaming.joins import EMPTY, IndexedSlice


class Liveness:
    """Keeps the cells of a model free of what no answer that is still due can need."""

    def __init__(self, model: CellModel, queries: Iterable[str]) -> None:
        self.model = model
        # Answers before this time have been given, by query.
        self.due: dict[str, Bound] = dict.fromkeys(queries, -math.inf)
        self.stale: dict[CellKey, None] = {}  # cells whose uses are to be looked at again

    def changed(self, query: str) -> list[int]:
        """The times at which a query's cells were evaluated since the last `forget`."""
        number, shift = self.model.graph.place[query]
        return [layer - shift for n, layer in self.stale if n == number]

    def finished(self, query: str, time: int | None) -> None:
        """The answers at a time are given: nothing is needed for them any more."""
        graph = self.model.graph
        if query in graph.fixed:
            return
        number, shift = graph.place[query]
        key = (number, NO_TIME if time is None else time + shift)
        if key in self.model.cells:
            self.stale[key] = None

    def forget(self) -> None:
        """Drop what no possible answer that is still due rests on."""
        stale, cells = self.stale, self.model.cells
        heap = [(-number, -layer) for number, layer in stale]
        heapq.heapify(heap)
        while heap:
            number, layer = heapq.heappop(heap)
            key = (-number, -layer)
            del stale[key]
            cell = cells.get(key)
            if cell is None:
                continue
            for below in self._review(key, cell):
                if below not in stale:
                    stale[below] = None
                    heapq.heappush(heap, (-below[0], -below[1]))

    def _review(self, key: CellKey, cell: Cell) -> Iterable[CellKey]:
        """Drop what of a cell is not used; the cells below for which that makes a difference."""
        component = self.model.components[key[0]]
        for number in component.counted_by:
            self.model.windows[number].review(key[1], cell)
        used = self._used(component, key[1], cell)
        changed: Iterable[CellKey] = ()
        if cell.frozen:
            changed = self._pass_on(component, key[1], cell, {}, closed=True)
        elif component.tracked is not None:
            window = self.model.windows[key[0]]
            changed = window.use(key[1], used.get(window.known, frozenset()))
        elif not component.input:
            changed = self._pass_on(component, key[1], cell, used, closed=component.carrying)
        self._prune(key, component, cell, used)
        return changed

    def _used(self, component: Component, layer: int, cell: Cell) -> dict[str, Set[Row]]:
        """By name, the rows of a cell that are used."""
        used: dict[str, Set[Row]] = {}
        everything = component.carrying and not cell.frozen
        for name, slice_ in cell.slices.items():
            if name in component.follows:
                continue  # certain rows follow those that are possible
            query = component.queries.get(name)
            rows: Set[Row] = set()
            if everything or (
                query is not None and layer - component.shifts[name] >= self.due[query]
            ):
                rows = slice_.rows
            else:
                reasons = cell.used_by.get(name)
                if reasons and len(reasons) == 1:
                    (rows,) = reasons.values()
                elif reasons:
                    rows = reduce(or_, reasons.values())
                if len(rows) > len(slice_.rows) or not rows <= slice_.rows:
                    rows = rows & slice_.rows
            if rows:
                used[name] = rows
        return used

    def _pass_on(
        self,
        component: Component,
        layer: int,
        cell: Cell,
        used: dict[str, Set[Row]],
        *,
        closed: bool,
    ) -> Iterable[CellKey]:
        """Tell the cells below which of their rows are used; those for which that is new.

        Rows of the cell itself that are used are added to `used`, unless that is `closed`.
        """
        changed: dict[CellKey, None] = {}
        grew = True
        while grew:
            grew = False
            for clause in component.telling:
                time = layer - component.shifts[clause.head]
                if clause.point is not None and clause.point != time:
                    continue
                heads = used.get(clause.head)
                marks = self._marks(clause, time, cell, heads) if heads else None
                if marks and clause.within and not closed:
                    grew = _use_more(clause, marks, used) or grew
                self._tell(clause, time, layer, marks, changed)
        return changed

    def _marks(
        self, clause: PlacedClause, time: int, cell: Cell, heads: Set[Row]
    ) -> Sequence[Set[Row]] | None:
        """Per premise, the rows that some heads at a time rest on; None if there are none."""
        slices: list[IndexedSlice] = []
        for lookup in clause.lookups:
            if lookup.inside:
                slice_ = cell.slices.get(lookup.name, EMPTY)
            else:
                slice_ = self.model.read(lookup, lookup.time(time))
            if not slice_.rows and not lookup.negated:
                return None
            slices.append(slice_)
        return clause.compiled.mark(heads, slices)

    def _tell(
        self,
        clause: PlacedClause,
        time: int,
        layer: int,
        marks: Sequence[Set[Row]] | None,
        changed: dict[CellKey, None],
    ) -> None:
        """Enter the rows that a clause uses, head at a time, in the cells below."""
        cells = self.model.cells
        for i, lookup in enumerate(clause.lookups):
            if lookup.inside or lookup.component < 0:
                continue
            at = lookup.time(time)
            key = (lookup.component, NO_TIME if at is None else at + lookup.shift)
            below = cells.get(key)
            if below is None:
                continue
            reasons = below.used_by.setdefault(lookup.name, {})
            reason = (clause.number, i, layer)
            rows = marks[i] if marks else None
            if rows:
                if reasons.get(reason) != rows:
                    reasons[reason] = rows
                    changed[key] = None
            elif reasons.pop(reason, None) is not None:
                changed[key] = None

    def _prune(
        self, key: CellKey, component: Component, cell: Cell, used: dict[str, Set[Row]]
    ) -> None:
        model, layer = self.model, key[1]
        if component.input:
            self._prune_input(key, component, cell, used)
            return
        if layer == NO_TIME or layer >= LATE or (component.carrying and not cell.frozen):
            return
        before = cell.carried(component) if cell.frozen else 0
        if not used and (cell.frozen or model.is_final(component, layer)):
            model.count -= before
            del model.cells[key]
            return
        if component.window:
            return  # a row that went would change all longer windows when it comes again
        for name, slice_ in list(cell.slices.items()):
            other = component.follows.get(name)
            rows = used.get(name if other is None else other)
            if not rows:
                del cell.slices[name]
            elif other is None and len(rows) == len(slice_.rows):
                continue  # all of it is used
            elif not slice_.rows <= rows:
                cell.slices[name] = IndexedSlice(slice_.rows & rows)
        if cell.frozen:
            model.count += cell.carried(component) - before

    def _prune_input(
        self, key: CellKey, component: Component, cell: Cell, used: dict[str, Set[Row]]
    ) -> None:
        (name,) = component.grounds
        rows = used.get(name, set())
        before = len(cell.slices[name].rows)
        self.model.count -= before - len(rows)
        if not rows:
            del self.model.cells[key]
        elif len(rows) < before:
            cell.slices[name] = IndexedSlice(rows)


def _use_more(clause: PlacedClause, marks: Sequence[Set[Row]], used: dict[str, Set[Row]]) -> bool:
    """Add the marked rows of the cell itself to those that are used; whether any is new."""
    grew = False
    for lookup, rows in zip(clause.lookups, marks, strict=True):
        if lookup.inside and rows:
            known = used.get(lookup.name, set())
            if not rows <= known:
                used[lookup.name] = known | rows
                grew = True
    return grew
