"""Programs and data at random: small domains, so that joins hit, and every corner of the language.

Programs are safe, well typed and well sorted by construction.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from hypothesis import reject
from hypothesis import strategies as st

from tidelog.language.checks import check
from tidelog.language.diagnostics import Code
from tidelog.language.printer import print_program
from tidelog.language.program import (
    Atom,
    Column,
    Comparison,
    Constant,
    Input,
    Literal,
    Negated,
    Operator,
    Output,
    Outputs,
    Program,
    Rule,
    Statement,
    Term,
    Time,
    TimeOffset,
    TimePoint,
    Type,
    Value,
    Variable,
)

_T = TypeVar("_T")


class Case(NamedTuple):
    """A checked program, rows by input (time last, duplicates possible) and what to ask."""

    text: str
    program: Program
    facts: dict[str, list[tuple[Value, ...]]]
    queries: tuple[str, ...]
    low: int
    high: int


VALUES: dict[Type, tuple[Value, ...]] = {
    Type.TEXT: ("a", "b", "c"),
    Type.INT: (0, 1, 2),
    Type.FLOAT: (0.5, 1.0, 2.0),
    Type.BOOL: (False, True),
}
HOSTILE: dict[Type, tuple[Value, ...]] = {
    Type.TEXT: (
        "",
        " ",
        "A",
        "it's",
        'say "hi"',
        "'; drop table facts; --",
        "/* comment */",
        "$1 ? :x %s {0}",
        "back\\slash",
        "nul\x00inside",
        "\x00",
        "two\nlines\r\n\ttab",
        "select",
        "NULL",
        "true",
        "\U0001f30a\u200d\u0301",
        "\uffff",
        "\u202eright to left",
        "1",
        "x" * 10_000,
    ),
    Type.INT: (2**63 - 1, -(2**63), 2**53 + 1, -1),
    Type.FLOAT: (-0.0, 0.0, 0.1, 1e300, -1e300, 5e-324, 2.0**53),
    Type.BOOL: (),
}
NAMES = ("E", "F", "G", "H", "N", "P", "Q", "R", "S", "A", "B", "C")
# Keywords of other languages, names that differ in case only, letters beyond ASCII.
HOSTILE_NAMES = (
    "select",
    "SELECT",
    "Select",
    "table",
    "group",
    "time",
    "rowid",
    "null",
    "b",
    "c",
    "B",
    "C",
    "\u00dcberlauf",
    "\u6e29\u5ea6",
    "_in",
    "p_in",
)
# Floats that one language prints so and another one so.
PRINTED = (1e300, -1e300, 1e16, 1e-7, 0.1, -0.0, 5e-324, 123456789.125)
HUGE = (10_000, 10**6, 10**9, 2**40)
HUGER = 2**57
# Where ticks are likely to be mistaken: around zero and around multiples of 60.
EDGES = (-121, -120, -61, -60, -59, -1, 0, 1, 59, 60, 61, 119, 120)
_VARIABLES = {
    Type.TEXT: ("X", "Y", "Z"),
    Type.INT: ("I", "J"),
    Type.FLOAT: ("V", "W"),
    Type.BOOL: ("B", "C"),
}
# Text and integers more often than the others.
_KINDS = (Type.TEXT, Type.INT, Type.FLOAT, Type.BOOL, Type.TEXT, Type.INT)
_OFFSETS = (0, 0, 0, 0, 0, 0, 1, -1, 1, -1, 1, -1, 2, -2, 3, -3, 4, -4, 5, -5)
_LONG_STEPS = (59, 60, 61, 128)
_NO_ORDER = (Operator.EQ, Operator.NE)


@dataclass(frozen=True)
class Shape:
    """What a generated program may contain."""

    recursive: bool = True
    connected: bool = False
    explicit_times: bool = True
    comparisons: bool = True
    huge: bool = True
    rigid: bool = True
    rules_for_inputs: bool = True
    hostile: bool = False
    max_rules: int = 8
    wide: bool = False


@dataclass(frozen=True)
class GeneratedPredicate:
    name: str
    types: tuple[Type, ...]
    temporal: bool
    input: bool


def programs_and_facts(
    *,
    recursive: bool = True,
    connected: bool = False,
    explicit_times: bool = True,
    comparisons: bool = True,
    huge: bool = True,
    rigid: bool = True,
    rules_for_inputs: bool = True,
    hostile: bool = False,
    max_rules: int = 8,
    wide: bool = False,
) -> st.SearchStrategy[Case]:
    """Programs with data and questions; each option set to False leaves something out.

    `recursive` and `huge` (offsets) are possible, not certain, when True. `connected` makes every
    rule have at most one time variable, which its head has too. `hostile` mixes values and
    predicate names in that are hard to carry through other languages. `wide` has what an attack has
    found mistakes with: offsets near the largest, recursion from a fixed tick on, floats that print
    differently, rigid predicates that nothing derives.
    """
    shape = Shape(
        recursive,
        connected,
        explicit_times,
        comparisons,
        huge,
        rigid,
        rules_for_inputs,
        hostile,
        max_rules,
        wide,
    )
    return _cases(shape)


@st.composite
def _cases(draw: st.DrawFn, shape: Shape) -> Case:
    return Generator(draw, shape).case()


class Generator:
    """Draws one case. Predicates are ordered; rules that do not recurse look down that order."""

    def __init__(self, draw: st.DrawFn, shape: Shape) -> None:
        self.draw = draw
        self.shape = shape
        sizes = (*HUGE, HUGER) if shape.wide else HUGE
        self.huge = draw(st.sampled_from(sizes)) if shape.huge and self.chance(1, 6) else 0
        self.center = draw(st.sampled_from(EDGES)) if self.chance(1, 3) else 0
        # Which way recursion moves time; 0 both ways. Huge steps both ways would fill the line.
        self.way = self.one_of((1, -1) if self.huge else (1, 1, 0, -1))
        self.values = {t: self._values(t) for t in Type}
        self.never: GeneratedPredicate | None = None  # rigid, and rests on itself alone
        self.predicates = self._predicates()

    # Choices

    def chance(self, n: int, of: int) -> bool:
        # Shrinks towards False, so towards the plainer program.
        return self.draw(st.integers(0, of - 1)) >= of - n

    def one_of(self, options: Sequence[_T]) -> _T:
        return self.draw(st.sampled_from(options))

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def _values(self, type_: Type) -> tuple[Value, ...]:
        usual, hostile = VALUES[type_], HOSTILE[type_]
        if not self.shape.hostile or not hostile:
            if self.shape.wide and type_ is Type.FLOAT and self.chance(1, 2):
                return (*usual[1:], self.one_of(PRINTED), self.one_of(PRINTED))
            return usual
        return (*usual[:2], *self.draw(st.lists(st.sampled_from(hostile), max_size=3, unique=True)))

    def offset(self) -> int:
        small = self.one_of(_OFFSETS)
        if self.huge and self.chance(1, 2):
            return self.one_of((1, -1)) * self.huge + small
        return small

    def step(self) -> int:
        """How far a rule persists: any size and sign."""
        if self.huge:
            return self.way * (self.huge + self.number(0, 3))
        step = self.one_of(_LONG_STEPS) if self.chance(1, 10) else self.number(1, 5)
        return (self.way or self.one_of((1, -1))) * step

    def tick(self) -> int:
        far = self.huge * self.number(-1, 1) if self.huge and self.chance(1, 2) else 0
        return self.center + self.number(-3, 3) + far

    # Predicates

    def _predicates(self) -> tuple[GeneratedPredicate, ...]:
        """Temporal inputs, rigid inputs, then what rules derive."""
        shape, free = self.shape, self._names()
        kinds = self.draw(st.lists(st.sampled_from(_KINDS), min_size=1, max_size=2))
        inputs = self.number(1, 3)
        rigid_inputs = self.number(0, 2) if shape.rigid else 0
        derived = self.number(1, min(4, shape.max_rules))
        # A connected rule for a rigid predicate has rigid atoms or explicit times to draw on.
        sources = rigid_inputs or not shape.connected or shape.explicit_times
        rigid_derived = shape.rigid and sources and self.chance(1, 3)

        def predicate(temporal: bool, is_input: bool) -> GeneratedPredicate:
            arity = self.one_of((1, 1, 1, 1, 2, 2, 2, 0, 0, 3))
            types = tuple(self.one_of(kinds) for _ in range(arity))
            return GeneratedPredicate(free.pop(0), types, temporal, is_input)

        predicates = [predicate(True, True) for _ in range(inputs)]
        predicates += [predicate(False, True) for _ in range(rigid_inputs)]
        if shape.wide and shape.rigid and self.chance(1, 3):
            self.never = predicate(False, False)
            predicates.append(self.never)
        predicates += [
            predicate(not (rigid_derived and i == 0 and derived > 1), False) for i in range(derived)
        ]
        return tuple(predicates)

    def _names(self) -> list[str]:
        names = list(NAMES)
        if self.shape.hostile:
            extra = st.lists(st.sampled_from(HOSTILE_NAMES), max_size=6, unique=True)
            names = list(dict.fromkeys([*self.draw(extra), *names]))
        return names

    @property
    def derived(self) -> tuple[GeneratedPredicate, ...]:
        return tuple(p for p in self.predicates if not p.input and p is not self.never)

    @property
    def heads(self) -> tuple[GeneratedPredicate, ...]:
        """What rules may derive: at times an input, though never the first one."""
        if self.shape.rules_for_inputs and self.chance(1, 5):
            return tuple(p for p in self.predicates[1:] if self.below(p) and p is not self.never)
        return self.derived

    def below(self, head: GeneratedPredicate) -> tuple[GeneratedPredicate, ...]:
        """What a rule for it may use without recursion."""
        earlier = self.predicates[: self.predicates.index(head)]
        if not head.temporal and self.shape.connected and not self.shape.explicit_times:
            return tuple(p for p in earlier if not p.temporal)
        return earlier

    # Rules

    def rules(self) -> list[Rule]:
        """A rule for every derived predicate, then more of every kind."""
        rules = [self.rule(p, self.bodies(p)) for p in self.derived]
        if self.never is not None:
            names = tuple(Variable(f"X{i}") for i in range(1, len(self.never.types) + 1))
            rules.append(Rule(Atom(self.never.name, names), (Atom(self.never.name, names),)))
        more = self.number(0, self.shape.max_rules - len(rules))
        while more > 0:
            made = self.one_of(self.kinds())()[:more]
            rules += made
            more -= max(1, len(made))
        return rules

    def kinds(self) -> list[Callable[[], list[Rule]]]:
        kinds = [self.any_rule, self.any_rule, self.there_and_back]
        if self.shape.recursive:
            kinds += [self.persistence, self.guarded, self.guarded, self.closure]
            if self.shape.wide and self.shape.explicit_times:
                kinds += [self.pinned, self.pinned]
            if not self.huge:
                kinds += [self.mutual, self.any_recursion]
        return kinds

    def any_rule(self) -> list[Rule]:
        head = self.one_of(self.heads)
        return [self.rule(head, self.bodies(head))]

    def any_recursion(self) -> list[Rule]:
        """A rule that may use any predicate, its own head and later ones included."""
        head = self.one_of(self.heads)
        return [self.rule(head, [self.one_of(self.predicates), *self.bodies(head)])]

    def there_and_back(self) -> list[Rule]:
        """`A @ T+k :- E @ T. B @ T :- A @ T+k.`"""
        temporal = [p for p in self.derived if p.temporal]
        if len(temporal) < 2:
            return self.any_rule()
        i = self.number(1, len(temporal) - 1)
        there, back = temporal[i - 1], temporal[i]
        source = self.one_of([p for p in self.below(there) if p.temporal])
        k = self.step() if self.chance(1, 2) else self.offset()
        return [self.rule(there, [source], (k, 0)), self.rule(back, [there], (0, k))]

    def persistence(self) -> list[Rule]:
        """`P(X) @ T+k :- P(X) @ T.`, at times with two periods."""
        options = [p for p in self.heads if p.temporal]
        if not options:
            return self.any_rule()
        head = self.one_of(options)
        return [self.persist(head, self.step()) for _ in range(1 + self.chance(1, 4))]

    def persist(self, head: GeneratedPredicate, step: int) -> Rule:
        args = tuple(Variable(f"X{i}") for i in range(1, len(head.types) + 1))
        before, after = self.one_of(((0, step), (-step, 0)))
        return Rule(
            Atom(head.name, args, at_offset(after)), (Atom(head.name, args, at_offset(before)),)
        )

    def pinned(self) -> list[Rule]:
        """`P(X) @ 3 :- E(X) @ 1. P(X) @ T+k :- P(X) @ T.`: recursion from a fixed tick on."""
        options = [p for p in self.derived if p.temporal]
        if not options:
            return self.any_rule()
        head = self.one_of(options)
        rule = self.rule(head, self.bodies(head))
        points = tuple(map(self.at_a_point, rule.body))
        fixed = replace(rule, head=replace(rule.head, time=TimePoint(self.tick())), body=points)
        return [fixed, self.persist(head, self.step())]

    def at_a_point(self, part: Literal) -> Literal:
        """A literal at a fixed tick, if it has a time."""
        if isinstance(part, Negated):
            inner = self.at_a_point(part.atom)
            return Negated(inner) if isinstance(inner, Atom) else part
        if isinstance(part, Atom) and part.time is not None:
            return replace(part, time=TimePoint(self.tick()))
        return part

    def guarded(self) -> list[Rule]:
        """A step that needs an input: `P(Y) @ T+1 :- P(X) @ T, E(X, Y) @ T+1.`"""
        options = [p for p in self.derived if p.temporal]
        if not options:
            return self.any_rule()
        head = self.one_of(options)
        step = 0 if self.chance(1, 5) else self.step()
        return [self.rule(head, [head, self.predicates[0]], (step, 0, self.offset()))]

    def mutual(self) -> list[Rule]:
        """`A @ T+k :- B @ T. B @ T :- A @ T.`"""
        temporal = [p for p in self.derived if p.temporal]
        if len(temporal) < 2:
            return self.persistence()
        i = self.number(1, len(temporal) - 1)
        one, two = temporal[i - 1], temporal[i]
        return [self.rule(one, [two], (self.step(), 0)), self.rule(two, [one], (0, 0))]

    def closure(self) -> list[Rule]:
        """Paths along a rigid relation, or a step of a temporal one along it."""
        options = [p for p in self.derived if not p.temporal or self.chance(1, 2)]
        rigid = [p for p in self.predicates if p.input and not p.temporal]
        if not options or not rigid:
            return self.any_rule()
        head, along = self.one_of(options), self.one_of(rigid)
        if len(head.types) == 2 and head.types == along.types and len(set(head.types)) == 1:
            x, y, z = (Variable(name) for name in "XYZ")
            at = at_offset(0) if head.temporal else None
            body = (Atom(head.name, (x, y), at), Atom(along.name, (y, z)))
            return [Rule(Atom(head.name, (x, z), at), body)]
        return [self.rule(head, [head, along], (0, 0, 0))]

    def bodies(self, head: GeneratedPredicate) -> list[GeneratedPredicate]:
        """Predicates for a body without recursion, among them what a safe head needs."""
        below = self.below(head)
        # The latest are preferred, so that programs get deep.
        first = self.one_of(below[-3:]) if self.chance(1, 2) else self.one_of(below)
        more = self.draw(st.lists(st.sampled_from(below), max_size=self.one_of((0, 1, 1, 2))))
        chosen = [first, *more]
        if head.temporal and not any(p.temporal for p in chosen):
            chosen.append(self.one_of([p for p in below if p.temporal]))
        return chosen

    def rule(
        self,
        head: GeneratedPredicate,
        body: list[GeneratedPredicate],
        times: tuple[int, ...] | None = None,
    ) -> Rule:
        """A rule with such atoms; `times` fixes the offsets, the head's first."""
        count = itertools.count(1)
        bound: dict[Type, list[str]] = {}

        def term(type_: Type) -> Term:
            kind = self.number(0, 15)
            if kind == 15:
                return self.constant(type_)
            if kind >= 13:
                return Variable(f"_#{next(count)}")
            name = self.one_of(_VARIABLES[type_])
            bound.setdefault(type_, []).append(name)
            return Variable(name)

        at, body_times = self.times(head, body) if times is None else _fixed(head, body, times)
        literals: list[Literal] = [
            Atom(p.name, tuple(term(t) for t in p.types), time)
            for p, time in zip(body, body_times, strict=True)
        ]
        args = tuple(
            Variable(self.one_of(bound[t]))
            if t in bound and self.chance(11, 12)
            else self.constant(t)
            for t in head.types
        )
        if self.shape.comparisons and bound:
            while self.chance(1, 5):
                comparison = self.comparison(bound)
                literals.insert(self.number(0, len(literals)), comparison)
        return self.finished(Rule(Atom(head.name, args, at), tuple(literals)), bound)

    def finished(self, rule: Rule, bound: dict[Type, list[str]]) -> Rule:
        """The rule with whatever else there is to say; its variables are those bound, by type."""
        return rule

    def times(
        self, head: GeneratedPredicate, body: list[GeneratedPredicate]
    ) -> tuple[Time | None, list[Time | None]]:
        """The head's time and those of the body's atoms."""
        shape = self.shape
        points = shape.explicit_times
        head_point = points and head.temporal and self.chance(1, 15)
        # Without the head's variable a connected rule has no time variable at all.
        only_points = shape.connected and (head_point or not head.temporal)
        anchored = False
        body_times: list[Time | None] = []
        for p in body:
            if not p.temporal:
                body_times.append(None)
            elif only_points or (anchored and points and self.chance(1, 8)):
                body_times.append(TimePoint(self.tick()))
            elif anchored and not shape.connected and self.chance(1, 10):
                body_times.append(TimeOffset(Variable("S"), self.offset()))
            else:
                anchored = True
                body_times.append(at_offset(self.offset()))
        if not head.temporal:
            return None, body_times
        return (TimePoint(self.tick()) if head_point else at_offset(self.offset())), body_times

    def constant(self, type_: Type) -> Constant:
        if type_ is Type.FLOAT and self.chance(1, 3):
            return Constant.of(self.one_of((1, 2)))  # widens
        return Constant.of(self.one_of(self.values[type_]))

    def comparison(self, bound: dict[Type, list[str]]) -> Comparison:
        type_ = self.one_of(list(bound))
        one = Variable(self.one_of(bound[type_]))
        others = [name for name in dict.fromkeys(bound[type_]) if name != one.name]
        other: Term = (
            Variable(self.one_of(others)) if others and self.chance(1, 2) else self.constant(type_)
        )
        operators = _NO_ORDER if type_ is Type.BOOL else tuple(Operator)
        left, right = (other, one) if self.chance(1, 4) else (one, other)
        return Comparison(left, self.one_of(operators), right)

    # Facts and questions

    def row(self, predicate: GeneratedPredicate) -> tuple[Value, ...]:
        args = tuple(self.one_of(self.values[t]) for t in predicate.types)
        return (*args, self.tick()) if predicate.temporal else args

    def program_facts(self) -> list[Rule]:
        options = [p for p in self.heads if self.shape.explicit_times or not p.temporal]
        facts = []
        for p in self.draw(st.lists(st.sampled_from(options), max_size=2)) if options else ():
            time = TimePoint(self.tick()) if p.temporal else None
            facts.append(Rule(Atom(p.name, tuple(self.constant(t) for t in p.types), time)))
        return facts

    def facts(self) -> dict[str, list[tuple[Value, ...]]]:
        facts: dict[str, list[tuple[Value, ...]]] = {}
        for p in self.predicates:
            if p.input and not self.chance(1, 20):
                size = self.one_of((12, 8, 16, 4, 0)) if p.types or p.temporal else 1
                rows = [self.row(p) for _ in range(size)]
                facts[p.name] = rows + rows[: self.number(0, 1)]
        return facts

    def range(self) -> tuple[int, int]:
        c, reach = self.center, 0
        match self.number(0, 9):
            case 9:
                low, high = c + 50, c + 70
            case 8:
                low, high = c - 70, c + 130
            case 7:
                low, high = c - 1, c + 1
            case _:
                low, high = c - 4 - self.number(0, 6), c + 4 + self.number(0, 6)
        if self.huge and self.chance(4, 5):
            reach = self.huge * self.number(1, 2)
        return low - reach, high + reach

    def asked(self, names: list[str]) -> list[str]:
        return self.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))

    def declarations(self) -> list[Statement]:
        return [
            Input(
                p.name,
                tuple(Column(f"c{i}", t) for i, t in enumerate(p.types, 1)),
                "time" if p.temporal else None,
            )
            for p in self.predicates
            if p.input
        ]

    def case(self) -> Case:
        statements = self.declarations()
        rules = [*self.rules(), *self.program_facts()]
        if self.chance(1, 2):
            rules.reverse()
        heads = list(dict.fromkeys(rule.head.predicate for rule in rules))
        if self.chance(1, 2):
            queries = self.asked([p.name for p in self.predicates[::-1]])
            statements.append(Outputs(tuple(map(Output, queries))))
        else:
            queries = self.asked(heads)
        text = print_program(Program((*statements, *rules)))
        low, high = self.range()
        return Case(text, self.checked(text), self.facts(), tuple(queries), low, high)

    def checked(self, text: str) -> Program:
        report = check(text)
        if any(d.code is Code.NUMBER for d in report.errors):
            reject()  # offsets whose sum does not fit
        return report.accepted()


def _fixed(
    head: GeneratedPredicate, body: list[GeneratedPredicate], offsets: tuple[int, ...]
) -> tuple[Time | None, list[Time | None]]:
    times: list[Time | None] = [
        at_offset(offset) if p.temporal else None
        for p, offset in zip([head, *body], offsets, strict=True)
    ]
    return times[0], times[1:]


def at_offset(offset: int) -> TimeOffset:
    return TimeOffset(Variable("T"), offset)
