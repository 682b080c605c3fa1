"""A stream over some files that dies before its k-th write: `victim.py FOLDER K [WORD ...]`.

K = 0 runs to the end. `there` works in the partitions; `soak` merges state as rarely as any stream
does, and notes how much of it there is. Every write of the stream goes through the store or `save`,
so that counting them there finds every place between two writes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import tidelog
from tidelog.pipeline import loop as pipeline
from tidelog.pipeline.places import SparkAnswers
from tidelog.pipeline.store import Store
from tidelog.spark import Commit, session, stream
from tidelog.streaming.sinks.sink import LocalAnswers

RULES = """
input Temp(device: text, level: text) @ time.
input Wind(device: text, speed: float) @ time.
input Rated(device: text).
output Shdn, Storm, Near.
Flag(X) @ T :- Temp(X, high) @ T, Rated(X).
Cool(X) @ T+1 :- Flag(X) @ T, Flag(X) @ T+1.
Shdn(X) @ T+1 :- Cool(X) @ T, Flag(X) @ T+1.
Storm(X) @ T :- Wind(X, V) @ T, V >= 20.
Storm(X) @ T+1 :- Storm(X) @ T, Flag(X) @ T+1.
Near(X) :- Rated(X).
"""


class Writes:
    """Counts writes, and kills the whole process group before one of them."""

    def __init__(self, fatal: int) -> None:
        self.fatal, self.count = fatal, 0

    def before(self) -> None:
        self.count += 1
        if self.count == self.fatal:
            os.killpg(0, signal.SIGKILL)

    def watch(self, owner: Any, name: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def watched(*args: Any, **more: Any) -> Any:
            self.before()
            return original(*args, **more)

        setattr(owner, name, watched)


LATENESS = {False: 1, True: 3}  # of a soak


def main(folder: Path, fatal: int, there: bool, soak: bool, master: str) -> None:
    writes = Writes(fatal)
    for name in ("write", "rename", "make", "delete"):
        writes.watch(Store, name)
    for kind in (LocalAnswers, SparkAnswers):
        writes.watch(kind, "save")
    if there:
        patch.object(pipeline, "LITTLE", -1).start()
    if not soak:
        patch.object(pipeline, "MOST_PARTS", 2).start()
    options = {"spark.sql.shuffle.partitions": "2", "spark.sql.codegen.wholeStage": "false"}
    spark = session(master, **options)

    def note(commit: Commit) -> None:
        files = sum(len(part.files) for part in commit.state)
        with (folder / "told.jsonl").open("a") as lines:
            lines.write(json.dumps([commit.batch, commit.state_bytes, files]) + "\n")

    running = stream(
        spark,
        tidelog.parse(RULES),
        inputs=folder / "facts",
        sink=f"csv:{folder / 'answers'}",
        checkpoint=folder / "checkpoint",
        lateness=LATENESS[soak],
        partitions=2,
        files_per_batch=1,
        trigger={"availableNow": True},
        told=note,
    )
    running.awaitTermination()
    running.close()
    print(writes.count)


if __name__ == "__main__":
    words = sys.argv[3:]
    master = next((word for word in words if "://" in word), "local[2]")
    main(Path(sys.argv[1]), int(sys.argv[2]), "there" in words, "soak" in words, master)
