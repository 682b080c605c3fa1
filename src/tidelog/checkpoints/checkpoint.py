"""A checkpoint as people look at it: show, verify, audit, rollback, export, letters."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TypeVar

from tidelog.causes import Cause
from tidelog.checkpoints.folder import checkpoint_folder, locked
from tidelog.checkpoints.in_process import SnapshotCheckpoint, is_in_process
from tidelog.checkpoints.letters import Chosen, Letter, write_rows
from tidelog.checkpoints.on_spark import SparkCheckpoint, is_spark
from tidelog.checkpoints.reports import (
    UNITS,
    Audit,
    Check,
    Problem,
    Rollback,
    Show,
    refuse_commit,
)
from tidelog.checkpoints.tables import merged, write_tables
from tidelog.errors import DataError, Refused
from tidelog.streaming.ledger import Ledger

T = TypeVar("T")

# How often a checkpoint is read again that a stream is changing meanwhile.
TRIES = 5
FORMATS = ("parquet", "csv")


class Checkpoint:
    """The checkpoint of a stream, on Spark or in process, in a folder on this machine.

    Spark is not needed. A stream may be at work on it meanwhile, except for `rollback`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._folder = checkpoint_folder(path)
        self._open()

    def _open(self) -> None:
        """Read what there is; Refused if it is no checkpoint, or not whole."""
        self._there: SparkCheckpoint | SnapshotCheckpoint
        if is_spark(self._folder):
            self._there = SparkCheckpoint(self._folder)
        elif is_in_process(self._folder):
            self._there = SnapshotCheckpoint(self._folder)
        else:
            raise DataError(
                f"{self._folder.name} is no checkpoint: it has neither tidelog.json nor stream.json"
            )

    def __repr__(self) -> str:
        """Where it is, and its last commit."""
        last = self._there.numbers[-1:]
        told = f"last commit {last[0]}" if last else "no commit yet"
        return f"<checkpoint {self._folder.name}: {told}>"

    def show(self, commits: int = 5) -> Show:
        """What it is of, where the stream stands, and its last commits."""
        return self._unchanged(lambda: self._show(commits))

    def _show(self, commits: int) -> Show:
        there = self._there
        last = there.last
        return Show(
            self._folder.name,
            there.engine,
            there.id,
            there.rules,
            there.queries,
            there.options,
            there.sink,
            there.ticks,
            tuple(there.commit(number) for number in reversed(there.numbers[-commits:])),
            there.possible,
            () if last is None else tuple(there.sizes(last)),
        )

    def verify(self, sink: str | None = None) -> list[Problem]:
        """What is missing or damaged, of all that commits refer to, the sink included."""
        return self._unchanged(lambda: self._verify(sink))

    def _verify(self, sink: str | None) -> list[Problem]:
        problems = list(self._there.problems())
        reader = self._there.reader(sink)
        if not isinstance(reader, str):
            problems += reader.problems(self._there.sink_states())
        elif "is not there" in reader and self._there.numbers:
            problems.append(Problem.of(reader))
        return problems

    def audit(self, sink: str | None = None) -> Audit:
        """The ledger, counted again from dead letters and from the answers in the sink."""
        return self._unchanged(lambda: self._audit(sink))

    def _audit(self, sink: str | None) -> Audit:
        there = self._there
        checks: list[Check] = list(there.checks())
        unknown = [
            "facts and heartbeats: rows that came in are not kept; compare them with your source"
        ]
        reader = there.reader(sink)
        if isinstance(reader, str):
            unknown.append(f"answers: {reader}")
        else:
            checks += there.sink_checks(reader)
            if not reader.has_batches:
                unknown.append(
                    "answers of each batch: the sink does not say which batch they are of"
                )
        if there.numbers and there.numbers[0] > 0:
            unknown.append(
                f"commits before {there.numbers[0]}: they are deleted; their numbers are in the"
                " totals"
            )
        last = there.last
        return Audit(Ledger() if last is None else last.total, tuple(checks), tuple(unknown))

    def _unchanged(self, look: Callable[[], T]) -> T:
        """What a look finds while no stream commits; it looks again if one did."""
        for _ in range(TRIES):
            self._open()
            before = self._there.numbers[-1:], self._written()
            failed: DataError | OSError | None = None
            try:
                found = look()
            except (DataError, OSError) as error:
                failed = error
            self._there.__dict__.pop("numbers", None)
            if before == (self._there.numbers[-1:], self._written()):
                if failed is not None:
                    raise failed
                return found
        raise DataError(
            f"{self._folder.name} changes all the time: stop its stream, or copy the checkpoint"
        )

    def _written(self) -> float:
        """When the latest snapshot was written; a commit on Spark has a number instead."""
        path = self._folder.here("stream.json")
        return os.stat(path).st_mtime if os.path.exists(path) else 0.0

    # Going back

    def plan_rollback(self, to: int) -> Rollback:
        """What a rollback would take back; Refused if not all of that commit is there."""
        there = self._there
        last = there.last
        if last is None or not (to == last.number or to in there.possible):
            raise Refused(
                refuse_commit(self._folder.name, to, there.possible, UNITS[there.engine]),
                code=Cause.NO_COMMIT,
            )
        goal = there.commit(to)
        return Rollback(
            to,
            last.number,
            tuple(number for number in there.numbers if number > to),
            UNITS[there.engine],
            last.total.facts - goal.total.facts,
            sum(last.answered.values()) - sum(goal.answered.values()),
            there.sink_after(),
        )

    def rollback(self, to: int) -> Rollback:
        """Go back to a commit: the next start goes on from there, and reads again what came after.

        Refused while a stream is at work, and for a commit of which not all is there.
        """
        with locked(self._folder):
            self._open()
            plan = self.plan_rollback(to)
            self._there.roll_back(to)
        self._open()
        return plan

    # State and dead letters

    def export(
        self, target: str | os.PathLike[str], *, at: int | None = None, format_: str = "parquet"
    ) -> dict[str, int]:
        """Write the state of a commit as a file for each predicate; by file, how many rows."""
        if format_ not in FORMATS:
            raise ValueError(f"format is {' or '.join(FORMATS)}, not {format_!r}")
        there = self._there
        possible = (*there.possible, *there.numbers[-1:])
        number = at if at is not None else max(possible, default=None)
        if number is None or number not in possible:
            ways = ", ".join(map(str, possible)) or "no commit"
            raise DataError(
                f"{self._folder.name} has no state of commit {number}; it has that of {ways}"
            )
        ticks = there.ticks if there.options.get("timestamps", True) else None
        return write_tables(merged(there.state(number)), os.fspath(target), format_, ticks)

    def letters(
        self,
        problem: str | None = None,
        input_: str | None = None,
        batches: str | int | None = None,
    ) -> Iterator[Letter]:
        """The dead letters: all, or those with a problem (`late`, or a part of the reason)."""
        chosen = Chosen.of(problem, input_, batches)
        return (letter for letter in self._there.letters() if chosen.has(letter))

    def replay(
        self,
        target: str | os.PathLike[str],
        problem: str | None = None,
        input_: str | None = None,
        batches: str | int | None = None,
    ) -> tuple[int, int]:
        """Write dead letters as JSON lines that `--facts` reads: how many, and how many cannot be.

        They are rows again: a stream that reads the file counts them as any others.
        """
        return write_rows(self.letters(problem, input_, batches), os.fspath(target))


__all__ = ["Checkpoint"]
