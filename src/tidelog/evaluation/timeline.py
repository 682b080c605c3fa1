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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa

from tidelog.analysis.core import Core, core
from tidelog.analysis.dependencies import dependencies
from tidelog.analysis.order import decide
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.facts import arrow_type
from tidelog.evaluation.ranges import Range
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
    Variable,
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

    def __post_init__(self) -> None:
        self._end = clock.monotonic() + self.seconds

    def check(self, what: str) -> None:
        self._steps += 1
        if self._steps % 256 == 0:
            if clock.monotonic() > self._end:
                raise TooHard(
                    f"no answer within {self.seconds:g} seconds on the timeline; {self.hard};"
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
    line.close()
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
    places = ", ".join(dict.fromkeys(str(r.origin) for r in deps.reason.rules))
    limit = Limit(budget, f"{deps.reason.message} ({places})", engine.progress)
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
        table = table.append_column(PERIOD_COLUMN, periods)
    return table


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


# Closing a stretch of the line


class _Stretch:
    """Facts on some ticks, closed under the rules as far as these lie on them."""

    def __init__(
        self,
        rules: _Index,
        low: int,
        high: int,
        limit: Limit,
        globals_: frozenset[Fact] | None = None,
    ) -> None:
        self.rules = rules
        self.low, self.high = low, high
        self.limit = limit
        self.rows: dict[tuple[str, int | None], set[Row]] = {}
        self.todo: list[Fact] = []
        self.found: set[Fact] = set()  # global facts derived here, when globals are given
        self.given = globals_
        if globals_ is not None:
            for predicate, tick, row in globals_:
                self.rows.setdefault((predicate, tick), set()).add(row)

    def add(self, fact: Fact) -> bool:
        predicate, tick, row = fact
        if self.given is not None and self._is_global(fact):
            if fact not in self.given:
                self.found.add(fact)
            return False
        if tick is not None and not self.low <= tick <= self.high:
            return False
        rows = self.rows.setdefault((predicate, tick), set())
        if row in rows:
            return False
        rows.add(row)
        self.todo.append(fact)
        return True

    def _is_global(self, fact: Fact) -> bool:
        # Inside a half line every explicit time lies elsewhere, so only rigid facts leave it.
        return fact[1] is None

    def run(self) -> None:
        while self.todo:
            fact = self.todo.pop()
            self.limit.check("closing the line")
            for rule, index in self.rules.uses.get(fact[0], ()):
                self._fire(rule, index, fact)

    def start(self) -> None:
        """Rules without a temporal atom to wait for."""
        for rule in self.rules.rules:
            if not rule.atoms:
                self._head(rule, {}, None)

    def _fire(self, rule: _Rule, index: int, fact: Fact) -> None:
        atom = rule.atoms[index]
        _, tick, row = fact
        shift: int | None = None
        match atom.time:
            case TimePoint(point) if point != tick:
                return
            case TimeOffset(_, offset):
                assert tick is not None
                shift = tick - offset
        binding = _bind(atom.args, row, {})
        if binding is None:
            return
        self._join(rule, 0, index, shift, binding)

    def _join(
        self, rule: _Rule, at: int, skip: int, shift: int | None, binding: dict[str, Value]
    ) -> None:
        if at == len(rule.atoms):
            if all(_holds(c, binding) for c in rule.comparisons):
                self._head(rule, binding, shift)
            return
        if at == skip:
            self._join(rule, at + 1, skip, shift, binding)
            return
        atom = rule.atoms[at]
        if isinstance(atom.time, TimeOffset) and shift is None:
            # Reached through a rigid or explicit atom: any tick will do.
            for tick in self._ticks(atom.predicate):
                self._join(rule, at, skip, tick - atom.time.offset, binding)
            return
        tick_: int | None
        match atom.time:
            case TimePoint(point):
                tick_ = point
            case TimeOffset(_, offset):
                assert shift is not None
                tick_ = shift + offset
            case None:
                tick_ = None
        for row in tuple(self.rows.get((atom.predicate, tick_), ())):
            extended = _bind(atom.args, row, binding)
            if extended is not None:
                self._join(rule, at + 1, skip, shift, extended)

    def _ticks(self, predicate: str) -> list[int]:
        return [
            t
            for (name, t), rows in self.rows.items()
            if name == predicate and rows and t is not None
        ]

    def _head(self, rule: _Rule, binding: dict[str, Value], shift: int | None) -> None:
        tick: int | None
        match rule.head.time:
            case TimePoint(point):
                tick = point
            case TimeOffset(_, offset):
                assert shift is not None
                tick = shift + offset
            case None:
                tick = None
        row = tuple(_value(t, binding) for t in rule.head.args)
        self.add((rule.head.predicate, tick, row))

    def window(self, low: int, high: int, base: int) -> Window:
        """The facts on some ticks, counted from a base."""
        return frozenset(
            (name, tick - base, row)
            for (name, tick), rows in self.rows.items()
            if tick is not None and low <= tick <= high
            for row in rows
        )

    def globals(self) -> frozenset[Fact]:
        points = self.rules.points
        return frozenset(
            (name, tick, row)
            for (name, tick), rows in self.rows.items()
            if tick is None or (name, tick) in points
            for row in rows
        )


class _Index:
    """Rules by the predicates of their bodies."""

    def __init__(self, rules: Iterable[_Rule]) -> None:
        self.rules = list(rules)
        self.uses: dict[str, list[tuple[_Rule, int]]] = {}
        self.points: set[tuple[str, int]] = set()
        for rule in self.rules:
            for i, atom in enumerate(rule.atoms):
                self.uses.setdefault(atom.predicate, []).append((rule, i))
                if isinstance(atom.time, TimePoint):
                    self.points.add((atom.predicate, atom.time.tick))


def _bind(args: tuple[Term, ...], row: Row, binding: dict[str, Value]) -> dict[str, Value] | None:
    extended = dict(binding)
    for term, value in zip(args, row, strict=True):
        if isinstance(term, Constant):
            if term.value != value:
                return None
        elif extended.setdefault(term.name, value) != value:
            return None
    return extended


def _value(term: Term, binding: dict[str, Value]) -> Value:
    return binding[term.name] if isinstance(term, Variable) else term.value


def _holds(comparison: Comparison, binding: dict[str, Value]) -> bool:
    left, right = _value(comparison.left, binding), _value(comparison.right, binding)
    return decide(comparison.operator, left, right)


# A half line


# Far from every explicit time: ticks of a half line are counted from here.
_AWAY = 1 << 70


class _Half:
    """What comes back from a half line without input, as a table over windows of w ticks.

    The line runs to the right; for the left one, rules are mirrored.
    """

    def __init__(self, rules: _Index, width: int, globals_: frozenset[Fact], limit: Limit) -> None:
        self.rules, self.width, self.limit = rules, width, limit
        self.globals = globals_
        self.found: set[Fact] = set()
        self.table: dict[Window, Window] = {}
        self.users: dict[Window, set[Window]] = {}
        self.todo: list[Window] = []

    def solve(self, window: Window) -> Window:
        """The facts on the window once everything beyond it has been taken into account."""
        self._want(window)
        while self.todo:
            self.limit.check(f"half line, {len(self.table)} windows")
            key = self.todo.pop()
            result, _ = self._step(key)
            if result != self.table[key]:
                self.table[key] = result
                self.todo.extend(self.users.get(key, ()))
        return self.table[window]

    def following(self, window: Window) -> Window:
        """The window one tick further on, complete, for a complete window."""
        self.solve(window)
        _, shifted = self._step(window)
        return self.solve(shifted)

    def _want(self, window: Window) -> None:
        if window not in self.table:
            self.table[window] = window
            self.todo.append(window)

    def _step(self, key: Window) -> tuple[Window, Window]:
        """One tick more: close, shift, take what is known of the shifted window, repeat."""
        w = self.width
        stretch = _Stretch(self.rules, _AWAY, _AWAY + w, self.limit, self.globals)
        for name, tick, row in self.table[key]:
            assert tick is not None
            stretch.add((name, _AWAY + tick, row))
        while True:
            stretch.run()
            shifted = stretch.window(_AWAY + 1, _AWAY + w, _AWAY + 1)
            self._want(shifted)
            self.users.setdefault(shifted, set()).add(key)
            grew = False
            for name, tick, row in self.table[shifted]:
                assert tick is not None
                grew = stretch.add((name, _AWAY + 1 + tick, row)) or grew
            if not grew:
                break
        self.found |= stretch.found
        return stretch.window(_AWAY, _AWAY + w - 1, _AWAY), shifted


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
        self.rules = _Index(prepared)
        self.turned = _Index(_mirrored(prepared))
        self.width = max(1, max((rule.span for rule in prepared), default=0))
        given = [(name, tick, row) for name, rows in facts.items() for row, tick in rows]
        ticks = [tick for _, tick, _ in given if tick is not None]
        atoms = [a for rule in prepared for a in (rule.head, *rule.atoms)]
        ticks += [a.time.tick for a in atoms if isinstance(a.time, TimePoint)]
        ticks += [int(t) for t in (asked.low, asked.high) if not math.isinf(t) and not asked.empty]
        low, high = (min(ticks), max(ticks)) if ticks else (0, 0)
        # Half lines must not see explicit times, nor each other.
        self.low, self.high = low - self.width, high + self.width
        self.middle = _Stretch(self.rules, self.low, self.high, limit)
        for fact in given:
            self.middle.add(fact)
        self.middle.start()
        self.right: _Half | None = None
        self.left: _Half | None = None

    def close(self) -> None:
        """Middle and half lines, until neither finds anything new."""
        while True:
            self.middle.run()
            self._halves()
            assert self.right is not None
            assert self.left is not None
            grew = False
            for name, tick, row in self.right.solve(self._right_window()):
                assert tick is not None
                grew = self.middle.add((name, self.high - self.width + 1 + tick, row)) or grew
            for name, tick, row in self.left.solve(self._left_window()):
                assert tick is not None
                grew = self.middle.add((name, self.low + self.width - 1 - tick, row)) or grew
            for fact in self.right.found | self.left.found:
                grew = self.middle.add(fact) or grew
            if not grew and not self._more_globals():
                return

    def _halves(self) -> None:
        known = self.middle.globals()
        if self.right is None or self.right.globals != known:
            self.right = _Half(self.rules, self.width, known, self.limit)
            self.left = _Half(self.turned, self.width, known, self.limit)

    def _more_globals(self) -> bool:
        """Global facts from further out along the half lines, where windows have not repeated."""
        grew = False
        for half, start in ((self.right, self._right_window()), (self.left, self._left_window())):
            assert half is not None
            seen: set[Window] = set()
            window = start
            while window not in seen:
                seen.add(window)
                window = half.following(window)
            for fact in half.found:
                grew = self.middle.add(fact) or grew
        return grew

    def _right_window(self) -> Window:
        base = self.high - self.width + 1
        return self.middle.window(base, self.high, base)

    def _left_window(self) -> Window:
        found = self.middle.window(self.low, self.low + self.width - 1, self.low)
        last = self.width - 1
        return frozenset((name, last - (tick or 0), row) for name, tick, row in found)

    def answers(self, query: str, asked: Range) -> Timeline:
        if not self.core.predicates[query].temporal:
            rows = self.middle.rows.get((query, None), set())
            return Timeline(frozenset((row, None) for row in rows))
        if asked.empty:
            return Timeline(frozenset())
        rows_: set[tuple[Row, int | None]] = {
            (row, tick)
            for (name, tick), rows in self.middle.rows.items()
            if name == query and tick is not None and asked.low <= tick <= asked.high
            for row in rows
        }
        repeated: set[Repeated] = set()
        if asked.high == math.inf:
            assert self.right is not None
            slices, start = self._beyond(self.right, self._right_window(), query)
            repeated |= _periodic(slices, start, self.high, 1, rows_, asked)
        if asked.low == -math.inf:
            assert self.left is not None
            slices, start = self._beyond(self.left, self._left_window(), query)
            repeated |= _periodic(slices, start, self.low, -1, rows_, asked)
        return Timeline(frozenset(rows_), frozenset(repeated))

    def _beyond(self, half: _Half, window: Window, query: str) -> tuple[list[set[Row]], int]:
        """Answers n = 0, 1, .. ticks beyond the middle until windows repeat; and where they do."""
        seen = {window: 0}
        last = self.width - 1
        slices = [{row for name, tick, row in window if name == query and tick == last}]
        while True:
            self.limit.check(f"following the line, {len(seen)} windows")
            window = half.following(window)
            if window in seen:
                return slices, seen[window]
            seen[window] = len(slices)
            slices.append({row for name, tick, row in window if name == query and tick == last})


def _periodic(
    slices: list[set[Row]],
    start: int,
    edge: int,
    way: int,
    rows: set[tuple[Row, int | None]],
    asked: Range,
) -> set[Repeated]:
    """Each answer with its own least period, from as early as it keeps to it.

    The slices from `start` on repeat. What is covered is taken out of the single rows, to which
    the slices before `start` are added.
    """
    for n in range(1, start):
        rows |= {(row, edge + way * n) for row in slices[n]}
    whole = len(slices) - start
    found: set[Repeated] = set()
    for row in set().union(*slices[start:]):
        holds = [row in slices[start + i] for i in range(whole)]
        period = next(
            p
            for p in range(1, whole + 1)
            if whole % p == 0 and all(holds[i] == holds[i % p] for i in range(whole))
        )
        for i in range(period):
            if holds[i]:
                tick = edge + way * (start + i)
                while (row, tick - way * period) in rows and (
                    asked.low <= tick - way * period <= asked.high
                ):
                    tick -= way * period
                    rows.discard((row, tick))
                rows.discard((row, edge + way * (start + i)))
                found.add((row, tick, way * period))
    return found
