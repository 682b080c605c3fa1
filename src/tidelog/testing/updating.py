"""Rewriting expectations: what a run found, put in the place of what the file expected.

Only lists that say exactly what is wanted are rewritten, and tins of `final`; everything else in
the file stays as it is, comments and layout included. What `has` or `has not` says, and limits,
are meant: they are never rewritten.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from tidelog.data.ticks import Ticks
from tidelog.testing.documents import Items, Text
from tidelog.testing.model import Case, Suite, Wanted
from tidelog.testing.patterns import Fact, moment
from tidelog.testing.reading import parse
from tidelog.testing.running import Ran

WIDTH = 100


@dataclass(frozen=True)
class Edit:
    start: int
    end: int
    text: str


def updated(suite: Suite, ran: Iterable[tuple[Case, Ran]]) -> str:
    """The text of a test file that expects what its cases gave."""
    edits: dict[int, Edit] = {}
    for case, each in ran:
        for edit in _edits(suite, case, each):
            edits[edit.start] = edit
    text = suite.source.text
    for edit in sorted(edits.values(), key=lambda e: -e.start):
        text = text[: edit.start] + edit.text + text[edit.end :]
    if text != suite.source.text:
        parse(text.encode(), suite.path)  # what is written can be read again
    return text


def _edits(suite: Suite, case: Case, ran: Ran) -> list[Edit]:
    edits: list[Edit | None] = [
        _list(suite, wanted, ran.answers.get(query, []), named=False)
        for query, wanted in case.expect.items()
    ]
    stream = ran.stream
    if stream is None:
        return [edit for edit in edits if edit is not None]
    for final in case.final:
        tin = stream.answers.get(final.fact)
        if tin is not None and tin != final.tin:
            shown = _quoted(moment(tin, suite.ticks)) if suite.ticks else str(tin)
            edits.append(Edit(final.node.start, final.node.end, shown))
    edits += (
        _list(suite, at.wanted, list(stream.pending[at.tin]), named=True)
        for at in case.pending
        if at.tin in stream.pending
    )
    if case.dead is not None:
        edits.append(_list(suite, case.dead, stream.late, named=True))
    return [edit for edit in edits if edit is not None]


def _list(suite: Suite, wanted: Wanted, facts: list[Fact], *, named: bool) -> Edit | None:
    """The list of what there is, laid out as the one before; None if that is right."""
    node = wanted.node
    if node is None or wanted.exactly is None:
        return None
    if {(f.predicate, *f.key) for f in facts} == {(f.predicate, *f.key) for f in wanted.exactly}:
        return None
    texts = [_quoted(text) for text in compressed(facts, suite.ticks, named=named)]
    return _block(suite, node, texts) if _is_block(node) else _flow(node, texts)


def _is_block(node: Items | Text) -> bool:
    return isinstance(node, Items) and not node.flow and bool(node.items)


def _flow(node: Items | Text, texts: list[str]) -> Edit:
    column = node.origin.column - 1
    line = f"[{', '.join(texts)}]"
    if column + len(line) > WIDTH and texts:
        inside = (",\n" + " " * (column + 2)).join(texts)
        line = f"[\n{' ' * (column + 2)}{inside}\n{' ' * column}]"
    return Edit(node.start, node.end, line)


def _block(suite: Suite, node: Items | Text, texts: list[str]) -> Edit:
    column = node.origin.column - 1
    if texts:
        return Edit(node.start, node.end, ("\n" + " " * column).join(f"- {t}" for t in texts))
    before = suite.source.text[: node.start].rstrip()
    if before.endswith(":"):
        return Edit(len(before), node.end, " []")
    return Edit(node.start, node.end, "  []")  # after a comment: further in than its key


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def compressed(facts: Iterable[Fact], ticks: Ticks | None, *, named: bool) -> list[str]:
    """Facts as a test file lists them, times in a row as ranges.

    >>> compressed([Fact("P", ("a",), t) for t in (1, 4, 5, 6)], None, named=False)
    ['(a) @ 1', '(a) @ 4..6']
    """
    entries: list[tuple[tuple[object, ...], str]] = []
    ordered = sorted(set(facts), key=lambda f: (f.predicate, f.order[1], f.time or 0))
    for _, group in groupby(ordered, key=lambda f: (f.predicate, f.order[1])):
        run: list[Fact] = []
        for fact in group:
            if run and (fact.time is None or fact.time != (run[-1].time or 0) + 1):
                entries.append((run[0].order, _run(run, ticks, named)))
                run = []
            run.append(fact)
        entries.append((run[0].order, _run(run, ticks, named)))
    return [text for _, text in sorted(entries)]


def _run(run: list[Fact], ticks: Ticks | None, named: bool) -> str:
    first, last = run[0], run[-1]
    text = first.text(ticks, named=named)
    return text if len(run) == 1 else f"{text}..{moment(last.time or 0, ticks)}"
