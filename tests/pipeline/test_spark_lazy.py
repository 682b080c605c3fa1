"""Answers of `tidelog.spark.query` that are computed after their facts have changed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from support.sessions import settings

import tidelog
from tidelog.analysis.passes import passes
from tidelog.data.ticks import ALWAYS, EMPTY, Range
from tidelog.errors import NoFacts, TidelogWarning
from tidelog.evaluation.spark.snapshot import relevant_ticks
from tidelog.spark import query

pytestmark = pytest.mark.xdist_group("spark")

RULES = (
    "input a(x: text) @ t. input b(x: text) @ t."
    " Alone(X) @ T :- a(X) @ T, not some {}(X) @ [T-2, T-1]."
)
CHANGED = "input `{}`: the facts have changed since the query was made; ask again"


def frame(spark: SparkSession, path: Path, *rows: tuple[str, int]) -> DataFrame:
    """A DataFrame whose rows are read anew at every look."""
    append(path, *rows)

    def read(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        options = pacsv.ReadOptions(column_names=["x", "t"])
        types = pacsv.ConvertOptions(column_types={"x": pa.string(), "t": pa.int64()})
        if path.stat().st_size:
            yield from pacsv.read_csv(path, options, convert_options=types).to_batches()

    return spark.range(0, 1, 1, 1).mapInArrow(read, "x STRING, t BIGINT")


def answers(lazy: DataFrame) -> list[tuple[object, ...]]:
    """The answers as of now: Spark does not use what it has exchanged for them before."""
    return sorted(map(tuple, lazy.select("*").collect()))


def append(path: Path, *rows: tuple[str, int]) -> None:
    with path.open("a") as file:
        file.writelines(f"{x},{t}\n" for x, t in rows)


def test_a_fact_outside_the_range_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """A table of two versions has answers of neither."""
    facts = frame(spark, tmp_path / "a.csv", ("a", 10), ("a", 11))
    lazy = query(spark, tidelog.parse(RULES.format("a")), "Alone", {"a": facts})
    assert answers(lazy) == [("a", 10)]
    append(tmp_path / "a.csv", ("b", 10))
    assert answers(lazy) == [("a", 10), ("b", 10)], "as of now, in the range"
    append(tmp_path / "a.csv", ("b", 9))
    with pytest.raises(PySparkException, match=CHANGED.format("a")):
        answers(lazy)


TWO = "input a(x: text, v: int) @ t. input b(x: text, v: int) @ t. Q(X) @ T :- {}."
FACTS: dict[str, list[tuple[str | None, int, int]]] = {
    "a": [("x", 1, 2), ("x", 2, 3), ("y", 1, 4), ("z", 3, 5)],
    "b": [("x", 3, 2), ("x", 1, 3), ("z", 3, 5), ("y", 9, 9)],
}
LEFT_OUT: dict[str, list[tuple[str | None, int, int]]] = {
    "a": [*FACTS["a"], (None, 1, 40)],
    "b": [*FACTS["b"], (None, 3, -40)],
}


@pytest.mark.parametrize("rows", [FACTS, LEFT_OUT], ids=["facts", "with rows left out"])
@pytest.mark.parametrize(
    "body",
    [
        "a(X, _) @ T, b(X, _) @ T",
        "a(X, V) @ T, b(X, W) @ T, V < W, W > 2",
        "a(X, _) @ T, not some b(X, 3) @ [T-2, T-1]",
        'a(X, V) @ T, b("z", V) @ T',
    ],
)
def test_two_inputs_whose_rows_spark_knows(
    body: str, rows: dict[str, list[tuple[str | None, int, int]]], spark: SparkSession
) -> None:
    """Spark plans with such rows: it must not meet the error for facts that have not changed.

    Its generated code looks at a tick before it looks at whose row it is, or whether it is a fact.
    """
    tables = {
        name: pa.table([list(c) for c in zip(*some, strict=True)], names=["x", "v", "t"])
        for name, some in rows.items()
    }
    program = tidelog.parse(TWO.format(body))
    with (
        warnings.catch_warnings(),
        settings(spark, spark_sql_codegen_factoryMode="FALLBACK"),
    ):
        warnings.simplefilter("ignore", TidelogWarning)
        wanted = sorted(tuple(r.values()) for r in program.query("Q", tables).to_pylist())
        assert wanted
        for given in (
            {name: spark.createDataFrame(table.to_pandas()) for name, table in tables.items()},
            {n: spark.createDataFrame(r, "x STRING, v INT, t INT") for n, r in rows.items()},
        ):
            assert answers(query(spark, program, "Q", given)) == wanted


def test_an_input_that_had_no_facts_has_some(spark: SparkSession, tmp_path: Path) -> None:
    facts = frame(spark, tmp_path / "a.csv", ("a", 10), ("a", 11))
    none = frame(spark, tmp_path / "b.csv")
    program = tidelog.parse(RULES.format("b"))
    with pytest.warns(NoFacts, match="`b`"):
        lazy = query(spark, program, "Alone", {"a": facts, "b": none})
    assert len(answers(lazy)) == 2
    append(tmp_path / "b.csv", ("a", 9))
    with pytest.raises(PySparkException, match=CHANGED.format("b")):
        answers(lazy)


def test_facts_that_no_answer_looks_at_may_come(spark: SparkSession, tmp_path: Path) -> None:
    """A table that grows is no error where the ticks asked for are long past."""
    facts = frame(spark, tmp_path / "a.csv", ("a", 8), ("a", 9), ("a", 10), ("a", 11))
    program = tidelog.parse(RULES.format("a"))
    lazy = query(spark, program, "Alone", {"a": facts}, from_=10, to=11)
    append(tmp_path / "a.csv", ("a", 7), ("b", 11), ("b", 12))
    assert answers(lazy) == [("b", 11)]


def test_a_file_that_grows_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,t\na,10\na,11\n")
    lazy = query(spark, tidelog.parse(RULES.format("a")), "Alone", {"a": tmp_path / "a.csv"})
    append(tmp_path / "a.csv", ("b", 9))
    with pytest.raises(PySparkException, match=r"a\.csv: the facts have changed since") as error:
        answers(lazy)
    assert "Traceback" not in str(error.value)


@pytest.mark.parametrize(
    ("asked", "relevant"),
    [
        (Range(10, 11), Range(8, 11)),
        (Range(-math.inf, 11), Range(-math.inf, 11)),
        (ALWAYS, ALWAYS),
    ],
)
def test_the_ticks_that_matter(asked: Range, relevant: Range) -> None:
    deps = passes(tidelog.parse(RULES.format("a")), ("Alone",)).planned
    assert relevant_ticks(deps, asked) == {"a": relevant}
    assert relevant_ticks(deps, EMPTY) == {"a": EMPTY}
