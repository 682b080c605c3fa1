"""A function of users' own that hears of every batch, and `memory`; both at least once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

import pyarrow as pa

from tidelog.errors import DataError
from tidelog.streaming.sinks import Target
from tidelog.streaming.sinks.sink import BatchAnswers, Sink

LINEAGE = "lineage"  # the parameter of functions that is given it
AGAIN = "what a function was told cannot be taken back"


def sink(target: Target) -> Sink:
    return MemorySink()


class FunctionSink(Sink):
    """Calls a function with the number of a batch and a DataFrame of answers for each query.

    A function for Spark's own `foreachBatch` has a DataFrame first, and takes one query. One with a
    parameter called `lineage` hears that, too: after going back to an older copy of the checkpoint,
    another batch may have the same number, and never the same lineage.
    """

    name = "function"
    cannot_resume = AGAIN
    reads_back = True
    takes_empty = True

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function
        self.frame_first = takes_frame_first(function)
        self._takes_lineage = LINEAGE in _parameters(function)
        self._more: dict[str, str] = {}

    def prepare(self, queries: Sequence[str], *, fresh: bool) -> None:
        if self.frame_first and len(queries) > 1:
            raise DataError(
                f"a function of a DataFrame and a batch takes the answers of one query, and there"
                f" are {len(queries)}: {', '.join(queries)}; ask for one of them, or write"
                " `def sink(batch, answers)`, where `answers` has a DataFrame for each"
            )

    def begin(self, batch: int, lineage: str) -> None:
        self._more = {LINEAGE: lineage} if self._takes_lineage else {}

    def write(self, batch: int, answers: Mapping[str, BatchAnswers]) -> None:
        frames = {query: rows.frame() for query, rows in answers.items()}
        if self.frame_first:
            (frame,) = frames.values()
            self.function(frame, batch, **self._more)
        else:
            self.function(batch, frames, **self._more)


# What the parameters of functions for `foreachBatch` are called: a DataFrame, and its batch.
_FRAMES = re.compile(r"_*(?:.*_)?(?:df|frame|dataframe|rows)|.*(?:DF|Df|DataFrame|Frame)")
_BATCHES = re.compile(r"_*(?:batch|epoch)_?(?:id)?|_*(?:batch|epoch)Id")


def takes_frame_first(function: Callable[..., object]) -> bool:
    """Whether a function has the order of `foreachBatch`, by its annotations or its names.

    >>> def save(df, batch_id): ...
    >>> takes_frame_first(save), takes_frame_first(lambda batch, answers: None)
    (True, False)
    """
    parameters = list(_parameters(function).values())[:2]
    if len(parameters) < 2:
        return False
    first, second = parameters
    hint = getattr(first.annotation, "__name__", str(first.annotation)).strip("'\"")
    if hint.endswith("DataFrame"):
        return True
    is_batch = _BATCHES.fullmatch(first.name) is not None or hint == "int"
    named = _FRAMES.fullmatch(first.name) or _BATCHES.fullmatch(second.name)
    return not is_batch and named is not None


def _parameters(function: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    """What a function takes; nothing is known of one that is not written in Python."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


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
