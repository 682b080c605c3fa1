"""What to do about a text that is no value of its column's type, for Python and for SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator

# A kind is a type's name, or one of these, of times: where ticks have a length, and where not.
STAMP, TICK = "a timestamp", "a tick"

_MISSING = r"(?i)[ \t]*(null|none|nil|n/?a|nan|<na>|nat|[\\]n|-+|[?])[ \t]*"
_SECONDS = "it looks like {} since 1970: write it as a timestamp"
_WHOLE = "declare the column `float`, or write whole numbers"
# Patterns that DuckDB and Python read alike, with the kinds that each is for, and what to do.
REMEDIES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (_MISSING, ("int", "float", "bool", STAMP, TICK), "leave a missing value empty"),
    (r"[ \t]*[+-]?[0-9]+[.][0-9]*[ \t]*", ("int",), _WHOLE),
    (r"[ \t]*[+-]?[0-9]+[.][0-9]*[ \t]*", (TICK,), "a tick is a whole number"),
    (r"[ \t]*[+-]?[0-9]{1,3}(,[0-9]{3})+([.][0-9]+)?[ \t]*", ("int", "float"), "write no commas"),
    (r"[ \t]*[+-]?[0-9]+,[0-9]+[ \t]*", ("float",), "write a point for the comma"),
    (r"(?i)[ \t]*(yes|no|y|n|t|f|on|off|0|1)[ \t]*", ("bool",), "write `true` or `false`"),
    (r"[ \t]*[0-9]{9,10}([.][0-9]*)?[ \t]*", (STAMP,), _SECONDS.format("seconds")),
    (r"[ \t]*[0-9]{12,13}([.][0-9]*)?[ \t]*", (STAMP,), _SECONDS.format("milliseconds")),
    (r"[ \t]*[0-9]{15,16}[ \t]*", (STAMP,), _SECONDS.format("microseconds")),
    (r"[ \t]*-?[0-9]+[ \t]*", (STAMP,), "ticks are given without --tick"),
)


def remedies_for(kind: str) -> Iterator[tuple[str, str]]:
    """The patterns of a kind, each with what to do."""
    return ((pattern, text) for pattern, kinds, text in REMEDIES if kind in kinds)


def remedied(said: str, text: str, kind: str) -> str:
    """A problem, and what to do about it if that is known.

    >>> remedied("`NA` is not int", "NA", "int")
    '`NA` is not int; leave a missing value empty'
    """
    known = (remedy for pattern, remedy in remedies_for(kind) if re.fullmatch(pattern, text))
    remedy = next(known, None)
    return said if remedy is None else f"{said}; {remedy}"
