"""What is known of the predicates of a document: columns, types, comments, and its analyses."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass

import tidelog
from tidelog.analysis.analyze import Analysis
from tidelog.analysis.delay import Measure
from tidelog.errors import NoAnswer
from tidelog.language.printer import print_type
from tidelog.language.program import (
    Clock,
    Input,
    Outputs,
    Program,
    Rule,
    Statement,
    TickLength,
)
from tidelog.language.tokens import Kind
from tidelog.lsp.document import Document
from tidelog.views.terminal import plural

# Seconds that the searches for a delay and a window may take before bounds are shown.
BUDGET = 1.0
# Analyses that are remembered.
MOST_REMEMBERED = 1_000


def columns(document: Document, predicate: str) -> tuple[str, ...]:
    """Names for the arguments of a predicate."""
    program = document.program
    if predicate in program.heads_of or predicate in program.declarations:
        return program.output_columns(predicate)
    arity = len(document.types.get(predicate, ()))
    return tuple(f"arg{i + 1}" for i in range(arity))


def kind(document: Document, predicate: str) -> str:
    if predicate in document.program.clocks:
        return "clock"
    parts = ["input"] if predicate in document.inputs else []
    parts += ["output"] if predicate in document.outputs else []
    return " and ".join(parts) or "derived predicate"


def signature(document: Document, predicate: str) -> str:
    """`Temp(device: text, level: text) @ time`"""
    names, types = columns(document, predicate), document.types.get(predicate, ())
    args = ", ".join(
        f"{name}: {print_type(type_)}" for name, type_ in zip(names, types, strict=False)
    )
    time = " @ time" if predicate in document.temporal else ""
    return f"{predicate}{f'({args})' if args else ''}{time}"


# Comments


def comment_of(document: Document, predicate: str) -> str:
    """The comment above the first statement that declares or derives a predicate, or after it.

    It is Markdown that shows the text as it is: a file that somebody sent may have images in it.
    """
    return _MARKUP.sub(r"\\\g<0>", _comment_of(document, predicate))


# What means something in Markdown, or in HTML within it.
_MARKUP = re.compile(r"[\\`*_{}\[\]()<>#&!|~]")


def _comment_of(document: Document, predicate: str) -> str:
    for i, chunk in enumerate(document.chunks):
        if any(_defines(statement, predicate) for statement in chunk.statements):
            after = document.chunks[i + 1].tokens[:1] if i + 1 < len(document.chunks) else ()
            return _above(chunk.text) or _beside(document, i, after)
    return ""


def _defines(statement: Statement, predicate: str) -> bool:
    match statement:
        case Input() | Clock():
            return statement.predicate == predicate
        case Rule():
            return statement.head.predicate == predicate
        case Outputs() | TickLength():
            return False


def _above(text: str) -> str:
    """The lines of comment right above a statement, no blank line between."""
    first = re.search(r"^[ \t]*[^\s%]", text, re.MULTILINE)
    lines = text[: first.start() if first else len(text)].split("\n")[1:]
    comments: list[str] = []
    for line in reversed(lines[:-1]):
        if not line.strip().startswith("%"):
            break
        comments.append(line.strip().lstrip("%").strip())
    return "\n".join(reversed(comments))


def _beside(document: Document, i: int, after: Iterable[object]) -> str:
    """A comment on the line on which a statement ends; it begins the chunk that follows."""
    following = document.chunks[i + 1] if i + 1 < len(document.chunks) else None
    if following is None or not following.tokens:
        return ""
    token = following.tokens[0]
    if token.kind is Kind.COMMENT and "\n" not in following.text[: token.start]:
        return token.text.lstrip("%").strip()
    return ""


# Analyses


@dataclass
class Analyses:
    """Class, delay, window and state of queries, remembered while the rules they rest on stay."""

    def __post_init__(self) -> None:
        self._known: dict[object, Analysis | str] = {}
        self._held: dict[object, tuple[Statement, ...]] = {}  # so that no id is used twice
        self._lock = threading.Lock()

    def of(self, document: Document, query: str) -> Analysis | str:
        """An analysis, or why there is none; takes a second or so when the rules have changed."""
        statements = reachable(document.program, query)
        key = (query, *map(id, statements))
        with self._lock:
            if key in self._known:
                return self._known[key]
        analysis = self._analysed(tidelog.Program(statements), query)
        with self._lock:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
                self._held.clear()
            self._known[key], self._held[key] = analysis, statements
        return analysis

    def _analysed(self, program: tidelog.Program, query: str) -> Analysis | str:
        if list(tidelog.check(str(program)).errors):
            return "the rules have errors"
        try:
            return tidelog.analyze(program, query, budget=BUDGET)
        except (NoAnswer, ValueError) as error:
            return str(error)


def reachable(program: Program, query: str) -> tuple[Statement, ...]:
    """The statements that a query rests on: its rules, those of what they use, and declarations."""
    rules: dict[str, list[Rule]] = {}
    for rule in program.rules:
        rules.setdefault(rule.head.predicate, []).append(rule)
    needed, todo = {query}, [query]
    while todo:
        for rule in rules.get(todo.pop(), ()):
            new = [a.predicate for a in rule.atoms if a.predicate not in needed]
            needed.update(new)
            todo += new
    return tuple(
        s
        for s in program.statements
        if (isinstance(s, Rule) and s.head.predicate in needed)
        or (isinstance(s, Input) and s.predicate in needed)
        or isinstance(s, TickLength)
    )


def summary(analysis: Analysis | str) -> str:
    """One line for a lens: `delay 2, window 2, class 1`."""
    if isinstance(analysis, str):
        return analysis
    if analysis.refused is not None:
        return f"class {analysis.deps.cls.value}, at a fixed time"
    parts = [f"delay {_measured(analysis.delay)}", f"window {_measured(analysis.window)}"]
    return ", ".join([*parts, f"class {analysis.deps.cls.value}"])


def _measured(measure: Measure | None) -> str:
    if measure is None:
        return "unknown"
    match measure.lower, measure.upper, measure.exact:
        case None, None, True:
            return "infinite"
        case lower, None, _:
            return f"{lower or 0} or more"
        case _, upper, True:
            return str(upper)
        case lower, upper, _:
            return f"{lower} to {upper}"


def details(analysis: Analysis | str, document: Document) -> list[str]:
    """The same in full, a line each."""
    if isinstance(analysis, str):
        return [analysis]
    deps = analysis.deps
    lines = [f"class {deps.cls.value}, {deps.cls.title}: {deps.reason.message}"]
    if analysis.refused is not None:
        lines.append(analysis.refused)
    for name, measure in (("delay", analysis.delay), ("window", analysis.window)):
        if measure is not None:
            reason = f": {measure.reason}" if measure.upper is None and measure.reason else ""
            lines.append(f"{name} {_measured(measure)}{reason}")
    kept = {name: int(n) for name, n in deps.keep.items() if 0 < n < float("inf")}
    if deps.cls.value == 3:
        lines.append("state may grow with the stream")
    elif kept:
        slices = ", ".join(f"{name} {n}" for name, n in kept.items())
        lines.append(f"state: {plural(sum(kept.values()), 'older slice')} kept ({slices})")
    else:
        lines.append("state: no older slices")
    return [in_file(line, document) for line in lines]


def in_file(text: str, document: Document) -> str:
    """A sentence with places in chunks told as lines of the file."""

    def line(place_text: re.Match[str]) -> str:
        place = document.places.get(place_text.group(1))
        return f"line {place[0] + int(place_text.group(2)) - 1}" if place else "an earlier line"

    return re.sub(r"(#\d+):(\d+)", line, text)
