"""Sentences that stop a stream: each has a code, a section in the docs and a test."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tidelog.causes import Cause, Exit

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "refusals.md"
REFUSALS = {"Refused", "SnapshotError"}
# Words of sentences that are not where they are raised, by the names that stand for them there.
NAMED = {
    "refuse_commit(": ["cannot go back to commit", "it can go back to none"],
    "_difference": ["was started with other rules", "was started differently"],
    "or_skip(": ["go on without it: --skip"],
    "missing(": [": the file is not there any more; put it back, then go on"],
    "_too_much": ["needs more than"],
    "cannot_resume": ["answers on the console cannot be taken back"],
    "several": ["none of its 100 rows can be used", "its only row cannot be used"],
    "lost": ["a Python worker of Spark did not start"],
}
# What tests quote of sentences whose own words are those of other sentences, too.
QUOTED = {
    (": a checkpoint is a folder",): "file: a checkpoint is a folder",
    (": not a snapshot",): "stream.json: not a snapshot [",
    (": the file cannot be read; repair it",): "the file cannot be read; repair it or take",
    (" is damaged: ",): "stream.json is damaged: restore it from a copy",
    (" is ", ": "): "spark/sources/0/1 is damaged",
    (" is missing: ",): "out.jsonl is missing: restore it from a copy",
    (" is no snapshot, or damaged: ",): "stream.json is no snapshot, or damaged: restore",
    (" is in use by process ", ": stop that one first", "unknown"): ": stop that one first [R01]",
    (" is ", ", and the last commit needs it: "): "is missing, and the last commit needs it",
    (" is ", ": restore it from a copy, or start with a new checkpoint"): "is shorter than at the",
    (
        " ",
        ", and the last commit needs version ",
        ": ",
    ): "Hot is missing, and the last commit needs",
    (" uses ", ", which a stream cannot read"): "uses deletionVectors, which a stream",
    (" is there already and not empty: name a new folder",): "answers is there already and not",
    (
        " is there already and not empty: name a new folder, or the checkpoint that it was written"
        " with",
    ): " is there already and not empty: name a new folder, or the checkpoint that it",
}
# As many letters of a sentence, in a row, make a quotation.
ENOUGH = 12


@dataclass(frozen=True)
class Sentence:
    """A sentence that stops a stream, by the literal parts of its text."""

    place: str
    cause: Cause | None
    parts: tuple[str, ...]


def calls() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def literals(node: ast.AST) -> Iterator[str]:
    """The texts of an expression, those of a formatted one joined where nothing is between."""
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value
        if isinstance(each, ast.Name | ast.Attribute):
            yield from NAMED.get(each.id if isinstance(each, ast.Name) else each.attr, ())
        if isinstance(each, ast.Call):
            yield from NAMED.get(f"{ast.unparse(each.func)}(", ())


@cache
def sentences() -> tuple[Sentence, ...]:
    found = []
    for place, call in calls():
        codes = [word.value for word in call.keywords if word.arg == "code"]
        if not codes and ast.unparse(call.func) not in REFUSALS:
            continue
        named = [each.attr for code in codes for each in ast.walk(code) if is_cause(each)]
        if not named and codes:
            continue  # of another error, or of the operating system
        cause = Cause[named[0]] if named else None
        parts = tuple(text for argument in call.args for text in literals(argument))
        found.append(Sentence(place, cause, parts))
    return tuple(found)


def is_cause(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and ast.unparse(node.value) == "Cause"


@cache
def quotations() -> tuple[str, ...]:
    """The texts in tests, as they are without what regular expressions add."""
    texts = set()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path == Path(__file__):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts |= set(node.value.replace("\\", "").split(".*"))
    return tuple(text for text in texts if len(text) >= ENOUGH)


def pieces(text: str) -> Iterator[str]:
    return (text[i : i + ENOUGH] for i in range(len(text) - ENOUGH + 1))


def same(one: Sentence, other: Sentence) -> bool:
    """Whether two places say the same."""
    return max(one.parts, key=len, default="") == max(other.parts, key=len, default="")


def is_quoted(sentence: Sentence) -> bool:
    """Whether a test has letters of a sentence that no other sentence has."""
    if sentence.parts in QUOTED:
        return any(QUOTED[sentence.parts] in text for text in quotations())
    others = {
        piece
        for other in sentences()
        if not same(other, sentence)
        for part in other.parts
        for piece in pieces(part)
    }
    own = {piece for part in sentence.parts for piece in pieces(part)} - others
    return any(piece in own for text in quotations() for piece in pieces(text))


def sections() -> dict[str, str]:
    """The text below each heading that begins with a code."""
    parts = re.split(r"^### (R\d\d) .*$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_refusal_has_a_code() -> None:
    assert [each.place for each in sentences() if each.cause is None] == []


def test_every_cause_stops_something() -> None:
    """But for what only the operating system or Java knows of."""
    outside = {Cause.STORE_AWAY}
    assert {each.cause for each in sentences()} == set(Cause) - outside


def test_every_cause_has_a_section_with_cause_and_remedy() -> None:
    assert list(sections()) == [cause.value for cause in Cause]
    for code, text in sections().items():
        assert "**Cause.**" in text, code
        assert "**Remedy.**" in text, code


@pytest.mark.parametrize("cause", Cause)
def test_a_section_says_whether_to_start_again(cause: Cause) -> None:
    assert f"Exit code {cause.exit.value}." in sections()[cause.value]


@pytest.mark.parametrize("code", Exit)
def test_the_page_has_every_exit_code(code: Exit) -> None:
    assert re.search(rf"^\| {code.value} \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("sentence", sentences(), ids=lambda sentence: sentence.place)
def test_a_test_reaches_the_sentence(sentence: Sentence) -> None:
    assert is_quoted(sentence), f"no test quotes {' .. '.join(sentence.parts)}"


@pytest.mark.parametrize("sentence", sentences(), ids=lambda sentence: sentence.place)
def test_the_page_quotes_the_sentence(sentence: Sentence) -> None:
    assert sentence.cause is not None
    text = " ".join(sections()[sentence.cause.value].split())
    quoted = re.findall(r"`([^`]+)`", text)
    parts = [" ".join(part.replace("`", "").split()) for part in sentence.parts]
    parts += [QUOTED[sentence.parts]] if sentence.parts in QUOTED else []
    assert any(
        words == part or (len(words) >= ENOUGH and words in part)
        for words in quoted
        for part in parts
    ), parts
