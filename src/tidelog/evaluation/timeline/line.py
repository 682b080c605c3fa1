"""The whole line: strata one after the other, each on a middle and two half lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tidelog.analysis.dependencies import (
    dependencies,
    refuse_blocking_cycles,
)
from tidelog.evaluation.ranges import Range
from tidelog.evaluation.timeline.clauses import separated, strata, width
from tidelog.evaluation.timeline.forward import Forward
from tidelog.evaluation.timeline.gathered import Gathered
from tidelog.evaluation.timeline.limit import Limit, TooHard
from tidelog.evaluation.timeline.settled import (
    NEVER,
    Beyond,
    Inputs,
    Part,
    least_period,
    settled,
)
from tidelog.evaluation.timeline.stretch import LineRows
from tidelog.evaluation.timeline.two_way import TwoWay
from tidelog.language.program import NOWHERE, Row
from tidelog.logic.aggregate import Aggregate
from tidelog.logic.core import Core, rules_of
from tidelog.logic.match import IndexedRows
from tidelog.logic.windows import write_out

# Ticks that a rule may reach: a line is followed at least that far.
MOST_TICKS = 2_000_000
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
    queries, core = tuple(queries), write_out(core)
    if core.aggregates or any(clause.negative for clause in rules_of(core)):
        deps = dependencies(core, queries)
        refuse_blocking_cycles(deps)
        core = deps.core
    line = _Line(core, facts, asked, limit)
    return {query: line.answers(query, asked) for query in queries}


class _Line:
    def __init__(
        self,
        core: Core,
        facts: Mapping[str, Iterable[tuple[Row, int | None]]],
        asked: Range,
        limit: Limit,
    ) -> None:
        self.core = core
        clauses = separated(rules_of(core))
        reaches = [(width([clause]), clause.origin) for clause in clauses]
        reaches += [(width([], [of]), of.of.origin) for of in core.aggregates.values()]
        furthest, origin = max(reaches, key=lambda reach: reach[0], default=(0, NOWHERE))
        if furthest > MOST_TICKS:
            raise TooHard(
                f"{origin}: the rule reaches {furthest} ticks through time, and a"
                " range without end, or rules that run both ways through time, are followed tick by"
                " tick: ask for a finite range with --from and --to"
            )
        by_tick: LineRows = {}
        for name, rows in facts.items():
            for row, tick in rows:
                by_tick.setdefault((name, tick), IndexedRows()).add(row)
        ticks = [tick for _, tick in by_tick if tick is not None]
        ticks += [tick for clause in clauses for tick in clause.fixed_ticks]
        ticks += [int(t) for t in (asked.low, asked.high) if not math.isinf(t)]
        low, high = (min(ticks), max(ticks)) if ticks else (0, 0)
        given: Part = Inputs(low, high, by_tick)
        self.parts: dict[str, Part] = dict.fromkeys((name for name, _ in by_tick), given)
        known = settled(given, self.parts)
        layers = strata(clauses, core.aggregates)
        for i, stratum in enumerate(layers):
            lower = {name: known[name] for name in sorted(stratum.lower) if name in known}
            first = min([low, *(one.low for one in lower.values())])
            last = max([high, *(one.high for one in lower.values())])
            part: Part
            if stratum.through_not:
                part = Forward(stratum, lower, first, last, limit)
            elif stratum.aggregates:
                ((name, definition),) = stratum.aggregates.items()
                aggregate = Aggregate(name, definition)
                part = Gathered(aggregate, lower.get(aggregate.source, NEVER), first, last, limit)
            else:
                part = TwoWay(stratum, lower, first, last, limit)
            self.parts.update(dict.fromkeys(stratum.heads, part))
            if used := stratum.heads & frozenset().union(*(s.lower for s in layers[i + 1 :])):
                known.update(settled(part, used))

    def answers(self, query: str, asked: Range) -> Timeline:
        part = self.parts.get(query)
        if part is None:
            return Timeline(frozenset())
        if not self.core.predicates[query].temporal:
            rigid = part.by_tick.get((query, None), IndexedRows())
            return Timeline(frozenset((row, None) for row in rigid.rows))
        if asked.empty:
            return Timeline(frozenset())
        rows: set[tuple[Row, int | None]] = {
            (row, tick)
            for (name, tick), some in part.by_tick.items()
            if name == query and tick is not None and part.low <= tick <= part.high
            if asked.low <= tick <= asked.high
            for row in some.rows
        }
        repeated: set[Repeated] = set()
        if asked.high == math.inf:
            repeated |= _periodic(query, part.beyond(1), part.high, 1, rows)
        if asked.low == -math.inf:
            repeated |= _periodic(query, part.beyond(-1), part.low, -1, rows)
        return Timeline(frozenset(rows), frozenset(repeated))


def _periodic(
    query: str,
    beyond: Beyond,
    edge: int,
    way: int,
    rows: set[tuple[Row, int | None]],
) -> set[Repeated]:
    """Each answer with its own least period, from as early as it keeps to it.

    Slice n lies n + 1 ticks beyond the edge of the middle; those from `start` on repeat. Single
    rows are taken into what repeats where they fit, so that every time is covered once; slices
    before `start` that do not fit become single rows.
    """
    slices = [set(slice_[query].rows) if query in slice_ else set() for slice_ in beyond.slices]
    start = beyond.start
    for n, slice_ in enumerate(slices[:start], 1):
        rows |= {(row, edge + way * n) for row in slice_}
    cycle = slices[start:]
    repeated: set[Repeated] = set()
    for row in set().union(*cycle):
        holds = [row in slice_ for slice_ in cycle]
        period = least_period(holds)
        for i in range(period):
            if holds[i]:
                tick = edge + way * (start + i + 1)
                while (row, tick - way * period) in rows:
                    tick -= way * period
                    rows.remove((row, tick))
                repeated.add((row, tick, way * period))
    return repeated
