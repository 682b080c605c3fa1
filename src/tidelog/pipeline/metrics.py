"""What a stream on Spark tells of itself: its commits and Spark's progress, as numbers."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from tidelog.evaluation.spark.failures import SPARK_ERRORS
from tidelog.evaluation.spark.shipping import version
from tidelog.pipeline.commit import Commit
from tidelog.pipeline.publishing import Metric, Publisher
from tidelog.pipeline.start import AnyPipeline

# Seconds between two heartbeats.
BEAT = 10.0


class Board:
    """The numbers of one stream, published whenever one of them has changed."""

    def __init__(self, publisher: Publisher, pipeline: AnyPipeline) -> None:
        self.publisher = publisher
        self.labels = {"stream": pipeline.checkpoint.id, "name": pipeline.name}
        self.places = pipeline.plan.rows.places
        self.pace = pipeline.plan.pace
        self.ticks, self.tick = pipeline.plan.options.ticks, pipeline.plan.options.tick
        self.commit = pipeline.checkpoint.last
        pipeline.told = self._also(pipeline.told)
        self.committed: float | None = None  # when, in seconds since 1970
        self.progress: Any = None
        self.running, self.failed, self.closed = False, False, False
        self.alive: float | None = None  # when the query was last seen to run
        self._silent = threading.Event()  # no more heartbeats
        self._heart: threading.Thread | None = None
        self._listener: _Listener | None = None
        self._lock = threading.Lock()
        self._publish()

    def _also(self, told: Callable[[Commit], None]) -> Callable[[Commit], None]:
        """A function that keeps this board up to date and then tells someone else."""

        def both(commit: Commit) -> None:
            self.commit, self.committed = commit, time.time()
            self._publish()
            told(commit)

        return both

    def follow(self, spark: SparkSession, query: StreamingQuery) -> None:
        """Listen to Spark from now on, and to no query before this one."""
        if self._listener is not None:
            spark.streams.removeListener(self._listener)
        self._spark, self._query = spark, query
        self._listener = _Listener(self, str(query.id))
        spark.streams.addListener(self._listener)
        self.running = query.isActive
        self._beat()
        if self._heart is None:
            self._heart = threading.Thread(target=self._beats, name="tidelog-heart", daemon=True)
            self._heart.start()

    def _beats(self) -> None:
        """Publish that the query runs, as long as its process answers."""
        with suppress(*SPARK_ERRORS):
            while not self._silent.wait(BEAT):
                if self._query.isActive:
                    self._beat()

    def _beat(self) -> None:
        self.alive = time.time()
        self._publish()

    def heard(self, progress: Any) -> None:
        self.progress = progress
        self._publish()

    def ended(self, failed: bool) -> None:
        self.running, self.failed = False, self.failed or failed
        self._publish()

    def close(self, failed: bool) -> None:
        """Listen no more; the last numbers stay in a file, and an endpoint is gone."""
        self._silent.set()
        if self.closed:
            return
        if self._listener is not None:
            self._spark.streams.removeListener(self._listener)
            self._listener = None
            self.progress = self._query.lastProgress or self.progress
            failed = failed or self._query.exception() is not None
        self.ended(failed)
        self.closed = True
        self.publisher.close()

    def _publish(self) -> None:
        with self._lock:
            if not self.closed:
                self.publisher.publish(tuple(self._metrics()))

    def _metrics(self) -> Iterator[Metric]:
        of = self.labels

        def one(name: str, kind: str, help_: str, value: float | None) -> Metric:
            return Metric(name, kind, help_, () if value is None else ((of, value),))

        def each(name: str, kind: str, help_: str, label: str, values: Mapping[str, Any]) -> Metric:
            samples = tuple(({**of, label: key}, value) for key, value in values.items())
            return Metric(name, kind, help_, samples)

        info = (({**of, "version": version()}, 1),)
        yield Metric("tidelog_stream_info", "gauge", "The stream and tidelog's version.", info)
        yield one("tidelog_up", "gauge", "1 while the stream runs.", int(self.running))
        yield one("tidelog_failed", "gauge", "1 once it ended with an error.", int(self.failed))
        yield one(
            "tidelog_heartbeat_timestamp_seconds",
            "gauge",
            "When the stream was last seen to run, in seconds since 1970.",
            self.alive,
        )
        yield one(
            "tidelog_last_commit_timestamp_seconds",
            "gauge",
            "When this process committed a batch last, in seconds since 1970.",
            self.committed,
        )
        if self.commit is not None:
            yield from self._committed(self.commit, one, each)
        if self.progress is not None:
            yield from self._of_spark(self.progress, one, each)

    def _committed(self, commit: Commit, one: Any, each: Any) -> Iterator[Metric]:
        """What the last commit says; counters count from the first batch on, across restarts."""
        clock, totals = commit.clock, commit.total.as_json()
        yield one("tidelog_batches_total", "counter", "Batches committed.", commit.batch + 1)
        for name, key, help_ in (
            ("tidelog_rows_total", "rows", "Rows read, whatever became of them."),
            ("tidelog_facts_total", "facts", "Facts taken in."),
            ("tidelog_late_total", "late", "Facts that came too late."),
            ("tidelog_dead_letters_total", "dead", "Rows that could not be used."),
            ("tidelog_skipped_total", "skipped", "Rows or files that an operator put aside."),
            ("tidelog_heartbeats_total", "heartbeats", "Rows that say only how far time is."),
        ):
            yield one(name, "counter", help_, totals.get(key, 0))
        answers = ("tidelog_answers_total", "counter", "Answers given.", "query")
        yield each(*answers, commit.answered)
        for name, count, help_ in (
            ("tidelog_batch_facts", commit.facts, "Facts taken in by the last batch."),
            ("tidelog_batch_late", commit.late, "Facts of the last batch that came too late."),
            ("tidelog_batch_dead_letters", commit.dead, "Rows of the last batch not used."),
        ):
            yield one(name, "gauge", help_, count)
        batch = ("tidelog_batch_answers", "gauge", "Answers of the last batch.", "query")
        yield each(*batch, commit.answers)
        long = "" if self.ticks is None else f" Ticks are {self.tick} long."
        complete = f"The tick up to which all has arrived.{long}"
        yield one("tidelog_tin", "gauge", complete, clock.tin)
        answered = f"The tick up to which all is answered.{long}"
        yield one("tidelog_tout", "gauge", answered, commit.tout)
        if self.ticks is not None:
            for name, tick, what in (
                ("tidelog_tin_timestamp_seconds", clock.tin, "has arrived"),
                ("tidelog_tout_timestamp_seconds", commit.tout, "is answered"),
            ):
                seconds = None if tick is None else self.ticks.micros(tick) / 1e6
                help_ = f"When the tick starts up to which all {what}, in seconds since 1970."
                yield one(name, "gauge", help_, seconds)
        seen = ("tidelog_seen_tick", "gauge", f"The greatest tick seen.{long}", "input")
        yield each(*seen, clock.seen)
        waits = {name: int(name in commit.waits_for) for name in self.pace.inputs}
        yield each("tidelog_waits_for", "gauge", "1 where tin waits for an input.", "input", waits)
        idle = {name: int(name in clock.idle) for name in self.pace.inputs}
        help_ = "1 while an input is silent and holds nothing back."
        yield each("tidelog_idle", "gauge", help_, "input", idle)
        last = max(clock.seen.values(), default=None)
        lag = None if last is None or commit.tout is None else last - commit.tout
        yield one("tidelog_lag_ticks", "gauge", f"The greatest tick seen, less tout.{long}", lag)
        pending = "Answers that may still come, where the stream knows them."
        yield one("tidelog_pending_answers", "gauge", pending, commit.pending)
        yield from self._state(commit)

    def _state(self, commit: Commit) -> Iterator[Metric]:
        rows = dict.fromkeys(sorted(set(self.places.values())), 0)
        sizes = dict.fromkeys(rows, 0.0)
        for part in commit.state:
            for tab, (_, _, n) in part.tables.items():
                rows[self.places[tab]] += n
                sizes[self.places[tab]] += part.size * n / part.rows if part.rows else 0
        labels = [{**self.labels, "predicate": p, "kind": kind} for p, kind in rows]
        kept = "Rows of state, each up to 60 ticks of a fact."
        yield Metric(
            "tidelog_state_rows", "gauge", kept, tuple(zip(labels, rows.values(), strict=True))
        )
        size = "Bytes of state files, shared out by rows."
        shares = tuple(zip(labels, map(round, sizes.values()), strict=True))
        yield Metric("tidelog_state_bytes", "gauge", size, shares)

    def _of_spark(self, progress: Any, one: Any, each: Any) -> Iterator[Metric]:
        """Spark's own numbers on its last batch."""
        for name, value, help_ in (
            ("batch", progress.batchId, "The batch that Spark's numbers are of."),
            ("input_rows", progress.numInputRows, "Rows of its sources; files, for a folder."),
            ("input_rows_per_second", progress.inputRowsPerSecond, "The rate of arrival."),
            ("processed_rows_per_second", progress.processedRowsPerSecond, "The rate of work."),
            ("batch_seconds", progress.batchDuration / 1000, "How long the batch took."),
        ):
            known = value is not None and math.isfinite(value)
            yield one(f"tidelog_spark_{name}", "gauge", help_, value if known else None)
        seconds = {phase: ms / 1000 for phase, ms in sorted(progress.durationMs.items())}
        help_ = "How long each part of the batch took."
        yield each("tidelog_spark_phase_seconds", "gauge", help_, "phase", seconds)


class _Listener(StreamingQueryListener):
    """Hears of every query of a session, and passes on what concerns one."""

    def __init__(self, board: Board, query: str) -> None:
        self.board, self.query = board, query

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        return

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        if str(event.progress.id) == self.query:
            self.board.heard(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        return

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        if str(event.id) == self.query:
            self.board.ended(event.exception is not None)
