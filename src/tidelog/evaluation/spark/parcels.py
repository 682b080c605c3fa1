"""Rows on their way from task to task: parcels of many rows, which Spark passes on unopened.

Spark takes what a Python task gives it apart into rows, exchanges them one by one, and puts them
together again for the next task; with millions of rows that takes longer than the work in the
tasks. So a task sorts its rows by the partition that is their home, and each parcel is a single
row to Spark: a number and bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.evaluation.database import NO_EXTENSIONS, Database

# The columns of parcels, as Spark writes them.
COLUMNS = "home INT, rows BINARY"
_SCHEMA = pa.schema([("home", pa.int32()), ("rows", pa.binary())])
# Bytes of rows that are sorted at a time, and of one parcel: the JVM has room for several.
_SORTED, _PARCEL = 1 << 26, 1 << 22


@dataclass(frozen=True)
class Sending:
    """Where rows go: SQL for the partition of each."""

    home: str

    def parcels(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of a task, sorted by home."""
        config: dict[str, str | bool | int | float | list[str]] = {"threads": 1, **NO_EXTENSIONS}
        with duckdb.connect(config=config) as connection:
            for rows in _gathered(batches):
                yield from self._sorted(connection, rows)

    def _sorted(
        self, connection: duckdb.DuckDBPyConnection, rows: pa.Table
    ) -> Iterator[pa.RecordBatch]:
        connection.register("leaving", rows)
        # With their homes: DuckDB may well read batches of rows in another order.
        homed = Database(connection).arrow(f"SELECT *, {self.home} AS home FROM leaving")
        connection.unregister("leaving")
        rows, homes = homed.drop_columns(["home"]), homed.column("home")
        for number in sorted(pc.unique(homes).to_pylist()):
            yield from _parcels(number, rows.filter(pc.equal(homes, number)))


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches as tables of not much more than so many bytes."""
    some: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        some.append(batch)
        size += batch.nbytes
        if size >= _SORTED:
            yield pa.Table.from_batches(some)
            some, size = [], 0
    if some:
        yield pa.Table.from_batches(some)


def _parcels(home: int, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Rows that have one home."""
    at_once = max(1, rows.num_rows * _PARCEL // max(rows.nbytes, 1))
    for first in range(0, rows.num_rows, at_once):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows.slice(first, at_once).combine_chunks())
        parcel = pa.array([sink.getvalue().to_pybytes()], pa.binary())
        yield pa.RecordBatch.from_arrays([pa.array([home], pa.int32()), parcel], schema=_SCHEMA)


def opened(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows that are in parcels."""
    for batch in batches:
        for parcel in batch.column(1):
            yield from pa.ipc.open_stream(parcel.as_buffer())
