"""The stages of a pipeline, one after the other, over rows in Spark.

A stage with a key is a kernel in each partition, after an exchange by that key; one that no key
splits is a kernel in one partition, or the same SQL in Catalyst.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
from pyspark import StorageLevel, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.analysis.stages import Kind, Stage
from tidelog.data.packed import CHUNK, columns
from tidelog.evaluation.plan import Plan
from tidelog.evaluation.sql import TEXTS, Writer
from tidelog.language.program import Value
from tidelog.pipeline.kernel import Kernel, Output, Stages
from tidelog.pipeline.sources import arrow_struct
from tidelog.streaming.layout import NEW, Layout
from tidelog.streaming.schedule import Schedule
from tidelog.streaming.wave import Span, Wave


@dataclass
class Chain:
    """What runs the stages: `new` and `kept` give the rows of some tables for a stage."""

    spark: SparkSession
    layout: Layout
    schedule: Schedule | None
    kernel: Kernel
    rigid: Mapping[str, DataFrame]  # for Catalyst
    new: Callable[[set[str]], DataFrame | None]
    kept: Callable[[set[int]], DataFrame | None]
    stored: list[DataFrame] = field(default_factory=list)  # to be released

    def rows(self, span: Span | None) -> DataFrame:
        """The rows that are done after the last stage; without a span, of finite facts."""
        struct = arrow_struct(self.layout.schema)
        found: DataFrame | None = None
        for index, stage in enumerate(self.layout.stages):
            layout = self.layout
            reads, own = layout.reads(stage), layout.own(stage)
            tabs = {r.number for r in (reads | own).values()}
            tabs |= {r.number for q, r in layout.given.items() if q in stage.predicates}
            parts = [found, self.new({n for n in reads if n in layout.scans}), self.kept(tabs)]
            there = [part for part in parts if part is not None]
            if span is None and stage.kind is not Kind.CATALYST:
                there.append(self._for_all())
            rows = reduce(DataFrame.union, there) if there else self._none()
            if stage.kind is Kind.CATALYST:
                found = self._catalyst(index, rows, span)
            else:
                found = self._split(stage, rows).mapInArrow(_Task(self.kernel, index, span), struct)
        return self._none() if found is None else found

    def _for_all(self) -> DataFrame:
        """A row of no table for every partition.

        A session that adapts its plans leaves out what is done with no rows at all; but rules have
        facts of their own.
        """
        struct = arrow_struct(self.layout.schema)
        values = {"tab": "-1", "part": str(NEW), "c": f"id * {CHUNK}", "b": "0"}
        return self.spark.range(0, self.kernel.partitions, 1, 1).selectExpr(
            *(
                f"CAST({values.get(f.name, 'NULL')} AS {f.dataType.simpleString()}) AS {f.name}"
                for f in struct
            )
        )

    def _none(self) -> DataFrame:
        return self.spark.createDataFrame([], arrow_struct(self.layout.schema))

    def _split(self, stage: Stage, rows: DataFrame) -> DataFrame:
        if stage.kind is Kind.WHOLE:
            return rows.repartition(1)
        count = self.kernel.partitions
        home = self.layout.home(stage, count, literal, spark=True)
        return rows.repartitionById(count, F.expr(home))

    def _catalyst(self, index: int, rows: DataFrame, span: Span | None) -> DataFrame:
        if index:  # every look at them would run the stages before again
            rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
            self.stored.append(rows)
        wave = Catalyst(self.spark, self.layout.plan)
        try:
            wave.offer("arrived", rows)
            inputs = {name: f"rigid{i}" for i, name in enumerate(self.rigid)}
            for name, view in inputs.items():
                wave.offer(view, self.rigid[name])
            stages = Stages(self.layout, self.schedule, wave, inputs)
            parts = [self._as_rows(wave, output) for output in stages.outputs(index, span)]
        finally:
            wave.forget()
        return reduce(DataFrame.union, parts) if parts else self._none()

    def _as_rows(self, wave: Catalyst, output: Output) -> DataFrame:
        found, relation = wave.select(output.select), output.relation
        if relation is None:
            return found
        values = dict(zip(relation.slots, columns(len(relation.slots)), strict=True))
        values |= {"tab": str(relation.number), "part": str(output.part)}
        if not relation.temporal:
            values |= {"c": "0", "b": "1"}
        return found.selectExpr(
            *(
                f"CAST({values.get(f.name, f.name if f.name in ('c', 'b') else 'NULL')}"
                f" AS {f.dataType.simpleString()}) AS {f.name}"
                for f in arrow_struct(self.layout.schema)
            )
        )

    def release(self) -> None:
        for rows in self.stored:
            rows.unpersist()


class Catalyst(Wave):
    """The steps of a plan as views of a Spark session: nothing runs until rows are wanted."""

    def __init__(self, spark: SparkSession, plan: Plan) -> None:
        self.spark = spark
        self.own = None
        self.progress = lambda _: None
        self.views: dict[str, None] = {}
        # Views of the session's own that ours would hide.
        self.before = {
            table.name: spark.table(table.name)
            for table in spark.catalog.listTables()
            if table.isTemporary
        }
        texts = [(i, text) for text, i in Writer(plan).texts.items()]
        self.offer(TEXTS, spark.createDataFrame(texts, "i BIGINT, v STRING"))

    def offer(self, name: str, rows: DataFrame) -> None:
        self.views[name] = None
        rows.createOrReplaceTempView(name)

    def select(self, select: str) -> DataFrame:
        return self.spark.sql(select)

    def _create(self, kind: str, other: str, name: str, select: str) -> None:
        self.offer(name, self.select(select))

    def forget(self) -> None:
        """Views were needed to make the plan; what is made does not need them."""
        for name in self.views:
            self.spark.catalog.dropTempView(name)
            if name in self.before:
                self.before[name].createOrReplaceTempView(name)


@dataclass(frozen=True)
class _Task:
    """The kernel as Spark calls it."""

    kernel: Kernel
    stage: int
    span: Span | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        yield from self.kernel.run(self.stage, context.partitionId(), self.span, batches)


def literal(value: Value) -> str:
    """A constant in Spark's SQL."""
    if isinstance(value, str):
        return f"CAST(X'{value.encode().hex()}' AS STRING)"
    return json.dumps(value)
