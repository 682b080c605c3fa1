"""The data-dependent problems, definitive time points and live facts, on the ordinary engine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import pyarrow as pa

from tidelog.analysis.containment import Budget, Ground, explicit_times
from tidelog.analysis.definitive import Awaited, Definitive, Pending
from tidelog.analysis.dependencies import Class, Dependencies
from tidelog.analysis.forgetting import Forgettable, decidable, forgettable
from tidelog.analysis.passes import passes
from tidelog.analysis.possible import DUE, Open, Pattern, Possible, PossibleRule
from tidelog.data.packed import columns, holds_at_sql, ticks_of
from tidelog.data.schema import schemas
from tidelog.errors import NoAnswer
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.goal_directed.goal import Goal
from tidelog.evaluation.plan import Unbounded
from tidelog.evaluation.ranges import Range
from tidelog.evaluation.sql import Writer
from tidelog.evaluation.timeline import Limit, evaluate, history
from tidelog.language.program import (
    Atom,
    Constant,
    Rule,
    Term,
    TimeOffset,
    TimePoint,
    Type,
    Value,
    Variable,
)
from tidelog.logic.normalise import Core, Predicate, Role, clause_of

# Pending answers that are explained one by one; all are counted.
MOST_PENDING = 20
# Steps from a pending answer down to the history that are taken one by one.
DEEPEST = 50
# Output times that are listed one by one when explicit times matter.
MOST_DUE = 1_000


@dataclass(frozen=True)
class Problem:
    """A query of one program over one history, ready for questions about its future."""

    engine: Engine
    query: str

    def __post_init__(self) -> None:
        deps = self.deps
        if not deps.core.predicates[self.query].temporal:
            raise NoAnswer(f"{self.query} has no time: the question concerns temporal queries")

    @cached_property
    def deps(self) -> Dependencies:
        return passes(self.engine.typed, [self.query]).dependencies

    # Definitive time points

    @property
    def blocking(self) -> bool:
        """Whether the question needs the timeline: answers may depend on any later time."""
        return self.deps.cls is Class.BLOCKING

    def definitive(self, tin: int, tout: int, budget: float = 60.0) -> Definitive:
        """Whether the answers at tout can still change when everything up to tin has arrived."""
        if self.blocking:
            made, pending = self._on_timeline(tin, Range(tout, tout), budget)
            pending.sort(key=str)
            return Definitive(
                not pending, made.exact or not pending, len(pending), tuple(pending[:MOST_PENDING])
            )
        open_ = self._possible(tin, Range(tout, tout))
        found: list[Pending] = []
        total = 0
        for pattern, table in open_.tables():
            (n,) = self.engine.one(f"SELECT count(*) FROM {table}")
            total += n
            rows = self.engine.all(f"SELECT * FROM {table} LIMIT {MOST_PENDING - len(found)}")
            found += [open_.pending(pattern, row[:-2], tout) for row in sorted(rows, key=str)]
        found = [self._least(pending, tin) for pending in found]
        return Definitive(total == 0, open_.possible.exact or total == 0, total, tuple(found))

    def open_points(self, tin: int, from_: int, to: int, budget: float = 60.0) -> list[int]:
        """The time points from a tick to a tick that are not definitive yet."""
        if self.blocking:
            _, pending = self._on_timeline(tin, Range(from_, to), budget)
            return sorted({p.time for p in pending})
        open_ = self._possible(tin, Range(from_, to))
        points: set[int] = set()
        for _, table in open_.tables():
            for c, b in self.engine.all(f"SELECT c, bit_or(b) FROM {table} GROUP BY c"):
                points.update(ticks_of(c, b))
        return sorted(p for p in points if from_ <= p <= to)

    def _possible(self, tin: int, asked: Range) -> _Open:
        made = passes(self.engine.typed, [self.query]).possible
        names = [made.name(self.query, p) for p in made.patterns[self.query]]
        whole = made.core(tin)
        plan = self.engine.plan_core(whole, [self.query, *names], asked, tin)
        writer = self.engine.evaluate(plan)
        return _Open(self.engine, made, writer, tin)

    def _least(self, pending: Pending, tin: int) -> Pending:
        """The pending answer without premises that it could do without: others hold already."""
        waits = list(pending.waits_for)
        if len(waits) < 2:
            return pending
        types = {p.source: p.types for p in self.deps.core.predicates.values()}

        def comes(premises: Iterable[Awaited]) -> bool:
            more = tuple(
                Ground(p.predicate, _filled(p.args, types[p.predicate]), p.time) for p in premises
            )
            answer = Ground(self.query, _filled(pending.args, types[self.query]), pending.time)
            goal = Goal(self.engine, answer, more=more, until=tin)
            return goal.evaluate(goal.plan()).holds(answer)

        for premise in pending.waits_for:
            fewer = [p for p in waits if p is not premise]
            if comes(fewer):
                waits = fewer
        return replace(pending, waits_for=tuple(waits))

    def _on_timeline(self, tin: int, asked: Range, budget: float) -> tuple[Possible, list[Pending]]:
        """The paper's critical query, fresh objects as arbitrary arguments, on the timeline."""
        deps = self.deps
        made = passes(self.engine.typed, [self.query]).possible
        names = {made.name(self.query, p): p for p in made.patterns[self.query]}
        whole = made.core(tin).below([self.query, *names])
        limit = Limit.of(deps, budget, self.engine.progress)
        facts = history(self.engine, whole, tin)
        found = evaluate(whole, facts, [self.query, *names], asked, limit)
        certain = found[self.query].rows
        pending: list[Pending] = []
        for name, pattern in names.items():
            for row, time in found[name].rows:
                if not (made.ground(pattern) and (row, time) in certain):
                    assert time is not None
                    values = iter(row)
                    args = tuple(next(values) if label is None else None for label in pattern)
                    pending.append(Pending(self.query, args, time, (), ()))
        return made, pending

    # Live facts

    def live(self, tin: int, tout: int) -> dict[str, str]:
        """Facts up to tin that a possible answer at tout or later can use: a select per input.

        The selects give the arguments and the time. Rigid facts are always live and not listed.
        """
        deps = self.deps
        everything = {p.source: self._everything(p, tin) for p in deps.core.inputs if p.temporal}
        # Where any fact may matter at any later time, all of them are kept.
        due = None if self.blocking else self._due(deps, tin, tout)
        if due is None:
            return everything
        try:
            return self._used(deps, tin, *due)
        except Unbounded:
            return everything

    def _used(
        self, deps: Dependencies, tin: int, due: list[Rule], bounded: bool, until: int | None
    ) -> dict[str, str]:
        made = passes(self.engine.typed, [self.query]).possible
        deps = made.deps
        seeds = list(_seeds(made, deps, everything=not bounded))
        # Where every possible fact of a recursive predicate counts as used, none need be derived.
        settled = frozenset() if bounded else deps.recursive
        rules = [*due, *seeds, *_used(made, settled)]
        predicates = _used_predicates(made, rules)
        whole = made.core(tin, until)
        whole = Core(
            whole.program,
            (*whole.clauses, *map(clause_of, rules)),
            {**whole.predicates, **predicates},
        )
        if not any(p.temporal for p in deps.core.inputs):
            return {}
        asked = {
            p.name: f"{p.name}!"
            for p in deps.core.inputs
            if p.temporal and f"{p.name}!" in predicates
        }
        low = min(
            (self.engine.loaded[p.source].range.low for p in deps.core.inputs if p.temporal),
            default=math.inf,
        )
        plan = self.engine.plan_core(whole, asked.values(), Range(low, tin), tin)
        writer = self.engine.evaluate(plan)
        return {whole.predicates[p].source: writer.rows(name) for p, name in asked.items()}

    def table(self, name: str, select: str) -> pa.Table:
        """The facts a select of `live` gives, under the names of the input's columns."""
        found = self.engine.arrow(select)
        schema = schemas(self.engine.typed)[name]
        return found.rename_columns(list(schema.names))

    # Forgetting

    def forgettable(self, tin: int, tout: int, tmem: int, budget: Budget) -> Forgettable:
        """Whether everything up to tmem may be forgotten once all before tout is answered."""
        deps = self.deps
        used = self.live(tin, tout)
        needed = any(
            self.engine.one(f"SELECT count(*) FROM ({select}) AS l WHERE t <= {tmem}")[0]
            for select in used.values()
        )
        if not needed:
            return Forgettable(True, True, "no possible answer uses those facts")
        if self.blocking:
            return Forgettable(False, False, f"{self.query} is blocking: any fact may matter later")
        if not decidable(deps):
            return Forgettable(False, False, "a possible answer uses those facts")
        return forgettable(deps, self._history(deps, tin, tout), tin, tout, tmem, budget)

    def _history(self, deps: Dependencies, tin: int, tout: int) -> list[Ground]:
        """The facts up to tin that answers from tout on can look at, and all rigid ones."""
        low = deps.input_offsets[self.query].low
        first = -math.inf if math.isinf(low) else tout + int(low)
        found: list[Ground] = []
        for predicate in deps.core.inputs:
            names = columns(len(predicate.types))
            view = self.engine.loaded[predicate.source].view
            if predicate.temporal:
                since = "" if math.isinf(first) else f" AND t >= {first}"
                select = ", ".join([*names, "t"])
                rows = self.engine.all(
                    f"SELECT DISTINCT {select} FROM {view} WHERE t <= {tin}{since}"
                )
                found += [Ground(predicate.name, row[:-1], row[-1]) for row in rows]
            else:
                rows = self.engine.all(f"SELECT DISTINCT {', '.join(names) or '1'} FROM {view}")
                found += [Ground(predicate.name, row[: len(names)]) for row in rows]
        return found

    def _everything(self, predicate: Predicate, tin: int) -> str:
        names = ", ".join([*columns(len(predicate.types)), "t"])
        view = self.engine.loaded[predicate.source].view
        return f"SELECT DISTINCT {names} FROM {view} WHERE t <= {tin} ORDER BY t, {names}"

    def _due(
        self, deps: Dependencies, tin: int, tout: int
    ) -> tuple[list[Rule], bool, int | None] | None:
        """Rules for the open output times; whether a fact's reach is bounded; until when later
        input matters (None: for ever). None when there are too many times to look at.
        """
        low = deps.input_offsets[self.query].low
        bounded = low > -math.inf
        if not deps.pinned:
            first = Rule(Atom(DUE, (), TimePoint(tout)))
            on = Rule(Atom(DUE, (), TimeOffset(_T, 1)), (Atom(DUE, (), TimeOffset(_T)),))
            return [first, on], bounded, None
        # One output time beyond the reach of every offset stands for all later ones.
        reach = _reach(deps)
        last = max(tout, tin, *explicit_times(deps.core)) + reach
        if last - tout > MOST_DUE:
            return None
        due = [Rule(Atom(DUE, (), TimePoint(t))) for t in range(tout, last + 1)]
        return due, bounded, last + reach


_T = Variable("T")

# An object that no one has seen yet, by type.
_FRESH: dict[Type | None, Value] = {
    Type.INT: 2**62 + 1,
    Type.FLOAT: 2.0**62 + 1024,
    Type.BOOL: True,
}


def _filled(args: tuple[Value | None, ...], types: tuple[Type | None, ...]) -> tuple[Value, ...]:
    """The arguments with one and the same fresh object for all that may be anything."""
    return tuple(
        _FRESH.get(t, "\ufffe fresh") if a is None else a for a, t in zip(args, types, strict=True)
    )


def _reach(deps: Dependencies) -> int:
    """Further than any path without recursion moves."""
    return sum(abs(edge.offset or 0) for edge in deps.edges) + 1


def _seeds(made: Possible, deps: Dependencies, *, everything: bool) -> Iterator[Rule]:
    """Possible answers at open output times are used; with `everything`, recursion always is.

    A fact reaches an answer over recursion only through a recursive predicate near it, whatever
    the answer's time.
    """
    for name, patterns in made.patterns.items():
        predicate = deps.core.predicates[name]
        if predicate.input or not predicate.temporal:
            continue
        for pattern in patterns:
            spec = made.name(name, pattern)
            args = tuple(Variable(f"X{i}") for i, label in enumerate(pattern) if label is None)
            at = TimeOffset(_T)
            if name == made.query:
                yield Rule(Atom(f"{spec}!", args, at), (Atom(spec, args, at), Atom(DUE, (), at)))
            if everything and name in deps.recursive:
                yield Rule(Atom(f"{spec}!", args, at), (Atom(spec, args, at),))


def _used(made: Possible, settled: frozenset[str]) -> Iterator[Rule]:
    """A body atom of a possible match is used when the head is."""
    for found in made.rules:
        head = found.rule.head
        used = Atom(f"{head.predicate}!", head.args, head.time)
        for atom, meaning in zip(found.rule.atoms, found.body, strict=True):
            if not isinstance(meaning, Open) and meaning.predicate not in settled:
                yield Rule(
                    Atom(f"{atom.predicate}!", atom.args, atom.time),
                    (used, *found.rule.body),
                    found.origin.origin,
                )


def _used_predicates(made: Possible, rules: Iterable[Rule]) -> dict[str, Predicate]:
    known = made.core(0).predicates
    found = {DUE: Predicate(DUE, True, (), Role.DUE, DUE)}
    for rule in rules:
        name = rule.head.predicate
        if name.endswith("!"):
            base = known[name[:-1]]
            found[name] = base.made(Role.USED)
    return found


_Args: TypeAlias = tuple[Value | None, ...]


@dataclass
class _Leaves:
    """What a derivation rests on: facts that hold, and facts it waits for."""

    holds: dict[Ground, None] = field(default_factory=dict)
    waits: dict[Awaited, None] = field(default_factory=dict)


@dataclass(frozen=True)
class _Open:
    """The possible model of one question, and its answers that are not certain."""

    engine: Engine
    possible: Possible
    writer: Writer
    tin: int

    def tables(self) -> Iterator[tuple[Pattern, str]]:
        """Per pattern of the query, a table of the answers still open."""
        query = self.possible.query
        plan = self.writer.plan
        for number, pattern in enumerate(self.possible.patterns[query]):
            spec = self.possible.name(query, pattern)
            if spec not in plan.tables:
                continue
            table = f"open{number}"
            inside = f"({self.writer.answers(spec)})"
            if self.possible.ground(pattern):
                predicate = plan.deps.core.predicates[spec]
                self.engine.table(table, self.writer.news(predicate, plan.tables[query], inside))
            else:
                self.engine.table(table, f"SELECT * FROM {inside} AS q")
            yield pattern, table

    def pending(self, pattern: Pattern, known: Sequence[Value], tout: int) -> Pending:
        """One open answer with a possible derivation of it."""
        values = iter(known)
        args = tuple(next(values) if label is None else None for label in pattern)
        leaves = _Leaves()
        spec = self.possible.name(self.possible.query, pattern)
        self._explain(spec, args, tout, leaves, frozenset())
        waits = sorted(leaves.waits, key=lambda p: (p.time, p.predicate, str(p.args)))
        return Pending(self.possible.query, args, tout, tuple(leaves.holds), tuple(waits))

    def _explain(
        self,
        spec: str,
        args: _Args,
        time: int | None,
        leaves: _Leaves,
        above: frozenset[object],
    ) -> bool:
        """Collect the leaves of one derivation; False when all lead in a circle or too far."""
        goal = (spec, args, time)
        if goal in above or len(above) > DEEPEST:
            return False
        for rule in self.possible.rules:
            if rule.rule.head.predicate != spec:
                continue
            for binding, shift in self._matches(rule, args, time):
                found = _Leaves(dict(leaves.holds), dict(leaves.waits))
                if all(
                    self._leaf(rule, i, binding, shift, found, above | {goal})
                    for i in range(len(rule.body))
                ):
                    leaves.holds, leaves.waits = found.holds, found.waits
                    return True
        return False

    def _leaf(
        self,
        rule: PossibleRule,
        index: int,
        binding: dict[str, Value],
        shift: int | None,
        leaves: _Leaves,
        above: frozenset[object],
    ) -> bool:
        meaning, atom = rule.body[index], rule.rule.atoms[index]
        time = _time(atom, shift)
        whole = meaning.atom if isinstance(meaning, Open) else meaning
        args = tuple(_value(t, binding) for t in whole.args)
        if isinstance(meaning, Open):
            assert time is not None
            leaves.waits[Awaited(self._source(whole.predicate), args, time)] = None
            return True
        if self.possible.deps.core.predicates[whole.predicate].input:
            known = tuple(a for a in args if a is not None)
            leaves.holds[Ground(self._source(whole.predicate), known, time)] = None
            return True
        if self._explain(atom.predicate, args, time, leaves, above):
            return True
        # A step within a rule is not a fact of its own.
        named = self.possible.deps.core.predicates[whole.predicate].role is not Role.STEP
        settled = named and self.possible.deps.settled(whole.predicate, time or 0) <= self.tin
        if settled:
            # Its history is long: it stands for what it rests on.
            known = tuple(a for a in args if a is not None)
            leaves.holds[Ground(self._source(whole.predicate), known, time)] = None
        return settled

    def _source(self, predicate: str) -> str:
        return self.possible.deps.core.predicates[predicate].source

    def _matches(
        self, rule: PossibleRule, args: _Args, time: int | None
    ) -> list[tuple[dict[str, Value], int | None]]:
        """Bindings of a rule's known variables for one head, the body looked up in the tables."""
        head = rule.rule.head
        shift = None
        if isinstance(head.time, TimeOffset):
            assert time is not None
            shift = time - head.time.offset
        elif isinstance(head.time, TimePoint) and head.time.tick != time:
            return []
        bound: dict[str, str] = {}
        values: list[Value] = []
        where: list[str] = []

        def meet(term: Term, column: str) -> None:
            if isinstance(term, Constant):
                values.append(term.value)
                where.append(f"{column} = ?")
            elif term.name in bound:
                where.append(f"{column} = {bound[term.name]}")
            else:
                bound[term.name] = column

        tables: list[str] = []
        for i, atom in enumerate(rule.rule.atoms):
            table = self._table_of(atom.predicate)
            tables.append(f"{table} AS x{i}")
            for name, term in zip(columns(len(atom.args)), atom.args, strict=True):
                meet(term, f"x{i}.{name}")
            at = _time(atom, shift)
            if at is not None and atom.predicate in self.writer.plan.inputs:
                where.append(f"x{i}.t = {at}")
            elif at is not None:
                where.append(holds_at_sql(at, f"x{i}"))
        given: dict[str, Value] = {}
        for term, value in zip(rule.head.args, args, strict=True):
            if value is None:
                continue
            if isinstance(term, Constant):
                if term.value != value:
                    return []
            elif given.setdefault(term.name, value) != value:
                return []
            elif term.name in bound:
                where.append(f"{bound[term.name]} = ?")
                values.append(value)
        where += [self.writer.compare(c, bound) for c in rule.rule.comparisons]
        names = sorted(bound)
        select = ", ".join(bound[n] for n in names) or "1"
        sql = f"SELECT DISTINCT {select} FROM {', '.join(tables) or '(SELECT 1) AS x'}"
        sql += f" WHERE {' AND '.join(where)}" if where else ""
        rows = self.engine.connection.execute(f"{sql} LIMIT 50", values).fetchall()
        return [
            ({**given, **dict(zip(names, row, strict=False))}, shift)
            for row in sorted(rows, key=str)
        ]

    def _table_of(self, predicate: str) -> str:
        plan = self.writer.plan
        return plan.inputs.get(predicate) or plan.tables[predicate]


def _time(atom: Atom, shift: int | None) -> int | None:
    match atom.time:
        case TimePoint(tick):
            return tick
        case TimeOffset(_, offset):
            assert shift is not None
            return shift + offset
        case None:
            return None


def _value(term: Term, binding: dict[str, Value]) -> Value | None:
    return term.value if isinstance(term, Constant) else binding.get(term.name)


__all__ = ["Problem", "Unbounded"]
