"""What the commands on checkpoints say, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelog.data.ticks import Ticks, time_text
from tidelog.streaming.ledger import Ledger

# What has a number in a checkpoint, by engine.
UNITS = {"spark": "commit", "duckdb": "run"}


@dataclass(frozen=True)
class Problem:
    """Something of a checkpoint that is missing or damaged, and what to do about it."""

    what: str
    remedy: str

    @staticmethod
    def of(said: object) -> Problem:
        """The problem that a refusal tells of.

        >>> Problem.of("a/b is missing: restore it from a copy, or start anew")
        Problem(what='a/b is missing', remedy='restore it from a copy, or start anew')
        """
        what, _, remedy = str(said).rpartition(": ")
        return Problem(what or str(said), remedy if what else "")

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}" if self.remedy else self.what


@dataclass(frozen=True)
class Check:
    """A number that is written down, and the same number counted again."""

    what: str
    written: int
    counted: int

    @property
    def agrees(self) -> bool:
        return self.written == self.counted

    def __str__(self) -> str:
        if self.agrees:
            return f"{self.what}: {self.written}"
        return f"{self.what}: {self.written} by the commits, {self.counted} found"


@dataclass(frozen=True)
class Audit:
    """The ledger of a checkpoint, counted again from its files and from the sink."""

    ledger: Ledger
    checks: tuple[Check, ...]
    unknown: tuple[str, ...]  # what cannot be counted again, and why

    @property
    def wrong(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.agrees)

    def as_json(self) -> dict[str, Any]:
        checks = [
            {"what": c.what, "written": c.written, "counted": c.counted, "agrees": c.agrees}
            for c in self.checks
        ]
        balance = {**self.ledger.as_json(), "difference": self.ledger.difference}
        return {
            "agrees": not self.wrong,
            "ledger": balance,
            "checks": checks,
            "unknown": list(self.unknown),
        }


@dataclass(frozen=True)
class Commit:
    """A commit on Spark, or the snapshot of a run in process."""

    number: int
    committed: str  # when, by the clock on the wall
    tin: int | None
    tout: int | None
    closed: bool
    ledger: Ledger
    total: Ledger
    answers: Mapping[str, int]
    answered: Mapping[str, int]
    by_input: Mapping[str, Ledger]
    seen: Mapping[str, int]
    idle: tuple[str, ...]
    waits_for: tuple[str, ...]
    state: Mapping[str, Any] = field(repr=False)  # as it is written down


@dataclass(frozen=True)
class StateSize:
    """The state of one predicate: stored rows, bytes, facts, first and last tick."""

    predicate: str
    kind: str  # input, derived, answers, intervals or waiting
    rows: int
    bytes: int
    facts: int
    first: int | None
    last: int | None


@dataclass(frozen=True)
class Show:
    """What a checkpoint is of, and where the stream stands."""

    place: str
    engine: str  # spark or duckdb
    id: str
    rules: str
    queries: tuple[str, ...]
    options: Mapping[str, Any]
    sink: str
    ticks: Ticks | None
    commits: tuple[Commit, ...]  # the last ones, the newest first
    possible: tuple[int, ...]  # the commits that rollback can go to
    state: tuple[StateSize, ...]

    def time(self, tick: int | None) -> str | None:
        """A tick as users see it."""
        return None if tick is None else time_text(tick, self.ticks)

    def as_json(self) -> dict[str, Any]:
        last = self.commits[0] if self.commits else None
        return {
            "checkpoint": self.place,
            "engine": self.engine,
            "stream": self.id,
            "queries": list(self.queries),
            "rules": self.rules,
            "options": dict(self.options),
            "sink": self.sink,
            "closed": last is not None and last.closed,
            "tin": None if last is None else last.tin,
            "tout": None if last is None else last.tout,
            "tin_time": None if last is None else self.time(last.tin),
            "tout_time": None if last is None else self.time(last.tout),
            "ledger": (Ledger() if last is None else last.total).as_json(),
            "answers": {} if last is None else dict(last.answered),
            "inputs": {} if last is None else self._inputs(last),
            "state": [vars(size) for size in self.state],
            "commits": [self._commit(commit) for commit in self.commits],
            "rollback_to": list(self.possible),
        }

    def _inputs(self, last: Commit) -> dict[str, Any]:
        return {
            name: {
                "seen": last.seen.get(name),
                "seen_time": self.time(last.seen.get(name)),
                "idle": name in last.idle,
                "holds_time_back": name in last.waits_for,
                "ledger": ledger.as_json() if (ledger := last.by_input.get(name)) else None,
            }
            for name in sorted({*last.seen, *last.by_input, *last.idle, *last.waits_for})
        }

    def _commit(self, commit: Commit) -> dict[str, Any]:
        return {
            "commit": commit.number,
            "committed": commit.committed,
            "tin": commit.tin,
            "tout": commit.tout,
            "closed": commit.closed,
            "ledger": commit.ledger.as_json(),
            "answers": dict(commit.answers),
        }


@dataclass(frozen=True)
class Rollback:
    """What a rollback takes back."""

    to: int
    last: int
    commits: tuple[int, ...]
    unit: str  # what a commit is: a commit on Spark, a run in process
    facts: int
    answers: int
    sink: str  # what becomes of the answers that were given

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "commits": list(self.commits)}


def refuse_commit(place: str, to: int, possible: tuple[int, ...], unit: str) -> str:
    """Why there is no way back to a commit, and which ones there are."""
    known = ", ".join(map(str, possible))
    ways = f"it can go back to {known}" if known else "it can go back to none"
    return (
        f"{place} cannot go back to {unit} {to}, of which not all is there: {ways}; restore the"
        " whole checkpoint from a copy to go back further"
    )
