"""One row format for every packed table of a stream, so that all of them travel together.

A row is `tab, old, <slots>, c, b`: the table's number, whether it was kept before this batch, the
arguments in slots of their type, chunk and bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from tidelog.analysis.dependencies import Dependencies
from tidelog.evaluation.facts import arrow_type
from tidelog.evaluation.plan import Scan
from tidelog.evaluation.sql import columns
from tidelog.language.program import Constant, Type, Value
from tidelog.streaming.schedule import Schedule


class Keyless(Exception):
    """The work of some queries cannot be split by a key."""

    def __init__(self, deps: Dependencies) -> None:
        key = deps.key
        where = f" ({key.rule.origin})" if key.rule is not None else ""
        super().__init__(
            f"{', '.join(deps.queries)} cannot be split among Spark's workers by a key:"
            f" {key.reason}{where}; ask for queries that have a key, or use the duckdb engine"
        )


@dataclass(frozen=True)
class Relation:
    """A packed table: a scan, a derived predicate, or the answers of a query.

    `key` is the position of the partition key, or the value it always has there.
    """

    number: int
    name: str
    types: tuple[Type, ...]
    key: int | Constant
    slots: tuple[str, ...]  # the column of a row that holds each argument

    def values(self) -> str:
        """The table's own columns, read off a row."""
        named = [f"{s} AS {a}" for s, a in zip(self.slots, columns(len(self.slots)), strict=True)]
        return ", ".join([*named, "c", "b"])


@dataclass(frozen=True)
class Layout:
    """How the tables of a schedule are laid out in rows."""

    schedule: Schedule

    def __post_init__(self) -> None:
        if self.schedule.deps.key.positions is None:
            raise Keyless(self.schedule.deps)

    @property
    def positions(self) -> dict[str, int]:
        positions = self.schedule.deps.key.positions
        assert positions is not None
        return positions

    @cached_property
    def scans(self) -> dict[str, Relation]:
        """By the scan's name; rigid inputs are in every partition and have no rows."""
        found: dict[str, Relation] = {}
        for step in self.schedule.plan.steps:
            if isinstance(step, Scan) and step.predicate.temporal:
                types = [step.predicate.types[i] for i in step.columns]
                found[step.name] = self._relation(len(found), step.name, types, self._key(step))
        return found

    @cached_property
    def derived(self) -> dict[str, Relation]:
        """By table."""
        found: dict[str, Relation] = {}
        core = self.schedule.deps.core
        for name, table in self.schedule.plan.tables.items():
            predicate = core.predicates[name]
            if predicate.temporal:
                number = len(self.scans) + len(found)
                found[table] = self._relation(
                    number, table, predicate.types, self.positions[predicate.name]
                )
        return found

    @cached_property
    def answers(self) -> dict[str, Relation]:
        """By query, temporal ones only: what is rigid is known before the first batch."""
        found: dict[str, Relation] = {}
        for query in self.schedule.deps.queries:
            predicate = self.schedule.deps.core.predicates[query]
            if predicate.temporal:
                number = len(self.scans) + len(self.derived) + len(found)
                found[query] = self._relation(number, query, predicate.types, self.positions[query])
        return found

    @cached_property
    def tables(self) -> dict[str, Relation]:
        """What is kept as state."""
        return {**self.scans, **self.derived}

    @cached_property
    def schema(self) -> pa.Schema:
        slots: dict[str, Type] = {}
        for relation in (*self.tables.values(), *self.answers.values()):
            slots.update(zip(relation.slots, relation.types, strict=True))
        named = [(name, arrow_type(type_)) for name, type_ in sorted(slots.items())]
        return pa.schema(
            [
                ("tab", pa.int32()),
                ("old", pa.bool_()),
                *named,
                ("c", pa.int64()),
                ("b", pa.int64()),
            ]
        )

    def rows(self, relation: Relation, table: pa.Table) -> pa.Table:
        """A packed table as rows."""
        n = table.num_rows
        found: dict[str, pa.ChunkedArray | pa.Array] = {
            slot: table.column(name)
            for slot, name in zip(relation.slots, columns(len(relation.slots)), strict=True)
        }
        found |= {"c": table.column("c"), "b": table.column("b")}
        found |= {"tab": _same(relation.number, n, pa.int32()), "old": _same(True, n, pa.bool_())}
        arrays = [
            found[f.name].cast(f.type) if f.name in found else pa.nulls(n, f.type)
            for f in self.schema
        ]
        return pa.table(arrays, schema=self.schema)

    def home(self, partitions: int, literal: Callable[[Value], str], *, spark: bool) -> str:
        """SQL for the partition that a row belongs to; `literal` writes a constant."""
        groups: dict[str, list[int]] = {}
        for relation in self.tables.values():
            if isinstance(relation.key, Constant):
                type_, key = relation.key.type, literal(relation.key.value)
            else:
                type_, key = relation.types[relation.key], relation.slots[relation.key]
            where = partition(key, type_, partitions, spark=spark)
            groups.setdefault(where, []).append(relation.number)
        cases = [
            f"WHEN tab IN ({', '.join(map(str, tabs))}) THEN {where}"
            for where, tabs in groups.items()
        ]
        return f"CASE {' '.join(cases)} END"

    def _key(self, scan: Scan) -> int | Constant:
        term = scan.atom.args[self.positions[scan.predicate.name]]
        if isinstance(term, Constant):
            return term
        terms = [scan.atom.args[i] for i in scan.columns]
        return terms.index(term)

    def _relation(
        self, number: int, name: str, types: Sequence[Type | None], key: int | Constant
    ) -> Relation:
        counts: dict[Type, int] = {}
        slots: list[str] = []
        known = tuple(t or Type.TEXT for t in types)
        for type_ in known:
            counts[type_] = counts.get(type_, 0) + 1
            slots.append(f"{type_.value}{counts[type_]}")
        return Relation(number, name, known, key, tuple(slots))


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
