"""`csv:DIR`, `parquet:DIR` and `json:DIR`: a folder of files, exactly once.

On Spark a batch is a folder of its own for each query, `<Predicate>/batch=N/`, on any file system.
In process, where batches are small and many, each query has one file that grows.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow.parquet as pq

from tidelog.data.sealed import sealed, unsealed
from tidelog.data.secrets import without_secrets
from tidelog.data.writers import csv_lines, json_lines
from tidelog.errors import DataError, Refused
from tidelog.streaming.sinks import Target
from tidelog.streaming.sinks.sink import BatchAnswers, FileStore, Sink

MARK = "_tidelog.json"  # says which stream a folder belongs to
COMPLETE = "_complete"  # the last file of a batch, on stores where it is not there at once


def sink(target: Target) -> Sink:
    if target.store is not None:
        return BatchFolders(target.kind, target.store(target.path))
    if "://" in target.path:
        raise DataError(
            f"`{without_secrets(f'{target.kind}:{target.path}')}`: in process answers go to a"
            " folder on this machine; --engine spark writes to any store"
        )
    if target.kind == "parquet":
        return ParquetFiles(target.path)
    return GrowingFiles(target.kind, target.path)


class BatchFolders(Sink):
    """A folder for each query and batch, written under another name and then renamed."""

    def __init__(self, format_: str, store: FileStore) -> None:
        self.format, self.store = format_, store
        self.name = f"{format_}:{store.name}"
        self.start = uuid.uuid4().hex[:8]

    def check(self, stream: str, *, fresh: bool) -> None:
        if self.store.local is not None and os.path.isfile(self.store.local):
            raise Refused(
                f"{self.store.local} is a file, and answers in {self.format} go to a folder:"
                " name another one"
            )
        if self.store.exists(MARK):
            mark = unsealed(self.store.read(MARK), self.store.shown(MARK))
            if mark.get("stream") != stream:
                raise Refused(
                    f"{self.store.name} belongs to another stream: name a new folder, or the"
                    " checkpoint that it was written with"
                )
        elif not fresh:
            raise Refused(
                f"{self.store.name} is not the folder this stream wrote to: {MARK} is missing;"
                " restore it, or start with a new checkpoint and a new folder"
            )
        elif any(not e.name.startswith((".", "_")) for e in self.store.entries()):
            raise Refused(
                f"{self.store.name} is there already and not empty: name a new folder, or the"
                " checkpoint that it was written with"
            )

    def prepare(self, queries: Sequence[str], *, fresh: bool) -> None:
        self.store.make()

    def mark(self, stream: str) -> None:
        if not self.store.exists(MARK):
            self.store.write(sealed({"stream": stream}), MARK)

    @property
    def shared_file(self) -> str | None:
        return self.store.here(MARK)

    def write(self, batch: int, answers: Mapping[str, BatchAnswers]) -> None:
        for query, rows in answers.items():
            # A name of this start's own: what an earlier one has left running may still write.
            temporary = (f".{query}.batch={batch}.{self.start}",)
            rows.save(self.format, self.store, temporary)
            self.store.make(query)
            self.store.rename(temporary, (query, f"batch={batch}"))
            if self.store.copies:
                self.store.write(b"", query, f"batch={batch}", COMPLETE)

    def discard(self, batch: int, queries: Sequence[str], state: Mapping[str, Any]) -> None:
        for entry in self.store.entries():
            if entry.name.startswith(".") and ".batch=" in entry.name:
                self.store.delete(entry.name)
        for query in queries:
            self.store.delete(query, f"batch={batch}")


class _LocalFolder(Sink):
    """A folder on this machine with a file for each query."""

    def __init__(self, format_: str, path: str) -> None:
        self.path, self.folder = path, Path(path)
        self.name = f"{format_}:{path}"

    def check(self, stream: str, *, fresh: bool) -> None:
        there = self.folder.exists()
        if fresh and there and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise DataError(f"{self.path} is there already and not empty: name a new folder")

    def prepare(self, queries: Sequence[str], *, fresh: bool) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"{self.path}: {error.strerror or error}") from None


class GrowingFiles(_LocalFolder):
    """`<Predicate>.csv` or `.jsonl`; the state is how long each file is."""

    def __init__(self, format_: str, path: str) -> None:
        super().__init__(format_, path)
        self.csv = format_ == "csv"
        self.files: dict[str, IO[bytes]] = {}

    def prepare(self, queries: Sequence[str], *, fresh: bool) -> None:
        super().prepare(queries, fresh=fresh)
        for query in queries:
            path = self.folder / f"{query}.{'csv' if self.csv else 'jsonl'}"
            try:
                self.files[query] = path.open("wb" if fresh else "r+b")
            except OSError as error:
                raise DataError(f"{self.path}: {error.strerror or error}") from None

    def write(self, batch: int, answers: Mapping[str, BatchAnswers]) -> None:
        for query, rows in answers.items():
            file, table = self.files[query], rows.table()
            lines = iter(csv_lines(table) if self.csv else json_lines(None, table))
            if self.csv and file.tell():
                next(lines)  # the header is there
            file.writelines(f"{line}\n".encode() for line in lines)
            file.flush()

    def state(self) -> dict[str, Any]:
        for file in self.files.values():
            os.fsync(file.fileno())
        return {Path(file.name).name: file.tell() for file in self.files.values()}

    def discard(self, batch: int, queries: Sequence[str], state: Mapping[str, Any]) -> None:
        for file in self.files.values():
            length = int(state[Path(file.name).name])
            if file.seek(0, os.SEEK_END) < length:
                raise DataError(
                    f"{file.name} is shorter than at the checkpoint: it was changed since"
                )
            file.truncate(length)
            file.seek(length)

    def close(self) -> None:
        for file in self.files.values():
            file.close()


class ParquetFiles(_LocalFolder):
    """`<Predicate>.parquet`, complete once it is closed."""

    cannot_resume = "a Parquet file cannot be gone on with: a checkpoint needs csv or json"

    def __init__(self, path: str) -> None:
        super().__init__("parquet", path)
        self.writers: dict[str, pq.ParquetWriter] = {}

    def write(self, batch: int, answers: Mapping[str, BatchAnswers]) -> None:
        for query, rows in answers.items():
            table = rows.table()
            if query not in self.writers:
                path = self.folder / f"{query}.parquet"
                self.writers[query] = pq.ParquetWriter(path, table.schema, compression="zstd")
            self.writers[query].write_table(table)

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()
