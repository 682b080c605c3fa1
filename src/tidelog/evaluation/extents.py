"""Bounds on the rows that recursion writes out, checked before memory is spent.

A fact that holds until something stops it takes one row for every 60 ticks. One fact and one tick
far ahead would take all the memory there is.
"""

from __future__ import annotations

from tidelog.data.packed import CHUNK
from tidelog.errors import DataError
from tidelog.evaluation.plan import Fill
from tidelog.evaluation.sql import Writer

# Ticks that one fact may be written out on.
MOST_TICKS = 1_000_000_000
# Rows, of 60 ticks each, that all facts of a predicate may be written out on.
MOST_ROWS = 50_000_000


class TooLong(DataError):
    """Something would hold at more ticks than can be written out."""


def check_extent(writer: Writer, fill: Fill, ticks: int, in_all: int, shorter: str) -> None:
    """Refuse a fill that takes too many ticks, for one fact or for all facts of a predicate."""
    name = writer.plan.deps.core.predicates[fill.predicate].base
    where = fill.clause.origin
    if ticks > MOST_TICKS:
        raise TooLong(f"`{name}` may hold at each of {ticks} ticks ({where}): {shorter}")
    if in_all > MOST_ROWS * CHUNK:
        facts = f"the facts of `{name}` may hold at {in_all} ticks in all"
        raise TooLong(f"{facts} ({where}): {shorter}")
