"""Evaluation over small symbolic data: does a goal follow from frozen facts?

Freezing a conjunctive query turns its variables into symbols and its atoms into facts; a comparison
holds on them only if the query's own comparisons entail it. Only what the goal needs is evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from tidelog.analysis.dependencies import Dependencies
from tidelog.analysis.graph import Arc, Bound, longest
from tidelog.language.program import (
    Atom,
    Comparison,
    Constant,
    Operator,
    Rule,
    Term,
    Time,
    TimeOffset,
    TimePoint,
    Type,
    Variable,
)
from tidelog.logic.normalise import Core
from tidelog.logic.order import Assumption, Object, Order, Symbol


class Exhausted(Exception):
    """The budget ended before the answer was known."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact over symbols and constants; no time for rigid ones."""

    predicate: str
    args: tuple[Object, ...]
    time: int | None = None


Goal: TypeAlias = tuple[str, int | None]
Rows: TypeAlias = set[tuple[Object, ...]]

# Goals and rows one evaluation may look at before it gives up.
MOST_WORK = 200_000


@dataclass(frozen=True)
class _Step:
    """One atom of a join: what is known before it, what it settles, what is needed after it."""

    atom: Atom
    before: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    kept: tuple[str, ...]


@dataclass(frozen=True)
class _Join:
    rule: Rule
    steps: tuple[_Step, ...]


def _join(rule: Rule) -> _Join:
    """A rule's atoms in turn, those with most known arguments first.

    Variables are forgotten when nothing later needs them, so that what only has to exist is not
    multiplied out.
    """
    rest, comparisons = list(rule.atoms), list(rule.comparisons)
    known: tuple[str, ...] = ()
    steps: list[_Step] = []
    while rest:
        atom = max(rest, key=lambda a: _boundness(a, known))
        rest.remove(atom)
        bound = {*known, *(v.name for v in atom.variables)}
        due = tuple(c for c in comparisons if {v.name for v in c.variables} <= bound)
        comparisons = [c for c in comparisons if c not in due]
        later = {v.name for a in (rule.head, *rest) for v in a.variables}
        later |= {v.name for c in comparisons for v in c.variables}
        kept = tuple(sorted(bound & later))
        steps.append(_Step(atom, known, due, kept))
        known = kept
    return _Join(rule, tuple(steps))


def _boundness(atom: Atom, known: tuple[str, ...]) -> float:
    """The share of an atom's arguments that are known."""
    fixed = sum(not isinstance(t, Variable) or t.name in known for t in atom.args)
    return fixed / len(atom.args) if atom.args else 1.0


@dataclass
class Canonical:
    """Small-scale evaluation of one core of class 1 or 2."""

    deps: Dependencies
    core: Core = field(init=False)
    work: int = field(default=0, init=False)  # what the last evaluation looked at

    def __post_init__(self) -> None:
        self.core = self.deps.core
        nodes = tuple(self.core.predicates)
        arcs = [Arc(e.body, e.head, e.offset) for e in self.deps.edges if e.offset is not None]
        everywhere = dict.fromkeys(nodes, 0)
        self._ahead, _ = longest(nodes, arcs, everywhere)
        negated = [Arc(a.tail, a.head, -a.weight) for a in arcs]
        self._behind, _ = longest(nodes, negated, everywhere)
        # Where a head has an explicit time, nothing that it rests on need be near.
        self._heads = [
            rule.head.time.tick
            for rule in self.core.rules
            if rule.body and isinstance(rule.head.time, TimePoint)
        ]
        self._facts = [_ground(rule) for rule in self.core.rules if not rule.body]
        self._rules = {
            name: tuple(rule for rule in rules if rule.body)
            for name, rules in self.core.rules_for.items()
        }
        self._joins = {name: tuple(map(_join, rules)) for name, rules in self._rules.items()}
        self._order_of = {
            name: i for i, component in enumerate(self.deps.components) for name in component
        }

    def derives(
        self, facts: Iterable[Fact], goal: Fact, order: Order
    ) -> tuple[bool, Assumption | None]:
        """Whether the goal follows; and if not, a comparison that the order left open."""
        run = _Run(self, [*facts, *self._facts], order)
        try:
            holds = run.holds(goal)
        finally:
            self.work = run.work
        return holds, None if holds else run.open

    @property
    def ahead(self) -> Bound:
        """How far ahead of a goal any derivation looks."""
        return max(self._ahead.values(), default=0)

    @property
    def behind(self) -> Bound:
        """How far back a derivation looks."""
        return max(self._behind.values(), default=0)


class _Run:
    def __init__(self, canonical: Canonical, facts: list[Fact], order: Order) -> None:
        self.canonical = canonical
        self.order = order
        self.open: Assumption | None = None
        self.given: dict[Goal, Rows] = {}
        times = list(canonical._heads)
        for fact in facts:
            row = tuple(order.same(value) for value in fact.args)
            self.given.setdefault((fact.predicate, fact.time), set()).add(row)
            if fact.time is not None:
                times.append(fact.time)
        self.first = min(times, default=0)
        self.last = max(times, default=-1)
        self.tables: dict[Goal, Rows] = {}
        self.work = 0

    def holds(self, goal: Fact) -> bool:
        wanted = tuple(self.order.same(value) for value in goal.args)
        rows = self.solve((goal.predicate, goal.time))
        if wanted in rows:
            return True
        for row in rows:
            for one, other in zip(wanted, row, strict=True):
                self.equal(one, other)
        return False

    def solve(self, goal: Goal) -> Rows:
        goals = self.demanded(goal)
        by_component: dict[int, list[Goal]] = {}
        for found in goals:
            by_component.setdefault(self.canonical._order_of[found[0]], []).append(found)
        for number in sorted(by_component):
            members = by_component[number]
            for member in members:
                self.tables[member] = set(self.given.get(member, ()))
            recursive = members[0][0] in self.canonical.deps.recursive
            changed = True
            while changed:
                changed = False
                for member in members:
                    rows = self.tables[member]
                    before = len(rows)
                    for join in self.canonical._joins.get(member[0], ()):
                        rows.update(self.apply(join, member[1]))
                    changed = changed or (recursive and len(rows) > before)
        return self.tables.get(goal, set())

    def demanded(self, goal: Goal) -> list[Goal]:
        """Every goal below a goal that can hold at all, given the times of the facts."""
        seen: dict[Goal, None] = {}
        todo = [goal]
        while todo:
            found = todo.pop()
            if found in seen or not self.possible(found):
                continue
            seen[found] = None
            self._spend()
            for rule in self.canonical._rules.get(found[0], ()):
                if not isinstance(rule.head.time, TimePoint) or rule.head.time.tick == found[1]:
                    shift = _shift(rule, found[1])
                    todo.extend((a.predicate, _at(a.time, shift)) for a in rule.atoms)
        return list(seen)

    def possible(self, goal: Goal) -> bool:
        name, time = goal
        if time is None:
            return True
        return (
            time + self.canonical._ahead[name] >= self.first
            and time - self.canonical._behind[name] <= self.last
        )

    def apply(self, join: _Join, time: int | None) -> Rows:
        """Head rows of a rule at a time."""
        rule = join.rule
        if isinstance(rule.head.time, TimePoint) and rule.head.time.tick != time:
            return set()
        if not join.steps and not all(self.compare(c, {}) for c in rule.comparisons):
            return set()
        shift = _shift(rule, time)
        partial: Rows = {()}
        for step in join.steps:
            following: Rows = set()
            rows = self.tables.get((step.atom.predicate, _at(step.atom.time, shift)), ())
            for known in partial:
                for row in rows:
                    self._spend()
                    found = self.extended(step, known, row)
                    if found is not None:
                        following.add(found)
            partial = following
        names = join.steps[-1].kept if join.steps else ()
        return {
            tuple(self.value(t, dict(zip(names, known, strict=True))) for t in rule.head.args)
            for known in partial
        }

    def extended(
        self, step: _Step, known: tuple[Object, ...], row: tuple[Object, ...]
    ) -> tuple[Object, ...] | None:
        """What is known after one more atom, as far as it is still needed; None without a match."""
        binding = dict(zip(step.before, known, strict=True))
        for term, value in zip(step.atom.args, row, strict=True):
            if isinstance(term, Variable) and term.name not in binding:
                binding[term.name] = value
            elif not self.equal(self.value(term, binding), value):
                return None
        if all(self.compare(c, binding) for c in step.comparisons):
            return tuple(binding[name] for name in step.kept)
        return None

    def value(self, term: Term, binding: dict[str, Object]) -> Object:
        return binding[term.name] if isinstance(term, Variable) else self.order.same(term)

    def _spend(self) -> None:
        self.work += 1
        if self.work > MOST_WORK:
            raise Exhausted

    def equal(self, one: Object, other: Object) -> bool:
        """Same representative. Two bools that are not known to differ are left open."""
        if one == other:
            return True
        bools = all(v.type is Type.BOOL for v in (one, other))
        if bools and self.order.entails(one, Operator.EQ, other) is None:
            self.open = self.open or (one, Operator.EQ, other)
        return False

    def compare(self, comparison: Comparison, binding: dict[str, Object]) -> bool:
        left = self.value(comparison.left, binding)
        right = self.value(comparison.right, binding)
        known = self.order.entails(left, comparison.operator, right)
        if known is None:
            self.open = self.open or (left, comparison.operator, right)
        return known is True


def splits(order: Order, one: Object, op: Operator, other: Object) -> Iterator[Order]:
    """The ways a comparison of two values can turn out, each as an order of its own."""
    cases: tuple[Assumption, ...]
    if Type.BOOL in (one.type, other.type):
        symbol = one if isinstance(one, Symbol) else other
        cases = tuple((symbol, Operator.EQ, Constant(v, Type.BOOL)) for v in (True, False))
    elif op in (Operator.EQ, Operator.NE):
        cases = ((one, Operator.EQ, other), (one, Operator.NE, other))
    else:
        cases = tuple((one, way, other) for way in (Operator.LT, Operator.EQ, Operator.GT))
    for case in cases:
        following = order.assume(case)
        if following is not None:
            yield following


def _ground(rule: Rule) -> Fact:
    time = rule.head.time.tick if isinstance(rule.head.time, TimePoint) else None
    args = tuple(t for t in rule.head.args if isinstance(t, Constant))
    return Fact(rule.head.predicate, args, time)


def _shift(rule: Rule, time: int | None) -> int | None:
    """The value of the rule's time variable when its head is at a time."""
    if isinstance(rule.head.time, TimeOffset) and time is not None:
        return time - rule.head.time.offset
    return None


def _at(time: Time | None, shift: int | None) -> int | None:
    if isinstance(time, TimePoint):
        return time.tick
    if isinstance(time, TimeOffset):
        assert shift is not None, "rules of class 1 and 2 are connected"
        return shift + time.offset
    return None
