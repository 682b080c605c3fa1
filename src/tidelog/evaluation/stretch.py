"""Facts on a stretch of time, closed under rules one fact at a time.

A rule fires on each new fact of its body; the other atoms are looked up at the ticks that follow
from it. The timeline closes its middle and the windows of its half lines this way.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from tidelog.analysis.dependencies import Dependencies
from tidelog.language.program import (
    Atom,
    Comparison,
    Constant,
    Literal,
    Rule,
    Term,
    TimeOffset,
    TimePoint,
    Value,
)
from tidelog.logic.normalise import Core
from tidelog.logic.order import decide

Row: TypeAlias = tuple[Value, ...]
# Predicate, tick (None for rigid facts), arguments.
Fact: TypeAlias = tuple[str, int | None, Row]
Window: TypeAlias = frozenset[Fact]


class TooHard(Exception):
    """The budget ended; the rules that run both ways through time are named."""


@dataclass
class Limit:
    """Seconds that may still be spent, and what makes it hard."""

    seconds: float
    hard: str
    progress: Callable[[str], None] = lambda _: None
    _end: float = field(init=False)
    _steps: int = 0

    @staticmethod
    def of(deps: Dependencies, budget: float, progress: Callable[[str], None]) -> Limit:
        """A limit that names the rules that decide the class of some queries."""
        places = ", ".join(dict.fromkeys(str(rule.origin) for rule in deps.reason.rules))
        return Limit(budget, deps.reason.message + (f" ({places})" if places else ""), progress)

    def __post_init__(self) -> None:
        self._end = clock.monotonic() + self.seconds

    def check(self, what: str, weight: int = 1) -> None:
        """Ask often: the clock is looked at once in a few thousand steps, by their weight."""
        self._steps += weight
        if self._steps >= 4096:
            self._steps = 0
            if clock.monotonic() > self._end:
                raise TooHard(
                    f"no answer within {self.seconds:g} seconds on the timeline: {self.hard};"
                    " allow more with --budget, or ask for less"
                )
            self.progress(what)


# Rules in the form the line needs


@dataclass(frozen=True)
class Plain:
    """A rule whose temporal atoms share one variable: offsets from it, or explicit times."""

    head: Atom
    atoms: tuple[Atom, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def offsets(self) -> list[int]:
        times = [a.time for a in (self.head, *self.atoms)]
        return [t.offset for t in times if isinstance(t, TimeOffset)]

    @property
    def span(self) -> int:
        return max(self.offsets) - min(self.offsets) if self.offsets else 0


def prepared(core: Core) -> list[Plain]:
    """Every time variable that the head does not share is projected away by a rule of its own."""
    found: list[Plain] = []
    for number, rule in enumerate(core.rules):
        found += _separated(rule, number)
    return found


def _separated(rule: Rule, number: int) -> Iterator[Plain]:
    own = rule.head.time.variable.name if isinstance(rule.head.time, TimeOffset) else None
    groups: dict[str, list[Atom]] = {}
    for atom in rule.atoms:
        if isinstance(atom.time, TimeOffset) and atom.time.variable.name != own:
            groups.setdefault(atom.time.variable.name, []).append(atom)
    rigid = rule.head.time is None
    if not groups or (rigid and len(groups) == 1 and own is None):
        yield Plain(rule.head, rule.atoms, rule.comparisons)
        return
    rest: list[Literal] = [a for a in rule.atoms if all(a not in g for g in groups.values())]
    for name, atoms in groups.items():
        others = [rule.head, *rest, *rule.comparisons]
        others += [a for other, g in groups.items() if other != name for a in g]
        wanted = {v.name for literal in others for v in literal.variables}
        args = tuple(dict.fromkeys(v for a in atoms for v in a.variables if v.name in wanted))
        head = Atom(f"[{number}:{name}]", args)
        yield Plain(head, tuple(atoms), ())
        rest.append(head)
    yield Plain(rule.head, tuple(a for a in rest if isinstance(a, Atom)), rule.comparisons)


def mirrored(rules: Iterable[Plain]) -> list[Plain]:
    def turned(atom: Atom) -> Atom:
        if isinstance(atom.time, TimeOffset):
            return replace(atom, time=replace(atom.time, offset=-atom.time.offset))
        return atom

    return [Plain(turned(r.head), tuple(map(turned, r.atoms)), r.comparisons) for r in rules]


# Rules ready to fire


@dataclass(frozen=True)
class _Step:
    """One body atom to match: what it is looked up by, and what it adds to the binding."""

    atom: Atom
    known: tuple[int, ...]  # positions whose values the binding has by then
    places: tuple[int, ...]  # where it has them
    new: tuple[int, ...]  # positions that extend the binding
    equal: tuple[tuple[int, int], ...]  # positions that repeat a new variable

    def extended(self, binding: Row, row: Row) -> Row | None:
        for i, j in self.equal:
            if row[i] != row[j]:
                return None
        return (*binding, *(row[i] for i in self.new)) if self.new else binding


class _Plan:
    """A rule that fires on a fact of one body atom; a binding is a tuple, constants first."""

    def __init__(self, rule: Plain, first: int | None) -> None:
        terms = [t for atom in (rule.head, *rule.atoms) for t in atom.args]
        terms += [t for c in rule.comparisons for t in (c.left, c.right)]
        constants = dict.fromkeys(t for t in terms if isinstance(t, Constant))
        self.constants: Row = tuple(c.value for c in constants)
        places: dict[Term, int] = {c: i for i, c in enumerate(constants)}
        rest = list(rule.atoms)
        self.steps: list[_Step] = []
        if first is not None:
            self.steps.append(_step(rest.pop(first), places))
        while rest:
            # Atoms at a time that is known by then, and of those the ones with most values known.
            timed = any(isinstance(step.atom.time, TimeOffset) for step in self.steps)
            rest.sort(
                key=lambda a: (
                    isinstance(a.time, TimeOffset) and not timed,
                    sum(t not in places for t in a.args),
                )
            )
            self.steps.append(_step(rest.pop(0), places))
        self.head = rule.head
        self.head_places = tuple(places[t] for t in rule.head.args)
        self.comparisons = tuple(
            (c.operator, places[c.left], places[c.right]) for c in rule.comparisons
        )


def _step(atom: Atom, places: dict[Term, int]) -> _Step:
    known = tuple(i for i, t in enumerate(atom.args) if t in places)
    key = tuple(places[atom.args[i]] for i in known)
    first: dict[Term, int] = {}
    equal: list[tuple[int, int]] = []
    for i, term in enumerate(atom.args):
        if i not in known and first.setdefault(term, i) != i:
            equal.append((first[term], i))
    for term in first:
        places[term] = len(places)
    return _Step(atom, known, key, tuple(first.values()), tuple(equal))


class Relation:
    """Rows of one predicate at one time, with an index for every set of positions looked up."""

    def __init__(self) -> None:
        self.rows: set[Row] = set()
        self._indexes: dict[tuple[int, ...], dict[Row, list[Row]]] = {}

    def add(self, row: Row) -> bool:
        if row in self.rows:
            return False
        self.rows.add(row)
        for positions, index in self._indexes.items():
            index.setdefault(tuple(row[i] for i in positions), []).append(row)
        return True

    def matching(self, positions: tuple[int, ...], key: Row) -> Collection[Row]:
        if not positions:
            return tuple(self.rows)
        if positions not in self._indexes:
            index: dict[Row, list[Row]] = {}
            for row in self.rows:
                index.setdefault(tuple(row[i] for i in positions), []).append(row)
            self._indexes[positions] = index
        return tuple(self._indexes[positions].get(key, ()))


# Facts by predicate and tick, None for rigid ones.
Rows: TypeAlias = dict[tuple[str, int | None], Relation]


class Rules:
    """Plans by the predicate whose facts they fire on."""

    def __init__(self, rules: Iterable[Plain]) -> None:
        self.rules = list(rules)
        self.start = [_Plan(rule, None) for rule in self.rules if not rule.atoms]
        self.plans: dict[str, list[_Plan]] = {}
        self.points: set[tuple[str, int]] = set()  # slices at explicit times
        for rule in self.rules:
            for i, atom in enumerate(rule.atoms):
                self.plans.setdefault(atom.predicate, []).append(_Plan(rule, i))
                if isinstance(atom.time, TimePoint):
                    self.points.add((atom.predicate, atom.time.tick))

    @cached_property
    def moving(self) -> dict[str, list[_Plan]]:
        """Only the plans that fire on a fact at a tick like any other."""
        found: dict[str, list[_Plan]] = {}
        for name, plans in self.plans.items():
            kept = [p for p in plans if isinstance(p.steps[0].atom.time, TimeOffset)]
            if kept:
                found[name] = kept
        return found


def copied(rows: Rows) -> Rows:
    found: Rows = {}
    for place, relation in rows.items():
        found[place] = Relation()
        for row in relation.rows:
            found[place].add(row)
    return found


# Closing a stretch of the line


class Stretch:
    """Facts on the ticks low to high, closed under the rules as far as these lie on them.

    On a half line, rigid facts and those at explicit times are given as `elsewhere`; rigid facts
    that are new are put aside in `found`.
    """

    def __init__(
        self, rules: Rules, low: int, high: int, limit: Limit, elsewhere: Rows | None = None
    ) -> None:
        self.plans = rules.plans if elsewhere is None else rules.moving
        self.low, self.high = low, high
        self.limit = limit
        self.rows: Rows = {}
        self.fixed = self.rows if elsewhere is None else elsewhere
        self.todo: list[Fact] = []
        self.found: set[Fact] = set()

    def add(self, fact: Fact) -> bool:
        name, tick, row = fact
        if tick is None and self.fixed is not self.rows:
            there = self.fixed.get((name, None))
            if there is None or row not in there.rows:
                self.found.add(fact)
            return False
        if tick is not None and not self.low <= tick <= self.high:
            return False
        relation = self.rows.get((name, tick))
        if relation is None:
            relation = self.rows[name, tick] = Relation()
        if not relation.add(row):
            return False
        self.todo.append(fact)
        return True

    def run(self) -> None:
        while self.todo:
            fact = self.todo.pop()
            for plan in self.plans.get(fact[0], ()):
                self._fire(plan, fact)

    def fire_facts(self, rules: Rules) -> None:
        """Rules that need no fact at all."""
        for plan in rules.start:
            self._join(plan, 0, None, plan.constants)

    def _fire(self, plan: _Plan, fact: Fact) -> None:
        _, tick, row = fact
        step = plan.steps[0]
        shift: int | None = None
        match step.atom.time:
            case TimePoint(point) if point != tick:
                return
            case TimeOffset(_, offset):
                assert tick is not None
                shift = tick - offset
        for i, place in zip(step.known, step.places, strict=True):
            if row[i] != plan.constants[place]:
                return
        binding = step.extended(plan.constants, row)
        if binding is not None:
            self._join(plan, 1, shift, binding)

    def _join(self, plan: _Plan, at: int, shift: int | None, binding: Row) -> None:
        self.limit.check("closing the line")
        if at == len(plan.steps):
            self._derive(plan, shift, binding)
            return
        step = plan.steps[at]
        time = step.atom.time
        if isinstance(time, TimeOffset) and shift is None:
            # Reached from a rigid fact or one at an explicit time: any tick will do.
            for tick in self._ticks(step.atom.predicate):
                self._join(plan, at, tick - time.offset, binding)
            return
        match time:
            case TimeOffset(_, offset):
                assert shift is not None
                relation = self.rows.get((step.atom.predicate, shift + offset))
            case TimePoint(point):
                relation = self.fixed.get((step.atom.predicate, point))
            case None:
                relation = self.fixed.get((step.atom.predicate, None))
        if relation is None:
            return
        key = tuple(binding[i] for i in step.places)
        if not step.new:
            if key in relation.rows:
                self._join(plan, at + 1, shift, binding)
            return
        for row in relation.matching(step.known, key):
            extended = step.extended(binding, row)
            if extended is not None:
                self._join(plan, at + 1, shift, extended)

    def _ticks(self, predicate: str) -> list[int]:
        return [t for name, t in self.rows if name == predicate and t is not None]

    def _derive(self, plan: _Plan, shift: int | None, binding: Row) -> None:
        for operator, left, right in plan.comparisons:
            if not decide(operator, binding[left], binding[right]):
                return
        tick: int | None
        match plan.head.time:
            case TimePoint(point):
                tick = point
            case TimeOffset(_, offset):
                assert shift is not None
                tick = shift + offset
            case None:
                tick = None
        self.add((plan.head.predicate, tick, tuple(binding[i] for i in plan.head_places)))

    def window(self, low: int, high: int) -> Window:
        """The facts on some ticks, counted from the first of them."""
        return frozenset(
            (name, tick - low, row)
            for (name, tick), relation in self.rows.items()
            if tick is not None and low <= tick <= high
            for row in relation.rows
        )
