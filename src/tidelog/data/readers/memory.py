"""Facts in memory: Python rows, Arrow tables, and anything that can become one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import lru_cache
from os import PathLike
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.data.numbers import EXACT, NO_FLOAT, is_float, not_float
from tidelog.data.schema import Schema, positions
from tidelog.data.ticks import GIVE_TICK, Ticks, TimeType, fitting_tick, micros, unfit_time
from tidelog.data.types import ANY_VALUE, arrow_type, common_type, fit, is_missing
from tidelog.errors import DataError, first_line, warn_left_out
from tidelog.language.program import Type, Value

RowsLike: TypeAlias = "Iterable[tuple[Any, ...]] | pa.Table | Any"


@dataclass(frozen=True)
class Table:
    """Facts in memory: columns in the schema's order, time last, in ticks if `ticked`."""

    table: pa.Table
    origin: str
    ticked: bool
    places: Sequence[str] = ()  # where each row is, if that is known
    time: TimeType = TimeType.TIMESTAMP  # the type of times that are in ticks by now


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
        return _arranged(rows, schema, where, ticks)
    if hasattr(rows, "columns") and hasattr(rows, "iloc"):
        return _of_pandas(rows, schema, where, ticks)
    if hasattr(rows, "__arrow_c_stream__"):
        try:
            table = pa.table(rows)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise DataError(f"{where}: {first_line(error)}") from None
        return _arranged(table, schema, where, ticks)
    if not isinstance(rows, Iterable) or isinstance(rows, Mapping):
        raise DataError(
            f"{where}: a list of tuples or dicts, a table or a data frame is expected, not"
            f" {type(rows).__name__}"
        )
    tuples: list[tuple[Any, ...]] = []
    rows = list(rows)
    keys = {key for row in rows if isinstance(row, Mapping) for key in row}
    # A key that some row has is a missing value of the others, as in lines of JSON.
    blank = {name: None for name in schema.names if schema.declared and name in keys}
    for number, row in enumerate(rows, 1):
        if isinstance(row, Mapping):
            row = positioned(schema, row, number, blank)
        values = tuple(row) if isinstance(row, (tuple, list)) else (row,)
        if len(values) != len(schema.names):
            is_path = isinstance(row, (str, PathLike))
            remedy = "; for a file or folder give its path alone, in no list" if is_path else ""
            raise DataError(
                f"{where}, row {number}: {len(values)} values for {len(schema.names)} columns"
                f" ({', '.join(schema.names)}){remedy}"
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


def _arranged(table: pa.Table, schema: Schema, where: str, ticks: Ticks | None) -> Table:
    """The columns of a table in the schema's order, under names that no user chose."""
    chosen = positions(table.column_names, schema, where)
    if not chosen:
        return table_of(schema, [()] * table.num_rows, None, where, None)
    columns = [table.column(i) for i in chosen]
    if schema.time is not None and ticks is not None:
        columns[-1] = _moments(columns[-1], where, schema.time)
    return Table(pa.table(columns, names=schema.sql_names()), where, False)


def _moments(times: pa.ChunkedArray, where: str, name: str) -> pa.ChunkedArray:
    """Times as timestamps where they are texts such as CSV has; others as they are."""
    if pa.types.is_dictionary(times.type):
        times = times.cast(times.type.value_type)
    if not _is_text(times.type):
        return times
    moments: list[int | None] = []
    for number, text in enumerate(times.to_pylist(), 1):
        try:
            moments.append(micros(text) if text else None)
        except ValueError as problem:
            raise DataError(f"{where}, row {number}: column `{name}`: {problem}") from None
    stamps = pa.array(moments, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    return pa.chunked_array([stamps])


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)


def _of_pandas(frame: Any, schema: Schema, where: str, ticks: Ticks | None) -> Table:
    """The columns of a pandas frame that the schema has; others may hold anything."""
    chosen = positions([str(name) for name in frame.columns], schema, where)
    if not chosen:
        return table_of(schema, [()] * len(frame), None, where, None)
    columns: list[Any] = []
    for i, (name, position) in enumerate(zip(schema.names, chosen, strict=True)):
        type_ = schema.columns[i].type if i < len(schema.columns) else _time_type(ticks)
        columns.append(_of_series(frame.iloc[:, position], type_, name, where))
    named = pa.table(columns, names=list(schema.names))
    return _arranged(named, replace(schema, declared=False), where, ticks)


def _time_type(ticks: Ticks | None) -> Type | None:
    return Type.INT if ticks is None else None


def _of_series(series: Any, type_: Type | None, name: str, where: str) -> Any:
    """A column of a pandas frame as Arrow; DataError names the row of a value that does not fit.

    Whole floats are integers where these are wanted: a missing value makes integers floats.
    """
    try:
        values = pa.chunked_array(pa.Array.from_pandas(series), None)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        values = None
    if values is None:
        return _fitted(series, type_, name, where)
    if type_ is Type.INT and pa.types.is_floating(values.type):
        return (
            _fitted(series, type_, name, where) if not _whole(values) else values.cast(pa.int64())
        )
    return values


def _whole(values: pa.ChunkedArray) -> bool:
    """Whether floats are whole numbers that no rounding has changed."""
    wide = values.cast(pa.float64())
    fine = pc.and_(pc.equal(pc.floor(wide), wide), pc.less_equal(pc.abs(wide), 2.0**53))
    return pc.all(fine, min_count=0).as_py() is True


def _fitted(series: Any, type_: Type | None, name: str, where: str) -> pa.Array:
    """The values of a column one by one, as its type."""
    values = [None if is_missing(value) else value for value in series.tolist()]
    type_ = type_ or common_type(values)
    fitting: list[Value | None] = []
    for number, value in enumerate(values, 1):
        try:
            if type_ is Type.INT and isinstance(value, float):
                value = None if math.isnan(value) else int(value) if value.is_integer() else value
            fitting.append(fit(value, type_))
        except ValueError as problem:
            raise DataError(f"{where}, row {number}: column `{name}`: {problem}") from None
    return pa.array(fitting, arrow_type(type_))


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
        if not table.schema.equals(wanted):
            table = _with_floats(table, schema, facts.origin).cast(wanted)
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
    names = [n for n, c in zip(schema.names, table.columns, strict=False) if c.null_count]
    if names:
        table = table.drop_null()
    if table.num_rows < rows:
        warn_left_out(schema.predicate, rows - table.num_rows, names)
    return table


def _large(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which integers are so large that not all of their neighbours are floats."""
    kind = values.type
    if kind.bit_width < 64:
        return pa.chunked_array([pa.repeat(False, len(values))])
    large = pc.greater(values, pa.scalar(EXACT, kind))
    if pa.types.is_signed_integer(kind):
        large = pc.or_(large, pc.less(values, pa.scalar(-EXACT, kind)))
    return pc.fill_null(large, False)


def _with_floats(table: pa.Table, schema: Schema, where: str) -> pa.Table:
    """Integers of float columns as floats; Arrow takes none above 2^53, not even exact ones."""
    for i, column in enumerate(schema.columns):
        values = table.column(i)
        if column.type is not Type.FLOAT or not pa.types.is_integer(values.type):
            continue
        for number in pc.indices_nonzero(_large(values)).to_pylist():
            value = values[number].as_py()
            if not is_float(value):
                raise DataError(f"{where}, row {number + 1}: {not_float(column.name, value)}")
        floats = values.cast(pa.float64(), safe=False)
        table = table.set_column(i, table.field(i).name, floats)
    return table


def _ticked(times: pa.ChunkedArray, where: str, name: str, ticks: Ticks | None) -> pa.ChunkedArray:
    """The ticks of a column of times that has a type of its own."""
    kind = times.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        if ticks is None:
            raise DataError(f"{where}: time column `{name}` holds timestamps; {GIVE_TICK}")
        return _divided(pc.subtract(micros_of(times), ticks.origin), ticks.length)
    if pa.types.is_null(kind) or (pa.types.is_integer(kind) and ticks is None):
        return times
    shown = "INT" if pa.types.is_integer(kind) else "VARCHAR" if _is_text(kind) else str(kind)
    raise DataError(unfit_time(where, name, str(kind), shown, ticks))


def micros_of(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Microseconds since 1970 of dates or timestamps, rounded down; without a zone they are UTC."""
    kind = times.type
    if getattr(kind, "unit", "") == "ns":
        return _divided(times.cast(pa.int64()), 1000)
    return times.cast(pa.timestamp("us", tz=getattr(kind, "tz", None))).cast(pa.int64())


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
                    converted.append(None if is_missing(value) else fitting_tick(value, ticks))
                else:
                    converted.append(fit(value, type_))
                    if type_ is Type.FLOAT and places is None and type(value) is int:
                        _expect_float(value)
            except ValueError as problem:
                where = places[number] if places else f"{origin}, row {number + 1}"
                raise DataError(f"{where}: column `{name}`: {problem}") from None
        arrays.append(pa.array(converted, arrow_type(type_)))
    arrays = arrays or [pa.array([1] * len(rows), pa.int64())]
    table = pa.table(arrays, names=schema.sql_names())
    times = [] if schema.time is None or ticks is None else [row[-1] for row in rows]
    return Table(table, origin, True, places or (), _time_type_of(times))


def _expect_float(value: int) -> None:
    if not is_float(value):
        raise ValueError(f"`{value}` {NO_FLOAT}")


def _time_type_of(times: list[Any]) -> TimeType:
    """The type of times in Python: that of dates, or of moments without a zone, or else TIMESTAMP.

    >>> _time_type_of([date(2026, 3, 8), None]).value, _time_type_of(["2026-03-08"]).value
    ('DATE', 'TIMESTAMP')
    """
    types = {_type_of_time(time) for time in times if not is_missing(time)}
    return types.pop() if len(types) == 1 else TimeType.TIMESTAMP


def _type_of_time(time: Any) -> TimeType:
    if isinstance(time, datetime):
        return TimeType.TIMESTAMP if time.tzinfo else TimeType.NTZ
    if isinstance(time, date):
        return TimeType.DATE
    return TimeType.NTZ if "datetime64" in str(getattr(time, "dtype", "")) else TimeType.TIMESTAMP
