"""What a sink is given and what it has to promise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.data.writers import csv_lines, json_lines

# Rows that are read at a time: of a large state, a batch needs some only.
GROUP_ROWS = 32_768


class Named(Protocol):
    """An entry of a folder."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...


class FileStore(Protocol):
    """A folder on any file system; its files and folders are named by their parts."""

    name: str  # for people, without secrets
    local: str | None  # the folder, where it is on this machine
    copies: bool  # whether a rename is a copy, of a folder file by file

    def path(self, *parts: str) -> str: ...
    def shown(self, *parts: str) -> str: ...
    def here(self, *parts: str) -> str | None: ...
    def exists(self, *parts: str) -> bool: ...
    def entries(self, *parts: str) -> Sequence[Named]: ...
    def read(self, *parts: str) -> bytes: ...
    def make(self, *parts: str) -> None: ...
    def write(self, data: bytes, *parts: str) -> None: ...
    def rename(self, source: tuple[str, ...], target: tuple[str, ...]) -> None: ...
    def delete(self, *parts: str) -> None: ...


class BatchAnswers(Protocol):
    """The answers of a query in one batch, in this process or in Spark's executors."""

    def table(self) -> pa.Table:
        """All of them, in this process."""

    def frame(self) -> Any:
        """As a DataFrame of Spark; there is none in process."""

    def save(self, format_: str, store: FileStore, place: tuple[str, ...]) -> None:
        """Write them as a folder of `parquet`, `csv` or `json` files."""


@dataclass(frozen=True)
class LocalAnswers:
    """Answers in this process; `spark` is the session they become a DataFrame of."""

    rows: pa.Table
    spark: Any = None

    def table(self) -> pa.Table:
        return self.rows

    def frame(self) -> Any:
        return self.spark.createDataFrame(self.rows)

    def save(self, format_: str, store: FileStore, place: tuple[str, ...]) -> None:
        if format_ == "parquet":
            buffer = pa.BufferOutputStream()
            pq.write_table(self.rows, buffer, row_group_size=GROUP_ROWS, compression="zstd")
            data = bytes(buffer.getvalue())
        else:
            lines = csv_lines(self.rows) if format_ == "csv" else json_lines(None, self.rows)
            data = "".join(f"{line}\n" for line in lines).encode()
        store.write(data, *place, f"part-00000.{format_}")


class Sink(ABC):
    """Where the answers of a stream go, a batch at a time.

    A stream that was stopped or killed goes on from its last commit: it does the batches after it
    again, with the same answers. A sink that can take back what it was given is *exactly once*:
    `state` says what a commit has to remember of it, and `discard` takes back everything after that
    state, however far the batch had got. A sink that cannot do so is *at least once*: it may see a
    batch twice, under the same number, if the process dies before the commit; then `cannot_resume`
    says why, and a stream in process, which commits only now and then, refuses to have it together
    with a checkpoint.

    The calls, in order: `check`, `prepare`, `mark`; `discard` before each batch on Spark, and once
    after a restart in process; then `write`, perhaps `final`, and for a commit `state`; at the end
    `close`.
    """

    name: str  # what a checkpoint knows it by, without secrets
    cannot_resume: str | None = None  # why answers cannot be taken back, in one sentence
    # On Spark: whether answers are written to the checkpoint first and read back from there, so
    # that a sink may look at a DataFrame of them as often as it likes.
    reads_back: bool = False
    # Whether what an unfinished batch has written is removed before it is done again; otherwise it
    # stays, and the batch must be the same.
    takes_back: bool = True

    def check(self, stream: str, *, fresh: bool) -> None:
        """Refused when something is there that this stream did not write; nothing is written."""
        return

    def prepare(self, queries: Sequence[str], *, fresh: bool) -> None:
        """Make room for answers, or DataError when they cannot be written there."""
        return

    def mark(self, stream: str) -> None:
        """Say which stream's answers these are."""
        return

    @property
    def shared_file(self) -> str | None:
        """A file on this machine that Spark's executors must see too, if there is one."""
        return None

    @abstractmethod
    def write(self, batch: int, answers: Mapping[str, BatchAnswers]) -> None:
        """The answers of a batch; queries without any are left out."""

    def final(self, batch: int, time: int | str) -> None:
        """On Spark, after the answers of a batch: all up to a time have been written."""
        return

    def state(self) -> dict[str, Any]:
        """What a commit remembers; everything written so far is safe by then."""
        return {}

    def discard(self, batch: int, queries: Sequence[str], state: Mapping[str, Any]) -> None:
        """Take back what came after a state: whatever an unfinished batch may have left."""
        return

    def close(self) -> None:
        """No more answers will come from this process; it may be said twice."""
        return
