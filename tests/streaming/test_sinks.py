"""Sinks: what each promises when a stream goes on from a commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidelog.errors import DataError, Refused
from tidelog.streaming import sinks
from tidelog.streaming.sinks import Registered, sink_of, usages
from tidelog.streaming.sinks.functions import FunctionSink, MemorySink, takes_frame_first
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


GROWING = pytest.mark.parametrize(
    ("kind", "file"), [("jsonl", ""), ("csv", "P.csv"), ("json", "P.jsonl")]
)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def change(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"a", b"z"))


@GROWING
@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (Path.unlink, "is missing: restore it"),
        (empty, "is shorter than at the last commit: restore it"),
        (change, "has other lines than at the last commit, after byte 0: restore it"),
    ],
)
def test_lines_of_a_commit_that_were_lost_are_refused(
    kind: str, file: str, harm: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    sink = opened(f"{kind}:{path}")
    sink.write(0, rows(*ANSWERS[0]))
    state = json.loads(json.dumps(sink.state()))
    assert sink.state() == state  # also where nothing came since
    harm(path / file if file else path)
    again = sink_of(f"{kind}:{path}")
    with pytest.raises(Refused, match=said):
        again.verify(state)


@GROWING
def test_going_back_to_an_older_commit_leaves_no_answer_twice(
    kind: str, file: str, tmp_path: Path
) -> None:
    """As after a checkpoint was restored from a copy: later batches are other ones."""
    path = tmp_path / "out"
    sink = opened(f"{kind}:{path}")
    sink.write(0, rows(*ANSWERS[0]))
    state = sink.state()
    for answer in ANSWERS[1:]:
        sink.write(1, rows(*answer))
        newer = sink.state()
    sink.close()
    again = sink_of(f"{kind}:{path}")
    again.check("", fresh=False)
    again.verify(state)
    again.prepare(["P", "Q"], fresh=False)
    again.discard(1, ["P", "Q"], state)
    again.write(1, rows(*ANSWERS[2]))
    again.write(2, rows("d", 4))
    again.close()
    lines = (path / file if file else path).read_text().splitlines()
    assert len(lines) == 3 + (kind == "csv")
    with pytest.raises(Refused, match="has other lines than at the last commit"):
        sink_of(f"{kind}:{path}").verify(newer)  # of the time that was left


@GROWING
def test_a_file_that_another_process_writes_is_refused(
    kind: str, file: str, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    sink = opened(f"{kind}:{path}")
    sink.write(0, rows(*ANSWERS[0]))
    with (path / file if file else path).open("a") as other:
        other.write("x\n")
    with pytest.raises(Refused, match="is written by another process"):
        sink.write(1, rows(*ANSWERS[1]))


def test_lines_of_a_first_batch_that_was_killed_are_known_again(tmp_path: Path) -> None:
    def begin(stream: str) -> Sink:
        sink = sink_of(f"jsonl:{tmp_path / 'out'}")
        sink.check(stream, fresh=True)
        sink.prepare(["P"], fresh=True)
        sink.mark(stream)
        sink.discard(0, ["P"], {})
        sink.begin(0, "x")
        sink.write(0, rows(*ANSWERS[0]))
        return sink

    begin("mine")
    with pytest.raises(Refused, match="is there already and not empty"):
        begin("other")
    sink = begin("mine")
    sink.begin(1, "y")
    assert len((tmp_path / "out").read_text().splitlines()) == 1
    sink.write(1, rows(*ANSWERS[0]))
    begin("mine")  # from a copy of the checkpoint in which no batch was committed
    assert len((tmp_path / "out").read_text().splitlines()) == 1


def test_empty_files_of_a_start_that_was_killed_are_taken(tmp_path: Path) -> None:
    opened(f"csv:{tmp_path / 'out'}").close()
    opened(f"csv:{tmp_path / 'out'}").write(0, rows(*ANSWERS[0]))


@pytest.mark.parametrize("kind", ["jsonl", "csv", "json", "parquet"])
def test_what_is_there_already_is_refused(kind: str, tmp_path: Path) -> None:
    opened(f"{kind}:{tmp_path / 'out'}").write(0, rows(*ANSWERS[0]))
    with pytest.raises(DataError, match="is there already and not empty"):
        opened(f"{kind}:{tmp_path / 'out'}")


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


@pytest.mark.parametrize(
    ("code", "frame_first"),
    [
        ("lambda batch, answers: 0", False),
        ("lambda b, a: 0", False),
        ("lambda epoch, rows: 0", False),
        ("lambda batch_id, frames: 0", False),
        ("lambda df, epoch_id: 0", True),
        ("lambda batch_df, n: 0", True),
        ("lambda batchDF, batchId: 0", True),
        ("lambda x, batch_id: 0", True),
        ("lambda self: 0", False),
        ("lambda *rows: 0", False),
        ("print", False),
        ("max", False),
    ],
)
def test_a_function_for_foreach_batch_is_known_by_its_names(code: str, frame_first: bool) -> None:
    assert takes_frame_first(eval(code)) is frame_first


def test_a_function_for_foreach_batch_is_known_by_its_annotations() -> None:
    class DataFrame: ...

    def by_type(x: DataFrame, y: int) -> None: ...
    def by_text(x: "pyspark.sql.DataFrame", y: int) -> None: ...  # type: ignore[name-defined] # noqa: F821, UP037
    def ours(df: int, y: object) -> None: ...

    assert [takes_frame_first(f) for f in (by_type, by_text, ours)] == [True, True, False]
