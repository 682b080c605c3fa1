"""An aggregate of facts in Python: which facts match, in which group, and what they measure.

SQL does the same over tables (data/aggregates). Sums are exact and rounded once in both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import assert_never

from tidelog.language.program import INT_MAX, INT_MIN, Constant, Measure, Row, Term, Value, Variable
from tidelog.logic.clause import AggregateOf
from tidelog.logic.match import picker


class Aggregate:
    """Evaluates an aggregate over rows in memory."""

    def __init__(self, name: str, definition: AggregateOf) -> None:
        args = definition.of.args
        self.name, self.source = name, definition.of.predicate
        self.ticks, self.adds = definition.ticks, definition.adds
        self.measure, self.parts = definition.measure, definition.parts
        first: dict[Term, int] = {}
        for i, term in enumerate(args):
            if isinstance(term, Variable):
                first.setdefault(term, i)
        self._constants = [
            (i, term.value) for i, term in enumerate(args) if isinstance(term, Constant)
        ]
        self._equal = [(i, first[term]) for i, term in enumerate(args) if first.get(term, i) != i]
        self.group: Callable[[Row], Row] = picker([first[term] for term in definition.groups])
        self.of = 0 if definition.variable is None else first[definition.variable]

    def matching(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows that have the constants and the equal arguments of the premise."""
        if not self._constants and not self._equal:
            return iter(rows)
        return (
            row
            for row in rows
            if all(row[i] == value for i, value in self._constants)
            and all(row[i] == row[j] for i, j in self._equal)
        )

    def of_slices(self, slices: Iterable[Iterable[Row]]) -> set[Row]:
        """The aggregate of some slices of facts, one row for each group."""
        groups: dict[Row, list[Row]] = {}
        for rows in slices:
            for row in self.matching(rows):
                groups.setdefault(self.group(row), []).append(row)
        measured = ((group, self._measured(rows)) for group, rows in groups.items())
        return {(*group, value) for group, value in measured if value is not None}

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
                return added([n for n in numbers if isinstance(n, int | float)], self.measure)
            case _:
                assert_never(self.measure)


def added(numbers: Sequence[int | float], measure: Measure) -> int | float | None:
    """The exact sum of numbers, rounded once, or their average; None if it has no value.

    >>> added([1e16, 1.0, -1e16], Measure.SUM), added([1e308, 1e308, -1e308], Measure.SUM)
    (1.0, 1e+308)
    >>> added([2**62, 2**62], Measure.SUM), added([2**62, 2**62], Measure.AVG)
    (None, 4.611686018427388e+18)
    """
    if not all(map(math.isfinite, numbers)):
        return None
    pairs = [number.as_integer_ratio() for number in numbers]
    below = max(denominator for _, denominator in pairs)  # powers of two
    above = sum(numerator * (below // denominator) for numerator, denominator in pairs)
    whole = all(isinstance(number, int) for number in numbers)
    return rounded(above, below, len(numbers), measure, whole=whole)


def rounded(
    above: int, below: int, count: int, measure: Measure, *, whole: bool
) -> int | float | None:
    """The value of an exact sum `above / below` of so many numbers, which may be `whole`."""
    if measure is Measure.SUM and whole:
        total, rest = divmod(above, below)
        assert not rest, "a sum of integers is one"
        return total if INT_MIN <= total <= INT_MAX else None
    try:
        sum_ = above / below  # of two integers: the float next to it
    except OverflowError:
        return None
    return sum_ / count if measure is Measure.AVG else sum_
