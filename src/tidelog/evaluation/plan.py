"""The logical plan of some queries: what is packed, derived and iterated, in which order.

A plan is data. Inputs are selected and projected before they are packed (`Scan`); each rule becomes
a join of scans and derived predicates (`Join`); a recursive component is iterated (`Fixpoint`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tidelog.analysis.dependencies import Dependencies
from tidelog.evaluation.ranges import ALWAYS, EMPTY, Range, ranges
from tidelog.language.program import (
    Atom,
    Comparison,
    Constant,
    Literal,
    Rule,
    Term,
    TimeOffset,
    Variable,
)
from tidelog.logic.normalise import Predicate, relative


class Unbounded(Exception):
    """Evaluating a rule would never end: what it derives reaches infinitely far both ways."""

    def __init__(self, rule: Rule, predicate: str, range_: Range) -> None:
        self.rule = rule
        self.predicate = predicate
        self.range = range_
        super().__init__(
            f"{rule.origin}: `{predicate}` may hold at infinitely many times that matter for the"
            f" answer ({range_}), so that evaluating it over the data cannot be exact"
        )


@dataclass(frozen=True)
class Scan:
    """An input, selected and projected: its variables in order, packed when it is temporal."""

    name: str
    predicate: Predicate
    atom: Atom
    comparisons: tuple[Comparison, ...]
    columns: tuple[int, ...]  # positions kept


@dataclass(frozen=True)
class Source:
    """One body atom of a join: a table, what stands in its columns, and when."""

    table: str
    args: tuple[Term, ...]
    atom: Atom


@dataclass(frozen=True)
class Join:
    """One rule: its sources, the comparisons that are left, and the head."""

    rule: Rule
    sources: tuple[Source, ...]
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True)
class Fill:
    """`P(X..) @ T+k :- P(X..) @ T, guards`: carried on in steps of k while the guards hold.

    `filter` is the part of the body that no time can change, applied to P itself; `guard` the part
    at the head's time, a relation over those of P's arguments that it mentions.
    """

    rule: Rule
    predicate: str
    step: int
    filter: Join | None
    guard: Join | None
    columns: tuple[int, ...]  # positions of P that the guard mentions

    @property
    def ever(self) -> bool:
        """Whether a fact, once it holds, holds at every tick from then on (or until then)."""
        return self.guard is None and abs(self.step) == 1


@dataclass(frozen=True)
class Derive:
    """A predicate that does not depend on itself."""

    predicate: Predicate
    table: str
    joins: tuple[Join, ...]


@dataclass(frozen=True)
class Fixpoint:
    """Predicates that depend on each other: start, then repeat on what is new."""

    predicates: tuple[Predicate, ...]
    tables: tuple[str, ...]
    start: tuple[Join, ...]
    repeat: tuple[Join, ...]
    fills: tuple[Fill, ...]


PlanStep: TypeAlias = Scan | Derive | Fixpoint


@dataclass(frozen=True)
class Plan:
    deps: Dependencies
    steps: tuple[PlanStep, ...]
    tables: dict[str, str]  # derived predicate to table
    inputs: dict[str, str]  # input predicate to the table its facts are in
    ranges: dict[str, Range]  # where each temporal predicate is evaluated
    data: dict[str, Range]  # where each temporal input has facts
    asked: Range


def plan(
    deps: Dependencies,
    data: Mapping[str, Range],
    asked: Range,
    until: int | None = None,
    within: Range = ALWAYS,
) -> Plan:
    """The plan of the queries of `deps` over data at given times, for answers at `asked`.

    Facts after the tick `until` are left out, whatever the data holds. Facts outside `within` need
    not be looked at nor derived: what is found then holds, and what is not found may hold too.
    Raises Unbounded when a recursive predicate would have to be evaluated for ever.
    """
    history = ALWAYS if until is None else Range(-math.inf, until)
    found = ranges(deps, {name: range_ & history for name, range_ in data.items()}, asked)
    found = {name: range_ & within for name, range_ in found.items()}
    for name in deps.predicates:
        if name in deps.recursive and name in found and not found[name].finite:
            raise Unbounded(_carrier(deps, name), name, found[name])
    return _Planner(deps, found, dict(data), asked).plan()


def stream_plan(deps: Dependencies) -> Plan:
    """The steps of the queries without any range: a stream sets them as time goes on."""
    return _Planner(deps, {}, {}, EMPTY).plan()


def _carrier(deps: Dependencies, name: str) -> Rule:
    """The rule that carries a recursive predicate through time."""
    component = next(set(c) for c in deps.components if name in c)
    uses = [e for e in deps.edges if e.head in component and e.body in component]
    moving = [e.rule for e in uses if e.offset] + [e.rule for e in uses]
    return moving[0]


class _Planner:
    def __init__(
        self, deps: Dependencies, found: dict[str, Range], data: dict[str, Range], asked: Range
    ) -> None:
        self.deps = deps
        self.core = deps.core
        self.ranges = found
        self.data = data
        self.asked = asked
        self.steps: list[PlanStep] = []
        self.scans: dict[object, Scan] = {}
        self.tables: dict[str, str] = {}
        self.inputs: dict[str, str] = {}
        for name, predicate in self.core.predicates.items():
            if predicate.input:
                self.inputs[name] = table_name("in", len(self.inputs) + 1, predicate.source)
            else:
                self.tables[name] = table_name("p", len(self.tables) + 1, name)

    def plan(self) -> Plan:
        for component in self.deps.components:
            if self.core.predicates[component[0]].input:
                continue
            if component[0] in self.deps.recursive:
                self.fixpoint(component)
            else:
                (name,) = component
                joins = tuple(self.join(r) for r in self.core.rules_for.get(name, ()))
                self.steps.append(Derive(self.core.predicates[name], self.tables[name], joins))
        return Plan(
            self.deps,
            tuple(self.steps),
            self.tables,
            self.inputs,
            self.ranges,
            self.data,
            self.asked,
        )

    def fixpoint(self, component: tuple[str, ...]) -> None:
        inside = set(component)
        start: list[Join] = []
        repeat: list[Join] = []
        fills: list[Fill] = []
        for name in component:
            for rule in self.core.rules_for[name]:
                if not any(atom.predicate in inside for atom in rule.atoms):
                    start.append(self.join(rule))
                elif (fill := self.fill(rule, inside)) is not None:
                    fills.append(fill)
                else:
                    repeat.append(self.join(rule))
        self.steps.append(
            Fixpoint(
                tuple(self.core.predicates[name] for name in component),
                tuple(self.tables[name] for name in component),
                tuple(start),
                tuple(repeat),
                tuple(fills),
            )
        )

    def fill(self, rule: Rule, inside: set[str]) -> Fill | None:
        """The rule as a fill, if it carries one predicate on with its arguments unchanged."""
        head, atoms = rule.head, rule.atoms
        own = [atom for atom in atoms if atom.predicate in inside]
        if len(own) != 1 or own[0].predicate != head.predicate or own[0].args != head.args:
            return None
        offset = relative(rule, own[0])
        variables = [t.name for t in head.args if isinstance(t, Variable)]
        if not offset or len(set(variables)) < len(head.args):
            return None
        rest = [x for x in rule.body if x is not own[0]]
        guards = [x for x in rest if isinstance(x, Atom)]
        filters: list[Literal] = []
        if any(relative(rule, x) is not None for x in guards):
            bound = {v.name for x in guards for v in x.variables}
            for comparison in rule.comparisons:
                names = {v.name for v in comparison.variables}
                if not names <= bound:
                    if names & bound - set(variables):
                        return None  # it ties the guard to arguments the guard does not mention
                    filters.append(comparison)
        else:
            filters, rest = rest, []
        guard = None
        columns: tuple[int, ...] = ()
        if rest:
            columns = tuple(i for i, name in enumerate(variables) if name in bound)
            args = tuple(head.args[i] for i in columns)
            body = tuple(x for x in rest if x not in filters)
            guard = self.join(Rule(Atom(head.predicate, args, head.time), body, rule.origin))
        filter_ = None
        if filters:
            here = Atom(head.predicate, head.args, own[0].time)
            filter_ = self.join(Rule(here, (own[0], *filters), rule.origin))
        return Fill(rule, head.predicate, -offset, filter_, guard, columns)

    def join(self, rule: Rule) -> Join:
        """Sources for the body; comparisons within one input atom move into its scan."""
        counts: dict[str, int] = {}
        for literal in (rule.head, *rule.body):
            for name in {v.name for v in literal.variables}:
                counts[name] = counts.get(name, 0) + 1
        left = list(rule.comparisons)
        sources: list[Source] = []
        for atom in rule.atoms:
            if not self.core.predicates[atom.predicate].input:
                sources.append(Source(self.tables[atom.predicate], atom.args, atom))
                continue
            names = {v.name for v in atom.variables}
            local = tuple(c for c in left if {v.name for v in c.variables} <= names)
            for comparison in local:
                left.remove(comparison)
            # A variable is kept if anything but this atom and its own comparisons mentions it.
            own = {
                name: 1 + sum(name in {v.name for v in c.variables} for c in local)
                for name in names
            }
            sources.append(self.scan(atom, local, {n for n in names if counts[n] > own[n]}))
        return Join(rule, tuple(sources), tuple(left))

    def scan(self, atom: Atom, local: tuple[Comparison, ...], wanted: set[str]) -> Source:
        predicate = self.core.predicates[atom.predicate]
        columns: list[int] = []
        seen: set[str] = set()
        for i, term in enumerate(atom.args):
            if isinstance(term, Variable) and term.name in wanted and term.name not in seen:
                seen.add(term.name)
                columns.append(i)
        key = (atom.predicate, *_shape(atom, local), tuple(columns))
        found = self.scans.get(key)
        if found is None:
            name = table_name("s", len(self.scans) + 1, predicate.source)
            found = self.scans[key] = Scan(name, predicate, atom, local, tuple(columns))
            self.steps.append(found)
        return Source(found.name, tuple(atom.args[i] for i in columns), atom)


def _shape(atom: Atom, local: tuple[Comparison, ...]) -> tuple[object, frozenset[object]]:
    """Constants, repeated variables and comparisons of an atom, whatever its variables' names."""
    first: dict[str, int] = {}
    for i, term in enumerate(atom.args):
        if isinstance(term, Variable):
            first.setdefault(term.name, i)

    def place(term: Term) -> object:
        return first[term.name] if isinstance(term, Variable) else term

    compared = frozenset((place(c.left), c.operator, place(c.right)) for c in local)
    return tuple(map(place, atom.args)), compared


def table_name(prefix: str, number: int, predicate: str) -> str:
    """A generated identifier: unique by its number, readable by what it keeps of the name.

    >>> table_name("p", 2, 'Über"Flag')
    'p2_berflag'
    """
    readable = "".join(c for c in predicate.lower() if c.isascii() and (c.isalnum() or c == "_"))
    return f"{prefix}{number}_{readable[:30]}" if readable else f"{prefix}{number}"


def groups(join: Join) -> dict[str, list[int]]:
    """Sources by time variable; those without one (rigid, explicit) are in none."""
    found: dict[str, list[int]] = {}
    for i, source in enumerate(join.sources):
        if isinstance(source.atom.time, TimeOffset):
            found.setdefault(source.atom.time.variable.name, []).append(i)
    return found


def uses(plan: Plan, table: str) -> int:
    """How often a table is read; twice at least where rounds repeat."""
    count = 0
    for step in plan.steps:
        match step:
            case Derive():
                joins, times = step.joins, 1
            case Fixpoint():
                parts = [part for fill in step.fills for part in (fill.filter, fill.guard) if part]
                joins, times = (*step.start, *step.repeat, *parts), 2
            case Scan():
                continue
        count += times * sum(source.table == table for join in joins for source in join.sources)
    return count


def constants(steps: tuple[PlanStep, ...]) -> list[Constant]:
    """Every constant of the plan, once, in order of appearance."""
    found: dict[Constant, None] = {}

    def add(*terms: Term) -> None:
        found.update((t, None) for t in terms if isinstance(t, Constant))

    def add_join(join: Join) -> None:
        add(*join.rule.head.args)
        for source in join.sources:
            add(*source.args)
        for comparison in join.comparisons:
            add(comparison.left, comparison.right)

    for step in steps:
        match step:
            case Scan():
                add(*step.atom.args)
                for comparison in step.comparisons:
                    add(comparison.left, comparison.right)
            case Derive():
                for join in step.joins:
                    add_join(join)
            case Fixpoint():
                for join in (*step.start, *step.repeat):
                    add_join(join)
                for fill in step.fills:
                    for part in (fill.filter, fill.guard):
                        if part is not None:
                            add_join(part)
    return list(found)
