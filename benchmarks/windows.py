"""Windows over time: beside one another, beside window functions, and on a stream by their length.

Every device has a reading at every tick, so that the peers need no grid: `max`, `min` and `sum`
over the rows before. Both sides count what they have found.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import perf_counter

from pyspark.sql import SparkSession

import tidelog
from benchmarks.evaluate import by_hand, engine, made, timed
from benchmarks.harness import Result, best_of_each, cost, faster, print_table
from benchmarks.spark_stream import median, ours, readings
from benchmarks.streams import percentile
from tidelog.spark import query, session

INPUT = "input Temp(device: text, level: text) @ time.\n"
LENGTHS = (5, 60, 1_440)
COUNTED = "at least 3"


def spells(devices: int, ticks: int) -> Path:
    """A reading of every device at every tick, high for long spells with a drop now and then."""
    grid = (
        f"SELECT d, t, hash(d * 1000003 + t // 2000) AS spell, hash(d * 1000003 + t) AS h"
        f" FROM range({ticks}) AS a(t), range({devices}) AS b(d)"
    )
    level = "CASE WHEN spell % 10 < 6 AND h % 1000 > 0 THEN 'high' ELSE 'low' END"
    return made(
        f"spells-{devices}-{ticks}",
        Temp=f"SELECT 'd' || d AS device, {level} AS level, t AS time FROM ({grid}) ORDER BY t, d",
    )


def rule(words: str, ticks: int) -> str:
    return f"{INPUT}P(X) @ T :- {words} Temp(X, high) @ [T-{ticks - 1}, T]. output P."


def hand(words: str, ticks: int, source: str) -> str:
    """The same with a window function; a stretch at the start is not whole."""
    there = "CASE WHEN level = 'high' THEN 1 ELSE 0 END"
    test = {"some": "max({}) {} = 1", "always": "sum({}) {} = {}", COUNTED: "sum({}) {} >= 3"}[
        words
    ]
    over = (
        "OVER (PARTITION BY device ORDER BY time"
        f" ROWS BETWEEN {ticks - 1} PRECEDING AND CURRENT ROW)"
    )
    return (
        "SELECT count(*) FROM (SELECT"
        f" {test.format(there, over, ticks)} AS holds FROM {source}) AS w WHERE holds"
    )


def in_process(quick: bool) -> list[Result]:
    devices, ticks, rounds = (20, 6_000, 1) if quick else (1_000, 10_000, 3)
    folder = spells(devices, ticks)
    results: list[Result] = []
    for words in ("some", "always"):
        jobs = [engine(rule(words, n), folder, "P") for n in LENGTHS]
        seconds = best_of_each(rounds, *jobs)
        name = f"windows/{words}, 5 to 1,440 ticks, the slowest"
        target = None if quick else "<= 2x"
        slowest = cost(name, max(seconds), "the fastest of them", min(seconds), target)
        results.append(slowest)
    for words, n in (("some", 60), ("always", 60), (COUNTED, 60), ("always", 1_440)):
        job = engine(rule(words, n), folder, "P")
        mine, theirs = timed(1, job, by_hand(folder, hand(words, n, "{Temp}")))
        target = None if quick else ">= 3x"
        name = f"windows/{words} of {n} ticks"
        results.append(faster(name, mine, "a window function in DuckDB", theirs, target))
    return results


def on_spark(spark: SparkSession, quick: bool) -> list[Result]:
    devices, ticks = (20, 6_000) if quick else (1_000, 10_000)
    folder = spells(devices, ticks)
    results: list[Result] = []
    for words in ("some", "always", COUNTED):
        program = tidelog.parse(rule(words, 60))

        def mine(program: tidelog.Program = program) -> int:
            temp = spark.read.parquet(str(folder / "Temp.parquet"))
            return query(spark, program, "P", {"Temp": temp}).count()

        def theirs(words: str = words) -> int:
            spark.read.parquet(str(folder / "Temp.parquet")).createOrReplaceTempView("temp")
            (n,) = spark.sql(hand(words, 60, "temp")).first() or (0,)
            return int(n)

        seconds, by_spark = timed(1, mine, theirs)
        name = f"windows/{words} of 60 ticks on Spark"
        target = None if quick else ">= 3x"
        results.append(faster(name, seconds, "a window function in Spark SQL", by_spark, target))
    return results


def streams(spark: SparkSession, root: Path, quick: bool) -> list[Result]:
    # So few devices that the batches go on for longer than the window.
    facts, batches, devices = (5_000, 10, 4) if quick else (50_000, 14, 50)
    readings(root / "facts", facts, batches, devices)

    def run(ticks: int, turn: int) -> float:
        rules = rule("some", ticks)
        return median(ours(spark, root / "facts", root / f"window-{ticks}-{turn}", rules)[0])

    # In turns: Spark's process gets faster as it goes on, and a median still varies by a tenth.
    turns = range(1 if quick else 3)
    both = [(run(10_000, turn), run(10, turn)) for turn in turns]
    long, short = (min(seconds) for seconds in zip(*both, strict=True))
    name = f"windows/stream on Spark, {facts:,} facts a batch, 10,000 ticks"
    return [cost(name, long, "a window of 10", short, None if quick else "<= 1.3x")]


def online(quick: bool) -> Iterator[Result]:
    """A tick costs the same however long the window is, once it is full: up to now and to come,
    alone and where a rule has another atom, its anchor, that few devices have at a tick.
    """
    long, after = (200, 20) if quick else (1_000, 200)
    target = None if quick else "<= 1.3x"
    for where, interval in (("up to now", "[T-{}, T]"), ("to come", "[T+1, T+{}]")):
        for words in ("some", "always", COUNTED):
            window = f"{words} Temp(X, high) @ {interval}"
            for anchor, body in (
                ("", window),
                (" and an anchor", f"Check(X) @ T, {window}"),
                (" not, and an anchor", f"Check(X) @ T, not {window}"),
            ):
                near, far = (typical_tick(asked(body.format(n)), n, after) for n in (10, long))
                name = f"windows/online, a tick, {words} of {long:,} {where}{anchor}"
                yield cost(name, far, "a window of 10", near, target)


def asked(body: str) -> str:
    checks = "input Check(device: text) @ time.\n" if "Check" in body else ""
    return f"{INPUT}{checks}P(X) @ T :- {body}. output P."


def typical_tick(rules: str, length: int, ticks: int) -> float:
    """The median of the seconds of some ticks, once ticks before have filled the window."""
    stream = tidelog.Stream(tidelog.parse(rules), ["P"], mode="online")
    random, start = Random(1), 2 * length

    def levels(tick: int) -> list[tuple[str | int, ...]]:
        """Five devices that are high at all times, and five that are at half of them."""
        high = [d < 5 or random.random() < 0.5 for d in range(10)]
        return [(f"device{d}", "high" if h else "low", tick) for d, h in enumerate(high)]

    seconds = []
    for tick in range(start + ticks):
        facts: dict[str, list[tuple[str | int, ...]]] = {"Temp": levels(tick)}
        if "Check" in rules:
            facts["Check"] = [(f"device{d}", tick) for d in range(10) if random.random() < 0.1]
        before = perf_counter()
        stream.push(tick, facts)
        seconds.append(perf_counter() - before)
    return percentile(seconds[start:], 0.5)


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
