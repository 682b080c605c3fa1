"""Rows that hold facts of several tables, so that all of them travel together.

A row is `tab, part, <slots>, c, b`: the table's number, the part it plays, the arguments in slots
of their type, chunk and bits.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from tidelog.data.packed import columns
from tidelog.data.types import arrow_type
from tidelog.language.program import Type, Value

# The parts of rows: new in this batch, kept from before, and done: to be kept or to be told.
NEW, KEPT, DONE = 0, 1, 2


@dataclass(frozen=True)
class Relation:
    """A packed table: a scan, a derived predicate, or the answers of a query.

    Answers without a time are rows of chunk 0 with one bit.
    """

    number: int
    name: str
    types: tuple[Type, ...]
    slots: tuple[str, ...]  # the column of a row that holds each argument
    temporal: bool = True

    def values(self) -> str:
        """The table's own columns, read off a row."""
        named = [f"{s} AS {a}" for s, a in zip(self.slots, columns(len(self.slots)), strict=True)]
        return ", ".join([*named, "c", "b"])


def row_schema(relations: Iterable[Relation]) -> pa.Schema:
    """The columns of rows that hold some tables."""
    slots: dict[str, Type] = {}
    for relation in relations:
        slots.update(zip(relation.slots, relation.types, strict=True))
    named = [(name, arrow_type(type_)) for name, type_ in sorted(slots.items())]
    ends = [("c", pa.int64()), ("b", pa.int64())]
    return pa.schema([("tab", pa.int32()), ("part", pa.int32()), *named, *ends])


def as_rows(relation: Relation, table: pa.Table, part: int, schema: pa.Schema) -> pa.Table:
    """A packed table as rows."""
    n = table.num_rows
    values: dict[str, pa.ChunkedArray | pa.Array] = {
        slot: table.column(name)
        for slot, name in zip(relation.slots, columns(len(relation.slots)), strict=True)
    }
    if relation.temporal:
        values |= {"c": table.column("c"), "b": table.column("b")}
    else:
        values |= {"c": _same(0, n, pa.int64()), "b": _same(1, n, pa.int64())}
    values |= {"tab": _same(relation.number, n, pa.int32()), "part": _same(part, n, pa.int32())}
    arrays = [
        values[f.name].cast(f.type) if f.name in values else pa.nulls(n, f.type) for f in schema
    ]
    return pa.table(arrays, schema=schema)


def kept_rows(kept: pa.Table, schema: pa.Schema) -> pa.Table:
    """State as it was stored."""
    old = pa.repeat(pa.scalar(KEPT, pa.int32()), kept.num_rows)
    arrays = [old if f.name == "part" else kept.column(f.name).cast(f.type) for f in schema]
    return pa.table(arrays, schema=schema)


def parted(rows: pa.Table, part: int) -> pa.Table:
    """Rows that play another part."""
    at = rows.schema.get_field_index("part")
    return rows.set_column(at, rows.schema.field(at), _same(part, rows.num_rows, pa.int32()))


def _same(value: Value, n: int, type_: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, type_), n)


def partition(key: str, type_: Type, partitions: int, *, spark: bool) -> str:
    """SQL for the partition of a key, the same number in both engines."""
    if type_ is Type.FLOAT:  # engines write floats differently: nearby ones go together
        key = f"CAST(floor(greatest(least({key}, 1e15), -1e15)) AS BIGINT)"
    digits = f"substring(md5(CAST({key} AS STRING)), 1, 8)"
    number = (
        f"CAST(conv({digits}, 16, 10) AS BIGINT)" if spark else f"CAST('0x' || {digits} AS BIGINT)"
    )
    return f"CAST({number} % {partitions} AS INT)"


def home(key: Value, partitions: int) -> int:
    """The partition of a key, as `partition` has it.

    >>> [home(key, 8) for key in ("a", 7, 0.5, True)]
    [1, 7, 4, 6]
    """
    if isinstance(key, float):
        key = math.floor(max(min(key, 1e15), -1e15))
    text = str(key).lower() if isinstance(key, bool) else str(key)
    return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:8], 16) % partitions
