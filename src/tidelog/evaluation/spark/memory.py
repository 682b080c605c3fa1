"""Facts in memory as DataFrames: rows, Arrow tables, and what can become one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tidelog.data.readers.memory import in_memory, micros_of
from tidelog.data.schema import Schema
from tidelog.data.ticks import Ticks
from tidelog.data.types import arrow_type
from tidelog.data.writers import timestamps
from tidelog.errors import DataError


def frame_of(spark: SparkSession, schema: Schema, rows: Any, ticks: Ticks | None) -> DataFrame:
    """Facts of a temporal input as a DataFrame.

    A time without a zone has none there either: Spark would take it to be in the session's zone.
    """
    facts = in_memory(schema, rows, ticks)
    arguments = [
        _readable(values, None if column.type is None else arrow_type(column.type), facts.origin)
        for values, column in zip(facts.table.columns, schema.columns, strict=False)
    ]
    times = facts.table.column(-1)
    if not facts.ticked:
        times = _in_micros(times, facts.origin)
    elif ticks is not None:
        times = timestamps(times, ticks.typed({facts.time}))
    return frame_of_table(spark, pa.table([*arguments, times], names=list(schema.names)))


def frame_of_table(spark: SparkSession, table: pa.Table) -> DataFrame:
    """An Arrow table as a DataFrame, with the types that it has."""
    return spark.createDataFrame(table, from_arrow_schema(table.schema, prefer_timestamp_ntz=True))


def _in_micros(times: pa.ChunkedArray, where: str) -> pa.ChunkedArray:
    """Times as Spark has them: dates, timestamps in microseconds, or whole numbers."""
    kind = times.type
    try:
        if pa.types.is_timestamp(kind):
            return micros_of(times).cast(pa.timestamp("us", tz=kind.tz))
        return times.cast(pa.date32()) if pa.types.is_date(kind) else _readable(times, None, where)
    except pa.ArrowInvalid as error:
        raise DataError(f"{where}: {error}") from None


def _readable(values: pa.ChunkedArray, wanted: pa.DataType | None, where: str) -> pa.ChunkedArray:
    """A column of one of the types that Spark takes from Arrow."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        values, kind = values.cast(kind.value_type), kind.value_type
    if pa.types.is_unsigned_integer(kind):
        wanted = pa.int64()
    elif pa.types.is_float16(kind):
        wanted = pa.float32()
    elif not pa.types.is_null(kind) and not pa.types.is_string_view(kind):
        return values
    try:
        return values if wanted is None else values.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"{where}: {error}") from None
