"""One value, one text: the same from every engine, and wherever a batch is done."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import tidelog
from tidelog.cli import cli
from tidelog.data.ticks import Ticks
from tidelog.errors import DataError
from tidelog.evaluation.engine import evaluate
from tidelog.pipeline import sites
from tidelog.spark import Commit, Running, query, stream

pytestmark = pytest.mark.xdist_group("spark")

RULES = "input E(x: text, v: float, b: bool) @ time.\nP(X, V, B) @ T :- E(X, V, B) @ T.\n"
FLOATS = (
    1e300,
    -1e300,
    -0.0,
    0.1,
    1.0,
    5e-324,
    1e16,
    1e15,
    1e-5,
    0.0001,
    123456789.125,
    1 / 3,
    math.inf,
    -math.inf,
)
TEXTS = (" a ", "", '"', "a,b", "two\nlines", "\\", "\t", "ü", "it's", "null", "-0.0", "Infinity")


def rows() -> list[tuple[str, float, bool, int]]:
    wide = max(len(FLOATS), len(TEXTS))
    return [(TEXTS[i % len(TEXTS)], FLOATS[i % len(FLOATS)], bool(i % 2), i) for i in range(wide)]


def facts(folder: Path, ending: str) -> Path:
    (folder / "facts").mkdir()
    path = folder / "facts" / f"E.{ending}"
    if ending == "csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([("x", "v", "b", "time"), *rows()])
    elif ending == "jsonl":
        texts = {math.inf: "Infinity", -math.inf: "-Infinity"}
        lines = [
            json.dumps({"x": x, "v": texts.get(v, v), "b": b, "time": t}) for x, v, b, t in rows()
        ]
        path.write_text("\n".join(lines))
    else:
        pq.write_table(
            pa.table(list(zip(*rows(), strict=True)), names=["x", "v", "b", "time"]), path
        )
    return folder / "facts"


def asked(folder: Path, facts: Path, *more: str) -> list[str]:
    """What `tidelog query` writes."""
    (folder / "rules.tdl").write_text(RULES)
    words = ["query", str(folder / "rules.tdl"), "--facts", str(facts), *more]
    result = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout.split("\n")[:-1]


def streamed(spark: SparkSession, folder: Path, facts: Path, sink: str, there: bool) -> list[str]:
    """The lines of all files that a stream writes, the header of CSV once."""
    with patch.object(sites, "LITTLE", -1 if there else sites.LITTLE):
        running = stream(
            spark,
            tidelog.parse(RULES),
            inputs=facts,
            sink=f"{sink}:{folder / f'{sink} {there}'}",
            trigger={"availableNow": True},
            partitions=2,
        )
        end(running)
    parts = [path.read_text() for path in (folder / f"{sink} {there}" / "P").glob(f"*/*.{sink}")]
    assert parts
    assert all(parts), "no empty file is left"
    if sink == "csv":
        assert len({part.split("\n", 1)[0] for part in parts}) == 1
        parts = [parts[0].split("\n", 1)[0], *(part.split("\n", 1)[1] for part in parts)]
    return [line for part in parts for line in part.removesuffix("\n").split("\n")]


@pytest.mark.parametrize(
    ("ending", "sink"),
    [
        ("csv", "json"),
        *(
            pytest.param(ending, sink, marks=pytest.mark.deep)
            for ending, sink in (
                ("csv", "csv"),
                ("jsonl", "csv"),
                ("jsonl", "json"),
                ("parquet", "csv"),
                ("parquet", "json"),
            )
        ),
    ],
)
def test_every_place_writes_the_same_text(
    spark: SparkSession, tmp_path: Path, ending: str, sink: str
) -> None:
    there = facts(tmp_path, ending)
    want = asked(tmp_path, there, "--format", sink)
    if sink == "json":  # the folder says which predicate it is
        want = [line.replace('"predicate": "P", ', "") for line in want]
    assert sorted(streamed(spark, tmp_path, there, sink, False)) == sorted(want)
    assert sorted(streamed(spark, tmp_path, there, sink, True)) == sorted(want)


def strict(line: str) -> Any:
    def refused(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(line, parse_constant=refused)


def test_json_is_json_and_is_read_again(spark: SparkSession, tmp_path: Path) -> None:
    there = facts(tmp_path, "parquet")
    lines = asked(tmp_path, there, "--json")
    assert {strict(line)["v"] for line in lines} >= {"Infinity", "-Infinity", 1e300, 0.0}
    for engine in ("duckdb", "spark"):
        again = tmp_path / engine
        again.mkdir()
        text = "\n".join(line.replace('"P"', '"E"') for line in lines)
        (again / "E.jsonl").write_text(text)
        answers = evaluate(tidelog.parse(RULES), ["P"], str(again), engine=engine).answers["P"]
        assert [tuple(row.values()) for row in answers.to_pylist()] == rows()


def test_there_is_one_zero(spark: SparkSession) -> None:
    """A fact with -0.0 is the one with 0.0, in a join as well."""
    rules = tidelog.parse(
        "input E(v: float) @ time. input F(v: float) @ time.\nP(V) @ T :- E(V) @ T, F(V) @ T."
    )
    given = {"E": [(-0.0, 1), (0.0, 1)], "F": [(0.0, 1)]}
    tables = {
        name: pa.table({"v": [v for v, _ in some], "time": [t for _, t in some]})
        for name, some in given.items()
    }
    for facts_ in (given, tables):
        for engine in ("duckdb", "spark"):
            answers = evaluate(rules, ["P"], facts_, engine=engine).answers["P"]
            assert [str(row) for row in answers.to_pylist()] == ["{'v': 0.0, 'time': 1}"]
        pushed = tidelog.Stream(rules, ["P"]).push(1, facts_)
        assert [str(row) for row in pushed.answers["P"].to_pylist()] == ["{'v': 0.0, 'time': 1}"]


# Times at the edge

EDGE = "input E(x: text) @ time.\nP(X) @ T+1 :- E(X) @ T.\n"


@pytest.mark.parametrize(
    ("moment", "offset", "tick"),
    [
        pytest.param("9999-12-31T00:00:00Z", "+1", 2932897, marks=pytest.mark.deep),
        pytest.param("0001-01-01T00:00:00Z", "-1", -719163, marks=pytest.mark.deep),
        ("2000-01-01T00:00:00Z", "+1000000000000000", 1000000000010957),
    ],
)
def test_a_tick_that_is_no_timestamp(
    spark: SparkSession, tmp_path: Path, moment: str, offset: str, tick: int
) -> None:
    text = EDGE.replace("T+1", f"T{offset}")
    rules = tidelog.parse(text)
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "E.csv").write_text(f"x,time\na,{moment}\n")
    said = f"tick {tick} is no timestamp between the years 1 and 9999; ask for whole ticks"
    reach: dict[str, Any] = {"from_": tick, "to": tick, "ticks": Ticks.of("1d")}
    for engine in ("duckdb", "spark"):
        with pytest.raises(DataError, match=said):
            evaluate(rules, ["P"], str(tmp_path / "facts"), engine=engine, **reach)
        answers = evaluate(
            rules, ["P"], str(tmp_path / "facts"), engine=engine, timestamps=False, **reach
        ).answers["P"]
        assert answers.to_pylist() == [{"x": "a", "time": tick}]
    frame = query(spark, rules, "P", tmp_path / "facts", from_=tick, to=tick, tick="1d")
    with pytest.raises(Exception, match=said):
        frame.collect()


@pytest.mark.parametrize(
    ("there", "sink"),
    [
        (False, "memory"),
        (True, "csv"),
        pytest.param(False, "csv", marks=pytest.mark.deep),
        pytest.param(True, "memory", marks=pytest.mark.deep),
    ],
)
def test_a_stream_says_which_tick_is_no_timestamp(
    spark: SparkSession, tmp_path: Path, there: bool, sink: str
) -> None:
    rules = tidelog.parse(EDGE.replace("T+1", "T-1"))
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "E.csv").write_text("x,time\na,0001-01-01T00:00:00Z\na,0001-01-03\n")
    with patch.object(sites, "LITTLE", -1 if there else sites.LITTLE):
        running = stream(
            spark,
            rules,
            inputs=tmp_path / "facts",
            sink=f"csv:{tmp_path / 'answers'}" if sink == "csv" else sink,
            trigger={"availableNow": True},
            tick="1d",
            from_=-800000,
            partitions=2,
        )
        with pytest.raises(DataError, match="tick -719163 is no timestamp"):
            end(running)


def end(running: Running) -> Commit | None:
    running.awaitTermination()
    return running.close()


def test_timestamps_beyond_all_ticks_are_put_aside(spark: SparkSession, tmp_path: Path) -> None:
    """Parquet can hold moments that no tick of 62 bits starts at."""
    far = pa.array([2**63 - 1, -(2**63), 0], pa.int64()).cast(pa.timestamp("us"))
    (tmp_path / "E").mkdir()
    table = pa.table({"x": ["a", "b", "c"], "time": far.cast(pa.timestamp("us", tz="UTC"))})
    pq.write_table(table, tmp_path / "E" / "1.parquet")
    running = stream(
        spark,
        tidelog.parse(EDGE),
        inputs=tmp_path,
        checkpoint=tmp_path.with_name("checkpoint"),
        trigger={"availableNow": True},
        tick="1us",
        origin="1980-01-01",
        timestamps=False,
    )
    last = end(running)
    assert last is not None
    assert (last.totals["facts"], last.totals["dead"]) == (1, 2)
