"""A stream in a Spark job of one's own: stopping it, its function, its workers, its names."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import tidelog
from tidelog.errors import DataError
from tidelog.spark import Running, query, stream

pytestmark = pytest.mark.xdist_group("spark")

NOW = {"availableNow": True}
RULES = """input r(x: text, v: int) @ time.
Big(X) @ T :- r(X, V) @ T, V > 5.
Huge(X, V) @ T :- r(X, V) @ T, V > 1000.
"""


def start(spark: SparkSession, folder: Path, **options: Any) -> Running:
    """A stream over two files, each of which is a batch."""
    facts = folder / "facts" / "r"
    if not facts.exists():
        facts.mkdir(parents=True)
        (facts / "1.csv").write_text("x,v,time\na,7,0\nb,1,0\nb,8,1\n")
        (facts / "2.csv").write_text("x,v,time\na,1,3\n")
        os.utime(facts / "1.csv", (1e9, 1e9))  # Spark takes the oldest first
    words: dict[str, Any] = {"inputs": folder / "facts", "trigger": NOW, "files_per_batch": 1}
    return stream(spark, tidelog.parse(RULES), **{**words, **options})


# Stopping


@pytest.mark.parametrize("failing", [False, True])
def test_a_stop_during_a_batch_is_no_failure(
    failing: bool, spark: SparkSession, tmp_path: Path
) -> None:
    """Unless what is in the batch fails in the same moment."""
    entered = threading.Event()

    def sink(batch: int, answers: Any) -> None:
        entered.set()
        with suppress(Exception) if failing else nullcontext():
            spark.range(10**13).selectExpr("sum(hash(id))").collect()  # until it is interrupted
        raise KeyError("pager")

    running = start(spark, tmp_path, queries="Big", sink=sink)
    assert entered.wait(60)
    running.stop()
    if failing:
        assert "failed: 'pager'" in repr(running)
        with pytest.raises(KeyError, match="pager"):
            running.awaitTermination()
        return
    assert running.awaitTermination()
    assert running.query.exception() is None
    assert "has stopped" in repr(running)
    assert running.committed is None


def test_a_stop_can_finish_the_batch_at_work(spark: SparkSession, tmp_path: Path) -> None:
    """Jobs that the batch still needs are not broken off, and the next batch does not begin."""
    entered, stopping = threading.Event(), threading.Event()
    batches: list[tuple[int, int]] = []

    def sink(batch: int, answers: Any) -> None:
        entered.set()
        assert stopping.wait(60)
        time.sleep(1)  # Spark could have been told by now
        batches.append((batch, spark.range(1000).selectExpr("sum(id)").collect()[0][0]))

    running = start(spark, tmp_path, queries="Big", sink=sink, checkpoint=tmp_path / "c")
    assert entered.wait(60)
    thread = threading.Thread(target=running.stop, kwargs={"finish": True})
    thread.start()
    stopping.set()
    thread.join(60)
    assert not thread.is_alive()
    assert batches == [(0, 499_500)]
    assert running.committed is not None
    assert running.committed.batch == 0
    assert running.query.exception() is None
    assert "has stopped" in repr(running)
    again = start(spark, tmp_path, queries="Big", sink=sink, checkpoint=tmp_path / "c")
    again.awaitTermination()
    again.stop()
    assert [batch for batch, _ in batches] == [0, 1]


def test_a_batch_that_fails_while_it_is_finished_fails_the_stop(
    spark: SparkSession, tmp_path: Path
) -> None:
    entered, stopping = threading.Event(), threading.Event()

    def sink(batch: int, answers: Any) -> None:
        entered.set()
        assert stopping.wait(60)
        raise KeyError("pager")

    running = start(spark, tmp_path, queries="Big", sink=sink)
    assert entered.wait(60)
    threading.Timer(0.5, stopping.set).start()
    with pytest.raises(KeyError, match="pager"):
        running.stop(finish=True)


# A function as sink


def test_a_function_has_a_frame_for_every_query_in_every_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    calls: list[tuple[int, dict[str, list[tuple[object, ...]]]]] = []
    schemas: dict[str, set[str]] = {"Big": set(), "Huge": set()}

    def sink(batch: int, answers: Any) -> None:
        calls.append((batch, {q: sorted(map(tuple, f.collect())) for q, f in answers.items()}))
        for name, frame in answers.items():
            schemas[name].add(frame.schema.simpleString())

    running = start(spark, tmp_path, queries=["Big", "Huge"], sink=sink)
    running.awaitTermination()
    running.close()
    assert calls == [
        (0, {"Big": [("a", 0)], "Huge": []}),
        (1, {"Big": [("b", 1)], "Huge": []}),
        (2, {"Big": [], "Huge": []}),
    ]
    assert schemas == {
        "Big": {"struct<x:string,time:bigint>"},
        "Huge": {"struct<x:string,v:bigint,time:bigint>"},
    }


def test_a_function_for_foreach_batch_takes_one_query(spark: SparkSession, tmp_path: Path) -> None:
    calls: list[tuple[int, list[tuple[object, ...]]]] = []

    def save(df: DataFrame, batch_id: int) -> None:
        calls.append((batch_id, sorted(map(tuple, df.collect()))))

    with pytest.raises(DataError, match=r"answers of one query, and there are 2: Big, Huge; ask"):
        start(spark, tmp_path, queries=["Big", "Huge"], sink=save)
    running = start(spark, tmp_path, queries="Big", sink=save, intervals=True)
    running.awaitTermination()
    running.close()
    assert calls == [(0, []), (1, [("a", 0, 0), ("b", 1, 1)]), (2, [])]


# The Python of workers on this machine


def in_workers(spark: SparkSession, folder: Path) -> list[tuple[object, ...]]:
    """The answers of a query that is done in Spark's workers."""
    (folder / "r.csv").write_text("x,v,time\na,7,0\nb,1,0\n")
    program = tidelog.parse(RULES)
    answers = query(spark, program, "Big", {"r": folder / "r.csv"}, partitions=2)
    return sorted(map(tuple, answers.collect()))


def test_workers_have_the_python_of_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an environment that is not activated `python3` of the PATH is another one."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python-of-nobody")
    assert in_workers(spark, tmp_path) == [("a", 0)]
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python-of-nobody")
    running = start(spark, tmp_path, queries="Big", sink="memory")
    running.stop()
    assert spark.sparkContext.pythonExec == sys.executable


def test_another_python_for_workers_is_refused_at_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is named and lacks what tidelog needs; one that has it is left alone."""
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['duckdb'] = None")
    ways = {"bare": f'PYTHONPATH="{tmp_path}:$PYTHONPATH" ', "whole": ""}
    for name, way in ways.items():
        (tmp_path / name).write_text(f'#!/bin/sh\n{way}exec {sys.executable} "$@"\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", "named")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "bare"))
    said = r"cannot load tidelog \(.*duckdb.*\): set PYSPARK_PYTHON to .*, or leave it out"
    with pytest.raises(DataError, match=said) as error:
        in_workers(spark, tmp_path)
    assert "\n" not in str(error.value)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "whole"))
    assert in_workers(spark, tmp_path) == [("a", 0)]
    assert spark.sparkContext.pythonExec == str(tmp_path / "whole")
