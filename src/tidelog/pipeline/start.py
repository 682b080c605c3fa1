"""Starting a stream: where its facts come from, and whether checkpoint and sink are its own."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, replace
from os import PathLike
from typing import Any, Protocol, TypeAlias, assert_never

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tidelog.data.kafka import MessageFormat, Topics
from tidelog.data.readers.places import FactsPath, PathText, paths_of
from tidelog.data.schema import expect_facts
from tidelog.errors import DataError, need, warn
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.spark.files import DeltaFiles, Files, RemoteFiles
from tidelog.evaluation.spark.given import Given
from tidelog.evaluation.spark.kafka import (
    Messages,
    clusters_of,
    is_messages,
    open_topics,
)
from tidelog.evaluation.spark.kernel import Kernel
from tidelog.evaluation.spark.shipping import check_shared, cores, prepare, threads_here
from tidelog.evaluation.spark.sources import Frames, Inputs, TimeLimits
from tidelog.language.program import Row
from tidelog.pipeline.commit import Checkpoint, Commit
from tidelog.pipeline.loop import Pipeline
from tidelog.pipeline.modes import OfflineMode, OnlineMode
from tidelog.pipeline.places import Arriving
from tidelog.pipeline.plan import OfflineWork, OnlineWork, PipelinePlan
from tidelog.pipeline.sites import SparkSites
from tidelog.pipeline.state import StateFiles
from tidelog.streaming.clock import Span, Turn
from tidelog.streaming.silence import Silence
from tidelog.streaming.sinks.sink import FileStore, Sink

AnyPipeline: TypeAlias = Pipeline[Span] | Pipeline[Turn]


class FactSource(Protocol):
    """Where the facts of a stream come from."""

    def stream(self) -> DataFrame:
        """The streaming DataFrame that Spark cuts into batches."""

    def batch(
        self, frame: DataFrame, limits: TimeLimits, listed: Callable[[], set[str]]
    ) -> Arriving:
        """The rows of one of its batches; those that may not be used are kept as they came.

        `listed` gives the addresses of its files, where they are files.
        """


def streams_of(
    inputs: Mapping[str, DataFrame | PathText] | PathText | Sequence[PathText],
) -> tuple[Mapping[str, DataFrame], tuple[FactsPath, ...], tuple[Topics, ...]]:
    """Streaming DataFrames by input, or files and folders of facts, or topics of Kafka.

    DataError for a finite one, and for some of each.
    """
    if not isinstance(inputs, Mapping):
        several = [inputs] if isinstance(inputs, (str, PathLike)) else inputs
        topics = tuple(Topics.of(str(text)) for text in several if Topics.is_one(text))
        if topics and len(topics) < len(several):
            raise DataError(
                "facts come from files or from Kafka, not from both at once: files with facts"
                " without time go into --rigid, and --then goes on with Kafka after files"
            )
        return ({}, (), topics) if topics else ({}, paths_of(inputs), ())
    paths = {name: path for name, path in inputs.items() if isinstance(path, (str, PathLike))}
    if paths and len(paths) < len(inputs):
        raise DataError("inputs are streaming DataFrames or paths, not some of both")
    if paths:
        named = {n: Topics.of(str(p), n) for n, p in paths.items() if Topics.is_one(p)}
        if named and len(named) < len(paths):
            raise DataError("inputs are paths or topics of Kafka, not some of both")
        return ({}, (), tuple(named.values())) if named else ({}, paths_of(paths), ())
    frames: dict[str, DataFrame] = {}
    for name, frame in inputs.items():
        if not isinstance(frame, DataFrame):
            raise DataError(
                f"input `{name}` is {type(frame).__name__}: a streaming DataFrame or a path is"
                " expected"
            )
        frames[name] = frame
        if not frame.isStreaming:
            raise DataError(
                f"input `{name}` is not a streaming DataFrame: read it with spark.readStream, or"
                " ask `query` for finite facts"
            )
    return frames, (), ()


def source_of(
    spark: SparkSession,
    plan: PipelinePlan,
    frames: Mapping[str, DataFrame],
    paths: tuple[FactsPath, ...],
    files_per_batch: int | None,
    seen: Container[str],
    topics: Sequence[Topics] = (),
    kafka: Mapping[str, str] | None = None,
    skip: Sequence[str] = (),
    read: Callable[[], set[str]] = set,
) -> FactSource:
    """Where a plan's facts come from; DataError when an input that it needs has no stream.

    A warning names an input that has no file, unless facts of it were seen before.
    """
    inputs = Inputs(plan.inputs, plan.options.ticks)
    if paths:
        tables = [path for path in paths if path.delta is not None]
        if tables and len(tables) < len(paths):
            raise DataError("facts come from files or from Delta tables, not from both at once")
        remote = [path for path in paths if path.address is not None]
        if remote and len(remote) < len(paths):
            raise DataError(
                "facts come from this machine or from a store, not from both at once: --rigid may"
                " be elsewhere"
            )
        kind = DeltaFiles if tables else RemoteFiles if remote else Files
        of_files = [text for text in skip if not text.startswith("kafka:")]
        files = kind(spark, plan.program, paths, inputs, files_per_batch, of_files)
        if isinstance(files, DeltaFiles):
            files.read = read
        for name in files.missing():
            if name not in seen:
                expect_facts(name, plan.program, plan.queries)
        return files
    others = frozenset(plan.program.inputs) - inputs.schemas.keys()
    if topics:
        return Messages(open_topics(spark, topics, kafka or {}), inputs, others, None, skip)
    for name in sorted(set(plan.inputs) - set(frames)):
        needing = plan.program.needing(name, plan.queries)
        raise DataError(f"no stream for input `{name}`, which {need(needing)}")
    if any(map(is_messages, frames.values())):
        if not all(map(is_messages, frames.values())):
            raise DataError(
                "of these DataFrames some hold messages of Kafka and some hold facts: decode all of"
                " them, or none"
            )
        of_inputs = [(f, MessageFormat(n)) for n, f in sorted(frames.items())]
        return Messages(of_inputs, inputs, others, None, skip)
    if skip:
        raise DataError("--skip leaves out files and messages of Kafka, not rows of a DataFrame")
    return Frames(frames, inputs)


def start(
    spark: SparkSession,
    plan: PipelinePlan,
    given: Given,
    point: Checkpoint,
    sink: Sink,
    told: Callable[[Commit], None],
    *,
    partitions: int | None,
    memory: str,
    ends: bool = False,
    lenient: bool = False,
    topics: Sequence[Topics] = (),
    limits: Mapping[str, Any] | None = None,
    kafka: Mapping[str, str] | None = None,
) -> AnyPipeline:
    """A pipeline that is ready for its next batch; Refused, with nothing touched, if it is not.

    A stream that `ends` takes what there is when it starts; a `lenient` one begins also with rows
    of which none can be used.
    """
    try:
        clusters = clusters_of(spark, topics, kafka or {})
        rigid = _recognised(spark, plan, given, point, sink, topics, clusters)
        given = replace(given, rigid=rigid)
    except BaseException:
        point.release()
        sink.close()
        raise
    count = partitions or cores(spark)
    inputs = Inputs(plan.inputs, plan.options.ticks)
    state = StateFiles(point.store, plan.rows)
    # A stream that ends with what is there waits for nobody.
    silence = Silence({} if ends else plan.options.silence_limits(plan.pace.held))
    limits = {"partitions": count, "memory": memory, **(limits or {})}
    rest = (state, point, sink, _constant(plan, given), told, silence, lenient, limits)
    match plan.work:
        case OfflineWork() as work:
            sent = {n: table for n, table in given.rigid.items() if n in work.layout.rigid}
            kernel = Kernel.of(point.id, work.job, sent, count, memory)
            clocks, threads = plan.clocks, threads_here(spark)
            offline = OfflineMode(
                work, plan.pace, inputs, state, kernel, given.rigid, clocks, threads
            )
            sites = SparkSites(spark, plan, offline, inputs, point, count)
            return Pipeline(plan, offline, sites, *rest)
        case OnlineWork(shards=shards) as work:
            needed = {predicate.name for predicate in work.core.inputs}
            rows = {name: _tuples(t) for name, t in given.rigid.items() if name in needed}
            online = OnlineMode(shards, plan.pace, inputs, state, count, rows)
            turns = SparkSites(spark, plan, online, inputs, point, count)
            return Pipeline(plan, online, turns, *rest)
        case _ as never:
            assert_never(never)


def _recognised(
    spark: SparkSession,
    plan: PipelinePlan,
    given: Given,
    point: Checkpoint,
    sink: Sink,
    topics: Sequence[Topics],
    clusters: Mapping[str, str],
) -> dict[str, pa.Table]:
    """Write what a new stream is, or see that it is the one there was; its rigid facts."""
    identity = plan.identity(sink.name)
    if topics:  # brokers of a cluster may move
        identity["topics"] = [[*part.topics, asdict(part.format)] for part in topics]
    prepare(spark)
    take_up(point, sink, identity, plan, lambda: _copy(given.rigid, point.store), clusters)
    check_shared(spark, point.store.here("lock"), sink.shared_file)
    kept = {
        name: pq.read_table(pa.BufferReader(point.store.read("rigid", f"{i}.parquet")))
        for i, name in enumerate(given.rigid)
    }
    for name, table in kept.items():
        now = given.rigid[name]
        if not table.equals(now) and _tuples(table) != _tuples(now):
            warn(
                f"the rigid facts of `{name}` are others than at the first start, and the stream"
                f" goes on with those, from {point.store.shown('rigid')}: start with a new"
                " checkpoint to use the new ones"
            )
    return kept


def take_up(
    point: Checkpoint,
    sink: Sink,
    identity: dict[str, Any],
    plan: PipelinePlan,
    copy_rigid: Callable[[], None],
    clusters: Mapping[str, str] | None = None,
) -> None:
    """Begin a stream, or go on with one; Refused, with nothing touched, for another one."""
    point.take()
    point.recognise(identity)
    point.expect_clusters(clusters or {})
    fresh = point.last is None
    sink.check(point.id, fresh=fresh)
    if point.last is not None:
        sink.verify(point.last.sink)
    sink.prepare(plan.queries, fresh=fresh)
    point.start(identity, copy_rigid)
    point.describe(plan.state_tables())
    point.note_clusters(clusters or {})
    sink.mark(point.id)


def _copy(rigid: dict[str, pa.Table], store: FileStore) -> None:
    for i, table in enumerate(rigid.values()):
        buffer = pa.BufferOutputStream()
        pq.write_table(table, buffer)
        store.write(bytes(buffer.getvalue()), "rigid", f"{i}.parquet")


def _constant(plan: PipelinePlan, given: Given) -> dict[str, pa.Table]:
    """The answers of queries that no stream changes."""
    if not plan.constant:
        return {}
    with Engine(plan.program, given.rigid_facts()) as engine:
        return engine.query(plan.constant)


def _tuples(table: pa.Table) -> set[Row]:
    """Rigid facts as rows; a fact without arguments has a column that means nothing."""
    if table.column_names == ["z"]:
        return {()} if table.num_rows else set()
    return set(zip(*(column.to_pylist() for column in table.columns), strict=True))
