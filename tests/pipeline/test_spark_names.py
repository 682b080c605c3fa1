"""Files and folders may have any name that the file system takes, in every engine."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.deep import DEEP
from support.names import NAMES

import tidelog
from tidelog.errors import DataError
from tidelog.evaluation.engine import evaluate
from tidelog.evaluation.spark.sources import NO_PATTERNS, each_once
from tidelog.pipeline import loop, sites
from tidelog.spark import stream

pytestmark = pytest.mark.xdist_group("spark")

RULES = tidelog.parse("input E(x: text) @ time.\nP(X) @ T :- E(X) @ T.")
FOLDERS = (
    "a b",
    "c:d",
    "ü%20",
    "*?[x]{y}:z",
    "back\\slash",
    "two\nlines",
    'it\'s "so"',
    "a+b#&;=1",
)


def facts(folder: Path) -> list[tuple[str, int]]:
    """Files under every name, each with a fact of its own and a bad row.

    Formats take turns; `make test-deep` has all of them under every name.
    """
    (folder / "E").mkdir(parents=True)
    rows = []
    formats = ("csv", "jsonl", "parquet")
    for i, name in enumerate(NAMES):
        for j, ending in enumerate(formats if DEEP > 1 else formats[i % 3 :][:1]):
            path, fact = folder / "E" / f"{name}.{ending}", (f"{i}{ending}", 3 * i + j)
            rows.append(fact)
            if ending == "csv":
                path.write_text(f"x,time\n{fact[0]},{fact[1]}\nbad,soon\n")
            elif ending == "jsonl":
                path.write_text(json.dumps({"x": fact[0], "time": fact[1]}) + "\nnot JSON\n")
            else:
                pq.write_table(pa.table({"x": [fact[0], None], "time": [fact[1], 1]}), path)
    return rows


def good(folder: Path) -> list[tuple[str, int]]:
    """The same without what cannot be read, which a query refuses."""
    rows = facts(folder)
    for path in (folder / "E").glob("*.csv"):
        path.write_text(path.read_text().replace("bad,soon\n", ""))
    for path in (folder / "E").glob("*.jsonl"):
        path.write_text(path.read_text().replace("not JSON\n", ""))
    return rows


def tuples(table: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.grows
@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_files_of_any_name(spark: SparkSession, tmp_path: Path, engine: str) -> None:
    rows = good(tmp_path / "facts")
    answers = evaluate(RULES, ["P"], str(tmp_path / "facts"), engine=engine).answers["P"]
    assert sorted(tuples(answers)) == sorted(rows)


@pytest.mark.parametrize(
    "name", ["/".join(FOLDERS), *(pytest.param(n, marks=pytest.mark.deep) for n in FOLDERS)]
)
@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_a_folder_of_any_name(spark: SparkSession, tmp_path: Path, name: str, engine: str) -> None:
    folder = tmp_path / name / "E"
    folder.mkdir(parents=True)
    (folder / "1.csv").write_text("x,time\na,0\n")
    (folder / "2.jsonl").write_text('{"x": "b", "time": 1}\n')
    pq.write_table(pa.table({"x": ["c"], "time": [2]}), folder / "3.parquet")
    answers = evaluate(RULES, ["P"], str(tmp_path / name), engine=engine).answers["P"]
    assert tuples(answers) == [("a", 0), ("b", 1), ("c", 2)]


@pytest.mark.grows
@pytest.mark.parametrize("there", [pytest.param(False, marks=pytest.mark.deep), True])
def test_a_stream_over_files_of_any_name(spark: SparkSession, tmp_path: Path, there: bool) -> None:
    """In the driver and in the partitions; dead letters name the file as it is called."""
    rows = facts(tmp_path / "facts")
    with patch.object(sites, "LITTLE", -1 if there else sites.LITTLE):
        running = stream(
            spark,
            RULES,
            inputs=tmp_path / "facts",
            checkpoint=tmp_path / "checkpoint",
            trigger={"availableNow": True},
            partitions=2,
        )
        running.awaitTermination()
        running.close()
    assert sorted(tuples(running.answers["P"])) == sorted(rows)
    named = {
        json.loads(line)["file"]
        for path in (tmp_path / "checkpoint" / "dead_letters").glob("batch=*/*.json")
        for line in path.read_text().splitlines()
    }
    assert named == {f"file://{path}" for path in (tmp_path / "facts" / "E").iterdir()}


# Those that a stream treats in a way of their own; the others are more of the same.
OWN = "two\nlines/*?[x]{y}:z"


@pytest.mark.parametrize("name", [OWN, *(pytest.param(n, marks=pytest.mark.deep) for n in FOLDERS)])
def test_a_stream_between_folders_of_any_name(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """Facts, checkpoint and answers; it goes on with what it has written, and merges state."""
    plain = name.replace(":z", "")  # which a streaming source of Spark cannot have beside a *
    folder = tmp_path / plain / "facts" / "E"
    folder.mkdir(parents=True)
    rules = tidelog.parse(
        "input E(x: text) @ time. input N(x: text).\n"
        "P(X) @ T :- E(X) @ T, N(X). P(X) @ T+1 :- P(X) @ T, N(X)."
    )
    (tmp_path / plain / "facts" / "N.csv").write_text("x\na\n")
    with patch.object(sites, "LITTLE", -1), patch.object(loop, "MOST_PARTS", 1):
        for number in range(3):
            (folder / f"{number}.csv").write_text(f"x,time\na,{number}\nb,{number}\n")
            running = stream(
                spark,
                rules,
                inputs=tmp_path / plain / "facts",
                checkpoint=tmp_path / name / "checkpoint",
                sink=f"csv:{tmp_path / name / 'answers'}",
                trigger={"availableNow": True},
                partitions=2,
            )
            running.awaitTermination()
            running.close() if number == 2 else running.stop()
    told = []
    for path in (tmp_path / name / "answers" / "P").glob("batch=*/*.csv"):
        with path.open(newline="") as file:
            told += [tuple(row) for row in csv.reader(file)][1:]
    assert sorted(told) == [("a", str(t)) for t in range(3)]


def test_a_backslash_below_a_wildcard(spark: SparkSession, tmp_path: Path) -> None:
    """DuckDB takes it for a slash in a pattern; where that is something else, it is refused."""
    folder = tmp_path / "[x]*" / "E"
    folder.mkdir(parents=True)
    (folder / "back\\slash?.csv").write_text("x,time\na,0\n")
    for engine in ("duckdb", "spark"):
        answers = evaluate(RULES, ["P"], str(tmp_path / "[x]*"), engine=engine).answers["P"]
        assert tuples(answers) == [("a", 0)]
    other = tmp_path / "x" / "E" / "back"
    other.mkdir(parents=True)
    (other / "slash1.csv").write_text("x,time\nb,0\n")
    for engine in ("duckdb", "spark"):
        with pytest.raises(DataError, match="cannot be read where other files match"):
            evaluate(RULES, ["P"], str(tmp_path / "[x]*"), engine=engine)


def test_files_below_a_wildcard_are_read_once(spark: SparkSession, tmp_path: Path) -> None:
    """Of several paths, each of which looks like a pattern, Spark's readers read all for each."""
    folder = tmp_path / "[x]" / "E"
    folder.mkdir(parents=True)
    for i in range(2):
        (folder / f"{i}.jsonl").write_text(json.dumps({"x": "a", "time": i}) + "\nnot JSON\n")
        pq.write_table(pa.table({"x": ["b", None], "time": [i, 1]}), folder / f"{i}.parquet")
    running = stream(spark, RULES, inputs=tmp_path / "[x]", trigger={"availableNow": True})
    running.awaitTermination()
    commit = running.close()
    assert commit is not None
    ledger = {"rows": 8, "facts": 4, "late": 0, "dead": 4, "skipped": 0, "heartbeats": 0}
    assert commit.totals == {**ledger, "answers": 4}


def test_state_below_a_wildcard_is_read_once(spark: SparkSession, tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}?.txt").write_text("one\ntwo\n")
    places = [f"file://{path}" for path in tmp_path.iterdir()]
    reader = spark.read.options(**NO_PATTERNS)
    assert reader.text(places).count() == 18  # which is why
    assert each_once(reader.text, places).count() == 6


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_a_name_that_is_no_text_is_refused(
    spark: SparkSession, tmp_path: Path, engine: str
) -> None:
    (tmp_path / "E").mkdir()
    (tmp_path / "E" / "1.csv").write_text("x,time\na,0\n")
    with open(os.fsencode(tmp_path) + b"/E/\xff.csv", "wb") as file:
        file.write(b"x,time\na,0\n")
    with pytest.raises(DataError, match=r"/E/\\xff\.csv: its name is not UTF-8: rename it"):
        evaluate(RULES, ["P"], str(tmp_path), engine=engine)


def test_a_folder_that_spark_cannot_follow_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "[a]:b" / "E").mkdir(parents=True)
    with pytest.raises(DataError, match="cannot follow a folder with a colon and one of"):
        stream(spark, RULES, inputs=tmp_path / "[a]:b", checkpoint=tmp_path / "checkpoint")


def test_a_stream_refuses_a_name_that_is_no_text(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "facts" / "E").mkdir(parents=True)
    with open(os.fsencode(tmp_path) + b"/facts/E/\xff.csv", "wb") as file:
        file.write(b"x,time\na,0\n")
    with pytest.raises(DataError, match="its name is not UTF-8: rename it"):
        stream(spark, RULES, inputs=tmp_path / "facts", checkpoint=tmp_path / "checkpoint")
