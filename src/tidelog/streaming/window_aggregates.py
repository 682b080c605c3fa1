"""The values of an aggregate's groups, kept up to date as its window moves tick by tick.

Sums are whole numbers of a small power of two, so that adding and taking away again is exact.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Set
from copy import copy
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

from tidelog.data.aggregates import BEYOND, LOW, expect_number, part_power
from tidelog.language.program import Measure, Row, Type, Value
from tidelog.logic.aggregate import Aggregate, rounded
from tidelog.logic.clause import PART_COLUMNS, Parts

# Every float, and every part of a sum, is a whole number of 2^-_SCALE.
_SCALE = 1200


class WindowAggregate:
    """One aggregate over a window of ticks; its state can be made anew from the facts in it."""

    def __init__(self, aggregate: Aggregate, numbers: Type | None, base: str) -> None:
        if aggregate.adds:
            expect_number(numbers, aggregate.measure, base)
        self.aggregate, self._numbers, self._base = aggregate, numbers, base
        self._entry = _entries(aggregate) if aggregate.adds else None
        self._done: int | None = None  # the tick up to which facts have been added
        self._groups: dict[Row, _Group] = {}
        self._rows: dict[Row, Row] = {}  # by group, with its value
        self._changed: set[Row] = set()  # groups whose row is not up to date

    def at(self, tick: int, there: Callable[[int], Set[Row]], ticks: Iterable[int]) -> set[Row]:
        """The groups and values of the window that ends with a tick.

        `there` gives the facts at a tick, and `ticks` are those at which there may be any.
        """
        if self.aggregate.parts is Parts.MADE:
            return set(self._parts(there(tick)))
        first = tick - self.aggregate.ticks + 1
        if self._done != tick - 1:
            self._groups, self._rows, self._changed = {}, {}, set()
            for before in sorted(ticks):
                if first <= before < tick:
                    self._enter(before, there(before))
        self._enter(tick, there(tick))
        self._update()
        rows = set(self._rows.values())
        self._leave(first, there(first))
        self._done = tick
        return rows

    def copy(self) -> WindowAggregate:
        """The same, that may move on without changing this one."""
        other = WindowAggregate(self.aggregate, self._numbers, self._base)
        other._done = self._done
        other._groups = {group: state.copy() for group, state in self._groups.items()}
        other._rows, other._changed = dict(self._rows), set(self._changed)
        return other

    def _enter(self, tick: int, rows: Set[Row]) -> None:
        group_of = self.aggregate.group
        for row in self.aggregate.matching(rows):
            group = group_of(row)
            state = self._groups.get(group)
            if state is None:
                state = self._groups[group] = self._empty()
            state.facts += 1
            self._changed.add(group)
            match state:
                case _Sum():
                    state.add(self._number(row))
                case _Extreme():
                    state.add(tick, row[self.aggregate.of])
                case _Count():
                    pass
                case _:
                    assert_never(state)

    def _leave(self, tick: int, rows: Set[Row]) -> None:
        group_of = self.aggregate.group
        for row in self.aggregate.matching(rows):
            group = group_of(row)
            state = self._groups[group]
            state.facts -= 1
            self._changed.add(group)
            match state:
                case _Sum():
                    state.take_away(self._number(row))
                case _Extreme():
                    state.forget(tick)
                case _Count():
                    pass
                case _:
                    assert_never(state)

    def _number(self, row: Row) -> _Number:
        assert self._entry is not None, "an aggregate that adds reads numbers"
        return self._entry(row)

    def _update(self) -> None:
        """Bring the rows of changed groups up to date."""
        for group in self._changed:
            value = None
            if self._groups[group].facts:
                value = self._value(self._groups[group])
            else:
                del self._groups[group]
            if value is None:
                self._rows.pop(group, None)
            else:
                self._rows[group] = (*group, value)
        self._changed = set()

    def _empty(self) -> _Group:
        match self.aggregate.measure:
            case Measure.COUNT:
                return _Count()
            case Measure.MIN:
                return _Extreme(least=True)
            case Measure.MAX:
                return _Extreme(least=False)
            case Measure.SUM | Measure.AVG:
                return _Sum()
            case _:
                assert_never(self.aggregate.measure)

    def _value(self, state: _Group) -> Value | None:
        match state:
            case _Count():
                return state.facts
            case _Extreme():
                best: Value = state.best[0][1]
                return best
            case _Sum():
                if state.infinite:
                    return None
                whole = self._numbers is Type.INT
                return rounded(
                    state.total, 1 << _SCALE, state.count, self.aggregate.measure, whole=whole
                )
            case _:
                assert_never(state)

    def _parts(self, rows: Set[Row]) -> Iterator[Row]:
        """The parts of exact sums of one tick, as SQL makes them (data/aggregates)."""
        sums: dict[tuple[Row, int], tuple[int, int]] = {}
        for row in self.aggregate.matching(rows):
            value, group = row[self.aggregate.of], self.aggregate.group(row)
            assert isinstance(value, int | float)
            power = part_power(value)
            whole = 0 if power == BEYOND else _scaled(value) >> (_SCALE + power)
            facts, total = sums.get((group, power), (0, 0))
            sums[group, power] = facts + 1, total + whole
        for (group, power), (facts, total) in sums.items():
            yield (*group, power, facts, total >> LOW, total & ((1 << LOW) - 1))


# How many numbers there are, how many of them are infinite, and the sum of the others.
_Number: TypeAlias = tuple[int, int, int]


def _entries(aggregate: Aggregate) -> Callable[[Row], _Number]:
    """What a row adds: a number, or the part of a sum that was made before."""
    of = aggregate.of

    def number(row: Row) -> _Number:
        value = row[of]
        assert isinstance(value, int | float)
        if value in (float("inf"), float("-inf")):
            return 1, 1, 0
        return 1, 0, _scaled(value)

    def part(row: Row) -> _Number:
        power, facts, high, low = (int(value) for value in row[-len(PART_COLUMNS) :])
        if power == BEYOND:
            return facts, 1, 0
        return facts, 0, ((high << LOW) + low) << (_SCALE + power)

    return part if aggregate.parts is Parts.READ else number


def _scaled(number: int | float) -> int:
    """How many times 2^-_SCALE a finite number is."""
    above, below = number.as_integer_ratio()
    return above << (_SCALE + 1 - below.bit_length())


@dataclass(slots=True)
class _Count:
    """The number of facts of a group."""

    facts: int = 0

    def copy(self) -> _Count:
        return copy(self)


@dataclass(slots=True)
class _Sum:
    """The exact sum of a group's numbers."""

    facts: int = 0
    count: int = 0
    infinite: int = 0
    total: int = 0

    def add(self, number: _Number) -> None:
        self.count += number[0]
        self.infinite += number[1]
        self.total += number[2]

    def take_away(self, number: _Number) -> None:
        self.count -= number[0]
        self.infinite -= number[1]
        self.total -= number[2]

    def copy(self) -> _Sum:
        return copy(self)


@dataclass(slots=True)
class _Extreme:
    """The least or greatest value of a group, and those that follow once it has left.

    Each of `best` is later than the one before it, and worse.
    """

    least: bool
    facts: int = 0
    best: deque[tuple[int, Any]] = field(default_factory=deque)

    def add(self, tick: int, value: Any) -> None:
        best = self.best
        if best and best[-1][0] == tick and not self._is_better(value, best[-1][1]):
            return
        while best and not self._is_better(best[-1][1], value):
            best.pop()
        best.append((tick, value))

    def forget(self, tick: int) -> None:
        while self.best and self.best[0][0] <= tick:
            self.best.popleft()

    def _is_better(self, one: Any, other: Any) -> bool:
        return bool(one < other if self.least else one > other)

    def copy(self) -> _Extreme:
        return _Extreme(self.least, self.facts, self.best.copy())


_Group: TypeAlias = _Count | _Sum | _Extreme
