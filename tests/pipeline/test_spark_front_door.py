"""On Spark as in process: nothing is silently empty or wrong, and rows are kept as they came."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from pyspark.sql import SparkSession

import tidelog
from tidelog.errors import DataError, Refused, TidelogWarning
from tidelog.spark import query, stream

pytestmark = pytest.mark.xdist_group("spark")

NOW = {"availableNow": True}
RULES = """input metrics(host: text, cpu: float, note: text) @ time.
Hot(H) @ T :- metrics(H, C, _) @ T, C > 90.
"""
HEADER = "host,cpu,note,time\n"


def run(spark: SparkSession, facts: Any, rules: str = RULES, **options: Any) -> Any:
    running = stream(spark, tidelog.parse(rules), inputs=facts, trigger=NOW, **options)
    running.awaitTermination()
    running.close()
    return running


def letters(checkpoint: Path) -> list[dict[str, Any]]:
    paths = sorted(checkpoint.glob("dead_letters/batch=*/*.json"))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


@pytest.mark.parametrize("little", [-1, pytest.param(1_000_000, marks=pytest.mark.deep)])
def test_dead_letters_keep_rows_as_they_came(
    little: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts that could not be read, timestamps and not ticks, from every format and place."""
    monkeypatch.setattr("tidelog.pipeline.sites.LITTLE", little)
    folder = tmp_path / "facts" / "metrics"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text(
        HEADER + "a,95,,2024-05-01T00:00:10Z\nb,hot,x,2024-05-01T00:01:17Z\nc,95,x,noon\nd\n"
    )
    row = {"host": "e", "cpu": None, "note": "x", "time": "2024-05-01T00:01:17Z"}
    (folder / "b.jsonl").write_text(f"{json.dumps(row)}\n{{oops\n")
    checkpoint = tmp_path / "c"
    program = tidelog.parse(RULES)
    words: dict[str, Any] = {"checkpoint": checkpoint, "tick": "1m", "sink": f"csv:{tmp_path}/o"}
    words |= {"inputs": tmp_path / "facts", "trigger": NOW}
    first = stream(spark, program, **words)
    first.awaitTermination()
    first.stop()
    by_reason = {letter["reason"].split(":")[-1].strip(): letter for letter in letters(checkpoint)}
    assert len(by_reason) == 5
    hot = by_reason["`hot` is not float"]
    wanted = {"host": "b", "cpu": "hot", "note": "x", "time": "2024-05-01T00:01:17Z"}
    assert hot["row"] == wanted
    assert hot["file"].endswith("/metrics/a.csv")
    assert by_reason["`noon` is not a timestamp"]["row"]["time"] == "noon"
    assert by_reason["no value in column `cpu`"]["row"] == row
    assert {letter["text"] for letter in by_reason.values()} == {None, "d", "{oops"}
    # The second batch is late: it keeps its own timestamps, and so does Parquet.
    (folder / "late.csv").write_text(HEADER + "z,95,,2024-05-01T00:09:00Z\n")
    second = stream(spark, program, **words)
    second.awaitTermination()
    second.stop()
    (folder / "later.csv").write_text(HEADER + "f,95,,2024-05-01T00:01:17Z\n")
    table = {
        "host": ["g"],
        "cpu": [95.0],
        "note": [None],
        "time": pa.array([1714521677000000], pa.timestamp("us", tz="UTC")),
    }
    types = pa.schema({"host": pa.string(), "cpu": pa.float64(), "note": pa.string()})
    types = types.append(pa.field("time", pa.timestamp("us", tz="UTC")))
    pq.write_table(pa.table(table, schema=types), folder / "later.parquet")
    third = stream(spark, program, **words)
    third.awaitTermination()
    third.close()
    late = [x for x in letters(checkpoint) if x["reason"].startswith("late: ")]
    times = [x["row"]["time"].replace(".000000", "") for x in late]
    assert times == ["2024-05-01T00:01:17Z"] * 2, late
    assert "everything up to 2024-05-01T00:08:00Z had arrived" in late[0]["reason"]


def test_forgotten_tick_fails_and_may_be_mended(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text(HEADER + "a,95,x,2024-05-01T00:00:10Z\n" * 3)
    with pytest.raises(DataError, match="input `metrics`: none of its 3 rows can be used") as error:
        run(spark, tmp_path / "metrics.csv", checkpoint=tmp_path / "c")
    assert "looks like a timestamp: add --tick 1m" in str(error.value)
    assert '"time": "2024-05-01T00:00:10Z"' in str(error.value)
    # Nothing was committed, so that the same checkpoint will do.
    mended = run(spark, tmp_path / "metrics.csv", checkpoint=tmp_path / "c", tick="1m")
    assert mended.answers["Hot"].num_rows == 1
    with pytest.raises(Refused, match='tick is "2m" and was "1m"'):
        run(spark, tmp_path / "metrics.csv", checkpoint=tmp_path / "c", tick="2m")


def test_a_continuous_stream_fails_at_once_and_goes_on_later(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Useless from the first row: somebody's mistake. Useless later: a warning and dead letters."""
    folder = tmp_path / "facts" / "metrics"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text(HEADER + "a,95,x,2024-05-01T00:00:10Z\n" * 3)
    words: dict[str, Any] = {"inputs": tmp_path / "facts", "checkpoint": tmp_path / "c"}
    words["trigger"] = {"processingTime": "100 milliseconds"}
    program = tidelog.parse(RULES)
    failing = stream(spark, program, **words)
    with pytest.raises(DataError, match="input `metrics`: none of its 3 rows can be used") as error:
        failing.awaitTermination()
    assert "looks like a timestamp: add --tick 1m" in str(error.value)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        running = stream(spark, program, tick="1m", **words)
        running.query.processAllAvailable()
        for name, row in (("b", "noon"), ("c", "one"), ("d", "2024-05-01T00:02:00Z"), ("e", "two")):
            (folder / f"{name}.csv").write_text(HEADER + f"{name},95,x,{row}\n")
            running.query.processAllAvailable()
        running.close()
    said = [str(w.message) for w in told if w.category is TidelogWarning]
    assert [text.split(";")[0] for text in said] == [
        "input `metrics`: 1 row could not be used",
        "input `metrics`: 2 more rows could not be used, 3 by now",
    ]
    assert said[0].endswith(f"; all are in {tmp_path}/c/dead_letters")
    assert "`noon` is not a timestamp" in said[0]
    assert sorted(running.answers["Hot"].column("h").to_pylist()) == ["a", "d"]
    assert [x["row"]["time"] for x in letters(tmp_path / "c")] == ["noon", "one", "two"]


def test_changed_rules_are_both_shown(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text(HEADER + "a,95,x,0\n")
    run(spark, tmp_path / "metrics.csv", checkpoint=tmp_path / "c")
    with pytest.raises(Refused) as error:
        run(spark, tmp_path, RULES.replace("90", "80"), checkpoint=tmp_path / "c")
    assert "there was Hot(H) @ T :- metrics(H, C, _) @ T, C > 90.0., and now there is" in str(
        error.value
    ).replace("C > 90.,", "C > 90.0.,")


def test_rows_left_out_are_counted_once(spark: SparkSession, tmp_path: Path) -> None:
    """Parts of a file that statistics know lie between parts that have to be looked at."""
    rows = [("a", None if t in (0, 5) else "high", t) for t in range(6)]
    table = pa.table(dict(zip(("x", "level", "time"), zip(*rows, strict=True), strict=True)))
    pq.write_table(table, tmp_path / "E.parquet", row_group_size=2)
    program = tidelog.parse("input E(x: text, level: text) @ time. P(X) @ T :- E(X, high) @ T.")
    said = "^2 rows of E left out: NULL or NaN in column `level`$"
    with pytest.warns(TidelogWarning, match=said):
        frame = query(spark, program, "P", tmp_path)
    assert sorted(row.time for row in frame.collect()) == [1, 2, 3, 4]
    with pytest.warns(TidelogWarning, match=said):
        query(
            spark,
            program,
            "P",
            {"E": spark.createDataFrame(rows, "x string, level string, time int")},
        )


def test_equal_rows_that_a_rule_counts(spark: SparkSession, tmp_path: Path) -> None:
    """Of Parquet whose statistics say everything, of CSV, and of a DataFrame about how many."""
    program = tidelog.parse(
        "input E(x: text, c: int) @ time.\n"
        "Busy(X, N) @ T :- E(X, _) @ T, N = count(E(X, _) @ [T-4, T])."
    )
    table = pa.table({"x": ["a"] * 10, "c": [1] * 8 + [2, 3], "time": [0] * 5 + [1] * 5})
    pq.write_table(table, tmp_path / "E.parquet")
    csv.write_csv(table, tmp_path / "E.csv")
    for file in ("E.parquet", "E.csv"):
        with pytest.warns(TidelogWarning, match="^8 of 10 rows of `E` are equal to another in all"):
            query(spark, program, "Busy", tmp_path / file)
    with pytest.warns(TidelogWarning, match="^about 60% of 10 rows of `E` repeat another in all"):
        query(spark, program, "Busy", {"E": spark.createDataFrame(table)})


def test_several_places_and_what_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text(HEADER + "a,95,,0\n")
    with gzip.open(tmp_path / "day-1.csv.gz", "wt") as packed:
        packed.write(HEADER + "b,95,,1\n")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "metrics.ndjson").write_text(
        '{"host": "c", "cpu": 95, "note": null, "time": 2}\n'
    )
    (tmp_path / "in" / "metrisc.csv").write_text("x\n1\n")
    places = [f"metrics={tmp_path}/one.csv", f"metrics={tmp_path}/day-*.csv.gz", tmp_path / "in"]
    with pytest.warns(TidelogWarning, match="`metrisc`; did you mean `metrics`"):
        running = run(spark, places)
    assert sorted(running.answers["Hot"].column("h").to_pylist()) == ["a", "b", "c"]
    program = tidelog.parse(RULES)
    with pytest.warns(TidelogWarning, match="left out"):
        frame = query(spark, program, "Hot", places)
    assert sorted(row.h for row in frame.collect()) == ["a", "b", "c"]
    by_input = query(spark, program, "Hot", {"metrics": tmp_path / "one.csv"})
    assert [row.h for row in by_input.collect()] == ["a"]
    (tmp_path / "empty").mkdir()
    said = "no facts for input `{}`, which P needs"
    rules = "input Near(x: text). P(X) @ T :- E(X) @ T, Near(X)."
    with pytest.warns(TidelogWarning) as told:
        run(spark, tmp_path / "empty", rules)
    assert {str(w.message) for w in told} >= {said.format("E"), said.format("Near")}
    with pytest.warns(TidelogWarning) as told:
        query(spark, tidelog.parse(rules), "P", tmp_path / "empty").collect()
    assert {str(w.message) for w in told} >= {said.format("E"), said.format("Near")}


@pytest.mark.parametrize(
    "ending", ["csv", pytest.param("jsonl", marks=pytest.mark.deep), "parquet"]
)
def test_a_file_without_rows_is_named(ending: str, spark: SparkSession, tmp_path: Path) -> None:
    rules = (
        "input E(x: text) @ t. input F(x: text) @ t. P(X) @ T :- E(X) @ T. P(X) @ T :- F(X) @ T."
    )
    header = {"csv": "x,t\n"}.get(ending, "")
    (tmp_path / "F.csv").write_text("x,t\na,0\n")
    empty = tmp_path / f"E.{ending}"
    if ending == "parquet":
        pq.write_table(pa.schema({"x": pa.string(), "t": pa.int64()}).empty_table(), empty)
    else:
        empty.write_text(header)
    said = f"no facts for input `E`, which P needs: {empty} has no rows"
    with pytest.warns(TidelogWarning) as told:
        running = run(spark, tmp_path, rules)
    assert [str(w.message) for w in told] == [said]
    assert running.answers["P"].num_rows == 1
    with pytest.warns(TidelogWarning) as told:
        assert query(spark, tidelog.parse(rules), "P", tmp_path).count() == 1
    assert [str(w.message) for w in told] == [said]


def test_a_data_frame_without_rows_is_named(spark: SparkSession) -> None:
    rules = "input E(x: text) @ t. input Near(x: text). P(X) @ T :- E(X) @ T, Near(X)."
    empty = spark.createDataFrame([], "x STRING, t BIGINT")
    rigid = spark.createDataFrame([], "x STRING")
    with pytest.warns(TidelogWarning) as told:
        query(spark, tidelog.parse(rules), "P", {"E": empty, "Near": rigid}).collect()
    said = "no facts for input `{}`, which P needs"
    assert {str(w.message) for w in told} == {said.format("E"), said.format("Near")}


def test_a_running_stream_says_where_it_stands(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text(HEADER + "a,95,x,2024-05-01T00:00:10Z\n")
    program = tidelog.parse(RULES)
    facts = tmp_path / "metrics.csv"
    running = stream(spark, program, "Hot", inputs=facts, tick="1m", trigger=NOW, lateness="5m")
    running.awaitTermination()
    running.close()
    assert "answered up to 2024-05-01T00:00:00Z" in repr(running)
    assert running._repr_html_().startswith("<table>")
    for ask, said in (
        (lambda: stream(spark, program, "Hto", inputs=facts), "did you mean Hot?"),
        (lambda: stream(spark, program, inputs={"metric": facts}), "did you mean `metrics`?"),
        (lambda: stream(spark, program, inputs={"metrics": 7}), "a path is expected"),
        (lambda: stream(program, program, inputs=facts), "a Spark session is first"),
        (lambda: stream(spark, RULES, inputs=facts), "a program is expected, not text"),
    ):
        with pytest.raises((ValueError, DataError)) as error:
            ask()
        assert said in str(error.value)


def test_an_error_of_a_users_function_is_theirs(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text(HEADER + "a,95,x,0\na,95,x,1\n")

    def sink(batch: int, answers: Any) -> None:
        raise KeyError("pager")

    with pytest.raises(KeyError, match="pager") as error:
        run(spark, tmp_path / "metrics.csv", sink=sink)
    assert len(str(error.value)) < 20
    assert error.value.__cause__ is None
    # Where it was raised, and where it was waited for: nothing of ours or Spark's between.
    names = [frame.name for frame in traceback.extract_tb(error.value.__traceback__)]
    assert names[-2:] == ["awaitTermination", "sink"]


@pytest.mark.deep  # `test_spark_mistakes.py` compares all that such a process prints
def test_a_session_is_quiet() -> None:
    """In a process of its own: nothing of Spark's own on either stream."""
    code = (
        "from tidelog.spark import session; spark = session('local[1]');"
        " print(spark.range(3).count()); spark.stop()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_a_stream_of_rows_that_are_of_no_input_does_not_begin(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "all.jsonl").write_text('{"predicate": "nobody", "time": 0}\n{}\n')
    running = stream(spark, tidelog.parse(RULES), inputs=tmp_path / "all.jsonl", trigger=NOW)
    with pytest.raises(DataError, match=r"^no row can be used\n.*no input is called `nobody`"):
        running.awaitTermination()
