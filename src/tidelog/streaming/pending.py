"""Pending answers of an online stream: what each builds on, and what it waits for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tidelog.analysis.possible import any_pattern, pattern_name
from tidelog.language.program import Row, Value
from tidelog.logic.clause import Premise
from tidelog.logic.core import Core
from tidelog.logic.match import AnyTick
from tidelog.logic.windows import Windows
from tidelog.streaming.cell_model import CellModel
from tidelog.streaming.cells import NO_TIME, Lookup
from tidelog.streaming.tracked import Tracked


@dataclass(frozen=True)
class _Possible:
    """What may hold of a window whose cells are not there, by one of its names."""

    window: Tracked
    any: bool  # whether it is asked for any object, or for those that are known

    def rows(self, model: CellModel, tick: int, known: Mapping[int, Value]) -> set[Row]:
        """The objects for which enough ticks are known or to come, of those that are asked for."""
        over, arrived = self.window.over, int(model.tin) - self.window.after
        to_come = min(max(0, tick - arrived), over.ticks)
        if self.any:
            return {()} if to_come >= over.least else set()
        number, shift = model.graph.place[self.window.base]
        name = model.components[number].grounds[self.window.base]
        ticks = range(tick - over.ticks + 1, min(tick, arrived) + 1)
        slices = (model.slice(number, t + shift, name).rows for t in ticks)
        counts = Counter(
            row for rows in slices for row in rows if all(row[i] == v for i, v in known.items())
        )
        return {row for row, count in counts.items() if count + to_come >= over.least}


def _written_out(model: CellModel, core: Core) -> dict[str, _Possible]:
    """By their names in the possible program, the windows that tracked ones are made of."""
    known = {w.base: w for w in model.graph.tracked.values()}
    windows: dict[str, _Possible] = {}
    for name, predicate in core.predicates.items() if known else ():
        written = core.window_of.get(name)
        if written is None or name in known:
            continue
        tracked = known.get(Windows.of(core).of_a_tick(written).name)
        if tracked is not None:
            window = replace(tracked, over=written.over)
            ground = pattern_name(name, (None,) * len(predicate.types))
            windows[ground] = _Possible(window, any=False)
            windows[pattern_name(name, any_pattern(predicate))] = _Possible(window, any=True)
    return windows


class CellFacts:
    """The possible facts in the cells of a model."""

    def __init__(self, model: CellModel, core: Core) -> None:
        self.model = model
        self._windows = _written_out(model, core)
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
        window = self._windows.get(premise.predicate)
        if window is not None:
            assert tick is not None, "a window has a time"
            return window.rows(self.model, tick, dict(zip(positions, key, strict=True)))
        slice_ = self.model.read(self._lookup(premise.predicate), tick)
        if not positions:
            return slice_.rows
        if len(positions) == len(premise.args):
            return (key,) if key in slice_.rows else ()
        return slice_.index(positions).get(key if len(key) > 1 else key[0], ())

    def _lookup(self, name: str) -> Lookup:
        place = self.model.graph.place.get(name, (-1, 0))  # elsewhere: future, or never changing
        return self._lookups.get(name) or Lookup(name, 0, None, *place)

    def is_given(self, name: str, tick: int | None) -> bool:
        if name in self._windows:
            return False
        lookup = self._lookup(name)
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
