"""A rules file that is being edited: only the statements that an edit touches are read again.

The text is cut into chunks, each up to the `.` that ends a statement. Whatever is wrong with a
statement, the parser goes on after that `.` at the latest, so that chunks can be read one by one
and give what reading the whole file gives. Places within a chunk are relative to it: its parts
name it as their file, and moving it costs nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count

from tidelog.language.checks import check_rule, check_together
from tidelog.language.diagnostics import Diagnostic, Note, Source
from tidelog.language.parser import parse_source, tick_length
from tidelog.language.profile import Profile, Shape
from tidelog.language.program import Origin, Program, Rule, Statement, Type
from tidelog.language.tokens import Kind, Token, tokenize
from tidelog.language.types import infer
from tidelog.lsp.positions import TextLines, Units
from tidelog.lsp.roles import Scanner, Word, WordRole

# How far a token can depend on what follows it: a foreign comment is looked for up to 2,000
# characters on (`tokens._FOREIGN`).
_LOOKAHEAD = 2_100

_numbers = count()


@dataclass(frozen=True, eq=False)
class Chunk:
    """A piece of the text, read on its own."""

    text: str
    tick: str | None = None  # how long the file says that a tick is
    key: str = field(default_factory=lambda: f"#{next(_numbers)}")

    @cached_property
    def _parsed(self) -> tuple[tuple[Statement, ...], tuple[Diagnostic, ...]]:
        parsed = parse_source(Source(self.key, self.text), self.tick)
        return parsed.program.statements, parsed.diagnostics

    @property
    def statements(self) -> tuple[Statement, ...]:
        return self._parsed[0]

    @property
    def mistakes(self) -> tuple[Diagnostic, ...]:
        """What keeps it from being read."""
        return self._parsed[1]

    @cached_property
    def findings(self) -> tuple[Diagnostic, ...]:
        """What is wrong with its rules, each by itself."""
        rules = (s for s in self.statements if isinstance(s, Rule))
        return tuple(finding for rule in rules for finding in check_rule(rule))

    @cached_property
    def profiles(self) -> tuple[Profile, ...]:
        """What checking the whole program needs to know of its rules."""
        return tuple(Profile.of(s) for s in self.statements if isinstance(s, Rule))

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        return tuple(t for t in tokenize(Source("", self.text), []) if t.kind is not Kind.END)

    @cached_property
    def words(self) -> tuple[Word, ...]:
        return tuple(Scanner().words(self.tokens, self.text))

    @cached_property
    def predicates(self) -> dict[str, list[Word]]:
        """Where each predicate stands in it."""
        places: dict[str, list[Word]] = {}
        for word in self.words:
            if word.role is WordRole.PREDICATE:
                places.setdefault(word.token.text, []).append(word)
        return places

    @cached_property
    def lines(self) -> int:
        return self.text.count("\n")

    @cached_property
    def encoded(self) -> dict[Units, object]:
        """What `colours` has made of it."""
        return {}


def chunked(text: str) -> Iterator[str]:
    """The text cut after each `.` that ends a statement.

    >>> list(chunked('P(1.5). Q(".") :- R.% s.\\nS'))
    ['P(1.5).', ' Q(".") :- R.', '% s.\\nS']
    """
    start = 0
    for token in tokenize(Source("", text), []):
        if token.kind is Kind.SYMBOL and token.text == ".":
            yield text[start : token.end]
            start = token.end
    if start < len(text):
        yield text[start:]


def _tick_in(text: str) -> str | None:
    """How long a text says that a tick is; most say nothing, and are not read for it."""
    if not re.search(r"\btick\s+\d", text):
        return None
    tokens = tokenize(Source("", text), [])
    return tick_length([token for token in tokens if token.kind is not Kind.COMMENT])


@dataclass(frozen=True)
class Document:
    """One version of a text. An edit makes another one, which shares what it can."""

    uri: str
    raw: str  # as the client has it
    text: str  # as the language reads it: without a byte order mark, lines ended by \n
    chunks: tuple[Chunk, ...]
    units: Units = Units.UTF16
    version: int | None = None

    @staticmethod
    def of(uri: str, raw: str, units: Units = Units.UTF16, version: int | None = None) -> Document:
        text = plain(raw)
        tick = _tick_in(text)
        chunks = tuple(Chunk(piece, tick) for piece in chunked(text))
        return Document(uri, raw, text, chunks, units, version)

    def changed(self, raw: str, version: int | None = None) -> Document:
        """The document with another text, its chunks kept where they are the same."""
        text = plain(raw)
        tick = _tick_in(text)
        if self.chunks and self.chunks[0].tick != tick:
            return Document.of(self.uri, raw, self.units, version)
        first, last = _difference(self.text, text)
        if first == len(text) == len(self.text):
            return replace(self, raw=raw, version=version)
        # From the chunk that the first change can reach back to, until both agree again.
        keep = max(0, bisect_right(self.starts, max(0, first - _LOOKAHEAD)) - 1)
        begin = self.starts[keep] if self.chunks else 0
        shift = len(text) - len(self.text)
        ends = {start + shift: i for i, start in enumerate(self.starts) if start >= last - shift}
        fresh: list[Chunk] = []
        at, rest = begin, len(self.chunks)
        for piece in chunked(text[begin:]):
            if at >= last and at in ends:
                rest = ends[at]
                break
            fresh.append(Chunk(piece, tick))
            at += len(piece)
        old = {c.text: c for c in self.chunks[keep:rest]}
        fresh = [old.pop(c.text, c) for c in fresh]  # those before the change, mostly
        chunks = (*self.chunks[:keep], *fresh, *self.chunks[rest:])
        return Document(self.uri, raw, text, chunks, self.units, version)

    # Places

    @cached_property
    def lines(self) -> TextLines:
        return TextLines(self.raw, self.units)

    @cached_property
    def starts(self) -> list[int]:
        """Where in the text each chunk starts."""
        starts, at = [], 0
        for chunk in self.chunks:
            starts.append(at)
            at += len(chunk.text)
        return starts

    @cached_property
    def source(self) -> Source:
        return Source(self.uri, self.text)

    @cached_property
    def places(self) -> dict[str, tuple[int, int]]:
        """Line and column, from 1, at which each chunk starts."""
        places, line, column = {}, 1, 1
        for chunk in self.chunks:
            places[chunk.key] = (line, column)
            last = chunk.text.rfind("\n")
            line += chunk.lines
            column = column + len(chunk.text) if last < 0 else len(chunk.text) - last
        return places

    def absolute(self, origin: Origin) -> Origin:
        """A place within a chunk as a place in the file."""
        line, column = self._start(origin)
        moved = column - origin.column if origin.end_line == 1 else 0
        end_line = line + origin.end_line - origin.line
        return Origin(self.uri, line, column, end_line, origin.end_column + moved)

    def _start(self, origin: Origin) -> tuple[int, int]:
        """Line and column in the file at which a place within a chunk starts."""
        line, column = self.places[origin.file]
        return line + origin.line - 1, origin.column + (column - 1 if origin.line == 1 else 0)

    def chunk_at(self, offset: int) -> tuple[int, Chunk] | None:
        """The chunk around an offset of the text, with its start; at an end, the one before it."""
        if not self.chunks:
            return None
        i = max(0, bisect_right(self.starts, max(0, offset - 1)) - 1)
        return self.starts[i], self.chunks[i]

    def offset(self, line: int, column: int) -> int:
        """Where in the text a position of the client is."""
        row = self.lines.line(line)
        index = self.units.place(row, column)
        if line == 0 and row.startswith("\ufeff"):
            index = max(0, index - 1)
        if not 0 <= line < len(self.lines.starts):
            return 0 if line < 0 else len(self.text)
        return self.source.bounds(line + 1)[0] + index

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset of the text, as the client counts them."""
        origin = self.source.origin(offset, offset)
        return self.point(origin.line, origin.column)

    def point(self, line: int, column: int) -> tuple[int, int]:
        """The same for a line and a column, both from 1, as the language counts them."""
        row = self.lines.line(line - 1)
        mark = 1 if line == 1 and row.startswith("\ufeff") else 0
        return line - 1, self.units.length(row[: column - 1 + mark])

    # What it says

    @cached_property
    def program(self) -> Program:
        return Program(tuple(s for chunk in self.chunks for s in chunk.statements))

    @cached_property
    def profiles(self) -> list[Profile]:
        return [profile for chunk in self.chunks for profile in chunk.profiles]

    @cached_property
    def types(self) -> dict[str, tuple[Type | None, ...]]:
        """The types of each predicate's arguments."""
        return infer(self.program, [profile.constraints for profile in self.profiles]).columns

    @cached_property
    def temporal(self) -> frozenset[str]:
        """The predicates that have a time."""
        declared = {name for name, d in self.program.declarations.items() if d.time is not None}
        shapes = frozenset[Shape]().union(*(profile.shapes for profile in self.profiles))
        used = {name for name, _, temporal in shapes if temporal}
        return frozenset(declared | (used - {*self.program.declarations}) | {*self.program.clocks})

    @cached_property
    def inputs(self) -> frozenset[str]:
        return frozenset(self.program.inputs)

    @cached_property
    def outputs(self) -> frozenset[str]:
        return frozenset(self.program.outputs)

    @cached_property
    def words(self) -> list[tuple[int, Word]]:
        """Every word with the offset of its chunk."""
        return [
            (start, word)
            for start, chunk in zip(self.starts, self.chunks, strict=True)
            for word in chunk.words
        ]

    @cached_property
    def complete(self) -> bool:
        return not any(chunk.mistakes for chunk in self.chunks)

    def own_findings(self) -> Iterator[Diagnostic]:
        """What is wrong with statements by themselves: cheap at every keystroke."""
        for chunk in self.chunks:
            yield from chunk.mistakes
            yield from chunk.findings

    def common_findings(self) -> tuple[Diagnostic, ...]:
        """What is wrong with the statements together: that looks at all of them."""
        together = check_together(self.program, complete=self.complete, profiles=self.profiles)
        return tuple(together)

    def findings(
        self, common: Iterable[Diagnostic] | None = None, most: int | None = None
    ) -> list[Diagnostic]:
        """What is wrong, in the order of the file, as `tidelog check` says it; at most so many.

        `common` may come from an earlier version: what concerns a chunk that is gone is left out.
        """
        known = self.common_findings() if common is None else common
        findings = [*self.own_findings(), *(d for d in known if self._here(d))]
        findings.sort(key=lambda d: (*self._start(d.origin), d.code.id))
        return [self._moved(d) for d in findings[:most]]

    def _here(self, diagnostic: Diagnostic) -> bool:
        return diagnostic.origin.file in self.places and all(
            note.origin is None or note.origin.file in self.places for note in diagnostic.notes
        )

    def _moved(self, diagnostic: Diagnostic) -> Diagnostic:
        notes = tuple(
            Note(n.message, None if n.origin is None else self.absolute(n.origin))
            for n in diagnostic.notes
        )
        origin = self.absolute(diagnostic.origin)
        return Diagnostic(diagnostic.code, diagnostic.message, origin, notes, diagnostic.hint)


def plain(raw: str) -> str:
    return raw.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _difference(old: str, new: str) -> tuple[int, int]:
    """Up to where two texts begin alike, and from where in the new one they end alike."""
    short = min(len(old), len(new))
    first = _alike(short, lambda n: old[:n] == new[:n])
    same = _alike(short - first, lambda n: old[len(old) - n :] == new[len(new) - n :])
    return first, len(new) - same


def _alike(most: int, same: object) -> int:
    """The greatest number up to `most` for which a monotone test holds."""
    assert callable(same)
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if same(middle):
            low = middle
        else:
            high = middle - 1
    return low


__all__: Sequence[str] = ("Chunk", "Document", "chunked", "plain")
