"""The files of a stream by Spark's own log.

Spark lists new files, writes the list down with the time of each, and opens them later: one that
has gone meanwhile it leaves out without a word, and never looks for again. Nor does it read a file
again that has changed.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from tidelog.errors import listed as some_of
from tidelog.errors import warn
from tidelog.evaluation.spark.failures import SPARK_ERRORS
from tidelog.pipeline.commit import Checkpoint
from tidelog.pipeline.spark_log import SPARK, SparkBatch
from tidelog.streaming.sinks.sink import FileStore

# Seconds between two looks at all files that were read.
OFTEN = 60.0
# Files that are looked at, the last ones that were read.
LOOKED_AT = 100_000
# Nanoseconds of a millisecond.
_MILLI = 1_000_000
# Milliseconds by which times of a file may differ.
_CLOSE = 1


@dataclass(frozen=True)
class _Known:
    """A file that was read."""

    time: int  # when it had been changed last, as Spark has noted, in milliseconds since 1970
    since: int  # what came before this moment was read


class FilesRead:
    """The files that a stream has read, to warn of those that have changed since.

    Files on this machine are looked at, those of stores are not.
    """

    def __init__(self, point: Checkpoint, now: Callable[[], float] = time.monotonic) -> None:
        self._point, self._now = point, now
        self._last = now()
        self._began: int | None = None  # the first batch whose files are not known
        self._files: dict[str, _Known] = {}  # by path
        self._done: dict[tuple[str, int], int] = {}  # the last entry of each log that is known
        self._told: set[tuple[str, int]] = set()
        self._lock = threading.Lock()

    def begin(self) -> None:
        """A batch begins to read its files."""
        if self._began is None:
            self._began = time.time_ns() // _MILLI

    def warn_now_and_then(self) -> None:
        """Warn of changed files if a minute has gone by since the last look."""
        if self._now() - self._last >= OFTEN:
            self.warn_of_changes()

    def warn_of_changes(self) -> None:
        """Warn of files that have changed since they were read, of each change once."""
        with self._lock:
            self._last = self._now()
            with suppress(OSError, *SPARK_ERRORS):  # Spark deletes old entries, and may be gone
                self._read_logs()
            changed = self._changed()
        if changed:
            have, them = ("has", "it") if len(changed) == 1 else ("have", "them")
            warn(
                f"{some_of(changed)} {have} changed after the stream had read {them}: a file is"
                " read once, and what is new in it is not used; put new rows into new files"
            )

    def _changed(self) -> list[str]:
        """The files that have changed since they were read, and that nobody was told of."""
        changed: list[str] = []
        for path, known in list(self._files.items())[-LOOKED_AT:]:
            try:
                status = os.stat(path)
            except OSError:
                continue  # what was read may be deleted
            written = status.st_mtime_ns // _MILLI
            latest = max(written, status.st_ctime_ns // _MILLI)
            is_other = abs(written - known.time) > _CLOSE and latest > known.since
            if is_other and (path, written) not in self._told:
                self._told.add((path, written))
                changed.append(path)
        return changed

    def _read_logs(self) -> None:
        """Take note of the files of all batches that are committed."""
        last, store = self._point.last, self._point.store
        if last is None or last.spark is None:
            return
        since, self._began = self._began, None
        if since is None:
            since = _time_of(store.here("commits", f"{last.batch}.json"))
        place = last.spark.place
        for source, end in enumerate(_ends(store, place, last.spark.number)):
            names = {e.name for e in store.entries(place, "sources", str(source))}
            numbers = {int(n.removesuffix(".compact")): n for n in names if _is_entry(n)}
            whole = max((n for n, name in numbers.items() if name.endswith(".compact")), default=-1)
            known = self._done.get((place, source), -1)
            for number in sorted(n for n in numbers if n > known and n >= whole):
                for file in _files_of(store.read(place, "sources", str(source), numbers[number])):
                    path = re.sub(r"\Afile:(//)?(?=/)", "", unquote(str(file["path"])))
                    if known < file["batchId"] <= end:
                        self._files[path] = _Known(int(file["timestamp"]), since)
            self._done[place, source] = max(end, known)


def _time_of(path: str | None) -> int:
    """When a file was written, in milliseconds since 1970; 0 for one that is elsewhere."""
    return 0 if path is None else os.stat(path).st_mtime_ns // _MILLI


def _is_entry(name: str) -> bool:
    return name.removesuffix(".compact").isdecimal()


def _files_of(entry: bytes) -> Iterator[Mapping[str, Any]]:
    """The files in a log entry; other sources have other entries."""
    for line in entry.decode(errors="replace").splitlines()[1:]:
        try:
            file = json.loads(line)
        except ValueError:
            continue
        if isinstance(file, dict) and {"path", "timestamp", "batchId"} <= file.keys():
            yield file


def listed(store: FileStore, place: str, number: int) -> set[str]:
    """The addresses of the files that Spark wrote down for a batch of the query kept at a place."""
    before = _ends(store, place, number - 1)
    addresses: set[str] = set()
    for source, end in enumerate(_ends(store, place, number)):
        first = before[source] + 1 if before else 0
        for entry in range(first, end + 1):
            addresses |= _entry(store, place, source, entry)
    return addresses


def listed_before(store: FileStore, last: SparkBatch | None) -> set[str]:
    """The addresses of the files of all batches up to one, which is committed.

    A batch of topics after a history comes after all files.
    """
    if last is None:
        return set()
    plans = (entry.name for entry in store.entries(SPARK, "offsets"))
    planned = max((int(name) for name in plans if name.isdecimal()), default=-1)
    number = last.number if last.place == SPARK else planned
    addresses: set[str] = set()
    for source, end in enumerate(_ends(store, SPARK, number)):
        for entry in range(end + 1):
            addresses |= _entry(store, SPARK, source, entry)
    return addresses


def _ends(store: FileStore, place: str, number: int) -> list[int]:
    """How far a batch reads in the log of each source; nothing for a batch that is not there."""
    if number < 0 or not store.exists(place, "offsets", str(number)):
        return []
    _, _, *offsets = store.read(place, "offsets", str(number)).decode().splitlines()
    return [-1 if offset == "-" else _end(json.loads(offset)) for offset in offsets]


def _end(offset: Any) -> int:
    """The last entry of a log of files; other sources have none."""
    end = offset.get("logOffset") if isinstance(offset, dict) else None
    return end if isinstance(end, int) else -1


def _entry(store: FileStore, place: str, source: int, entry: int) -> set[str]:
    """The files of one entry; now and then Spark writes all entries so far in one file."""
    for name in (str(entry), f"{entry}.compact"):
        if store.exists(place, "sources", str(source), name):
            text = store.read(place, "sources", str(source), name).decode()
            ours = [line for line in text.splitlines()[1:] if f'"batchId":{entry}' in line]
            files = map(json.loads, ours)
            return {unquote(file["path"]) for file in files if file["batchId"] == entry}
    return set()
