"""Sinks: what each promises when a stream goes on from a commit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidelog.errors import DataError, Refused
from tidelog.streaming import sinks
from tidelog.streaming.sinks import Registered, sink_of, usages
from tidelog.streaming.sinks.functions import FunctionSink, MemorySink
from tidelog.streaming.sinks.sink import LocalAnswers, Sink

ANSWERS = [("a", 1), ("b", 2), ("c", 3)]


def rows(name: str, time: int) -> Mapping[str, LocalAnswers]:
    return {"P": LocalAnswers(pa.table({"x": [name], "time": [time]}))}


def opened(text: str, *, fresh: bool = True) -> Sink:
    sink = sink_of(text)
    sink.check("", fresh=fresh)
    sink.prepare(["P", "Q"], fresh=fresh)
    return sink


@pytest.mark.parametrize(
    ("kind", "file", "wanted"),
    [
        ("jsonl", "", '{"predicate": "P", "x": "a", "time": 1}\n'),
        ("csv", "P.csv", "x,time\na,1\n"),
        ("json", "P.jsonl", '{"x": "a", "time": 1}\n'),
    ],
)
def test_what_comes_after_a_commit_is_taken_back(
    kind: str, file: str, wanted: str, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    first = opened(f"{kind}:{path}")
    first.write(0, rows(*ANSWERS[0]))
    committed = json.loads(json.dumps(first.state()))
    assert (path / file if file else path).read_text() == wanted
    first.write(1, rows(*ANSWERS[1]))  # and dies before the commit
    again = opened(f"{kind}:{path}", fresh=False)
    again.discard(1, ["P", "Q"], committed)
    assert (path / file if file else path).read_text() == wanted
    again.write(1, rows(*ANSWERS[2]))
    again.close()
    lines = (path / file if file else path).read_text().splitlines()
    assert [line.count("c") for line in lines][-1] >= 1
    assert len(lines) == len(wanted.splitlines()) + 1


def test_lengths_under_the_name_of_the_file_are_read_too(tmp_path: Path) -> None:
    """As streams in process wrote them into snapshots before all sinks were one kind of thing."""
    path = tmp_path / "out.jsonl"
    path.write_text("one\ntwo\n")
    sink = opened(f"jsonl:{path}", fresh=False)
    sink.discard(0, ["P"], {"out.jsonl": 4})
    assert path.read_text() == "one\n"


@pytest.mark.parametrize("kind", ["jsonl", "csv", "json"])
def test_files_that_shrank_are_refused(kind: str, tmp_path: Path) -> None:
    sink = opened(f"{kind}:{tmp_path / 'out'}")
    sink.write(0, rows(*ANSWERS[0]))
    state = {name: length + 1 for name, length in sink.state().items()}
    with pytest.raises(DataError, match="is shorter than at the"):
        opened(f"{kind}:{tmp_path / 'out'}", fresh=False).discard(1, ["P", "Q"], state)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "json", "parquet"])
def test_what_is_there_already_is_refused(kind: str, tmp_path: Path) -> None:
    opened(f"{kind}:{tmp_path / 'out'}").write(0, rows(*ANSWERS[0]))
    with pytest.raises(DataError, match="is there already and not empty"):
        opened(f"{kind}:{tmp_path / 'out'}")


def test_a_missing_file_of_lines_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is missing: restore it"):
        opened(f"jsonl:{tmp_path / 'out'}", fresh=False)


def test_parquet_in_process_is_whole_once_closed(tmp_path: Path) -> None:
    sink = opened(f"parquet:{tmp_path / 'out'}")
    for number, answer in enumerate(ANSWERS):
        sink.write(number, rows(*answer))
    sink.close()
    table = pq.read_table(tmp_path / "out" / "P.parquet")
    assert [tuple(row.values()) for row in table.to_pylist()] == ANSWERS


def test_sinks_that_take_nothing_back_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    kinds = [sink_of("console"), sink_of("parquet:x"), MemorySink(), FunctionSink(print)]
    assert all(sink.cannot_resume for sink in kinds)
    kinds[0].write(0, rows(*ANSWERS[0]))
    assert capsys.readouterr().out == '{"predicate": "P", "x": "a", "time": 1}\n'


def test_memory_gathers_in_the_order_of_batches() -> None:
    sink = MemorySink()
    for number in (1, 0, 1):  # batch 1 is done again after a crash
        sink.write(number, rows(*ANSWERS[number]))
    table = sink.table("P")
    assert table is not None
    assert table.column("x").to_pylist() == ["a", "b"]


@pytest.mark.parametrize(
    "text", ["xml:out", "csv", "csv:", "console:x", "memory", "", "jsonl:s3a://box/x"]
)
def test_texts_that_name_no_sink(text: str) -> None:
    with pytest.raises(DataError, match=r"is no sink: give csv:DIR|json:DIR goes to any store"):
        sink_of(text)


def test_a_new_sink_is_a_file_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sinks.SINKS, "loud", Registered("loud", "console"))
    assert sink_of("loud").name == "console"
    assert "loud" in usages(in_process=True)
