"""Spark's own logs in a checkpoint: which batch a commit belongs to, and whether they are whole.

Spark writes `offsets/N` before batch N and `commits/N` after it. It does not wait until they are on
the disk, and whoever restores or deletes a part of a checkpoint leaves logs that belong to other
commits. Either is found at the start, before anything is touched.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zlib
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tidelog.causes import Cause
from tidelog.errors import Refused
from tidelog.streaming.sinks.sink import FileStore

# The folders of Spark's queries: over DataFrames, files or topics, and over topics after a history.
SPARK, LIVE = "spark", "live"
RESTORE = "restore the whole checkpoint from a copy, or start with a new one"


@dataclass(frozen=True)
class SparkBatch:
    """A batch of one of Spark's queries."""

    place: str  # the folder of the query
    query: str  # its id
    number: int
    offsets: str  # the SHA-256 of what Spark has written down of the batch

    def follows(self, last: SparkBatch | None) -> bool:
        """Whether it is the next batch after one that is committed."""
        if last is None or (last.place, self.place) == (SPARK, LIVE):
            return self.number == 0
        return (self.place, self.query, self.number) == (last.place, last.query, last.number + 1)


def planned(store: FileStore, place: str, number: int) -> SparkBatch:
    """The batch with some number, as Spark has planned it."""
    offsets = hashlib.sha256(store.read(place, "offsets", str(number))).hexdigest()
    query: str = json.loads(store.read(place, "metadata"))["id"]
    return SparkBatch(place, query, number, offsets)


def list_ends(store: FileStore, place: str, number: int) -> list[int]:
    """How far a batch reads in the list of files of each source; -1 of another source."""
    lines = store.read(place, "offsets", str(number)).decode().splitlines()
    return [_end(line) for line in lines[2:]]


def check_logs(store: FileStore, last: SparkBatch | None) -> None:
    """Refused if Spark's logs are not those of the last commit, or cannot be read."""
    for place in (SPARK, LIVE):
        if last is None or last.place == place:
            _Logs(store, place, last).check()
        elif place == LIVE:  # which begins after the history
            _Logs(store, place, None).check()


class SparkLogs:
    """Spark's own logs on a local disk, each file of which is synced once.

    Spark closes a file and renames it, and does not wait for the disk. A commit that names a batch
    of Spark's needs its plan, and what sources and stateful operators have written by then.
    """

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._known: dict[str, tuple[int, int]] = {}  # by path, time and size

    def sync(self, place: str) -> None:
        """Wait until the logs of a query are on the disk."""
        root = self._store.here(place)
        if root is None:
            return
        known: dict[str, tuple[int, int]] = {}
        self._sync(root, known)
        if root not in self._known:
            self._store.machine.sync_folder(os.path.dirname(root))
        self._known = known

    def _sync(self, folder: str, known: dict[str, tuple[int, int]]) -> None:
        """Wait for what is new in a folder and those below it; `known` is what is there now."""
        machine = self._store.machine
        has_new = folder not in self._known
        known[folder] = 0, 0
        for entry in machine.entries(folder):
            path = os.path.join(folder, entry.name)
            with suppress(FileNotFoundError):  # Spark deletes old ones meanwhile
                if entry.folder:
                    has_new |= path not in self._known
                    self._sync(path, known)
                    continue
                known[path] = entry.changed, entry.size
                if self._known.get(path) != known[path]:
                    machine.sync_file(path)
                    has_new = True
        if has_new:
            with suppress(FileNotFoundError):
                machine.sync_folder(folder)


@dataclass(frozen=True)
class _Logs:
    """The logs of one query, and its last batch that is committed."""

    store: FileStore
    place: str
    last: SparkBatch | None

    def check(self) -> None:
        if self.last is not None:
            self._check_batch(self.last)
        elif not self.store.exists(self.place):
            return
        self._check_numbers()
        self._check_whole()

    @property
    def name(self) -> str:
        return self.store.shown(self.place)

    @property
    def done(self) -> int:
        return -1 if self.last is None else self.last.number

    def _numbers(self, *folder: str) -> list[int]:
        entries = self.store.entries(self.place, *folder)
        return sorted(int(entry.name) for entry in entries if entry.name.isdecimal())

    def _check_batch(self, last: SparkBatch) -> None:
        """Refused if the logs do not hold the batch of the last commit."""
        commit = f"the last commit is of Spark's batch {last.number}"
        for names in (("metadata",), ("offsets", str(last.number))):
            if not self.store.exists(self.place, *names):
                missing = self.store.shown(self.place, *names)
                raise Refused(
                    f"{missing} is missing, and {commit}: {RESTORE}", code=Cause.LOGS_DISAGREE
                )
        try:
            there = planned(self.store, self.place, last.number)
        except (ValueError, KeyError, TypeError):
            raise Refused(
                f"{self.name}/metadata is damaged: {RESTORE}", code=Cause.LOGS_DISAGREE
            ) from None
        if there.query != last.query:
            raise Refused(
                f"{self.name} belongs to another query of Spark's: {RESTORE}",
                code=Cause.LOGS_DISAGREE,
            )
        if there.offsets != last.offsets:
            raise Refused(
                f"{self.name}/offsets/{last.number} is not what was committed: {RESTORE}",
                code=Cause.LOGS_DISAGREE,
            )

    def _check_numbers(self) -> None:
        """Refused if Spark has completed a batch that is not committed here."""
        completed = max(self._numbers("commits"), default=-1)
        completed = max(completed, max(self._numbers("offsets"), default=-1) - 1)
        if completed > self.done:
            commits = self.store.shown("commits")
            known = "holds none" if self.last is None else f"ends with its batch {self.done}"
            raise Refused(
                f"{self.name} has completed batch {completed}, and {commits} {known}: {RESTORE}",
                code=Cause.LOGS_DISAGREE,
            )

    def _check_whole(self) -> None:
        """Refused for a file that Spark could not read, with what can be done about it."""
        if not self._is_whole(("metadata",), _is_json):
            raise Refused(
                f"{self.name}/metadata is torn, and no batch is committed: delete {self.name},"
                " then start again",
                code=Cause.TORN,
            )
        noted, plans = self._numbers("commits")[-1:], self._numbers("offsets")
        last = max(plans, default=0)
        if last and noted != [last] and last - 1 not in plans:  # where the batch done again begins
            raise self._damaged(("offsets", str(last - 1)))
        for number in noted:
            if not self._is_whole(("commits", str(number)), _is_log):
                raise self._deleting(("commits", str(number)))
        for number in plans[-2:]:
            names = ("offsets", str(number))
            if not self._is_whole(names, _is_plan):
                raise self._deleting(names) if number > self.done else self._damaged(names)
        ends = [self._ends(number) for number in (self.done, self.done + 1)]
        for source in {*self._numbers("sources"), *range(max(map(len, ends)))}:
            self._check_source(
                source, *(max(some[source : source + 1], default=-1) for some in ends)
            )

    def _check_source(self, source: int, committed: int, planned: int) -> None:
        """Refused for a list of files that is torn or lacks some: Spark would read them again."""
        folder = ("sources", str(source))
        names = {e.name: _entry(e.name) for e in self.store.entries(self.place, *folder)}
        entries = {number: name for name, number in names.items() if number >= 0}
        whole = max((n for n, name in entries.items() if name.endswith(".compact")), default=0)
        last = max([committed, planned, *entries])
        for number in range(last, whole - 1, -1):
            parts = (*folder, entries.get(number, str(number)))
            if number in entries and self._is_whole(parts, _is_log):
                continue
            if number <= committed:
                raise self._damaged(parts)
            later = [(*folder, name) for n, name in sorted(entries.items()) if n > committed]
            raise self._deleting(parts, *later, ("offsets", str(self.done + 1)))

    def _ends(self, number: int) -> list[int]:
        """As `list_ends`; none of a batch that is not planned."""
        is_planned = number >= 0 and self.store.exists(self.place, "offsets", str(number))
        return list_ends(self.store, self.place, number) if is_planned else []

    def _is_whole(self, names: tuple[str, ...], is_whole: Any) -> bool:
        """Whether Spark can read a file; one that is not there is made by it."""
        if not self.store.exists(self.place, *names):
            return True
        data = self.store.read(self.place, *names)
        *folder, name = names
        checksums = (self.place, *folder, f".{name}.crc")
        if self.store.exists(*checksums) and not _agrees(data, self.store.read(*checksums)):
            return False
        try:
            return bool(is_whole(data))
        except ValueError:
            return False

    def _damaged(self, names: tuple[str, ...]) -> Refused:
        what = "damaged" if self.store.exists(self.place, *names) else "missing"
        return Refused(
            f"{self.store.shown(self.place, *names)} is {what}: {RESTORE}", code=Cause.LOGS_DISAGREE
        )

    def _deleting(self, broken: tuple[str, ...], *others: tuple[str, ...]) -> Refused:
        """A file that a power loss has torn or lost, and that nothing committed needs."""
        files = [
            self.store.shown(self.place, *name)
            for *folder, file in dict.fromkeys((broken, *others))
            for name in ((*folder, file), (*folder, f".{file}.crc"))
            if self.store.exists(self.place, *name)
        ]
        how = "torn" if self.store.exists(self.place, *broken) else "missing"
        return Refused(
            f"{self.store.shown(self.place, *broken)} is {how}, and nothing that is committed needs"
            f" it: delete {' and '.join(files)}, then start again",
            code=Cause.TORN,
        )


def _entry(name: str) -> int:
    """The number of a file in a list of files; -1 of other files."""
    number = name.removesuffix(".compact")
    return int(number) if number.isdecimal() else -1


def _is_json(data: bytes) -> bool:
    return isinstance(json.loads(data), dict)


def _is_log(data: bytes) -> bool:
    """Whether a file of a log is whole: a version, then lines that are JSON, or `-`."""
    text = data.lstrip(b"\0").decode()  # some sources begin with a zero
    version, *lines = text.splitlines() or [""]
    if version != "v1":
        return version.startswith("v") and version[1:].isdecimal()  # of a later Spark
    return bool(lines) and all(line == "-" or json.loads(line) is not None for line in lines)


def _is_plan(data: bytes) -> bool:
    """Whether the offsets of a batch are whole: there is a source at least."""
    return _is_log(data) and (not data.startswith(b"v1") or len(data.splitlines()) > 2)


def _end(line: str) -> int:
    value = None if line == "-" else json.loads(line)
    end = value.get("logOffset") if isinstance(value, dict) else None
    return end if isinstance(end, int) else -1


def _agrees(data: bytes, checksums: bytes) -> bool:
    """Whether the checksums that Hadoop keeps beside a file are those of its bytes.

    >>> _agrees(b"ab", b"crc\\0" + struct.pack(">iI", 512, zlib.crc32(b"ab")))
    True
    >>> _agrees(b"a", b"crc\\0" + struct.pack(">iI", 512, zlib.crc32(b"ab")))
    False
    """
    if len(checksums) < 8 or checksums[:4] != b"crc\0":
        return True  # Hadoop goes without them, too
    (width,) = struct.unpack(">i", checksums[4:8])
    if width <= 0:
        return False
    sums = (zlib.crc32(data[at : at + width]) for at in range(0, len(data), width))
    return b"".join(struct.pack(">I", one) for one in sums) == checksums[8:]
