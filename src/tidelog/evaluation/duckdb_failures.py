"""Errors of DuckDB's while rules are evaluated, as sentences that users can act on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidelog.causes import Cause
from tidelog.errors import DataError, first_line

# What is said when something would hold at a tick that is none.
TOO_FAR = "a derived time does not fit 62 bits; ask for a narrower range"
NO_MEMORY = "the memory of this machine is not enough for these facts and rules"
# What to do about it, for a query and for a stream.
ASK_LESS = "ask for a shorter range or for fewer queries, or give the process more memory"
BRING_LESS = "bring fewer facts at a time, or give the process more memory"


@contextmanager
def as_data_errors(remedy: str = ASK_LESS, code: Cause | None = None) -> Iterator[None]:
    """What DuckDB raises becomes a DataError; `code` is that of a stream without memory.

    An interrupted query stays what it is: see `tidelog.evaluation.interrupts`.
    """
    try:
        yield
    except MemoryError:
        raise DataError(f"{NO_MEMORY}: {remedy}", code=code) from None
    except Exception as error:
        if type(error).__module__ not in ("duckdb", "_duckdb"):
            raise
        match type(error).__name__:
            case "InterruptException":
                raise
            case "OutOfMemoryException":
                raise DataError(f"{NO_MEMORY}: {remedy}", code=code) from None
            case "OutOfRangeException":
                raise DataError(TOO_FAR) from None
            case _:
                raise DataError(f"DuckDB cannot evaluate the rules: {first_line(error)}") from error
