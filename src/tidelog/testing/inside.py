"""The few places where tests reach below the public API, in one file that is easy to adapt."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import tidelog
from tidelog.analysis.containment import Ground
from tidelog.analysis.dependencies import dependencies
from tidelog.analysis.passes import passes
from tidelog.data.readers.places import FactsLike
from tidelog.data.schema import resolve, schemas
from tidelog.data.ticks import Ticks
from tidelog.data.types import arrow_type
from tidelog.errors import DataError, NoAnswer, NoSpark, TidelogWarning
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.engine import evaluate
from tidelog.evaluation.goal_directed.goal import whole_model
from tidelog.evaluation.goal_directed.model import FactModel
from tidelog.evaluation.plan import Unbounded
from tidelog.evaluation.ranges import Range
from tidelog.evaluation.timeline import Limit, TooHard
from tidelog.explain.proofs import Derivations
from tidelog.explain.text import why_lines
from tidelog.explain.why import read_fact, why
from tidelog.language.program import TIME_COLUMN, Origin, Program, Rule, Type, Value, type_of
from tidelog.streaming.offline import Endless
from tidelog.streaming.schedule import Blocking
from tidelog.testing.patterns import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

# What rules or data can be wrong with, as a sentence.
Refusals = (DataError, NoAnswer, Unbounded, TooHard, Blocking, Endless, ValueError)

__all__ = ["Blocking", "Data", "DataError", "Refusals", "Ticks", "quiet"]


@dataclass(frozen=True)
class Data:
    """The facts of a case as an engine takes them: rows in whole ticks, or one path as it is."""

    facts: FactsLike
    ticks: Ticks | None = None

    @staticmethod
    def of(facts: Iterable[Fact]) -> Data:
        rows: dict[str, list[tuple[Any, ...]]] = {}
        for fact in facts:
            rows.setdefault(fact.predicate, []).append(fact.row)
        return Data(rows)


def typed(program: Program, facts: Iterable[Fact]) -> tidelog.Program:
    """The program with the types of these facts where the rules leave a column open."""
    open_ = {n: s for n, s in schemas(program).items() if any(c.type is None for c in s.columns)}
    if not open_:
        return tidelog.Program(program.statements)
    seen: dict[str, list[set[Type]]] = {n: [set() for _ in s.columns] for n, s in open_.items()}
    for fact in facts:
        for types, value in zip(seen.get(fact.predicate, ()), fact.args, strict=False):
            types |= set() if value is None else {type_of(value)}
    chosen = {n: tuple(map(_common, columns)) for n, columns in seen.items()}
    return tidelog.Program(resolve(program, chosen).statements)


def _common(types: set[Type]) -> Type:
    if types == {Type.INT, Type.FLOAT}:
        return Type.FLOAT
    return types.pop() if len(types) == 1 else Type.TEXT


@contextmanager
def quiet() -> Iterator[None]:
    """A test knows what it gives and asks: it need not be told what may not be as meant."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TidelogWarning)
        yield


def answers(
    program: Program,
    queries: Iterable[str],
    data: Data,
    low: int | None,
    high: int | None,
    budget: float,
) -> dict[str, list[Fact]]:
    """The answers of some queries over finite facts, by DuckDB."""
    with quiet():
        evaluated = evaluate(
            program,
            tuple(queries),
            data.facts,
            from_=low,
            to=high,
            ticks=data.ticks,
            timestamps=False,
            budget=budget,
        )
    return {query: facts_of(program, query, table) for query, table in evaluated.answers.items()}


def facts_of(program: Program, predicate: str, table: pa.Table) -> list[Fact]:
    """The rows of an answer as facts."""
    columns = [column.to_pylist() for column in table.columns]
    if predicate in program.heads or predicate in program.declarations:
        temporal = table.num_columns > len(program.output_columns(predicate))
    else:  # an input that is not declared has no names for its columns
        temporal = table.column_names[-1] == TIME_COLUMN
    if table.column_names == ["holds"]:
        return [Fact(predicate, (), None)] * table.num_rows
    if not temporal:
        return [Fact(predicate, row, None) for row in zip(*columns, strict=True)]
    return [Fact(predicate, row[:-1], row[-1]) for row in zip(*columns, strict=True)]


def file_facts(program: Program, path: Path, ticks: Ticks | None) -> list[Fact]:
    """The input facts in a file or folder, in whole ticks."""
    only = _inputs_only(program)
    read: list[Fact] = []
    data = Data(str(path), ticks)
    for name, facts in answers(only, only.inputs, data, None, None, 60.0).items():
        read += (Fact(name, fact.args, fact.time) for fact in facts)
    return read


def _inputs_only(program: Program) -> Program:
    """The program with inputs that hold what comes in, and nothing that rules derive."""
    inputs = set(program.inputs)
    return Program(
        tuple(
            replace(s, head=replace(s.head, predicate=f"{s.head.predicate} derived"))
            if isinstance(s, Rule) and s.head.predicate in inputs
            else s
            for s in program.statements
        )
    )


def explained(
    program: Program, fact: Fact, data: Data, ticks: Ticks | None, budget: float
) -> list[str]:
    """Why a fact holds, or what comes nearest to it, without its title."""
    try:
        with quiet(), Engine(program, data.facts, data.ticks) as engine:
            explanation = why(engine, read_fact(engine.typed, fact.text()), 1, budget)
    except Refusals as error:
        return [str(error)]
    return why_lines(replace(explanation, ticks=ticks))


def used_rules(
    program: Program,
    data: Data,
    goals: Iterable[Fact],
    low: int | None,
    high: int | None,
    budget: float,
) -> set[Origin]:
    """Where the rules stand that are part of some proof of the facts that hold among these.

    So are facts whose absence rules ask for: where they hold, they are why others do not.
    """
    goals = list(goals)
    asked = tuple(dict.fromkeys(goal.predicate for goal in goals))
    if not asked:
        return set()
    with quiet(), Engine(program, data.facts, data.ticks) as engine:
        deps = passes(engine.typed, asked).written_out
        derived = [p.name for p in deps.core.predicates.values() if not p.input]
        wide = dependencies(deps.core, derived or asked)
        limit = Limit.of(wide, budget, engine.progress)
        span = engine.span
        asked_ = Range(span.low if low is None else low, span.high if high is None else high)
        model = whole_model(engine, wide, asked_, limit)
        wanted = [Ground(goal.predicate, ground(goal), goal.time) for goal in goals]
        wanted += in_the_way(model, (name for name in derived if name in deps.negated))
        proofs = Derivations(model, [goal for goal in wanted if model.holds(goal)])
        return {
            way.clause.written.origin
            for fact, ways in proofs.derivations.items()
            if fact in proofs.least
            for way in ways
            if way.clause.written is not None and all(p in proofs.least for p in way.premises)
        }


def in_the_way(model: FactModel, names: Iterable[str]) -> Iterator[Ground]:
    """All facts of some derived predicates, unless they are too many."""
    for name in names:
        temporal, held = model.core.predicates[name].temporal, model.held(name)
        for row in () if held is None else held.rows:
            yield Ground(name, row[:-1], int(row[-1])) if temporal else Ground(name, row, None)


def ground(fact: Fact) -> tuple[Value, ...]:
    """The values of a fact that has no open argument."""
    return tuple(value for value in fact.args if value is not None)


# Spark

Start: TypeAlias = "Callable[[str, Callable[[str], None]], Any]"


def _started(master: str, progress: Callable[[str], None]) -> Any:
    from tidelog.spark import session

    progress("starting Spark")
    return session(master)


class OnSpark:
    """The one Spark session of a run, started when the first case asks for it."""

    def __init__(
        self, master: str, progress: Callable[[str], None], start: Start | None = None
    ) -> None:
        self.master, self.progress = master, progress
        self.start = start or _started
        self._session: Any = None
        self._own = False

    def session(self) -> Any:
        if self._session is None:
            try:
                from pyspark.sql import SparkSession
            except ImportError as error:
                raise NoSpark(error.name, "test with the engine duckdb") from None
            self._own = SparkSession.getActiveSession() is None
            self._session = self.start(self.master, self.progress)
        return self._session

    def stop(self) -> None:
        """End the session, unless somebody else had started it."""
        if self._session is not None and self._own:
            self._session.stop()
        self._session = None

    def query(
        self, program: Program, queries: Iterable[str], facts: Iterable[Fact], low: int, high: int
    ) -> dict[str, list[Fact]]:
        """Finite facts, as DataFrames."""
        from tidelog.spark import query

        with self._folder(program, facts) as folder:
            return {
                name: facts_of(
                    program,
                    name,
                    query(self.session(), program, name, folder, from_=low, to=high).toArrow(),
                )
                for name in queries
            }

    def stream(
        self,
        program: Program,
        queries: Iterable[str],
        facts: Iterable[Fact],
        mode: str,
        low: int,
    ) -> dict[str, list[Fact]]:
        """The same facts as a stream, taken to its end."""
        from tidelog.spark import stream

        with self._folder(program, facts) as folder:
            options: Mapping[str, Any] = {
                "inputs": folder,
                "trigger": {"availableNow": True},
                "mode": mode,
                "from_": low,
            }
            running = stream(self.session(), program, tuple(queries), **options)
            running.awaitTermination()
            running.close()
            return {name: facts_of(program, name, table) for name, table in running.answers.items()}

    @contextmanager
    def _folder(self, program: Program, facts: Iterable[Fact]) -> Iterator[str]:
        """The facts as files: a folder for each input, also where there are none."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows: dict[str, list[tuple[Any, ...]]] = {}
        for fact in facts:
            rows.setdefault(fact.predicate, []).append(fact.row)
        with tempfile.TemporaryDirectory(prefix="tidelog-test-") as folder:
            for name, schema in schemas(resolve(program, {})).items():
                place = Path(folder, name)
                place.mkdir()
                if name not in rows or not schema.names:
                    continue
                types = [arrow_type(c.type) for c in schema.columns if c.type is not None]
                types += [pa.int64()] if schema.time is not None else []
                columns = zip(*rows[name], strict=True)
                arrays = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
                pq.write_table(pa.table(arrays, names=list(schema.names)), place / "facts.parquet")
            yield folder
