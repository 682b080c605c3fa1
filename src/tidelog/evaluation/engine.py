"""What an engine must do, the engines by name, and one way to ask them.

An engine is met on two levels. `SqlEngine` is what the steps of a plan need: tables made from SQL,
counted and handed out; a DuckDB connection and Spark's Catalyst are such. `QueryEngine` answers
whole queries over finite facts; `evaluate` chooses one by its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from tidelog.data.schema import expect_program, expect_queries
from tidelog.data.ticks import ADD_TICK, Ticks
from tidelog.errors import NoSpark
from tidelog.language.program import TIME_MAX, Program

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.data.readers.places import FactsLike

_LENGTH = f"timestamps need a tick length: {ADD_TICK}"
Moment: TypeAlias = int | float | str | datetime


class Feature(Enum):
    """What a plan may ask for and not every engine has."""

    RECURSION = "recursion"
    AGGREGATES = "aggregates"


class SqlEngine(Protocol):
    """Runs the SQL of a plan."""

    @property
    def limits(self) -> Mapping[Feature, str]:
        """What it cannot do, each with the reason that a user reads."""

    def table(self, name: str, select: str) -> None:
        """Make a table, in place of an earlier one of this name."""

    def view(self, name: str, select: str) -> None:
        """Make a view, in place of an earlier one of this name."""

    def offer_texts(self, texts: Mapping[str, int]) -> None:
        """Make the table of the texts that cannot stand in SQL (see `sql.TEXTS`)."""

    def rows_of(self, table: str) -> int:
        """How many rows a table has."""

    def all(self, select: str) -> list[tuple[Any, ...]]:
        """The rows of a select, in this process."""

    def arrow(self, select: str) -> pa.Table:
        """The rows of a select, in this process."""


@dataclass(frozen=True)
class Question:
    """Some queries over finite facts, with times in ticks; None is the first or last of the data.

    With ticks, answers have timestamps if wanted. The timeline has a budget of seconds. With
    `intervals`, answers are given from when to when.
    """

    program: Program
    queries: tuple[str, ...]
    facts: FactsLike
    low: int | float | None
    high: int | float | None
    ticks: Ticks | None
    timestamps: bool
    budget: float
    progress: Callable[[str], None]
    intervals: bool = False


@dataclass(frozen=True)
class Evaluated:
    """Answers by query, rows left out for a NULL by input, and why bulk evaluation would not do.

    Answers without end have a column `period`: they hold at `time` and every period further on.
    """

    answers: dict[str, pa.Table]
    nulls: dict[str, int]
    timeline: str | None = None


class QueryEngine(Protocol):
    """Answers queries over finite facts."""

    def __call__(self, question: Question) -> Evaluated: ...


def _duckdb() -> QueryEngine:
    from tidelog.evaluation.duckdb import answers

    return answers


def _spark() -> QueryEngine:
    try:
        from tidelog.evaluation.spark.query import answers
    except ImportError as error:
        raise NoSpark(error.name, "use the engine duckdb") from None
    return answers


# By name; an engine is imported when it is asked for.
ENGINES: dict[str, Callable[[], QueryEngine]] = {"duckdb": _duckdb, "spark": _spark}


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
    intervals: bool = False,
) -> Evaluated:
    """Evaluate some queries over finite facts; with ticks, answers have timestamps if wanted.

    Times left out are those of the data; they may be infinite. What bulk evaluation cannot answer
    exactly goes to the timeline, within a budget of seconds. With `intervals`, answers are
    given from when to when, instead of a row for every tick.
    """
    if engine not in ENGINES:
        raise ValueError(f"no engine is called {engine!r}; there are {', '.join(ENGINES)}")
    expect_program(program)
    queries = expect_queries(program, queries)
    low, high = as_tick(from_, ticks), as_tick(to, ticks)
    how = (ticks, timestamps, budget, progress, intervals)
    question = Question(program, queries, facts, low, high, *how)
    return ENGINES[engine]()(question)


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
                raise ValueError(f"`{time}` is not a whole number of ticks; {_LENGTH}") from None
    if not isinstance(time, int):
        if ticks is None:
            raise ValueError(f"{time!r} is a timestamp; {_LENGTH}")
        time = ticks.tick(time)
    if not -TIME_MAX <= time <= TIME_MAX:
        raise ValueError(f"time {time} does not fit 62 bits")
    return time
