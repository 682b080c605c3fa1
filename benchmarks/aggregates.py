"""Aggregates: beside window functions, in process and on Spark, and on a stream by their length.

Every device has a reading at every tick, so that the peers need no grid: a window function over
the rows before, or the maximum of a tick. Both sides count what they have found. The peers add
floats up one after the other; here their exact sum is rounded once, and equal facts are one. No
average comes so near to the limit that this makes a difference.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

import tidelog
from benchmarks.evaluate import by_hand, engine, made, timed
from benchmarks.harness import Result, cost, faster, print_table
from benchmarks.spark_stream import median, ours, readings
from benchmarks.windows import typical_tick
from tidelog.spark import query, session

INPUT = "input Temp(device: text, level: float) @ time.\n"
RULES = {
    "avg over 60 ticks": "P(X) @ T :- Temp(X, _) @ T, A = avg(V : Temp(X, V) @ [T-59, T]),"
    " A > 55.0001.",
    "count over 1,440 ticks": "P(X) @ T :- Temp(X, _) @ T,"
    " N = count(Temp(X, _) @ [T-1439, T]), N >= 1440.",
    "max over a group": "P(X) @ T :- Temp(X, V) @ T, V = max(W : Temp(_, W) @ T).",
}


def levels(devices: int, ticks: int) -> Path:
    """A reading of every device at every tick, with two decimals."""
    grid = (
        f"SELECT d, t, hash(d * 1000003 + t) AS h FROM range({ticks}) AS a(t),"
        f" range({devices}) AS b(d)"
    )
    return made(
        f"levels-{devices}-{ticks}",
        Temp=f"SELECT 'd' || d AS device, CAST(h % 10000 AS DOUBLE) / 100 AS level, t AS time"
        f" FROM ({grid}) ORDER BY t, d",
    )


def hand(name: str, source: str) -> str:
    """The same in SQL."""
    before = "OVER (PARTITION BY device ORDER BY time ROWS BETWEEN {} PRECEDING AND CURRENT ROW)"
    test = {
        "avg over 60 ticks": f"avg(level) {before.format(59)} > 55.0001",
        "count over 1,440 ticks": f"count(*) {before.format(1439)} >= 1440",
        "max over a group": "level = max(level) OVER (PARTITION BY time)",
    }[name]
    return f"SELECT count(*) FROM (SELECT {test} AS holds FROM {source}) AS w WHERE holds"


def in_process(quick: bool) -> list[Result]:
    folder = levels(*((20, 6_000) if quick else (1_000, 10_000)))
    results: list[Result] = []
    for name, rule in RULES.items():
        job = engine(f"{INPUT}{rule} output P.", folder, "P")
        mine, theirs = timed(1 if quick else 3, job, by_hand(folder, hand(name, "{Temp}")))
        target = None if quick else ">= 1x"
        results.append(
            faster(f"aggregates/{name}", mine, "a window function in DuckDB", theirs, target)
        )
    return results


def on_spark(spark: SparkSession, quick: bool) -> list[Result]:
    folder = levels(*((20, 6_000) if quick else (1_000, 10_000)))
    results: list[Result] = []
    for name, rule in RULES.items():
        program = tidelog.parse(f"{INPUT}{rule} output P.")

        def mine(program: tidelog.Program = program) -> int:
            temp = spark.read.parquet(str(folder / "Temp.parquet"))
            return query(spark, program, "P", {"Temp": temp}).count()

        def theirs(name: str = name) -> int:
            spark.read.parquet(str(folder / "Temp.parquet")).createOrReplaceTempView("temp")
            (n,) = spark.sql(hand(name, "temp")).first() or (0,)
            return int(n)

        seconds, by_spark = timed(1, mine, theirs)
        target = None if quick else ">= 2x"
        told = f"aggregates/{name} on Spark"
        results.append(faster(told, seconds, "a window function in Spark SQL", by_spark, target))
    return results


def counted(ticks: int) -> str:
    return (
        "input Temp(device: text, level: text) @ time.\n"
        f"P(X) @ T :- Temp(X, _) @ T, N = count(Temp(X, _) @ [T-{ticks - 1}, T]), N >= 3."
        " output P."
    )


def online(quick: bool) -> list[Result]:
    """A tick of a stream in process, by the length of the window, once it is full."""
    long, after = (200, 20) if quick else (1_000, 100)
    near, far = (typical_tick(counted(n), n, after) for n in (100, long))
    name = f"aggregates/online, a tick, count of {long:,}"
    return [cost(name, far, "a window of 100", near, None if quick else "<= 1.3x")]


def streams(spark: SparkSession, root: Path, quick: bool) -> list[Result]:
    """A batch on Spark, by the length of the window, and what is kept for it."""
    # So few devices that the batches go on for longer than the window.
    facts, batches, devices = (5_000, 10, 4) if quick else (50_000, 14, 50)
    readings(root / "facts", facts, batches, devices)
    lengths = (10, 1_000, 10_000)
    measured = {n: ours(spark, root / "facts", root / f"window-{n}", counted(n)) for n in lengths}
    shortest, longest = lengths[0], lengths[-1]
    results: list[Result] = []
    for n in lengths[1:]:
        target = "<= 1.3x" if n == longest and not quick else None
        name = f"aggregates/stream on Spark, {facts:,} facts a batch, {n:,} ticks"
        long, short = median(measured[n][0]), median(measured[shortest][0])
        results.append(cost(name, long, f"a window of {shortest}", short, target))
    for n in lengths:
        name = f"aggregates/stream on Spark, state of {n:,} ticks"
        results.append(Result(name, float(measured[n][1][-1]), "bytes"))
    return results


def run(quick: bool = False) -> list[Result]:
    results = [*in_process(quick), *online(quick)]
    spark = session("local[2]", **{"spark.sql.shuffle.partitions": "2"})
    root = Path(tempfile.mkdtemp(prefix="tidelog-bench-"))
    try:
        results += [*on_spark(spark, quick), *streams(spark, root, quick)]
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)
    return results


if __name__ == "__main__":
    print_table(run())
