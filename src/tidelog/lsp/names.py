"""Where predicates and variables are defined and used, and giving them other names."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

from tidelog.language.tokens import is_name, is_variable_name
from tidelog.lsp.document import Document
from tidelog.lsp.roles import StatementPart, Word, WordRole


@dataclass(frozen=True)
class Spot:
    """A word and where it starts and ends in the text."""

    word: Word
    start: int
    end: int
    chunk: int  # where its chunk starts


_NAMED = (
    WordRole.PREDICATE,
    WordRole.VARIABLE,
    WordRole.TIME,
    WordRole.COLUMN,
    WordRole.CONSTANT,
    WordRole.TYPE,
)


def spot_at(document: Document, offset: int) -> Spot | None:
    """The word at an offset; between two, the one that is a name."""
    touching: list[Spot] = []
    for at in (offset, offset + 1):  # a chunk may end where the next one starts
        around = document.chunk_at(at)
        if around is None:
            continue
        start, chunk = around
        touching += (
            Spot(word, start + word.token.start, start + word.token.end, start)
            for word in chunk.words
            if start + word.token.start <= offset <= start + word.token.end
        )
    names = [spot for spot in touching if spot.word.role in _NAMED]
    inside = [spot for spot in touching if spot.start <= offset < spot.end]
    return next(iter([*names, *inside, *touching]), None)


def predicate_spots(document: Document, name: str) -> Iterator[Spot]:
    """Where a predicate stands."""
    for start, chunk in zip(document.starts, document.chunks, strict=True):
        for word in chunk.predicates.get(name, ()):
            yield Spot(word, start + word.token.start, start + word.token.end, start)


def first_definitions(document: Document, names: Container[str]) -> Iterator[tuple[str, Spot]]:
    """Where each of some predicates is declared or derived first."""
    done: set[str] = set()
    for start, chunk in zip(document.starts, document.chunks, strict=True):
        for name, words in chunk.predicates.items():
            word = next(filter(is_definition, words), None)
            if word is not None and name in names and name not in done:
                done.add(name)
                yield name, Spot(word, start + word.token.start, start + word.token.end, start)


def is_definition(word: Word) -> bool:
    """Whether a predicate is declared here, or derived by the rule whose head this is."""
    return word.role is WordRole.PREDICATE and word.part in (
        StatementPart.INPUT,
        StatementPart.HEAD,
    )


def definitions(document: Document, spot: Spot) -> list[Spot]:
    """Where what stands at a spot comes from."""
    if spot.word.role is WordRole.PREDICATE:
        same = predicate_spots(document, spot.word.token.text)
        return [s for s in same if is_definition(s.word)]
    if spot.word.role in (WordRole.VARIABLE, WordRole.TIME):
        uses = same_variable(document, spot)
        body = [s for s in uses if s.word.part is StatementPart.BODY]
        return (body or uses)[:1]  # the body binds it
    return []


def references(document: Document, spot: Spot) -> list[Spot]:
    """Every use of what stands at a spot, its definitions included."""
    if spot.word.role is WordRole.PREDICATE:
        return list(predicate_spots(document, spot.word.token.text))
    if spot.word.role in (WordRole.VARIABLE, WordRole.TIME):
        return same_variable(document, spot)
    return []


def same_variable(document: Document, spot: Spot) -> list[Spot]:
    """The uses of a variable in its rule; every `_` is a variable of its own."""
    if spot.word.token.text == "_":
        return [spot]
    return [s for s in rule_spots(document, spot) if s.word.token.text == spot.word.token.text]


def rule_spots(document: Document, spot: Spot) -> list[Spot]:
    """All variables of the rule around a spot."""
    around = document.chunk_at(spot.chunk + 1)
    if around is None:
        return []
    start, chunk = around
    return [
        Spot(word, start + word.token.start, start + word.token.end, start)
        for word in chunk.words
        if word.statement == spot.word.statement and word.role in (WordRole.VARIABLE, WordRole.TIME)
    ]


class CannotRename(Exception):
    """Why a name cannot be changed, or not into this one."""


def renamable(spot: Spot | None) -> Spot:
    """What stands at a spot, if it has a name that can be changed."""
    if spot is None or spot.word.role not in (WordRole.PREDICATE, WordRole.VARIABLE, WordRole.TIME):
        raise CannotRename("only predicates and variables are renamed")
    if spot.word.token.text == "_":
        raise CannotRename("every `_` is a variable of its own: give this one a name by hand")
    return spot


def renamed(document: Document, spot: Spot | None, name: str) -> list[Spot]:
    """The places to change for another name; CannotRename if it would change the meaning."""
    spot = renamable(spot)
    if name == spot.word.token.text:
        return []
    if not name or not is_name(name):
        raise CannotRename(f"`{name}` is not a name: letters, digits and `_`, no digit first")
    if spot.word.role is WordRole.PREDICATE:
        if any(name in chunk.predicates for chunk in document.chunks):
            raise CannotRename(f"there is a predicate `{name}` already")
        return references(document, spot)
    if not is_variable_name(name) or name == "_":
        raise CannotRename(f"a variable starts with an upper-case letter or `_`: `{name}` does not")
    if any(s.word.token.text == name for s in rule_spots(document, spot)):
        raise CannotRename(f"there is a variable `{name}` in this rule already")
    return same_variable(document, spot)
