"""Where a stream in process puts its answers: the console, a file of JSON lines, a folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.data.writers import csv_lines, json_lines
from tidelog.errors import DataError

KINDS = "csv:DIR, parquet:DIR, json:DIR, jsonl:FILE or console"


class Output:
    """Answers on standard output, as JSON lines."""

    def write(self, answers: Mapping[str, pa.Table]) -> None:
        for query, table in answers.items():
            for line in json_lines(query, table):
                sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    def close(self) -> None:
        """All answers are there."""
        return

    def lengths(self) -> dict[str, int]:
        """How long each file is, once all of it is on disk; a resumed run goes on from there."""
        raise DataError("answers on the console cannot be taken back: a checkpoint needs a file")


class File(Output):
    """One file of JSON lines."""

    def __init__(self, path: str, lengths: Mapping[str, int] | None = None) -> None:
        target = Path(path)
        if lengths is not None:
            self.file = _cut(target, lengths[target.name])
            return
        if target.exists() and target.is_file() and target.stat().st_size:
            raise DataError(f"{path} is there already and not empty: name a new file")
        target.parent.mkdir(parents=True, exist_ok=True)
        self.file = target.open("ab")

    def write(self, answers: Mapping[str, pa.Table]) -> None:
        for query, table in answers.items():
            self.file.writelines(f"{line}\n".encode() for line in json_lines(query, table))
        self.file.flush()

    def lengths(self) -> dict[str, int]:
        os.fsync(self.file.fileno())
        return {Path(self.file.name).name: self.file.tell()}

    def close(self) -> None:
        os.fsync(self.file.fileno())
        self.file.close()


class Folder(Output):
    """A file for each query."""

    def __init__(
        self,
        path: str,
        format_: str,
        queries: Iterable[str],
        lengths: Mapping[str, int] | None = None,
    ) -> None:
        folder = Path(path)
        self.given = lengths
        if lengths is None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise DataError(f"{path} is there already and not empty: name a new folder")
        folder.mkdir(parents=True, exist_ok=True)
        self.writers: dict[str, Callable[[pa.Table], None]] = {}
        self.ends: list[Callable[[], None]] = []
        self.files: list[IO[bytes]] = []
        for query in queries:
            self._open(folder, query, format_)

    def _open(self, folder: Path, query: str, format_: str) -> None:
        if format_ == "parquet":
            writers: list[Any] = []

            def add(table: pa.Table) -> None:
                if not writers:
                    path = folder / f"{query}.parquet"
                    writers.append(pq.ParquetWriter(path, table.schema, compression="zstd"))
                writers[0].write_table(table)

            def end() -> None:
                for writer in writers:
                    writer.close()

            self.writers[query] = add
            self.ends.append(end)
            return
        path = folder / f"{query}.{'csv' if format_ == 'csv' else 'jsonl'}"
        file = path.open("wb") if self.given is None else _cut(path, self.given[path.name])
        self.files.append(file)
        self.ends.append(file.close)

        def append(table: pa.Table) -> None:
            lines = iter(csv_lines(table) if format_ == "csv" else json_lines(None, table))
            if format_ == "csv" and file.tell():
                next(lines)  # the header is there
            file.writelines(f"{line}\n".encode() for line in lines)
            file.flush()

        self.writers[query] = append

    def lengths(self) -> dict[str, int]:
        if len(self.files) < len(self.writers):
            raise DataError("a Parquet file cannot be gone on with: a checkpoint needs csv or json")
        for file in self.files:
            os.fsync(file.fileno())
        return {Path(file.name).name: file.tell() for file in self.files}

    def write(self, answers: Mapping[str, pa.Table]) -> None:
        for query, table in answers.items():
            self.writers[query](table)

    def close(self) -> None:
        for end in self.ends:
            end()


def _cut(path: Path, length: int) -> IO[bytes]:
    """A file to go on with, without what was written after a checkpoint."""
    file = path.open("r+b")
    if file.seek(0, os.SEEK_END) < length:
        raise DataError(f"{path} is shorter than at the checkpoint: it was changed since")
    file.truncate(length)
    file.seek(length)
    return file


def output_of(
    sink: str, queries: Iterable[str], lengths: Mapping[str, int] | None = None
) -> Output:
    """The output that a text such as `csv:DIR` names; with lengths, as it was at a checkpoint."""
    kind, _, path = sink.partition(":")
    try:
        if sink == "console":
            return Output()
        if kind == "jsonl" and path:
            return File(path, lengths)
        if kind in ("csv", "json", "parquet") and path:
            return Folder(path, kind, queries, lengths)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    raise DataError(f"`{sink}` is no sink: give {KINDS}")
