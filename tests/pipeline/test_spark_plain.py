"""DataFrames that are plain scans of Parquet: tasks read the files only if they read as Spark does.

The oracle is Spark: what the DataFrame has, by `collect`.
"""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as S
from support.sessions import settings

import tidelog
from tidelog.data.schema import schemas
from tidelog.data.ticks import Ticks
from tidelog.errors import DataError
from tidelog.evaluation.spark.plain import plain_splits
from tidelog.evaluation.spark.sources import Inputs
from tidelog.spark import query

pytestmark = pytest.mark.xdist_group("spark")

WORDS = "input a(x: text, y: text) @ t. O(X, Y) @ T :- a(X, Y) @ T."
DAYS = "tick 1d. input a(x: text) @ t. O(X) @ T :- a(X) @ T."


def reason(frame: DataFrame, rules: str = WORDS) -> str | None:
    """Why a DataFrame is no plain scan of files; None if it is one."""
    program = tidelog.parse(rules)
    ticks = None if program.tick is None else Ticks.of(program.tick)
    found = plain_splits(frame, "a", Inputs(schemas(program), ticks))
    return found if isinstance(found, str) else None


def by_id(number: int) -> dict[bytes, bytes]:
    return {b"PARQUET:field_id": str(number).encode()}


def test_columns_by_field_id(spark: SparkSession, tmp_path: Path) -> None:
    """Files of Iceberg: a column that was renamed has the name that another one had before."""
    fields = [("x", pa.string(), 2), ("y", pa.string(), 1), ("t", pa.int64(), 3)]
    there = pa.schema([pa.field(n, type_, metadata=by_id(i)) for n, type_, i in fields])
    table = pa.table({"x": ["x of file"], "y": ["y of file"], "t": [1]}, schema=there)
    pq.write_table(table, tmp_path / "a.parquet")
    ids = {"x": 1, "y": 2, "t": 3}
    struct = S.StructType(
        [
            S.StructField(
                n, S.LongType() if n == "t" else S.StringType(), True, {"parquet.field.id": i}
            )
            for n, i in ids.items()
        ]
    )
    frame = spark.read.schema(struct).parquet(str(tmp_path))
    assert reason(frame) is None
    with settings(spark, spark_sql_parquet_fieldId_read_enabled="true"):
        assert frame.collect() == [("y of file", "x of file", 1)]
        answers = query(spark, tidelog.parse(WORDS), "O", {"a": frame})
        assert answers.collect() == [("y of file", "x of file", 1)]


LONG_AGO: tuple[Any, ...] = (
    pa.array([date(1500, 3, 1)], pa.date32()),
    pa.array([datetime(1500, 3, 1)], pa.timestamp("us", tz="UTC")),
)


@pytest.mark.parametrize("times", LONG_AGO, ids=["date", "timestamp"])
def test_dates_of_an_older_calendar(spark: SparkSession, tmp_path: Path, times: Any) -> None:
    """The file says nothing of its calendar: the session does."""
    pq.write_table(pa.table({"x": ["a"], "t": times}), tmp_path / "a.parquet")
    name = "spark_sql_parquet_datetimeRebaseModeInRead"
    days = {}
    for mode in ("CORRECTED", "LEGACY"):
        with settings(spark, spark_sql_session_timeZone="UTC", **{name: mode}):
            frame = spark.read.parquet(str(tmp_path))
            assert (reason(frame, DAYS) is None) == (mode == "CORRECTED")
            answers = query(spark, tidelog.parse(DAYS), "O", {"a": frame})
            (days[mode],) = answers.select(F.col("time").cast("date")).collect()
            assert [days[mode]] == frame.select(F.col("t").cast("date")).collect()
    assert days["CORRECTED"] != days["LEGACY"]
    with settings(spark, **{name: "EXCEPTION"}), pytest.raises(DataError, match="1582"):
        query(spark, tidelog.parse(DAYS), "O", {"a": spark.read.parquet(str(tmp_path))})


def plain(spark: SparkSession, folder: Path, names: tuple[str, ...] = ("x", "y", "t")) -> DataFrame:
    values: list[list[Any]] = [["a"], *([["b"]] * (len(names) - 2)), [1]]
    pq.write_table(pa.table(values, names=list(names)), folder / "a.parquet")
    return spark.read.schema("x string, y string, t bigint").parquet(str(folder))


@pytest.mark.parametrize(
    ("name", "value", "alike"),
    [
        ("spark.sql.files.ignoreCorruptFiles", "true", False),
        ("spark.sql.parquet.columnarReaderBatchSize", "7", True),
        ("spark.sql.files.maxPartitionBytes", "1000", True),
        ("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY", True),
        ("spark.sql.parquet.binaryAsString", "true", False),
        ("spark.sql.parquet.nobodyKnows", "true", False),
        ("spark.sql.legacy.parquet.nanosAsLong", "true", False),
    ],
)
def test_settings(spark: SparkSession, tmp_path: Path, name: str, value: str, alike: bool) -> None:
    """A setting of the reader that is not known to change nothing has Spark read the files."""
    frame = plain(spark, tmp_path)
    with settings(spark, **{name: value}):
        assert (reason(frame) is None) == alike


def test_names_that_differ_in_case(spark: SparkSession, tmp_path: Path) -> None:
    frame = plain(spark, tmp_path, ("x", "X", "y", "t"))
    assert reason(frame) == "its files have other columns or types"
