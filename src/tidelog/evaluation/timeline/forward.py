"""A stratum with a cycle through `not` or an aggregate: from the past to the future, in layers.

Such cycles look strictly back, and nothing that they hang on reaches ahead without end. With n
predicates each use inside weighs `offset * (n + 1) + negated`, and no cycle weighs more than 0, so
that the greatest sums of weights that lead to predicates exist. They put the facts in an order in
which a fact comes no earlier than those that it rests on, and after those whose absence it rests
on; an aggregate weighs as `not` does. What the lower strata give repeats, and so do at last the
facts that the next ones may ask for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from heapq import heappop, heappush
from itertools import count

from tidelog.evaluation.timeline.clauses import Stratum
from tidelog.evaluation.timeline.gathered import aggregate_rows
from tidelog.evaluation.timeline.limit import Limit
from tidelog.evaluation.timeline.settled import NOTHING_BEYOND, Beyond, Repeating, Settled
from tidelog.evaluation.timeline.stretch import (
    Firing,
    LineFact,
    LineRows,
    LineWindow,
    SliceRows,
    rows_of,
)
from tidelog.language.graph import Arc, longest
from tidelog.language.program import Row
from tidelog.logic.aggregate import Aggregate
from tidelog.logic.clause import Offset, Premise, Sign
from tidelog.logic.match import VALUES, AnyTick, IndexedRows, matches, matches_of_first


class Forward:
    """The heads of a stratum that hang on one another's absence, or on what others come to.

    Lower strata are known; before low they have nothing, and after high they repeat.
    """

    def __init__(
        self, stratum: Stratum, lower: Mapping[str, Settled], low: int, high: int, limit: Limit
    ) -> None:
        assert not any(settled.endless(-1) for settled in lower.values())
        self.limit = limit
        self.lower = lower
        self.heads = sorted(stratum.heads)
        self.width = stratum.width
        self.depth = _depths(stratum)
        self.unit = len(self.heads) + 1  # numbers of the order in a tick
        # Facts lie no further from what they rest on in the end, whichever way.
        self.reach = self.width + max(self.depth.values()) // self.unit + 1
        self.low, self.high = low - self.reach, high + self.width
        self.by_tick: LineRows = {}
        self.aggregates: dict[str, list[Aggregate]] = {}  # by what they are of
        for name, definition in stratum.aggregates.items():
            aggregate = Aggregate(name, definition)
            self.aggregates.setdefault(aggregate.source, []).append(aggregate)
        self.made: set[tuple[str, int]] = set()  # aggregates that are made, or will be
        self.firings: dict[str, list[tuple[Firing, int]]] = {}
        # By number in the order: clauses and facts to fire them, and aggregates at a tick.
        self.waiting: dict[int, list[tuple[Firing, LineFact] | tuple[Aggregate, int]]] = {}
        self.numbers: list[int] = []  # of those that wait, as a heap
        unconditional: list[Firing] = []
        for clause in stratum.clauses:
            moving = [
                (i, p.when.ticks, p.predicate)
                for i, p in enumerate(clause.premises)
                if p.sign is Sign.POSITIVE and isinstance(p.when, Offset)
            ]
            for i, ticks, name in moving:
                self.firings.setdefault(name, []).append((Firing(clause, i), ticks))
            if not moving:  # a head at a fixed tick, over lower strata
                unconditional.append(Firing(clause, None))
        for firing in unconditional:
            for binding in matches(firing.order, self, firing.start, VALUES):
                self._add(firing.fact(binding))
        self.fed = low - 1
        self._advance(self.high + 1)

    def _advance(self, tick: int) -> None:
        """Derive all facts before a tick."""
        ahead = tick + self.reach
        for name in self.lower.keys() & self.firings.keys():
            for moment, rows in self.lower[name].between(self.fed + 1, ahead):
                for row in rows.rows:
                    self._wait((name, moment, row))
        self.fed = ahead
        while self.numbers and self.numbers[0] < tick * self.unit:
            number = self.numbers[0]
            waiting = self.waiting[number]
            while waiting:
                self.limit.check("going forward on the line")
                match waiting.pop():
                    case Firing() as firing, (_, at, row):
                        order, start = firing.order, firing.start
                        for binding in matches_of_first(order, self, start, VALUES, row, at):
                            self._add(firing.fact(binding))
                    case Aggregate() as aggregate, int(at):
                        self._gather(aggregate, at)
            heappop(self.numbers)
            del self.waiting[number]

    def _gather(self, aggregate: Aggregate, tick: int) -> None:
        """Make an aggregate at a tick; while there is something in its window, it goes on."""
        window = ((aggregate.source, tick - i) for i in range(aggregate.ticks))
        slices = [self.by_tick[place] for place in window if place in self.by_tick]
        if slices:
            self.limit.check("going forward on the line", aggregate.ticks)
            for row in aggregate_rows(aggregate, slices).rows:
                self._add((aggregate.name, tick, row))
            self._make(aggregate, tick + 1)

    def _make(self, aggregate: Aggregate, tick: int) -> None:
        """An aggregate waits until all is known that it is of."""
        if (aggregate.name, tick) not in self.made:
            self.made.add((aggregate.name, tick))
            self._waits(aggregate.name, tick).append((aggregate, tick))

    def _add(self, fact: LineFact) -> None:
        name, tick, row = fact
        if self.by_tick.setdefault((name, tick), IndexedRows()).add(row):
            self._wait(fact)

    def _wait(self, fact: LineFact) -> None:
        """A clause that a fact may fire waits until all is known whose absence it asks for."""
        name, tick, _ = fact
        assert tick is not None
        for firing, ticks in self.firings.get(name, ()):
            self._waits(firing.head.predicate, tick - ticks).append((firing, fact))
        for aggregate in self.aggregates.get(name, ()):
            self._make(aggregate, tick)

    def _waits(self, name: str, tick: int) -> list[tuple[Firing, LineFact] | tuple[Aggregate, int]]:
        """What waits for all that facts of a predicate at a tick rest on."""
        number = tick * self.unit - self.depth[name]
        if number not in self.waiting:
            self.waiting[number] = []
            heappush(self.numbers, number)
        return self.waiting[number]

    def rows(
        self, premise: Premise, tick: int | AnyTick | None, positions: tuple[int, ...], key: Row
    ) -> Iterable[Row]:
        """The rows that the matcher asks for."""
        self.limit.check("going forward on the line")
        assert not isinstance(tick, AnyTick), "the time of every clause that fires is known"
        if premise.predicate in self.lower:
            there = self.lower[premise.predicate].at(tick)
        elif (premise.predicate, tick) in self.by_tick:
            there = self.by_tick[premise.predicate, tick]
        else:
            return ()
        return rows_of(there, premise, positions, key)

    def beyond(self, way: int) -> Beyond:
        return self._after if way > 0 else NOTHING_BEYOND

    @cached_property
    def _after(self) -> Beyond:
        period = Repeating(self.lower, self.high, 1).period
        seen: dict[tuple[int, LineWindow], int] = {}
        slices: list[dict[str, SliceRows]] = []
        for tick in count(self.high + 1):
            self.limit.check(f"following the line, {len(seen)} windows", 64)
            window = tick % period, self._window(tick)
            if window in seen:
                return Beyond(slices, seen[window])
            seen[window] = len(slices)
            self._advance(tick + 1)
            there = {name: self.by_tick.get((name, tick)) for name in self.heads}
            slices.append({name: rows for name, rows in there.items() if rows is not None})
        raise AssertionError("there are finitely many windows")

    def _window(self, tick: int) -> LineWindow:
        """The facts that those from a tick on may rest on, when all before that tick are known."""
        return frozenset(
            (name, at - tick, row)
            for at in range(tick - self.width, tick + self.reach)
            for name in self.heads
            if (name, at) in self.by_tick
            for row in self.by_tick[name, at].rows
        )


def _depths(stratum: Stratum) -> dict[str, int]:
    """The greatest sum of weights on a path to each of the heads."""
    heads = sorted(stratum.heads)
    arcs = [
        Arc(
            clause.head.predicate,
            premise.predicate,
            (premise.offset or 0) * (len(heads) + 1) + (premise.sign is not Sign.POSITIVE),
        )
        for clause in stratum.clauses
        for premise in clause.premises
        if premise.predicate in heads
    ]
    sources = ((name, of.of.predicate) for name, of in stratum.aggregates.items())
    arcs += [Arc(name, source, 1) for name, source in sources if source in heads]
    depths, _ = longest(heads, arcs, dict.fromkeys(heads, 0))
    return {name: int(depth) for name, depth in depths.items()}
