"""The rules of the auctions as a stream on Spark, in several batches, and SQL over all bids."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.places import ROOT

import tidelog
from tidelog.spark import Commit, stream

pytestmark = pytest.mark.xdist_group("spark")


def test_what_is_streamed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT)
    bids, nexmark = (import_module(f"benchmarks.{name}") for name in ("_bids", "nexmark"))
    sizes = bids.Sizes(600, at_once=6, auctions=30, wanted=3, change=20, bidders=20)
    whole, parts = tmp_path / "Bid.csv", tmp_path / "facts" / "Bid"
    bids.write(sizes, whole)
    parts.mkdir(parents=True)
    header, *lines = whole.read_text().splitlines(keepends=True)
    for number in range(3):  # each 200 bids, which split a tick
        some = lines[200 * number : 200 * (number + 1)]
        part = parts / f"{number}.csv"
        part.write_text("".join([header, *some]))
        os.utime(part, (number + 1, number + 1))  # Spark takes the oldest first
    commits: list[Commit] = []
    running = stream(
        spark,
        tidelog.load(str(nexmark.RULES)),
        inputs=tmp_path / "facts",
        files_per_batch=1,
        sink=f"csv:{tmp_path / 'answers'}",
        checkpoint=tmp_path / "checkpoint",
        trigger={"availableNow": True},
        told=commits.append,
    )
    running.awaitTermination()
    running.close()
    assert [commit.late for commit in commits if commit.facts] == [0, 0, 0]
    for query in bids.SQL:
        files = f"{tmp_path / 'answers' / query}/*/*.csv"
        told = nexmark.answers(query, files, sizes.last, header=True)
        assert len(list((tmp_path / "answers" / query).iterdir())) >= 3
        nexmark.expect_same(query, told, bids.by_sql(query, whole), "SQL")
