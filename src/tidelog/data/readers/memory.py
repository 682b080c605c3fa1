"""Facts in memory: Python rows, Arrow tables, and anything that can become one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.data.schema import Schema, positions
from tidelog.data.ticks import GIVE_TICK, Ticks, fitting_tick
from tidelog.data.types import ANY_VALUE, arrow_type, common_type, fit
from tidelog.errors import DataError, warn_left_out
from tidelog.language.program import Type, Value

RowsLike: TypeAlias = "Iterable[tuple[Any, ...]] | pa.Table | Any"


@dataclass(frozen=True)
class Table:
    """Facts in memory: columns in the schema's order, time last, in ticks if `ticked`."""

    table: pa.Table
    origin: str
    ticked: bool
    places: Sequence[str] = ()  # where each row is, if that is known


def origin_of(predicate: str) -> str:
    """What messages call facts that were given in memory."""
    return f"facts of `{predicate}`"


def in_memory(schema: Schema, rows: RowsLike, ticks: Ticks | None) -> Table:
    """RowsLike, an Arrow table, or anything that can become one (pandas, polars)."""
    where = origin_of(schema.predicate)
    if hasattr(rows, "collect") and hasattr(rows, "lazy"):  # a LazyFrame of polars
        rows = rows.collect()
    if isinstance(rows, (str, bytes)):
        raise DataError(f"{where}: rows are tuples or a table, not text")
    if isinstance(rows, pa.Table):  # not by Arrow's protocol, whose names end at a NUL
        return _arranged(rows, schema, where)
    if hasattr(rows, "__arrow_c_stream__"):
        return _arranged(pa.table(rows), schema, where)
    if hasattr(rows, "columns") and hasattr(rows, "iloc"):
        return _arranged(pa.Table.from_pandas(rows, preserve_index=False), schema, where)
    if not isinstance(rows, Iterable) or isinstance(rows, Mapping):
        raise DataError(
            f"{where}: a list of tuples or dicts, a table or a data frame is expected, not"
            f" {type(rows).__name__}"
        )
    tuples: list[tuple[Any, ...]] = []
    for number, row in enumerate(rows, 1):
        if isinstance(row, Mapping):
            row = positioned(schema, row, number, {})
        values = tuple(row) if isinstance(row, (tuple, list)) else (row,)
        if len(values) != len(schema.names):
            raise DataError(
                f"{where}, row {number}: {len(values)} values for {len(schema.names)} columns"
                f" ({', '.join(schema.names)})"
            )
        tuples.append(values)
    return table_of(schema, tuples, None, where, ticks)


def positioned(
    schema: Schema, row: Mapping[str, Any], number: int, otherwise: Mapping[str, Any]
) -> tuple[Any, ...]:
    """The values of a dict in the schema's order; `otherwise` has those that may be left out."""
    row = {**otherwise, **row}
    if not schema.declared and len(row) == len(schema.names):
        # Columns without names come in the order in which they are written, time last.
        return tuple(row[key] for key in sorted(row, key=lambda key: key == schema.time))
    for name in schema.names:
        if name not in row:
            raise DataError(
                f"facts of `{schema.predicate}`, row {number}: no key `{name}`; there are"
                f" {', '.join(map(str, row)) or 'none'}"
            )
    return tuple(row[name] for name in schema.names)


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


def typed_table(facts: Table, schema: Schema, ticks: Ticks | None = None) -> pa.Table:
    """Facts under the names and of the types that SQL expects.

    Rows with a NULL or NaN in a column that a rule looks at are left out, with a warning.
    """
    table = facts.table
    if schema.time is not None and not facts.ticked:
        times = _ticked(table.column(-1), facts.origin, schema.time, ticks)
        table = table.set_column(table.num_columns - 1, table.column_names[-1], times)
    try:
        wanted = arrow_schema(schema)
        table = table if table.schema.equals(wanted) else table.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"{facts.origin}: {error}") from None
    rows = table.num_rows
    for i, column in enumerate(schema.columns):
        values, type_ = table.column(i), column.type or Type.TEXT
        if type_ is Type.FLOAT and pc.any(pc.is_nan(values)).as_py():
            values = pc.if_else(pc.is_nan(values), None, values)
        if type_ is Type.FLOAT:
            values = pc.add(values, 0.0)  # -0.0 and 0.0 are one value
        if values.null_count and i in schema.unread:
            values = pc.fill_null(values, ANY_VALUE[type_])
        if values is not table.column(i):
            table = table.set_column(i, table.field(i), values)
    if any(column.null_count for column in table.columns):
        table = table.drop_null()
    if table.num_rows < rows:
        warn_left_out(schema.predicate, rows - table.num_rows)
    return table


def _ticked(times: pa.ChunkedArray, where: str, name: str, ticks: Ticks | None) -> pa.ChunkedArray:
    """The ticks of a column of times that has a type of its own."""
    kind = times.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        if ticks is None:
            raise DataError(f"{where}: time column `{name}` holds timestamps; {GIVE_TICK}")
        unit = pa.timestamp("ns", tz=kind.tz) if getattr(kind, "unit", "") == "ns" else None
        since = times.cast(unit or pa.timestamp("us", tz=getattr(kind, "tz", None)))
        numbers = since.cast(pa.int64())
        if unit is not None:
            numbers = _divided(numbers, 1000)
        return _divided(pc.subtract(numbers, ticks.origin), ticks.length)
    if pa.types.is_null(kind) or (pa.types.is_integer(kind) and ticks is None):
        return times
    wanted = "whole numbers of ticks" if ticks is None else "timestamps"
    raise DataError(f"{where}: time column `{name}` is {kind}; times are {wanted}")


def _divided(numbers: pa.ChunkedArray, by: int) -> pa.ChunkedArray:
    """Whole numbers divided, rounded down."""
    quotient = pc.divide(numbers, by)
    over = pc.greater(pc.multiply(quotient, by), numbers).cast(pa.int64())
    return pc.subtract(quotient, over)


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
    return Table(pa.table(arrays, names=schema.sql_names()), origin, True, places or ())
