"""Killed at any moment and started again, a stream ends as if nothing had happened."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT

from tidelog.pipeline.commit import SPARKS_LOCK

VICTIM = ROOT / "tests" / "support" / "victim.py"
EVERYWHERE = bool(os.environ.get("TIDELOG_CRASH"))


def facts(folder: Path) -> None:
    """Files that split ticks, some rows late, some unreadable."""
    folder.mkdir(parents=True)
    (folder / "Rated.csv").write_text("device\na\nb\n")
    temps = [
        ["a,high,0", "b,low,0", "a,high,1"],
        ["b,high,1", "a,high,2", "b,high,2", "a,,3"],
        ["a,high,3", "b,high,3", "b,high,4", "a,high,soon"],
        ["a,high,0", "b,high,5", "a,low,5", "a,high,6"],  # its first row is late
        ["a,high,7", "b,high,8"],
    ]
    winds = [["a,25.0,0", "b,3.0,1"], ["b,30.5,4"], ["a,x,5", "a,1.0,6"], ["b,1.0,9"]]
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


def run(folder: Path, fatal: int = 0, there: bool = False, wait: float | None = None) -> int:
    """Run the victim; its exit code. It is killed with its whole group."""
    command = [sys.executable, str(VICTIM), str(folder), str(fatal), *(["there"] if there else [])]
    process = subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        process.communicate(timeout=wait or 240)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    return process.returncode


def told(folder: Path) -> dict[str, Any]:
    """Everything that a stream has left behind, whatever its files are called."""
    answers = {}
    for path in sorted((folder / "answers").glob("*/batch=*/*.csv")):
        with path.open(newline="") as file:
            rows = sorted(tuple(row) for row in csv.reader(file))
        answers.setdefault("/".join(path.relative_to(folder).parts[1:3]), []).extend(rows)
    letters = [
        (path.parent.name, line.replace(str(folder), ""))
        for path in sorted((folder / "checkpoint" / "dead_letters").glob("batch=*/*.json"))
        for line in sorted(path.read_text().splitlines())
    ]
    commits = {}
    for path in sorted((folder / "checkpoint" / "commits").iterdir()):
        found = json.loads(path.read_text().replace(str(folder), ""))
        found.pop("sha256")
        found["state"] = [(part["folder"], part["tables"]) for part in found["state"]]
        commits[path.name] = found
    state = sorted(entry.name for entry in (folder / "checkpoint" / "state").iterdir())
    hidden = sorted(
        str(path.relative_to(folder))
        for part in ("answers", "checkpoint")
        for path in (folder / part).rglob(".*")
        if "spark" not in path.relative_to(folder / part).parts
        and not path.name.endswith(".crc")
        and path.name != SPARKS_LOCK
    )
    return {"answers": answers, "dead": letters, "commits": commits, "state": state, "left": hidden}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, dict[str, Any]]:
    """What a run without any accident leaves, in the driver and in the partitions."""
    found = {}
    for there in (False, True) if EVERYWHERE else (False,):
        folder = tmp_path_factory.mktemp("undisturbed")
        facts(folder / "facts")
        assert run(folder, there=there) == 0
        found[there] = told(folder)
        assert found[there]["left"] == []
        assert found[there]["dead"]
        assert len(found[there]["commits"]) == 11
    return found


def survives(folder: Path, points: Iterable[int], there: bool) -> dict[str, Any]:
    """Die at each point in turn, then run to the end."""
    facts(folder / "facts")
    for point in points:
        assert run(folder, point, there) in (-signal.SIGKILL, 0)
    assert run(folder, there=there) == 0
    return told(folder)


def test_killed(tmp_path: Path, undisturbed: dict[bool, dict[str, Any]]) -> None:
    """Once, and three times where there is time for it."""
    points = (100, 9, 17) if EVERYWHERE else (100,)
    assert survives(tmp_path, points, False) == undisturbed[False]


@pytest.mark.skipif(not EVERYWHERE, reason="make test-crash runs these")
@pytest.mark.parametrize("there", [False, True])
def test_killed_between_any_two_writes(
    there: bool, tmp_path: Path, undisturbed: dict[bool, dict[str, Any]]
) -> None:
    """Up to a batch that has everything, then at each of its writes in turn."""
    assert survives(tmp_path, (94, *range(1, 26)), there) == undisturbed[there]


@pytest.mark.skipif(not EVERYWHERE, reason="make test-crash runs these")
@pytest.mark.parametrize("there", [False, True])
def test_killed_while_it_starts_and_ends(
    there: bool, tmp_path: Path, undisturbed: dict[bool, dict[str, Any]]
) -> None:
    assert survives(tmp_path, (*range(1, 9), 120, 60, 22, 15), there) == undisturbed[there]


@pytest.mark.skipif(not EVERYWHERE, reason="make test-crash runs these")
@pytest.mark.parametrize("seed", range(6))
def test_killed_at_random_moments(
    seed: int, tmp_path: Path, undisturbed: dict[bool, dict[str, Any]]
) -> None:
    moments = random.Random(seed)
    facts(tmp_path / "facts")
    there = bool(seed % 2)
    for _ in range(4):
        run(tmp_path, there=there, wait=moments.uniform(4, 14))
    assert run(tmp_path, there=there) == 0
    assert told(tmp_path) == undisturbed[there]


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
    assert said.splitlines()[-1].startswith("15 facts in 1 batch")
    assert "Traceback" not in said
    again = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    assert "0 facts in 1 batch" in again.stderr
