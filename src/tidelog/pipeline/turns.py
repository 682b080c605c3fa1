"""A micro-batch of an online stream: turns of its shards, in the partitions or in the driver."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.analysis.definitive import Pending
from tidelog.data.packed import bit_sql, chunks_sql, mask_sql, pack_sql, place_sql
from tidelog.evaluation.ranges import Range
from tidelog.evaluation.rows import DONE, Relation, kept_rows
from tidelog.evaluation.spark.chain import literal
from tidelog.evaluation.spark.sources import arrow_struct
from tidelog.pipeline.checkpoint import Slice
from tidelog.pipeline.loop import Pipeline
from tidelog.pipeline.work import EVER, Arrived, Here, Setting, There, Work
from tidelog.streaming.clock import Clock
from tidelog.streaming.joins import Row
from tidelog.streaming.shards import Shards, Turn


@dataclass
class Turns(Setting):
    """What the turns of an online stream work with."""

    shards: Shards
    rigid: dict[str, set[Row]]

    def stored(self, slices: Iterable[Slice]) -> list[pa.Table]:
        """All state that some slices hold, as rows."""
        return [
            kept_rows(
                pq.read_table(pa.BufferReader(self.store.read("state", part.folder, name))),
                self.shards.schema,
            )
            for part in slices
            for name, _, _ in part.files
        ]

    def values(self, nothing: Callable[[str], str]) -> list[str]:
        """SQL for the arguments of a row that has arrived; `nothing` is for one it has not."""
        names = [f.name for f in self.shards.schema if f.name not in ("tab", "part", "c", "b")]
        known = set(self.inputs.all_slots)
        return [name if name in known else f"{nothing(name)} AS {name}" for name in names]

    @property
    def tab(self) -> str:
        """SQL for the table of a row that has arrived."""
        predicates = self.shards.deps.core.predicates
        cases = [
            f"WHEN {self.inputs.tag(predicates[name].source)} THEN {relation.number}"
            for name, relation in self.shards.inputs.items()
        ]
        return f"CAST(CASE tag {' '.join(cases)} END AS INT) AS tab"


class TurnHere(Here):
    """Turns in the driver, one shard having it all."""

    setting: Turns

    def turn(
        self, arrived: Arrived, slices: Iterable[Slice], turn: Turn | None, clock: Clock
    ) -> Clock:
        shards = self.setting.shards
        rows = [shards.schema.empty_table()]
        if self.rows is not None and arrived.facts:
            rows.append(self._packed())
        if turn is None:
            self.take(pa.concat_tables(rows))
            return clock
        rows += self.setting.stored(slices)
        found = list(shards.run(turn, self.setting.rigid, pa.concat_tables(rows)))
        self.connection.register("turned", pa.Table.from_batches(found, shards.schema))
        numbers = ", ".join(map(str, shards.reports))
        told = self.connection.execute(f"SELECT tab, c, b FROM turned WHERE tab IN ({numbers})")
        reports = [shards.report(*row) for row in told.fetchall()]
        clock = clock.reported(reports)
        self.pending = sum(report.open for report in reports)
        self.take(self.connection.sql(told_and_kept(shards, clock, "turned")).to_arrow_table())
        return clock

    def _packed(self) -> pa.Table:
        values = [self.setting.tab, f"{DONE} AS part", *self.setting.values(lambda _: "NULL")]
        schema = self.setting.shards.schema
        names = [name for name in schema.names if name not in ("c", "b")]
        rows = pack_sql(values, names, f"arriving WHERE {self.terms.fine}")
        return self.connection.sql(rows).to_arrow_table().cast(schema)


class TurnThere(There):
    """Turns in the partitions, a shard in each."""

    setting: Turns
    turned: DataFrame | None = None

    def turn(
        self, arrived: Arrived, slices: Iterable[Slice], turn: Turn | None, clock: Clock
    ) -> Clock:
        setting, shards = self.setting, self.setting.shards
        struct = arrow_struct(shards.schema)
        rows = self.spark.createDataFrame([], struct)
        rows = rows if self.packed is None else rows.union(self.packed)
        if turn is None:
            self.take(rows)
            return clock
        numbers = [r.number for r in (*shards.tables.values(), *shards.given.values())]
        kept = setting.read(self.spark, slices, {n: [(-EVER, EVER)] for n in numbers})
        rows = rows if kept is None else rows.union(kept)
        count = setting.partitions
        split = rows.repartitionById(count, F.expr(shards.home(count, literal, spark=True)))
        task = _Task(pickle.dumps((shards, setting.rigid)), turn, count)
        self.turned = split.mapInArrow(task, struct).persist()
        told = self.turned.where(F.col("tab").isin(list(shards.reports))).select("tab", "c", "b")
        reports = [shards.report(*row) for row in told.collect()]
        clock = clock.reported(reports)
        self.pending = sum(report.open for report in reports)
        self.turned.createOrReplaceTempView("tidelog_turned")
        self.take(self.spark.sql(told_and_kept(shards, clock, "tidelog_turned")))
        return clock

    def pack(self, facts: DataFrame) -> DataFrame:
        shards = self.setting.shards
        types = {f.name: f.dataType.simpleString() for f in arrow_struct(shards.schema)}
        values = self.setting.values(lambda name: f"CAST(NULL AS {types[name]})")
        rows = facts.selectExpr(
            self.setting.tab,
            *values,
            f"t - {place_sql()} AS c",
            f"{bit_sql(place_sql())} AS b",
        )
        names = [name for name in shards.schema.names if name not in ("part", "b")]
        merged = rows.groupBy(*names).agg(F.bit_or("b").alias("b"))
        return merged.withColumn("part", F.lit(DONE)).select(*shards.schema.names)

    def release(self) -> None:
        super().release()
        if self.turned is not None:
            self.turned.unpersist()


def told_and_kept(shards: Shards, clock: Clock, table: str) -> str:
    """SQL for what of the rows after a turn is told and kept, once all shards have reported.

    Rows to be told are under the numbers of answers.
    """
    parts: list[str] = []
    whole = [] if clock.closed else [*shards.tables.values()]
    for query, relation in shards.given.items():
        answers = shards.answers[query]
        if not relation.temporal:
            whole += [answers] if clock.closed else [answers, relation]
            continue
        due = clock.due[query]
        if shards.eager:
            whole.append(answers)
        else:
            parts.append(_clipped(shards, table, relation, answers, Range(-EVER, due - 1)))
        if not clock.closed:
            parts.append(_clipped(shards, table, relation, relation, Range(due, EVER)))
    numbers = ", ".join(str(r.number) for r in whole) or "-1"
    names = ", ".join(shards.schema.names)
    return " UNION ALL ".join([f"SELECT {names} FROM {table} WHERE tab IN ({numbers})", *parts])


def _clipped(shards: Shards, table: str, of: Relation, to: Relation, clip: Range) -> str:
    names = [name for name in shards.schema.names if name not in ("tab", "b")]
    low, high = int(clip.low), int(clip.high)
    bits = f"b & {mask_sql(low, high)}"
    return (
        f"SELECT CAST({to.number} AS INT) AS tab, {', '.join(names)}, {bits} AS b FROM {table}"
        f" WHERE tab = {of.number} AND {chunks_sql(low, high)} AND ({bits}) <> 0"
    )


class Online(Pipeline):
    """Batches of turns: answers as soon as every shard is sure, and live facts only."""

    setting: Turns

    @property
    def queries(self) -> tuple[str, ...]:
        return (*self.setting.shards.deps.queries, *self.constant)

    @property
    def little(self) -> int:
        # One shard that has it all is in the driver.
        return super().little if self.setting.shards.positions is not None else EVER

    def _here(self, rows: pa.Table | None) -> Work:
        return TurnHere(self.setting, rows)

    def _there(self, spark: SparkSession, rows: DataFrame | None) -> Work:
        return TurnThere(self.setting, spark, rows)

    def _advance(
        self, work: Work, rows: DataFrame | None, clock: Clock, arrived: Arrived
    ) -> tuple[Work, Clock]:
        last = self.checkpoint.last
        before = Clock() if last is None else last.clock
        slices = () if last is None else last.state
        size = sum(n for part in slices for _, _, n in part.tables.values())
        if isinstance(work, TurnHere) and size > self.little:
            work = self._moved(work, rows, before)
        clock, turn = clock.turn(self.pace)
        assert isinstance(work, (TurnHere, TurnThere))
        work.anew = turn is not None  # what is not live any more is nowhere
        return work, work.turn(arrived, slices, turn, clock)

    def _tout(self, clock: Clock) -> int | None:
        return clock.online_tout()

    def _kept(self, name: str, clock: Clock) -> list[Range]:
        return [Range(-EVER, EVER)]

    def pending(self, most: int) -> list[Pending]:
        """Answers that may still come after the last commit, with what each waits for."""
        last = self.checkpoint.last
        start, done = (None, None) if last is None else (last.clock.start, last.clock.done)
        if last is None or start is None or done is None:
            return []
        shards = self.setting.shards
        turn = Turn(start, done, done, start, last.clock.due, last.clock.answered)
        rows = pa.concat_tables([shards.schema.empty_table(), *self.setting.stored(last.state)])
        return shards.pending(turn, self.setting.rigid, rows, most)


@dataclass(frozen=True)
class _Task:
    """A shard as Spark calls it."""

    shards: bytes
    turn: Turn
    partitions: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        if self.shards not in _known:
            _known.clear()
            _known[self.shards] = pickle.loads(self.shards)
        shards, rigid = _known[self.shards]
        same = [pa.RecordBatch.from_arrays(b.columns, schema=shards.schema) for b in batches]
        rows = pa.Table.from_batches(same, shards.schema)
        yield from shards.run(self.turn, rigid, rows, context.partitionId(), self.partitions)


_known: dict[bytes, tuple[Shards, dict[str, set[Row]]]] = {}
