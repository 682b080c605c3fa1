"""Streams on Spark: a batch beside a hand-written stream-stream join and an empty `foreachBatch`.

The pattern is three high readings in a row. Times are Spark's own of whole micro-batches, medians
after a warm-up. The join has as many partitions as there are cores, which is its best; as Spark
comes it has 200.

Flink runs the pattern too, as `MATCH_RECOGNIZE` and as interval joins, where TIDELOG_FLINK or
build/flink-venv (`make bench-flink`) has PyFlink. Both read CSV, and their times include what it
takes to start a job: warm, in a process that has done the same before, the best of three; cold,
from the start of a process to its end.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import tidelog
from benchmarks.harness import Result, best_of, best_of_each, console, cost, faster, print_table
from tidelog.spark import query, session, stream

RULES = """
input Temp(device: text, level: text) @ time.
Flag(X)    @ T    :- Temp(X, high) @ T.
Cool(X)    @ T+1  :- Flag(X) @ T, Flag(X) @ T+1.
Shdn(X)    @ T+1  :- Cool(X) @ T, Flag(X) @ T+1.
Malfunc(X) @ T-2  :- Shdn(X) @ T.
output Malfunc.
"""
AGAIN = """
input Temp(device: text, level: text) @ time.
Again(X) @ T+{k} :- Temp(X, high) @ T, Temp(X, high) @ T+{k}.
output Again.
"""
DEVICES = 1_000
WARM = 5
ROOT = Path(__file__).resolve().parent.parent


def readings(folder: Path, facts: int, batches: int, devices: int) -> None:
    """A file for each batch, in the order of their names and ages."""
    folder.mkdir(parents=True)
    for number in range(batches):
        path = folder / f"{number:04}.parquet"
        duckdb.sql(
            f"""COPY (SELECT 'turbine-' || i % {devices} AS device,
                CASE WHEN hash(i, {number}) % 10 < 5 THEN 'high' ELSE 'low' END AS level,
                ({number} * {facts} + i) // {devices} AS time
                FROM range({facts}) AS r(i)) TO '{path}' (FORMAT parquet)"""
        )
        os.utime(path, (number + 1, number + 1))


def source(spark: SparkSession, folder: Path) -> DataFrame:
    reader = spark.readStream.schema("device STRING, level STRING, time BIGINT")
    return reader.option("maxFilesPerTrigger", 1).parquet(str(folder))


def times(query: StreamingQuery) -> list[float]:
    """Seconds of each micro-batch."""
    durations = [p.durationMs for p in query.recentProgress]
    return [each["triggerExecution"] / 1000 for each in durations if "addBatch" in each]


def ours(
    spark: SparkSession, folder: Path, out: Path, rules: str = RULES, *, frames: bool = False
) -> tuple[list[float], list[int]]:
    """Seconds and bytes of state after each batch: of files, or of a DataFrame of them."""
    state: list[int] = []
    running = stream(
        spark,
        tidelog.parse(rules),
        inputs={"Temp": source(spark, folder) if frames else folder},
        files_per_batch=1,
        sink=f"parquet:{out / 'answers'}",
        checkpoint=out / "checkpoint",
        trigger={"availableNow": True},
        told=lambda commit: state.append(commit.state_bytes),
    )
    running.awaitTermination()
    seconds = times(running.query)
    running.stop()
    return seconds, state


def join(spark: SparkSession, folder: Path, out: Path) -> list[float]:
    """The same pattern as a stream-stream join, with watermarks so that state is bounded."""
    flags = source(spark, folder).where("level = 'high'")
    timed = flags.withColumn("at", F.timestamp_seconds("time")).withWatermark("at", "0 seconds")
    a, b, c = (
        timed.select(F.col("device").alias(f"d{i}"), F.col("at").alias(f"t{i}")) for i in range(3)
    )
    second = "INTERVAL 1 SECOND"
    pairs = a.join(b, F.expr(f"d0 = d1 AND t1 = t0 + {second}")).select("d1", "t1")
    triples = pairs.join(c, F.expr(f"d1 = d2 AND t2 = t1 + {second}"))
    writer = triples.select("d2", "t2").writeStream.format("parquet").outputMode("append")
    writer = writer.option("checkpointLocation", str(out / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(out / "answers"))
    query.awaitTermination()
    return times(query)


def empty(spark: SparkSession, folder: Path, out: Path) -> list[float]:
    """A `foreachBatch` that does nothing but write one file."""

    def write(frame: DataFrame, number: int) -> None:
        frame.sparkSession.range(1).coalesce(1).write.parquet(str(out / str(number)))

    writer = source(spark, folder).writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", str(out / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return times(query)


def median(seconds: list[float]) -> float:
    return statistics.median(seconds[min(WARM, len(seconds) // 2) :])


# Large batches beside the batch query, and long windows beside short ones


def large_batches(spark: SparkSession, root: Path, quick: bool) -> list[Result]:
    """Facts a second in large batches, and of one query over the same files."""
    facts, batches = (25_000, 3) if quick else (2_500_000, 6)
    readings(root / "large", facts, batches, 10_000 if facts > 100_000 else 100)
    seconds, _ = ours(spark, root / "large", root / "ours" / "large")
    frame = spark.read.parquet(str(root / "large"))
    program = tidelog.parse(RULES)

    def batch() -> None:
        query(spark, program, "Malfunc", {"Temp": frame}).count()

    batch()
    rate, whole = facts / median(seconds), facts * batches / best_of(3, batch)
    name, peer = "spark stream/2.5 M facts a batch", "the batch query"
    slower, _ = ours(spark, root / "large", root / "ours" / "large frames", frames=True)
    by_catalyst = facts / median(slower)
    return [
        Result(name, rate, "facts/s", peer, rate / whole, ">= 0.6x"),
        Result(f"{name}, a DataFrame", by_catalyst, "facts/s", peer, by_catalyst / whole),
    ]


def sparse_readings(folder: Path, objects: int, ticks: int, batches: int) -> None:
    """Every object is read once in 60 ticks: a first file of many ticks, then 60 to a file."""
    folder.mkdir(parents=True)
    for number in range(batches + 1):
        first = 0 if number == 0 else ticks + 60 * (number - 1)
        size = ticks if number == 0 else 60
        path = folder / f"{number:04}.parquet"
        duckdb.sql(
            f"""COPY (SELECT 'turbine-' || d AS device,
                CASE WHEN hash(d, c, 1) % 10 < 5 THEN 'high' ELSE 'low' END AS level,
                {first} + 60 * c + CAST(hash(d, c, {number}) % 60 AS BIGINT) AS time
                FROM range({objects}) AS o(d), range({-(-size // 60)}) AS r(c))
                TO '{path}' (FORMAT parquet)"""
        )
        os.utime(path, (number + 1, number + 1))


def windows(spark: SparkSession, root: Path, quick: bool) -> list[Result]:
    """A rule that looks back 10 ticks and one that looks back 10,000, over the same facts."""
    objects, far, batches = (100, 600, 4) if quick else (10_000, 10_000, 14)
    sparse_readings(root / "windows", objects, far, batches)
    measured = {
        k: ours(spark, root / "windows", root / "ours" / f"window{k}", AGAIN.format(k=k))
        for k in (10, far)
    }
    near, wide = (median(measured[k][0]) for k in (10, far))
    names = [f"spark stream/window of {k:,} ticks, {objects:,} objects" for k in (10, far)]
    return [
        Result(names[0], near),
        cost(names[1], wide, names[0], near, "<= 1.3x"),
        Result("spark stream/state of the long window", float(measured[far][1][-1]), "bytes"),
    ]


# The first answer

COUNT = """
import sys
from tidelog.spark import session

spark = session("local[2]")
print(spark.read.parquet(sys.argv[1]).count())
spark.stop()
"""


def cold_run(root: Path, facts: Path, sink: str) -> list[str | Path]:
    """`tidelog run` over files, in a process of its own."""
    rules = root / "cold.tdl"
    rules.write_text(RULES)
    job = [sys.executable, "-m", "tidelog.cli", "run", rules, "--facts", facts]
    return [*job, "--master", "local[2]", "--sink", sink]


def run_seconds(job: list[str | Path]) -> float:
    """Seconds from the start of a process to its end."""
    return best_of(1, lambda: subprocess.run(job, capture_output=True, check=True))


def cold(root: Path, quick: bool) -> Iterator[Result]:
    """`tidelog run` from the start of its process to the end, beside a session that counts."""
    facts, rounds = (5_000, 1) if quick else (100_000, 3)
    place = root / "cold"
    readings(place / "Temp", facts, 1, 100)
    (root / "count.py").write_text(COUNT)
    answers = root / "cold.jsonl"
    ours = cold_run(root, place, f"jsonl:{answers}")
    bare: list[str | Path] = [sys.executable, root / "count.py", place / "Temp"]

    def anew() -> None:
        answers.unlink(missing_ok=True)  # a stream without checkpoint does not go on with a file
        run_seconds(ours)

    times = best_of_each(rounds, anew, lambda: run_seconds(bare))
    name, peer = "spark stream/cold run", "a bare session that counts the file"
    yield cost(f"{name}, {facts:,} facts", times[0], peer, times[1], "<= 1.6x")


# Flink


def flink_python() -> Path | None:
    """A Python with PyFlink in it, if there is one."""
    named = os.environ.get("TIDELOG_FLINK")
    python = Path(named) if named else ROOT / "build" / "flink-venv" / "bin" / "python"
    if not python.exists():
        return None
    asked = subprocess.run([python, "-c", "import pyflink.table"], capture_output=True, check=False)
    return python if asked.returncode == 0 else None


def flink_job(python: Path, job: str, path: Path, out: Path, rounds: int) -> list[str | Path]:
    return [python, Path(__file__).with_name("_flink.py"), job, path, out, str(rounds)]


def in_flink(
    python: Path, job: str, path: Path, out: Path, *, rounds: int = 1
) -> tuple[float, int]:
    """The least seconds of some runs in one process, and how many answers there were."""
    command = flink_job(python, job, path, out, rounds)
    done = subprocess.run(command, capture_output=True, text=True, timeout=1_800, check=True)
    report = json.loads(done.stdout.splitlines()[-1])
    return report["seconds"], report["answers"]


def in_one_go(
    spark: SparkSession,
    folder: Path,
    out: Path,
    program: tidelog.Program | None = None,
    asked: str | None = None,
) -> tuple[float, int]:
    """Seconds and answers of a stream over CSV files that are all there, with its end."""
    answers: list[int] = []
    start = time.perf_counter()
    running = stream(
        spark,
        program or tidelog.parse(RULES),
        asked,
        inputs=folder,
        sink=f"csv:{out / 'answers'}",
        checkpoint=out / "checkpoint",
        trigger={"availableNow": True},
        told=lambda commit: answers.append(sum(commit.answers.values())),
    )
    running.awaitTermination()
    running.close()
    return time.perf_counter() - start, sum(answers)


def beside_flink(spark: SparkSession, root: Path, quick: bool) -> Iterator[Result]:
    """The pattern over one file in order, and over ten files whose order is turned round.

    Ticks start at 1,000: Flink's interval joins lose what lies at time 0.
    """
    python = flink_python()
    if python is None:
        console().print("Flink is left out: PyFlink is not installed; `make bench-flink` does it")
        return
    facts, rounds = (20_000, 1) if quick else (500_000, 3)
    for order, parts in (("in order", 1), ("files out of order", 10)):
        base = root / "flink" / order.replace(" ", "-")
        for name in ("bare", "facts/Temp"):
            (base / name).mkdir(parents=True)
        size = facts // parts
        for part in range(parts):
            rows = f"""SELECT 'turbine-' || i % {DEVICES} AS device,
                CASE WHEN hash(i) % 10 < 5 THEN 'high' ELSE 'low' END AS level,
                1000 + i // {DEVICES} AS time
                FROM range({part * size}, {(part + 1) * size}) AS r(i)"""
            # Later files first, by name and by age.
            name = f"{parts - part:02}.csv"
            for place, header in (("bare", "false"), ("facts/Temp", "true")):
                path = base / place / name
                duckdb.sql(f"COPY ({rows}) TO '{path}' (FORMAT csv, HEADER {header})")
                os.utime(path, (parts - part, parts - part))
        in_one_go(spark, base / "facts", base / "warm")
        runs = [in_one_go(spark, base / "facts", base / f"ours-{n}") for n in range(rounds)]
        seconds, answers = min(runs)
        name = f"spark stream/{facts:,} facts, {order}"
        yield Result(f"{name}, answers", answers, "answers")
        start = run_seconds(cold_run(root, base / "facts", f"csv:{base / 'cold'}"))
        for kind, peer in (("match", "MATCH_RECOGNIZE"), ("join", "interval joins")):
            out = base / f"out-{kind}"
            theirs, lost = in_flink(python, kind, base / "bare", out, rounds=1 + rounds)
            target = ">= 5x" if parts == 1 and not quick else None
            yield faster(f"{name}, warm", seconds, f"Flink {peer}", theirs, target)
            job = flink_job(python, kind, base / "bare", base / f"cold-{kind}", 1)
            yield faster(f"{name}, cold", start, f"Flink {peer}", run_seconds(job))
            yield Result(f"spark stream/Flink {peer}, {order}, answers", lost, "answers")


def run(quick: bool) -> list[Result]:
    sizes = {"1,000": (1_000, 12), "50,000": (5_000, 8), "500,000": (50_000, 8), "flat": (500, 20)}
    if not quick:
        sizes = {
            "1,000": (1_000, 40),
            "50,000": (50_000, 14),
            "500,000": (500_000, 14),
            "flat": (1_000, 200),
        }
    spark = session(
        "local[2]",
        **{
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.streaming.numRecentProgressUpdates": "500",
        },
    )
    root = Path(tempfile.mkdtemp(prefix="tidelog-bench-"))
    try:
        for name, (facts, batches) in sizes.items():
            readings(root / name, facts, batches, min(DEVICES, facts // 2))
        joined = median(join(spark, root / "50,000", root / "join"))
        spark.conf.set("spark.sql.shuffle.partitions", "200")
        readings(root / "few", sizes["50,000"][0], 3, min(DEVICES, sizes["50,000"][0] // 2))
        untuned = min(join(spark, root / "few", root / "untuned"))
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        nothing = median(empty(spark, root / "1,000", root / "empty"))
        measured = {
            name: ours(spark, root / name, root / "ours" / name)
            for name in ("1,000", "50,000", "500,000", "flat")
        }
        more = [
            *cold(root, quick),
            *large_batches(spark, root, quick),
            *windows(spark, root, quick),
            *beside_flink(spark, root, quick),
        ]
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)
    seconds = {name: median(each) for name, (each, _) in measured.items()}
    middle, large = sizes["50,000"][0], sizes["500,000"][0]
    rate, joined_rate = large / seconds["500,000"], middle / joined
    every = measured["flat"][0][WARM:]
    part = max(1, len(every) // 4)
    early, late = statistics.median(every[:part]), statistics.median(every[-part:])
    flat = Result(
        "spark stream/last of 200 batches", late, "s", "the first", late / early, "<= 1.15x"
    )
    peer = "stream-stream join"
    as_it_comes = f"{peer}, 200 partitions as they come"
    return [
        faster("spark stream/50,000 facts a batch", seconds["50,000"], peer, joined, ">= 4x"),
        Result(
            "spark stream/500,000 facts a batch",
            rate,
            "facts/s",
            f"{peer} at 50,000",
            rate / joined_rate,
            ">= 40x",
        ),
        faster("spark stream/50,000, not tuned", seconds["50,000"], as_it_comes, untuned),
        cost(
            "spark stream/1,000 facts a batch",
            seconds["1,000"],
            "empty foreachBatch",
            nothing,
            "<= 1.4x",
        ),
        flat,
        Result("spark stream/state after 200 batches", float(measured["flat"][1][-1]), "bytes"),
        Result("spark stream/state at 500,000 a batch", float(measured["500,000"][1][-1]), "bytes"),
        *more,
    ]


if __name__ == "__main__":
    print_table(run(quick=False))
