"""Facts in files, read, checked, selected and packed inside the tasks.

Packed rows are all that leaves a task, and what it has counted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidelog.data.packed import CHUNK
from tidelog.data.repeats import MOST, Repeats
from tidelog.data.ticks import EMPTY, Range
from tidelog.evaluation.database import Database
from tidelog.evaluation.layout import Layout
from tidelog.evaluation.plan import Scan
from tidelog.evaluation.rows import NEW, as_rows
from tidelog.evaluation.spark.failures import without_traceback
from tidelog.evaluation.spark.parcels import Sending
from tidelog.evaluation.spark.shipping import cores, is_local
from tidelog.evaluation.spark.sources import BEAT
from tidelog.evaluation.spark.splits import (
    OTHERS,
    Opened,
    Reader,
    Source,
    Split,
    in_tasks,
    joined,
    reading,
)
from tidelog.evaluation.sql import Writer
from tidelog.language.program import TIME_MAX

# Where scans look, when it is not known where facts are.
ALL_TICKS = Range(-TIME_MAX, TIME_MAX)
# Rows up to which it costs less to look at files here than to ask Spark.
FEW = 1_000_000
# Tasks for each core: one that is slow should not keep the others waiting.
TASKS = 2
# Problems that an error tells of.
TOLD = 10
# What is said of a row that lacks a value.
_LACKS = re.compile(r"(?:no value|NaN) in column `(.*)`", re.DOTALL)
# Whether a row has more than a value missing, as SQL.
IS_WRONG = "problem NOT LIKE 'no value in column%' AND problem NOT LIKE 'NaN in column%'"


def tasks_of(spark: SparkSession, splits: Sequence[Split]) -> list[list[Split]]:
    """The splits that each task reads."""
    return in_tasks(splits, TASKS * cores(spark))


def threads_for(spark: SparkSession, splits: Iterable[Split]) -> int | None:
    """How many threads read files as fast as tasks do, in one process; None if tasks are better.

    Tasks of other machines are, and tasks that read lines of JSON, which takes Python.
    """
    by_duckdb = all(split.format in ("parquet", "csv") for split in splits)
    return cores(spark) if is_local(spark) and by_duckdb else None


def in_each(
    spark: SparkSession,
    tasks: Sequence[Sequence[Split]],
    work: Callable[[int, Sequence[Split]], Iterator[pa.RecordBatch]],
    struct: Any,
) -> DataFrame:
    """A DataFrame with a partition for each task: what the work makes of its splits."""
    count = max(len(tasks), 1)
    return spark.range(0, count, 1, count).mapInArrow(
        SplitTask(tuple(map(tuple, tasks)), work), struct
    )


@dataclass(frozen=True)
class SplitTask:
    """Work as Spark calls it: the one row of a partition is its number.

    All rows are read: a worker that leaves some is not used again, and a new one takes long.
    """

    tasks: tuple[tuple[Split, ...], ...]
    work: Callable[[int, Sequence[Split]], Iterator[pa.RecordBatch]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with without_traceback():
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from self.work(number, self.tasks[number] if self.tasks else ())


# Packing


class Packs(Protocol):
    """What makes packed rows of facts."""

    def inputs(self) -> set[str]:
        """The inputs that it looks at."""

    def packed(self, database: Database, facts: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        """The facts in some tables, by input."""


@dataclass(frozen=True)
class PackedScans:
    """Facts packed for some scans of a layout."""

    layout: Layout
    scans: frozenset[str]

    def inputs(self) -> set[str]:
        return {step.predicate.base for step in self._steps()}

    def _steps(self) -> list[Scan]:
        steps = (step for step in self.layout.plan.steps if isinstance(step, Scan))
        return [step for step in steps if step.name in self.scans]

    def packed(self, database: Database, facts: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        layout = self.layout
        whole = dict.fromkeys(layout.plan.inputs, ALL_TICKS)
        plan = layout.plan if layout.plan.ranges else replace(layout.plan, ranges=whole, data=whole)
        writer = Writer(plan)
        database.offer_texts(writer.texts)
        for step in self._steps():
            if step.predicate.base in facts:
                table = plan.inputs[step.predicate.name]
                database.view(table, f"SELECT * FROM {facts[step.predicate.base]}")
                rows = database.arrow(writer.scan(step))
                yield from as_rows(layout.scans[step.name], rows, NEW, layout.schema).to_batches()


@dataclass(frozen=True)
class Packer:
    """Reads splits and packs the facts in them; each partition gets a row, or it is left out."""

    reader: Reader
    packs: Packs
    schema: pa.Schema
    partitions: int
    memory: str

    def __call__(self, number: int, splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
        if number == 0:
            # A session that adapts its plans leaves out what is done with no rows at all; but
            # rules have facts of their own.
            every = range(self.partitions)
            firsts = [{"tab": -1, "part": NEW, "c": i * CHUNK, "b": 0} for i in every]
            yield from pa.Table.from_pylist(firsts, self.schema).to_batches()
        wanted = self.packs.inputs()
        splits = [split for split in splits if split.name is None or split.name in wanted]
        if splits:
            with reading(self.memory) as connection:
                there = self.reader.open(connection, splits)
                with there.readable(connection):
                    yield from packed_facts(connection, self.reader, self.packs, there)


@dataclass(frozen=True)
class Sent:
    """Packed rows that leave in parcels."""

    packer: Packer
    sending: Sending

    def __call__(self, number: int, splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
        yield from self.sending.parcels(self.packer(number, splits))


def packed_facts(
    connection: duckdb.DuckDBPyConnection,
    reader: Reader,
    packs: Packs,
    there: Opened,
    fine: str = "problem IS NULL",
) -> Iterator[pa.RecordBatch]:
    """The facts of splits that are open, packed; SQL says which rows are facts."""
    yield from packs.packed(
        Database(connection), fact_views(connection, reader, there, packs.inputs(), fine)
    )


def fact_views(
    connection: duckdb.DuckDBPyConnection,
    reader: Reader,
    there: Opened,
    wanted: Container[str],
    fine: str = "problem IS NULL",
) -> dict[str, str]:
    """By input a view of its facts in splits that are open; SQL says which rows are facts."""
    database = Database(connection)
    selects: dict[str, list[str]] = {}
    for source in there.sources:
        if source.name in wanted:
            names = ", ".join(reader.inputs.schemas[source.name].sql_names())
            facts = f"SELECT {names} FROM {reader.tagged(source)} AS f WHERE {fine}"
            selects.setdefault(source.name, []).append(facts)
    views: dict[str, str] = {}
    for i, (name, parts) in enumerate(selects.items()):
        views[name] = f"facts{i}"
        database.view(views[name], " UNION ALL ".join(parts))
    return views


# Measuring


@dataclass
class Measured:
    """What there is of an input: ticks of all rows and of facts, and rows that are no facts."""

    range: Range = EMPTY
    facts: Range = EMPTY
    unused: int = 0
    incomplete: dict[str, None] = field(default_factory=dict)  # columns that lack values

    def add(self, range_: Range, facts: Range, unused: int, lacks: Iterable[str] = ()) -> None:
        """Add rows, and the problems of those that lack a value."""
        self.range, self.facts = self.range | range_, self.facts | facts
        self.unused += unused
        columns = map(_LACKS.fullmatch, lacks)
        self.incomplete |= dict.fromkeys(found[1] for found in columns if found)


@dataclass
class Measures:
    """What there is of all inputs, and the first problems that are more than a missing value."""

    inputs: dict[str, Measured] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    # Rows looked at, and those of them that are not told apart, by input and number of `Repeats`.
    repeats: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)

    def of(self, name: str) -> Measured:
        return self.inputs.setdefault(name, Measured())


def measured(
    spark: SparkSession,
    reader: Reader,
    splits: Sequence[Split],
    repeats: tuple[Repeats, ...] = (),
) -> Measures:
    """First and last ticks of inputs: from statistics where they say it, else by a look.

    Of a file that nobody needs to look at the first rows are, where repeats are looked for.
    """
    measures = Measures()
    unknown: list[Split] = []
    for split in splits:
        if split.range is None or split.name is None:
            unknown.append(split)
        else:
            measures.of(split.name).add(split.range, split.range, 0)
    unseen = {one.input for one in repeats}.difference(split.name or "" for split in unknown)
    unknown += _first_rows(splits, unseen)
    rows = sum(split.rows for split in unknown)
    threads = threads_for(spark, unknown)
    look = Measurer(reader, threads or 1, repeats)
    if rows <= FEW or threads is not None:
        batches = look(0, list(joined(unknown))) if unknown else iter(())
        told = [text for batch in batches for text in batch.column(0).to_pylist()]
    else:
        frame = in_each(spark, tasks_of(spark, unknown), look, "told STRING")
        told = [text for (text,) in frame.collect()]
    for name, numbers, problems, lacks, again in map(json.loads, told):
        if name is not None:
            low, high, first, last, unused = numbers
            all_ = EMPTY if low is None else Range(low, high)
            facts = EMPTY if first is None else Range(first, last)
            measures.of(name).add(all_, facts, unused, lacks)
        for number, (rows, many) in enumerate(again):
            seen, found = measures.repeats.get((name, number), (0, 0))
            measures.repeats[name, number] = (seen + rows, found + many)
        measures.problems += problems
    return measures


def _first_rows(splits: Iterable[Split], names: Container[str]) -> Iterator[Split]:
    """The first rows of each input, as a part of its first split."""
    first: dict[str, Split] = {}
    for split in splits:
        if split.name is not None and split.name in names and split.part is not None:
            first.setdefault(split.name, split)
    for split in first.values():
        low, high = split.part or (0, 0)
        rows = min(split.rows, MOST)
        yield replace(split, rows=rows, part=(low, min(high, low + rows - 1)))


@dataclass(frozen=True)
class Measurer:
    """Looks at splits; what it tells is a line of JSON for each input."""

    reader: Reader
    threads: int = 1
    repeats: tuple[Repeats, ...] = ()

    def __call__(self, _: int, splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
        with reading(threads=self.threads) as connection:
            there = self.reader.open(connection, splits)
            with there.readable(connection):
                told = [*self._told(connection, there)]
        yield pa.RecordBatch.from_arrays([pa.array(told, pa.string())], names=["told"])

    def _repeats(
        self, connection: duckdb.DuckDBPyConnection, source: Source, numbers: Sequence[int]
    ) -> list[tuple[int, int]]:
        """What is found of each kind of repeats of an input, in these rows alone."""
        _, _, first, last, _ = numbers
        mine = [one for one in self.repeats if one.input == source.name and first is not None]
        facts = f"(SELECT * FROM ({source.select}) AS r WHERE problem IS NULL)"
        looks = [one.sql(facts, source.split.rows, Range(first, last)) for one in mine]
        return [tuple(connection.execute(look).fetchall()[0]) for look in looks]

    def _told(self, connection: duckdb.DuckDBPyConnection, there: Opened) -> Iterator[str]:
        for source in there.sources:
            fine = "CASE WHEN problem IS NULL THEN t END"
            (numbers,) = connection.execute(
                f"SELECT min(t), max(t), min({fine}), max({fine}), count(problem)"
                f" FROM ({source.select}) AS z"
            ).fetchall()
            problems: list[str] = []
            lacks: list[str] = []
            if numbers[-1]:
                found = connection.execute(
                    f"SELECT DISTINCT problem FROM ({source.select}) AS z WHERE NOT ({IS_WRONG})"
                ).fetchall()
                lacks = [problem for (problem,) in found]
                said = connection.execute(
                    f"SELECT problem FROM ({source.select}) AS z WHERE {IS_WRONG} LIMIT {TOLD}"
                ).fetchall()
                problems = [f"{source.split.uri}: {problem}" for (problem,) in said]
            again = self._repeats(connection, source, numbers)
            yield json.dumps([source.name, numbers, problems, lacks, again])
        for split, lost in there.lost:
            told = [f"{split.uri}: {lost.problem}"] if is_wrong(lost.problem) else []
            yield json.dumps([lost.name, [None] * 4 + [1], told, [], []])


def is_wrong(problem: str) -> bool:
    """Whether a row has more than a value missing, as `IS_WRONG` has it."""
    return not problem.startswith(("no value in column", "NaN in column"))


# Batches of streams


@dataclass(frozen=True)
class TakeIn:
    """Counts and packs the facts of splits, in the order of the files.

    What it gives are packed rows, and for each input a row that tells what was counted.
    """

    reader: Reader
    packs: Packs
    schema: pa.Schema
    fine: str  # SQL for rows that are facts
    counted: tuple[str, ...]  # SQL for the numbers of `FactTest.counted`
    # SQL for heartbeats that are used, those that are not, and the last tick of the former.
    beats: tuple[str, str, str] = ("count(*)", "0", "max(t)")

    @property
    def told(self) -> pa.Schema:
        return self.schema.append(pa.field("told", pa.string()))

    def __call__(self, _: int, splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
        with reading() as connection:
            there = self.reader.open(connection, splits)
            with there.readable(connection):
                for batch in packed_facts(connection, self.reader, self.packs, there, self.fine):
                    nothing = pa.nulls(batch.num_rows, pa.string())
                    yield pa.RecordBatch.from_arrays([*batch.columns, nothing], schema=self.told)
                told = [
                    {"told": json.dumps(numbers)} for numbers in self._counts(connection, there)
                ]
        yield pa.RecordBatch.from_pylist(told, schema=self.told)

    def _counts(
        self, connection: duckdb.DuckDBPyConnection, there: Opened
    ) -> Iterator[Sequence[int | None]]:
        inputs = self.reader.inputs
        yield [None, there.rows, 0, 0, None, None]
        for source in there.sources:
            (numbers,) = connection.execute(
                f"SELECT {', '.join(self.counted)} FROM {self.reader.tagged(source)} AS f"
            ).fetchall()
            yield [inputs.tag(source.name), *numbers]
        lost = Counter(inputs.tag_of(one.name) for _, one in there.lost)
        for tag, rows in lost.items():
            yield [tag, 0, 0, rows, *[None] * 5]
        if there.beats:
            used, unused, last = self.beats
            nulls = ", NULL" * 3
            select = f"SELECT tag, {used}, 0, {unused}, NULL, {last}{nulls} FROM {OTHERS}"
            yield from connection.execute(f"{select} WHERE tag <= {BEAT} GROUP BY tag").fetchall()


@dataclass(frozen=True)
class Runs:
    """Looks for ticks that follow each other without too long a leap: first and last of a run."""

    COLUMNS: ClassVar[str] = "first BIGINT, last BIGINT"

    reader: Reader
    in_time: str  # SQL for facts and heartbeats
    most: int  # ticks of a leap

    def __call__(self, _: int, splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
        with reading() as connection:
            there = self.reader.open(connection, splits)
            with there.readable(connection):
                ticks = " UNION ".join(
                    f"SELECT t FROM {rows} AS f WHERE {self.in_time}"
                    for rows in [OTHERS, *map(self.reader.tagged, there.sources)]
                )
                leap = f"t - lag(t) OVER (ORDER BY t) > {self.most}"
                runs = connection.sql(
                    "SELECT min(t) AS first, max(t) AS last FROM (SELECT t, sum(leap) OVER"
                    f" (ORDER BY t) AS run FROM (SELECT t, CASE WHEN {leap} THEN 1 ELSE 0 END AS"
                    f" leap FROM ({ticks}) AS a) AS b) AS c GROUP BY run"
                ).to_arrow_table()
        yield from runs.to_batches()


@dataclass(frozen=True)
class Letters:
    """Rows that are not used, as lines of JSON."""

    reader: Reader
    used: str  # SQL for the others
    reason: str

    def __call__(self, _: int, splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
        with reading() as connection:
            there = self.reader.open(connection, splits)
            with there.readable(connection):
                letters = self.reader.letters(connection, there, self.used, self.reason)
                lines = [letter.line().decode().rstrip("\n") for letter in letters]
        yield pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], names=["value"])
