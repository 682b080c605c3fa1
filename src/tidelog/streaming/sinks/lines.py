"""`jsonl:FILE`: one file of JSON lines on this machine, exactly once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tidelog.data.secrets import without_secrets
from tidelog.data.writers import json_lines
from tidelog.errors import DataError, Refused
from tidelog.streaming.sinks import Target
from tidelog.streaming.sinks.sink import BatchAnswers, Sink


def sink(target: Target) -> Sink:
    if "://" in target.path:
        raise DataError(
            f"`{without_secrets(f'{target.kind}:{target.path}')}`: jsonl is one file on the"
            " driver's machine; json:DIR goes to any store"
        )
    return LinesSink(target.path)


class LinesSink(Sink):
    """A file that grows; its state is its length, and what comes after it is cut off."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.name = f"jsonl:{self.path}"
        self._file: IO[bytes] | None = None

    def check(self, stream: str, *, fresh: bool) -> None:
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

    def prepare(self, queries: Sequence[str], *, fresh: bool) -> None:
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            path = Path(self.path)
            self._file = path.open("ab")
        except OSError as error:
            said = error.strerror or error
            raise DataError(f"{self.path} cannot be written: {said}; name another place") from None

    @property
    def file(self) -> IO[bytes]:
        """The file, once room was made for it."""
        assert self._file is not None
        return self._file

    def write(self, batch: int, answers: Mapping[str, BatchAnswers]) -> None:
        for query, rows in answers.items():
            self.file.writelines(f"{line}\n".encode() for line in json_lines(query, rows.table()))
        self.file.flush()

    def state(self) -> dict[str, Any]:
        os.fsync(self.file.fileno())
        return {"bytes": os.fstat(self.file.fileno()).st_size}

    def discard(self, batch: int, queries: Sequence[str], state: Mapping[str, Any]) -> None:
        # Streams in process had the length under the file's name once.
        size = int(state.get("bytes", state.get(os.path.basename(self.path), 0)))
        there = os.path.getsize(self.path) if os.path.exists(self.path) else 0
        if there < size:
            raise Refused(
                f"{self.path} is shorter than at the last commit: restore it, or start with a new"
                " checkpoint and a new file"
            )
        if there > size:
            os.truncate(self.path, size)

    def close(self) -> None:
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None
