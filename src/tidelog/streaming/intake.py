"""Facts on their way into a stream: tuples at once, anything else through Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.data.readers.memory import RowsLike, Table, in_memory
from tidelog.data.schema import Schema
from tidelog.errors import DataError
from tidelog.language.program import TIME_MAX, Type
from tidelog.streaming.joins import Row

ARROW = {
    Type.TEXT: pa.string(),
    Type.INT: pa.int64(),
    Type.FLOAT: pa.float64(),
    Type.BOOL: pa.bool_(),
}


class Intake:
    """Reads the facts of one input."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        python = {Type.TEXT: str, Type.INT: int, Type.FLOAT: float, Type.BOOL: bool}
        kinds = [python[c.type or Type.TEXT] for c in schema.columns]
        self.without = tuple(kinds)
        self.whole = (*kinds, int)
        # Values that need a closer look: integers may be large, texts half, floats not numbers.
        self.texts = [i for i, k in enumerate(kinds) if k is str]
        self.numbers = [i for i, k in enumerate(kinds) if k is int]
        self.floats = [i for i, k in enumerate(kinds) if k is float]

    def rows(self, rows: RowsLike) -> list[Row]:
        """Rigid facts."""
        table = self.table(rows)
        if table.column_names == ["z"]:
            return [()] * table.num_rows
        return list(zip(*(c.to_pylist() for c in table.columns), strict=True))

    def times(self, rows: RowsLike, tick: int) -> dict[int, list[Row]]:
        """Temporal facts by time; those without one are at a tick."""
        if isinstance(rows, (list, tuple)):
            found = self._plain(rows, tick)
            if found is not None:
                return found
            wanted = len(self.schema.columns)
            rows = [
                (*row, tick) if isinstance(row, (tuple, list)) and len(row) == wanted else row
                for row in rows
            ]
        return by_time(self.table(rows))

    def table(self, rows: RowsLike) -> pa.Table:
        """Facts as Arrow; a row with a NULL or a float that is not a number is none."""
        table = typed(in_memory(self.schema, rows, None), self.schema)
        for i in self.floats:
            table = table.filter(pc.invert(pc.is_nan(table.column(i))))
        return table

    def _plain(self, rows: Any, tick: int) -> dict[int, list[Row]] | None:
        """Tuples of exactly the right types; None when there is anything else to look at."""
        here: list[Any] = []
        found: dict[int, list[Any]] = {tick: here}
        without, whole = self.without, self.whole
        for row in rows:
            if type(row) is not tuple:
                return None
            kinds = tuple(map(type, row))
            if kinds == without:
                here.append(row)
            elif kinds != whole or not -TIME_MAX <= row[-1] <= TIME_MAX:
                return None
            elif row[-1] in found:
                found[row[-1]].append(row[:-1])
            else:
                found[row[-1]] = [row[:-1]]
        for group in found.values():
            for i in self.texts:
                if not all(row[i].isascii() for row in group):
                    return None
            for i in self.numbers:
                if not all(-(2**63) <= row[i] < 2**63 for row in group):
                    return None
            for i in self.floats:
                if not all(row[i] == row[i] for row in group):
                    return None
        if not here:
            del found[tick]
        return found


def by_time(table: pa.Table) -> dict[int, list[Row]]:
    """The rows of a table whose last column is the time, by time."""
    if not table.num_rows:
        return {}
    *columns, times = (column.to_pylist() for column in table.columns)
    rows: Any = zip(*columns, strict=True) if columns else [()] * table.num_rows
    if min(times) == max(times):
        return {times[0]: list(rows)}
    found: dict[int, list[Row]] = {}
    for time, row in zip(times, rows, strict=True):
        found.setdefault(time, []).append(row)
    return found


def named(schema: Schema) -> tuple[list[str], list[pa.DataType]]:
    """The names and types of columns that SQL expects of an input."""
    names = [f"a{i}" for i in range(1, len(schema.columns) + 1)]
    types = [ARROW[c.type or Type.TEXT] for c in schema.columns]
    if schema.time is not None:
        names.append("t")
        types.append(pa.int64())
    return (names, types) if names else (["z"], [pa.int64()])


def typed(part: object, schema: Schema) -> pa.Table:
    """Facts under the names and types the SQL expects, without rows that have a NULL."""
    names, types = named(schema)
    if part is None:
        return pa.table([pa.array([], t) for t in types], names=names)
    assert isinstance(part, Table)
    try:
        columns = [c.cast(t) for c, t in zip(part.table.columns, types, strict=True)]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"{part.origin}: {error}") from None
    return pa.table(columns, names=names).drop_null()


__all__ = ["ARROW", "Intake", "by_time", "named", "typed"]
