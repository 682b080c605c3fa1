"""The wave as a job for the partitions, and the whole of it in the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from tidelog.analysis.stages import Stage
from tidelog.evaluation.layout import Layout
from tidelog.evaluation.rows import DONE, KEPT, NEW, Relation, kept_rows
from tidelog.evaluation.spark.kernel import Kernel, Worker
from tidelog.evaluation.spark.stages import StageOutput, StageTables
from tidelog.streaming.clock import Span
from tidelog.streaming.schedule import Schedule
from tidelog.streaming.wave import AHEAD, Wave


@dataclass(frozen=True)
class WaveJob:
    """The stages of an offline stream; what is asked of them is the span of a wave."""

    layout: Layout
    schedule: Schedule
    shorter: str = AHEAD

    def outputs(self, tables: StageTables, index: int, asked: Span) -> Iterator[StageOutput]:
        """One stage of a wave over rows that are new or kept."""
        stage = self.layout.stages[index]
        facts = tables.facts(stage)
        state = self.kept(tables, self.layout.reads(stage) | self.layout.own(stage), asked)
        tables.foreign(stage, state)
        yield from tables.passing(index)
        yield from self.waved(tables, stage, asked, state, facts, tables.passed_on(index))

    def waved(
        self,
        tables: StageTables,
        stage: Stage | None,
        span: Span,
        state: dict[str, str],
        facts: Mapping[str, str],
        passed: Iterable[str] = (),
    ) -> Iterator[StageOutput]:
        """One stage of a wave, or all of it."""
        layout = self.layout
        for query, relation in layout.given.items():
            if query in span.early and (stage is None or query in stage.predicates):
                state[query] = f"given{relation.number}"
                tables.engine.table(f"given{relation.number}", tables.merged(relation, KEPT))
        steps = None if stage is None else layout.steps(stage)
        wave = Wave(tables.runner)
        waved = wave.run(self.schedule, span, state, facts, steps=steps, passed=passed)
        for name, select in waved.state.items():
            yield StageOutput(layout.tables[name], DONE, select)
        for name, select in waved.passed.items():
            yield StageOutput(layout.derived[name], NEW, select)
        for query, select in waved.answers.items():
            if query in layout.answers:
                yield StageOutput(layout.answers[query], DONE, select)
        for query, select in waved.given.items():
            yield StageOutput(layout.given[query], DONE, select)

    def kept(
        self, tables: StageTables, relations: Mapping[str, Relation], span: Span
    ) -> dict[str, str]:
        """Tables of the slices that are kept and looked at, where there are any."""
        state: dict[str, str] = {}
        for name, relation in relations.items():
            if tables.kept is not None and relation.number not in tables.kept:
                continue
            to = span.to + span.ahead
            looked = self.schedule.looked_at(name, span.tin, to, span.start)
            parts = [tables.merged(relation, KEPT, range_) for range_ in looked]
            if parts:
                state[name] = f"{name}_old"
                tables.engine.table(f"{name}_old", tables.united(relation, parts))
        return state


class WaveWorker:
    """The kernel of an offline stream in the driver: whole waves."""

    def __init__(self, kernel: Kernel[Span], job: WaveJob, threads: int) -> None:
        self.worker = Worker(kernel, threads)
        self.job = job
        self.layout = job.layout

    def close(self) -> None:
        self.worker.close()

    def waved(self, span: Span, new: pa.Table, kept: pa.Table | None) -> Iterator[pa.RecordBatch]:
        """A whole wave over rows that are new and rows that are kept."""
        worker, schema = self.worker, self.layout.schema
        old = schema.empty_table() if kept is None else kept_rows(kept, schema)
        worker.load(pa.concat_tables([old, new]))
        there = set(old.column("tab").unique().to_pylist())
        tables = StageTables(self.layout, worker.runner, worker.inputs, there)
        state = self.job.kept(tables, self.layout.tables, span)
        facts = tables.packed(self.layout.scans)
        yield from worker.rows(self.job.waved(tables, None, span, state, facts))
