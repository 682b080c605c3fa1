"""Exact evaluation of any program, on the whole time line (not for bulk data).

Models can be infinite both ways. The middle of the line holds all data, explicit times and the
times asked about, and is evaluated fact by fact. Beyond it there is no input: what comes back from
a half line depends only on the facts on its w nearest ticks, w being the widest span of a rule, and
is kept in a table that is iterated to its least fixpoint. Going on tick by tick, windows repeat,
so that answers are periodic from somewhere on.
"""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import TypeAlias

import pyarrow as pa

from tidelog.analysis.core import Core, core
from tidelog.analysis.dependencies import Dependencies, dependencies
from tidelog.analysis.order import decide
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.facts import arrow_type
from tidelog.evaluation.ranges import EMPTY, Range
from tidelog.evaluation.sql import columns
from tidelog.language.program import (
    Atom,
    Comparison,
    Constant,
    Literal,
    Rule,
    Term,
    TimeOffset,
    TimePoint,
    Type,
    Value,
)

# The column that says how an answer without end repeats, in ticks.
PERIOD_COLUMN = "period"

Row: TypeAlias = tuple[Value, ...]
# Predicate, tick (None for rigid facts), arguments.
Fact: TypeAlias = tuple[str, int | None, Row]
Window: TypeAlias = frozenset[Fact]


class TooHard(Exception):
    """The budget ended; the rules that run both ways through time are named."""


@dataclass
class Limit:
    """Seconds that may still be spent, and what makes it hard."""

    seconds: float
    hard: str
    progress: Callable[[str], None] = lambda _: None
    _end: float = field(init=False)
    _steps: int = 0

    @staticmethod
    def of(deps: Dependencies, budget: float, progress: Callable[[str], None]) -> Limit:
        """A limit that names the rules that decide the class of some queries."""
        places = ", ".join(dict.fromkeys(str(rule.origin) for rule in deps.reason.rules))
        return Limit(budget, deps.reason.message + (f" ({places})" if places else ""), progress)

    def __post_init__(self) -> None:
        self._end = clock.monotonic() + self.seconds

    def check(self, what: str, weight: int = 1) -> None:
        """Ask often: the clock is looked at once in a few thousand steps, by their weight."""
        self._steps += weight
        if self._steps >= 4096:
            self._steps = 0
            if clock.monotonic() > self._end:
                raise TooHard(
                    f"no answer within {self.seconds:g} seconds on the timeline: {self.hard};"
                    " allow more with --budget, or ask for less"
                )
            self.progress(what)


# Arguments, first time and period: the answer holds there and every period further on.
Repeated: TypeAlias = tuple[Row, int, int]


@dataclass(frozen=True)
class Timeline:
    """The answers of one query: single ones, and those that repeat for ever.

    A negative period leads back in time.
    """

    rows: frozenset[tuple[Row, int | None]]
    repeated: frozenset[Repeated] = frozenset()


def evaluate(
    core: Core,
    facts: Mapping[str, Iterable[tuple[Row, int | None]]],
    queries: Iterable[str],
    asked: Range,
    limit: Limit,
) -> dict[str, Timeline]:
    """The answers of each query at the ticks asked for, which may be infinitely many."""
    line = _Line(core, facts, asked, limit)
    return {query: line.answers(query, asked) for query in queries}


def answers(
    engine: Engine,
    queries: Iterable[str],
    from_: int | float | None,
    to: int | float | None,
    budget: float,
) -> dict[str, pa.Table]:
    """The answers of some queries over an engine's facts, evaluated on the timeline.

    Where the range has no end, a column `period` says how each answer repeats.
    """
    queries = tuple(queries)
    whole = core(engine.typed, queries)
    deps = dependencies(whole, queries)
    span = engine.span
    asked = Range(span.low if from_ is None else from_, span.high if to is None else to)
    if asked.low == math.inf or asked.high == -math.inf:
        asked = EMPTY
    limit = Limit.of(deps, budget, engine.progress)
    found = evaluate(deps.core, history(engine, deps.core), queries, asked, limit)
    return {query: _table(engine, query, deps.core, found[query], asked) for query in queries}


def history(
    engine: Engine, whole: Core, until: float = math.inf
) -> dict[str, list[tuple[Row, int | None]]]:
    """The facts of a core's inputs up to a tick, as rows."""
    found: dict[str, list[tuple[Row, int | None]]] = {}
    for predicate in whole.inputs:
        names = columns(len(predicate.types))
        view = engine.loaded[predicate.source].view
        if predicate.temporal:
            upto = "" if math.isinf(until) else f" WHERE t <= {until}"
            rows = engine.all(f"SELECT DISTINCT {', '.join([*names, 't'])} FROM {view}{upto}")
            found[predicate.name] = [(row[:-1], row[-1]) for row in rows]
        else:
            rows = engine.all(f"SELECT DISTINCT {', '.join(names) or '1'} FROM {view}")
            found[predicate.name] = [(row[: len(names)], None) for row in rows]
    return found


def _table(engine: Engine, query: str, whole: Core, found: Timeline, asked: Range) -> pa.Table:
    predicate = whole.predicates[query]
    endless = math.isinf(asked.low) or math.isinf(asked.high)
    rows: list[tuple[Row, int | None, int | None]] = [(row, t, None) for row, t in found.rows]
    rows += [(row, t, period) for row, t, period in found.repeated]
    rows.sort(key=lambda r: (r[1] or 0, r[0], r[2] or 0))
    arrays = [
        pa.array([row[i] for row, _, _ in rows], arrow_type(type_ or Type.TEXT))
        for i, type_ in enumerate(predicate.types)
    ]
    names = columns(len(arrays))
    if predicate.temporal:
        arrays.append(pa.array([t for _, t, _ in rows], pa.int64()))
        names.append("t")
    if not arrays:
        arrays, names = [pa.array([1] * len(rows), pa.int64())], ["z"]
    table = engine._named(predicate, pa.table(arrays, names=names))
    if predicate.temporal and endless:
        periods = pa.array([period for _, _, period in rows], pa.int64())
        name = next(n for n in _period_names() if n not in table.column_names)
        table = table.append_column(name, periods)
    return table


def _period_names() -> Iterator[str]:
    yield PERIOD_COLUMN
    yield from (f"{PERIOD_COLUMN}{n}" for n in count(2))


# Rules in the form the line needs


@dataclass(frozen=True)
class _Rule:
    """A rule whose temporal atoms share one variable: offsets from it, or explicit times."""

    head: Atom
    atoms: tuple[Atom, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def offsets(self) -> list[int]:
        times = [a.time for a in (self.head, *self.atoms)]
        return [t.offset for t in times if isinstance(t, TimeOffset)]

    @property
    def span(self) -> int:
        return max(self.offsets) - min(self.offsets) if self.offsets else 0


def _prepared(core: Core) -> list[_Rule]:
    """Every time variable that the head does not share is projected away by a rule of its own."""
    found: list[_Rule] = []
    for number, rule in enumerate(core.rules):
        found += _separated(rule, number)
    return found


def _separated(rule: Rule, number: int) -> Iterator[_Rule]:
    own = rule.head.time.variable.name if isinstance(rule.head.time, TimeOffset) else None
    groups: dict[str, list[Atom]] = {}
    for atom in rule.atoms:
        if isinstance(atom.time, TimeOffset) and atom.time.variable.name != own:
            groups.setdefault(atom.time.variable.name, []).append(atom)
    rigid = rule.head.time is None
    if not groups or (rigid and len(groups) == 1 and own is None):
        yield _Rule(rule.head, rule.atoms, rule.comparisons)
        return
    rest: list[Literal] = [a for a in rule.atoms if all(a not in g for g in groups.values())]
    for name, atoms in groups.items():
        others = [rule.head, *rest, *rule.comparisons]
        others += [a for other, g in groups.items() if other != name for a in g]
        wanted = {v.name for literal in others for v in literal.variables}
        args = tuple(dict.fromkeys(v for a in atoms for v in a.variables if v.name in wanted))
        head = Atom(f"[{number}:{name}]", args)
        yield _Rule(head, tuple(atoms), ())
        rest.append(head)
    yield _Rule(rule.head, tuple(a for a in rest if isinstance(a, Atom)), rule.comparisons)


# Rules ready to fire


@dataclass(frozen=True)
class _Step:
    """One body atom to match: what it is looked up by, and what it adds to the binding."""

    atom: Atom
    known: tuple[int, ...]  # positions whose values the binding has by then
    places: tuple[int, ...]  # where it has them
    new: tuple[int, ...]  # positions that extend the binding
    equal: tuple[tuple[int, int], ...]  # positions that repeat a new variable

    def extended(self, binding: Row, row: Row) -> Row | None:
        for i, j in self.equal:
            if row[i] != row[j]:
                return None
        return (*binding, *(row[i] for i in self.new)) if self.new else binding


class _Plan:
    """A rule that fires on a fact of one body atom; a binding is a tuple, constants first."""

    def __init__(self, rule: _Rule, first: int | None) -> None:
        terms = [t for atom in (rule.head, *rule.atoms) for t in atom.args]
        terms += [t for c in rule.comparisons for t in (c.left, c.right)]
        constants = dict.fromkeys(t for t in terms if isinstance(t, Constant))
        self.constants: Row = tuple(c.value for c in constants)
        places: dict[Term, int] = {c: i for i, c in enumerate(constants)}
        rest = list(rule.atoms)
        self.steps: list[_Step] = []
        if first is not None:
            self.steps.append(_step(rest.pop(first), places))
        while rest:
            # Atoms at a time that is known by then, and of those the ones with most values known.
            timed = any(isinstance(step.atom.time, TimeOffset) for step in self.steps)
            rest.sort(
                key=lambda a: (
                    isinstance(a.time, TimeOffset) and not timed,
                    sum(t not in places for t in a.args),
                )
            )
            self.steps.append(_step(rest.pop(0), places))
        self.head = rule.head
        self.head_places = tuple(places[t] for t in rule.head.args)
        self.comparisons = tuple(
            (c.operator, places[c.left], places[c.right]) for c in rule.comparisons
        )


def _step(atom: Atom, places: dict[Term, int]) -> _Step:
    known = tuple(i for i, t in enumerate(atom.args) if t in places)
    key = tuple(places[atom.args[i]] for i in known)
    first: dict[Term, int] = {}
    equal: list[tuple[int, int]] = []
    for i, term in enumerate(atom.args):
        if i not in known and first.setdefault(term, i) != i:
            equal.append((first[term], i))
    for term in first:
        places[term] = len(places)
    return _Step(atom, known, key, tuple(first.values()), tuple(equal))


class _Relation:
    """Rows of one predicate at one time, with an index for every set of positions looked up."""

    def __init__(self) -> None:
        self.rows: set[Row] = set()
        self._indexes: dict[tuple[int, ...], dict[Row, list[Row]]] = {}

    def add(self, row: Row) -> bool:
        if row in self.rows:
            return False
        self.rows.add(row)
        for positions, index in self._indexes.items():
            index.setdefault(tuple(row[i] for i in positions), []).append(row)
        return True

    def matching(self, positions: tuple[int, ...], key: Row) -> Collection[Row]:
        if not positions:
            return tuple(self.rows)
        if positions not in self._indexes:
            index: dict[Row, list[Row]] = {}
            for row in self.rows:
                index.setdefault(tuple(row[i] for i in positions), []).append(row)
            self._indexes[positions] = index
        return tuple(self._indexes[positions].get(key, ()))


# Facts by predicate and tick, None for rigid ones.
_Rows: TypeAlias = dict[tuple[str, int | None], _Relation]


class _Rules:
    """Plans by the predicate whose facts they fire on."""

    def __init__(self, rules: Iterable[_Rule]) -> None:
        self.rules = list(rules)
        self.start = [_Plan(rule, None) for rule in self.rules if not rule.atoms]
        self.plans: dict[str, list[_Plan]] = {}
        self.points: set[tuple[str, int]] = set()  # slices at explicit times
        for rule in self.rules:
            for i, atom in enumerate(rule.atoms):
                self.plans.setdefault(atom.predicate, []).append(_Plan(rule, i))
                if isinstance(atom.time, TimePoint):
                    self.points.add((atom.predicate, atom.time.tick))

    @cached_property
    def moving(self) -> dict[str, list[_Plan]]:
        """Only the plans that fire on a fact at a tick like any other."""
        found: dict[str, list[_Plan]] = {}
        for name, plans in self.plans.items():
            kept = [p for p in plans if isinstance(p.steps[0].atom.time, TimeOffset)]
            if kept:
                found[name] = kept
        return found


# Closing a stretch of the line


class _Stretch:
    """Facts on the ticks low to high, closed under the rules as far as these lie on them.

    On a half line, rigid facts and those at explicit times are given as `elsewhere`; rigid facts
    that are new are put aside in `found`.
    """

    def __init__(
        self, rules: _Rules, low: int, high: int, limit: Limit, elsewhere: _Rows | None = None
    ) -> None:
        self.plans = rules.plans if elsewhere is None else rules.moving
        self.low, self.high = low, high
        self.limit = limit
        self.rows: _Rows = {}
        self.fixed = self.rows if elsewhere is None else elsewhere
        self.todo: list[Fact] = []
        self.found: set[Fact] = set()

    def add(self, fact: Fact) -> bool:
        name, tick, row = fact
        if tick is None and self.fixed is not self.rows:
            there = self.fixed.get((name, None))
            if there is None or row not in there.rows:
                self.found.add(fact)
            return False
        if tick is not None and not self.low <= tick <= self.high:
            return False
        relation = self.rows.get((name, tick))
        if relation is None:
            relation = self.rows[name, tick] = _Relation()
        if not relation.add(row):
            return False
        self.todo.append(fact)
        return True

    def run(self) -> None:
        while self.todo:
            fact = self.todo.pop()
            for plan in self.plans.get(fact[0], ()):
                self._fire(plan, fact)

    def fire_facts(self, rules: _Rules) -> None:
        """Rules that need no fact at all."""
        for plan in rules.start:
            self._join(plan, 0, None, plan.constants)

    def _fire(self, plan: _Plan, fact: Fact) -> None:
        _, tick, row = fact
        step = plan.steps[0]
        shift: int | None = None
        match step.atom.time:
            case TimePoint(point) if point != tick:
                return
            case TimeOffset(_, offset):
                assert tick is not None
                shift = tick - offset
        for i, place in zip(step.known, step.places, strict=True):
            if row[i] != plan.constants[place]:
                return
        binding = step.extended(plan.constants, row)
        if binding is not None:
            self._join(plan, 1, shift, binding)

    def _join(self, plan: _Plan, at: int, shift: int | None, binding: Row) -> None:
        self.limit.check("closing the line")
        if at == len(plan.steps):
            self._derive(plan, shift, binding)
            return
        step = plan.steps[at]
        time = step.atom.time
        if isinstance(time, TimeOffset) and shift is None:
            # Reached from a rigid fact or one at an explicit time: any tick will do.
            for tick in self._ticks(step.atom.predicate):
                self._join(plan, at, tick - time.offset, binding)
            return
        match time:
            case TimeOffset(_, offset):
                assert shift is not None
                relation = self.rows.get((step.atom.predicate, shift + offset))
            case TimePoint(point):
                relation = self.fixed.get((step.atom.predicate, point))
            case None:
                relation = self.fixed.get((step.atom.predicate, None))
        if relation is None:
            return
        key = tuple(binding[i] for i in step.places)
        if not step.new:
            if key in relation.rows:
                self._join(plan, at + 1, shift, binding)
            return
        for row in relation.matching(step.known, key):
            extended = step.extended(binding, row)
            if extended is not None:
                self._join(plan, at + 1, shift, extended)

    def _ticks(self, predicate: str) -> list[int]:
        return [t for name, t in self.rows if name == predicate and t is not None]

    def _derive(self, plan: _Plan, shift: int | None, binding: Row) -> None:
        for operator, left, right in plan.comparisons:
            if not decide(operator, binding[left], binding[right]):
                return
        tick: int | None
        match plan.head.time:
            case TimePoint(point):
                tick = point
            case TimeOffset(_, offset):
                assert shift is not None
                tick = shift + offset
            case None:
                tick = None
        self.add((plan.head.predicate, tick, tuple(binding[i] for i in plan.head_places)))

    def window(self, low: int, high: int) -> Window:
        """The facts on some ticks, counted from the first of them."""
        return frozenset(
            (name, tick - low, row)
            for (name, tick), relation in self.rows.items()
            if tick is not None and low <= tick <= high
            for row in relation.rows
        )


# A half line


class _Half:
    """What comes back from a half line without input, as a table over windows of w ticks.

    The line runs to the right; for the left one, rules are mirrored. An entry of the table is the
    window and one tick more, closed as far as is known.
    """

    def __init__(self, rules: _Rules, width: int, elsewhere: _Rows, limit: Limit) -> None:
        self.rules, self.width, self.limit = rules, width, limit
        self.elsewhere = elsewhere
        self.found: set[Fact] = set()  # rigid facts derived anywhere
        self.table: dict[Window, _Stretch] = {}
        self.known: dict[Window, Window] = {}  # what is known to hold on the window
        self.next: dict[Window, Window] = {}  # the entry a tick further on
        self.users: dict[Window, set[Window]] = {}
        self.todo: dict[Window, None] = {}

    def entry(self, window: Window, earlier: Window | None) -> Window:
        """The entry for a window that has grown from an earlier one.

        What comes back from a half line is a closure: while the window holds no more than what is
        known to come of the earlier one, the same comes of both, and one entry is enough.
        """
        if earlier is not None and window <= self.known[earlier]:
            return earlier
        if window not in self.table:
            stretch = _Stretch(self.rules, 0, self.width, self.limit, self.elsewhere)
            for fact in window:
                stretch.add(fact)
            self.table[window] = stretch
            self.known[window] = window
            self.todo[window] = None
        return window

    def solve(self) -> None:
        """Complete all entries: what is known of each window is then all that holds there."""
        while self.todo:
            key, _ = self.todo.popitem()
            self.limit.check(f"half line, {len(self.table)} windows", 64)
            self._grow(key)

    def _grow(self, key: Window) -> None:
        """One tick more: close, shift, take what is known of the shifted window, repeat."""
        stretch = self.table[key]
        while True:
            stretch.run()
            shifted = stretch.window(1, self.width)
            following = self.next[key] = self.entry(shifted, self.next.get(key))
            self.users.setdefault(following, set()).add(key)
            for name, tick, row in self.known[following] - shifted:
                assert tick is not None
                stretch.add((name, tick + 1, row))
            if not stretch.todo:
                break
        self.found |= stretch.found
        known = stretch.window(0, self.width - 1)
        if known != self.known[key]:
            self.known[key] = known
            self.todo.update(dict.fromkeys(self.users.get(key, ())))


def _mirrored(rules: Iterable[_Rule]) -> list[_Rule]:
    def turned(atom: Atom) -> Atom:
        if isinstance(atom.time, TimeOffset):
            return replace(atom, time=replace(atom.time, offset=-atom.time.offset))
        return atom

    return [_Rule(turned(r.head), tuple(map(turned, r.atoms)), r.comparisons) for r in rules]


# The whole line


class _Line:
    def __init__(
        self,
        core: Core,
        facts: Mapping[str, Iterable[tuple[Row, int | None]]],
        asked: Range,
        limit: Limit,
    ) -> None:
        self.limit = limit
        self.core = core
        prepared = _prepared(core)
        self.rules = _Rules(prepared)
        self.turned = _Rules(_mirrored(prepared))
        self.width = max(1, max((rule.span for rule in prepared), default=0))
        given = [(name, tick, row) for name, rows in facts.items() for row, tick in rows]
        ticks = [tick for _, tick, _ in given if tick is not None]
        atoms = [a for rule in prepared for a in (rule.head, *rule.atoms)]
        ticks += [a.time.tick for a in atoms if isinstance(a.time, TimePoint)]
        ticks += [int(t) for t in (asked.low, asked.high) if not math.isinf(t)]
        low, high = (min(ticks), max(ticks)) if ticks else (0, 0)
        # Half lines must not see explicit times, nor each other.
        self.low, self.high = low - self.width, high + self.width
        self.middle = _Stretch(self.rules, self.low, self.high, limit)
        for fact in given:
            self.middle.add(fact)
        self.middle.fire_facts(self.rules)
        self.fixed: frozenset[Fact] | None = None
        self.right_entry: Window | None = None
        self.left_entry: Window | None = None
        self._close()

    def _close(self) -> None:
        """Middle and half lines, until neither finds anything new."""
        while True:
            self.middle.run()
            self._halves()
            right, left = self._right_window(), self._left_window()
            self.right_entry = self.right.entry(right, self.right_entry)
            self.left_entry = self.left.entry(left, self.left_entry)
            self.right.solve()
            self.left.solve()
            for name, tick, row in self.right.known[self.right_entry] - right:
                assert tick is not None
                self.middle.add((name, self.high - self.width + 1 + tick, row))
            for name, tick, row in self.left.known[self.left_entry] - left:
                assert tick is not None
                self.middle.add((name, self.low + self.width - 1 - tick, row))
            for fact in self.right.found | self.left.found:
                self.middle.add(fact)
            if not self.middle.todo:
                return

    def _halves(self) -> None:
        """Half lines that know all rigid facts and those at explicit times."""
        rows = {
            (name, tick): relation
            for (name, tick), relation in self.middle.rows.items()
            if tick is None or (name, tick) in self.rules.points
        }
        fixed = frozenset((name, t, row) for (name, t), r in rows.items() for row in r.rows)
        if fixed != self.fixed:
            self.fixed = fixed
            elsewhere = _copied(rows)
            self.right = _Half(self.rules, self.width, elsewhere, self.limit)
            self.left = _Half(self.turned, self.width, elsewhere, self.limit)
            self.right_entry = self.left_entry = None

    def _right_window(self) -> Window:
        return self.middle.window(self.high - self.width + 1, self.high)

    def _left_window(self) -> Window:
        last = self.width - 1
        found = self.middle.window(self.low, self.low + last)
        return frozenset((name, last - (tick or 0), row) for name, tick, row in found)

    def answers(self, query: str, asked: Range) -> Timeline:
        if not self.core.predicates[query].temporal:
            rigid = self.middle.rows.get((query, None), _Relation())
            return Timeline(frozenset((row, None) for row in rigid.rows))
        if asked.empty:
            return Timeline(frozenset())
        rows: set[tuple[Row, int | None]] = {
            (row, tick)
            for (name, tick), relation in self.middle.rows.items()
            if name == query and tick is not None and asked.low <= tick <= asked.high
            for row in relation.rows
        }
        repeated: set[Repeated] = set()
        if asked.high == math.inf:
            slices, start = self._beyond(self.right, self.right_entry, query)
            repeated |= _periodic(slices, start, self.high, 1, rows)
        if asked.low == -math.inf:
            slices, start = self._beyond(self.left, self.left_entry, query)
            repeated |= _periodic(slices, start, self.low, -1, rows)
        return Timeline(frozenset(rows), frozenset(repeated))

    def _beyond(self, half: _Half, entry: Window | None, query: str) -> tuple[list[set[Row]], int]:
        """Answers 1, 2, .. ticks beyond the middle until windows repeat; and from where they do."""
        assert entry is not None
        seen: dict[Window, int] = {}
        slices: list[set[Row]] = []
        last = self.width - 1
        while True:
            self.limit.check(f"following the line, {len(seen)} windows", 64)
            entry = half.next[entry]
            window = half.known[entry]
            if window in seen:
                return slices, seen[window]
            seen[window] = len(slices)
            slices.append({row for name, tick, row in window if name == query and tick == last})


def _copied(rows: _Rows) -> _Rows:
    found: _Rows = {}
    for place, relation in rows.items():
        found[place] = _Relation()
        for row in relation.rows:
            found[place].add(row)
    return found


def _periodic(
    slices: list[set[Row]],
    start: int,
    edge: int,
    way: int,
    rows: set[tuple[Row, int | None]],
) -> set[Repeated]:
    """Each answer with its own least period, from as early as it keeps to it.

    Slice n lies n + 1 ticks beyond the edge of the middle; those from `start` on repeat. Single
    rows are taken into what repeats where they fit, so that every time is covered once; slices
    before `start` that do not fit become single rows.
    """
    for n, slice_ in enumerate(slices[:start], 1):
        rows |= {(row, edge + way * n) for row in slice_}
    cycle = slices[start:]
    found: set[Repeated] = set()
    for row in set().union(*cycle):
        holds = [row in slice_ for slice_ in cycle]
        period = next(
            p for p in range(1, len(cycle) + 1) if len(cycle) % p == 0 and _repeats(holds, p)
        )
        for i in range(period):
            if holds[i]:
                tick = edge + way * (start + i + 1)
                while (row, tick - way * period) in rows:
                    tick -= way * period
                    rows.remove((row, tick))
                found.add((row, tick, way * period))
    return found


def _repeats(holds: list[bool], period: int) -> bool:
    return holds[period:] == holds[:-period] or period == len(holds)
