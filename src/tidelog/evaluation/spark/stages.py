"""What a stage does with the rows that reach it, for either engine: a job.

A job is plain data that travels to the partitions. Queries over finite facts have one here; streams
have another, which adds the wave (`pipeline/kernel.py`).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tidelog.analysis.stages import Stage
from tidelog.data.ticks import Range
from tidelog.evaluation.engine import SqlEngine
from tidelog.evaluation.layout import Layout
from tidelog.evaluation.recursion import SHORTER
from tidelog.evaluation.rows import DONE, NEW, Relation
from tidelog.evaluation.sql import Writer
from tidelog.evaluation.steps import StepRunner
from tidelog.logic.core import Predicate, Role

# What a run of a job is about: the span of a wave, or nothing.
A = TypeVar("A")
AskedOf = TypeVar("AskedOf", contravariant=True)

# The table that holds the rows which reached a partition.
ARRIVED = "arrived"


@dataclass(frozen=True)
class StageOutput:
    """A select whose rows are some of a table, packed; or whole rows, without a relation."""

    relation: Relation | None
    part: int
    select: str


class Job(Protocol[AskedOf]):
    """The work of all stages."""

    @property
    def layout(self) -> Layout: ...

    @property
    def shorter(self) -> str:
        """What to do where something would hold at more ticks than can be written out."""

    def outputs(self, tables: StageTables, index: int, asked: AskedOf) -> Iterator[StageOutput]:
        """One stage over the rows that have arrived."""


@dataclass(frozen=True)
class StageTables:
    """What a stage works on: rigid facts, and tables in the rows that have arrived."""

    layout: Layout
    runner: StepRunner
    inputs: Mapping[str, str]  # tables of rigid facts
    kept: Container[int] | None = None  # the tables of which there are kept rows, if that is known

    @property
    def engine(self) -> SqlEngine:
        return self.runner.engine

    def facts(self, stage: Stage) -> dict[str, str]:
        """Rigid facts by input, and by scan a view of its new facts, packed."""
        reads = self.layout.reads(stage)
        return self.packed({n: r for n, r in reads.items() if n in self.layout.scans})

    def packed(self, scans: Mapping[str, Relation]) -> dict[str, str]:
        """The same for some scans."""
        facts = dict(self.inputs)
        for name, relation in scans.items():
            facts[name] = f"{name}_new"
            self.engine.view(f"{name}_new", self.merged(relation, NEW))
        return facts

    def foreign(self, stage: Stage, state: dict[str, str]) -> None:
        """Make the tables that other stages derive: what is new, and what `state` has of them."""
        for name, relation in self.layout.foreign(stage).items():
            parts = [self.merged(relation, NEW)]
            parts += [f"SELECT * FROM {state.pop(name)}"] if name in state else []
            self.engine.table(name, self.united(relation, parts))

    def passing(self, index: int) -> Iterator[StageOutput]:
        """What was done before this stage, and what came for later stages, goes on as it is."""
        if not index:
            return
        own = self.layout.own(self.layout.stages[index])
        through = [str(r.number) for n, r in self.layout.passed(index).items() if n not in own]
        going = f"part = {DONE}"
        going += f" OR (part = {NEW} AND tab IN ({', '.join(through)}))" if through else ""
        yield StageOutput(None, DONE, f"SELECT * FROM {ARRIVED} WHERE {going}")

    def passed_on(self, index: int) -> list[str]:
        """The tables of this stage that later ones look at."""
        own = self.layout.own(self.layout.stages[index])
        return [name for name in self.layout.passed(index) if name in own]

    def merged(self, relation: Relation, part: int, within: Range | None = None) -> str:
        """The packed facts of a table among the rows, at the times within a range."""
        where = f"tab = {relation.number} AND part = {part}"
        rows = f"SELECT {relation.values()} FROM {ARRIVED} WHERE {where}"
        return self._merge(relation, [rows], within)

    def united(self, relation: Relation, parts: list[str]) -> str:
        """Several selects of a table as one."""
        return self._merge(relation, parts, None)

    def _merge(self, relation: Relation, parts: list[str], within: Range | None) -> str:
        shape = Predicate(relation.name, True, relation.types, Role.DERIVED, relation.name)
        return Writer(self.layout.plan).merge(shape, parts, within)


@dataclass(frozen=True)
class FiniteJob:
    """Queries over finite facts: every stage derives all there is, once."""

    layout: Layout
    shorter: str = SHORTER

    def outputs(self, tables: StageTables, index: int, asked: None) -> Iterator[StageOutput]:
        layout = self.layout
        stage = layout.stages[index]
        facts = tables.facts(stage)
        tables.foreign(stage, {})
        yield from tables.passing(index)
        tables.runner.run(layout.plan, layout.steps(stage), {}, facts)
        for query, relation in layout.answered(stage).items():
            yield StageOutput(relation, DONE, Writer(layout.plan).answers(query))
        for name in tables.passed_on(index):
            yield StageOutput(layout.derived[name], NEW, f"SELECT * FROM {name}")
