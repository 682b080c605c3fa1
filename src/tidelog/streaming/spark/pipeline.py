"""One micro-batch after another: pack, split by key, run the wave, write, commit.

Batch N is a pure function of commit N-1 and of the rows Spark gives to batch N. Nothing that
matters lives in this process: after a crash the batch is done again from the last commit, and what
it had written before is removed first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any, Protocol

import duckdb
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.evaluation.duckdb import timestamps
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
from tidelog.streaming.spark.sinks import Rows, Sink, Told, save
from tidelog.streaming.spark.sources import Inputs, arrow_struct

# Slices past which they are merged into one, and rows that one file of state may hold.
MOST_SLICES = 24
FILE_ROWS = 1_000_000
# Facts and rows of state up to which a batch's results are gathered in the driver.
SMALL = 20_000


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
        size = arrived.facts + sum(n for part in slices for _, _, n in part.tables.values())
        small = size <= SMALL and (span is None or span.to - span.tin <= SMALL)
        packed = self._packed(rows, arrived)
        rows_out = self._waved(spark, packed, slices, span)
        out: Results = Here(rows_out, self) if small else There(rows_out, self)
        try:
            commit = self._written(out, number, last, clock, arrived, rows)
        finally:
            out.release()
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

    def _arrived(self, rows: DataFrame, clock: Clock) -> tuple[DataFrame, Arrived]:
        """The rows with those that are not facts marked, and what there is of them."""
        late = _late(clock)
        fine = f"problem IS NULL AND NOT ({late})"
        found = Arrived()
        if self.max_jump is not None:
            found.limit = self._limit(rows.where(fine), clock, self.max_jump)
            if found.limit is not None:
                fine = f"{fine} AND t <= {found.limit}"
        columns = (
            f"count_if({fine})",
            f"count_if(problem IS NULL AND {late})",
            "count(*)",
            f"min(CASE WHEN {fine} THEN t END)",
            f"max(CASE WHEN {fine} THEN t END)",
        )
        for tag, facts, late_, all_, first, last in (
            rows.groupBy("tag").agg(*map(F.expr, columns)).collect()
        ):
            found.facts += facts
            found.late += late_
            found.dead += all_ - facts - late_
            if last is not None:
                found.seen[self.inputs.names[tag]] = last
                found.first = first if found.first is None else min(found.first, first)
        return rows.withColumn("fine", F.expr(fine)), found

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
        names = [f.name for f in self.layout.schema if f.name not in ("old", "c", "b")]
        found = self._selected(rows.where("fine"))
        chunks = f"t - pmod(t, {CHUNK})"
        one = f"shiftleft(1L, CAST(pmod(t, {CHUNK}) AS INT))"
        if arrived.facts <= SMALL:  # the kernel packs what is little to move
            return found.selectExpr(*names, f"{chunks} AS c", f"{one} AS b")
        return found.groupBy(*names, F.expr(f"{chunks} AS c")).agg(F.expr(f"bit_or({one}) AS b"))

    def _selected(self, rows: DataFrame) -> DataFrame:
        """For every scan the rows it wants, with the table's number and in its slots."""
        if len(self._scans) == 1:
            ((condition, row),) = self._scans
            return rows.where(condition).select("t", row.alias("row")).select("t", "row.*")
        return rows.select("t", self._every)

    @cached_property
    def _scans(self) -> list[tuple[Column, Column]]:
        return [
            self._wanted(step)
            for step in self.layout.schedule.plan.steps
            if isinstance(step, Scan) and step.predicate.temporal
        ]

    @cached_property
    def _every(self) -> Column:
        some = F.array(*(F.when(condition, row) for condition, row in self._scans))
        return F.inline(F.filter(some, lambda x: x.isNotNull()))

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
        new = packed
        if packed is not None:
            others = [name for name in names if name not in ("tab", "old")]
            old = "TRUE" if span is None else "FALSE"
            new = packed.selectExpr("tab", f"{old} AS old", *others)
        if span is None:
            return spark.createDataFrame([], struct) if new is None else new
        schedule = self.layout.schedule
        looked = {
            relation.number: schedule.looked_at(name, span.tin, span.to, span.start)
            for name, relation in self.layout.tables.items()
        }
        kept = self._read(spark, slices, looked)
        parts = [part for part in (new, kept) if part is not None]
        rows = reduce(DataFrame.union, parts) if parts else spark.createDataFrame([], struct)
        split = rows.repartitionById(self.kernel.partitions, self._home)
        return split.mapInArrow(_Task(self.kernel, span), struct)

    @cached_property
    def _home(self) -> Column:
        return F.expr(self.layout.home(self.kernel.partitions, _sql_literal, spark=True))

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
        wanted = [
            f"(tab = {tab} AND c BETWEEN {low} AND {high})"
            for tab, found in chunks.items()
            for low, high in found
        ]
        others = [name for name in struct.names if name not in ("tab", "old")]
        return rows.where(" OR ".join(wanted)).selectExpr("tab", "TRUE AS old", *others)

    # Writing

    def _written(
        self,
        out: Results,
        number: int,
        last: Commit | None,
        clock: Clock,
        arrived: Arrived,
        rows: DataFrame | None,
    ) -> Commit:
        """Dead letters, answers, state; and the commit that says so, not yet written."""
        found = out.counts
        if rows is not None and arrived.late + arrived.dead:
            self._dead_letters(rows, number, last, arrived)
        frames: dict[str, Rows] = {}
        counts: dict[str, int] = {}
        for query in self.queries:
            counts[query] = 0
            relation = self.layout.answers.get(query)
            if relation is None:  # rigid: known before anything has arrived
                table = self.constant[query]
                if number == 0 and table.num_rows:
                    counts[query] = table.num_rows
                    frames[query] = table
            elif relation.number in found:
                counts[query] = found[relation.number].facts
                frames[query] = out.answers(query, relation)
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
        reason = F.coalesce(F.col("problem"), F.when(F.expr(_late(clock)), late), ahead)
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

    def _tell(self, number: int, answers: dict[str, Rows], state: dict[str, Any]) -> dict[str, Any]:
        if isinstance(self.sink, Told) and answers:
            # Told of what is on disk: told again after a crash, it hears the same.
            store = self.checkpoint.store
            read: dict[str, DataFrame] = {}
            for i, (query, rows) in enumerate(answers.items()):
                place = ("answers", str(number), str(i))
                save(rows, "parquet", store, place)
                read[query] = self.spark.read.parquet(store.path(*place))
            self.sink.tell(number, read)
            return state
        return self.sink.write(number, answers, state)

    def _forget_told(self, number: int) -> None:
        if isinstance(self.sink, Told):
            self.checkpoint.store.delete("answers", str(number))

    # State

    def _slices(
        self,
        out: Results,
        number: int,
        last: Commit | None,
        clock: Clock,
        found: dict[int, Count],
    ) -> tuple[Slice, ...]:
        """The slices after a batch: the new one, and the old ones that are still looked at."""
        if clock.closed:
            return ()
        kept = [
            part for part in (last.state if last is not None else ()) if self._alive(part, clock)
        ]
        tabs = sorted(r.number for r in self.layout.tables.values() if r.number in found)
        if tabs:
            tables = {tab: (found[tab].first, found[tab].last, found[tab].rows) for tab in tabs}
            out.keep(tabs, ("state", str(number)))
            kept.append(self._slice(str(number), tables))
        if len(kept) > MOST_SLICES:
            kept = self._merged(kept, f"{number}-merged", clock)
        return tuple(kept)

    def _slice(self, folder: str, tables: dict[int, tuple[int, int, int]]) -> Slice:
        """A slice of state files that have been written."""
        store = self.checkpoint.store
        written = tuple(
            (entry.name, entry.size, store.sha256("state", folder, entry.name))
            for entry in store.entries("state", folder)
            if entry.name.endswith(".parquet")
        )
        return Slice(folder, tables, written)

    def _merged(self, slices: list[Slice], folder: str, clock: Clock) -> list[Slice]:
        """Many slices as one, without what nothing looks at any more."""
        ranges = {r.number: self._kept(name, clock) for name, r in self.layout.tables.items()}
        spark = self.spark.newSession()
        configure(spark, self.kernel.partitions)
        rows = self._read(spark, slices, ranges)
        if rows is None:
            return []
        names = [f.name for f in self.layout.schema if f.name not in ("old", "b")]
        merged = There(
            rows.groupBy(*names).agg(F.bit_or("b").alias("b")).withColumn("old", F.lit(True)), self
        )
        try:
            tables = {tab: (n.first, n.last, n.rows) for tab, n in merged.counts.items()}
            if not tables:
                return []
            merged.keep(sorted(tables), ("state", folder))
            return [self._slice(folder, tables)]
        finally:
            merged.release()

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


@dataclass(frozen=True)
class Count:
    """What there is of a table: rows, first and last chunk, facts."""

    rows: int
    first: int
    last: int
    facts: int


class Results(Protocol):
    """What a wave gave, here or there."""

    counts: dict[int, Count]

    def answers(self, query: str, relation: Relation) -> Rows:
        """Packed answers a row each, under the names and with the times users asked for."""

    def keep(self, tabs: list[int], place: tuple[str, ...]) -> None:
        """Write the rows of some tables as state."""

    def release(self) -> None:
        """They are not needed any more."""


class There:
    """Results that stay in the partitions: however many, they are written from there."""

    def __init__(self, rows: DataFrame, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.rows = rows.persist()
        counted = self.rows.groupBy("tab").agg(
            F.count("*"), F.min("c"), F.max("c"), F.sum(F.bit_count("b"))
        )
        self.counts = {tab: Count(*map(int, found)) for tab, *found in counted.collect()}

    def answers(self, query: str, relation: Relation) -> Rows:
        pipeline = self.pipeline
        bits = F.filter(
            F.sequence(F.lit(0), F.lit(CHUNK - 1)),
            lambda i: F.call_function("getbit", F.col("b"), i) == 1,
        )
        time = F.col("c") + F.col("i")
        if pipeline.ticks is not None and pipeline.timestamps:
            time = F.timestamp_micros(time * pipeline.ticks.length + pipeline.ticks.origin)
        rows = self.rows.where(F.col("tab") == relation.number)
        plain = rows.select(*relation.slots, "c", F.explode(bits).alias("i"))
        names = pipeline.program.output_columns(query)
        return plain.select(*relation.slots, time.alias("t")).toDF(*names, TIME_COLUMN)

    def keep(self, tabs: list[int], place: tuple[str, ...]) -> None:
        rows = self.rows.where(F.col("tab").isin(tabs)).drop("old")
        files = 1 + sum(self.counts[tab].rows for tab in tabs) // FILE_ROWS
        spread = rows.coalesce(files).sortWithinPartitions("tab", "c")
        save(spread, "parquet", self.pipeline.checkpoint.store, place)

    def release(self) -> None:
        self.rows.unpersist()


class Here:
    """Results that are few enough to be gathered: no further job of Spark's for them."""

    def __init__(self, rows: DataFrame, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.register("results", rows.toArrow())
        self.counts = {
            tab: Count(*found)
            for tab, *found in self.connection.execute(
                "SELECT tab, count(*), min(c), max(c), CAST(sum(bit_count(b)) AS BIGINT)"
                " FROM results GROUP BY tab"
            ).fetchall()
        }

    def answers(self, query: str, relation: Relation) -> Rows:
        slots = "".join(f"{slot}, " for slot in relation.slots)
        table = self.connection.sql(
            f"SELECT {slots}c + i AS t FROM results, range({CHUNK}) AS n(i)"
            f" WHERE tab = {relation.number} AND ((b >> i::INT) & 1) = 1 ORDER BY ALL"
        ).to_arrow_table()
        ticks = self.pipeline.ticks
        if ticks is not None and self.pipeline.timestamps:
            stamps = timestamps(table.column(-1), ticks)
            table = table.set_column(table.num_columns - 1, "t", stamps)
        names = self.pipeline.program.output_columns(query)
        return table.rename_columns([*names, TIME_COLUMN])

    def keep(self, tabs: list[int], place: tuple[str, ...]) -> None:
        some = ", ".join(map(str, tabs))
        select = (
            f"SELECT * EXCLUDE (old, b), bit_or(b) AS b FROM results WHERE tab IN ({some})"
            " GROUP BY ALL ORDER BY tab, c"
        )
        table = self.connection.sql(select).to_arrow_table()
        save(table, "parquet", self.pipeline.checkpoint.store, place)

    def release(self) -> None:
        self.connection.close()


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


def _late(clock: Clock) -> str:
    """SQL for whether a row came too late."""
    return "FALSE" if clock.tin is None else f"t <= {clock.tin}"


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
