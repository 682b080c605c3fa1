"""Answers out of Spark: packed rows as users see them, a row each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import assert_never

import duckdb
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidelog.data.packed import CHUNK, merge_sql, stretches_sql, ticks_of, unpack_sql
from tidelog.data.ticks import DAY, Ticks, TimeType
from tidelog.data.types import arrow_type
from tidelog.data.writers import NO_STAMP, time_type, timestamps
from tidelog.evaluation.rows import DONE, Relation
from tidelog.evaluation.stretches import end_columns, named_stretches
from tidelog.language.program import TIME_COLUMN

# Bits that are looked up at once: the places of all numbers with so many bits are a small table.
_BITS = 6


def answers_of(rows: DataFrame, relation: Relation) -> DataFrame:
    """The rows that are answers of a query, packed."""
    return rows.where((F.col("tab") == relation.number) & (F.col("part") == DONE))


def unpacked(
    rows: DataFrame, relation: Relation, names: Sequence[str], ticks: Ticks | None
) -> DataFrame:
    """Packed answers a row each, under the names and with the times users asked for."""
    packed = answers_of(rows, relation)
    if not relation.temporal:
        if not names:
            return packed.select(F.lit(True).alias("holds"))
        return packed.select(*relation.slots).toDF(*names)
    time = _time(F.col("c") + F.col("i"), ticks)
    plain = packed.select(*relation.slots, "c", F.explode(F.expr(_places_sql())).alias("i"))
    return plain.select(*relation.slots, time.alias("t")).toDF(*names, TIME_COLUMN)


def _time(tick: Column, ticks: Ticks | None) -> Column:
    """A tick as users see it; NULL stays what it is."""
    if ticks is None:
        return tick
    stamped = tick.isNull() | tick.between(ticks.stamped.low, ticks.stamped.high)
    refused = F.concat(F.lit("tick "), tick.cast("string"), F.lit(f" {NO_STAMP}"))
    error = F.raise_error(refused).cast(ticks.type.value)
    return F.when(stamped, _moment(tick * ticks.length + ticks.origin, ticks.type)).otherwise(error)


def _moment(micros: Column, type_: TimeType) -> Column:
    """Microseconds since 1970 as a time; none of them depends on the zone of the session."""
    match type_:
        case TimeType.DATE:
            return F.date_from_unix_date(F.call_function("div", micros, F.lit(DAY)).cast("int"))
        case TimeType.NTZ:
            since = F.expr("INTERVAL '0.000001' SECOND") * micros
            return F.expr("TIMESTAMP_NTZ'1970-01-01 00:00:00'") + since
        case TimeType.TIMESTAMP:
            return F.timestamp_micros(micros)
        case _ as never:
            assert_never(never)


def stretched(
    rows: DataFrame, relation: Relation, names: Sequence[str], ticks: Ticks | None
) -> DataFrame:
    """Packed answers from when to when; those without a time a row each."""
    if not relation.temporal:
        return unpacked(rows, relation, names, ticks)
    words = merge_sql(relation.slots, "SELECT * FROM {packed}", None)
    select = stretches_sql(relation.slots, f"({words}) AS w")
    ends = rows.sparkSession.sql(select, packed=answers_of(rows, relation))
    return stretches_frame(ends, relation, names, ticks)


def stretches_frame(
    rows: DataFrame, relation: Relation, names: Sequence[str], ticks: Ticks | None
) -> DataFrame:
    """Rows of a query with a first and a last tick, as users asked for them."""
    ends = [_time(F.col(name), ticks).alias(name) for name in ("first", "last")]
    return rows.select(*relation.slots, *ends).toDF(*names, *end_columns(names))


@cache
def _places_sql() -> str:
    """The places of the bits in b that are set: looked up, so that no place is tried in vain."""
    parts: list[str] = []
    for first in range(0, CHUNK, _BITS):
        table = json.dumps([list(ticks_of(first, bits)) for bits in range(1 << _BITS)])
        bits = f"CAST(shiftright(b, {first}) & {(1 << _BITS) - 1} AS INT)"
        parts.append(f"from_json('{table}', 'array<array<int>>')[{bits}]")
    return f"flatten(array({', '.join(parts)}))"


def unpacked_table(
    connection: duckdb.DuckDBPyConnection,
    packed: str,
    relation: Relation,
    names: Sequence[str],
    ticks: Ticks | None,
) -> pa.Table:
    """The same in this process, by time and arguments; `packed` is a source in SQL."""
    order = ", ".join(["t", *relation.slots])
    rows = f"{unpack_sql(relation.slots, packed)} ORDER BY {order}"
    table = connection.sql(rows).to_arrow_table()
    if not relation.temporal:
        table = table.drop_columns(["t"])
        if names:
            return table.rename_columns(list(names))
        return pa.table({"holds": pa.array([True] * table.num_rows, pa.bool_())})
    if ticks is not None:
        stamps = timestamps(table.column(-1), ticks)
        table = table.set_column(table.num_columns - 1, "t", stamps)
    return table.rename_columns([*names, TIME_COLUMN])


def no_answers(
    relation: Relation, names: Sequence[str], ticks: Ticks | None, *, intervals: bool
) -> pa.Table:
    """A table without rows, with the columns that answers of a query have."""
    if not relation.temporal and not names:
        return pa.table({"holds": pa.array([], pa.bool_())})
    times = list(end_columns(names) if intervals else (TIME_COLUMN,)) if relation.temporal else []
    types = [*map(arrow_type, relation.types), *[time_type(ticks)] * len(times)]
    return pa.schema(list(zip([*names, *times], types, strict=True))).empty_table()


def stretches_table(
    connection: duckdb.DuckDBPyConnection,
    packed: str,
    relation: Relation,
    names: Sequence[str],
    ticks: Ticks | None,
) -> pa.Table:
    """From when to when answers hold, by the first tick; those without a time a row each."""
    if not relation.temporal:
        return unpacked_table(connection, packed, relation, names, ticks)
    words = merge_sql(relation.slots, f"SELECT * FROM {packed}", None)
    rows = stretches_sql(relation.slots, f"({words}) AS w")
    order = ", ".join(["first", *relation.slots])
    table = connection.sql(f"{rows} ORDER BY {order}").to_arrow_table()
    return named_stretches(table, names, ticks)
