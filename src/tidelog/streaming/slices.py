"""The schedule tick by tick, in plain Python: what a wave does, for few facts at a time.

At input time tin each predicate P is computed at tin - phi(P), once, from the slices that are kept
of the others; a slice goes when no rule looks at it any more. A wave does the same for many ticks
and facts at once, and takes over when there are that many.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from typing import TypeAlias, assert_never

import pyarrow as pa

from tidelog.data.packed import columns, pack
from tidelog.data.types import arrow_type
from tidelog.language.program import Row, Type
from tidelog.logic.aggregate import Aggregate
from tidelog.logic.clause import AggregateOf, Clause, Parts, Premise, WindowOf
from tidelog.logic.core import Core, External, RuleSet, rules_of
from tidelog.streaming.algorithm import AnswerRows, RowsByTime
from tidelog.streaming.cells import (
    Lookup,
    PlacedClause,
    derive,
    in_order,
    never_changing,
    rigid_model,
)
from tidelog.streaming.columns import with_time
from tidelog.streaming.joins import EMPTY, MOST_PREMISES, IndexedSlice, chosen
from tidelog.streaming.schedule import Schedule
from tidelog.streaming.window_aggregates import WindowAggregate
from tidelog.streaming.window_counts import WindowCounts

# Ticks and facts of one push beyond which a wave is the better way.
MOST_TICKS = 50_000
MOST_FACTS = 60_000
MOST_AGGREGATE_FACTS = 20_000
# Facts kept after a wave up to which later pushes are taken tick by tick again.
MOST_KEPT = 60_000
# Ticks that answers may lie ahead of tin to be looked for tick by tick.
MOST_AHEAD = 60


def small(schedule: Schedule, ahead: int) -> bool:
    """Whether rules can be taken tick by tick: no explicit times, nothing far to look ahead."""
    deps = schedule.deps
    if any(pin > -math.inf for pin in schedule.pins.values()) or ahead > MOST_AHEAD:
        return False
    predicates = deps.core.predicates
    return all(len(clause.premises) <= MOST_PREMISES for clause in rules_of(deps.core)) and all(
        edge.offset is not None
        for edge in deps.edges
        if predicates[edge.head].temporal and predicates[edge.body].temporal
    )


SliceKey: TypeAlias = tuple[str, int]  # predicate and time
_State: TypeAlias = tuple[
    dict[SliceKey, IndexedSlice], int, dict[str, WindowCounts], dict[str, WindowAggregate]
]


class Slices:
    """The slices of some queries that are kept at an input time."""

    def __init__(self, schedule: Schedule, rigid: Mapping[str, set[Row]]) -> None:
        self.phi = schedule.phi
        deps = schedule.deps
        core = deps.core
        self.static = rigid_model(deps, never_changing(deps), rigid)
        self.cells: dict[SliceKey, IndexedSlice] = {}
        self.count = 0
        inputs = [p.name for p in core.inputs if p.temporal]
        self.chosen = {name: chosen(core.uses, name) for name in inputs}
        together = [s for names in deps.components for s in in_order(deps, names, self.phi)]
        place = {name: i for i, names in enumerate(together) for name in names}

        def lookup(clause: Clause, premise: Premise) -> Lookup:
            head, name = clause.head.predicate, premise.predicate
            offset = Lookup.of(premise).offset
            same = offset is not None and offset + self.phi[name] == self.phi[head]
            return Lookup.of(premise, inside=same and place[name] == place[head])

        self.windows: dict[str, WindowCounts] = {}
        self.aggregates: dict[str, WindowAggregate] = {}
        self.components: list[tuple[tuple[str, ...], list[PlacedClause]]] = []
        for names in together:
            if core.predicates[names[0]].temporal and not core.predicates[names[0]].input:
                clauses: list[PlacedClause] = []
                for name in names:
                    definition = core.definitions[name]
                    match definition:
                        case WindowOf():
                            self.windows[name] = WindowCounts(definition.over)
                        case AggregateOf():
                            self.aggregates[name] = _aggregate(name, definition, core)
                            continue
                        case RuleSet() | External():
                            pass
                        case _:
                            assert_never(definition)
                    clauses += (
                        PlacedClause(0, clause, tuple(lookup(clause, p) for p in clause.premises))
                        for clause in core.uses_for[name]
                    )
                self.components.append((names, clauses))
        # How many ticks before tin a slice is still looked at; those not listed are never kept.
        self.ticks_kept: dict[str, int] = {}
        for edge in deps.edges:
            if edge.first is not None:
                ticks = self.phi[edge.head] - edge.first - 1
                self.ticks_kept[edge.body] = max(self.ticks_kept.get(edge.body, ticks), ticks)
        self.queries = [q for q in deps.queries if core.predicates[q].temporal]

    def take(self, facts: Mapping[str, Mapping[int, Iterable[Row]]]) -> None:
        """New facts after tin."""
        for name, times in facts.items():
            for time, rows in times.items():
                useful = self.chosen[name](rows)
                if useful:
                    self._store(name, time, IndexedSlice(useful))

    def run(self, tin: int, to: int, low: int, high: int, *, stay: bool = False) -> AnswerRows:
        """Go on from tin, and give the answers between two times; with `stay`, only look."""
        answers: AnswerRows = {q: set() for q in self.queries}
        before = self._kept_as_it_is() if stay else None
        for now in range(tin + 1, to + 1):
            passing = self._derive(now)
            for query in self.queries:
                time = now - self.phi[query]
                if low <= time <= high:
                    rows = self.cells.get((query, time), EMPTY).rows
                    answers[query] |= with_time(rows, time)
            passing += [(name, now - ticks - 1) for name, ticks in self.ticks_kept.items()]
            for key in passing:
                gone = self.cells.pop(key, None)
                if gone is not None:
                    self.count -= len(gone.rows)
        if before is not None:
            self.cells, self.count, self.windows, self.aggregates = before
        return answers

    def _kept_as_it_is(self) -> _State:
        windows = {name: window.copy() for name, window in self.windows.items()}
        aggregates = {name: window.copy() for name, window in self.aggregates.items()}
        return dict(self.cells), self.count, windows, aggregates

    def _derive(self, now: int) -> list[tuple[str, int]]:
        """Compute what is due at an input time; the slices of it that no later one looks at."""
        passing: list[tuple[str, int]] = []
        for names, clauses in self.components:
            model = self._model(names, clauses, now)
            for name in names:
                slice_ = model.get(name)
                if slice_ is not None and slice_.rows:
                    time = now - self.phi[name]
                    self._store(name, time, slice_)
                    if name not in self.ticks_kept or time < now - self.ticks_kept[name]:
                        passing.append((name, time))
        return passing

    def _model(
        self, names: tuple[str, ...], clauses: list[PlacedClause], now: int
    ) -> dict[str, IndexedSlice]:
        """What a component holds at an input time."""
        aggregate = self.aggregates.get(names[0])
        if aggregate is not None:
            return {names[0]: IndexedSlice(self._gathered(aggregate, now - self.phi[names[0]]))}
        window = self.windows.get(names[0])
        if window is None:
            return derive(clauses, now, self.phi, self._read)
        (name,), phi = names, self.phi
        at_end = clauses[0]
        counted = at_end.lookups[0].name

        def there(tick: int) -> Set[Row]:
            return derive([at_end], tick + phi[name], phi, self._read).get(name, EMPTY).rows

        ticks = (time for known, time in self.cells if known == counted)
        return {name: IndexedSlice(window.at(now - phi[name], there, ticks))}

    def _gathered(self, window: WindowAggregate, tick: int) -> set[Row]:
        """The values of an aggregate at a tick."""
        source = window.aggregate.source

        def there(tick: int) -> Set[Row]:
            return self.cells.get((source, tick), EMPTY).rows

        return window.at(tick, there, (time for known, time in self.cells if known == source))

    def _read(self, lookup: Lookup, time: int | None) -> IndexedSlice:
        if time is None:
            return self.static[lookup.name]
        return self.cells.get((lookup.name, time), EMPTY)

    def _store(self, name: str, time: int, slice_: IndexedSlice) -> None:
        known = self.cells.get((name, time))
        if known is not None:
            self.count -= len(known.rows)
            slice_ = IndexedSlice(known.rows | slice_.rows)
        self.cells[name, time] = slice_
        self.count += len(slice_.rows)

    # As plain data, and as the tables of a wave

    def kept(self, *, inputs: bool) -> dict[str, RowsByTime]:
        """Slices of inputs or of derived predicates, by name and time."""
        kept: dict[str, RowsByTime] = {}
        for (name, time), slice_ in self.cells.items():
            if (name in self.chosen) is inputs:
                kept.setdefault(name, {})[time] = slice_.rows
        return kept

    def resume(self, facts: Mapping[str, Mapping[int, Set[Row]]]) -> None:
        for name, times in facts.items():
            for time, rows in times.items():
                self._store(name, time, IndexedSlice(rows))


def _aggregate(name: str, definition: AggregateOf, core: Core) -> WindowAggregate:
    """The running state of an aggregate, with the type of the numbers that it may add up."""
    aggregate = Aggregate(name, definition)
    types, made = core.predicates[aggregate.source].types, core.predicates[aggregate.name]
    numbers = made.types[-1]
    if aggregate.adds and aggregate.parts is not Parts.READ:
        numbers = types[aggregate.of]
    return WindowAggregate(aggregate, numbers, made.base)


def packed_table(types: Iterable[Type | None], times: Mapping[int, Set[Row]]) -> pa.Table:
    """Rows by time as a packed table."""
    kinds = [*map(arrow_type, types), pa.int64(), pa.int64()]
    names = [*columns(len(kinds) - 2), "c", "b"]
    values = list(zip(*pack(times), strict=True)) or [()] * len(kinds)
    return pa.table([pa.array(v, k) for v, k in zip(values, kinds, strict=True)], names=names)


__all__ = [
    "MOST_AGGREGATE_FACTS",
    "MOST_FACTS",
    "MOST_KEPT",
    "MOST_TICKS",
    "Slices",
    "packed_table",
    "small",
]
