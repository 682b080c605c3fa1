"""The stages of a job, one after the other, over rows in Spark.

A stage with a key is a kernel in each partition, after an exchange by that key; one that no key
splits is a kernel in one partition, or the same SQL in Catalyst.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Generic

import duckdb
import pyarrow as pa
from pyspark import StorageLevel, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.analysis.stages import Stage, StageKind
from tidelog.data.packed import columns
from tidelog.evaluation.database import NO_EXTENSIONS, Database
from tidelog.evaluation.layout import Layout
from tidelog.evaluation.plan import tables_of
from tidelog.evaluation.spark.catalyst import Catalyst, as_a_table, planning
from tidelog.evaluation.spark.failures import without_traceback
from tidelog.evaluation.spark.kernel import Kernel
from tidelog.evaluation.spark.parcels import COLUMNS, Sending, opened
from tidelog.evaluation.spark.sources import arrow_struct
from tidelog.evaluation.spark.stages import ARRIVED, A, Job, StageOutput, StageTables
from tidelog.evaluation.sql import Writer
from tidelog.evaluation.steps import StepRunner


@dataclass
class Chain(Generic[A]):
    """What runs the stages: `new` and `kept` give the rows of some tables for a stage."""

    spark: SparkSession
    job: Job[A]
    kernel: Kernel[A]
    rigid: Callable[[], Mapping[str, DataFrame]]  # for Catalyst
    new: Callable[[set[str]], DataFrame | None]
    kept: Callable[[set[int]], DataFrame | None] = lambda _: None
    # The rows of some tables in parcels, where tasks pack all facts and nothing is kept.
    parcels: Callable[[set[str], Sending], DataFrame] | None = None
    stored: list[DataFrame] = field(default_factory=list)  # to be released

    @property
    def layout(self) -> Layout:
        return self.job.layout

    def rows(self, asked: A) -> DataFrame:
        """The rows that are done after the last stage."""
        struct = arrow_struct(self.layout.schema)
        stages = self.layout.stages
        done: DataFrame | None = None
        for index, stage in enumerate(stages):
            if stage.kind is StageKind.CATALYST:
                done = self._catalyst(index, self._arriving(stage, done), asked)
                continue
            sent, then = self._sending(index), self._sending(index + 1)
            task = _Task(self.kernel, index, asked, sent is not None, then)
            rows = self._arriving(stage, done) if sent is None else self._sent(stage, sent, done)
            done = self._split(stage, rows, sent).mapInArrow(task, COLUMNS if then else struct)
        return self._none() if done is None else done

    def _sending(self, index: int) -> Sending | None:
        """How rows are sent to a stage in parcels: not if Catalyst makes them or works on them."""
        near = self.layout.stages[max(index - 1, 0) : index + 1]
        by_catalyst = any(stage.kind is StageKind.CATALYST for stage in near)
        if self.parcels is None or by_catalyst or index == len(self.layout.stages):
            return None
        stage, count = self.layout.stages[index], self.kernel.partitions
        return Sending(self.layout.home(stage, count, spark=False))

    def _sent(self, stage: Stage, sending: Sending, before: DataFrame | None) -> DataFrame:
        """The rows for a stage in parcels: of the stage before, and new ones."""
        assert self.parcels is not None, "there are parcels where rows are sent in them"
        new = self.parcels(self._scans(stage), sending)
        return new if before is None else before.union(new)

    def _arriving(self, stage: Stage, before: DataFrame | None) -> DataFrame:
        """The rows for a stage: of the stage before, new ones and kept ones."""
        layout = self.layout
        reads, own = layout.reads(stage), layout.own(stage)
        tabs = {r.number for r in (reads | own).values()}
        tabs |= {r.number for q, r in layout.given.items() if q in stage.predicates}
        parts = [before, self.new(self._scans(stage)), self.kept(tabs)]
        there = [part for part in parts if part is not None]
        return reduce(DataFrame.union, there) if there else self._none()

    def _scans(self, stage: Stage) -> set[str]:
        """The scans whose facts a stage looks at."""
        return {name for name in self.layout.reads(stage) if name in self.layout.scans}

    def _none(self) -> DataFrame:
        return self.spark.createDataFrame([], arrow_struct(self.layout.schema))

    def _split(self, stage: Stage, rows: DataFrame, sent: Sending | None) -> DataFrame:
        if stage.kind is StageKind.WHOLE:
            return rows.repartition(1)
        count = self.kernel.partitions
        home = "home" if sent else self.layout.home(stage, count, spark=True)
        return rows.repartitionById(count, F.expr(home))

    def _catalyst(self, index: int, rows: DataFrame, asked: A) -> DataFrame:
        if index:  # every look at them would run the stages before again
            rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
            self.stored.append(rows)
            rows = as_a_table(rows)
        rigid = self.rigid()
        with planning(self.spark) as engine:
            engine.offer_texts(Writer(self.layout.plan).texts)
            engine.offer(ARRIVED, rows)
            inputs = {name: f"rigid{i}" for i, name in enumerate(rigid)}
            for name, view in inputs.items():
                engine.offer(view, rigid[name])
            done = self._beforehand(engine, self.layout.stages[index])
            tables = StageTables(self.layout, StepRunner(engine, done=done), inputs)
            outputs = self.job.outputs(tables, index, asked)
            parts = [self._as_rows(engine, output) for output in outputs]
        return reduce(DataFrame.union, parts) if parts else self._none()

    def _beforehand(self, engine: Catalyst, stage: Stage) -> frozenset[str]:
        """Tables without times that Spark's engine cannot make (recursion, aggregates): made in
        this process and offered to it.
        """
        steps = self.layout.rigid_beyond_spark(stage)
        if not steps:
            return frozenset()
        plan = self.layout.plan
        with duckdb.connect(config=NO_EXTENSIONS) as connection:
            database = Database(connection)
            database.offer_texts(Writer(plan).texts)
            inputs: dict[str, str] = {}
            for i, (name, rows) in enumerate(self.rigid().items()):
                inputs[name] = f"rigid{i}"
                connection.register(inputs[name], rows.toArrow())
            chosen = [step for step in plan.steps if steps.keys() & set(tables_of(step))]
            StepRunner(database).run(plan, chosen, {}, inputs)
            for table in steps:
                rows = self.spark.createDataFrame(database.arrow(f"SELECT * FROM {table}"))
                engine.offer(table, rows)
        return frozenset(steps)

    def _as_rows(self, engine: Catalyst, output: StageOutput) -> DataFrame:
        rows, relation = engine.select(output.select), output.relation
        if relation is None:
            return rows
        values = dict(zip(relation.slots, columns(len(relation.slots)), strict=True))
        values |= {"tab": str(relation.number), "part": str(output.part)}
        if not relation.temporal:
            values |= {"c": "0", "b": "1"}
        return rows.selectExpr(
            *(
                f"CAST({values.get(f.name, f.name if f.name in ('c', 'b') else 'NULL')}"
                f" AS {f.dataType.simpleString()}) AS {f.name}"
                for f in arrow_struct(self.layout.schema)
            )
        )

    def release(self) -> None:
        for rows in self.stored:
            rows.unpersist()


@dataclass(frozen=True)
class _Task:
    """The kernel as Spark calls it."""

    kernel: Kernel[Any]
    stage: int
    asked: Any
    in_parcels: bool  # whether its rows come in these
    then: Sending | None  # how they leave

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        arriving = opened(batches) if self.in_parcels else batches
        with without_traceback():
            done = self.kernel.run(self.stage, context.partitionId(), self.asked, arriving)
            yield from done if self.then is None else self.then.parcels(done)
