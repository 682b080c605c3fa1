"""One fact of a program over the facts of an engine: what may be in a proof of it."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import duckdb

from tidelog.analysis.containment import Ground
from tidelog.analysis.dependencies import Dependencies
from tidelog.analysis.passes import passes
from tidelog.data.packed import columns
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.goal_directed.model import IN_MEMORY, FactModel
from tidelog.evaluation.goal_directed.values import Values, conditions, needed_values
from tidelog.evaluation.plan import Plan, Unbounded, plan
from tidelog.evaluation.ranges import ALWAYS, EMPTY, Range
from tidelog.evaluation.timeline import Limit, evaluate, history
from tidelog.language.program import Value
from tidelog.logic.core import Predicate
from tidelog.logic.match import IndexedRows
from tidelog.logic.windows import takes_many_clauses, write_out


@dataclass(frozen=True)
class Goal:
    """One fact of a program over the facts of an engine, and what may be in a proof of it.

    `more` are input facts to be taken as given beside those loaded, and only facts up to the tick
    `until` count among the latter. At the ticks `around`, premises are known even of rules that
    cannot fire there for want of facts.
    """

    engine: Engine
    fact: Ground
    joined: bool = True
    more: tuple[Ground, ...] = ()
    until: int | None = None
    around: Range = EMPTY

    @cached_property
    def deps(self) -> Dependencies:
        deps = passes(self.engine.typed, [self.fact.predicate]).dependencies
        # The timeline, where recursion may lead, works with clauses alone.
        if deps.recursive:
            return deps.written_out
        windows = deps.core.windows
        core = write_out(deps.core, lambda name: not takes_many_clauses(windows[name].over))
        return replace(deps, core=core)

    @cached_property
    def values(self) -> dict[str, tuple[Values, ...]]:
        # Facts that are not loaded may join with anything.
        rigid_known = self.joined and all(fact.time is not None for fact in self.more)
        return needed_values(self.deps.core, self.fact, self.engine if rigid_known else None)

    def plan(self, within: Range = ALWAYS) -> Plan:
        """The plan of the goal; raises Unbounded where it has no end."""
        data: dict[str, Range] = {}
        for predicate in self.deps.core.inputs:
            if predicate.temporal:
                range_ = self.engine.loaded[predicate.base].range
                if self.until is not None:
                    range_ = range_ & Range(-math.inf, self.until)
                range_ = range_ | self.around
                for fact in self.more:
                    if fact.predicate == predicate.base and fact.time is not None:
                        range_ = range_ | Range(fact.time, fact.time)
                data[predicate.name] = range_
        time = self.fact.time
        # Without a time of its own a goal may still depend on all times.
        asked = self.engine.span if time is None else Range(time, time)
        return plan(self.deps, data, asked, None, within)

    def evaluate(self, plan: Plan) -> FactModel:
        """The facts of the plan's predicates that can matter for the goal."""
        tables: dict[str, str] = {}
        for number, predicate in enumerate(self.deps.core.inputs):
            tables[predicate.name] = f"goal_in{number}"
            self._cut(predicate, tables[predicate.name], plan)
        writer = self.engine.evaluate(plan, tables)
        return FactModel(self.engine, self.deps.core, {**writer.plan.tables, **tables})

    def _cut(self, predicate: Predicate, table: str, plan: Plan) -> None:
        names = [*columns(len(predicate.types)), *(["t"] if predicate.temporal else [])]
        view = self.engine.loaded[predicate.base].view
        where, bound = conditions(self.values.get(predicate.name, ()))
        if predicate.temporal:
            range_ = plan.ranges[predicate.name]
            if self.until is not None:
                range_ = range_ & Range(-math.inf, self.until)
            where.append("FALSE" if range_.empty else f"t BETWEEN {range_.low} AND {range_.high}")
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        chosen = ", ".join(names) or "1 AS z"
        select = f"SELECT {chosen} FROM {view}{condition}"
        more = [fact for fact in self.more if fact.predicate == predicate.base]
        run = self.engine.connection.execute
        for kind in ("TABLE", "VIEW"):
            with suppress(duckdb.CatalogException):  # an earlier goal had one of the other kind
                run(f"DROP {kind} IF EXISTS {table}")
        if not bound and not more:  # nothing but times to choose by: copying would not pay
            run(f"CREATE TEMP VIEW {table} AS {select}")
            return
        run(f"CREATE TEMP TABLE {table} AS {select}", bound)
        for fact in more:
            row = [*fact.args, *([fact.time] if predicate.temporal else [])] or [1]
            run(f"INSERT INTO {table} VALUES ({', '.join('?' for _ in row)})", row)


def on_timeline(engine: Engine, deps: Dependencies, within: Range, limit: Limit) -> FactModel:
    """All facts at some ticks, for programs whose derivations have no end."""
    given = history(engine, deps.core)
    derived = [name for name, p in deps.core.predicates.items() if not p.input]
    lines = evaluate(deps.core, given, derived, within, limit)
    facts = {**given, **{name: line.rows for name, line in lines.items()}}
    rows: dict[str, IndexedRows[Value] | None] = {
        name: IndexedRows(sorted(row if t is None else (*row, t) for row, t in some))
        for name, some in facts.items()
    }
    return FactModel(engine, deps.core, {}, within, _held=rows)


def whole_model(engine: Engine, deps: Dependencies, asked: Range, limit: Limit) -> FactModel:
    """All facts at some ticks that the queries of `deps` rest on."""
    try:
        plan = engine.plan_core(deps.core, deps.queries, asked)
    except Unbounded:
        return on_timeline(engine, deps, asked, limit)
    writer = engine.evaluate(plan)
    tables = {**plan.inputs, **writer.plan.tables}
    return FactModel(engine, deps.core, tables, in_memory=10 * IN_MEMORY)
