"""What a hint of a diagnostic advises, as an edit that can be made with a click."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tidelog.language.diagnostics import Code, Diagnostic
from tidelog.language.program import Input
from tidelog.lsp.document import Document

# Operators of other languages of which ours reads the first half.
_FOREIGN = ("<>", "=<", "=>")


@dataclass(frozen=True)
class Fix:
    """A title, and what to put in the place of a stretch of the text."""

    title: str
    start: int
    end: int
    text: str
    preferred: bool = False


def fixes(document: Document, diagnostic: Diagnostic) -> Iterator[Fix]:
    """The edits that would follow a diagnostic's hint."""
    start, end = _stretch(document, diagnostic)
    hint = diagnostic.hint or ""
    quoted = re.findall(r"`([^`]+)`", hint)
    written = document.text[start:end]
    if hint.startswith("did you mean ") and quoted:
        yield _renamed(diagnostic, start, written, quoted[0])
    match diagnostic.code:
        case Code.SYNTAX:
            if document.text[start - 1 : start + 1] in _FOREIGN:
                start, end = start - 1, start + 1
            yield from _syntax(hint, quoted, start, end, written)
        case Code.SINGLE_OCCURRENCE:
            for i, name in enumerate(quoted):
                yield Fix(f"write `{name}`", start, end, name, preferred=i == 0)
        case Code.UNDECLARED if "declare it" in hint and quoted:
            at = _after_declarations(document)
            yield Fix(f"declare it: `{quoted[-1]}`", at, at, f"{quoted[-1]}\n", preferred=True)
        case Code.TYPE if hint.startswith("text is written in quotes") and quoted:
            yield Fix(f"write `{quoted[-1]}`", start, end, quoted[-1], preferred=True)
        case Code.DUPLICATE_RULE | Code.UNUSED_INPUT:
            what = "rule" if diagnostic.code is Code.DUPLICATE_RULE else "declaration"
            yield Fix(f"remove this {what}", *_whole(document, start, end), "", preferred=True)
        case Code.DECLARED_TWICE if "is declared twice" in diagnostic.message:
            yield Fix("remove this declaration", *_whole(document, start, end), "", preferred=True)
        case Code.LOWER_CASE if quoted:
            yield Fix(f"write `{quoted[-1]}`", start, end, quoted[-1])
        case Code.UNSAFE_HEAD if "constants start" in hint and written:
            yield Fix(f'write `"{written}"`', start, end, f'"{written}"')


def _syntax(hint: str, quoted: list[str], start: int, end: int, written: str) -> Iterator[Fix]:
    if hint == "end the statement with `.`":
        yield Fix("end the statement with `.`", start, start, ".", preferred=True)
    elif hint.startswith("a comment starts with `%`"):
        yield Fix("write `%`", start, end, "%", preferred=True)
    elif re.match(r"(different|less-or-equal|greater-or-equal) is written", hint):
        yield Fix(f"write `{quoted[0]}`", start, end, quoted[0], preferred=True)
    elif hint.startswith("text is written in") and len(written) > 1:
        inside = written[1:-1].replace("\\", "\\\\").replace('"', '\\"')
        yield Fix("use double quotes", start, end, f'"{inside}"', preferred=True)
    elif hint == "`and` is written `,`":
        yield Fix("write `,`", start, end, ",", preferred=True)


def _renamed(diagnostic: Diagnostic, start: int, written: str, name: str) -> Fix:
    """The one name in the place of the other; the diagnostic may cover a whole atom."""
    old = next(iter(re.findall(r"`([^`]+)`", diagnostic.message)), written)
    return Fix(f"write `{name}`", start, start + len(old), name, preferred=True)


def _stretch(document: Document, diagnostic: Diagnostic) -> tuple[int, int]:
    origin = diagnostic.origin
    first = document.source.bounds(origin.line)[0] + origin.column - 1
    last = document.source.bounds(origin.end_line)[0] + origin.end_column - 1
    return min(first, len(document.text)), min(last, len(document.text))


def _after_declarations(document: Document) -> int:
    """The start of the line after the last declared input, or of the file."""
    last = 0
    for start, chunk in zip(document.starts, document.chunks, strict=True):
        if any(isinstance(s, Input) for s in chunk.statements):
            last = start + len(chunk.text)
    if last == 0:
        return 0
    end = document.text.find("\n", last)
    return len(document.text) if end < 0 else end + 1


def _whole(document: Document, start: int, end: int) -> tuple[int, int]:
    """A statement with its line, where nothing else is on it."""
    text = document.text
    line = text.rfind("\n", 0, start) + 1
    after = text.find("\n", end)
    after = len(text) if after < 0 else after + 1
    alone = not text[line:start].strip() and not text[end:after].strip()
    return (line, after) if alone else (start, end)
