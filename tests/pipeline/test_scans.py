"""What tasks do with files, without Spark: splits, checks, packing, counting and letters."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog
from tidelog.analysis.passes import passes
from tidelog.data.schema import schemas
from tidelog.data.ticks import Range, Ticks
from tidelog.errors import DataError
from tidelog.evaluation.layout import Layout
from tidelog.evaluation.one_pass import united
from tidelog.evaluation.plan import plan
from tidelog.evaluation.rows import DONE
from tidelog.evaluation.spark.answers import unpacked_table
from tidelog.evaluation.spark.one_task import OneTask
from tidelog.evaluation.spark.scans import (
    Letters,
    Measurer,
    PackedScans,
    Packer,
    Runs,
    SplitTask,
    TakeIn,
)
from tidelog.evaluation.spark.sources import Inputs
from tidelog.evaluation.spark.splits import Reader, Split, in_tasks, splits_of, whole_files
from tidelog.pipeline.plan import OfflineWork, pipeline_plan

PROGRAM = tidelog.parse(
    """
    input E(x: text, v: int) @ time.
    input F(x: text, w: float) @ time.
    P(X) @ T :- E(X, V) @ T, F(X, W) @ T, V > 1, W > 0.5.
    """
)
FINE = "problem IS NULL"
COUNTED = (
    "count_if(problem IS NULL)",
    "count_if(problem IS NULL AND t < 0)",
    "count(*)",
    "min(CASE WHEN problem IS NULL THEN t END)",
    "max(CASE WHEN problem IS NULL THEN t END)",
)


def reader(ticks: Ticks | None = None) -> Reader:
    return Reader(PROGRAM, Inputs(dict(schemas(PROGRAM)), ticks))


def written(path: Path, rows: int = 10) -> Path:
    """A file in any format: x, v and time, without any value missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = [{"x": f"a{i % 2}", "v": i, "time": i} for i in range(rows)]
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(facts), path, row_group_size=4)
    elif path.suffix == ".csv":
        lines = ["time,x,v", *(f"{f['time']},{f['x']},{f['v']}" for f in facts)]
        path.write_text("\n".join(lines) + "\n")
    else:
        path.write_text("".join(json.dumps(fact) + "\n" for fact in facts))
    return path


def splits(path: Path, name: str | None = "E", ticks: Ticks | None = None) -> list[Split]:
    format_ = {".csv": "csv", ".parquet": "parquet"}.get(path.suffix, "jsonl")
    return splits_of(path, format_, name, reader(ticks).inputs)


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("name", ["a", "a b", "a%20b [1]#2*?", "ü'\""])
def test_every_format_is_read_alike(tmp_path: Path, ending: str, name: str) -> None:
    path = written(tmp_path / f"{name}.{ending}")
    rows = reader().table(splits(path)).select(["text1", "int1", "t", "problem"]).to_pylist()
    values = sorted((row["t"], row["text1"], row["int1"], row["problem"]) for row in rows)
    assert values == [(i, f"a{i % 2}", i, None) for i in range(10)]


def test_row_groups_are_splits_and_those_of_a_task_one() -> None:
    group = Split("a.parquet", "parquet", "E", 200_000, (0, 199_999), range=Range(0, 5))
    next_ = Split("a.parquet", "parquet", "E", 400_000, (200_000, 599_999), range=Range(3, 9))
    other = Split("b.parquet", "parquet", "E", 100, (0, 99))
    ((one,), (rest,)) = in_tasks([group, next_, other], 2)
    assert (one.part, one.rows, one.range) == ((0, 599_999), 600_000, Range(0, 9))
    assert rest == other


def test_statistics_say_first_and_last_tick_where_no_value_can_be_missing(tmp_path: Path) -> None:
    whole = splits(written(tmp_path / "a.parquet"))
    assert [split.range for split in whole] == [Range(0, 3), Range(4, 7), Range(8, 9)]
    null = pa.table({"x": ["a", None], "v": [1, 2], "time": [5, 6]})
    pq.write_table(null, tmp_path / "b.parquet")
    assert [split.range for split in splits(tmp_path / "b.parquet")] == [None]
    floats = pa.table({"x": ["a"], "w": [math.nan], "time": [5]})
    pq.write_table(floats, tmp_path / "c.parquet")
    assert [split.range for split in splits(tmp_path / "c.parquet", "F")] == [None]


@pytest.mark.parametrize("size", [7, 24, 1000])
def test_lines_of_a_file_are_each_in_one_split(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelog.evaluation.spark.splits.TASK_ROWS", 1)
    monkeypatch.setattr("tidelog.evaluation.spark.splits.LINE", size)
    path = written(tmp_path / "a.jsonl")
    rows = [reader().table([split]).to_pylist() for split in splits(path)]
    assert sorted(row["t"] for some in rows for row in some) == list(range(10))


def test_a_file_may_have_a_column_of_the_name_that_numbers_rows(tmp_path: Path) -> None:
    table = pa.table({"x": ["a", "b"], "v": [5, 5], "file_row_number": [7, 7], "time": [1, 2]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1)
    (split,) = splits(tmp_path / "a.parquet")
    assert reader().table([split]).column("t").to_pylist() == [1, 2]


def scanned() -> PackedScans:
    work = pipeline_plan(PROGRAM, ("P",)).work
    assert isinstance(work, OfflineWork)
    return PackedScans(work.layout, frozenset(work.layout.scans))


def test_packed_rows_are_all_that_leaves_a_task(tmp_path: Path) -> None:
    packs = scanned()
    packer = Packer(reader(), packs, packs.layout.schema, 2, "1GB")
    rows = [
        row
        for batch in packer(0, splits(written(tmp_path / "a.parquet")))
        for row in batch.to_pylist()
    ]
    assert [row["tab"] for row in rows[:2]] == [-1, -1]
    packed = {row["text1"]: (row["c"], row["b"]) for row in rows[2:]}
    assert packed == {"a0": (0, 0b0101010100), "a1": (0, 0b1010101000)}
    assert [*packer(1, [])] == []


def bad(folder: Path) -> list[Split]:
    """A file of each format with a row that cannot be used."""
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    table = pa.table(
        {"x": ["a", None], "w": [1.5, math.inf], "time": [3, 4], "more": [moment, moment]}
    )
    pq.write_table(table, folder / "a.parquet")
    (folder / "b.csv").write_text("x,w,time\na,nan,5\nb,1,2,3\nc,1,-9\n")
    (folder / "c.jsonl").write_text(
        '{"x": "a", "w": 1, "time": 8}\n{"x": "a", "w": "1", "time": 1}\n[]\n'
    )
    return [
        split for name in ("a.parquet", "b.csv", "c.jsonl") for split in splits(folder / name, "F")
    ]


def test_counts_are_rows_of_their_own(tmp_path: Path) -> None:
    packs = scanned()
    work = TakeIn(reader(), packs, packs.layout.schema, f"{FINE} AND t >= 0", COUNTED)
    rows = [row for batch in work(0, bad(tmp_path)) for row in batch.to_pylist()]
    told = [json.loads(row["told"]) for row in rows if row["told"] is not None]
    assert sorted(told, key=str) == sorted(
        [
            [None, 8, 0, 0, None, None],  # all rows
            [1, 1, 0, 2, 3, 3],  # of Parquet
            [1, 1, 1, 2, -9, -9],  # of CSV
            [1, 1, 0, 1, 8, 8],  # of lines
            # A row of CSV and two lines of which no value could be read.
            [1, 0, 0, 3, None, None, None, None, None],
        ],
        key=str,
    )
    packed = {(row["text1"], row["c"], row["b"]) for row in rows if row["told"] is None}
    assert packed == {("a", 0, 0b100001000)}


def test_letters_have_the_row_as_it_came(tmp_path: Path) -> None:
    work = Letters(reader(), f"{FINE} AND t >= 0", "coalesce(problem, 'late')")
    lines = [line for batch in work(0, bad(tmp_path)) for line in batch.column(0).to_pylist()]
    letters: list[dict[str, Any]] = [json.loads(line) for line in lines]
    came = [
        (Path(letter["file"]).name, letter["reason"][:30], letter["row"] or letter["text"])
        for letter in letters
    ]
    moment = "2024-01-01T00:00:00.000000Z"
    row = {"x": None, "w": "Infinity", "time": 4, "more": moment}
    assert sorted(came, key=str) == sorted(
        [
            ("a.parquet", "no value in column `x`", row),
            ("b.csv", "NaN in column `w`", {"x": "a", "w": "nan", "time": 5}),
            ("b.csv", "line 3: the row has too many o", "b,1,2,3"),
            ("b.csv", "late", {"x": "c", "w": 1.0, "time": -9}),
            ("c.jsonl", "column `w`: '1' is not float", {"x": "a", "w": "1", "time": 1}),
            ("c.jsonl", "a line is an object, such as {", "[]"),
        ],
        key=str,
    )


def beating(folder: Path) -> list[Split]:
    """Lines of one input and of several, some of them heartbeats."""
    (folder / "E.jsonl").write_text(
        '{"x": "a", "v": 5, "time": 1}\n{"time": 7}\n{"time": 3}\n{"time": 99}\n{"time": "x"}\n'
    )
    (folder / "all.jsonl").write_text(
        '{"time": 4}\n{"predicate": "E", "x": "b", "v": 5, "time": 2}\n'
    )
    return [*splits(folder / "E.jsonl", "E"), *splits(folder / "all.jsonl", None)]


def test_heartbeats_are_counted_apart(tmp_path: Path) -> None:
    packs, near = scanned(), "problem IS NULL AND t <= 50"
    numbers = (f"count_if({near})", f"count_if(NOT ({near}))")
    beats = (*numbers, f"max(CASE WHEN {near} THEN t END)")
    fine = f"tag >= 0 AND {near}"
    work = TakeIn(reader(), packs, packs.layout.schema, fine, COUNTED, beats)
    there = beating(tmp_path)
    rows = [row for batch in work(0, there) for row in batch.to_pylist()]
    told = [json.loads(row["told"]) for row in rows if row["told"] is not None]
    assert sorted(told, key=str) == [
        [-2, 1, 0, 0, None, 4, *[None] * 3],  # of all inputs
        [-3, 2, 0, 1, None, 7, *[None] * 3],  # of E, one of them too far ahead
        [0, 0, 0, 1, None, None, None, None, None],  # the one whose time is none
        [0, 1, 0, 1, 1, 1],
        [0, 1, 0, 1, 2, 2],
        [None, 7, 0, 0, None, None],  # all rows
    ]
    table = reader().table(there).to_pylist()
    assert sorted((row["tag"], row["t"] or 0) for row in table) == [
        *((-3, 3), (-3, 7), (-3, 99), (-2, 4), (0, 0), (0, 1), (0, 2))
    ]
    (batch,) = Letters(reader(), near, "coalesce(problem, 'far')")(0, there)
    letters = [json.loads(line) for line in batch.column(0).to_pylist()]
    assert [(one["predicate"], one["reason"][:3], one["row"]) for one in letters] == [
        ("E", "col", {"time": "x"}),
        (None, "far", {"time": 99}),
    ]
    (runs,) = Runs(reader(), "problem IS NULL", 4)(0, there)
    assert sorted(tuple(run.values()) for run in runs.to_pylist()) == [(1, 7), (99, 99)]


def test_runs_of_ticks_end_where_a_leap_is_too_long(tmp_path: Path) -> None:
    times = [0, 1, 2, 5, 9, 10, 30]
    table = pa.table({"x": ["a"] * 7, "v": [1] * 7, "time": times})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    rows = [
        tuple(row.values())
        for batch in Runs(reader(), FINE, 4)(0, splits(tmp_path / "a.parquet"))
        for row in batch.to_pylist()
    ]
    assert sorted(rows) == [(0, 10), (30, 30)]


def test_a_look_tells_ticks_and_problems(tmp_path: Path) -> None:
    (batch,) = Measurer(reader())(0, bad(tmp_path))
    told = [json.loads(line) for line in batch.column(0).to_pylist()]
    assert {name for name, *_ in told} == {"F"}
    assert [numbers for _, numbers, *_ in told][:3] == [
        [3, 4, 3, 3, 1],
        [-9, 5, -9, -9, 1],
        [8, 8, 8, 8, 0],
    ]
    problems = [problem for _, _, problems, *_ in told for problem in problems]
    assert len(problems) == 3  # a missing value or NaN is none


def test_a_file_that_is_gone_or_broken_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", 1000)
    there = splits(path)
    data = bytearray(path.read_bytes())
    data[4:400] = b"\xff" * 396
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"a\.parquet: the file cannot be read; repair it or take"):
        reader().table(there)
    path.unlink()
    with pytest.raises(DataError, match=r"a\.parquet: the file is not there any more; put it back"):
        reader().table(there)


TURBINES = tidelog.parse(
    """
    input Temp(device: text, level: text) @ time.
    input Near(a: text, b: text).
    Flag(X) @ T :- Temp(X, high) @ T.
    Flag(X) @ T :- Temp(X, na) @ T.
    Cool(X) @ T+1 :- Flag(X) @ T, Flag(X) @ T+1.
    AtRisk(Y) @ T :- Cool(X) @ T, Near(X, Y).
    AtRisk(X) @ T+1 :- AtRisk(X) @ T.
    Odd @ T :- Temp(d1, high) @ T.
    Odd @ T :- Temp(d2, na) @ T.
    """
)


@pytest.mark.parametrize(("query", "threads"), [("Cool", 1), ("AtRisk", 2), ("Odd", 1)])
def test_one_task_does_it_all(tmp_path: Path, query: str, threads: int) -> None:
    """What a batch query sends to the one task that has all facts, without Spark."""
    levels = ["high", "low", "na", "high", "high", "low", "low"]
    rows = [(f"d{d}", levels[(3 * d + t) % 7], t) for t in range(-70, 70) for d in range(4)]
    temp = dict(zip(("device", "level", "time"), map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(temp), tmp_path / "Temp.parquet", row_group_size=50)
    near = [(f"d{d}", f"d{d + 1}") for d in range(3)]
    want = TURBINES.query(query, {"Temp": rows, "Near": near})

    split = passes(TURBINES, (query,)).stages(())
    data = {p.name: Range(-70, 69) for p in split.deps.core.inputs if p.temporal}
    made = plan(split.deps, data, Range(-70, 69))
    layout = Layout(united(made), split.stages)
    assert layout.is_keyed_alike
    assert len(layout.scans) == 1  # rules that only unite rows share a scan
    tables = {"Near": pa.table({"a1": [a for a, _ in near], "a2": [b for _, b in near]})}
    rigid = {p.name: tables[p.base] for p in split.deps.core.inputs if not p.temporal}
    inputs = Inputs({"Temp": schemas(TURBINES)["Temp"]}, None)
    there = splits_of(tmp_path / "Temp.parquet", "parquet", "Temp", inputs)
    files = tuple(whole_files(there))
    assert [file.part for file in files] == [None]
    task = OneTask(Reader(TURBINES, inputs), files, layout, rigid, "1GB", threads)
    done = pa.Table.from_batches(list(task(0, files)), task.schema)
    relation = layout.answers[query]
    mine = f"(SELECT * FROM done WHERE tab = {relation.number} AND part = {DONE}) AS q"
    with duckdb.connect() as connection:
        connection.register("done", done)
        names = TURBINES.output_columns(query)
        got = unpacked_table(connection, mine, relation, names, None)
    assert got.to_pylist() == want.to_pylist()


def test_a_task_reads_all_rows_that_it_is_given() -> None:
    """Spark does not use a Python worker again that has left some."""
    given = iter([pa.record_batch({"id": [0]}), pa.record_batch({"id": [1]})])
    done: list[int] = []

    def work(number: int, _: object) -> Iterator[pa.RecordBatch]:
        done.append(number)
        yield from ()

    assert list(SplitTask(((), ()), work)(given)) == []
    assert done == [0, 1]
    assert next(given, None) is None
