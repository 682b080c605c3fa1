"""The work of one micro-batch, in Spark's partitions or, when there is little of it, in the driver.

Both do the same: mark the rows that are facts, run the wave, hand out answers and slices.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import unquote

import duckdb
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from tidelog.data.packed import COUNT, chunk, unpack_sql
from tidelog.data.writers import timestamps
from tidelog.evaluation.ranges import Range
from tidelog.evaluation.rows import KEPT, Relation
from tidelog.evaluation.spark.answers import unpacked
from tidelog.evaluation.spark.sources import Inputs, arrow_struct
from tidelog.language.program import TIME_COLUMN, Program
from tidelog.pipeline.checkpoint import Slice
from tidelog.pipeline.sinks import Rows, save
from tidelog.pipeline.store import Store
from tidelog.streaming.clock import Clock

# A time after all others.
EVER = 2**62
# Rows of state that one file may hold.
FILE_ROWS = 1_000_000
# Rows of facts and rows of state up to which a batch is done in the driver.
LITTLE = 1_000_000
# Rows that the first batch may have for that, nothing being known of it; and ticks of any batch.
FIRST = 100_000


@dataclass
class Arrived:
    """What a batch brought, input by input."""

    facts: int = 0
    late: int = 0
    dead: int = 0
    first: int | None = None
    seen: dict[str, int] = field(default_factory=dict)
    limit: int | None = None  # ticks above it are too far ahead

    def add(
        self, name: str, facts: int, late: int, rows: int, first: int | None, last: int | None
    ) -> None:
        self.facts += facts
        self.late += late
        self.dead += rows - facts - late
        if first is not None and last is not None:
            self.seen[name] = last
            self.first = first if self.first is None else min(self.first, first)


@dataclass(frozen=True)
class Count:
    """What there is of a table: rows, first and last chunk, facts."""

    rows: int
    first: int
    last: int
    facts: int


class Shape(Protocol):
    """The row format of a stream: what is kept, what is known of answers, what is told."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def tables(self) -> dict[str, Relation]: ...

    @property
    def given(self) -> dict[str, Relation]: ...

    @property
    def answers(self) -> dict[str, Relation]: ...

    @property
    def places(self) -> dict[int, tuple[str, str]]:
        """By table kept the predicate it is of: an input, derived, or known answers."""


@dataclass
class Setting:
    """What every batch of a stream works with."""

    spark: SparkSession
    program: Program
    shape: Shape
    inputs: Inputs
    partitions: int
    store: Store  # of the checkpoint
    max_jump: int | None
    timestamps: bool
    tables: dict[str, pa.Table]  # of rigid facts, by input

    def close(self) -> None:
        """Nothing is done any more."""
        return

    def files(
        self, slices: Iterable[Slice], wanted: dict[int, list[tuple[int, int]]]
    ) -> list[tuple[str, ...]]:
        """The files that may hold any of some chunks."""
        return [
            ("state", part.folder, name)
            for part in slices
            if any(
                low <= last and first <= high
                for tab, (first, last, _) in part.tables.items()
                for low, high in wanted.get(tab, ())
            )
            for name, _, _ in part.files
        ]

    def read(
        self,
        spark: SparkSession,
        slices: Iterable[Slice],
        wanted: dict[int, list[tuple[int, int]]],
    ) -> DataFrame | None:
        """The rows of some chunks of each table; None when there are none."""
        places = [self.store.path(*parts) for parts in self.files(slices, wanted)]
        if not places:
            return None
        struct = arrow_struct(self.shape.schema)
        others = [name for name in struct.names if name not in ("tab", "part")]
        rows = spark.read.schema(struct).parquet(*places)
        return rows.where(among(wanted)).selectExpr("tab", f"{KEPT} AS part", *others)


class Work(Protocol):
    """One micro-batch, wherever it is done."""

    counts: dict[int, Count]
    pending: int | None  # online: answers that may still come
    anew: bool  # whether the results are all of the state, not new slices of it

    def arrived(self, before: Clock) -> Arrived:
        """Mark the rows that are facts, and say what there is of them."""

    def answers(self, query: str, relation: Relation) -> Rows:
        """Packed answers a row each, under the names and with the times users asked for."""

    def keep(self, tabs: list[int], place: tuple[str, ...]) -> None:
        """Write the rows of some tables as state."""

    def dead_letters(self, arrived: Arrived, place: tuple[str, ...]) -> None:
        """Write the rows that are not used as JSON lines, with the reason."""

    def release(self) -> None:
        """Nothing of it is needed any more."""


def chunks(ranges: Iterable[Range]) -> list[tuple[int, int]]:
    return [(chunk(int(r.low)), chunk(int(r.high))) for r in ranges]


def among(wanted: dict[int, list[tuple[int, int]]]) -> str:
    """SQL for the rows of some chunks."""
    parts = [
        f"(tab = {tab} AND c BETWEEN {low} AND {high})"
        for tab, found in wanted.items()
        for low, high in found
    ]
    return " OR ".join(parts) or "FALSE"


@dataclass
class _Terms:
    """SQL that says which rows are facts, the same for both engines."""

    before: Clock
    max_jump: int | None
    limit: int | None = None

    @property
    def late(self) -> str:
        return "FALSE" if self.before.tin is None else f"t <= {self.before.tin}"

    @property
    def fine(self) -> str:
        found = f"problem IS NULL AND NOT ({self.late})"
        return found if self.limit is None else f"{found} AND t <= {self.limit}"

    def counted(self, which: str = "TRUE") -> tuple[str, ...]:
        """Facts, late ones and all rows, first and last tick, of some rows."""
        fine = f"{which} AND {self.fine}"
        return (
            f"count_if({fine})",
            f"count_if({which} AND problem IS NULL AND {self.late})",
            f"count_if({which})",
            f"min(CASE WHEN {fine} THEN t END)",
            f"max(CASE WHEN {fine} THEN t END)",
        )

    @property
    def reason(self) -> str:
        late = f"' came after everything up to {self.before.tin} had arrived'"
        ahead = f"' is more than {self.max_jump} ahead of {self.limit}'"
        return (
            f"coalesce(problem, CASE WHEN {self.late} THEN concat('late: tick ', t, {late})"
            f" ELSE concat('tick ', t, {ahead}) END)"
        )

    def limit_of(self, ticks: Iterable[int]) -> None:
        """Nothing counts from the first leap on that is longer than allowed."""
        at = max(self.before.seen.values(), default=None)
        for tick in ticks:
            if at is not None and self.max_jump is not None and tick - at > self.max_jump:
                self.limit = at
                return
            at = tick if at is None else max(at, tick)


class There(ABC):
    """A batch in Spark's partitions."""

    pending: int | None = None
    anew = False

    def __init__(self, setting: Setting, spark: SparkSession, rows: DataFrame | None) -> None:
        self.setting, self.spark, self.rows = setting, spark, rows
        self.counts: dict[int, Count] = {}
        self.packed: DataFrame | None = None  # the facts, as the row format has them
        self.out: DataFrame | None = None

    @abstractmethod
    def pack(self, facts: DataFrame) -> DataFrame:
        """Facts in the row format."""

    def arrived(self, before: Clock) -> Arrived:
        """Read, count and pack, all in one pass."""
        assert self.rows is not None
        self.terms = terms = _Terms(before, self.setting.max_jump)
        found = Arrived()
        if terms.max_jump is not None:
            ticks = self.rows.where(terms.fine).select("t").distinct().sort("t")
            terms.limit_of(row.t for row in ticks.toLocalIterator())
            found.limit = terms.limit
        names = dict(enumerate(self.setting.inputs.names))
        seen = Observation()
        counted = [
            F.expr(text).alias(f"n{tag}_{i}")
            for tag in names
            for i, text in enumerate(terms.counted(f"tag = {tag}"))
        ]
        counted.append(F.expr("count(*)").alias("rows"))
        facts = self.rows.observe(seen, *counted).where(terms.fine)
        self.packed = self.pack(facts).persist()
        self.packed.count()
        for tag, name in names.items():
            numbers = [seen.get[f"n{tag}_{i}"] for i in range(len(terms.counted()))]
            if numbers[2]:
                found.add(name, *numbers)
        found.dead = seen.get["rows"] - found.facts - found.late  # some name no input
        return found

    def take(self, rows: DataFrame) -> None:
        """Have these rows as results."""
        self.out = rows.persist()  # or every look at them would run the kernels again
        counted = self.out.groupBy("tab").agg(
            F.count("*"), F.min("c"), F.max("c"), F.sum(F.bit_count("b"))
        )
        self.counts = {tab: Count(*map(int, found)) for tab, *found in counted.collect()}

    def answers(self, query: str, relation: Relation) -> Rows:
        assert self.out is not None
        ticks = self.setting.inputs.ticks if self.setting.timestamps else None
        return unpacked(self.out, relation, self.setting.program.output_columns(query), ticks)

    def keep(self, tabs: list[int], place: tuple[str, ...]) -> None:
        assert self.out is not None
        rows = self.out.where(F.col("tab").isin(tabs)).drop("part")
        files = 1 + sum(self.counts[tab].rows for tab in tabs) // FILE_ROWS
        spread = rows.coalesce(files).sortWithinPartitions("tab", "c")
        save(spread, "parquet", self.setting.store, place)

    def dead_letters(self, arrived: Arrived, place: tuple[str, ...]) -> None:
        assert self.rows is not None
        predicate: Column = F.lit(None)
        row: Column = F.lit(None)
        inputs = self.setting.inputs
        for name in inputs.names:
            schema = inputs.schemas[name]
            values = [
                F.col(slot).alias(column.name)
                for column, slot in zip(schema.columns, inputs.slots(name), strict=True)
            ]
            text = F.to_json(
                F.struct(*values, F.col("t").alias(str(schema.time))), {"ignoreNullFields": "false"}
            )
            here = F.col("tag") == inputs.tag(name)
            predicate = F.when(here, name).otherwise(predicate)
            row = F.when(here, text).otherwise(row)
        letters = self.rows.where(f"NOT ({self.terms.fine})").select(
            predicate.alias("predicate"),
            F.expr(self.terms.reason).alias("reason"),
            F.url_decode("file").alias("file"),
            F.parse_json(row).alias("row"),
        )
        save(letters, "json", self.setting.store, place)

    def release(self) -> None:
        for rows in (self.out, self.packed):
            if rows is not None:
                rows.unpersist()


class Here:
    """A batch that is little work, done in the driver: the only job of Spark's is to fetch it."""

    pending: int | None = None
    anew = False

    def __init__(self, setting: Setting, rows: pa.Table | None) -> None:
        self.setting, self.rows = setting, rows
        self.counts: dict[int, Count] = {}
        self.connection = duckdb.connect(config={"threads": 1})
        if rows is not None:
            self.connection.register("arriving", rows)

    def arrived(self, before: Clock) -> Arrived:
        self.terms = terms = _Terms(before, self.setting.max_jump)
        found = Arrived()
        if terms.max_jump is not None:
            ticks = f"SELECT DISTINCT t FROM arriving WHERE {terms.fine} ORDER BY t"
            terms.limit_of(t for (t,) in self.connection.execute(ticks).fetchall())
            found.limit = terms.limit
        names = dict(enumerate(self.setting.inputs.names))
        counted = f"SELECT tag, {', '.join(terms.counted())} FROM arriving GROUP BY tag"
        for tag, *numbers in self.connection.execute(counted).fetchall():
            found.add(names.get(tag, ""), *numbers)
        return found

    def take(self, rows: pa.Table) -> None:
        """Have these rows as results."""
        self.connection.register("results", rows)
        counted = f"SELECT tab, count(*), min(c), max(c), {COUNT} FROM results GROUP BY tab"
        self.counts = {
            tab: Count(*numbers) for tab, *numbers in self.connection.execute(counted).fetchall()
        }

    def answers(self, query: str, relation: Relation) -> Rows:
        names = list(self.setting.program.output_columns(query))
        packed = f"(SELECT * FROM results WHERE tab = {relation.number}) AS q"
        order = ", ".join(["t", *relation.slots])
        rows = f"{unpack_sql(relation.slots, packed)} ORDER BY {order}"
        table = self.connection.sql(rows).to_arrow_table()
        if not relation.temporal:
            return without_time(table, names)
        ticks = self.setting.inputs.ticks
        if ticks is not None and self.setting.timestamps:
            stamps = timestamps(table.column(-1), ticks)
            table = table.set_column(table.num_columns - 1, "t", stamps)
        return table.rename_columns([*names, TIME_COLUMN])

    def keep(self, tabs: list[int], place: tuple[str, ...]) -> None:
        some = ", ".join(map(str, tabs))
        select = f"SELECT * EXCLUDE (part) FROM results WHERE tab IN ({some}) ORDER BY tab, c"
        table = self.connection.sql(select).to_arrow_table()
        save(table, "parquet", self.setting.store, place)

    def dead_letters(self, arrived: Arrived, place: tuple[str, ...]) -> None:
        inputs = self.setting.inputs
        found = self.connection.sql(
            f"SELECT *, {self.terms.reason} AS reason FROM arriving WHERE NOT ({self.terms.fine})"
        ).to_arrow_table()
        lines = []
        for row in found.to_pylist():
            letter = {"predicate": None, "reason": row["reason"], "file": row["file"], "row": None}
            if row["tag"] >= 0:
                name = inputs.names[row["tag"]]
                schema = inputs.schemas[name]
                values = [row[slot] for slot in inputs.slots(name)]
                letter |= {
                    "predicate": name,
                    "row": dict(zip(schema.names, [*values, row["t"]], strict=True)),
                }
            if letter["file"] is not None:
                letter["file"] = unquote(letter["file"])
            lines.append(json.dumps(letter, ensure_ascii=False))
        data = "".join(f"{line}\n" for line in lines).encode()
        self.setting.store.write(data, *place, "part-00000.json")

    def release(self) -> None:
        self.connection.close()


def without_time(table: pa.Table, names: list[str]) -> pa.Table:
    """Answers of a query without a time."""
    table = table.drop_columns(["t"])
    if not names:
        return pa.table({"holds": pa.array([True] * table.num_rows, pa.bool_())})
    return table.rename_columns(names)


def configure(spark: SparkSession, partitions: int) -> None:
    """What our own queries rely on, on a session that is nobody else's."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
    spark.conf.set("spark.sql.parquet.compression.codec", "zstd")
