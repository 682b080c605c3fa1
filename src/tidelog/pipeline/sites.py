"""Execution sites: the driver for little work, the executors for much."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, Protocol, TypeVar, assert_never

import duckdb
import pyarrow as pa
from pyspark.sql import SparkSession

from tidelog.evaluation.spark.files import FileBatch
from tidelog.evaluation.spark.shipping import is_local, threads_here
from tidelog.evaluation.spark.sources import NO_PATTERNS, Inputs
from tidelog.evaluation.spark.splits import reading
from tidelog.pipeline.commit import Checkpoint, StatePart
from tidelog.pipeline.modes import EVER, Derived, Mode
from tidelog.pipeline.places import (
    Arriving,
    Driver,
    Executors,
    Place,
    SparkAnswers,
    configure,
    few,
)
from tidelog.pipeline.plan import PipelinePlan
from tidelog.streaming.clock import Clock
from tidelog.streaming.sinks.sink import BatchAnswers, LocalAnswers

# Rows of facts and rows of state up to which a batch is done in the driver.
LITTLE = 1_000_000
# How many times as many it may be in files that nobody has to fetch.
MANY_IN_FILES = 4
# Bytes of rows that the driver fetches for that.
LITTLE_BYTES = 128 << 20
# Rows up to which no batch is too much for the driver.
SMALL = 100_000

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)


class Sites(Protocol[S_contra]):
    """Where batches are done; a simulation has a site of its own."""

    def site(self, rows: Arriving | None, number: int) -> Place:
        """Where to do a batch, as far as that can be told beforehand."""

    def exceeds(self, place: Place, step: S_contra, parts: tuple[StatePart, ...]) -> bool:
        """Whether a step is too large for a site: it reads much state, or derives much."""

    def executors(self, rows: Arriving | None) -> Executors:
        """The site for a batch that is much."""

    def advance(
        self, place: Place, step: S_contra | None, clock: Clock, parts: tuple[StatePart, ...]
    ) -> Derived:
        """Do a step at a site."""

    def local(self, table: pa.Table) -> BatchAnswers:
        """A table of this process as answers."""

    def read_back(self, number: int, answers: dict[str, BatchAnswers]) -> dict[str, BatchAnswers]:
        """The same answers, from files of the checkpoint; what is in this process stays there."""

    def close(self) -> None:
        """No more batches will come."""


@dataclass
class SparkSites(Generic[S]):
    """The driver of Spark, and its executors."""

    spark: SparkSession
    plan: PipelinePlan
    mode: Mode[S]
    inputs: Inputs
    checkpoint: Checkpoint
    partitions: int
    _held: ExitStack = field(default_factory=ExitStack)  # what is open between batches

    @property
    def _little(self) -> int:
        return EVER if self.mode.only_in_driver else LITTLE

    def site(self, rows: Arriving | None, number: int) -> Place:
        if rows is None:
            return self._driver(None)
        configure(rows.sparkSession, self.partitions)
        if isinstance(rows, FileBatch):
            # This process reads files as fast as tasks on the same machine do.
            little = self._little * (MANY_IN_FILES if is_local(self.spark) else 1)
            if self.mode.only_in_driver or self._may_try(number, rows.rows, little):
                return self._driver(rows)
            return self.executors(rows)
        if self.mode.only_in_driver:
            return self._driver(rows.toArrow())
        if self._little >= 0 and not self.checkpoint.was_tried(number):
            some = few(rows, self._little, LITTLE_BYTES)
            if some is not None and self._may_try(number, some.num_rows, self._little):
                return self._driver(some)
        return self.executors(rows)

    def _may_try(self, number: int, rows: int, little: int) -> bool:
        """Whether the driver is the place for so many rows.

        One that is not small is noted: should the driver not live to its end, as for want of
        memory, the next start leaves it to the executors.
        """
        if rows <= min(SMALL, little):
            return True
        if rows > little or self.checkpoint.was_tried(number):
            return False
        self.checkpoint.note_try(number)
        return True

    def exceeds(self, place: Place, step: S, parts: tuple[StatePart, ...]) -> bool:
        is_much = sum(part.rows for part in parts) > self._little or self.mode.is_long(step)
        return is_much and isinstance(place, Driver)

    def _driver(self, rows: pa.Table | FileBatch | None) -> Driver:
        store = self.checkpoint.store
        return Driver(self.plan, self.inputs, store, rows, self.spark, self._database)

    @cached_property
    def _database(self) -> duckdb.DuckDBPyConnection:
        """For the batches done in this process: to open one takes longer than a small batch."""
        return self._held.enter_context(reading(None, threads_here(self.spark), in_order=True))

    def executors(self, rows: Arriving | None) -> Executors:
        spark, store = self._session(rows), self.checkpoint.store
        return Executors(self.plan, self.inputs, store, rows, spark, self.mode)

    def _session(self, rows: Arriving | None) -> SparkSession:
        """The session that Spark made for the rows of a batch, or a new one."""
        if rows is not None:
            return rows.sparkSession
        spark = self.spark.newSession()
        configure(spark, self.partitions)
        return spark

    def advance(
        self, place: Place, step: S | None, clock: Clock, parts: tuple[StatePart, ...]
    ) -> Derived:
        match place:
            case Driver():
                return self.mode.in_driver(place, step, clock, parts)
            case Executors():
                return self.mode.in_executors(place, step, clock, parts)
            case _ as never:
                assert_never(never)

    def local(self, table: pa.Table) -> BatchAnswers:
        return LocalAnswers(table, self.spark)

    def read_back(self, number: int, answers: dict[str, BatchAnswers]) -> dict[str, BatchAnswers]:
        store = self.checkpoint.store
        reader = self.spark.read.options(**NO_PATTERNS)
        stored: dict[str, BatchAnswers] = {}
        for i, (query, rows) in enumerate(answers.items()):
            if isinstance(rows, LocalAnswers):
                stored[query] = rows
                continue
            place = ("answers", str(number), str(i))
            rows.save("parquet", store, place)
            stored[query] = SparkAnswers(reader.parquet(store.path(*place)))
        return stored

    def close(self) -> None:
        self._held.close()
        self.__dict__.pop("_database", None)
