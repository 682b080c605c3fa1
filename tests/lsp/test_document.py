"""Reading again only what an edit touches gives what reading everything gives."""

from __future__ import annotations

import cProfile
import gc
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types
from support.deep import examples
from support.places import ROOT

import tidelog
from tidelog.language.checks import Similar
from tidelog.language.diagnostics import Diagnostic
from tidelog.lsp import colours, facts, server
from tidelog.lsp.completion import completions
from tidelog.lsp.document import Document
from tidelog.lsp.fixes import fixes
from tidelog.lsp.hover import hover
from tidelog.lsp.names import CannotRename, definitions, references, renamed, spot_at
from tidelog.lsp.positions import TextLines, Units
from tidelog.lsp.roles import WordRole

R = TypeVar("R")

# Pieces that meet in surprising ways: foreign comments, decimals, quotes, statements without end.
PIECES = st.sampled_from(
    [
        *(
            "P(X) @ T",
            " :- ",
            "E(X, Y) @ T+1",
            ", ",
            ".",
            "\n",
            ".\n",
            "% why\n",
            "input ",
            "output ",
        ),
        *(
            "E(a: text, b) @ time",
            "5",
            ".5",
            '"',
            "/*",
            "*/",
            "//",
            "'",
            "\r\n",
            "\r",
            "\u2028",
            "\x0c",
        ),
        *(
            "🌬",
            "é",
            "\ufeff",
            "_",
            "Q",
            "Falg",
            "Flag(X) @ T",
            "X != a",
            "=<",
            "(",
            ")",
            "\ud800",
            "\x00",
        ),
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=3), max_size=25).map("".join)


def painted(document: Document, data: list[int]) -> list[str]:
    """The texts that semantic tokens cover, found by the client's own counting."""
    lines = re.split(r"\r\n|\r|\n", document.raw)
    line = column = 0
    texts: list[str] = []
    for delta, start, length, _, _ in zip(*[iter(data)] * 5, strict=True):
        line, column = line + delta, start + (0 if delta else column)
        row, at = lines[line], document.units.place(lines[line], column)
        assert document.units.length(row[:at]) == column
        end = document.units.place(row, column + length)
        texts.append(row[at:end])
    return texts


def told(document: Document) -> list[tuple[object, ...]]:
    return [(d.code, d.message, d.origin, d.notes, d.hint) for d in document.findings()]


def whole(text: str) -> list[tuple[object, ...]]:
    diagnostics = tidelog.check(text, "u").diagnostics
    return [(d.code, d.message, d.origin, d.notes, d.hint) for d in diagnostics]


@examples(60, deep=1500)
@given(TEXTS, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 30), TEXTS), max_size=4))
def test_edits_give_what_checking_the_whole_gives(
    text: str, edits: list[tuple[int, int, str]]
) -> None:
    document = Document.of("u", text)
    assert told(document) == whole(text)
    for at, gone, new in edits:
        text = text[:at] + new + text[at + gone :]
        document = document.changed(text)
        assert "".join(chunk.text for chunk in document.chunks) == document.text
        assert told(document) == whole(text)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("P(a). /* one\nQ(a).\nR(a).\n", "R", "*/ R"),  # a comment of others is closed further on
        ("P(a). /* one\nQ(a).*/\nR(a).\n", "*/", ""),
        ("P(5).\nQ(X) :- E(X), X > 5.\nR(a).\n", "\nR", "5.\nR"),  # a dot becomes a decimal point
        ("P(X) :- E(X), X > 5.5.\nR(a).\n", "5.5", "5. 5"),
        ("P(a)\nQ(b).\n", "\nQ", ".\nQ"),
        ("P(a). ' one\nQ(a).", "\nQ", "' \nQ"),
    ],
)
def test_edits_that_reach_back(text: str, old: str, new: str) -> None:
    document = Document.of("u", text)
    told(document)
    changed = text.replace(old, new, 1)
    assert told(document.changed(changed)) == whole(changed)
    assert told(document.changed(changed).changed(text)) == whole(text)


@examples(60, deep=1500)
@given(TEXTS, st.integers(0, 200), st.sampled_from(list(Units)))
def test_nothing_fails_on_any_text(text: str, at: int, units: Units) -> None:
    document = Document.of("u", text, units)
    analyses = facts.Analyses()
    analyses._analysed = lambda program, query: "not now"  # type: ignore[method-assign]
    data = colours.semantic_tokens(document)
    assert painted(document, data) == [
        word.token.text for _, word in document.words if word.role is not WordRole.OTHER
    ]
    assert colours.semantic_tokens(document, 0, 10_000) == data
    offset = min(at, len(document.text))
    assert document.offset(*document.position(offset)) == offset
    completions(document, offset)
    spot = spot_at(document, offset)
    if spot is not None:
        hover(document, spot, analyses)
        definitions(document, spot)
        assert all(s.word.token.text == spot.word.token.text for s in references(document, spot))
    with suppress(CannotRename):
        renamed(document, spot, "New")
    server._symbols(document)
    for finding in document.findings():
        place = server.diagnostic(document, finding).range
        assert (place.start.line, place.start.character) <= (place.end.line, place.end.character)
        for fix in fixes(document, finding):
            assert 0 <= fix.start <= fix.end <= len(document.text)


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("P(X) @ T :- E(Y, Y) @ T.", types.DiagnosticSeverity.Error),
        ("P(X) @ T :- E(X, Y) @ T.", types.DiagnosticSeverity.Warning),
        (
            "input E(x: text, v: int) @ t. Last(X, V) @ T :- E(X, V) @ T."
            " Last(X, V) @ T+1 :- Last(X, V) @ T, not E(X, _) @ T+1.",
            types.DiagnosticSeverity.Information,
        ),
    ],
)
def test_severities(text: str, severity: types.DiagnosticSeverity) -> None:
    document = Document.of("u", text)
    (finding,) = document.findings()
    assert server.diagnostic(document, finding).severity is severity


WINDOWS = """input Hot(unit: text) @ time.
Often(X) @ [T, T+9] :- not some Hot(X) @ [T-4, S], at least 3
Hot(X) @ [5, 9], always(X) @ T, some @ T, at @ T, least(X) @ T.
"""


def test_quantifiers_and_intervals() -> None:
    document = Document.of("u", WINDOWS)
    words = [(word.token.text, word.role) for _, word in document.words]
    words = words[words.index(("Often", WordRole.PREDICATE)) :]
    keywords = [text for text, role in words if role is WordRole.KEYWORD]
    assert keywords == ["not", "some", "at", "least"]
    assert [text for text, role in words if role is WordRole.TIME] == [*"TTTSTTTT"]
    predicates = [text for text, role in words if role is WordRole.PREDICATE]
    assert predicates == ["Often", "Hot", "Hot", "always", "some", "at", "least"]


@pytest.mark.parametrize(
    ("line", "suggested"),
    [
        ("P(X) @ T :- some ", ["Hot"]),
        ("P(X) @ T :- not at least 3 ", ["Hot"]),
        ("P(X) @ T :- not ", ["Hot", "some", "always", "at least"]),
        ("P(X) @ T :- some Hot(X) @ [", ["T", "T+1", "T-1"]),
        ("P(X) @ T :- some Hot(X) @ [T-4, ", ["T", "T+1", "T-1"]),
        ("P(X) @ T :- some Hot(X) @ [T-4, T], Hot(", ["Unit", "X", "_"]),
    ],
)
def test_what_may_follow_a_quantifier(line: str, suggested: list[str]) -> None:
    document = Document.of("u", f"input Hot(unit: text) @ time.\n{line}")
    words = completions(document, len(document.text)).words
    assert [word.label for word in words] == suggested
    if line.endswith(("some ", "3 ")):
        assert words[0].insert == "Hot(${1:Unit}) @ [T-${2:4}, T]"


def test_quantifiers_are_explained() -> None:
    document = Document.of("u", WINDOWS)
    for word in ("some", "at", "least"):
        spot = spot_at(document, document.text.index(f"{word} "))
        assert spot is not None
        assert "interval" in (hover(document, spot, facts.Analyses()) or "")


@examples(40, deep=1000)
@given(TEXTS, st.integers(-1, 30), st.integers(0, 60), st.sampled_from(list(Units)))
def test_positions_stay_within_the_text(text: str, line: int, column: int, units: Units) -> None:
    lines = TextLines(text, units)
    offset = lines.offset(line, column)
    assert 0 <= offset <= len(text)
    back = lines.position(offset)
    assert lines.offset(*back) == offset
    document = Document.of("u", text, units)
    assert 0 <= document.offset(line, column) <= len(document.text)


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("P(X) :- E(X)", "P(X) :- E(X)."),
        ("P(X) :- E(X, Y).", "P(X) :- E(X, _)."),
        ("P(X) :- E(X), X <> a.", "P(X) :- E(X), X != a."),
        ("P(X) :- E(X, 'a b').", 'P(X) :- E(X, "a b").'),
        ("# why\nP(a).", "% why\nP(a)."),
        ("P(X) :- E(X).\nP(Y) :- E(Y).\n", "P(X) :- E(X).\n"),
        ("input E(a).\ninput F(a).\nP(X) :- E(X).\n", "input E(a).\nP(X) :- E(X).\n"),
        (
            "input E(a).\nP(X) :- E(X), F(X).\n",
            "input E(a).\ninput F(arg1).\nP(X) :- E(X), F(X).\n",
        ),
        ("output Fla.\nFlag(X) :- E(X).\n", "output Flag.\nFlag(X) :- E(X).\n"),
        ("input E(a: text).\nP(X) :- E(X), E(5).\n", 'input E(a: text).\nP(X) :- E(X), E("5").\n'),
    ],
)
def test_following_a_hint_mends_it(text: str, fixed: str) -> None:
    document = Document.of("u", text)
    fix = next(fix for finding in document.findings() for fix in fixes(document, finding))
    assert fix.preferred
    assert text[: fix.start] + fix.text + text[fix.end :] == fixed
    assert Document.of("u", fixed).findings() == []


def counted(work: Callable[[], R]) -> tuple[R, int]:
    """What some work gives, and its calls: as many on every machine and in every run."""
    profile = cProfile.Profile()
    result = profile.runcall(work)
    return result, sum(entry.callcount for entry in profile.getstats())


def typed(text: str, at: int) -> Iterator[str]:
    """A text while a rule is typed into it: names that are not there yet, then a wrong type."""
    rule = "\nNew(X) @ T+1 :- Hihg7(X) @ T, Near(X, 5). "
    for end in (1, 2, 4, 7, 17, 21, 30, 37, 40, 42, 43, 44):
        yield text[:at] + rule[:end] + text[at:]


def keystroke(document: Document, text: str, common: tuple[Diagnostic, ...]) -> Document:
    """What the server does at once: reads what is touched, and tells what is wrong."""
    changed = document.changed(text)
    for finding in changed.findings(common, server.MOST_FINDINGS):
        server.diagnostic(changed, finding)
    return changed


@pytest.mark.parametrize(
    "kind", ["plant", "circular", pytest.param("absence", marks=pytest.mark.deep)]
)
def test_a_keystroke_in_two_thousand_rules(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No keystroke reads more than a few statements, or does more than so much work.

    How long that takes, `python -m benchmarks editor` tells: 10,000 calls are about 1 ms.
    """
    monkeypatch.syspath_prepend(ROOT)
    files = import_module("benchmarks.editor" if kind == "circular" else "benchmarks.check")
    made = getattr(files, kind)(2000)
    document = Document.of("u", made)
    common = document.common_findings()
    # As when a file is opened: each statement by itself, and names for those that are nearly them.
    document.findings(common)
    Similar(document.program.predicates).to("")
    most = {"read": 0, "typing": 0, "pause": 0}
    for text in typed(made, made.index("\n", len(made) // 2)):
        before = set(document.chunks)
        document, typing = counted(partial(keystroke, document, text, common))
        common, pause = counted(document.common_findings)
        read = len(set(document.chunks) - before)
        now = {"read": read, "typing": typing, "pause": pause}
        most = {name: max(n, now[name]) for name, n in most.items()}
    assert most["read"] <= 2, most
    assert most["typing"] <= 100_000, most
    assert most["pause"] <= 250_000, most


def test_the_collector_leaves_an_open_file_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Going through 2,000 rules takes longer than a keystroke may."""
    usual, at_first = gc.get_threshold(), gc.get_freeze_count()
    try:
        opened = server.make_server()
        opened.protocol.server_capabilities = types.ServerCapabilities()
        monkeypatch.setattr(opened, "publish", lambda *_: None)
        rules = "\n".join(f"P{i}(X) @ T :- E(X) @ T." for i in range(500))
        item = types.TextDocumentItem("u", "tidelog", 1, rules)
        opened.opened(types.DidOpenTextDocumentParams(item))
        assert gc.get_freeze_count() - at_first > 500 * 10
    finally:
        gc.unfreeze()
        gc.set_threshold(*usual)


def test_colours_are_told_as_differences() -> None:
    before = colours.semantic_tokens(Document.of("u", "P(X) :- E(X).\nQ(X) :- E(X).\n"))
    after = colours.semantic_tokens(Document.of("u", "P(X) :- E(X), X > 5.\nQ(X) :- E(X).\n"))
    start, gone, new = colours.edited(before, after)
    assert before[:start] + new + before[start + gone :] == after
    assert len(new) < len(after)


def test_a_change_at_once_is_a_change_in_parts() -> None:
    lines = TextLines("a🌬b\r\nc", Units.UTF16)
    assert lines.replaced((0, 1), (0, 3), "x") == "axb\r\nc"
    assert lines.replaced((0, 99), (1, 0), "") == "a🌬bc"
    assert types.Position(0, 1) < types.Position(0, 2)


def test_rules_with_lengths_of_time_are_analysed() -> None:
    text = "tick 1m.\ninput Beat(x: text) @ t.\nLost(X) @ T :- Beat(X) @ T-10m, Beat(X) @ T+2m.\n"
    program = tidelog.parse(text)
    alone = tidelog.Program(facts.reachable(program, "Lost"))
    assert tidelog.check(str(alone)).errors == ()
