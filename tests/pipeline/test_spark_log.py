"""A commit and Spark's own logs: what does not belong together is refused, with a way on."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tidelog
from tidelog.errors import DataError
from tidelog.pipeline.loop import Pipeline
from tidelog.pipeline.spark_log import LIVE, SPARK, SparkBatch
from tidelog.spark import stream

pytestmark = pytest.mark.xdist_group("spark")

RULES = "input E(x: text) @ time. P(X) @ T :- E(X) @ T, E(X) @ T+1."


def start(spark: SparkSession, folder: Path) -> Any:
    return stream(
        spark,
        tidelog.parse(RULES),
        inputs=folder / "facts",
        sink=f"csv:{folder / 'answers'}",
        checkpoint=folder / "c",
        trigger={"availableNow": True},
    )


def add(folder: Path, number: int, *ticks: int) -> None:
    (folder / "facts" / "E").mkdir(parents=True, exist_ok=True)
    rows = "".join(f"a,{tick}\n" for tick in ticks)
    (folder / "facts" / "E" / f"{number}.csv").write_text(f"x,time\n{rows}")


def run(spark: SparkSession, folder: Path) -> None:
    running = start(spark, folder)
    running.awaitTermination()
    running.stop()


def answered(folder: Path) -> list[int]:
    files = (folder / "answers").glob("P/batch=*/*.csv")
    return sorted(int(row.split(",")[1]) for f in files for row in f.read_text().split()[1:])


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream after two batches, whose third is planned and not committed."""
    folder = tmp_path_factory.mktemp("logs") / "stream"
    for number, ticks in enumerate([(0, 1, 2), (3,)]):
        add(folder, number, *ticks)
        run(spark, folder)
    add(folder, 2, 4)
    run(spark, folder)
    (folder / "c" / "commits" / "2.json").unlink()
    for path in (folder / "c" / "spark" / "commits").glob("*2*"):
        path.unlink()
    shutil.copytree(folder, folder.with_name("copy"))
    return folder


@pytest.fixture
def begun(written: Path) -> Iterator[Path]:
    yield written
    shutil.rmtree(written)
    shutil.copytree(written.with_name("copy"), written)


def empty(name: str) -> Callable[[Path], None]:
    return lambda spark: (spark / name).write_text("")


def torn(name: str) -> Callable[[Path], None]:
    return lambda spark: (spark / name).write_bytes((spark / name).read_bytes()[:-3])


def remove(name: str) -> Callable[[Path], None]:
    return lambda spark: (spark / name).unlink()


def other_query(spark: Path) -> None:
    (spark / "metadata").write_text('{"id":"another"}')
    (spark / ".metadata.crc").unlink()


def older(spark: Path) -> None:
    """Logs as they were a batch earlier."""
    for path in [*spark.glob("*/[12]"), *spark.glob("*/.[12].crc")]:
        path.unlink()


def torn_files(spark: SparkSession, folder: Path) -> list[Path]:
    """The files that a start asks to delete; none if it starts."""
    try:
        start(spark, folder).stop()
    except DataError as error:
        told = re.fullmatch(r".* is torn, and nothing .* needs it: delete (.*), then.*", str(error))
        return [Path(path.removeprefix("file:")) for path in told[1].split(" and ")] if told else []
    return []


def without_commits(spark: Path) -> None:
    shutil.rmtree(spark.parent / "commits")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (shutil.rmtree, r"spark/metadata is missing, and the last commit is of Spark's batch 1"),
        (older, r"spark/offsets/1 is missing, and the last commit is of Spark's batch 1"),
        (empty("metadata"), r"spark/metadata is damaged"),
        (other_query, r"spark belongs to another query of Spark's"),
        (torn("offsets/1"), r"spark/offsets/1 is not what was committed"),
        (empty("sources/0/1"), r"spark/sources/0/1 is damaged"),
        (without_commits, r"spark has completed batch 1, and .*/commits holds none"),
    ],
)
def test_logs_that_are_not_those_of_the_commits_are_refused(
    damage: Callable[[Path], None], said: str, spark: SparkSession, begun: Path
) -> None:
    damage(begun / "c" / "spark")
    with pytest.raises(DataError, match=said + r".*: restore the whole checkpoint from a copy, or"):
        start(spark, begun)
    assert answered(begun) == [0, 1, 2]  # nothing is touched


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(empty("offsets/2"), marks=pytest.mark.deep),
        torn("offsets/2"),
        torn("sources/0/2"),
        empty("commits/1"),
        pytest.param(remove("commits/1"), marks=pytest.mark.deep),
    ],
)
def test_what_a_power_loss_tears_can_be_deleted_as_the_message_says(
    damage: Callable[[Path], None], spark: SparkSession, begun: Path
) -> None:
    damage(begun / "c" / "spark")
    for path in torn_files(spark, begun):
        path.unlink()
    run(spark, begun)
    assert answered(begun) == [0, 1, 2]


def test_a_query_that_was_never_committed_starts_anew(spark: SparkSession, tmp_path: Path) -> None:
    add(tmp_path, 0, 0, 1, 2)
    run(spark, tmp_path)
    shutil.rmtree(tmp_path / "c" / "commits")
    for name in ("commits", "offsets"):
        shutil.rmtree(tmp_path / "c" / "spark" / name)
    empty("metadata")(tmp_path / "c" / "spark")
    with pytest.raises(DataError, match=r"spark/metadata is torn, .*: delete (.*/spark), then"):
        start(spark, tmp_path)
    shutil.rmtree(tmp_path / "c" / "spark")
    run(spark, tmp_path)
    assert answered(tmp_path) == [0]


def test_a_batch_that_does_not_come_next_is_refused_by_its_number() -> None:
    done = SparkBatch(SPARK, "q", 3, "offsets")
    store, last = SimpleNamespace(name="/c"), SimpleNamespace(spark=done)
    pipeline: Any = SimpleNamespace(checkpoint=SimpleNamespace(last=last, store=store))
    assert Pipeline.is_done(pipeline, done)
    said = r"/c: batch 5 of spark/ does not follow the last commit, which expects batch 4 of spark/"
    with pytest.raises(DataError, match=said):
        Pipeline.is_done(pipeline, replace(done, number=5))


def test_which_batch_comes_next() -> None:
    def batch(number: int, place: str = SPARK, query: str = "q") -> SparkBatch:
        return SparkBatch(place, query, number, "offsets")

    assert batch(0).follows(None)
    assert not batch(1).follows(None)
    assert batch(4).follows(batch(3))
    assert not batch(3).follows(batch(3))
    assert not batch(4, query="r").follows(batch(3))
    assert batch(0, LIVE, "r").follows(batch(3))  # after the history
    assert not batch(1, LIVE, "r").follows(batch(3))
    assert not batch(0).follows(batch(3, LIVE))
