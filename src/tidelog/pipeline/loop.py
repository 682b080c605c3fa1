"""One micro-batch after another: take in, run the wave, write, commit.

Batch N is a pure function of commit N-1 and of the rows Spark gives to batch N. Nothing that
matters lives in this process: after a crash the batch is done again from the last commit, and what
it had written before is removed first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.data.packed import chunk
from tidelog.errors import DataError
from tidelog.evaluation.ranges import Range
from tidelog.evaluation.rows import DONE, Relation
from tidelog.pipeline.checkpoint import Checkpoint, Commit, Slice
from tidelog.pipeline.sinks import Rows, Sink, Told, save
from tidelog.pipeline.work import (
    EVER,
    FIRST,
    LITTLE,
    Arrived,
    Count,
    Setting,
    There,
    Work,
    chunks,
    configure,
)
from tidelog.streaming.clock import Clock, Pace

# Slices past which they are merged into one.
MOST_SLICES = 24


class Source(Protocol):
    """Where facts come from: a streaming frame, and the rows of one of its batches."""

    def stream(self) -> DataFrame: ...

    def batch(self, frame: DataFrame) -> DataFrame: ...


@dataclass
class Pipeline(ABC):
    """A stream's batches, each from the commit before it."""

    setting: Setting
    pace: Pace
    checkpoint: Checkpoint
    sink: Sink
    constant: dict[str, pa.Table]  # answers of rigid queries
    told: Callable[[Commit], None]

    @property
    @abstractmethod
    def queries(self) -> tuple[str, ...]: ...

    @abstractmethod
    def _here(self, rows: pa.Table | None) -> Work:
        """A batch in the driver."""

    @abstractmethod
    def _there(self, spark: SparkSession, rows: DataFrame | None) -> Work:
        """A batch in the partitions."""

    @abstractmethod
    def _advance(
        self, work: Work, rows: DataFrame | None, clock: Clock, arrived: Arrived
    ) -> tuple[Work, Clock]:
        """Derive what is due; while time stands still, what arrived is all that is new."""

    @abstractmethod
    def _tout(self, clock: Clock) -> int | None:
        """Everything up to here is answered."""

    @abstractmethod
    def _kept(self, name: str, clock: Clock) -> list[Range]:
        """The ticks of a table that later batches may look at."""

    @property
    def little(self) -> int:
        """Rows up to which a batch is done in the driver."""
        return LITTLE

    def run(self, rows: DataFrame | None, number: int) -> None:
        """Do a batch and commit it; without rows, the last one: no more input will come."""
        last = self.checkpoint.last
        root = self.checkpoint.store.name
        if last is not None and last.clock.closed and rows is not None and number >= last.batch:
            tin = last.clock.tin
            final = (
                "its input had ended"
                if tin is None
                else f"everything up to tick {tin} was declared final"
            )
            raise DataError(
                f"{root} is closed: {final}, and there are new facts; start with a new checkpoint"
            )
        if last is not None and number <= last.batch:
            return  # done before; Spark had not heard of it
        expected = 0 if last is None else last.batch + 1
        if number != expected:
            raise DataError(
                f"{root}: batch {number} does not follow the last commit, {expected - 1}:"
                " restore the whole checkpoint, or start with a new one"
            )
        self._discard(number, last)
        before = Clock() if last is None else last.clock
        work = self._work(rows, last)
        try:
            arrived = Arrived() if rows is None else work.arrived(before)
            clock = (
                before.close()
                if rows is None
                else before.after(arrived.first, arrived.seen, self.pace)
            )
            work, clock = self._advance(work, rows, clock, arrived)
            commit = self._written(work, number, last, clock, arrived)
        finally:
            work.release()
        self.checkpoint.write(commit)
        self.checkpoint.sweep(commit, last)
        if isinstance(self.sink, Told):
            self.checkpoint.store.delete("answers", str(number))
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

    # Where a batch is done

    def _work(self, rows: DataFrame | None, last: Commit | None) -> Work:
        """In the driver when there is little, as far as that can be told."""
        if rows is None:
            return self._here(None)
        configure(rows.sparkSession, self.setting.partitions)
        if self.little >= EVER:
            return self._here(rows.toArrow())
        if last is None:
            most = min(FIRST, self.little)
            found = rows.limit(most + 1).toArrow()
            if found.num_rows <= most:
                return self._here(found)
        elif last.facts + last.late + last.dead <= self.little:
            try:
                return self._here(rows.toArrow())
            except PySparkException as error:
                if "maxResultSize" not in str(error):
                    raise
        return self._there(rows.sparkSession, rows)

    def _moved(self, work: Work, rows: DataFrame | None, before: Clock) -> Work:
        """The same batch in the partitions, since there is much to look at or to derive."""
        work.release()
        if rows is None:
            return self._there(self._session(), None)
        there = self._there(rows.sparkSession, rows)
        there.arrived(before)
        return there

    def _session(self) -> SparkSession:
        spark = self.setting.spark.newSession()
        configure(spark, self.setting.partitions)
        return spark

    # Writing

    def _written(
        self, work: Work, number: int, last: Commit | None, clock: Clock, arrived: Arrived
    ) -> Commit:
        """Dead letters, answers, state; and the commit that says so, not yet written."""
        found = work.counts
        if arrived.late + arrived.dead:
            store = self.checkpoint.store
            store.make("dead_letters")
            work.dead_letters(arrived, ("dead_letters", f".batch={number}"))
            store.rename(("dead_letters", f".batch={number}"), ("dead_letters", f"batch={number}"))
        answers: dict[str, Rows] = {}
        counts: dict[str, int] = {}
        for query in self.queries:
            counts[query] = 0
            relation = self.setting.shape.answers.get(query)
            if relation is None:  # rigid: known before anything has arrived
                table = self.constant[query]
                if number == 0 and table.num_rows:
                    counts[query] = table.num_rows
                    answers[query] = table
            elif relation.number in found:
                counts[query] = found[relation.number].facts
                answers[query] = work.answers(query, relation)
        sink = self._tell(number, answers, {} if last is None else last.sink)
        state = self._slices(work, number, last, clock, found)
        totals = dict(last.totals) if last is not None else {}
        new = {"facts": arrived.facts, "late": arrived.late, "dead": arrived.dead}
        for name, n in {**new, "answers": sum(counts.values())}.items():
            totals[name] = totals.get(name, 0) + n
        before = {} if last is None else last.answered
        answered = {query: before.get(query, 0) + n for query, n in counts.items()}
        tout = self._tout(clock)
        return Commit(
            number,
            clock,
            tout,
            **new,
            answers=counts,
            state=state,
            sink=sink,
            totals=totals,
            answered=answered,
            pending=work.pending,
        )

    def _tell(self, number: int, answers: dict[str, Rows], state: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(self.sink, Told):
            return self.sink.write(number, answers, state)
        # Told of what is on disk: told again after a crash, it hears the same.
        store = self.checkpoint.store
        read: dict[str, DataFrame] = {}
        for i, (query, rows) in enumerate(answers.items()):
            place = ("answers", str(number), str(i))
            save(rows, "parquet", store, place)
            read[query] = self.setting.spark.read.parquet(store.path(*place))
        if read:
            self.sink.tell(number, read)
        return state

    # State

    def _slices(
        self,
        work: Work,
        number: int,
        last: Commit | None,
        clock: Clock,
        found: dict[int, Count],
    ) -> tuple[Slice, ...]:
        """The slices after a batch: the new one, and the old ones that are still looked at."""
        if clock.closed:
            return ()
        before = () if last is None or work.anew else last.state
        kept = [part for part in before if self._alive(part, clock)]
        tabs = sorted(r.number for r in self._stored.values() if r.number in found)
        if tabs:
            tables = {tab: (found[tab].first, found[tab].last, found[tab].rows) for tab in tabs}
            work.keep(tabs, ("state", str(number)))
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
        wanted = {r.number: chunks(self._kept(n, clock)) for n, r in self._stored.items()}
        spark = self._session()
        rows = self.setting.read(spark, slices, wanted)
        if rows is None:
            return []
        names = [f.name for f in self.setting.shape.schema if f.name not in ("part", "b")]
        work = self._there(spark, None)
        assert isinstance(work, There)
        try:
            merged = rows.groupBy(*names).agg(F.bit_or("b").alias("b"))
            work.take(merged.withColumn("part", F.lit(DONE)))
            tables = {tab: (n.first, n.last, n.rows) for tab, n in work.counts.items()}
            if not tables:
                return []
            work.keep(sorted(tables), ("state", folder))
            return [self._slice(folder, tables)]
        finally:
            work.release()

    @property
    def _stored(self) -> dict[str, Relation]:
        """What state files hold, by number: tables, and answers known or given early."""
        shape = self.setting.shape
        return {**shape.tables, **{f"{query}?": r for query, r in shape.given.items()}}

    def _alive(self, part: Slice, clock: Clock) -> bool:
        names = {r.number: name for name, r in self._stored.items()}
        return any(
            chunk(int(range_.low)) <= last and first <= int(range_.high)
            for tab, (first, last, _) in part.tables.items()
            for range_ in self._kept(names[tab], clock)
        )
