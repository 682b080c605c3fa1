"""Snapshots: the state of a stream in one file of plain data, written all or nothing.

Two lines of JSON: what the file is, with the checksum of the second line; and the state.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Set
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from tidelog.causes import Cause
from tidelog.data.durable import HERE, Machine
from tidelog.data.sealed import checksum, sealed_lines, unsealed_lines
from tidelog.data.secrets import without_secrets
from tidelog.errors import DataError
from tidelog.language.alignment import changed
from tidelog.language.program import Row

FORMAT = 2
FILE, RUNS = "stream.json", "runs"  # the latest snapshot; the last ones of runs before
KEPT_RUNS = 3
TAIL = 65_536  # bytes of dead letters that are looked at when a stream goes on
State: TypeAlias = dict[str, Any]


class SnapshotError(DataError):
    """A snapshot that is damaged, or of another stream."""


def write(
    path: str | PathLike[str],
    identity: Mapping[str, object],
    state: State,
    machine: Machine = HERE,
) -> None:
    """Replace a snapshot at once: whoever reads it sees the old state or the new one."""
    parts = {key: checksum(json.dumps(value)) for key, value in identity.items()}
    head = {"tidelog": "snapshot", "format": FORMAT, "of": parts}
    machine.replace_file(sealed_lines(head, state).encode(), os.fspath(path))


def read(
    path: str | PathLike[str],
    identity_for: Callable[[State], Mapping[str, object]],
    machine: Machine = HERE,
) -> State:
    """The state in a file, if it is whole and of the same stream, which may look at it first."""
    file = Path(path)
    try:
        head, body = unsealed_lines(machine.read(str(file)).decode("utf-8"))
    except FileNotFoundError:
        raise SnapshotError(f"{file}: there is no snapshot", code=Cause.DAMAGED) from None
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise SnapshotError(f"{file}: not a snapshot, or damaged", code=Cause.DAMAGED) from None
    if not (isinstance(head, dict) and head.get("tidelog") == "snapshot"):
        raise SnapshotError(f"{file}: not a snapshot", code=Cause.DAMAGED)
    if head.get("format") != FORMAT:
        raise SnapshotError(
            f"{file}: a snapshot of format {head.get('format')}, not {FORMAT}",
            code=Cause.OTHER_FORMAT,
        )
    if body is None:
        raise SnapshotError(
            f"{file}: the snapshot is damaged: its checksum does not match", code=Cause.DAMAGED
        )
    said = head.get("of")
    parts = said if isinstance(said, dict) else {}
    state: State = json.loads(body)
    identity = identity_for(state)
    now = {key: checksum(json.dumps(value)) for key, value in identity.items()}
    for key in {**identity, **parts}:
        if parts.get(key) != now.get(key):
            was = state.get("rules") if key == "rules" else None
            told = "" if was is None else f": {changed(was, str(identity['rules']))}"
            raise SnapshotError(
                f"{file}: the snapshot is of a stream with other {key}{told}; start again without"
                f" it, or with the {key} it was taken with",
                code=Cause.OTHER_STREAM,
            )
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

    def __init__(self, path: str | PathLike[str], machine: Machine = HERE) -> None:
        self.folder, self._machine = Path(path), machine
        if "://" in str(path):
            raise SnapshotError(
                f"{without_secrets(str(path))}: in process a checkpoint is a folder on this"
                " machine",
                code=Cause.WRONG_STORE,
            )
        if machine.exists(str(path)) and not machine.is_folder(str(path)):
            raise SnapshotError(f"{path}: a checkpoint is a folder", code=Cause.NO_CHECKPOINT)
        if machine.exists(str(self.folder / "commits")):
            raise SnapshotError(
                f"{path}: a checkpoint of Spark, not of a stream in process",
                code=Cause.NO_CHECKPOINT,
            )
        self.file = self.folder / FILE
        try:
            machine.make_private_folder(os.path.abspath(self.folder))
            self.lock = machine.lock(str(self.folder / "lock"))
        except OSError as error:
            said = error.strerror or error
            raise SnapshotError(
                f"{path} cannot be a checkpoint: {said}; name another folder",
                code=Cause.NO_CHECKPOINT,
            ) from None
        if self.lock is None:
            raise SnapshotError(
                f"{path}: another process is at work on this checkpoint", code=Cause.IN_USE
            )
        self._last = machine.now()

    def release(self) -> None:
        """Let others use the folder."""
        if self.lock is not None:
            self.lock.release()

    @property
    def begun(self) -> bool:
        return self._machine.exists(str(self.file))

    @property
    def due(self) -> bool:
        return self._machine.now() - self._last >= self.OFTEN

    def put_aside(self, letters: Iterable[bytes], after: int, part: str = "part-00000") -> int:
        """Write dead letters after so many bytes of them; how many bytes there are then."""
        folder = self.folder / "dead_letters"
        self._machine.make_folders(os.path.abspath(folder))
        path = self._letters(part)
        with self._machine.open(path, "r+b" if self._machine.exists(path) else "wb") as file:
            file.truncate(after)
            file.seek(after)
            file.writelines(letters)
            return file.tell()

    def letters(self, sizes: Mapping[str, int]) -> list[list[Any]]:
        """Name, size and digest of dead letters, once they are on the disk."""
        folder = str(self.folder / "dead_letters")
        if self._machine.exists(folder):
            self._machine.sync_tree(folder)
        return [
            [part, size, _digest(self._letters(part), size, self._machine)]
            for part, size in sizes.items()
            if size
        ]

    def expect(self, letters: Iterable[Iterable[Any]]) -> None:
        """Refused if dead letters of the last snapshot were lost, or are other ones."""
        expect_letters(self.folder, letters, self._machine)

    def keep_run(self, number: int) -> None:
        """Keep the last snapshot of a run before another one begins, so that it can go back."""
        machine, folder = self._machine, str(self.folder / RUNS)
        machine.make_folders(os.path.abspath(folder))
        kept = os.path.join(folder, f"{number}.json")
        machine.replace_file(machine.read(str(self.file)), kept)
        for entry in machine.entries(folder):
            run = entry.name.removesuffix(".json")
            if run.isdecimal() and int(run) <= number - KEPT_RUNS:
                machine.remove(os.path.join(folder, entry.name))

    def _letters(self, part: str) -> str:
        return _letters_of(self.folder, part)

    def taken(self) -> None:
        self._last = self._machine.now()


def expect_letters(folder: Path, letters: Iterable[Iterable[Any]], machine: Machine = HERE) -> None:
    """Refused if dead letters that a snapshot remembers were lost, or are other ones."""
    for part, size, digest in letters:
        path = _letters_of(folder, part)
        if not machine.exists(path):
            what = "missing"
        elif machine.size(path) < size:
            what = "shorter than at the last snapshot"
        elif _digest(path, size, machine) != digest:
            what = "damaged"
        else:
            continue
        raise SnapshotError(
            f"{path} is {what}: restore it from a copy, or start with a new checkpoint",
            code=Cause.DAMAGED,
        )


def _letters_of(folder: Path, part: str) -> str:
    return str(folder / "dead_letters" / f"{part}.json")


def _digest(path: str, size: int, machine: Machine) -> str:
    """Of the last dead letters before a size: all of them may be too much for every second."""
    with machine.open(path, "rb") as file:
        file.seek(max(0, size - TAIL))
        return hashlib.sha256(file.read(min(size, TAIL))).hexdigest()
