"""Semantic tokens: what each word is, so that an editor can colour it."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.lsp.document import Chunk, Document
from tidelog.lsp.names import is_definition
from tidelog.lsp.positions import Units
from tidelog.lsp.roles import StatementPart, Word, WordRole

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
    WordRole.KEYWORD: "keyword",
    WordRole.PREDICATE: "class",
    WordRole.VARIABLE: "variable",
    WordRole.TIME: "parameter",
    WordRole.CONSTANT: "enumMember",
    WordRole.TEXT: "string",
    WordRole.NUMBER: "number",
    WordRole.COLUMN: "property",
    WordRole.TYPE: "type",
    WordRole.OPERATOR: "operator",
    WordRole.COMMENT: "comment",
}


@dataclass(frozen=True)
class _Encoded:
    """The words of a chunk: places on its first line are told from its start.

    `first` and `last` are lines and columns; `rest` has five numbers for each word after the first,
    of which only `kind`, its length, type and modifiers, is told here.
    """

    first: tuple[int, int]
    kind: tuple[int, int, int]
    rest: list[int]
    last: tuple[int, int]


def semantic_tokens(document: Document, first: int = 0, last: int | None = None) -> list[int]:
    """Five numbers a word, each place told from the one before; of chunks in these lines.

    What chunks are made of is remembered with them: a keystroke encodes one or two anew.
    """
    data: list[int] = []
    line_before = column_before = 0
    for chunk in document.chunks:
        line, column = document.places[chunk.key]
        if line - 1 + chunk.lines < first:
            continue
        if last is not None and line - 1 > last:
            break
        words = _encoded(chunk, document.units)
        if words is None:
            continue
        begin = 0  # of the chunk in its first line, if any of its words is there
        if words.first[0] == 0:
            begin = document.point(line, column)[1]
        row, at = line - 1 + words.first[0], words.first[1] + begin
        delta = row - line_before
        data += (delta, at if delta else at - column_before, *words.kind)
        data += words.rest
        line_before = line - 1 + words.last[0]
        column_before = words.last[1] + (begin if words.last[0] == 0 else 0)
    return data


def _encoded(chunk: Chunk, units: Units) -> _Encoded | None:
    if units not in chunk.encoded:
        chunk.encoded[units] = _encode(chunk, units)
    encoded = chunk.encoded[units]
    assert encoded is None or isinstance(encoded, _Encoded)
    return encoded


def _encode(chunk: Chunk, units: Units) -> _Encoded | None:
    row = row_start = 0
    first = last = None
    kind = (0, 0, 0)
    rest: list[int] = []
    for word in chunk.words:
        type_ = _TYPE_OF.get(word.role)
        token = word.token
        breaks = chunk.text.count("\n", row_start, token.start)
        if breaks:
            row += breaks
            row_start = chunk.text.rfind("\n", 0, token.start) + 1
        if type_ is None:
            continue
        at = units.length(chunk.text[row_start : token.start])
        told = (units.length(token.text), TYPES.index(type_), _modifiers(word))
        if last is None:
            first, kind = (row, at), told
        else:
            delta = row - last[0]
            rest += (delta, at if delta else at - last[1], *told)
        last = (row, at)
    return None if first is None or last is None else _Encoded(first, kind, rest, last)


def _modifiers(word: Word) -> int:
    if not is_definition(word):
        return 0
    return 1 if word.part is StatementPart.INPUT else 2


def edited(old: list[int], new: list[int]) -> tuple[int, int, list[int]]:
    """Where two lists differ: the first place, how many numbers go, and what comes instead."""
    short = min(len(old), len(new))
    first = 0
    while first < short and old[first : first + 1000] == new[first : first + 1000]:
        first += 1000
    first = min(first, short)
    while first < short and old[first] == new[first]:
        first += 1
    same, most = 0, short - first
    ends = len(old), len(new)
    while same + 1000 <= most and (
        old[ends[0] - same - 1000 : ends[0] - same] == new[ends[1] - same - 1000 : ends[1] - same]
    ):
        same += 1000
    while same < most and old[-1 - same] == new[-1 - same]:
        same += 1
    return first, ends[0] - first - same, new[first : ends[1] - same]
