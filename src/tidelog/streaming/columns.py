"""Rows as columns of numbers: what sets of tuples are to few facts of a tick, for many of them.

A `RowTable` is a set of rows that knows the operators of sets; texts are numbered, so that all of
it is arithmetic on whole columns. A clause is joined over such tables by `fired` and `marked`,
along the same order of premises as the compiled functions of `joins`, with the same rows as result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.data.types import PYTHON_TYPES, arrow_type, common_type
from tidelog.language.program import Operator, Row, Type, Value, Variable
from tidelog.logic.clause import Sign
from tidelog.logic.match import Due, JoinOrder, JoinStep

with suppress(ImportError):  # Spark's executors need no NumPy: they take rows as tuples
    import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

# Rows of a tick from which on columns are the better way.
MANY = 1_000
# Codes up to which membership is looked up in an array, for each row that is looked up.
_DENSE = 16
_LARGEST = 1 << 62
# Texts that are numbered one by one.
_FEW = 64
# Texts that are numbered before numbering starts anew, whatever is kept.
_MOST_TEXTS = 1_000_000

Numbers: TypeAlias = "npt.NDArray[np.int64]"
Mask: TypeAlias = "npt.NDArray[np.bool_]"


class Unlike(Exception):
    """Values of different types are compared, which numbers cannot say: rows must be looked at."""


class Texts:
    """Numbers for texts: equal texts have equal numbers."""

    def __init__(self, age: int = 0) -> None:
        self.age = age  # of several numberings the one of the greatest age is the youngest
        self.values: pa.Array = pa.array([], pa.string())
        self._known: dict[str, int] = {}  # numbers that were asked for one by one
        self._last: list[tuple[pa.ChunkedArray, Numbers]] = []

    def number(self, text: str) -> int:
        """The number of a single text."""
        known = self._known.get(text)
        if known is None:
            place = pc.index(self.values, text).as_py()
            if place < 0:
                place = len(self.values)
                self.values = pa.concat_arrays([self.values, pa.array([text], pa.string())])
            known = self._known[text] = place
        return known

    def numbers(self, texts: pa.ChunkedArray) -> Numbers:
        """The numbers of some texts; those that are new get new ones."""
        if len(texts) <= _FEW:
            return np.array([self.number(text) for text in texts.to_pylist()], np.int64)
        for column, numbers in self._last:
            if len(column) == len(texts) and column.equals(texts):
                return numbers  # the same objects in the same order, as sensors report
        if len(texts.slice(0, 16 * _FEW).unique()) <= _FEW:
            few = texts.combine_chunks().dictionary_encode()
            numbers = self._numbers(few.dictionary)[few.indices.to_numpy()]
        else:
            numbers = self._numbers(texts.combine_chunks())
            self._last = [(texts, numbers), *self._last[:3]]
        return numbers

    def _numbers(self, texts: pa.Array) -> Numbers:
        if len(texts) <= _FEW:
            return np.array([self.number(text) for text in texts.to_pylist()], np.int64)
        whole = pa.concat_arrays([self.values, texts]).dictionary_encode()
        numbers: Numbers = whole.indices.to_numpy()[len(self.values) :].astype(np.int64)
        self.values = whole.dictionary
        return numbers

    def texts(self, numbers: Numbers) -> pa.Array:
        return self.values.take(pa.array(numbers))


class Numbering:
    """How a stream numbers texts: anew from time to time, so that old ones are forgotten."""

    def __init__(self) -> None:
        self._texts = Texts()

    def texts(self, rows: int) -> Texts:
        """The numbers for so many more rows."""
        if len(self._texts.values) > _MOST_TEXTS + 8 * rows:
            self._texts = Texts(self._texts.age + 1)
        return self._texts


class RowTable(Set[Row]):
    """A set of rows, in columns. Whatever is done with sets of rows can be done with it."""

    __slots__ = ("_rows", "columns", "size", "texts", "types")

    def __init__(
        self, types: tuple[Type, ...], columns: Sequence[Numbers], size: int, texts: Texts
    ) -> None:
        """Columns of rows that are known to be different."""
        self.types, self.columns, self.size, self.texts = types, tuple(columns), size, texts
        self._rows: set[Row] | None = None

    @staticmethod
    def of_columns(
        types: Sequence[Type], columns: Sequence[pa.ChunkedArray], size: int, texts: Texts
    ) -> RowTable:
        """The different rows of columns of Arrow."""
        pairs = zip(types, columns, strict=True)
        numbers = [_encoded(type_, column, texts) for type_, column in pairs]
        return _distinct(tuple(types), numbers, size, texts)

    @staticmethod
    def of_rows(types: tuple[Type, ...], rows: Iterable[Row], texts: Texts) -> RowTable:
        whole = list(rows)
        values = zip(*whole, strict=True) if whole else [()] * len(types)
        columns = [
            pa.chunked_array([pa.array(column, arrow_type(type_))])
            for type_, column in zip(types, values, strict=True)
        ]
        return RowTable.of_columns(types, columns, len(whole), texts)

    # As sets of tuples

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Row]:
        if not self.columns:
            return iter([()] * self.size)
        return zip(*(column.to_pylist() for column in self.arrow()), strict=True)

    def __contains__(self, row: object) -> bool:
        if self._rows is None:
            self._rows = set(self)
        return row in self._rows

    def arrow(self) -> list[pa.Array]:
        """The columns, as Arrow has them."""
        pairs = zip(self.types, self.columns, strict=True)
        return [_decoded(type_, column, self.texts) for type_, column in pairs]

    def sorted(self, names: Sequence[str]) -> pa.Table:
        """The rows by their last value, then by the others."""
        table = pa.table(self.arrow(), names=[str(i) for i in range(len(self.columns))])
        keys = [len(self.columns) - 1, *range(len(self.columns) - 1)]
        told = [i for i in keys if self.size > 1 and self.columns[i].min() < self.columns[i].max()]
        if told:
            table = table.sort_by([(str(i), "ascending") for i in told])
        return table.rename_columns(list(names))

    def __or__(self, other: Set[Any]) -> RowTable:
        if not other or other is self:
            return self
        mine, theirs = _alike(self, other)
        if not mine.size:
            return theirs
        new = theirs.where(~_among(theirs, mine))
        if not new.size:
            return mine
        both = zip(mine.columns, new.columns, strict=True)
        columns = [np.concatenate(pair) for pair in both]
        return RowTable(mine.types, columns, mine.size + new.size, mine.texts)

    def __and__(self, other: Set[Any]) -> RowTable:
        if other is self:
            return self
        mine, theirs = _alike(self, other)
        return mine.where(_among(mine, theirs))

    def __sub__(self, other: Set[Any]) -> RowTable:
        if not other:
            return self
        mine, theirs = _alike(self, other)
        return mine.where(~_among(mine, theirs))

    def __rsub__(self, other: Set[Any]) -> RowTable:
        mine, theirs = _alike(self, other)
        return theirs.where(~_among(theirs, mine))

    def __le__(self, other: Set[Any]) -> bool:
        if other is self or not self.size:
            return True
        if len(other) < self.size:
            return False
        mine, theirs = _alike(self, other)
        return bool(_among(mine, theirs).all())

    def __ge__(self, other: Set[Any]) -> bool:
        mine, theirs = _alike(self, other)
        return theirs <= mine

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Set):
            return NotImplemented
        return len(other) == self.size and self <= other

    __ror__ = __or__
    __rand__ = __and__
    __hash__ = None  # type: ignore[assignment]

    # In columns

    def where(self, mask: Mask) -> RowTable:
        """The rows that are marked."""
        places = np.flatnonzero(mask)
        if len(places) == self.size:
            return self
        columns = [c.take(places) for c in self.columns]
        return RowTable(self.types, columns, len(places), self.texts)

    def at(self, time: int) -> RowTable:
        """The rows with a time at their end."""
        times = np.full(self.size, time, np.int64)
        return RowTable((*self.types, Type.INT), (*self.columns, times), self.size, self.texts)

    def into(self, texts: Texts) -> RowTable:
        """The same rows with texts numbered in another way."""
        if texts is self.texts:
            return self
        columns = [
            _encoded(type_, pa.chunked_array([column]), texts) if type_ is Type.TEXT else numbers
            for type_, column, numbers in zip(self.types, self.arrow(), self.columns, strict=True)
        ]
        return RowTable(self.types, columns, self.size, texts)


def as_table(rows: Set[Row], texts: Texts) -> RowTable:
    """Rows in columns, with texts numbered in a given way."""
    if isinstance(rows, RowTable):
        return rows.into(texts)
    types = tuple(common_type(column) for column in zip(*rows, strict=True))
    return RowTable.of_rows(types, rows, texts)


def with_time(rows: Set[Row], time: int) -> Set[Row]:
    """Rows with a time at their end."""
    return rows.at(time) if isinstance(rows, RowTable) else {(*row, time) for row in rows}


def between(rows: Set[Row], after: float, until: float) -> Set[Row]:
    """The rows, with a time at their end, after a time and up to one."""
    if isinstance(rows, RowTable):
        return rows.where((rows.columns[-1] > after) & (rows.columns[-1] <= until))
    return {row for row in rows if after < row[-1] <= until}  # type: ignore[operator]


def are_many(rows: Sequence[Row]) -> bool:
    """Whether columns are the better way for rows of one time."""
    return len(rows) >= MANY


def has_many(table: pa.Table) -> bool:
    """Whether a table, whose last column is the time, has many rows at each of its times."""
    rows: int = table.num_rows
    return rows >= MANY * max(1, pc.count_distinct(table.column(-1)).as_py() if rows >= MANY else 1)


def by_time(table: pa.Table, types: Sequence[Type], texts: Texts) -> dict[int, RowTable]:
    """The rows of a table whose last column is the time, by time."""
    times = table.column(-1).to_numpy()
    ticks = pc.unique(table.column(-1)).to_pylist()
    groups: dict[int, RowTable] = {}
    for tick in ticks:
        rows = table if len(ticks) == 1 else table.filter(pa.array(times == tick))
        columns = rows.columns[: len(types)]
        groups[tick] = RowTable.of_columns(types, columns, rows.num_rows, texts)
    return groups


def _encoded(type_: Type, column: pa.ChunkedArray, texts: Texts) -> Numbers:
    """Values as numbers that are equal where the values are."""
    match type_:
        case Type.TEXT:
            return texts.numbers(column)
        case Type.INT:
            return np.asarray(column.to_numpy(), np.int64)
        case Type.BOOL:
            return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_).astype(np.int64)
        case Type.FLOAT:
            # There is one zero only and nothing that is not a number: equal values, equal bits.
            return np.array(column.to_numpy(), np.float64).view(np.int64)
        case _:
            assert_never(type_)


def _decoded(type_: Type, column: Numbers, texts: Texts) -> pa.Array:
    match type_:
        case Type.TEXT:
            return texts.texts(column)
        case Type.INT:
            return pa.array(column)
        case Type.BOOL:
            return pa.array(column.astype(np.bool_))
        case Type.FLOAT:
            return pa.array(column.view(np.float64))
        case _:
            assert_never(type_)


# Codes: a number for a whole row, so that rows are equal where their codes are


def _codes(
    types: Sequence[Type], texts: Texts, sizes: Sequence[int], *sides: Sequence[Numbers]
) -> tuple[list[Numbers], int]:
    """A code for each row of tables of the same columns, and a number that all are less than."""
    if not types:
        return [np.zeros(size, np.int64) for size in sizes], 1
    codes: list[Numbers] = []
    span = 1
    for type_, parts in zip(types, zip(*sides, strict=True), strict=True):
        low, width = 0, len(texts.values)
        if type_ is not Type.TEXT or len(types) > 1:
            ends = [(int(part.min()), int(part.max())) for part in parts if part.size] or [(0, 0)]
            low = min(end[0] for end in ends)
            width = max(end[1] for end in ends) - low + 1
        if span * width < _LARGEST:
            places = [part - low for part in parts] if low else list(parts)
        else:
            places, width = _numbered(parts)
            if span * width >= _LARGEST:
                codes, span = _numbered(codes)
        if codes:
            pairs = zip(codes, places, strict=True)
            codes = [code * width + place for code, place in pairs]
        else:
            codes = places
        span *= max(1, width)
    return codes, span


def _numbered(parts: Sequence[Numbers]) -> tuple[list[Numbers], int]:
    """The values of some arrays, numbered from 0 on without a gap."""
    values, places = np.unique(np.concatenate(parts), return_inverse=True)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    return [place.astype(np.int64) for place in np.split(places, ends)], max(1, len(values))


def _is_dense(span: int, rows: int) -> bool:
    return span <= _DENSE * rows + 65_536


def _distinct(
    types: tuple[Type, ...], columns: Sequence[Numbers], size: int, texts: Texts
) -> RowTable:
    """A table of the different rows of some columns."""
    if not columns:
        return RowTable(types, (), min(size, 1), texts)
    (codes,), span = _codes(types, texts, [size], columns)
    if _is_dense(span, size):
        last: Numbers = np.full(span, -1, np.int64)
        last[codes] = np.arange(size)
        chosen = last[last >= 0]
    else:
        chosen = np.unique(codes, return_index=True)[1]
    if len(chosen) < size:
        columns = [column[chosen] for column in columns]
    return RowTable(types, columns, len(chosen), texts)


def _is_among(codes: Numbers, others: Numbers, span: int) -> Mask:
    if _is_dense(span, len(codes) + len(others)):
        there: Mask = np.zeros(span, np.bool_)
        there[others] = True
        return there[codes]
    return np.isin(codes, others)


def _among(rows: RowTable, others: RowTable) -> Mask:
    """Which rows of a table are in another one."""
    if rows.columns is others.columns or not rows.columns:
        return np.full(rows.size, rows.columns is others.columns or others.size > 0)
    sizes = (rows.size, others.size)
    (codes, theirs), span = _codes(rows.types, rows.texts, sizes, rows.columns, others.columns)
    return _is_among(codes, theirs, span)


def _alike(mine: RowTable, other: Set[Row]) -> tuple[RowTable, RowTable]:
    """Two sets of rows as tables with one numbering of texts, that of the younger."""
    if not isinstance(other, RowTable):
        other = as_table(other, mine.texts) if other else mine.where(np.zeros(mine.size, np.bool_))
    if mine.types != other.types:
        # A whole number in a rule may stand for a float.
        pairs = zip(mine.types, other.types, strict=True)
        types = tuple(Type.FLOAT if Type.FLOAT in pair else pair[0] for pair in pairs)
        mine, other = (RowTable.of_rows(types, rows, mine.texts) for rows in (mine, other))
    texts = max(mine.texts, other.texts, key=lambda texts: texts.age)
    return mine.into(texts), other.into(texts)


# Joins along an order of premises


@dataclass(frozen=True)
class _LookedUp:
    """How a premise is looked up: codes of what is known, and those of its rows."""

    rows: Numbers | None  # the rows that may match; None: all
    codes: Numbers
    others: Numbers
    span: int  # codes are less than this
    different: bool  # whether no two rows have the same code

    def matches(self) -> tuple[Numbers | None, Numbers]:
        """All pairs of equal codes, by their places; None for each of ours, in order, once."""
        codes, others, span = self.codes, self.others, self.span
        if span == 1 and not self.different:
            mine = np.repeat(np.arange(len(codes)), len(others))
            return mine, np.tile(np.arange(len(others)), len(codes))
        if _is_dense(span, len(codes) + len(others)):
            last: Numbers = np.full(span, -1, np.int64)
            places = np.arange(len(others))
            last[others] = places
            if self.different or np.array_equal(last[others], places):
                theirs = last[codes]
                there = theirs >= 0
                if there.all():
                    return None, theirs
                return np.flatnonzero(there), theirs[there]
        order = np.argsort(others, kind="stable")
        ordered = others[order]
        first = np.searchsorted(ordered, codes, "left")
        counts = np.searchsorted(ordered, codes, "right") - first
        mine = np.repeat(np.arange(len(codes)), counts)
        before = np.repeat(np.cumsum(counts) - counts, counts)
        return mine, order[np.arange(len(mine)) - before + np.repeat(first, counts)]


class _Binding:
    """Values by place, a row for each match; and the rows of premises that each match goes by."""

    def __init__(self, order: JoinOrder, texts: Texts) -> None:
        if order.calculates:
            raise Unlike  # numbers are made row by row
        self.order, self.texts = order, texts
        self.size = 1
        self.types: dict[int, Type] = {}
        self.constants: dict[int, int] = {}
        self.values: dict[int, Numbers] = {}
        self.rows: dict[int, Numbers] = {}  # by premise
        for constant in order.constants:
            place = order.place(constant)
            self.types[place] = type_ = _type_of(constant.value)
            column = pa.chunked_array([pa.array([constant.value], arrow_type(type_))])
            self.constants[place] = int(_encoded(type_, column, texts)[0])

    def column(self, place: int) -> Numbers:
        if place in self.constants:
            return np.full(self.size, self.constants[place], np.int64)
        return self.values[place]

    def keep(self, mask: Mask) -> None:
        if not mask.all():
            self.take(np.flatnonzero(mask))

    def take(self, chosen: Numbers) -> None:
        self.values = {place: value[chosen] for place, value in self.values.items()}
        self.rows = {number: rows[chosen] for number, rows in self.rows.items()}
        self.size = len(chosen)

    def test(self, tests: Iterable[Due]) -> None:
        for due in tests:
            left, right = due.left, due.right
            if self.types[left] is not self.types[right]:
                raise Unlike
            sides = self.column(left), self.column(right)
            self.keep(_compared(due.operator, self.types[left], *sides, self.texts))

    def look_up(self, step: JoinStep, table: RowTable) -> _LookedUp:
        """Which rows of a premise may match, and codes to look them up by."""
        if len(table.types) != len(step.premise.args):
            raise Unlike  # without rows no types are known
        tests: list[Mask] = []
        keys: list[tuple[int, int]] = []
        for position, place in zip(step.known, step.key, strict=True):
            if table.types[position] is not self.types[place]:
                raise Unlike
            if place in self.constants:
                tests.append(table.columns[position] == self.constants[place])
            else:
                keys.append((position, place))
        if step.premise.sign is Sign.POSITIVE:
            tests += [table.columns[one] == table.columns[other] for one, other in step.same]
        rows = np.flatnonzero(np.logical_and.reduce(tests)) if tests else None
        mine = [self.values[place] for _, place in keys]
        theirs = [table.columns[position] for position, _ in keys]
        if rows is not None:
            theirs = [column[rows] for column in theirs]
        sizes = (self.size, table.size if rows is None else len(rows))
        types = [table.types[position] for position, _ in keys]
        (codes, others), span = _codes(types, self.texts, sizes, mine, theirs)
        return _LookedUp(rows, codes, others, span, not step.new and not tests)

    def join(self, step: JoinStep, table: RowTable) -> None:
        """Match each row of a premise, and add its values."""
        looked_up = self.look_up(step, table)
        mine, theirs = looked_up.matches()
        if mine is not None:
            self.take(mine)
        else:
            self.size = len(theirs)
        rows = theirs if looked_up.rows is None else looked_up.rows[theirs]
        self.rows[step.number] = rows
        for position in step.new:
            place = self.order.place(step.premise.args[position])
            self.values[place] = table.columns[position][rows]
            self.types[place] = table.types[position]

    def leave_out(self, step: JoinStep, table: RowTable) -> None:
        """Drop the matches for which there is a row that must be absent."""
        looked_up = self.look_up(step, table)
        self.keep(~_is_among(looked_up.codes, looked_up.others, looked_up.span))

    def in_the_way(self, step: JoinStep, table: RowTable) -> Mask:
        """The rows that a negated premise asks for, for one match at least."""
        used: Mask = np.zeros(table.size, np.bool_)
        looked_up = self.look_up(step, table)
        there = _is_among(looked_up.others, looked_up.codes, looked_up.span)
        used[there if looked_up.rows is None else looked_up.rows[there]] = True
        return used


def _compared(operator: Operator, type_: Type, left: Numbers, right: Numbers, texts: Texts) -> Mask:
    """Where a comparison of values holds."""
    if operator in (Operator.EQ, Operator.NE):
        compared: Mask = (left == right) == (operator is Operator.EQ)
        return compared
    sides = (_decoded(type_, side, texts) for side in (left, right))
    return np.asarray(_COMPARE[operator](*sides).to_numpy(zero_copy_only=False), np.bool_)


_COMPARE = {
    Operator.LT: pc.less,
    Operator.LE: pc.less_equal,
    Operator.GT: pc.greater,
    Operator.GE: pc.greater_equal,
}


def _type_of(value: Value) -> Type:
    return next(type_ for type_, python in PYTHON_TYPES.items() if type(value) is python)


def fired(order: JoinOrder, slices: Sequence[RowTable], texts: Texts) -> RowTable:
    """The rows of the head of a clause, over tables for its premises."""
    binding = _Binding(order, texts)
    binding.test(order.due)
    _join(binding, order, slices)
    for step in order.steps:
        if step.premise.sign is Sign.NEGATIVE and slices[step.number].size:
            binding.leave_out(step, slices[step.number])
    places = [order.place(term) for term in order.clause.head.args]
    types = tuple(binding.types[place] for place in places)
    columns = [binding.column(place) for place in places]
    bound = {v.name for p in order.clause.positive for v in p.variables}
    if columns and bound <= {v.name for v in order.clause.head.variables}:
        return RowTable(types, columns, binding.size, texts)
    return _distinct(types, columns, binding.size, texts)


def marked(
    order: JoinOrder, heads: RowTable, slices: Sequence[RowTable], texts: Texts
) -> list[RowTable]:
    """Per premise, the rows that the given rows of the head rest on."""
    binding = _Binding(order, texts)
    binding.size = heads.size
    same: Mask = np.full(heads.size, True)
    for type_, column, term in zip(heads.types, heads.columns, order.clause.head.args, strict=True):
        place = order.place(term)
        if isinstance(term, Variable) and place not in binding.values:
            binding.values[place], binding.types[place] = column, type_
        elif binding.types[place] is not type_:
            raise Unlike
        else:
            same &= binding.column(place) == column
    binding.keep(same)
    binding.test(order.due)
    _join(binding, order, slices)
    marks: list[RowTable] = []
    for step in sorted(order.steps, key=lambda step: step.number):
        table = slices[step.number]
        used: Mask = np.zeros(table.size, np.bool_)
        if step.premise.sign is Sign.POSITIVE:
            used[binding.rows[step.number]] = True
        elif table.size:
            used = binding.in_the_way(step, table)
        marks.append(table.where(used))
    return marks


def _join(binding: _Binding, order: JoinOrder, slices: Sequence[RowTable]) -> None:
    for step in order.steps:
        if step.premise.sign is Sign.POSITIVE:
            binding.join(step, slices[step.number])
            binding.test(step.due)


def chosen_rows(rows: RowTable, orders: Iterable[JoinOrder]) -> Set[Row]:
    """The rows that one of some orders, each of a single premise, can match.

    Few of them are better taken as tuples.
    """
    wanted: Mask = np.zeros(rows.size, np.bool_)
    for order in orders:
        binding = _Binding(order, rows.texts)
        binding.test(order.due)
        _join(binding, order, [rows])
        wanted[binding.rows[0]] = True
    chosen = rows.where(wanted)
    return chosen if chosen.size >= MANY // 4 else set(chosen)
