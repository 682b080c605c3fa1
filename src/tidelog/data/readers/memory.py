"""Facts in memory: Python rows, Arrow tables, and anything that can become one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.data.schema import Schema, positions
from tidelog.data.ticks import Ticks, fitting_tick
from tidelog.data.types import arrow_type, common_type, fit
from tidelog.errors import DataError
from tidelog.language.program import Type, Value

RowsLike: TypeAlias = "Iterable[tuple[Any, ...]] | pa.Table | Any"


@dataclass(frozen=True)
class Table:
    """Facts in memory: columns in the schema's order, time last, in ticks if `ticked`."""

    table: pa.Table
    origin: str
    ticked: bool


def in_memory(schema: Schema, rows: RowsLike, ticks: Ticks | None) -> Table:
    """RowsLike, an Arrow table, or anything that can become one (pandas, polars)."""
    where = f"facts of `{schema.predicate}`"
    if isinstance(rows, (str, bytes)):
        raise DataError(f"{where}: rows are tuples or a table, not text")
    if isinstance(rows, pa.Table):  # not by Arrow's protocol, whose names end at a NUL
        return _arranged(rows, schema, where)
    if hasattr(rows, "__arrow_c_stream__"):
        return _arranged(pa.table(rows), schema, where)
    if hasattr(rows, "columns") and hasattr(rows, "iloc"):
        return _arranged(pa.Table.from_pandas(rows, preserve_index=False), schema, where)
    tuples: list[tuple[Any, ...]] = []
    for number, row in enumerate(rows, 1):
        values = tuple(row) if isinstance(row, (tuple, list)) else (row,)
        if len(values) != len(schema.names):
            raise DataError(
                f"{where}, row {number}: {len(values)} values for {len(schema.names)} columns"
                f" ({', '.join(schema.names)})"
            )
        tuples.append(values)
    return table_of(schema, tuples, None, where, ticks)


def _arranged(table: pa.Table, schema: Schema, where: str) -> Table:
    """The columns of a table in the schema's order, under names that no user chose."""
    chosen = positions(table.column_names, schema, where)
    if not chosen:
        return table_of(schema, [()] * table.num_rows, None, where, None)
    return Table(table.select(chosen).rename_columns(schema.sql_names()), where, False)


@lru_cache(1_000)
def arrow_schema(schema: Schema) -> pa.Schema:
    """The columns of an input's facts, under the names and of the types that SQL expects."""
    types = [arrow_type(column.type) for column in schema.columns]
    types += [pa.int64()] if schema.time is not None or not types else []
    return pa.schema(zip(schema.sql_names(), types, strict=True))


def typed_table(facts: Table, schema: Schema) -> pa.Table:
    """Facts under the names and of the types that SQL expects, without rows that have a NULL."""
    try:
        wanted = arrow_schema(schema)
        table = facts.table
        table = table if table.schema.equals(wanted) else table.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"{facts.origin}: {error}") from None
    for i, column in enumerate(schema.columns):
        if column.type is Type.FLOAT:
            zeros = pc.add(table.column(i), 0.0)  # -0.0 and 0.0 are one value
            table = table.set_column(i, table.field(i), zeros)
    return table.drop_null() if any(column.null_count for column in table.columns) else table


def table_of(
    schema: Schema,
    rows: list[tuple[Any, ...]],
    places: list[str] | None,
    origin: str,
    ticks: Ticks | None,
) -> Table:
    """Python values as an Arrow table of the schema's types; `places` says where each row is."""
    arrays: list[pa.Array] = []
    for i, name in enumerate(schema.names):
        values = [row[i] for row in rows]
        is_time = schema.time is not None and i == len(schema.columns)
        type_ = Type.INT if is_time else schema.columns[i].type or common_type(values)
        converted: list[Value | None] = []
        for number, value in enumerate(values):
            try:
                if is_time:
                    converted.append(None if value is None else fitting_tick(value, ticks))
                else:
                    converted.append(fit(value, type_))
            except ValueError as problem:
                where = places[number] if places else f"{origin}, row {number + 1}"
                raise DataError(f"{where}: column `{name}`: {problem}") from None
        arrays.append(pa.array(converted, arrow_type(type_)))
    arrays = arrays or [pa.array([1] * len(rows), pa.int64())]
    return Table(pa.table(arrays, names=schema.sql_names()), origin, True)
