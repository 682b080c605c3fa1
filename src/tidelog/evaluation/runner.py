"""Running a plan's SQL on a DuckDB connection: tables, and the loops that recursion needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import duckdb
import pyarrow as pa

from tidelog.errors import DataError
from tidelog.evaluation.plan import Fill, Fixpoint
from tidelog.evaluation.sql import Writer

# Ticks that something which holds for ever may be written out on: 60 to a row, per object.
MOST_TICKS = 1_000_000_000


class Runner:
    """A connection with generated tables on it."""

    connection: duckdb.DuckDBPyConnection
    progress: Callable[[str], None]
    # What to do when something would hold at more ticks than can be written out.
    shorter = "ask for a shorter range, or for one without end"

    def table(self, name: str, select: str) -> None:
        self._create("TABLE", "VIEW", name, select)

    def view(self, name: str, select: str) -> None:
        self._create("VIEW", "TABLE", name, select)

    def _create(self, kind: str, other: str, name: str, select: str) -> None:
        create = f"CREATE OR REPLACE TEMP {kind} {name} AS {select}"
        try:
            self.connection.execute(create)
        except duckdb.CatalogException:
            # An earlier plan had a table of the other kind under this name.
            self.connection.execute(f"DROP {other} IF EXISTS {name}")
            self.connection.execute(create)

    def arrow(self, select: str) -> pa.Table:
        return self.connection.sql(select).to_arrow_table()

    def one(self, select: str) -> tuple[Any, ...]:
        (row,) = self.all(select)
        return row

    def all(self, select: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(select).fetchall()

    # Recursion

    def fixpoint(
        self, step: Fixpoint, writer: Writer, given: Mapping[str, str] | None = None
    ) -> None:
        """Iterate a recursive component; `given` names tables of facts that hold already."""
        for i, (predicate, table) in enumerate(zip(step.predicates, step.tables, strict=True)):
            self.table(table, writer.start(step, i))
            if given and table in given:
                self.table(f"{table}_start", writer.merged(predicate, table, given[table]))
                self.table(table, f"SELECT * FROM {table}_start")
        guards = {id(fill): self._guards(fill, writer, i) for i, fill in enumerate(step.fills)}
        if len(step.tables) == 1 and len(step.fills) == 1 and not step.repeat:
            (table,), (fill,) = step.tables, step.fills
            carried = self._fill(fill, writer, table, f"{table}_fill", guards[id(fill)])
            if fill.filter is None and not given:
                self.table(table, f"SELECT * FROM {carried}")
            else:  # what was not carried on still holds
                self.table(table, writer.merged(step.predicates[0], table, carried))
            return
        for table in step.tables:
            self.table(f"{table}_new", f"SELECT * FROM {table}")
        rounds = 0
        while True:
            rounds += 1
            self.progress(f"deriving {', '.join(p.name for p in step.predicates)}, round {rounds}")
            grew = False
            for i, (predicate, table) in enumerate(zip(step.predicates, step.tables, strict=True)):
                fills = [
                    self._fill(f, writer, f"{table}_new", f"{table}_fill{n}", guards[id(f)])
                    for n, f in enumerate(step.fills)
                    if f.predicate == predicate.name
                ]
                candidates = writer.candidates(step, i, fills)
                if candidates is None:
                    self.table(f"{table}_next", f"SELECT * FROM {table} WHERE FALSE")
                    continue
                self.table(f"{table}_maybe", candidates)
                self.table(f"{table}_next", writer.news(predicate, table, f"{table}_maybe"))
                grew = grew or bool(self.one(f"SELECT count(*) FROM {table}_next")[0])
            if not grew:
                return
            for predicate, table in zip(step.predicates, step.tables, strict=True):
                self.table(f"{table}_new", f"SELECT * FROM {table}_next")
                self.table(table, writer.merged(predicate, table, f"{table}_new"))

    def _check_size(self, fill: Fill, writer: Writer) -> None:
        range_ = writer.plan.ranges[fill.predicate]
        if not range_.empty and range_.high - range_.low > MOST_TICKS:
            raise DataError(
                f"`{fill.predicate}` may hold at each of {int(range_.high - range_.low)} ticks"
                f" ({fill.rule.origin}): {self.shorter}"
            )

    def _guards(self, fill: Fill, writer: Writer, number: int) -> list[tuple[str | None, int]]:
        """Pairs of a guard and a step, doubling, as far as anything can be carried."""
        range_ = writer.plan.ranges[fill.predicate]
        width = 0 if range_.empty else int(range_.high - range_.low)
        found: list[tuple[str | None, int]] = []
        step = fill.step
        guard = None
        while abs(step) <= width and not fill.ever:
            if fill.guard is not None:
                name = f"{writer.plan.tables[fill.predicate]}_guard{number}_{len(found)}"
                if guard is None:
                    self.table(name, writer.fill_guard(fill))
                else:
                    self.table(name, writer.fill_guard_twice(fill, guard, step // 2))
                guard = name
                if not self.one(f"SELECT count(*) FROM {guard}")[0]:
                    break
            found.append((guard, step))
            step *= 2
        return found

    def _fill(
        self,
        fill: Fill,
        writer: Writer,
        source: str,
        table: str,
        guards: list[tuple[str | None, int]],
    ) -> str:
        self.table(table, writer.fill_start(fill, source))
        if fill.ever:
            self._check_size(fill, writer)
            self.table(f"{table}_ever", writer.fill_ever(fill, table))
            return f"{table}_ever"
        for guard, step in guards:
            self.table(f"{table}_more", writer.fill_step(fill, table, guard, step))
            self.table(table, f"SELECT * FROM {table}_more")
        return table
