"""A function of users' own that hears of every batch, and `memory`; both at least once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import pyarrow as pa

from tidelog.streaming.sinks import Target
from tidelog.streaming.sinks.sink import BatchAnswers, Sink

AGAIN = "what a function was told cannot be taken back"


def sink(target: Target) -> Sink:
    return MemorySink()


class FunctionSink(Sink):
    """Calls a function with the number of a batch and a DataFrame of answers for each query."""

    name = "function"
    cannot_resume = AGAIN
    reads_back = True

    def __init__(self, function: Callable[[int, Mapping[str, Any]], None]) -> None:
        self.function = function

    def write(self, batch: int, answers: Mapping[str, BatchAnswers]) -> None:
        if answers:
            self.function(batch, {query: rows.frame() for query, rows in answers.items()})


def theirs(trace: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that is in a user's function, which Spark and we have called."""
    while trace is not None and trace.tb_frame.f_code is not FunctionSink.write.__code__:
        trace = trace.tb_next
    return None if trace is None else trace.tb_next


class MemorySink(Sink):
    """Answers gathered in this process, by query and batch."""

    name = "memory"
    cannot_resume = AGAIN
    reads_back = True

    def __init__(self) -> None:
        self.batches: dict[str, dict[int, pa.Table]] = {}

    def write(self, batch: int, answers: Mapping[str, BatchAnswers]) -> None:
        for query, rows in answers.items():
            self.batches.setdefault(query, {})[batch] = rows.table()

    def table(self, query: str) -> pa.Table | None:
        parts = self.batches.get(query)
        if not parts:
            return None
        # Of tables that Spark made, some columns may say that nothing is missing in them.
        ordered = [parts[number] for number in sorted(parts)]
        return pa.concat_tables(ordered, promote_options="default")
