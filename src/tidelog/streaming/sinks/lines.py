"""`jsonl:FILE`: one file of JSON lines on this machine, exactly once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tidelog.causes import Cause, cause_of
from tidelog.data.durable import HERE, Machine
from tidelog.data.sealed import sealed, unsealed
from tidelog.data.secrets import without_secrets
from tidelog.data.writers import json_lines
from tidelog.errors import DataError, Refused
from tidelog.streaming.sinks import Target
from tidelog.streaming.sinks.growing import GrowingFile
from tidelog.streaming.sinks.sink import BatchAnswers, Sink


def sink(target: Target) -> Sink:
    if "://" in target.path:
        raise DataError(
            f"`{without_secrets(f'{target.kind}:{target.path}')}`: jsonl is one file on the"
            " driver's machine; json:DIR goes to any store"
        )
    return LinesSink(target.path)


class LinesSink(Sink):
    """A file that grows; what comes after the last commit is cut off.

    A hidden file beside it says which stream writes it. A stream without a commit, killed in its
    first batch or restored from a copy, knows by that whose lines they are.
    """

    def __init__(self, path: str, machine: Machine = HERE) -> None:
        self.path, self._machine = os.path.abspath(path), machine
        self.name = f"jsonl:{self.path}"
        folder, name = os.path.split(self.path)
        self._mark = os.path.join(folder, f".{name}.tidelog.json")
        self._lines = GrowingFile(self.path, machine=machine)

    def check(self, stream: str, *, fresh: bool) -> None:
        if self._machine.is_folder(self.path):
            raise Refused(
                f"{self.path} is a folder, and JSON lines go to a file: name a file",
                code=Cause.SINK_TAKEN,
            )
        filled = self._machine.exists(self.path) and self._machine.size(self.path) > 0
        if fresh and filled and not (stream and self._marked() == stream):
            raise Refused(
                f"{self.path} is there already and not empty: name a new file, or the checkpoint"
                " that it was written with",
                code=Cause.SINK_TAKEN,
            )

    def _marked(self) -> str | None:
        """The stream that began to write the file and has not committed a batch yet."""
        if not self._machine.exists(self._mark):
            return None
        stream: str = unsealed(self._machine.read(self._mark), self._mark)["stream"]
        return stream

    def verify(self, state: Mapping[str, Any]) -> None:
        self._lines.verify(state)

    def prepare(self, queries: Sequence[str], *, fresh: bool) -> None:
        try:
            self._lines.open()
        except OSError as error:
            said = error.strerror or error
            raise DataError(
                f"{self.path} cannot be written: {said}; name another place", code=cause_of(error)
            ) from None

    def mark(self, stream: str) -> None:
        # One that is there need not be on the disk: who wrote it may have been killed.
        if not self._machine.size(self.path) or self._machine.exists(self._mark):
            self._machine.replace_file(sealed({"stream": stream}), self._mark)

    def write(self, batch: int, answers: Mapping[str, BatchAnswers]) -> None:
        for query, rows in answers.items():
            self._lines.add(json_lines(query, rows.table()))

    def state(self) -> dict[str, Any]:
        return self._lines.state()

    def discard(self, batch: int, queries: Sequence[str], state: Mapping[str, Any]) -> None:
        self._lines.cut(state)

    def close(self) -> None:
        self._lines.close()
