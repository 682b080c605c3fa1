"""What a commit vouches for is on the disk before it is, and is looked at when a stream goes on."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from support.disk import Disk

import tidelog
from tidelog.data.delta import rows_of
from tidelog.errors import DataError, Refused, TidelogWarning
from tidelog.pipeline import loop, sites
from tidelog.pipeline.commit import Checkpoint
from tidelog.pipeline.local_store import LocalStore
from tidelog.pipeline.places import LOOK_BYTES, Driver, few
from tidelog.pipeline.store import open_store
from tidelog.spark import stream

pytestmark = pytest.mark.xdist_group("spark")

RULES = """
input E(x: text) @ time. input N(x: text).
P(X) @ T :- E(X) @ T, E(X) @ T+1, N(X).
"""
# Calls of fsync that a batch may cost: one query, one file of state, one of dead letters.
MOST_SYNCS = 40


def add(folder: Path, number: int, *ticks: object) -> None:
    (folder / "facts" / "E").mkdir(parents=True, exist_ok=True)
    (folder / "rigid").mkdir(exist_ok=True)
    (folder / "rigid" / "N.csv").write_text("x\na\n")
    rows = "".join(f"a,{tick}\n" for tick in ticks)
    path = folder / "facts" / "E" / f"{number}.csv"
    path.write_text(f"x,time\n{rows}")
    os.utime(path, (number + 1, number + 1))  # Spark takes older files first


def run(spark: SparkSession, folder: Path, kind: str = "csv", **more: Any) -> None:
    options = {"files_per_batch": 1, "trigger": {"availableNow": True}, "partitions": 2}
    running = stream(
        spark,
        tidelog.parse(RULES),
        inputs=more.pop("inputs", folder / "facts"),
        sink=f"{kind}:{folder / 'answers'}",
        checkpoint=folder / "c",
        rigid=folder / "rigid",
        **{**options, **more},
    )
    running.awaitTermination()
    running.stop()


def ticks(folder: Path) -> list[int]:
    files = (folder / "answers").glob("P/batch=*/*.csv")
    return sorted(int(row.split(",")[1]) for f in files for row in f.read_text().split()[1:])


@contextmanager
def commits_of(disk: Disk, committing: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Look at each commit right before it is made; it is on the disk afterwards."""
    create = LocalStore.create

    def created(store: LocalStore, data: bytes, *parts: str, **more: Any) -> bool:
        if parts[0] != "commits":
            return create(store, data, *parts, **more)
        path = Path(str(store.here(*parts)))
        assert not path.exists()
        committing(json.loads(data))
        done = create(store, data, *parts, **more)
        disk.expect(path)
        return done

    with disk.watched(), patch.object(LocalStore, "create", created):
        yield


def vouched_for(folder: Path, commit: dict[str, Any]) -> Iterator[Path]:
    """The files that a commit needs."""
    point, answers = folder / "c", folder / "answers"
    yield point / "tidelog.json"
    yield from (point / "rigid").iterdir()
    for part in commit["state"]:
        yield from (point / "state" / part["folder"] / name for name, _, _ in part["files"])
    for name, _, _ in commit["letters"]:
        yield point / "dead_letters" / f"batch={commit['batch']}" / name
    for name, files in commit["sink"].get("files", {}).items():
        yield from (answers / name / file for file, _, _ in files)
    for query, table in commit["sink"].get("tables", {}).items():
        yield from (answers / query / file for file, _, _ in table["files"])
        yield answers / query / "_delta_log" / f"{table['version']:020}.json"
    if "bytes" in commit["sink"]:
        yield answers
    if commit["spark"] is not None:
        logs = point / "spark"
        yield logs / "metadata"
        yield logs / "offsets" / str(commit["spark"]["number"])
        yield from (path for path in (logs / "sources" / "0").iterdir() if path.is_file())


WAYS = [("csv", False), ("parquet", True), ("jsonl", True), ("delta", False)]
OTHER_WAYS = [("json", True), ("parquet", False), ("jsonl", False), ("delta", True), ("csv", True)]


@pytest.mark.parametrize(
    ("kind", "there"), [*WAYS, *(pytest.param(*way, marks=pytest.mark.deep) for way in OTHER_WAYS)]
)
def test_all_that_a_commit_names_is_on_the_disk_before_it(
    kind: str, there: bool, spark: SparkSession, tmp_path: Path
) -> None:
    disk, commits, syncs = Disk(tmp_path), [], [0]

    def committing(commit: dict[str, Any]) -> None:
        for file in vouched_for(tmp_path, commit):
            disk.expect(file)
        commits.append(commit)
        syncs.append(disk.syncs)

    add(tmp_path, 0, 0, 1, "soon")
    add(tmp_path, 1, 2, "later")
    add(tmp_path, 2, 3)
    with ExitStack() as stack:
        stack.enter_context(commits_of(disk, committing))
        stack.enter_context(patch.object(sites, "SMALL", 0))
        if there:
            stack.enter_context(patch.object(sites, "LITTLE", -1))
        run(spark, tmp_path, kind)
    assert len(commits) == 3
    assert all(commit["letters"] and commit["state"] for commit in commits[:2])
    assert sum(commit["answers"]["P"] for commit in commits) == 2
    each = syncs[2] - syncs[1]
    print(f"{each} calls of fsync: a batch into {kind}, {'partitions' if there else 'driver'}")
    assert each <= MOST_SYNCS


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream after a batch with answers, state and dead letters, kept open."""
    folder = tmp_path_factory.mktemp("written") / "stream"
    add(folder, 0, 0, 1, 2, "soon")
    run(spark, folder)
    return folder


@pytest.mark.parametrize("kind", ["jsonl", "delta", "csv"])
def test_a_stream_that_died_before_its_first_commit_goes_on(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    add(tmp_path, 0, 0, 1, 2)
    with (
        patch.object(Checkpoint, "write", side_effect=RuntimeError("no power")),
        pytest.raises(Exception, match="no power"),
    ):
        run(spark, tmp_path, kind)
    run(spark, tmp_path, kind)
    answers = tmp_path / "answers"
    if kind == "jsonl":
        assert len(answers.read_text().splitlines()) == 1
    elif kind == "delta":
        assert rows_of(str(answers / "P")).num_rows == 1
    else:
        assert ticks(tmp_path) == [0]


HARMED = [
    ("answers/P/batch=0/*.csv", "answers/P/batch=0/part-.*csv"),
    ("c/dead_letters/batch=0/*.json", "c/dead_letters/batch=0/part-.*json"),
    ("c/state/0/*.parquet", "c/state/0/part-.*parquet"),
    ("c/rigid/*.parquet", "c/rigid/0.parquet"),
]


@pytest.mark.parametrize(("file", "name"), HARMED, ids=[name for _, name in HARMED])
def test_what_is_lost_of_the_last_batch_is_refused_by_name(
    file: str, name: str, spark: SparkSession, written: Path
) -> None:
    (path,) = written.glob(file)
    data = path.read_bytes()
    add(written, 1, 3)
    for harmed, said in ((b"", "damaged"), (data[:-1] + b"x", "damaged"), (None, "missing")):
        path.write_bytes(harmed) if harmed is not None else path.unlink()
        with pytest.raises(Refused, match=f"{name} is {said}, .* restore it from a copy"):
            run(spark, written)
        path.write_bytes(data)
    assert not (written / "c" / "commits" / "1.json").exists()


def test_a_restored_copy_of_a_checkpoint_doubles_no_answer_in_a_folder(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number, some in enumerate([(0, 1), (2, 3)]):
        add(tmp_path, number, *some)
    run(spark, tmp_path)
    shutil.copytree(tmp_path / "c", tmp_path / "copy")
    for number in (2, 3, 4):
        add(tmp_path, number, number * 2, number * 2 + 1)
    run(spark, tmp_path)
    assert ticks(tmp_path) == list(range(8))
    newer = shutil.move(tmp_path / "c", tmp_path / "newer")
    shutil.move(tmp_path / "copy", tmp_path / "c")
    with pytest.warns(TidelogWarning, match="had answers up to batch 4, .* with batch 2,"):
        run(spark, tmp_path, files_per_batch=None)
    assert ticks(tmp_path) == list(range(8))
    shutil.rmtree(tmp_path / "c")
    shutil.move(newer, tmp_path / "c")  # the time that was left
    with pytest.raises(Refused, match=r"batch=4/.* is missing, and the last commit needs it"):
        run(spark, tmp_path)


def test_a_batch_that_another_process_has_committed_is_left_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A process that was paused finds the batch of another one, and neither adds nor removes."""
    add(tmp_path, 0, 0, 1, 2)
    run(spark, tmp_path)
    add(tmp_path, 1, 3, 4)
    original, there = loop.Pipeline.batch, tmp_path / "there"

    def overtaken(pipeline: Any, *args: Any, **more: Any) -> None:
        with patch.object(loop.Pipeline, "batch", original):
            shutil.copytree(tmp_path / "c", there)
            shutil.copytree(tmp_path / "answers", tmp_path / "before")
            original(pipeline, *args, **more)  # the other one
            pipeline.checkpoint.last = pipeline.checkpoint.commit(0)
            pipeline._is_clean = False
            original(pipeline, *args, **more)

    with (
        patch.object(loop.Pipeline, "batch", overtaken),
        pytest.raises(DataError, match="another process committed batch 1"),
    ):
        run(spark, tmp_path)
    assert ticks(tmp_path) == [0, 1, 2]


def test_a_file_that_is_there_is_never_replaced_by_a_commit(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = open_store(spark, str(tmp_path))
    assert store.create(b"one", "commits", "0.json")
    assert not store.create(b"two", "commits", "0.json")
    with patch.object(os, "link", side_effect=OSError("no links here")):
        assert not store.create(b"two", "commits", "0.json")
        assert store.create(b"two", "commits", "1.json")
    assert store.read("commits", "0.json") == b"one"
    assert [entry.name for entry in store.entries("commits")] == ["0.json", "1.json"]


# How much the driver fetches


@contextmanager
def fetching(spark: SparkSession) -> Iterator[list[int]]:
    """How many rows each fetch brought."""
    fetched: list[int] = []
    kind = type(spark.range(0))
    original = kind.toArrow

    def counted(frame: DataFrame) -> pa.Table:
        table = original(frame)
        fetched.append(table.num_rows)
        return table

    with patch.object(kind, "toArrow", counted):
        yield fetched


def test_a_burst_after_a_small_batch_is_not_fetched(spark: SparkSession, tmp_path: Path) -> None:
    add(tmp_path, 0, 0, 1)
    frame = (
        spark.readStream.schema("x STRING, time LONG")
        .option("maxFilesPerTrigger", 1)
        .csv(str(tmp_path / "facts" / "E"), header=True)
    )
    add(tmp_path, 1, *range(2, 50_002))
    with patch.object(sites, "LITTLE", 10), fetching(spark) as fetched:
        running = stream(
            spark,
            tidelog.parse("input E(x: text) @ time. P(X) @ T :- E(X) @ T, E(X) @ T+1."),
            inputs={"E": frame},
            sink=f"csv:{tmp_path / 'answers'}",
            checkpoint=tmp_path / "c",
            trigger={"availableNow": True},
            partitions=2,
        )
        running.awaitTermination()
        running.stop()
    assert ticks(tmp_path) == list(range(50_000))
    assert max(fetched) <= 11


def test_few_rows_are_fetched_only_if_they_are_short_too(spark: SparkSession) -> None:
    def rows(count: int, width: int) -> DataFrame:
        return spark.range(count).selectExpr("1 AS tag", f"repeat('a', {width}) AS `a b`")

    with fetching(spark) as fetched:
        for count, width, most, most_bytes, is_few in (
            (5, 10, 5, 1_000, True),
            (6, 10, 5, 1_000, False),
            (5, LOOK_BYTES, 5, 1_000, False),  # a row that is too long
            (2_500, 10, 3_000, 1 << 20, True),
            (2_500, 10, 3_000, 1 << 14, False),
            (3_500, 10, 3_000, 1 << 20, False),
        ):
            some = few(rows(count, width), most, most_bytes)
            assert (some is not None) == is_few, (count, width)
            assert some is None or some.num_rows == count
            assert some is None or some.column("a b").to_pylist() == ["a" * width] * count
    assert max(fetched) <= 2_500


def test_a_batch_that_ended_the_driver_is_left_to_the_executors(
    spark: SparkSession, tmp_path: Path
) -> None:
    add(tmp_path, 0, 0, 1, 2)
    places: list[str] = []
    original = Driver.take_in

    def dies(place: Driver, *_: Any) -> Any:
        places.append("driver")
        raise MemoryError("no room")

    with patch.object(sites, "SMALL", -1), patch.object(Driver, "take_in", dies):
        with pytest.raises(Exception, match="no room"):
            run(spark, tmp_path)
        run(spark, tmp_path)
    assert places == ["driver"]
    assert ticks(tmp_path) == [0]
    add(tmp_path, 1, 3, 4, 5)
    with patch.object(Driver, "take_in", original):
        run(spark, tmp_path)
    assert ticks(tmp_path) == [0, 1, 2, 3]
    assert not list((tmp_path / "c" / "idle").iterdir())
