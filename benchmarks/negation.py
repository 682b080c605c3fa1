"""What absence costs: beside the same rules without it, and beside SQL and Spark by hand.

The last value of sparse readings is asked for at every tick: readings are there at one tick in ten,
and the peers fill a grid of all devices and ticks with `last_value(... IGNORE NULLS)`. Timeouts run
as a stream beside a stream-stream outer join that finds the same ones.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidelog
from benchmarks.evaluate import by_hand, engine, made, timed, turbines
from benchmarks.harness import Result, best_of_each, cost, faster, print_table
from benchmarks.spark_stream import median, ours, readings, source, times
from tidelog.spark import query, session

TWICE = """
input Temp(device: text, level: text) @ time.
Twice(X) @ T :- Temp(X, high) @ T, Temp(X, high) @ T+1.
"""
ONCE = """
input Temp(device: text, level: text) @ time.
Once(X) @ T :- Temp(X, high) @ T, not Temp(X, high) @ T+1.
"""
LEVEL = """
input Read(device: int, value: int) @ time.
Level(X, V) @ T :- Read(X, V) @ T.
Level(X, V) @ T+1 :- Level(X, V) @ T, not Read(X, _) @ T+1.
"""
SILENT_FOR = 5
ABSENT = ", ".join(f"not Temp(X, high) @ T-{i}" if i else "not Temp(X, high) @ T" for i in range(5))
TIMEOUT = f"""
input Temp(device: text, level: text) @ time.
Silent(X) @ T :- Temp(X, high) @ T-{SILENT_FOR}, {ABSENT}.
output Silent.
"""


def sparse(devices: int, ticks: int) -> Path:
    """A reading of every device at about one tick in ten."""
    grid = (
        f"SELECT d, t, hash(d * 1000003 + t) AS h FROM range({ticks}) AS a(t),"
        f" range({devices}) AS b(d)"
    )
    return made(
        f"sparse-{devices}-{ticks}",
        Read="SELECT d AS device, CAST((h // 10) % 50 AS BIGINT) AS value, t AS time"
        f" FROM ({grid}) WHERE h % 10 = 0 ORDER BY t, d",
    )


def filled(devices: int, ticks: int, sequence: str, read: str, last: str) -> str:
    """How many devices and ticks have a last value."""
    return f"""SELECT count(*) FROM (
        SELECT {last} OVER (
            PARTITION BY g.device ORDER BY g.time
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS value
        FROM ({sequence.format(devices=devices, ticks=ticks)}) AS g
        LEFT JOIN {read} AS r ON r.device = g.device AND r.time = g.time) AS f
        WHERE value IS NOT NULL"""


IN_DUCKDB = (
    "SELECT d AS device, t AS time FROM range({ticks}) AS a(t), range({devices}) AS b(d)"
    " WHERE t <= (SELECT max(time) FROM read)"
)
LAST_IN_SPARK = "last_value(r.value) IGNORE NULLS"
IN_SPARK = "SELECT d.id AS device, t.id AS time FROM range({ticks}) AS t, range({devices}) AS d"


def in_process(quick: bool) -> list[Result]:
    devices, ticks, rounds = (40, 100, 1) if quick else (10_000, 1_000, 5)
    folder = turbines(devices, ticks)
    positive, negative = (
        engine(TWICE, folder, "Twice"),
        engine(ONCE, folder, "Once"),
    )
    assert positive() > 0
    by_sql = (
        "SELECT count(*) FROM {Temp} AS x WHERE level = 'high' AND NOT EXISTS (SELECT 1 FROM {Temp}"
        " AS y WHERE y.device = x.device AND y.time = x.time + 1 AND y.level = 'high')"
    )
    absent, rowwise = timed(1, negative, by_hand(folder, by_sql))
    one, other = best_of_each(rounds, positive, negative)
    target = None if quick else "<= 1.6x"
    name = "negation/one absent"
    return [
        cost(name, other, "the positive rule", one, target),
        faster(name, absent, "row-wise SQL, anti join", rowwise),
    ]


def last_values(quick: bool) -> list[Result]:
    devices, ticks, rounds = (20, 200, 1) if quick else (1_000, 100_000, 1)
    folder = sparse(devices, ticks)
    hand = by_hand(
        folder,
        "CREATE TEMP TABLE read AS FROM {Read}",
        filled(devices, ticks, IN_DUCKDB, "read", "last_value(r.value IGNORE NULLS)"),
    )
    mine, theirs = timed(rounds, engine(LEVEL, folder, "Level"), hand)
    facts = devices * ticks / 10 / 1e6
    name = f"negation/last value, {facts:g} M readings"
    return [faster(name, mine, "last_value(... IGNORE NULLS) in DuckDB", theirs)]


def last_values_on_spark(spark: SparkSession, quick: bool) -> list[Result]:
    devices, ticks, rounds = (20, 200, 1) if quick else (1_000, 10_000, 2)
    folder = sparse(devices, ticks)
    program = tidelog.parse(LEVEL)

    def mine() -> int:
        read = spark.read.parquet(str(folder / "Read.parquet"))
        return query(spark, program, "Level", {"Read": read}).count()

    def theirs() -> int:
        read = spark.read.parquet(str(folder / "Read.parquet"))
        read.createOrReplaceTempView("read")
        (last,) = spark.sql("SELECT max(time) FROM read").first() or (0,)
        grid = f"{IN_SPARK} WHERE t.id <= {last}"
        (n,) = spark.sql(filled(devices, ticks, grid, "read", LAST_IN_SPARK)).first() or (0,)
        return int(n)

    seconds, hand = timed(rounds, mine, theirs)
    name = f"negation/last value on Spark, {devices * ticks / 10 / 1e6:g} M readings"
    return [faster(name, seconds, "last_value(... IGNORE NULLS) in Spark SQL", hand)]


def outer_join(spark: SparkSession, folder: Path, out: Path) -> list[float]:
    """Timeouts as a stream-stream outer join: a reading that no later one follows in time."""
    flags = source(spark, folder).where("level = 'high'")
    timed_ = flags.withColumn("at", F.timestamp_seconds("time")).withWatermark("at", "0 seconds")
    a, b = (timed_.select(F.col("device").alias(f"d{i}"), F.col("at").alias(f"t{i}")) for i in "ab")
    within = f"da = db AND tb > ta AND tb <= ta + INTERVAL {SILENT_FOR} SECONDS"
    silent = a.join(b, F.expr(within), "leftOuter").where("db IS NULL")
    writer = silent.select("da", "ta").writeStream.format("parquet").outputMode("append")
    writer = writer.option("checkpointLocation", str(out / "checkpoint"))
    running = writer.trigger(availableNow=True).start(str(out / "answers"))
    running.awaitTermination()
    return times(running)


def streams(spark: SparkSession, root: Path, quick: bool) -> list[Result]:
    facts, batches = (5_000, 8) if quick else (50_000, 14)
    readings(root / "facts", facts, batches, min(1_000, facts // 2))
    positive = TWICE + "output Twice."
    negative = ONCE + "output Once."

    def run(name: str, rules: str) -> float:
        return median(ours(spark, root / "facts", root / name, rules)[0])

    with_, without = run("absent", negative), run("present", positive)
    silent = run("silent", TIMEOUT)
    joined = median(outer_join(spark, root / "facts", root / "outer"))
    name = f"negation/stream on Spark, {facts:,} facts a batch"
    return [
        cost(name, with_, "without negation", without, None if quick else "<= 1.5x"),
        faster("negation/timeouts on Spark", silent, "stream-stream outer join", joined),
    ]


def run(quick: bool = False) -> list[Result]:
    results = [*in_process(quick), *last_values(quick)]
    spark = session("local[2]", **{"spark.sql.shuffle.partitions": "2"})
    root = Path(tempfile.mkdtemp(prefix="tidelog-bench-"))
    try:
        results += [*last_values_on_spark(spark, quick), *streams(spark, root, quick)]
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)
    return results


if __name__ == "__main__":
    print_table(run())
