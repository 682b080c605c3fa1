"""What a sink is given and what it has to promise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.data.durable import Lock, Machine
from tidelog.data.writers import csv_lines, json_lines

# Rows that are read at a time: of a large state, a batch needs some only.
GROUP_ROWS = 32_768


class Named(Protocol):
    """An entry of a folder."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...


class StoredFile(NamedTuple):
    """A file that a commit refers to, with what tells whether it is still whole."""

    name: str
    size: int
    digest: str  # SHA-256 or the store's own; empty where the store has none without reading it all

    @staticmethod
    def list_of(values: Iterable[Iterable[Any]]) -> tuple[StoredFile, ...]:
        """Files as JSON has them."""
        return tuple(StoredFile(*value) for value in values)


class FileStore(Protocol):
    """A folder on any file system; its files and folders are named by their parts.

    The bytes of a file and its name in a folder become durable apart: either may outlive a loss of
    power without the other. What each call waits for:

    | call | durable when it returns |
    | --- | --- |
    | `write`, `create` | the bytes of the file, its name, and the folders made for it |
    | `make` | the names of the folders that were made |
    | `rename` | that the old name is gone and the new one there; bytes are as durable as before |
    | `sync` | all bytes and names below a folder, and the folder's own name |
    | `delete` | nothing: what was deleted may be there again |
    """

    root: str  # as Spark has it
    kind: str  # of the store, as addresses begin
    name: str  # for people, without secrets
    machine: Machine
    local: str | None  # the folder, where it is on this machine
    copies: bool  # whether a rename may be a copy, of a folder file by file

    def path(self, *parts: str) -> str: ...
    def shown(self, *parts: str) -> str: ...
    def here(self, *parts: str) -> str | None: ...
    def is_file(self) -> bool:
        """Whether a file of this machine is where the folder should be."""

    def exists(self, *parts: str) -> bool: ...
    def entries(self, *parts: str) -> Sequence[Named]: ...
    def read(self, *parts: str) -> bytes: ...
    def make(self, *parts: str) -> None: ...
    def write(self, data: bytes, *parts: str) -> None:
        """A whole file or none, in the place of one that is there."""

    def create(self, data: bytes, *parts: str, check: Callable[[], None] = ...) -> bool:
        """A whole file or none, and False if one is there, whoever has made it.

        The check is done right before the file has its name.
        """

    def rename(self, source: tuple[str, ...], target: tuple[str, ...]) -> None:
        """A folder that holds files is never replaced."""

    def delete(self, *parts: str) -> None: ...
    def hold(self, *parts: str) -> Lock | None:
        """Have Spark's process lock a file on this machine.

        None when the process of another start has it still.
        """

    def sync(self, *parts: str) -> None:
        """Wait for what others have written into a folder."""

    def files(self, *parts: str) -> tuple[StoredFile, ...]:
        """The files of a folder, with their digests; hidden ones are left out."""

    def expect(self, files: Iterable[StoredFile], *parts: str) -> None:
        """Refused if a folder lacks one of these files, or has another in its place."""


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
        from tidelog.evaluation.spark.memory import frame_of_table

        return frame_of_table(self.spark, self.rows)

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

    The calls, in order: `check`; after a restart `verify`; `prepare`, and on Spark `mark`. After a
    restart `discard`, on Spark always, and there `begin` before each batch. Then `write`, perhaps
    `final`, and for a commit `state`; at the end `close`.
    """

    name: str  # what a checkpoint knows it by, without secrets
    cannot_resume: str | None = None  # why answers cannot be taken back, in one sentence
    # On Spark: whether answers are written to the checkpoint first and read back from there, so
    # that a sink may look at a DataFrame of them as often as it likes.
    reads_back: bool = False
    # Whether what an unfinished batch has written is removed before it is done again; otherwise it
    # stays, and the batch must be the same.
    takes_back: bool = True
    # On Spark: whether it hears of queries without answers, too.
    takes_empty: bool = False

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

    def begin(self, batch: int, lineage: str) -> None:
        """On Spark: a batch begins.

        Its lineage stands for all that it follows from: what was read since the first batch, and
        how. A batch that is done again has the lineage that it had. After going back to an older
        copy of the checkpoint, another batch may have the same number, and never the same lineage.
        """
        return

    @abstractmethod
    def write(self, batch: int, answers: Mapping[str, BatchAnswers]) -> None:
        """The answers of a batch; queries without any are left out, unless it takes empty ones."""

    def final(self, batch: int, time: int | str) -> None:
        """On Spark, after the answers of a batch: all up to a time have been written."""
        return

    def state(self) -> dict[str, Any]:
        """What a commit remembers; everything written so far is safe by then."""
        return {}

    def verify(self, state: Mapping[str, Any]) -> None:
        """Refused if what the last commit remembers is not there any more, or has changed."""
        return

    def discard(self, batch: int, queries: Sequence[str], state: Mapping[str, Any]) -> None:
        """Take back what came after a state, from a batch on.

        That may be the part of a batch that was not finished, or whole batches, if the checkpoint
        was restored from an older copy.
        """
        return

    def close(self) -> None:
        """No more answers will come from this process; it may be said twice."""
        return
