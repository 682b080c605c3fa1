"""The modes of a stream: what is due when time moves on, and how it is derived in either place.

Offline, a wave goes through the stages of the plan and computes each predicate once, by the
schedule. Online, shards take a turn each and say how far their answers are final.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.analysis.definitive import Pending
from tidelog.data.packed import (
    bit,
    bit_sql,
    chunk,
    chunks_sql,
    columns,
    mask_sql,
    pack_sql,
    place_sql,
)
from tidelog.data.ticks import Range
from tidelog.evaluation.database import Database
from tidelog.evaluation.plan import Scan
from tidelog.evaluation.rows import DONE, NEW, Relation, as_rows, kept_rows, parted
from tidelog.evaluation.spark.chain import Chain
from tidelog.evaluation.spark.kernel import Kernel, packed_tables
from tidelog.evaluation.spark.packing import Packing
from tidelog.evaluation.spark.scans import PackedScans, Packs
from tidelog.evaluation.spark.sources import NO_PATTERNS, Inputs, arrow_struct
from tidelog.language.program import FAR_MAX, Row
from tidelog.pipeline.commit import Commit, StatePart
from tidelog.pipeline.kernel import WaveWorker
from tidelog.pipeline.places import Driver, Executors
from tidelog.pipeline.plan import OfflineWork
from tidelog.pipeline.shards import Shards
from tidelog.pipeline.state import StateFiles, chunks_of
from tidelog.streaming.clock import Clock, Pace, ShardReport, Span, Turn

# A time after all others.
EVER = FAR_MAX
ALWAYS = Range(-EVER, EVER)
# Ticks that one batch may move time on in the driver.
MOST_TICKS = 100_000

S = TypeVar("S")


@dataclass(frozen=True)
class Derived:
    """Where the stream stands once a step is done; what it derived is with the place."""

    clock: Clock
    pending: int | None = None  # answers that may still come, where that is known
    is_whole_state: bool = False  # whether what is to be kept replaces all state there was


class Mode(Protocol[S]):
    """A mode; S is its kind of step, from one input time to a later one."""

    @property
    def only_in_driver(self) -> bool:
        """Whether nothing can be split, so that the executors are of no use."""

    def due(self, clock: Clock) -> tuple[Clock, S | None]:
        """The step that is due, and the clock after it; None while time stands still."""

    def is_long(self, step: S) -> bool:
        """Whether a step derives so much that it is one for the executors."""

    def pack(self, facts: DataFrame) -> DataFrame:
        """Facts that arrived, in the row format."""

    @property
    def packs(self) -> Packs:
        """The same in the tasks that read them."""

    def in_driver(
        self, driver: Driver, step: S | None, clock: Clock, parts: Sequence[StatePart]
    ) -> Derived:
        """Do a step; without one, what arrived is all that is new."""

    def in_executors(
        self, executors: Executors, step: S | None, clock: Clock, parts: Sequence[StatePart]
    ) -> Derived:
        """The same by Spark."""

    def finals(self, clock: Clock) -> dict[str, int]:
        """By query with a time, up to when it is answered."""

    def looked_at(self, clock: Clock) -> dict[int, list[Range]]:
        """By table, the ticks that later batches may look at."""

    def pending(self, last: Commit | None, most: int) -> list[Pending]:
        """Answers that may still come after the last commit, with what each waits for."""

    def close(self) -> None:
        """No more batches will come."""


@dataclass
class OfflineMode:
    """Answers after a fixed delay."""

    work: OfflineWork
    pace: Pace
    inputs: Inputs
    state: StateFiles
    kernel: Kernel[Span]
    rigid: dict[str, pa.Table]
    clocks: tuple[str, ...] = ()
    threads: int = 1  # that this process may use
    only_in_driver = False

    @cached_property
    def packing(self) -> Packing:
        return Packing(self.work.layout, self.inputs)

    @cached_property
    def worker(self) -> WaveWorker:
        """The kernel in this process."""
        kernel = replace(self.kernel, partitions=1, rigid=packed_tables(self.rigid))
        return WaveWorker(kernel, self.work.job, self.threads)

    def close(self) -> None:
        if "worker" in self.__dict__:
            self.worker.close()
            del self.worker

    def due(self, clock: Clock) -> tuple[Clock, Span | None]:
        return clock.wave(self.work.schedule, self.pace, self.work.emission)

    def is_long(self, step: Span) -> bool:
        return step.to - step.tin > MOST_TICKS

    def pack(self, facts: DataFrame) -> DataFrame:
        return self.packing.packed(facts, self.work.layout.scans)

    @property
    def packs(self) -> Packs:
        return PackedScans(self.work.layout, frozenset(self.work.layout.scans))

    def in_driver(
        self, driver: Driver, step: Span | None, clock: Clock, parts: Sequence[StatePart]
    ) -> Derived:
        new = driver.packed(self.packs, self.work.layout.schema)
        if step is None:
            driver.take(parted(new, DONE))
            return Derived(clock)
        new = pa.concat_tables([new, self._ticking(clock.ticking(step.tin, step.to))])
        kept = self.state.tables(parts, self._wanted(step))
        batches = self.worker.waved(step, new, pa.concat_tables(kept) if kept else None)
        driver.take(pa.Table.from_batches(list(batches), self.work.layout.schema))
        return Derived(clock)

    def in_executors(
        self, executors: Executors, step: Span | None, clock: Clock, parts: Sequence[StatePart]
    ) -> Derived:
        spark, facts, layout = executors.spark, executors.packed, self.work.layout
        if step is None:
            if facts is not None:
                executors.take(facts.withColumn("part", F.lit(DONE)))
            return Derived(clock)
        wanted = self._wanted(step)
        ticking = self._ticking(clock.ticking(step.tin, step.to))
        if ticking.num_rows:
            first = spark.createDataFrame(ticking, arrow_struct(ticking.schema))
            facts = first if facts is None else facts.unionByName(first)

        def new(scans: set[str]) -> DataFrame | None:
            if facts is None or not scans:
                return None
            return facts.where(F.col("tab").isin([layout.scans[name].number for name in scans]))

        def kept(tabs: set[int]) -> DataFrame | None:
            some = {tab: chunks for tab, chunks in wanted.items() if tab in tabs}
            return self.state.frame(spark, parts, some)

        chain = Chain(
            spark, self.work.job, self.kernel, lambda: self._rigid_frames(spark), new, kept
        )
        executors.held.callback(chain.release)
        executors.take(chain.rows(step))
        return Derived(clock)

    def _ticking(self, first: int | None) -> pa.Table:
        """The first tick of the data as the one fact of every clock, in the row format."""
        schema = self.work.layout.schema
        if first is None:
            return schema.empty_table()
        steps = [step for step in self.work.layout.plan.steps if isinstance(step, Scan)]
        scans = [step.name for step in steps if step.predicate.base in self.clocks]
        numbers = [self.work.layout.scans[name].number for name in scans]
        rows = [{"tab": n, "part": NEW, "c": chunk(first), "b": bit(first)} for n in numbers]
        return pa.Table.from_pylist(rows, schema)

    def _wanted(self, step: Span) -> dict[int, list[tuple[int, int]]]:
        """The chunks of each table that a wave looks at."""
        layout, schedule, to = self.work.layout, self.work.schedule, step.to + step.ahead
        wanted = chunks_of(
            {
                relation.number: schedule.looked_at(name, step.tin, to, step.start)
                for name, relation in layout.tables.items()
            }
        )
        for query in step.early:
            asked = step.asked[query]
            first = step.early[query] if asked.empty else int(asked.low)
            wanted[layout.given[query].number] = [(chunk(first), EVER)]
        return wanted

    def _rigid_frames(self, spark: SparkSession) -> dict[str, DataFrame]:
        """Rigid facts as Catalyst has them: the files of the checkpoint."""
        reader = spark.read.options(**NO_PATTERNS)
        return {
            name: reader.parquet(self.state.store.path("rigid", f"{i}.parquet"))
            for i, name in enumerate(self.rigid)
        }

    def finals(self, clock: Clock) -> dict[str, int]:
        return clock.finals(self.work.schedule, self.work.emission)

    def looked_at(self, clock: Clock) -> dict[int, list[Range]]:
        schedule, emission, layout = self.work.schedule, self.work.emission, self.work.layout
        if clock.start is None or clock.done is None:
            return {number: [ALWAYS] for number in self.state.numbers}
        ranges = {
            relation.number: self._table_looked_at(name, clock.done, clock.start)
            for name, relation in layout.tables.items()
        }
        for query, relation in layout.given.items():
            final = emission.final(schedule, query, clock.done, clock.start)
            ranges[relation.number] = [Range(final + 1, EVER)]
        return ranges

    def _table_looked_at(self, name: str, done: int, start: int) -> list[Range]:
        schedule, window = self.work.schedule, self.work.window
        is_input = name in self.work.layout.scans
        if window is not None:
            return [Range(done - window + 1, EVER)] if is_input else []
        first = schedule.kept_from(name, done, start)
        if is_input:
            first = done + 1 if first is None else min(first, done + 1)
        ranges = [] if first is None else [Range(first, EVER)]
        return ranges + [Range(tick, tick) for tick in schedule.pinned.get(name, ())]

    def pending(self, last: Commit | None, most: int) -> list[Pending]:
        if not self.work.options.online:
            raise ValueError("offline waits the same time for all answers; pending is for online")
        clock = Clock() if last is None else last.clock
        if clock.first is None or clock.done is None or clock.closed:
            return []
        low, finals = self.pace.first_answer(clock.first), self.finals(clock)
        return self.work.emission.open(self.work.schedule, finals, low, clock.done, most)


@dataclass
class OnlineMode:
    """Answers as soon as this data allows, and live facts only."""

    shards: Shards
    pace: Pace
    inputs: Inputs
    state: StateFiles
    partitions: int
    rigid: dict[str, set[Row]]

    @property
    def only_in_driver(self) -> bool:
        return self.shards.positions is None

    def close(self) -> None:
        return

    def due(self, clock: Clock) -> tuple[Clock, Turn | None]:
        return clock.turn(self.pace)

    def is_long(self, step: Turn) -> bool:
        return False

    def pack(self, facts: DataFrame) -> DataFrame:
        schema = self.shards.schema
        types = {f.name: f.dataType.simpleString() for f in arrow_struct(schema)}
        values = self._values(lambda name: f"CAST(NULL AS {types[name]})")
        packed = [f"t - {place_sql()} AS c", f"{bit_sql(place_sql())} AS b"]
        rows = facts.selectExpr(self._tab, *values, *packed)
        names = [name for name in schema.names if name not in ("part", "b")]
        merged = rows.groupBy(*names).agg(F.bit_or("b").alias("b"))
        return merged.withColumn("part", F.lit(DONE)).select(*schema.names)

    @property
    def packs(self) -> Packs:
        return PackedShards(self.shards)

    def _values(self, nothing: Callable[[str], str]) -> list[str]:
        """SQL for the arguments of a row that has arrived; `nothing` is for one it has not."""
        names = [n for n in self.shards.schema.names if n not in ("tab", "part", "c", "b")]
        known = set(self.inputs.all_slots)
        return [name if name in known else f"{nothing(name)} AS {name}" for name in names]

    @property
    def _tab(self) -> str:
        """SQL for the table of a row that has arrived."""
        predicates = self.shards.deps.core.predicates
        cases = [
            f"WHEN {self.inputs.tag(predicates[name].base)} THEN {relation.number}"
            for name, relation in self.shards.inputs.items()
            if predicates[name].base in self.inputs.schemas
        ]
        return f"CAST(CASE tag {' '.join(cases)} END AS INT) AS tab"

    def in_driver(
        self, driver: Driver, step: Turn | None, clock: Clock, parts: Sequence[StatePart]
    ) -> Derived:
        """One shard has it all."""
        rows = [driver.packed(self.packs, self.shards.schema)]
        if step is None:
            driver.take(pa.concat_tables(rows))
            return Derived(clock)
        rows += self._stored(parts)
        batches = list(self.shards.run(step, self.rigid, pa.concat_tables(rows)))
        connection = driver.connection
        connection.register("turned", pa.Table.from_batches(batches, self.shards.schema))
        numbers = ", ".join(map(str, self.shards.reports))
        said = connection.execute(f"SELECT tab, c, b FROM turned WHERE tab IN ({numbers})")
        reports = [self.shards.report(*row) for row in said.fetchall()]
        clock = clock.reported(reports)
        select = answered_and_kept(self.shards, clock, "turned")
        driver.take(connection.sql(select).to_arrow_table())
        return _turned(clock, reports)

    def in_executors(
        self, executors: Executors, step: Turn | None, clock: Clock, parts: Sequence[StatePart]
    ) -> Derived:
        """A shard in each partition."""
        spark, shards = executors.spark, self.shards
        struct = arrow_struct(shards.schema)
        rows = spark.createDataFrame([], struct)
        rows = rows if executors.packed is None else rows.union(executors.packed)
        if step is None:
            executors.take(rows)
            return Derived(clock)
        kept = self.state.frame(spark, parts, chunks_of(self.looked_at(clock)))
        rows = rows if kept is None else rows.union(kept)
        home = shards.home(self.partitions, spark=True)
        split = rows.repartitionById(self.partitions, F.expr(home))
        task = _ShardTask(pickle.dumps((shards, self.rigid)), step, self.partitions)
        turned = executors.hold(split.mapInArrow(task, struct))
        said = turned.where(F.col("tab").isin(list(shards.reports))).select("tab", "c", "b")
        reports = [shards.report(*row) for row in said.collect()]
        clock = clock.reported(reports)
        turned.createOrReplaceTempView("tidelog_turned")
        executors.take(spark.sql(answered_and_kept(shards, clock, "tidelog_turned")))
        return _turned(clock, reports)

    def _stored(self, parts: Sequence[StatePart]) -> list[pa.Table]:
        """All state, as rows."""
        wanted = {number: [(-EVER, EVER)] for number in self.state.numbers}
        return [kept_rows(rows, self.shards.schema) for rows in self.state.tables(parts, wanted)]

    def finals(self, clock: Clock) -> dict[str, int]:
        return clock.online_finals()

    def looked_at(self, clock: Clock) -> dict[int, list[Range]]:
        return {number: [ALWAYS] for number in self.state.numbers}

    def pending(self, last: Commit | None, most: int) -> list[Pending]:
        start, done = (None, None) if last is None else (last.clock.start, last.clock.done)
        if last is None or start is None or done is None:
            return []
        turn = Turn(start, done, done, start, last.clock.due, last.clock.answered)
        rows = pa.concat_tables([self.shards.schema.empty_table(), *self._stored(last.state)])
        return self.shards.pending(turn, self.rigid, rows, most)


@dataclass(frozen=True)
class PackedShards:
    """Facts packed for the shards, in the tasks that read them."""

    shards: Shards

    def inputs(self) -> set[str]:
        predicates = self.shards.deps.core.predicates
        return {predicates[name].base for name in self.shards.inputs}

    def packed(self, database: Database, facts: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        predicates = self.shards.deps.core.predicates
        for name, relation in self.shards.inputs.items():
            table = facts.get(predicates[name].base)
            if table is not None:
                names = columns(len(relation.slots))
                rows = database.arrow(pack_sql(names, names, table))
                yield from as_rows(relation, rows, DONE, self.shards.schema).to_batches()


def _turned(clock: Clock, reports: list[ShardReport]) -> Derived:
    """After a turn: facts that are not live any more are no longer in the state."""
    return Derived(clock, sum(report.open for report in reports), is_whole_state=True)


def answered_and_kept(shards: Shards, clock: Clock, table: str) -> str:
    """SQL for the rows after a turn that are answers or state, once all shards have reported.

    Rows that are answers are under the numbers of answers.
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


@dataclass(frozen=True)
class _ShardTask:
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
