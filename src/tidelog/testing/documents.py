"""YAML with places: every value knows its line, and scalars stay the text that was written.

PyYAML composes nodes with marks, and leaves their meaning to us: `no`, `1:30` and `0x10` are text
here, whatever YAML 1.1 makes of them, and a mistake can be shown where it is. Its pure Python
reader is used, whose marks count characters; test files are small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import yaml

from tidelog.language.checks import Similar, decode
from tidelog.language.diagnostics import Source, excerpt, visible
from tidelog.language.program import Origin


@dataclass(frozen=True)
class Problem:
    """Something wrong with a test file, where it is, and what to do about it."""

    message: str
    origin: Origin
    hint: str | None = None

    def lines(self, source: Source) -> list[str]:
        """As text, laid out as the diagnostics of rules are."""
        hint = [f"hint: {visible(self.hint)}"] if self.hint else []
        return [f"error: {visible(self.message)}", *excerpt(self.origin, source), *hint]

    def as_json(self) -> dict[str, object]:
        return {
            "message": self.message,
            "file": self.origin.file,
            "line": self.origin.line,
            "column": self.origin.column,
            "hint": self.hint,
        }


class WrongFile(Exception):
    """A test file cannot be used; carries every problem of it."""

    def __init__(self, problems: Iterable[Problem], source: Source) -> None:
        self.problems = tuple(problems)
        self.source = source
        super().__init__("\n\n".join("\n".join(p.lines(source)) for p in self.problems))


@dataclass(frozen=True)
class Text:
    """A scalar as it was written; `start` and `end` are offsets into the file."""

    value: str
    origin: Origin
    start: int
    end: int
    empty: bool = False


@dataclass(frozen=True)
class Items:
    items: tuple[Node, ...]
    origin: Origin
    start: int
    end: int
    flow: bool


@dataclass(frozen=True)
class Fields:
    fields: dict[str, tuple[Text, Node]]
    origin: Origin
    start: int
    end: int


Node: TypeAlias = "Text | Items | Fields"


@dataclass
class YamlFile:
    """A file that is being read, and what is wrong with it so far."""

    source: Source
    problems: list[Problem] = field(default_factory=list)
    nodes: int = 0  # how many of its nodes have been looked at

    def wrong(self, place: Node | Origin, message: str, hint: str | None = None) -> None:
        """Note a problem; what follows a semicolon in its message is the hint."""
        origin = place if isinstance(place, Origin) else place.origin
        if hint is None:
            message, _, hint = message.partition("; ")
        self.problems.append(Problem(message, origin, hint))

    # Values of the shape that is wanted; None, and a problem, for others

    def fields(self, node: Node, what: str, known: Iterable[str] | None) -> Fields | None:
        """A mapping; keys that are not known are problems, unless any will do."""
        if not isinstance(node, Fields):
            example = f", such as `{next(iter(known))}: ...`" if known else ""
            self.wrong(node, f"{what} is a mapping{example}", "write `key: value` in it")
            return None
        if known is not None:
            known = tuple(known)
            for name, (key, _) in node.fields.items():
                if name not in known:
                    self.wrong(key, f"{what} has no key `{name}`", _other(name, known))
        return node

    def items(self, node: Node, what: str) -> Items | None:
        if not isinstance(node, Items):
            self.wrong(node, f"{what} is a list", "write `[...]`, or a line with `- ` for each")
            return None
        return node

    def text(self, node: Node, what: str) -> Text | None:
        if not isinstance(node, Text) or node.empty:
            self.wrong(node, f"{what} is text", "write it in quotes")
            return None
        return node

    def texts(self, node: Node, what: str) -> Iterator[Text]:
        """The members of a list of texts."""
        listed = self.items(node, what)
        for item in listed.items if listed else ():
            text = self.text(item, f"an entry of {what}")
            if text is not None:
                yield text

    def whole(self, node: Node, what: str, least: int | None = None) -> int | None:
        """A whole number."""
        text = node.value if isinstance(node, Text) else ""
        digits = text.removeprefix("-")
        if not digits.isascii() or not digits.isdigit() or len(digits) > 19:
            self.wrong(node, f"{what} is a whole number", "write digits only, such as 2")
            return None
        if least is not None and int(text) < least:
            self.wrong(node, f"{what} is {least} or more", f"write {least} or a greater number")
            return None
        return int(text)


def _other(name: str, known: tuple[str, ...]) -> str:
    if name == "<<":
        return "there are no merge keys: put what the tests share at the top of the file"
    near = Similar(known).to(name)
    return f"did you mean `{near}`?" if near else f"the keys are {', '.join(known)}"


def read(raw: bytes, file: str) -> tuple[YamlFile, Node]:
    """The one document of a file; WrongFile if it is none."""
    source, unreadable = decode(raw, file)
    document = YamlFile(source)
    if unreadable is not None:
        document.wrong(unreadable.origin, unreadable.message, unreadable.hint)
        raise WrongFile(document.problems, source)
    try:
        composed = yaml.compose(source.text, yaml.SafeLoader)
        if composed is None:
            problem = Problem(
                "the file is empty",
                source.origin(0, 1),
                "start with `rules: rules.tdl` and a list of `tests`",
            )
            raise WrongFile([problem], source)
        top = _node(composed, document, 0)
    except _Endless as error:
        said = "the aliases multiply: written out, the file is many times as long"
        problem = Problem(said, error.origin, "write the values out, or split the file")
        raise WrongFile([problem], source) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise WrongFile([_unreadable(error, source)], source) from None
    return document, top


# A test file has five levels; deeper ones are wrong, and might not even end.
_DEEPEST = 12


# Nodes that a file may have more than characters: aliases repeat what they stand for.
_REPEATED = 100_000


class _Endless(Exception):
    """A file whose aliases, written out, have no end worth waiting for."""

    def __init__(self, origin: Origin) -> None:
        super().__init__()
        self.origin = origin


def _node(node: yaml.Node, document: YamlFile, depth: int) -> Node:
    start, end = node.start_mark.index, node.end_mark.index
    origin = document.source.origin(start, max(end, start + 1))
    document.nodes += 1
    if document.nodes > len(document.source.text) + _REPEATED:
        raise _Endless(origin)
    match node:
        case yaml.ScalarNode():
            empty = node.style is None and node.value in ("", "~", "null", "Null", "NULL")
            return Text(node.value, origin, start, end, empty)
        case yaml.SequenceNode() if depth < _DEEPEST:
            items = tuple(_node(item, document, depth + 1) for item in node.value)
            flow = bool(node.flow_style)
            # The mark after a block lies before whatever comes next: its last entry ends it.
            end = end if flow or not items else items[-1].end
            return Items(items, origin, start, end, flow)
        case yaml.MappingNode() if depth < _DEEPEST:
            fields: dict[str, tuple[Text, Node]] = {}
            for key, value in node.value:
                name = _node(key, document, depth + 1)
                if not isinstance(name, Text):
                    document.wrong(name, "a key is text", "put it in quotes")
                    continue
                if name.value in fields:
                    before = fields[name.value][0].origin.line
                    document.wrong(
                        name, f"`{name.value}` is there twice", f"the first is on line {before}"
                    )
                    continue
                fields[name.value] = (name, _node(value, document, depth + 1))
            if not node.flow_style and fields:
                end = max(value.end for _, value in fields.values())
            return Fields(fields, origin, start, end)
        case _:
            document.wrong(origin, "this is nested too deeply; a test file has few levels")
            return Text("", origin, start, end, empty=True)


# What PyYAML says, and what helps.
_REMEDIES = (
    ("'\\t'", "indent with spaces: YAML allows no tabs there"),
    ("mapping values are not allowed", "put text with `: ` in it in quotes"),
    ("'@'", "text that starts with `@` is put in quotes"),
    ("'%'", "text that starts with `%` is put in quotes"),
    ("'`'", "text that starts with a backquote is put in quotes"),
    ("unexpected end of stream", "a quote is not closed"),
    ("block mapping", "keys of one mapping start in the same column"),
    ("block collection", "entries of one list start in the same column"),
    ("flow mapping", "close it with `}`, and separate entries with commas"),
    ("flow sequence", "close it with `]`, and separate entries with commas"),
    ("another document", "one file holds one document: leave `---` out"),
    ("undefined alias", "an alias `*name` repeats an anchor `&name` before it"),
)


def _unreadable(error: Exception, source: Source) -> Problem:
    at, said, context = 0, "it is nested too deeply", ""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        at = mark.index if mark is not None else 0
        said, context = error.problem or "it cannot be read", error.context or ""
    elif isinstance(error, yaml.reader.ReaderError):
        at = error.position
        said = f"the character U+{ord(source.text[at]):04X} is not allowed"
    everything = f"{said} {context}"
    hint = next((remedy for sign, remedy in _REMEDIES if sign in everything), None)
    return Problem(f"this is not YAML: {said}", source.origin(at, at + 1), hint)
