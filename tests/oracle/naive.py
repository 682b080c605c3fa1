"""Bottom-up evaluation, one fact at a time: slow, and easy to believe.

A temporal fact is a tuple whose last value is its tick, so the time of an atom is one more term.
In each round every rule is matched in every way that uses a fact of the round before, until a
round finds nothing new. The horizon clips heads; nothing else knows about it.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from tidelog.language.program import (
    Atom,
    Comparison,
    Constant,
    Operator,
    Program,
    Rule,
    TimeOffset,
    TimePoint,
    Value,
    Variable,
)

from .horizon import Answers, Facts, horizon, temporal_predicates

Row: TypeAlias = tuple[Value, ...]
Binding: TypeAlias = dict[str, Value]


class TooLargeError(Exception):
    """The model within the horizon has more facts than the evaluation was allowed."""


def evaluate(
    program: Program,
    facts: Facts,
    queries: Iterable[str],
    low: int,
    high: int,
    margin: int | None = None,
    limit: int = 1_000_000,
) -> Answers:
    """Answers of each query: at `low..high` for temporal predicates, all of them for rigid ones.

    `oracle.horizon` says when a margin is wide enough and what the default is. More than `limit`
    facts within the horizon raise TooLargeError.

    >>> from tidelog.language.checks import check
    >>> program = check("A @ T+1 :- E @ T. B @ T :- A @ T+1.").accepted()
    >>> evaluate(program, {"E": {(7,)}}, ["B"], 0, 7)
    {'B': {(7,)}}
    """
    temporal = temporal_predicates(program)
    first, last = horizon(program, facts, low, high, margin)
    model = _Model(limit)
    new: set[tuple[str, Row]] = {(name, tuple(row)) for name, rows in facts.items() for row in rows}
    for rule in program.rules:
        if not rule.atoms:
            new.update(_Plan(rule, None).heads(model, {}))
    plans: dict[str, list[_Plan]] = defaultdict(list)
    for rule in program.rules:
        for i, atom in enumerate(rule.atoms):
            plans[atom.predicate].append(_Plan(rule, i))

    while new:
        delta = [
            (name, row)
            for name, row in new
            if (name not in temporal or first <= int(row[-1]) <= last) and model.add(name, row)
        ]
        new = set()
        for name, row in delta:
            for plan in plans[name]:
                binding = _match(plan.start, row, {})
                if binding is not None:
                    new.update(plan.heads(model, binding))

    return {
        name: {r for r in model.rows[name] if name not in temporal or low <= int(r[-1]) <= high}
        for name in queries
    }


@dataclass(frozen=True, slots=True)
class _Shifted:
    """A time variable plus an offset, as a term."""

    name: str
    offset: int


_Term: TypeAlias = Constant | Variable | _Shifted


def _terms(atom: Atom) -> tuple[_Term, ...]:
    match atom.time:
        case None:
            return atom.args
        case TimePoint(tick):
            return (*atom.args, Constant.of(tick))
        case TimeOffset(variable, offset):
            return (*atom.args, _Shifted(variable.name, offset))


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
    left, right = _value(comparison.left, binding), _value(comparison.right, binding)
    return _COMPARE[comparison.operator](left, right)


class _Plan:
    """A rule whose given body atom is matched first; the others follow, most bound terms first."""

    def __init__(self, rule: Rule, start: int | None) -> None:
        self.rule = rule
        self.head = _terms(rule.head)
        rest = list(rule.atoms)
        self.start = _terms(rest.pop(start)) if start is not None else ()
        bound = {t.name for t in self.start if not isinstance(t, Constant)}
        # Per atom: predicate, terms, and the positions whose values are known by then.
        self.steps: list[tuple[str, tuple[_Term, ...], tuple[int, ...]]] = []
        while rest:
            atom = max(rest, key=lambda a: len(_known(_terms(a), bound)))
            rest.remove(atom)
            terms = _terms(atom)
            self.steps.append((atom.predicate, terms, _known(terms, bound)))
            bound |= {t.name for t in terms if not isinstance(t, Constant)}

    def heads(self, model: _Model, binding: Binding) -> Iterator[tuple[str, Row]]:
        for found in self.bindings(model, binding, 0):
            if all(_holds(c, found) for c in self.rule.comparisons):
                yield self.rule.head.predicate, tuple(_value(t, found) for t in self.head)

    def bindings(self, model: _Model, binding: Binding, step: int) -> Iterator[Binding]:
        if step == len(self.steps):
            yield binding
            return
        predicate, terms, known = self.steps[step]
        key = tuple(_value(terms[i], binding) for i in known)
        for row in model.lookup(predicate, known, key):
            extended = _match(terms, row, binding)
            if extended is not None:
                yield from self.bindings(model, extended, step + 1)


def _known(terms: tuple[_Term, ...], bound: set[str]) -> tuple[int, ...]:
    return tuple(
        i for i, term in enumerate(terms) if isinstance(term, Constant) or term.name in bound
    )


class _Model:
    """The facts found so far, with an index for every set of positions ever looked up."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self.rows: dict[str, set[Row]] = defaultdict(set)
        self.indexes: dict[str, dict[tuple[int, ...], dict[Row, list[Row]]]] = defaultdict(dict)

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
        index = self.indexes[name].get(positions)
        if index is None:
            index = self.indexes[name][positions] = defaultdict(list)
            for row in self.rows[name]:
                index[tuple(row[i] for i in positions)].append(row)
        return index.get(key, [])
