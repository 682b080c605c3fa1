"""The checkpoint of a Spark stream: who it is, what it keeps, and the commit of every batch.

tidelog.json       program, queries, inputs, time: a restart with any difference is refused
rigid/             the rigid facts, copied at the first start
state/N/           packed rows that batch N added; never changed afterwards
state/N-stretches/ with intervals: the stretches that had not ended after batch N
dead_letters/      rows that are not used, with the reason
idle/N.json        before batch N is committed: the inputs that are silent in it
commits/N.json     the commit point of batch N
live.json          where messages begin after a history
spark/             Spark's own, and live/ after a history
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidelog.data.locks import owner_of, take_lock
from tidelog.data.sealed import sealed, unsealed
from tidelog.errors import Refused
from tidelog.evaluation.spark.failures import SPARK_ERRORS
from tidelog.language.printer import changed
from tidelog.pipeline.store import Store
from tidelog.streaming.clock import Clock

if TYPE_CHECKING:
    from filelock import FileLock

FORMAT = 2
LIVE = "live.json"
COMMITS = 100  # so many are kept, for people to look at
SPARKS_LOCK = ".spark.lock"
PATIENCE = 60  # seconds to wait for the Spark of a start that was killed
# What may be mended as long as nothing is committed.
TIMES = {"tick", "origin", "timestamps", "lateness", "sparse", "max_jump", "from"}


@dataclass(frozen=True)
class StatePart:
    """The state files of one batch: by table the first and last chunk, and the rows of it."""

    folder: str
    tables: dict[int, tuple[int, int, int]]
    files: tuple[tuple[str, int, str], ...]  # name, bytes, SHA-256

    @property
    def size(self) -> int:
        return sum(size for _, size, _ in self.files)

    @property
    def rows(self) -> int:
        return sum(rows for _, _, rows in self.tables.values())

    @staticmethod
    def of(value: dict[str, Any]) -> StatePart:
        tables = {int(tab): (int(a), int(b), int(n)) for tab, (a, b, n) in value["tables"].items()}
        return StatePart(value["folder"], tables, tuple((n, s, h) for n, s, h in value["files"]))


def written(store: Store, folder: str, tables: dict[int, tuple[int, int, int]]) -> StatePart:
    """The state part of a folder that was written; one that is not there has no files."""
    files = tuple(
        (entry.name, entry.size, store.sha256("state", folder, entry.name))
        for entry in store.entries("state", folder)
        if entry.name.endswith(".parquet")
    )
    return StatePart(folder, tables, files)


@dataclass(frozen=True)
class Commit:
    """What holds once a batch is done."""

    batch: int
    clock: Clock
    tout: int | None
    facts: int = 0  # accepted in this batch
    late: int = 0
    dead: int = 0  # unreadable, or too far ahead
    answers: dict[str, int] = field(default_factory=dict)
    state: tuple[StatePart, ...] = ()
    sink: dict[str, Any] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)  # since the first batch
    answered: dict[str, int] = field(default_factory=dict)  # by query, since the first batch
    pending: int | None = None  # answers that may still come, where the stream knows them
    unused: tuple[dict[str, Any], ...] = ()  # the first rows of this batch that are not used
    waits_for: tuple[str, ...] = ()  # the inputs that hold time back
    quiet: int = 0  # batches so far that are not Spark's: inputs were silent, and time went on
    stretches: tuple[StatePart, ...] = ()  # with intervals: those that have not ended

    @property
    def state_bytes(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def parts(self) -> tuple[StatePart, ...]:
        """All state there is."""
        return (*self.state, *self.stretches)

    @staticmethod
    def of(value: dict[str, Any]) -> Commit:
        known = dict(value)
        lists = {name: tuple(value["clock"].get(name, ())) for name in ("answered", "idle")}
        clock = {**value["clock"], **lists}
        known["clock"] = Clock(**clock)
        known |= {name: tuple(value.get(name, ())) for name in ("unused", "waits_for")}
        known["state"] = tuple(StatePart.of(part) for part in value["state"])
        known["stretches"] = tuple(StatePart.of(part) for part in value.get("stretches", ()))
        return Commit(**known)


@dataclass(frozen=True)
class Decision:
    """What the clock on the wall said before a batch: which inputs are silent."""

    idle: tuple[str, ...] = ()
    quiet: bool = False  # whether the batch is done because of that alone
    closing: bool = False  # whether it is the last one, into a sink that takes nothing back


class Checkpoint:
    """A folder that one process at a time goes on from."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.id = ""
        self.last: Commit | None = None
        self._lock: FileLock | None = None
        self._held: Any = None  # one that Spark's process has locked
        self._made: tuple[str, ...] = ()  # what there was not before
        self._renewed = False  # started with other times before, without a single commit

    def identity(self) -> dict[str, Any]:
        """What the first start wrote down about the stream; empty before that."""
        if not self.store.exists("tidelog.json"):
            return {}
        return unsealed(self.store.read("tidelog.json"), self.store.shown("tidelog.json"))

    def seen(self) -> frozenset[str]:
        """The inputs of which facts have come before."""
        numbers = self._numbers()
        return frozenset(self.commit(max(numbers)).clock.seen) if numbers else frozenset()

    def recognise(self, identity: dict[str, Any]) -> None:
        """See whether this stream may go on from what is there; nothing is written."""
        if self.store.exists("tidelog.json"):
            self.last = self._last() if self._recognise(identity) else None
            return
        there = [e.name for e in self.store.entries() if e.name != "lock"]
        if any(not name.startswith(".") for name in there):
            raise Refused(
                f"{self.store.name} holds other files and is no checkpoint:"
                " name a new or empty folder"
            )

    def start(self, identity: dict[str, Any], copy_rigid: Callable[[], None]) -> None:
        """Write what a new stream is, or finish doing so."""
        if self._renewed:
            self.store.delete("rigid")
            for name in ("spark", "live", LIVE):
                self.store.delete(name)
            self.store.delete("tidelog.json")
        if self._renewed or not self.id:
            self.id = self.id or uuid.uuid4().hex
            identity = {"id": self.id, "format": FORMAT, **identity}
            self.store.write(sealed(identity), "tidelog.json")
        if not self.store.exists("rigid", "complete"):
            self.store.delete("rigid")
            copy_rigid()
            self.store.write(b"", "rigid", "complete")

    def take(self) -> None:
        """Nobody else may use a local checkpoint; elsewhere commits are checked before renaming."""
        if self.store.copies:
            raise Refused(
                f"{self.store.name} cannot be a checkpoint: on this store a rename is a copy, so"
                " that neither two processes on one checkpoint nor half a commit could be told;"
                " keep it on a local disk, a shared mount or HDFS, facts and answers may stay here"
            )
        if self.store.local is None:
            return
        folder = self.store.local
        if os.path.isfile(folder):
            raise Refused(f"{folder} is a file, and a checkpoint is a folder: name another one")
        try:
            paths = (*(os.path.join(folder, name) for name in ("lock", SPARKS_LOCK)), folder)
            made = tuple(path for path in paths if not os.path.exists(path))
            os.makedirs(folder, exist_ok=True)
            lock = take_lock(paths[0])
        except OSError as error:
            said = error.strerror or error
            raise Refused(f"{folder} cannot be a checkpoint: {said}; name another folder") from None
        if lock is None:
            raise Refused(
                f"{folder} is in use by process {owner_of(paths[0]) or 'unknown'}:"
                " stop that one first, or name another checkpoint"
            )
        self._made = made
        self._lock = lock
        self._held = self._hold()

    def _hold(self) -> Any:
        """A lock of Spark's process, which may work on for a while after this one was killed."""
        end = time.monotonic() + PATIENCE
        while (held := self.store.hold(SPARKS_LOCK)) is None:
            if time.monotonic() > end:
                raise Refused(
                    f"{self.store.name} is still in use by the Spark of a start that has ended:"
                    " wait for that process, or end it"
                )
            time.sleep(0.1)
        return held

    def release(self) -> None:
        """Let others use the folder; one that was never started is as it was before."""
        if self._lock is None:
            return
        if self._held is not None:
            with suppress(*SPARK_ERRORS):  # its process may be gone
                self._held.close()
            self._held = None
        if not self.id:
            for path in filter(os.path.exists, self._made):
                with suppress(PermissionError):  # Windows keeps what is open
                    os.rmdir(path) if os.path.isdir(path) else os.unlink(path)
        self._lock.release()
        self._lock = None

    def _recognise(self, identity: dict[str, Any]) -> bool:
        """Whether the stream that is there is this one; if not, it never got anywhere."""
        was, where = self.identity(), self.store.shown("tidelog.json")
        self.id = was.pop("id")
        version = was.pop("format")
        was.setdefault("intervals", False)  # which there were not always
        if version != FORMAT:
            raise Refused(
                f"{where} has format {version}, and this version writes {FORMAT}:"
                " finish with the version that started it, or start with a new checkpoint"
            )
        identity = json.loads(json.dumps(identity))
        changes = [name for name in {**identity, **was} if was.get(name) != identity.get(name)]
        self._renewed = bool(changes) and TIMES.issuperset(changes) and not self._numbers()
        if changes and not self._renewed:
            name = changes[0]
            raise Refused(_difference(name, was.get(name), identity.get(name), self.store))
        return not self._renewed

    def _numbers(self) -> list[int]:
        """Of the batches that are committed."""
        return [
            int(entry.name.removesuffix(".json"))
            for entry in self.store.entries("commits")
            if entry.name.removesuffix(".json").isdecimal()
        ]

    def _last(self) -> Commit | None:
        numbers = self._numbers()
        if not numbers:
            return None
        commit = self.commit(max(numbers))
        for part in commit.parts:
            for name, size, digest in part.files:
                where = self.store.shown("state", part.folder, name)
                there = {e.name: e.size for e in self.store.entries("state", part.folder)}
                remedy = "restore it from a copy, or start with a new checkpoint"
                if name not in there:
                    raise Refused(f"{where} is missing: {remedy}")
                if there[name] != size or self.store.sha256("state", part.folder, name) != digest:
                    raise Refused(f"{where} is damaged: {remedy}")
        return commit

    def commit(self, number: int) -> Commit:
        name = f"{number}.json"
        where = self.store.shown("commits", name)
        value = unsealed(self.store.read("commits", name), where)
        try:
            return Commit.of(value)
        except (KeyError, TypeError, ValueError):
            raise Refused(f"{where} is damaged: it lacks what a commit holds") from None

    def write(self, commit: Commit) -> None:
        """The commit point: from here on the batch is done."""
        name = f"{commit.batch}.json"
        if self.store.exists("commits", name):
            raise Refused(
                f"another process committed batch {commit.batch} to {self.store.name}:"
                " one stream at a time may use a checkpoint"
            )
        self.store.write(sealed(asdict(commit)), "commits", name)
        self.last = commit

    @cached_property
    def decisions(self) -> dict[int, Decision]:
        """Of batches that are not committed."""
        known: dict[int, Decision] = {}
        for entry in self.store.entries("idle"):
            number = entry.name.removesuffix(".json")
            if number.isdecimal():
                where = self.store.shown("idle", entry.name)
                value = unsealed(self.store.read("idle", entry.name), where)
                known[int(number)] = Decision(**{**value, "idle": tuple(value["idle"])})
        return known

    def decide(self, number: int, decision: Decision) -> None:
        self.store.write(sealed(asdict(decision)), "idle", f"{number}.json")
        self.decisions[number] = decision

    def sweep(self, *kept: Commit | None) -> None:
        """Delete the state files that none of some commits names, and commits of long ago."""
        commits = [commit for commit in kept if commit is not None]
        folders = {part.folder for commit in commits for part in commit.parts}
        for entry in self.store.entries("state"):
            if entry.name not in folders:
                self.store.delete("state", entry.name)
        latest = max(commit.batch for commit in commits)
        for number in [number for number in self.decisions if number <= latest]:
            self.store.delete("idle", f"{number}.json")
            del self.decisions[number]
        oldest = latest - COMMITS
        if oldest >= 0:
            self.store.delete("commits", f"{oldest}.json")


def _difference(name: str, was: Any, now: Any, store: Store) -> str:
    """One sentence on what has changed since the checkpoint was started."""
    what = {"program": "the rules are", "queries": "the queries are", "inputs": "the inputs are"}
    what["topics"] = "the topics are"
    remedy = "start with a new checkpoint, or go back"
    if name == "program":
        return f"{store.name} was started with other rules: {changed(str(was), str(now))}; {remedy}"
    said = f"{what.get(name, f'{name} is')} {_short(now)} and was"
    return f"{store.name} was started differently: {said} {_short(was)}; {remedy}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:197] + "..."
