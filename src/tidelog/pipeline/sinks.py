"""Where answers go: folders of files, a file of JSON lines, the console, memory, a function.

Folders and the file are exactly once: a batch that is done again replaces what it had written. The
others may see a batch twice when the process dies between telling them and the commit.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tidelog.data.sealed import sealed, unsealed
from tidelog.data.writers import csv_lines, json_lines
from tidelog.errors import DataError, Refused
from tidelog.pipeline.secrets import without_secrets
from tidelog.pipeline.store import Store

Rows: TypeAlias = DataFrame | pa.Table  # many are with Spark, few are here
Answers: TypeAlias = Mapping[str, Rows]
Function: TypeAlias = Callable[[int, Mapping[str, DataFrame]], None]
FORMATS = ("parquet", "csv", "json")
MARK = "_tidelog.json"

_OPTIONS = {
    "csv": {
        "header": "true",
        "escape": '"',
        "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX",
    },
    "json": {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX"},
    "parquet": {},
}


class Sink(ABC):
    """What a stream tells its answers to, a batch at a time."""

    name: str  # what the checkpoint remembers it by

    def check(self, id_: str, fresh: bool) -> None:
        """Refused when there is something that another stream wrote; nothing is written."""
        return

    def prepare(self) -> None:
        """Make room for answers, or DataError when they cannot be written there."""
        return

    def mark(self, id_: str) -> None:
        """Say whose answers these are."""
        return

    @abstractmethod
    def write(self, batch: int, answers: Answers, state: dict[str, Any]) -> dict[str, Any]:
        """The answers of a batch, queries without any left out; returns the sink's own state."""

    def discard(self, batch: int, queries: tuple[str, ...], state: dict[str, Any]) -> None:
        """Remove what an unfinished batch may have left."""
        return


class Folder(Sink):
    """`<Predicate>/batch=N/` of Parquet, CSV or JSON files, each batch renamed into place."""

    def __init__(self, spark: SparkSession, format_: str, path: str) -> None:
        self.format = format_
        self.store = Store(spark, path)
        self.name = f"{format_}:{self.store.name}"

    def check(self, id_: str, fresh: bool) -> None:
        if self.store.local is not None and os.path.isfile(self.store.local):
            raise Refused(
                f"{self.store.local} is a file, and answers in {self.format} go to a folder:"
                " name another one"
            )
        if self.store.exists(MARK):
            mark = unsealed(self.store.read(MARK), self.store.shown(MARK))
            if mark.get("stream") != id_:
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

    def prepare(self) -> None:
        self.store.make()

    def mark(self, id_: str) -> None:
        if not self.store.exists(MARK):
            self.store.write(sealed({"stream": id_}), MARK)

    def write(self, batch: int, answers: Answers, state: dict[str, Any]) -> dict[str, Any]:
        for query, rows in answers.items():
            temporary = (f".{query}.batch={batch}",)
            save(rows, self.format, self.store, temporary)
            self.store.make(query)
            self.store.rename(temporary, (query, f"batch={batch}"))
        return state

    def discard(self, batch: int, queries: tuple[str, ...], state: dict[str, Any]) -> None:
        for query in queries:
            self.store.delete(f".{query}.batch={batch}")
            self.store.delete(query, f"batch={batch}")


class Lines(Sink):
    """One local file of JSON lines; what a commit does not know of is cut off."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.name = f"jsonl:{self.path}"

    def check(self, id_: str, fresh: bool) -> None:
        if os.path.isdir(self.path):
            raise Refused(f"{self.path} is a folder, and JSON lines go to a file: name a file")
        if fresh and os.path.exists(self.path) and os.path.getsize(self.path):
            raise Refused(
                f"{self.path} is there already and not empty: name a new file, or the checkpoint"
                " that it was written with"
            )
        if not fresh and not os.path.exists(self.path):
            raise Refused(
                f"{self.path} is missing: restore it, or start with a new checkpoint and a new file"
            )

    def prepare(self) -> None:
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            with open(self.path, "ab"):
                pass
        except OSError as error:
            said = error.strerror or error
            raise DataError(f"{self.path} cannot be written: {said}; name another place") from None

    def write(self, batch: int, answers: Answers, state: dict[str, Any]) -> dict[str, Any]:
        with open(self.path, "ab") as file:
            for query, rows in answers.items():
                for line in json_lines(query, _here(rows)):
                    file.write(f"{line}\n".encode())
            file.flush()
            os.fsync(file.fileno())
            return {"bytes": file.tell()}

    def discard(self, batch: int, queries: tuple[str, ...], state: dict[str, Any]) -> None:
        size = int(state.get("bytes", 0))
        there = os.path.getsize(self.path) if os.path.exists(self.path) else 0
        if there < size:
            raise Refused(
                f"{self.path} is shorter than when batch {batch - 1} was committed: restore it, or"
                " start with a new checkpoint and a new file"
            )
        if there > size:
            os.truncate(self.path, size)


class Told(Sink):
    """A function that is told the answers of each batch, read back from where they were put."""

    def __init__(self, function: Function, name: str) -> None:
        self.function = function
        self.name = name

    def tell(self, batch: int, answers: Mapping[str, DataFrame]) -> None:
        self.function(batch, answers)

    def write(self, batch: int, answers: Answers, state: dict[str, Any]) -> dict[str, Any]:
        return state


class Memory(Told):
    """Answers gathered in this process."""

    def __init__(self) -> None:
        super().__init__(self._gather, "memory")
        self.batches: dict[str, dict[int, pa.Table]] = {}

    def _gather(self, batch: int, answers: Mapping[str, DataFrame]) -> None:
        for query, rows in answers.items():
            self.batches.setdefault(query, {})[batch] = rows.toArrow()

    def table(self, query: str) -> pa.Table | None:
        parts = self.batches.get(query)
        return pa.concat_tables(parts[number] for number in sorted(parts)) if parts else None


def to_console(batch: int, answers: Mapping[str, DataFrame]) -> None:
    """JSON lines on standard output."""
    for query, rows in answers.items():
        for line in json_lines(query, rows.toArrow()):
            sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def save(rows: Rows, format_: str, store: Store, place: tuple[str, ...]) -> None:
    """Rows as a folder of files."""
    if isinstance(rows, DataFrame):
        rows.write.format(format_).options(**_OPTIONS[format_]).save(store.path(*place))
        store.delete(*place, "_SUCCESS")
        return
    if format_ == "parquet":
        buffer = pa.BufferOutputStream()
        pq.write_table(rows, buffer, compression="zstd")
        data = bytes(buffer.getvalue())
    else:
        lines = csv_lines(rows) if format_ == "csv" else json_lines(None, rows)
        data = "".join(f"{line}\n" for line in lines).encode()
    store.write(data, *place, f"part-00000.{format_}")


def _here(rows: Rows) -> pa.Table:
    return rows.toArrow() if isinstance(rows, DataFrame) else rows


def sink_of(spark: SparkSession, sink: Any) -> Sink:
    """The sink that a text such as `csv:DIR` names, or a function to tell."""
    if isinstance(sink, Sink):
        return sink
    if callable(sink):
        return Told(sink, "function")
    kinds = "parquet:DIR, csv:DIR, json:DIR, jsonl:FILE, console or memory"
    kind, _, path = str(sink).partition(":")
    shown = without_secrets(str(sink))
    if kind in FORMATS and path:
        return Folder(spark, kind, path)
    if kind == "jsonl" and path:
        if "://" in path:
            raise DataError(
                f"`{shown}`: jsonl is one file on the driver's machine; json:DIR goes to any store"
            )
        return Lines(path)
    if sink == "console":
        return Told(to_console, "console")
    if sink == "memory":
        return Memory()
    raise DataError(f"`{shown}` is no sink: give {kinds}, or a function of batch and answers")
