"""Batches on a local disk: what it costs that everything is durable before a commit.

Beside each stream runs the same one as it was before that: only the files that this process wrote
were waited for, neither folders nor what Spark writes. Batches of both take turns.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

from pyspark.sql import SparkSession

import tidelog
from benchmarks.harness import Result, cost
from tidelog.data.durable import Machine
from tidelog.pipeline import sites
from tidelog.pipeline.spark_log import SparkLogs
from tidelog.spark import Running, session, stream

RULES = "input E(x: text) @ time. P(X) @ T :- E(X) @ T, E(X) @ T+1."


@contextmanager
def without_folders() -> Iterator[None]:
    """Wait for no folder, and for nothing that Spark has written."""

    def nothing(*_: object) -> None:
        return

    with ExitStack() as stack:
        for name in ("sync_folder", "sync_tree"):
            stack.enter_context(patch.object(Machine, name, nothing))
        stack.enter_context(patch.object(SparkLogs, "sync", nothing))
        yield


@contextmanager
def counted() -> Iterator[list[int]]:
    """How often the disk is waited for."""
    calls, sync = [0], os.fsync

    def counting(number: int) -> None:
        calls[0] += 1
        sync(number)

    with patch.object(os, "fsync", counting):
        yield calls


def start(spark: SparkSession, folder: Path, sink: str) -> Running:
    (folder / "facts" / "E").mkdir(parents=True)
    return stream(
        spark,
        tidelog.parse(RULES),
        inputs=folder / "facts",
        sink=f"{sink}:{folder / 'out'}",
        checkpoint=folder / "checkpoint",
        trigger={"processingTime": "0 seconds"},
        partitions=2,
    )


def add(folder: Path, number: int, rows: int) -> None:
    """A file of the facts of a tick, there at once."""
    part = folder / f"{number}.part"
    part.write_text("x,time\n" + "".join(f"x{i},{number}\n" for i in range(rows)))
    part.rename(folder / "facts" / "E" / f"{number}.csv")


def batch(running: Running, folder: Path, number: int, rows: int) -> float:
    """The seconds from a file to the commit of its batch."""
    commit = folder / "checkpoint" / "commits" / f"{number}.json"
    began = time.perf_counter()
    add(folder, number, rows)
    while not commit.exists():
        if not running.query.isActive:
            raise RuntimeError("the stream has ended")
        time.sleep(0.001)
    return time.perf_counter() - began


def compare(
    spark: SparkSession, root: Path, sink: str, little: int, batches: int
) -> Iterator[Result]:
    """Batches of two streams in turns: each waits for the other."""
    folders = [root / "durable", root / "before"]
    seconds: list[list[float]] = [[], []]
    calls = [0, 0]
    with patch.object(sites, "LITTLE", little):
        streams = []
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
            streams.append(start(spark, folder, sink))
        try:
            for number in range(batches):
                for way, (running, folder) in enumerate(zip(streams, folders, strict=True)):
                    with counted() as count, ExitStack() as stack:
                        if way:
                            stack.enter_context(without_folders())
                        seconds[way].append(batch(running, folder, number, 1000))
                        calls[way] += count[0]
        finally:
            for running in streams:
                running.stop()
    place = "partitions" if little < 0 else "driver"
    after, before = (statistics.median(some[2:]) for some in seconds)
    name = f"durable/{place}/{sink}"
    yield cost(name, after, "files of the driver only", before, "<= 1.15x")
    for way, said in enumerate(("", " before")):
        yield Result(f"{name} fsync a batch{said}", calls[way] / batches, "calls")


def run(quick: bool) -> list[Result]:
    spark = session("local[2]")
    found: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        for sink, little in (("csv", sites.LITTLE), ("jsonl", sites.LITTLE), ("parquet", -1)):
            found += compare(spark, Path(folder), sink, little, 5 if quick else 40)
    return found
