"""Rules over Spark Structured Streaming: any streaming DataFrame in, answers out, exactly once."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidelog.analysis.definitive import Pending
from tidelog.analysis.dependencies import Dependencies, dependencies
from tidelog.analysis.stages import staged
from tidelog.data.schema import schemas
from tidelog.data.ticks import Ticks
from tidelog.errors import DataError, Refused
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.engine import Moment, Question, as_tick
from tidelog.evaluation.layout import Layout
from tidelog.evaluation.spark.given import Given
from tidelog.evaluation.spark.kernel import Kernel
from tidelog.evaluation.spark.query import answer_frame
from tidelog.evaluation.spark.session import clear, session, summary
from tidelog.evaluation.spark.shipping import check_shared, prepare
from tidelog.evaluation.spark.sources import Files, Frames, Inputs
from tidelog.language.printer import print_rule
from tidelog.language.program import Program
from tidelog.pipeline.checkpoint import Checkpoint, Commit
from tidelog.pipeline.kernel import WaveJob
from tidelog.pipeline.loop import Pipeline, Source
from tidelog.pipeline.metrics import Board
from tidelog.pipeline.publishing import publisher
from tidelog.pipeline.sinks import MARK, Folder, Memory, Sink, sink_of
from tidelog.pipeline.store import Store, said
from tidelog.pipeline.turns import Online, Turns
from tidelog.pipeline.waves import Offline, Waves
from tidelog.streaming.clock import Emission, Pace
from tidelog.streaming.joins import Row
from tidelog.streaming.offline import enough_window, least_delays
from tidelog.streaming.options import Emit, History, Mode, StreamOptions
from tidelog.streaming.schedule import Schedule
from tidelog.streaming.shards import Shards
from tidelog.streaming.stream import warn_growing

__all__ = ["Commit", "Refused", "Running", "clear", "query", "session", "stream", "summary"]


def stream(
    spark: SparkSession,
    program: Program,
    queries: Iterable[str] | None = None,
    *,
    inputs: Mapping[str, DataFrame] | str | os.PathLike[str],
    rigid: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    sink: str | Callable[[int, Mapping[str, DataFrame]], None] | Sink = "memory",
    checkpoint: str | os.PathLike[str] | None = None,
    lateness: int = 0,
    tick: str | None = None,
    origin: str | None = None,
    timestamps: bool = True,
    sparse: Iterable[str] = (),
    max_jump: int | None = None,
    from_: int | None = None,
    mode: Mode = "offline",
    emit: Emit = "definitive",
    history: History = "derived",
    partitions: int | None = None,
    memory: str = "1GB",
    files_per_batch: int | None = None,
    trigger: Mapping[str, Any] | None = None,
    told: Callable[[Commit], None] = lambda _: None,
    metrics: str | int | os.PathLike[str] | None = None,
) -> Running:
    """Run the rules over streaming DataFrames, one for each temporal input, or a folder of facts.

    `rigid` are facts without time, as DataFrames, rows or a folder; they are copied at the first
    start. The sink is `parquet:DIR`, `csv:DIR`, `json:DIR`, `jsonl:FILE`, `console`, `memory` or a
    function of batch number and DataFrames of answers. `trigger` is what Spark's `trigger` takes.
    `told` hears of every commit. `metrics` is where numbers for Prometheus go: `FILE.prom`, or a
    port, which is served on 127.0.0.1 unless `HOST:PORT` says otherwise.
    """
    options = StreamOptions(
        mode, emit, history, lateness, tuple(sparse), max_jump, from_, tick, origin, timestamps
    )
    ticks = options.ticks
    asked = tuple(queries) if queries is not None else program.outputs
    folder = None if isinstance(inputs, Mapping) else str(inputs)
    frames = inputs if isinstance(inputs, Mapping) else {}
    for name, frame in frames.items():
        if not frame.isStreaming:
            raise DataError(
                f"input `{name}` is not a streaming DataFrame: read it with spark.readStream, or"
                " ask `query` for finite facts"
            )
    given = Given.of(program, asked, frames, folder, folder if rigid is None else rigid)
    program = given.program
    temporary = None
    if checkpoint is None:
        temporary = tempfile.TemporaryDirectory(prefix="tidelog-checkpoint-")
        checkpoint = temporary.name
    point = Checkpoint(Store(spark, str(checkpoint)))
    known = schemas(program)
    shape: Layout | Shards
    found: dict[str, Any] = {}
    deps = dependencies(given.core, asked)
    if options.online:
        shape = _shards(program, deps, options.eager)
        core_ = shape.deps.core
    else:
        large = point.stored("large", lambda: given.large)
        split = staged(deps, large)
        schedule = Schedule(split.deps)
        shape = Layout(schedule.plan, split.stages)
        core_ = split.deps.core
        delays = point.stored("delays", lambda: least_delays(program, schedule))
        window = point.stored(
            "window", lambda: enough_window(program, delays) if options.strict else None
        )
        found = {"large": large, "delays": delays, "history": history, "window": window}
    wanted = {p.source: known[p.source] for p in core_.inputs if p.temporal}
    missing = sorted(set(wanted) - set(frames)) if folder is None else []
    if missing:
        raise DataError(f"no stream for input `{missing[0]}`, which {', '.join(asked)} needs")
    temporal = {name for name, schema in known.items() if schema.time is not None}
    unknown = sorted(set(options.sparse) - temporal)
    if unknown:
        raise DataError(f"`{unknown[0]}` is listed as sparse and is no temporal input")
    options = replace(options, sparse=tuple(sorted(set(options.sparse) & set(wanted))))
    pace = Pace(tuple(sorted(wanted)), lateness, frozenset(options.sparse), from_)
    sources: Source
    feed = Inputs(wanted, ticks)
    if folder is not None:
        sources = Files(spark, program, folder, feed, files_per_batch)
    else:
        sources = Frames(frames, feed)
    arriving = sources.stream()
    target = sink_of(spark, sink)
    identity: dict[str, Any] = {
        "program": "\n".join(print_rule(rule) for rule in program.rules),
        "queries": list(asked),
        "inputs": {
            name: {
                "columns": [[c.name, str(c.type)] for c in schema.columns],
                "time": schema.time,
            }
            for name, schema in sorted(known.items())
        },
        **options.identity(),
        **found,
        "sink": target.name,
        "tables": {
            name: [relation.number, *map(str, relation.types)]
            for name, relation in shape.tables.items()
        },
    }

    def copy_rigid() -> None:
        for i, table in enumerate(given.rigid.values()):
            buffer = pa.BufferOutputStream()
            pq.write_table(table, buffer)
            point.store.write(bytes(buffer.getvalue()), "rigid", f"{i}.parquet")

    published = None if metrics is None else publisher(metrics)
    try:
        prepare(spark)
        point.take()
        point.recognise(identity)
        target.check(point.id, point.last is None)
        target.prepare()
        point.start(identity, copy_rigid)
        target.mark(point.id)
        mark = target.store.here(MARK) if isinstance(target, Folder) else None
        check_shared(spark, point.store.here("lock"), mark)
        tables = {
            name: pq.read_table(pa.BufferReader(point.store.read("rigid", f"{i}.parquet")))
            for i, name in enumerate(given.rigid)
        }
    except BaseException:
        point.release()
        if published is not None:
            published.close()
        raise
    board = None
    if published is not None:
        board = Board(published, point.id, shape, point.last)
        told = board.also(told)
    count = partitions or spark.sparkContext.defaultParallelism
    common = (spark, program, shape, feed, count, point.store, max_jump, timestamps, tables)
    constant = _constant(program, [q for q in asked if q not in shape.answers], tables)
    rest = (pace, point, target, constant, told)
    pipeline: Pipeline
    if isinstance(shape, Shards):
        needed = {p.name for p in core_.inputs}
        rigid_rows = {n: _tuples(table) for n, table in tables.items() if n in needed}
        pipeline = Online(Turns(*common, shape, rigid_rows), *rest)
    else:
        sent = {name: table for name, table in tables.items() if name in shape.rigid}
        kernel = Kernel.of(point.id, WaveJob(shape, schedule), sent, count, memory)
        emission = Emission(delays, options.eager, window)
        pipeline = Offline(Waves(*common, shape, schedule, emission, kernel), *rest)
    return Running(pipeline, sources, arriving, trigger, temporary, board)


def query(
    spark: SparkSession,
    program: Program,
    query: str,
    inputs: Mapping[str, Any] | str | os.PathLike[str],
    *,
    from_: Moment | None = None,
    to: Moment | None = None,
    tick: str | None = None,
    origin: str | None = None,
    timestamps: bool = True,
    partitions: int | None = None,
    memory: str = "1GB",
    budget: float = 60.0,
) -> DataFrame:
    """The answers of a query over finite facts, as a DataFrame that is computed when it is used.

    `inputs` are DataFrames by input, rigid ones also as rows, or a folder of facts. One job finds
    the first and the last tick; nothing else runs. Rows with a NULL or NaN in a column are left
    out. What bulk evaluation cannot answer exactly goes to the timeline, in this process and at
    once, within a budget of seconds.
    """
    ticks = None if tick is None else Ticks.of(tick, origin)
    facts = inputs if isinstance(inputs, Mapping) else str(inputs)
    low, high = as_tick(from_, ticks), as_tick(to, ticks)
    question = Question(
        program, (query,), facts, low, high, ticks, timestamps, budget, lambda _: None
    )
    return answer_frame(spark, question, query, partitions, memory)


class Running:
    """A stream that runs: a handle around Spark's StreamingQuery."""

    def __init__(
        self,
        pipeline: Pipeline,
        source: Source,
        arriving: DataFrame,
        trigger: Mapping[str, Any] | None,
        temporary: tempfile.TemporaryDirectory[str] | None,
        board: Board | None,
    ) -> None:
        self._pipeline, self._source, self._temporary = pipeline, source, temporary
        self._board = board
        self._error: BaseException | None = None
        try:
            writer = arriving.writeStream.foreachBatch(self._batch)
            writer = writer.option("checkpointLocation", pipeline.checkpoint.store.path("spark"))
            if trigger:
                writer = writer.trigger(**trigger)
            self.query: StreamingQuery = writer.start()
            if board is not None:
                board.follow(pipeline.setting.spark, self.query)
        except BaseException as error:
            self._error = error
            self._release()
            if isinstance(error, Py4JJavaError):
                raise DataError(f"Spark cannot start the stream: {said(error)}") from None
            raise clear(error) from None

    def _batch(self, frame: DataFrame, number: int) -> None:
        try:
            self._pipeline.run(self._source.batch(frame), number)
        except BaseException as error:
            self._error = error
            # Spark keeps the error: what its frames hold would be with us to the very end.
            traceback.clear_frames(error.__traceback__)
            raise

    @property
    def id(self) -> str:
        """The stream's own name, which its sink carries."""
        return self._pipeline.checkpoint.id

    @property
    def committed(self) -> Commit | None:
        """What the last commit says: tin, tout, counts and state."""
        return self._pipeline.checkpoint.last

    @property
    def status(self) -> dict[str, Any]:
        """What Spark says of the query, and where the stream stands."""
        found: dict[str, Any] = {**self.query.status, "isActive": self.query.isActive}
        commit = self.committed
        if commit is not None:
            found |= {"tin": commit.clock.tin, "tout": commit.tout, "batch": commit.batch}
        return found

    @property
    def progress(self) -> Any:
        """Spark's own progress reports."""
        return self.query.recentProgress

    @property
    def answers(self) -> dict[str, pa.Table]:
        """What a memory sink has gathered."""
        sink = self._pipeline.sink
        if not isinstance(sink, Memory):
            raise ValueError(f"answers go to {sink.name}; only a memory sink gathers them")
        found = {query: sink.table(query) for query in self._pipeline.queries}
        return {query: table for query, table in found.items() if table is not None}

    def pending(self, most: int = 100) -> list[Pending]:
        """Answers at times up to tin that may still come: what each waits for, and until when.

        As of the last commit; at most `most` of them, the earliest first. Online only.
        """
        if not isinstance(self._pipeline, Online):
            raise ValueError("offline waits the same time for all answers; pending is for online")
        return self._pipeline.pending(most)

    @property
    def metrics(self) -> str | None:
        """Where the numbers for Prometheus are: a file or an address."""
        return None if self._board is None else self._board.publisher.place

    def awaitTermination(self, timeout: int | None = None) -> bool:
        """Wait until the query ends; whether it did, or its error."""
        try:
            if timeout is None:
                self.query.awaitTermination()
                return True
            return bool(self.query.awaitTermination(timeout))
        except StreamingQueryException as error:
            self._release()
            raise clear(self._error or error) from None

    def stop(self) -> None:
        """Stop after what is committed; a later start goes on from there."""
        self.query.stop()
        self._release()

    def close(self) -> Commit | None:
        """No more input: take in what is there, answer everything up to the last tick, and end."""
        try:
            if self.query.isActive:
                self.query.processAllAvailable()
                self.query.stop()
            elif self.query.exception() is not None:
                self.awaitTermination()
            last = self.committed
            if last is None or not last.clock.closed:
                self._pipeline.run(None, 0 if last is None else last.batch + 1)
            return self.committed
        except (StreamingQueryException, PySparkException) as error:
            self._error = self._error or error
            raise clear(self._error) from None
        finally:
            self._release()

    def _release(self) -> None:
        self._pipeline.checkpoint.release()
        self._pipeline.setting.close()
        if self._board is not None:
            with suppress(Py4JNetworkError, ConnectionError):  # Spark may be gone
                self._board.close(failed=self._error is not None)
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def abandon(self) -> None:
        """Let go of everything here, where Spark's own process is gone: nothing can be stopped."""
        self._error = self._error or DataError("Spark's process has ended")
        self._release()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _shards(program: Program, deps: Dependencies, eager: bool) -> Shards:
    """What an online stream derives; queries that rest on nothing temporal are not among it."""
    work = {name for stage in staged(deps).stages for name in stage.predicates}
    asked = tuple(query for query in deps.queries if query in work)
    shards = Shards(program, dependencies(deps.core.below(asked), asked), eager)
    if shards.whole:
        warn_growing(shards.deps, stacklevel=4)
    return shards


def _constant(
    program: Program, asked: list[str], tables: Mapping[str, pa.Table]
) -> dict[str, pa.Table]:
    """The answers of rigid queries, which no stream changes."""
    known = schemas(program)
    if not asked:
        return {}
    facts: dict[str, Any] = {}
    for name, table in tables.items():
        source = name.removesuffix("[in]")
        schema = known[source]
        if schema.columns:
            facts[source] = table.rename_columns([c.name for c in schema.columns])
        else:
            facts[source] = [()] * table.num_rows
    with Engine(program, facts) as engine:
        return engine.query(asked)


def _tuples(table: pa.Table) -> set[Row]:
    """Rigid facts as rows; a fact without arguments has a column that means nothing."""
    if table.column_names == ["z"]:
        return {()} if table.num_rows else set()
    return set(zip(*(column.to_pylist() for column in table.columns), strict=True))
