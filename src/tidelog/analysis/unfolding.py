"""Unfolding: a query as a union of conjunctive queries over its inputs, one step at a time.

The union can be exponentially large, so that it is never written out unless asked for: a partly
unfolded query (`Unfolded`) has atoms over inputs and atoms still open, and `expand` resolves one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from tidelog.analysis.canonical import Fact
from tidelog.analysis.dependencies import Dependencies, Interval
from tidelog.language.printer import print_value
from tidelog.language.program import Constant, Rule, Term, TimeOffset, TimePoint, Type
from tidelog.logic.normalise import Core
from tidelog.logic.order import Assumption, Object, Order, Symbol


@dataclass(frozen=True)
class Unfolded:
    """A conjunctive query, perhaps with atoms left to unfold.

    Times count from the answer's time; atoms at explicit time points are `pinned`. Facts of the
    program can fix the answer's time.
    """

    head: tuple[Object, ...]
    atoms: frozenset[Fact] = frozenset()
    pinned: frozenset[Fact] = frozenset()
    open: frozenset[Fact] = frozenset()
    open_pinned: frozenset[Fact] = frozenset()
    order: Order = field(default_factory=Order)
    time: int | None = None
    rules: tuple[Rule, ...] = ()

    @property
    def complete(self) -> bool:
        return not self.open and not self.open_pinned

    def symbols(self) -> list[Symbol]:
        facts = (*self.atoms, *self.pinned, *self.open, *self.open_pinned)
        values = [*self.head, *(v for f in facts for v in f.args)]
        return sorted({v for v in values if isinstance(v, Symbol)}, key=lambda s: s.number)

    def __str__(self) -> str:
        """`Q(x1) @ T :- E(x1, high) @ T+1`, with the parts in a fixed order."""
        atoms = [_show(f, "T") for f in self.atoms | self.open]
        atoms += [_show(f, "") for f in self.pinned | self.open_pinned]
        compared = [f"{_object(a)} {op} {_object(b)}" for a, op, b in self.order.assumptions]
        return ", ".join([*sorted(atoms), *compared]) or "true"


def _object(value: Object) -> str:
    return f"X{value.number}" if isinstance(value, Symbol) else print_value(value.value)


def _show(fact: Fact, origin: str) -> str:
    args = f"({', '.join(map(_object, fact.args))})" if fact.args else ""
    if fact.time is None:
        return fact.predicate + args
    offset = (f"{fact.time:+d}" if fact.time else "") if origin else str(fact.time)
    return f"{fact.predicate}{args} @ {origin}{offset}"


class Unfolder:
    """Unfolds queries of one core of class 1 or 2."""

    def __init__(self, deps: Dependencies) -> None:
        self.deps = deps
        self.core: Core = deps.core
        self._numbers = count(1)

    def start(self, query: str) -> Unfolded:
        """The query itself, nothing unfolded."""
        predicate = self.core.predicates[query]
        head = tuple(Symbol(next(self._numbers), t) for t in predicate.types)
        goal = Fact(query, head, 0 if predicate.temporal else None)
        return self._classified(Unfolded(head), [goal], [])

    def start_rule(self, rule: Rule) -> Unfolded | None:
        """The body of one rule, its head at the answer's time; None if it can never hold."""
        found = self._instantiate(rule, {})
        base = rule.head.time.offset if isinstance(rule.head.time, TimeOffset) else 0
        order = Order().assume(*found.assumptions)
        if order is None:
            return None
        time = rule.head.time.tick if isinstance(rule.head.time, TimePoint) else None
        empty = Unfolded(found.head, order=order, time=time, rules=(rule,))
        return self._classified(empty, found.at(-base), found.pinned)

    def expand(self, query: Unfolded, atom: Fact, *, pinned: bool) -> Iterator[Unfolded]:
        """Every way to resolve one open atom by a rule; those that cannot hold are left out."""
        closed = replace(
            query,
            open=query.open - {atom} if not pinned else query.open,
            open_pinned=query.open_pinned - {atom} if pinned else query.open_pinned,
        )
        for rule in self.core.rules_for.get(atom.predicate, ()):
            found = self._resolve(closed, atom, rule, pinned)
            if found is not None:
                yield found

    def all(self, query: str) -> Iterator[Unfolded]:
        """The whole union, for queries without recursion.

        >>> from tidelog.logic.normalise import core
        >>> from tidelog.analysis.dependencies import dependencies
        >>> from tidelog.language.checks import check
        >>> program = check("P @ T :- A @ T+1. A @ T :- E @ T. A @ T :- F @ T, E @ T-1.").program
        >>> for found in Unfolder(dependencies(core(program), ["P"])).all("P"): print(found)
        E @ T+1
        E @ T, F @ T+1
        """
        stack = [self.start(query)]
        while stack:
            found = stack.pop()
            if found.complete:
                yield found
                continue
            pinned = not found.open
            atom = min(found.open or found.open_pinned, key=_position)
            stack.extend(reversed(list(self.expand(found, atom, pinned=pinned))))

    # How far what is open may still reach

    def reach(self, fact: Fact) -> Interval:
        """The offsets inputs can have in what becomes of an atom; empty for rigid atoms."""
        if fact.time is None:
            return Interval(math.inf, -math.inf)
        if self.core.predicates[fact.predicate].input:
            return Interval(fact.time, fact.time)
        below = self.deps.input_offsets[fact.predicate]
        return Interval(fact.time + below.low, fact.time + below.high)

    # Resolution

    def _resolve(self, query: Unfolded, atom: Fact, rule: Rule, pinned: bool) -> Unfolded | None:
        time = query.time
        shift: int | None = None
        match rule.head.time:
            case TimeOffset(_, offset):
                assert atom.time is not None
                shift = atom.time - offset
            case TimePoint(tick):
                if pinned:
                    if tick != atom.time:
                        return None
                else:
                    assert atom.time is not None
                    if time is not None and time != tick - atom.time:
                        return None
                    time = tick - atom.time
        found = self._instantiate(rule, {})
        bound = _unify(found.head, atom.args)
        if bound is None:
            return None
        relative = found.at(shift)
        assumptions = (*query.order.assumptions, *found.assumptions)
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
            (*query.rules, rule),
        )
        more = _apply(relative, bound)
        fixed = _apply(found.pinned, bound)
        if pinned:
            # Below an atom at an explicit time every time is explicit.
            return self._classified(
                base,
                [f for f in more if f.time is None],
                [*fixed, *(f for f in more if f.time is not None)],
            )
        return self._classified(base, more, fixed)

    def _classified(
        self, query: Unfolded, relative: Iterable[Fact], pinned: Iterable[Fact]
    ) -> Unfolded:
        def split(facts: Iterable[Fact]) -> tuple[set[Fact], set[Fact]]:
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

    def _instantiate(self, rule: Rule, values: dict[str, Object]) -> _Instance:
        def value(term: Term, type_: Type | None) -> Object:
            if isinstance(term, Constant):
                return Constant(term.value, term.type)
            if term.name not in values:
                values[term.name] = Symbol(next(self._numbers), type_)
            return values[term.name]

        relative: list[tuple[str, tuple[Object, ...], int | None]] = []
        pinned: list[Fact] = []
        for atom in rule.atoms:
            types = self.core.predicates[atom.predicate].types
            args = tuple(value(t, type_) for t, type_ in zip(atom.args, types, strict=True))
            if isinstance(atom.time, TimePoint):
                pinned.append(Fact(atom.predicate, args, atom.time.tick))
            else:
                offset = atom.time.offset if isinstance(atom.time, TimeOffset) else None
                relative.append((atom.predicate, args, offset))
        types = self.core.predicates[rule.head.predicate].types
        head = tuple(
            value(t, types[i] if i < len(types) else None) for i, t in enumerate(rule.head.args)
        )
        assumptions = tuple(
            (value(c.left, None), c.operator, value(c.right, None)) for c in rule.comparisons
        )
        return _Instance(head, tuple(relative), tuple(pinned), assumptions)


@dataclass(frozen=True)
class _Instance:
    """A rule with its variables turned into symbols of its own."""

    head: tuple[Object, ...]
    relative: tuple[tuple[str, tuple[Object, ...], int | None], ...]
    pinned: tuple[Fact, ...]
    assumptions: tuple[Assumption, ...]

    def at(self, shift: int | None) -> list[Fact]:
        return [
            Fact(name, args, None if offset is None else offset + (shift or 0))
            for name, args, offset in self.relative
        ]


def _position(fact: Fact) -> tuple[str, int, str]:
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
    return tuple(bound.get(v, v) if isinstance(v, Symbol) else v for v in values)


def _apply(facts: Iterable[Fact], bound: dict[Symbol, Object]) -> frozenset[Fact]:
    if not bound:
        return frozenset(facts)
    return frozenset(Fact(f.predicate, _apply_tuple(f.args, bound), f.time) for f in facts)


def _apply_all(
    assumptions: Iterable[Assumption], bound: dict[Symbol, Object]
) -> Iterator[Assumption]:
    for left, op, right in assumptions:
        a, b = _apply_tuple((left, right), bound)
        yield a, op, b
