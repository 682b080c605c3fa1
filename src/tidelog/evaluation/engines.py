"""The engines by name, and one way to call them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tidelog.evaluation.facts import DataError, FactsLike
from tidelog.evaluation.ticks import Ticks
from tidelog.language.checks import Similar
from tidelog.language.program import TIME_MAX, Program

if TYPE_CHECKING:
    import pyarrow as pa

ENGINES = ("duckdb",)


@dataclass(frozen=True)
class Evaluated:
    """Answers by query, and rows left out for a NULL by input."""

    answers: dict[str, pa.Table]
    nulls: dict[str, int]


def evaluate(
    program: Program,
    queries: Iterable[str],
    facts: FactsLike,
    *,
    from_: int | str | datetime | None = None,
    to: int | str | datetime | None = None,
    engine: str = "duckdb",
    ticks: Ticks | None = None,
    timestamps: bool = True,
    progress: Callable[[str], None] = lambda _: None,
) -> Evaluated:
    """Evaluate some queries over finite facts; with ticks, answers have timestamps if wanted."""
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
        return Evaluated(running.query(queries, low, high), running.nulls)


def as_tick(time: int | str | datetime | None, ticks: Ticks | None) -> int | None:
    """A tick from what a caller gave: a whole number, or a timestamp where ticks have a length."""
    if time is None:
        return None
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
