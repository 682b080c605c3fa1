"""One micro-batch after another: take in, advance, write, commit.

Batch N is a pure function of commit N-1 and of the rows Spark gives to batch N. Nothing that
matters lives in this process: after a crash the batch is done again from the last commit, and what
it had written before is removed first.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeVar, assert_never

import duckdb
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelog.analysis.definitive import Pending
from tidelog.data.letters import letter_text, refuse_useless, warn_useless
from tidelog.data.ticks import time_text
from tidelog.errors import DataError
from tidelog.evaluation.spark.files import FileBatch
from tidelog.evaluation.spark.shipping import is_local, threads_here
from tidelog.evaluation.spark.sources import NO_PATTERNS, Inputs, TimeLimits
from tidelog.evaluation.spark.splits import reading
from tidelog.pipeline.commit import Checkpoint, Commit, Decision, StatePart
from tidelog.pipeline.modes import EVER, Derived, Mode
from tidelog.pipeline.places import (
    Arrived,
    Arriving,
    Driver,
    Executors,
    Place,
    SparkAnswers,
    configure,
)
from tidelog.pipeline.plan import PipelinePlan
from tidelog.pipeline.state import StateFiles, chunks_of
from tidelog.pipeline.stretches import BatchStretches, Stretches
from tidelog.streaming.clock import Clock, first_in_time
from tidelog.streaming.silence import Silence
from tidelog.streaming.sinks.sink import BatchAnswers, LocalAnswers, Sink

# Rows of facts and rows of state up to which a batch is done in the driver.
LITTLE = 1_000_000
# How many times as many it may be in files that nobody has to fetch.
MANY_IN_FILES = 4
# Rows that the first batch may have for that: how many there are is not known beforehand.
FIRST = 100_000
# State parts past which they are merged into one.
MOST_PARTS = 24

S = TypeVar("S")


@dataclass
class Pipeline(Generic[S]):
    """A stream's batches, each from the commit before it."""

    spark: SparkSession
    plan: PipelinePlan
    mode: Mode[S]
    inputs: Inputs
    state: StateFiles
    checkpoint: Checkpoint
    sink: Sink
    constant: dict[str, pa.Table]  # answers of queries that rest on nothing with a time
    told: Callable[[Commit], None]
    partitions: int
    silence: Silence
    lenient: bool = False  # rows that cannot be used are others', from the first one on
    useless: set[str] = field(default_factory=set)  # inputs that are warned of at the moment
    _held: ExitStack = field(default_factory=ExitStack)  # what is open between batches
    _listening: bool = False  # whether silence counts: a batch was done

    def of_spark(self, rows: Arriving, number: int) -> None:
        """Do a batch of Spark's; those that silence brought about are counted besides."""
        last = self.checkpoint.last
        self.batch(rows, number + (0 if last is None else last.quiet))

    def quiet(self) -> None:
        """Do a batch without rows: time goes on, since inputs are silent."""
        self.batch(None, self._next, quiet=True)

    def go_on(self) -> None:
        """Do a batch of our own again that was begun and not committed; others come after it."""
        begun = self.checkpoint.decisions.get(self._next)
        if begun is not None and begun.quiet:
            self.quiet()
        if begun is not None and begun.closing:
            self.close_time()

    def close_time(self) -> None:
        """Do the last batch: no more input will come."""
        if not self.sink.takes_back and self._next not in self.checkpoint.decisions:
            self.checkpoint.decide(self._next, Decision(closing=True))
        self.batch(None, self._next)

    @property
    def _next(self) -> int:
        """The number of the batch after the last commit."""
        return 0 if self.checkpoint.last is None else self.checkpoint.last.batch + 1

    def batch(self, rows: Arriving | None, number: int, *, quiet: bool = False) -> None:
        """Do a batch and commit it; without rows, and not because all is quiet, the last one."""
        last = self.checkpoint.last
        closing = rows is None and not quiet
        if self._is_done(number, last, closing=closing):
            return
        self._discard(number, last)
        before, parts = (Clock(), ()) if last is None else (last.clock, last.state)
        silent = self._silent(number, before, quiet)
        place = self._place(rows, last)
        try:
            # Take in: which rows are facts, and how far they move time.
            arrived = Arrived() if rows is None else place.take_in(before)
            clock = self._moved(before, arrived, silent, closing=closing)
            # Advance: derive what is due, in the executors if it turns out to be much.
            clock, step = self.mode.due(clock)
            if isinstance(place, Driver) and step is not None and self._is_much(step, parts):
                place.release()
                place = self._executors(self._session(rows), rows)
                if rows is not None:
                    place.take_in(before)
            derived = self._advance(place, step, clock, parts)
            stretches = self._stretched(place, last, derived.clock)
            # Write: dead letters, answers, state.
            unused = self._write_dead_letters(place, number, arrived)
            self._tell_useless(number, arrived, unused)
            counts = self._write_answers(place, number, stretches)
            self._tell_final(number, last, derived.clock)
            state = self._write_state(place, number, parts, derived)
            open_ = () if stretches is None else self.stretches.keep(stretches, number)
        finally:
            place.release()
        # Commit: once that is written, the batch is done.
        commit = self._commit(number, last, derived, arrived, counts, state, unused)
        commit = replace(commit, quiet=commit.quiet + quiet, stretches=open_)
        # The first batch may bring what has waited for long, of some inputs before others.
        self.silence.hear(arrived.heard if self._listening else self.silence.limits)
        self._listening = True
        self.checkpoint.write(commit)
        self.checkpoint.sweep(commit, last)
        if self.sink.reads_back:
            self.checkpoint.store.delete("answers", str(number))
        self.told(commit)

    # Silent inputs

    def _silent(self, number: int, before: Clock, quiet: bool) -> tuple[str, ...]:
        """The inputs that hold nothing back in a batch unless they bring something.

        What the clock on the wall says is written down first, so that the batch is the same should
        it have to be done again.
        """
        decided = self.checkpoint.decisions.get(number)
        if decided is None:
            decided = Decision(tuple(sorted({*before.idle, *self.silence.silent()})), quiet)
            if self.silence.limits:
                self.checkpoint.decide(number, decided)
        return decided.idle

    def _moved(
        self, before: Clock, arrived: Arrived, silent: tuple[str, ...], *, closing: bool
    ) -> Clock:
        """The clock once a batch has arrived."""
        if closing:
            return before.close(self.plan.options.lateness)
        return before.after(
            arrived.first, arrived.seen, self.plan.pace, arrived.told, silent, arrived.heard
        )

    @property
    def is_held_up(self) -> bool:
        """Whether time would go on if those that are silent by now no longer held it back."""
        last = self.checkpoint.last
        if last is None or last.clock.closed:
            return False
        silent = {*last.clock.idle, *self.silence.silent()}
        return last.clock.after(None, {}, self.plan.pace, silent=silent).tin != last.clock.tin

    @property
    def limits(self) -> TimeLimits:
        """The ticks that facts of the next batch may have, as far as that is known before it."""
        clock = Clock() if self.checkpoint.last is None else self.checkpoint.last.clock
        first, jump = first_in_time(clock.tin), self.plan.options.max_jump
        if jump is None:
            return TimeLimits(first)
        ticks = [*clock.seen.values(), *clock.told.values()]
        return TimeLimits(first, max((t + jump for t in ticks), default=first - 1))

    def _is_done(self, number: int, last: Commit | None, *, closing: bool) -> bool:
        """Whether a batch was committed before; DataError when it cannot be the next one."""
        root = self.checkpoint.store.name
        if last is not None and last.clock.closed and not closing and number >= last.batch:
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
            return True  # Spark was stopped before it had noted that
        expected = 0 if last is None else last.batch + 1
        if number != expected:
            raise DataError(
                f"{root}: batch {number} does not follow the last commit, {expected - 1}:"
                " restore the whole checkpoint, or start with a new one"
            )
        return False

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
        self.sink.discard(number, self.plan.queries, last.sink if last is not None else {})

    # Where a batch is done

    @property
    def _little(self) -> int:
        return EVER if self.mode.only_in_driver else LITTLE

    def _place(self, rows: Arriving | None, last: Commit | None) -> Place:
        """The driver when there is little to do, as far as that can be told beforehand."""
        if rows is None:
            return self._driver(None)
        configure(rows.sparkSession, self.partitions)
        if isinstance(rows, FileBatch):
            # This process reads files as fast as tasks on the same machine do.
            little = self._little * (MANY_IN_FILES if is_local(self.spark) else 1)
            if self.mode.only_in_driver or rows.rows <= little:
                return self._driver(rows)
            return self._executors(self._session(rows), rows)
        if self.mode.only_in_driver:
            return self._driver(rows.toArrow())
        if last is None:
            most = min(FIRST, self._little)
            some = rows.limit(most + 1).toArrow()
            if some.num_rows <= most:
                return self._driver(some)
        elif last.facts + last.late + last.dead <= self._little:
            try:
                return self._driver(rows.toArrow())
            except PySparkException as error:
                if "maxResultSize" not in str(error):
                    raise
        return self._executors(self._session(rows), rows)

    def _is_much(self, step: S, parts: tuple[StatePart, ...]) -> bool:
        """Whether a step is one for the executors: it looks at much state, or derives much."""
        return sum(part.rows for part in parts) > self._little or self.mode.is_long(step)

    def _driver(self, rows: pa.Table | FileBatch | None) -> Driver:
        store = self.checkpoint.store
        return Driver(self.plan, self.inputs, store, rows, self.spark, self._database)

    @cached_property
    def _database(self) -> duckdb.DuckDBPyConnection:
        """For the batches done in this process: to open one takes longer than a small batch."""
        return self._held.enter_context(reading(None, threads_here(self.spark), in_order=True))

    def _executors(self, spark: SparkSession, rows: Arriving | None) -> Executors:
        return Executors(self.plan, self.inputs, self.checkpoint.store, rows, spark, self.mode)

    def _session(self, rows: Arriving | None) -> SparkSession:
        """The session that Spark made for the rows of a batch, or a new one."""
        if rows is not None:
            return rows.sparkSession
        spark = self.spark.newSession()
        configure(spark, self.partitions)
        return spark

    def _advance(
        self, place: Place, step: S | None, clock: Clock, parts: tuple[StatePart, ...]
    ) -> Derived:
        match place:
            case Driver():
                return self.mode.in_driver(place, step, clock, parts)
            case Executors():
                return self.mode.in_executors(place, step, clock, parts)
            case _ as never:
                assert_never(never)

    # Writing

    def _write_dead_letters(
        self, place: Place, number: int, arrived: Arrived
    ) -> list[dict[str, Any]]:
        """Put the rows aside that are not used; the first of them."""
        if not arrived.late + arrived.dead:
            return []
        store = self.checkpoint.store
        store.make("dead_letters")
        first = place.dead_letters(("dead_letters", f".batch={number}"))
        store.rename(("dead_letters", f".batch={number}"), ("dead_letters", f"batch={number}"))
        return first

    def _tell_useless(self, number: int, arrived: Arrived, first: list[dict[str, Any]]) -> None:
        """DataError when the very first rows of an input are no facts; a warning when later ones.

        What is wrong from the start is a mistake of whoever starts the stream. Later on somebody
        relies on it: it goes on, and says so once until a row can be used again.
        """
        if self.checkpoint.last is None and not self.lenient:
            refuse_useless(arrived.useless, first)
            if arrived.dead and not arrived.facts + arrived.late:
                raise DataError("no row can be used", *map(letter_text, first))
        self.useless -= arrived.seen.keys()
        for name, count in arrived.useless.items():
            if name not in self.useless:
                self.useless.add(name)
                place = self.checkpoint.store.shown("dead_letters")
                warn_useless(name, count, number, first, place)

    @cached_property
    def stretches(self) -> Stretches:
        return Stretches(self.plan, self.checkpoint.store)

    def _stretched(self, place: Place, last: Commit | None, clock: Clock) -> BatchStretches | None:
        """The answers of a batch from when to when, if that is asked for."""
        if not self.plan.options.intervals or not self.stretches.relations:
            return None
        low = -EVER if clock.first is None else self.plan.pace.first_answer(clock.first)
        final = dict.fromkeys(self.stretches.relations, EVER if clock.closed else low - 1)
        for query, time in {} if clock.closed else self.mode.finals(clock).items():
            known = time if clock.tin is None else min(time, clock.tin)
            final[query] = max(known, final[query])
        return self.stretches.after(place, () if last is None else last.stretches, final)

    def _write_answers(
        self, place: Place, number: int, stretches: BatchStretches | None
    ) -> dict[str, int]:
        """Give the answers of a batch to the sink; how many there are, by query."""
        answers: dict[str, BatchAnswers] = {}
        counts = dict.fromkeys(self.plan.queries, 0)
        for query in self.plan.queries:
            relation = self.plan.rows.answers.get(query)
            if relation is None:  # known before anything has arrived
                table = self.constant[query]
                if number == 0 and table.num_rows:
                    counts[query] = table.num_rows
                    answers[query] = LocalAnswers(table, self.spark)
            elif stretches is not None and relation.temporal:
                counts[query] = stretches.counts.get(relation.number, 0)
                if counts[query]:
                    answers[query] = stretches.answers(query, relation)
            elif relation.number in place.counts:
                counts[query] = place.counts[relation.number].facts
                answers[query] = place.answers(query, relation)
        if self.sink.reads_back:
            answers = self._read_back(number, answers)
        self.sink.write(number, answers)
        return counts

    def _tell_final(self, number: int, last: Commit | None, clock: Clock) -> None:
        """Tell the sink up to which time all answers are there, if more are than before."""
        tout, options = clock.tout(self.mode.finals(clock)), self.plan.options
        if tout is not None and (last is None or tout != last.tout):
            stamps = options.stamps
            self.sink.final(number, tout if stamps is None else time_text(tout, stamps))

    def _read_back(self, number: int, answers: dict[str, BatchAnswers]) -> dict[str, BatchAnswers]:
        """The same answers, from files of the checkpoint; what is in this process stays there."""
        store = self.checkpoint.store
        reader = self.spark.read.options(**NO_PATTERNS)
        stored: dict[str, BatchAnswers] = {}
        for i, (query, rows) in enumerate(answers.items()):
            if isinstance(rows, LocalAnswers):
                stored[query] = rows
                continue
            place = ("answers", str(number), str(i))
            rows.save("parquet", store, place)
            stored[query] = SparkAnswers(reader.parquet(store.path(*place)))
        return stored

    def _write_state(
        self, place: Place, number: int, before: tuple[StatePart, ...], derived: Derived
    ) -> tuple[StatePart, ...]:
        """The state parts after a batch; many of them become one."""
        if derived.clock.closed:
            return ()
        looked_at = chunks_of(self.mode.looked_at(derived.clock))
        old = () if derived.is_whole_state else before
        parts = self.state.after(place, number, old, looked_at)
        if len(parts) > MOST_PARTS:
            executors = self._executors(self._session(None), None)
            try:
                parts = self.state.merged(executors, number, parts, looked_at)
            finally:
                executors.release()
        return tuple(parts)

    def _commit(
        self,
        number: int,
        last: Commit | None,
        derived: Derived,
        arrived: Arrived,
        counts: dict[str, int],
        state: tuple[StatePart, ...],
        unused: list[dict[str, Any]],
    ) -> Commit:
        """What holds once the batch is done, and the totals since the first batch."""
        before = Commit(-1, Clock(), None) if last is None else last
        totals = {"facts": arrived.facts, "late": arrived.late, "dead": arrived.dead}
        totals["answers"] = sum(counts.values())
        return Commit(
            number,
            derived.clock,
            derived.clock.tout(self.mode.finals(derived.clock)),
            arrived.facts,
            arrived.late,
            arrived.dead,
            answers=counts,
            state=state,
            sink=self.sink.state(),
            totals={name: before.totals.get(name, 0) + n for name, n in totals.items()},
            answered={query: before.answered.get(query, 0) + n for query, n in counts.items()},
            pending=derived.pending,
            unused=tuple(unused),
            waits_for=self.plan.pace.waits_for(derived.clock),
            quiet=before.quiet,
        )

    # Around the batches

    def pending(self, most: int) -> list[Pending]:
        """Answers that may still come after the last commit, with what each waits for."""
        return self.mode.pending(self.checkpoint.last, most)

    def close(self) -> None:
        """No more batches will come from this process."""
        self._held.close()
        self.__dict__.pop("_database", None)
        self.checkpoint.release()
        self.mode.close()
        self.sink.close()
