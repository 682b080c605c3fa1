"""`console`: JSON lines on standard output, at least once."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from tidelog.data.writers import json_lines
from tidelog.streaming.sinks import Target
from tidelog.streaming.sinks.sink import BatchAnswers, Sink


def sink(target: Target) -> Sink:
    return ConsoleSink()


class ConsoleSink(Sink):
    """What is printed is printed."""

    name = "console"
    cannot_resume = "answers on the console cannot be taken back: a checkpoint needs a file"
    reads_back = True

    def write(self, batch: int, answers: Mapping[str, BatchAnswers]) -> None:
        for query, rows in answers.items():
            for line in json_lines(query, rows.table()):
                sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
