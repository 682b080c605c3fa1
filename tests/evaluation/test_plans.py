"""`explain --show plan,sql`: what it shows, and that its SQL is the real thing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner
from oracle import naive
from support.deep import DEEP
from support.places import ROOT

import tidelog
from tidelog.analysis.dependencies import dependencies
from tidelog.cli import cli
from tidelog.language.checks import check
from tidelog.language.diagnostics import visible
from tidelog.language.program import Value
from tidelog.logic.normalise import core
from tidelog.views.plans import assumed_plan
from tidelog.views.statements import sql_lines

TURBINES = str(ROOT / "examples" / "turbines" / "rules.tdl")


def explain(rules: str, show: str, *options: str) -> str:
    result = CliRunner().invoke(cli, ["explain", rules, "--show", show, *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_plan_of_the_turbines() -> None:
    lines = [line.split("%")[0].strip() for line in explain(TURBINES, "plan").splitlines()]
    start = lines.index("AtRisk: class 2, recursive, with bounded derived state")
    assert lines[start + 1 :] == [
        "plan for data and answers at ticks 0 to 599",
        "pack    s1_temp = Temp(X, high); keeps (X)",
        "derive  p1_flag",
        "Flag(X) @ T :- Temp(X, high) @ T.",
        # What Cool stands for, two readings of Flag, is asked for in place of it.
        "derive  p3_shdn",
        "Shdn(X) @ T :- Flag(X) @ T-2, Flag(X) @ T-1, Flag(X) @ T.",
        "select  s2_near = Near(X, Y); keeps (X, Y)",
        # Two readings at 0 and 1 come before the first shutdown at 2.
        "repeat  p4_atrisk on 2 to 599",
        "start   AtRisk(Y) @ T :- Shdn(X) @ T, Near(X, Y).",
        "carry   AtRisk(X) @ T+1 :- AtRisk(X) @ T.",
    ]


def test_selection_comes_before_packing(tmp_path: Path) -> None:
    """Of five columns one is packed, and rows that no rule wants are not."""
    rules = tmp_path / "rules.tdl"
    rules.write_text(
        "input S(a: text, w: float, p: int, c: float, d: text) @ t.\n"
        "P(X) @ T :- S(X, W, P, _, on) @ T, W >= 5, P <= 0.\n"
    )
    sql = explain(str(rules), "sql")
    (scan,) = re.findall(r"TABLE s1_s AS (.*?);", sql, re.DOTALL)
    inner = scan[scan.index("(SELECT") : scan.index(") AS x")]
    assert "a5 = 'on'" in inner
    assert "a2 >= 5.0e0" in inner
    assert "a3 <= CAST(0 AS BIGINT)" in inner
    assert scan.index("WHERE") < scan.index("GROUP BY")
    assert "GROUP BY a1, t - i" in scan


PROGRAMS = {
    "shifts": "P(X) @ T+61 :- E(X, Y) @ T, F(Y) @ T+60. Q(Y) @ T-7 :- P(Y) @ T.",
    "constants": "P(Y) @ T :- E(a, Y) @ T. P(X) @ T+1 :- E(X, b) @ T. Q(X) @ T :- P(X) @ T-1.",
    "comparisons": "Q(X, Y) @ T :- E(X, Y) @ T, F(Y) @ T-2, X != Y, X < c.",
    "repeated": "Q(X) @ T :- E(X, X) @ T, E(X, Y) @ T+1, F(Y) @ T.",
    "one table": "P(X) @ T+1 :- F(X) @ T, F(X) @ T+1. Q(X) @ T :- P(X) @ T+60, F(X) @ T-1.",
    "rigid": "Q(X, Z) @ T+3 :- E(X, Y) @ T, N(Y, Z).",
    "rigid heads": "Q(X) :- E(X, Y) @ T, F(Y) @ T+1.",
    "explicit times": "P(b) @ 5. P(X) @ T :- F(X) @ T, F(X) @ 100. Q(X) @ T+60 :- P(X) @ T.",
    "two times": "Q(X) @ T :- F(X) @ T, E(X, Y) @ S, F(Y) @ S+1.",
}


def facts() -> dict[str, list[tuple[Value, ...]]]:
    """Some of everything, over several chunks of 60 ticks; the same every time."""
    chosen = Random(7)
    some = "abc"
    return {
        "E": [(*chosen.choices(some, k=2), chosen.randrange(300)) for _ in range(250)],
        "F": [(chosen.choice(some), chosen.randrange(300)) for _ in range(250)],
        "N": [("a", "b"), ("b", "b"), ("c", "a")],
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_sql_runs_and_is_right(name: str) -> None:
    """Pasted into DuckDB with the inputs as tables, it gives the naive evaluator's answers."""
    declared = "input E(a: text, b: text) @ t. input F(a: text) @ t. input N(a: text, b: text). "
    program = check(declared + PROGRAMS[name]).accepted()
    deps = dependencies(core(program, ["Q"]), ["Q"])
    plan = assumed_plan(deps)
    with duckdb.connect() as connection:
        for input_, table in plan.inputs.items():
            predicate = plan.deps.core.predicates[input_]
            columns = [f"a{i} VARCHAR" for i in range(1, len(predicate.types) + 1)]
            columns += ["t BIGINT"] if predicate.temporal else []
            connection.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            marks = ", ".join("?" for _ in columns)
            rows = [list(row) for row in facts()[predicate.base]]
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        for statement in "\n".join(sql_lines(deps, None, None)).split(";\n"):
            connection.execute(statement)
        answers = connection.fetchall()
    if deps.core.predicates["Q"].temporal:
        answers = unpacked(answers)
    expected = naive.evaluate(program, facts(), ["Q"], 0, 599)["Q"]
    assert expected
    assert sorted(answers) == sorted(expected)


def unpacked(rows: list[tuple[Value, ...]]) -> list[tuple[Value, ...]]:
    """Python's own way from bits to ticks."""
    return [(*row[:-2], row[-2] + i) for row in rows for i in range(60) if row[-1] >> i & 1]


@pytest.mark.parametrize("query", ["Malfunc", "AtRisk"])
def test_sql_names_nothing_of_the_users_but_what_is_safe(query: str) -> None:
    sql = explain(TURBINES, "sql", "--query", query)
    code = "\n".join(line for line in sql.splitlines() if not line.strip().startswith("--"))
    assert "'high'" in code
    assert "device" not in code
    assert "Temp" not in code


class Spy:
    """A connection whose statements are noted down."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, ran: list[str]) -> None:
        self.connection, self.ran = connection, ran

    def __getattr__(self, name: str) -> Any:
        called = getattr(self.connection, name)
        if name not in ("execute", "sql", "executemany", "query"):
            return called

        def spy(statement: str, *values: object) -> Any:
            self.ran.append(statement)
            return called(statement, *values)

        return spy


EXAMPLES = sorted(
    rules for rules in (ROOT / "examples").glob("*/*.tdl") if (rules.parent / "facts").is_dir()
)


@pytest.mark.grows
@pytest.mark.parametrize("rules", EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_statement_that_runs_is_shown(rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB's own connections are watched, whoever opens them.

    They have one thread: which facts come first, and so what a sample says, is the same twice.
    """
    facts = ["--facts", str(rules.parent / "facts")]
    open_, ran = duckdb.connect, list[str]()

    def connect(*args: Any, **options: Any) -> duckdb.DuckDBPyConnection:
        return open_(*args, **options).execute("SET threads = 1")

    outputs = tidelog.load(rules).outputs
    for query in outputs if DEEP > 1 else outputs[-1:]:
        ran.clear()
        monkeypatch.setattr(duckdb, "connect", lambda *a, **k: Spy(connect(*a, **k), ran))
        answered = CliRunner().invoke(cli, ["query", str(rules), *facts, "--query", query])
        monkeypatch.setattr(duckdb, "connect", connect)
        if answered.exit_code:
            continue  # a file of rules that is no program of this folder's facts
        assert ran
        shown = CliRunner().invoke(
            cli, ["explain", str(rules), *facts, "--query", query, "--show", "sql", "--json"]
        )
        (sql,) = (each["sql"] for each in json.loads(shown.stdout)["queries"])
        assert ran == [statement["sql"] for statement in sql]
        text = explain(str(rules), "sql", *facts, "--query", query)
        for statement in ran:
            assert "\n  ".join(map(visible, statement.split("\n"))) in text
