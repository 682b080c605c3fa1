"""Auctions, after queries 5 and 6 of Nexmark: a stream on Spark and a query in process, and Flink.

The rules are those of `examples/auctions`: the auctions with the most bids in ten ticks, at every
tick; the average price of an auction in the last ten ticks; the average of a bidder's last ten
bids. Flink SQL says them as hopping windows joined with their maximum, and as averages over a RANGE
and over ROWS. Both read the same rows in CSV, and SQL in DuckDB reads them, too.

Answers are compared as sets, and numbers exactly; where they differ there is no figure. Without
PyFlink (TIDELOG_FLINK or build/flink-venv, `make bench-flink`) Flink is left out.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
from pyspark.sql import SparkSession

import tidelog
from benchmarks import _bids
from benchmarks.harness import Result, best_of_each, console, faster, print_table
from benchmarks.spark_stream import ROOT, flink_python, in_flink, in_one_go
from tidelog.spark import session

RULES = ROOT / "examples" / "auctions" / "rules.tdl"
NAMES = {
    "Hot": "hot items",
    "Recent": "average of ten ticks",
    "LastTen": "average of ten bids",
}


def expect_same(name: str, ours: pa.Table, theirs: pa.Table, peer: str) -> None:
    """End with a sentence unless two tables hold the same rows, each any number of times."""
    ours, theirs = (table.rename_columns(["of", "value", "time"]) for table in (ours, theirs))
    sides = {"the rules": ours, peer: theirs}
    for who, other in (("the rules", peer), (peer, "the rules")):
        with duckdb.connect() as connection:
            connection.register("here", sides[who])
            connection.register("there", sides[other])
            alone = connection.sql("FROM here EXCEPT FROM there ORDER BY ALL").fetchall()
        if alone:
            raise SystemExit(
                f"{name}: {len(alone):,} answers of {who} are not among those of {other},"
                f" {alone[0]} the first of them; nothing is compared until they agree"
            )


def answers(query: str, files: str, last: int, *, header: bool) -> pa.Table:
    """Answers in CSV, up to the last tick."""
    value = "BIGINT" if query == "Hot" else "DOUBLE"
    columns = f"{{'of': 'BIGINT', 'value': '{value}', 'time': 'BIGINT'}}"
    read = f"read_csv('{files}', header = {header}, columns = {columns}, hive_partitioning = false)"
    with duckdb.connect() as connection:
        return connection.sql(f"FROM {read} WHERE time <= {last}").to_arrow_table()


def compared(
    spark: SparkSession, flink: Path | None, root: Path, sizes: _bids.Sizes, query: str, rounds: int
) -> Iterator[Result]:
    """One query, by everyone."""
    program = tidelog.load(str(RULES))
    facts, bare, out = root / "facts", root / "bare", root / query
    name, sql = f"nexmark/{NAMES[query]}, {sizes.bids:,} bids", "SQL in DuckDB"
    tables: dict[str, pa.Table] = {}

    def in_process() -> None:
        tables["ours"] = program.query(query, str(facts))

    def by_sql() -> None:
        tables[sql] = _bids.by_sql(query, facts / "Bid.csv")

    here, by_hand = best_of_each(rounds, in_process, by_sql)
    expect_same(name, tables["ours"], tables[sql], sql)
    there = min(in_one_go(spark, facts, out / str(n), program, query)[0] for n in range(rounds + 1))
    written = f"{out / str(rounds)}/answers/{query}/*/*.csv"
    expect_same(
        f"{name}, Spark", answers(query, written, sizes.last, header=True), tables[sql], sql
    )
    yield Result(f"{name}, answers", tables["ours"].num_rows, "answers")
    if flink is None:
        yield Result(f"{name}, stream on Spark", there)
    else:
        theirs, _ = in_flink(flink, query, bare, out / "flink", rounds=rounds + 1)
        table = answers(query, f"{out / 'flink' / str(rounds)}/part-*", sizes.last, header=False)
        expect_same(name, tables["ours"], table, "Flink SQL")
        yield faster(f"{name}, stream on Spark", there, "Flink SQL", theirs)
        yield faster(f"{name}, in process", here, "Flink SQL", theirs)
    yield faster(f"{name}, in process", here, sql, by_hand)


def run(quick: bool) -> list[Result]:
    sizes, rounds = (_bids.Sizes(20_000), 1) if quick else (_bids.Sizes(500_000), 2)
    flink = flink_python()
    if flink is None:
        console().print("Flink is left out: PyFlink is not installed; `make bench-flink` does it")
    spark = session("local[2]", **{"spark.sql.shuffle.partitions": "2"})
    root = Path(tempfile.mkdtemp(prefix="tidelog-bench-"))
    try:
        for place in ("facts", "bare"):
            (root / place).mkdir()
        _bids.write(sizes, root / "facts" / "Bid.csv", root / "bare" / "Bid.csv")
        return [r for query in NAMES for r in compared(spark, flink, root, sizes, query, rounds)]
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    print_table(run(quick=False))
