"""What a stream used of Spark's memory is released when it ends."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from py4j.finalizer import ThreadSafeFinalizer
from pyspark.sql import SparkSession

import tidelog
from tidelog.evaluation.spark import handles
from tidelog.pipeline import loop
from tidelog.spark import query, stream

pytestmark = pytest.mark.xdist_group("spark")

RULES = tidelog.parse(
    "input E(x: text) @ time. input N(x: text, y: text).\n"
    "P(X) @ T :- E(X) @ T, E(X) @ T+1. R(Y) @ T :- P(X) @ T, N(X, Y). R(X) @ T+1 :- R(X) @ T.\n"
)


def run(spark: SparkSession, facts: Path, mode: Any) -> list[Any]:
    """A stream in the partitions, to its end; weak references to what Spark made of it."""
    jvm: Any = spark._jvm
    with patch.object(loop, "LITTLE", -1):
        running = stream(
            spark,
            RULES,
            ["P", "R"] if mode == "offline" else ["P"],
            inputs=facts,
            mode=mode,
            emit="eager",
            trigger={"availableNow": True},
            partitions=2,
            files_per_batch=1,
        )
        made = running.query._jsq
        session = made.sparkSession()
        weak = [jvm.java.lang.ref.WeakReference(each) for each in (made, session)]
        running.awaitTermination()
        running.close()
    assert running.answers["P"].num_rows == 3
    # The session of the caller is not the stream's.
    return weak if not session.equals(spark._jsparkSession) else weak[:1]


def held(spark: SparkSession) -> dict[str, int]:
    """What Spark keeps for those that use it."""
    context: Any = spark.sparkContext._jsc
    gateway: Any = spark.sparkContext._gateway
    shared = spark._jsparkSession.sharedState()
    return {
        "caches": int(not shared.cacheManager().isEmpty()),
        "stored": context.getPersistentRDDs().size(),
        "listeners": context.sc().listenerBus().listeners().size(),
        "called": len(gateway.gateway_property.pool),
        "running": shared.activeStreamingQueries().size(),
    }


def folder_of_facts(folder: Path) -> Path:
    """Four facts in two files, and one pair."""
    (folder / "E").mkdir()
    (folder / "N.csv").write_text("x,y\na,b\n")
    for number in range(2):
        rows = "".join(f"a,{2 * number + i}\n" for i in range(2))
        (folder / "E" / f"{number}.csv").write_text(f"x,time\n{rows}")
    return folder


def asked(spark: SparkSession, facts: Path) -> None:
    inputs = {"E": spark.createDataFrame([("a", 0), ("a", 1)], "x string, time bigint"), "N": []}
    assert query(spark, RULES, "P", inputs, from_=0, to=3).count() == 1


def streamed(spark: SparkSession, facts: Path) -> None:
    run(spark, facts, "offline")


@pytest.mark.parametrize("work", [asked, streamed])
def test_java_objects_are_let_go_also_where_python_does_not_look_for_cycles(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[SparkSession, Path], None],
) -> None:
    """As in a large program, where the search for cycles comes late."""
    folder_of_facts(tmp_path)
    monkeypatch.setattr(handles, "MANY", 400)
    monkeypatch.setattr(handles, "_left", 0)
    work(spark, tmp_path)
    gc.collect()
    gc.disable()
    try:
        after = []
        for _ in range(5):
            work(spark, tmp_path)
            after.append(len(ThreadSafeFinalizer.finalizers))
    finally:
        gc.enable()
    # What stays is what is left since the last search, not a share of every query or stream.
    assert max(after) < 3 * after[0]


@pytest.mark.parametrize("mode", ["offline", pytest.param("online", marks=pytest.mark.deep)])
def test_nothing_of_a_stream_stays(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    folder_of_facts(tmp_path)
    run(spark, tmp_path, mode)  # what is made once for all streams
    before = held(spark)
    weak = run(spark, tmp_path, mode)
    # What leaks stays for ever; what is only slow to go, on a busy machine, is waited for. Python
    # lets go first, Spark a little later, in threads of its own.
    end = time.monotonic() + 120
    while True:
        gc.collect()
        jvm: Any = spark._jvm
        jvm.System.gc()
        left = [ref for ref in weak if ref.get() is not None]
        after = held(spark)
        kept = {name: n for name, n in after.items() if n > before[name]}
        stored = after["caches"] + after["stored"] + after["running"]
        if not (left or kept or stored) or time.monotonic() > end:
            break
        time.sleep(0.2)
    assert not left, f"{len(left)} of {len(weak)} are held"
    assert not kept
    assert not stored


def test_plans_of_what_was_run_are_not_kept(spark: SparkSession) -> None:
    for _ in range(15):
        spark.range(1).count()
    store: Any = spark._jsparkSession.sharedState().statusStore()
    end = time.monotonic() + 10
    while store.executionsCount() > 12 and time.monotonic() < end:
        time.sleep(0.1)
    assert store.executionsCount() <= 12
