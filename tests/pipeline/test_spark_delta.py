"""From a Delta table to Delta tables, each answer once."""

from __future__ import annotations

import shutil
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


def clean_up(table: Path, *versions: int) -> None:
    """As Delta does after a while: a checkpoint has what these versions of the log said."""
    deltalake.DeltaTable(table).create_checkpoint()
    for version in versions:
        (table / "_delta_log" / f"{version:020}.json").unlink()


def test_a_stream_goes_on_after_its_log_was_cleaned_up(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "Temp"
    for tick in range(12):  # after ten batches Spark keeps its own list in one file
        add(tmp_path, tick)
        if tick in (3, 11):
            run(spark, tmp_path)
    clean_up(table, *range(11))
    add(tmp_path, 12)
    run(spark, tmp_path)
    clean_up(table, 11)
    add(tmp_path, 13)
    add(tmp_path, 14)
    clean_up(table, 13)
    with pytest.raises(DataError, match=r"version 13 is gone from its log .* and was not read"):
        run(spark, tmp_path)
    kept = answered(tmp_path)
    assert kept == [("ä", t) for t in range(11)]
    with pytest.raises(DataError, match="the first versions are gone from its log"):
        stream(
            spark,
            tidelog.parse(RULES),
            "Hot",
            inputs=f"delta:{table}",
            checkpoint=tmp_path / "new",
        )


def test_another_table_in_its_place_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    for tick in range(3):
        add(tmp_path, tick)
    run(spark, tmp_path)
    shutil.rmtree(tmp_path / "Temp")
    add(tmp_path, 3)
    with pytest.raises(DataError, match="version 2 was read, and its log ends with version 0"):
        run(spark, tmp_path)


def test_a_gap_is_noticed_while_a_stream_runs(spark: SparkSession, tmp_path: Path) -> None:
    for tick in range(2):
        add(tmp_path, tick)
    running = stream(
        spark,
        tidelog.parse(RULES),
        "Hot",
        inputs=f"delta:{tmp_path / 'Temp'}",
        sink=f"delta:{tmp_path / 'out'}",
        checkpoint=tmp_path / "c",
        trigger={"processingTime": "1 second"},
    )
    running.query.processAllAvailable()
    log = tmp_path / "Temp" / "_delta_log"
    beside = tmp_path / "beside"
    shutil.copytree(tmp_path / "Temp", beside / "Temp")
    for tick in (2, 3):
        add(beside, tick)
    (log / f"{3:020}.json").write_bytes((beside / "Temp" / log.name / f"{3:020}.json").read_bytes())
    with pytest.raises(DataError, match="version 2 is gone from its log"):
        running.awaitTermination(120)
