"""How many ticks a fact may be written out on, which bounds memory before it is spent.

What holds for ever, or until something stops it, takes a row for every 60 ticks: one fact and a
tick far ahead would take all memory there is.
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
    """Refuse a fill of one fact on so many ticks, or of all of its facts on so many in all."""
    name = writer.plan.deps.core.predicates[fill.predicate].base
    where = fill.clause.origin
    if ticks > MOST_TICKS:
        raise TooLong(f"`{name}` may hold at each of {ticks} ticks ({where}): {shorter}")
    if in_all > MOST_ROWS * CHUNK:
        facts = f"the facts of `{name}` may hold at {in_all} ticks in all"
        raise TooLong(f"{facts} ({where}): {shorter}")
