"""What may be otherwise when a stream on Spark goes on, and how it gets on after what stops it."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tidelog
from tidelog.errors import DataError
from tidelog.pipeline import loop, sites, start
from tidelog.spark import Running, stream

pytestmark = pytest.mark.xdist_group("spark")

NOW = {"availableNow": True}
RULES = """
input E(x: text, v: int) @ time.
input F(x: text) @ time.
P(X) @ T :- E(X, V) @ T, V > 1.
P(X) @ T :- F(X) @ T, E(X, _) @ T-1.
Q(X, N) @ T :- P(X) @ T, N = count(E(X, _) @ [T-2, T]).
R(X) @ T+1 :- P(X) @ T, not F(X) @ T+1.
"""
DISGUISE = """
input F(x: text) @ time.
input E(x: text, v: int) @ time.
R(A) @ U+1 :- P(A) @ U, not F(A) @ U+1.
Q(C, D) @ S :- P(C) @ S, D = count(E(C, _) @ [S-2, S]).
P(Y) @ B :- F(Y) @ B, E(Y, _) @ B-1.
P(V) @ T :- E(V, X) @ T, X > 1.
"""
ONE = "input E(x: text) @ time. P(X) @ T :- E(X) @ T."


def put(folder: Path, name: str, *rows: dict[str, Any]) -> Path:
    """A new file of facts of an input; the newer ones come later in a listing."""
    (folder / "facts" / name).mkdir(parents=True, exist_ok=True)
    number = len(list((folder / "facts" / name).iterdir()))
    path = folder / "facts" / name / f"{number}.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def started(spark: SparkSession, folder: Path, rules: str = ONE, **options: Any) -> Running:
    wanted: dict[str, Any] = {
        "inputs": folder / "facts",
        "checkpoint": folder / "c",
        "sink": f"json:{folder / 'answers'}",
        "trigger": NOW,
    }
    queries = options.pop("queries", None)
    return stream(spark, tidelog.parse(rules), queries, **(wanted | options))


def run(spark: SparkSession, folder: Path, rules: str = ONE, **options: Any) -> Any:
    """Take in what is there; the last commit."""
    closing = options.pop("closing", False)
    running = started(spark, folder, rules, **options)
    running.awaitTermination()
    if closing:
        return running.close()
    running.stop()
    return running.committed


def answers(folder: Path, query: str = "P") -> list[dict[str, Any]]:
    files = sorted((folder / "answers" / query).glob("batch=*/*.json"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def letters(folder: Path) -> list[dict[str, Any]]:
    files = sorted((folder / "c" / "dead_letters").glob("batch=*/*.json"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def abort(running: Running) -> str:
    """Why a stream ended by itself."""
    with pytest.raises(DataError) as raised:
        running.awaitTermination()
    return str(raised.value)


# Rules, queries, options


@pytest.mark.parametrize("mode", ["offline", "online"])
def test_rules_and_queries_in_disguise_go_on(
    mode: str, spark: SparkSession, tmp_path: Path
) -> None:
    rows = [
        ("E", {"x": "a", "v": 2, "time": 0}, {"x": "b", "v": 1, "time": 0}),
        ("F", {"x": "b", "time": 1}, {"x": "a", "time": 2}),
        ("E", {"x": "b", "v": 0, "time": 2}, {"x": "a", "v": 7, "time": 3}),
        ("F", {"x": "c", "time": 4}, {"x": "b", "time": 5}),
        ("E", {"x": "b", "v": 4, "time": 4}, {"x": "c", "v": 3, "time": 6}),
    ]
    looks = [(RULES, ["P", "Q", "R"]), (DISGUISE, ["R", "Q", "P"]), (RULES, ["Q", "P", "R"])]
    for name, many in (("straight", False), ("disguised", True)):
        folder = tmp_path / name
        for number, (input_, *facts) in enumerate(rows):
            put(folder, input_, *facts)
            rules, queries = looks[number % 3 if many else 0]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run(spark, folder, rules, queries=queries, mode=mode, closing=number == 4)
    for query in ("P", "Q", "R"):
        straight = answers(tmp_path / "straight", query)
        assert straight
        assert answers(tmp_path / "disguised", query) == straight


def test_options_about_rows_to_come_may_change(spark: SparkSession, tmp_path: Path) -> None:
    """Time never goes back: with more lateness it waits, with less it goes on at once."""
    put(tmp_path, "E", {"x": "a", "time": 0}, {"x": "b", "time": 10})
    first = run(spark, tmp_path)
    assert (first.clock.tin, first.options["lateness"]) == (9, 0)
    put(tmp_path, "E", {"x": "late", "time": 9}, {"x": "c", "time": 11})
    second = run(spark, tmp_path, lateness=5, max_jump=100, idle="1h", files_per_batch=3)
    assert (second.clock.tin, second.late, second.facts) == (9, 1, 1)
    put(tmp_path, "E", {"x": "d", "time": 10}, {"x": "far", "time": 10**9})
    third = run(spark, tmp_path, lateness=1, max_jump=50)
    assert (third.clock.tin, third.late, third.facts, third.dead) == (9, 0, 1, 1)
    closed = run(spark, tmp_path, max_jump=50, closing=True)
    assert [(row["x"], row["time"]) for row in answers(tmp_path)] == [
        ("a", 0),
        ("b", 10),
        ("d", 10),
        ("c", 11),
    ]
    files = sorted((tmp_path / "c" / "commits").iterdir(), key=lambda path: int(path.stem))
    ran = [json.loads(file.read_text())["options"] for file in files]
    keys = ("lateness", "max_jump", "idle", "files_per_batch")
    assert [tuple(options[key] for key in keys) for options in ran] == [
        (0, None, {}, None),
        (5, 100, {"": "1h"}, 3),
        (1, 50, {}, None),
        (0, 50, {}, None),
    ]
    assert closed.options["memory"] == "1GB"


def test_a_far_time_that_stops_recursive_rules_is_put_aside_at_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    rules = """
    input E(x: text) @ time.
    input Stop(x: text) @ time.
    P(X) @ T :- E(X) @ T.
    P(X) @ T+1 :- P(X) @ T.
    Q(X) @ T :- P(X) @ T, Stop(X) @ T.
    """
    put(tmp_path, "E", {"x": "a", "time": 1}, {"x": "bad", "time": 3_000_000_000})
    put(tmp_path, "Stop", {"x": "c", "time": 1}, {"x": "a", "time": 3_000_000_000})
    said = abort(started(spark, tmp_path, rules, queries=["Q"]))
    assert "--max-jump N (max_jump in Python) puts such facts aside" in said
    put(tmp_path, "E", {"x": "b", "time": 5})
    put(tmp_path, "Stop", {"x": "a", "time": 3}, {"x": "b", "time": 6})
    done = run(spark, tmp_path, rules, queries=["Q"], max_jump=1000)
    assert done.totals["dead"] == 2
    run(spark, tmp_path, rules, queries=["Q"], max_jump=1000, closing=True)
    got = sorted((row["x"], row["time"]) for row in answers(tmp_path, "Q"))
    assert got == [("a", 3), ("b", 6)]


# Times after the clock


def stamp(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def test_times_far_after_the_clock_are_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    soon, far = now + timedelta(hours=23), now + timedelta(days=2)
    rows = [("a", now), ("soon", soon), ("far", far)]
    put(tmp_path, "E", *({"x": x, "time": stamp(time)} for x, time in rows), {"time": "2999-01-01"})
    first = run(spark, tmp_path, tick="1m")
    assert (first.facts, first.dead) == (2, 2)
    reasons = {letter["row"].get("x"): letter["reason"] for letter in letters(tmp_path)}
    for reason in (reasons["far"], reasons[None]):
        assert reason.startswith("its time is more than 1d after the clock, which said ")
        assert reason.endswith("Z; --max-ahead allows more")
    assert first.clock.tin * 60 < soon.timestamp()
    put(tmp_path, "E", {"x": "far", "time": stamp(far)})
    second = run(spark, tmp_path, tick="1m", max_ahead=None, closing=True)
    assert (second.facts, second.totals["dead"]) == (0, 2)
    assert [row["x"] for row in answers(tmp_path)] == ["a", "soon", "far"]


def test_a_batch_done_again_is_judged_by_the_same_clock(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime(2024, 5, 1, tzinfo=UTC)
    put(tmp_path, "E", {"x": "a", "time": stamp(now)}, {"x": "b", "time": "2024-05-02T00:01:00Z"})
    monkeypatch.setattr(start, "Pipeline", partial(loop.Pipeline, now=now.timestamp))
    write = loop.Checkpoint.write
    monkeypatch.setattr(loop.Checkpoint, "write", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        started(spark, tmp_path, tick="1m").awaitTermination()
    monkeypatch.setattr(loop.Checkpoint, "write", write)
    later = (now + timedelta(days=1)).timestamp
    monkeypatch.setattr(start, "Pipeline", partial(loop.Pipeline, now=later))
    assert run(spark, tmp_path, tick="1m").dead == 1
    put(tmp_path, "E", {"x": "b", "time": "2024-05-02T00:01:00Z"})
    assert run(spark, tmp_path, tick="1m").facts == 1


# Going on without a file


def poison(folder: Path) -> Path:
    path = folder / "facts" / "E" / "1.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"x": ["a", "b"] * 2000, "time": list(range(4000))}), path)
    data = bytearray(path.read_bytes())
    data[200:2000] = os.urandom(1800)
    path.write_bytes(bytes(data))
    return path


def no_parquet(folder: Path) -> Path:
    path = folder / "facts" / "E" / "1.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"PAR1 no")
    return path


def packed(folder: Path) -> Path:
    path = folder / "facts" / "E" / "1.csv.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = "".join(f"{hashlib.md5(b'%d' % i).hexdigest()},{i}\n" for i in range(9000))
    path.write_bytes(gzip.compress(f"x,time\n{rows}".encode())[:-2000])
    return path


def hardly_packed(folder: Path) -> Path:
    path = packed(folder)
    path.write_bytes(path.read_bytes()[:12])
    return path


def without_a_column(folder: Path) -> Path:
    path = folder / "facts" / "E" / "1.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("y,time\na,1\n")
    return path


def packed_lines(folder: Path) -> Path:
    path = folder / "facts" / "E" / "1.jsonl.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = "".join(f'{{"x": "{i * 7919}", "time": {i}}}\n' for i in range(9000))
    path.write_bytes(gzip.compress(rows.encode())[:-2000])
    return path


POISON = [poison, no_parquet, packed, hardly_packed, without_a_column, packed_lines]


@pytest.mark.parametrize("make", POISON)
def test_a_poison_file_is_skipped_once(
    make: Callable[[Path], Path], spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path, "E", {"x": "a", "time": 0}, {"x": "b", "time": 1})
    bad = make(tmp_path)
    said = abort(started(spark, tmp_path))
    assert f"{bad}" in said
    assert f"go on without it: --skip {bad} (skip= in Python)" in said
    assert "Spark's process" not in said
    if make is poison:
        bad.rename(tmp_path / "moved")
        said = abort(started(spark, tmp_path))
        assert f"put it back, or go on without it: --skip {bad}" in said
        reason = "skipped as asked for: the file is not there any more"
    else:
        data = bad.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        reason = f"skipped as asked for: {len(data)} bytes, SHA-256 {digest}"
    done = run(spark, tmp_path, skip=[bad])
    assert (done.facts, done.dead, done.skipped) == (2, 0, 1)
    put(tmp_path, "E", {"x": "c", "time": 2})
    run(spark, tmp_path)  # it is done: nobody has to say so again
    last = run(spark, tmp_path, skip=[bad], closing=True)
    assert [last.totals[name] for name in ("rows", "facts", "skipped", "answers")] == [4, 3, 1, 3]
    assert last.by_input["E"].skipped == 1
    (letter,) = letters(tmp_path)
    assert (letter["reason"], letter["file"]) == (reason, f"file://{bad}")
    assert letter["predicate"] == "E"
    assert [row["x"] for row in answers(tmp_path)] == ["a", "b", "c"]


def test_a_first_batch_may_be_nothing_but_a_skipped_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    bad = without_a_column(tmp_path)
    done = run(spark, tmp_path, skip=str(bad))
    assert (done.facts, done.skipped) == (0, 1)


def test_a_file_of_another_place_cannot_be_skipped(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path, "E", {"x": "a", "time": 0})
    with pytest.raises(DataError, match=r"--skip .*other\.csv: it is not among the facts"):
        started(spark, tmp_path, skip=[tmp_path / "other.csv"])
    frame = spark.readStream.format("rate").load()
    frame = frame.selectExpr(
        "cast('{}' as binary) AS value",
        "cast(null as binary) AS key",
        "'t' AS topic",
        "0 AS partition",
        "value AS offset",
    )
    with pytest.raises(DataError, match="--skip kafka:t/x: a message is kafka:TOPIC/PART"):
        started(spark, tmp_path, inputs={"E": frame}, skip=["kafka:t/x"])


# Messages


def messages(spark: SparkSession, folder: Path, *values: str | None) -> Any:
    """Values as a stream of Kafka's connector, a message a minute."""
    folder.mkdir(parents=True, exist_ok=True)
    number = len(list(folder.iterdir()))
    rows = (
        {"value": value, "offset": i, "timestamp": f"2024-05-01T00:{i:02}:00Z"}
        for i, value in enumerate(values)
    )
    (folder / f"{number}.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    schema = "value STRING, offset LONG, timestamp TIMESTAMP"
    frame = spark.readStream.schema(schema).json(str(folder))
    return frame.selectExpr(
        "cast(value AS BINARY) AS value",
        "cast(NULL AS BINARY) AS key",
        "'t' AS topic",
        "0 AS partition",
        "offset",
        "timestamp",
    )


def fact(x: str, minute: int) -> str:
    return json.dumps({"x": x, "time": f"2024-05-01T00:{minute:02}:00Z"})


@pytest.mark.parametrize("where", ["driver", "executors"])
def test_heartbeats_of_messages_count_only_if_asked_for(
    where: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where == "executors":
        monkeypatch.setattr(sites, "LITTLE", -1)
    sent = [fact("a", 0), None, '{"time": "2024-05-01T00:05:00Z"}', '{"time": "2199-01-01"}']
    for asked, tick, beats, dead in ((False, 0, 3, 0), (True, 5, 2, 1)):
        folder = tmp_path / str(asked)
        frame = messages(spark, folder / "facts", *sent)
        how: dict[str, Any] = {"inputs": {"E": frame}, "tick": "1m", "heartbeats": asked}
        if asked:
            done = run(spark, folder, **how)
        else:
            with pytest.warns(UserWarning, match="3 messages have no value.* only with --heartb"):
                done = run(spark, folder, **how)
        minutes = datetime(2024, 5, 1, tzinfo=UTC).timestamp() // 60
        assert done.clock.tin == minutes + tick - 1
        assert (done.facts, done.heartbeats, done.dead) == (1, beats, dead)


@pytest.mark.parametrize("where", ["driver", "executors"])
def test_a_message_is_skipped_once(
    where: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where == "executors":
        monkeypatch.setattr(sites, "LITTLE", -1)
    sent = [fact("a", 0), fact("bad", 1), fact("b", 2), "oops"]
    frame = messages(spark, tmp_path / "facts", *sent)
    done = run(spark, tmp_path, inputs={"E": frame}, tick="1m", skip=["kafka:t/0/1"])
    assert (done.facts, done.dead, done.skipped) == (2, 1, 1)
    run(spark, tmp_path, inputs={"E": frame}, tick="1m", closing=True)
    skipped, _ = sorted(letters(tmp_path), key=lambda letter: letter["offset"])
    digest = hashlib.sha256(sent[1].encode()).hexdigest()
    assert skipped["reason"] == f"skipped as asked for: {len(sent[1])} bytes, SHA-256 {digest}"
    assert (skipped["topic"], skipped["partition"], skipped["offset"]) == ("t", 0, 1)
    assert (skipped["predicate"], skipped["row"], skipped["text"]) == ("E", None, None)
    assert [row["x"] for row in answers(tmp_path)] == ["a", "b"]


def test_lost_commits_are_no_new_stream(spark: SparkSession, tmp_path: Path) -> None:
    """Also where nothing new has come, and the stream is to be closed."""
    put(tmp_path, "E", {"x": "a", "time": 0}, {"x": "b", "time": 1})
    run(spark, tmp_path)
    shutil.rmtree(tmp_path / "c" / "commits")
    with pytest.raises(DataError, match=r"spark has completed batch 0, and .*/commits holds none"):
        run(spark, tmp_path, closing=True)
    assert [row["x"] for row in answers(tmp_path)] == ["a"]
