"""Rows that a stream could not use, as they came, so that they can be sent again."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidelog.errors import DataError

# So many of a batch are told at once, where nobody looks at the others.
SHOWN = 3


@dataclass(frozen=True)
class DeadLetter:
    """A row that is not used, and why; `came` is it as JSON: an object, or a text."""

    predicate: str | None
    reason: str
    file: str | None
    came: str | None

    def as_json(self) -> dict[str, Any]:
        came = None if self.came is None else json.loads(self.came)
        return {
            "predicate": self.predicate,
            "reason": self.reason,
            "file": self.file,
            "row": came if isinstance(came, dict) else None,
            "text": came if isinstance(came, str) else None,
        }

    def line(self) -> bytes:
        return f"{json.dumps(self.as_json(), ensure_ascii=False)}\n".encode()


def letter_text(letter: dict[str, Any]) -> str:
    """A dead letter in a line, for people.

    >>> letter_text({"predicate": "P", "reason": "late", "file": "a.csv", "row": {"x": 1}})
    'a.csv: late: {"x": 1}'
    """
    came = letter.get("text") or letter.get("row")
    shown = came if isinstance(came, str) else json.dumps(came, ensure_ascii=False)
    place = letter["file"] or letter["predicate"] or "a row"
    place = re.sub(r"\Afile:(//)?(?=/)", "", place).removeprefix(f"{os.getcwd()}/")
    return f"{place}: {letter['reason']}: {shown[:120]}"


def refuse_useless(rows: Mapping[str, int], first: Iterable[dict[str, Any]]) -> None:
    """DataError when an input has rows, and none of them is a fact: nobody means that."""
    for name, count in rows.items():
        if count:
            several = "its only row" if count == 1 else f"none of its {count} rows"
            used = "cannot be used" if count == 1 else "can be used"
            raise DataError(f"input `{name}`: {several} {used}", *map(letter_text, first))
