"""Errors that several layers raise or catch; each says in plain words what is wrong."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence

from tidelog.causes import Cause, Exit


class DataError(Exception):
    """The data is wrong; every problem found is one line that says where and what.

    A `code` is given where it stops a stream.
    """

    def __init__(self, *problems: str, code: Cause | None = None) -> None:
        self.problems, self.code = problems, code
        super().__init__("\n".join(problems))

    @property
    def exit(self) -> Exit:
        """The exit code of a command that ends with this error."""
        return Exit.FAULT if self.code is None else self.code.exit


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


class NoFacts(TidelogWarning):
    """An input that queries need has no facts."""

    def __init__(self, message: str, name: str) -> None:
        self.message, self.input = message, name
        super().__init__(message, name)  # so that it can be pickled

    def __str__(self) -> str:
        return self.message


def warn(message: str | TidelogWarning, kind: type[TidelogWarning] = TidelogWarning) -> None:
    """Warn at the line of the user's that led here; the command line prints the message alone."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("tidelog"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, kind, stacklevel=level + 1)


def warn_missing(name: str, queries: Iterable[str], empty: Sequence[str] = ()) -> None:
    """Warn of an input that some queries need and that has no facts; `empty` are its files."""
    why = ""
    if empty:
        why = f": {listed(empty)} {'has' if len(empty) == 1 else 'have'} no rows"
    warn(NoFacts(f"no facts for input `{name}`, which {need(queries)}{why}", name))


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
    return f"{listed(told)} {'needs' if len(told) == 1 else 'need'}"


def listed(names: Iterable[str]) -> str:
    """Some names, not too many of them.

    >>> listed(["P"]), listed(["P", "Q", "R"])
    ('P', 'P, Q and R')
    """
    told = list(names)
    if len(told) > _TOLD:
        told[_TOLD:] = [f"{len(told) - _TOLD} more"]
    *others, last = told
    return f"{', '.join(others)} and {last}" if others else last


def warn_left_out(name: str, rows: int, columns: Iterable[str]) -> None:
    """Warn of rows that are no facts, for a missing value in one of some columns."""
    several = "1 row" if rows == 1 else f"{rows} rows"
    warn(f"{several} of {name} left out: {missing_text(columns)}")


def missing_text(columns: Iterable[str]) -> str:
    """Why rows with missing values are no facts.

    >>> missing_text(["x"]), missing_text([])
    ('NULL or NaN in column `x`', 'NULL or NaN in a column')
    """
    named = [f"`{column}`" for column in columns]
    where = f"column{'' if len(named) == 1 else 's'} {listed(named)}" if named else "a column"
    return f"NULL or NaN in {where}"


def first_line(error: object) -> str:
    """What a library's error says, without the details that follow on further lines."""
    return str(error).split("\n", 1)[0]
