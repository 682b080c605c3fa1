"""`delta:DIR`: a Delta table for each query, exactly once.

The stream is the writer and the number of a batch its transaction (what Delta's own writer for
Spark calls txnAppId and txnVersion): a batch that is done again is found in the table and left out.
Others may add to the table, too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from tidelog.data import delta
from tidelog.data.secrets import without_secrets
from tidelog.errors import Refused
from tidelog.streaming.sinks import Target
from tidelog.streaming.sinks.sink import BatchAnswers, Sink


def sink(target: Target) -> Sink:
    return DeltaSink(target.path)


class DeltaSink(Sink):
    """Answers are gathered in the driver, and added to a table in one transaction a batch."""

    takes_back = False

    def __init__(self, path: str) -> None:
        self.path = path if "://" in path else os.path.abspath(path)
        self.name = f"{delta.SCHEME}{without_secrets(self.path)}"
        self.stream = ""

    def check(self, stream: str, *, fresh: bool) -> None:
        delta.opened(f"{self.path}/none")  # the package is there
        if os.path.isfile(self.path):
            raise Refused(f"{self.path} is a file, and Delta tables go to a folder: name another")

    def mark(self, stream: str) -> None:
        self.stream = stream

    def write(self, batch: int, answers: Mapping[str, BatchAnswers]) -> None:
        for query, rows in answers.items():
            delta.append(f"{self.path}/{query}", rows.table(), f"tidelog-{self.stream}", batch)
