"""Replaying updates: the answers at a time when the facts up to tin and some later ones are all."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from tidelog.analysis.containment import Ground
from tidelog.analysis.dependencies import Dependencies
from tidelog.data.packed import columns
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.plan import Plan, plan
from tidelog.evaluation.ranges import EMPTY, Range
from tidelog.language.program import Row
from tidelog.logic.core import Predicate


@dataclass
class Replays:
    """The rules as they are, over the facts up to tin and whatever is said to come after."""

    engine: Engine
    deps: Dependencies
    tin: int
    kept_after: int | None = None  # facts up to here are forgotten
    count: int = 0
    _seen: dict[tuple[frozenset[Ground], int], frozenset[Row]] = field(default_factory=dict)

    def answers(self, update: Iterable[Ground], at: int) -> frozenset[Row]:
        """The answers at a time after an update."""
        facts = frozenset(update)
        if (facts, at) not in self._seen:
            self.count += 1
            self._seen[facts, at] = self._evaluate(facts, at)
        return self._seen[facts, at]

    def _evaluate(self, facts: Collection[Ground], at: int) -> frozenset[Row]:
        (query,) = self.deps.queries
        inputs = self.deps.core.inputs
        given = {p.name: [f for f in facts if f.predicate == p.base] for p in inputs}
        for clock in (p for p in inputs if p.base in self.deps.core.program.clocks):
            given[clock.name] = self._start(clock, facts)
        data = {p.name: self._range(p, given[p.name]) for p in inputs if p.temporal}
        made = plan(self.deps, data, Range(at, at))
        tables = {p.name: f"replay_in{number}" for number, p in enumerate(inputs)}
        for predicate in inputs:
            self._fill(predicate, tables[predicate.name], given[predicate.name], made)
        writer = self.engine.evaluate(made, tables)
        if query not in made.tables:
            return frozenset()
        return frozenset(row[:-1] for row in self.engine.all(writer.rows(query)))

    def _start(self, clock: Predicate, facts: Iterable[Ground]) -> list[Ground]:
        """Where a clock starts if no fact up to tin has started it: at the first one after."""
        if not self._known(clock).empty:
            return []
        ticks = [fact.time for fact in facts if fact.time is not None]
        return [Ground(clock.base, (), min(ticks))] if ticks else []

    def _known(self, predicate: Predicate) -> Range:
        return self.engine.loaded[predicate.base].range & self._remembered(predicate)

    def _remembered(self, predicate: Predicate) -> Range:
        if self.kept_after is None or predicate.base in self.deps.core.program.clocks:
            return Range(-math.inf, self.tin)
        return Range(self.kept_after + 1, self.tin)

    def _range(self, predicate: Predicate, given: Iterable[Ground]) -> Range:
        range_ = self._known(predicate)
        for fact in given:
            range_ |= EMPTY if fact.time is None else Range(fact.time, fact.time)
        return range_

    def _fill(self, predicate: Predicate, table: str, given: Iterable[Ground], made: Plan) -> None:
        names = [*columns(len(predicate.types)), *(["t"] if predicate.temporal else [])]
        view = self.engine.loaded[predicate.base].view
        condition = ""
        if predicate.temporal:
            within = self._remembered(predicate) & made.ranges.get(predicate.name, EMPTY)
            low = "" if math.isinf(within.low) else f"t >= {within.low} AND "
            where = "FALSE" if within.empty else f"{low}t <= {within.high}"
            condition = f" WHERE {where}"
        self.engine.table(table, f"SELECT {', '.join(names) or '1 AS z'} FROM {view}{condition}")
        for fact in given:
            row = [*fact.args, *([fact.time] if predicate.temporal else [])]
            marks = ", ".join("?" for _ in row)
            self.engine.connection.execute(f"INSERT INTO {table} VALUES ({marks})", row)
