"""Rules over Spark Structured Streaming: any streaming DataFrame in, answers out, exactly once."""

from __future__ import annotations

import os
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from html import escape
from typing import Any, TypeAlias

import pyarrow as pa

try:
    from py4j.protocol import Py4JJavaError
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
except ImportError as error:
    raise ImportError(
        f"tidelog.spark needs Spark, and {error.name} is missing: pip install 'tidelog[spark]'"
        " brings it",
        name=error.name,
    ) from None

from tidelog.analysis.definitive import Pending
from tidelog.analysis.passes import passes
from tidelog.causes import cause_of
from tidelog.data.kafka import Topics
from tidelog.data.readers.places import PathText
from tidelog.data.schema import expect_program, expect_queries, schemas
from tidelog.data.ticks import Duration, Ticks, TimeType, length_given, time_text
from tidelog.errors import DataError, Refused, first_line, warn_missing
from tidelog.evaluation.engine import Moment, Question, as_tick
from tidelog.evaluation.spark.failures import (
    SPARK_ERRORS,
    clear,
    is_interruption,
    wait_for_interruption,
)
from tidelog.evaluation.spark.files import Files
from tidelog.evaluation.spark.given import Given
from tidelog.evaluation.spark.handles import release_handles
from tidelog.evaluation.spark.kafka import Messages, is_messages, topics_by_input
from tidelog.evaluation.spark.query import answer_frame
from tidelog.evaluation.spark.remote import addressed, fetched, looked_at
from tidelog.evaluation.spark.session import expect_classic, session
from tidelog.evaluation.spark.sources import time_types
from tidelog.language.alignment import aligned, in_order
from tidelog.language.program import Program
from tidelog.pipeline.commit import KEEP_COMMITS, Checkpoint, Commit
from tidelog.pipeline.handover import Live
from tidelog.pipeline.listed import FilesRead, listed, listed_before
from tidelog.pipeline.metrics import Board
from tidelog.pipeline.places import Arriving
from tidelog.pipeline.plan import OnlineWork, PipelinePlan, pipeline_plan
from tidelog.pipeline.progress import JobDescriptions, free_name, observed, report, stream_name
from tidelog.pipeline.publishing import Publisher, publisher
from tidelog.pipeline.spark_log import LIVE, SPARK
from tidelog.pipeline.start import AnyPipeline, FactSource, source_of, start, streams_of
from tidelog.pipeline.store import open_store, said
from tidelog.streaming.options import MAX_AHEAD, Emit, History, Idle, StreamMode, StreamOptions
from tidelog.streaming.silence import Silence
from tidelog.streaming.sinks import sink_of
from tidelog.streaming.sinks.functions import FunctionSink, MemorySink, theirs
from tidelog.streaming.sinks.sink import Sink
from tidelog.streaming.stream import warn_growing, warn_overtaken, warn_renamed

# A function for Spark's own `foreachBatch`.
ForeachBatch: TypeAlias = Callable[[DataFrame, int], object]
# Seconds between two looks at silent inputs.
SILENCE = 0.25

__all__ = ["Commit", "Refused", "Running", "query", "session", "stream"]


def stream(
    spark: SparkSession,
    program: Program,
    queries: str | Iterable[str] | None = None,
    *,
    inputs: Mapping[str, DataFrame | PathText] | PathText | Sequence[PathText],
    rigid: Mapping[str, Any] | PathText | Sequence[PathText] | None = None,
    sink: str | Callable[[int, Mapping[str, DataFrame]], object] | ForeachBatch | Sink = "memory",
    checkpoint: str | os.PathLike[str] | None = None,
    lateness: Duration = 0,
    tick: str | timedelta | None = None,
    origin: str | datetime | None = None,
    timestamps: bool = True,
    sparse: Iterable[str] = (),
    idle: Idle | None = None,
    max_jump: Duration | None = None,
    from_: Moment | None = None,
    mode: StreamMode = "offline",
    emit: Emit = "definitive",
    history: History = "derived",
    partitions: int | None = None,
    memory: str = "1GB",
    files_per_batch: int | None = None,
    keep_commits: int = KEEP_COMMITS,
    trigger: Mapping[str, Any] | None = None,
    told: Callable[[Commit], None] = lambda _: None,
    metrics: str | int | os.PathLike[str] | None = None,
    then: str | Sequence[str] | Mapping[str, str] | None = None,
    kafka: Mapping[str, str] | None = None,
    intervals: bool = False,
    max_ahead: str | timedelta | None = MAX_AHEAD,
    heartbeats: bool = False,
    skip: Iterable[PathText] = (),
    name: str | None = None,
) -> Running:
    """Run the rules over streaming DataFrames, one for each temporal input, or a folder of facts.

    A DataFrame holds facts, or messages as Spark's connector for Kafka reads them. Instead of a
    folder there may be topics, `kafka://HOST:PORT/TOPIC`; `kafka` are their options.
    After a folder of history a stream goes on with the topics of `then`, without a gap.

    `rigid` are facts without time, as DataFrames, rows or a folder; they are copied at the first
    start. The sink is `parquet:DIR`, `csv:DIR`, `json:DIR`, `jsonl:FILE`, `delta:DIR`, `console`,
    `memory`, `kafka://HOST:PORT/TOPIC` or a function of batch number and DataFrames of answers,
    one for each query, in every batch; for one query a function of `df` and `batch_id` will do.
    `trigger` is what Spark's `trigger` takes. Of the last `keep_commits` commits the state is kept,
    so that `tidelog checkpoint rollback` can go back to them. An input that was silent for as long
    as `idle` says, a length of time for all or a mapping from inputs, holds time back no longer.
    `told` hears of every commit. `metrics` is where numbers for Prometheus go: `FILE.prom`, or a
    port, which is served on 127.0.0.1 unless `HOST:PORT` says otherwise. With `intervals` answers
    have `from` and `to`, a row for each stretch once it has ended; with `emit="eager"` also when it
    begins. `name` is what Spark's UI and metrics call the stream, by default as its file of rules,
    or its queries.

    Timestamps more than `max_ahead` after the clock are no facts; None takes all of them. Messages
    without a value, or with a time alone, move time if `heartbeats` are asked for. `skip` are files
    and messages, `kafka:TOPIC/PARTITION/OFFSET`, that become a dead letter each, unread.
    """
    _expect_session(spark)
    expect_program(program)
    called = _name(spark, name)
    skipped = [str(one) for one in ((skip,) if isinstance(skip, (str, os.PathLike)) else skip)]
    options = StreamOptions.of(
        length_given(program, tick),
        origin,
        lateness,
        max_jump,
        from_,
        idle,
        max_ahead,
        heartbeats=heartbeats,
        mode=mode,
        emit=emit,
        history=history,
        sparse=(sparse,) if isinstance(sparse, str) else tuple(sparse),
        timestamps=timestamps,
        intervals=intervals,
    )
    if isinstance(inputs, Mapping):
        expect_classic(*inputs.values())
    temporary = _temporary() if checkpoint is None else None
    point = Checkpoint(open_store(spark, str(checkpoint) if temporary is None else temporary.name))
    settled = point.identity()
    program, asked = _as_started(program, expect_queries(program, queries), settled)
    frames, paths, topics = streams_of(inputs)
    topics = tuple(topics_by_input([*topics, *_then(then, topics)], program))
    if rigid is None and paths:
        known = schemas(program)
        rigid = (
            {n: path for n, path in inputs.items() if n in known and known[n].time is None}
            if isinstance(inputs, Mapping)
            else [str(path) for path in paths]
        )
    facts = {name: frame for name, frame in frames.items() if not is_messages(frame)}
    rigid = fetched(spark, rigid, program, only_rigid=True)
    with addressed():
        there = looked_at(spark, program, paths)
        given = Given.of(program, asked, facts, there, rigid, options.ticks)
    options = replace(options, time_types=_time_types(given.program, asked, facts))
    if keep_commits < KEEP_COMMITS:
        raise ValueError(f"keep_commits is {KEEP_COMMITS} or more, not {keep_commits}")
    point.keep_commits = keep_commits
    plan = pipeline_plan(given.program, asked, options, large=given.large, settled=settled)
    _warn(plan)
    live = None if then is None else Live(spark, plan, point, topics, kafka or {}, skipped)
    target = _sink(spark, sink, kafka or {})
    if live is not None:
        live.check()
    read = (topics, kafka) if live is None else ((), None)

    def entries_read() -> set[str]:
        latest = point.latest()
        return listed_before(point.store, None if latest is None else latest.spark)

    source = source_of(
        spark, plan, frames, paths, files_per_batch, point.seen(), *read, skipped, entries_read
    )
    arriving = source.stream()
    published = None if metrics is None else publisher(metrics)
    with _closed_on_error(published):
        pipeline = start(
            spark,
            plan,
            given,
            point,
            target,
            told,
            partitions=partitions,
            memory=memory,
            ends=_is_finite(trigger),
            lenient=isinstance(source, Messages),
            topics=topics,
            limits={"files_per_batch": files_per_batch, "skip": skipped},
            kafka=kafka,
        )
        pipeline.name = called or free_name(stream_name(program, asked), spark)
        pipeline.jobs = partial(JobDescriptions(spark).say, pipeline.name)
    return Running(pipeline, source, arriving, trigger, temporary, published, live)


def _as_started(
    program: Program, asked: tuple[str, ...], settled: Mapping[str, Any]
) -> tuple[Program, tuple[str, ...]]:
    """Rules and queries in the order, and under the names, that the first start gave them."""
    before = aligned(program, str(settled.get("program", "")))
    if before is None:
        return program, asked
    asked = in_order(asked, settled["queries"])
    warn_renamed(program, before, asked)
    return before, asked


def _name(spark: SparkSession, name: str | None) -> str | None:
    """The name that a stream is given; DataError if it has none, or another stream has it."""
    if name is None:
        return None
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"name is a text that is not empty, not {name!r}")
    if name in {query.name for query in spark.streams.active}:
        raise DataError(f"a stream of this Spark session is called `{name}`: choose another name")
    return name


def _time_types(
    program: Program, asked: tuple[str, ...], frames: Mapping[str, DataFrame]
) -> frozenset[TimeType]:
    """The types of the times in the DataFrames that some queries need."""
    known = schemas(program)
    needed = {p.base for p in passes(program, asked).core.inputs if p.temporal}
    types = (time_types(frames[name], known[name]) for name in needed & frames.keys())
    return frozenset[TimeType]().union(*types)


def _then(
    then: str | Sequence[str] | Mapping[str, str] | None, topics: Sequence[Topics]
) -> Sequence[Topics]:
    """The topics that come after a history."""
    if then is None:
        return ()
    if topics:
        raise DataError("--then goes on after files: topics of Kafka alone need no history")
    _, _, after = streams_of(then)
    if not after:
        raise DataError("--then goes on with Kafka: give kafka://HOST:PORT/TOPIC")
    return after


def _expect_session(spark: object) -> None:
    if not hasattr(spark, "readStream"):
        raise ValueError(
            f"a Spark session is first, not {type(spark).__name__}: tidelog.spark.session() gives"
            " one"
        )
    expect_classic(spark)


def _is_finite(trigger: Mapping[str, Any] | None) -> bool:
    """Whether a stream ends with what is there when it starts."""
    return bool(trigger) and not {"once", "availableNow"}.isdisjoint(trigger or ())


def _warn(plan: PipelinePlan) -> None:
    warn_overtaken(passes(plan.program, plan.queries).dependencies, plan.options.sparse)
    if isinstance(plan.work, OnlineWork) and plan.work.shards.whole:
        warn_growing(plan.work.shards.deps)


@contextmanager
def _closed_on_error(published: Publisher | None) -> Iterator[None]:
    try:
        yield
    except BaseException:
        if published is not None:
            published.close()
        raise


def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tidelog-checkpoint-")


def _sink(spark: SparkSession, sink: Any, kafka: Mapping[str, str]) -> Sink:
    """A sink, a function to tell, or a text that names a sink."""
    if isinstance(sink, Sink):
        return sink
    if callable(sink):
        return FunctionSink(sink)
    return sink_of(str(sink), lambda root: open_store(spark, root), spark, kafka)


def query(
    spark: SparkSession,
    program: Program,
    query: str,
    inputs: Mapping[str, Any] | PathText | Sequence[PathText],
    *,
    from_: Moment | None = None,
    to: Moment | None = None,
    tick: str | timedelta | None = None,
    origin: str | datetime | None = None,
    timestamps: bool = True,
    partitions: int | None = None,
    memory: str = "1GB",
    budget: float = 60.0,
    intervals: bool = False,
) -> DataFrame:
    """The answers of a query over finite facts, as a DataFrame that is computed when it is used.

    `inputs` are facts by input, or a folder of them: a DataFrame, also of pandas, an Arrow table,
    rows, a path, or the name of a table or view. The times of answers have the type of the facts'
    times. One job finds the first and the last tick; nothing else runs, unless Spark's own joins
    come after another stage (`explain --show pipeline`): the stages before them are computed at
    once, and stored as long as you have the DataFrame. Rows with a NULL or NaN in a column are left
    out. What bulk evaluation cannot answer exactly goes to the timeline, in this process and at
    once, within a budget of seconds. With `intervals` answers have `from` and `to`, a row for each
    stretch at which they hold.
    """
    _expect_session(spark)
    expect_program(program)
    (query,) = expect_queries(program, query)
    ticks = Ticks.given(program, tick, origin)
    low, high = as_tick(from_, ticks), as_tick(to, ticks)
    question = Question(
        program, (query,), inputs, low, high, ticks, timestamps, budget, lambda _: None, intervals
    )
    return answer_frame(spark, question, query, partitions, memory)


class _Called:
    """What Spark calls with every batch.

    It is known to Spark's process for as long as its stream is known here, and the other way round:
    it must let go of the stream in the end, or both would stay until the process ends.
    """

    def __init__(self, batch: Callable[[DataFrame, int], None]) -> None:
        self.batch: Callable[[DataFrame, int], None] | None = batch

    def __call__(self, frame: DataFrame, number: int) -> None:
        if self.batch is None:
            raise RuntimeError(f"the stream had ended before batch {number}")
        self.batch(frame, number)


class Running:
    """A stream that runs: a handle around Spark's StreamingQuery."""

    def __init__(
        self,
        pipeline: AnyPipeline,
        source: FactSource,
        arriving: DataFrame,
        trigger: Mapping[str, Any] | None,
        temporary: tempfile.TemporaryDirectory[str] | None,
        published: Publisher | None,
        live: Live | None = None,
    ) -> None:
        self._pipeline, self._temporary = pipeline, temporary
        if temporary is not None:  # dead letters go with it
            pipeline.notices.place = lambda: None
        self._board = None if published is None else Board(published, pipeline)
        self._files, self._place = FilesRead(pipeline.checkpoint), SPARK
        self._spark = arriving.sparkSession
        self._error: BaseException | None = None
        self._missing: set[str] = set()  # inputs that were warned of at the end
        self._called = _Called(self._batch)
        self._one_at_a_time = threading.Lock()  # batches of Spark's, and those of silence
        self._finishing = False  # whether no batch may begin any more
        self._hushed = threading.Event()
        self._listener: threading.Thread | None = None
        self._switching = threading.Lock()  # from history to what is live
        self._ended = False  # asked to
        self._history: threading.Thread | None = None
        try:
            if live is None:
                self._start(source, arriving, trigger)
            elif live.begun:
                self._start_live(live, trigger)
            else:
                self._start_with_history(source, arriving, live, trigger)
        except BaseException as error:
            self._error = error
            self._release()
            if isinstance(error, Py4JJavaError):
                raise DataError(
                    f"Spark cannot start the stream: {said(error)}", code=cause_of(str(error))
                ) from None
            raise clear(error) from None

    def _start(
        self,
        source: FactSource,
        arriving: DataFrame,
        trigger: Mapping[str, Any] | None,
        place: str = SPARK,
    ) -> None:
        """Have Spark call us with batches."""
        self._source, self._place = source, place
        self._files.warn_of_changes()
        rows = observed(arriving, self.plan.options.ticks)
        writer = rows.writeStream.foreachBatch(self._called).queryName(self.name)
        folder = self._pipeline.checkpoint.store.path(place)
        writer = writer.option("checkpointLocation", folder)
        if trigger:
            writer = writer.trigger(**trigger)
        self.query: StreamingQuery = writer.start()
        if self._board is not None:
            self._board.follow(arriving.sparkSession, self.query)
        if self._pipeline.silence.limits:
            self._listen_to_silence()

    def _start_live(self, live: Live, trigger: Mapping[str, Any] | None) -> None:
        messages = live.source()
        self._start(messages, messages.stream(), trigger, LIVE)

    def _start_with_history(
        self,
        source: FactSource,
        arriving: DataFrame,
        live: Live,
        trigger: Mapping[str, Any] | None,
    ) -> None:
        """Read a history to its end, in which nobody is silent, then go on with what is live."""
        silence, self._pipeline.silence = self._pipeline.silence, Silence({})
        self._start(source, arriving, {"availableNow": True})

        def go_on() -> None:
            try:
                self.query.awaitTermination()
                with self._switching:
                    if not self._ended:
                        silence.hear(silence.limits)
                        self._pipeline.silence = silence
                        self._start_live(live, trigger)
            except BaseException as error:
                self._error = self._error or error

        self._history = threading.Thread(target=go_on, name="tidelog-history", daemon=True)
        self._history.start()

    def _listen_to_silence(self) -> None:
        """From now on notice silence also where nothing comes, so that Spark has no batch."""
        self._listener = threading.Thread(target=self._listen, name="tidelog-silence", daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        try:
            while not self._hushed.wait(SILENCE):
                with self._one_at_a_time:
                    if self._pipeline.is_held_up and self.query.isActive:
                        self._pipeline.quiet()
        except BaseException as error:
            self._error = self._error or error
            traceback.clear_frames(error.__traceback__)
            with suppress(*SPARK_ERRORS):
                self.query.stop()

    def _hush(self) -> None:
        """No more batches of silence from here on."""
        self._hushed.set()
        if self._listener is not None and self._listener is not threading.current_thread():
            self._listener.join()
            self._listener = None

    def _batch(self, frame: DataFrame, number: int) -> None:
        store = self._pipeline.checkpoint.store

        def rows() -> Arriving:
            self._files.begin()
            files = partial(listed, store, self._place, number)
            return self._source.batch(frame, self._pipeline.limits(), files)

        try:
            with self._one_at_a_time:
                if self._finishing:
                    wait_for_interruption(frame.sparkSession)
                self._pipeline.deliver(self._place, number, rows)
                self._files.warn_now_and_then()
                self._report()
            release_handles()
        except BaseException as error:
            self._error = error
            # Spark keeps the error: what its frames hold would be with us to the very end.
            traceback.clear_frames(error.__traceback__)
            raise

    def _report(self) -> None:
        """Show the numbers of the last commit in Spark's progress."""
        commit = self.committed
        if commit is not None and commit.spark is not None:
            report(self._spark, commit.spark.query, commit, self.plan.options.ticks)

    @property
    def plan(self) -> PipelinePlan:
        """What is run: what `tidelog explain --show pipeline` shows of the same rules and data."""
        return self._pipeline.plan

    @property
    def id(self) -> str:
        """The stream's own name, which its sink carries."""
        return self._pipeline.checkpoint.id

    @property
    def name(self) -> str:
        """What Spark's UI and metrics call the stream."""
        return self._pipeline.name

    @property
    def committed(self) -> Commit | None:
        """What the last commit says: tin, tout, counts and state."""
        return self._pipeline.checkpoint.last

    @property
    def status(self) -> dict[str, Any]:
        """What Spark says of the query, and where the stream stands."""
        status: dict[str, Any] = {**self.query.status, "isActive": self.query.isActive}
        commit = self.committed
        if commit is not None:
            status |= {"tin": commit.clock.tin, "tout": commit.tout, "batch": commit.batch}
            status |= {"waits_for": list(commit.waits_for), "idle": list(commit.clock.idle)}
        return status

    @property
    def progress(self) -> Any:
        """Spark's own progress reports."""
        return self.query.recentProgress

    @property
    def answers(self) -> dict[str, pa.Table]:
        """What a memory sink has gathered."""
        sink = self._pipeline.sink
        if not isinstance(sink, MemorySink):
            raise ValueError(f"answers go to {sink.name}; only a memory sink gathers them")
        tables = {query: sink.table(query) for query in self.plan.queries}
        return {query: table for query, table in tables.items() if table is not None}

    def pending(self, most: int = 100) -> list[Pending]:
        """Answers at times up to tin that may still come: what each waits for, and until when.

        As of the last commit; at most `most` of them, the earliest first. Online only.
        """
        return self._pipeline.pending(most)

    @property
    def metrics(self) -> str | None:
        """Where the numbers for Prometheus are: a file or an address."""
        return None if self._board is None else self._board.publisher.place

    def awaitTermination(self, timeout: int | None = None) -> bool:
        """Wait until the query ends; whether it did, or its error."""
        try:
            if self._history is not None:
                self._history.join(timeout)
                if self._history.is_alive():
                    return False
            if timeout is None:
                self.query.awaitTermination()
            ended = timeout is None or bool(self.query.awaitTermination(timeout))
            self._pipeline.notices.tell_due()
            self._files.warn_now_and_then()
            if ended:
                self._forget_interruption()
            if ended and self._error is not None:
                raise self._failed(self._error)
            if ended:
                self._tell_missing()
            return ended
        except SPARK_ERRORS as error:
            raise self._failed(error) from None

    def _tell_missing(self) -> None:
        """Warn, once, of inputs of which nothing has come, when nothing more will come."""
        seen = () if self.committed is None else self.committed.clock.seen
        files = self._source if isinstance(self._source, Files) else None
        told = {*seen, *self._pipeline.notices.inputs, *self.plan.program.heads, *self._missing}
        told |= set() if files is None else set(files.missing())  # at the start
        for name in sorted(self.plan.inputs.keys() - told):
            needing = self.plan.program.needing(name, self.plan.queries)
            warn_missing(name, needing, [] if files is None else files.of(name))
            self._missing.add(name)

    def stop(self, *, finish: bool = False) -> None:
        """Stop after what is committed; a later start goes on from there.

        With `finish`, the batch at work is committed first, and no other one begins.
        """
        self.halt(finish=finish)
        self._release()

    def halt(self, *, finish: bool = False) -> None:
        """Stop as `stop` does, and let `pending` be asked for still."""
        self._finishing = finish
        self._hush()
        try:
            with self._one_at_a_time if finish else nullcontext():
                pass
            with self._switching:
                self._ended = True
                self.query.stop()
            if self._history is not None:
                self._history.join()
            self._forget_interruption()
            if finish and self._error is not None:
                raise self._failed(self._error)
        except SPARK_ERRORS as error:
            raise self._failed(error) from None

    def _forget_interruption(self) -> None:
        """A batch that was broken off by a stop is no failure, as Spark sees it, too."""
        error = self._error
        if error is not None and not self.query.isActive and self.query.exception() is None:
            self._error = None if is_interruption(error) else error

    def _failed(self, error: BaseException) -> BaseException:
        """Let go of everything; what to tell of an error of Spark's, or of the one before it."""
        self._error = self._error or error
        told = clear(self._error)
        self._release()
        return told.with_traceback(theirs(told.__traceback__) or told.__traceback__)

    def close(self) -> Commit | None:
        """No more input: take in what is there, answer everything up to the last tick, and end."""
        if self._history is not None:
            self._history.join()
        self._hush()
        try:
            self._forget_interruption()
            if self._error is not None:
                raise self._failed(self._error)
            if self.query.isActive:
                self.query.processAllAvailable()
                self.query.stop()
            elif self.query.exception() is not None:
                self.awaitTermination()
            self._tell_missing()
            last = self.committed
            if last is None or not last.clock.closed:
                self._pipeline.close_time()
            return self.committed
        except SPARK_ERRORS as error:
            raise self._failed(error) from None
        finally:
            self._release()

    def _release(self) -> None:
        self._hush()
        self._called.batch = None
        self._pipeline.close()
        if self._board is not None:
            with suppress(*SPARK_ERRORS):  # Spark may be gone
                self._board.close(failed=self._error is not None)
        self._files.warn_of_changes()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None
        self._pipeline.notices.finish()

    def __repr__(self) -> str:
        """Where it stands, in a line."""
        return f"<stream of {', '.join(self.plan.queries)}: {'; '.join(self._told().values())}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(what)}</th><td>{escape(text)}</td></tr>"
            for what, text in self._told().items()
        )
        return f"<table><caption>{escape(', '.join(self.plan.queries))}</caption>{rows}</table>"

    def _told(self) -> dict[str, str]:
        """What a person asks first."""
        ticks, last = self.plan.options.ticks, self.committed
        state = "runs" if self.query.isActive else "has stopped"
        if self._error is not None:
            state = f"failed: {first_line(self._error)}"
        told = {"state": state, "answers": f"to {self._pipeline.sink.name}"}
        if last is not None:
            told["batches"] = f"{last.batch + 1} batches, {last.totals.get('facts', 0)} facts"
            for name, tick in (("complete", last.clock.tin), ("answered", last.tout)):
                if tick is not None:
                    told[name] = f"{name} up to {time_text(tick, ticks)}"
            if len(self.plan.pace.held) > len(last.waits_for) > 0:
                told["waits"] = f"time waits for {' and '.join(last.waits_for)}"
            unused = last.totals.get("late", 0) + last.totals.get("dead", 0)
            told |= {"unused": f"{unused} rows not used"} if unused else {}
        return told

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
