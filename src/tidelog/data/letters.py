"""Rows that a stream could not use, as they came, so that they can be sent again."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidelog.errors import DataError, warn

# So many of a batch are told at once, where nobody looks at the others.
SHOWN = 3
# Where a message of Kafka's is.
_MESSAGE = re.compile(r"kafka:(.+)/(\d+)/(\d+)")


@dataclass(frozen=True)
class DeadLetter:
    """A row that is not used, and why; `came` is it as JSON: an object, or a text.

    The file of a message of Kafka's is `kafka:TOPIC/PARTITION/OFFSET`.
    """

    predicate: str | None
    reason: str
    file: str | None
    came: str | None

    def as_json(self) -> dict[str, Any]:
        came = None if self.came is None else json.loads(self.came)
        message = _MESSAGE.fullmatch(self.file or "")
        return {
            "predicate": self.predicate,
            "reason": self.reason,
            **(
                {"file": self.file}
                if message is None
                else {"topic": message[1], "partition": int(message[2]), "offset": int(message[3])}
            ),
            "row": came if isinstance(came, dict) else None,
            "text": came if isinstance(came, str) else None,
        }

    def line(self) -> bytes:
        return f"{json.dumps(self.as_json(), ensure_ascii=False)}\n".encode()


def letter_text(letter: dict[str, Any]) -> str:
    """A dead letter in a line, for people.

    >>> letter_text({"predicate": "P", "reason": "late", "file": "a.csv", "row": {"x": 1}})
    'a.csv: late: {"x": 1}'
    >>> place = {"topic": "temps", "partition": 0, "offset": 17}
    >>> letter_text({"predicate": None, "reason": "not JSON", **place, "text": "oops"})
    'temps, partition 0, offset 17: not JSON: oops'
    """
    came = letter.get("text") or letter.get("row")
    shown = came if isinstance(came, str) else json.dumps(came, ensure_ascii=False)
    if "topic" in letter:
        place = "{topic}, partition {partition}, offset {offset}".format_map(letter)
        return f"{place}: {letter['reason']}: {shown[:120]}"
    place = letter["file"] or letter["predicate"] or "a row"
    place = re.sub(r"\Afile:(//)?(?=/)", "", place).removeprefix(f"{os.getcwd()}/")
    return f"{place}: {letter['reason']}: {shown[:120]}"


def refuse_useless(rows: Mapping[str, int], first: Iterable[dict[str, Any]]) -> None:
    """DataError when an input has rows, and none of them is a fact: nobody means that.

    >>> refuse_useless({"P": 1}, [{"predicate": "P", "reason": "late", "file": "a", "row": {}}])
    Traceback (most recent call last):
    tidelog.errors.DataError: input `P`: its only row cannot be used
    a: late: {}
    """
    for name, count in rows.items():
        if count:
            several = "its only row cannot" if count == 1 else f"none of its {count} rows can"
            raise DataError(f"input `{name}`: {several} be used", *_letters_of(name, first))


def warn_useless(
    name: str, count: int, batch: int, first: Iterable[dict[str, Any]], place: str
) -> None:
    """Warn that a stream which had begun got nothing but unusable rows of an input, and goes on."""
    several = "the only row" if count == 1 else f"none of the {count} rows"
    can = "cannot" if count == 1 else "can"
    shown = "".join(f"; the first: {text}" for text in _letters_of(name, first)[:1])
    warn(
        f"input `{name}`: {several} of batch {batch} {can} be used; the stream goes on, and what it"
        f" cannot use is in {place}{shown}"
    )


def _letters_of(name: str, letters: Iterable[dict[str, Any]]) -> list[str]:
    """Dead letters as people read them, those of an input if there are any."""
    known = list(letters)
    return [letter_text(x) for x in known if x["predicate"] == name] or [*map(letter_text, known)]
