"""Answers of `tidelog.spark.query` that are computed after their facts have changed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import tidelog
from tidelog.analysis.passes import passes
from tidelog.data.ticks import ALWAYS, EMPTY, Range
from tidelog.errors import NoFacts
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
