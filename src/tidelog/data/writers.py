"""Answers as CSV and JSON lines, the formats that facts are read from; ticks as timestamps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.data.ticks import DAY, Ticks, TimeType
from tidelog.data.types import json_value
from tidelog.errors import DataError

# What is said of a tick that has a length and is too far from ours.
NO_STAMP = "is no timestamp between the years 1 and 9999; ask for whole ticks"


def csv_lines(answers: pa.Table) -> Iterator[str]:
    """
    >>> list(csv_lines(pa.table({"x": ["a", "", "b, c"], "time": [1, 2, 3]})))
    ['x,time', 'a,1', '"",2', '"b, c",3']
    """
    yield ",".join(_quoted(pa.chunked_array([answers.column_names])).to_pylist())
    for batch in answers.to_batches(max_chunksize=100_000):
        columns = [_csv_column(pa.chunked_array([column])) for column in batch.columns]
        joined = columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, ",")
        yield from joined.to_pylist()


def _csv_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return _quoted(column)
    if pa.types.is_integer(column.type):
        return pc.fill_null(column.cast(pa.string()), "")
    return pa.chunked_array([pa.array([as_text(v) for v in column.to_pylist()], pa.string())])


def _quoted(column: pa.ChunkedArray) -> pa.ChunkedArray:
    column = column.cast(pa.string())
    awkward = pc.match_substring_regex(column, r'[",\r\n]|^$|^\s|\s$')
    escaped = pc.replace_substring(column, '"', '""')
    return pc.if_else(awkward, pc.binary_join_element_wise('"', escaped, '"', ""), column)


def as_text(value: object) -> str:
    match value:
        case None:  # the period of a single answer
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return str(value + 0.0)  # there is one zero
        case datetime():  # one without a zone is in UTC
            text = value.isoformat().replace("+00:00", "Z")
            return text if value.tzinfo else f"{text}Z"
        case date():
            return f"{value.isoformat()}T00:00:00Z"
        case _:
            return str(value)


def json_lines(predicate: str | None, answers: pa.Table) -> Iterator[str]:
    """`{"predicate": ..., <columns>, "time": ...}` a line, as facts are read.

    Without a predicate it is left out: the place of the lines says which it is.

    >>> list(json_lines("P", pa.table({"x": ['"', None], "v": [-0.0, float("inf")]})))
    ['{"predicate": "P", "x": "\\\\"", "v": 0.0}', '{"predicate": "P", "x": null, "v": "Infinity"}']
    """
    told = {} if predicate is None else {"predicate": predicate}
    # The key that says which predicate it is stays what it is.
    names = ["predicate2" if n == "predicate" and told else n for n in answers.column_names]
    keys = [f", {json.dumps(name, ensure_ascii=False)}: " for name in names]
    keys[0] = f"{json.dumps(told, ensure_ascii=False)[:-1]}{keys[0] if told else keys[0][2:]}"
    for batch in answers.to_batches(max_chunksize=100_000):
        parts: list[Any] = []
        for key, column in zip(keys, batch.columns, strict=True):
            parts += [key, _json_column(column)]
        yield from pc.binary_join_element_wise(*parts, "}", "").to_pylist()


def _json_column(column: pa.Array) -> pa.Array:
    """Values as JSON writes them; many at once where none of them needs a closer look."""
    if pa.types.is_integer(column.type):
        return pc.fill_null(column.cast(pa.string()), "null")
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        awkward = pc.match_substring_regex(column, r'["\\\x00-\x1f]')
        if not column.null_count and not pc.any(awkward).as_py():
            return pc.binary_join_element_wise('"', column.cast(pa.string()), '"', "")
    return pa.array([as_json(v) for v in column.to_pylist()], pa.string())


def as_json(value: object) -> str:
    """A value as JSON, which has no timestamps: they are texts there."""
    if isinstance(value, date):
        value = as_text(value)
    return json.dumps(json_value(value), ensure_ascii=False)


def stamped(table: pa.Table, last: int, length: Ticks) -> pa.Table:
    """A table whose last so many columns are ticks, with timestamps there."""
    for at in range(table.num_columns - last, table.num_columns):
        name = table.column_names[at]
        table = table.set_column(at, name, timestamps(table.column(at), length))
    return table


def timestamps(ticks: pa.ChunkedArray, length: Ticks) -> pa.ChunkedArray:
    """When each tick starts; DataError for one that is no timestamp."""
    stamped = length.stamped
    for tick in pc.min_max(ticks).as_py().values():
        if tick is not None and not stamped.low <= tick <= stamped.high:
            raise DataError(f"tick {tick} {NO_STAMP}")
    micros = pc.add(pc.multiply(ticks, length.length), length.origin)
    if length.type is TimeType.DATE:
        return pc.divide(micros, DAY).cast(pa.int32()).cast(pa.date32())
    return micros.cast(time_type(length))


def time_type(ticks: Ticks | None) -> pa.DataType:
    """The Arrow type of the times of answers."""
    if ticks is None:
        return pa.int64()
    if ticks.type is TimeType.DATE:
        return pa.date32()
    return pa.timestamp("us", tz="UTC" if ticks.type is TimeType.TIMESTAMP else None)
