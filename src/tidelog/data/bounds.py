"""Bounds on what data may hold and on what messages quote of it.

Anybody who can write a message can write a hostile one: deeply nested, or a megabyte long.
"""

from __future__ import annotations

import json
import math
from typing import Any

# Levels of arrays and objects that a line of JSON may have.
NESTING = 64
# Characters that a message quotes of one value.
QUOTED = 40
# Characters of the reason why a row is not used.
REASON = 500
# Characters of a row that a commit or a warning shows.
EXCERPT = 1000


def short(text: str, most: int = QUOTED) -> str:
    """The beginning of a text that may be long, for a message.

    >>> short("a" * 50)
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...'
    """
    return text if len(text) <= most else text[: most - 3] + "..."


def reason_text(error: object) -> str:
    """Why a row is not used, as text that UTF-8 can write and that is not long."""
    return short(str(error), REASON).encode(errors="backslashreplace").decode()


def finite(text: str) -> float:
    """The float that a text writes, unless it is too large for one."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"`{short(text)}` does not fit a float")
    return value


def read_json(text: str) -> Any:
    """The value of a JSON text; ValueError for one that is nested too deep.

    >>> read_json("[" * 500 + "]" * 500)
    Traceback (most recent call last):
    ValueError: nested deeper than 64 levels
    """
    try:
        value = json.loads(text, parse_float=finite, parse_int=_whole)
    except RecursionError:
        value = _DEEP
    # No value has more levels than its text has brackets.
    if value is _DEEP or (text.count("[") + text.count("{") > NESTING and _is_deep(value)):
        raise ValueError(f"nested deeper than {NESTING} levels")
    return value


_DEEP = object()


def _whole(digits: str) -> int:
    """An integer; Python refuses to read one of thousands of digits, in words of its own."""
    try:
        return int(digits)
    except ValueError:
        raise ValueError(f"`{short(digits)}` has too many digits") from None


def _is_deep(value: Any) -> bool:
    """Whether a value has too many levels; they are looked at one after another."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(NESTING):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True
