"""Questions about generated programs: what DuckDB answers, and what the oracles say."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import event
from oracle import asp, naive
from oracle.generate import Case
from oracle.horizon import Answers, default_margin, runs_both_ways, temporal_predicates

from tidelog.analysis.dependencies import Class, dependencies
from tidelog.errors import NoAnswer
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.plan import Unbounded
from tidelog.language.program import Program, Value
from tidelog.logic.normalise import core

Rows = list[tuple[Value, ...]]


def rows(table: pa.Table) -> Rows:
    if table.column_names == ["holds"]:
        return [() for _ in range(table.num_rows)]
    columns = [column.to_pylist() for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else []


def by_time(program: Program, name: str, answers: set[tuple[Value, ...]]) -> Rows:
    """In Python's order: time first, then the arguments."""
    if name not in temporal_predicates(program):
        return sorted(answers)
    return sorted(answers, key=lambda row: (row[-1], row[:-1]))


def answered(case: Case, low: int | None = None) -> dict[str, Rows] | None:
    """What DuckDB says, in its order; None where the question is rightly refused."""
    first = case.low if low is None else low
    with Engine(case.program, case.facts) as engine:
        try:
            tables = engine.query(case.queries, first, case.high)
        except Unbounded:
            assert runs_both_ways(case.program, case.queries), case.text
            event("unbounded")
            return None
        except NoAnswer:
            deps = dependencies(core(case.program, case.queries), case.queries)
            assert deps.cls is Class.BLOCKING, case.text
            assert deps.cycles_through_not or deps.cycles_through_aggregates, case.text
            event("a cycle through not, and recursion into the future")
            return None
    return {name: rows(table) for name, table in tables.items()}


def wanted(case: Case, got: dict[str, Rows] | None = None) -> Answers:
    """What the oracles say, over more time where their usual horizon may be too short."""
    _, program, facts, queries, low, high = case
    answers = naive.evaluate(program, facts, queries, low, high)
    if asp.fits(program, facts, low, high):
        assert asp.evaluate(program, facts, queries, low, high) == answers
    if got is not None and any(set(got[name]) != answers[name] for name in queries):
        wider = 2 * default_margin(program) + 300
        answers = naive.evaluate(program, facts, queries, low, high, wider)
    return answers


def agree(case: Case) -> None:
    got = answered(case)
    if got is None:
        return
    want = wanted(case, got)
    for name in case.queries:
        assert got[name] == by_time(case.program, name, want[name]), (name, case.text)
