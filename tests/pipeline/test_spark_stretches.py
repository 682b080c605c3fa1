"""Streams on Spark that tell from when to when, with a restart on the way."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle.generate import Case, programs_and_facts
from oracle.keyed import keyed
from pyspark.sql import SparkSession
from support.deep import examples
from support.spark_streams import NOW, check, check_batch
from support.spells import spells

import tidelog
from tidelog.errors import Refused
from tidelog.pipeline import sites
from tidelog.pipeline.commit import Checkpoint
from tidelog.spark import Running, query, stream
from tidelog.streaming.options import StreamMode
from tidelog.streaming.sinks.kafka import _AsMessages

pytestmark = pytest.mark.xdist_group("spark")

RULES = "input E(x: text) @ time. P(X) @ T :- E(X) @ T. Q @ T :- E(_) @ T, E(_) @ T+1."


@examples(1, deep=30)
@given(
    programs_and_facts(connected=True, max_rules=4),
    st.integers(0, 3),
    st.integers(1, 4),
    st.sampled_from(("offline", "online")),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_streams(
    spark: SparkSession,
    case: Case,
    late: int,
    partitions: int,
    mode: StreamMode,
    eager: bool,
    random: Random,
) -> None:
    chosen = random.choice((case, keyed(case, random)))
    check(spark, chosen, late, partitions, mode, eager, random, intervals=True)


@examples(1, deep=30)
@given(programs_and_facts(max_rules=4), st.integers(1, 4), st.randoms(use_true_random=False))
def test_queries(spark: SparkSession, case: Case, partitions: int, random: Random) -> None:
    check_batch(spark, keyed(case, random), partitions, random, intervals=True)


@pytest.mark.parametrize("stamped", [pytest.param(False, marks=pytest.mark.deep), True])
def test_a_query_over_many_words(spark: SparkSession, stamped: bool) -> None:
    """Stretches over several words, that end and begin at the edges of words, and of one tick."""
    ticks = [*range(-5, 200), 239, 240, 299, 300, 301, 359, 420]
    when = {"tick": "1s", "origin": "2024-01-01T00:00:00Z"} if stamped else {}
    facts = spark.createDataFrame([("a", t) for t in ticks], "x string, time bigint")
    start = 1704067200
    if stamped:
        facts = facts.selectExpr("x", f"timestamp_seconds({start} + time) AS time")
    rules = tidelog.parse("input E(x: text) @ time. P(X) @ T :- E(X) @ T. Q @ T :- E(_) @ T.")
    for asked, args in (("P", ("a",)), ("Q", ())):
        frame = query(spark, rules, asked, {"E": facts}, intervals=True, **when)
        assert frame.columns[-2:] == ["from", "to"]
        if stamped:
            frame = frame.selectExpr(
                *frame.columns[:-2],
                f"unix_timestamp(`from`) - {start}",
                f"unix_timestamp(`to`) - {start}",
            )
        ends = [(-5, 199), (239, 240), (299, 301), (359, 359), (420, 420)]
        assert sorted(tuple(row) for row in frame.collect()) == [(*args, *e) for e in ends]


class Files:
    """A stream over files that come one after the other, a batch each."""

    def __init__(self, spark: SparkSession, folder: Path, **how: Any) -> None:
        self.spark, self.folder, self.how, self.count = spark, folder, how, 0
        self.facts: set[tuple[str, int]] = set()
        (folder / "E").mkdir()

    def add(self, *facts: tuple[str, int]) -> None:
        self.facts |= set(facts)
        self.count += 1
        path = self.folder / "E" / f"{self.count}.parquet"
        names, times = zip(*facts, strict=True)
        pq.write_table(pa.table({"x": names, "time": times}), path)
        os.utime(path, (self.count, self.count))

    def run(self, *, close: bool, little: int) -> Running:
        with patch.object(sites, "LITTLE", little):
            running = stream(
                self.spark,
                tidelog.parse(RULES),
                ["P", "Q"],
                inputs={"E": self.folder / "E"},
                files_per_batch=1,
                checkpoint=self.folder / "checkpoint",
                trigger=NOW,
                **self.how,
            )
            running.awaitTermination()
            running.close() if close else running.stop()
        return running

    def want(self, *, eager: bool) -> set[tuple[Any, ...]]:
        return spells(self.facts, eager=eager)


@pytest.mark.parametrize("little", [100_000, pytest.param(-1, marks=pytest.mark.deep)])
def test_a_stretch_goes_on_after_a_restart(
    spark: SparkSession, tmp_path: Path, little: int
) -> None:
    """Across batches, words and starts, in the driver and in the partitions."""
    eager = little < 0
    emit = "eager" if eager else "definitive"
    files = Files(spark, tmp_path, intervals=True, emit=emit, sink=f"csv:{tmp_path}/out")
    files.add(*(("a", t) for t in range(130)), ("b", 3))
    running = files.run(close=False, little=little)
    assert running.committed is not None
    assert [part.folder for part in running.committed.stretches] == ["0-stretches"]
    files.add(*(("a", t) for t in range(130, 190)), ("b", 195), ("", 196))
    full = patch.object(Checkpoint, "write", side_effect=OSError("no space"))
    with full, pytest.raises(OSError, match="no space"):  # all was written but the commit
        files.run(close=False, little=little)
    files.run(close=True, little=100_000 - little - 1)
    told = []
    for path in sorted(tmp_path.glob("out/P/batch=*/*.csv")):
        with path.open() as lines:
            told += [(r["x"], r["from"], r["to"]) for r in csv.DictReader(lines)]
    want = {(x, str(f), "" if t is None else str(t)) for x, f, t in files.want(eager=eager)}
    assert sorted(told) == sorted(want)


def test_a_checkpoint_without_intervals_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(spark, tmp_path, sink=f"csv:{tmp_path}/out")
    files.add(("a", 1))
    files.run(close=False, little=100_000)
    files.how["intervals"] = True
    with pytest.raises(Refused, match="intervals is true and was false"):
        files.run(close=True, little=100_000)


def test_a_beginning_is_sent_before_its_end() -> None:
    """What puts messages in order: the query, the first tick, beginnings, the key."""
    rows = pa.table({"x": ["b", "a", "a"], "from": [3, 3, 3], "to": [7, 7, None]})
    messages = _AsMessages("P", 0).messages(rows).to_pylist()
    order = sorted(messages, key=lambda m: (m["q"], m["t"], m["ended"], m["key"]))
    assert [m["key"] for m in order] == [
        '["P", "a", 3, null]',
        '["P", "a", 3, 7]',
        '["P", "b", 3, 7]',
    ]
