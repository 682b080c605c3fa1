"""Aggregates on the whole line: what facts come to repeats where the facts do."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import assert_never

from tidelog.evaluation.timeline.limit import Limit
from tidelog.evaluation.timeline.settled import Beyond, Settled
from tidelog.evaluation.timeline.stretch import LineRows, SliceRows
from tidelog.language.program import (
    INT_MAX,
    INT_MIN,
    Constant,
    Measure,
    Row,
    Term,
    Value,
    Variable,
)
from tidelog.logic.clause import ONE_TICK, Clause
from tidelog.logic.match import IndexedRows, picker


class Aggregate:
    """What a clause that gathers makes of facts."""

    def __init__(self, clause: Clause) -> None:
        premise = clause.gathered
        assert premise is not None, "the clause of an aggregate gathers"
        assert premise.gathers is not None, "what is gathered is made something of"
        self.name, self.source = clause.head.predicate, premise.predicate
        self.ticks = (premise.over or ONE_TICK).ticks
        self.measure = premise.gathers.measure
        args = premise.args
        first: dict[Term, int] = {
            term: args.index(term) for term in args if isinstance(term, Variable)
        }
        self.given = [(i, term.value) for i, term in enumerate(args) if isinstance(term, Constant)]
        self.same = [(i, first[term]) for i, term in enumerate(args) if first.get(term, i) != i]
        self.group: Callable[[Row], Row] = picker([first[term] for term in clause.head.args[:-1]])
        of = premise.gathers.of
        self.of = 0 if of is None else first[of]

    def of_rows(self, slices: Iterable[SliceRows]) -> SliceRows:
        """What the facts of some ticks come to, a row for each group."""
        groups: dict[Row, list[Row]] = {}
        for there in slices:
            for row in there.rows:
                if all(row[i] == value for i, value in self.given) and all(
                    row[i] == row[j] for i, j in self.same
                ):
                    groups.setdefault(self.group(row), []).append(row)
        made = {group: self._measured(rows) for group, rows in groups.items()}
        return IndexedRows({(*group, value) for group, value in made.items() if value is not None})

    def _measured(self, rows: Sequence[Row]) -> Value | None:
        match self.measure:
            case Measure.COUNT:
                return len(rows)
            case Measure.MIN:
                return min(row[self.of] for row in rows)
            case Measure.MAX:
                return max(row[self.of] for row in rows)
            case Measure.SUM | Measure.AVG:
                numbers = [row[self.of] for row in rows]
                return _added([n for n in numbers if isinstance(n, int | float)], self.measure)
            case _:
                assert_never(self.measure)


def _added(numbers: Sequence[int | float], measure: Measure) -> int | float | None:
    """A sum, which is exact and rounded once, or an average; None where there is none.

    >>> _added([1e16, 1.0, -1e16], Measure.SUM), _added([1e308, 1e308, -1e308], Measure.SUM)
    (1.0, 1e+308)
    >>> _added([2**62, 2**62], Measure.SUM), _added([2**62, 2**62], Measure.AVG)
    (None, 4.611686018427388e+18)
    """
    if not all(map(math.isfinite, numbers)):
        return None
    pairs = [number.as_integer_ratio() for number in numbers]
    below = max(denominator for _, denominator in pairs)  # powers of two
    above = sum(numerator * (below // denominator) for numerator, denominator in pairs)
    if measure is Measure.SUM and all(isinstance(number, int) for number in numbers):
        return above if INT_MIN <= above <= INT_MAX else None
    try:
        total = above / below  # of two integers: the float next to it
    except OverflowError:
        return None
    return total / len(numbers) if measure is Measure.AVG else total


class Gathered:
    """The facts of an aggregate, over a predicate that is known on the whole line.

    Beyond low and high only ticks are looked at where that one repeats.
    """

    def __init__(
        self, aggregate: Aggregate, source: Settled, low: int, high: int, limit: Limit
    ) -> None:
        self.aggregate, self.source, self.limit = aggregate, source, limit
        self.low, self.high = low, high + aggregate.ticks - 1
        self.by_tick: LineRows = {}
        if None in source.rows:
            self.by_tick[aggregate.name, None] = aggregate.of_rows([source.rows[None]])
        for tick, rows in self._between(self.low, self.high):
            self.by_tick[aggregate.name, tick] = rows

    def _between(self, low: int, high: int) -> Iterator[tuple[int, SliceRows]]:
        """What there is on some ticks: it changes where facts come into the window, or leave it."""
        ticks = self.aggregate.ticks
        there = self.source.between(low - ticks + 1, high)
        coming = deque(sorted(there, key=lambda slice_: slice_[0]))
        inside: deque[tuple[int, SliceRows]] = deque()
        rows: SliceRows = IndexedRows()
        tick = low
        while tick <= high and (coming or inside):
            self.limit.check("gathering on the line", 1 + len(inside))
            before = len(inside), len(coming)
            while coming and coming[0][0] <= tick:
                inside.append(coming.popleft())
            while inside and inside[0][0] <= tick - ticks:
                inside.popleft()
            if (len(inside), len(coming)) != before:
                rows = self.aggregate.of_rows(slice_ for _, slice_ in inside)
            if inside:
                yield tick, rows
            tick = tick + 1 if inside or not coming else max(tick + 1, coming[0][0])

    def beyond(self, way: int) -> Beyond:
        return self._after if way > 0 else self._before

    @cached_property
    def _after(self) -> Beyond:
        first = self.high + 1
        return self._repeating(range(first, first + len(self.source.right)))

    @cached_property
    def _before(self) -> Beyond:
        first = self.low - 1
        return self._repeating(range(first, first - len(self.source.left), -1))

    def _repeating(self, ticks: range) -> Beyond:
        rows = dict(self._between(min(ticks), max(ticks)))
        name = self.aggregate.name
        return Beyond([{name: rows[tick]} if tick in rows else {} for tick in ticks], 0)
