"""The engines by name, and one way to call them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from tidelog.data.ticks import Ticks
from tidelog.errors import DataError
from tidelog.evaluation.plan import Unbounded
from tidelog.language.checks import Similar
from tidelog.language.program import TIME_MAX, Program

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.data.readers.places import FactsLike

ENGINES = ("duckdb",)

Moment: TypeAlias = int | float | str | datetime


@dataclass(frozen=True)
class Evaluated:
    """Answers by query, rows left out for a NULL by input, and why bulk evaluation would not do.

    Answers without end have a column `period`: they hold at `time` and every period further on.
    """

    answers: dict[str, pa.Table]
    nulls: dict[str, int]
    timeline: str | None = None


def evaluate(
    program: Program,
    queries: Iterable[str],
    facts: FactsLike,
    *,
    from_: Moment | None = None,
    to: Moment | None = None,
    engine: str = "duckdb",
    ticks: Ticks | None = None,
    timestamps: bool = True,
    budget: float = 60.0,
    progress: Callable[[str], None] = lambda _: None,
) -> Evaluated:
    """Evaluate some queries over finite facts; with ticks, answers have timestamps if wanted.

    Times left out are those of the data; they may be infinite. What bulk evaluation cannot answer
    exactly goes to the timeline, within a budget of seconds.
    """
    if engine not in ENGINES:
        raise ValueError(f"no engine is called {engine!r}; there are {', '.join(ENGINES)}")
    from tidelog.evaluation.duckdb import Engine

    queries = tuple(queries)
    known = [*program.heads, *program.inputs]
    for query in queries:
        if query not in known:
            near = Similar(known).to(query)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(known[:10])}"
            raise ValueError(f"no predicate {query} in the rules; {hint}")
    low, high = as_tick(from_, ticks), as_tick(to, ticks)
    with Engine(program, facts, ticks, timestamps, progress) as running:
        if isinstance(low, float) or isinstance(high, float):
            reason = "the range has no end"
        else:
            try:
                return Evaluated(running.query(queries, low, high), running.nulls)
            except Unbounded as error:
                reason = str(error)
        from tidelog.evaluation.timeline import answers

        found = answers(running, queries, low, high, budget)
        return Evaluated(found, running.nulls, reason)


def as_tick(time: Moment | None, ticks: Ticks | None) -> int | float | None:
    """A tick from what a caller gave: a whole number, or a timestamp where ticks have a length.

    Infinite times come as floats, `inf` and `-inf`.
    """
    if time is None:
        return None
    if isinstance(time, str) and time.strip().lower().lstrip("+-") == "inf":
        time = float(time)
    if isinstance(time, float):
        if not math.isinf(time):
            raise ValueError(f"{time} is not a whole number of ticks")
        return time
    if isinstance(time, str):
        try:
            time = int(time)
        except ValueError:
            if ticks is None:
                raise ValueError(
                    f"`{time}` is not a whole number of ticks; timestamps need a tick length"
                ) from None
    if not isinstance(time, int):
        if ticks is None:
            raise ValueError(f"{time!r} is a timestamp; timestamps need a tick length")
        time = ticks.tick(time)
    if not -TIME_MAX <= time <= TIME_MAX:
        raise ValueError(f"time {time} does not fit 62 bits")
    return time


__all__ = ["ENGINES", "DataError", "Evaluated", "as_tick", "evaluate"]
