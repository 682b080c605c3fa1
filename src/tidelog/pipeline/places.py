"""The places where a batch is done: the driver, when there is little to do, or the executors.

Both do the same: take in the rows that arrived and tell which of them are facts, hold what is
derived from them, and write answers, state and dead letters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import duckdb
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from tidelog.data.letters import AHEAD, LATE, SHOWN, SKIPPED, DeadLetter, excerpt, first_letters
from tidelog.data.packed import COUNT
from tidelog.data.ticks import Range, time_text
from tidelog.data.types import sql_text
from tidelog.data.writers import csv_lines, json_lines
from tidelog.evaluation.database import Database
from tidelog.evaluation.rows import Relation
from tidelog.evaluation.spark.answers import unpacked, unpacked_table
from tidelog.evaluation.spark.files import FileBatch, skipped_of
from tidelog.evaluation.spark.scans import Letters, Packs, Runs, TakeIn, in_each, tasks_of
from tidelog.evaluation.spark.sources import BEAT, NO_PATTERNS, Inputs, arrow_struct
from tidelog.evaluation.spark.splits import Opened, session_of, whole_files
from tidelog.language.program import TIME_MAX
from tidelog.pipeline.plan import PipelinePlan
from tidelog.streaming.clock import (
    Clock,
    Horizon,
    came_late,
    first_in_time,
    ticks_that_matter,
    was_silent,
)
from tidelog.streaming.ledger import Ledger
from tidelog.streaming.notices import Kind
from tidelog.streaming.options import StreamOptions
from tidelog.streaming.sinks.sink import BatchAnswers, FileStore, LocalAnswers

# Rows of state that one file may hold.
FILE_ROWS = 1_000_000
# Rows that are fetched to see whether there are more, and bytes that one of them may have.
LOOK, LOOK_BYTES = 2_000, 65_536
# The first id of each part of a DataFrame, as Spark gives them, is a multiple of this.
IDS_OF_A_PART = 2**33


# The rows of a batch: files that nobody has read yet, or rows that Spark has.
Arriving: TypeAlias = FileBatch | DataFrame


@dataclass(frozen=True)
class Unused:
    """How many rows of an input are not used for one kind of reason."""

    name: str
    kind: Kind
    count: int
    tick: int | None = None  # of the latest one, or of the one furthest ahead


@dataclass
class Arrived:
    """What a batch brought: rows by what became of them, and ticks by input."""

    rows: int = 0  # as they were read, whatever became of them
    facts: int = 0
    late: int = 0
    dead: int = 0  # unreadable, or too far ahead
    skipped: int = 0  # put aside by an operator
    heartbeats: int = 0
    by_input: dict[str, Ledger] = field(default_factory=dict)
    unused: list[Unused] = field(default_factory=list)
    limit: int | None = None  # ticks above it are too far ahead
    first: int | None = None  # the least tick of a fact
    seen: dict[str, int] = field(default_factory=dict)  # the greatest, by input
    useless: dict[str, int] = field(default_factory=dict)  # rows of inputs without a single fact
    told: dict[str, int] = field(default_factory=dict)  # the last heartbeat, by input
    heard: set[str] = field(default_factory=set)  # the inputs that brought anything
    unheard: int = 0  # heartbeats that say nothing, since nobody asked for them

    def skip(self, rows: Mapping[str, int]) -> None:
        """Count so many dead rows of some inputs as skipped: that is no mistake of the data's."""
        for name, count in rows.items():
            self.skipped += count
            self.dead -= count
            if name:
                known = self.by_input[name]
                now = replace(known, dead=known.dead - count, skipped=known.skipped + count)
                self.by_input[name] = now
            if name in self.useless:
                self.useless[name] -= count
            for i, unused in enumerate(self.unused):
                if (unused.name, unused.kind) == (name, "unreadable"):
                    self.unused[i] = replace(unused, count=max(0, unused.count - count))
        self.useless = {name: n for name, n in self.useless.items() if n}

    @property
    def ledger(self) -> Ledger:
        parts = (self.facts, self.late, self.dead, self.skipped, self.heartbeats)
        return Ledger(self.rows, *parts)

    def add(
        self,
        name: str,
        facts: int,
        late: int,
        dead: int,
        first: int | None,
        last: int | None,
        ahead: int | None,
        latest: int | None,
        furthest: int | None,
    ) -> None:
        """Add rows of an input, with the numbers of `FactTest.counted`."""
        self.heard.add(name)
        self.facts += facts
        self.late += late
        self.dead += dead
        far = ahead or 0
        self.unused.append(Unused(name, "late", late, latest))
        self.unused.append(Unused(name, "ahead", far, furthest))
        self.unused.append(Unused(name, "unreadable", dead - far))
        if name:
            now = Ledger(facts + late + dead, facts, late, dead)
            self.by_input[name] = self.by_input.get(name, Ledger()) + now
        if name and not facts + late:
            self.useless[name] = dead
        if first is not None and last is not None:
            self.seen[name] = last
            self.first = first if self.first is None else min(self.first, first)

    def beat(self, tag: int, tick: int | None, inputs: Inputs) -> None:
        """Add the last heartbeat with some tag, if there is one."""
        for name in inputs.names if tick is not None else ():
            if tag in (inputs.beat(None), inputs.beat(name)):
                self.heard.add(name)
                self.told[name] = max(tick or 0, self.told.get(name, tick or 0))


@dataclass(frozen=True)
class WrittenLetters:
    """The dead letters that a batch has written: how many, and the first of them."""

    count: int = 0
    first: Sequence[dict[str, Any]] = ()


@dataclass(frozen=True)
class Count:
    """What there is of a table: rows, first and last chunk, facts."""

    rows: int
    first: int
    last: int
    facts: int


@dataclass
class FactTest:
    """SQL that says which rows are facts, the same for DuckDB and Spark."""

    before: Clock
    options: StreamOptions
    tags: dict[str, int]  # of the inputs
    changed: str | None = None  # the queries that a late fact could have changed
    limit: int | None = None  # ticks above it are too far ahead
    horizon: Horizon | None = None  # and those above this, too
    hears: bool = True  # whether heartbeats count

    @staticmethod
    def of(
        plan: PipelinePlan,
        inputs: Inputs,
        before: Clock,
        horizon: Horizon | None = None,
        *,
        hears: bool = True,
    ) -> FactTest:
        """The test for a batch after which the clock is no longer what it was before."""
        changed = FactTest._changed(plan, inputs, before)
        tags = {name: inputs.tag(name) for name in inputs.names}
        return FactTest(before, plan.options, tags, changed, None, horizon, hears)

    @staticmethod
    def _changed(plan: PipelinePlan, inputs: Inputs, before: Clock) -> str | None:
        """SQL for the queries that a late fact could have changed; None if there are none."""
        if before.tin is None or before.first is None or not plan.asking_for_absence:
            return None
        published = Range(plan.pace.first_answer(before.first), before.tin)
        sources = plan.work.core.input_of
        cases: list[str] = []
        for name in (name for name in inputs.names if name in sources):
            named: list[str] = []
            for query, deps in plan.asking_for_absence.items():
                ticks = ticks_that_matter(deps, sources[name].name, published)
                ticks &= Range(-TIME_MAX, TIME_MAX)
                if not ticks.empty:
                    ends = f"{int(ticks.low)} AND {int(ticks.high)}"
                    named.append(f"CASE WHEN t BETWEEN {ends} THEN '{query}' END")
            if named:
                cases.append(
                    f"WHEN tag = {inputs.tag(name)} THEN concat_ws(', ', {', '.join(named)})"
                )
        return f"CASE {' '.join(cases)} ELSE '' END" if cases else None

    @property
    def max_jump(self) -> int | None:
        return self.options.max_jump

    @property
    def late(self) -> str:
        return f"t < {first_in_time(self.before.tin)}"

    @property
    def near(self) -> str:
        """Rows that can be read and are not too far ahead."""
        read = "problem IS NULL"
        horizon = None if self.horizon is None else self.horizon.last
        limits = [limit for limit in (self.limit, horizon) if limit is not None]
        return f"{read} AND t <= {min(limits)}" if limits else read

    @property
    def in_time(self) -> str:
        return f"{self.near} AND NOT ({self.late})"

    @property
    def fine(self) -> str:
        """Facts."""
        return f"tag >= 0 AND {self.in_time}"

    @property
    def beat(self) -> str:
        """Heartbeats; a late one says nothing new, and is no mistake."""
        return f"tag <= {BEAT} AND {self.near if self.hears else 'problem IS NULL'}"

    @property
    def skipped(self) -> str:
        """What users have left out."""
        return f"problem LIKE '{SKIPPED}%'"

    @property
    def used(self) -> str:
        return f"({self.fine}) OR ({self.beat})"

    def counted(self, which: str = "TRUE") -> tuple[str, ...]:
        """Facts, late ones and dead ones, first and last tick, of some rows; then those far ahead.

        The last two are the ticks of the latest row and of the one furthest ahead.
        """
        fine = f"{which} AND {self.fine}"
        late = f"problem IS NULL AND {self.late}"
        far = "FALSE" if self.limit is None else f"t > {self.limit}"
        if self.horizon is not None:  # beyond it rows have another remedy
            far += f" AND t <= {self.horizon.last}"
        ahead = f"{which} AND problem IS NULL AND NOT ({late}) AND {far}"
        return (
            f"count_if({fine})",
            f"count_if({which} AND {late})",
            f"count_if({which} AND NOT ({late}) AND (tag < 0 OR NOT ({self.near})))",
            f"min(CASE WHEN {fine} THEN t END)",
            f"max(CASE WHEN {fine} THEN t END)",
            f"count_if({ahead})",
            f"min(CASE WHEN {which} AND {late} THEN t END)",
            f"max(CASE WHEN {ahead} THEN t END)",
        )

    def beats(self) -> tuple[str, str, str]:
        """Of heartbeats, those that are used and those that are not, and the last tick."""
        last = f"max(CASE WHEN {self.beat} THEN t END)"
        return f"count_if({self.beat})", f"count_if(NOT ({self.beat}))", last

    @property
    def reason(self) -> str:
        ticks = self.options.ticks
        limit = "" if self.limit is None else time_text(self.limit, ticks)
        late = came_late(self.before.tin, ticks)
        silent = [
            f"WHEN tag = {tag} AND t <= {until} THEN '{was_silent(name)}'"
            for name, until in self.before.overtaken.items()
            if (tag := self.tags.get(name)) is not None
        ]
        without = f"CASE {' '.join(silent)} ELSE '' END" if silent else "''"
        jump = f"{self.max_jump}" if ticks is None else f"{self.max_jump} ticks"
        ahead = f"is more than {jump} ahead of {limit}"
        # Where ticks have a length, the time is in the row, as it came.
        tick = "concat('tick ', t)" if ticks is None else "'its time'"
        far = ""
        if self.horizon is not None:
            far = f" WHEN t > {self.horizon.last} THEN {sql_text(self.horizon.reason)}"
        told = "''"
        if self.changed is not None:
            named = f"concat('; it could have changed ', {self.changed})"
            told = f"CASE WHEN ({self.changed}) <> '' THEN {named} ELSE '' END"
        return (
            f"coalesce(problem, CASE WHEN {self.late}"
            f" THEN concat('late: ', {tick}, ' {late}', {without}, {told}){far}"
            f" ELSE concat({tick}, ' {ahead}') END)"
        )

    def limit_by(self, runs: Iterable[tuple[int, int]]) -> None:
        """Of these runs of ticks, in order, nothing counts from the first leap that is too long.

        Within a run, which has a first and a last tick, no leap is too long.
        """
        at = max([*self.before.seen.values(), *self.before.told.values()], default=None)
        for first, last in runs:
            if at is not None and self.max_jump is not None and first - at > self.max_jump:
                self.limit = at
                return
            at = last if at is None else max(at, last)


def _first_of(lines: DataFrame) -> list[dict[str, Any]]:
    """The first dead letters, and after them the first of each input and kind."""
    reason = F.get_json_object("value", "$.reason")
    kind = F.when(reason.rlike(LATE), 1).when(reason.rlike(AHEAD), 2).otherwise(3)
    name = F.get_json_object("value", "$.predicate")
    firsts = lines.groupBy(name, kind).agg(F.first("value").alias("value")).select("value")
    some = lines.limit(SHOWN).union(firsts).collect()
    return [excerpt(json.loads(line)) for line in dict.fromkeys(line for (line,) in some)]


@dataclass(frozen=True)
class SparkAnswers:
    """Answers as a DataFrame."""

    rows: DataFrame

    def table(self) -> pa.Table:
        return self.rows.toArrow()

    def frame(self) -> DataFrame:
        return self.rows

    def save(self, format_: str, store: FileStore, place: tuple[str, ...]) -> None:
        store.make(*place[:-1])  # Spark would not wait for the names of folders
        path = store.path(*place)
        if format_ == "parquet":
            self.rows.write.parquet(path)
        else:
            # Spark would write values in its own way, and without the blanks around them.
            self.rows.mapInArrow(_AsLines(format_), "value STRING").write.text(path)
        _tidy(store, place, format_)


def _tidy(store: FileStore, place: tuple[str, ...], format_: str) -> None:
    """Of what Spark has written, leave the files that hold anything, under their own ending."""
    for entry in store.entries(*place):
        if not entry.size:
            store.delete(*place, entry.name)
        elif entry.name.endswith(".txt"):
            own = entry.name.removesuffix("txt") + format_
            store.rename((*place, entry.name), (*place, own))
    store.sync(*place)


@dataclass(frozen=True)
class _AsLines:
    """Answers of a partition as lines, the same as anywhere else."""

    format: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begun = False
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            lines = list(csv_lines(rows) if self.format == "csv" else json_lines(None, rows))
            if self.format == "csv" and begun:
                del lines[0]  # the header is there
            begun = True
            yield pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], names=["value"])


def _letters_as_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Dead letters of a partition as lines, the same as in the driver."""
    for batch in batches:
        letters = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        lines = [DeadLetter(*letter).line().decode().rstrip("\n") for letter in letters]
        yield pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], names=["value"])


class Driver:
    """A batch done in this process: Spark has fetched its rows, or only says which files it has."""

    def __init__(
        self,
        plan: PipelinePlan,
        inputs: Inputs,
        store: FileStore,
        rows: pa.Table | FileBatch | None,
        spark: SparkSession,
        database: duckdb.DuckDBPyConnection,
    ) -> None:
        self.plan, self.inputs, self.store, self.rows = plan, inputs, store, rows
        self.spark = spark
        self.has_facts = False
        self.counts: dict[int, Count] = {}
        self.connection = session_of(database)  # what is made there goes with it
        self.files: Opened | None = None
        if isinstance(rows, FileBatch):
            self.files = rows.reader.open(self.connection, whole_files(rows.splits))
            select = rows.reader.rows(self.files)
            self.connection.execute(f"CREATE TEMP VIEW arriving AS {select}")
        elif rows is not None:
            self.connection.register("arriving", rows)

    def _reading(self) -> AbstractContextManager[None]:
        """While files are read: an error names the file."""
        return nullcontext() if self.files is None else self.files.readable(self.connection)

    def take_in(self, before: Clock, horizon: Horizon | None = None) -> Arrived:
        """Tell which rows are facts, and count them."""
        hears = self.files is not None or self.plan.options.heartbeats
        self.test = FactTest.of(self.plan, self.inputs, before, horizon, hears=hears)
        with self._reading():
            return self._take_in(self.test)

    def _take_in(self, test: FactTest) -> Arrived:
        if test.max_jump is not None:
            ticks = f"SELECT DISTINCT t FROM arriving WHERE {test.in_time} ORDER BY t"
            test.limit_by((t, t) for (t,) in self.connection.execute(ticks).fetchall())
        size = len(self.rows) if isinstance(self.rows, pa.Table) else self._file_rows
        arrived = Arrived(size, limit=test.limit)
        names = dict(enumerate(self.inputs.names))
        counted = f"SELECT tag, {', '.join(test.counted())} FROM arriving WHERE tag > {BEAT}"
        for tag, *numbers in self.connection.execute(f"{counted} GROUP BY tag").fetchall():
            arrived.add(names.get(tag, ""), *numbers)
        beats = f"SELECT tag, {', '.join(test.beats())} FROM arriving WHERE tag <= {BEAT}"
        for tag, used, dead, last in self.connection.execute(f"{beats} GROUP BY tag").fetchall():
            arrived.heartbeats += used
            arrived.dead += dead
            arrived.unused.append(Unused("", "unreadable", dead))
            if test.hears:
                arrived.beat(tag, last, self.inputs)
            else:
                arrived.unheard += used
        skipped = f"SELECT tag, count(*) FROM arriving WHERE {test.skipped} GROUP BY tag"
        arrived.skip({names.get(t, ""): n for t, n in self.connection.execute(skipped).fetchall()})
        self.has_facts = arrived.facts > 0
        return arrived

    @property
    def _file_rows(self) -> int:
        """The rows of files, as they were read."""
        return 0 if self.files is None else self.files.rows

    def packed(self, packs: Packs, schema: pa.Schema) -> pa.Table:
        """The facts that arrived in the row format, once they are taken in."""
        if not self.has_facts:
            return schema.empty_table()
        database, tables = Database(self.connection), {}
        for i, name in enumerate(self.inputs.names):
            if name in packs.inputs():
                tables[name] = f"facts{i}"
                named = zip(
                    self.inputs.slots(name), self.inputs.schemas[name].sql_names(), strict=False
                )
                values = ", ".join([*(f"{slot} AS {name}" for slot, name in named), "t"])
                where = f"tag = {self.inputs.tag(name)} AND {self.test.fine}"
                database.view(tables[name], f"SELECT {values} FROM arriving WHERE {where}")
        with self._reading():
            return pa.Table.from_batches(list(packs.packed(database, tables)), schema)

    def take(self, rows: pa.Table) -> None:
        """Have these rows as what was derived."""
        self.connection.register("results", rows)
        counted = f"SELECT tab, count(*), min(c), max(c), {COUNT} FROM results GROUP BY tab"
        self.counts = {
            tab: Count(*numbers) for tab, *numbers in self.connection.execute(counted).fetchall()
        }

    def answers(self, query: str, relation: Relation) -> BatchAnswers:
        """Packed answers a row each, under the names and with the times users asked for."""
        packed = f"(SELECT * FROM results WHERE tab = {relation.number}) AS q"
        ticks = self.plan.options.stamps
        names = self.plan.program.output_columns(query)
        table = unpacked_table(self.connection, packed, relation, names, ticks)
        return LocalAnswers(table, self.spark)

    def keep(self, tabs: list[int], place: tuple[str, ...]) -> None:
        """Write the rows of some tables as state."""
        some = ", ".join(map(str, tabs))
        select = f"SELECT * EXCLUDE (part) FROM results WHERE tab IN ({some}) ORDER BY tab, c"
        rows = self.connection.sql(select).to_arrow_table()
        LocalAnswers(rows).save("parquet", self.store, place)

    def dead_letters(self, place: tuple[str, ...]) -> WrittenLetters:
        """Write the rows that are no facts as JSON lines, with the reason."""
        if self.files is not None and isinstance(self.rows, FileBatch):
            with self._reading():
                reader, used, reason = self.rows.reader, self.test.used, self.test.reason
                letters = list(reader.letters(self.connection, self.files, used, reason))
        else:
            letters = self._letters()
        self.store.write(b"".join(letter.line() for letter in letters), *place, "part-00000.json")
        first = first_letters(letter.as_json() for letter in letters)
        return WrittenLetters(len(letters), list(map(excerpt, first)))

    def _letters(self) -> list[DeadLetter]:
        unused = self.connection.sql(
            f"SELECT *, {self.test.reason} AS reason FROM arriving WHERE NOT ({self.test.used})"
        ).to_arrow_table()
        return [
            DeadLetter(
                self.inputs.names[row["tag"]] if row["tag"] >= 0 else None,
                row["reason"],
                row["file"],
                row["came"],
            )
            for row in unused.to_pylist()
        ]

    def release(self) -> None:
        """Nothing of it is needed any more."""
        self.connection.close()


class HowToPack(Protocol):
    """How a mode brings facts into the row format."""

    def pack(self, facts: DataFrame) -> DataFrame: ...

    @property
    def packs(self) -> Packs: ...


class Executors:
    """A batch done by Spark; `mode` brings facts into the row format, as it wants them."""

    def __init__(
        self,
        plan: PipelinePlan,
        inputs: Inputs,
        store: FileStore,
        rows: Arriving | None,
        spark: SparkSession,
        mode: HowToPack,
    ) -> None:
        self.plan, self.inputs, self.store, self.rows = plan, inputs, store, rows
        self.spark, self.mode = spark, mode
        self.counts: dict[int, Count] = {}
        self.packed: DataFrame | None = None  # the facts that arrived
        self.results: DataFrame | None = None
        self.held = ExitStack()  # lets go of what Spark stores for this batch

    def hold(self, rows: DataFrame) -> DataFrame:
        """Have Spark store rows until the batch is done, or each use would compute them again."""
        stored = rows.persist()
        self.held.callback(stored.unpersist)
        return stored

    def take_in(self, before: Clock, horizon: Horizon | None = None) -> Arrived:
        """Read, count and pack, all in one pass."""
        hears = isinstance(self.rows, FileBatch) or self.plan.options.heartbeats
        self.test = FactTest.of(self.plan, self.inputs, before, horizon, hears=hears)
        match self.rows:
            case FileBatch():
                return self._take_in_files(self.rows, self.test)
            case DataFrame():
                return self._take_in_frame(self.rows, self.test)
            case _:
                raise AssertionError("there is nothing to take in")

    def _take_in_files(self, files: FileBatch, test: FactTest) -> Arrived:
        """The tasks read files themselves: packed rows and counts are all they give."""
        tasks = tasks_of(self.spark, files.splits)
        if test.max_jump is not None:
            runs = in_each(
                self.spark, tasks, Runs(files.reader, test.in_time, test.max_jump), Runs.COLUMNS
            )
            test.limit_by(sorted((first, last) for first, last in runs.collect()))
        schema = self.plan.rows.schema
        work = TakeIn(
            files.reader, self.mode.packs, schema, test.fine, test.counted(), test.beats()
        )
        struct = arrow_struct(work.told)
        rows = self.hold(in_each(self.spark, tasks, work, struct))
        told = rows.where("told IS NOT NULL").select("told").collect()
        self.packed = rows.where("told IS NULL").select(*schema.names)
        counts: dict[int, list[Any]] = {}
        arrived = Arrived(limit=test.limit)
        for tag, *numbers in (json.loads(text) for (text,) in told):
            if tag is None:
                arrived.rows += numbers[0]
            else:
                counts[tag] = _added(counts.get(tag), numbers)
        for tag, numbers in sorted(counts.items()):
            if tag >= 0:
                arrived.add(self.inputs.names[tag], *numbers)
            else:
                arrived.heartbeats += numbers[0]
                arrived.dead += numbers[2]
                arrived.unused.append(Unused("", "unreadable", numbers[2]))
                arrived.beat(tag, numbers[4], self.inputs)
        arrived.skip(skipped_of(files))
        return arrived

    def _take_in_frame(self, rows: DataFrame, test: FactTest) -> Arrived:
        if test.max_jump is not None:
            ticks = rows.where(test.in_time).select("t").distinct().sort("t")
            test.limit_by((row.t, row.t) for row in ticks.toLocalIterator())
        names = dict(enumerate(self.inputs.names))
        counted = [
            F.expr(text).alias(f"n{tag}_{i}")
            for tag in names
            for i, text in enumerate(test.counted(f"tag = {tag}"))
        ]
        beats = {
            tag: f"beat{i}" for i, tag in enumerate(map(self.inputs.beat, (None, *names.values())))
        }
        counted += [
            F.expr(f"max(CASE WHEN tag = {tag} AND {test.beat} THEN t END)").alias(name)
            for tag, name in beats.items()
        ]
        counted.append(F.expr(f"count_if({test.beat})").alias("beats"))
        of_tags = {-1: "", **names}
        counted += [
            F.expr(f"count_if(tag = {tag} AND {test.skipped})").alias(f"skipped{tag}")
            for tag in of_tags
        ]
        nameless = f"count_if(tag < 0 AND NOT ({test.beat}))"
        counted.append(F.expr(nameless).alias("nameless"))
        counted.append(F.expr("count(*)").alias("rows"))
        numbers = self._packed_and_counted(rows, counted)
        arrived = Arrived(numbers["rows"], heartbeats=numbers["beats"], limit=test.limit)
        for tag, name in names.items():
            some = [numbers[f"n{tag}_{i}"] for i in range(len(test.counted()))]
            if any(some[:3]):
                arrived.add(name, *some)
        for tag, name in beats.items() if test.hears else ():
            arrived.beat(tag, numbers[name], self.inputs)
        arrived.dead += numbers["nameless"]
        arrived.unused.append(Unused("", "unreadable", numbers["nameless"]))
        arrived.unheard = 0 if test.hears else numbers["beats"]
        skipped = {name: numbers[f"skipped{tag}"] for tag, name in of_tags.items()}
        arrived.skip({name: count for name, count in skipped.items() if count})
        return arrived

    def _packed_and_counted(self, rows: DataFrame, counted: list[Column]) -> dict[str, Any]:
        """Pack the facts, and count all rows on the way.

        What Spark observes while it works may have parts in it that were done twice, after an
        executor was lost: each part therefore tells when it begins, as an id that is its own. Rows
        of which some were seen twice are counted again, by themselves.
        """
        begins = f"id % {IDS_OF_A_PART} = 0"
        begun = F.expr(f"count_if({begins})").alias("begun")
        parts = F.expr(f"size(collect_set(CASE WHEN {begins} THEN id END))").alias("parts")
        seen = Observation()
        told = rows.withColumn("id", F.monotonically_increasing_id())
        told = told.observe(seen, *counted, begun, parts).drop("id")
        self.packed = self.hold(self.mode.pack(told.where(self.test.fine)))
        self.packed.count()
        numbers: dict[str, Any] = seen.get
        if numbers["begun"] != numbers["parts"]:
            numbers = rows.agg(*counted).collect()[0].asDict()
        return numbers

    def take(self, rows: DataFrame) -> None:
        """Have these rows as what was derived."""
        self.results = self.hold(rows)
        counted = self.results.groupBy("tab").agg(
            F.count("*"), F.min("c"), F.max("c"), F.sum(F.bit_count("b"))
        )
        self.counts = {tab: Count(*map(int, numbers)) for tab, *numbers in counted.collect()}

    def answers(self, query: str, relation: Relation) -> BatchAnswers:
        """Packed answers a row each, under the names and with the times users asked for."""
        assert self.results is not None
        ticks = self.plan.options.stamps
        names = self.plan.program.output_columns(query)
        return SparkAnswers(unpacked(self.results, relation, names, ticks))

    def keep(self, tabs: list[int], place: tuple[str, ...]) -> None:
        """Write the rows of some tables as state."""
        assert self.results is not None
        rows = self.results.where(F.col("tab").isin(tabs)).drop("part")
        files = 1 + sum(self.counts[tab].rows for tab in tabs) // FILE_ROWS
        spread = rows.coalesce(files).sortWithinPartitions("tab", "c")
        SparkAnswers(spread).save("parquet", self.store, place)

    def dead_letters(self, place: tuple[str, ...]) -> WrittenLetters:
        """Write the rows that are no facts as JSON lines, with the reason."""
        first = self._write_letters(place)
        lines = self.spark.read.options(**NO_PATTERNS).text(self.store.path(*place))
        return WrittenLetters(lines.count(), first)

    def _write_letters(self, place: tuple[str, ...]) -> list[dict[str, Any]]:
        path = self.store.path(*place)
        if isinstance(self.rows, FileBatch):
            work = Letters(self.rows.reader, self.test.used, self.test.reason)
            tasks = tasks_of(self.spark, self.rows.splits)
            lines = self.hold(in_each(self.spark, tasks, work, "value STRING"))
            lines.write.text(path)
            _tidy(self.store, place, "json")
            return _first_of(lines)
        assert self.rows is not None
        predicate: Column = F.lit(None)
        for name in self.inputs.names:
            predicate = F.when(F.col("tag") == self.inputs.tag(name), name).otherwise(predicate)
        letters = self.rows.where(f"NOT ({self.test.used})").select(
            predicate, F.expr(self.test.reason), "file", "came"
        )
        lines = self.hold(letters.mapInArrow(_letters_as_lines, "value STRING"))
        lines.write.text(path)
        _tidy(self.store, place, "json")
        return _first_of(lines)

    def release(self) -> None:
        """Nothing of it is needed any more."""
        self.held.close()


Place: TypeAlias = Driver | Executors


def _added(before: list[Any] | None, more: list[Any]) -> list[Any]:
    """The numbers of `FactTest.counted`, of some rows and of more of them."""
    if before is None:
        return more
    joins: tuple[Callable[[list[Any]], int], ...] = (sum, sum, sum, min, max, sum, min, max)
    known = ([x for x in both if x is not None] for both in zip(before, more, strict=True))
    return [join(both) if both else None for join, both in zip(joins, known, strict=True)]


def few(rows: DataFrame, most: int, most_bytes: int) -> pa.Table | None:
    """The rows of a DataFrame, if they are few and short; otherwise they stay where they are.

    A first look fetches little in any case: the row after the last one says that there are more,
    and one that is too long comes as nulls. Only of what is more than that, all is counted.
    """
    names = [f"`{name}`" for name in rows.columns]
    texts = [
        n for n, x in zip(names, rows.schema, strict=True) if isinstance(x.dataType, StringType)
    ]
    size = " + ".join([str(8 * len(names)), *(f"coalesce(octet_length({n}), 0)" for n in texts)])
    look = min(LOOK, most)
    short = [f"CASE WHEN {size} <= {LOOK_BYTES} THEN {name} END AS {name}" for name in names]
    some = rows.limit(look + 1).selectExpr(*short).toArrow()
    if some.num_rows <= look and not some.column(0).null_count:
        return some
    if look < most:
        ((count, total),) = rows.selectExpr("count(*)", f"sum({size})").collect()
        if count <= most and total <= most_bytes:
            return rows.toArrow()
    return None


def configure(spark: SparkSession, partitions: int) -> None:
    """What our own queries rely on, on a session that is nobody else's."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.variable.substitute", "false")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
    spark.conf.set("spark.sql.parquet.compression.codec", "zstd")
