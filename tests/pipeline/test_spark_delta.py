"""From a Delta table to Delta tables, each answer once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tidelog
from tidelog.data import delta
from tidelog.errors import DataError
from tidelog.pipeline.commit import Checkpoint, Commit
from tidelog.spark import query, stream

deltalake = pytest.importorskip("deltalake")
pytestmark = pytest.mark.xdist_group("spark")

RULES = "input Temp(x: text, v: int) @ time. Hot(X) @ T :- Temp(X, V) @ T, Temp(X, V) @ T+1, V > 1."


def add(folder: Path, *ticks: int) -> None:
    n = len(ticks)
    rows = {"v": [2] * n, "time": list(ticks), "x": ["ä"] * n, "note": [None] * n}
    schema = pa.schema([("v", "int64"), ("time", "int64"), ("x", "string"), ("note", "string")])
    deltalake.write_deltalake(folder / "Temp", pa.table(rows, schema), mode="append")


def run(spark: SparkSession, folder: Path, *, close: bool = False) -> None:
    running = stream(
        spark,
        tidelog.parse(RULES),
        "Hot",
        inputs=f"delta:{folder / 'Temp'}",
        sink=f"delta:{folder / 'out'}",
        checkpoint=folder / "c",
        trigger={"availableNow": True},
    )
    running.awaitTermination()
    running.close() if close else running.stop()


def answered(folder: Path) -> list[tuple[Any, ...]]:
    rows = delta.rows_of(str(folder / "out" / "Hot")).to_pylist()
    return sorted((row["x"], row["time"]) for row in rows)


def dying(self: Checkpoint, commit: Commit) -> None:
    raise DataError("the process dies")


def dying_at_the_end(self: Checkpoint, commit: Commit) -> None:
    (dying if commit.clock.closed else WRITE)(self, commit)


WRITE = Checkpoint.write


def test_each_answer_once_from_a_table_to_a_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(tmp_path, 1, 2, 3)
    add(tmp_path, 4)
    monkeypatch.setattr(Checkpoint, "write", dying)
    with pytest.raises(DataError, match="the process dies"):
        run(spark, tmp_path)
    assert answered(tmp_path) == [("ä", 1), ("ä", 2)]
    monkeypatch.undo()
    run(spark, tmp_path)  # the batch again, which is there
    assert answered(tmp_path) == [("ä", 1), ("ä", 2)]
    add(tmp_path, 5)
    monkeypatch.setattr(Checkpoint, "write", dying_at_the_end)
    with pytest.raises(DataError, match="the process dies"):
        run(spark, tmp_path, close=True)
    monkeypatch.undo()
    # All is answered, without a commit. What was begun as the last batch is the last one.
    last = answered(tmp_path)
    assert last == [("ä", t) for t in (1, 2, 3, 4)]
    add(tmp_path, 6)
    with pytest.raises(DataError, match=r"is closed: .* and there are new facts"):
        run(spark, tmp_path)
    assert answered(tmp_path) == last


def test_a_query_on_spark_reads_a_table(spark: SparkSession, tmp_path: Path) -> None:
    """The same as in process: columns by name, from a table that had rows deleted."""
    add(tmp_path, 1, 2, 3, 7)
    deltalake.DeltaTable(tmp_path / "Temp").delete("time = 7")
    program, facts = tidelog.parse(RULES), f"delta:{tmp_path / 'Temp'}"
    wanted = program.query("Hot", facts).to_pylist()
    assert [row["time"] for row in wanted] == [1, 2]
    for given in (facts, [f"Temp={facts}"], {"Temp": facts}):
        assert query(spark, program, "Hot", given).toArrow().to_pylist() == wanted
    with pytest.raises(DataError, match="no Delta table is there"):
        query(spark, program, "Hot", f"Temp=delta:{tmp_path / 'none'}")
