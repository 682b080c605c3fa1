"""Facts on their way into a stream: tuples at once, anything else through Arrow."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from tidelog.data.readers.memory import RowsLike, in_memory, positioned, typed_table
from tidelog.data.schema import Schema
from tidelog.data.ticks import Ticks
from tidelog.data.types import PYTHON_TYPES
from tidelog.errors import DataError
from tidelog.language.program import TIME_MAX, Row, Type
from tidelog.streaming.columns import Numbering, RowTable, are_many, has_many
from tidelog.streaming.columns import by_time as tables_by_time

CameByTime: TypeAlias = dict[int, Collection[Row]]  # a table where they are many


class Intake:
    """Reads the facts of one input."""

    def __init__(
        self, schema: Schema, ticks: Ticks | None = None, numbering: Numbering | None = None
    ) -> None:
        self.schema, self.ticks = schema, ticks
        self.numbering = numbering or Numbering()
        self.types = types = tuple(column.type or Type.TEXT for column in schema.columns)
        self.without_time = tuple(PYTHON_TYPES[type_] for type_ in types)
        # Where ticks have a length, a row has a timestamp, which takes a closer look.
        self.with_time = (*self.without_time, int if ticks is None else None)
        # Values that need a closer look: integers may be large, texts half, floats not numbers.
        self.texts = [i for i, type_ in enumerate(types) if type_ is Type.TEXT]
        self.numbers = [i for i, type_ in enumerate(types) if type_ is Type.INT]
        self.floats = [i for i, type_ in enumerate(types) if type_ is Type.FLOAT]

    def rows(self, rows: RowsLike) -> list[Row]:
        """Rigid facts."""
        table = self.table(rows)
        if not self.schema.columns:
            return [()] * table.num_rows
        return list(zip(*(c.to_pylist() for c in table.columns), strict=True))

    def times(self, rows: RowsLike, tick: int, *, in_columns: bool = False) -> CameByTime:
        """Temporal facts by time; those without one are at a tick.

        Many of a time are a table, if rows `in_columns` are of use.
        """
        if isinstance(rows, (list, tuple)):
            groups = self._grouped(rows, tick)
            if groups is not None and all(map(self._plain, groups.values())):
                return {
                    time: self._in_columns(group) if in_columns and are_many(group) else group
                    for time, group in groups.items()
                    if group
                }
            rows = [self._timed(i, row, tick) for i, row in enumerate(rows, 1)]
            table = typed_table(in_memory(self.schema, rows, None), self.schema)
        else:
            table = self.table(rows)
        return self.by_time(table, in_columns=in_columns)

    def by_time(self, table: pa.Table, *, in_columns: bool) -> CameByTime:
        """The rows of a table whose last column is the time, by time."""
        if in_columns and has_many(table):
            texts = self.numbering.texts(table.num_rows)
            return {**tables_by_time(table, self.types, texts)}
        return {**by_time(table)}

    def _in_columns(self, rows: list[Row]) -> RowTable:
        return RowTable.of_rows(self.types, rows, self.numbering.texts(len(rows)))

    def _timed(self, number: int, row: Any, tick: int) -> Any:
        """A row with its tick."""
        size = len(self.schema.columns)
        if isinstance(row, Mapping):
            row = positioned(self.schema, row, number, {str(self.schema.time): None})
            if row[-1] is None:
                row = row[:-1]
        if not isinstance(row, (tuple, list)) or len(row) not in (size, size + 1):
            return row
        if len(row) == size:
            return (*row, tick)
        if self.ticks is None or row[-1] is None:
            return row
        try:
            return (*row[:-1], self.ticks.tick(row[-1]))
        except ValueError as error:
            where = f"facts of `{self.schema.predicate}`, row {number}"
            raise DataError(f"{where}: column `{self.schema.time}`: {error}") from None

    def table(self, rows: RowsLike) -> pa.Table:
        """Facts as Arrow; a row with a NULL or a float that is not a number is none."""
        return typed_table(in_memory(self.schema, rows, self.ticks), self.schema, self.ticks)

    def _grouped(self, rows: Any, tick: int) -> dict[int, list[Row]] | None:
        """Tuples of exactly the right types, by time; None when there is anything else."""
        here: list[Any] = []
        groups: dict[int, list[Any]] = {tick: here}
        without_time, with_time = self.without_time, self.with_time
        for row in rows:
            if type(row) is not tuple:
                return None
            kinds = tuple(map(type, row))
            if kinds == without_time:
                here.append(row)
            elif kinds != with_time or not -TIME_MAX <= row[-1] <= TIME_MAX:
                return None
            elif row[-1] in groups:
                groups[row[-1]].append(row[:-1])
            else:
                groups[row[-1]] = [row[:-1]]
        return groups

    def _plain(self, rows: list[Any]) -> bool:
        """Whether all values of the right types are what they seem."""
        return (
            all(row[i].isascii() for i in self.texts for row in rows)
            and all(-(2**63) <= row[i] < 2**63 for i in self.numbers for row in rows)
            and all(_is_plain(row[i]) for i in self.floats for row in rows)
        )


def _is_plain(value: float) -> bool:
    """Whether a float is a number, and no zero with a sign."""
    return value == value and (value != 0 or math.copysign(1, value) > 0)


def by_time(table: pa.Table) -> dict[int, list[Row]]:
    """The rows of a table whose last column is the time, by time."""
    if not table.num_rows:
        return {}
    *columns, times = (column.to_pylist() for column in table.columns)
    rows: Any = zip(*columns, strict=True) if columns else [()] * table.num_rows
    if min(times) == max(times):
        return {times[0]: list(rows)}
    groups: dict[int, list[Row]] = {}
    for time, row in zip(times, rows, strict=True):
        groups.setdefault(time, []).append(row)
    return groups
