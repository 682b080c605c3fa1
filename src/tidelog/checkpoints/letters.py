"""Dead letters: listed by problem, and written as rows that `--facts` reads."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidelog.data.durable import HERE
from tidelog.errors import DataError

LATE = "late"


@dataclass(frozen=True)
class Letter:
    """A dead letter of a checkpoint; in process its batch is None."""

    batch: int | None
    value: Mapping[str, Any]

    @property
    def input(self) -> str | None:
        name: str | None = self.value.get("predicate")
        return name

    @property
    def is_late(self) -> bool:
        return str(self.value["reason"]).startswith(f"{LATE}:")

    @property
    def problem(self) -> str:
        """The reason without what differs from row to row."""
        return problem_of(str(self.value["reason"]))

    def as_json(self) -> dict[str, Any]:
        return {"batch": self.batch, **self.value}

    def row(self) -> dict[str, Any] | None:
        """The row as a line that `--facts` reads; None if what came was not a row."""
        row = self.value.get("row")
        if not isinstance(row, dict):
            return None
        return row if "predicate" in row or self.input is None else {"predicate": self.input, **row}


def problem_of(reason: str) -> str:
    """What is wrong with rows, without their own values.

    >>> problem_of("late: tick 3 came after everything up to 5 had arrived")
    'late'
    >>> problem_of("column `v`: 'abc' is not int")
    "column `v`: '..' is not int"
    >>> problem_of("tick 300 is more than 100 ahead of 5")
    'tick N is more than N ahead of N'
    """
    if reason.startswith(f"{LATE}:"):
        return LATE
    first = re.match(r"[^`]*`[^`]*`", reason) if reason.startswith(("column", "no value")) else None
    kept = first[0] if first is not None else ""
    rest = re.sub(r"`[^`]*`", "`..`", reason[len(kept) :])
    rest = re.sub(r"'[^']*'", "'..'", rest)
    return kept + re.sub(r"\b\d(?:[\d:.TZ-]*[\dZ])?", "N", rest)


@dataclass
class LetterGroup:
    """Dead letters of one problem and input."""

    problem: str
    input: str | None
    count: int = 0
    batches: set[int] = field(default_factory=set)
    first: Letter | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "problem": self.problem,
            "input": self.input,
            "count": self.count,
            "batches": sorted(self.batches),
            "first": None if self.first is None else self.first.as_json(),
        }


def grouped(letters: Iterable[Letter]) -> list[LetterGroup]:
    """Dead letters by problem and input, the most frequent first."""
    groups: dict[tuple[str, str | None], LetterGroup] = {}
    for letter in letters:
        key = letter.problem, letter.input
        group = groups.setdefault(key, LetterGroup(*key))
        group.count += 1
        group.first = group.first or letter
        if letter.batch is not None:
            group.batches.add(letter.batch)
    return sorted(groups.values(), key=lambda g: (-g.count, g.problem, g.input or ""))


def read_letters(path: Path, batch: int | None, size: int | None = None) -> Iterator[Letter]:
    """The dead letters in a file, or in so many bytes of it; DataError for a damaged line."""
    with path.open("rb") as file:
        read = 0
        for number, line in enumerate(file, 1):
            read += len(line)
            if size is not None and read > size:
                return
            try:
                value = json.loads(line)
                value["reason"]
            except (ValueError, KeyError, TypeError):
                raise DataError(
                    f"{path}:{number}: not a dead letter: `tidelog checkpoint verify` says more"
                ) from None
            yield Letter(batch, value)


@dataclass(frozen=True)
class Chosen:
    """Which dead letters are asked for."""

    problem: str | None = None  # a part of the reason, or `late`
    input: str | None = None
    batches: tuple[int, int | None] | None = None  # the first and the last one

    @staticmethod
    def of(problem: str | None, input_: str | None, batches: str | int | None) -> Chosen:
        """A choice as users give it.

        >>> Chosen.of(None, None, "3-5").batches, Chosen.of(None, None, "3-").batches
        ((3, 5), (3, None))
        >>> Chosen.of(None, None, 3).batches
        (3, 3)
        """
        if batches is None:
            return Chosen(problem, input_)
        found = re.fullmatch(r"(\d+)(-(\d+)?)?", str(batches).strip())
        if found is None:
            raise ValueError(f"batches are 3, 3-5 or 3-, not {batches!r}")
        first = int(found[1])
        last = first if found[2] is None else None if found[3] is None else int(found[3])
        return Chosen(problem, input_, (first, last))

    def has(self, letter: Letter) -> bool:
        if self.input is not None and letter.input != self.input:
            return False
        if self.batches is not None:
            first, last = self.batches
            if letter.batch is None or letter.batch < first:
                return False
            if last is not None and letter.batch > last:
                return False
        if self.problem is None:
            return True
        return letter.is_late if self.problem == LATE else self.problem in letter.value["reason"]


def write_rows(letters: Iterable[Letter], target: str) -> tuple[int, int]:
    """Write dead letters as JSON lines that `--facts` reads; how many, and how many have no row.

    DataError if the file is there: the same letters would be sent twice, and nobody would know.
    """
    there = f"{target} is there already: name a new file"
    if os.path.exists(target):
        raise DataError(there)
    rows = [letter.row() for letter in letters]
    lines = [f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows if row is not None]
    try:
        made = HERE.create_file("".join(lines).encode(), os.path.abspath(target))
    except OSError as error:
        raise DataError(f"{target} cannot be written: {error.strerror or error}") from None
    if not made:
        raise DataError(there)
    return len(lines), len(rows) - len(lines)
