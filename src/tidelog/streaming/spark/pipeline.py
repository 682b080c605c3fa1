"""One micro-batch after another: pack, split by key, run the wave, write, commit.

Batch N is a pure function of commit N-1 and of the rows Spark gives to batch N. Nothing that
matters lives in this process: after a crash the batch is done again from the last commit, and what
it had written before is removed first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.evaluation.facts import DataError
from tidelog.evaluation.plan import Scan
from tidelog.evaluation.ranges import Range
from tidelog.evaluation.sql import CHUNK, chunk
from tidelog.evaluation.ticks import Ticks
from tidelog.language.program import (
    TIME_COLUMN,
    Comparison,
    Constant,
    Operator,
    Program,
    Term,
    Value,
    Variable,
)
from tidelog.streaming.clock import Clock, Pace
from tidelog.streaming.kernel import Kernel, Span
from tidelog.streaming.layout import Layout, Relation
from tidelog.streaming.spark.checkpoint import Checkpoint, Commit, Slice
from tidelog.streaming.spark.sinks import Sink, Told
from tidelog.streaming.spark.sources import Inputs, arrow_struct

# Slices past which they are merged into one, and rows that one file of state may hold.
MOST_SLICES = 24
FILE_ROWS = 1_000_000


class Source(Protocol):
    """Where facts come from: a streaming frame, and the rows of one of its batches."""

    def stream(self) -> DataFrame: ...

    def batch(self, frame: DataFrame) -> DataFrame: ...


@dataclass
class Arrived:
    """What a batch brought, input by input."""

    facts: int = 0
    late: int = 0
    dead: int = 0
    first: int | None = None
    seen: dict[str, int] = field(default_factory=dict)
    limit: int | None = None  # ticks above it are too far ahead


@dataclass
class Pipeline:
    """Everything that a batch needs, fixed when the stream starts."""

    spark: SparkSession
    program: Program
    layout: Layout
    inputs: Inputs
    pace: Pace
    kernel: Kernel
    checkpoint: Checkpoint
    sink: Sink
    max_jump: int | None
    timestamps: bool
    constant: dict[str, pa.Table]  # answers of rigid queries
    told: Callable[[Commit], None]

    @property
    def ticks(self) -> Ticks | None:
        return self.inputs.ticks

    @property
    def queries(self) -> tuple[str, ...]:
        return self.layout.schedule.deps.queries

    # Batches

    def run(self, rows: DataFrame | None, number: int) -> None:
        """Do a batch and commit it; without rows, the last one: no more input will come."""
        last = self.checkpoint.last
        if last is not None and last.clock.closed and rows is not None and number >= last.batch:
            raise DataError(
                f"{self.checkpoint.store.root} is closed: everything up to tick"
                f" {last.clock.tin} was declared final, and there are new facts;"
                " start with a new checkpoint"
            )
        if last is not None and number <= last.batch:
            return  # done before; Spark had not heard of it
        expected = 0 if last is None else last.batch + 1
        if number != expected:
            raise DataError(
                f"{self.checkpoint.store.root}: batch {number} does not follow the last commit,"
                f" {expected - 1}: restore the whole checkpoint, or start with a new one"
            )
        before = Clock() if last is None else last.clock
        self._discard(number, last)
        arrived = Arrived()
        if rows is not None:
            spark = rows.sparkSession
            configure(spark, self.kernel.partitions)
            rows, arrived = self._arrived(rows, before)
            clock = before.after(arrived.first, arrived.seen, self.pace)
        else:
            spark = self.spark.newSession()
            configure(spark, self.kernel.partitions)
            clock = before.close()
        clock, span = clock.wave(self.layout.schedule, self.pace)
        slices = () if last is None else last.state
        out = self._waved(spark, self._packed(rows, arrived), slices, span)
        out.persist()
        try:
            commit = self._written(out, number, last, clock, arrived, rows)
        finally:
            out.unpersist()
        self.checkpoint.write(commit)
        self.checkpoint.sweep(commit, last)
        self._forget_told(number)
        self.told(commit)

    def _discard(self, number: int, last: Commit | None) -> None:
        """Remove what an unfinished attempt at this batch may have left."""
        store = self.checkpoint.store
        for entry in store.entries("state"):
            if entry.name.split("-")[0] == str(number):
                store.delete("state", entry.name)
        store.delete("dead_letters", f"batch={number}")
        store.delete("dead_letters", f".batch={number}")
        store.delete("answers", str(number))
        store.delete("commits", f".{number}.json.tmp")
        self.sink.discard(number, self.queries, last.sink if last is not None else {})

    # Facts

    def _late(self, clock: Clock) -> Column:
        return F.lit(False) if clock.tin is None else F.col("t") <= clock.tin

    def _arrived(self, rows: DataFrame, clock: Clock) -> tuple[DataFrame, Arrived]:
        """The rows with those that are not facts marked, and what there is of them."""
        late = self._late(clock)
        fine = F.col("problem").isNull() & ~late
        found = Arrived()
        if self.max_jump is not None:
            found.limit = self._limit(rows.where(fine), clock, self.max_jump)
            if found.limit is not None:
                fine = fine & (F.col("t") <= found.limit)
        counted = rows.groupBy("tag").agg(
            F.count_if(fine).alias("facts"),
            F.count_if(F.col("problem").isNull() & late).alias("late"),
            F.count("*").alias("rows"),
            F.min(F.when(fine, F.col("t"))).alias("first"),
            F.max(F.when(fine, F.col("t"))).alias("last"),
        )
        for row in counted.collect():
            found.facts += row.facts
            found.late += row.late
            found.dead += row.rows - row.facts - row.late
            if row.last is not None:
                found.seen[self.inputs.names[row.tag]] = row.last
                found.first = row.first if found.first is None else min(found.first, row.first)
        return rows.withColumn("fine", fine), found

    def _limit(self, fine: DataFrame, clock: Clock, jump: int) -> int | None:
        """The tick before the first leap of more than `jump`, from the last tick seen on."""
        seen = max(clock.seen.values(), default=None)
        ticks = fine.select("t").distinct()
        if seen is not None:
            ticks = ticks.where(F.col("t") > seen)
        at = seen
        for row in ticks.sort("t").toLocalIterator():
            if at is not None and row.t - at > jump:
                return at
            at = row.t
        return None

    def _packed(self, rows: DataFrame | None, arrived: Arrived) -> DataFrame | None:
        """Facts selected, projected and packed for every scan that wants them, in one pass."""
        if rows is None or not arrived.facts:
            return None
        wanted = [
            self._wanted(step)
            for step in self.layout.schedule.plan.steps
            if isinstance(step, Scan) and step.predicate.temporal
        ]
        fine = rows.where("fine")
        names = [f.name for f in self.layout.schema if f.name not in ("old", "c", "b")]
        if len(wanted) == 1:
            ((condition, row),) = wanted
            found = fine.where(condition).select("t", row.alias("row")).select("t", "row.*")
        else:
            some = F.filter(F.array(*(F.when(c, r) for c, r in wanted)), lambda x: x.isNotNull())
            found = fine.select("t", F.inline(some))
        bit = F.pmod(F.col("t"), F.lit(CHUNK))
        return found.groupBy(*names, (F.col("t") - bit).alias("c")).agg(
            F.bit_or(F.call_function("shiftleft", F.lit(1).cast("bigint"), bit.cast("int"))).alias(
                "b"
            )
        )

    def _wanted(self, scan: Scan) -> tuple[Column, Column]:
        """When a row is one for a scan, and what the scan makes of it."""
        name = scan.predicate.source
        slots = self.inputs.slots(name)
        bound: dict[str, Column] = {}
        condition = F.col("tag") == self.inputs.tag(name)
        for term, slot in zip(scan.atom.args, slots, strict=True):
            if isinstance(term, Constant):
                condition = condition & (F.col(slot) == _literal(term.value))
            elif term.name in bound:
                condition = condition & (F.col(slot) == bound[term.name])
            else:
                bound[term.name] = F.col(slot)
        for comparison in scan.comparisons:
            condition = condition & _compared(comparison, bound)
        relation = self.layout.scans[scan.name]
        kept = {
            to: F.col(slots[position])
            for to, position in zip(relation.slots, scan.columns, strict=True)
        }
        values = [F.lit(relation.number).cast("int").alias("tab")]
        types = {f.name: f.dataType for f in arrow_struct(self.layout.schema)}
        values += [
            kept.get(f.name, F.lit(None)).cast(types[f.name]).alias(f.name)
            for f in self.layout.schema
            if f.name not in ("tab", "old", "c", "b")
        ]
        return condition, F.struct(*values)

    # The wave

    def _waved(
        self,
        spark: SparkSession,
        packed: DataFrame | None,
        slices: Iterable[Slice],
        span: Span | None,
    ) -> DataFrame:
        """New slices and answers; while time stands still, what arrived is all that is new."""
        struct = arrow_struct(self.layout.schema)
        names = struct.names
        new = (
            spark.createDataFrame([], struct)
            if packed is None
            else packed.withColumn("old", F.lit(span is None)).select(*names)
        )
        if span is None:
            return new
        schedule = self.layout.schedule
        looked = {
            relation.number: schedule.looked_at(name, span.tin, span.to, span.start)
            for name, relation in self.layout.tables.items()
        }
        kept = self._read(spark, slices, looked)
        rows = new if kept is None else new.unionByName(kept)
        home = self.layout.home(self.kernel.partitions, _sql_literal, spark=True)
        split = rows.repartitionById(self.kernel.partitions, F.expr(home))
        return split.mapInArrow(_Task(self.kernel, span), struct)

    def _read(
        self, spark: SparkSession, slices: Iterable[Slice], ranges: dict[int, list[Range]]
    ) -> DataFrame | None:
        """The rows of some ranges of each table, from the files that may hold any."""
        chunks = {
            tab: [(chunk(int(r.low)), chunk(int(r.high))) for r in found]
            for tab, found in ranges.items()
        }
        places = [
            self.checkpoint.store.path("state", part.folder, name)
            for part in slices
            if any(
                low <= last and first <= high
                for tab, (first, last, _) in part.tables.items()
                for low, high in chunks.get(tab, ())
            )
            for name, _, _ in part.files
        ]
        if not places:
            return None
        struct = arrow_struct(self.layout.schema)
        rows = spark.read.schema(struct).parquet(*places)
        wanted = F.lit(False)
        for tab, found in chunks.items():
            for low, high in found:
                wanted = wanted | ((F.col("tab") == tab) & F.col("c").between(low, high))
        return rows.where(wanted).withColumn("old", F.lit(True))

    # Writing

    def _written(
        self,
        out: DataFrame,
        number: int,
        last: Commit | None,
        clock: Clock,
        arrived: Arrived,
        rows: DataFrame | None,
    ) -> Commit:
        """Dead letters, answers, state; and the commit that says so, not yet written."""
        counted = out.groupBy("tab").agg(
            F.count("*").alias("rows"),
            F.min("c").alias("first"),
            F.max("c").alias("last"),
            F.sum(F.bit_count("b")).alias("facts"),
        )
        found = {row.tab: row for row in counted.collect()}
        if rows is not None and arrived.late + arrived.dead:
            self._dead_letters(rows, number, last, arrived)
        frames: dict[str, DataFrame] = {}
        counts: dict[str, int] = {}
        for query in self.queries:
            counts[query] = 0
            relation = self.layout.answers.get(query)
            if relation is None:  # rigid: known before anything has arrived
                table = self.constant[query]
                if number == 0 and table.num_rows:
                    counts[query] = table.num_rows
                    frames[query] = out.sparkSession.createDataFrame(table)
            elif relation.number in found:
                counts[query] = int(found[relation.number].facts)
                frames[query] = self._answers(out, query, relation)
        sink = self._tell(number, frames, {} if last is None else last.sink)
        state = self._slices(out, number, last, clock, found)
        totals = dict(last.totals) if last is not None else {}
        new = {"facts": arrived.facts, "late": arrived.late, "dead": arrived.dead}
        for name, n in {**new, "answers": sum(counts.values())}.items():
            totals[name] = totals.get(name, 0) + n
        tout = clock.tin if clock.closed else clock.tout(self.layout.schedule)
        return Commit(
            number, clock, tout, **new, answers=counts, state=state, sink=sink, totals=totals
        )

    def _dead_letters(
        self, rows: DataFrame, number: int, last: Commit | None, arrived: Arrived
    ) -> None:
        """Rows that are not used, as JSON lines with the reason."""
        clock = Clock() if last is None else last.clock
        late = F.concat(
            F.lit("late: tick "),
            F.col("t").cast("string"),
            F.lit(f" came after everything up to {clock.tin} had arrived"),
        )
        ahead = F.concat(
            F.lit("tick "),
            F.col("t").cast("string"),
            F.lit(f" is more than {self.max_jump} ahead of {arrived.limit}"),
        )
        reason = F.coalesce(F.col("problem"), F.when(self._late(clock), late), ahead)
        predicate: Column = F.lit(None)
        row: Column = F.lit(None)
        for name in self.inputs.names:
            schema = self.inputs.schemas[name]
            values = [
                F.col(slot).alias(column.name)
                for column, slot in zip(schema.columns, self.inputs.slots(name), strict=True)
            ]
            text = F.to_json(
                F.struct(*values, F.col("t").alias(str(schema.time))), {"ignoreNullFields": "false"}
            )
            here = F.col("tag") == self.inputs.tag(name)
            predicate = F.when(here, name).otherwise(predicate)
            row = F.when(here, text).otherwise(row)
        letters = rows.where(~F.coalesce(F.col("fine"), F.lit(False))).select(
            predicate.alias("predicate"),
            reason.alias("reason"),
            F.url_decode("file").alias("file"),
            F.parse_json(row).alias("row"),
        )
        store = self.checkpoint.store
        temporary = ("dead_letters", f".batch={number}")
        store.make("dead_letters")
        letters.write.json(store.path(*temporary))
        store.delete(*temporary, "_SUCCESS")
        store.rename(temporary, ("dead_letters", f"batch={number}"))

    def _answers(self, out: DataFrame, query: str, relation: Relation) -> DataFrame:
        """Packed answers a row each, under the names and with the times users asked for."""
        names = self.program.output_columns(query)
        rows = out.where(F.col("tab") == relation.number)
        bits = F.filter(
            F.sequence(F.lit(0), F.lit(CHUNK - 1)),
            lambda i: F.call_function("getbit", F.col("b"), i) == 1,
        )
        time = F.col("c") + F.col("i")
        if self.ticks is not None and self.timestamps:
            time = F.timestamp_micros(time * self.ticks.length + self.ticks.origin)
        plain = rows.select(*relation.slots, "c", F.explode(bits).alias("i"))
        return plain.select(*relation.slots, time.alias("t")).toDF(*names, TIME_COLUMN)

    def _tell(
        self, number: int, answers: dict[str, DataFrame], state: dict[str, Any]
    ) -> dict[str, Any]:
        if isinstance(self.sink, Told) and answers:
            # Told of what is on disk: told again after a crash, it hears the same.
            store = self.checkpoint.store
            read: dict[str, DataFrame] = {}
            for i, (query, rows) in enumerate(answers.items()):
                place = store.path("answers", str(number), str(i))
                rows.write.parquet(place)
                read[query] = rows.sparkSession.read.schema(rows.schema).parquet(place)
            answers = read
        return self.sink.write(number, answers, state)

    def _forget_told(self, number: int) -> None:
        if isinstance(self.sink, Told):
            self.checkpoint.store.delete("answers", str(number))

    # State

    def _slices(
        self,
        out: DataFrame,
        number: int,
        last: Commit | None,
        clock: Clock,
        found: dict[int, Any],
    ) -> tuple[Slice, ...]:
        """The slices after a batch: the new one, and the old ones that are still looked at."""
        if clock.closed:
            return ()
        kept = [
            part for part in (last.state if last is not None else ()) if self._alive(part, clock)
        ]
        tabs = sorted(r.number for r in self.layout.tables.values() if r.number in found)
        if tabs:
            tables = {
                tab: (int(found[tab].first), int(found[tab].last), int(found[tab].rows))
                for tab in tabs
            }
            rows = out.where(F.col("tab").isin(tabs)).drop("old")
            kept.append(self._slice(rows, str(number), tables))
        if len(kept) > MOST_SLICES:
            kept = self._merged(out.sparkSession, kept, f"{number}-merged", clock)
        return tuple(kept)

    def _slice(
        self, rows: DataFrame, folder: str, tables: dict[int, tuple[int, int, int]]
    ) -> Slice:
        store = self.checkpoint.store
        files = 1 + sum(n for _, _, n in tables.values()) // FILE_ROWS
        rows.coalesce(files).sortWithinPartitions("tab", "c").write.parquet(
            store.path("state", folder)
        )
        written = tuple(
            (entry.name, entry.size, store.sha256("state", folder, entry.name))
            for entry in store.entries("state", folder)
            if entry.name.endswith(".parquet")
        )
        return Slice(folder, tables, written)

    def _merged(
        self, spark: SparkSession, slices: list[Slice], folder: str, clock: Clock
    ) -> list[Slice]:
        """Many slices as one, without what nothing looks at any more."""
        ranges = {r.number: self._kept(name, clock) for name, r in self.layout.tables.items()}
        rows = self._read(spark, slices, ranges)
        if rows is None:
            return []
        names = [f.name for f in self.layout.schema if f.name not in ("old", "b")]
        merged = rows.groupBy(*names).agg(F.bit_or("b").alias("b")).persist()
        try:
            counted = merged.groupBy("tab").agg(
                F.min("c").alias("first"), F.max("c").alias("last"), F.count("*").alias("rows")
            )
            tables = {r.tab: (int(r.first), int(r["last"]), int(r.rows)) for r in counted.collect()}
            return [self._slice(merged, folder, tables)] if tables else []
        finally:
            merged.unpersist()

    def _kept(self, name: str, clock: Clock) -> list[Range]:
        """The ticks of a table that later batches may look at."""
        schedule = self.layout.schedule
        if clock.start is None or clock.done is None:
            return [EVER]
        first = schedule.kept_from(name, clock.done, clock.start)
        if name in self.layout.scans:
            first = clock.done + 1 if first is None else min(first, clock.done + 1)
        found = [] if first is None else [Range(first, EVER.high)]
        return found + [Range(tick, tick) for tick in schedule.pinned.get(name, ())]

    def _alive(self, part: Slice, clock: Clock) -> bool:
        names = {r.number: name for name, r in self.layout.tables.items()}
        return any(
            chunk(int(range_.low)) <= last and first <= int(range_.high)
            for tab, (first, last, _) in part.tables.items()
            for range_ in self._kept(names[tab], clock)
        )


EVER = Range(-(2**62), 2**62)


@dataclass(frozen=True)
class _Task:
    """The kernel as Spark calls it."""

    kernel: Kernel
    span: Span

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        yield from self.kernel.run(context.partitionId(), self.span, batches)


def configure(spark: SparkSession, partitions: int) -> None:
    """What our own queries rely on, on a session that is nobody else's."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
    spark.conf.set("spark.sql.parquet.compression.codec", "zstd")


def _literal(value: Value) -> Column:
    return F.lit(value).cast("bigint") if type(value) is int else F.lit(value)


def _sql_literal(value: Value) -> str:
    if isinstance(value, str):
        return f"CAST(X'{value.encode().hex()}' AS STRING)"
    return json.dumps(value)


def _compared(comparison: Comparison, bound: dict[str, Column]) -> Column:
    def column(term: Term) -> Column:
        return bound[term.name] if isinstance(term, Variable) else _literal(term.value)

    left, right = column(comparison.left), column(comparison.right)
    match comparison.operator:
        case Operator.EQ:
            return left == right
        case Operator.NE:
            return left != right
        case Operator.LT:
            return left < right
        case Operator.LE:
            return left <= right
        case Operator.GT:
            return left > right
        case Operator.GE:
            return left >= right
