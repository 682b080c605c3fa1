"""The offline algorithm (Algorithm 2): answers after a fixed delay, state bounded by the rules.

Derived style: each predicate is computed once, by the schedule, and slices of it are kept. Strict
style: input facts in the window are all that is kept, and answers are evaluated from them.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Set
from functools import cached_property, reduce
from operator import or_

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.analysis.analyze import simplified
from tidelog.analysis.containment import Budget
from tidelog.analysis.definitive import Pending
from tidelog.analysis.delay import delay
from tidelog.analysis.dependencies import Dependencies, dependencies
from tidelog.analysis.opaque import counts_as_inputs
from tidelog.analysis.passes import passes
from tidelog.analysis.sliced import sliced
from tidelog.analysis.window import window
from tidelog.causes import Cause
from tidelog.data.packed import unpack
from tidelog.data.readers.memory import arrow_schema
from tidelog.data.schema import Schema, schemas
from tidelog.errors import NoAnswer
from tidelog.evaluation.database import NO_EXTENSIONS, Database
from tidelog.evaluation.plan import tables_of
from tidelog.evaluation.ranges import EMPTY, Range
from tidelog.evaluation.sql import Writer
from tidelog.evaluation.steps import StepRunner
from tidelog.language.program import TIME_COLUMN, Program, Row
from tidelog.logic.core import Predicate
from tidelog.streaming.algorithm import AnswerRows, FactsByTime, RowsByTime
from tidelog.streaming.clock import Emission, Span
from tidelog.streaming.columns import between
from tidelog.streaming.intake import by_time
from tidelog.streaming.schedule import Schedule
from tidelog.streaming.slices import (
    MOST_AGGREGATE_FACTS,
    MOST_FACTS,
    MOST_KEPT,
    MOST_TICKS,
    Slices,
    packed_table,
    small,
)
from tidelog.streaming.snapshot import (
    SnapshotError,
    State,
    as_facts,
    as_rows,
    as_table,
    plain,
    plain_facts,
    plain_table,
)
from tidelog.streaming.wave import AHEAD, Wave, Waved, bits

# Seconds to look for a delay below the settling time, or for a window, of one query.
BUDGET = 2.0


class Endless(ValueError):
    """The strict style needs a window, and a query has none."""


class OfflineAlgorithm:
    """Queries of class 1 or 2, answered at tin = tout + d."""

    def __init__(
        self,
        program: Program,
        deps: Dependencies,
        rigid: Mapping[str, set[Row]],
        *,
        eager: bool = False,
        strict: bool = False,
        online: bool = False,
        delays: Mapping[str, int] | None = None,
    ) -> None:
        self.queries = deps.queries
        self.online = online  # asked for online, where this is as early as can be proved
        self.schedule = Schedule(sliced(deps))
        self.strict = strict
        self.rigid = rigid
        self.schemas = schemas(program)
        phi = self.schedule.phi
        self.temporal = [q for q in self.queries if q in phi]
        delays = least_delays(program, self.schedule) if delays is None else dict(delays)
        window = enough_window(program, self.schedule, delays) if strict else None
        self.emission = Emission(delays, eager, window)
        # How much further than tin answers are looked for, in what is known by then.
        looks = (phi[q] - (0 if eager else delays[q]) for q in self.temporal)
        self.ahead = max([0, *looks])
        # While pushes bring few facts, slices are derived in Python, tick by tick.
        self.by_tick = (
            Slices(self.schedule, rigid)
            if not strict and small(self.schedule, self.ahead)
            else None
        )
        self.large: dict[str, pa.Table] = {}  # tables of facts that go to the next wave as they are
        self.start: int | None = None  # the schedule began before this input time
        self.done: int | None = None  # the input time up to which waves have run
        self.low: int | None = None  # answers from here on are wanted
        self.answered: dict[str, int] = {}  # per query, the last time answered
        self.given: dict[str, Set[Row]] = {q: set() for q in self.queries}  # answered early
        self.slices: dict[str, pa.Table] = {}
        self.kept: dict[str, RowsByTime] = {}  # strict: input facts in the window
        self.inputs = {p.name: f"new{number}" for number, p in enumerate(deps.core.inputs)}

    @cached_property
    def database(self) -> Database:
        """Opened for the first wave: it takes 20 ms, and small pushes never need it."""
        database = Database(duckdb.connect(config=NO_EXTENSIONS))
        database.offer_texts(Writer(self.schedule.plan).texts)
        for predicate in self.schedule.deps.core.inputs:
            rows = () if predicate.temporal else self.rigid.get(predicate.name, ())
            table = _table(self._schema(predicate), sorted(rows, key=str))
            database.connection.register(self.inputs[predicate.name], table)
        return database

    @cached_property
    def wave(self) -> Wave:
        return Wave(StepRunner(self.database, shorter=AHEAD))

    def begin(self, earliest: int) -> None:
        self.start = self.done = self.schedule.first(earliest)

    def advance(self, tin: int, facts: FactsByTime, low: int) -> AnswerRows:
        """Everything up to tin has arrived; answers from `low` on are wanted."""
        assert self.start is not None
        until, schedule, start = self.emission.until, self.schedule, self.start
        ends = {q: until(schedule, q, tin, start) for q in self.temporal}
        safe_at, pins = schedule.deps.safe_at, schedule.pins
        # Answers without a time that later facts may still withdraw.
        open_ = {q for q in self.queries if q not in ends and tin < min(safe_at(q, None), pins[q])}
        return self._look(tin, facts, low, ends, self._finals(tin), open_)

    def close(self, last: int, low: int) -> AnswerRows:
        """No more input: everything up to the last tick is final."""
        ends = dict.fromkeys(self.temporal, last)
        self.ahead = self.schedule.last(last) - last
        answers = self._look(last, {}, low, ends, ends)
        if "database" in vars(self):
            self.database.connection.close()
        return answers

    def _finals(self, tin: int) -> dict[str, int]:
        """The times up to which queries are final at tin."""
        assert self.start is not None
        final, schedule, start = self.emission.final, self.schedule, self.start
        return {q: final(schedule, q, tin, start) for q in self.temporal}

    def finals(self) -> dict[str, int]:
        assert self.done is not None
        return self._finals(self.done)

    @property
    def history(self) -> int:
        """How many facts are kept, inputs and derived slices together."""
        if self.strict:
            return sum(len(rows) for times in self.kept.values() for rows in times.values())
        if self.by_tick is not None:
            return self.by_tick.count
        return sum(bits(table) for table in self.slices.values())

    def facts(self) -> dict[str, RowsByTime]:
        """The input facts kept; of those that went to a wave only what rules look at is."""
        return self.kept if self.by_tick is None else self.by_tick.kept(inputs=True)

    def derived(self) -> dict[str, RowsByTime]:
        """The slices of derived predicates that are kept."""
        if self.by_tick is not None:
            return self.by_tick.kept(inputs=False)
        names = {table: name for name, table in self.schedule.plan.tables.items()}
        return {
            names[table]: {**unpack(zip(*(c.to_pylist() for c in rows.columns), strict=True))}
            for table, rows in self.slices.items()
            if table in names
        }

    def pending(self, most: int) -> list[Pending]:
        if not self.online:
            raise ValueError("offline waits the same time for all answers; pending is for online")
        if self.done is None or self.low is None:
            return []
        return self.emission.open(self.schedule, self.finals(), self.low, self.done, most)

    def state(self) -> State:
        """Everything needed to go on, as plain data."""
        return {
            "start": self.start,
            "done": self.done,
            "low": self.low,
            "answered": self.answered,
            "given": {q: plain(rows) for q, rows in self.given.items()},
            "facts": plain_facts(self.kept),
            "few": None if self.by_tick is None else plain_facts(self._slices_by_tick()),
            "slices": {name: plain_table(table) for name, table in self.slices.items()},
        }

    def resume(self, state: State) -> None:
        self._expect_slices(state)
        self.start, self.done, self.answered = state["start"], state["done"], state["answered"]
        self.low = state.get("low")
        self.given = {q: as_rows(rows) for q, rows in state["given"].items()}
        self.kept = as_facts(state["facts"])
        self.slices = {name: as_table(table) for name, table in state["slices"].items()}
        if state["few"] is None:
            self.by_tick = None
        elif self.by_tick is not None:
            self.by_tick.resume(as_facts(state["few"]))

    def _expect_slices(self, state: State) -> None:
        """Refuse what a version kept that wrote windows out which are done in one step here."""
        plan, core = self.schedule.plan, self.schedule.deps.core
        known = {*core.predicates, *(table for step in plan.steps for table in tables_of(step))}
        for name in {**(state["few"] or {}), **state["slices"]}:
            if name not in known:
                raise SnapshotError(
                    f"another version of tidelog took the snapshot, which kept slices of {name}:"
                    " go on with that version, or start again without the snapshot",
                    code=Cause.OTHER_FORMAT,
                )

    def go_on(self, tin: int, slices: Mapping[str, pa.Table]) -> None:
        """Go on from slices that were kept at tin, with all that was final by then given."""
        self.done, self.slices = tin, dict(slices)
        self.answered = self._finals(tin)

    def _slices_by_tick(self) -> dict[str, RowsByTime]:
        assert self.by_tick is not None
        return {**self.by_tick.kept(inputs=True), **self.by_tick.kept(inputs=False)}

    def _look(
        self,
        tin: int,
        facts: FactsByTime,
        low: int,
        until: dict[str, int],
        final: dict[str, int],
        open_: Container[str] = (),
    ) -> AnswerRows:
        """Answers up to given times; those beyond the final ones are remembered.

        Of queries without a time that are `open_` nothing is given yet.
        """
        assert self.start is not None
        assert self.done is not None
        self.low = low
        emit = Range(low, tin) if low <= tin else EMPTY
        if self.strict:
            tables = [self._strictly(tin, facts, emit)]
        else:
            tables = self._derived(tin, facts, emit)
        new: AnswerRows = {}
        for query in self.queries:
            rows = reduce(or_, (answers[query] for answers in tables))
            if query not in until:
                rows = set() if query in open_ else rows
                new[query] = rows - self.given[query]
                self.given[query] |= rows
                continue
            after = max(self.answered.get(query, low - 1), low - 1)
            rows = between(rows, after, until[query]) - self.given[query]
            if self.emission.eager:
                self.given[query] = between(self.given[query] | rows, final[query], math.inf)
            self.answered[query] = final[query]
            new[query] = rows
        return new

    def _answers(self, waved: Waved) -> AnswerRows:
        return {
            query: set(_rows(self.database.arrow(select), self._width(query)))
            for query, select in waved.answers.items()
        }

    def _derived(self, tin: int, facts: FactsByTime, emit: Range) -> list[AnswerRows]:
        assert self.done is not None
        by_tick = self.by_tick
        if by_tick is None:
            return self._waves(tin, facts, emit)
        slices = [rows for times in facts.values() for rows in times.values()]
        short = tin + self.ahead - self.done <= MOST_TICKS
        if short and not self.large and self._are_few(by_tick, slices):
            return self._by_tick(by_tick, tin, facts, emit)
        tables, facts = dict(self.large), self._take_over(by_tick, facts)
        answers = self._waves(tin, facts, emit)
        self._hand_back(by_tick, facts, tables)
        return answers

    def _are_few(self, by_tick: Slices, slices: list[Set[Row]]) -> bool:
        """Whether new facts are so few that to take them tick by tick is the better way.

        Joins of facts in columns are, however many there are of a tick; aggregates go row by row.
        """
        if by_tick.aggregates:
            return sum(map(len, slices)) <= MOST_AGGREGATE_FACTS
        return sum(len(rows) for rows in slices if isinstance(rows, set)) <= MOST_FACTS

    def _waves(self, tin: int, facts: FactsByTime, emit: Range) -> list[AnswerRows]:
        assert self.start is not None
        assert self.done is not None
        parts: list[AnswerRows] = []
        if tin > self.done:
            self._offer(facts)
            waved = self._wave(self.slices, self.start, self.done, tin, emit)
            parts.append(self._answers(waved))
            tables = {name: self.database.arrow(select) for name, select in waved.state.items()}
            self.slices = {name: table for name, table in tables.items() if table.num_rows}
            self.done = tin
        if self.ahead or not parts:
            # What would be final if nothing more came; the state stays as it is.
            self._offer({} if parts else facts)
            to = tin + self.ahead
            looked = self._wave(self.slices, self.start, self.done, to, emit)
            parts.append(self._answers(looked))
        return parts

    def _wave(
        self, slices: Mapping[str, pa.Table], start: int, tin: int, to: int, emit: Range
    ) -> Waved:
        for table, rows in slices.items():
            self.database.connection.register(f"{table}_kept", rows)
        span = Span.settled(self.schedule, start, tin, to, emit)
        state = {table: f"{table}_kept" for table in slices}
        return self.wave.run(self.schedule, span, state, self.inputs, packed=False, fresh=False)

    def _by_tick(
        self, by_tick: Slices, tin: int, facts: FactsByTime, emit: Range
    ) -> list[AnswerRows]:
        assert self.done is not None
        by_tick.take(facts)
        low, high = (1, 0) if emit.empty else (int(emit.low), int(emit.high))
        parts = [by_tick.run(self.done, tin, low, high)]
        self.done = max(self.done, tin)
        if self.ahead:
            parts.append(by_tick.run(self.done, self.done + self.ahead, low, high, stay=True))
        known = {q: set(by_tick.static[q].rows) for q in self.queries if q not in self.temporal}
        return [{**answers, **known} for answers in parts]

    def _take_over(self, by_tick: Slices, facts: FactsByTime) -> FactsByTime:
        """The slices kept so far as tables of a wave; input facts come with the new ones."""
        plan = self.schedule.plan
        for name, times in by_tick.kept(inputs=False).items():
            types = self.schedule.deps.core.predicates[name].types
            self.slices[plan.tables[name]] = packed_table(types, times)
        whole = by_tick.kept(inputs=True)
        for name, new in facts.items():
            whole.setdefault(name, {}).update({t: set(rows) for t, rows in new.items()})
        self.by_tick = None
        return whole

    def _hand_back(
        self, before: Slices, facts: FactsByTime, tables: Mapping[str, pa.Table]
    ) -> None:
        """Go on tick by tick after a wave that leaves few facts: later pushes may well be small.

        Slices of inputs are looked up in what the wave was given; a wave keeps less of them.
        """
        assert self.done is not None
        first = {name: self.done - ticks for name, ticks in before.ticks_kept.items()}
        after = self.done + 1
        late = {
            name: table.filter(pc.greater_equal(table.column("t"), first.get(name, after)))
            for name, table in tables.items()
        }
        rows = sum(table.num_rows for table in late.values())
        if rows + sum(map(bits, self.slices.values())) > MOST_KEPT:
            return
        by_tick = Slices(self.schedule, self.rigid)
        for name, table in late.items():
            by_tick.take({name: by_time(table)})
        for name, times in facts.items():
            low = first.get(name, after)
            by_tick.take({name: {t: rows for t, rows in times.items() if t >= low}})
        by_tick.resume(
            {
                name: {time: rows for time, rows in times.items() if time >= first[name]}
                for name, times in self.derived().items()
                if name in first
            }
        )
        self.by_tick, self.slices = by_tick, {}

    def _strictly(self, tin: int, facts: FactsByTime, emit: Range) -> AnswerRows:
        """Algorithm 2 as it is written: evaluate over the history, then forget what is old."""
        for name, times in facts.items():
            self.kept.setdefault(name, {}).update({t: set(rows) for t, rows in times.items()})
        self._offer(self.kept)
        earliest = min((t for times in self.kept.values() for t in times), default=tin + 1)
        start = self.schedule.first(min(earliest, tin))
        answers = self._answers(self._wave({}, start, start, tin + self.ahead, emit))
        self.done = tin
        window = self.emission.window
        assert window is not None, "the strict style has a window"
        for times in self.kept.values():
            for time in [t for t in times if t <= tin - window]:
                del times[time]
        return answers

    def _offer(self, facts: FactsByTime) -> None:
        """New facts as tables for the wave; they are state from then on."""
        for predicate in self.schedule.deps.core.inputs:
            if predicate.temporal:
                rows = [
                    (*row, time)
                    for time, at_time in facts.get(predicate.name, {}).items()
                    for row in at_time
                ]
                self.database.connection.unregister(self.inputs[predicate.name])
                table = _table(self._schema(predicate), rows)
                if predicate.name in self.large:
                    table = pa.concat_tables([table, self.large.pop(predicate.name)])
                self.database.connection.register(self.inputs[predicate.name], table)

    def _schema(self, predicate: Predicate) -> Schema:
        """How the facts of an input are laid out; that of a clock is the tick it starts at."""
        clock = Schema(predicate.base, (), TIME_COLUMN, declared=False)
        return self.schemas.get(predicate.base, clock)

    def _width(self, query: str) -> int:
        predicate = self.schedule.deps.core.predicates[query]
        return len(predicate.types) + predicate.temporal


def _simple(deps: Dependencies, budget: Budget) -> Dependencies:
    return simplified(deps, budget.share(0.3))[0]


def enough_window(program: Program, schedule: Schedule, delays: Mapping[str, int]) -> int:
    """A window that is enough for every query, each at its delay; Endless when there is none."""
    for query in schedule.deps.queries:
        if query not in delays and not math.isinf(schedule.pins[query]):
            ticks = ", ".join(str(tick) for _, tick in schedule.deps.pinned)
            raise Endless(
                f"no window is enough for {query}, which looks at fixed ticks ({ticks});"
                " the derived style keeps what holds there"
            )
    windows = [0]
    for query, delay_ in delays.items():
        budget = Budget(BUDGET)
        deps = _simple(passes(program, [query]).dependencies, budget)
        try:
            measure = window(deps, delay_, budget)
        except NoAnswer as error:
            raise Endless(f"no window is known for {query}: {error}") from None
        if measure.upper is None:
            known = "no window is enough" if measure.exact else "no window is known to do"
            raise Endless(
                f"{known} for {query}: {measure.reason}; the derived style keeps slices of"
                " derived predicates instead"
            )
        windows.append(measure.upper)
    return max(windows)


def least_delays(program: Program, schedule: Schedule) -> dict[str, int]:
    """The least delay that is proved of each query with a time."""
    phi = schedule.phi
    return {q: least_delay(program, q, phi[q]) for q in schedule.deps.queries if q in phi}


def least_delay(program: Program, query: str, phi: int) -> int:
    """The least delay that is proved, at most the settling time."""
    if not phi:
        return 0
    budget = Budget(BUDGET)
    needed = passes(program, [query])
    deps = needed.dependencies
    around, _ = counts_as_inputs(deps)
    if any(deps.phi[name] > 0 for name in deps.core.windows.keys() - around.windows.keys()):
        return phi
    # A count is known with its last tick, as any input is.
    deps = deps if around is deps.core else dependencies(around, [query])
    try:
        measure = delay(_simple(deps, budget), budget)
    except NoAnswer:
        return phi  # explicit times
    return phi if measure.upper is None else min(phi, measure.upper)


def _rows(table: pa.Table, width: int) -> list[Row]:
    if not width:
        return [()] * min(1, table.num_rows)
    return list(zip(*(c.to_pylist() for c in table.columns), strict=True))


def _table(schema: Schema, rows: list[Row]) -> pa.Table:
    """Facts under the names and types the SQL expects."""
    wanted = arrow_schema(schema)
    if not rows:
        return wanted.empty_table()
    columns = list(zip(*rows, strict=True)) or [(1,) * len(rows)]
    arrays = [pa.array(c, t) for c, t in zip(columns, wanted.types, strict=True)]
    return pa.table(arrays, schema=wanted)


__all__ = [
    "MOST_FACTS",
    "Endless",
    "OfflineAlgorithm",
    "enough_window",
    "least_delay",
    "least_delays",
]
