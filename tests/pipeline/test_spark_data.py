"""Files as they come: any format, order and age; what cannot be used is put aside."""

from __future__ import annotations

import csv
import errno
import glob
import json
import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import tidelog
from tidelog.errors import DataError
from tidelog.pipeline import sites
from tidelog.pipeline.modes import OfflineMode
from tidelog.pipeline.store import open_store
from tidelog.spark import query as ask
from tidelog.spark import session, stream

pytestmark = pytest.mark.xdist_group("spark")

NOW = {"availableNow": True}
RULES = """
input Temp(device: text, level: float) @ time.
input Door(device: text, open: bool) @ time.
Hot(X, V) @ T+1 :- Temp(X, V) @ T, Temp(X, W) @ T+1, W > V, V >= 10.
Drawn(X) @ T :- Temp(X, V) @ T, Door(X, true) @ T.
"""


def letters(checkpoint: Path) -> list[dict[str, Any]]:
    dead = [
        json.loads(line)
        for path in sorted(checkpoint.glob("dead_letters/batch=*/*.json"))
        for line in path.read_text().splitlines()
    ]
    return sorted(dead, key=lambda letter: (str(letter["file"]), letter["reason"]))


def run(spark: SparkSession, folder: Path, rules: str = RULES, **options: Any) -> Any:
    wanted: dict[str, Any] = {
        "inputs": folder / "facts",
        "checkpoint": folder / "checkpoint",
        "trigger": NOW,
    }
    running = stream(spark, tidelog.parse(rules), **(wanted | options))
    running.awaitTermination()
    running.close()
    return running


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=str)


@pytest.mark.parametrize("name", ["la_haute_borne", "nab"])
def test_real_data_in_any_order_and_of_any_age(
    name: str, shared_data: Path, spark: SparkSession, tmp_path: Path
) -> None:
    """The queries that have a key, from files cut by rows, shuffled, with ages of years."""
    source = shared_data / name
    program = tidelog.load(source / "rules.tdl")
    queries = {"la_haute_borne": ("Outage", "Onset", "Trip"), "nab": ("Alarm", "Onset", "Plunge")}
    dice = random.Random(7)
    facts = tmp_path / "facts"
    for path in (source / "facts").glob("*.csv"):
        lines = path.read_text().splitlines()
        if len(lines) < 1000:
            facts.mkdir(exist_ok=True)
            (facts / path.name).write_text("\n".join(lines) + "\n")
            continue
        (facts / path.stem).mkdir(parents=True, exist_ok=True)
        size = len(lines) // 5
        for number, start in enumerate(range(1, len(lines), size)):
            part = facts / path.stem / f"{dice.random()}-{number}.csv"
            part.write_text("\n".join([lines[0], *lines[start : start + size]]) + "\n")
            age = dice.uniform(0, 4e9)
            os.utime(part, (age, age))
    running = stream(
        spark, program, queries[name], inputs=facts, trigger=NOW, partitions=3, lateness=2
    )
    running.awaitTermination()
    commit = running.close()
    assert (commit.totals["late"], commit.totals["dead"]) == (0, 0)
    for query in queries[name]:
        with (source / "expected" / f"{query}.csv").open(newline="") as file:
            want = sorted(
                [(*row[:-1], int(row[-1])) for row in list(csv.reader(file))[1:]], key=str
            )
        assert rows(running.answers[query]) == want


@pytest.mark.slow
def test_what_is_done_twice_is_counted_once(tmp_path: Path) -> None:
    """What a part had written is lost, so that Spark has to do it again in the same job.

    The Spark of this test is its own: one that has lost files no longer knows its own blocks, fails
    every heartbeat, and ends itself after 60 of them, ten minutes later, with status 56.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        totals = pool.submit(totals_of_lost_parts, tmp_path).result()
    ledger = {"rows": 42, "facts": 39, "late": 0, "dead": 3, "skipped": 0, "heartbeats": 0}
    assert totals == {**ledger, "answers": 13}


def totals_of_lost_parts(folder: Path) -> dict[str, int]:
    """The totals of a stream whose packed facts are lost once.

    Spark before 4.3 observed every attempt, and still does where it is told to.
    """
    (folder / "facts" / "Temp").mkdir(parents=True)
    for number in range(3):
        lines = [f"d{i},{i}.5,{i}" for i in range(13)] + [",0.5,0"]
        path = folder / "facts" / "Temp" / f"{number}.csv"
        path.write_text("\n".join(["device,level,time", *lines]) + "\n")
    mark = str(folder / "lost")
    usual = OfflineMode.pack

    def losing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        with suppress(FileExistsError):
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            for local in os.environ["SPARK_LOCAL_DIRS"].split(","):
                for name in glob.glob(f"{local}/**/shuffle_*", recursive=True):
                    os.unlink(name)

    def pack(mode: OfflineMode, facts: DataFrame) -> DataFrame:
        packed = usual(mode, facts)
        return packed.mapInArrow(losing, packed.schema)

    spark = session("local[2]", **{"spark.sql.legacy.observeMetricsAggregateAllAttempts": "true"})
    reader = spark.readStream.schema("device STRING, level DOUBLE, time BIGINT")
    frame = reader.option("header", "true").csv(str(folder / "facts" / "Temp"))
    with patch.object(sites, "LITTLE", -1), patch.object(OfflineMode, "pack", pack):
        running = run(
            spark,
            folder,
            "input Temp(device: text, level: float) @ time.\nAny(X) @ T :- Temp(X, _) @ T.",
            inputs={"Temp": frame},
            partitions=3,
        )
    assert os.path.exists(mark)
    totals = running.committed.totals
    spark.stop()
    return totals


def test_formats_columns_and_problems(spark: SparkSession, tmp_path: Path) -> None:
    """CSV with columns swapped and added, Parquet, JSON lines; and every kind of bad row."""
    temp, door = tmp_path / "facts" / "Temp", tmp_path / "facts" / "Door"
    temp.mkdir(parents=True)
    door.mkdir()
    (temp / "a b%20[1].csv").write_text(
        'time,device,note,level\n0,"x, ""y""",n,10\n1,"x, ""y""",,11.5\n'
    )
    (temp / "bad.csv").write_text(
        "device,level,time\nx,warm,1\nx,,2\n,5,2\nx,nan,2\nx,1e999,2\nx,7\nx,8,2,9\nx,9,later\n"
        "x,9,9999999999999999999\nx,10,3\nx, 12 ,4\n"
    )
    table = {
        "level": pa.array([20, 21, None], pa.int32()),
        "device": ["z", "z", "z"],
        "time": [5, 6, 7],
    }
    pq.write_table(pa.table(table), temp / "more.parquet")
    (door / "d.jsonl").write_text(
        '{"device": "z", "open": true, "time": 5}\n{"device": "z", "open": "yes", "time": 6}\n'
        '{"device": "z", "time": 6}\n\nnot json\n{"time": 9}\n[1]\n'
        '{"predicate": "Door", "device": "z", "open": false, "time": 6}\n'
    )
    for each in ("_SUCCESS", ".hidden.csv"):
        (temp / each).write_text("nothing")
    running = run(spark, tmp_path)
    assert rows(running.answers["Hot"]) == [("x", 10.0, 4), ('x, "y"', 10.0, 1), ("z", 20.0, 6)]
    assert rows(running.answers["Drawn"]) == [("z", 5)]
    dead = letters(tmp_path / "checkpoint")
    assert running.committed.totals["dead"] == len(dead) == 14
    said = [letter["reason"].split(":")[-1].strip() for letter in dead]
    expected = [
        "no value in column `device`",
        "no value in column `level`",
        "NaN in column `level`",
        "`warm` is not float",
        "`1e999` is not float",
        "the row has too many or too few values",
        "`later` is not int",
        "`9999999999999999999` is not int",
        "'yes' is not bool",
        "no value in column `open`; the line has no such key",
        "Expecting value",
    ]
    for reason in expected:
        assert any(reason in text for text in (*said, *(x["reason"] for x in dead))), reason
    assert {Path(letter["file"]).name for letter in dead} == {"bad.csv", "more.parquet", "d.jsonl"}
    assert {letter["predicate"] for letter in dead} == {"Temp", "Door"}


@pytest.mark.parametrize(
    ("name", "data", "match"),
    [
        ("b.csv", b"device,time\nx,1\n", r"b\.csv:1: no column `level`"),
        ("b.parquet", b"PAR1 and then nothing", r"b\.parquet: not Parquet"),
        # More of the same: what is said of each header is in tests/data.
        pytest.param("b.csv", b"\n", r"b\.csv:1: the file is empty", marks=pytest.mark.deep),
        pytest.param(
            "b.csv", b"\xff\xfe,level,time\n", r"b\.csv:1: not UTF-8", marks=pytest.mark.deep
        ),
    ],
)
def test_a_file_that_cannot_be_read_stops_the_stream_by_name(
    name: str, data: bytes, match: str, spark: SparkSession, tmp_path: Path
) -> None:
    temp = tmp_path / "facts" / "Temp"
    temp.mkdir(parents=True)
    (temp / "a.csv").write_text("device,level,time\nx,10,0\nx,11,1\n")
    (temp / name).write_bytes(data)
    with pytest.raises(DataError, match=match):
        run(spark, tmp_path, queries=["Hot"])
    # Spark has written it down and leaves it out if it has gone: its facts would be lost.
    (temp / name).unlink()
    gone = rf"{name}: the file is not there any more; put it back"
    with pytest.raises(DataError, match=gone):
        run(spark, tmp_path, queries=["Hot"])
    # Repaired, it goes on.
    if name.endswith("csv"):
        (temp / name).write_text("device,level,time\nx,12,2\n")
    else:
        pq.write_table(pa.table({"device": ["x"], "level": [12.0], "time": [2]}), temp / name)
    running = run(spark, tmp_path, queries=["Hot"])
    assert rows(running.answers["Hot"]) == [("x", 10.0, 1), ("x", 11.0, 2)]


def test_a_clock_far_ahead_is_put_aside(spark: SparkSession, tmp_path: Path) -> None:
    temp = tmp_path / "facts" / "Temp"
    temp.mkdir(parents=True)
    (temp / "a.csv").write_text("device,level,time\nx,10,0\nx,11,1\nx,1,4000000000\nx,12,2\n")
    running = run(spark, tmp_path, queries=["Hot"], max_jump=100)
    assert rows(running.answers["Hot"]) == [("x", 10.0, 1), ("x", 11.0, 2)]
    (letter,) = letters(tmp_path / "checkpoint")
    assert letter["reason"] == "tick 4000000000 is more than 100 ahead of 2"
    assert letter["row"] == {"device": "x", "level": 1.0, "time": 4000000000}


def test_timestamps_in_and_out(spark: SparkSession, tmp_path: Path) -> None:
    temp = tmp_path / "facts" / "Temp"
    temp.mkdir(parents=True)
    (temp / "a.csv").write_text(
        "device,level,time\nx,10,1969-12-31T23:55:00Z\nx,11,1970-01-01 00:00:00\n"
        "x,12,1970-01-01T02:10:00+02:00\nx,13,yesterday\n"
    )
    out = tmp_path / "answers"
    run(spark, tmp_path, queries=["Hot"], tick="10m", sink=f"csv:{out}")
    lines = [line for path in out.glob("Hot/*/*.csv") for line in path.read_text().splitlines()[1:]]
    assert sorted(lines) == ["x,10.0,1970-01-01T00:00:00Z", "x,11.0,1970-01-01T00:10:00Z"]
    (letter,) = letters(tmp_path / "checkpoint")
    assert letter["reason"] == "column `time`: `yesterday` is not a timestamp"


def test_a_sparse_input_does_not_hold_time_back(spark: SparkSession, tmp_path: Path) -> None:
    temp, door = tmp_path / "facts" / "Temp", tmp_path / "facts" / "Door"
    temp.mkdir(parents=True)
    door.mkdir()
    (temp / "a.csv").write_text("device,level,time\n" + "".join(f"x,10,{t}\n" for t in range(20)))
    (door / "a.csv").write_text("device,open,time\nx,true,3\n")
    running = stream(
        spark,
        tidelog.parse(RULES),
        ["Drawn"],
        inputs=tmp_path / "facts",
        sparse=["Door"],
        trigger=NOW,
    )
    running.awaitTermination()
    assert (running.committed.clock.tin, running.committed.tout) == (18, 18)
    assert rows(running.answers["Drawn"]) == [("x", 3)]
    running.stop()


@pytest.mark.parametrize("little", [-1, pytest.param(100_000, marks=pytest.mark.deep)])
def test_sinks_get_the_same_answers(
    little: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelog.pipeline.sites.LITTLE", little)
    temp = tmp_path / "facts" / "Temp"
    temp.mkdir(parents=True)
    text = 'q"uo, te\nüß'
    (temp / "a.jsonl").write_text(
        "".join(json.dumps({"device": text, "level": 10.0 + t, "time": t}) + "\n" for t in range(3))
    )
    heard: list[tuple[int, list[tuple[object, ...]]]] = []

    def hear(batch: int, answers: Any) -> None:
        frame = answers["Hot"]
        assert isinstance(frame, DataFrame)
        heard.append((batch, sorted(tuple(row) for row in frame.collect())))

    want = [(text, 10.0, 1), (text, 11.0, 2)]
    for kind in ("parquet", "csv", "json") if little > 0 else ("parquet",):
        out = tmp_path / kind
        run(
            spark,
            tmp_path,
            queries=["Hot"],
            sink=f"{kind}:{out}",
            checkpoint=tmp_path / f"{kind}-c",
        )
        reader = spark.read.option("header", True).option("multiLine", True).option("escape", '"')
        frame = reader.format(kind).load(str(out / "Hot"))
        got = [(r[0], float(r[1]), int(r[2])) for r in frame.select("x", "v", "time").collect()]
        assert sorted(got) == want
    run(spark, tmp_path, queries=["Hot"], sink=hear, checkpoint=tmp_path / "heard")
    assert sorted(row for _, part in heard for row in part) == want
    assert not (tmp_path / "heard" / "answers").exists() or not os.listdir(
        tmp_path / "heard" / "answers"
    )
    lines = tmp_path / "lines.jsonl"
    run(spark, tmp_path, queries=["Hot"], sink=f"jsonl:{lines}", checkpoint=tmp_path / "lines")
    said = [json.loads(line) for line in lines.read_text().splitlines()]
    assert sorted((r["x"], r["v"], r["time"]) for r in said) == want


def test_it_follows_new_files_until_it_is_stopped(spark: SparkSession, tmp_path: Path) -> None:
    temp = tmp_path / "facts" / "Temp"
    temp.mkdir(parents=True)
    (temp / "0.csv").write_text("device,level,time\nx,10,0\nx,11,1\n")
    with stream(
        spark,
        tidelog.parse(RULES),
        ["Hot"],
        inputs=tmp_path / "facts",
        trigger={"processingTime": "100 milliseconds"},
    ) as running:
        running.query.processAllAvailable()
        assert running.status["isActive"]
        assert running.status["tin"] == 0
        (temp / "1.csv").write_text("device,level,time\nx,12,2\n")
        end = time.monotonic() + 60
        while running.status["tin"] == 0 and time.monotonic() < end:
            assert not running.awaitTermination(1)
        assert rows(running.answers["Hot"]) == [("x", 10.0, 1)]
    assert not running.query.isActive


def test_a_full_disk_is_told_without_names_of_java(spark: SparkSession, tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with patch.object(os, "fsync", side_effect=full), pytest.raises(DataError) as error:
        open_store(spark, str(tmp_path)).write(b"anything", "note")
    assert str(error.value).endswith("/note cannot be written: No space left on device")


def test_an_integer_of_more_than_63_bits_is_put_aside(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "E.parquet"
    columns = {"n": [1, 2**64 - 7, 3, 4], "time": [0, 1, 2, 2**64 - 8]}
    types = pa.schema({name: pa.uint64() for name in columns})
    pq.write_table(pa.table(columns, schema=types), path)
    program = tidelog.parse("input E(n: int) @ time. P(N) @ T :- E(N) @ T, N > 0.")
    now = {"availableNow": True}
    running = stream(spark, program, inputs=path, checkpoint=tmp_path / "c", trigger=now)
    running.awaitTermination()
    running.close()
    assert rows(running.answers["P"]) == [(1, 0), (3, 2)]
    said = "column `{}`: `{}` is not int: it does not fit 64 bits"
    wanted = {said.format("n", 2**64 - 7), said.format("time", 2**64 - 8)}
    assert {letter["reason"] for letter in letters(tmp_path / "c")} == wanted
    with pytest.raises(DataError, match=f"`{2**64 - 7}` is not int: it does not fit 64 bits"):
        ask(spark, program, "P", path).collect()
