"""Queries over finite facts in Spark: the stages of a plan, as a DataFrame that nobody has run."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.analysis.dependencies import dependencies
from tidelog.analysis.stages import staged
from tidelog.data.schema import Schema, schemas
from tidelog.data.ticks import Ticks
from tidelog.data.writers import timestamps as stamped
from tidelog.errors import DataError
from tidelog.evaluation.engine import evaluate
from tidelog.evaluation.plan import Unbounded, plan
from tidelog.evaluation.ranges import EMPTY, Range
from tidelog.language.program import TIME_MAX, Program, TimePoint
from tidelog.pipeline.chain import Chain
from tidelog.pipeline.given import Given
from tidelog.pipeline.kernel import Kernel
from tidelog.pipeline.packing import Packing
from tidelog.pipeline.places import unpacked
from tidelog.pipeline.sources import Files, Inputs
from tidelog.streaming.layout import Layout


def query(
    spark: SparkSession,
    program: Program,
    name: str,
    inputs: Mapping[str, Any] | str,
    *,
    from_: int | float | None,
    to: int | float | None,
    ticks: Ticks | None,
    timestamps: bool,
    partitions: int | None,
    memory: str,
    budget: float,
) -> DataFrame:
    """The answers of a query; see `tidelog.spark.query`."""
    known = schemas(program)
    folder = inputs if isinstance(inputs, str) else None
    frames: dict[str, DataFrame] = {}
    rigid: dict[str, Any] = {}
    for source, rows in inputs.items() if isinstance(inputs, Mapping) else ():
        if source not in known:
            raise DataError(f"`{source}` is not an input of the rules")
        if known[source].time is None:
            rigid[source] = rows
        elif not isinstance(rows, DataFrame):
            raise DataError(f"the facts of input `{source}` are no DataFrame")
        elif rows.isStreaming:
            raise DataError(
                f"input `{source}` is a streaming DataFrame: ask `stream` for its answers"
            )
        else:
            frames[source] = rows
    given = Given.of(program, (name,), frames, folder, rigid if folder is None else folder)
    facts = _Facts(spark, given.program, frames, folder, ticks)
    data = facts.ranges()
    span = EMPTY
    for range_ in data.values():
        span = span | range_
    for rule in given.program.rules:
        if not rule.body and isinstance(rule.head.time, TimePoint):
            span = span | Range(rule.head.time.tick, rule.head.time.tick)
    low, high = span.low if from_ is None else from_, span.high if to is None else to
    split = staged(dependencies(given.core, (name,)), given.large)
    core = split.deps.core
    try:
        if not split.stages or isinstance(from_, float) or isinstance(to, float):
            raise Unbounded(core.rules[0], name, Range(low, high))
        known_data = {p.name: data.get(p.source, EMPTY) for p in core.inputs if p.temporal}
        asked = Range(low, high)
        made = plan(split.deps, known_data, EMPTY if asked.empty else asked)
    except Unbounded:
        return _here(spark, given, facts, name, from_, to, ticks, timestamps, budget)
    layout = Layout(made, split.stages)
    count = partitions or spark.sparkContext.defaultParallelism
    sent = {n: table for n, table in given.rigid.items() if n in layout.rigid}
    kernel = Kernel.of(uuid.uuid4().hex, layout, None, sent, count, memory)
    packing = Packing(layout, facts.inputs)
    fine = facts.rows.where("problem IS NULL") if facts.rows is not None else None

    def new(scans: set[str]) -> DataFrame | None:
        return packing.packed(fine, scans) if fine is not None and scans else None

    tables = {n: spark.createDataFrame(table) for n, table in given.rigid.items()}
    chain = Chain(spark, layout, None, kernel, tables, new, lambda _: None)
    names = given.program.output_columns(name)
    return unpacked(chain.rows(None), layout.answers[name], names, ticks if timestamps else None)


class _Facts:
    """The temporal facts of a query, tagged and together."""

    def __init__(
        self,
        spark: SparkSession,
        program: Program,
        frames: Mapping[str, DataFrame],
        folder: str | None,
        ticks: Ticks | None,
    ) -> None:
        known = schemas(program)
        temporal: dict[str, Schema] = {n: s for n, s in known.items() if s.time is not None}
        self.strict = folder is not None
        self.rows: DataFrame | None = None
        if folder is not None:
            self.inputs = Inputs(temporal, ticks)
            self.rows = Files(spark, program, folder, self.inputs).all()
        else:
            self.inputs = Inputs({n: s for n, s in temporal.items() if n in frames}, ticks)
            for name, frame in sorted(frames.items()):
                rows = self.inputs.typed(frame, name, f"input `{name}`", None)
                self.rows = rows if self.rows is None else self.rows.unionByName(rows)

    def ranges(self) -> dict[str, Range]:
        """First and last tick of each input; DataError for rows that no fact can be."""
        if self.rows is None:
            return {}
        found: dict[str, Range] = {}
        measured = self.rows.groupBy("tag").agg(F.min("t"), F.max("t")).collect()
        for tag, low, high in measured:
            if tag >= 0 and low is not None:
                name = self.inputs.names[tag]
                far = low if low < -TIME_MAX else high if high > TIME_MAX else None
                if far is not None:
                    raise DataError(
                        f"input `{name}`: column `{self.inputs.schemas[name].time}`:"
                        f" time {far} does not fit 62 bits"
                    )
                found[name] = Range(low, high)
        if self.strict:
            bad = self.rows.where("problem IS NOT NULL").where(
                "problem NOT LIKE 'no value in column%' AND problem NOT LIKE 'NaN in column%'"
            )
            lines = bad.select("file", "problem").limit(10).collect()
            if lines:
                raise DataError(*(f"{file}: {problem}" for file, problem in lines))
        return found

    def here(self) -> dict[str, pa.Table]:
        """The facts of each input in this process, times in ticks."""
        found: dict[str, pa.Table] = {}
        for name in self.inputs.names if self.rows is not None else ():
            assert self.rows is not None
            mine = self.rows.where(
                (F.col("tag") == self.inputs.tag(name)) & F.expr("problem IS NULL")
            )
            table = mine.select(*self.inputs.slots(name), "t").toArrow()
            found[name] = table.rename_columns(list(self.inputs.schemas[name].names))
        return found


def _here(
    spark: SparkSession,
    given: Given,
    facts: _Facts,
    name: str,
    from_: int | float | None,
    to: int | float | None,
    ticks: Ticks | None,
    timestamps: bool,
    budget: float,
) -> DataFrame:
    """In this process: what holds for ever, and what rests on nothing temporal."""
    known = schemas(given.program)
    rows: dict[str, Any] = dict(facts.here())
    for input_, table in given.rigid.items():
        schema = known[given.core.predicates[input_].source]
        named = table.rename_columns([c.name for c in schema.columns]) if schema.columns else None
        rows[schema.predicate] = [()] * table.num_rows if named is None else named
    found = evaluate(given.program, [name], rows, from_=from_, to=to, budget=budget)
    table = found.answers[name]
    if ticks is not None and timestamps and "time" in table.column_names:
        at = table.column_names.index("time")
        table = table.set_column(at, "time", stamped(table.column("time"), ticks))
    return spark.createDataFrame(table)
