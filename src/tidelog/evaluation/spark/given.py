"""What a pipeline is given: rules whose types the data has settled, and rigid facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from tidelog.analysis.passes import passes
from tidelog.data.readers.files import format_of
from tidelog.data.readers.places import FactsLike, FactsPath, PathText
from tidelog.data.schema import expect_queries, resolve_and_check, schema_of, schemas
from tidelog.data.ticks import Ticks
from tidelog.errors import DataError
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.spark.sources import rigid_rows, spark_type
from tidelog.language.program import Program, Type
from tidelog.logic.core import Core

# Rows of a rigid input up to which it is sent to every worker.
LARGE = 1_000_000


@dataclass(frozen=True)
class Given:
    """Rules with all types, what some queries need of them, and rigid facts by input."""

    program: Program
    core: Core
    rigid: dict[str, pa.Table]

    @staticmethod
    def of(
        program: Program,
        asked: tuple[str, ...],
        frames: Mapping[str, DataFrame],
        paths: tuple[FactsPath, ...],
        rigid: Mapping[str, Any] | PathText | Sequence[PathText] | None,
        ticks: Ticks | None,
    ) -> Given:
        """Temporal facts are in frames or files; rigid ones in frames, rows or files.

        A file may have facts of both, with timestamps: `ticks` is for those. Rigid facts that the
        queries need and that are not there are warned of.
        """
        expect_queries(program, asked)
        known = schemas(program)
        for name in frames:
            if schema_of(name, program, known, "inputs").time is None:
                raise DataError(f"`{name}` is not a temporal input of the rules")
        for place in paths:
            if place.input is not None:
                schema_of(place.input, program, known, str(place))
        facts: FactsLike = None
        if isinstance(rigid, Mapping):
            for name in rigid:
                if schema_of(name, program, known, "rigid").time is not None:
                    raise DataError(f"`{name}` is not a rigid input of the rules")
            facts = {
                name: rigid_rows(rows, known[name]) if isinstance(rows, DataFrame) else rows
                for name, rows in rigid.items()
            }
        else:
            facts = rigid
        timeless = frozenset(name for name, schema in known.items() if schema.time is None)
        with Engine(program, facts, ticks, only=timeless, queries=asked) as engine:
            types = {name: loaded.types for name, loaded in engine.loaded.items()}
            types |= _types(program, frames, paths, ticks)
            program = resolve_and_check(program, types)
            needed = passes(program, asked).planned.core
            tables = {p.name: _rigid(engine, p.base) for p in needed.inputs if not p.temporal}
        return Given(program, needed, tables)

    def rigid_facts(self) -> dict[str, Any]:
        """Rigid facts under the names that users give inputs and columns."""
        known = schemas(self.program)
        facts: dict[str, Any] = {}
        for name, table in self.rigid.items():
            schema = known[self.core.predicates[name].base]
            columns = [column.name for column in schema.columns]
            facts[schema.predicate] = (
                table.rename_columns(columns) if columns else [()] * table.num_rows
            )
        return facts

    @property
    def large(self) -> list[str]:
        """Rigid inputs that are not sent to every worker."""
        many = [name for name, table in self.rigid.items() if table.num_rows > LARGE]
        return [self.core.predicates[name].base for name in many]


def _types(
    program: Program,
    frames: Mapping[str, DataFrame],
    facts: tuple[FactsPath, ...],
    ticks: Ticks | None,
) -> dict[str, tuple[Type, ...]]:
    """Types of columns that the rules leave open, as the data has them."""
    types: dict[str, tuple[Type, ...]] = {}
    for name, schema in schemas(program).items():
        if schema.time is None or all(column.type for column in schema.columns):
            continue
        if name in frames:
            fields = frames[name].schema.fields[: len(schema.columns)]
            types[name] = tuple(spark_type(f.dataType) or Type.TEXT for f in fields)
        elif facts:
            files = (
                file
                for place in facts
                if place.address is None
                for file in place.files()
                if format_of(file) == "parquet" and place.input_of(file) == name
            )
            first = next(files, None)
            if first is not None:
                columns = pq.read_schema(first).empty_table()
                with Engine(program, {name: columns}, ticks) as engine:
                    types[name] = engine.loaded[name].types
    return types


def _rigid(engine: Engine, source: str) -> pa.Table:
    schema = schemas(engine.typed)[source]
    table = engine.arrow(f"SELECT * FROM {engine.loaded[source].view}")
    return table if schema.columns else table.select(["z"])
