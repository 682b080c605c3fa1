"""Lengths of time as people write them: `10m`, `1h`."""

from __future__ import annotations

import re
from datetime import timedelta

# Microseconds.
UNITS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}


def duration(length: object) -> int | None:
    """The microseconds of a length of time, such as 10m; None if it is none.

    >>> duration("10m"), duration(timedelta(seconds=1)), duration("soon")
    (600000000, 1000000, None)
    """
    if isinstance(length, timedelta):
        size = length // timedelta(microseconds=1)
        return size if size > 0 else None
    written = re.fullmatch(r"([0-9]{1,12})\s*(us|ms|s|m|h|d)", str(length).strip())
    return int(written.group(1)) * UNITS[written.group(2)] if written else None
