"""The checkpoint of a Spark stream: who it is, what it keeps, and the commit of every batch.

tidelog.json       program, queries, inputs, time: a restart where one differs is refused
tables.json        what the tables in state/ hold, for people and tools
rigid/             the rigid facts, copied at the first start
state/N/           packed rows that batch N added; never changed afterwards
state/N-stretches/ with intervals: the stretches that had not ended after batch N
dead_letters/      rows that are not used, with the reason
idle/N.json        before batch N is committed: the inputs that are silent in it, and the time
idle/N.tried       before batch N is committed: it is not small, and the driver has begun it
commits/N.json     the commit point of batch N
live.json          where messages begin after a history
.owner             the start that was the last one: an older one that goes on refuses
kafka.json         the ids of the clusters that have the topics
spark/             Spark's own, and live/ after a history
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from tidelog.causes import Cause
from tidelog.data.durable import Lock, is_part
from tidelog.data.locks import owner_of
from tidelog.data.sealed import sealed, unsealed
from tidelog.errors import Refused
from tidelog.language.alignment import changed
from tidelog.pipeline.spark_log import LIVE, SPARK, SparkBatch, SparkLogs, check_logs
from tidelog.streaming.clock import Clock
from tidelog.streaming.ledger import Ledger
from tidelog.streaming.notices import UnusedRows
from tidelog.streaming.options import ROWS_TO_COME
from tidelog.streaming.sinks.sink import FileStore, StoredFile

FORMAT = 3
LIVE_FROM = "live.json"
CLUSTERS = "kafka.json"
TABLES = "tables.json"
RIGID = ("rigid", "complete.json")
OWNER = ".owner"  # the start that was the last one
COMMITS = 100  # so many are kept, for people to look at
KEEP_COMMITS = 2  # of so many the state is kept, to go back to
SPARKS_LOCK = ".spark.lock"
PATIENCE = 60  # seconds to wait for the Spark of a start that was killed
# What may be mended as long as nothing is committed.
TIMES = {"tick", "origin", "timestamps", "time_type", "from"}


@dataclass(frozen=True)
class StatePart:
    """The state files of one batch: by table the first and last chunk, and the rows of it."""

    folder: str
    tables: dict[int, tuple[int, int, int]]
    files: tuple[StoredFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def rows(self) -> int:
        return sum(rows for _, _, rows in self.tables.values())

    @staticmethod
    def of(value: dict[str, Any]) -> StatePart:
        tables = {int(tab): (int(a), int(b), int(n)) for tab, (a, b, n) in value["tables"].items()}
        return StatePart(value["folder"], tables, StoredFile.list_of(value["files"]))


def written(store: FileStore, folder: str, tables: dict[int, tuple[int, int, int]]) -> StatePart:
    """The state part of a folder that was written; one that is not there has no files."""
    return StatePart(folder, tables, store.files("state", folder))


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
    spark: SparkBatch | None = None  # the last batch of Spark's, this one or one before
    letters: tuple[StoredFile, ...] = ()  # dead letters of this batch
    lineage: str = ""  # what stands for all that this batch follows from
    options: dict[str, Any] = field(default_factory=dict)  # those that may change at a restart
    problems: tuple[UnusedRows, ...] = ()  # rows of this batch that are not used, by input and kind
    rows: int = 0  # read in this batch, whatever became of them
    skipped: int = 0  # put aside by an operator
    heartbeats: int = 0
    by_input: dict[str, Ledger] = field(default_factory=dict)  # since the first batch

    @property
    def ledger(self) -> Ledger:
        """What became of the rows of this batch."""
        parts = (self.facts, self.late, self.dead, self.skipped, self.heartbeats)
        return Ledger(self.rows, *parts)

    @property
    def total(self) -> Ledger:
        """What became of all rows since the first batch."""
        known = Ledger.of(self.totals)
        if "rows" in self.totals or not self.totals:
            return known
        return replace(known, rows=-known.difference)  # of a version that did not count them

    @property
    def state_bytes(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def parts(self) -> tuple[StatePart, ...]:
        """All state there is."""
        return (*self.state, *self.stretches)

    def as_json(self) -> dict[str, Any]:
        """Plain data; what came from messages is not walked through."""
        spark = None if self.spark is None else vars(self.spark)
        parts = {name: list(map(vars, getattr(self, name))) for name in ("state", "stretches")}
        ledgers = {name: vars(ledger) for name, ledger in self.by_input.items()}
        problems = list(map(vars, self.problems))
        whole = {**vars(self), **parts, "clock": vars(self.clock), "spark": spark}
        return {**whole, "by_input": ledgers, "problems": problems}

    @staticmethod
    def of(value: dict[str, Any]) -> Commit:
        known = dict(value)
        lists = {name: tuple(value["clock"].get(name, ())) for name in ("answered", "idle")}
        clock = {**value["clock"], **lists}
        known["clock"] = Clock(**clock)
        known |= {name: tuple(value.get(name, ())) for name in ("unused", "waits_for")}
        known["state"] = tuple(StatePart.of(part) for part in value["state"])
        known["stretches"] = tuple(StatePart.of(part) for part in value.get("stretches", ()))
        known["problems"] = tuple(UnusedRows(**rows) for rows in value.get("problems", ()))
        known["letters"] = StoredFile.list_of(value["letters"])
        ledgers = value.get("by_input", {}).items()
        known["by_input"] = {name: Ledger.of(ledger) for name, ledger in ledgers}
        known["spark"] = None if value["spark"] is None else SparkBatch(**value["spark"])
        return Commit(**known)


@dataclass(frozen=True)
class Decision:
    """What the clock on the wall said before a batch: its time, and which inputs are silent."""

    idle: tuple[str, ...] = ()
    quiet: bool = False  # whether the batch is done because of that alone
    closing: bool = False  # whether it is the last one, into a sink that takes nothing back
    now: int | None = None  # microseconds since 1970, where times may be too far after that


class Checkpoint:
    """A folder that one process at a time goes on from."""

    def __init__(self, store: FileStore) -> None:
        self.store = store
        self.id = ""
        self.last: Commit | None = None
        self._start = b""  # a name of this start's own
        self.keep_commits = KEEP_COMMITS
        self._folders: dict[int, set[str]] = {}  # of state, by commit
        self._lock: Lock | None = None
        self._logs = SparkLogs(store)
        self._held: Lock | None = None  # one that Spark's process has locked
        self._made: tuple[str, ...] = ()  # what there was not before
        self._renewed = False  # started with other times before, without a single commit

    def identity(self) -> dict[str, Any]:
        """What the first start wrote down about the stream; empty before that.

        Refused if a version with another format wrote it.
        """
        if not self.store.exists("tidelog.json"):
            return {}
        where = self.store.shown("tidelog.json")
        identity = unsealed(self.store.read("tidelog.json"), where)
        if identity["format"] != FORMAT:
            raise Refused(
                f"{where} has format {identity['format']}, and this version writes {FORMAT}:"
                " finish with the version that started it, or start with a new checkpoint",
                code=Cause.OTHER_FORMAT,
            )
        return identity

    def seen(self) -> frozenset[str]:
        """The inputs of which facts have come before."""
        latest = self.latest()
        return frozenset() if latest is None else frozenset(latest.clock.seen)

    def latest(self) -> Commit | None:
        """The last commit, as far as it can be told before anything is checked."""
        numbers = self._numbers()
        return self.commit(max(numbers)) if numbers else None

    def recognise(self, identity: dict[str, Any]) -> None:
        """See whether this stream may go on from what is there; nothing is written."""
        if self.store.exists("tidelog.json"):
            self._sync_names()
            if self._recognise(identity):
                self.last = self._last()
                self._check_rigid()
                self._check_live()
                check_logs(self.store, None if self.last is None else self.last.spark)
            return
        there = [e.name for e in self.store.entries() if e.name != "lock"]
        if any(not name.startswith(".") for name in there):
            raise Refused(
                f"{self.store.name} holds other files and is no checkpoint:"
                " name a new or empty folder",
                code=Cause.NO_CHECKPOINT,
            )

    def _sync_names(self) -> None:
        """Wait until what an earlier process has left is on the disk; it may have been killed."""
        for name in ("rigid", "commits", "idle"):
            if self.store.exists(name):
                self.store.sync(name)

    def _remove_parts(self) -> None:
        """Delete files that a killed process was about to rename."""
        for name in ("", "commits", "idle", "rigid", "dead_letters"):
            parts = (name,) if name else ()
            for entry in self.store.entries(*parts):
                if is_part(entry.name):
                    self.store.delete(*parts, entry.name)

    def start(self, identity: dict[str, Any], copy_rigid: Callable[[], None]) -> None:
        """Write what a new stream is, or finish doing so."""
        self._start = self.store.machine.new_name().encode()
        self.store.write(self._start, OWNER)
        self._remove_parts()
        if self._renewed:
            self.store.delete("rigid")
            for name in (SPARK, LIVE, LIVE_FROM, CLUSTERS):
                self.store.delete(name)
            self.store.delete("tidelog.json")
        if self._renewed or not self.id:
            self.id = self.id or self.store.machine.new_name()
            identity = {"id": self.id, "format": FORMAT, **identity}
            if not self.store.create(sealed(identity), "tidelog.json"):
                raise Refused(
                    f"another process has begun a stream in {self.store.name}:"
                    " one stream at a time may use a checkpoint",
                    code=Cause.OVERTAKEN,
                )
        if self.store.exists(*RIGID):
            return
        self.store.delete("rigid")
        self.store.make("rigid")
        copy_rigid()
        files = [file for file in self.store.files("rigid") if file.name != RIGID[-1]]
        self.store.write(sealed({"files": files}), *RIGID)

    def describe(self, tables: dict[str, Any]) -> None:
        """Write what the tables of state hold, for those who read the checkpoint."""
        data = sealed(tables)
        if not self.store.exists(TABLES) or self.store.read(TABLES) != data:
            self.store.write(data, TABLES)

    def expect_clusters(self, clusters: Mapping[str, str]) -> None:
        """Refused if a topic is on another cluster of Kafka than at the first start."""
        for topic, before in self._clusters().items():
            now = clusters.get(topic, before)
            if now != before:
                raise Refused(
                    f"topic `{topic}` is on another Kafka than before (cluster {now}, and it was"
                    f" {before}): give the address of that one; if the messages have the same"
                    f" offsets here, delete {self.store.shown(CLUSTERS)}, then start again",
                    code=Cause.OTHER_KAFKA,
                )

    def note_clusters(self, clusters: Mapping[str, str]) -> None:
        """Write down which clusters of Kafka have the topics, where that is not known yet."""
        known = self._clusters()
        if not clusters.items() <= known.items():
            self.store.write(sealed({"clusters": {**clusters, **known}}), CLUSTERS)

    def _clusters(self) -> dict[str, str]:
        if not self.store.exists(CLUSTERS):
            return {}
        known: dict[str, str] = unsealed(self.store.read(CLUSTERS), self.store.shown(CLUSTERS))[
            "clusters"
        ]
        return known

    def take(self) -> None:
        """Nobody else may use a local checkpoint; elsewhere commits are checked before renaming."""
        if self.store.copies:
            raise Refused(
                f"{self.store.name} cannot be a checkpoint: on this store ({self.store.kind}) a"
                " rename may be a copy, so that neither two processes on one checkpoint nor half a"
                " commit could be told; keep it on a local disk, a shared mount or HDFS, facts and"
                " answers may stay here",
                code=Cause.WRONG_STORE,
            )
        if self.store.local is None:
            return
        folder, machine = self.store.local, self.store.machine
        if self.store.is_file():
            raise Refused(
                f"{folder} is a file, and a checkpoint is a folder: name another one",
                code=Cause.NO_CHECKPOINT,
            )
        try:
            paths = (*(os.path.join(folder, name) for name in ("lock", SPARKS_LOCK)), folder)
            made = tuple(path for path in paths if not machine.exists(path))
            machine.make_private_folder(os.path.abspath(folder))
            lock = machine.lock(paths[0])
        except OSError as error:
            said = error.strerror or error
            raise Refused(
                f"{folder} cannot be a checkpoint: {said}; name another folder",
                code=Cause.NO_CHECKPOINT,
            ) from None
        if lock is None:
            raise Refused(
                f"{folder} is in use by process {owner_of(paths[0]) or 'unknown'}:"
                " stop that one first, or name another checkpoint",
                code=Cause.IN_USE,
            )
        self._made = made
        self._lock = lock
        self._held = self._hold()

    def _hold(self) -> Lock:
        """A lock of Spark's process, which may work on for a while after this one was killed."""
        machine = self.store.machine
        end = machine.now() + PATIENCE
        while (held := self.store.hold(SPARKS_LOCK)) is None:
            if machine.now() > end:
                raise Refused(
                    f"{self.store.name} is still in use by the Spark of a start that has ended:"
                    " wait for that process, or end it",
                    code=Cause.SPARK_RUNS,
                )
            machine.sleep(0.1)
        return held

    def release(self) -> None:
        """Let others use the folder; one that was never started is as it was before."""
        if self._lock is None:
            return
        if self._held is not None:
            self._held.release()
            self._held = None
        if not self.id:
            machine = self.store.machine
            for path in filter(machine.exists, self._made):
                with suppress(PermissionError):  # Windows keeps what is open
                    is_folder = machine.is_folder(path)
                    machine.remove_folder(path) if is_folder else machine.unlink(path)
        self._lock.release()
        self._lock = None

    def _recognise(self, identity: dict[str, Any]) -> bool:
        """Whether the stream that is there is this one; if not, it never got anywhere."""
        was = self.identity()
        self.id = was.pop("id")
        del was["format"]
        identity = json.loads(json.dumps(identity))
        names = {**identity, **was}.keys() - ROWS_TO_COME
        changes = [n for n in {**identity, **was} if n in names and was.get(n) != identity.get(n)]
        self._renewed = bool(changes) and TIMES.issuperset(changes) and not self._numbers()
        if changes and not self._renewed:
            name = changes[0]
            raise Refused(
                _difference(name, was.get(name), identity.get(name), self.store),
                code=Cause.OTHER_STREAM,
            )
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
            self.store.expect(part.files, "state", part.folder)
        self.store.expect(commit.letters, "dead_letters", f"batch={commit.batch}")
        return commit

    def _check_rigid(self) -> None:
        """Refused if rigid facts were lost, or are other ones than at the first start."""
        if self.store.exists(*RIGID):
            rigid = unsealed(self.store.read(*RIGID), self.store.shown(*RIGID))
            self.store.expect(StoredFile.list_of(rigid["files"]), "rigid")
        elif self.last is not None:
            missing = self.store.shown(*RIGID)
            raise Refused(
                f"{missing} is missing: restore it from a copy, or start with a new checkpoint",
                code=Cause.DAMAGED,
            )

    def _check_live(self) -> None:
        """Refused if messages have begun after a history, and nothing says where any more."""
        if self.last is None or self.last.spark is None or self.last.spark.place != LIVE:
            return
        where = self.store.shown(LIVE_FROM)
        if not self.store.exists(LIVE_FROM):
            raise Refused(
                f"{where} is missing: restore it from a copy, or start with a new checkpoint",
                code=Cause.DAMAGED,
            )
        unsealed(self.store.read(LIVE_FROM), where)

    def commit(self, number: int) -> Commit:
        name = f"{number}.json"
        where = self.store.shown("commits", name)
        value = unsealed(self.store.read("commits", name), where)
        try:
            return Commit.of(value)
        except (KeyError, TypeError, ValueError):
            raise Refused(
                f"{where} is damaged: it lacks what a commit holds", code=Cause.DAMAGED
            ) from None

    def write(self, commit: Commit) -> None:
        """The commit point: from here on the batch is done, also after a loss of power.

        What the commit refers to is on the disk by then.
        """
        data = sealed(commit.as_json())
        name = f"{commit.batch}.json"
        if not self.store.create(data, "commits", name, check=self._expect_owner):
            raise self._overtaken(commit.batch)
        self.last = commit

    def go_live(self, handover: dict[str, Any]) -> None:
        """Write down, once, where messages begin after a history."""
        if not self.store.create(sealed(handover), LIVE_FROM, check=self._expect_owner):
            raise Refused(
                f"another process goes on with messages in {self.store.name}:"
                " one stream at a time may use a checkpoint",
                code=Cause.OVERTAKEN,
            )

    def expect_alone(self, batch: int) -> None:
        """Refused if another process has begun, or done a batch that this one is about to begin."""
        if self.store.exists("commits", f"{batch}.json"):
            raise self._overtaken(batch)
        self._expect_owner()

    def _expect_owner(self) -> None:
        """Refused if another process has started from here since this one did.

        Locks forbid that; on a shared mount a process that sleeps for long may lose its own.
        """
        if self.store.read(OWNER) != self._start:
            raise Refused(
                f"another process has started from {self.store.name}:"
                " one stream at a time may use a checkpoint",
                code=Cause.OVERTAKEN,
            )

    def _overtaken(self, batch: int) -> Refused:
        return Refused(
            f"another process committed batch {batch} to {self.store.name}:"
            " one stream at a time may use a checkpoint",
            code=Cause.OVERTAKEN,
        )

    def sync_plan(self, planned: SparkBatch) -> None:
        """Wait until Spark's plan of a batch is on the disk: done again, it is the same batch."""
        self._logs.sync(planned.place)

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

    def note_try(self, number: int) -> None:
        """Write down that the driver begins a batch that is not small."""
        self.store.create(b"", "idle", f"{number}.tried")

    def was_tried(self, number: int) -> bool:
        """Whether the driver has begun a batch before, and did not live to commit it."""
        return self.store.exists("idle", f"{number}.tried")

    def sweep(self, *kept: Commit | None) -> None:
        """Delete the state files that none of some commits names, and commits of long ago."""
        commits = [commit for commit in kept if commit is not None]
        for commit in commits:
            self._folders[commit.batch] = {part.folder for part in commit.parts}
        latest = max(commit.batch for commit in commits)
        oldest_kept = min(latest - self.keep_commits + 1, *(commit.batch for commit in commits))
        folders = set[str]().union(*map(self._folders_of, range(oldest_kept, latest + 1)))
        self._folders.pop(oldest_kept - 1, None)
        for entry in self.store.entries("state"):
            # Those of later batches are of a process that has overtaken this one.
            if entry.name not in folders and int(entry.name.split("-")[0]) <= latest:
                self.store.delete("state", entry.name)
        for number in [number for number in self.decisions if number <= latest]:
            self.store.delete("idle", f"{number}.json")
            del self.decisions[number]
        if self.was_tried(latest):
            self.store.delete("idle", f"{latest}.tried")
        oldest = latest - COMMITS
        if oldest >= 0:
            self.store.delete("commits", f"{oldest}.json")

    def _folders_of(self, number: int) -> set[str]:
        """The folders of state that a commit names; none if it is not there."""
        if number not in self._folders:
            there = number >= 0 and self.store.exists("commits", f"{number}.json")
            parts = self.commit(number).parts if there else ()
            self._folders[number] = {part.folder for part in parts}
        return self._folders[number]


def _difference(name: str, was: Any, now: Any, store: FileStore) -> str:
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
