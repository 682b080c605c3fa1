"""From when to when answers hold, by walking from each beginning."""

from __future__ import annotations

from collections.abc import Collection, Set
from typing import Any

Row = tuple[Any, ...]


def spells(rows: Set[Row], *, eager: bool = False) -> set[Row]:
    """Arguments, first and last tick of each stretch; with `eager` its beginning, too."""
    told: set[Row] = set()
    for *args, first in rows:
        if (*args, first - 1) not in rows:
            last = first
            while (*args, last + 1) in rows:
                last += 1
            told.add((*args, first, last))
            if eager:
                told.add((*args, first, None))
    return told


def due(want: Collection[Row], tout: int) -> set[Row]:
    """What must have been told once everything up to a time is answered."""
    ended = {row for row in want if row[-1] is not None and row[-1] < tout}
    return ended | {row for row in want if row[-1] is None and row[-2] <= tout}
