"""`delta:DIR`: a Delta table for each query, exactly once.

The stream is the writer and the number of a batch its transaction (what Delta's own writer for
Spark calls txnAppId and txnVersion). The log of the table says the lineage of each batch, too: a
batch that is done again is found in the table and left out, and another one under its number is
refused. Others may add to the table.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tidelog.causes import Cause, cause_of
from tidelog.data import delta
from tidelog.data.delta import TableBatch
from tidelog.data.durable import HERE
from tidelog.data.secrets import without_secrets
from tidelog.errors import DataError, Refused
from tidelog.streaming.sinks import Target
from tidelog.streaming.sinks.sink import BatchAnswers, Sink, StoredFile


def sink(target: Target) -> Sink:
    return DeltaSink(target.path)


class DeltaSink(Sink):
    """Answers are gathered in the driver, and added to a table in one transaction a batch.

    A commit remembers the version of each table, and the files that its last batch added there.
    """

    takes_back = False

    def __init__(self, path: str, tables: Any = delta) -> None:
        """`tables` reads and adds to tables, as the module `delta` does."""
        self._delta = tables
        self.path = path if "://" in path else os.path.abspath(path)
        self.name = f"{delta.SCHEME}{without_secrets(self.path)}"
        self.stream = ""
        self._batch, self._lineage = -1, ""  # the last one, or the one at work
        self._tables: dict[str, dict[str, Any]] = {}  # by query, what a commit remembers
        self._begun: dict[str, TableBatch] = {}  # by query, a batch that was not committed
        self._known: dict[str, int | None] = {}  # by query, the last batch that is in the table

    def check(self, stream: str, *, fresh: bool) -> None:
        self.stream = stream
        self._delta.opened(f"{self.path}/none")  # the package is there
        if os.path.isfile(self.path):
            raise Refused(
                f"{self.path} is a file, and Delta tables go to a folder: name another",
                code=Cause.SINK_TAKEN,
            )

    def verify(self, state: Mapping[str, Any]) -> None:
        self._batch, self._tables = int(state["batch"]), dict(state["tables"])
        for query, part in self._tables.items():
            self._verify(self._address(query), int(part["version"]), part["files"])

    def _verify(self, address: str, version: int, files: Sequence[Sequence[Any]]) -> None:
        """Refused if a table lacks what the last commit remembers."""
        table = self._delta.opened(address)
        restore = "restore it from a copy, or start with a new checkpoint and a new table"
        if table is None or table.version() < version:
            what = "is missing" if table is None else f"ends with version {table.version()}"
            raise Refused(
                f"{without_secrets(address)} {what}, and the last commit needs version {version}:"
                f" {restore}",
                code=Cause.SINK_LOST,
            )
        used = {os.path.basename(uri) for uri in table.file_uris()}
        for file in StoredFile.list_of(files):
            path = Path(address, file.name)  # others may have put its rows into another file
            if os.path.basename(file.name) in used and _stored(Path(address), path) != file:
                what = "damaged" if path.exists() else "missing"
                raise Refused(
                    f"{path} is {what}, and the last commit needs it: {restore}",
                    code=Cause.SINK_LOST,
                )

    def prepare(self, queries: Sequence[str], *, fresh: bool) -> None:
        if "://" not in self.path:
            try:
                HERE.make_folders(self.path)
            except OSError as error:
                said = error.strerror or error
                raise DataError(
                    f"{self.path} cannot be written: {said}", code=cause_of(error)
                ) from None
        for query in queries:
            self._find_begun(query)

    def _find_begun(self, query: str) -> None:
        """Find what a table has after the last commit; Refused for more than the next batch."""
        address, version = self._address(query), int(self._tables.get(query, {}).get("version", -1))
        self._known[query] = self._delta.last_batch(address, self.stream) if self.stream else None
        if self._known[query] is None:
            return
        later = list(self._delta.batches(address, self.stream, version))
        if len(later) == 1 and later[0].number == self._batch + 1:
            (self._begun[query],) = later
        elif later:
            raise self._of_another_time(query, later[-1])

    def _of_another_time(self, query: str, first: TableBatch) -> Refused:
        address = without_secrets(self._address(query))
        remedy = (
            f"take them out with deltalake.DeltaTable({address!r}).restore({first.version - 1})"
            if first.version
            else f"delete {address}"
        )
        return Refused(
            f"{address} has answers of batch {first.number} that the checkpoint does not know, as"
            f" if it was restored from a copy: {remedy}; then start again, and they come again",
            code=Cause.SINK_AHEAD,
        )

    def mark(self, stream: str) -> None:
        self.stream = stream

    def begin(self, batch: int, lineage: str) -> None:
        self._batch, self._lineage = batch, lineage
        for query, begun in self._begun.items():
            if begun.number == batch and begun.lineage != lineage:
                raise self._of_another_time(query, begun)

    def write(self, batch: int, answers: Mapping[str, BatchAnswers]) -> None:
        for query, rows in answers.items():
            address = self._address(query)
            done = self._begun.pop(query, None)
            if done is None:
                now, known = TableBatch(batch, self._lineage), self._known.get(query)
                done = self._delta.append(address, rows.table(), self.stream, now, known)
            self._known[query] = batch
            self._tables[query] = {"version": done.version, "files": _files(address, done.version)}

    def state(self) -> dict[str, Any]:
        return {"batch": self._batch, "tables": self._tables}

    def _address(self, query: str) -> str:
        return f"{self.path}/{query}"


def _files(address: str, version: int) -> list[StoredFile]:
    """The files that a version added, where a look at them costs little."""
    if "://" in address:
        return []
    root = Path(address)
    return [stored for path in delta.files_of(root, version) if (stored := _stored(root, path))]


def _stored(root: Path, path: Path) -> StoredFile | None:
    if not path.exists():
        return None
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return StoredFile(str(path.relative_to(root)), path.stat().st_size, digest)
