"""What can be wrong with a rules file: a closed list of codes, and how a finding is shown.

Every finding is data first (`Diagnostic`, `as_json`) and text second (`render`).
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cached_property
from typing import Any

from tidelog.language.program import Origin


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"  # nothing is wrong; it has no effect on the exit code, with `--strict` either


class Code(Enum):
    """Stable codes: a number is never used again for something else."""

    SYNTAX = ("E001", "syntax error")
    ENCODING = ("E002", "not UTF-8 text")
    NUMBER = ("E003", "number out of range")
    UNSAFE_HEAD = ("E101", "unsafe head variable")
    UNSAFE_COMPARISON = ("E102", "unsafe comparison variable")
    TIME_AS_OBJECT = ("E103", "variable used for time and for objects")
    UNSAFE_NEGATION = ("E104", "variable only under `not`")
    INTERVAL = ("E105", "interval that says nothing")
    LONG_EXPRESSION = ("E106", "expression too long")
    AGGREGATE = ("E107", "aggregate that says nothing")
    ARITY = ("E201", "arity clash")
    SORT = ("E202", "temporal and rigid")
    TYPE = ("E203", "type clash")
    DECLARED_TWICE = ("E204", "declared twice")
    NO_SUCH_OUTPUT = ("E205", "output does not exist")
    NEGATED_UNKNOWN = ("E206", "negated predicate does not exist")
    NOT_STRATIFIED = ("E207", "cycle through `not` or an aggregate")
    MADE_AROUND_A_CYCLE = ("E208", "number made around a cycle")
    UNDECLARED = ("W301", "undeclared predicate")
    UNDERIVABLE = ("W302", "nothing can derive it")
    UNUSED_INPUT = ("W303", "unused input")
    SINGLE_OCCURRENCE = ("W304", "variable occurs once")
    DUPLICATE_RULE = ("W305", "duplicate rule")
    LOWER_CASE = ("W306", "constant where a variable is likely meant")
    NEVER_THERE = ("W307", "absence of what never holds")
    COUNTS_TICKS = ("W308", "aggregate that counts ticks")
    NO_ORDER = ("N401", "no order within a tick")

    @property
    def id(self) -> str:
        return self.value[0]

    @property
    def title(self) -> str:
        return self.value[1]

    @property
    def severity(self) -> Severity:
        return _SEVERITIES[self.id[0]]


_SEVERITIES = {"E": Severity.ERROR, "W": Severity.WARNING, "N": Severity.NOTE}


@dataclass(frozen=True)
class Note:
    """A second thing to know, often with a second place."""

    message: str
    origin: Origin | None = None


@dataclass(frozen=True)
class Diagnostic:
    code: Code
    message: str
    origin: Origin
    notes: tuple[Note, ...] = ()
    hint: str | None = None

    @property
    def severity(self) -> Severity:
        return self.code.severity

    def as_json(self) -> dict[str, Any]:
        return {
            "code": self.code.id,
            "title": self.code.title,
            "severity": self.severity.value,
            "message": self.message,
            **_place(self.origin),
            "notes": [
                {"message": n.message, **(_place(n.origin) if n.origin else {})} for n in self.notes
            ],
            "hint": self.hint,
        }


def _place(origin: Origin) -> dict[str, Any]:
    return {
        "file": origin.file,
        "line": origin.line,
        "column": origin.column,
        "end_line": origin.end_line,
        "end_column": origin.end_column,
    }


@dataclass(frozen=True)
class Source:
    """A named text that can say where an offset is and show the line it is on."""

    file: str
    text: str

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(line_end.end() for line_end in re.finditer("\n", self.text))]

    def origin(self, start: int, end: int) -> Origin:
        starts = self._starts
        line = bisect_right(starts, start)
        end_line = line
        if line < len(starts) and end > starts[line]:
            end_line = bisect_right(starts, end)
        return Origin(
            self.file, line, start - starts[line - 1] + 1, end_line, end - starts[end_line - 1] + 1
        )

    def line(self, number: int) -> str:
        start, end = self.bounds(number)
        return self.text[start:end]

    def bounds(self, number: int) -> tuple[int, int]:
        """Where a line starts and ends in the text."""
        starts = self._starts
        return starts[number - 1], (starts[number] - 1 if number < len(starts) else len(self.text))


class ProgramError(Exception):
    """The rules are wrong; carries every diagnostic of the run, warnings included."""

    def __init__(self, diagnostics: Sequence[Diagnostic], source: Source) -> None:
        self.diagnostics = tuple(diagnostics)
        self.source = source
        super().__init__("\n\n".join(render(d, source) for d in self.diagnostics))


def render(diagnostic: Diagnostic, source: Source) -> str:
    """The diagnostic as text: message, source line, caret, notes, hint; no colour."""
    out = [f"{diagnostic.severity}[{diagnostic.code.id}]: {visible(diagnostic.message)}"]
    out += excerpt(diagnostic.origin, source)
    for note in diagnostic.notes:
        out.append(f"note: {visible(note.message)}")
        if note.origin is not None:
            out += excerpt(note.origin, source)
    if diagnostic.hint:
        out.append(f"hint: {visible(diagnostic.hint)}")
    return "\n".join(out)


def visible(text: str) -> str:
    """Text safe to put on a terminal: control characters become spaces or `?`.

    >>> visible("a\\tb\\x1b[31mc")
    'a b?[31mc'
    """
    if text.isprintable():
        return text
    return "".join(
        " " if c == "\t" else "?" if unicodedata.category(c) in _UNPRINTABLE else c for c in text
    )


_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_WIDEST = 68


def excerpt(origin: Origin, source: Source) -> list[str]:
    """The line of a place with carets below it, as every finding shows it."""
    number = str(origin.line)
    margin = " " * len(number)
    first, last = source.bounds(origin.line)
    size = last - first
    start = min(origin.column - 1, size)
    end = origin.end_column - 1 if origin.end_line == origin.line else size
    end = max(start + 1, min(end, size))
    if size > _WIDEST:
        # Only the part that is shown is ever looked at: a file may be one long line.
        cut = max(0, min(start - _WIDEST // 3, size - _WIDEST))
        left, right = "... " if cut else "", " ..." if cut + _WIDEST < size else ""
        text = left + visible(source.text[first + cut : first + cut + _WIDEST]) + right
        shift = len(left) - cut
        start, end = start + shift, min(end + shift, len(left) + _WIDEST)
    else:
        text = visible(source.text[first:last])
    caret = " " * _width(text[:start]) + "^" * max(1, _width(text[start:end]))
    return [
        f"{margin}--> {visible(origin.file)}:{origin.line}:{origin.column}",
        f"{margin} |",
        f"{number} | {text}".rstrip(),
        f"{margin} | {caret}",
    ]


def _width(text: str) -> int:
    return sum(
        0
        if unicodedata.category(c) in ("Mn", "Me")
        else 2
        if unicodedata.east_asian_width(c) in "WF"
        else 1
        for c in text
    )
