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
from tidelog.evaluation.spark.catalyst import as_a_table
from tidelog.evaluation.spark.handles import release_handles
from tidelog.pipeline import sites
from tidelog.spark import query, stream

pytestmark = pytest.mark.xdist_group("spark")

RULES = tidelog.parse(
    "input E(x: text) @ time. input N(x: text, y: text).\n"
    "P(X) @ T :- E(X) @ T, E(X) @ T+1. R(Y) @ T :- P(X) @ T, N(X, Y). R(X) @ T+1 :- R(X) @ T.\n"
)


def run(spark: SparkSession, facts: Path, mode: Any) -> list[Any]:
    """A stream in the partitions, to its end; weak references to what Spark made of it."""
    jvm: Any = spark._jvm
    with patch.object(sites, "LITTLE", -1):
        running = stream(
            spark,
            RULES,
            ["P", "R"] if mode == "offline" else ["P"],
            inputs=facts,
            mode=mode,
            emit="eager",
            trigger={"availableNow": True},
            partitions=2,
            files_per_batch=2,
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


@pytest.mark.parametrize("work", [asked, pytest.param(streamed, marks=pytest.mark.deep)])
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
        release_handles()
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
    assert store.executionsCount() == 0


def test_stored_rows_do_not_carry_the_plan_that_made_them(spark: SparkSession) -> None:
    """A chain of stages, each of which looks at the one before several times."""
    rows, stored = spark.range(3), []
    for _ in range(4):
        stored.append(rows.persist())
        table = as_a_table(stored[-1])
        assert sorted(row.id for row in table.collect()) == sorted(r.id for r in rows.collect())
        rows = table.join(table, "id").union(table.filter("id > 1")).distinct()
    assert not table._jdf.queryExecution().analyzed().children().nonEmpty()
    assert sorted(row.id for row in rows.collect()) == [0, 1, 2]
    for each in stored:
        each.unpersist()


def test_what_is_stored_for_a_query_goes_with_its_answers(spark: SparkSession) -> None:
    """Two joins that no key splits: the second looks at what the first one has stored."""
    rules = tidelog.parse(
        "input E(x: text) @ t. P(X) @ T :- E(X) @ T-1, E(_) @ T. P(X) @ T+1 :- P(X) @ T.\n"
        "Q(X) @ T :- P(X) @ T-1, P(_) @ T-3."
    )
    facts = spark.createDataFrame([("a", 0), ("b", 1)], "x string, t bigint")
    shared: Any = spark._jsparkSession.sharedState()
    gc.collect()
    release_handles()
    answers = query(spark, rules, "Q", {"E": facts}, from_=0, to=5)
    assert not shared.cacheManager().isEmpty()
    expected = [("a", 4), ("a", 5)]
    assert sorted(map(tuple, answers.collect())) == expected
    derived = answers.where("x = 'a'")
    del answers
    gc.collect()
    release_handles()
    assert shared.cacheManager().isEmpty()
    assert sorted(map(tuple, derived.collect())) == expected  # computed again
