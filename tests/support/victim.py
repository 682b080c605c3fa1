"""A stream over some files that dies before its k-th write.

`victim.py FOLDER K [WORD ...]` is a process that kills itself with all it has started; K = 0 runs
to the end. `run` does the same within a session: there nothing reaches the disk from the k-th write
on, so that what is left is what a kill leaves there, and the next start costs no new process.

Of the words `many`, `absence` and `clock` are other rules than the usual ones; `parquet`, `json`,
`jsonl`, `delta` and `function` are other sinks than `csv`; `there` works in the partitions,
`online` derives online; `soak` merges state as rarely as any stream does, and notes how
much of it there is. Every write of the stream goes through the store or `save`, so that counting
them there finds every place between two writes.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import DataFrame, SparkSession

import tidelog
from tidelog.data import delta
from tidelog.pipeline import loop as pipeline
from tidelog.pipeline import sites
from tidelog.pipeline.commit import Checkpoint
from tidelog.pipeline.local_store import LocalStore
from tidelog.pipeline.places import SparkAnswers
from tidelog.spark import Commit, session, stream
from tidelog.streaming.sinks.growing import GrowingFile
from tidelog.streaming.sinks.lines import LinesSink
from tidelog.streaming.sinks.sink import LocalAnswers

INPUTS = """
input Temp(device: text, level: text) @ time.
input Wind(device: text, speed: float) @ time.
input Rated(device: text).
"""
RULES = f"""{INPUTS}
output Shdn, Storm, Near.
Flag(X) @ T :- Temp(X, high) @ T, Rated(X).
Cool(X) @ T+1 :- Flag(X) @ T, Flag(X) @ T+1.
Shdn(X) @ T+1 :- Cool(X) @ T, Flag(X) @ T+1.
Storm(X) @ T :- Wind(X, V) @ T, V >= 20.
Storm(X) @ T+1 :- Storm(X) @ T, Flag(X) @ T+1.
Near(X) :- Rated(X).
"""
TABLES = 12
# A table of state for each of them, so that their numbers have one digit or two.
MANY = "\n".join(
    [
        INPUTS,
        f"output All, D{TABLES}, Gust.",
        "Gust(X, V) @ T :- Wind(X, V) @ T, V >= 20.",
        *(f"D{i}(X) @ T :- Temp(X, L) @ T-{i % 3}, Rated(X)." for i in range(1, TABLES + 1)),
        *(f"D{i}(X) @ T :- D{i}(X) @ T-1, Gust(X, V) @ T." for i in range(1, TABLES + 1)),
        f"All(X) @ T :- {', '.join(f'D{i}(X) @ T-1' for i in range(1, TABLES + 1))}, D1(X) @ T.",
    ]
)
ABSENCE = f"""{INPUTS}
output Calm, Level, Lost.
Told(X) @ T :- Temp(X, L) @ T.
Calm(X) @ T :- Wind(X, V) @ T, not Temp(X, high) @ T, not Temp(X, high) @ T-1.
Lost(X) @ T+2 :- Told(X) @ T, not Told(X) @ T+1, not Told(X) @ T+2.
Level(X, L) @ T :- Temp(X, L) @ T.
Level(X, L) @ T :- Level(X, L) @ T-1, Wind(Y, V) @ T, not Told(X) @ T.
"""
CLOCK = f"""{INPUTS}
clock Tick.
output Level, Silent.
Told(X) @ T :- Temp(X, L) @ T.
Level(X, L) @ T :- Temp(X, L) @ T.
Level(X, L) @ T :- Level(X, L) @ T-1, Tick @ T, not Told(X) @ T.
Silent(X) @ T :- Tick @ T, Rated(X), not Told(X) @ T.
"""
PROGRAMS = {"plain": RULES, "many": MANY, "absence": ABSENCE, "clock": CLOCK}
SINKS = ("parquet", "json", "jsonl", "delta", "function")
LATENESS = {False: 1, True: 3}  # of a soak


class Died(Exception):
    """A stream has come to the write before which it was to die."""


class Writes:
    """Counts writes, and dies before one of them; then there are no others."""

    def __init__(self, fatal: int, die: Callable[[], None]) -> None:
        self.fatal, self.die, self.count = fatal, die, 0

    def before(self) -> None:
        self.count += 1
        if 0 < self.fatal <= self.count:
            self.die()

    @contextmanager
    def watched(self) -> Iterator[None]:
        places: list[tuple[Any, str]] = [
            *((LocalStore, name) for name in ("write", "create", "rename", "make", "delete")),
            *((GrowingFile, name) for name in ("open", "add", "cut")),
            (LinesSink, "mark"),
            (delta, "append"),
            (Answered, "__call__"),
        ]
        with ExitStack() as stack:
            for owner, name in (*places, (LocalAnswers, "save"), (SparkAnswers, "save")):
                stack.enter_context(patch.object(owner, name, self._counted(owner, name)))
            stack.enter_context(patch.object(Checkpoint, "release", self._released()))
            yield

    def _counted(self, owner: Any, name: str) -> Callable[..., Any]:
        original: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(original)  # a sink looks at what a function takes
        def watched(*args: Any, **more: Any) -> Any:
            self.before()
            return original(*args, **more)

        return watched

    def _released(self) -> Callable[[Checkpoint], None]:
        """Whoever is dead unlocks a checkpoint, and no longer tidies it up."""
        original = Checkpoint.release

        def released(point: Checkpoint) -> None:
            if 0 < self.fatal <= self.count:
                point._made = ()
            original(point)

        return released


@dataclass(frozen=True)
class Answered:
    """A sink of a user's own, which may hear a batch twice: a file for each."""

    folder: Path

    def __call__(self, batch: int, answers: dict[str, DataFrame], lineage: str) -> None:
        self.folder.mkdir(exist_ok=True)
        rows = [(query, *row) for query, frame in answers.items() for row in frame.collect()]
        path = self.folder / f"{batch}-{lineage}.json"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in sorted(rows)))


def kill() -> None:
    os.killpg(0, signal.SIGKILL)


def die() -> None:
    raise Died


def run(spark: SparkSession, folder: Path, fatal: int = 0, words: Collection[str] = ()) -> bool:
    """Go on with the stream in a folder; whether it came to its end, and did not die."""
    try:
        writes_of(spark, folder, Writes(fatal, die), words)
    except Died:
        return False
    return True


def writes_of(
    spark: SparkSession, folder: Path, writes: Writes, words: Collection[str]
) -> list[int]:
    """Run the stream in a folder to its end; how often it had written at the end of each batch."""
    soak = "soak" in words
    rules = next((text for name, text in PROGRAMS.items() if name in words), RULES)

    kind = next((word for word in words if word in SINKS), "csv")
    answers = folder / "answers"
    sink: Any = Answered(answers) if kind == "function" else f"{kind}:{answers}"
    counts: list[int] = []

    def note(commit: Commit) -> None:
        counts.append(writes.count)
        files = sum(len(part.files) for part in commit.state)
        with (folder / "told.jsonl").open("a") as lines:
            lines.write(json.dumps([commit.batch, commit.state_bytes, files]) + "\n")

    little = -1 if "there" in words else sites.LITTLE
    most = pipeline.MOST_PARTS if soak else 2
    with (
        writes.watched(),
        patch.object(sites, "LITTLE", little),
        patch.object(pipeline, "MOST_PARTS", most),
    ):
        running = stream(
            spark,
            tidelog.parse(rules),
            inputs=folder / "facts",
            sink=sink,
            checkpoint=folder / "checkpoint",
            lateness=LATENESS[soak],
            mode="online" if "online" in words else "offline",
            partitions=2,
            files_per_batch=1,
            trigger={"availableNow": True},
            told=note,
        )
        running.awaitTermination()
        running.close()
    return counts


def main(folder: Path, fatal: int, words: Collection[str]) -> None:
    master = next((word for word in words if "://" in word), "local[2]")
    options = {"spark.sql.shuffle.partitions": "2", "spark.sql.codegen.wholeStage": "false"}
    writes_of(session(master, **options), folder, Writes(fatal, kill), words)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
