"""Bottom-up evaluation, one fact at a time: slow, and easy to believe.

A temporal fact is a tuple whose last value is its tick, so the time of an atom is one more term.
Predicates that need one another are a group, evaluated after all groups that it needs: in each
round every rule is matched in every way that uses a fact of the round before, until a round finds
nothing new. What is negated is known by then, unless the group needs the absence of its own facts:
see `_settled`; a group that gathers its own facts is derived tick by tick (`_by_tick`). The horizon
clips heads and clocks; nothing else knows about it. An atom that is asked for over an interval is
looked up at each tick of it, and the ticks are counted.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from tidelog.language.program import (
    Aggregated,
    Atom,
    Comparison,
    Constant,
    Interval,
    Operator,
    Program,
    Rule,
    TimeOffset,
    TimePoint,
    Type,
    Value,
    Variable,
    terms_of,
)
from tidelog.language.types import infer

from . import arithmetic, by_tick
from .aggregates import gathered
from .horizon import Answers, Facts, horizon, temporal_predicates, ticking

Row: TypeAlias = tuple[Value, ...]
Binding: TypeAlias = dict[str, Value]


class TooLargeError(Exception):
    """The model within the horizon has more facts than the evaluation was allowed."""


class NotTotalError(Exception):
    """Some facts hang on their own absence: no model is the one that is meant."""


def evaluate(
    program: Program,
    facts: Facts,
    queries: Iterable[str],
    low: int,
    high: int,
    margin: int | None = None,
    limit: int = 1_000_000,
    tick_by_tick: Callable[[Program, set[str]], bool] | None = None,
) -> Answers:
    """Answers of each query: at `low..high` for temporal predicates, all of them for rigid ones.

    `oracle.horizon` says when a margin is wide enough and what the default is. More than `limit`
    facts within the horizon raise TooLargeError. `tick_by_tick` says which groups are derived so.

    >>> from tidelog.language.checks import check
    >>> program = check("A @ T+1 :- E @ T. B @ T :- A @ T+1.").accepted()
    >>> evaluate(program, {"E": {(7,)}}, ["B"], 0, 7)
    {'B': {(7,)}}
    """
    temporal = temporal_predicates(program)
    first, last = horizon(program, facts, low, high, margin)
    given: dict[str, set[Row]] = {name: set(map(tuple, rows)) for name, rows in facts.items()}
    given |= {name: {(tick,) for tick in ticking(program, facts, last)} for name in program.clocks}

    def inside(name: str, row: Row) -> bool:
        return name not in temporal or first <= int(row[-1]) <= last

    model = _Model(limit)
    model.types = infer(program).columns
    for names in _groups(program, given):
        if (tick_by_tick or _gathers_its_own)(program, names):
            settled = _by_tick(program, names, given, model, first, last)
        else:
            settled = _settled(program, names, given, model, inside)
        for name in names:
            for row in settled.rows[name]:
                model.add(name, row)
    return {
        name: {r for r in model.rows[name] if name not in temporal or low <= int(r[-1]) <= high}
        for name in queries
    }


def _groups(program: Program, given: Iterable[str]) -> list[set[str]]:
    """Predicates that need one another, each group after those that it needs."""
    needs: dict[str, set[str]] = {name: set() for name in (*given, *program.inputs)}
    for rule in program.rules:
        needs.setdefault(rule.head.predicate, set()).update(a.predicate for a in rule.atoms)
    for middle in needs:
        for name in needs:
            if middle in needs[name]:
                needs[name] |= needs[middle]
    groups = {
        frozenset({name, *(other for other in needs[name] if name in needs[other])})
        for name in needs
    }
    # A group needs more predicates, itself included, than any group that it needs.
    return [
        set(group) for group in sorted(groups, key=lambda g: len(g.union(*(needs[n] for n in g))))
    ]


def _gathers_its_own(program: Program, names: set[str]) -> bool:
    """Whether a rule of a group has an aggregate of facts of the group."""
    rules = (rule for rule in program.rules if rule.head.predicate in names)
    return any(literal.atom.predicate in names for rule in rules for literal in rule.aggregated)


def _by_tick(
    program: Program,
    names: set[str],
    given: dict[str, set[Row]],
    below: _Model,
    first: int,
    last: int,
) -> _Model:
    """The facts of a group, a predicate and a tick after the other."""
    model = _Model(below.limit - below.size, names, below)
    for name in names:
        for row in given.get(name, ()):
            model.add(name, row)
    plans = {
        name: [_Plan(rule, None) for rule in program.rules if rule.head.predicate == name]
        for name in names
    }
    for pairs in by_tick.pairs_in_order(program, names, first, last):
        again = True
        while again:
            new = [
                (name, row)
                for name, tick in pairs
                for plan in plans[name]
                for base in by_tick.bases(plan.rule, tick)
                for _, row in plan.heads(model, {**by_tick.time_of(plan.rule, base)}, model)
                if row[-1] == tick
            ]
            again = sum(model.add(name, row) for name, row in new) > 0
    return model


def _settled(
    program: Program,
    names: set[str],
    given: dict[str, set[Row]],
    below: _Model,
    inside: Callable[[str, Row], bool],
) -> _Model:
    """The facts of a group, the well-founded ones.

    Whoever believes in too few facts finds too many absent and so derives too many; whoever
    believes in too many derives too few. By turns the few grow and the many shrink until they meet.
    """
    rules = [rule for rule in program.rules if rule.head.predicate in names]

    def derived(believed: _Model) -> _Model:
        model = _Model(below.limit - below.size, names, below)
        new = {(name, row) for name in names for row in given.get(name, ())}
        for rule in rules:
            new.update(_Plan(rule, None).heads(model, {}, believed))
        while new:
            delta = [(n, row) for n, row in new if inside(n, row) and model.add(n, row)]
            new = set()
            for name in names:
                rows = [row for other, row in delta if other == name]
                for start, plan in plans[name]:
                    for binding in start.bindings(rows, model, {}):
                        new.update(plan.heads(model, binding, believed))
        return model

    plans: dict[str, list[tuple[_Asked, _Plan]]] = defaultdict(list)
    for rule in rules:
        for i, atom in enumerate(rule.positive):
            plans[atom.predicate].append((_Asked(atom), _Plan(rule, i)))
    few = _Model(0, names, below)
    many = derived(few)
    if not any(atom.predicate in names for rule in rules for atom in rule.negative):
        return many
    while few.size < many.size:
        before = few.size, many.size
        few = derived(many)
        many = derived(few)
        if (few.size, many.size) == before:
            raise NotTotalError(f"{', '.join(sorted(names))}: {many.size - few.size} facts")
    return many


@dataclass(frozen=True, slots=True)
class _Shifted:
    """A time variable plus an offset, as a term."""

    name: str
    offset: int


_Term: TypeAlias = Constant | Variable | _Shifted


def _instant(time: TimePoint | TimeOffset) -> _Term:
    if isinstance(time, TimePoint):
        return Constant.of(time.tick)
    return _Shifted(time.variable.name, time.offset)


@dataclass(frozen=True, slots=True)
class _Over:
    """At `least` so many ticks from `low` to `high`."""

    low: _Term
    high: _Term
    least: int

    def ticks(self, binding: Binding) -> range:
        return range(int(_value(self.low, binding)), int(_value(self.high, binding)) + 1)

    def bases(self, tick: int) -> list[Binding]:
        """The values of the time variable for which a tick is one of these."""
        if isinstance(self.low, _Shifted) and isinstance(self.high, _Shifted):
            earliest, last = tick - self.high.offset, tick - self.low.offset
            return [{self.low.name: base} for base in range(earliest, last + 1)]
        return [{}] if tick in self.ticks({}) else []


class _Asked:
    """An atom of a body, as terms; the tick of a temporal one is the last, unless it has many."""

    def __init__(self, atom: Atom) -> None:
        self.predicate = atom.predicate
        self.over: _Over | None = None
        self.terms: tuple[_Term, ...] = atom.args
        match atom.time:
            case TimePoint() | TimeOffset():
                self.terms = (*atom.args, _instant(atom.time))
            case Interval(low, high):
                self.over = _Over(_instant(low), _instant(high), atom.time.fewest)

    def names(self) -> set[str]:
        """The variables that have a value after the atom: where it has many ticks, not `_`."""
        if self.over is None:
            return {t.name for t in self.terms if not isinstance(t, Constant)}
        named = {t.name for t in self.terms if isinstance(t, Variable) and not t.anonymous}
        return named | ({self.over.low.name} if isinstance(self.over.low, _Shifted) else set())

    def ways(self, row: Row, binding: Binding) -> Iterator[Binding]:
        """The binding extended in every way in which a row can help the atom to hold."""
        if self.over is None:
            extended = _match(self.terms, row, binding)
            if extended is not None:
                yield extended
            return
        extended = _match(self.terms, row[:-1], binding)
        if extended is None:
            return
        named = {name: value for name, value in extended.items() if not name.startswith("_#")}
        for base in self.over.bases(int(row[-1])):
            if all(binding.get(name, value) == value for name, value in base.items()):
                yield binding | named | base

    def bindings(self, rows: Iterable[Row], model: _Model, binding: Binding) -> Iterator[Binding]:
        """The binding extended in every way in which it holds with one of the rows, each once."""
        seen: set[Row] = set()
        for row in rows:
            for extended in self.ways(row, binding):
                way = tuple(extended.values())
                if way not in seen:
                    seen.add(way)
                    if self.over is None or self.holds(model, extended):
                        yield extended

    def holds(self, model: _Model, binding: Binding) -> bool:
        """Whether it holds at enough ticks, whatever stands at the positions without a value."""
        known = _known(self.terms, set(binding))
        key = tuple(_value(self.terms[i], binding) for i in known)
        if self.over is None:
            return bool(model.lookup(self.predicate, known, key))
        positions = (*known, len(self.terms))
        there = 0
        for tick in self.over.ticks(binding):
            there += bool(model.lookup(self.predicate, positions, (*key, tick)))
            if there >= self.over.least:
                return True
        return False

    def looked_up(self, model: _Model, binding: Binding) -> Iterator[Binding]:
        """The binding extended in every way in which it holds, each once."""
        known = _known(self.terms, set(binding))
        key = tuple(_value(self.terms[i], binding) for i in known)
        if self.over is not None and self.names() <= set(binding):
            if self.holds(model, binding):
                yield binding
            return
        yield from self.bindings(model.lookup(self.predicate, known, key), model, binding)


def _value(term: _Term, binding: Binding) -> Value:
    match term:
        case Constant():
            return term.value
        case Variable():
            return binding[term.name]
        case _Shifted():
            return int(binding[term.name]) + term.offset


def _match(terms: tuple[_Term, ...], row: Row, binding: Binding) -> Binding | None:
    """The binding extended so that the terms are the row, or None."""
    extended = dict(binding)
    for term, value in zip(terms, row, strict=True):
        if isinstance(term, Constant):
            if term.value != value:
                return None
            continue
        if isinstance(term, _Shifted):
            value = int(value) - term.offset
        if extended.setdefault(term.name, value) != value:
            return None
    return extended


_COMPARE: dict[Operator, Callable[[Value, Value], bool]] = {
    Operator.EQ: operator.eq,
    Operator.NE: operator.ne,
    Operator.LT: operator.lt,
    Operator.LE: operator.le,
    Operator.GT: operator.gt,
    Operator.GE: operator.ge,
}


def _holds(comparison: Comparison, binding: Binding) -> bool:
    left, right = (arithmetic.value(side, binding) for side in (comparison.left, comparison.right))
    if left is None or right is None:
        return False
    return _COMPARE[comparison.operator](left, right)


class _Plan:
    """A rule whose given body atom is matched first; the others follow, most bound terms first."""

    def __init__(self, rule: Rule, start: int | None) -> None:
        self.rule = rule
        rest = [_Asked(atom) for atom in rule.positive]
        bound = rest.pop(start).names() if start is not None else set()
        self.steps: list[_Asked] = []
        while rest:
            asked = max(rest, key=lambda a: len(_known(a.terms, bound)))
            rest.remove(asked)
            self.steps.append(asked)
            bound |= asked.names()
        self.absent = [_Asked(atom) for atom in rule.negative]
        self.outside = _outside(rule)

    def heads(self, model: _Model, binding: Binding, believed: _Model) -> Iterator[tuple[str, Row]]:
        """What follows if the facts that are believed are those that are not absent."""
        for matched in self.bindings(model, binding, 0):
            came_to = self.gathered(model, matched)
            if came_to is None:
                continue
            whole = arithmetic.defined(self.rule.comparisons, came_to)
            if (
                all(_compared(a, v, whole) for a, v in self._values(model, matched))
                and all(_holds(c, whole) for c in self.rule.comparisons)
                and not any(absent.holds(believed, whole) for absent in self.absent)
            ):
                for row in _head_rows(self.rule.head, whole):
                    yield self.rule.head.predicate, row

    def gathered(self, model: _Model, binding: Binding) -> Binding | None:
        """The binding with the values that aggregates give to variables; None if one has none."""
        whole = dict(binding)
        for literal, value in self._values(model, binding):
            if value is None:
                return None
            if literal.operator is Operator.EQ and isinstance(literal.value, Variable):
                whole.setdefault(literal.value.name, value)
        return whole

    def _values(self, model: _Model, binding: Binding) -> Iterator[tuple[Aggregated, Value | None]]:
        for literal in self.rule.aggregated:
            rows = model.lookup(literal.atom.predicate, (), ())
            whole = model.whole(literal)
            yield literal, gathered(literal, self.outside, rows, binding, whole)

    def bindings(self, model: _Model, binding: Binding, step: int) -> Iterator[Binding]:
        if step == len(self.steps):
            yield binding
            return
        for extended in self.steps[step].looked_up(model, binding):
            yield from self.bindings(model, extended, step + 1)


def _compared(literal: Aggregated, value: Value | None, binding: Binding) -> bool:
    other = arithmetic.value(literal.value, binding)
    if value is None or other is None:
        return False
    sides = (value, other) if literal.leads else (other, value)
    return _COMPARE[literal.operator](*sides)


def _outside(rule: Rule) -> set[str]:
    """The variables that stand anywhere but within aggregates."""
    names = {v.name for v in rule.head.variables}
    for literal in rule.body:
        if isinstance(literal, Aggregated):
            sides = (t for t in terms_of(literal.value) if isinstance(t, Variable))
            names.update(v.name for v in sides)
        else:
            names.update(v.name for v in literal.variables)
    return names


def _head_rows(head: Atom, binding: Binding) -> Iterator[Row]:
    """The facts of a head: one, or one at every tick of its interval."""
    asked = _Asked(head)
    row = tuple(_value(term, binding) for term in asked.terms)
    if asked.over is None:
        yield row
    else:
        yield from ((*row, tick) for tick in asked.over.ticks(binding))


def _known(terms: tuple[_Term, ...], bound: set[str]) -> tuple[int, ...]:
    return tuple(
        i for i, term in enumerate(terms) if isinstance(term, Constant) or term.name in bound
    )


class _Model:
    """The facts found so far, with an index for every set of positions ever looked up.

    With a model below it has the facts of some predicates only, and looks others up there.
    """

    def __init__(
        self, limit: int, names: set[str] | None = None, below: _Model | None = None
    ) -> None:
        self.limit = limit
        self.names = names
        self.below = below
        self.size = 0
        self.types: dict[str, tuple[Type | None, ...]] = {}
        self.rows: dict[str, set[Row]] = defaultdict(set)
        self.indexes: dict[str, dict[tuple[int, ...], dict[Row, list[Row]]]] = defaultdict(dict)

    def whole(self, literal: Aggregated) -> bool:
        """Whether what an aggregate measures is int."""
        of = literal.aggregate.of
        types = self.types.get(literal.atom.predicate, ())
        if self.below is not None:
            return self.below.whole(literal)
        return of is not None and types[literal.atom.args.index(of)] is Type.INT

    def add(self, name: str, row: Row) -> bool:
        """Whether the fact is new."""
        if row in self.rows[name]:
            return False
        self.rows[name].add(row)
        self.size += 1
        if self.size > self.limit:
            raise TooLargeError(f"more than {self.limit} facts")
        for positions, index in self.indexes[name].items():
            index[tuple(row[i] for i in positions)].append(row)
        return True

    def lookup(self, name: str, positions: tuple[int, ...], key: Row) -> list[Row]:
        if self.below is not None and self.names is not None and name not in self.names:
            return self.below.lookup(name, positions, key)
        index = self.indexes[name].get(positions)
        if index is None:
            index = self.indexes[name][positions] = defaultdict(list)
            for row in self.rows[name]:
                index[tuple(row[i] for i in positions)].append(row)
        return index.get(key, [])
