"""The four problems by definition, over every history and update of a small domain.

`supports` finds, for each answer, the least sets of input facts that give it. Answers only grow
with the facts, so that an update or a history makes a difference iff such a set does: the least
sets stand for all data over the domain. That is true of programs without `not` only: see
`support.truth` for the others.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from oracle import arithmetic
from oracle.naive import evaluate
from oracle.unfold import unfolded

from tidelog.language.program import (
    Atom,
    Comparison,
    Constant,
    Operator,
    Program,
    Rule,
    TimeOffset,
    TimePoint,
    Type,
    Value,
    Variable,
    ends,
    terms_of,
)
from tidelog.language.types import infer

Row: TypeAlias = tuple[Value, ...]


class Fact(NamedTuple):
    predicate: str
    args: Row
    time: int | None


Support: TypeAlias = frozenset[Fact]
# The least supports of each row.
Rows: TypeAlias = dict[Row, set[Support]]
Goal: TypeAlias = tuple[str, int | None]


class TooLargeError(Exception):
    """More supports than the comparison is worth."""


MOST = 500


@dataclass(frozen=True)
class Shapes:
    """Sorts and types of a program's predicates."""

    temporal: dict[str, bool]
    types: dict[str, tuple[Type | None, ...]]

    @staticmethod
    def of(program: Program) -> Shapes:
        temporal = {name: d.time is not None for name, d in program.declarations.items()}
        for rule in program.rules:
            for atom in (rule.head, *rule.atoms):
                temporal.setdefault(atom.predicate, atom.time is not None)
        return Shapes(temporal, dict(infer(program).columns))


def constants(program: Program) -> dict[Type, list[Value]]:
    """The program's constants by type; integers beside floats count as floats."""
    by_type: dict[Type, list[Value]] = {t: [] for t in Type}
    for rule in program.rules:
        terms = [t for a in (rule.head, *rule.atoms) for t in a.args]
        terms += [t for c in rule.comparisons for s in (c.left, c.right) for t in terms_of(s)]
        for term in terms:
            if isinstance(term, Constant):
                by_type[term.type].append(term.value)
                if term.type is Type.INT:
                    by_type[Type.FLOAT].append(float(term.value))
    return {t: sorted(set(values)) for t, values in by_type.items()}


def domain(
    program: Program, seen: Iterable[Value] = (), fresh: int = 1
) -> dict[Type | None, tuple[Value, ...]]:
    """Constants, values of the data, and fresh values: around and between where there is an order.

    `fresh` is how many of each kind.
    """
    known = constants(program)
    for value in seen:
        known[_type(value)].append(value)
    around = [f"~{i}" for i in range(fresh)]
    ints = sorted({int(v) for v in known[Type.INT]})
    whole = set(ints) | {
        v + s * i for v in ints or [0] for i in range(1, fresh + 1) for s in (1, -1)
    }
    floats = sorted({float(v) for v in known[Type.FLOAT]}) or [0.0]
    dense = set(floats)
    for low, high in itertools.pairwise([floats[0] - 1, *floats, floats[-1] + 1]):
        dense |= {low + (high - low) * i / (fresh + 1) for i in range(1, fresh + 1)}
    texts = (*sorted({str(v) for v in known[Type.TEXT]}), *around)
    return {
        Type.TEXT: texts,
        None: texts,
        Type.INT: tuple(sorted(whole)),
        Type.FLOAT: tuple(sorted(dense)),
        Type.BOOL: (False, True),
    }


def _type(value: Value) -> Type:
    return Constant.of(value).type


def inputs(program: Program, *, temporal: bool) -> list[str]:
    shapes = Shapes.of(program)
    return [name for name in program.inputs if shapes.temporal[name] is temporal]


def every_row(program: Program, name: str, dom: dict[Type | None, tuple[Value, ...]]) -> list[Row]:
    """All rows of an input over a domain, without times."""
    return list(itertools.product(*(dom[t] for t in Shapes.of(program).types[name])))


def points(program: Program) -> list[int]:
    """The explicit times of a program."""
    atoms = (a for r in program.rules for a in (r.head, *r.atoms))
    times = (end for a in atoms for end in ends(a.time))
    return sorted({end.tick for end in times if isinstance(end, TimePoint)})


def radius(program: Program) -> int:
    """A bound for how far a derivation without recursion strays: all spans added up."""
    total = 0
    for rule in program.rules:
        offsets = [
            end.offset
            for atom in (rule.head, *rule.atoms)
            for end in ends(atom.time)
            if isinstance(end, TimeOffset)
        ]
        total += max(offsets, default=0) - min(offsets, default=0)
    return total


# Least supports


def supports(
    program: Program,
    query: str,
    at: int,
    available: Callable[[str, int | None], Iterable[Row]],
    reach: int,
) -> Rows:
    """Least supports of the answers at a time; nothing further than `reach` is looked at.

    `available` gives the rows an input may have at a time.
    """
    program = unfolded(program)
    derived = set(program.heads)
    given = set(program.inputs)
    goals: dict[Goal, None] = {}
    todo: list[Goal] = [(query, at)]
    pins = points(program)
    while todo:
        goal = todo.pop()
        name, time = goal
        far = time is not None and all(abs(time - t) > reach for t in (at, *pins))
        if goal in goals or far:
            continue
        goals[goal] = None
        for rule in program.rules:
            if rule.head.predicate == name and _applies(rule, time):
                todo += [(a.predicate, _when(a, rule, time)) for a in rule.atoms]
    tables: dict[Goal, Rows] = {goal: {} for goal in goals}
    for name, time in goals:
        if name in given:
            for row in available(name, time):
                tables[name, time][row] = {frozenset({Fact(name, row, time)})}
    changed = True
    while changed:
        changed = False
        for goal in [g for g in goals if g[0] in derived]:
            for rule in program.rules:
                if rule.head.predicate == goal[0] and _applies(rule, goal[1]):
                    for row, support in list(_fired(rule, goal[1], tables)):
                        changed |= _add(tables[goal].setdefault(row, set()), support)
            if sum(map(len, tables[goal].values())) > MOST:
                raise TooLargeError
    return tables[query, at]


def _add(known: set[Support], support: Support) -> bool:
    if any(k <= support for k in known):
        return False
    known -= {k for k in known if support < k}
    known.add(support)
    return True


def _applies(rule: Rule, time: int | None) -> bool:
    return not isinstance(rule.head.time, TimePoint) or rule.head.time.tick == time


def _when(atom: Atom, rule: Rule, time: int | None) -> int | None:
    if isinstance(atom.time, TimePoint):
        return atom.time.tick
    if atom.time is None:
        return None
    assert isinstance(rule.head.time, TimeOffset)
    assert isinstance(atom.time, TimeOffset)
    assert time is not None
    return time - rule.head.time.offset + atom.time.offset


def _fired(rule: Rule, time: int | None, tables: dict[Goal, Rows]) -> Iterator[tuple[Row, Support]]:
    partial: list[tuple[dict[str, Value], Support]] = [({}, frozenset())]
    for atom in rule.atoms:
        rows = tables.get((atom.predicate, _when(atom, rule, time)), {})
        following = []
        for binding, support in partial:
            for row, reasons in rows.items():
                extended = _matched(atom, row, binding)
                if extended is not None:
                    following += [(extended, support | reason) for reason in reasons]
            if len(following) > 20 * MOST:
                raise TooLargeError
        partial = following
    for matched, support in partial:
        binding = arithmetic.defined(rule.comparisons, matched)
        if all(true_comparison(c, binding) for c in rule.comparisons):
            yield tuple(_value(t, binding) for t in rule.head.args), support


def _matched(atom: Atom, row: Row, binding: dict[str, Value]) -> dict[str, Value] | None:
    extended = dict(binding)
    for term, value in zip(atom.args, row, strict=True):
        known = term.value if isinstance(term, Constant) else extended.setdefault(term.name, value)
        if known != value:
            return None
    return extended


def _value(term: Variable | Constant, binding: dict[str, Value]) -> Value:
    return term.value if isinstance(term, Constant) else binding[term.name]


_COMPARE: dict[Operator, Callable[[Value, Value], bool]] = {
    Operator.EQ: operator.eq,
    Operator.NE: operator.ne,
    Operator.LT: operator.lt,
    Operator.LE: operator.le,
    Operator.GT: operator.gt,
    Operator.GE: operator.ge,
}


def true_comparison(c: Comparison, binding: dict[str, Value]) -> bool:
    left, right = arithmetic.value(c.left, binding), arithmetic.value(c.right, binding)
    return left is not None and right is not None and _COMPARE[c.operator](left, right)


# The problems


def output_times(program: Program, reach: int) -> list[int]:
    """A time far from every explicit one, and all those near them."""
    pins = points(program)
    near = {k + o for k in pins for o in range(-reach, reach + 1)}
    return sorted({*near, max(pins, default=0) + 10 * reach + 100})


def offsets(
    program: Program, query: str, fresh: int = 1, reach: int | None = None
) -> tuple[int | None, int | None]:
    """The least and the greatest offset of a temporal fact in a least support of an answer.

    Delay(Q, d) holds over the domain iff the greatest is at most d, Window(Q, d, s) iff the least
    is at least d - s. None when no answer needs temporal facts.
    """
    dom = domain(program, fresh=fresh)
    rows = {name: every_row(program, name, dom) for name in program.inputs}
    far = radius(program) if reach is None else reach
    distances: set[int] = set()
    for at in output_times(program, far):
        answers = supports(program, query, at, lambda name, _: rows[name], far)
        times = {f.time for some in answers.values() for s in some for f in s}
        distances |= {t - at for t in times if t is not None}
    return min(distances, default=None), max(distances, default=None)


Facts: TypeAlias = dict[str, set[Row]]


def as_facts(program: Program, facts: Iterable[Fact]) -> Facts:
    """Facts as rows with the time last, every input present."""
    rows: Facts = {name: set() for name in program.inputs}
    for fact in facts:
        row = fact.args if fact.time is None else (*fact.args, fact.time)
        rows.setdefault(fact.predicate, set()).add(row)
    return rows


def history(program: Program, facts: Facts) -> set[Fact]:
    temporal = Shapes.of(program).temporal
    return {
        Fact(name, row[:-1], int(row[-1])) if temporal[name] else Fact(name, row, None)
        for name, rows in facts.items()
        for row in rows
    }


def answers_at(
    program: Program, query: str, facts: Iterable[Fact], at: int, margin: int | None = None
) -> set[Row]:
    answers = evaluate(program, as_facts(program, facts), [query], at, at, margin)
    return {row[:-1] for row in answers[query]}


def everything_later(
    program: Program, dom: dict[Type | None, tuple[Value, ...]], first: int, last: int
) -> set[Fact]:
    """The critical update: all temporal facts over a domain at some ticks."""
    return {
        Fact(name, row, t)
        for name in inputs(program, temporal=True)
        for row in every_row(program, name, dom)
        for t in range(first, last + 1)
    }


def definitive(
    program: Program, query: str, known: set[Fact], tin: int, tout: int, fresh: int = 1
) -> bool:
    """DTP with the critical update (Lemma 2 and its bounded form)."""
    dom = domain(program, values_of(known), fresh)
    last = max([tout, *points(program)]) + 2 * radius(program)
    update = everything_later(program, dom, tin + 1, last)
    return answers_at(program, query, known | update, tout) == answers_at(
        program, query, known, tout
    )


def differing_updates(
    program: Program,
    query: str,
    known: set[Fact],
    kept: set[Fact],
    tin: int,
    tout: int,
    fresh: int = 1,
    reach: int | None = None,
) -> Iterator[tuple[set[Fact], int, Row]]:
    """Least updates after which an answer from tout on is lost with `kept` alone."""
    dom = domain(program, values_of(known), fresh)
    far = radius(program) if reach is None else reach
    rows = {name: every_row(program, name, dom) for name in inputs(program, temporal=True)}
    by_goal: dict[Goal, list[Row]] = {}
    for fact in known:
        by_goal.setdefault((fact.predicate, fact.time), []).append(fact.args)

    def available(name: str, time: int | None) -> Iterable[Row]:
        if time is not None and time > tin:
            return rows[name]
        return by_goal.get((name, time), ())

    last = max([tin, tout, *points(program)]) + far + 1
    for at in range(tout, last + 1):
        for answer, reasons in supports(program, query, at, available, far).items():
            for support in reasons:
                if support <= kept | {f for f in support if f.time is not None and f.time > tin}:
                    continue
                update = {f for f in support if f.time is not None and f.time > tin}
                if answer not in answers_at(program, query, kept | update, at):
                    yield update, at, answer


def segment(known: set[Fact], tmem: int) -> set[Fact]:
    """D[tmem]: the rigid facts, and the temporal ones after tmem."""
    return {f for f in known if f.time is None or f.time > tmem}


def values_of(facts: Iterable[Fact]) -> set[Value]:
    return {v for f in facts for v in f.args}
