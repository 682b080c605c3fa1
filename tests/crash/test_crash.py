"""Killed at any moment and started again, a stream ends as if nothing had happened.

Some are processes that are killed. For every single write there are too many of them to start:
there the stream dies within a session, and nothing that it does afterwards reaches the disk.
"""

from __future__ import annotations

import csv
import functools
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support import victim
from support.places import ROOT
from support.victim import Writes

from tidelog.data.delta import rows_of
from tidelog.pipeline.commit import OWNER, SPARKS_LOCK

VICTIM = ROOT / "tests" / "support" / "victim.py"
EVERYWHERE = bool(os.environ.get("TIDELOG_CRASH"))

pytestmark = [] if EVERYWHERE else [pytest.mark.xdist_group("spark")]


def facts(folder: Path) -> None:
    """Files that split ticks, some rows late, some unreadable."""
    folder.mkdir(parents=True)
    (folder / "Rated.csv").write_text("device\na\nb\n")
    temps = [
        ["a,high,0", "b,low,0", "a,high,1"],
        ["b,high,1", "a,high,2", "b,high,2", "c,high,2", "a,,3"],
        ["a,high,3", "b,high,3", "b,high,4", "c,low,5", "a,high,soon"],
        ["a,high,0", "b,high,5", "a,low,5", "a,high,6"],  # its first row is late
        ["a,high,7", "b,high,8"],
    ]
    winds = [["a,25.0,0", "b,3.0,1"], ["b,30.5,4", "c,5.0,4"], ["a,x,5", "a,1.0,6"], ["b,1.0,9"]]
    age = 1
    for number in range(5):
        for name, header, rows in (
            ("Temp", "device,level", temps),
            ("Wind", "device,speed", winds),
        ):
            if number < len(rows):
                path = folder / name / f"{number}.csv"
                path.parent.mkdir(exist_ok=True)
                path.write_text("\n".join([f"{header},time", *rows[number]]) + "\n")
                os.utime(path, (age, age))
                age += 1


def process(folder: Path, way: str, fatal: int = 0, wait: float | None = None) -> int:
    """Run the victim in a process of its own; its exit code. It is killed with its whole group."""
    command = [sys.executable, str(VICTIM), str(folder), str(fatal), *way.split()]
    started = subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        started.communicate(timeout=wait or 240)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        started.communicate()
    return started.returncode


def answered(out: Path) -> dict[str, list[tuple[Any, ...]]]:
    """The answers in a sink of any kind, by query and batch where it has batches."""
    answers: dict[str, list[tuple[Any, ...]]] = {}
    for path in sorted(out.glob("*/batch=*/*")):
        rows: list[Any] = []
        if path.suffix == ".parquet":
            rows = [tuple(row.values()) for row in pq.read_table(path).to_pylist()]
        elif not path.name.startswith("."):
            with path.open(newline="") as file:
                rows = [tuple(row) for row in csv.reader(file)]
        name = "/".join(path.relative_to(out).parts[:2])
        answers[name] = sorted([*answers.get(name, []), *rows], key=repr)
    for table in sorted(path.parent for path in out.glob("*/_delta_log")):
        rows = rows_of(str(table)).to_pylist()
        answers[table.name] = sorted(tuple(row.values()) for row in rows)
    for path in sorted(out.glob("*-*.json")):  # of a function
        number, _, lineage = path.stem.partition("-")
        answers.setdefault(number, []).extend((line,) for line in path.read_text().splitlines())
        assert len(list(out.glob(f"{number}-*"))) == 1, f"another batch than {lineage} before"
    if out.is_file():
        answers["lines"] = sorted((line,) for line in out.read_text().splitlines())
    return answers


def told(folder: Path) -> dict[str, Any]:
    """Everything that a stream has left behind, whatever its files are called."""
    answers = answered(folder / "answers")
    letters = [
        (path.parent.name, line.replace(str(folder), ""))
        for path in sorted((folder / "checkpoint" / "dead_letters").glob("batch=*/*.json"))
        for line in sorted(path.read_text().splitlines())
    ]
    commits = {}
    for path in sorted((folder / "checkpoint" / "commits").iterdir()):
        commit = json.loads(path.read_text().replace(str(folder), ""))
        commit.pop("sha256")
        commit["letters"] = sum(size for _, size, _ in commit["letters"]) > 0
        for name in ("sink", "lineage"):  # which hold what differs from run to run
            commit.pop(name)
        commit["state"] = [(part["folder"], part["tables"]) for part in commit["state"]]
        if commit["spark"] is not None:  # each stream has an identity of its own
            commit["spark"] = commit["spark"]["place"], commit["spark"]["number"]
        commits[path.name] = commit
    state = sorted(entry.name for entry in (folder / "checkpoint" / "state").iterdir())
    hidden = sorted(
        str(path.relative_to(folder))
        for part in ("answers", "checkpoint")
        for path in (folder / part).rglob(".*")
        if "spark" not in path.relative_to(folder / part).parts
        and not path.name.endswith(".crc")
        and path.name not in (SPARKS_LOCK, OWNER)
    )
    return {"answers": answers, "dead": letters, "commits": commits, "state": state, "left": hidden}


@dataclass(frozen=True)
class Undisturbed:
    """What a run without any accident leaves, and how often it had written after each batch."""

    told: dict[str, Any]
    writes: list[int]

    @property
    def fullest(self) -> int:
        """The batch that writes most, of those between the first and the end."""
        each = [after - before for before, after in itertools.pairwise(self.writes)]
        return max(range(1, len(self.writes) - 1), key=lambda batch: each[batch - 1])


@pytest.fixture(scope="module")
def undisturbed(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Undisturbed]:
    @functools.cache
    def without_accident(way: str) -> Undisturbed:
        folder = tmp_path_factory.mktemp("undisturbed")
        facts(folder / "facts")
        writes = victim.writes_of(spark, folder, Writes(0, victim.die), way.split())
        left = told(folder)
        assert left["left"] == []
        assert left["dead"]
        assert len(left["commits"]) == len(writes) == 11
        return Undisturbed(left, writes)

    return without_accident


def last_commit(folder: Path) -> int:
    commits = (folder / "checkpoint" / "commits").glob("[0-9]*.json")
    return max((int(path.stem) for path in commits), default=-1)


def dies_at_every_write(spark: SparkSession, folder: Path, way: str, past: int) -> None:
    """Die at the first write, start again and die at the second, and so on, past some batch."""
    for point in itertools.count(1):
        if victim.run(spark, folder, point, way.split()) or last_commit(folder) > past:
            return


def test_killed(
    spark: SparkSession, tmp_path: Path, undisturbed: Callable[[str], Undisturbed]
) -> None:
    """A process and all it has started, once, and three times where there is time for it."""
    facts(tmp_path / "facts")
    for point in (100, 9, 17) if EVERYWHERE else (40,):
        assert process(tmp_path, "plain", point) == -signal.SIGKILL
    assert victim.run(spark, tmp_path)
    assert told(tmp_path) == undisturbed("plain").told


@pytest.mark.skipif(not EVERYWHERE, reason="make test-crash runs these")
def test_a_dozen_tables_are_gone_on_with(
    spark: SparkSession, tmp_path: Path, undisturbed: Callable[[str], Undisturbed]
) -> None:
    facts(tmp_path / "facts")
    assert not victim.run(spark, tmp_path, undisturbed("many").writes[7] + 3, ["many"])
    commits = (tmp_path / "checkpoint" / "commits").glob("*.json")
    state = [part for path in commits for part in json.loads(path.read_text())["state"]]
    assert max(len(part["tables"]) for part in state) >= victim.TABLES
    assert victim.run(spark, tmp_path, 0, ["many"])
    assert told(tmp_path) == undisturbed("many").told


WAYS = [
    "plain",
    "plain there",
    "many",
    "many there",
    "many online",
    "absence",
    "absence there",
    "absence online",
    "clock",
    "plain parquet there",
    "plain json there",
    "plain jsonl",
    "plain jsonl there",
    "plain delta",
    "plain delta there",
    "plain function",
    "plain function there",
]


@pytest.mark.skipif(not EVERYWHERE, reason="make test-crash runs these")
@pytest.mark.parametrize("way", WAYS)
def test_killed_between_any_two_writes(
    way: str, spark: SparkSession, tmp_path: Path, undisturbed: Callable[[str], Undisturbed]
) -> None:
    """Up to the batch that writes most, then at each of its writes in turn."""
    expected = undisturbed(way)
    facts(tmp_path / "facts")
    batch = expected.fullest
    assert not victim.run(spark, tmp_path, expected.writes[batch - 1] + 1, way.split())
    assert last_commit(tmp_path) == batch - 1
    dies_at_every_write(spark, tmp_path, way, past=batch)
    assert victim.run(spark, tmp_path, 0, way.split())
    assert told(tmp_path) == expected.told


@pytest.mark.skipif(not EVERYWHERE, reason="make test-crash runs these")
@pytest.mark.parametrize(
    "way",
    ["plain", "plain there", "absence online", "plain jsonl", "plain delta", "plain function"],
)
def test_killed_while_it_starts_and_ends(
    way: str, spark: SparkSession, tmp_path: Path, undisturbed: Callable[[str], Undisturbed]
) -> None:
    expected = undisturbed(way)
    starts, ends = tmp_path / "starts", tmp_path / "ends"
    for folder in (starts, ends):
        facts(folder / "facts")
    dies_at_every_write(spark, starts, way, past=0)
    assert not victim.run(spark, ends, expected.writes[-2] + 1, way.split())
    dies_at_every_write(spark, ends, way, past=len(expected.writes))
    for folder in (starts, ends):
        assert victim.run(spark, folder, 0, way.split())
        assert told(folder) == expected.told


@pytest.mark.skipif(not EVERYWHERE, reason="make test-crash runs these")
@pytest.mark.parametrize("way", ["plain", "plain there", "many", "many there", "absence", "clock"])
def test_killed_at_random_moments(
    way: str, spark: SparkSession, tmp_path: Path, undisturbed: Callable[[str], Undisturbed]
) -> None:
    moments = random.Random(way)
    facts(tmp_path / "facts")
    for _ in range(4):
        process(tmp_path, way, wait=moments.uniform(4, 14))
    assert process(tmp_path, way) == 0
    left, expected = told(tmp_path), undisturbed(way).told
    if len(left["commits"]) == len(expected["commits"]):
        assert left == expected
    else:  # killed between Spark's log of files and that of batches, it takes two files at once
        assert in_any_batch(left) == in_any_batch(expected)


def in_any_batch(told: dict[str, Any]) -> dict[str, Any]:
    """What a stream has left behind, whichever batch it was in."""
    answers: dict[str, list[tuple[str, ...]]] = {}
    for path, rows in told["answers"].items():
        answers.setdefault(path.split("/")[0], []).extend(rows)
    return {
        "answers": {query: sorted(rows) for query, rows in answers.items()},
        "dead": sorted(line for _, line in told["dead"]),
        "left": told["left"],
    }


@pytest.mark.skipif(not EVERYWHERE, reason="make test-crash runs these")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_ends_in_good_order(number: int, tmp_path: Path) -> None:
    """`tidelog run --follow` says what it did, without a trace of the JVM, and can go on."""
    facts(tmp_path / "facts")
    rules = tmp_path / "rules.tdl"
    rules.write_text(
        "input Temp(device: text, level: text) @ time. input Rated(device: text).\n"
        "input Wind(device: text, speed: float) @ time.\n"
        "Flag(X) @ T :- Temp(X, high) @ T, Rated(X).\n"
    )
    command = [sys.executable, "-m", "tidelog.cli", "run", str(rules), "--facts"]
    command += [str(tmp_path / "facts"), "--checkpoint", str(tmp_path / "c")]
    command += ["--sink", f"jsonl:{tmp_path / 'out'}"]
    with subprocess.Popen([*command, "--follow"], stderr=subprocess.PIPE) as process:
        while not (tmp_path / "c" / "commits" / "0.json").exists():
            assert process.poll() is None
            time.sleep(0.2)
        time.sleep(1)
        process.send_signal(number)
        said = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 0
    # Of the 19 rows of Temp two cannot be read; rules need no Wind.
    assert said.splitlines()[-1].startswith("17 facts in 1 batch")
    assert "Traceback" not in said
    command += ["--close"]
    again = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    assert "0 facts in 1 batch, 1 answer; complete up to 8" in again.stderr
