"""Evaluation over small symbolic data: does a goal follow from frozen facts?

Freezing a conjunctive query turns its variables into symbols and its atoms into facts; a comparison
holds on them only if the query's own comparisons entail it. Only what the goal needs is evaluated.

Negated premises are looked up among facts of real values only: these are all the facts there are.
Frozen facts are not, so that they are given to programs without `not` (see `opaque`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, TypeAlias

from tidelog.analysis.dependencies import Dependencies
from tidelog.language.graph import Arc, Bound, longest
from tidelog.language.program import (
    Calculation,
    Constant,
    Operator,
    Term,
    Type,
    Variable,
    made_type,
)
from tidelog.logic.arithmetic import applied, as_number
from tidelog.logic.clause import Clause, Offset, Premise, Sign
from tidelog.logic.core import Core, rules_of
from tidelog.logic.match import AnyTick, IndexedRows, JoinOrder, Picker, joined, matches
from tidelog.logic.order import Assumption, Object, Order, Symbol


class Exhausted(Exception):
    """The budget ended before the answer was known."""


@dataclass(frozen=True, slots=True)
class FrozenFact:
    """A fact over symbols and constants; no time for rigid ones."""

    predicate: str
    args: tuple[Object, ...]
    time: int | None = None


@dataclass(frozen=True, slots=True)
class PartialFact:
    """A fact some of whose values do not matter (None)."""

    predicate: str
    args: tuple[Object | None, ...]
    time: int | None = None

    def fits(self, row: tuple[Object, ...]) -> bool:
        return all(a is None or a == b for a, b in zip(self.args, row, strict=True))


# A predicate at a time, or without one.
_TimedName: TypeAlias = tuple[str, int | None]
_Objects: TypeAlias = tuple[Object, ...]

# Places and rows one evaluation may look at before it gives up.
MOST_WORK = 200_000
# Ways in which a clause gives a fact that are looked through for absent facts.
MOST_WAYS = 8


class _Join:
    """A clause and the order in which it is matched, made when it is first needed."""

    def __init__(self, clause: Clause) -> None:
        self.clause = clause
        self.at_head = isinstance(clause.head.when, Offset)

    @cached_property
    def order(self) -> JoinOrder:
        # What only has to exist is not multiplied out: variables are dropped as soon as possible.
        wanted = {variable.name for variable in self.clause.head.variables}
        return JoinOrder(self.clause, at_head=self.at_head, wanted=wanted)

    @cached_property
    def head(self) -> Picker:
        return self.order.picker(self.clause.head.args)

    @cached_property
    def from_head(self) -> JoinOrder:
        return JoinOrder.from_head(self.clause)


@dataclass
class Canonical:
    """Small-scale evaluation of one core of class 1 or 2."""

    deps: Dependencies
    core: Core = field(init=False)
    work: int = field(default=0, init=False)  # what the last evaluation looked at

    def __post_init__(self) -> None:
        self.deps = self.deps.written_out
        self.core = self.deps.core
        nodes = tuple(self.core.predicates)
        arcs = [Arc(e.body, e.head, e.offset) for e in self.deps.edges if e.offset is not None]
        everywhere = dict.fromkeys(nodes, 0)
        self._ahead, _ = longest(nodes, arcs, everywhere)
        negated = [Arc(a.tail, a.head, -a.weight) for a in arcs]
        self._back, _ = longest(nodes, negated, everywhere)
        rules = rules_of(self.core)
        clauses = [clause for clause in rules if not clause.is_fact]
        # Where a head has an explicit time, nothing that it rests on need be near.
        points = (clause.head.point for clause in clauses)
        self._head_ticks = [point for point in points if point is not None]
        self._facts = [_ground(clause) for clause in rules if clause.is_fact]
        self._joins: dict[str, list[_Join]] = {}
        for clause in clauses:
            self._joins.setdefault(clause.head.predicate, []).append(_Join(clause))
        self._bools = any(
            isinstance(term, Constant) and term.type is Type.BOOL
            for clause in rules
            for term in clause.terms
        )
        self._order_of = {
            name: i for i, component in enumerate(self.deps.components) for name in component
        }

    def derives(
        self, facts: Iterable[FrozenFact], goal: FrozenFact | PartialFact, order: Order
    ) -> tuple[bool, Assumption | None]:
        """Whether the goal follows; and if not, a comparison that the order left open."""
        run = _Run(self, [*facts, *self._facts], order)
        try:
            holds = run.holds(goal)
        finally:
            self.work = run.work
        return holds, None if holds else run.open

    def absent_below(
        self, facts: Iterable[FrozenFact], goal: PartialFact
    ) -> tuple[bool, set[PartialFact]]:
        """Whether something of real values holds, and the absent facts that it hangs on."""
        run = _Run(self, [*facts, *self._facts], Order())
        try:
            holding = [row for row in run.solve((goal.predicate, goal.time)) if goal.fits(row)]
            below = run.absent_below(FrozenFact(goal.predicate, r, goal.time) for r in holding)
        finally:
            self.work = run.work
        return bool(holding), below

    def held(self, facts: Iterable[FrozenFact], goal: FrozenFact, order: Order) -> set[FrozenFact]:
        """All that holds where the goal looks."""
        run = _Run(self, [*facts, *self._facts], order)
        try:
            run.solve((goal.predicate, goal.time))
        finally:
            self.work = run.work
        return {FrozenFact(n, row, tick) for (n, tick), t in run.tables.items() for row in t.rows}

    @cached_property
    def _rank(self) -> dict[str, Bound]:
        """How late a predicate's facts of a tick are settled, in a cycle through `not`.

        With n predicates in the cycle, facts have the level tick * (n + 1) + rank: a positive
        premise never lies on a higher level than its head, a negated one on a lower level.
        """
        ranks: dict[str, Bound] = {}
        for component in self.deps.cycles_through_not:
            arcs = [
                Arc(
                    edge.body,
                    edge.head,
                    (edge.offset or 0) * (len(component) + 1) + _is_negative(edge.premise),
                )
                for edge in self.deps.edges
                if edge.head in component and edge.body in component
            ]
            longest_ways, _ = longest(component, arcs, dict.fromkeys(component, 0))
            ranks.update(longest_ways)
        return ranks

    def layers(self, places: list[_TimedName]) -> list[list[_TimedName]]:
        """The places of one component in groups, each to be closed before the next."""
        if places[0][0] not in self._rank:
            return [places]
        size = len(self.deps.components[self._order_of[places[0][0]]])
        layers: dict[Bound, list[_TimedName]] = {}
        for name, tick in places:
            level = (tick or 0) * (size + 1) + self._rank[name]
            layers.setdefault(level, []).append((name, tick))
        return [layers[level] for level in sorted(layers)]

    @property
    def ahead(self) -> Bound:
        """How far ahead of a goal any derivation looks."""
        return max(self._ahead.values(), default=0)

    @property
    def back(self) -> Bound:
        """How far back a derivation looks."""
        return max(self._back.values(), default=0)


class _Run:
    def __init__(self, canonical: Canonical, facts: list[FrozenFact], order: Order) -> None:
        self.canonical = canonical
        self.order = order
        self.open: Assumption | None = None
        self.given: dict[_TimedName, list[_Objects]] = {}
        self.bools = canonical._bools
        ticks = list(canonical._head_ticks)
        for fact in facts:
            row = tuple(order.same(value) for value in fact.args)
            if canonical.deps.negated:
                assert all(isinstance(value, Constant) for value in row), "facts are all there are"
            self.given.setdefault((fact.predicate, fact.time), []).append(row)
            self.bools = self.bools or any(value.type is Type.BOOL for value in row)
            if fact.time is not None:
                ticks.append(fact.time)
        self.first = min(ticks, default=0)
        self.last = max(ticks, default=-1)
        self.tables: dict[_TimedName, IndexedRows[Object]] = {}
        self.work = 0

    def holds(self, goal: FrozenFact | PartialFact) -> bool:
        wanted = tuple(None if value is None else self.order.same(value) for value in goal.args)
        partial = PartialFact(goal.predicate, wanted, goal.time)
        rows = self.solve((goal.predicate, goal.time))
        if any(partial.fits(row) for row in rows):
            return True
        for row in rows:
            for one, other in zip(wanted, row, strict=True):
                if one is not None:
                    self.equal(one, other)
        return False

    def solve(self, goal: _TimedName) -> Iterable[_Objects]:
        by_component: dict[int, list[_TimedName]] = {}
        for place in self.demanded(goal):
            by_component.setdefault(self.canonical._order_of[place[0]], []).append(place)
        for number in sorted(by_component):
            for places in self.canonical.layers(by_component[number]):
                self.close(places)
        return self.tables[goal].rows if goal in self.tables else ()

    def close(self, places: list[_TimedName]) -> None:
        """Derive all that holds at the places of one component."""
        for place in places:
            self.tables[place] = IndexedRows(self.given.get(place, ()))
        recursive = places[0][0] in self.canonical.deps.recursive
        changed = True
        while changed:
            changed = False
            for name, tick in places:
                rows = self.tables[name, tick]
                for join in self.canonical._joins.get(name, ()):
                    for row in self.apply(join, tick):
                        changed = rows.add(row) or changed
            changed = changed and recursive

    def demanded(self, goal: _TimedName) -> list[_TimedName]:
        """Every place below a goal where something can hold, given the times of the facts."""
        seen: dict[_TimedName, None] = {}
        todo = [goal]
        while todo:
            place = todo.pop()
            if place in seen or not self.possible(place):
                continue
            seen[place] = None
            self.spend()
            name, tick = place
            for join in self.canonical._joins.get(name, ()):
                if join.clause.head.can_be_at(tick):
                    todo.extend((p.predicate, p.tick(tick)) for p in join.clause.premises)
        return list(seen)

    def possible(self, place: _TimedName) -> bool:
        name, tick = place
        if tick is None:
            return True
        return (
            tick + self.canonical._ahead[name] >= self.first
            and tick - self.canonical._back[name] <= self.last
        )

    def apply(self, join: _Join, tick: int | None) -> Iterable[_Objects]:
        """Head rows of a clause at a time."""
        clause, tables = join.clause, self.tables
        if not clause.head.can_be_at(tick):
            return ()
        for premise in clause.positive:
            table = tables.get((premise.predicate, premise.tick(tick)))
            if table is None or not table.rows:
                return ()
        at: Any = tick if join.at_head else None  # the one value of a binding that is no object
        start = join.order.start(self.order.same, {}, at)
        return map(join.head, joined(join.order, self, start, self))

    def absent_below(self, facts: Iterable[FrozenFact]) -> set[PartialFact]:
        """The absent facts that some ways to derive facts hang on."""
        absent: set[PartialFact] = set()
        todo = list(facts) if self.canonical.deps.negated else []
        seen = set(todo)
        while todo:
            fact = todo.pop()
            for join in self.canonical._joins.get(fact.predicate, ()):
                order = join.from_head
                start: Any = order.start_from(self.order.same, fact.args, fact.time)
                if start is None:
                    continue
                for binding in islice(matches(order, self, start, self), MOST_WAYS):
                    for premise in join.clause.premises:
                        args = tuple(order.known_value(term, binding) for term in premise.args)
                        pattern = PartialFact(premise.predicate, args, premise.tick(fact.time))
                        if _is_negative(premise):
                            absent.add(pattern)
                            continue
                        below = FrozenFact(pattern.predicate, _all_known(args), pattern.time)
                        if below not in seen:
                            seen.add(below)
                            todo.append(below)
        return absent

    def rows(
        self,
        premise: Premise,
        tick: int | AnyTick | None,
        positions: tuple[int, ...],
        key: _Objects,
    ) -> Sequence[_Objects]:
        """What the matcher asks for."""
        assert not isinstance(tick, AnyTick), "clauses of class 1 and 2 are connected"
        table = self.tables.get((premise.predicate, tick))
        if table is None:  # nothing can hold there
            return ()
        if self.bools:
            self.look_for_open_bools(premise, table, positions, key)
        # As if every row were looked at: what a budget allows must not depend on indexes.
        self.spend(len(table.rows))
        return table.matching(positions, key)

    def look_for_open_bools(
        self,
        premise: Premise,
        table: IndexedRows[Object],
        positions: tuple[int, ...],
        key: _Objects,
    ) -> None:
        """Rows that would match if bools that are not known to differ were equal."""
        if self.open is not None:
            return
        for row in table.rows:
            given = [(row[i], value) for i, value in zip(positions, key, strict=True)]
            first = dict(zip(premise.args[::-1], row[::-1], strict=True))
            given += [(first[term], value) for term, value in zip(premise.args, row, strict=True)]
            apart = [(a, b) for a, b in given if a != b]
            if all(a.type is Type.BOOL and b.type is Type.BOOL for a, b in apart):
                for a, b in apart:
                    self.equal(a, b)

    def spend(self, steps: int = 1) -> None:
        self.work += steps
        if self.work > MOST_WORK:
            raise Exhausted

    def equal(self, one: Object, other: Object) -> None:
        """Notes two bools that are not known to differ, nor to be equal."""
        bools = one.type is Type.BOOL and other.type is Type.BOOL
        if bools and self.order.entails(one, Operator.EQ, other) is None:
            self.open = self.open or (one, Operator.EQ, other)

    def decides(self, operator: Operator, left: Object, right: Object) -> bool:
        known = self.order.entails(left, operator, right)
        if known is None:
            self.open = self.open or (left, operator, right)
        return known is True

    def made(self, calculation: Calculation, terms: Mapping[str, Object]) -> Object | None:
        """A calculation of constants is one; of what is not known it is a value of its own."""
        args = [
            self.made(arg, terms) if isinstance(arg, Calculation) else self._same(arg, terms)
            for arg in calculation.args
        ]
        known = [arg for arg in args if arg is not None]
        if len(known) < len(args):
            return None
        constants = [arg for arg in known if isinstance(arg, Constant)]
        if len(constants) == len(known):
            number = applied(calculation.function, [as_number(c.value) for c in constants])
            return None if number is None else Constant.of(number)
        of = (calculation.function, tuple(known))
        return self.order.same(Symbol(0, made_type(calculation), of))

    def _same(self, term: Term, terms: Mapping[str, Object]) -> Object:
        return self.order.same(terms[term.name] if isinstance(term, Variable) else term)


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


def _is_negative(premise: Premise) -> bool:
    return premise.sign is Sign.NEGATIVE


def _all_known(args: tuple[Object | None, ...]) -> _Objects:
    return tuple(value for value in args if value is not None)


def _ground(clause: Clause) -> FrozenFact:
    args = tuple(t for t in clause.head.args if isinstance(t, Constant))
    return FrozenFact(clause.head.predicate, args, clause.head.point)
