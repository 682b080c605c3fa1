"""The batch query on Spark, from Parquet files to a count, against the same in Spark SQL by hand.

The peers are self-joins on time and a window with `lead`; the faster one is the peer of the target,
and both must find as many answers. What Spark takes to look at all rows and do nothing with them is
the measure of both ways: tasks that read the files, and Catalyst over a DataFrame that is cached.
Sessions have as many partitions as cores.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

import tidelog
from benchmarks.evaluate import TURBINES, turbines
from benchmarks.harness import Result, best_of_each, cost, faster, print_table
from tidelog.spark import query, session

# As in `evaluate`, where DuckDB runs the same two.
FLAGS = "WITH flag AS (SELECT device, time FROM temp WHERE level IN ('high', 'na'))"
SELF_JOIN = (
    f"{FLAGS} SELECT x.device, x.time FROM flag AS x"
    " JOIN flag AS y ON y.device = x.device AND y.time = x.time + 1"
    " JOIN flag AS z ON z.device = x.device AND z.time = x.time + 2"
)
# Right as long as no reading is repeated.
WINDOWS = (
    f"{FLAGS} SELECT device, time FROM (SELECT device, time, lead(time, 1) OVER w AS next,"
    " lead(time, 2) OVER w AS third FROM flag WINDOW w AS (PARTITION BY device ORDER BY time))"
    " WHERE next = time + 1 AND third = time + 2"
)


def by_hand(spark: SparkSession, folder: Path, sql: str) -> Callable[[], int]:
    def job() -> int:
        spark.read.parquet(str(folder / "Temp.parquet")).createOrReplaceTempView("temp")
        return spark.sql(sql).count()

    return job


def ours(spark: SparkSession, folder: Path, asked: str) -> Callable[[], int]:
    program = tidelog.parse(TURBINES)

    def job() -> int:
        temp = spark.read.parquet(str(folder / "Temp.parquet"))
        near = spark.read.parquet(str(folder / "Near.parquet"))
        return query(spark, program, asked, {"Temp": temp, "Near": near}).count()

    return job


def bare_scan(spark: SparkSession, folder: Path) -> Callable[[], None]:
    """All rows of the file, for nobody."""

    def job() -> None:
        temp = spark.read.parquet(str(folder / "Temp.parquet"))
        temp.write.format("noop").mode("overwrite").save()

    return job


def cached(spark: SparkSession, folder: Path) -> Callable[[], int]:
    """The same query over a DataFrame that Spark has in memory."""
    program = tidelog.parse(TURBINES)
    # Not the very rows of the file: Spark would take the bare scan from memory, too.
    temp = spark.read.parquet(str(folder / "Temp.parquet")).where("time >= 0").cache()
    near = spark.read.parquet(str(folder / "Near.parquet"))
    return lambda: query(spark, program, "Malfunc", {"Temp": temp, "Near": near}).count()


def started(cores: int) -> SparkSession:
    return session(f"local[{cores}]", **{"spark.sql.shuffle.partitions": str(cores)})


def run(quick: bool = False) -> list[Result]:
    devices, ticks, rounds = (200, 100, 1) if quick else (10_000, 1_000, 3)
    folder = turbines(devices, ticks)

    def target(text: str) -> str | None:
        return None if quick else text

    spark = started(1)
    try:
        alone = ours(spark, folder, "Malfunc")
        alone()
        (one,) = best_of_each(rounds, alone)
    finally:
        spark.stop()
    spark = started(2)
    try:
        jobs = {
            "malfunc": ours(spark, folder, "Malfunc"),
            "self-joins": by_hand(spark, folder, SELF_JOIN),
            "windows": by_hand(spark, folder, WINDOWS),
        }
        counts = [job() for job in jobs.values()]
        assert counts[0] > 0
        assert len(set(counts)) == 1, counts
        both, joins, windows = best_of_each(rounds, *jobs.values())
        recursive = ours(spark, folder, "AtRisk")
        assert recursive() > 0
        again, recursion = best_of_each(rounds, jobs["malfunc"], recursive)
        scan = bare_scan(spark, folder)
        scan()
        scanned, read = best_of_each(rounds, scan, jobs["malfunc"])
        by_catalyst = cached(spark, folder)
        assert by_catalyst() == counts[0]
        scanned_again, from_memory = best_of_each(rounds, scan, by_catalyst)
    finally:
        spark.stop()
    peers = {"Spark SQL, self-joins": joins, "Spark SQL, windows": windows}
    best = min(peers, key=lambda name: peers[name])
    against_sql = [
        faster(
            "spark batch/malfunc", both, peer, seconds, target(">= 3x") if peer == best else None
        )
        for peer, seconds in peers.items()
    ]
    return [
        *against_sql,
        cost("spark batch/malfunc", read, "a bare scan", scanned, target("<= 1.3x")),
        cost(
            "spark batch/malfunc, cached DataFrame",
            from_memory,
            "a bare scan",
            scanned_again,
            target("<= 2.5x"),
        ),
        cost("spark batch/at risk", recursion, "spark batch/malfunc", again, target("<= 2x")),
        faster("spark batch/malfunc, 2 cores", both, "1 core", one),
        Result("spark batch/malfunc, facts", devices * ticks / both, "facts/s"),
    ]


if __name__ == "__main__":
    print_table(run())
