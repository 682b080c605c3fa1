"""`csv:DIR`, `parquet:DIR` and `json:DIR`: a folder of files, exactly once.

On Spark a batch is a folder of its own for each query, `<Predicate>/batch=N/`, on any file system.
In process, where batches are small and many, each query has one file that grows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tidelog.causes import Cause, cause_of
from tidelog.data.durable import HERE, is_part
from tidelog.data.sealed import sealed, unsealed
from tidelog.data.secrets import without_secrets
from tidelog.data.writers import csv_lines, json_lines
from tidelog.errors import DataError, Refused, warn
from tidelog.streaming.sinks import Target
from tidelog.streaming.sinks.growing import GrowingFile
from tidelog.streaming.sinks.sink import BatchAnswers, FileStore, Sink, StoredFile

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
        self.start = store.machine.new_name()[:8]
        self.files: dict[str, tuple[StoredFile, ...]] = {}  # of the last batch with answers

    def check(self, stream: str, *, fresh: bool) -> None:
        if self.store.is_file():
            raise Refused(
                f"{self.store.local} is a file, and answers in {self.format} go to a folder:"
                " name another one",
                code=Cause.SINK_TAKEN,
            )
        if self.store.exists(MARK):
            mark = unsealed(self.store.read(MARK), self.store.shown(MARK))
            if mark.get("stream") != stream:
                raise Refused(
                    f"{self.store.name} belongs to another stream: name a new folder, or the"
                    " checkpoint that it was written with",
                    code=Cause.SINK_TAKEN,
                )
        elif not fresh:
            raise Refused(
                f"{self.store.name} is not the folder this stream wrote to: {MARK} is missing;"
                " restore it, or start with a new checkpoint and a new folder",
                code=Cause.SINK_TAKEN,
            )
        elif any(not e.name.startswith((".", "_")) for e in self.store.entries()):
            raise Refused(
                f"{self.store.name} is there already and not empty: name a new folder, or the"
                " checkpoint that it was written with",
                code=Cause.SINK_TAKEN,
            )

    def prepare(self, queries: Sequence[str], *, fresh: bool) -> None:
        self.store.make()

    def mark(self, stream: str) -> None:
        # One that is there need not be on the disk: who wrote it may have been killed.
        self.store.write(sealed({"stream": stream}), MARK)

    @property
    def shared_file(self) -> str | None:
        return self.store.here(MARK)

    def write(self, batch: int, answers: Mapping[str, BatchAnswers]) -> None:
        files: dict[str, tuple[StoredFile, ...]] = {}
        for query, rows in answers.items():
            # A name of this start's own: what an earlier one has left running may still write.
            temporary = (f".{query}.batch={batch}.{self.start}",)
            rows.save(self.format, self.store, temporary)
            self.store.make(query)
            self.store.rename(temporary, (query, f"batch={batch}"))
            if self.store.copies:
                self.store.write(b"", query, f"batch={batch}", COMPLETE)
            files[f"{query}/batch={batch}"] = self.store.files(query, f"batch={batch}")
        self.files = files or self.files

    def state(self) -> dict[str, Any]:
        return {"files": {name: list(map(list, files)) for name, files in self.files.items()}}

    def verify(self, state: Mapping[str, Any]) -> None:
        self.files = {name: StoredFile.list_of(files) for name, files in state["files"].items()}
        for name, files in self.files.items():
            self.store.expect(files, *name.split("/"))

    def discard(self, batch: int, queries: Sequence[str], state: Mapping[str, Any]) -> None:
        for entry in self.store.entries():
            is_answer = entry.name.startswith(".") and ".batch=" in entry.name
            if is_answer or is_part(entry.name):
                self.store.delete(entry.name)
        others: set[int] = set()
        for query in queries:
            for entry in self.store.entries(query):
                number = entry.name.removeprefix("batch=")
                if number != entry.name and number.isdecimal() and int(number) >= batch:
                    self.store.delete(query, entry.name)
                    others.add(int(number))
        others.discard(batch)  # which was begun, and not committed
        if others:
            warn(
                f"{self.store.name} had answers up to batch {max(others)}, and the checkpoint goes"
                f" on with batch {batch}, as one does that was restored from a copy: the answers"
                " from there on were removed, and come again"
            )


class _LocalFolder(Sink):
    """A folder on this machine with a file for each query."""

    def __init__(self, format_: str, path: str) -> None:
        self.path, self.folder = path, Path(path)
        self.name = f"{format_}:{path}"

    def check(self, stream: str, *, fresh: bool) -> None:
        there = self.folder.exists()
        if (
            fresh
            and there
            and (not self.folder.is_dir() or any(map(_is_filled, self.folder.iterdir())))
        ):
            raise DataError(
                f"{self.path} is there already and not empty: name a new folder",
                code=Cause.SINK_TAKEN,
            )

    def prepare(self, queries: Sequence[str], *, fresh: bool) -> None:
        try:
            HERE.make_folders(os.path.abspath(self.folder))
        except OSError as error:
            said = f"{self.path}: {error.strerror or error}"
            raise DataError(said, code=cause_of(error)) from None


class GrowingFiles(_LocalFolder):
    """`<Predicate>.csv` or `.jsonl`, each of which grows."""

    def __init__(self, format_: str, path: str) -> None:
        super().__init__(format_, path)
        self.csv = format_ == "csv"
        self.files: dict[str, GrowingFile] = {}

    def _file(self, name: str) -> GrowingFile:
        return GrowingFile(os.path.abspath(self.folder / name), "folder")

    def prepare(self, queries: Sequence[str], *, fresh: bool) -> None:
        super().prepare(queries, fresh=fresh)
        for query in queries:
            file = self._file(f"{query}.{'csv' if self.csv else 'jsonl'}")
            try:
                file.open()
            except OSError as error:
                said = f"{self.path}: {error.strerror or error}"
                raise DataError(said, code=cause_of(error)) from None
            self.files[query] = file

    def write(self, batch: int, answers: Mapping[str, BatchAnswers]) -> None:
        for query, rows in answers.items():
            file, table = self.files[query], rows.table()
            lines = iter(csv_lines(table) if self.csv else json_lines(None, table))
            if self.csv and file.end:
                next(lines)  # the header is there
            file.add(lines)

    def state(self) -> dict[str, Any]:
        return {os.path.basename(file.path): file.state() for file in self.files.values()}

    def verify(self, state: Mapping[str, Any]) -> None:
        for name, part in state.items():
            self._file(name).verify(part)

    def discard(self, batch: int, queries: Sequence[str], state: Mapping[str, Any]) -> None:
        for file in self.files.values():
            file.cut(state[os.path.basename(file.path)])

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


def _is_filled(path: Path) -> bool:
    """Whether an entry is more than an empty file, as a start that was killed leaves."""
    return path.is_dir() or path.stat().st_size > 0
