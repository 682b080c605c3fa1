"""The plan of a stream on Spark: all that is settled before anything runs, as data.

`tidelog run` runs this plan, and `tidelog explain --show pipeline` prints it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias, assert_never

import pyarrow as pa

from tidelog.analysis.dependencies import Dependencies, dependencies
from tidelog.analysis.passes import passes
from tidelog.data.packed import columns
from tidelog.data.schema import Schema, schemas
from tidelog.errors import DataError
from tidelog.evaluation.layout import Layout
from tidelog.evaluation.rows import Relation
from tidelog.language.alignment import rules_text
from tidelog.language.program import Program
from tidelog.logic.core import Core
from tidelog.pipeline.kernel import WaveJob
from tidelog.pipeline.shards import Shards
from tidelog.streaming.aggregates_first import by_schedule
from tidelog.streaming.clock import Emission, Pace
from tidelog.streaming.offline import enough_window, least_delays
from tidelog.streaming.options import StreamOptions, expect_inputs
from tidelog.streaming.schedule import Schedule


class RowFormat(Protocol):
    """The rows of a stream's tables: what is kept, what is known of answers, what is told."""

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


@dataclass(frozen=True)
class OfflineWork:
    """Waves through stages: each predicate is computed once, by the schedule.

    `settled` is what the first start of the stream found out: delays and window are looked for
    within a time limit, so that a later start might find others.
    """

    program: Program
    schedule: Schedule
    layout: Layout
    large: list[str]  # rigid inputs that are not sent to every worker
    options: StreamOptions
    settled: Mapping[str, Any] = field(default_factory=dict)

    @property
    def core(self) -> Core:
        return self.schedule.deps.core

    @property
    def job(self) -> WaveJob:
        """What is done in the partitions."""
        return WaveJob(self.layout, self.schedule)

    @cached_property
    def delays(self) -> dict[str, int]:
        """By query with a time, how long after tin its answers are final."""
        if "delays" in self.settled:
            known: dict[str, int] = self.settled["delays"]
            return known
        return least_delays(self.program, self.schedule)

    @cached_property
    def window(self) -> int | None:
        """In the strict style, of how many ticks input facts are kept."""
        if "window" in self.settled:
            known: int | None = self.settled["window"]
            return known
        if not self.options.strict:
            return None
        return enough_window(self.program, self.schedule, self.delays)

    @property
    def emission(self) -> Emission:
        return Emission(self.delays, self.options.eager, self.window)

    def identity(self) -> dict[str, Any]:
        return {
            "large": self.large,
            "delays": self.delays,
            "history": self.options.history,
            "window": self.window,
        }


@dataclass(frozen=True)
class OnlineWork:
    """Turns of shards: answers as soon as every shard is sure, and live facts only."""

    shards: Shards

    @property
    def core(self) -> Core:
        return self.shards.deps.core

    def identity(self) -> dict[str, Any]:
        return {}


Work: TypeAlias = OfflineWork | OnlineWork


@dataclass(frozen=True)
class PipelinePlan:
    """What a stream on Spark reads, derives, keeps and answers, and where it does so."""

    program: Program  # with the types of the data
    queries: tuple[str, ...]
    options: StreamOptions
    work: Work

    @property
    def rows(self) -> RowFormat:
        match self.work:
            case OfflineWork(layout=layout):
                return layout
            case OnlineWork(shards=shards):
                return shards
            case _ as never:
                assert_never(never)

    @cached_property
    def inputs(self) -> dict[str, Schema]:
        """The inputs with a time that the queries need; a clock starts with any of them."""
        known = schemas(self.program, self.queries)
        if self.clocks:
            return {name: schema for name, schema in known.items() if schema.time is not None}
        return {p.base: known[p.base] for p in self.work.core.inputs if p.temporal}

    @cached_property
    def clocks(self) -> tuple[str, ...]:
        """The clocks that the queries need."""
        needed = {p.base for p in self.work.core.inputs}
        return tuple(name for name in self.program.clocks if name in needed)

    @cached_property
    def asking_for_absence(self) -> dict[str, Dependencies]:
        """What each query needs that a late fact could make wrong, not only miss something."""
        needed = passes(self.program, self.queries)
        each = {query: needed.dependencies_of(query) for query in self.queries}
        return {query: deps for query, deps in each.items() if deps.negated}

    @property
    def pace(self) -> Pace:
        options = self.options
        names = tuple(sorted(self.inputs))
        return Pace(names, options.lateness, frozenset(options.sparse), options.from_)

    @property
    def constant(self) -> list[str]:
        """The queries that rest on nothing with a time: answered before anything arrives."""
        return [query for query in self.queries if query not in self.rows.answers]

    def state_tables(self) -> dict[str, dict[str, Any]]:
        """By number, the tables of state files: predicate, kind, and names and slots of columns.

        For people and tools that read a checkpoint; no start reads it.
        """
        rows, work = self.rows, self.work
        known = {r.number: r for r in (*rows.tables.values(), *rows.given.values())}
        places = {number: place for number, place in rows.places.items() if number in known}
        known |= {r.number: r for r in rows.answers.values()}
        places |= {r.number: (query, "intervals") for query, r in rows.answers.items()}
        chosen = work.layout.scan_columns if isinstance(work, OfflineWork) else {}
        return {
            str(number): {
                "predicate": predicate,
                "kind": kind,
                "columns": self._columns(predicate, known[number], chosen.get(number)),
                "slots": list(known[number].slots),
                "temporal": known[number].temporal,
            }
            for number, (predicate, kind) in sorted(places.items())
        }

    def _columns(
        self, predicate: str, relation: Relation, chosen: tuple[int, ...] | None
    ) -> list[str]:
        """The names of a table's columns as users know them, where it has those."""
        names = list(self.program.output_columns(predicate))
        if chosen is not None:
            names = [names[i] for i in chosen]
        count = len(relation.slots)
        return names if len(names) == count else columns(count)

    def identity(self, sink: str) -> dict[str, Any]:
        """What a later start has to have in common with the first one, by name."""
        return {
            "program": rules_text(self.program),
            "queries": list(self.queries),
            "inputs": {
                name: {
                    "columns": [[c.name, str(c.type)] for c in schema.columns],
                    "time": schema.time,
                }
                for name, schema in sorted(schemas(self.program).items())
            },
            **self.options.identity(),
            **self.work.identity(),
            "sink": sink,
            "tables": {
                name: [relation.number, *map(str, relation.types)]
                for name, relation in self.rows.tables.items()
            },
        }


def pipeline_plan(
    program: Program,
    queries: tuple[str, ...],
    options: StreamOptions | None = None,
    *,
    large: Iterable[str] = (),
    settled: Mapping[str, Any] | None = None,
) -> PipelinePlan:
    """The plan of some queries; raises Blocking where there is none that runs offline.

    `large` are the rigid inputs with many facts, and `settled` is what the first start of the
    stream wrote down.
    """
    options, settled = options or StreamOptions(), settled or {}
    work: Work
    if options.online and not by_schedule(passes(program, queries)):
        work = _online(program, queries, options)
    else:
        many = settled.get("large", list(large))
        split = passes(program, queries).stream_stages(many)
        schedule = Schedule(split.deps)
        layout = Layout(schedule.plan, split.stages)
        work = OfflineWork(program, schedule, layout, many, options, settled)
    plan = PipelinePlan(program, queries, options, work)
    temporal = {name for name, schema in schemas(program).items() if schema.time is not None}
    for name in sorted(set(options.sparse) - temporal):
        raise DataError(f"`{name}` is listed as sparse and is no temporal input")
    expect_inputs(options.idle, temporal)
    sparse = tuple(sorted(set(options.sparse) & set(plan.inputs)))
    return replace(plan, options=replace(options, sparse=sparse))


def _online(program: Program, queries: tuple[str, ...], options: StreamOptions) -> OnlineWork:
    """What an online stream derives; queries that rest on nothing temporal are not among it."""
    needed = passes(program, queries)
    rules = needed.planned
    derived = {name for stage in needed.stages().stages for name in stage.predicates}
    asked = tuple(query for query in queries if query in derived)
    return OnlineWork(Shards(program, dependencies(rules.core, asked), options.eager))
