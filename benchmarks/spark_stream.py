"""Streams on Spark: a batch beside a hand-written stream-stream join and an empty `foreachBatch`.

The pattern is three high readings in a row. Times are Spark's own of whole micro-batches, medians
after a warm-up. The join has as many partitions as there are cores, which is its best; as Spark
comes it has 200.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from pathlib import Path

import duckdb
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import tidelog
from benchmarks.harness import Result, cost, faster, print_table
from tidelog.spark import session, stream

RULES = """
input Temp(device: text, level: text) @ time.
Flag(X)    @ T    :- Temp(X, high) @ T.
Cool(X)    @ T+1  :- Flag(X) @ T, Flag(X) @ T+1.
Shdn(X)    @ T+1  :- Cool(X) @ T, Flag(X) @ T+1.
Malfunc(X) @ T-2  :- Shdn(X) @ T.
output Malfunc.
"""
DEVICES = 1_000
WARM = 5


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
    found = [p.durationMs for p in query.recentProgress]
    return [each["triggerExecution"] / 1000 for each in found if "addBatch" in each]


def ours(spark: SparkSession, folder: Path, out: Path) -> tuple[list[float], list[int]]:
    """Seconds and bytes of state after each batch."""
    state: list[int] = []
    running = stream(
        spark,
        tidelog.parse(RULES),
        inputs={"Temp": source(spark, folder)},
        sink=f"parquet:{out / 'answers'}",
        checkpoint=out / "checkpoint",
        trigger={"availableNow": True},
        told=lambda commit: state.append(commit.state_bytes),
    )
    running.awaitTermination()
    found = times(running.query)
    running.stop()
    return found, state


def join(spark: SparkSession, folder: Path, out: Path) -> list[float]:
    """The same pattern as a stream-stream join, with watermarks so that state is bounded."""
    flags = source(spark, folder).where("level = 'high'")
    timed = flags.withColumn("at", F.timestamp_seconds("time")).withWatermark("at", "0 seconds")
    a, b, c = (
        timed.select(F.col("device").alias(f"d{i}"), F.col("at").alias(f"t{i}")) for i in range(3)
    )
    second = "INTERVAL 1 SECOND"
    pairs = a.join(b, F.expr(f"d0 = d1 AND t1 = t0 + {second}")).select("d1", "t1")
    found = pairs.join(c, F.expr(f"d1 = d2 AND t2 = t1 + {second}"))
    writer = found.select("d2", "t2").writeStream.format("parquet").outputMode("append")
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


def median(found: list[float]) -> float:
    return statistics.median(found[min(WARM, len(found) // 2) :])


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
        found = {
            name: ours(spark, root / name, root / "ours" / name)
            for name in ("1,000", "50,000", "500,000", "flat")
        }
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)
    seconds = {name: median(each) for name, (each, _) in found.items()}
    middle, large = sizes["50,000"][0], sizes["500,000"][0]
    rate, joined_rate = large / seconds["500,000"], middle / joined
    every = found["flat"][0][WARM:]
    part = max(1, len(every) // 4)
    early, late = statistics.median(every[:part]), statistics.median(every[-part:])
    flat = Result(
        "spark stream/last of 200 batches", late, "s", "the first", late / early, "<= 1.25x"
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
            "<= 3x",
        ),
        flat,
        Result("spark stream/state after 200 batches", float(found["flat"][1][-1]), "bytes"),
        Result("spark stream/state at 500,000 a batch", float(found["500,000"][1][-1]), "bytes"),
    ]


if __name__ == "__main__":
    print_table(run(quick=False))
