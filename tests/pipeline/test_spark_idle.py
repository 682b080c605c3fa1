"""Silent inputs and heartbeats on Spark: time goes on, and a batch done again is the same."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tidelog
from tidelog.errors import DataError
from tidelog.pipeline.commit import Checkpoint, Commit
from tidelog.spark import Running, stream
from tidelog.streaming.silence import Silence

pytestmark = pytest.mark.xdist_group("spark")

NOW = {"availableNow": True}
SOON = {"processingTime": "100 milliseconds"}
RULES = """
input E(x: text) @ time.
input F(x: text) @ time.
Seen(X) @ T :- E(X) @ T.
Both(X) @ T :- E(X) @ T, F(X) @ T.
"""


def put(folder: Path, name: str, *lines: str | int) -> None:
    """A file of facts at some ticks, or of heartbeats where a tick is a text."""
    (folder / "facts").mkdir(exist_ok=True)
    records = [{"time": int(t)} if isinstance(t, str) else {"x": "a", "time": t} for t in lines]
    beside = folder / f"{name}.tmp"
    beside.write_text("".join(json.dumps(record) + "\n" for record in records))
    number = len(list((folder / "facts").glob("*")))
    (folder / "facts" / name).mkdir(exist_ok=True)
    beside.rename(folder / "facts" / name / f"{number}-{time.monotonic_ns()}.jsonl")


def started(spark: SparkSession, folder: Path, **options: Any) -> Running:
    wanted: dict[str, Any] = {
        "inputs": {name: folder / "facts" / name for name in ("E", "F")},
        "checkpoint": folder / "checkpoint",
        "sink": f"json:{folder / 'answers'}",
        "trigger": SOON,
        "idle": "1s",
    }
    return stream(spark, tidelog.parse(RULES), ["Seen", "Both"], **(wanted | options))


def wait(running: Running, until: Callable[[Commit], bool]) -> Commit:
    end = time.monotonic() + 300
    while True:
        commit = running.committed
        if commit is not None and until(commit):
            return commit
        assert time.monotonic() < end, running.status
        assert running.query.isActive
        time.sleep(0.05)


def answers(folder: Path, query: str) -> list[int]:
    files = (folder / "answers" / query).glob("batch=*/*.json")
    return sorted(json.loads(line)["time"] for f in files for line in f.read_text().splitlines())


def letters(folder: Path) -> list[str]:
    files = (folder / "checkpoint" / "dead_letters").glob("batch=*/*.json")
    return [
        json.loads(line)["reason"] for f in sorted(files) for line in f.read_text().splitlines()
    ]


def commits(folder: Path) -> dict[int, dict[str, Any]]:
    files = (folder / "checkpoint" / "commits").glob("*.json")
    return {int(file.stem): json.loads(file.read_text()) for file in files}


def test_an_input_goes_silent_and_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path, "E", 1, 2, 3)
    put(tmp_path, "F", 1)
    running = started(spark, tmp_path, metrics=tmp_path / "m.prom")
    wait(running, lambda c: c.clock.tin == 0)
    assert (running.status["waits_for"], running.status["idle"]) == (["F"], [])
    # Nothing comes any more, so that Spark has no batch: silence makes one.
    quiet = wait(running, lambda c: c.quiet == 1)
    assert (quiet.clock.tin, quiet.facts) == (2, 0)
    assert answers(tmp_path, "Seen") == [1, 2]
    put(tmp_path, "E", 5)
    went_on = wait(running, lambda c: c.clock.tin == 4)
    assert went_on.clock.idle == ("F",)
    assert running.status["waits_for"] == ["E"]
    running.stop()
    text = (tmp_path / "m.prom").read_text()
    assert f'tidelog_idle{{input="F",name="{running.name}",stream="{running.id}"}} 1.0' in text
    assert f'tidelog_waits_for{{input="E",name="{running.name}",stream="{running.id}"}} 1.0' in text
    # What is idle stays so until it brings something, and a new start knows it.
    put(tmp_path, "E", 9)
    running = started(spark, tmp_path, trigger=NOW)
    running.awaitTermination()
    assert running.committed is not None
    assert running.committed.clock.tin == 8
    running.stop()
    put(tmp_path, "F", 2, 9, 10)
    running = started(spark, tmp_path, trigger=NOW)
    running.awaitTermination()
    assert running.status["idle"] == []
    running.close()
    assert answers(tmp_path, "Seen") == [1, 2, 3, 5, 9]
    assert answers(tmp_path, "Both") == [1, 9]
    assert letters(tmp_path) == [
        "late: tick 2 came after everything up to 8 had arrived; time had gone on without F, which"
        " was silent"
    ]
    assert not list((tmp_path / "checkpoint" / "idle").glob("*.json"))


def test_a_batch_of_silence_is_done_again_as_it_was_decided(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = Checkpoint.write

    def dying(self: Checkpoint, commit: Commit) -> None:
        if commit.quiet:
            raise DataError("the process dies")
        written(self, commit)

    put(tmp_path, "E", 1, 2, 3)
    put(tmp_path, "F", 1)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "write", dying)
        running = started(spark, tmp_path)
        with pytest.raises(DataError, match="the process dies"):
            running.awaitTermination()
    # What it had written is there, without a commit. Nobody is silent for this start.
    assert answers(tmp_path, "Seen") == [1, 2]
    put(tmp_path, "E", 5)
    running = started(spark, tmp_path, idle="1d", trigger=NOW)
    running.awaitTermination()
    running.stop()
    done = {number: (c["clock"]["tin"], c["quiet"]) for number, c in commits(tmp_path).items()}
    assert done == {0: (0, 0), 1: (2, 1), 2: (4, 1)}
    assert answers(tmp_path, "Seen") == [1, 2, 3]


def test_an_input_that_never_came(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = 0.0
    monkeypatch.setattr("tidelog.pipeline.start.Silence", lambda x: Silence(x, lambda: seconds))
    put(tmp_path, "E", 1, 2)
    (tmp_path / "facts" / "F").mkdir()
    with pytest.warns(tidelog.errors.TidelogWarning, match="F"):
        running = started(spark, tmp_path, idle={"F": "1h"})
    assert wait(running, lambda c: c.batch == 0).clock.tin is None
    assert running.status["waits_for"] == ["F"]
    seconds = 3600.0
    assert wait(running, lambda c: c.clock.tin is not None).clock.tin == 1
    running.stop()


@pytest.mark.parametrize("little", [-1, pytest.param(100_000, marks=pytest.mark.deep)])
def test_heartbeats_of_one_input_and_of_all(
    little: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelog.pipeline.sites.LITTLE", little)
    put(tmp_path, "E", 1, 2, 8)
    put(tmp_path, "F", 1, "6")
    (tmp_path / "facts" / "F" / "b.jsonl").write_text('{"time": "soon"}\n')
    running = started(spark, tmp_path, trigger=NOW, lateness=1)
    running.awaitTermination()
    commit = running.committed
    assert commit is not None
    # A heartbeat is not less because facts may be late: F is complete up to 5.
    assert (commit.clock.tin, commit.clock.told, commit.facts) == (5, {"F": 6}, 4)
    assert letters(tmp_path) == ["column `time`: 'soon' is not int"]
    running.stop()
    everyone = tmp_path / "more.jsonl"
    everyone.write_text('{"time": 20}\n{"time": 3}\n{"predicate": "E", "x": "a", "time": 30}\n')
    running = stream(
        spark,
        tidelog.parse(RULES),
        ["Seen"],
        inputs=everyone,
        checkpoint=tmp_path / "other",
        max_jump=17,
        trigger=NOW,
    )
    running.awaitTermination()
    assert running.committed is not None
    assert (running.committed.clock.tin, running.committed.dead) == (29, 0)
    running.stop()
