"""The state of a stream between its batches: packed rows, in files that are never changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.data.packed import chunk
from tidelog.data.ticks import Range
from tidelog.evaluation.rows import DONE, KEPT
from tidelog.evaluation.spark.sources import NO_PATTERNS, arrow_struct, each_once
from tidelog.pipeline.commit import StatePart, written
from tidelog.pipeline.places import Executors, Place
from tidelog.pipeline.plan import RowFormat
from tidelog.streaming.sinks.sink import FileStore

Chunks: TypeAlias = Mapping[int, list[tuple[int, int]]]  # by table: first and last chunk


def chunks_of(ranges: Mapping[int, Iterable[Range]]) -> dict[int, list[tuple[int, int]]]:
    """The chunks that some ticks of tables lie in."""
    return {
        tab: [(chunk(int(r.low)), chunk(int(r.high))) for r in some] for tab, some in ranges.items()
    }


@dataclass(frozen=True)
class StateFiles:
    """Reads and writes the state parts of a checkpoint."""

    store: FileStore
    rows: RowFormat

    @cached_property
    def numbers(self) -> list[int]:
        """The tables that state files hold: those of the plan, and answers known or given early."""
        kept = (*self.rows.tables.values(), *self.rows.given.values())
        return sorted(relation.number for relation in kept)

    # Reading

    def tables(self, parts: Iterable[StatePart], wanted: Chunks) -> list[pa.Table]:
        """What may hold any of some chunks, in this process."""
        files = (self.store.read(*file) for file in self._files(parts, wanted))
        return [rows_about(pq.ParquetFile(pa.BufferReader(file)), wanted) for file in files]

    def frame(
        self, spark: SparkSession, parts: Iterable[StatePart], wanted: Chunks
    ) -> DataFrame | None:
        """The rows of some chunks; None when there are none."""
        paths = [self.store.path(*file) for file in self._files(parts, wanted)]
        if not paths:
            return None
        struct = arrow_struct(self.rows.schema)
        others = [name for name in struct.names if name not in ("tab", "part")]
        among = [
            f"(tab = {tab} AND c BETWEEN {low} AND {high})"
            for tab, some in wanted.items()
            for low, high in some
        ]
        reader = spark.read.options(**NO_PATTERNS).schema(struct)
        rows = each_once(lambda places: reader.parquet(*places), paths)
        return rows.where(" OR ".join(among) or "FALSE").selectExpr(
            "tab", f"{KEPT} AS part", *others
        )

    def _files(self, parts: Iterable[StatePart], wanted: Chunks) -> list[tuple[str, ...]]:
        return [
            ("state", part.folder, name)
            for part in parts
            if _overlaps(part, wanted)
            for name, _, _ in part.files
        ]

    # Writing

    def after(
        self, place: Place, number: int, before: Iterable[StatePart], looked_at: Chunks
    ) -> list[StatePart]:
        """The parts after a batch: those that are still looked at, and what the batch derived."""
        parts = [part for part in before if _overlaps(part, looked_at)]
        new = [tab for tab in self.numbers if tab in place.counts]
        return [*parts, self._write(place, new, str(number))] if new else parts

    def merged(
        self, executors: Executors, number: int, parts: list[StatePart], looked_at: Chunks
    ) -> list[StatePart]:
        """Many parts as one, without what nothing looks at any more."""
        rows = self.frame(executors.spark, parts, looked_at)
        if rows is None:
            return []
        names = [name for name in self.rows.schema.names if name not in ("part", "b")]
        merged = rows.groupBy(*names).agg(F.bit_or("b").alias("b"))
        executors.take(merged.withColumn("part", F.lit(DONE)))
        tabs = sorted(executors.counts)
        return [self._write(executors, tabs, f"{number}-merged")] if tabs else []

    def _write(self, place: Place, tabs: list[int], folder: str) -> StatePart:
        place.keep(tabs, ("state", folder))
        counts = {tab: place.counts[tab] for tab in tabs}
        tables = {tab: (count.first, count.last, count.rows) for tab, count in counts.items()}
        return written(self.store, folder, tables)


def rows_about(file: pq.ParquetFile, wanted: Chunks) -> pa.Table:
    """The rows of those row groups that may hold any of some chunks; they are sorted by these."""
    groups, metadata = range(file.num_row_groups), file.metadata
    if len(groups) == 1:
        return file.read()
    tab, c = (metadata.schema.names.index(name) for name in ("tab", "c"))

    def may_hold(group: int) -> bool:
        tabs, chunks = (metadata.row_group(group).column(i).statistics for i in (tab, c))
        if tabs is None or chunks is None:
            return True
        return any(
            tabs.min <= number <= tabs.max and low <= chunks.max and chunks.min <= high
            for number, some in wanted.items()
            for low, high in some
        )

    return file.read_row_groups([group for group in groups if may_hold(group)])


def _overlaps(part: StatePart, wanted: Chunks) -> bool:
    return any(
        low <= last and first <= high
        for tab, (first, last, _) in part.tables.items()
        for low, high in wanted.get(tab, ())
    )
