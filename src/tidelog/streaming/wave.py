"""The wave: one pure step from state and new facts to answers and new state, over packed SQL.

`(state, new facts, from tin, to tin) -> (answers, new state)`: each predicate is computed once, on
the ticks that the input time newly settles, from what is kept of the others. In process the new
state is all that is kept; where state lies in files it is the new slices only (`fresh`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa

from tidelog.analysis.core import Predicate
from tidelog.evaluation.plan import Derive, Fixpoint, Plan, Scan
from tidelog.evaluation.ranges import EMPTY, Range
from tidelog.evaluation.runner import Runner
from tidelog.evaluation.sql import TEXTS, Writer, chunk, narrowed
from tidelog.language.program import TIME_MAX
from tidelog.streaming.schedule import Schedule


@dataclass(frozen=True)
class Waved:
    """What a wave gives: answers by query, and the kept slices by table.

    Of a `fresh` wave both are packed, and the slices are those that were not there before.
    """

    answers: dict[str, pa.Table]
    state: dict[str, pa.Table]


class Wave(Runner):
    """Runs waves of one schedule on a connection of its own."""

    shorter = "a tick lies that far ahead of those before it: leave its facts out"

    def __init__(
        self,
        schedule: Schedule,
        connection: duckdb.DuckDBPyConnection,
        progress: Callable[[str], None] = lambda _: None,
        own: Callable[[Predicate, str], str] | None = None,
    ) -> None:
        self.own = own  # see Writer.own
        self.schedule = schedule
        self.connection = connection
        self.progress = progress
        writer = Writer(schedule.plan)
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {TEXTS} (i BIGINT, v VARCHAR)")
        for text, i in writer.texts.items():
            self.connection.execute(f"INSERT INTO {TEXTS} VALUES (?, ?)", [i, text])

    def run(
        self,
        state: Mapping[str, pa.Table | str],
        facts: Mapping[str, str],
        start: int,
        tin: int,
        to: int,
        emit: Range,
        *,
        fresh: bool = False,
    ) -> Waved:
        """One wave; `facts` names a table of new facts (or all rigid ones) per input.

        Facts that are packed already go by the name of their scan. `start` is the input time the
        schedule began before, `emit` the answer times wanted.
        """
        schedule = self.schedule
        ranges = schedule.ranges(tin, to, start)
        data = {name: r for name, r in ranges.items() if schedule.deps.core.predicates[name].input}
        plan = replace(schedule.plan, ranges=ranges, data=data)
        writer = Writer(plan)
        writer.own = self.own
        for name, table in plan.inputs.items():
            if name in facts:
                self.view(table, f"SELECT * FROM {facts[name]}")
        given: dict[str, str] = {}
        for table, rows in state.items():
            if isinstance(rows, str):  # a table that is there already
                given[table] = rows
            else:
                self.connection.register(f"{table}_kept", rows)
                given[table] = f"{table}_kept"
        kept: dict[str, pa.Table] = {}
        for step in plan.steps:
            match step:
                case Scan():
                    new = self._scan(step, writer, facts, given)
                    if step.predicate.temporal:
                        narrow = narrowed(step.predicate, step.columns)
                        first = self.schedule.kept_from(step.name, to, start)
                        first = to + 1 if first is None else min(first, to + 1)
                        table = new if fresh else step.name
                        self._keep(narrow, step.name, table, first, None, kept, writer)
                case Derive():
                    self._derive(step, writer, given)
                    self._keep_derived(
                        step.predicate, step.table, start, tin, to, kept, writer, fresh
                    )
                case Fixpoint():
                    self.fixpoint(step, writer, given)
                    for predicate, table in zip(step.predicates, step.tables, strict=True):
                        self._keep_derived(predicate, table, start, tin, to, kept, writer, fresh)
        answers = self._answers(plan, start, tin, to, emit, fresh)
        for table in given.values():
            self.connection.unregister(table)  # does nothing to a table of the connection's own
        return Waved(answers, kept)

    def _scan(
        self, step: Scan, writer: Writer, facts: Mapping[str, str], given: Mapping[str, str]
    ) -> str:
        """New facts and kept ones together; the table of the new ones is returned."""
        self.progress(f"packing {step.predicate.source}")
        packed = facts.get(step.name)
        new = writer.scan(step) if packed is None else f"SELECT * FROM {packed}"
        if step.name not in given:
            self.table(step.name, new)
            return step.name
        self.table(f"{step.name}_now", new)
        narrow = narrowed(step.predicate, step.columns)
        self.table(step.name, writer.merged(narrow, f"{step.name}_now", given[step.name]))
        return f"{step.name}_now"

    def _derive(self, step: Derive, writer: Writer, given: Mapping[str, str]) -> None:
        self.progress(f"deriving {step.predicate.name}")
        if not step.predicate.temporal:
            self.table(step.table, writer.derive(step))
            return
        now = writer.union(step.predicate, step.joins, writer.clip(step.predicate))
        if step.table not in given:
            self.table(step.table, now)
            return
        self.table(f"{step.table}_now", now)
        names = ", ".join(writer.names(step.predicate))
        # Kept slices are older than new ones: both together hold every bit once.
        self.view(
            step.table,
            f"SELECT {names} FROM {given[step.table]}"
            f" UNION ALL SELECT {names} FROM {step.table}_now",
        )

    def _keep_derived(
        self,
        predicate: Predicate,
        table: str,
        start: int,
        tin: int,
        to: int,
        kept: dict[str, pa.Table],
        writer: Writer,
        fresh: bool,
    ) -> None:
        if not predicate.temporal:
            return
        first = self.schedule.kept_from(table, to, start)
        known = self.schedule.frontier(predicate.name, tin, start) if fresh else None
        if known is not None and first is not None:
            first = max(first, known + 1)
        self._keep(predicate, table, table, first, known, kept, writer)

    def _keep(
        self,
        predicate: Predicate,
        name: str,
        table: str,
        first: int | None,
        known: int | None,
        kept: dict[str, pa.Table],
        writer: Writer,
    ) -> None:
        """What of a table later waves look at: from `first` on, and pinned ticks after `known`."""
        names = ", ".join(writer.names(predicate))
        parts: list[str] = []
        if first is not None:
            clip = Range(max(first, -TIME_MAX), TIME_MAX)
            rows = f"SELECT {names} FROM {table} WHERE c >= {chunk(int(clip.low))}"
            parts.append(writer.merge(predicate, [rows], clip))
        for tick in sorted(self.schedule.pinned.get(name, ())):
            if (first is None or tick < first) and (known is None or tick > known):
                clip = Range(tick, tick)
                rows = f"SELECT {names} FROM {table} WHERE c = {chunk(tick)}"
                parts.append(writer.merge(predicate, [rows], clip))
        if parts:
            rows_ = self.arrow(writer.merge(predicate, parts, None))
            if rows_.num_rows:
                kept[name] = rows_

    def _answers(
        self, plan: Plan, start: int, tin: int, to: int, emit: Range, packed: bool
    ) -> dict[str, pa.Table]:
        """Answers at the times that this wave settles."""
        found: dict[str, pa.Table] = {}
        for query in plan.deps.queries:
            if query in self.schedule.phi:
                low = self.schedule.frontier(query, tin, start) + 1
                high = self.schedule.frontier(query, to, start)
                asked = Range(low, high) & emit if low <= high else EMPTY
                writer = Writer(replace(plan, asked=asked))
                select = writer.answers(query) if packed else writer.rows(query)
                found[query] = self.arrow(select)
                continue
            # A rigid query is answered once, when what it draws on is known.
            known = self.schedule.pins[query] <= to and (
                tin == start or tin < self.schedule.pins[query]
            )
            rows = Writer(plan).rows(query)
            found[query] = self.arrow(rows if known else f"SELECT * FROM ({rows}) AS r LIMIT 0")
        return found


def bits(table: pa.Table) -> int:
    """How many facts a packed table holds."""
    import numpy as np

    return int(np.bitwise_count(table.column("b").to_numpy()).sum())
