"""Errors that several layers raise or catch; each says in plain words what is wrong."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable


class DataError(Exception):
    """The data is wrong; every problem found is one line that says where and what."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class Refused(DataError):
    """A stream that cannot go on from what it finds; nothing was touched."""


class NoSpark(DataError):
    """Spark was asked for, and is not installed."""

    def __init__(self, missing: str | None, otherwise: str) -> None:
        super().__init__(
            f"Spark is not installed ({missing} is missing): pip install 'tidelog[spark]' brings"
            f" it; or {otherwise}"
        )


class NoAnswer(Exception):
    """A question about a query that has no meaning, or no answer here; the text says why."""


class TidelogWarning(UserWarning):
    """What may not be as it was meant: answers are right, but perhaps not those of all the data."""


def warn(message: str, kind: type[TidelogWarning] = TidelogWarning) -> None:
    """Warn at the line of the user's that led here; the command line prints the message alone."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("tidelog"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, kind, stacklevel=level + 1)


def warn_missing(name: str, queries: Iterable[str]) -> None:
    """Warn of an input that some queries need, and for which nothing was given."""
    warn(f"no facts for input `{name}`, which {need(queries)}")


# So many names are told at once.
_TOLD = 5


def need(names: Iterable[str]) -> str:
    """Who needs something.

    >>> need(["P"]), need(["P", "Q", "R"])
    ('P needs', 'P, Q and R need')
    >>> need("ABCDEFGH")
    'A, B, C, D, E and 3 more need'
    """
    told = list(names)
    if len(told) > _TOLD:
        told[_TOLD:] = [f"{len(told) - _TOLD} more"]
    *others, last = told
    return f"{', '.join(others)} and {last} need" if others else f"{last} needs"


def warn_left_out(name: str, rows: int) -> None:
    """Warn of rows that are no facts."""
    several = "1 row" if rows == 1 else f"{rows} rows"
    warn(f"{several} of {name} left out: NULL or NaN in a column")


def first_line(error: object) -> str:
    """What a library's error says, without the details that follow on further lines."""
    return str(error).split("\n", 1)[0]
