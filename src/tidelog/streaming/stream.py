"""Streams in process: facts in, tick by tick; answers out, offline or online."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from os import PathLike
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.analysis.definitive import Pending
from tidelog.analysis.dependencies import Class, Dependencies
from tidelog.analysis.passes import Passes, passes
from tidelog.analysis.sliced import LONG_WINDOW
from tidelog.causes import Cause
from tidelog.data import writers
from tidelog.data.readers.memory import RowsLike
from tidelog.data.schema import (
    expect_facts,
    expect_program,
    expect_queries,
    resolve,
    schema_of,
    schemas,
)
from tidelog.data.ticks import Duration, Range, Ticks, length_given, time_text
from tidelog.data.types import arrow_type
from tidelog.errors import DataError, TidelogWarning, listed, warn, warn_missing
from tidelog.evaluation.duckdb_failures import BRING_LESS, as_data_errors
from tidelog.evaluation.engine import Moment, as_tick
from tidelog.evaluation.interrupts import as_keyboard_interrupt
from tidelog.evaluation.plan import Plan, Scan
from tidelog.evaluation.stretches import end_columns
from tidelog.language.alignment import aligned, in_order, rules_text
from tidelog.language.program import TIME_COLUMN, TIME_MAX, Program, Row
from tidelog.logic.core import Predicate
from tidelog.streaming import offline
from tidelog.streaming.aggregates_first import AggregatesFirst, by_schedule, in_two_parts
from tidelog.streaming.algorithm import Algorithm, AnswerRows, RowsByTime
from tidelog.streaming.blocking import BlockingAlgorithm
from tidelog.streaming.cell_graph import fits
from tidelog.streaming.clock import Pace, first_in_time, ticks_that_matter
from tidelog.streaming.columns import Numbering, RowTable, has_many
from tidelog.streaming.intake import CameByTime, Intake
from tidelog.streaming.joins import at
from tidelog.streaming.offline import OfflineAlgorithm
from tidelog.streaming.online import OnlineAlgorithm
from tidelog.streaming.options import Emit, History, StreamMode, StreamOptions
from tidelog.streaming.schedule import at_once, longest_window
from tidelog.streaming.snapshot import (
    SnapshotError,
    State,
    as_facts,
    plain,
    plain_facts,
    read,
    write,
)
from tidelog.streaming.stretches import OpenStretches, Told

Late: TypeAlias = list[Row]


class StreamWarning(TidelogWarning):
    """Something to know about a stream before it runs."""


class Growing(StreamWarning):
    """The history of a stream may grow without end, and why."""


class Overtaken(StreamWarning):
    """The absence of an input's facts is believed though time does not wait for them."""


@dataclass(frozen=True)
class Step:
    """What one push brought: answers, and where the stream stands.

    Everything up to `tin` has arrived, everything up to `tout` is answered and final. `history`
    counts the facts kept, `late` hands facts back that came too late, or too far ahead, and
    `could_change` names, by their input, the queries whose published answers they might change.
    """

    answers: dict[str, pa.Table]
    tin: int | None
    tout: int | None
    history: int
    late: dict[str, Late] = field(default_factory=dict)
    could_change: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ticks: Ticks | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        """Where the stream stands, and how many answers came, in a line."""
        counts = [f"{table.num_rows} {query}" for query, table in self.answers.items()]
        return f"<step: {', '.join(counts)}; {stands(self.tin, self.tout, self.ticks)}>"


def stands(tin: int | None, tout: int | None, ticks: Ticks | None) -> str:
    """How far a stream has come, in words."""
    if tin is None:
        return "nothing is complete yet"
    answered = (
        "nothing answered yet" if tout is None else f"answered up to {time_text(tout, ticks)}"
    )
    return f"complete up to {time_text(tin, ticks)}, {answered}"


class Stream:
    """Rules over facts that arrive tick by tick.

    `push(tick, facts)` delivers a whole tick; facts may be out of order by up to `lateness` ticks.
    A row without a time is at the tick pushed. Facts that are later, or more than `max_jump` ticks
    ahead, are handed back and not used. Rigid facts are given at the start.

    With `mode="offline"` answers come after the least delay that does for any data; with
    `mode="online"` as soon as the facts at hand prove them final, and facts are forgotten as soon
    as no later answer can need them. With `emit="eager"` an answer comes as soon as it is derived,
    and `tout` says what is final. `history="strict"` keeps input facts in the window only
    (Algorithm 2), offline, where a window exists. `budget` bounds the seconds in which a blocking
    query's time points are decided at each tick; those that are not stay open.

    With `intervals` answers have `from` and `to` instead of a time, a row for each stretch at which
    they hold, once it has ended; with `emit="eager"` also when it begins, without `to`.

    >>> import tidelog
    >>> program = tidelog.parse("Hot(X) @ T :- Temp(X, high) @ T, Temp(X, high) @ T+1.")
    >>> stream = Stream(program, ["Hot"])
    >>> [stream.push(t, {"Temp": [("a", "high")]}).answers["Hot"].to_pylist() for t in (0, 1)]
    [[], [{'x': 'a', 'time': 0}]]
    >>> stream.close().answers["Hot"].to_pylist()
    []
    """

    def __init__(
        self,
        program: Program,
        queries: str | Iterable[str] | None = None,
        *,
        mode: StreamMode = "offline",
        emit: Emit = "definitive",
        history: History = "derived",
        lateness: Duration = 0,
        rigid: Mapping[str, RowsLike] | None = None,
        from_: Moment | None = None,
        max_jump: Duration | None = None,
        tick: str | timedelta | None = None,
        origin: str | datetime | None = None,
        timestamps: bool = True,
        budget: float = 10.0,
        intervals: bool = False,
    ) -> None:
        expect_program(program)
        self.options = StreamOptions.of(
            length_given(program, tick),
            origin,
            lateness,
            max_jump,
            from_,
            mode=mode,
            emit=emit,
            history=history,
            timestamps=timestamps,
            intervals=intervals,
        )
        self.budget = budget
        self._set_up(program, expect_queries(program, queries), {} if rigid is None else rigid)

    def _set_up(
        self, program: Program, queries: tuple[str, ...], rigid: Mapping[str, RowsLike]
    ) -> None:
        """Lay everything out, by the order of rules and queries, before any fact has come."""
        self.queries, self._as_given = queries, (program, rigid)
        self.program = resolve(program, {})
        self.schemas = schemas(self.program, self.queries)
        self.tin: int | None = None
        self._resumed: int | None = None  # tin when the stream went on from a snapshot
        self.closed = False
        self._first: int | None = None  # first and last tick seen
        self._last: int | None = None
        self._begun = False
        self._first_fact: int | None = None  # where clocks start
        self._ticking = False  # and whether that is settled
        self._waiting: dict[str, RowsByTime] = {}  # facts after tin
        self._came: set[str] = set()  # inputs of which facts have come
        self._rigid = self._rigid_facts(rigid)
        needed = passes(self.program, self.queries)
        scheduled = not self.options.online or _by_schedule(needed)
        self.deps = needed.planned
        temporal = [p for p in self.deps.core.inputs if p.temporal]
        clocks = self.program.clocks
        self._sources = {p.base: p.name for p in temporal if p.base not in clocks}
        self._clocks = [p.name for p in temporal if p.base in clocks]
        for predicate in self.deps.core.inputs:
            name = predicate.base
            if not (predicate.temporal or name in program.heads or self._rigid.get(name)):
                expect_facts(name, program, self.queries)
        options = self.options
        self._pace = Pace(tuple(self._sources), options.lateness, from_=options.from_)
        numbering = Numbering()
        self._intakes = {
            name: Intake(schema, options.ticks, numbering)
            for name, schema in self.schemas.items()
            if schema.time is not None
        }
        predicates = self.deps.core.predicates
        self._open = {
            query: OpenStretches(eager=options.eager)
            for query in self.queries
            if options.intervals and predicates[query].temporal
        }
        self._shapes = {query: self._shape(query) for query in self.queries}
        self._algorithm: Algorithm = self._start(self.deps, scheduled=scheduled)
        if self._clocks and isinstance(self._algorithm, BlockingAlgorithm):
            # There clocks are found anew in all facts, those that nothing else needs included.
            inputs = needed.core.input_of
            self._sources |= {name: inputs[name].name for name in self._intakes}

    def _start(self, deps: Dependencies, *, scheduled: bool) -> Algorithm:
        rigid = {p.name: self._rigid.get(p.base, set()) for p in deps.core.inputs}
        eager, strict, online = self.options.eager, self.options.strict, self.options.online
        if scheduled:
            return OfflineAlgorithm(
                self.program, deps, rigid, eager=eager, strict=strict, online=online
            )
        parts = None if deps.aggregate is None else in_two_parts(deps)
        if parts is not None:
            return AggregatesFirst(self.program, parts, rigid, eager=eager)
        if deps.cls is Class.BLOCKING or not fits(deps):
            warn_growing(deps)
            return BlockingAlgorithm(
                self.program, self.queries, rigid, eager=eager, budget=self.budget
            )
        return OnlineAlgorithm(deps, rigid, eager=eager)

    @as_keyboard_interrupt()
    @as_data_errors(BRING_LESS, Cause.MEMORY)
    def push(self, tick: Moment, facts: Mapping[str, RowsLike] | None = None) -> Step:
        """Deliver a tick: everything up to tick - lateness has now arrived."""
        if self.closed:
            raise ValueError("the stream is closed")
        if not (facts is None or isinstance(facts, Mapping)):
            raise ValueError(f"facts are a mapping from inputs to rows, not {type(facts).__name__}")
        now = as_tick(tick, self.options.ticks)
        if not isinstance(now, int) or isinstance(now, bool):
            raise ValueError(f"a tick is a whole number or a timestamp, not {tick!r}")
        tick = now
        tin = self._complete(tick)
        late: dict[str, Late] = {}
        taken = [(name, self._read(name, rows, tick)) for name, rows in (facts or {}).items()]
        self._came |= {name for name, times in taken if times}
        high = TIME_MAX if self.options.max_jump is None else tick + self.options.max_jump
        for name, times in taken:
            back = self._take(name, times, high)
            if back:
                late[name] = back
        self._seen(tick, tick)
        if self.tin is None or tin > self.tin:
            self.tin = tin
            answers = self._advance(tin)
        else:
            answers = {}
        return self._step(answers, late)

    def _complete(self, tick: int) -> int:
        """Up to where everything has arrived with a tick; ValueError if that was so before.

        Where facts may be later than in the run before a snapshot, time waits until they are that
        late: it never goes back.
        """
        tin = self._pace.complete(tick)
        if self.tin is None or tin >= self.tin:
            return tin
        if self.tin == self._resumed and tick >= self.tin:
            return self.tin
        raise ValueError(f"tick {tick} comes after everything up to {self.tin} had arrived")

    @as_keyboard_interrupt()
    @as_data_errors(BRING_LESS, Cause.MEMORY)
    def hold(self, facts: Mapping[str, RowsLike]) -> Step:
        """Take facts that have times in without moving time: more of the same ticks may come."""
        late: dict[str, Late] = {}
        for name, rows in facts.items():
            times = self._read(name, rows, -TIME_MAX)
            self._came |= {name} if times else set()
            back = self._take(name, times, TIME_MAX)
            if back:
                late[name] = back
        return self._step({}, late)

    def held(self) -> dict[str, dict[int, int]]:
        """How many facts there are after tin, by input and time."""
        return {
            name: {time: len(rows) for time, rows in times.items()}
            for name, times in self._waiting.items()
        }

    @as_keyboard_interrupt()
    @as_data_errors(BRING_LESS, Cause.MEMORY)
    def close(self) -> Step:
        """No more input: everything up to the last tick seen is final."""
        if self.closed:
            raise ValueError("the stream is closed")
        self.closed = True
        for name in self._sources:
            if name not in (*self._came, *self.program.heads):
                warn_missing(name, self.program.needing(name, self.queries))
        if self._last is None:
            return Step(self._tables(self._timeless()), None, None, 0)
        before = self.tin
        self.tin = self._last
        answers: AnswerRows = {}
        if before is None or self._last > before:
            answers = self._advance(self._last)
        for query, rows in self._algorithm.close(self._last, self._low()).items():
            answers[query] = answers.get(query, set()) | rows
        return Step(
            self._tables(answers),
            self._last,
            self._last,
            self._algorithm.history,
            ticks=self.options.ticks,
        )

    def _timeless(self) -> AnswerRows:
        """The answers that there are without any facts that have a time: those of rigid queries."""
        from tidelog.evaluation.duckdb import Engine

        temporal = {rule.head.predicate for rule in self.program.rules if rule.head.time}
        temporal |= {name for name, schema in self.schemas.items() if schema.time is not None}
        asked = [query for query in self.queries if query not in temporal]
        if not asked:
            return {}
        with Engine(self.program, self._rigid) as engine:
            tables = engine.query(asked)
        arity = {query: len(self.program.output_columns(query)) for query in asked}
        return {
            query: {tuple(row.values())[: arity[query]] for row in table.to_pylist()}
            for query, table in tables.items()
        }

    def run(self, source: Iterable[tuple[int, Mapping[str, RowsLike]]]) -> Iterator[Step]:
        """Push every (tick, facts) of a source, then close."""
        for tick, facts in source:
            yield self.push(tick, facts)
        yield self.close()

    @property
    def history(self) -> int:
        """How many facts are kept: up to tin what the algorithm keeps, and all after tin."""
        waiting = sum(len(rows) for times in self._waiting.values() for rows in times.values())
        return waiting + self._algorithm.history

    def facts(self) -> dict[str, RowsByTime]:
        """The input facts kept, by input and time."""
        facts = {name: dict(times) for name, times in self._waiting.items()}
        bases = {p.name: p.base for p in passes(self.program, self.queries).core.inputs}
        for name, times in self._algorithm.facts().items():
            source = bases[name]
            if source not in self.program.clocks:
                facts.setdefault(source, {}).update(times)
        return {
            name: {time: _as_set(rows) for time, rows in times.items()}
            for name, times in facts.items()
            if times
        }

    def kept(self) -> tuple[dict[str, list[Row]], dict[str, list[Row]]]:
        """Everything that is kept, as rows with their time: input facts, and derived ones."""
        given: dict[str, list[Row]] = {name: list(rows) for name, rows in self._rigid.items()}
        for name, times in self.facts().items():
            given.setdefault(name, []).extend((*row, t) for t in times for row in times[t])
        derived = {
            name: [(*row, t) for t in times for row in times[t]]
            for name, times in self._algorithm.derived().items()
        }
        return given, {name: rows for name, rows in derived.items() if rows}

    def pending(self, most: int = 100) -> list[Pending]:
        """Answers at times up to tin that may still come: what each waits for, and until when.

        At most `most` of them, the earliest first. Online only.

        >>> import tidelog
        >>> program = tidelog.parse("Hot(X) @ T :- Temp(X, high) @ T, Temp(X, high) @ T+1.")
        >>> stream = Stream(program, ["Hot"], mode="online")
        >>> step = stream.push(0, {"Temp": [("a", "high"), ("b", "low")]})
        >>> [(str(p), p.until) for p in stream.pending()]
        [('Hot(a) @ 0 waits for Temp(a, high) @ 1', 1)]
        """
        return self._algorithm.pending(most)

    @cached_property
    def described(self) -> dict[str, dict[str, object]]:
        """By internal name of what a snapshot keeps: predicate, kind and columns."""
        told: dict[str, dict[str, object]] = {}
        for deps, plan in [(self.deps, None), *_plans(self._algorithm)]:
            for name, predicate in deps.core.predicates.items():
                told[name] = self._described(predicate)
            if plan is not None:
                told |= {table: told[name] for name, table in plan.tables.items()}
                for step in (step for step in plan.steps if isinstance(step, Scan)):
                    whole = self._described(step.predicate)
                    names = self.program.output_columns(step.predicate.base)
                    told[step.name] = {**whole, "columns": [names[i] for i in step.columns]}
        return told

    def _described(self, predicate: Predicate) -> dict[str, object]:
        kind = "input" if predicate.input else "derived"
        names = self.program.output_columns(predicate.base)
        known = predicate.input or predicate.base in self.program.heads
        columns = list(names) if known and len(names) == len(predicate.types) else []
        return {"predicate": predicate.base, "kind": kind, "columns": columns}

    def __repr__(self) -> str:
        """What it answers, and how far it has come, in a line."""
        told = "closed" if self.closed else stands(self.tin, self.tout, self.options.ticks)
        names = ", ".join(self.queries)
        return f"<{self.options.mode} stream of {names}: {told}; {self.history} facts kept>"

    # Snapshots

    def snapshot(self, path: str | PathLike[str], note: object = None) -> None:
        """Write the stream's state to a file, all or nothing; `note` is kept with it (JSON)."""
        write(path, self._identity(), {**self._state(), "note": note})

    def restore(self, path: str | PathLike[str]) -> object:
        """Go on where a snapshot was taken, in a new stream made in the same way; its note.

        A damaged file, and one of other rules, queries or options, is refused. Rules and queries
        may be in another order, variables may have other names, and `lateness` and `max_jump`,
        which decide about facts to come, may be others.
        """
        if self.tin is not None or self.closed:
            raise ValueError("only a stream that has not begun can be restored")
        state = read(path, self._identity_for)
        self.tin, self.closed = state["tin"], state["closed"]
        self._resumed = self.tin
        self._came = set(self._sources)  # which of them came before is not known
        self._first, self._last, self._begun = state["first"], state["last"], state["begun"]
        self._first_fact, self._ticking = state.get("clock", (None, False))
        self._waiting = as_facts(state["waiting"])
        for query, known in state.get("stretches", {}).items():
            self._open[query].resume(known)
        try:
            if self._begun:
                self._algorithm.resume(state["algorithm"])
        except SnapshotError as error:
            raise SnapshotError(f"{path}: {error}", code=error.code) from None
        return state["note"]

    def _state(self) -> State:
        return {
            "rules": rules_text(self.program),
            "queries": list(self.queries),
            "tin": self.tin,
            "closed": self.closed,
            "first": self._first,
            "last": self._last,
            "begun": self._begun,
            **({"clock": [self._first_fact, self._ticking]} if self._clocks else {}),
            "waiting": plain_facts(self._waiting),
            **({"stretches": {q: o.state() for q, o in self._open.items()}} if self._open else {}),
            "algorithm": self._algorithm.state() if self._begun else None,
        }

    def _identity_for(self, state: State) -> dict[str, object]:
        """The identity, once rules and queries are laid out as a snapshot's, if they are those."""
        program, rigid = self._as_given
        before = aligned(program, str(state.get("rules")))
        queries = in_order(self.queries, state.get("queries", ()))
        if before is not None and (before is not program or queries != self.queries):
            self._set_up(before, queries, rigid)
            warn_renamed(program, before, queries)
        return self._identity()

    def _identity(self) -> dict[str, object]:
        """What must be the same for a snapshot to make sense; differences are named by key."""
        known = self.options.identity()
        inputs = {
            name: [[[c.name, str(c.type)] for c in schema.columns], schema.time]
            for name, schema in sorted(self.schemas.items())
        }
        return {
            "rules": rules_text(self.program),
            "queries": list(self.queries),
            "inputs": inputs,
            "output columns": {q: list(self.program.output_columns(q)) for q in self.queries},
            "mode": known["mode"],
            "emit": known["emit"],
            "history": self.options.history,
            "from": known["from"],
            **({} if known["tick"] is None else {"tick": [known["tick"], known["origin"]]}),
            # What was written before there were intervals has none.
            **({"intervals": True} if known["intervals"] else {}),
            "rigid facts": {name: plain(rows) for name, rows in sorted(self._rigid.items())},
        }

    # Facts in

    def _rigid_facts(self, rigid: Mapping[str, RowsLike]) -> dict[str, set[Row]]:
        for name in rigid:
            if schema_of(name, self.program, self.schemas, "rigid").time is not None:
                raise DataError(f"`{name}` is not a rigid input of the rules")
        return {name: set(Intake(self.schemas[name]).rows(rows)) for name, rows in rigid.items()}

    def _read(self, name: str, rows: RowsLike, tick: int) -> CameByTime:
        """Facts by time; a large table that a wave can take as it is goes there at once."""
        intake = self._intakes.get(name)
        if intake is None:
            schema_of(name, self.program, self.schemas, "facts")
            raise DataError(f"`{name}` is not a temporal input of the rules")
        algorithm = self._algorithm
        in_columns = isinstance(algorithm, OnlineAlgorithm) or (
            isinstance(algorithm, OfflineAlgorithm) and algorithm.by_tick is not None
        )
        if isinstance(algorithm, OfflineAlgorithm) and not isinstance(rows, (list, tuple)):
            table = intake.table(rows)
            low, high = first_in_time(self.tin), self._pace.complete(tick)
            large = table.num_rows > offline.MOST_FACTS and not (in_columns and has_many(table))
            if large and name in self._sources:
                times = pc.min_max(table.column("t")).as_py()
                if low <= times["min"] and times["max"] <= high and not algorithm.strict:
                    algorithm.large[self._sources[name]] = table
                    self._seen(times["min"], times["max"])
                    self._see_fact(times["min"])
                    self._came.add(name)
                    return {}
            return intake.by_time(table, in_columns=in_columns)
        return intake.times(rows, tick, in_columns=in_columns)

    def _take(self, name: str, times: CameByTime, high: int) -> Late:
        """Keep what is in time; hand the rest back."""
        low = first_in_time(self.tin)
        waiting = self._waiting.setdefault(name, {})
        late: Late = []
        for time, rows in times.items():
            if low <= time <= high:
                known = waiting.get(time)
                new = rows if isinstance(rows, RowTable) else set(rows)
                waiting[time] = new if known is None else known | new
                self._seen(time, time)
                self._see_fact(time)
            else:
                late += [(*row, time) for row in rows]
        return late

    def _seen(self, first: int, last: int) -> None:
        self._first = first if self._first is None else min(self._first, first)
        self._last = last if self._last is None else max(self._last, last)

    def _see_fact(self, tick: int) -> None:
        """Clocks start at the first fact; one that comes later can only be a later one."""
        if not self._ticking and (self._first_fact is None or tick < self._first_fact):
            self._first_fact = tick

    # Answers out

    def _low(self) -> int:
        assert self._first is not None
        return self._pace.first_answer(self._first)

    def _advance(self, tin: int) -> AnswerRows:
        new: dict[str, RowsByTime] = {}
        for name, times in self._waiting.items():
            due = [t for t in times if t <= tin]
            facts = {t: times.pop(t) for t in due}
            if facts and name in self._sources:
                new[self._sources[name]] = facts
        if not self._ticking and self._first_fact is not None and self._first_fact <= tin:
            self._ticking = True
            new |= {name: {self._first_fact: {()}} for name in self._clocks}
        if not self._begun:
            assert self._first is not None
            self._algorithm.begin(min(self._first, tin + 1))
            self._begun = True
        return self._algorithm.advance(tin, new, self._low())

    def _step(self, answers: AnswerRows, late: dict[str, Late]) -> Step:
        tables, changed = self._tables(answers), self.could_change(late)
        ticks = self.options.ticks
        return Step(tables, self.tin, self.tout, self.history, late, changed, ticks)

    @cached_property
    def _apart(self) -> dict[str, Dependencies]:
        """What each query needs on its own."""
        return {q: Dependencies((q,), self.deps.core.below([q])) for q in self.queries}

    def could_change(self, late: Mapping[str, Late]) -> dict[str, tuple[str, ...]]:
        """By input, the queries of which late facts could have changed what is published."""
        changed: dict[str, tuple[str, ...]] = {}
        for name, rows in late.items():
            if self.tin is not None and name in self._sources:
                published = Range(self._low(), self.tin)
                passed = {at(row) for row in rows if at(row) <= self.tin}
                ticks = {
                    query: ticks_that_matter(deps, self._sources[name], published)
                    for query, deps in self._apart.items()
                }
                changed[name] = tuple(
                    query
                    for query, range_ in ticks.items()
                    if any(range_.low <= tick <= range_.high for tick in passed)
                )
        return {name: queries for name, queries in changed.items() if queries}

    @property
    def tout(self) -> int | None:
        """The tick up to which everything is answered; None while nothing is."""
        if self.tin is None or self._first is None or self._low() > self.tin:
            return None
        return min([*self._algorithm.finals().values(), self.tin])

    def _tables(self, answers: AnswerRows) -> dict[str, pa.Table]:
        told: dict[str, Iterable[Told]] = {**answers}
        told |= {q: o.after(answers.get(q, ()), self._final(q)) for q, o in self._open.items()}
        return {q: self._table(q, told.get(q, ())) for q in self.queries}

    def _final(self, query: str) -> float:
        """The time up to which a query is answered; nothing is asked for before the first tick."""
        if self.closed:
            return math.inf
        if self.tin is None or self._low() > self.tin:
            return -math.inf  # there are no answers yet
        return max(min(self._algorithm.finals().get(query, -math.inf), self.tin), self._low() - 1)

    def _shape(self, query: str) -> tuple[list[str], list[pa.DataType], pa.Table]:
        names = list(self.program.output_columns(query))
        predicate = self.deps.core.predicates[query]
        types = [arrow_type(t) for t in predicate.types]
        if query in self._open:
            names += end_columns(names)
            types += [pa.int64(), pa.int64()]
        elif predicate.temporal:
            names.append(TIME_COLUMN)
            types.append(pa.int64())
        if not names:
            names, types = ["holds"], [pa.bool_()]
        empty = pa.table([pa.array([], t) for t in types], names=names)
        return names, types, self._stamped(query, empty)

    def _table(self, query: str, rows: Iterable[Told]) -> pa.Table:
        names, types, empty = self._shapes[query]
        if not rows:
            return empty
        if isinstance(rows, RowTable) and rows.columns:
            return self._stamped(query, rows.sorted(names))
        ordered = list(rows)
        if query not in self._open:
            ordered.sort(key=lambda row: (row[-1:], row))
        if names == ["holds"] and not self.deps.core.predicates[query].temporal:
            return pa.table({"holds": pa.array([True for _ in ordered], pa.bool_())})
        columns = zip(*ordered, strict=True)
        table = pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=names)
        return self._stamped(query, table)

    def _stamped(self, query: str, table: pa.Table) -> pa.Table:
        """Answers with timestamps, where ticks have a length."""
        ticks = self.options.stamps
        if ticks is None or not self.deps.core.predicates[query].temporal:
            return table
        return writers.stamped(table, 2 if query in self._open else 1, ticks)


def _plans(algorithm: Algorithm) -> list[tuple[Dependencies, Plan | None]]:
    """The rules that the parts of an algorithm work by, with their plans where they have one."""
    parts: list[Algorithm] = [algorithm]
    if isinstance(algorithm, AggregatesFirst):
        parts = [algorithm.below, algorithm.rest]
    schedules = [part.schedule for part in parts if isinstance(part, OfflineAlgorithm)]
    return [(schedule.deps, schedule.plan) for schedule in schedules]


def _as_set(rows: Set[Row]) -> Set[Row]:
    return rows if isinstance(rows, set) else set(rows)


def _by_schedule(needed: Passes) -> bool:
    """Whether online answers are the offline ones: those of aggregates, and those of which nothing
    is ever pending if this costs less: a long window is done in a step, and what may come of it is
    not followed at each tick.
    """
    deps = needed.planned
    return by_schedule(needed) or (at_once(deps) and longest_window(deps) > LONG_WINDOW)


def warn_growing(deps: Dependencies) -> None:
    """Warn that every fact of some queries is kept, and which rule is to blame."""
    places = ", ".join(dict.fromkeys(str(r.origin) for r in deps.reason.rules))
    warn(
        f"{', '.join(deps.queries)}: every fact is kept and answers may wait for ever,"
        f" since {deps.reason.message} ({places})",
        Growing,
    )


def warn_renamed(now: Program, before: Program, queries: Iterable[str]) -> None:
    """Warn of answers whose columns go on under the names of the variables of earlier rules."""
    for query in queries:
        new, old = now.output_columns(query), before.output_columns(query)
        if new != old:
            warn(
                f"{query}: its columns are still called {', '.join(old)}, as when the stream was"
                f" started, and not {', '.join(new)}: a new checkpoint takes the new names",
                StreamWarning,
            )


def warn_overtaken(deps: Dependencies, sparse: Iterable[str]) -> None:
    """Warn of rules that ask for the absence of something that sparse inputs bring."""
    predicates, sparse = deps.core.predicates, set(sparse)
    told: dict[str, dict[str, None]] = {}  # by sparse input
    for edge in deps.edges:
        if not edge.positive:
            below = deps.core.below([edge.body]).predicates
            names = sorted({predicates[name].base for name in below} & sparse)
            what = f"`not {predicates[edge.body].base}`"
            if edge.aggregated and not edge.negated:
                what = f"an aggregate of `{predicates[edge.body].base}`"
            said = f"{what} ({edge.premise.origin})"
            for name in names:
                told.setdefault(name, {})[said] = None
    for name, asked in told.items():
        several = "is" if len(asked) == 1 else "are"
        warn(
            f"{listed(asked)} {several} believed without waiting for `{name}`, which is sparse: a"
            " fact of it that comes after the other inputs have moved on is late",
            Overtaken,
        )


__all__ = [
    "Growing",
    "Overtaken",
    "Step",
    "Stream",
    "StreamWarning",
    "warn_growing",
    "warn_overtaken",
    "warn_renamed",
]
