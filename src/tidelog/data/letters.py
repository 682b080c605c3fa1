"""Rows that a stream could not use, as they came, so that they can be sent again."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tidelog.causes import Cause
from tidelog.data.bounds import EXCERPT, read_json, reason_text, short
from tidelog.errors import DataError

# So many of a batch are told at once, where nobody looks at the others.
SHOWN = 3
# How the reason of what users leave out begins.
SKIPPED = "skipped as asked for"
# How the reason begins of a row that came too late, and of one that lies too far ahead.
LATE, AHEAD = "^late: ", "^(tick -?[0-9]+|its time) is more than [0-9]+ (ticks )?ahead of "
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
    needed: int | None = None  # the least lateness or max_jump with which it would be used
    cause: str = ""  # why time had gone on without it, where that is not the lateness

    def as_json(self) -> dict[str, Any]:
        came = None if self.came is None else _read(self.came)
        message = _MESSAGE.fullmatch(self.file or "")
        return {
            "predicate": None if self.predicate is None else reason_text(self.predicate),
            "reason": reason_text(self.reason),
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


def kind_of(letter: Mapping[str, Any]) -> Literal["late", "ahead", "unreadable"]:
    """Why a row is not used, roughly.

    >>> kind_of({"reason": "late: its time came after everything up to 5 had arrived"})
    'late'
    """
    reason = letter["reason"]
    if re.match(LATE, reason):
        return "late"
    return "ahead" if re.match(AHEAD, reason) else "unreadable"


def first_letters(letters: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first dead letters, and after them the first of each input and kind."""
    first: list[dict[str, Any]] = []
    kinds: set[tuple[str | None, str]] = set()
    for letter in letters:
        kind = (letter["predicate"], kind_of(letter))
        if len(first) < SHOWN or kind not in kinds:
            first.append(letter)
        kinds.add(kind)
    return first


def _read(came: str) -> Any:
    """What came, or its text where that cannot be told."""
    try:
        return read_json(came)
    except ValueError:
        return came


def excerpt(letter: dict[str, Any]) -> dict[str, Any]:
    """A dead letter with the beginning of its row only, where that is long.

    >>> excerpt({"reason": "late", "row": {"x": "a"}, "text": None})["row"]
    {'x': 'a'}
    """
    came = letter["text"] or letter["row"]
    text = came if isinstance(came, str) else json.dumps(came, ensure_ascii=False)
    if len(text) <= EXCERPT:
        return letter
    return {**letter, "row": None, "text": short(text, EXCERPT)}


def letter_text(letter: dict[str, Any]) -> str:
    """A dead letter in a line, for people.

    >>> letter_text({"predicate": "P", "reason": "late", "file": "a.csv", "row": {"x": 1}})
    'a.csv: late: {"x": 1}'
    >>> place = {"topic": "temps", "partition": 0, "offset": 17}
    >>> letter_text({"predicate": None, "reason": "not JSON", **place, "text": "oops"})
    'temps, partition 0, offset 17: not JSON: oops'
    """
    came = letter.get("text") or letter.get("row")
    shown = f": {came if isinstance(came, str) else json.dumps(came, ensure_ascii=False)}"
    shown = "" if came is None else shown[:122]
    if "topic" in letter:
        place = "{topic}, partition {partition}, offset {offset}".format_map(letter)
        return f"{place}: {letter['reason']}{shown}"
    place = path_text(letter["file"] or letter["predicate"] or "a row")
    return f"{place}: {letter['reason']}{shown}"


def reason_to_skip(what: Path | bytes) -> str:
    """Why a file or message that users leave out is no fact, with what tells it from others.

    >>> reason_to_skip(Path("/none"))
    'skipped as asked for: the file is not there any more'
    """
    try:
        with io.BytesIO(what) if isinstance(what, bytes) else what.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.seek(0, io.SEEK_END)
    except FileNotFoundError:
        return f"{SKIPPED}: the file is not there any more"
    except OSError as error:
        return f"{SKIPPED}: {error.strerror or error}"
    return f"{SKIPPED}: {size} bytes, SHA-256 {digest}"


def or_skip(path: str) -> str:
    """How a stream goes on without a file."""
    return f"go on without it: --skip {path} (skip= in Python)"


def path_text(path: str) -> str:
    """A path for people: without `file:`, and from the current folder."""
    return re.sub(r"\Afile:(//)?(?=/)", "", path).removeprefix(f"{os.getcwd()}/")


def refuse_useless(rows: Mapping[str, int], first: Iterable[dict[str, Any]]) -> None:
    """DataError when an input has rows, and none of them is a fact: nobody means that.

    Of several such inputs it names the first by name, so that every run says the same.

    >>> refuse_useless({"P": 1}, [{"predicate": "P", "reason": "late", "file": "a", "row": {}}])
    Traceback (most recent call last):
    tidelog.errors.DataError: input `P`: its only row cannot be used
    a: late: {}
    """
    for name, count in sorted(rows.items()):
        if count:
            several = "its only row cannot" if count == 1 else f"none of its {count} rows can"
            raise DataError(
                f"input `{name}`: {several} be used",
                *_letters_of(name, first),
                code=Cause.NO_ROW_USABLE,
            )


def _letters_of(name: str, letters: Iterable[dict[str, Any]]) -> list[str]:
    """Dead letters as people read them, those of an input if there are any."""
    known = list(letters)
    return [letter_text(x) for x in known if x["predicate"] == name] or [*map(letter_text, known)]
