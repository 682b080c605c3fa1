"""A micro-batch of an offline stream: a wave through its stages, in partitions or the driver."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.data.packed import chunk
from tidelog.evaluation.layout import Layout
from tidelog.evaluation.ranges import Range
from tidelog.evaluation.rows import DONE
from tidelog.evaluation.spark.chain import Chain
from tidelog.evaluation.spark.kernel import Kernel, packed_tables
from tidelog.evaluation.spark.packing import Packing
from tidelog.pipeline.checkpoint import Commit, Slice
from tidelog.pipeline.kernel import WaveJob, WaveWorker
from tidelog.pipeline.loop import Pipeline
from tidelog.pipeline.work import (
    EVER,
    FIRST,
    Arrived,
    Here,
    Setting,
    There,
    Work,
    chunks,
)
from tidelog.streaming.clock import Clock, Emission
from tidelog.streaming.schedule import Schedule
from tidelog.streaming.wave import Span


@dataclass
class Waves(Setting):
    """What the waves of a stream work with."""

    layout: Layout
    schedule: Schedule
    emission: Emission
    kernel: Kernel[Span]

    @cached_property
    def packing(self) -> Packing:
        return Packing(self.layout, self.inputs)

    @property
    def job(self) -> WaveJob:
        return WaveJob(self.layout, self.schedule)

    @cached_property
    def worker(self) -> WaveWorker:
        """The kernel in this process."""
        kernel = replace(self.kernel, partitions=1, rigid=packed_tables(self.tables))
        return WaveWorker(kernel, self.job)

    def close(self) -> None:
        if "worker" in self.__dict__:
            self.worker.close()
            del self.worker

    def looked_at(self, span: Span) -> dict[int, list[tuple[int, int]]]:
        """The chunks of each table that a wave looks at."""
        to = span.to + span.ahead
        found = {
            relation.number: chunks(self.schedule.looked_at(name, span.tin, to, span.start))
            for name, relation in self.layout.tables.items()
        }
        for query in span.early:
            asked = span.asked[query]
            first = span.early[query] if asked.empty else int(asked.low)
            found[self.layout.given[query].number] = [(chunk(first), EVER)]
        return found

    def rigid(self, spark: SparkSession) -> dict[str, DataFrame]:
        """Rigid facts as Catalyst has them: the files of the checkpoint."""
        return {
            name: spark.read.parquet(self.store.path("rigid", f"{i}.parquet"))
            for i, name in enumerate(self.tables)
        }


class WaveThere(There):
    """Packed in Catalyst, then one stage after the other."""

    setting: Waves
    chain: Chain[Span] | None = None

    def pack(self, facts: DataFrame) -> DataFrame:
        return self.setting.packing.packed(facts, self.setting.layout.scans)

    def wave(self, arrived: Arrived, slices: Iterable[Slice], span: Span | None) -> None:
        setting = self.setting
        layout = setting.layout
        facts = self.packed
        if span is None:
            if facts is not None:
                self.take(facts.withColumn("part", F.lit(DONE)))
            return
        wanted, parts = setting.looked_at(span), list(slices)

        def new(scans: set[str]) -> DataFrame | None:
            if facts is None or not scans:
                return None
            return facts.where(F.col("tab").isin([layout.scans[name].number for name in scans]))

        def kept(tabs: set[int]) -> DataFrame | None:
            some = {tab: found for tab, found in wanted.items() if tab in tabs}
            return setting.read(self.spark, parts, some)

        self.chain = Chain(
            self.spark,
            setting.job,
            setting.kernel,
            setting.rigid(self.spark),
            new,
            kept,
        )
        self.take(self.chain.rows(span))

    def release(self) -> None:
        super().release()
        if self.chain is not None:
            self.chain.release()


class WaveHere(Here):
    """The whole wave at once."""

    setting: Waves

    def wave(self, arrived: Arrived, slices: Iterable[Slice], span: Span | None) -> None:
        facts: dict[str, pa.Table] = {}
        if self.rows is not None and arrived.facts:
            for name in self.setting.inputs.names:
                slots = "".join(
                    f"{slot} AS a{i}, " for i, slot in enumerate(self.setting.inputs.slots(name), 1)
                )
                facts[name] = self.connection.sql(
                    f"SELECT {slots}t FROM arriving"
                    f" WHERE tag = {self.setting.inputs.tag(name)} AND {self.terms.fine}"
                ).to_arrow_table()
        worker = self.setting.worker
        schema = self.setting.layout.schema
        if span is None:
            found = worker.packed(facts)
        else:
            wanted = self.setting.looked_at(span)
            kept = [
                pq.read_table(pa.BufferReader(self.setting.store.read(*parts)))
                for parts in self.setting.files(slices, wanted)
            ]
            found = worker.waved(span, facts, pa.concat_tables(kept) if kept else None)
        self.take(pa.Table.from_batches(list(found), schema))


class Offline(Pipeline):
    """Batches of waves: each predicate is computed once, by the schedule."""

    setting: Waves

    @property
    def queries(self) -> tuple[str, ...]:
        return self.setting.schedule.deps.queries

    def _here(self, rows: pa.Table | None) -> Work:
        return WaveHere(self.setting, rows)

    def _there(self, spark: SparkSession, rows: DataFrame | None) -> Work:
        return WaveThere(self.setting, spark, rows)

    def _advance(
        self, work: Work, rows: DataFrame | None, clock: Clock, arrived: Arrived
    ) -> tuple[Work, Clock]:
        last = self.checkpoint.last
        before = Clock() if last is None else last.clock
        clock, span = clock.wave(self.setting.schedule, self.pace, self.setting.emission)
        if isinstance(work, WaveHere) and span is not None and not self._little(last, span):
            work = self._moved(work, rows, before)
        assert isinstance(work, (WaveHere, WaveThere))
        work.wave(arrived, () if last is None else last.state, span)
        return work, clock

    def _little(self, last: Commit | None, span: Span) -> bool:
        parts = () if last is None else last.state
        state = sum(n for part in parts for _, _, n in part.tables.values())
        return state <= self.little and span.to - span.tin <= FIRST

    def _tout(self, clock: Clock) -> int | None:
        return clock.tout(self.setting.schedule, self.setting.emission)

    def _kept(self, name: str, clock: Clock) -> list[Range]:
        """The ticks of a table that later batches may look at."""
        schedule, emission, layout = (
            self.setting.schedule,
            self.setting.emission,
            self.setting.layout,
        )
        if clock.start is None or clock.done is None:
            return [Range(-EVER, EVER)]
        if name.endswith("?"):
            query = name.removesuffix("?")
            return [Range(emission.final(schedule, query, clock.done, clock.start) + 1, EVER)]
        if emission.window is not None:
            inputs = name in layout.scans
            return [Range(clock.done - emission.window + 1, EVER)] if inputs else []
        first = schedule.kept_from(name, clock.done, clock.start)
        if name in layout.scans:
            first = clock.done + 1 if first is None else min(first, clock.done + 1)
        found = [] if first is None else [Range(first, EVER)]
        return found + [Range(tick, tick) for tick in schedule.pinned.get(name, ())]
