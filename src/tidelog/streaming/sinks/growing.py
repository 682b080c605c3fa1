"""Files on this machine that answers are added to, a batch at a time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from typing import IO, Any

from tidelog.causes import Cause
from tidelog.data.durable import HERE, Machine
from tidelog.errors import Refused

_RESTORE = "restore it from a copy, or start with a new checkpoint and a new"


class GrowingFile:
    """A file that grows; a commit remembers its length, and what comes after it is cut off.

    It remembers the digest of its last lines, too: a file of the same length may be another one.
    """

    def __init__(self, path: str, place: str = "file", machine: Machine = HERE) -> None:
        self.path, self._place, self._machine = path, place, machine
        self.end = 0  # bytes that this stream has written
        self._file: IO[bytes] | None = None
        self._last = 0, hashlib.sha256().hexdigest()  # the last lines of a commit
        self._begin, self._digest = 0, hashlib.sha256()  # the lines since then

    def open(self) -> None:
        """Make room for lines; OSError if there is none."""
        self._machine.make_folders(os.path.dirname(self.path))
        self._file = self._machine.open(self.path, "ab")
        self._machine.sync_folder(os.path.dirname(self.path))

    @property
    def file(self) -> IO[bytes]:
        """The file, once room was made for it."""
        assert self._file is not None
        return self._file

    def add(self, lines: Iterable[str]) -> None:
        if self._machine.length(self.file) not in (None, self.end):
            raise Refused(
                f"{self.path} is written by another process: one stream at a time may write a file",
                code=Cause.SINK_SHARED,
            )
        for line in lines:
            data = f"{line}\n".encode()
            self._digest.update(data)
            self.end += self.file.write(data)
        self.file.flush()

    def state(self) -> dict[str, Any]:
        """What a commit remembers; the lines are on the disk."""
        self._machine.sync(self.file)
        if self.end > self._begin:
            self._last = self._begin, self._digest.hexdigest()
            self._begin, self._digest = self.end, hashlib.sha256()
        begin, digest = self._last
        return {"bytes": self.end, "begin": begin, "sha256": digest}

    def verify(self, state: Mapping[str, Any]) -> None:
        """Refused if the file lacks what a commit remembers."""
        begin, end, restore = int(state["begin"]), int(state["bytes"]), f"{_RESTORE} {self._place}"
        if not self._machine.exists(self.path):
            raise Refused(f"{self.path} is missing: {restore}", code=Cause.SINK_LOST)
        if self._machine.size(self.path) < end:
            raise Refused(
                f"{self.path} is shorter than at the last commit: {restore}", code=Cause.SINK_LOST
            )
        if self._digest_of(begin, end) != state["sha256"]:
            raise Refused(
                f"{self.path} has other lines than at the last commit, after byte {begin}:"
                f" {restore}",
                code=Cause.SINK_LOST,
            )

    def cut(self, state: Mapping[str, Any]) -> None:
        """Cut off what came after a commit; before the first one, everything."""
        self.end = self._begin = int(state.get("bytes", 0))
        self._digest = hashlib.sha256()
        if state:
            self._last = int(state["begin"]), str(state["sha256"])
        if (self._machine.length(self.file) or 0) > self.end:
            self._machine.cut(self.path, self.end)
            self._machine.sync(self.file)

    def close(self) -> None:
        if self._file is not None:
            self._machine.sync(self._file)
            self._file.close()
            self._file = None

    def _digest_of(self, begin: int, end: int) -> str:
        """The digest of some of its bytes."""
        with self._machine.open(self.path, "rb") as file:
            file.seek(begin)
            digest, rest = hashlib.sha256(), end - begin
            while rest > 0 and (data := file.read(min(rest, 1 << 20))):
                digest.update(data)
                rest -= len(data)
        return digest.hexdigest()
