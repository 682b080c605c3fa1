"""One micro-batch after another: take in, advance, write, commit.

Batch N is a pure function of commit N-1 and of the rows Spark gives to batch N. Nothing that
matters lives in this process: after a crash the batch is done again from the last commit, and what
it had written before is removed first.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import pyarrow as pa

from tidelog.analysis.definitive import Pending
from tidelog.causes import Cause
from tidelog.data.letters import SHOWN, letter_text, refuse_useless
from tidelog.data.sealed import checksum
from tidelog.data.ticks import time_text
from tidelog.errors import DataError, listed, warn
from tidelog.evaluation.spark.answers import no_answers
from tidelog.evaluation.spark.sources import TimeLimits
from tidelog.language.program import TIME_MAX
from tidelog.pipeline.commit import Checkpoint, Commit, Decision, StatePart
from tidelog.pipeline.modes import EVER, Derived, Mode
from tidelog.pipeline.places import Arrived, Arriving, Place, WrittenLetters
from tidelog.pipeline.plan import PipelinePlan
from tidelog.pipeline.sites import Sites
from tidelog.pipeline.spark_log import RESTORE, SparkBatch, planned
from tidelog.pipeline.state import StateFiles, chunks_of
from tidelog.pipeline.stretches import BatchStretches, Stretches
from tidelog.streaming.clock import Clock, Horizon, first_in_time
from tidelog.streaming.ledger import Ledger, expect_balance
from tidelog.streaming.notices import Notices, UnusedRows, with_first
from tidelog.streaming.silence import Silence
from tidelog.streaming.sinks.sink import BatchAnswers, Sink

# Characters of the lineage of a batch.
LINEAGE = 32
# State parts past which they are merged into one.
MOST_PARTS = 24

S = TypeVar("S")


@dataclass
class Pipeline(Generic[S]):
    """A stream's batches, each from the commit before it."""

    plan: PipelinePlan
    mode: Mode[S]
    sites: Sites[S]
    state: StateFiles
    checkpoint: Checkpoint
    sink: Sink
    constant: dict[str, pa.Table]  # answers of queries that rest on nothing with a time
    told: Callable[[Commit], None]
    silence: Silence
    lenient: bool = False  # rows that cannot be used are others', from the first one on
    # Options of this start that commits name beside those of the plan: partitions, memory.
    limits_of_work: Mapping[str, Any] = field(default_factory=dict)
    now: Callable[[], float] = time.time  # the clock on the wall, in seconds since 1970
    _warned_of_beats: bool = False
    name: str = ""  # what Spark's UI calls it
    # Says in Spark's UI what the next jobs of a batch do; None ends that.
    jobs: Callable[[int, str | None], None] = lambda *_: None
    _listening: bool = False  # whether silence counts: a batch was done
    _is_clean: bool = False  # whether there is nothing of a batch that was not finished

    def is_done(self, planned: SparkBatch) -> bool:
        """Whether a batch of Spark's is committed; DataError when it cannot be the next one."""
        last, root = self.checkpoint.last, self.checkpoint.store.name
        known = None if last is None else last.spark
        if planned == known:
            return True  # Spark was stopped before it had noted that
        if not planned.follows(known):
            expected = "0" if known is None else f"{known.number + 1} of {known.place}/"
            raise DataError(
                f"{root}: batch {planned.number} of {planned.place}/ does not follow the last"
                f" commit, which expects batch {expected}: {RESTORE}",
                code=Cause.LOGS_DISAGREE,
            )
        if last is not None and last.clock.closed:
            tin = last.clock.tin
            final = (
                "its input had ended"
                if tin is None
                else f"everything up to tick {tin} was declared final"
            )
            raise DataError(
                f"{root} is closed: {final}, and there are new facts; start with a new checkpoint",
                code=Cause.CLOSED,
            )
        return False

    def deliver(self, place: str, number: int, rows: Callable[[], Arriving]) -> None:
        """Do a batch of Spark's, unless it is committed; its rows are asked for only then."""
        self.go_on()
        batch = planned(self.checkpoint.store, place, number)
        if not self.is_done(batch):
            self.describe("list new files and offsets")
            self.batch(rows(), self._next, batch)

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

    def batch(
        self,
        rows: Arriving | None,
        number: int,
        planned: SparkBatch | None = None,
        *,
        quiet: bool = False,
    ) -> None:
        """Do a batch and commit it; without rows, and not because all is quiet, the last one."""
        last = self.checkpoint.last
        closing = rows is None and not quiet
        if planned is not None:
            self.checkpoint.sync_plan(planned)
        self.checkpoint.expect_alone(number)  # it may have waited for the disk for long
        if not self._is_clean:
            self._discard(number, last)
        self._is_clean = False
        before, parts = (Clock(), ()) if last is None else (last.clock, last.state)
        decided = self._decided(number, before, quiet=quiet, timed=rows is not None)
        silent = decided.idle
        lineage = self._lineage(last, planned, replace(decided, quiet=quiet, closing=closing))
        horizon = None if decided.now is None else Horizon.of(self.plan.options, decided.now)
        self.sink.begin(number, lineage)
        self.describe("take in rows")
        place = self.sites.site(rows, number)
        try:
            # Take in: which rows are facts, and how far they move time.
            arrived = Arrived() if rows is None else place.take_in(before, horizon)
            clock = self._moved(before, arrived, silent, closing=closing)
            # Advance: derive what is due, in the executors if it turns out to be much.
            clock, step = self.mode.due(clock)
            if step is not None and self.sites.exceeds(place, step, parts):
                place.release()
                place = self.sites.executors(rows)
                if rows is not None:
                    place.take_in(before, horizon)
            self.describe("derive")
            derived = self.sites.advance(place, step, clock, parts)
            stretches = self._stretched(place, last, derived.clock)
            # Write: dead letters, answers, state.
            letters = self._write_dead_letters(place, number, arrived)
            expect_balance(arrived.ledger, letters.count, f"batch {number}")
            unused = list(letters.first)
            self._refuse_useless(arrived, unused)
            problems = self._problems(arrived, before, unused)
            self._tell_beats(arrived)
            counts = self._write_answers(place, number, stretches)
            self._tell_final(number, last, derived.clock)
            self.describe("write state")
            state = self._write_state(place, number, parts, derived)
            open_ = () if stretches is None else self.stretches.keep(stretches, number)
        finally:
            place.release()
            self.describe(None)
        # Commit: once that is written, the batch is done.
        commit = self._commit(number, last, derived, arrived, counts, state, unused[:SHOWN])
        spark = planned if planned is not None or last is None else last.spark
        stored = self.checkpoint.store.files("dead_letters", f"batch={number}")
        commit = replace(
            commit,
            quiet=commit.quiet + quiet,
            stretches=open_,
            spark=spark,
            letters=stored,
            lineage=lineage,
            problems=problems,
        )
        # The first batch may bring what has waited for long, of some inputs before others.
        self.silence.hear(arrived.heard if self._listening else self.silence.limits)
        self._listening = True
        self.checkpoint.write(commit)
        self._is_clean = True
        self.checkpoint.sweep(commit, last)
        if self.sink.reads_back:
            self.checkpoint.store.delete("answers", str(number))
        self.told(commit)
        self.notices.add(commit.problems)

    def describe(self, what: str | None) -> None:
        """Say in Spark's UI what the next jobs of the next batch do."""
        self.jobs(self._next, what)

    def _lineage(self, last: Commit | None, planned: SparkBatch | None, made: Decision) -> str:
        """What stands for all that a batch follows from: batches before it, rows, and options."""
        before = self.checkpoint.id if last is None else last.lineage
        rows = None if planned is None else asdict(planned)
        how: list[Any] = [asdict(made), repr(replace(self.plan.options, idle={}))]
        skip = sorted(self.limits_of_work.get("skip", ()))
        if skip and rows is not None:  # without some of them it is another batch
            how.append(skip)
        return checksum(json.dumps([before, rows, *how]))[:LINEAGE]

    # The clock on the wall

    def _decided(self, number: int, before: Clock, *, quiet: bool, timed: bool) -> Decision:
        """What the clock on the wall says of a batch, `timed` where it has rows with times.

        Silent inputs hold nothing back unless they bring something. All of it is written down
        first, so that the batch is the same should it have to be done again.
        """
        options, known = self.plan.options, self.checkpoint.decisions.get(number)
        decided = known
        if decided is None:
            decided = Decision(tuple(sorted({*before.idle, *self.silence.silent()})), quiet)
        if timed and decided.now is None and options.ticks and options.max_ahead is not None:
            decided = replace(decided, now=int(self.now() * 1_000_000))
        if decided != known and (self.silence.limits or decided.now is not None):
            self.checkpoint.decide(number, decided)
        return decided

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
        begun = self.checkpoint.decisions.get(self._next)
        if begun is not None:  # a batch of Spark's that was not committed comes again
            return begun.quiet
        silent = {*last.clock.idle, *self.silence.silent()}
        return last.clock.after(None, {}, self.plan.pace, silent=silent).tin != last.clock.tin

    def limits(self) -> TimeLimits:
        """The ticks that facts of the next batch may have, as far as that is known before it."""
        clock = Clock() if self.checkpoint.last is None else self.checkpoint.last.clock
        self.checkpoint.expect_alone(self._next)
        now = self._decided(self._next, clock, quiet=False, timed=True).now
        horizon = None if now is None else Horizon.of(self.plan.options, now)
        last = TIME_MAX if horizon is None else horizon.last
        first, jump = first_in_time(clock.tin), self.plan.options.max_jump
        if jump is None:
            return TimeLimits(first, last)
        ticks = [*clock.seen.values(), *clock.told.values()]
        return TimeLimits(first, min(last, max((t + jump for t in ticks), default=first - 1)))

    def _discard(self, number: int, last: Commit | None) -> None:
        """Remove what an unfinished attempt at this batch may have left."""
        store = self.checkpoint.store
        for entry in store.entries("state"):
            if entry.name.split("-")[0] == str(number):
                store.delete("state", entry.name)
        store.delete("dead_letters", f"batch={number}")
        store.delete("dead_letters", f".batch={number}")
        store.delete("answers", str(number))
        for entry in store.entries("commits"):
            if entry.name.startswith("."):
                store.delete("commits", entry.name)
        self.sink.discard(number, self.plan.queries, last.sink if last is not None else {})

    # Writing

    def _write_dead_letters(self, place: Place, number: int, arrived: Arrived) -> WrittenLetters:
        """Put the rows aside that are not used."""
        if not arrived.late + arrived.dead + arrived.skipped:
            return WrittenLetters()
        self.describe("write dead letters")
        store = self.checkpoint.store
        store.make("dead_letters")
        written = place.dead_letters(("dead_letters", f".batch={number}"))
        store.rename(("dead_letters", f".batch={number}"), ("dead_letters", f"batch={number}"))
        return written

    def _refuse_useless(self, arrived: Arrived, first: list[dict[str, Any]]) -> None:
        """DataError when the very first rows of an input are no facts.

        What is wrong from the start is a mistake of whoever starts the stream. Later on somebody
        relies on it: it goes on, and warns.
        """
        if self.checkpoint.last is None and not self.lenient:
            refuse_useless(arrived.useless, first)
            if arrived.dead and not arrived.facts + arrived.late:
                raise DataError(
                    "no row can be used", *map(letter_text, first), code=Cause.NO_ROW_USABLE
                )

    @cached_property
    def notices(self) -> Notices:
        """Warnings about rows that are not used, once a batch is committed."""
        return Notices(self.plan.options, self._letters_place)

    def _letters_place(self) -> str:
        return self.checkpoint.store.shown("dead_letters")

    def _problems(
        self, arrived: Arrived, before: Clock, letters: list[dict[str, Any]]
    ) -> tuple[UnusedRows, ...]:
        """The rows of a batch that are not used, with the option that would have helped."""
        pace, problems = self.plan.pace, []
        for some in (some for some in arrived.unused if some.count):
            rows = UnusedRows(some.name or None, some.kind, some.count)
            if some.kind == "late" and some.tick is not None:
                cause = pace.cause(before, some.name, some.tick)
                rows = replace(rows, needed=pace.needed(before, some.tick), cause=cause)
            elif some.tick is not None and arrived.limit is not None:
                rows = replace(rows, needed=some.tick - arrived.limit)
            problems.append(with_first(rows, letters))
        return tuple(problems)

    def _tell_beats(self, arrived: Arrived) -> None:
        """Warn, once, of messages that would be heartbeats if somebody had asked for them."""
        if arrived.unheard and not self._warned_of_beats:
            self._warned_of_beats = True
            warn(
                f"{arrived.unheard} messages have no value, or nothing but a time: they move time"
                " only with --heartbeats (heartbeats=True), since anyone who may write to a topic"
                " can send them"
            )

    @cached_property
    def stretches(self) -> Stretches:
        return Stretches(self.plan, self.checkpoint.store)

    def _stretched(self, place: Place, last: Commit | None, clock: Clock) -> BatchStretches | None:
        """The answers of a batch from when to when, if that is asked for."""
        if not self.plan.options.intervals or not self.stretches.relations:
            return None
        low = -EVER if clock.first is None else self.plan.pace.first_answer(clock.first)
        final = dict.fromkeys(self.stretches.relations, EVER if clock.closed else low - 1)
        for query, until in {} if clock.closed else self.mode.finals(clock).items():
            known = until if clock.tin is None else min(until, clock.tin)
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
                    answers[query] = self.sites.local(table)
            elif stretches is not None and relation.temporal:
                counts[query] = stretches.counts.get(relation.number, 0)
                if counts[query]:
                    answers[query] = stretches.answers(query, relation)
            elif relation.number in place.counts:
                counts[query] = place.counts[relation.number].facts
                answers[query] = place.answers(query, relation)
        self.describe(f"write answers of {listed(answers or self.plan.queries)}")
        if self.sink.takes_empty:
            answers = {q: answers.get(q) or self._no_answers(q) for q in self.plan.queries}
        if self.sink.reads_back:
            answers = self.sites.read_back(number, answers)
        self.sink.write(number, answers)
        return counts

    def _no_answers(self, query: str) -> BatchAnswers:
        """The columns of a query, without rows."""
        plan, relation = self.plan, self.plan.rows.answers.get(query)
        if relation is None:
            return self.sites.local(self.constant[query].slice(0, 0))
        names, options = plan.program.output_columns(query), plan.options
        table = no_answers(relation, names, options.stamps, intervals=options.intervals)
        return self.sites.local(table)

    def _tell_final(self, number: int, last: Commit | None, clock: Clock) -> None:
        """Tell the sink up to which time all answers are there, if more are than before."""
        tout, options = clock.tout(self.mode.finals(clock)), self.plan.options
        if tout is not None and (last is None or tout != last.tout):
            stamps = options.stamps
            self.sink.final(number, tout if stamps is None else time_text(tout, stamps))

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
            executors = self.sites.executors(None)
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
        totals = (before.total + arrived.ledger).as_json()
        totals["answers"] = before.totals.get("answers", 0) + sum(counts.values())
        by_input = {**before.by_input}
        for name, ledger in arrived.by_input.items():
            by_input[name] = by_input.get(name, Ledger()) + ledger
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
            totals=totals,
            rows=arrived.rows,
            skipped=arrived.skipped,
            heartbeats=arrived.heartbeats,
            by_input=by_input,
            answered={query: before.answered.get(query, 0) + n for query, n in counts.items()},
            pending=derived.pending,
            unused=tuple(unused),
            waits_for=self.plan.pace.waits_for(derived.clock),
            quiet=before.quiet,
            options={**self.plan.options.rows_to_come(), **self.limits_of_work},
        )

    # Around the batches

    def pending(self, most: int) -> list[Pending]:
        """Answers that may still come after the last commit, with what each waits for."""
        return self.mode.pending(self.checkpoint.last, most)

    def close(self) -> None:
        """No more batches will come from this process."""
        self.sites.close()
        self.checkpoint.release()
        self.mode.close()
        self.sink.close()
