"""A single file of facts on Spark: its lines may be of several inputs, and have timestamps."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import tidelog
from tidelog.cli import cli
from tidelog.data.readers.places import FactsPath
from tidelog.data.ticks import Ticks
from tidelog.evaluation.spark.given import Given
from tidelog.spark import query

pytestmark = pytest.mark.xdist_group("spark")

RULES = """
input Login(user: text) @ at.
input Blocked(user: text).
output Bad(user).
Bad(U) @ T :- Login(U) @ T, Blocked(U).
"""
LINES = [
    {"predicate": "Blocked", "user": "eve"},
    {"predicate": "Login", "user": "eve", "at": "2024-05-01T12:00:30Z"},
    {"predicate": "Login", "user": "ann", "at": "2024-05-01T12:01:30Z"},
    {"predicate": "Login", "user": "eve", "at": "2024-05-01T12:02:30Z"},
]
TIMES = ["2024-05-01T12:00:00Z", "2024-05-01T12:02:00Z"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rules.tdl").write_text(RULES)
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return tmp_path


def told(folder: Path, *words: str) -> list[str]:
    """The times at which a command says that eve is bad."""
    facts = ["--facts", str(folder / "all.jsonl"), "--tick", "1m"]
    command = [words[0], str(folder / "rules.tdl"), *facts, *words[1:]]
    done = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert {answer["user"] for answer in answers} == {"eve"}
    return [answer["time"] for answer in answers]


def test_a_file_of_lines_with_timestamps(spark: SparkSession, folder: Path) -> None:
    assert told(folder, "query", "--engine", "spark", "--json") == TIMES
    assert told(folder, "run") == TIMES
    program = tidelog.parse(RULES)
    frame = query(spark, program, "Bad", [str(folder / "all.jsonl")], tick="1m")
    assert frame.count() == 2


def test_bad_lines_of_a_single_file_are_dead_letters(spark: SparkSession, folder: Path) -> None:
    with (folder / "all.jsonl").open("a") as file:
        file.write('oops\n{"predicate": "Login", "user": 7, "at": "2024-05-01T12:03:30Z"}\n')
        file.write('{"predicate": "Login", "at": "2024-05-01T12:03:30Z"}\n')
    assert told(folder, "run") == TIMES


def test_types_that_only_parquet_with_timestamps_says(tmp_path: Path) -> None:
    """No rule says what type `arg2` is, and the file has timestamps."""
    times = pa.array([0], pa.timestamp("us", tz="UTC"))
    path = tmp_path / "E.parquet"
    pq.write_table(pa.table({"x": ["a"], "n": [1], "at": times}), path)
    program = tidelog.parse("P(X, N) @ T :- E(X, N) @ T.")
    given = Given.of(program, ("P",), {}, (FactsPath.of(path),), None, Ticks.of("1m"))
    assert [c.type.value for c in given.program.declarations["E"].columns if c.type] == [
        "text",
        "int",
    ]
