"""Semantic tokens: what each word is, so that an editor can colour it."""

from __future__ import annotations

from tidelog.language.tokens import Kind
from tidelog.lsp.document import Document
from tidelog.lsp.names import is_definition
from tidelog.lsp.roles import Part, Role, Word

# The protocol's own names: every theme has colours for them.
TYPES = (
    "keyword",
    "class",
    "variable",
    "parameter",
    "enumMember",
    "string",
    "number",
    "property",
    "type",
    "operator",
    "comment",
)
MODIFIERS = ("declaration", "definition")

_TYPE_OF = {
    Role.KEYWORD: "keyword",
    Role.PREDICATE: "class",
    Role.VARIABLE: "variable",
    Role.TIME: "parameter",
    Role.CONSTANT: "enumMember",
    Role.TEXT: "string",
    Role.NUMBER: "number",
    Role.COLUMN: "property",
    Role.TYPE: "type",
    Role.OPERATOR: "operator",
    Role.COMMENT: "comment",
}


def semantic_tokens(document: Document, first: int = 0, last: int | None = None) -> list[int]:
    """Five numbers a word, each place told from the one before; lines from `first` to `last`."""
    data: list[int] = []
    line_before = column_before = 0
    length = document.units.length
    for chunk in document.chunks:
        line, column = document.places[chunk.key]
        if line - 1 + chunk.lines < first:
            continue
        if last is not None and line - 1 > last:
            break
        row, row_start, skew = line - 1, 0, column - 1
        mark = 1 if line == 1 and document.raw.startswith("\ufeff") else 0
        for word in chunk.words:
            type_ = _TYPE_OF.get(word.role)
            token = word.token
            breaks = chunk.text.count("\n", row_start, token.start)
            if breaks:
                row += breaks
                row_start = chunk.text.rfind("\n", 0, token.start) + 1
                skew = mark = 0
            if type_ is None or row < first or (last is not None and row > last):
                continue
            at = length(chunk.text[row_start : token.start]) + mark
            if skew:  # the chunk starts within a line, after others
                begin = document.point(line, column)[1]
                at = begin + length(chunk.text[row_start : token.start])
            delta = row - line_before
            start = at - column_before if delta == 0 else at
            shown = token.text.split("\n", 1)[0] if token.kind is Kind.BAD else token.text
            data += (delta, start, length(shown), TYPES.index(type_), _modifiers(word))
            line_before, column_before = row, at
    return data


def _modifiers(word: Word) -> int:
    if not is_definition(word):
        return 0
    return 1 if word.part is Part.INPUT else 2


def edited(old: list[int], new: list[int]) -> tuple[int, int, list[int]]:
    """Where two lists differ: the first place, how many numbers go, and what comes instead."""
    short = min(len(old), len(new))
    first = 0
    while first < short and old[first : first + 1000] == new[first : first + 1000]:
        first += 1000
    first = min(first, short)
    while first < short and old[first] == new[first]:
        first += 1
    same = 0
    while same < short - first and old[-1 - same] == new[-1 - same]:
        same += 1
    return first, len(old) - first - same, new[first : len(new) - same]
