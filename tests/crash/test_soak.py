"""A long stream, killed again and again: right answers, each once, and state that stays small.

`make test-crash` runs it. TIDELOG_SOAK is the number of batches, 150 by default: state is merged
every 24 of them, and each fifth of the stream must see that.
"""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from oracle import naive
from support.places import ROOT
from support.victim import LATENESS, RULES

import tidelog

VICTIM = ROOT / "tests" / "support" / "victim.py"
BATCHES = int(os.environ.get("TIDELOG_SOAK", "150"))
KILLS = BATCHES // 30
HEADERS = {"Temp": "device,level,time", "Wind": "device,speed,time"}


@dataclass
class Expected:
    """What must come of the files, by the rule of `docs/spark.md`: late is what lies at or before
    the tin of the batches before, tin the least over the inputs of the greatest tick, less 1 and
    the lateness."""

    facts: dict[str, set[tuple]] = field(default_factory=lambda: {"Temp": set(), "Wind": set()})
    late: Counter[tuple] = field(default_factory=Counter)  # file and row
    bad: Counter[str] = field(default_factory=Counter)  # by file
    taken: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    tin: int | None = None

    def batch(self, files: list[File]) -> None:
        before = self.tin
        for file in files:
            late = [row for row in file.rows if before is not None and row[-1] <= before]
            fine = [row for row in file.rows if before is None or row[-1] > before]
            self.late.update((file.name, *row) for row in late)
            self.bad.update({file.name: file.bad} if file.bad else {})
            self.taken += len(fine)
            self.facts[file.input].update(fine)
            for row in fine:
                self.seen[file.input] = max(self.seen.get(file.input, row[-1]), row[-1])
        if len(self.seen) == 2:
            now = min(self.seen.values()) - 1 - LATENESS[True]
            self.tin = now if before is None else max(before, now)


@dataclass
class File:
    name: str
    input: str
    rows: list[tuple]
    bad: int


def files(folder: Path, dice: random.Random) -> list[File]:
    """A file for every batch, its age its place: some out of order, some late, some rows bad."""
    for name in HEADERS:
        (folder / name).mkdir(parents=True)
    (folder / "Rated.csv").write_text("device\na\nb\n")
    os.utime(folder / "Rated.csv", (1, 1))
    order = list(range(BATCHES - 1))
    for i in range(2, len(order) - 1, 7):  # within the lateness, as two files are for one tick
        order[i], order[i + 1] = order[i + 1], order[i]
    made: list[File] = []
    for place, number in enumerate(order):
        name = "Wind" if number % 3 == 1 else "Temp"
        tick = number // 2
        if number and number % 25 == 0:
            tick -= min(tick, 20)  # a file that comes far too late
        rows = []
        for _ in range(6):
            at = max(0, tick + dice.choice((-1, 0, 0, 0, 1))) if number else 0
            value = dice.choice(("high", "high", "high", "low"))
            wind = dice.choice((3.0, 21.5))
            rows.append((dice.choice("abc"), value if name == "Temp" else wind, at))
        bad = dice.choice(([], [], ["a,,soon"], ["b"], ["c,high,1,2", ",1,2"]))
        path = folder / name / f"{number}.csv"
        lines = [",".join(map(str, row)) for row in rows] + bad
        dice.shuffle(lines)
        path.write_text("\n".join([HEADERS[name], *lines]) + "\n")
        os.utime(path, (place + 2, place + 2))
        made.append(File(path.name, name, rows, len(bad)))
    return made


def expectation(files: list[File], with_next: set[int]) -> Expected:
    """What must come of the files, of which some are in one batch with the next one.

    Spark numbers its listings: Rated.csv, which is no stream, is the first, number 0.
    """
    expected = Expected()
    batch: list[File] = []
    for number, file in enumerate(files, 1):
        batch.append(file)
        if number not in with_next:
            expected.batch(batch)
            batch = []
    return expected


def listed_in_vain(folder: Path) -> int | None:
    """The number of a file that Spark has listed and not yet given to a batch, if there is one.

    Killed at that moment, it gives that file and the next one to one batch.
    """
    spark = folder / "checkpoint" / "spark"
    listings = (path.name.removesuffix(".compact") for path in (spark / "sources" / "0").glob("*"))
    listed = max((int(name) for name in listings if name.isdigit()), default=-1)
    batches = [path for path in (spark / "offsets").glob("*") if path.name.isdigit()]
    if not batches:
        return listed if listed >= 0 else None
    last = max(batches, key=lambda path: int(path.name)).read_text().splitlines()[-1]
    return listed if listed > json.loads(last)["logOffset"] else None


def last_commit(folder: Path) -> int:
    commits = (folder / "checkpoint" / "commits").glob("[0-9]*.json")
    return max((int(path.stem) for path in commits), default=-1)


def victim(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(VICTIM), str(folder), "0", "soak"],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=(folder / "said.txt").open("ab"),
    )


def killed(folder: Path, dice: random.Random) -> bool:
    """Start the stream and kill it at some moment: while it starts, or some batches later."""
    process = victim(folder)
    starting = dice.random() < 0.2
    wait = dice.uniform(1, 8) if starting else dice.uniform(0, 1.5)
    until = last_commit(folder) + dice.randint(1, max(1, 2 * BATCHES // (KILLS + 4)))
    while not starting and process.poll() is None and last_commit(folder) < until:
        time.sleep(0.1)
    time.sleep(wait)
    alive = process.poll() is None
    if alive:
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


@pytest.mark.skipif(not os.environ.get("TIDELOG_CRASH"), reason="make test-crash runs these")
def test_a_long_stream_survives(tmp_path: Path) -> None:
    dice = random.Random(2026)
    made = files(tmp_path / "facts", dice)
    kills, with_next = 0, set()
    while kills < KILLS and killed(tmp_path, dice):
        kills += 1
        listed = listed_in_vain(tmp_path)
        with_next |= set() if listed is None else {listed}
    expected = expectation(made, with_next)
    assert len(expected.late) > BATCHES // 25
    assert kills >= 3 * KILLS // 4
    assert victim(tmp_path).wait() == 0, (tmp_path / "said.txt").read_text()[-3000:]

    # Exactly the answers of the facts that were in time, each of them once.
    facts = {**expected.facts, "Rated": {("a",), ("b",)}}
    end = max(expected.seen.values())
    queries = ("Shdn", "Storm", "Near")
    want = naive.evaluate(tidelog.parse(RULES), facts, queries, 0, end)
    for query in queries:
        got = []
        for path in (tmp_path / "answers" / query).glob("batch=*/*.csv"):
            with path.open(newline="") as file:
                rows = list(csv.reader(file))[1:]
            got += [(*row[:-1], int(row[-1])) if query != "Near" else tuple(row) for row in rows]
        assert len(want[query]) > (1 if query == "Near" else BATCHES // 16)
        assert Counter(got) == Counter(want[query]), query

    # Exactly the dead letters, with their rows.
    late: Counter[tuple] = Counter()
    bad: Counter[str] = Counter()
    for path in (tmp_path / "checkpoint" / "dead_letters").glob("batch=*/*.json"):
        for line in path.read_text().splitlines():
            letter = json.loads(line)
            name = Path(letter["file"]).name
            if letter["reason"].startswith("late: "):
                late[(name, *letter["row"].values())] += 1
            else:
                bad[name] += 1
    assert late == expected.late
    assert bad == expected.bad
    commit = json.loads(
        (tmp_path / "checkpoint" / "commits" / f"{last_commit(tmp_path)}.json").read_text()
    )
    assert commit["batch"] == BATCHES - len(with_next)  # a file each, and the end
    assert commit["totals"]["facts"] == expected.taken
    assert commit["totals"]["late"] == sum(late.values())
    assert commit["totals"]["dead"] == sum(bad.values())

    # State as large at the end as near the beginning; the last commit has none.
    told = [json.loads(line) for line in (tmp_path / "told.jsonl").read_text().splitlines()]
    fifth = BATCHES // 5
    early = [entry for entry in told if fifth <= entry[0] < 2 * fifth]
    ends = [entry for entry in told if 4 * fifth <= entry[0] < BATCHES]
    for column in (1, 2):  # bytes and files
        most = max(entry[column] for entry in early)
        assert 0 < max(entry[column] for entry in ends) <= 1.3 * most
