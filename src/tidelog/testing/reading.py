"""Test files in: YAML to a suite, with every mistake of the file in one run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import tidelog
from tidelog import Program, ProgramError
from tidelog.data.ticks import Ticks
from tidelog.language.diagnostics import Source
from tidelog.language.parser import parse_source
from tidelog.language.program import (
    Atom,
    Constant,
    Rule,
    Value,
    Variable,
    fixed_ticks,
)
from tidelog.language.types import widen
from tidelog.testing.documents import Fields, Items, Node, Text, WrongFile, YamlFile, read
from tidelog.testing.model import Case, CaseFacts, Final, PendingAt, QueryLimit, Suite, Wanted
from tidelog.testing.patterns import Fact, FactPattern, Vocabulary, tick_of
from tidelog.testing.series import MOST_VALUES, series

ENDINGS = (".test.yaml", ".test.yml")

_SHARED = ("facts", "files", "series")
_TOP = ("rules", "tests", "limits", "tick", "origin", *_SHARED)
_CASE = (
    "name",
    "series",
    "facts",
    "files",
    "expect",
    "final",
    "pending",
    "dead",
    "arrives",
    "lateness",
    "max jump",
    "from",
    "to",
)
_LISTED = ("has", "has not")
_LIMITS = ("delay", "window", "class", "state")


def load(path: str | os.PathLike[str]) -> Suite:
    """The suite of a test file; WrongFile carries every mistake in it."""
    return parse(Path(path).read_bytes(), str(path))


def parse(raw: bytes, file: str) -> Suite:
    """The suite of the text of a test file, whose name says where other files are."""
    document, node = read(raw, file)
    top = document.fields(node, "a test file", _TOP)
    suite = _Reader(document, Path(file).parent).suite(top) if top is not None else None
    if suite is None or document.problems:
        order = sorted(document.problems, key=lambda p: (p.origin.line, p.origin.column))
        raise WrongFile(dict.fromkeys(order), document.source)
    return suite


@dataclass
class _Reader:
    document: YamlFile
    folder: Path

    def suite(self, top: Fields) -> Suite | None:
        for name in ("rules", "tests"):
            if name not in top.fields:
                hint = "write `rules: rules.tdl`" if name == "rules" else "write a list of `tests:`"
                self.document.wrong(_begin(self.document), f"there is no `{name}`", hint)
        program, rules = self._rules(top)
        self.ticks = self._ticks(top, program)
        listed = self._child(top, "tests")
        tests = None if listed is None else self.document.items(listed, "`tests`")
        items = (
            []
            if tests is None
            else [self.document.fields(item, "a test", _CASE) for item in tests.items]
        )
        if program is None:
            return None
        self.words = Vocabulary(program, self.ticks)
        shared = self._given(top)
        cases = [self._case(fields, shared) for fields in items if fields is not None]
        if tests is not None and not tests.items:
            self.document.wrong(tests, "there are no tests in the list", "write `- name: ...`")
        self._names(cases)
        limits = self._child(top, "limits")
        return Suite(
            self.document.source.file,
            self.document.source,
            rules,
            program.in_whole_ticks,
            tuple(cases),
            tuple(self._limits(limits)) if limits is not None else (),
            self.ticks,
        )

    def _child(self, fields: Fields, name: str) -> Node | None:
        entry = fields.fields.get(name)
        if entry is None:
            return None
        if isinstance(entry[1], Text) and entry[1].empty:
            self.document.wrong(entry[0], f"`{name}` has no value", "give it one, or leave it out")
            return None
        return entry[1]

    def _ticks(self, top: Fields, program: Program | None) -> Ticks | None:
        """How long a tick is: by the test file, or by the rules."""
        tick, origin = self._child(top, "tick"), self._child(top, "origin")
        own = None if program is None else program.tick
        if tick is None and own is None:
            if origin is not None:
                self.document.wrong(origin, "`origin` goes with `tick`", "write `tick: 10m`")
            return None
        text = None if tick is None else self.document.text(tick, "`tick`")
        start = None if origin is None else self.document.text(origin, "`origin`")
        said = None if text is None else text.value
        length = own if tick is None else said
        if length is None:
            return None
        begin = None if start is None else start.value
        place = tick or origin
        try:
            ticks = Ticks.of(length, begin)
        except ValueError as error:
            assert place is not None, "what the rules say is right"
            message, _, hint = str(error).partition(": ")
            self.document.wrong(place, message, hint or "write it as 2014-01-01T00:10Z")
            return None
        if tick is not None and own is not None and ticks != Ticks.of(own, begin):
            message = f"the rules say `tick {own}.`, and ticks of {length} are asked for"
            self.document.wrong(tick, message, "leave `tick` out: that of the rules is enough")
            return Ticks.of(own, begin)
        return ticks

    def _rules(self, top: Fields) -> tuple[Program | None, str]:
        node = self._child(top, "rules")
        text = None if node is None else self.document.text(node, "`rules`")
        if text is None:
            return None, ""
        path = os.path.normpath(self.folder / text.value)
        try:
            return tidelog.load(path), path
        except ProgramError as error:
            first = next(d for d in error.diagnostics if d.code.id.startswith("E"))
            self.document.wrong(
                text,
                f"the rules are wrong: {first.origin}: {first.message}",
                f"`tidelog check {path}` shows all that is wrong with them",
            )
        except OSError as error:
            self.document.wrong(
                text,
                f"cannot read {path}: {error.strerror or error}",
                "the path goes from the folder of the test file",
            )
        return None, path

    def _names(self, cases: list[Case]) -> None:
        seen: dict[str, Case] = {}
        for case in cases:
            first = seen.setdefault(case.name, case)
            if first is not case:
                self.document.wrong(
                    case.origin,
                    f"two tests are called `{case.name}`",
                    f"the first is on line {first.origin.line}",
                )

    # Cases

    def _case(self, fields: Fields, shared: CaseFacts) -> Case:
        named = fields.fields.get("name")
        name = None if named is None else self.document.text(named[1], "a name")
        if named is None:
            self.document.wrong(fields, "this test has no name", "give it one: `name: ...`")
        own = self._given(fields)
        expect = self._child(fields, "expect")
        final = self._child(fields, "final")
        pending = self._child(fields, "pending")
        dead = self._child(fields, "dead")
        if expect is final is pending is dead is None:
            at = name if name is not None else fields
            self.document.wrong(at, "this test expects nothing", "add `expect: {P: [...]}`")
        low, high = self._time(fields, "from"), self._time(fields, "to")
        lateness = self._child(fields, "lateness")
        jump = self._child(fields, "max jump")
        whole = self.document.whole
        return Case(
            "" if name is None else name.value,
            fields.origin if name is None else name.origin,
            CaseFacts(
                (*shared.facts, *own.facts), (*shared.files, *own.files), self._arrives(fields, own)
            ),
            {} if expect is None else dict(self._expect(expect)),
            () if final is None else tuple(self._final(final)),
            () if pending is None else tuple(self._pending(pending)),
            None if dead is None else self._wanted(dead, "`dead`", None),
            (0 if lateness is None else whole(lateness, "`lateness`", 0)) or 0,
            None if jump is None else whole(jump, "`max jump`", 1),
            low,
            high,
        )

    def _time(self, fields: Fields, name: str) -> int | None:
        node = self._child(fields, name)
        text = None if node is None else self.document.text(node, f"`{name}`")
        try:
            return None if text is None else tick_of(text.value, self.ticks)
        except ValueError as error:
            self.document.wrong(text or fields, f"`{name}`: {error}")
            return None

    # Facts

    def _given(self, fields: Fields) -> CaseFacts:
        facts: list[Fact] = []
        for name, read_ in (("facts", self._facts), ("series", self._series)):
            node = self._child(fields, name)
            if node is not None:
                facts += read_(node)
        node = self._child(fields, "files")
        return CaseFacts(tuple(facts), () if node is None else tuple(self._files(node)))

    def _facts(self, node: Node) -> Iterator[Fact]:
        """Statements of the language, or a list of facts with ranges and timestamps."""
        if isinstance(node, Items):
            for text in self.document.texts(node, "`facts`"):
                pattern = self._pattern(text, None, inputs=True, ground=True)
                yield from pattern.facts() if pattern is not None else ()
            return
        text_ = self.document.text(node, "`facts`")
        if text_ is None:
            return
        parsed = parse_source(Source("", text_.value))
        for diagnostic in parsed.diagnostics[:1]:
            self.document.wrong(text_, f"in the facts: {diagnostic.message}", diagnostic.hint)
        for statement in parsed.program.statements:
            yield from self._statement(statement, text_)

    def _statement(self, statement: object, place: Text) -> list[Fact]:
        try:
            if not isinstance(statement, Rule) or statement.body:
                raise ValueError("these are not facts; one is written `P(a, 1) @ 5.`")
            return self._facts_of(statement.head)
        except ValueError as error:
            self.document.wrong(place, str(error))
            return []

    def _facts_of(self, atom: Atom) -> list[Fact]:
        """The fact, at each tick if it has an interval."""
        self.words.check(atom.predicate, self.words.program.inputs)
        args = self.words.arguments(atom)
        ticks = fixed_ticks(atom.time)
        if None in args or (atom.time is not None and not ticks):
            raise ValueError(f"a fact of `{atom.predicate}` has a variable; write a constant")
        if (atom.time is not None) != self.words.temporal[atom.predicate]:
            has = "a" if atom.time is None else "no"
            example = "`P(a) @ 5.`" if atom.time is None else "`P(a).`"
            raise ValueError(f"`{atom.predicate}` has {has} time in the rules; write {example}")
        if len(ticks) > MOST_VALUES:
            raise ValueError(
                f"`{atom.predicate}` has a fact for each of {len(ticks):,} ticks;"
                f" {MOST_VALUES:,} are the most"
            )
        return [Fact(atom.predicate, args, tick) for tick in ticks or (None,)]

    def _files(self, node: Node) -> Iterator[Path]:
        texts = [node] if isinstance(node, Text) else self.document.texts(node, "`files`")
        for text in texts:
            path = Path(os.path.normpath(self.folder / text.value))
            if path.exists():
                yield path
            else:
                hint = "the path goes from the folder of the test file"
                self.document.wrong(text, f"{path}: no such file or folder", hint)

    def _arrives(self, fields: Fields, own: CaseFacts) -> dict[Fact, int]:
        node = self._child(fields, "arrives")
        entries = None if node is None else self.document.fields(node, "`arrives`", None)
        arrives: dict[Fact, int] = {}
        known = set(own.facts)
        for key, value in entries.fields.values() if entries is not None else ():
            pattern = self._pattern(key, None, inputs=True, ground=True)
            tick = self._tick(value, "the tick at which a fact arrives")
            if pattern is None or tick is None:
                continue
            for fact in pattern.facts():
                if fact.time is None:
                    self.document.wrong(
                        key, "facts without a time are there from the start; leave it out"
                    )
                elif fact not in known:
                    self.document.wrong(
                        key,
                        f"`{fact.text(self.ticks)}` is not among the facts of this test",
                        "list it in `facts` or `series` as well",
                    )
                else:
                    arrives[fact] = tick
        return arrives

    def _series(self, node: Node) -> Iterator[Fact]:
        entries = self.document.fields(node, "`series`", None)
        for key, value in entries.fields.values() if entries is not None else ():
            try:
                yield from self._one_series(key, value)
            except ValueError as error:
                self.document.wrong(key, str(error))

    def _one_series(self, key: Text, value: Node) -> Iterator[Fact]:
        """`Temp(north, _) @ 5`: each `_` takes the values of its series, from a time on."""
        timed = key.value if "@" in key.value else f"{key.value} @ 0"
        pattern = self.words.pattern(timed)
        self.words.check(pattern.predicate, self.words.program.inputs)
        if pattern.low is None or pattern.low != pattern.high:
            raise ValueError(f"`{key.value}`: a series starts at one time; write `@ 5`")
        holes = [i for i, arg in enumerate(pattern.args) if arg is None]
        columns = self._columns(value, len(holes) or 1)
        if columns is None:
            return
        for offset, row in enumerate(zip(*columns, strict=True)):
            if None not in row:
                args = self._filled(pattern, holes, row, value)
                if args is None:
                    return
                yield Fact(pattern.predicate, args, pattern.low + offset)

    def _columns(self, value: Node, holes: int) -> list[list[Value | None]] | None:
        """The values of each `_`: one series, or a list of as many as there are."""
        nodes = list(value.items) if isinstance(value, Items) else [value]
        if len(nodes) != holes:
            many = "a list of series, one for each" if holes > 1 else "one series, as text"
            self.document.wrong(value, f"{len(nodes)} series for {holes} `_`", f"write {many}")
            return None
        columns: list[list[Value | None]] = []
        for node in nodes:
            text = self.document.text(node, "a series")
            if text is None:
                return None
            try:
                columns.append(series(text.value))
            except ValueError as error:
                self.document.wrong(text, str(error))
                return None
        lengths = [len(column) for column in columns]
        if len(set(lengths)) > 1:
            counted = ", ".join(map(str, lengths))
            self.document.wrong(
                value, f"these series have {counted} values", "fill the shorter ones with `_`"
            )
            return None
        return columns

    def _filled(
        self, pattern: FactPattern, holes: list[int], row: Iterable[Value | None], place: Node
    ) -> tuple[Value, ...] | None:
        args = list(pattern.args)
        types = self.words.types.columns[pattern.predicate]
        for i, value in zip(holes, row, strict=False):
            assert value is not None
            term = widen(Constant.of(value), types[i])
            assert not isinstance(term, Variable)
            try:
                args[i] = self.words.fitting(term, pattern.predicate, i)
            except ValueError as error:
                self.document.wrong(place, str(error))
                return None
        if not holes and list(row) != ["x"]:
            self.document.wrong(
                place, f"`{pattern.predicate}` has no `_` to fill", "write `x` where it holds"
            )
            return None
        return tuple(a for a in args if a is not None)

    # Expectations

    def _pattern(
        self,
        text: Text,
        predicate: str | None,
        *,
        inputs: bool = False,
        ground: bool = False,
        unseen: bool = False,
    ) -> FactPattern | None:
        """A pattern; if it is to be ground, `_` may at most stand for an object not seen yet."""
        try:
            pattern = self.words.pattern(text.value, predicate)
            if inputs:
                self.words.check(pattern.predicate, self.words.program.inputs)
        except ValueError as error:
            self.document.wrong(text, str(error))
            return None
        if ground and not pattern.ground and not (unseen and pattern.low is not None):
            self.document.wrong(
                text,
                f"`{text.value}` stands for many facts",
                "`_` goes with `has` and `has not`",
            )
            return None
        return pattern

    def _patterns(self, node: Node, what: str, predicate: str | None) -> Iterator[FactPattern]:
        for text in self.document.texts(node, what):
            pattern = self._pattern(text, predicate)
            if pattern is not None:
                yield pattern

    def _exactly(
        self, node: Node, what: str, predicate: str | None, *, unseen: bool = False
    ) -> Iterator[Fact]:
        if isinstance(node, Text) and node.value == "none":
            return
        for text in self.document.texts(node, what):
            pattern = self._pattern(text, predicate, ground=True, unseen=unseen)
            yield from pattern.facts() if pattern is not None else ()

    def _wanted(self, node: Node, what: str, predicate: str | None) -> Wanted:
        """A list is exactly these, `none` is none of them; a mapping says has and has not."""
        if not isinstance(node, Fields):
            exactly = tuple(self._exactly(node, what, predicate))
            return Wanted(node.origin, exactly, node=node)
        self.document.fields(node, what, _LISTED)
        if not node.fields:
            self.document.wrong(node, f"{what} says nothing", "write `has: [...]`")
        return Wanted(node.origin, None, *self._has(node, what, predicate))

    def _has(
        self, fields: Fields, what: str, predicate: str | None
    ) -> tuple[tuple[FactPattern, ...], tuple[FactPattern, ...]]:
        has, has_not = (self._child(fields, name) for name in _LISTED)
        return (
            () if has is None else tuple(self._patterns(has, f"`has` of {what}", predicate)),
            ()
            if has_not is None
            else tuple(self._patterns(has_not, f"`has not` of {what}", predicate)),
        )

    def _by_predicate(self, node: Node, what: str) -> Iterator[tuple[Text, Node]]:
        """The entries of a mapping whose keys are predicates of the rules."""
        entries = self.document.fields(node, what, None)
        for key, value in entries.fields.values() if entries is not None else ():
            if self._known(key):
                yield key, value

    def _known(self, key: Text) -> bool:
        """Whether a key is a predicate of the rules; it is told where it is not."""
        try:
            self.words.check(key.value)
        except ValueError as error:
            self.document.wrong(key, str(error))
            return False
        return True

    def _expect(self, node: Node) -> Iterator[tuple[str, Wanted]]:
        for key, value in self._by_predicate(node, "`expect`"):
            yield key.value, self._wanted(value, f"what `{key.value}` expects", key.value)

    def _tick(self, node: Node, what: str) -> int | None:
        text = self.document.text(node, what)
        try:
            return None if text is None else tick_of(text.value, self.ticks)
        except ValueError as error:
            self.document.wrong(node, f"{what}: {error}")
            return None

    def _final(self, node: Node) -> Iterator[Final]:
        entries = self.document.fields(node, "`final`", None)
        for key, value in entries.fields.values() if entries is not None else ():
            pattern = self._pattern(key, None, ground=True)
            tin = self._tick(value, "the tin at which an answer is final")
            if pattern is None or tin is None or not isinstance(value, Text):
                continue
            for fact in pattern.facts():
                if fact.time is None:
                    self.document.wrong(
                        key, f"`{fact.predicate}` has no time; only answers with one have a tin"
                    )
                else:
                    yield Final(fact, tin, key.origin, value)

    def _pending(self, node: Node) -> Iterator[PendingAt]:
        nodes = node.items if isinstance(node, Items) else (node,)
        for item in nodes:
            fields = self.document.fields(item, "`pending`", ("at", "exactly", *_LISTED))
            if fields is None:
                continue
            if "at" not in fields.fields:
                self.document.wrong(fields, "`pending` needs a tin", "write `at: 2`")
                continue
            tin = self._tick(fields.fields["at"][1], "`at`")
            exactly = self._child(fields, "exactly")
            has, has_not = self._has(fields, "`pending`", None)
            if exactly is None and not has and not has_not:
                self.document.wrong(fields, "`pending` says nothing", "write `has: [...]`")
            listed = None
            if exactly is not None:
                listed = tuple(self._exactly(exactly, "`exactly` of `pending`", None, unseen=True))
            rewritable = None if isinstance(exactly, Fields) else exactly
            if tin is not None:
                yield PendingAt(tin, Wanted(fields.origin, listed, has, has_not, rewritable))

    # Limits

    def _limits(self, node: Node) -> Iterator[QueryLimit]:
        for key, value in self._by_predicate(node, "`limits`"):
            fields = self.document.fields(value, f"a limit of `{key.value}`", _LIMITS)
            if fields is None:
                continue
            numbers = {
                name: self.document.whole(fields.fields[name][1], f"`{name}`", 0)
                for name in ("delay", "window", "class")
                if name in fields.fields
            }
            state = self._child(fields, "state")
            yield QueryLimit(
                key.value,
                key.origin,
                numbers.get("delay"),
                numbers.get("window"),
                numbers.get("class"),
                None if state is None else self._state(state),
            )

    def _state(self, node: Node) -> int | dict[str, int] | None:
        if not isinstance(node, Fields):
            return self.document.whole(node, "`state`", 0)
        slices: dict[str, int] = {}
        for key, value in node.fields.values():
            number = self.document.whole(value, f"the state of `{key.value}`", 0)
            self._known(key)
            if number is not None:
                slices[key.value] = number
        return slices


def _begin(document: YamlFile) -> Text:
    return Text("", document.source.origin(0, 1), 0, 1)
