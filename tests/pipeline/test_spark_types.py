"""Types of Spark that rules take, take with a warning, or refuse by name; and what facts may be.

The oracle is Spark: its SQL over the same rows.
"""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import cycle
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import tidelog
from tidelog.errors import DataError, TidelogWarning
from tidelog.spark import query, session, stream

pytestmark = pytest.mark.xdist_group("spark")

FLOATS = "input a(x: text, v: float) @ t. O(X, V) @ T :- a(X, V) @ T."
WORDS = "input a(x: text) @ t. O(X) @ T :- a(X) @ T-1, a(X) @ T."
NO_FLOAT = "column `v`: `9007199254740993` is not float: the nearest float is another number"
NOW = {"availableNow": True}


def numbers(spark: SparkSession, type_: str, *values: str) -> DataFrame:
    rows = [f"('x{i}', CAST('{value}' AS {type_}), 1L)" for i, value in enumerate(values)]
    return spark.sql(f"SELECT * FROM VALUES {', '.join(rows)} AS v(x, v, t)")


# Numbers in float columns


def test_integers_that_are_no_floats_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """In every engine, and from every kind of facts that have an integer type."""
    program = tidelog.parse(FLOATS)
    frame = numbers(spark, "BIGINT", "9007199254740992", "9007199254740993")
    table = frame.toArrow()
    pq.write_table(table, tmp_path / "a.parquet")
    ways: list[Any] = [table, table.to_pandas(), table.to_pylist(), str(tmp_path / "a.parquet")]
    for facts in [frame, *ways]:
        with pytest.raises(DataError, match=NO_FLOAT):
            query(spark, program, "O", {"a": facts}).collect()
    for facts in ways:
        with pytest.raises(DataError, match=NO_FLOAT):
            program.query("O", {"a": facts})
    unsigned = pa.table({"x": ["a"], "v": pa.array([2**64 - 1], pa.uint64()), "t": [1]})
    with pytest.raises(DataError, match=f"`{2**64 - 1}` is not float"):
        program.query("O", {"a": unsigned})


@pytest.mark.parametrize("value", [2**53, 2**60, -(2**63), -(2**53), 0])
def test_integers_that_are_floats_are_taken(spark: SparkSession, value: int) -> None:
    frame = numbers(spark, "BIGINT", str(value))
    program = tidelog.parse(FLOATS)
    assert query(spark, program, "O", {"a": frame}).collect() == [("x0", float(value), 1)]
    assert program.query("O", {"a": frame.toArrow()}).to_pylist()[0]["v"] == value


def test_a_column_that_no_rule_reads_may_hold_any_integer(spark: SparkSession) -> None:
    program = tidelog.parse("input a(x: text, v: float) @ t. O(X) @ T :- a(X, _) @ T.")
    frame = numbers(spark, "BIGINT", "9007199254740993")
    assert query(spark, program, "O", {"a": frame}).collect() == [("x0", 1)]
    assert program.query("O", {"a": frame.toArrow()}).num_rows == 1


def test_in_a_stream_such_integers_are_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    frame = numbers(spark, "BIGINT", "9007199254740993", "1")
    frame.write.parquet(str(tmp_path / "in"))
    rows = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "in"))
    for inputs in ({"a": rows}, {"a": str(tmp_path / "in")}):
        checkpoint = tmp_path / f"c{isinstance(inputs['a'], str)}"
        program = tidelog.parse(FLOATS)
        running = stream(spark, program, inputs=inputs, checkpoint=checkpoint, trigger=NOW)
        assert running.close().totals["dead"] == 1
        (letter,) = (p for p in (checkpoint / "dead_letters").rglob("part*"))
        assert NO_FLOAT in letter.read_text()


def test_decimals_of_15_digits_stay_apart(
    spark: SparkSession, recwarn: pytest.WarningsRecorder
) -> None:
    """As many as a float holds: equality and order are those of Spark."""
    one = numbers(spark, "DECIMAL(15,2)", "9999999999999.98", "9999999999999.99", "0.10", "-0.01")
    two = one.withColumnRenamed("x", "y")
    program = tidelog.parse(
        "input a(x: text, v: float) @ t. input b(y: text, v: float) @ t."
        " E(X, Y) @ T :- a(X, V) @ T, b(Y, V) @ T."
        " L(X, Y) @ T :- a(X, V) @ T, b(Y, W) @ T, V < W."
    )
    for name, test in (("E", "a.v = b.v"), ("L", "a.v < b.v")):
        one.createOrReplaceTempView("da")
        two.createOrReplaceTempView("db")
        expected = spark.sql(f"SELECT a.x, b.y, a.t FROM da a JOIN db b ON {test}")
        found = query(spark, program, name, {"a": one, "b": two})
        assert sorted(found.collect()) == sorted(expected.collect())
    assert not [w for w in recwarn if issubclass(w.category, TidelogWarning)]


def test_decimals_of_more_digits_are_warned_of(spark: SparkSession, tmp_path: Path) -> None:
    """Once for each column, in both engines and in streams; the float is the nearest one."""
    texts = ("0.100000000000000001", "0.100000000000000002", "90071992547409.930000000000000001")
    frame = numbers(spark, "DECIMAL(38,18)", *texts)
    said = (
        r"column `v` of a is decimal\(38,18\), and the rules need float: numbers with more than 15"
    )
    program = tidelog.parse(FLOATS)
    frame.coalesce(1).write.parquet(str(tmp_path / "a"))
    expected = sorted((f"x{i}", float(Decimal(text)), 1) for i, text in enumerate(texts))
    for facts in (frame, frame.toArrow(), str(tmp_path / "a")):
        with pytest.warns(TidelogWarning, match=said) as there:
            answers = query(spark, program, "O", {"a": facts})
        assert len([w for w in there if "decimal" in str(w.message)]) == 1
        assert sorted(map(tuple, answers.collect())) == expected
    for facts in (frame.toArrow(), str(tmp_path / "a")):
        with pytest.warns(TidelogWarning, match=said) as there:
            rows = program.query("O", {"a": facts}).to_pylist()
        assert len([w for w in there if "decimal" in str(w.message)]) == 1
        assert sorted(tuple(row.values()) for row in rows) == expected
    arriving = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "a"))
    with pytest.warns(TidelogWarning, match=said):
        stream(spark, program, inputs={"a": arriving}, trigger=NOW).close()


# Texts


@pytest.mark.parametrize("collation", ["UTF8_LCASE", "UNICODE", "UNICODE_CI", "UTF8_BINARY_RTRIM"])
def test_other_collations_are_refused(spark: SparkSession, collation: str) -> None:
    """Declared or not, with a time or without; cast as the message says, Spark agrees."""
    frame = spark.sql(
        f"SELECT x COLLATE {collation} x, t"
        " FROM VALUES ('Abc', 1L), ('abc', 2L), ('abc', 3L) AS v(x, t)"
    )
    said = rf"column `\w+` is string collate {collation}.*`collate\(\.\., 'UTF8_BINARY'\)`"
    for rules in (WORDS, "O(X) @ T :- a(X) @ T-1, a(X) @ T."):
        with pytest.raises(DataError, match=said):
            query(spark, tidelog.parse(rules), "O", {"a": frame})
    with pytest.raises(DataError, match=said):
        stream(spark, tidelog.parse(WORDS), inputs={"a": _streamed(spark, frame)}, trigger=NOW)
    rigid = "input k(x: text). input b(y: text) @ t. O(X) @ T :- b(X) @ T, k(X)."
    inputs = {"k": frame.select("x"), "b": [("abc", 1)]}
    with pytest.raises(DataError, match=said):
        query(spark, tidelog.parse(rigid), "O", inputs)
    cast = frame.selectExpr("collate(x, 'UTF8_BINARY') x", "t")
    assert query(spark, tidelog.parse(WORDS), "O", {"a": cast}).collect() == [("abc", 3)]


def _streamed(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """A streaming DataFrame with the columns of a finite one, and no rows that count."""
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    texts = [f"CAST('a' AS {f.dataType.simpleString()}) {f.name}" for f in frame.schema.fields[:-1]]
    return ticks.selectExpr(*texts, "value t")


def test_texts_of_a_fixed_or_bounded_length(spark: SparkSession) -> None:
    """They are what Spark shows: a CHAR has its blanks."""
    spark.sql("CREATE OR REPLACE TEMP VIEW lengths AS SELECT 1")
    spark.sql("DROP TABLE IF EXISTS lengths_of_texts")
    try:
        spark.sql("CREATE TABLE lengths_of_texts(x CHAR(5), y VARCHAR(5), t BIGINT) USING parquet")
        spark.sql("INSERT INTO lengths_of_texts VALUES ('ab', 'ab', 1), ('abcde', 'ab ', 1)")
        program = tidelog.parse("input a(x: text, y: text) @ t. O(X, Y) @ T :- a(X, Y) @ T.")
        for frame in (spark.table("lengths_of_texts"), spark.table("lengths_of_texts").cache()):
            expected = sorted(map(tuple, frame.collect()))
            assert expected[0] == ("ab   ", "ab", 1)
            assert (
                sorted(map(tuple, query(spark, program, "O", {"a": frame}).collect())) == expected
            )
    finally:
        spark.catalog.clearCache()
        spark.sql("DROP TABLE IF EXISTS lengths_of_texts")


def test_texts_that_are_not_utf8(spark: SparkSession, tmp_path: Path) -> None:
    """A query names the column, a stream puts the row aside and goes on."""
    frame = spark.sql("SELECT CAST(if(t = 2, X'ff41', X'4142') AS STRING) x, t FROM range(4) v(t)")
    program = tidelog.parse(WORDS)
    with pytest.raises(DataError) as error:
        query(spark, program, "O", {"a": frame})
    assert str(error.value) == "input `a`: column `x`: the text is not UTF-8"
    frame.coalesce(1).write.parquet(str(tmp_path / "in"))
    arriving = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "in"))
    running = stream(spark, program, inputs={"a": arriving}, checkpoint=tmp_path / "c", trigger=NOW)
    assert running.close().totals["dead"] == 1
    assert running.answers["O"].to_pylist() == [{"x": "AB", "time": 1}]
    (letter,) = (tmp_path / "c/dead_letters").rglob("part*")
    assert json.loads(letter.read_text())["row"] == {"x": "\ufffdA", "t": 2}


# What facts may be


def test_facts_in_memory_and_tables_by_name(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tidelog.spark.query` takes what `program.query` takes, and tables and views by name."""
    program = tidelog.parse(
        "input a(x: text) @ t. input near(x: text, y: text)."
        " O(Y) @ T :- a(X) @ T-1, a(X) @ T, near(X, Y)."
    )
    rows = [("p", 1), ("p", 2), ("q", 2)]
    frame = spark.createDataFrame(rows, "x STRING, t BIGINT")
    near = spark.createDataFrame([("p", "n"), ("q", "m")], "x STRING, y STRING")
    near.createOrReplaceTempView("near_view")
    frame.createOrReplaceTempView("facts_view")
    frame.createOrReplaceGlobalTempView("facts_global")
    spark.sql("DROP TABLE IF EXISTS facts_table")
    frame.write.saveAsTable("facts_table")
    pandas = pd.DataFrame(rows, columns=["x", "t"])
    try:
        names = ["facts_view", "global_temp.facts_global", "facts_table", "default.`facts_table`"]
        names.append("spark_catalog.default.facts_table")
        ways = [*names, pandas, pa.Table.from_pandas(pandas), rows, frame.pandas_api()]
        for facts, known in zip(ways, cycle(["near_view", near, near.toArrow()]), strict=False):
            found = query(spark, program, "O", {"a": facts, "near": known})
            assert found.collect() == [("n", 2)]
        monkeypatch.chdir(tmp_path)
        (tmp_path / "facts_view").mkdir()
        with pytest.raises(DataError, match="`facts_view` is a table of the session, and a file"):
            query(spark, program, "O", {"a": "facts_view", "near": near})
        with pytest.raises(DataError, match="no_such_table: no such file or folder"):
            query(spark, program, "O", {"a": "no_such_table", "near": near})
        with pytest.raises(DataError, match=r"no_such\.table: no such file or folder"):
            query(spark, program, "O", {"a": "no_such.table", "near": near})
    finally:
        spark.sql("DROP TABLE IF EXISTS facts_table")


# Spark Connect


class Remote:
    """A session of Spark Connect, by the module of its class."""

    readStream = None


def test_spark_connect_is_refused_in_a_sentence(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Remote, "__module__", "pyspark.sql.connect.session")
    program, remote = tidelog.parse(WORDS), Remote()
    said = "Spark Connect is not supported: tidelog works in the process of Spark's driver; use a"
    connect: Any = remote
    with pytest.raises(DataError, match=said):
        query(connect, program, "O", {})
    with pytest.raises(DataError, match=said):
        stream(connect, program, inputs={})
    with pytest.raises(DataError, match=said):
        query(spark, program, "O", {"a": remote})
    with pytest.raises(DataError, match=said):
        stream(spark, program, inputs={"a": connect})
    with pytest.raises(DataError, match=said):
        session("sc://localhost")
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: remote)
    with pytest.raises(DataError, match=said):
        program.query("O", {"a": []}, engine="spark")
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    with pytest.raises(DataError, match=said):
        session()
