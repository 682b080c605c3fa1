"""When each predicate is computed, and what of it is kept: the schedule of a stream.

At input time tin, predicate P is computed up to tin - phi(P); any phi with phi(P) >= phi(Q) + o
for a body atom Q at offset o will do. A slice is kept as long as a rule still has to look at it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import assert_never

from tidelog.analysis.dependencies import Class, Dependencies
from tidelog.evaluation.plan import (
    Derive,
    Fill,
    Fixpoint,
    Gather,
    Join,
    Plan,
    Scan,
    joins_of,
    stream_plan,
)
from tidelog.evaluation.ranges import EMPTY, Range
from tidelog.language.graph import Arc, Bound, longest
from tidelog.language.program import TIME_MAX
from tidelog.logic.clause import FixedTick, Free, Offset, Rigid
from tidelog.logic.core import rules_of

WHOLE = Range(-TIME_MAX, TIME_MAX)


class Blocking(Exception):
    """A query whose answers may wait for ever cannot be streamed on a schedule."""

    def __init__(self, deps: Dependencies) -> None:
        places = ", ".join(dict.fromkeys(str(r.origin) for r in deps.reason.rules))
        super().__init__(
            f"{', '.join(deps.queries)} cannot be streamed with a fixed delay:"
            f" {deps.reason.message} ({places})"
        )


@dataclass(frozen=True)
class Schedule:
    """The schedule of some queries of class 1 or 2."""

    deps: Dependencies

    def __post_init__(self) -> None:
        if self.deps.cls is Class.BLOCKING:
            raise Blocking(self.deps)

    @cached_property
    def plan(self) -> Plan:
        return stream_plan(self.deps)

    @cached_property
    def phi(self) -> dict[str, int]:
        """Settling times to compute by; never below 0 for a query, since answers wait for tin."""
        core = self.deps.core
        nodes = tuple(name for name, p in core.predicates.items() if p.temporal)
        arcs = [Arc(e.body, e.head, e.offset) for e in self.deps.edges if e.offset is not None]
        inputs = {name: 0 for name in nodes if core.predicates[name].input}
        asked = {q: 0 for q in self.deps.queries if core.predicates[q].temporal}
        best, _ = longest(nodes, arcs, {**inputs, **asked})
        # What no input reaches comes from facts of the program: as late as its users allow.
        known = [name for name in nodes if best[name] == -math.inf]
        inner, _ = longest(
            known, [a for a in arcs if a.tail in known and a.head in known], dict.fromkeys(known, 0)
        )
        slack = [
            best[a.head] - a.weight - inner[a.tail]
            for a in arcs
            if a.tail in known and a.head not in known
        ]
        shift = min(slack, default=0)
        return {
            name: int(best[name] if name not in known else inner[name] + shift) for name in nodes
        }

    @cached_property
    def pins(self) -> dict[str, Bound]:
        """The input time before which a predicate cannot be computed at all: explicit atoms."""
        pins: dict[str, Bound] = dict.fromkeys(self.deps.core.predicates, -math.inf)
        changed = True
        while changed:
            changed = False
            for edge in self.deps.edges:
                pin = pins[edge.body]
                if edge.point is not None:
                    pin = max(pin, edge.point + self.phi[edge.body])
                if pin > pins[edge.head]:
                    pins[edge.head] = pin
                    changed = True
        return pins

    def first(self, earliest: int | None) -> int:
        """The input time to start before, the data's first tick being `earliest`."""
        heads = (clause.head for clause in rules_of(self.deps.core))
        times = [
            head.when.tick + self.phi[head.predicate]
            for head in heads
            if isinstance(head.when, FixedTick)
        ]
        times += [] if earliest is None else [earliest]
        return min(times, default=0) - 1

    def last(self, tick: int) -> int:
        """The input time at which every answer up to a tick is computed."""
        ends: list[Bound] = [tick]
        for query in self.deps.queries:
            ends.append(self.pins[query])
            if query in self.phi:
                ends.append(tick + self.phi[query])
        return int(max(ends))

    def frontier(self, name: str, tin: int, start: int) -> int:
        """Up to where a predicate is computed at tin; `start` is where the schedule began."""
        at = tin if tin >= self.pins[name] else start
        return at - self.phi[name]

    @cached_property
    def uses(self) -> dict[str, list[tuple[str, int, int]]]:
        """Per table, the predicates whose rules look at it, and from which offset to which."""
        spans = dict(self._spans())
        uses: dict[str, list[tuple[str, int, int]]] = {}
        for head, join in self._joins():
            for operand in join.reads:
                when = operand.premise.when
                match when:
                    case Offset(ticks):
                        first = ticks - spans.get(head, 1) + 1
                        uses.setdefault(operand.table, []).append((head, first, ticks))
                    case FixedTick() | Rigid():
                        pass  # kept for ever, see `pinned`; or without a time
                    case Free():
                        raise AssertionError("queries with free times are blocking")
                    case _:
                        assert_never(when)
        for fill in self._fills():
            table = self.plan.tables[fill.predicate]
            uses.setdefault(table, []).append((fill.predicate, -fill.step, -fill.step))
        return uses

    @cached_property
    def pinned(self) -> dict[str, set[int]]:
        """Per table, explicit times whose slices are kept for ever."""
        pinned: dict[str, set[int]] = {}
        for _, join in self._joins():
            for operand in join.reads:
                when = operand.premise.when
                if isinstance(when, FixedTick):
                    pinned.setdefault(operand.table, set()).add(when.tick)
        return pinned

    def _joins(self) -> Iterator[tuple[str, Join]]:
        """The joins of the plan, each with the predicate that it helps to derive."""
        for step in self.plan.steps:
            match step:
                case Derive():
                    yield from ((step.predicate.name, join) for join in step.joins)
                case Gather():
                    yield step.predicate.name, step.join
                case Fixpoint():
                    for join in (*step.start, *step.repeat):
                        yield join.clause.head.predicate, join
                    for made in step.before:
                        yield from ((made.predicate.name, join) for join in joins_of(made))
                case Scan():
                    pass
                case _:
                    assert_never(step)
        for fill in self._fills():
            yield from ((fill.predicate, join) for join in fill.joins)

    def _fills(self) -> Iterator[Fill]:
        for step in self.plan.steps:
            if isinstance(step, Fixpoint):
                yield from step.fills

    def _spans(self) -> Iterator[tuple[str, int]]:
        """The predicates of aggregates, and of windows made in one step, with their ticks."""
        for step in self.plan.steps:
            for made in step.before if isinstance(step, Fixpoint) else (step,):
                if isinstance(made, Gather):
                    yield made.predicate.name, made.ticks
                elif isinstance(made, Derive) and made.over is not None:
                    yield made.predicate.name, made.over.ticks

    def kept_from(self, table: str, tin: int, start: int) -> int | None:
        """The first tick of a table that is still looked at after tin; None for nothing."""
        ticks = [
            self.frontier(head, tin, start) + 1 + first
            for head, first, _ in self.uses.get(table, ())
        ]
        return min(ticks, default=None)

    def looked_at(self, table: str, tin: int, to: int, start: int) -> list[Range]:
        """The ticks of a table that computing from tin up to `to` looks at, in order."""
        ranges = [Range(tick, tick) for tick in self.pinned.get(table, ())]
        for head, first, last in self.uses.get(table, ()):
            low = self.frontier(head, tin, start) + 1 + first
            high = self.frontier(head, to, start) + last
            ranges += [Range(low, high)] if low <= high else []
        merged: list[Range] = []
        for range_ in sorted(ranges, key=lambda r: r.low):
            if merged and range_.low <= merged[-1].high + 1:
                merged[-1] = Range(merged[-1].low, max(merged[-1].high, range_.high))
            else:
                merged.append(range_)
        return merged

    @cached_property
    def _given(self) -> tuple[str, ...]:
        """Recursive predicates whose rules, or those of what they recurse through, ask for absence
        or for an aggregate of their own facts.

        Derived again where not all is kept that they rest on, they would come out wrong.
        """
        deps = self.deps
        asking = {edge.head for edge in deps.edges if not edge.positive}
        together = (c for c in deps.components if c[0] in deps.recursive and asking & set(c))
        return tuple(name for c in together for name in c if deps.core.predicates[name].temporal)

    def given(self, tin: int, start: int) -> dict[str, int]:
        """Where what holds of a predicate is known at tin and not derived again, by predicate."""
        return {name: self.frontier(name, tin, start) for name in self._given}

    def ranges(self, tin: int, to: int, start: int) -> dict[str, Range]:
        """What each predicate is computed on when the input time moves from tin to `to`."""
        ranges: dict[str, Range] = {}
        for name, predicate in self.deps.core.predicates.items():
            if not predicate.temporal:
                continue
            if predicate.input:
                ranges[name] = WHOLE
                continue
            low, high = self.frontier(name, tin, start) + 1, self.frontier(name, to, start)
            if name in self.deps.recursive and name in self.plan.tables:
                # Carrying on starts from the slices that are kept.
                kept = self.kept_from(self.plan.tables[name], tin, start)
                low = low if kept is None else min(low, kept)
            ranges[name] = EMPTY if low > high else Range(low, high)
        return ranges


def at_once(deps: Dependencies) -> bool:
    """Whether every answer is final at its own tick."""
    return all(deps.phi[query] <= 0 for query in deps.queries) and not deps.pinned


def longest_window(deps: Dependencies) -> int:
    """The ticks of the longest window below the queries; 0 if there is none."""
    return max((window.over.ticks for window in deps.core.window_of.values()), default=0)
