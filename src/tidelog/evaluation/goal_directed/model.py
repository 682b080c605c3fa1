"""Facts that hold, looked up by their arguments and times, and how they follow from each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidelog.analysis.containment import Ground
from tidelog.analysis.definitive import Awaited, AwaitedAggregate, Pending
from tidelog.analysis.settled import Settled
from tidelog.data.packed import COUNT, columns, holds_at_sql, ticks_of
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.ranges import ALWAYS, Range
from tidelog.language.program import Constant, Measure, Row, Term, Value, Variable
from tidelog.logic.clause import ONE_TICK, Clause, Over, Premise
from tidelog.logic.core import Core, Role
from tidelog.logic.match import VALUES, AnyTick, IndexedRows, JoinOrder, constant_value, matches
from tidelog.logic.windows import pattern

# Facts of a predicate that are looked up in memory; beyond, the tables are asked.
IN_MEMORY = 200_000
# Ticks of a window that are looked up one by one.
MANY_TICKS = 2_000
# Lookups after which it pays to fetch facts that are not fetched at once.
OFTEN = 100


@dataclass(frozen=True)
class Absence:
    """A fact that is not there; None among its values stands for any."""

    predicate: str
    args: tuple[Value | None, ...]
    time: int | None
    input: bool
    over: Over | None = None


@dataclass(frozen=True)
class Stretch(Ground):
    """That an atom holds at enough of the ticks up to its time; `pattern` are its arguments, None
    for any value.
    """

    pattern: tuple[Value | None, ...] = ()
    over: Over = ONE_TICK


@dataclass(frozen=True)
class Gathered(Stretch):
    """What an aggregate comes to, if that is known; `of` is the argument that it measures."""

    measure: Measure = Measure.COUNT
    of: int | None = None
    value: Value | None = None


def gathered(core: Core, name: str, args: Sequence[Value | None], time: int | None) -> Gathered:
    """A fact of an aggregate's predicate, or what is known of one, as people read it."""
    aggregate = core.aggregate_of[name]
    terms, variable = aggregate.of.args, aggregate.variable
    known = dict(zip(aggregate.args, args, strict=True))
    own = tuple(known.get(t) if isinstance(t, Variable) else t.value for t in terms)
    of = None if variable is None else terms.index(variable)
    base, over = core.predicates[name].base, Over(aggregate.ticks, 1)
    time = time if aggregate.of.temporal else None
    given = tuple(value for value in args if value is not None)
    return Gathered(base, given, time, own, over, aggregate.measure, of, args[-1])


def with_aggregates_as_written(parts: Settled, pending: Pending) -> Pending:
    """What is pending for the rest of the rules, with aggregates as they stand in all of them."""
    waits_for = tuple(_as_written(parts, awaited) for awaited in pending.waits_for)
    unless = tuple(tuple(_as_written(parts, one) for one in way) for way in pending.unless)
    return replace(pending, waits_for=waits_for, unless=unless)


def _as_written(parts: Settled, awaited: Awaited) -> Awaited:
    wait = parts.waits.get(awaited.predicate)
    if wait is None:
        return _as_count(parts.given.core, awaited)
    time = awaited.time - wait
    known = gathered(parts.given.core, awaited.predicate, awaited.args, time)
    return AwaitedAggregate(
        known.predicate, known.pattern, time, known.measure, known.of, known.over.ticks
    )


def _as_count(core: Core, awaited: Awaited) -> Awaited:
    """A stretch that is to have so many facts, as the count of them."""
    count = core.count_of.get(awaited.predicate)
    if count is None:
        return awaited
    known = dict(zip(count.groups, awaited.args, strict=True))
    args = tuple(known.get(t) if isinstance(t, Variable) else t.value for t in count.of.args)
    base = core.predicates[awaited.predicate].base
    return AwaitedAggregate(base, args, awaited.time, Measure.COUNT, None, count.ticks)


def named(core: Core, fact: Ground) -> Ground:
    """The fact under the name its predicate has in the rules; a window's as what it asks for."""
    predicate = core.predicates[fact.predicate]
    if fact.predicate in core.aggregate_of:
        return gathered(core, fact.predicate, fact.args, fact.time)
    if predicate.role is Role.WINDOW:
        window, given = pattern(core, fact.predicate, fact.args)
        return Stretch(predicate.base, fact.args, fact.time, given, window.over)
    return Ground(predicate.base, fact.args, fact.time)


@dataclass(frozen=True)
class Derivation:
    """One way in which a clause gives a fact.

    Its premises in the clause's order, the values on the two sides of its tests, and what is
    absent.
    """

    clause: Clause
    premises: tuple[Ground, ...]
    compared: tuple[tuple[Value, Value], ...]
    absent: tuple[Absence, ...] = ()


@dataclass
class FactModel:
    """True facts. Their time comes last in a row.

    Outside `within` nothing is known of derived facts. Predicates with more facts than `at_once`
    are not fetched for a few lookups, those with more than `in_memory` never.
    """

    engine: Engine
    core: Core
    tables: Mapping[str, str]
    within: Range = ALWAYS
    in_memory: int = IN_MEMORY
    at_once: int = 10 * IN_MEMORY
    _held: dict[str, IndexedRows[Value] | None] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)
    _lookups: Counter[str] = field(default_factory=Counter)
    _orders: dict[int, JoinOrder] = field(default_factory=dict)  # by the identity of the clause

    def knows(self, name: str, time: Value | None) -> bool:
        """Whether what is not there of a predicate does not hold."""
        predicate = self.core.predicates[name]
        if predicate.input or not predicate.temporal or self.within == ALWAYS:
            return True
        return isinstance(time, int) and self.within.low <= time <= self.within.high

    def holds(self, fact: Ground) -> bool:
        row = fact.args if fact.time is None else (*fact.args, fact.time)
        return bool(self.lookup(fact.predicate, dict(enumerate(row)), 1))

    def derivations(self, clause: Clause, fact: Ground) -> Iterator[Derivation]:
        """The ways in which a clause gives a fact."""
        order = self._orders.get(id(clause))
        if order is None:
            order = self._orders[id(clause)] = JoinOrder.from_head(clause)
        start = order.start_from(constant_value, fact.args, fact.time)
        if start is None:
            return
        for binding in matches(order, self, start, VALUES):
            premises = tuple(
                Ground(p.predicate, order.values(p.args, binding), order.known_tick(p, binding))
                for p in clause.positive
            )
            compared = tuple(
                (binding[order.place(test.left)], binding[order.place(test.right)])
                for test in clause.tests
            )
            absent = tuple(self._absence(premise, order, binding) for premise in clause.negative)
            if self.core.predicates[fact.predicate].role is Role.TOTAL:
                # What gives its groups holds anyway; the first premise is what it comes from.
                yield Derivation(clause, () if absent else premises[:1], compared, absent)
                return
            yield Derivation(clause, premises, compared, absent)

    def counted(self, fact: Ground) -> Iterator[Ground]:
        """The facts that a window counts for one of its own, the last ones first."""
        assert fact.time is not None, "a window has a time"
        window, args = pattern(self.core, fact.predicate, fact.args)
        known = {i: value for i, value in enumerate(args) if value is not None}
        name = window.of.predicate
        inside = self._within(name, known, fact.time, window.over.ticks)
        for row in sorted(inside, key=lambda row: (-int(row[-1]), row)):
            yield Ground(name, tuple(row[:-1]), int(row[-1]))

    def measured(self, fact: Ground) -> Iterator[Ground]:
        """The facts that a fact of an aggregate is made of, the last ones first."""
        aggregate = self.core.aggregates[fact.predicate]
        of = aggregate.of
        groups = dict(zip(aggregate.groups, fact.args[:-1], strict=True))
        known: dict[int, Value] = {}
        for i, term in enumerate(of.args):
            if isinstance(term, Constant):
                known[i] = term.value
            elif term in groups:
                known[i] = groups[term]
        arity = len(of.args)
        if fact.time is None:
            rows = self.lookup(of.predicate, known)
        else:
            rows = self._within(of.predicate, known, fact.time, aggregate.ticks)
        facts: list[Ground] = []
        for row in rows:
            time = int(row[-1]) if of.temporal else None
            values: dict[Term, Value] = {}
            pairs = zip(of.args, row[:arity], strict=True)
            if all(values.setdefault(term, value) == value for term, value in pairs):
                facts.append(Ground(of.predicate, tuple(row[:arity]), time))
        yield from sorted(facts, key=lambda f: (-(f.time or 0), f.args))

    def _within(
        self, name: str, known: Mapping[int, Value], last: int, ticks: int
    ) -> Sequence[Row]:
        """Rows of a predicate at the ticks that end with one, with known values at positions."""
        if self._held.get(name) is None or ticks > MANY_TICKS:
            rows = self.lookup(name, known)
            return [row for row in rows if 0 <= last - int(row[-1]) < ticks]
        time = len(self.core.predicates[name].types)
        asked = ({**known, time: tick} for tick in range(last - ticks + 1, last + 1))
        return [row for at in asked for row in self.lookup(name, at)]

    def _absence(self, premise: Premise, order: JoinOrder, binding: Row) -> Absence:
        args = tuple(
            term.value if isinstance(term, Constant) else order.known_value(term, binding)
            for term in premise.args
        )
        predicate = self.core.predicates[premise.predicate]
        tick = order.known_tick(premise, binding)
        over = None
        if predicate.role is Role.WINDOW:
            window, args = pattern(self.core, premise.predicate, args)
            over = window.over
        if predicate.role is Role.GATHERED:
            args = gathered(self.core, predicate.name, args, tick).pattern
        return Absence(predicate.base, args, tick, predicate.base in self.core.input_of, over)

    # Rows

    def rows(
        self, premise: Premise, tick: int | AnyTick | None, positions: tuple[int, ...], key: Row
    ) -> Sequence[Row]:
        """The rows that the matcher asks for."""
        if isinstance(tick, int):
            return self._matching(premise.predicate, (*positions, len(premise.args)), (*key, tick))
        return self._matching(premise.predicate, positions, key)

    def lookup(
        self, name: str, known: Mapping[int, Value], most: int | None = None
    ) -> Sequence[Row]:
        """Rows of a predicate, time last, with known values at some positions; at most so many."""
        positions = tuple(sorted(known))
        return self._matching(name, positions, tuple(known[i] for i in positions), most)

    def _matching(
        self, name: str, positions: tuple[int, ...], key: Row, most: int | None = None
    ) -> Sequence[Row]:
        held = self._held.get(name)
        if held is None and name not in self._held:
            self._lookups[name] += 1
            if self._lookups[name] > OFTEN or self.size(name) <= self.at_once:
                held = self.held(name)
        if held is None:
            return self._asked(name, dict(zip(positions, key, strict=True)), most)
        return held.matching(positions, key)[:most]

    def held(self, name: str) -> IndexedRows[Value] | None:
        """All rows of a predicate in order, or None if they are too many to hold."""
        if name not in self._held:
            few = self.size(name) <= self.in_memory
            rows = IndexedRows(sorted(set(self._unpacked(name, "", [])))) if few else None
            self._held[name] = rows
        return self._held[name]

    def size(self, name: str) -> int:
        """How many facts of a predicate there are."""
        held = self._held.get(name)
        if held is not None:
            return len(held.rows)
        if name not in self._sizes:
            predicate = self.core.predicates[name]
            count = "count(*)" if predicate.input or not predicate.temporal else COUNT
            (size,) = self.engine.one(f"SELECT {count} FROM {self.tables[name]}")
            self._sizes[name] = int(size)
        return self._sizes[name]

    def _asked(self, name: str, known: Mapping[int, Value], most: int | None) -> list[Row]:
        predicate = self.core.predicates[name]
        arity = len(predicate.types)
        where = [f"a{i + 1} = ?" for i in sorted(known) if i < arity]
        bound = [known[i] for i in sorted(known) if i < arity]
        time = known.get(arity)
        if time is not None:
            assert isinstance(time, int)
            if predicate.input:
                where.append(f"t = {time}")
            else:
                where.append(holds_at_sql(time))
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        rows = self._unpacked(name, condition, bound, most)
        return list(dict.fromkeys(r for r in rows if time is None or r[-1] == time))[:most]

    def _unpacked(
        self, name: str, condition: str, bound: list[Any], most: int | None = None
    ) -> Iterator[Row]:
        predicate = self.core.predicates[name]
        names = columns(len(predicate.types))
        packed = predicate.temporal and not predicate.input
        chosen = [*names, *(["c", "b"] if packed else ["t"] if predicate.temporal else [])]
        limit = "" if most is None else f" LIMIT {most}"
        rows = self.engine.connection.execute(
            f"SELECT {', '.join(chosen) or '1'} FROM {self.tables[name]}{condition}{limit}", bound
        ).fetchall()
        for row in rows:
            if packed:
                *args, c, b = row
                yield from ((*args, tick) for tick in ticks_of(c, b))
            else:
                yield row if chosen else ()
