"""Unfolding: a query as a union of conjunctive queries over its inputs, one step at a time.

The union can be exponentially large, so that it is never written out unless asked for: a partly
unfolded query (`Unfolded`) has atoms over inputs and atoms still open, and `expand` resolves one.
A negated literal is an atom over an input of its own (see `opaque`) and is not unfolded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import assert_never

from tidelog.analysis.canonical import FrozenFact
from tidelog.analysis.dependencies import Dependencies, Reach
from tidelog.analysis.opaque import Opaque, shown_args
from tidelog.language.graph import Bound
from tidelog.language.printer import print_value
from tidelog.language.program import (
    Calculation,
    Constant,
    Expression,
    Term,
    Type,
    made_type,
)
from tidelog.logic.clause import Clause, FixedTick, Free, Offset, Rigid
from tidelog.logic.core import Core, rules_for
from tidelog.logic.order import Assumption, Object, Order, Symbol


@dataclass(frozen=True)
class Unfolded:
    """A conjunctive query, perhaps with atoms left to unfold.

    Times count from the answer's time; atoms at explicit time points are `pinned`. Facts of the
    program can fix the answer's time.
    """

    head: tuple[Object, ...]
    atoms: frozenset[FrozenFact] = frozenset()
    pinned: frozenset[FrozenFact] = frozenset()
    open: frozenset[FrozenFact] = frozenset()
    open_pinned: frozenset[FrozenFact] = frozenset()
    order: Order = field(default_factory=Order)
    time: int | None = None
    clauses: tuple[Clause, ...] = ()

    @property
    def complete(self) -> bool:
        return not self.open and not self.open_pinned

    @property
    def facts(self) -> tuple[FrozenFact, ...]:
        return (*self.atoms, *self.pinned, *self.open, *self.open_pinned)

    def symbols(self) -> list[Symbol]:
        values = [*self.head, *(v for f in self.facts for v in f.args)]
        return sorted({v for v in values if isinstance(v, Symbol)}, key=lambda s: s.number)


def _object(value: Object) -> str:
    return f"X{value.number}" if isinstance(value, Symbol) else print_value(value.value)


@dataclass(frozen=True)
class Cut:
    """The offsets from the answer's time that are left: low to high, both included."""

    low: Bound = -math.inf
    high: Bound = math.inf

    def keeps(self, offset: Bound) -> bool:
        return self.low <= offset <= self.high

    def keeps_all(self, reach: Reach) -> bool:
        """Whether nothing that lies so far away is lost."""
        return reach.low > reach.high or (self.keeps(reach.low) and self.keeps(reach.high))

    def beyond(self, reach: Reach) -> Bound:
        """How far outside something can lie."""
        empty = reach.low > reach.high
        return 0 if empty else max(reach.high - self.high, self.low - reach.low)

    @property
    def everything(self) -> bool:
        return math.isinf(self.low) and math.isinf(self.high)


class Unfolder:
    """Unfolds queries of one core of class 1 or 2."""

    def __init__(self, deps: Dependencies) -> None:
        self.deps = deps = deps.written_out
        self.opaque = Opaque(deps)
        self.core: Core = self.opaque.positive.core
        self.absences = self.opaque.absences
        self._numbers = count(1)

    def start(self, query: str) -> Unfolded:
        """The query itself, nothing unfolded."""
        predicate = self.core.predicates[query]
        head = tuple(Symbol(next(self._numbers), t) for t in predicate.types)
        goal = FrozenFact(query, head, 0 if predicate.temporal else None)
        return self._classified(Unfolded(head), [goal], [])

    def start_fact(self, name: str, args: Iterable[Object | None], tick: int | None) -> Unfolded:
        """One fact at a tick, told from tick 0; None stands for any value."""
        types = self.core.predicates[name].types
        values = tuple(
            Symbol(next(self._numbers), type_) if value is None else value
            for value, type_ in zip(args, types, strict=True)
        )
        return self._classified(Unfolded(values, time=0), [FrozenFact(name, values, tick)], [])

    def start_clause(self, clause: Clause) -> Unfolded | None:
        """The body of one clause, its head at the answer's time; None if it can never hold."""
        fresh = self._instantiate(self.opaque.clause(clause), 0)
        order = Order().assume(*fresh.assumptions)
        if order is None:
            return None
        empty = Unfolded(fresh.head, order=order, time=clause.head.point, clauses=(clause,))
        return self._classified(empty, fresh.atoms, fresh.pinned)

    def expand(self, query: Unfolded, atom: FrozenFact, *, pinned: bool) -> Iterator[Unfolded]:
        """Every way to resolve one open atom by a clause; those that cannot hold are left out."""
        closed = replace(
            query,
            open=query.open - {atom} if not pinned else query.open,
            open_pinned=query.open_pinned - {atom} if pinned else query.open_pinned,
        )
        for clause in rules_for(self.core, atom.predicate):
            resolved = self._resolve(closed, atom, clause, pinned)
            if resolved is not None:
                yield resolved

    def furthest_first(self, query: Unfolded, cut: Cut) -> list[Unfolded]:
        """One atom resolved every way, the one that can leave the cut furthest; the most promising
        way comes last.
        """

        def outside(fact: FrozenFact) -> Bound:
            return cut.beyond(self.reach(fact))

        if query.open:
            atom = max(query.open, key=lambda f: (outside(f), f.predicate, str(f)))
        else:
            atom = min(query.open_pinned, key=str)
        ways = self.expand(query, atom, pinned=not query.open)

        def promise(way: Unfolded) -> tuple[bool, Bound]:
            ends = [outside(f) for f in way.atoms]
            # What is absent may hang on the whole past, but is not unfolded any further.
            ends = [far for far in ends if far != math.inf]
            far = max((*ends, *(outside(f) for f in way.open)), default=0)
            return (not math.isinf(far), far)

        # The last one is looked at first: the furthest that ends, then what recurses on.
        return sorted(ways, key=promise)

    def completed(self, query: Unfolded, cut: Cut, steps: int) -> Iterator[Unfolded]:
        """What some steps make of a query, without what is open; what lies furthest comes first."""
        stack = [query]
        for _ in range(steps):
            if not stack:
                return
            current = stack.pop()
            if current.complete:
                yield current
            else:
                stack += self.furthest_first(current, cut)

    def with_what_is_absent(self, query: Unfolded) -> Iterator[Unfolded]:
        """The query with a fact that it asks to be absent, for each of them: it never holds."""
        for fact in sorted(query.atoms, key=_position):
            absence = self.absences.get(fact.predicate)
            if absence is not None:
                absent = absence.pattern(fact)
                added = self.start_fact(absent.predicate, absent.args, absent.time).facts
                yield self._classified(replace(query, atoms=query.atoms - {fact}), added, [])

    def all(self, query: str) -> Iterator[Unfolded]:
        """The whole union, for queries without recursion.

        >>> from tidelog.logic.normalise import core
        >>> from tidelog.analysis.dependencies import dependencies
        >>> from tidelog.language.checks import check
        >>> program = check("P @ T :- A @ T+1. A @ T :- E @ T. A @ T :- F @ T, E @ T-1.").program
        >>> unfolder = Unfolder(dependencies(core(program), ["P"]))
        >>> for query in unfolder.all("P"): print(unfolder.shown(query))
        E @ T+1
        E @ T, F @ T+1
        """
        stack = [self.start(query)]
        while stack:
            current = stack.pop()
            if current.complete:
                yield current
                continue
            pinned = not current.open
            atom = min(current.open or current.open_pinned, key=_position)
            stack.extend(reversed(list(self.expand(current, atom, pinned=pinned))))

    def shown(self, query: Unfolded) -> str:
        """`E(X1, high) @ T+1, not F(X1, _) @ T`, with the parts in a fixed order."""
        atoms = [self._show(f, "T") for f in query.atoms | query.open]
        atoms += [self._show(f, "") for f in query.pinned | query.open_pinned]
        compared = [f"{_object(a)} {op} {_object(b)}" for a, op, b in query.order.assumptions]
        return ", ".join([*sorted(atoms), *compared]) or "true"

    def _show(self, fact: FrozenFact, origin: str) -> str:
        name, values = fact.predicate, list(map(_object, fact.args))
        absence = self.absences.get(name)
        if absence is not None:
            name, values = f"not {absence.predicate}", shown_args(values, absence)
        args = f"({', '.join(values)})" if values else ""
        if fact.time is None:
            return name + args
        offset = (f"{fact.time:+d}" if fact.time else "") if origin else str(fact.time)
        return f"{name}{args} @ {origin}{offset}"

    # How far what is open may still reach

    def reach(self, fact: FrozenFact) -> Reach:
        """The offsets inputs can have in what becomes of an atom; empty for rigid atoms.

        Whether something is absent hangs on the inputs that it would hang on if it were there.
        """
        if fact.time is None:
            return Reach(math.inf, -math.inf)
        absence = self.absences.get(fact.predicate)
        measured = fact.predicate in self.opaque.aggregates
        if absence is None and not measured and self.core.predicates[fact.predicate].input:
            return Reach(fact.time, fact.time)
        below = self.deps.input_offsets[absence.predicate if absence else fact.predicate]
        return Reach(fact.time + below.low, fact.time + below.high)

    # Resolution

    def _resolve(
        self, query: Unfolded, atom: FrozenFact, clause: Clause, pinned: bool
    ) -> Unfolded | None:
        time = query.time
        point = clause.head.point
        if pinned and not clause.head.can_be_at(atom.time):
            return None
        if point is not None and not pinned:
            # The clause says when the atom holds, and so when the answer does.
            assert atom.time is not None
            if time is not None and time != point - atom.time:
                return None
            time = point - atom.time
        fresh = self._instantiate(clause, atom.time)
        bound = _unify(fresh.head, atom.args)
        if bound is None:
            return None
        assumptions = (*query.order.assumptions, *fresh.assumptions)
        order = Order() if not assumptions else Order().assume(*_apply_all(assumptions, bound))
        if order is None:
            return None
        base = Unfolded(
            _apply_tuple(query.head, bound),
            _apply(query.atoms, bound),
            _apply(query.pinned, bound),
            _apply(query.open, bound),
            _apply(query.open_pinned, bound),
            order,
            time,
            (*query.clauses, clause),
        )
        more = _apply(fresh.atoms, bound)
        fixed = _apply(fresh.pinned, bound)
        if pinned:
            # Below an atom at an explicit time every time is explicit.
            return self._classified(
                base,
                [f for f in more if f.time is None],
                [*fixed, *(f for f in more if f.time is not None)],
            )
        return self._classified(base, more, fixed)

    def _classified(
        self, query: Unfolded, relative: Iterable[FrozenFact], pinned: Iterable[FrozenFact]
    ) -> Unfolded:
        def split(facts: Iterable[FrozenFact]) -> tuple[set[FrozenFact], set[FrozenFact]]:
            facts = set(facts)
            inputs = {f for f in facts if self.core.predicates[f.predicate].input}
            return inputs, facts - inputs

        atoms, open_ = split(relative)
        fixed, open_fixed = split(pinned)
        return replace(
            query,
            atoms=query.atoms | atoms,
            open=query.open | open_,
            pinned=query.pinned | fixed,
            open_pinned=query.open_pinned | open_fixed,
        )

    def _instantiate(self, clause: Clause, at: int | None) -> _Instance:
        """A clause with its variables turned into symbols of its own, its head at a time."""
        values: dict[str, Object] = {}

        def value(term: Term, type_: Type | None) -> Object:
            if isinstance(term, Constant):
                return Constant(term.value, term.type)
            if term.name not in values:
                values[term.name] = Symbol(next(self._numbers), type_)
            return values[term.name]

        atoms: list[FrozenFact] = []
        pinned: list[FrozenFact] = []
        for premise in clause.premises:
            types = self.core.predicates[premise.predicate].types
            args = tuple(value(t, type_) for t, type_ in zip(premise.args, types, strict=True))
            fact = FrozenFact(premise.predicate, args, premise.tick(at))
            match premise.when:
                case FixedTick():
                    pinned.append(fact)
                case Offset() | Rigid():
                    atoms.append(fact)
                case Free():
                    raise AssertionError("clauses of class 1 and 2 are connected")
                case _:
                    assert_never(premise.when)
        types = self.core.predicates[clause.head.predicate].types
        head = tuple(value(t, type_) for t, type_ in zip(clause.head.args, types, strict=True))

        def side(expression: Expression) -> Object:
            if isinstance(expression, Calculation):
                of = (expression.function, tuple(map(side, expression.args)))
                return Symbol(0, made_type(expression), of)
            return value(expression, None)

        assumptions = tuple((side(c.left), c.operator, side(c.right)) for c in clause.tests)
        return _Instance(head, tuple(atoms), tuple(pinned), assumptions)


@dataclass(frozen=True)
class _Instance:
    """A clause over fresh symbols; premises at fixed ticks are apart from the others."""

    head: tuple[Object, ...]
    atoms: tuple[FrozenFact, ...]
    pinned: tuple[FrozenFact, ...]
    assumptions: tuple[Assumption, ...]


def _position(fact: FrozenFact) -> tuple[str, int, str]:
    return (fact.predicate, fact.time or 0, str(fact.args))


def _unify(one: tuple[Object, ...], other: tuple[Object, ...]) -> dict[Symbol, Object] | None:
    bound: dict[Symbol, Object] = {}

    def find(value: Object) -> Object:
        while isinstance(value, Symbol) and value in bound:
            value = bound[value]
        return value

    for a, b in zip(one, other, strict=True):
        a, b = find(a), find(b)
        if a == b:
            continue
        # The rule's symbol gives way, so that the query keeps its own; but a type is kept.
        untyped = isinstance(b, Symbol) and b.type is None
        if isinstance(a, Symbol) and (a.type is None or not untyped):
            bound[a] = b
        elif isinstance(b, Symbol):
            bound[b] = a
        else:
            return None
    return {symbol: find(symbol) for symbol in bound}


def _apply_tuple(values: tuple[Object, ...], bound: dict[Symbol, Object]) -> tuple[Object, ...]:
    return tuple(_applied(v, bound) for v in values)


def _applied(value: Object, bound: dict[Symbol, Object]) -> Object:
    if isinstance(value, Constant) or value.of is None:
        return bound.get(value, value) if isinstance(value, Symbol) else value
    function, args = value.of
    return replace(value, of=(function, _apply_tuple(args, bound)))


def _apply(facts: Iterable[FrozenFact], bound: dict[Symbol, Object]) -> frozenset[FrozenFact]:
    if not bound:
        return frozenset(facts)
    return frozenset(FrozenFact(f.predicate, _apply_tuple(f.args, bound), f.time) for f in facts)


def _apply_all(
    assumptions: Iterable[Assumption], bound: dict[Symbol, Object]
) -> Iterator[Assumption]:
    for left, op, right in assumptions:
        a, b = _apply_tuple((left, right), bound)
        yield a, op, b
