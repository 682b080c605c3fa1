"""Pending answers of an online stream: what each builds on, and what it waits for."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tidelog.language.program import Row
from tidelog.logic.clause import Premise
from tidelog.logic.match import AnyTick
from tidelog.streaming.cell_model import CellModel
from tidelog.streaming.cells import NO_TIME


class CellFacts:
    """The possible facts in the cells of a model."""

    def __init__(self, model: CellModel) -> None:
        self.model = model
        self._lookups = {
            lookup.name: lookup
            for component in model.graph.components
            for stage in component.stages
            for clause in (*stage.possible, *stage.certain)
            for lookup in clause.lookups
        }

    def rows(
        self, premise: Premise, tick: int | AnyTick | None, positions: tuple[int, ...], key: Row
    ) -> Iterable[Row]:
        assert not isinstance(tick, AnyTick), "clauses with a free time have no cells"
        slice_ = self.model.read(self._lookups[premise.predicate], tick)
        if not positions:
            return slice_.rows
        if len(positions) == len(premise.args):
            return (key,) if key in slice_.rows else ()
        return slice_.index(positions).get(key if len(key) > 1 else key[0], ())

    def is_given(self, name: str, tick: int | None) -> bool:
        lookup = self._lookups[name]
        if lookup.component < 0 or self.model.graph.components[lookup.component].input:
            return True
        layer = NO_TIME if tick is None else tick + lookup.shift
        cell = self.model.cells.get((lookup.component, layer))
        # What is carried on stands for what it rests on.
        return cell is not None and cell.frozen

    def is_settled(self, predicate: str, tick: int | None) -> bool:
        return False

    def may_come(self, tick: int) -> bool:
        return tick > self.model.tin

    def decided_at(self, query: str, time: int) -> int | None:
        settled = self.model.graph.deps.settled(query, time)
        return None if math.isinf(settled) else int(settled)
