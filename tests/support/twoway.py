"""Programs at random whose derivations run through time both ways, with short periods.

No bounded horizon is exact for every such program. Periods are at most 5 here and few meet, so that
a horizon of some dozen ticks nearly always is; `closure` says None where doubling it gives more.

With `absence` there are strata above, which negate what lies below them. A horizon that cuts off
what is negated would invent facts at its edge, which then come back from there: so every stratum
has a narrower horizon than those below, and what is absent there is given to it as facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple, TypeVar

from hypothesis import strategies as st
from oracle import naive
from oracle.horizon import Answers

import tidelog
from tidelog.language.program import (
    Atom,
    Constant,
    Literal,
    Negated,
    Program,
    Rule,
    TimePoint,
    Value,
    Variable,
)

_T = TypeVar("_T")
Facts = dict[str, set[tuple[Value, ...]]]

# Periods are 1 to 5, and two of them meet within their product.
MARGIN = 50


class Case(NamedTuple):
    text: str
    program: tidelog.Program
    facts: Facts
    low: int
    high: int


@dataclass(frozen=True)
class Shape:
    """What a program may have; without arguments, everything is propositional."""

    arguments: bool = True
    arities: tuple[int, ...] = (1, 0, 1, 2)
    objects: tuple[str, ...] = ("a", "b", "c")
    points: bool = True  # explicit times
    free: bool = True  # rigid heads over times, heads at fixed times, two time variables
    comparisons: bool = True
    rigid: bool = True
    last: int = 3  # facts lie at ticks 0 to last
    absence: bool = False  # strata above, with `not`


@dataclass(frozen=True)
class _Predicate:
    name: str
    arity: int
    temporal: bool = True


class _Generator:
    def __init__(self, draw: st.DrawFn, shape: Shape) -> None:
        self.draw, self.shape = draw, shape
        arities = shape.arities if shape.arguments else (0,)
        self.inputs = [_Predicate(n, self.one_of(arities)) for n in "EF"[: self.number(1, 2)]]
        self.rigid: list[_Predicate] = []
        if shape.rigid and self.chance(1, 3):
            self.rigid = [_Predicate("N", 2 if shape.arguments else 0, False)]
        self.derived = [_Predicate(n, self.one_of(arities)) for n in "PQRS"[: self.number(3, 4)]]
        self.known: list[_Predicate] = []  # rigid, derived from what happens in time
        if shape.free and self.chance(2, 3):
            self.known = [_Predicate("K", self.one_of(arities), False)]

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def chance(self, n: int, of: int) -> bool:
        return self.draw(st.integers(0, of - 1)) >= of - n

    def one_of(self, options: Sequence[_T]) -> _T:
        return self.draw(st.sampled_from(options))

    def term(self) -> str:
        return self.one_of(["X", "X", "X", "Y", "Y", "Z", "a"])

    def atom(self, p: _Predicate, time: str) -> tuple[str, list[str]]:
        args = [self.term() for _ in range(p.arity)]
        return _atom(p, args, time), [a for a in args if a.isupper()]

    def plain(self, p: _Predicate, time: str) -> tuple[str, list[str]]:
        args = ["X", "Y"][: p.arity]
        return _atom(p, args, time), args

    def period(self) -> int:
        return self.one_of((1, 1, 2, 2, 3, 3, 4, 5))

    # Rules

    def meeting(self) -> list[str]:
        """Two are carried on with different periods until they meet; what then holds comes back."""
        way = self.one_of((1, -1))
        one, two, back, *_ = self.derived
        periods = self.one_of(((2, 3), (3, 4), (2, 5), (3, 5), (4, 5), (5, 4), (1, 3)))
        rules = [self.step(p, way * k) for p, k in zip((one, two), periods, strict=True)]
        for p in (one, two):
            source = self.plain(self.one_of(self.inputs), "T")
            rules.append(self.finished(p, _time(self.number(-2, 2)), [source]))
        body = [self.plain(one, "T"), self.plain(two, _time(self.number(-1, 1)))]
        if self.rigid and self.chance(1, 3):
            body.append(self.atom(self.rigid[0], ""))
        kind = self.number(0, 3)
        if kind == 0 and self.known:
            rules.append(self.finished(self.known[0], "", body))
            body = [self.atom(self.known[0], ""), self.atom(self.one_of(self.inputs), "T")]
        if kind == 1 and self.shape.free:
            return [*rules, self.finished(back, str(self.tick()), body), self.step(back, -way)]
        if kind == 2 and self.shape.free:
            body.append(self.atom(self.one_of(self.inputs), "S"))
            return [*rules, self.finished(back, "S", body)]
        return [*rules, self.finished(back, "T", body), self.step(back, -way * self.number(1, 3))]

    def step(self, p: _Predicate, step: int) -> str:
        return f"{self.plain(p, _time(step))[0]} :- {self.plain(p, 'T')[0]}."

    def carried(self) -> str:
        """`P(X) @ T+k :- P(X) @ T.`, either way, at times only while an input says so."""
        p = self.one_of(self.derived)
        step = self.period() * self.one_of((1, -1))
        guard = ""
        if self.rigid and self.chance(1, 4):
            guard = f", {self.atom(self.one_of(self.rigid), '')[0]}"
        return f"{self.plain(p, _time(step))[0]} :- {self.plain(p, 'T')[0]}{guard}."

    def joined(self) -> str:
        """Any predicates at times near each other."""
        return self.rule(self.one_of(self.derived), "T")

    def start(self, p: _Predicate) -> str:
        return self.finished(
            p, _time(self.number(-2, 2)), [self.atom(self.one_of(self.inputs), "T")]
        )

    def freed(self) -> str:
        """Rigid heads over temporal bodies, heads at fixed times, two time variables."""
        kind = self.number(0, 2)
        if kind == 0 and self.known:
            return self.rule(self.known[0], "")
        if kind == 1:
            return self.rule(self.one_of(self.derived), str(self.tick()))
        return self.rule(self.one_of(self.derived), "T", second=True)

    def tick(self) -> int:
        return self.number(-2, self.shape.last + 4)

    def rule(self, head: _Predicate, time: str, *, second: bool = False) -> str:
        temporal = [*self.derived, *self.derived, *self.inputs]
        body = [self.atom(self.one_of(temporal), _time(self.number(-2, 2)))]
        for _ in range(self.number(0, 2)):
            p = self.one_of([*temporal, *self.rigid, *self.known])
            at = _time(self.number(-2, 2)) if p.temporal else ""
            if p.temporal and self.shape.points and self.chance(1, 6):
                at = str(self.tick())
            body.append(self.atom(p, at))
        if second:
            body += [
                self.atom(self.one_of(temporal), _time(self.number(-1, 1), "S"))
                for _ in range(self.number(1, 2))
            ]
        if time == "T":
            time = _time(self.number(-2, 2))
        return self.finished(head, time, body)

    def finished(self, head: _Predicate, time: str, body: list[tuple[str, list[str]]]) -> str:
        bound = [v for _, variables in body for v in variables]
        args = [
            self.one_of([*bound, "b"]) if bound else self.one_of("ab") for _ in range(head.arity)
        ]
        literals = [text for text, _ in body]
        if self.shape.comparisons and len(set(bound)) > 1 and self.chance(1, 4):
            left, right = self.one_of(bound), self.one_of(bound)
            if left != right:
                literals.append(f"{left} {self.one_of(('!=', '<', '='))} {right}")
        return f"{_atom(head, args, time)} :- {', '.join(literals)}."

    # Strata above

    def above(self) -> list[str]:
        """One or two strata, each over all predicates below, which may be absent."""
        below = [*self.inputs, *self.derived]
        timeless = [*self.rigid, *self.known]
        rules: list[str] = []
        for names, rigid in (("UV", "K1"), ("W", "K2"))[: self.number(1, 2)]:
            arities = self.shape.arities if self.shape.arguments else (0,)
            own = [_Predicate(name, self.one_of(arities)) for name in names]
            for p in own:
                rules.append(self.absent(p, _time(self.number(-2, 2)), below, below, timeless))
                both = [*own, *own, *below]
                for _ in range(self.number(0, 2)):
                    step = _time(self.period() * self.one_of((1, -1)))
                    rules.append(
                        self.absent(p, step, [p], below, timeless)
                        if self.chance(1, 2)
                        else self.absent(p, _time(self.number(-2, 2)), both, below, timeless)
                    )
            below = [*below, *own]
            if self.shape.free and self.chance(1, 2):
                known = _Predicate(rigid, self.one_of(arities), False)
                rules.append(self.absent(known, "", below[-2:], below[:-2], timeless))
                timeless = [*timeless, known]
        return rules

    def absent(
        self,
        head: _Predicate,
        time: str,
        positive: Sequence[_Predicate],
        negated: Sequence[_Predicate],
        timeless: Sequence[_Predicate],
    ) -> str:
        """A rule that wants one or two facts at times near each other absent."""
        body = [self.plain(self.one_of(positive), "T")]
        variables = ["T"]
        if self.chance(1, 3):
            body.append(self.atom(self.one_of(positive), _time(self.number(-2, 2))))
        if self.shape.free and self.chance(1, 6):
            body.append(self.atom(self.one_of(positive), "S"))
            variables.append("S")
        bound = [v for _, some in body for v in some]
        for _ in range(self.number(1, 2)):
            p = self.one_of([*negated, *negated, *timeless])
            args = [self.one_of([*bound, "_", "a"]) for _ in range(p.arity)]
            at = _time(self.number(-2, 2), self.one_of(variables)) if p.temporal else ""
            if p.temporal and self.shape.points and self.chance(1, 8):
                at = str(self.tick())
            body.append((f"not {_atom(p, args, at)}", []))
        return self.finished(head, time, body)

    def program(self) -> str:
        lines = []
        for p in (*self.inputs, *self.rigid):
            columns = ", ".join(f"c{i}: text" for i in range(p.arity))
            time = " @ time" if p.temporal else ""
            lines.append(f"input {p.name}{f'({columns})' if columns else ''}{time}.")
        if self.chance(2, 3):
            rules = self.meeting()
            more = self.number(0, 2)
        else:
            rules = [self.start(p) for p in self.derived]
            rules += [self.rule(p, "") for p in self.known]
            rules += [self.carried(), self.carried()]
            more = self.number(1, 4)
        # What nothing derives would otherwise be taken for an input.
        missing = [p for p in (*self.derived, *self.known) if not _defined(p, rules)]
        rules += [self.rule(p, "T" if p.temporal else "") for p in missing]
        kinds = [self.carried, self.joined, self.joined]
        if self.shape.free:
            kinds.append(self.freed)
        rules += [self.one_of(kinds)() for _ in range(more)]
        if self.shape.points and self.chance(1, 6):
            p = self.one_of(self.derived)
            rules.append(
                f"{_atom(p, [self.one_of('abd') for _ in range(p.arity)], str(self.tick()))}."
            )
        if self.shape.absence:
            rules += self.above()
        return "\n".join([*lines, *rules])

    def facts(self) -> Facts:
        facts: Facts = {}
        for p in (*self.inputs, *self.rigid):
            rows = facts[p.name] = set()
            for _ in range(self.one_of((1, 1, 2, 2, 3, 4, 0))):
                row: list[Value] = [self.one_of(self.shape.objects) for _ in range(p.arity)]
                rows.add((*row, self.number(0, self.shape.last)) if p.temporal else tuple(row))
        return facts


def _atom(p: _Predicate, args: Sequence[str], time: str) -> str:
    text = p.name + (f"({', '.join(args)})" if args else "")
    return f"{text} @ {time}" if p.temporal else text


def _defined(p: _Predicate, rules: list[str]) -> bool:
    return any(rule.startswith(p.name) for rule in rules)


def _time(offset: int, variable: str = "T") -> str:
    return f"{variable}{offset:+d}" if offset else variable


@st.composite
def cases(draw: st.DrawFn, shape: Shape) -> Case:
    made = _Generator(draw, shape)
    text = made.program()
    facts = made.facts()
    # Few ticks, so that what happens beyond them is on the half lines.
    low = draw(st.integers(-3, shape.last))
    return Case(text, tidelog.parse(text), facts, low, low + draw(st.integers(0, 4)))


def closure(case: Case, facts: Facts | None = None, margin: int = MARGIN) -> Answers | None:
    """Every derived predicate over a wide horizon; None if a wider one gives more."""
    bounded = [_bounded(case, facts or case.facts, wide) for wide in (margin, 2 * margin)]
    return bounded[0] if bounded[0] == bounded[1] else None


def _bounded(case: Case, facts: Facts, margin: int) -> Answers:
    layers = _layers(case.program)
    if len(layers) == 1:
        return naive.evaluate(case.program, facts, case.program.heads, case.low, case.high, margin)
    points = [int(row[-1]) for name, rows in facts.items() if name in "EF" for row in rows]
    points += [
        atom.time.tick
        for rule in case.program.rules
        for atom in (rule.head, *rule.atoms)
        if isinstance(atom.time, TimePoint)
    ]
    low, high = min([case.low, *points]), max([case.high, *points])
    known: Answers = {name: set(rows) for name, rows in facts.items()}
    timed = {name for name in (*known, *case.program.heads) if not name.startswith(("K", "N"))}
    values = {v for name, rows in facts.items() for row in rows for v in row if isinstance(v, str)}
    for rule in case.program.rules:
        terms = [term for atom in (rule.head, *rule.atoms) for term in atom.args]
        values |= {str(term.value) for term in terms if isinstance(term, Constant)}
    for number, rules in enumerate(layers):
        wide = margin * (len(layers) - number)
        ticks = range(low - wide, high + wide + 1)
        inside = {
            name: {row for row in rows if name not in timed or int(row[-1]) in ticks}
            for name, rows in known.items()
        }
        absent = _Absent(inside, sorted(values), ticks)
        program = Program(tuple(absent.positive(rule) for rule in rules))
        heads = {rule.head.predicate for rule in rules}
        known |= naive.evaluate(
            program, {**inside, **absent.facts}, heads, ticks[0], ticks[-1], 0, 10_000_000
        )
    return {
        name: {
            row for row in known[name] if name not in timed or case.low <= int(row[-1]) <= case.high
        }
        for name in case.program.heads
    }


def _layers(program: tidelog.Program) -> list[list[Rule]]:
    """The rules by stratum, the lowest first."""
    layer = dict.fromkeys(program.heads, 0)
    changed = True
    while changed:
        changed = False
        for rule in program.rules:
            needed = [layer.get(a.predicate, 0) for a in rule.positive]
            needed += [layer[a.predicate] + 1 for a in rule.negative if a.predicate in layer]
            if max(needed, default=0) > layer[rule.head.predicate]:
                layer[rule.head.predicate] = max(needed)
                changed = True
    # What inputs lack is given too: they are below the lowest stratum.
    rules = [
        [r for r in program.rules if layer[r.head.predicate] == i] for i in set(layer.values())
    ]
    return rules if any(r.negative for r in program.rules) else [list(program.rules)]


class _Absent:
    """What is absent at some ticks, as facts of predicates made for it."""

    def __init__(self, known: Answers, values: Sequence[str], ticks: range) -> None:
        self.known, self.values, self.ticks = known, values, ticks
        self.facts: Answers = {}

    def positive(self, rule: Rule) -> Rule:
        body: Iterator[Literal] = (
            self.given(literal.atom) if isinstance(literal, Negated) else literal
            for literal in rule.body
        )
        return replace(rule, body=tuple(body))

    def given(self, atom: Atom) -> Atom:
        """An atom that holds where no row of the other's predicate matches it."""
        kept = [
            i
            for i, term in enumerate(atom.args)
            if not (isinstance(term, Variable) and term.name.startswith("_"))
        ]
        name = f"no {atom.predicate} {kept}"
        if name not in self.facts:
            arity = len(atom.args)
            times = [()] if atom.time is None else [(tick,) for tick in self.ticks]
            there = {
                (*(row[i] for i in kept), *row[arity:])
                for row in self.known.get(atom.predicate, ())
            }
            self.facts[name] = {
                (*args, *time)
                for args in product(self.values, repeat=len(kept))
                for time in times
                if (*args, *time) not in there
            }
        return Atom(name, tuple(atom.args[i] for i in kept), atom.time)
