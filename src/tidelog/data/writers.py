"""Answers as CSV and JSON lines, the formats that facts are read from; ticks as timestamps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.data.ticks import Ticks
from tidelog.errors import DataError


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
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case _:
            return str(value)


def json_lines(predicate: str | None, answers: pa.Table) -> Iterator[str]:
    """`{"predicate": ..., <columns>, "time": ...}` a line, as facts are read.

    Without a predicate it is left out: the place of the lines says which it is.
    """
    told = {} if predicate is None else {"predicate": predicate}
    for batch in answers.to_batches(max_chunksize=10_000):
        for row in batch.to_pylist():
            values = {
                # The key that says which predicate it is stays what it is.
                "predicate2" if k == "predicate" and told else k: as_text(v)
                if isinstance(v, datetime)
                else v
                for k, v in row.items()
            }
            yield json.dumps({**told, **values}, ensure_ascii=False)


def timestamps(ticks: pa.ChunkedArray, length: Ticks) -> pa.ChunkedArray:
    """When each tick starts; ticks come in order."""
    for tick in (ticks[0].as_py(), ticks[-1].as_py()) if len(ticks) else ():
        try:
            length.moment(tick)
        except OverflowError:
            raise DataError(
                f"tick {tick} is no timestamp between the years 1 and 9999; ask for whole ticks"
            ) from None
    micros = pc.add(pc.multiply(ticks, length.length), length.origin)
    return micros.cast(pa.timestamp("us", tz="UTC"))
