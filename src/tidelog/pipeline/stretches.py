"""From when to when, on Spark: what a batch tells of stretches, and what it keeps of them.

The stretches that have not ended are a folder of state that every batch replaces. They are made
from the packed answers of the batch where these are, in the driver or in the executors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidelog.evaluation.rows import DONE, Relation
from tidelog.evaluation.spark.answers import stretches_frame
from tidelog.evaluation.spark.catalyst import planning
from tidelog.evaluation.spark.sources import NO_PATTERNS, arrow_struct
from tidelog.evaluation.stretches import named_stretches
from tidelog.pipeline.commit import StatePart, written
from tidelog.pipeline.places import FILE_ROWS, Driver, Executors, Place, SparkAnswers
from tidelog.pipeline.plan import PipelinePlan
from tidelog.streaming.sinks.sink import BatchAnswers, FileStore, LocalAnswers
from tidelog.streaming.stretches import kept_sql, stretched_sql, told_sql

_WORDS, _KEPT, _STRETCHED = "tidelog_words", "tidelog_kept", "tidelog_stretched"


class BatchStretches(Protocol):
    """The stretches of one batch."""

    counts: dict[int, int]  # how many rows there are to tell, by the number of the answers

    def answers(self, query: str, relation: Relation) -> BatchAnswers:
        """What there is to tell of a query, under the names and with the times users asked for."""

    def save(self, place: tuple[str, ...]) -> None:
        """Write what is kept for the next batch as Parquet files; nothing if it is nothing."""


@dataclass(frozen=True)
class Stretches:
    """Makes stretches of the answers of a stream."""

    plan: PipelinePlan
    store: FileStore

    @property
    def relations(self) -> dict[str, Relation]:
        """The answers that have a time, by query."""
        return {q: r for q, r in self.plan.rows.answers.items() if r.temporal}

    @cached_property
    def names(self) -> list[str]:
        """The columns of arguments, of all queries together."""
        return [n for n in self.plan.rows.schema.names if n not in ("tab", "part", "c", "b")]

    @property
    def schema(self) -> pa.Schema:
        """The columns of what is kept."""
        rows = self.plan.rows.schema
        args = [rows.field(name) for name in ("tab", *self.names)]
        ends = [("first", pa.int64()), ("last", pa.int64()), ("begun", pa.bool_())]
        return pa.schema([*args, *ends])

    def after(
        self, place: Place, parts: tuple[StatePart, ...], final: Mapping[str, int]
    ) -> BatchStretches:
        """The stretches once a batch has derived its answers; `final` is up to when, by query."""
        until = {relation.number: final[q] for q, relation in self.relations.items()}
        files = [("state", part.folder, name) for part in parts for name, _, _ in part.files]
        select = stretched_sql(self.names, _WORDS, _KEPT, until, eager=self.plan.options.eager)
        if isinstance(place, Driver):
            return InDriver(self, place, files, select)
        return InExecutors(self, place, files, select)

    def keep(self, made: BatchStretches, number: int) -> tuple[StatePart, ...]:
        """Write what is kept for the batch after this one."""
        folder = f"{number}-stretches"
        made.save(("state", folder))
        part = written(self.store, folder, {})
        return (part,) if part.files else ()


class InDriver:
    """Stretches in this process."""

    def __init__(
        self, of: Stretches, driver: Driver, files: Sequence[tuple[str, ...]], select: str
    ) -> None:
        self.of, self.driver, self.connection = of, driver, driver.connection
        kept = [pq.read_table(pa.BufferReader(of.store.read(*file))) for file in files]
        known = [table.select(of.schema.names).cast(of.schema) for table in kept]
        self.connection.register(_KEPT, pa.concat_tables([of.schema.empty_table(), *known]))
        numbers = ", ".join(str(r.number) for r in of.relations.values())
        words = f"SELECT * FROM results WHERE tab IN ({numbers}) AND part = {DONE}"
        self.connection.execute(f"CREATE OR REPLACE TEMP VIEW {_WORDS} AS {words}")
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {_STRETCHED} AS {select}")
        self.told = f"({told_sql(of.names, _STRETCHED)}) AS s"
        counted = f"SELECT tab, count(*) FROM {self.told} GROUP BY tab"
        self.counts: dict[int, int] = dict(self.connection.execute(counted).fetchall())

    def answers(self, query: str, relation: Relation) -> BatchAnswers:
        plan, columns = self.of.plan, ", ".join([*relation.slots, "first", "last"])
        order = ", ".join(["first", *relation.slots, "last NULLS FIRST"])
        select = f"SELECT {columns} FROM {self.told} WHERE tab = {relation.number} ORDER BY {order}"
        names, ticks = plan.program.output_columns(query), plan.options.stamps
        table = named_stretches(self.connection.sql(select).to_arrow_table(), names, ticks)
        return LocalAnswers(table, self.driver.spark)

    def save(self, place: tuple[str, ...]) -> None:
        rows = self.connection.sql(kept_sql(self.of.names, _STRETCHED)).to_arrow_table()
        if rows.num_rows:
            LocalAnswers(rows).save("parquet", self.of.store, place)


class InExecutors:
    """Stretches as Spark makes them."""

    def __init__(
        self, of: Stretches, executors: Executors, files: Sequence[tuple[str, ...]], select: str
    ) -> None:
        self.of, self.spark = of, executors.spark
        struct, numbers = arrow_struct(of.schema), [r.number for r in of.relations.values()]
        kept = self.spark.createDataFrame([], struct)
        if files:
            reader = self.spark.read.options(**NO_PATTERNS).schema(struct)
            kept = reader.parquet(*(of.store.path(*file) for file in files))
        words = executors.results
        if words is None:
            words = self.spark.createDataFrame([], arrow_struct(of.plan.rows.schema))
        with planning(self.spark) as engine:
            engine.offer(_WORDS, words.where(F.col("tab").isin(numbers) & (F.col("part") == DONE)))
            engine.offer(_KEPT, kept)
            self.stretched = executors.hold(engine.select(select))
            engine.offer(_STRETCHED, self.stretched)
            self.told = engine.select(told_sql(of.names, _STRETCHED))
            self.kept = engine.select(kept_sql(of.names, _STRETCHED))
        counted = self.told.groupBy("tab").count().collect()
        self.counts: dict[int, int] = {tab: int(n) for tab, n in counted}

    def answers(self, query: str, relation: Relation) -> BatchAnswers:
        plan = self.of.plan
        names, ticks = plan.program.output_columns(query), plan.options.stamps
        mine = self.told.where(F.col("tab") == relation.number)
        return SparkAnswers(stretches_frame(mine, relation, names, ticks))

    def save(self, place: tuple[str, ...]) -> None:
        rows = self.kept.count()
        if rows:
            spread: DataFrame = self.kept.coalesce(1 + rows // FILE_ROWS)
            SparkAnswers(spread).save("parquet", self.of.store, place)
