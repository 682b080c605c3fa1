"""The state in a checkpoint as tables, with the names that users know and a row for each tick."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.causes import Cause
from tidelog.checkpoints.reports import StateSize
from tidelog.data.durable import HERE
from tidelog.data.packed import unpack, unpack_sql
from tidelog.data.ticks import Ticks
from tidelog.data.types import sql_text
from tidelog.data.writers import csv_lines, stamped
from tidelog.errors import DataError
from tidelog.evaluation.database import NO_EXTENSIONS
from tidelog.evaluation.stretches import end_columns
from tidelog.language.program import TIME_COLUMN

# Kinds of state, in the order in which they are shown.
KINDS = ("input", "waiting", "derived", "answers", "intervals")


@dataclass(frozen=True)
class StateTable:
    """State of a predicate: its columns, and the time or `from` and `to`; ticks are not stamped."""

    predicate: str
    kind: str
    rows: pa.Table
    ends: int = 1  # how many of the last columns are ticks

    @property
    def name(self) -> str:
        return f"{self.predicate}.{self.kind}"


def merged(tables: Iterable[StateTable]) -> list[StateTable]:
    """Tables of the same predicate, kind and columns as one, each row once."""
    groups: dict[tuple[str, str, tuple[str, ...]], list[StateTable]] = {}
    for table in tables:
        key = table.predicate, table.kind, tuple(table.rows.column_names)
        groups.setdefault(key, []).append(table)
    made: list[StateTable] = []
    for (predicate, kind, names), some in groups.items():
        rows = pa.concat_tables([table.rows for table in some])
        if names:
            order = [(name, "ascending") for name in [*names[len(names) - some[0].ends :], *names]]
            rows = rows.group_by(list(names)).aggregate([]).select(list(names)).sort_by(order)
        made.append(StateTable(predicate, kind, rows, some[0].ends))
    return sorted(made, key=lambda t: (KINDS.index(t.kind), t.predicate, t.rows.column_names))


# On Spark: files of packed rows


def _reading(paths: Sequence[str]) -> str:
    listed = ", ".join(map(sql_text, paths))
    return f"read_parquet([{listed}], hive_partitioning = false, union_by_name = true)"


def packed_sizes(
    tables: Mapping[str, Mapping[str, Any]], parts: Sequence[Mapping[str, Any]], root: str
) -> list[StateSize]:
    """The sizes of state by predicate; the bytes of a file are shared out by rows."""
    sizes: dict[tuple[str, str], StateSize] = {}
    with duckdb.connect(config=NO_EXTENSIONS) as connection:
        for part in parts:
            paths = [os.path.join(root, part["folder"], name) for name, _, _ in part["files"]]
            total = sum(size for _, size, _ in part["files"])
            counted = _counted(connection, paths) if part["tables"] else _held(connection, paths)
            rows = sum(numbers[0] for numbers in counted.values())
            for tab, (n, facts, first, last) in counted.items():
                table = tables.get(str(tab), {"predicate": f"table {tab}", "kind": "derived"})
                key = table["predicate"], table["kind"]
                share = StateSize(*key, n, round(total * n / max(rows, 1)), facts, first, last)
                sizes[key] = _added(sizes[key], share) if key in sizes else share
    return sorted(sizes.values(), key=lambda size: (KINDS.index(size.kind), size.predicate))


def _counted(
    connection: duckdb.DuckDBPyConnection, paths: Sequence[str]
) -> dict[int, tuple[int, int, int, int]]:
    """By table: rows, facts, first and last tick."""
    numbers: dict[int, tuple[int, int, int, int]] = {}
    select = (
        "SELECT tab, c, count(*), CAST(sum(bit_count(b)) AS BIGINT), bit_or(b)"
        f" FROM {_reading(paths)} GROUP BY tab, c ORDER BY tab, c"
    )
    for tab, c, rows, facts, bits in connection.execute(select).fetchall():
        first = c + (bits & -bits).bit_length() - 1
        last = c + bits.bit_length() - 1
        before = numbers.get(tab, (0, 0, first, last))
        numbers[tab] = (before[0] + rows, before[1] + facts, before[2], max(before[3], last))
    return numbers


def _held(
    connection: duckdb.DuckDBPyConnection, paths: Sequence[str]
) -> dict[int, tuple[int, int, int, int]]:
    """The same of intervals that have not ended."""
    select = (
        "SELECT tab, count(*), count(*), min(first), max(last)"
        f" FROM {_reading(paths)} GROUP BY tab ORDER BY tab"
    )
    return {tab: tuple(n) for tab, *n in connection.execute(select).fetchall()}


def _added(one: StateSize, two: StateSize) -> StateSize:
    ends = [tick for tick in (one.first, one.last, two.first, two.last) if tick is not None]
    return StateSize(
        one.predicate,
        one.kind,
        one.rows + two.rows,
        one.bytes + two.bytes,
        one.facts + two.facts,
        min(ends, default=None),
        max(ends, default=None),
    )


def unpacked_tables(
    tables: Mapping[str, Mapping[str, Any]], parts: Sequence[Mapping[str, Any]], root: str
) -> Iterator[StateTable]:
    """The state of some parts as tables, a row for each tick at which a fact holds."""
    with duckdb.connect(config=NO_EXTENSIONS) as connection:
        for part in parts:
            paths = [os.path.join(root, part["folder"], name) for name, _, _ in part["files"]]
            if not paths:
                continue
            tabs = connection.execute(f"SELECT DISTINCT tab FROM {_reading(paths)}").fetchall()
            for (tab,) in sorted(tabs):
                table = tables[str(tab)]
                slots, names = table["slots"], table["columns"]
                rows = f"(SELECT * FROM {_reading(paths)} WHERE tab = {tab}) AS p"
                if not part["tables"]:
                    select = f"SELECT {', '.join([*slots, 'first', 'last'])} FROM {rows}"
                    names, ends = [*names, *end_columns(names)], 2
                elif table["temporal"]:
                    select, ends = unpack_sql(slots, rows), 1
                    names = [*names, TIME_COLUMN]
                else:
                    select, ends = f"SELECT {', '.join(slots) or 'true'} FROM {rows}", 0
                made = connection.sql(select).to_arrow_table()
                yield StateTable(
                    table["predicate"], table["kind"], _renamed(made, names or ["holds"]), ends
                )


def _renamed(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Columns under names that are all different."""
    taken: list[str] = []
    for name in names:
        chosen, n = name, 2
        while chosen in taken:
            chosen, n = f"{name}{n}", n + 1
        taken.append(chosen)
    return rows.rename_columns(taken)


# In process: plain data of a snapshot


def snapshot_tables(
    names: Mapping[str, Mapping[str, Any]], state: Mapping[str, Any]
) -> Iterator[StateTable]:
    """The state in a snapshot as tables; `names` says what internal names stand for."""
    for name, times in state["waiting"].items():
        yield _table({**names.get(name, {}), "predicate": name, "kind": "waiting"}, _at(times))
    for query, open_ in state.get("stretches", {}).items():
        told = names.get(query, {})
        rows = [(*args, first, last) for args, first, last, _ in open_]
        yield _table({**told, "predicate": query, "kind": "intervals"}, rows, 2)
    for name, kind, rows in _kept(state["algorithm"] or {}):
        told = {"predicate": name, "kind": "derived", **names.get(name, {})}
        yield _table(told if kind is None else {**told, "kind": kind}, rows)


def _kept(part: Mapping[str, Any]) -> Iterator[tuple[str, str | None, list[tuple[Any, ...]]]]:
    """By internal name what an algorithm keeps: rows that end with their tick."""
    for inner in (name for name in ("aggregates", "rest") if part.get(name)):
        yield from _kept(part[inner])
    blocking = "few" not in part and "carried" not in part
    for name, times in part.get("facts", {}).items():
        yield name, "input", [tuple(row) for row in times] if blocking else _at(times)
    for key in ("few", "carried"):
        for name, times in (part.get(key) or {}).items():
            yield name, None, _at(times)
    for name, table in part.get("slices", {}).items():
        packed = zip(*table["values"], strict=True)
        rows = [(*row, tick) for tick, some in unpack(packed).items() for row in some]
        yield name, None, rows
    given = part.get("given", {})
    known = given.items() if isinstance(given, dict) else ((q, _given(t, r)) for q, t, r in given)
    for query, answers in known:
        yield query, "answers", [tuple(row) for row in answers]


def _at(times: Iterable[tuple[int, list[list[Any]]]]) -> list[tuple[Any, ...]]:
    return [(*row, time) for time, rows in times for row in rows]


def _given(time: int | None, rows: list[list[Any]]) -> list[list[Any]]:
    return rows if time is None else [[*row, time] for row in rows]


def _table(told: Mapping[str, Any], rows: Sequence[tuple[Any, ...]], ends: int = 1) -> StateTable:
    width = len(rows[0]) if rows else len(told.get("columns", ())) + ends
    columns = list(told.get("columns", ()))
    if width == len(columns):  # answers of a query without a time
        ends = 0
    if len(columns) != width - ends:
        columns = [f"a{i}" for i in range(1, width - ends + 1)]
    times = [TIME_COLUMN] if ends == 1 else list(end_columns(columns))[:ends]
    values = [pa.array([row[i] for row in rows]) for i in range(width)] if rows else []
    if not rows:
        return StateTable(told["predicate"], told["kind"], pa.table({}), ends)
    made = pa.Table.from_arrays(values, names=[str(i) for i in range(width)])
    return StateTable(told["predicate"], told["kind"], _renamed(made, [*columns, *times]), ends)


def snapshot_sizes(tables: Iterable[StateTable]) -> list[StateSize]:
    """The sizes of state by predicate; bytes are those of the values as they are written."""
    sizes: dict[tuple[str, str], StateSize] = {}
    for table in tables:
        rows = table.rows
        if not rows.num_rows:
            continue
        ticks = [t for c in rows.columns[rows.num_columns - table.ends :] for t in c.to_pylist()]
        bytes_ = sum(map(len, csv_lines(rows)))
        key, n = (table.predicate, table.kind), rows.num_rows
        ends = min(ticks, default=None), max(ticks, default=None)
        size = StateSize(*key, n, bytes_, n, *ends)
        sizes[key] = _added(sizes[key], size) if key in sizes else size
    return sorted(sizes.values(), key=lambda size: (KINDS.index(size.kind), size.predicate))


# Writing


def write_tables(
    tables: Iterable[StateTable], target: str, format_: str, ticks: Ticks | None
) -> dict[str, int]:
    """Write a file for each table into a new folder; by its name, how many rows it has."""
    if os.path.exists(target) and (not os.path.isdir(target) or os.listdir(target)):
        raise DataError(
            f"{target} is there already and not empty: name a new folder", code=Cause.SINK_TAKEN
        )
    try:
        os.makedirs(target, exist_ok=True)
        written: dict[str, int] = {}
        for table in tables:
            rows = table.rows
            if not rows.num_rows:
                continue
            if ticks is not None and table.ends:
                rows = stamped(rows, table.ends, ticks)
            name, n = table.name, 2
            while f"{name}.{format_}" in written:
                name, n = f"{table.name}{n}", n + 1
            _write(rows, os.path.join(target, f"{name}.{format_}"), format_)
            written[f"{name}.{format_}"] = rows.num_rows
        HERE.sync_tree(target)
    except OSError as error:
        raise DataError(f"{target} cannot be written: {error.strerror or error}") from None
    return written


def _write(rows: pa.Table, path: str, format_: str) -> None:
    if format_ == "parquet":
        pq.write_table(rows, path, compression="zstd")
        return
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.writelines(f"{line}\n" for line in csv_lines(rows))
