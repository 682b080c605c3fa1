"""Exact evaluation of any program, on the whole time line (not for bulk data).

Models can be infinite both ways. The middle of the line holds all data, explicit times and the
times asked about, and is evaluated fact by fact. Beyond it there is no input: what comes back from
a half line depends only on the facts on its w nearest ticks, w being the widest span of a rule, and
is kept in a table that is iterated to its least fixpoint. Going on tick by tick, windows repeat,
so that answers are periodic from somewhere on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

import pyarrow as pa

from tidelog.analysis.dependencies import dependencies
from tidelog.data.facts import arrow_type
from tidelog.data.packed import columns
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.ranges import EMPTY, Range
from tidelog.evaluation.stretch import (
    Fact,
    Limit,
    Relation,
    Row,
    Rows,
    Rules,
    Stretch,
    Window,
    copied,
    mirrored,
    prepared,
)
from tidelog.language.program import TimePoint, Type
from tidelog.logic.normalise import Core, core

# The column that says how an answer without end repeats, in ticks.
PERIOD_COLUMN = "period"

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


# A half line


class _Half:
    """What comes back from a half line without input, as a table over windows of w ticks.

    The line runs to the right; for the left one, rules are mirrored. An entry of the table is the
    window and one tick more, closed as far as is known.
    """

    def __init__(self, rules: Rules, width: int, elsewhere: Rows, limit: Limit) -> None:
        self.rules, self.width, self.limit = rules, width, limit
        self.elsewhere = elsewhere
        self.found: set[Fact] = set()  # rigid facts derived anywhere
        self.table: dict[Window, Stretch] = {}
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
            stretch = Stretch(self.rules, 0, self.width, self.limit, self.elsewhere)
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
        rules = prepared(core)
        self.rules = Rules(rules)
        self.turned = Rules(mirrored(rules))
        self.width = max(1, max((rule.span for rule in rules), default=0))
        given = [(name, tick, row) for name, rows in facts.items() for row, tick in rows]
        ticks = [tick for _, tick, _ in given if tick is not None]
        atoms = [a for rule in rules for a in (rule.head, *rule.atoms)]
        ticks += [a.time.tick for a in atoms if isinstance(a.time, TimePoint)]
        ticks += [int(t) for t in (asked.low, asked.high) if not math.isinf(t)]
        low, high = (min(ticks), max(ticks)) if ticks else (0, 0)
        # Half lines must not see explicit times, nor each other.
        self.low, self.high = low - self.width, high + self.width
        self.middle = Stretch(self.rules, self.low, self.high, limit)
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
            elsewhere = copied(rows)
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
            rigid = self.middle.rows.get((query, None), Relation())
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
