"""What a sink holds: answers by batch and query, and whether its files are whole.

A commit on Spark remembers what its batch has written. Each kind of sink on this machine is read
back here, without Spark.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow.parquet as pq

from tidelog.checkpoints.folder import LocalFolder, local_path
from tidelog.checkpoints.reports import Problem
from tidelog.data import delta
from tidelog.data.sealed import unsealed
from tidelog.data.secrets import without_secrets
from tidelog.errors import DataError, Refused
from tidelog.streaming.sinks.folders import MARK
from tidelog.streaming.sinks.growing import GrowingFile
from tidelog.streaming.sinks.sink import StoredFile

RESTORE = "restore it from a copy, or start with a new checkpoint and a new folder"


@dataclass
class Answers:
    """The answers that a sink holds, and how often one of them is there again."""

    by_batch: Counter[tuple[str, int]] = field(default_factory=Counter)
    by_query: Counter[str] = field(default_factory=Counter)
    again: Counter[str] = field(default_factory=Counter)
    _seen: dict[str, set[bytes]] = field(default_factory=dict)

    def add(self, query: str, batch: int | None, rows: Iterable[bytes]) -> None:
        seen = self._seen.setdefault(query, set())
        for row in rows:
            key = hashlib.blake2b(row, digest_size=16).digest()
            self.again[query] += key in seen
            seen.add(key)
            self.by_query[query] += 1
            if batch is not None:
                self.by_batch[query, batch] += 1


class SinkReader(Protocol):
    """Reads back what a sink was given."""

    has_batches: bool  # whether it can tell which batch an answer is of

    def answers(self, last: int, state: Mapping[str, Any]) -> Answers:
        """Up to a commit, given as its batch and what it remembers of the sink."""

    def problems(self, commits: Mapping[int, Mapping[str, Any]]) -> Iterator[Problem]:
        """What is missing or damaged of what some commits remember."""


def reader_of(text: str, stream: str, engine: str) -> SinkReader | str:
    """What reads a sink that is named as in `--sink`; if nothing can, a sentence that says why."""
    kind, _, place = text.partition(":")
    path = local_path(place)
    if kind not in ("csv", "json", "parquet", "jsonl", "delta"):
        return f"answers went to {without_secrets(text)}, which cannot be read back"
    if path is None:
        return f"answers are in {without_secrets(text)}, on another machine: give --sink of a copy"
    if not os.path.exists(path):
        return f"{text} is not there: name it with --sink, as in `tidelog run`"
    if kind == "jsonl":
        return LinesReader(path)
    if kind == "delta":
        return DeltaReader(path, stream)
    if engine == "spark":
        return FolderReader(kind, LocalFolder(path), stream)
    return FilesReader(kind, path)


@dataclass(frozen=True)
class FolderReader:
    """Reads `<Predicate>/batch=N/`."""

    format: str
    folder: LocalFolder
    stream: str
    has_batches = True

    def answers(self, last: int, state: Mapping[str, Any]) -> Answers:
        found = Answers()
        for query in (entry.name for entry in self.folder.entries() if entry.folder):
            for entry in self.folder.entries(query):
                number = entry.name.removeprefix("batch=")
                if number != entry.name and number.isdecimal() and int(number) <= last:
                    for file in self.folder.files(query, entry.name):
                        path = self.folder.here(query, entry.name, file.name)
                        found.add(query, int(number), _rows(path, self.format))
        return found

    def problems(self, commits: Mapping[int, Mapping[str, Any]]) -> Iterator[Problem]:
        try:
            mark = unsealed(self.folder.read(MARK), self.folder.shown(MARK))
            if mark.get("stream") != self.stream:
                said = f"{self.folder.name} belongs to another stream"
                yield Problem(said, "name the folder of this one with --sink")
                return
        except OSError:
            yield Problem(f"{self.folder.shown(MARK)} is missing", RESTORE)
        except Refused as error:
            yield Problem.of(error)
        checked: set[str] = set()
        for _, state in sorted(commits.items(), reverse=True):
            for name, files in state.get("files", {}).items():
                if name not in checked:
                    checked.add(name)
                    stored = StoredFile.list_of(files)
                    for said in self.folder.damaged(stored, *name.split("/")):
                        yield Problem(said, RESTORE)


@dataclass(frozen=True)
class LinesReader:
    """Reads one file of JSON lines."""

    path: str
    has_batches = False

    def answers(self, last: int, state: Mapping[str, Any]) -> Answers:
        found = Answers()
        for line in _lines(self.path, int(state.get("bytes", 0))):
            found.add(str(json.loads(line)["predicate"]), None, [line])
        return found

    def problems(self, commits: Mapping[int, Mapping[str, Any]]) -> Iterator[Problem]:
        yield from _grown(GrowingFile(os.path.abspath(self.path)), commits.values())


@dataclass(frozen=True)
class FilesReader:
    """Reads `<Predicate>.csv` or `.jsonl` of a stream in process."""

    format: str
    path: str
    has_batches = False

    def answers(self, last: int, state: Mapping[str, Any]) -> Answers:
        found = Answers()
        for name, part in state.items():
            path = os.path.join(self.path, name)
            found.add(Path(name).stem, None, _rows(path, self.format, int(part["bytes"])))
        return found

    def problems(self, commits: Mapping[int, Mapping[str, Any]]) -> Iterator[Problem]:
        for name in {name: None for state in commits.values() for name in state}:
            file = GrowingFile(os.path.abspath(os.path.join(self.path, name)), "folder")
            yield from _grown(file, [s[name] for s in commits.values() if name in s])


@dataclass(frozen=True)
class DeltaReader:
    """Reads Delta tables, a version of which is a batch of the stream."""

    path: str
    stream: str
    has_batches = True

    def answers(self, last: int, state: Mapping[str, Any]) -> Answers:
        found = Answers()
        for query in state.get("tables", {}):
            address = os.path.join(os.path.abspath(self.path), query)
            for batch in delta.batches(address, self.stream):
                if batch.number <= last:
                    for file in delta.files_of(Path(address), batch.version):
                        found.add(query, batch.number, _rows(str(file), "parquet"))
        return found

    def problems(self, commits: Mapping[int, Mapping[str, Any]]) -> Iterator[Problem]:
        from tidelog.streaming.sinks.delta import DeltaSink

        for _, state in sorted(commits.items(), reverse=True)[:1]:
            if state:
                try:
                    DeltaSink(self.path).verify(state)
                except DataError as error:
                    yield Problem.of(error)


def _grown(file: GrowingFile, states: Iterable[Mapping[str, Any]]) -> Iterator[Problem]:
    """What is wrong with the lines that some commits remember, each run of lines once."""
    known = {(s["begin"], s["bytes"]): s for s in states if s}
    told: set[str] = set()
    for _, state in sorted(known.items(), reverse=True):
        try:
            file.verify(state)
        except Refused as error:
            if str(error) not in told:
                told.add(str(error))
                yield Problem.of(error)


def _lines(path: str, size: int | None) -> Iterator[bytes]:
    """The lines in so many bytes of a file."""
    read = 0
    with open(path, "rb") as file:
        for line in file:
            read += len(line)
            if size is not None and read > size:
                return
            yield line.rstrip(b"\n")


def _rows(path: str, format_: str, size: int | None = None) -> Iterator[bytes]:
    """The rows of a file, each as bytes that tell it from others; of so many bytes of it."""
    if format_ == "parquet":
        for batch in pq.ParquetFile(path).iter_batches():
            yield from (repr(tuple(row.values())).encode() for row in batch.to_pylist())
    elif format_ == "json":
        yield from _lines(path, size)
    else:
        texts = (line.decode() + "\n" for line in _lines(path, size))
        rows = csv.reader(texts, strict=True)
        next(rows, None)  # the header
        yield from (repr(row).encode() for row in rows)
