"""Small connected programs at random, redundant on purpose, and small histories for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hypothesis import reject
from hypothesis import strategies as st

import tidelog
from tidelog.language.checks import check
from tidelog.language.diagnostics import Code
from tidelog.language.program import Value

VALUES = {"text": ("a", "b"), "int": ("0", "2"), "float": ("0.5", "2"), "bool": ("true", "false")}
_VARIABLES = {"text": "XYZ", "int": "IJ", "float": "VW", "bool": "BC"}
_ORDERS = ("<", "<=", ">", ">=", "!=", "=")


class Case(NamedTuple):
    text: str
    program: tidelog.Program
    query: str


@dataclass(frozen=True)
class Shape:
    """What a program may have."""

    types: tuple[str, ...] = ("text", "text", "text", "bool")
    comparisons: bool = False
    recursive: bool = False
    facts: bool = True
    points: bool = False  # explicit times in bodies
    rules: int = 4
    atoms: int = 3
    arity: int = 2  # of temporal predicates, at most
    negated: int = 0  # atoms after `not` in a rule, at most; two rules that differ in `not` only
    clock: bool = False
    ticks: int = 0  # of intervals, at most; 0 for none
    arithmetic: bool = False


@dataclass(frozen=True)
class _Predicate:
    name: str
    types: tuple[str, ...]
    temporal: bool = True


# An atom is (predicate, arguments, offset or time point or None).
_Atom = tuple[_Predicate, tuple[str, ...], "int | str | None"]


class _Generator:
    def __init__(self, draw: st.DrawFn, shape: Shape) -> None:
        self.draw, self.shape = draw, shape
        self.inputs = [self.predicate(name) for name in "EFG"[: self.number(1, 3)]]
        rigid = self.chance(1, 3)
        self.rigid = [_Predicate("N", self.types(1, 2), False)] if rigid else []
        self.derived = [self.predicate(name) for name in "QPR"[: self.number(1, 3)]]
        if self.rigid and self.chance(1, 6):
            # What rules say about things that do not change.
            self.derived.append(_Predicate("M", self.rigid[0].types, False))

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def chance(self, n: int, of: int) -> bool:
        return self.draw(st.integers(0, of - 1)) >= of - n

    def types(self, least: int, most: int) -> tuple[str, ...]:
        count = self.number(least, most)
        return tuple(self.draw(st.sampled_from(self.shape.types)) for _ in range(count))

    def predicate(self, name: str) -> _Predicate:
        return _Predicate(name, self.types(0, self.shape.arity))

    def constant(self, type_: str) -> str:
        return self.draw(st.sampled_from(VALUES[type_]))

    def variable(self, type_: str) -> str:
        return self.draw(st.sampled_from(_VARIABLES[type_]))

    # Rules

    def rule(self, head: _Predicate) -> str:
        below = [*self.inputs, *self.rigid]
        below += self.derived[self.derived.index(head) + 1 :]
        if not head.temporal:
            below = self.rigid
        body = [
            self.atom(p)
            for p in self.draw(
                st.lists(st.sampled_from(below), min_size=1, max_size=self.shape.atoms)
            )
        ]
        if head.temporal and not any(isinstance(at, int) for _, _, at in body):
            body.append(self.atom(self.draw(st.sampled_from(self.inputs)), anchored=True))
        if head.temporal and self.shape.recursive and self.chance(1, 2):
            above = self.draw(st.sampled_from([p for p in self.derived if p.temporal]))
            body.append(self.atom(above, back=True))
        return self.finished(head, body, self.absent(below))

    def absent(self, below: list[_Predicate]) -> list[_Predicate]:
        """What a rule wants absent; where recursion is allowed, anything, if it looks back."""
        predicates: list[_Predicate] = []
        while len(predicates) < self.shape.negated and self.chance(2, 3):
            again = self.shape.recursive and self.chance(1, 4)
            predicates.append(self.draw(st.sampled_from(self.derived if again else below)))
        return predicates

    def negated(self, p: _Predicate, bound: dict[str, list[str]], *, timed: bool) -> str:
        """A literal whose variables have values elsewhere."""
        args = tuple(
            self.draw(st.sampled_from(bound[t]))
            if t in bound and not self.chance(1, 3)
            else self.draw(st.sampled_from(("_", self.constant(t))))
            for t in p.types
        )
        if not p.temporal:
            return f"not {_atom(p, args, None)}"
        if not timed or (self.shape.points and self.chance(1, 6)):
            return f"not {_atom(p, args, str(self.number(0, 3)))}"
        back = self.shape.recursive and p in self.derived
        return f"not {_atom(p, args, self.number(-2, -1 if back else 2))}"

    def atom(self, p: _Predicate, *, back: bool = False, anchored: bool = False) -> _Atom:
        args = tuple(self.constant(t) if self.chance(1, 5) else self.variable(t) for t in p.types)
        if not p.temporal:
            return p, args, None
        if self.shape.points and not anchored and self.chance(1, 6):
            return p, args, str(self.number(0, 3))
        return p, args, self.number(-2, 0 if back else 2)

    def finished(
        self, head: _Predicate, body: list[_Atom], absent: Sequence[_Predicate] = ()
    ) -> str:
        bound: dict[str, list[str]] = {}
        for p, args, _ in body:
            for type_, term in zip(p.types, args, strict=True):
                if term[0].isupper():
                    bound.setdefault(type_, []).append(term)
        args = tuple(
            self.draw(st.sampled_from(bound[t]))
            if t in bound and not self.chance(1, 10)
            else self.constant(t)
            for t in head.types
        )
        literals = [_atom(*a) for a in body]
        literals += [self.negated(p, bound, timed=head.temporal) for p in absent]
        literals = [self.over(literal) for literal in literals]
        while self.shape.comparisons and bound and self.chance(1, 2):
            type_ = self.draw(st.sampled_from(sorted(bound)))
            left = self.draw(st.sampled_from(bound[type_]))
            right = (
                self.draw(st.sampled_from(bound[type_]))
                if self.chance(1, 2)
                else self.constant(type_)
            )
            orders = ("=", "!=") if type_ == "bool" else _ORDERS
            if left != right:
                literals.append(f"{left} {self.draw(st.sampled_from(orders))} {right}")
        if self.shape.arithmetic and "int" in bound:
            args = self.calculated(head, args, bound["int"], literals)
        made = _atom(head, args, 0 if head.temporal else None)
        if head.temporal and self.shape.ticks and self.chance(1, 6):
            made = _atom(head, args, f"[T, T+{self.number(1, self.shape.ticks - 1)}]")
        return f"{made} :- {', '.join(literals)}."

    def calculated(
        self, head: _Predicate, args: tuple[str, ...], names: list[str], literals: list[str]
    ) -> tuple[str, ...]:
        """The arguments of a head, one of them perhaps made of integers; comparisons are added."""

        def operand() -> str:
            return self.draw(st.sampled_from([*names, *VALUES["int"]]))

        def made() -> str:
            form = self.draw(
                st.sampled_from(("{} - {}", "{} + {}", "least({}, {})", "abs({} - {})"))
            )
            return form.format(self.draw(st.sampled_from(names)), operand())

        if self.chance(1, 2):
            literals.append(f"{made()} {self.draw(st.sampled_from(_ORDERS))} {operand()}")
        places = [i for i, type_ in enumerate(head.types) if type_ == "int"]
        if not places or self.chance(1, 2):
            return args
        literals.append(f"D = {made()}")
        place = self.draw(st.sampled_from(places))
        return (*args[:place], "D", *args[place + 1 :])

    def over(self, literal: str) -> str:
        """At times, asked for over an interval that ends where it was asked for."""
        at = re.fullmatch(r"(not )?(.*) @ T([+-]\d+)?", literal)
        if at is None or not self.shape.ticks or not self.chance(1, 2):
            return literal
        ticks, last = self.number(1, self.shape.ticks), int(at[3] or 0)
        words = ("some", "always", f"at least {self.number(1, ticks)}")
        interval = f"[T{last - ticks + 1:+d}, T{last:+d}]".replace("+0", "").replace("-0", "")
        return f"{at[1] or ''}{self.draw(st.sampled_from(words))} {at[2]} @ {interval}"

    def like(self, rule: str) -> str:
        """The same rule with more to ask: contained in it, whatever is added."""
        head, body = rule[:-1].split(" :- ")
        change = self.number(0, 2)
        if change == 0:
            for type_, names in _VARIABLES.items():
                if names[0] in body + head and any(type_ in p.types for p in self.inputs):
                    rule = _swap(f"{head} :- {body}", names[0], self.constant(type_))
                    return f"{rule}, {self.more()}."
        if change == 1:
            return f"{_swap(f'{head} :- {body}', 'X', 'Y')}, {self.more()}."
        return f"{head} :- {body}, {self.more()}."

    def split(self, rule: str) -> list[str]:
        """Two rules instead of one: whether something is there or not."""
        head, body = rule[:-1].split(" :- ")
        p = self.draw(st.sampled_from(self.inputs))
        args = tuple(self.constant(t) for t in p.types)
        atom = _atom(p, args, self.number(-2, 2))
        return [f"{head} :- {body}, {atom}.", f"{head} :- {body}, not {atom}."]

    def more(self) -> str:
        p = self.draw(st.sampled_from(self.inputs))
        return _atom(*self.atom(p, anchored=True))

    def program(self) -> str:
        lines = []
        for p in (*self.inputs, *self.rigid):
            columns = ", ".join(f"c{i}: {t}" for i, t in enumerate(p.types))
            lines.append(
                f"input {p.name}"
                + (f"({columns})" if columns else "")
                + (" @ time." if p.temporal else ".")
            )
        rules = [self.rule(p) for p in self.derived]
        while len(rules) < self.shape.rules and self.chance(2, 3):
            if self.chance(1, 2):
                rules.append(self.rule(self.draw(st.sampled_from(self.derived))))
            else:
                old = self.draw(st.sampled_from(rules))
                if "@ T" in old.split(":-")[0]:
                    rules.append(self.like(old))
        if self.shape.negated and self.chance(1, 4):
            old = self.draw(st.sampled_from(rules))
            if "@ T" in old.split(":-")[0]:
                rules.remove(old)
                rules += self.split(old)
        if self.shape.clock and self.chance(1, 2):
            lines.append("clock Tick.")
            head = self.draw(st.sampled_from([d for d in self.derived if d.temporal]))
            rules.append(self.finished(head, [(TICK, (), 0)], [self.inputs[0]]))
        if self.shape.recursive and self.chance(1, 2):
            p = self.draw(st.sampled_from([d for d in self.derived if d.temporal]))
            args = tuple(f"X{i}" for i in range(len(p.types)))
            rules.append(f"{_atom(p, args, self.number(1, 2))} :- {_atom(p, args, 0)}.")
        while self.shape.facts and self.chance(1, 3):
            p = self.draw(st.sampled_from([*self.derived, *self.inputs, *self.rigid]))
            args = tuple(self.constant(t) for t in p.types)
            time = str(self.number(0, 2)) if p.temporal else None
            rules.append(f"{_atom(p, args, time)}.")
        if self.shape.facts and self.rigid and self.chance(1, 10):
            p = self.draw(st.sampled_from([d for d in self.derived if d.temporal]))
            n = self.atom(self.rigid[0])
            terms = dict(zip(self.rigid[0].types, n[1], strict=True))
            args = tuple(terms.get(t) or self.constant(t) for t in p.types)
            rules.append(f"{_atom(p, args, str(self.number(0, 2)))} :- {_atom(*n)}.")
        return "\n".join([*lines, *rules])


def _atom(p: _Predicate, args: tuple[str, ...], at: int | str | None) -> str:
    text = p.name + (f"({', '.join(args)})" if args else "")
    if at is None:
        return text
    return f"{text} @ {at if isinstance(at, str) else f'T{at:+d}' if at else 'T'}"


def _swap(text: str, variable: str, by: str) -> str:
    """Another term for a variable; the time variable T has a letter of its own."""
    for left in "(, ":
        for right in "), ":
            text = text.replace(f"{left}{variable}{right}", f"{left}{by}{right}")
    return text if not text.endswith(f" {variable}") else f"{text[:-1]}{by}"


TICK = _Predicate("Tick", ())
PLAIN = Shape()
NEGATED = Shape(negated=2, types=("text", "bool"), arity=1)


@st.composite
def programs(draw: st.DrawFn, shape: Shape = PLAIN) -> Case:
    text = _Generator(draw, shape).program()
    report = check(text)
    if {d.code for d in report.errors} & {Code.NOT_STRATIFIED, Code.MADE_AROUND_A_CYCLE}:
        reject()
    return Case(text, tidelog.parse(text), "Q")


Facts = dict[str, set[tuple[Value, ...]]]


@st.composite
def histories(draw: st.DrawFn, program: tidelog.Program, last: int = 2, most: int = 6) -> Facts:
    """Facts at ticks 0 to last, over the program's constants and one more object."""
    facts: Facts = {name: set() for name in program.inputs}
    for name, declaration in program.declarations.items():
        for _ in range(draw(st.integers(0, most))):
            row: list[Value] = [
                draw(st.sampled_from(_DATA[str(c.type)])) for c in declaration.columns
            ]
            if declaration.time is not None:
                row.append(draw(st.integers(0, last)))
            facts[name].add(tuple(row))
    return facts


_DATA: dict[str, tuple[Value, ...]] = {
    "text": ("a", "b", "c"),
    "int": (0, 1, 2, 3),
    "float": (0.5, 1.0, 2.0, 3.5),
    "bool": (True, False),
}
