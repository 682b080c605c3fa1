"""Delta tables as facts and as what batches are added to, each once."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import tidelog
from tidelog.data import delta
from tidelog.errors import DataError
from tidelog.streaming.sinks.delta import DeltaSink
from tidelog.streaming.sinks.sink import LocalAnswers

deltalake = pytest.importorskip("deltalake")

RULES = "input Temp(x: text, v: int) @ time. Hot(X) @ T :- Temp(X, V) @ T, V > 10."
FACTS = pa.table({"time": [1, 2], "v": [20, 5], "note": ["-", "-"], "x": ["a", "b"]})


def test_a_query_reads_a_table_by_the_names_of_its_columns(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path / "Temp", FACTS)
    deltalake.write_deltalake(tmp_path / "Temp", FACTS.slice(1), mode="append")
    program = tidelog.parse(RULES)
    hot = [{"x": "a", "time": 1}]
    assert program.query("Hot", f"delta:{tmp_path}/Temp").to_pylist() == hot
    assert program.query("Hot", f"Temp=delta:{tmp_path}/Temp").to_pylist() == hot
    assert program.query("Hot", {"Temp": f"delta:{tmp_path}/Temp"}).to_pylist() == hot
    # What is deleted is gone, though its file is still there.
    deltalake.DeltaTable(tmp_path / "Temp").delete("x = 'a'")
    assert program.query("Hot", f"delta:{tmp_path}/Temp").to_pylist() == []
    with pytest.raises(DataError, match=r"none: no Delta table is there"):
        program.query("Hot", f"Temp=delta:{tmp_path}/none")


def test_a_batch_that_is_done_again_is_left_out(tmp_path: Path) -> None:
    def write(batch: int, *rows: int) -> None:
        sink = DeltaSink(str(tmp_path / "out"))
        sink.check("s", fresh=not rows)
        sink.mark("s")
        sink.write(batch, {"Hot": LocalAnswers(pa.table({"time": list(rows)}))})

    write(0, 1, 2)
    write(0, 1, 2)
    write(3, 5)
    deltalake.write_deltalake(tmp_path / "out" / "Hot", pa.table({"time": [7]}), mode="append")
    write(3, 5)
    write(4, 9)
    rows = delta.rows_of(str(tmp_path / "out" / "Hot")).column("time").to_pylist()
    assert sorted(rows) == [1, 2, 5, 7, 9]
    table = deltalake.DeltaTable(tmp_path / "out" / "Hot")
    assert table.transaction_version("tidelog-s") == 4
    sink = DeltaSink(str(tmp_path / "out"))
    with pytest.raises(DataError, match="cannot be written"):
        sink.write(5, {"Hot": LocalAnswers(pa.table({"other": ["x"]}))})


def test_a_stream_follows_what_is_added_and_nothing_else(tmp_path: Path) -> None:
    root = tmp_path / "Temp"
    with pytest.raises(DataError, match="no Delta table is there"):
        delta.check_log(root)
    deltalake.write_deltalake(root, FACTS)
    delta.check_log(root)
    (file,) = delta.added(root)
    assert file.exists()
    deltalake.DeltaTable(root).delete("x = 'a'")
    with pytest.raises(DataError, match=r"version 1 removes rows, and a stream takes added ones"):
        delta.added(root)
    (root / "_delta_log" / f"{0:020}.json").unlink()
    with pytest.raises(DataError, match="the first versions are gone from its log"):
        delta.check_log(root)
    parted = tmp_path / "parted"
    deltalake.write_deltalake(parted, FACTS, partition_by=["x"])
    with pytest.raises(DataError, match="version 0 is partitioned by x"):
        delta.added(parted)
    entry = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    entry.parent.mkdir(parents=True)
    protocol = {"minReaderVersion": 3, "readerFeatures": ["deletionVectors"]}
    entry.write_text(json.dumps({"protocol": protocol}) + "\n")
    with pytest.raises(DataError, match="uses deletionVectors"):
        delta.added(tmp_path / "t")
