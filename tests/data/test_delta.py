"""Delta tables as facts and as what batches are added to, each once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from tidelog.data import delta
from tidelog.errors import DataError, Refused
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


class Batches:
    """A stream that adds batches to a table of one query, with the state of its last commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state: dict[str, Any] | None = None

    def start(self) -> DeltaSink:
        sink = DeltaSink(str(self.folder))
        sink.check("s", fresh=self.state is None)
        if self.state is not None:
            sink.verify(json.loads(json.dumps(self.state)))
        sink.prepare(["Hot"], fresh=self.state is None)
        sink.mark("s")
        return sink

    def write(self, batch: int, lineage: str, *rows: int, commit: bool = True) -> None:
        sink = self.start()
        sink.begin(batch, lineage)
        sink.write(batch, {"Hot": LocalAnswers(pa.table({"time": list(rows)}))})
        if commit:
            self.state = sink.state()

    def rows(self) -> list[int]:
        return sorted(delta.rows_of(str(self.folder / "Hot")).column("time").to_pylist())


def test_a_batch_that_is_done_again_is_left_out(tmp_path: Path) -> None:
    out = Batches(tmp_path / "out")
    out.write(0, "a", 1, 2, commit=False)  # killed in its first batch
    out.write(0, "a", 1, 2)
    out.write(3, "b", 5)
    deltalake.write_deltalake(tmp_path / "out" / "Hot", pa.table({"time": [7]}), mode="append")
    out.write(4, "c", 9, commit=False)
    deltalake.write_deltalake(tmp_path / "out" / "Hot", pa.table({"time": [8]}), mode="append")
    out.write(4, "c", 9)
    assert out.rows() == [1, 2, 5, 7, 8, 9]
    table = deltalake.DeltaTable(tmp_path / "out" / "Hot")
    assert table.transaction_version("tidelog-s") == 4
    sink = out.start()
    sink.begin(5, "d")
    with pytest.raises(DataError, match="cannot be written"):
        sink.write(5, {"Hot": LocalAnswers(pa.table({"other": ["x"]}))})


def test_going_back_with_a_delta_table_loses_nothing(tmp_path: Path) -> None:
    """Batches of an abandoned time are refused, with a way on that brings every answer once."""
    out = Batches(tmp_path / "out")
    table = str(tmp_path / "out" / "Hot")
    out.write(0, "a", 10, 11)
    copy = out.state
    out.write(1, "b", 20)
    out.state = copy  # one batch later: another batch has its number
    with pytest.raises(Refused, match=r"has answers of batch 1.*restore\(0\)"):
        out.write(1, "b2", 20, 21)
    out.write(1, "b", 20)
    out.write(2, "c", 30)
    newer, out.state = out.state, copy
    with pytest.raises(Refused, match=r"has answers of batch 1.*restore\(0\)") as refused:
        out.start()
    assert out.rows() == [10, 11, 20, 30]
    _, _, rest = str(refused.value).partition("take them out with ")
    eval(rest.partition(";")[0], {"deltalake": deltalake})  # what the message says
    out.write(1, "b3", 20, 21)
    out.write(2, "c3", 30, 31)
    out.write(3, "d3", 40)
    assert out.rows() == [10, 11, 20, 21, 30, 31, 40]
    out.state = newer  # a copy of the time that was left
    with pytest.raises(Refused, match=r"taken back to version 0, .* needs version 2"):
        out.start()
    deltalake.DeltaTable(table).restore(2)
    out.start()


def test_an_abandoned_first_batch_says_to_delete_the_table(tmp_path: Path) -> None:
    out = Batches(tmp_path / "out")
    out.write(0, "a", 10)
    out.state = None
    with pytest.raises(Refused, match=r"batch 0 .* delete .*Hot; then start again"):
        out.write(0, "b", 10)


def test_a_table_that_lacks_the_last_commit_is_refused(tmp_path: Path) -> None:
    out = Batches(tmp_path / "out")
    out.write(0, "a", 10)
    (file,) = (tmp_path / "out" / "Hot").glob("*.parquet")
    data = file.read_bytes()
    for harmed, said in ((data[:-1], "is damaged"), (b"", "is damaged"), (None, "is missing")):
        file.write_bytes(harmed) if harmed is not None else file.unlink()
        with pytest.raises(Refused, match=said):
            out.start()
    file.write_bytes(data)
    out.start()
    out.write(1, "b", 20)
    deltalake.DeltaTable(tmp_path / "out" / "Hot").optimize.compact()
    out.start()  # others may put its rows elsewhere
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(Refused, match="Hot is missing, and the last commit needs version 1"):
        out.start()


def test_two_processes_never_add_the_same_batch(tmp_path: Path) -> None:
    out = Batches(tmp_path / "out")
    out.write(0, "a", 10)
    paused = out.start()
    out.write(1, "b", 20)
    paused.begin(1, "b")
    with pytest.raises(Refused, match="another process has added batches of this stream"):
        paused.write(1, {"Hot": LocalAnswers(pa.table({"time": [20]}))})
    assert out.rows() == [10, 20]


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
    with pytest.raises(DataError, match="uses deletionVectors, which a stream cannot read"):
        delta.added(tmp_path / "t")
    entry.write_text(
        json.dumps({"add": {"path": "a", "deletionVector": {"sizeInBytes": 1}}}) + "\n"
    )
    with pytest.raises(DataError, match="version 0 deletes rows, and a stream takes added ones"):
        delta.added(tmp_path / "t")
