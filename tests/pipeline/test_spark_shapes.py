"""Rules that no key splits, large rigid inputs and large keys, in the partitions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracle import naive
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import tidelog
from tidelog.analysis.stages import StageKind
from tidelog.errors import DataError
from tidelog.evaluation.layout import Layout
from tidelog.evaluation.spark import given
from tidelog.evaluation.spark.failures import clear
from tidelog.pipeline import sites
from tidelog.spark import query, stream

pytestmark = pytest.mark.xdist_group("spark")

FACTS: dict[str, list[tuple[Any, ...]]] = {
    "E": [("a", 0), ("b", 1), ("a", 2), ("c", 5), ("b", 70), ("a", 71)],
    "F": [("a", "b", 0), ("b", "c", 1), ("c", "a", 5), ("b", "b", 70)],
    "N": [("a", "b"), ("b", "c"), ("c", "c")],
}
INPUTS = "input E(x: text) @ t. input F(x: text, y: text) @ t. input N(x: text, y: text)."
SHAPES = {
    "changes the key": "R(Y) @ T+1 :- E(X) @ T, N(X, Y). R(X) @ T+1 :- R(X) @ T, F(X, Y) @ T.",
    "shares nothing": "P(X, Y) @ T :- E(X) @ T, E(Y) @ T-1, X != Y.",
    "no arguments": "Any @ T :- E(X) @ T, F(X, Y) @ T+1. P(X) @ T+1 :- E(X) @ T, Any @ T-1.",
    "recursion across keys": "R(X, Y) @ T :- F(X, Y) @ T. R(X, Z) @ T :- R(X, Y) @ T, N(Y, Z).",
    "recursion at one tick": "R(X, Y) @ T :- F(X, Y) @ T. R(X, Z) @ T :- R(X, Y) @ T, R(Y, Z) @ T.",
    "gathers facts": "G(X) :- E(X) @ 2. Any :- F(X, X) @ 70. P(X) @ T :- E(X) @ T, G(X), Any.",
    "recursion over gathered": """
        G(X) :- E(X) @ 1. P(X) @ T+1 :- E(X) @ T. P(X) @ T+2 :- P(X) @ T, G(X).
    """,
    "facts in the rules": """
        W(d) @ 3. W(a) @ 0. P(Y) @ T :- W(X) @ T, N(X, Y). P(X) @ T :- W(X) @ T-1, E(Y) @ T-1.
    """,
}


COLUMNS = {"E": ("x", "t"), "F": ("x", "y", "t")}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The facts, in two files for each input."""
    folder = tmp_path_factory.mktemp("facts")
    for name, columns in COLUMNS.items():
        (folder / name).mkdir()
        for i, rows in enumerate((FACTS[name][:2], FACTS[name][2:])):
            table = pa.table(dict(zip(columns, zip(*rows, strict=True), strict=True)))
            path = folder / name / f"{i}.parquet"
            pq.write_table(table, path)
            os.utime(path, (i * 60, i * 60))  # Spark takes files in the order of their age
    return folder


def check(
    spark: SparkSession, rules: str, files: Path, at_once: int = 1, **options: Any
) -> list[StageKind]:
    """As a stream, of two batches or all `at_once`, and as a query; the kinds of the stages."""
    program = tidelog.parse(f"{INPUTS} {rules}")
    asked = tuple(dict.fromkeys(rule.head.predicate for rule in program.rules))
    want = naive.evaluate(program, FACTS, asked, 0, 71)
    frames = {}
    for name, columns in COLUMNS.items():
        ddl = ", ".join(f"{c} {'BIGINT' if c == 't' else 'STRING'}" for c in columns)
        reader = spark.readStream.schema(ddl).option("maxFilesPerTrigger", at_once)
        frames[name] = reader.parquet(str(files / name))
        frames[f"{name} batch"] = spark.read.schema(ddl).parquet(str(files / name))
    with patch.object(sites, "LITTLE", -1):
        running = stream(
            spark,
            program,
            asked,
            inputs={name: frames[name] for name in ("E", "F")},
            rigid={"N": FACTS["N"]},
            partitions=2,
            sparse=["F"],
            trigger={"availableNow": True},
            **options,
        )
        running.awaitTermination()
        running.close()
    shape = running.plan.rows
    stages = shape.stages if isinstance(shape, Layout) else ()
    for name in asked:
        table = running.answers.get(name)
        got = [] if table is None else [tuple(r.values()) for r in table.to_pylist()]
        got = [() if row == (True,) and () in want[name] else row for row in got]
        assert sorted(got, key=str) == sorted(want[name], key=str), name
    inputs = {"E": frames["E batch"], "F": frames["F batch"], "N": FACTS["N"]}
    rows = [tuple(r) for r in query(spark, program, asked[-1], inputs, from_=0, to=71).collect()]
    assert sorted(rows, key=str) == sorted(want[asked[-1]], key=str)
    return [stage.kind for stage in stages]


# Much like others here, all in one partition, where DuckDB does what it does across keys; or like
# what `test_spark_aggregates.py` has beside an aggregate.
DEEP = {
    "shares nothing",
    "gathers facts",
    "recursion at one tick",
    "recursion over gathered",
    "no arguments",
    "facts in the rules",
}


@pytest.mark.parametrize(
    "shape", [pytest.param(s, marks=[pytest.mark.deep] if s in DEEP else []) for s in SHAPES]
)
def test_no_shape_is_refused(shape: str, spark: SparkSession, files: Path) -> None:
    kinds = check(spark, SHAPES[shape], files)
    expected = {
        "changes the key": [StageKind.KEYED, StageKind.KEYED],
        "shares nothing": [StageKind.CATALYST, StageKind.KEYED],
        "recursion across keys": [StageKind.KEYED],
        "gathers facts": [StageKind.CATALYST],
        "recursion over gathered": [StageKind.WHOLE],
    }
    assert kinds == expected.get(shape, kinds)


def test_large_rigid_inputs_are_joined_by_catalyst(spark: SparkSession, files: Path) -> None:
    with patch.object(given, "LARGE", 2):
        kinds = check(spark, SHAPES["changes the key"], files, at_once=2)
    assert kinds == [StageKind.CATALYST, StageKind.KEYED]


def test_the_strict_style_keeps_input_facts_only(spark: SparkSession, files: Path) -> None:
    rules = "Q(X) @ T :- E(X) @ T, F(X, Y) @ T-1. P(Y) @ T :- Q(X) @ T, N(X, Y)."
    check(spark, rules, files, history="strict")


def test_a_key_that_does_not_fit_is_named(spark: SparkSession, tmp_path: Path) -> None:
    program = tidelog.parse("input E(x: text, v: int) @ t. P(X, V) @ T :- E(X, V) @ T, X != b.")
    frame = spark.sql("SELECT 'hot' AS x, id AS v, id % 7 AS t FROM range(400000)")
    answers = query(spark, program, "P", {"E": frame}, memory="8MB")
    with pytest.raises(PySparkException) as raised:
        answers.count()
    said = clear(raised.value)
    assert isinstance(said, DataError)
    assert "needs more than 8MB of memory; its largest key is 'hot' with" in str(said)
    assert "give it more memory" in str(said)


@pytest.mark.parametrize(
    "rules",
    [
        "H @ 0. H @ 3. H @ T+1 :- E(X) @ T-5, E(Y) @ T+2.",
        "H(a) @ 0. H(b) @ 3. H(c) @ 4. H(X) @ T+1 :- E(X) @ T-5, E(X) @ T+2.",
    ],
)
def test_facts_in_the_rules_need_no_others(rules: str, spark: SparkSession) -> None:
    program = tidelog.parse(f"{INPUTS} {rules}")
    frame = spark.createDataFrame([], "x STRING, t BIGINT")
    want = naive.evaluate(program, {}, ("H",), 0, 9)["H"]
    answers = query(spark, program, "H", {"E": frame}, from_=0, to=9, partitions=3).collect()
    assert {tuple(row) for row in answers} == want
    assert len(answers) == len(want) > 0
