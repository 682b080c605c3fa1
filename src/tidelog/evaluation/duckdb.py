"""The DuckDB engine: loads facts, runs a plan's SQL in process, hands answers back as Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import duckdb
import pyarrow as pa

from tidelog.analysis.dependencies import dependencies
from tidelog.analysis.passes import passes
from tidelog.data.letters import DeadLetter
from tidelog.data.loader import Loaded, Loader
from tidelog.data.readers.memory import origin_of
from tidelog.data.readers.places import FactsLike
from tidelog.data.repeats import Repeats, repeats_of
from tidelog.data.schema import expect_facts, resolve_and_check, schemas
from tidelog.data.ticks import EMPTY, Range, Ticks
from tidelog.data.writers import timestamps
from tidelog.errors import DataError, warn_left_out
from tidelog.evaluation.database import NO_EXTENSIONS, Database
from tidelog.evaluation.density import Density
from tidelog.evaluation.duckdb_failures import as_data_errors
from tidelog.evaluation.engine import Evaluated, Question
from tidelog.evaluation.interrupts import handle_signals, interruptible
from tidelog.evaluation.one_pass import folded, united
from tidelog.evaluation.plan import Plan, Unbounded, plan
from tidelog.evaluation.ranges import ranges, times_in_rules
from tidelog.evaluation.recorder import Recorder
from tidelog.evaluation.sql import Writer
from tidelog.evaluation.steps import StepRunner
from tidelog.evaluation.stretches import as_intervals, named_stretches
from tidelog.language.program import TIME_COLUMN, Program
from tidelog.logic.core import Core, Predicate

# The column that says how an answer without end repeats, in ticks.
PERIOD_COLUMN = "period"


@dataclass
class Engine(Database):
    """One DuckDB connection with the facts of one program.

    >>> from tidelog.language.checks import check
    >>> program = check("P(X) @ T+1 :- E(X) @ T.").accepted()
    >>> with Engine(program, {"E": [("a", 0), ("b", 7)]}) as engine:
    ...     engine.query(["P"])["P"].to_pylist()
    [{'x': 'a', 'time': 1}]
    """

    program: Program
    facts: FactsLike = None
    ticks: Ticks | None = None
    timestamps: bool = True
    progress: Callable[[str], None] = field(default=lambda _: None)
    only: frozenset[str] | None = None  # load these inputs, not all
    queries: tuple[str, ...] = ()  # what will be asked; an input of these that lacks is warned of
    aside: list[DeadLetter] | None = None  # where rows go that cannot be read, if none is refused
    recorder: Recorder | None = None  # is told of every statement
    skip: frozenset[Path] = frozenset()  # files that are not opened

    def __post_init__(self) -> None:
        self.connection = duckdb.connect(config=NO_EXTENSIONS)
        if self.recorder is not None:
            self.connection = self.recorder.connection(self.connection)
        try:
            with interruptible(self.connection), as_data_errors():
                self._load()
        except BaseException:
            self.connection.close()
            raise

    def _load(self) -> None:
        """Read the facts, and settle the types that they have."""
        self.connection.execute("SET TimeZone = 'UTC'")
        self.connection.execute("SET preserve_insertion_order = false")
        self.connection.execute("SET enable_progress_bar = false")
        self.loader = Loader(self.connection, self.ticks, self.aside)
        self.loaded = self.loader.load(
            self.program, self.facts, self.only, self.progress, self.queries, self.skip
        )
        types = {name: loaded.types for name, loaded in self.loaded.items()}
        self.typed = resolve_and_check(self.program, types)
        self._warn()
        self.loaded |= self.loader.clocks(self.program, self.loaded)

    def __enter__(self) -> Engine:
        self._entered = ExitStack()
        self._entered.callback(self.connection.close)
        self._entered.enter_context(interruptible(self.connection))
        self._entered.enter_context(as_data_errors())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._entered.__exit__(kind, error, trace)

    def _warn(self) -> None:
        """Warn of rows that are no facts, and of inputs that queries need and that lack."""
        for name, rows in self.nulls.items() if self.aside is None else ():
            warn_left_out(name, rows, self.loaded[name].incomplete)
        needed = passes(self.typed, self.queries).inputs if self.queries else ()
        for predicate in needed:
            name, loaded = predicate.base, self.loaded.get(predicate.base)
            if loaded is not None and name not in self.program.heads and self._is_empty(name):
                unread = {str(letter.file) for letter in self.aside or ()}
                files = [
                    file
                    for file in loaded.sources
                    if file != origin_of(name) and not any(x.startswith(file) for x in unread)
                ]
                expect_facts(name, self.program, self.queries, files)
        for one in repeats_of(self.typed, self.queries):
            there = self.loaded.get(one.input)
            if there is not None and not there.range.empty:
                self._warn_of_repeats(one, there)

    def _warn_of_repeats(self, repeats: Repeats, there: Loaded) -> None:
        """Warn of rows of an input that rules do not tell apart."""
        of = there.rows - there.nulls
        try:
            rows, again = self.one(repeats.sql(there.view, of, there.range))
        except duckdb.InterruptException:
            raise
        except duckdb.Error:  # a file that cannot be read is named when the query needs it
            return
        repeats.warn(schemas(self.typed)[repeats.input], again, rows, of)

    def _is_empty(self, name: str) -> bool:
        """Whether an input has no rows, not even such as are known to be its own and unusable."""
        loaded = self.loaded[name]
        if loaded.rows or loaded.nulls or name in {x.predicate for x in self.aside or ()}:
            return False
        return not self.connection.execute(f"SELECT 1 FROM {loaded.view} LIMIT 1").fetchall()

    # Queries

    @property
    def nulls(self) -> dict[str, int]:
        """Rows left out for a NULL in a declared column, by input."""
        return {name: loaded.nulls for name, loaded in self.loaded.items() if loaded.nulls}

    @property
    def span(self) -> Range:
        """First to last tick of the data and of the facts in the rules."""
        span = times_in_rules(self.program)
        for loaded in self.loaded.values():
            span = span | loaded.range
        return span

    def plan(self, queries: Iterable[str], from_: int | None = None, to: int | None = None) -> Plan:
        """The plan of the queries over these facts, for answers from a tick to a tick."""
        span = self.span
        low = span.low if from_ is None else from_
        high = span.high if to is None else to
        asked = Range(low, high)
        queries = tuple(queries)
        core = passes(self.typed, queries).planned.core
        return folded(united(self.plan_core(core, queries, asked)))

    def ends(
        self, queries: Iterable[str], from_: float | None, to: float | None
    ) -> tuple[int, int] | None:
        """First and last tick at which queries can have answers, in a range that may have no end.

        None if something that they rest on may hold for ever.
        """
        span, queries = self.span, tuple(queries)
        asked = Range(span.low if from_ is None else from_, span.high if to is None else to)
        deps = passes(self.typed, queries).planned
        data = {p.name: self.loaded[p.base].range for p in deps.core.inputs if p.temporal}
        needed = ranges(deps, data, asked)
        if not all(range_.finite for range_ in needed.values()):
            return None
        hull = EMPTY
        for query in queries:
            hull = hull | needed.get(query, EMPTY)
        return (0, -1) if hull.empty else (int(hull.low), int(hull.high))

    def plan_core(
        self,
        whole: Core,
        queries: Iterable[str],
        asked: Range,
        until: int | None = None,
    ) -> Plan:
        """The plan of queries of a core; facts after the tick `until` are not looked at."""
        data = {p.name: self.loaded[p.base].range for p in whole.inputs if p.temporal}
        deps, within = dependencies(whole, queries), EMPTY if asked.empty else asked
        return plan(deps, data, within, until)

    def query(
        self,
        queries: Iterable[str],
        from_: int | None = None,
        to: int | None = None,
        *,
        intervals: bool = False,
    ) -> dict[str, pa.Table]:
        """The answers of each query, by time and arguments; or from when to when they hold."""
        queries = tuple(queries)
        writer = self.evaluate(self.plan(queries, from_, to))
        answers = {}
        for name in queries:
            self.progress(f"answers of {name}")
            predicate = writer.plan.deps.core.predicates[name]
            if intervals and predicate.temporal:
                table, names = self.arrow(writer.stretches(name)), self.typed.output_columns(name)
                answers[name] = named_stretches(table, names, self._stamps)
            else:
                answers[name] = self.named(predicate, self.arrow(writer.rows(name)))
        return answers

    @property
    def _stamps(self) -> Ticks | None:
        """The length of ticks, where answers have timestamps."""
        return self.ticks if self.timestamps else None

    def count(self, query: str, from_: int | None = None, to: int | None = None) -> int:
        """How many answers a query has."""
        writer = self.evaluate(self.plan([query], from_, to))
        (n,) = self.one(writer.count(query))
        return int(n)

    def named(self, predicate: Predicate, table: pa.Table) -> pa.Table:
        """A table of answers under the names, and with the times, that users asked for."""
        names = list(self.typed.output_columns(predicate.name))
        if predicate.temporal:
            names.append(TIME_COLUMN)
            if self._stamps is not None:
                stamps = timestamps(table.column(-1), self._stamps)
                table = table.set_column(table.num_columns - 1, "t", stamps)
        if not names:
            return pa.table({"holds": pa.array([True] * table.num_rows, pa.bool_())})
        return table.rename_columns(names)

    # Plans

    def evaluate(self, plan: Plan, facts: Mapping[str, str] | None = None) -> Writer:
        """Run the steps of a plan; afterwards each derived predicate is a table.

        `facts` names other tables than those loaded to take the facts of inputs from.
        """
        writer = Writer(plan)
        predicates = plan.deps.core.predicates
        views = {name: self.loaded[predicates[name].base].view for name in plan.inputs}
        self.offer_texts(writer.texts)
        rows = {name: self.loaded[predicates[name].base].rows for name in plan.inputs}
        runner = StepRunner(self, self.progress, whole=True, sparse=Density(self, rows).is_sparse)
        try:
            runner.run(plan, plan.steps, {}, {**views, **(facts or {})}, writer)
        except (duckdb.InterruptException, duckdb.OutOfMemoryException, duckdb.OutOfRangeException):
            handle_signals()
            raise
        except duckdb.Error:
            # Parquet is read here for the first time where its statistics said enough before.
            broken = [
                line for loaded in self.loaded.values() for line in self.loader.unreadable(loaded)
            ]
            if not broken:
                raise
            raise DataError(*broken) from None
        return writer


def with_periods(table: pa.Table, periods: Iterable[int | None]) -> pa.Table:
    """Answers with a column that says how each repeats: in so many ticks, or not at all."""
    name, n = PERIOD_COLUMN, 2
    while name in table.column_names:
        name, n = f"{PERIOD_COLUMN}{n}", n + 1
    return table.append_column(name, pa.array(periods, pa.int64()))


def answers(question: Question) -> Evaluated:
    """Queries in this process; what bulk evaluation cannot answer exactly goes to the timeline."""
    q = question
    with Engine(q.program, q.facts, q.ticks, q.timestamps, q.progress, queries=q.queries) as engine:
        if isinstance(q.low, float) or isinstance(q.high, float):
            ends = engine.ends(q.queries, q.low, q.high)
            if ends is not None:  # nothing holds without end
                tables = engine.query(q.queries, *ends)
                predicates = passes(engine.typed, q.queries).core.predicates
                for name in [name for name in tables if predicates[name].temporal]:
                    tables[name] = with_periods(tables[name], [None] * tables[name].num_rows)
                return Evaluated(_asked_for(q, tables), engine.nulls)
            reason = "the range has no end"
        else:
            try:
                tables = engine.query(q.queries, q.low, q.high, intervals=q.intervals)
                return Evaluated(tables, engine.nulls)
            except Unbounded as error:
                reason = str(error)
        from tidelog.evaluation.timeline import answers as on_timeline

        tables = on_timeline(engine, q.queries, q.low, q.high, q.budget)
        return Evaluated(_asked_for(q, tables), engine.nulls, reason)


def _asked_for(question: Question, rows: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """Answers that are a row a tick, as they are asked for."""
    return as_intervals(rows, question.ticks) if question.intervals else rows
