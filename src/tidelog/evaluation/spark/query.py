"""Queries over finite facts in Spark: the stages of a plan, as a DataFrame that nobody has run."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.analysis.passes import passes
from tidelog.data.readers.memory import in_memory
from tidelog.data.readers.places import FactsPath, paths_of
from tidelog.data.schema import Schema, expect_facts, schema_of, schemas
from tidelog.data.ticks import EMPTY, Range, Ticks
from tidelog.data.writers import timestamps
from tidelog.errors import DataError, warn_left_out
from tidelog.evaluation.duckdb import answers as answers_in_process
from tidelog.evaluation.engine import Evaluated, Question
from tidelog.evaluation.layout import Layout
from tidelog.evaluation.plan import Unbounded, plan
from tidelog.evaluation.ranges import times_in_rules
from tidelog.evaluation.spark.answers import unpacked
from tidelog.evaluation.spark.chain import Chain
from tidelog.evaluation.spark.failures import clear_errors
from tidelog.evaluation.spark.given import Given
from tidelog.evaluation.spark.kernel import Kernel
from tidelog.evaluation.spark.packing import Packing
from tidelog.evaluation.spark.session import session
from tidelog.evaluation.spark.shipping import prepare
from tidelog.evaluation.spark.sources import Files, Inputs
from tidelog.evaluation.spark.stages import FiniteJob
from tidelog.language.program import TIME_COLUMN, TIME_MAX, ticking_from


def answers(question: Question) -> Evaluated:
    """Queries in the session that is active, or in one on this machine; by time and arguments."""
    tables: dict[str, pa.Table] = {}
    with clear_errors():
        spark = SparkSession.getActiveSession() or session()
        question = replace(question, facts=_as_frames(spark, question))
        for name in question.queries:
            question.progress(f"answers of {name}")
            table = answer_frame(spark, question, name).toArrow()
            order = sorted(table.column_names, key=lambda column: column != TIME_COLUMN)
            tables[name] = table.sort_by([(column, "ascending") for column in order])
    return Evaluated(tables, {})


def answer_frame(
    spark: SparkSession,
    question: Question,
    name: str,
    partitions: int | None = None,
    memory: str = "1GB",
) -> DataFrame:
    """The answers of one query as a DataFrame; see `tidelog.spark.query`."""
    prepare(spark)
    given, facts = _given(spark, question, name)
    data = facts.ranges()
    span = times_in_rules(given.program)
    for range_ in data.values():
        span = span | range_
    if given.program.clocks and data:
        first = int(min(range_.low for range_ in data.values()))
        given = replace(given, program=ticking_from(given.program, first))
    low = span.low if question.low is None else question.low
    high = span.high if question.high is None else question.high
    endless = isinstance(question.low, float) or isinstance(question.high, float)
    split = passes(given.program, (name,)).stages(given.large)
    if not split.stages or endless:
        return _in_process(spark, question, name, given, facts)
    known = {p.name: data.get(p.base, EMPTY) for p in split.deps.core.inputs if p.temporal}
    asked = Range(low, high)
    try:
        made = plan(split.deps, known, EMPTY if asked.empty else asked, windows_at_once=True)
    except Unbounded:
        return _in_process(spark, question, name, given, facts)
    job = FiniteJob(Layout(made, split.stages))
    count = partitions or spark.sparkContext.defaultParallelism
    sent = {n: table for n, table in given.rigid.items() if n in job.layout.rigid}
    kernel = Kernel.of(uuid.uuid4().hex, job, sent, count, memory)
    packing = Packing(job.layout, facts.inputs)
    fine = facts.rows.where("problem IS NULL") if facts.rows is not None else None

    def new(scans: set[str]) -> DataFrame | None:
        return packing.packed(fine, scans) if fine is not None and scans else None

    tables = {n: spark.createDataFrame(table) for n, table in given.rigid.items()}
    rows = Chain(spark, job, kernel, tables, new, never_empty=True).rows(None)
    names = given.program.output_columns(name)
    ticks = question.ticks if question.timestamps else None
    return unpacked(rows, job.layout.answers[name], names, ticks)


# Facts in


def _as_frames(spark: SparkSession, question: Question) -> Any:
    """Facts in memory as DataFrames, where they have a time; others as they are."""
    if question.facts is None:
        return {}
    if not isinstance(question.facts, Mapping):
        return question.facts
    known = schemas(question.program)
    facts: dict[str, Any] = {}
    for name, rows in question.facts.items():
        temporal = name in known and known[name].time is not None
        if temporal and not isinstance(rows, (DataFrame, str, PathLike)):
            rows = spark.createDataFrame(_named_table(known[name], rows, question.ticks))
        facts[name] = rows
    return facts


def _named_table(schema: Schema, rows: Any, ticks: Ticks | None) -> pa.Table:
    """Rows in memory under the names of their schema, with times as a user would have them."""
    facts = in_memory(schema, rows, ticks)
    table = facts.table.rename_columns(list(schema.names))
    if facts.ticked and ticks is not None:
        at = table.num_columns - 1
        table = table.set_column(at, schema.names[at], timestamps(table.column(at), ticks))
    return table


def _given(spark: SparkSession, question: Question, name: str) -> tuple[Given, _Facts]:
    """The rules with all types, rigid facts in this process and temporal ones as a DataFrame."""
    program, facts = question.program, question.facts
    known = schemas(program)
    by_input = facts if isinstance(facts, Mapping) else {}
    paths = () if facts is None or by_input is facts else paths_of(facts)
    frames: dict[str, DataFrame] = {}
    rigid: dict[str, Any] = {}
    for source, rows in by_input.items():
        if schema_of(source, program, known, "facts").time is None:
            rigid[source] = rows
        elif isinstance(rows, (str, PathLike)):
            paths = (*paths, FactsPath.of(rows, source))
        elif not isinstance(rows, DataFrame):
            raise DataError(f"the facts of input `{source}` are no DataFrame")
        elif rows.isStreaming:
            raise DataError(
                f"input `{source}` is a streaming DataFrame: ask `stream` for its answers"
            )
        else:
            frames[source] = rows
    given = Given.of(program, (name,), frames, paths, rigid if by_input is facts else facts)
    return given, _Facts(spark, given, name, frames, paths, question.ticks)


class _Facts:
    """The temporal facts of a query, tagged and together."""

    def __init__(
        self,
        spark: SparkSession,
        given: Given,
        query: str,
        frames: Mapping[str, DataFrame],
        paths: tuple[FactsPath, ...],
        ticks: Ticks | None,
    ) -> None:
        known = schemas(given.program, (query,))
        temporal: dict[str, Schema] = {n: s for n, s in known.items() if s.time is not None}
        self.strict = bool(paths)
        self.rows: DataFrame | None = None
        if not paths:
            temporal = {n: s for n, s in temporal.items() if n in frames}
        self.inputs = Inputs(temporal, ticks)
        missing = {predicate.base for predicate in given.core.inputs if predicate.temporal}
        if paths:
            files = Files(spark, given.program, paths, self.inputs)
            missing &= set(files.missing())
            self.rows = files.all()
        for name, frame in sorted(frames.items()):
            rows = self.inputs.typed(frame, name, f"input `{name}`", None)
            rows = rows.withColumn("came", F.lit(None).cast("string"))
            self.rows = rows if self.rows is None else self.rows.unionByName(rows)
        for name in sorted(missing - frames.keys() - set(given.program.heads)):
            expect_facts(name, given.program, (query,))

    def ranges(self) -> dict[str, Range]:
        """First and last tick of each input; DataError for rows that no fact can be."""
        if self.rows is None:
            return {}
        ranges: dict[str, Range] = {}
        left_out = F.count_if(F.expr("problem IS NOT NULL"))
        measured = self.rows.groupBy("tag").agg(F.min("t"), F.max("t"), left_out).collect()
        for tag, low, high, unused in measured:
            if tag >= 0 and unused:
                warn_left_out(self.inputs.names[tag], unused)
            if tag >= 0 and low is not None:
                name = self.inputs.names[tag]
                far = low if low < -TIME_MAX else high if high > TIME_MAX else None
                if far is not None:
                    raise DataError(
                        f"input `{name}`: column `{self.inputs.schemas[name].time}`:"
                        f" time {far} does not fit 62 bits"
                    )
                ranges[name] = Range(low, high)
        if self.strict:
            bad = self.rows.where("problem IS NOT NULL").where(
                "problem NOT LIKE 'no value in column%' AND problem NOT LIKE 'NaN in column%'"
            )
            lines = bad.select("file", "problem").limit(10).collect()
            if lines:
                raise DataError(*(f"{file}: {problem}" for file, problem in lines))
        return ranges

    def here(self) -> dict[str, pa.Table]:
        """The facts of each input in this process, times in ticks."""
        tables: dict[str, pa.Table] = {}
        for name in self.inputs.names if self.rows is not None else ():
            assert self.rows is not None
            mine = self.rows.where(
                (F.col("tag") == self.inputs.tag(name)) & F.expr("problem IS NULL")
            )
            table = mine.select(*self.inputs.slots(name), "t").toArrow()
            tables[name] = table.rename_columns(list(self.inputs.schemas[name].names))
        return tables


def _in_process(
    spark: SparkSession, question: Question, name: str, given: Given, facts: _Facts
) -> DataFrame:
    """In this process: what holds for ever, and what rests on nothing temporal."""
    rows = {**facts.here(), **given.rigid_facts()}
    here = replace(question, program=given.program, queries=(name,), facts=rows, ticks=None)
    table = answers_in_process(here).answers[name]
    if question.ticks is not None and question.timestamps and TIME_COLUMN in table.column_names:
        at = table.column_names.index(TIME_COLUMN)
        stamps = timestamps(table.column(TIME_COLUMN), question.ticks)
        table = table.set_column(at, TIME_COLUMN, stamps)
    return spark.createDataFrame(table)
