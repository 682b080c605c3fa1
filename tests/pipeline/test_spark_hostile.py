"""Hostile messages through whole batches: each is a fact, or a dead letter, and nothing stops."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.hostile import FACTS, HOSTILE

import tidelog
from tidelog.pipeline import sites
from tidelog.spark import Commit, Running, stream
from tidelog.streaming.sinks.functions import MemorySink

pytestmark = pytest.mark.xdist_group("spark")
RULES = tidelog.parse("input E(x: text) @ at.\noutput P(x).\nP(X) @ T :- E(X) @ T.")
COLUMNS = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"
BLANK = {name for name, value in HOSTILE.items() if value is None or not value.strip()}


def _fact(x: str, time: int) -> bytes:
    return json.dumps({"predicate": "E", "x": x, "time": time}).encode()


def _write(folder: Path, messages: Sequence[Sequence[bytes | None]]) -> None:
    """Messages as Kafka's connector has them, a file for each batch."""
    folder.mkdir()
    offset = 0
    for number, values in enumerate(messages):
        n = len(values)
        table = pa.table(
            {
                "key": pa.nulls(n, pa.binary()),
                "value": pa.array(values, pa.binary()),
                "topic": pa.array(["t"] * n),
                "partition": pa.array([0] * n, pa.int32()),
                "offset": pa.array(range(offset, offset + n), pa.int64()),
                "timestamp": pa.array([0] * n, pa.timestamp("us")),
            }
        )
        offset += n
        pq.write_table(table, folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (number, number))


def _commits(point: Path) -> Iterator[Commit]:
    for path in sorted((point / "commits").glob("*.json"), key=lambda path: int(path.stem)):
        yield Commit.of({k: v for k, v in json.loads(path.read_bytes()).items() if k != "sha256"})


def _run(spark: SparkSession, folder: Path, little: int) -> tuple[Running, MemorySink]:
    frame = (
        spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(f"{folder}/facts")
    )
    sink = MemorySink()
    with patch.object(sites, "LITTLE", little):
        running = stream(
            spark,
            RULES,
            "P",
            inputs={"E": frame},
            trigger={"availableNow": True},
            sink=sink,
            checkpoint=folder / "point",
        )
        running.awaitTermination()
    return running, sink


@pytest.mark.parametrize("little", [1_000_000, pytest.param(-1, marks=pytest.mark.deep)])
def test_hostile_messages_alone_and_beside_facts(
    spark: SparkSession, tmp_path: Path, little: int
) -> None:
    alone = list(HOSTILE.values())
    beside = [*FACTS.values(), *HOSTILE.values()]
    _write(tmp_path / "facts", [[_fact("first", 0)], alone, beside, [_fact("last", 9)]])
    running, sink = _run(spark, tmp_path, little)
    commits = list(_commits(tmp_path / "point"))
    unusable = len(HOSTILE) - len(BLANK)
    assert [commit.dead + commit.late for commit in commits] == [0, unusable, unusable, 0]
    assert [commit.facts for commit in commits] == [1, 0, len(FACTS), 1]
    assert all(len(json.dumps(commit.unused)) < 10_000 for commit in commits)
    running.close()
    answers = sink.table("P")
    assert answers is not None
    assert sorted(row["x"] for row in answers.to_pylist() if row["time"] == 2) == sorted(FACTS)
    letters = _letters(tmp_path / "point")
    assert len(letters) == 2 * unusable
    assert {letter["offset"] for letter in letters if letter["offset"] <= len(alone)} == {
        1 + i for i, name in enumerate(HOSTILE) if name not in BLANK
    }


def _letters(point: Path) -> list[dict[str, Any]]:
    files = sorted((point / "dead_letters").rglob("*.json"))
    return [json.loads(line) for path in files for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("text", ["${env:HOME}", "${spark.app.name}", "${nothing}", "$"])
def test_variables_in_texts_of_rules_are_texts(spark: SparkSession, text: str) -> None:
    """A join that shares nothing is one for Spark's own engine, which knows such variables."""
    program = tidelog.parse(f'P(X, Y, "{text}") @ T :- A(X) @ T, B(Y, "{text}") @ T.')
    facts = {"A": [("a", 1)], "B": [("b", text, 1), ("c", "", 1)]}
    answers = program.query("P", facts, engine="spark")
    assert answers.to_pylist() == program.query("P", facts).to_pylist()
    assert [tuple(row.values()) for row in answers.to_pylist()] == [("a", "b", text, 1)]
