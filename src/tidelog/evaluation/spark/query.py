"""Queries over finite facts in Spark: the stages of a plan, as a DataFrame that nobody has run."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from os import PathLike
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.analysis.passes import passes
from tidelog.analysis.stages import StageKind
from tidelog.data.delta import rows_of
from tidelog.data.readers.places import FactsPath, paths_of
from tidelog.data.repeats import MOST, Repeats, repeats_of
from tidelog.data.schema import Schema, expect_facts, schema_of, schemas
from tidelog.data.ticks import ALWAYS, EMPTY, Range, Ticks
from tidelog.data.writers import timestamps
from tidelog.errors import DataError, warn_left_out
from tidelog.evaluation.database import NO_EXTENSIONS
from tidelog.evaluation.duckdb import answers as answers_in_process
from tidelog.evaluation.engine import Evaluated, Question
from tidelog.evaluation.layout import Layout
from tidelog.evaluation.one_pass import folded, united
from tidelog.evaluation.plan import Unbounded, plan
from tidelog.evaluation.ranges import times_in_rules
from tidelog.evaluation.rows import Relation
from tidelog.evaluation.spark.answers import (
    answers_of,
    stretched,
    stretches_table,
    unpacked,
    unpacked_table,
)
from tidelog.evaluation.spark.chain import Chain
from tidelog.evaluation.spark.failures import clear_errors
from tidelog.evaluation.spark.files import Files
from tidelog.evaluation.spark.given import Given
from tidelog.evaluation.spark.handles import release_after, release_handles
from tidelog.evaluation.spark.kernel import Kernel
from tidelog.evaluation.spark.memory import frame_of, frame_of_table
from tidelog.evaluation.spark.one_task import OneTask
from tidelog.evaluation.spark.packing import Packing
from tidelog.evaluation.spark.parcels import COLUMNS, Sending
from tidelog.evaluation.spark.plain import plain_splits
from tidelog.evaluation.spark.remote import fetched
from tidelog.evaluation.spark.scans import (
    IS_WRONG,
    TOLD,
    Measures,
    PackedScans,
    Packer,
    Sent,
    in_each,
    measured,
    tasks_of,
    threads_for,
)
from tidelog.evaluation.spark.session import expect_classic, session
from tidelog.evaluation.spark.shipping import cores, prepare
from tidelog.evaluation.spark.snapshot import expect_unchanged, relevant_ticks
from tidelog.evaluation.spark.sources import Inputs, arrow_struct, time_types
from tidelog.evaluation.spark.splits import TASK_ROWS, Reader, Split, pinned, whole_files
from tidelog.evaluation.spark.stages import FiniteJob
from tidelog.evaluation.stretches import as_intervals
from tidelog.language.program import TIME_COLUMN, TIME_MAX, Program, ticking_from


def answers(question: Question) -> Evaluated:
    """Queries in the session that is active, or in one on this machine; by time and arguments."""
    tables: dict[str, pa.Table] = {}
    with clear_errors():
        spark = SparkSession.getActiveSession() or session()
        expect_classic(spark)
        question = replace(question, facts=_as_frames(spark, _here(spark, question)))
        for name in question.queries:
            question.progress(f"answers of {name}")
            rows = _answer_rows(spark, question, name)
            if isinstance(rows, _PackedAnswers):
                tables[name] = rows.table(intervals=question.intervals)
            elif question.intervals:
                tables |= as_intervals({name: rows}, question.ticks)
            else:
                tables[name] = rows
    return Evaluated(tables, {})


def answer_frame(
    spark: SparkSession,
    question: Question,
    name: str,
    partitions: int | None = None,
    memory: str = "1GB",
) -> DataFrame:
    """The answers of one query as a DataFrame; see `tidelog.spark.query`."""
    with clear_errors():
        expect_classic(spark)
        question = replace(question, facts=_as_frames(spark, _here(spark, question)))
        rows = _answer_rows(spark, question, name, partitions, memory, typed=True)
        if isinstance(rows, _PackedAnswers):
            return rows.frame(intervals=question.intervals)
        if question.intervals:
            rows = as_intervals({name: rows}, question.ticks)[name]
        return frame_of_table(spark, rows)


@dataclass(frozen=True)
class _PackedAnswers:
    """Answers as packed rows in Spark, which nobody has computed yet."""

    rows: DataFrame
    relation: Relation
    names: tuple[str, ...]
    ticks: Ticks | None
    release: Callable[[], None] = lambda: None  # what Spark stores for them

    def frame(self, *, intervals: bool) -> DataFrame:
        shown = stretched if intervals else unpacked
        frame = shown(self.rows, self.relation, self.names, self.ticks)
        release_after(frame, self.release)
        return frame

    def table(self, *, intervals: bool) -> pa.Table:
        """In this process, by time and arguments, or from when to when."""
        packed = answers_of(self.rows, self.relation).toArrow()
        self.release()
        with duckdb.connect(config=NO_EXTENSIONS) as connection:
            connection.register("packed", packed)
            shown = stretches_table if intervals else unpacked_table
            return shown(connection, "packed", self.relation, self.names, self.ticks)


def _answer_rows(
    spark: SparkSession,
    question: Question,
    name: str,
    partitions: int | None = None,
    memory: str = "1GB",
    *,
    typed: bool = False,
) -> _PackedAnswers | pa.Table:
    """The answers of one query: packed rows in Spark, or a table where they are made here.

    If they are `typed`, their times have the type of the facts' times; else they are in UTC.
    """
    prepare(spark)
    release_handles()
    given, facts = _given(spark, question, name)
    if typed and question.ticks is not None:
        question = replace(question, ticks=question.ticks.typed(facts.times))
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
    needed = passes(given.program, (name,))
    split = needed.stages(given.large)
    if not split.stages or endless:
        return _in_process(question, name, given, facts)
    count = partitions or (cores(spark) if facts.threads is None else 1)
    catalyst = any(stage.kind is StageKind.CATALYST for stage in split.stages)
    alone = count == 1 and facts.rows is None and not catalyst
    deps = needed.planned if alone else split.deps
    known = {p.name: data.get(p.base, EMPTY) for p in deps.core.inputs if p.temporal}
    asked = Range(low, high)
    try:
        there = EMPTY if asked.empty else asked
        made = plan(deps, known, there, exchanged=not alone)
    except Unbounded:
        return _in_process(question, name, given, facts)
    layout = Layout(folded(united(made)) if alone else united(made), split.stages)
    names = tuple(given.program.output_columns(name))
    ticks = question.ticks if question.timestamps else None
    if alone:
        files = tuple(whole_files(facts.splits))
        task = OneTask(facts.reader, files, layout, given.rigid, memory, facts.threads or 1)
        return _PackedAnswers(task.frame(spark), layout.answers[name], names, ticks)
    job = FiniteJob(layout if layout.is_keyed_alike else Layout(made, split.stages))
    sent = {n: table for n, table in given.rigid.items() if n in job.layout.rigid}
    kernel = Kernel.of(uuid.uuid4().hex, job, sent, count, memory)
    fine = facts.unchanged(data, relevant_ticks(deps, _asked_ever(question, given.program)))
    chain = _chain(spark, job, kernel, given, facts, fine, memory)
    rows = chain.rows(None)
    return _PackedAnswers(rows, job.layout.answers[name], names, ticks, chain.release)


def _asked_ever(question: Question, program: Program) -> Range:
    """The ticks that may be asked for, whatever the facts are."""
    if program.clocks:  # a clock begins with the first fact
        return ALWAYS
    low = -math.inf if question.low is None else question.low
    return Range(low, math.inf if question.high is None else question.high)


def _chain(
    spark: SparkSession,
    job: FiniteJob,
    kernel: Kernel[None],
    given: Given,
    facts: _Facts,
    fine: DataFrame | None,
    memory: str,
) -> Chain[None]:
    """The stages, over facts that tasks pack where they can read them, and Catalyst elsewhere."""
    layout = job.layout
    tasks = tasks_of(spark, facts.splits)

    def packer(scans: Iterable[str]) -> Packer:
        packs = PackedScans(layout, frozenset(scans))
        return Packer(facts.reader, packs, layout.schema, kernel.partitions, memory)

    def new(scans: set[str]) -> DataFrame | None:
        parts = [in_each(spark, tasks, packer(scans), arrow_struct(layout.schema))]
        if fine is not None and scans:
            parts.append(Packing(layout, facts.inputs).packed(fine, scans))
        return reduce(DataFrame.union, parts)

    def parcels(scans: set[str], sending: Sending) -> DataFrame:
        return in_each(spark, tasks, Sent(packer(scans), sending), COLUMNS)

    def rigid() -> dict[str, DataFrame]:
        return {n: spark.createDataFrame(table) for n, table in given.rigid.items()}

    in_tasks = parcels if fine is None else None
    return Chain(spark, job, kernel, rigid, new, parcels=in_tasks)


# Facts in


def _here(spark: SparkSession, question: Question) -> Question:
    """The question over copies of what is on a store."""
    return replace(question, facts=fetched(spark, question.facts, question.program))


def _as_frames(spark: SparkSession, question: Question) -> Any:
    """Tables of Spark, and facts in memory that have a time, as DataFrames; others as they are."""
    if question.facts is None:
        return {}
    if not isinstance(question.facts, Mapping):
        return question.facts
    known = schemas(question.program)
    facts: dict[str, Any] = {}
    for name, rows in question.facts.items():
        temporal = name in known and known[name].time is not None
        expect_classic(rows)
        if isinstance(rows, str) and _is_table(spark, rows):
            rows = spark.table(rows)
        elif callable(getattr(rows, "to_spark", None)):  # pandas on Spark
            rows = rows.to_spark()
        if temporal and not isinstance(rows, (DataFrame, str, PathLike)):
            rows = frame_of(spark, known[name], rows, question.ticks)
        facts[name] = rows
    return facts


def _is_table(spark: SparkSession, text: str) -> bool:
    """Whether a text names a table or view of the session, and no file; DataError for both."""
    if not _TABLE.fullmatch(text):
        return False
    try:
        there = spark.catalog.tableExists(text)
    except PySparkException:  # a database or catalog that is not there
        return False
    if there and Path(text).exists():
        raise DataError(
            f"`{text}` is a table of the session, and a file or folder: write ./{text} for the"
            f' files, or give spark.table("{text}")'
        )
    return there


# A name of a table, with its database and catalog.
_TABLE = re.compile(r"(?:\w+|`(?:[^`]|``)+`)(?:\.(?:\w+|`(?:[^`]|``)+`)){0,2}")


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
    for place in [place for place in paths if place.delta is not None]:
        source = str(place.input)
        schema = schema_of(source, program, known, str(place))
        if schema.time is not None:
            more = frame_of(spark, schema, rows_of(str(place.delta)), question.ticks)
            frames[source] = frames[source].unionByName(more) if source in frames else more
    paths = tuple(place for place in paths if place.delta is None)
    timeless = rigid if by_input is facts else facts
    given = Given.of(program, (name,), frames, paths, timeless, question.ticks)
    return given, _Facts(spark, given, name, frames, paths, question.ticks)


class _Facts:
    """The temporal facts of a query: files that tasks read, and rows that Spark has."""

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
        if not paths:
            temporal = {n: s for n, s in temporal.items() if n in frames}
        self.spark = spark
        self.inputs = Inputs(temporal, ticks)
        self.reader = Reader(given.program, self.inputs)
        self.splits: list[Split] = []
        self.frames: dict[str, DataFrame] = {}  # rows that Spark has, by input
        self.files: Files | None = None
        needed = {predicate.base for predicate in given.core.inputs if predicate.temporal}
        missing = needed = needed.difference(given.program.heads)
        if paths:
            self.files = Files(spark, given.program, paths, self.inputs)
            missing = needed & set(self.files.missing())
            self.splits = pinned(self.files.all())
        for name, frame in sorted(frames.items()):
            plain = plain_splits(frame, name, self.inputs)
            if isinstance(plain, list):
                self.splits += pinned(plain)
                continue
            self.frames[name] = self.inputs.typed(frame, name, f"input `{name}`", None).drop("came")
        self.times = {s.time for s in self.splits if s.name is None or s.name in needed}
        for name in needed & frames.keys():
            self.times |= time_types(frames[name], temporal[name])
        missing -= frames.keys()
        for name in sorted(missing):
            expect_facts(name, given.program, (query,))
        self._expected, self._query = needed - missing, query

    @cached_property
    def rows(self) -> DataFrame | None:
        """All rows that Spark has."""
        return reduce(DataFrame.unionByName, self.frames.values()) if self.frames else None

    @property
    def threads(self) -> int | None:
        """How many threads of one task do it all; None where several tasks are better."""
        if self.rows is not None:
            return None
        few = sum(split.rows for split in self.splits) <= TASK_ROWS
        return 1 if few else threads_for(self.spark, self.splits)

    def ranges(self) -> dict[str, Range]:
        """First and last tick of each input; DataError for rows that no fact can be."""
        repeats = repeats_of(self.reader.program, (self._query,))
        measures = measured(self.spark, self.reader, self.splits, repeats)
        if self.rows is not None:
            self._measure(self.rows, measures, repeats)
        for name, there in sorted(measures.inputs.items()):
            ends_ = there.range
            if not ends_.empty and (ends_.low < -TIME_MAX or ends_.high > TIME_MAX):
                far = ends_.low if ends_.low < -TIME_MAX else ends_.high
                raise DataError(
                    f"input `{name}`: column `{self.inputs.schemas[name].time}`:"
                    f" time {far} does not fit 62 bits"
                )
        if measures.problems:
            raise DataError(*measures.problems[:TOLD])
        for name, there in sorted(measures.inputs.items()):
            if there.unused:
                warn_left_out(name, there.unused, there.incomplete)
        self._warn_of_repeats(repeats, measures)
        for name in sorted(self._expected):
            there = measures.of(name)
            if there.range.empty and not there.unused:
                files = [] if self.files is None else self.files.of(name)
                expect_facts(name, self.reader.program, (self._query,), files)
        return {n: there.facts for n, there in measures.inputs.items() if not there.facts.empty}

    def _measure(self, rows: DataFrame, measures: Measures, repeats: tuple[Repeats, ...]) -> None:
        """Look at the rows that Spark has, in one job."""
        left_out = F.count_if(F.expr("problem IS NOT NULL"))
        lacks = F.collect_set(F.expr(f"CASE WHEN NOT ({IS_WRONG}) THEN problem END"))
        least = F.min(F.expr(f"CASE WHEN {IS_WRONG} THEN problem END"))
        asked = [F.min("t"), F.max("t"), left_out, lacks, least]
        counted = {one.input: one for one in repeats if one.carried is None}
        if counted:  # an estimate costs no shuffle, as it would to know
            each = F.xxhash64(*sorted(self.inputs.all_slots), "t")
            asked += [F.count("t"), F.approx_count_distinct(each, 0.01)]
        for tag, low, high, unused, said, problem, *many in (
            rows.groupBy("tag").agg(*asked).collect()
        ):
            name, range_ = self.inputs.names[tag], EMPTY if low is None else Range(low, high)
            measures.of(name).add(range_, range_, unused, sorted(said))
            if problem is not None:
                measures.problems.append(f"input `{name}`: {problem}")
            if name in counted and not unused:
                counted[name].warn_about(self.inputs.schemas[name], *many)

    def _warn_of_repeats(self, repeats: tuple[Repeats, ...], measures: Measures) -> None:
        """Warn of rows of files that rules do not tell apart."""
        for (name, number), (rows, again) in measures.repeats.items():
            mine = [one for one in repeats if one.input == name]
            splits = [split for split in self.splits if split.name == name]
            parquet = sum(split.rows for split in splits if split.format == "parquet")
            all_ = not any(split.rows > MOST for split in splits) and rows >= parquet
            mine[number].warn(self.inputs.schemas[name], again, rows, rows if all_ else rows + 1)

    def unchanged(
        self, known: Mapping[str, Range], relevant: Mapping[str, Range]
    ) -> DataFrame | None:
        """The facts among the rows that Spark has, where they are still those of `ranges`."""
        if not self.frames:
            return None
        frames = (
            expect_unchanged(frame, name, known.get(name, EMPTY), relevant.get(name, EMPTY))
            for name, frame in self.frames.items()
        )
        return reduce(DataFrame.unionByName, frames).where("problem IS NULL")

    def here(self) -> dict[str, pa.Table]:
        """The facts of each input in this process, times in ticks."""
        parts = [self.reader.table(self.splits)]
        if self.rows is not None:
            parts.append(self.rows.drop("file").toArrow().cast(parts[0].schema))
        rows = pa.concat_tables(parts)
        rows = rows.filter(pc.is_null(rows.column("problem")))
        tables: dict[str, pa.Table] = {}
        for name in self.inputs.names:
            mine = rows.filter(pc.equal(rows.column("tag"), self.inputs.tag(name)))
            table = mine.select([*self.inputs.slots(name), "t"])
            tables[name] = table.rename_columns(list(self.inputs.schemas[name].names))
        return tables


def _in_process(question: Question, name: str, given: Given, facts: _Facts) -> pa.Table:
    """In this process: what holds for ever, and what rests on nothing temporal."""
    rows = {**facts.here(), **given.rigid_facts()}
    here = replace(question, program=given.program, queries=(name,), facts=rows)
    here = replace(here, ticks=None, intervals=False)
    table = answers_in_process(here).answers[name]
    if question.ticks is not None and question.timestamps and TIME_COLUMN in table.column_names:
        at = table.column_names.index(TIME_COLUMN)
        stamps = timestamps(table.column(TIME_COLUMN), question.ticks)
        table = table.set_column(at, TIME_COLUMN, stamps)
    return table
