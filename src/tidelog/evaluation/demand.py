"""Evaluation for one goal: only facts that can be part of a proof of it are looked at.

What a goal needs is bounded twice. By value: the goal's constants are followed down through the
rules, argument by argument, and through joins with rigid inputs. By time: as for any query, and
within a window around the goal where only nearby proofs are looked for. The inputs are cut down to
that before anything else happens, and the ordinary engine does the rest.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import duckdb

from tidelog.analysis.containment import Ground
from tidelog.analysis.dependencies import Dependencies, dependencies
from tidelog.data.packed import COUNT, columns, holds_at_sql, ticks_of
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.plan import Plan, Unbounded, plan
from tidelog.evaluation.ranges import ALWAYS, EMPTY, Range
from tidelog.evaluation.timeline import Limit, evaluate, history
from tidelog.language.program import (
    Atom,
    Comparison,
    Constant,
    Rule,
    TimeOffset,
    TimePoint,
    Value,
    Variable,
)
from tidelog.logic.normalise import Predicate, core
from tidelog.logic.order import decide

# The values an argument may have; None for any.
Values: TypeAlias = frozenset[Value] | None
Row: TypeAlias = tuple[Value, ...]

# More values than these are not told apart.
MOST_VALUES = 200
# Facts of a predicate that are looked up in memory; beyond, the tables are asked.
IN_MEMORY = 200_000


def demanded(
    deps: Dependencies, goal: Ground, joined: Engine | None
) -> dict[str, tuple[Values, ...]]:
    """Per predicate below a goal, the values each of its arguments can have in a proof.

    With an engine, values are followed through the facts of rigid inputs too. Without, every
    match of a rule's head is covered, whichever of its premises hold, and input facts that differ
    from them in what a rule fixes.
    """
    found: dict[str, tuple[Values, ...]] = {
        goal.predicate: tuple(frozenset([value]) for value in goal.args)
    }
    inputs = {p.name for p in deps.core.inputs} if joined is None else set()
    todo = [goal.predicate]
    while todo:
        name = todo.pop()
        for rule in deps.core.rules_for.get(name, ()):
            known = _known(rule, found[name])
            if known is None:
                continue
            if joined is not None:
                _through_rigid(deps, rule, known, joined)
            for atom in rule.atoms:
                needed = tuple(
                    known.get(t.name)
                    if isinstance(t, Variable)
                    else None
                    if atom.predicate in inputs
                    else frozenset([t.value])
                    for t in atom.args
                )
                if joined is None and atom.predicate == f"{name}[in]":
                    needed = tuple(None for _ in atom.args)
                before = found.get(atom.predicate)
                after = needed if before is None else tuple(map(_either, before, needed))
                if after != before:
                    found[atom.predicate] = after
                    todo.append(atom.predicate)
    return found


def _known(rule: Rule, head: tuple[Values, ...]) -> dict[str, Values] | None:
    """The values of a rule's variables, given those of its head; None if it cannot fire."""
    known: dict[str, Values] = {}
    for term, values in zip(rule.head.args, head, strict=True):
        if values is None:
            continue
        if isinstance(term, Constant):
            if term.value not in values:
                return None
        else:
            before = known.get(term.name)
            known[term.name] = values if before is None else before & values
    return known


def _through_rigid(
    deps: Dependencies, rule: Rule, known: dict[str, Values], engine: Engine
) -> None:
    for atom in rule.atoms:
        predicate = deps.core.predicates[atom.predicate]
        if not predicate.input or predicate.temporal:
            continue
        where, bound = _conditions(
            frozenset([t.value]) if isinstance(t, Constant) else known.get(t.name)
            for t in atom.args
        )
        if not where:
            continue
        view = engine.loaded[predicate.source].view
        for name, term in zip(columns(len(atom.args)), atom.args, strict=True):
            if isinstance(term, Variable) and known.get(term.name) is None:
                rows = engine.connection.execute(
                    f"SELECT DISTINCT {name} FROM {view} WHERE {' AND '.join(where)}"
                    f" LIMIT {MOST_VALUES + 1}",
                    bound,
                ).fetchall()
                if len(rows) <= MOST_VALUES:
                    known[term.name] = frozenset(value for (value,) in rows)


def _either(one: Values, other: Values) -> Values:
    if one is None or other is None:
        return None
    both = one | other
    return both if len(both) <= MOST_VALUES else None


def _conditions(args: Iterable[Values]) -> tuple[list[str], list[Value]]:
    """Conditions on columns a1, a2, .. and the values that stand for their question marks."""
    where: list[str] = []
    bound: list[Value] = []
    for i, values in enumerate(args, 1):
        if values is not None:
            marks = ", ".join("?" for _ in values)
            where.append(f"a{i} IN ({marks})" if values else "FALSE")
            bound += sorted(values, key=str)
    return where, bound


@dataclass(frozen=True)
class Goal:
    """One fact of a program over the facts of an engine, and what may be in a proof of it.

    `more` are input facts to be taken as given beside those loaded, and only facts up to the tick
    `until` count among the latter. At the ticks `around`, premises are known even of rules that
    cannot fire there for want of facts.
    """

    engine: Engine
    fact: Ground
    joined: bool = True
    more: tuple[Ground, ...] = ()
    until: int | None = None
    around: Range = EMPTY

    @cached_property
    def deps(self) -> Dependencies:
        name = self.fact.predicate
        return dependencies(core(self.engine.typed, [name]), [name])

    @cached_property
    def values(self) -> dict[str, tuple[Values, ...]]:
        # Facts that are not loaded may join with anything.
        rigid_known = self.joined and all(fact.time is not None for fact in self.more)
        return demanded(self.deps, self.fact, self.engine if rigid_known else None)

    def plan(self, within: Range = ALWAYS) -> Plan:
        """The plan of the goal; raises Unbounded where it has no end."""
        data: dict[str, Range] = {}
        for predicate in self.deps.core.inputs:
            if predicate.temporal:
                range_ = self.engine.loaded[predicate.source].range
                if self.until is not None:
                    range_ = range_ & Range(-math.inf, self.until)
                range_ = range_ | self.around
                for fact in self.more:
                    if fact.predicate == predicate.source and fact.time is not None:
                        range_ = range_ | Range(fact.time, fact.time)
                data[predicate.name] = range_
        time = self.fact.time
        # Without a time of its own a goal may still depend on all times.
        asked = self.engine.span if time is None else Range(time, time)
        return plan(self.deps, data, asked, None, within)

    def evaluate(self, plan: Plan) -> Model:
        """The facts of the plan's predicates that can matter for the goal."""
        tables: dict[str, str] = {}
        for number, predicate in enumerate(self.deps.core.inputs):
            tables[predicate.name] = f"goal_in{number}"
            self._cut(predicate, tables[predicate.name], plan)
        writer = self.engine.evaluate(plan, tables)
        return Model(self.engine, self.deps, {**writer.plan.tables, **tables})

    def on_timeline(self, within: Range, limit: Limit) -> Model:
        return on_timeline(self.engine, self.deps, within, limit)

    def _cut(self, predicate: Predicate, table: str, plan: Plan) -> None:
        names = [*columns(len(predicate.types)), *(["t"] if predicate.temporal else [])]
        view = self.engine.loaded[predicate.source].view
        where, bound = _conditions(self.values.get(predicate.name, ()))
        if predicate.temporal:
            range_ = plan.ranges[predicate.name]
            if self.until is not None:
                range_ = range_ & Range(-math.inf, self.until)
            where.append("FALSE" if range_.empty else f"t BETWEEN {range_.low} AND {range_.high}")
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        chosen = ", ".join(names) or "1 AS z"
        select = f"SELECT {chosen} FROM {view}{condition}"
        more = [fact for fact in self.more if fact.predicate == predicate.source]
        run = self.engine.connection.execute
        for kind in ("TABLE", "VIEW"):
            with suppress(duckdb.CatalogException):  # an earlier goal had one of the other kind
                run(f"DROP {kind} IF EXISTS {table}")
        if not bound and not more:  # nothing but times to choose by: copying would not pay
            run(f"CREATE TEMP VIEW {table} AS {select}")
            return
        run(f"CREATE TEMP TABLE {table} AS {select}", bound)
        for fact in more:
            row = [*fact.args, *([fact.time] if predicate.temporal else [])] or [1]
            run(f"INSERT INTO {table} VALUES ({', '.join('?' for _ in row)})", row)


def on_timeline(engine: Engine, deps: Dependencies, within: Range, limit: Limit) -> Model:
    """All facts at some ticks, for programs whose derivations have no end."""
    facts = history(engine, deps.core)
    derived = [name for name, p in deps.core.predicates.items() if not p.input]
    found = evaluate(deps.core, facts, derived, within, limit)
    held: dict[str, Iterable[tuple[Row, int | None]]] = {
        **facts,
        **{name: line.rows for name, line in found.items()},
    }
    rows: dict[str, list[Row] | None] = {
        name: sorted(row if t is None else (*row, t) for row, t in some)
        for name, some in held.items()
    }
    return Model(engine, deps, {}, within, _held=rows)


def whole_model(engine: Engine, deps: Dependencies, asked: Range, limit: Limit) -> Model:
    """All facts at some ticks that the queries of `deps` rest on."""
    try:
        plan = engine.plan_core(deps.core, deps.queries, asked)
    except Unbounded:
        return on_timeline(engine, deps, asked, limit)
    writer = engine.evaluate(plan)
    return Model(engine, deps, {**plan.inputs, **writer.plan.tables}, in_memory=10 * IN_MEMORY)


@dataclass
class Model:
    """True facts, looked up by some of their arguments and their time.

    Outside `within` nothing is known of derived facts.
    """

    engine: Engine
    deps: Dependencies
    tables: Mapping[str, str]
    within: Range = ALWAYS
    in_memory: int = IN_MEMORY
    _held: dict[str, list[Row] | None] = field(default_factory=dict)
    _indexes: dict[tuple[str, tuple[int, ...]], dict[Row, list[Row]]] = field(default_factory=dict)

    def knows(self, name: str, time: Value | None) -> bool:
        """Whether what is not found of a predicate does not hold."""
        predicate = self.deps.core.predicates[name]
        if predicate.input or not predicate.temporal or self.within == ALWAYS:
            return True
        return isinstance(time, int) and self.within.low <= time <= self.within.high

    def holds(self, fact: Ground) -> bool:
        row = fact.args if fact.time is None else (*fact.args, fact.time)
        return bool(self.lookup(fact.predicate, dict(enumerate(row)), 1))

    def lookup(
        self, name: str, known: Mapping[int, Value], most: int | None = None
    ) -> Sequence[Row]:
        """Rows of a predicate, time last, with known values at some positions; at most so many."""
        held = self.rows(name)
        if held is None:
            return self._asked(name, known, most)
        positions = tuple(sorted(known))
        index = self._indexes.get((name, positions))
        if index is None:
            index = self._indexes[name, positions] = defaultdict(list)
            for row in held:
                index[tuple(row[i] for i in positions)].append(row)
        found = index.get(tuple(known[i] for i in positions), [])
        return found if most is None or len(found) <= most else found[:most]

    def rows(self, name: str) -> list[Row] | None:
        """All rows of a predicate in order, or None if they are too many to hold."""
        if name not in self._held:
            predicate = self.deps.core.predicates[name]
            self._held[name] = None
            if predicate.input or not predicate.temporal:
                (size,) = self.engine.one(f"SELECT count(*) FROM {self.tables[name]}")
            else:
                (size,) = self.engine.one(f"SELECT {COUNT} FROM {self.tables[name]}")
            if size <= self.in_memory:
                self._held[name] = sorted(set(self._unpacked(name, "", [])))
        return self._held[name]

    def _asked(self, name: str, known: Mapping[int, Value], most: int | None) -> list[Row]:
        predicate = self.deps.core.predicates[name]
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
        predicate = self.deps.core.predicates[name]
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

    # Rules

    @cached_property
    def _written(self) -> dict[int, Rule]:
        """The rules of the program by those that the core made of them."""
        program = self.deps.core.program.rules
        made = {(r.origin, r.head.predicate): r for r in program}
        unique = len(made) == len(program)
        return {
            id(rule): made[rule.origin, rule.head.predicate]
            for rule in self.deps.core.rules
            if unique and (rule.origin, rule.head.predicate) in made
        }

    def written(self, rule: Rule) -> Rule:
        """The rule as it was written: in the core, integers may have become floats."""
        return self._written.get(id(rule), rule)

    def matches(
        self, rule: Rule, head: Ground
    ) -> Iterator[tuple[dict[str, Value], tuple[Ground, ...]]]:
        """Ways in which a rule gives a fact: the values of its variables, and its premises."""
        start = head_binding(rule, head)
        if start is not None:
            atoms = rule.atoms
            for binding in self._bindings(rule.comparisons, start, atoms):
                yield binding, tuple(premise(atom, binding) for atom in atoms)

    def _bindings(
        self, comparisons: tuple[Comparison, ...], binding: dict[str, Value], todo: tuple[Atom, ...]
    ) -> Iterator[dict[str, Value]]:
        if any(compared(c, binding) is False for c in comparisons):
            return
        if not todo:
            yield binding
            return
        atom = todo[0] if len(todo) == 1 else max(todo, key=lambda a: _boundness(a, binding))
        others = tuple(a for a in todo if a is not atom)
        for row in self.lookup(atom.predicate, known_positions(atom, binding)):
            extended = matched(atom, row, binding)
            if extended is not None:
                yield from self._bindings(comparisons, extended, others)


# Rules and facts. Times are bound under the name of their variable with an @ in front.


def head_binding(rule: Rule, fact: Ground) -> dict[str, Value] | None:
    """The values a rule's variables have when its head is a fact; None if it never is."""
    row = fact.args if fact.time is None else (*fact.args, fact.time)
    return matched(rule.head, row, {})


def matched(atom: Atom, row: Row, binding: Mapping[str, Value]) -> dict[str, Value] | None:
    """The binding extended so that the atom is the row, time last; None if that cannot be."""
    extended = dict(binding)
    for term, value in zip(atom.args, row, strict=False):
        if isinstance(term, Constant):
            if term.value != value:
                return None
        elif extended.setdefault(term.name, value) != value:
            return None
    match atom.time:
        case TimePoint(tick):
            if row[-1] != tick:
                return None
        case TimeOffset(variable, offset):
            time = row[-1]
            assert isinstance(time, int)
            if extended.setdefault(f"@{variable.name}", time - offset) != time - offset:
                return None
    return extended


def known_positions(atom: Atom, binding: Mapping[str, Value]) -> dict[int, Value]:
    """What is known of an atom's row by position; its time comes last."""
    known: dict[int, Value] = {}
    for i, term in enumerate(atom.args):
        if isinstance(term, Constant):
            known[i] = term.value
        elif term.name in binding:
            known[i] = binding[term.name]
    time = time_of(atom, binding)
    if time is not None:
        known[len(atom.args)] = time
    return known


def time_of(atom: Atom, binding: Mapping[str, Value]) -> int | None:
    match atom.time:
        case TimePoint(tick):
            return tick
        case TimeOffset(variable, offset):
            base = binding.get(f"@{variable.name}")
            return None if base is None else int(base) + offset
        case None:
            return None


def premise(atom: Atom, binding: Mapping[str, Value]) -> Ground:
    """The fact an atom is under a binding of all its variables."""
    args = tuple(t.value if isinstance(t, Constant) else binding[t.name] for t in atom.args)
    return Ground(atom.predicate, args, time_of(atom, binding))


def _boundness(atom: Atom, binding: Mapping[str, Value]) -> tuple[float, bool]:
    known = known_positions(atom, binding)
    size = len(atom.args) + (atom.time is not None)
    return (len(known) / size if size else 1.0, len(atom.args) in known)


def compared(comparison: Comparison, binding: Mapping[str, Value]) -> bool | None:
    """Whether a comparison holds; None while a value is not known."""
    sides = [
        t.value if isinstance(t, Constant) else binding.get(t.name)
        for t in (comparison.left, comparison.right)
    ]
    left, right = sides
    if left is None or right is None:
        return None
    return decide(comparison.operator, left, right)
