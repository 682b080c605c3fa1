"""The SQL of a query as text, for `explain`: recorded where it runs, written nowhere else."""

from __future__ import annotations

import duckdb

from tidelog.analysis.dependencies import Dependencies
from tidelog.data.readers.places import FactsLike
from tidelog.data.ticks import Ticks
from tidelog.data.types import SQL_TYPES
from tidelog.evaluation.database import NO_EXTENSIONS, Database
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.plan import Unbounded
from tidelog.evaluation.recorder import RecordedStatement, Recorder
from tidelog.evaluation.sql import Writer
from tidelog.evaluation.steps import StepRunner
from tidelog.language.printer import print_value
from tidelog.language.program import Type
from tidelog.logic.core import Predicate
from tidelog.views.plans import assumed_plan


def statements(
    deps: Dependencies, facts: FactsLike, ticks: Ticks | None
) -> list[RecordedStatement]:
    """The statements of one query: over facts all that run, without any those of its plan.

    Unbounded if the query has no plan.
    """
    recorder = Recorder()
    if facts is None:
        _run_without_facts(deps, recorder)
        return recorder.statements
    with Engine(
        deps.core.program,
        facts,
        ticks,
        progress=recorder.progress,
        queries=deps.queries,
        recorder=recorder,
    ) as engine:
        engine.query(deps.queries)
    return recorder.statements


def _run_without_facts(deps: Dependencies, recorder: Recorder) -> None:
    shown = assumed_plan(deps)
    with duckdb.connect(config=NO_EXTENSIONS) as connection:
        for name, table in shown.inputs.items():
            connection.execute(_empty_table(table, shown.deps.core.predicates[name]))
        database, writer = Database(recorder.connection(connection)), Writer(shown)
        recorder.progress("texts of the rules")
        database.offer_texts(writer.texts)
        runner = StepRunner(database, recorder.progress, whole=True)
        runner.run(shown, shown.steps, {}, {}, writer)
        for query in deps.queries:
            recorder.progress(f"answers of {query}")
            database.arrow(writer.answers(query))


def _empty_table(table: str, predicate: Predicate) -> str:
    """A statement that makes the table of an input, without facts."""
    kinds = (SQL_TYPES[type_ or Type.TEXT] for type_ in predicate.types)
    columns = [f"a{i} {kind}" for i, kind in enumerate(kinds, 1)]
    columns += ["t BIGINT"] if predicate.temporal else []
    return f"CREATE TEMP TABLE {table} ({', '.join(columns or ['z BIGINT'])})"


def sql_lines(deps: Dependencies, facts: FactsLike, ticks: Ticks | None) -> list[str]:
    """The statements of one query, each below what it is for."""
    lines: list[str] = []
    if facts is None:
        lines.append("-- for inputs without facts; --facts shows what runs for yours")
    try:
        recorded = statements(deps, facts, ticks)
    except Unbounded as error:
        return [f"-- no plan: {error}"]
    subject = ""
    for statement in recorded:
        if statement.subject != subject:
            subject = statement.subject
            lines.append(f"-- {subject}")
        if statement.values:
            lines.append(f"-- with {', '.join(map(_value, statement.values))}")
        lines += statement.sql.split("\n")
        lines[-1] += ";"
    return lines


def sql_json(deps: Dependencies, facts: FactsLike, ticks: Ticks | None) -> list[dict[str, object]]:
    """The statements of one query, with what each is for and the values bound to it."""
    try:
        recorded = statements(deps, facts, ticks)
    except Unbounded:
        return []
    return [{"for": s.subject, "sql": s.sql, "values": [*s.values]} for s in recorded]


def _value(value: object) -> str:
    return print_value(value) if isinstance(value, str | int | float) else str(value)
