"""Streams on Spark with accidents: what they are given, what happens to them, what must come of it.

A world is a folder of facts under any names, a stream over it with options at random, and the
processes that run it. Accidents befall the processes, the files or the disk. In the end the answers
must be those of the facts that were not put aside, each of them once, whatever happened.
"""

from __future__ import annotations

import csv
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from oracle import naive

import tidelog
from support.names import NAMES
from support.places import ROOT
from support.standalone import children

RULES = """
input Temp(device: text, level: text) @ time.
input Wind(device: text, speed: float) @ time.
input Near(a: text, b: text).
output Shdn, AtRisk, Gust.
Flag(X) @ T :- Temp(X, high) @ T.
Cool(X) @ T+1 :- Flag(X) @ T, Flag(X) @ T+1.
Shdn(X) @ T+1 :- Cool(X) @ T, Flag(X) @ T+1.
AtRisk(Y) @ T :- Shdn(X) @ T, Near(X, Y).
AtRisk(X) @ T+1 :- AtRisk(X) @ T, Flag(X) @ T+1.
Gust(X, V) @ T :- Wind(X, V) @ T, Flag(X) @ T-1.
"""
SPEEDS = (0.1, -0.0, 0.0, 1e300, 5e-324, 21.5, math.inf, -math.inf, 1e16, 123456789.125)
DEVICES = ("a", "b", "ü 'c'")
MAX_JUMP = 1000
# Seconds that a start may take, to the end of its files.
PATIENCE = 400


@dataclass(frozen=True)
class Given:
    """A fact as a file has it; which file that is decides whether it came in time."""

    file: str
    name: str
    device: str
    value: Any
    tick: int


@dataclass
class Tally:
    """What happened in all worlds."""

    streams: int = 0
    starts: int = 0
    accidents: Counter[str] = field(default_factory=Counter)
    survived: Counter[str] = field(default_factory=Counter)
    facts: int = 0
    answers: int = 0
    put_aside: int = 0
    outlived: int = 0  # processes that were there long after the one that had started them
    longest: float = 0.0  # seconds from an accident to the end of the start it happened to


class Broken(AssertionError):
    """Something was lost, doubled, or said in a way that no user should read."""


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def below(pid: int) -> list[int]:
    """All processes that a process has started, and these in turn."""
    pids = [pid_ for child in children(pid) for pid_ in (child, *below(child))]
    return list(dict.fromkeys(pids))


def command_of(pid: int) -> str:
    try:
        return (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode("utf-8", "replace")
        )
    except OSError:
        return ""


class World:
    """A stream, what it is given, and the accidents it meets."""

    def __init__(self, folder: Path, dice: random.Random, tally: Tally) -> None:
        self.folder, self.dice, self.tally = folder, dice, tally
        self.facts = folder / dice.choice(("facts", "facts ü%20 [x]", "it's *facts*"))
        self.rows: list[Given] = []
        self.bad: dict[str, int] = {}  # by file, how many rows cannot be read
        self.read: set[str] = set()  # the files that a start has come to the end of
        self.files = 0
        self.tick = dice.choice((0, -3, 57))
        self.near = [("a", "b"), ("b", "ü 'c'")]
        self.disk: Path | None = None
        self.place = folder
        self.clock: Path | None = None  # how far the clock of its processes is moved
        self.said: dict[int, Path] = {}  # what each start said on standard error
        self.accident = "nothing"  # what happened last
        self.options = self._options()

    def _options(self) -> dict[str, str]:
        dice = self.dice
        mode = dice.choice(("offline", "offline", "online"))
        emit = dice.choice(("definitive", "eager"))
        strict = mode == "offline" and dice.random() < 0.2
        return {
            "mode": mode,
            "emit": emit,
            "history": "strict" if strict else "derived",
            "sink": dice.choice(("csv", "json", "parquet", "jsonl")),
            "there": dice.choice(("", "there")),
            "master": "local[2]",
        }

    def __str__(self) -> str:
        return f"{self.folder.name} {' '.join(v for v in self.options.values() if v)}"

    @property
    def queries(self) -> tuple[str, ...]:
        # Strictly, what a query needs of the past must have an end.
        return (
            ("Shdn", "Gust") if self.options["history"] == "strict" else ("Shdn", "AtRisk", "Gust")
        )

    # What it is given

    def prepare(self) -> None:
        """The rules, the rigid facts and the first files; perhaps on a disk of its own."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "rules.tdl").write_text(RULES)
        self.facts.mkdir()
        (self.facts / "Near.csv").write_text("a,b\na,b\nb,ü 'c'\n")
        for name in ("Temp", "Wind"):
            (self.facts / name).mkdir()
        for _ in range(self.dice.randint(6, 12)):
            self.add_file()

    def add_file(self) -> None:
        """One more file, whole at once, under any name, with any age."""
        dice = self.dice
        name = dice.choice(("Temp", "Temp", "Wind"))
        ending = dice.choice(("csv", "jsonl", "parquet"))
        path = self.facts / name / f"{dice.choice(NAMES)}{self.files}.{ending}"
        self.files += 1
        rows: list[tuple[str, Any, int]] = []
        for _ in range(dice.randint(1, 12)):
            at = self.tick + dice.choice((0, 0, 0, 0, 1, -1, -9))
            value = (
                dice.choice(("high", "high", "high", "low"))
                if name == "Temp"
                else dice.choice(SPEEDS)
            )
            rows.append((dice.choice(DEVICES), value, at))
        if dice.random() < 0.1:  # a clock that has jumped
            rows.append(
                (dice.choice(DEVICES), "high" if name == "Temp" else 1.5, self.tick + 10**9)
            )
        self.tick += dice.choice((0, 1, 1, 2))
        bad = dice.choice((0, 0, 0, 1)) if ending != "parquet" else 0
        hidden = path.with_name(f".{self.files}.part")
        _write(hidden, ending, name, rows, bad)
        age = time.time() + self.files - 10_000
        if dice.random() < 0.1:  # the clock of the machine that wrote it has jumped
            age += dice.choice((-(10**9), 10**9, 4 * 10**9))
        os.utime(hidden, (age, age))
        hidden.rename(path)
        self.bad[str(path)] = bad
        self.rows += [Given(str(path), name, *row) for row in rows]

    def rename_one(self) -> bool:
        """A file that was read gets any other name: it is a new file, and its facts come again."""
        there = sorted(path for path in self.read if Path(path).exists())
        if not there:
            return False
        path = Path(self.dice.choice(there))
        new = path.with_name(f"{self.dice.choice(NAMES)} again {self.files}{path.suffix}")
        self.files += 1
        path.rename(new)
        self.bad[str(new)] = self.bad[str(path)]
        self.rows += [replace(row, file=str(new)) for row in self.rows if row.file == str(path)]
        return True

    def replace_one(self) -> None:
        """A file is written anew, with the same content."""
        path = Path(self.dice.choice(sorted({row.file for row in self.rows})))
        if path.exists():
            hidden = path.with_name(f".{self.files}.part")
            shutil.copy2(path, hidden)
            hidden.replace(path)

    # Running it

    def command(self, *, last: bool) -> list[str]:
        options = self.options
        target = self.place / ("answers.jsonl" if options["sink"] == "jsonl" else "answers ü%")
        words = [sys.executable, str(ROOT / "tests" / "support" / "chaos_run.py")]
        words += ["there"] if options["there"] else ["here"]
        words += ["run", str(self.folder / "rules.tdl"), "--facts", str(self.facts)]
        words += ["--mode", options["mode"], "--emit", options["emit"]]
        words += ["--history", options["history"], "--master", options["master"]]
        words += ["--sink", f"{options['sink']}:{target}"]
        words += ["--checkpoint", str(self.place / "check:point [x]")]
        words += ["--lateness", "3", "--max-jump", str(MAX_JUMP), "--partitions", "2"]
        words += ["--files-per-batch", "2"]
        for query in self.queries:
            words += ["--query", query]
        return [*words, "--close" if last else "--keep-open"]

    def start(self, *, last: bool) -> subprocess.Popen[bytes]:
        self.tally.starts += 1
        path = self.folder / f"said{self.tally.starts}.txt"
        with path.open("wb") as said:
            process = subprocess.Popen(
                self.command(last=last),
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env={
                    **os.environ,
                    "PYTHONPATH": f"{ROOT / 'src'}",
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "CHAOS_AT_LENGTH": str(path.with_suffix(".long")),
                    **self.moved_clock(),
                },
            )
        self.said[process.pid] = path
        return process

    @property
    def names(self) -> set[str]:
        """The files there are, or were before they got another name."""
        return set(self.bad)

    def ended(self, process: subprocess.Popen[bytes], since: float | None = None) -> int:
        """Wait for the end of a start; Broken when it hangs, or says what no user should read."""
        known: set[int] = set()
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None:
            known.update(below(process.pid))
            if time.monotonic() > deadline:
                self._stacks(process, known)
                raise Broken(f"{self}: hangs after {self.accident}: {self.said[process.pid]}")
            time.sleep(0.1)
        if since is not None:
            self.tally.longest = max(self.tally.longest, time.monotonic() - since)
        self._alone(known)
        said = self.said[process.pid].read_text("utf-8", "replace")
        for sign in ("Traceback", "Py4J", "Exception", "\tat ", "Error: [", "?0_", "[future]"):
            if sign in said:
                raise Broken(
                    f"{self}: `{sign}` was said after {self.accident}, exit {process.returncode}:"
                    f"\n{said[-3000:]}"
                )
        sentences = [line for line in said.splitlines() if "rror: " in line or line == "Aborted!"]
        # Click says nothing where the second Ctrl-C comes while it says that it was aborted.
        few = 0 if self.accident == "Ctrl-C twice" else 1
        if process.returncode > 0 and not few <= len(sentences) <= 1:
            raise Broken(
                f"{self}: exit {process.returncode} without one sentence after {self.accident}:"
                f"\n{said[-3000:]}"
            )
        return process.returncode

    def _stacks(self, process: subprocess.Popen[bytes], known: set[int]) -> None:
        """Where it hangs, to what it said; then it is ended."""
        process.send_signal(signal.SIGUSR1)
        for pid in known:
            if "java" in command_of(pid).split(" ")[0] and alive(pid):
                os.kill(pid, signal.SIGQUIT)
        time.sleep(3)
        for pid in (process.pid, *known):
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def _alone(self, known: set[int]) -> None:
        """Nothing that it had started is left."""
        deadline = time.monotonic() + 30
        while any(map(alive, known)) and time.monotonic() < deadline:
            time.sleep(0.1)
        left = [pid for pid in known if alive(pid)]
        self.tally.outlived += len(left)
        for pid in left:
            os.kill(pid, signal.SIGKILL)

    # What must have come of it

    def check(self) -> None:
        """Exactly the answers of the facts that were not put aside, each of them once."""
        checkpoint = self.place / "check:point [x]"
        numbers = [int(p.stem) for p in (checkpoint / "commits").glob("[0-9]*.json")]
        commit = json.loads((checkpoint / "commits" / f"{max(numbers)}.json").read_text())
        letters = [
            json.loads(line)
            for path in (checkpoint / "dead_letters").glob("batch=*/*.json")
            for line in path.read_text("utf-8").splitlines()
        ]
        totals = commit["totals"]
        every = len(self.rows) + sum(self.bad.values())
        if (totals["facts"] + totals["late"] + totals["dead"], totals["late"] + totals["dead"]) != (
            every,
            len(letters),
        ):
            raise Broken(f"{self}: {every} rows, {len(letters)} letters, and {totals}")
        aside: set[tuple[str, int]] = set()  # facts of one tick in a file are late together
        for letter in letters:
            said = re.match(r"(?:late: )?tick (-?\d+) ", letter["reason"])
            if said:
                aside.add((letter["file"].removeprefix("file://"), int(said[1])))
        given: dict[str, set[tuple[Any, ...]]] = {
            "Near": set(self.near),
            "Temp": set(),
            "Wind": set(),
        }
        for row in self.rows:
            if (row.file, row.tick) not in aside:
                given[row.name].add((row.device, row.value, row.tick))
        first, seen = commit["clock"]["first"], commit["clock"]["seen"]
        want = naive.evaluate(tidelog.parse(RULES), given, self.queries, first, max(seen.values()))
        got = self.answers()
        for query in self.queries:
            if Counter(got[query]) != Counter(want[query]):
                lost, more = Counter(want[query]), Counter(got[query])
                raise Broken(
                    f"{self}: {query}: lost {list((lost - more).items())[:5]},"
                    f" too many {list((more - lost).items())[:5]}"
                )
            self.tally.answers += len(got[query])
        self.tally.facts += totals["facts"]
        self.tally.put_aside += len(letters)

    def answers(self) -> dict[str, list[tuple[Any, ...]]]:
        got: dict[str, list[tuple[Any, ...]]] = {query: [] for query in self.queries}
        sink = self.options["sink"]
        if sink == "jsonl":
            for line in (self.place / "answers.jsonl").read_text("utf-8").splitlines():
                row = json.loads(line, parse_constant=_refused)
                got[row.pop("predicate")].append(_typed(row))
            return got
        for query in self.queries:
            for path in sorted((self.place / "answers ü%" / query).glob(f"batch=*/*.{sink}")):
                if sink == "parquet":
                    rows = pq.read_table(path, partitioning=None).to_pylist()
                elif sink == "csv":
                    with path.open(newline="", encoding="utf-8") as file:
                        rows = list(csv.DictReader(file))
                else:
                    lines = path.read_text("utf-8").splitlines()
                    rows = [json.loads(line, parse_constant=_refused) for line in lines]
                got[query] += map(_typed, rows)
        return got

    # A clock of its own

    def with_clock(self) -> bool:
        """Give its processes a clock that can be moved; False if there is no compiler for that."""
        self.folder.mkdir(parents=True, exist_ok=True)
        compiler, source = shutil.which("cc"), ROOT / "tests" / "support" / "moved_clock.c"
        if compiler is None:
            return False
        library = str(self.folder / "moved_clock.so")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, str(source)], check=True)
        self.clock = self.folder / "clock"
        self.move_clock(0)
        return True

    def moved_clock(self) -> dict[str, str]:
        if self.clock is None:
            return {}
        library = self.folder / "moved_clock.so"
        return {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(self.clock)}

    def move_clock(self, seconds: int) -> None:
        """Processes that run see the time of day so far from what it is."""
        assert self.clock is not None
        self.clock.touch()
        with self.clock.open("r+b", buffering=0) as file:  # in place: they have it open
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))

    # A disk of its own

    @contextmanager
    def on_small_disk(self, size: str = "24m") -> Iterator[bool]:
        """Checkpoint and answers on a file system that can be filled; False if there is none."""
        disk = self.folder / "disk"
        disk.mkdir(parents=True)
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)], capture_output=True
        )
        if mounted.returncode:
            yield False
            return
        self.disk = self.place = disk
        try:
            yield True
        finally:
            subprocess.run(["umount", "-l", str(disk)], check=True)

    def fill_disk(self) -> None:
        assert self.disk is not None
        try:
            with (self.disk / "ballast").open("wb", buffering=0) as ballast:
                while True:
                    ballast.write(bytes(4096))
        except OSError:
            return

    def empty_disk(self) -> None:
        assert self.disk is not None
        (self.disk / "ballast").unlink(missing_ok=True)


def _refused(word: str) -> None:
    raise Broken(f"{word} is not JSON")


def _typed(row: dict[str, Any]) -> tuple[Any, ...]:
    """The values of an answer; the speed of a gust is a float, however it is written."""
    return tuple(int(v) if k == "time" else float(v) if k == "v" else v for k, v in row.items())


def _write(path: Path, ending: str, name: str, rows: list[tuple[str, Any, int]], bad: int) -> None:
    column = "level" if name == "Temp" else "speed"
    if ending == "csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["device", column, "time"])
            writer.writerows([*rows, *([["a", "high", "soon"]] * bad)])
    elif ending == "jsonl":
        lines = [
            json.dumps({"device": d, column: _json(v), "time": t}, ensure_ascii=False)
            for d, v, t in rows
        ]
        path.write_text("".join(f"{line}\n" for line in [*lines, *(["not JSON"] * bad)]), "utf-8")
    else:
        type_ = pa.string() if name == "Temp" else pa.float64()
        columns = list(zip(*rows, strict=True))
        arrays = [
            pa.array(columns[0]),
            pa.array(columns[1], type_),
            pa.array(columns[2], pa.int64()),
        ]
        pq.write_table(pa.table(arrays, names=["device", column, "time"]), path)


def _json(value: Any) -> Any:
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
