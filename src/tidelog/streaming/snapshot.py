"""Snapshots: the state of a stream in one file of plain data, written all or nothing.

Two lines of JSON: what the file is, with the checksum of the second line; and the state.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Set
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from tidelog.data.locks import take_lock
from tidelog.data.sealed import checksum, replace_file, sealed_lines, unsealed_lines
from tidelog.data.secrets import without_secrets
from tidelog.errors import DataError
from tidelog.language.printer import changed
from tidelog.language.program import Row

FORMAT = 1
State: TypeAlias = dict[str, Any]


class SnapshotError(DataError):
    """A snapshot that is damaged, or of another stream."""


def write(path: str | PathLike[str], identity: Mapping[str, object], state: State) -> None:
    """Replace a snapshot at once: whoever reads it sees the old state or the new one."""
    parts = {key: checksum(json.dumps(value)) for key, value in identity.items()}
    head = {"tidelog": "snapshot", "format": FORMAT, "of": parts}
    replace_file(Path(path), sealed_lines(head, state))


def read(path: str | PathLike[str], identity: Mapping[str, object]) -> State:
    """The state in a file, if it is whole and of the same stream."""
    file = Path(path)
    try:
        head, body = unsealed_lines(file.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        raise SnapshotError(f"{file}: there is no snapshot") from None
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise SnapshotError(f"{file}: not a snapshot, or damaged") from None
    if not (isinstance(head, dict) and head.get("tidelog") == "snapshot"):
        raise SnapshotError(f"{file}: not a snapshot")
    if head.get("format") != FORMAT:
        raise SnapshotError(f"{file}: a snapshot of format {head.get('format')}, not {FORMAT}")
    if body is None:
        raise SnapshotError(f"{file}: the snapshot is damaged: its checksum does not match")
    said = head.get("of")
    parts = said if isinstance(said, dict) else {}
    now = {key: checksum(json.dumps(value)) for key, value in identity.items()}
    for key in {**identity, **parts}:
        if parts.get(key) != now.get(key):
            was = json.loads(body).get("rules") if key == "rules" else None
            told = "" if was is None else f": {changed(was, str(identity['rules']))}"
            raise SnapshotError(
                f"{file}: the snapshot is of a stream with other {key}{told}; start again without"
                f" it, or with the {key} it was taken with"
            )
    state: State = json.loads(body)
    return state


# Facts as JSON and back


def plain(rows: Iterable[Row]) -> list[list[Any]]:
    return [list(row) for row in sorted(rows)]


def as_rows(rows: Iterable[list[Any]]) -> set[Row]:
    return {tuple(row) for row in rows}


def plain_facts(facts: Mapping[str, Mapping[int, Iterable[Row]]]) -> dict[str, Any]:
    return {
        name: [[time, plain(rows)] for time, rows in sorted(times.items())]
        for name, times in facts.items()
        if times
    }


def as_facts(facts: Mapping[str, Any]) -> dict[str, dict[int, Set[Row]]]:
    return {name: {time: as_rows(rows) for time, rows in times} for name, times in facts.items()}


def plain_table(table: pa.Table) -> dict[str, Any]:
    return {
        "columns": [[f.name, str(f.type)] for f in table.schema],
        "values": [column.to_pylist() for column in table.columns],
    }


def as_table(plain: Mapping[str, Any]) -> pa.Table:
    names = [name for name, _ in plain["columns"]]
    arrays = [
        pa.array(values, pa.type_for_alias(type_))
        for values, (_, type_) in zip(plain["values"], plain["columns"], strict=True)
    ]
    return pa.table(arrays, names=names)


# Checkpoints: a snapshot in a folder of its own, for one process at a time


class CheckpointFolder:
    """A folder with the latest snapshot of a stream and what its run had read and written."""

    # Seconds between two snapshots, so that they do not hold up the stream.
    OFTEN = 1.0

    def __init__(self, path: str | PathLike[str]) -> None:
        self.folder = Path(path)
        if "://" in str(path):
            raise SnapshotError(
                f"{without_secrets(str(path))}: in process a checkpoint is a folder on this machine"
            )
        if self.folder.exists() and not self.folder.is_dir():
            raise SnapshotError(f"{path}: a checkpoint is a folder")
        if (self.folder / "commits").exists():
            raise SnapshotError(f"{path}: a checkpoint of Spark, not of a stream in process")
        self.file = self.folder / "stream.json"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.lock = take_lock(self.folder / "lock")
        except OSError as error:
            said = error.strerror or error
            raise SnapshotError(
                f"{path} cannot be a checkpoint: {said}; name another folder"
            ) from None
        if self.lock is None:
            raise SnapshotError(f"{path}: another process is at work on this checkpoint")
        self._last = time.monotonic()

    def release(self) -> None:
        """Let others use the folder."""
        if self.lock is not None:
            self.lock.release()

    @property
    def begun(self) -> bool:
        return self.file.exists()

    @property
    def due(self) -> bool:
        return time.monotonic() - self._last >= self.OFTEN

    def put_aside(self, letters: Iterable[bytes], after: int, part: str = "part-00000") -> int:
        """Write dead letters after so many bytes of them; how many bytes there are then."""
        folder = self.folder / "dead_letters"
        folder.mkdir(exist_ok=True)
        path = folder / f"{part}.json"
        with path.open("r+b" if path.exists() else "wb") as file:
            file.truncate(after)
            file.seek(after)
            file.writelines(letters)
            return file.tell()

    def taken(self) -> None:
        self._last = time.monotonic()
