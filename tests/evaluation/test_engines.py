"""What every engine must do: the same answers from DuckDB and from Spark, whichever way asked."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from oracle import naive
from oracle.generate import Case, programs_and_facts
from oracle.horizon import temporal_predicates
from pyspark.sql import SparkSession
from support.deep import examples

import tidelog
from tidelog.analysis.dependencies import dependencies
from tidelog.data.ticks import Range
from tidelog.errors import DataError
from tidelog.evaluation.database import Database
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.engine import ENGINES, Feature, SqlEngine, evaluate
from tidelog.evaluation.plan import Plan, Unbounded, plan
from tidelog.evaluation.ranges import ranges
from tidelog.evaluation.sql import Writer
from tidelog.evaluation.steps import StepRunner
from tidelog.language.program import Value
from tidelog.logic.clause import Sign
from tidelog.logic.core import Core, rules_of
from tidelog.logic.normalise import core

Facts = dict[str, list[tuple[Value, ...]]]

NAMES = ["duckdb", pytest.param("spark", marks=pytest.mark.xdist_group("spark"))]
INPUTS = "input E(a: text, b: text) @ t. input F(a: text) @ t. input N(a: text, b: text). "
PROGRAMS = {
    "shifts over chunks": "P(X) @ T+61 :- E(X, Y) @ T, F(Y) @ T+60. Q(Y) @ T-7 :- P(Y) @ T.",
    "one table": "P(X) @ T+1 :- F(X) @ T, F(X) @ T+1. Q(X) @ T :- P(X) @ T+60, F(X) @ T-1.",
    "selections": "Q(X, Y) @ T :- E(X, Y) @ T, E(a, Y) @ T+1, F(Y) @ T-2, X != Y, X < c.",
    "rigid facts": "Q(X, Z) @ T+3 :- E(X, Y) @ T, N(Y, Z). Q(X, X) @ T :- E(X, X) @ T.",
    "rigid answers": "Q(X) :- E(X, Y) @ T, F(Y) @ T+1, N(X, Y).",
    "fixed times": "P(b) @ 5. P(X) @ T :- F(X) @ T, F(X) @ 100. Q(X) @ T+60 :- P(X) @ T.",
    "a time of its own": "Q(X) @ T :- F(X) @ T, E(X, Y) @ S, F(Y) @ S+1.",
    "what persists": "Q(X) @ T :- E(X, Y) @ T, F(Y) @ T, N(X, Y). Q(X) @ T+1 :- Q(X) @ T.",
    "what is guarded": "Q(X) @ T :- F(X) @ T, N(X, X). Q(X) @ T-2 :- Q(X) @ T, F(X) @ T-1.",
    "rounds": "Q(X, Y) @ T :- E(X, Y) @ T. Q(X, Z) @ T+1 :- Q(X, Y) @ T, N(Y, Z).",
    "awkward texts": 'Q("it\'s", X) @ T :- F(X) @ T, X != "back\\\\slash".',
}


def facts() -> Facts:
    """Some of everything, over several chunks of 60 ticks and below 0; the same every time."""
    chosen = Random(7)
    return {
        "E": [(*chosen.choices("abc", k=2), chosen.randrange(-70, 200)) for _ in range(150)],
        "F": [(chosen.choice("abc"), chosen.randrange(-70, 200)) for _ in range(150)],
        "N": [("a", "b"), ("b", "b"), ("c", "a")],
    }


@pytest.fixture(params=NAMES)
def engine(request: pytest.FixtureRequest) -> str:
    """The name of an engine; Spark's session is the one that is active."""
    if request.param == "spark":
        request.getfixturevalue("spark")
    return str(request.param)


def rows(table: pa.Table) -> list[tuple[Value, ...]]:
    if table.column_names == ["holds"]:
        return [() for _ in range(table.num_rows)]
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def in_order(case: Case, query: str, answers: set[tuple[Value, ...]]) -> list[tuple[Value, ...]]:
    """By time, then by arguments."""
    if query not in temporal_predicates(case.program):
        return sorted(answers)
    return sorted(answers, key=lambda row: (row[-1], row[:-1]))


def check(case: Case, engine: str) -> None:
    asked = evaluate(
        case.program, case.queries, case.facts, from_=case.low, to=case.high, engine=engine
    )
    if asked.timeline is not None:
        return
    want = naive.evaluate(case.program, case.facts, case.queries, case.low, case.high)
    for query in case.queries:
        assert rows(asked.answers[query]) == in_order(case, query, want[query]), case.text


def test_every_engine_is_tried() -> None:
    tried = [name if isinstance(name, str) else name.values[0] for name in NAMES]
    assert tried == list(ENGINES)


@pytest.mark.parametrize("name", PROGRAMS)
def test_answers(name: str, engine: str) -> None:
    program = tidelog.parse(INPUTS + PROGRAMS[name])
    check(Case(PROGRAMS[name], program, facts(), ("Q",), -80, 270), engine)


@pytest.mark.xdist_group("spark")
@pytest.mark.deep
def test_generated_programs_on_spark(spark: SparkSession) -> None:
    """Each takes seconds: `make test` has some in `pipeline/test_spark_stream.py`.

    DuckDB has many of them in `test_generated.py`.
    """

    @given(programs_and_facts(huge=False, max_rules=5))
    @examples(3)
    def look(case: Case) -> None:
        with Engine(case.program, case.facts) as here:
            try:
                here.plan(case.queries, case.low, case.high)
            except Unbounded:
                return
        check(case, "spark")

    look()


# Whichever way an engine is asked


def test_times_are_timestamps_where_ticks_have_a_length(engine: str) -> None:
    program = tidelog.parse("input E(a: text) @ t. Q(X) @ T+1 :- E(X) @ T.")
    given = {"E": [("a", "2026-01-01T00:00:30Z"), ("b", "2026-01-01T00:01:00Z")]}
    table = program.query("Q", given, engine=engine, tick="1m", origin="2026-01-01T00:00:00Z")
    assert [(x, str(at)) for x, at in rows(table)] == [("a", "2026-01-01 00:01:00+00:00")]


def test_answers_without_end_come_from_the_timeline(engine: str) -> None:
    program = tidelog.parse("input E(a: text) @ t. Q(X) @ T :- E(X) @ T. Q(X) @ T+2 :- Q(X) @ T.")
    table = program.query("Q", {"E": [("a", 3)]}, engine=engine, to=None)
    assert table.to_pylist() == [{"x": "a", "time": 3, "period": 2}]


def test_what_is_wrong_is_said_in_the_same_words(engine: str) -> None:
    program = tidelog.parse("input E(a: int) @ t. Q(X) @ T :- E(X) @ T.")
    with pytest.raises(DataError, match=r"row 1: column `a`: .* is not int"):
        program.query("Q", {"E": [("x", 3)]}, engine=engine)
    with pytest.raises(ValueError, match="no predicate R in the rules; there are: Q, E"):
        evaluate(program, ["R"], None, engine=engine)


def test_an_engine_that_there_is_not() -> None:
    program = tidelog.parse("Q(X) @ T :- E(X) @ T.")
    with pytest.raises(ValueError, match="no engine is called 'flink'; there are duckdb, spark"):
        program.query("Q", None, engine="flink")


def test_a_query_in_process_loads_no_spark() -> None:
    probe = (
        "import sys, tidelog; tidelog.parse('P(X) @ T :- E(X) @ T.').query('P', {'E': [('a', 1)]});"
        " print('pyspark' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


# The SQL of a plan

SQL = """
    P(X) @ T+61 :- E(X, Y) @ T, F(Y) @ T+60, N(Y, Y). P(X) @ 3 :- F(X) @ 100.
    Q(X) @ T :- P(X) @ T. Q(X) @ T :- F(X) @ T, F(X) @ T+1.
"""


@pytest.fixture(params=NAMES)
def sql_engine(request: pytest.FixtureRequest) -> Iterator[SqlEngine]:
    """An engine that has the facts as tables `given_E`, `given_F` and `given_N`."""
    columns = {"E": ["a1", "a2", "t"], "F": ["a1", "t"], "N": ["a1", "a2"]}
    tables = {
        name: pa.table(dict(zip(columns[name], zip(*some, strict=True), strict=True)))
        for name, some in facts().items()
    }
    if request.param == "duckdb":
        connection = duckdb.connect()
        for name, table in tables.items():
            connection.register(f"given_{name}", table)
        yield Database(connection)
        connection.close()
        return
    from tidelog.evaluation.spark.catalyst import Catalyst

    session = request.getfixturevalue("spark")
    catalyst = Catalyst(session)
    for name, table in tables.items():
        catalyst.offer(f"given_{name}", session.createDataFrame(table))
    yield catalyst
    catalyst.forget()


def planned(rules: str) -> Plan:
    program = tidelog.parse(INPUTS + rules)
    deps = dependencies(core(program, ["Q"]), ["Q"])
    data = {p.name: Range(-70, 199) for p in deps.core.inputs if p.temporal}
    return plan(deps, data, Range(-80, 270))


def run(engine: SqlEngine, made: Plan) -> None:
    engine.offer_texts(Writer(made).texts)
    named = {p.name: f"given_{p.base}" for p in made.deps.core.inputs}
    StepRunner(engine).run(made, made.steps, {}, named)


def test_the_steps_of_a_plan(sql_engine: SqlEngine) -> None:
    made = planned(SQL)
    run(sql_engine, made)
    want = naive.evaluate(tidelog.parse(INPUTS + SQL), facts(), ["Q"], -80, 270)["Q"]
    select = Writer(made).rows("Q")
    assert want
    assert set(sql_engine.all(select)) == want
    assert set(rows(sql_engine.arrow(select))) == want
    assert sql_engine.all(Writer(made).count("Q")) == [(len(want),)]
    assert sql_engine.rows_of("given_N") == 3


def test_what_an_engine_cannot_do_it_says(sql_engine: SqlEngine) -> None:
    made = planned("Q(X) @ T :- F(X) @ T. Q(X) @ T+1 :- Q(X) @ T.")
    if Feature.RECURSION not in sql_engine.limits:
        run(sql_engine, made)
        assert sql_engine.rows_of(made.tables["Q"]) > 0
        return
    with pytest.raises(DataError, match=r"`Q` is recursive: .* evaluated in its partitions"):
        run(sql_engine, made)


# What no engine can do yet


def negated(text: str) -> Core:
    """The core of a program with its last premise negated."""
    whole = core(tidelog.parse(text))
    *others, clause = rules_of(whole)
    premises = (*clause.premises[:-1], replace(clause.premises[-1], sign=Sign.NEGATIVE))
    return whole.rewritten((*others, replace(clause, premises=premises)))


def test_absence_is_looked_at_and_bounds_nothing() -> None:
    deps = dependencies(negated("Q(X) @ T :- E(X) @ T, F(X) @ T-1."), ["Q"])
    data = {"E": Range(0, 9), "F": Range(-5, 3)}
    assert ranges(deps, data, Range(2, 30)) == {
        "Q": Range(2, 9),
        "E": Range(2, 9),
        "F": Range(1, 3),
    }


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_views_of_the_session_are_left_as_they_were(request: pytest.FixtureRequest) -> None:
    from tidelog.evaluation.spark.catalyst import planning

    session = request.getfixturevalue("spark")
    session.sql("SELECT 7 AS mine").createOrReplaceTempView("hidden")
    try:
        with planning(session) as engine:
            for value in (8, 9):
                engine.table("hidden", f"SELECT {value} AS ours")
            engine.view("gone", "SELECT ours + 1 AS more FROM hidden")
            assert engine.all("SELECT * FROM gone") == [(10,)]
        assert session.table("hidden").collect() == [(7,)]
        assert not session.catalog.tableExists("gone")
    finally:
        session.catalog.dropTempView("hidden")
