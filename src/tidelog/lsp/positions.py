"""Places in a text as editors count them: lines from 0, columns in UTF-16 units by default.

The language counts code points, and so does Python; a character outside the Basic Multilingual
Plane is one of those and two UTF-16 units.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

_LINE_END = re.compile(r"\r\n|\r|\n")
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


class Units(StrEnum):
    """What columns are counted in; the client and the server agree on one."""

    UTF8 = "utf-8"
    UTF16 = "utf-16"
    UTF32 = "utf-32"

    def length(self, text: str) -> int:
        """
        >>> Units.UTF16.length("a\U0001f600"), Units.UTF8.length("é"), Units.UTF32.length("é")
        (3, 2, 1)
        """
        match self:
            case Units.UTF32:
                return len(text)
            case Units.UTF16:
                return len(text) if text.isascii() else len(text) + len(_ASTRAL.findall(text))
            case Units.UTF8:
                return len(text.encode("utf-8", "surrogatepass"))

    def place(self, text: str, column: int) -> int:
        """The index of the character at a column; within a character, the one after it.

        >>> Units.UTF16.place("a\U0001f600b", 3), Units.UTF16.place("abc", 99)
        (2, 3)
        """
        if self is Units.UTF32 or text.isascii():
            return max(0, min(column, len(text)))
        seen = 0
        for i, character in enumerate(text):
            if seen >= column:
                return i
            seen += self.length(character)
        return len(text)


@dataclass(frozen=True)
class TextLines:
    """A text by lines; \\n, \\r\\n and \\r end one, as the protocol says, and nothing else does."""

    text: str
    units: Units = Units.UTF16

    @cached_property
    def starts(self) -> list[int]:
        return [0, *(end.end() for end in _LINE_END.finditer(self.text))]

    def line(self, number: int) -> str:
        """A line without its end; lines that are not there are empty."""
        if not 0 <= number < len(self.starts):
            return ""
        start = self.starts[number]
        if number + 1 == len(self.starts):
            return self.text[start:]
        return self.text[start : self.starts[number + 1]].rstrip("\r\n")

    def offset(self, line: int, column: int) -> int:
        """Where a position is; outside the text, the nearest place in it."""
        if line < 0:
            return 0
        if line >= len(self.starts):
            return len(self.text)
        return self.starts[line] + self.units.place(self.line(line), column)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self.starts, offset) - 1
        return line, self.units.length(self.text[self.starts[line] : offset])

    def replaced(self, start: tuple[int, int], end: tuple[int, int], text: str) -> str:
        """The text with another in the place of a range."""
        first, last = self.offset(*start), self.offset(*end)
        return self.text[: min(first, last)] + text + self.text[max(first, last) :]
