"""Bids for `nexmark`: generated, always the same ones, and what SQL in DuckDB says about them.

Half of the bids go to a few auctions that everybody wants, and these change with time. Nobody bids
twice in a tick, so that all bids differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from pathlib import Path

import duckdb
import pyarrow as pa

# Flink's windows and joins are kept away from time 0.
FIRST = 1_000
# Bidders of a tick are so far apart, which makes them differ.
_APART = 7_919


@dataclass(frozen=True)
class Sizes:
    """How many bids there are, at a tick, and among whom."""

    bids: int
    at_once: int = 500
    auctions: int = 2_000
    wanted: int = 20
    change: int = 100  # ticks after which others are wanted
    bidders: int = 5_000

    def __post_init__(self) -> None:
        if self.at_once > self.bidders or gcd(self.bidders, _APART) != 1:
            raise ValueError(f"{self.bidders} bidders cannot all differ, {self.at_once} at a tick")

    @property
    def last(self) -> int:
        """The tick of the last bid."""
        return FIRST + (self.bids - 1) // self.at_once


def write(sizes: Sizes, *files: Path) -> None:
    """Bids in the order of time, as CSV: with a header in the first file, without it in others."""
    numbered = (
        f"SELECT i % {sizes.at_once} AS n, i // {sizes.at_once} AS k, hash(i) AS h"
        f" FROM range({sizes.bids}) AS r(i)"
    )
    some = f"(h // 2 % {sizes.wanted} + {sizes.wanted} * (k // {sizes.change}))"
    anyone = f"hash(k) % {sizes.bidders} + n * {_APART}"
    select = f"""SELECT
        CASE WHEN h % 2 = 0 THEN {some} ELSE h // 2 END % {sizes.auctions} AS auction,
        ({anyone}) % {sizes.bidders} AS bidder,
        CAST(100 * pow(10, hash(h) % 1000000 / 250000) AS BIGINT) AS price,
        {FIRST} + k AS time
        FROM ({numbered})"""
    with duckdb.connect() as connection:
        for number, file in enumerate(files):
            header = "true" if number == 0 else "false"
            connection.execute(f"COPY ({select}) TO '{file}' (FORMAT csv, HEADER {header})")


# Each query by itself, over all bids. Prices are whole numbers and their sums far below 2^53, so
# that an average is the same number whoever adds up, and in whatever order.
_AVERAGE = "SELECT DISTINCT {by}, avg(price) OVER (PARTITION BY {by} ORDER BY time {frame}), time"
SQL = {
    "Hot": """
        SELECT auction, n, time FROM (
            SELECT auction, time + ago AS time, count(*) AS n FROM bids, range(10) AS r(ago)
            WHERE time + ago <= (SELECT max(time) FROM bids) GROUP BY ALL)
        QUALIFY n = max(n) OVER (PARTITION BY time)""",
    "Recent": _AVERAGE.format(by="auction", frame="RANGE BETWEEN 9 PRECEDING AND CURRENT ROW")
    + " FROM bids",
    "LastTen": _AVERAGE.format(by="bidder", frame="ROWS BETWEEN 9 PRECEDING AND CURRENT ROW")
    + " FROM bids",
}


def by_sql(query: str, file: Path) -> pa.Table:
    """The answers to a query, from a file with a header."""
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(f"CREATE TABLE bids AS FROM read_csv('{file}')")
        return connection.sql(SQL[query]).to_arrow_table()
