"""How the tables of a plan are laid out in rows, and which of them each stage reads and makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from tidelog.analysis.stages import Stage, StageKind
from tidelog.data.packed import slots_of, spread_sql
from tidelog.evaluation.plan import (
    Fixpoint,
    Gather,
    Plan,
    PlanStep,
    Scan,
    tables_of,
    tables_read,
)
from tidelog.evaluation.rows import Relation, home, partition, row_schema
from tidelog.language.program import Constant, Type


@dataclass(frozen=True)
class Layout:
    """How the tables of a plan are laid out in rows, and what each stage does with them."""

    plan: Plan
    stages: tuple[Stage, ...]

    # Relations

    @cached_property
    def scans(self) -> dict[str, Relation]:
        """By the scan's name; rigid inputs are in every partition and have no rows."""
        relations: dict[str, Relation] = {}
        for step in self.plan.steps:
            if isinstance(step, Scan) and step.predicate.temporal:
                types = [step.predicate.types[i] for i in step.columns]
                relations[step.name] = self._relation(len(relations), step.name, types)
        return relations

    @property
    def scan_columns(self) -> dict[int, tuple[int, ...]]:
        """By number of a scan, the columns of its input that it keeps."""
        steps = (step for step in self.plan.steps if isinstance(step, Scan))
        return {self.scans[s.name].number: s.columns for s in steps if s.name in self.scans}

    @cached_property
    def derived(self) -> dict[str, Relation]:
        """By table."""
        relations: dict[str, Relation] = {}
        for name, table in self.plan.tables.items():
            predicate = self.plan.deps.core.predicates[name]
            if predicate.temporal:
                number = len(self.scans) + len(relations)
                relations[table] = self._relation(number, table, predicate.types)
        return relations

    @cached_property
    def answers(self) -> dict[str, Relation]:
        """By query; but what rests on nothing temporal is known before the first batch."""
        relations: dict[str, Relation] = {}
        work = {name for stage in self.stages for name in stage.predicates}
        for query in self.plan.deps.queries:
            if query in work:
                predicate = self.plan.deps.core.predicates[query]
                number = len(self.scans) + len(self.derived) + len(relations)
                relations[query] = self._relation(
                    number, query, predicate.types, predicate.temporal
                )
        return relations

    @cached_property
    def given(self) -> dict[str, Relation]:
        """By query with a time: answers known at times that are not final."""
        first = len(self.scans) + len(self.derived) + len(self.answers)
        known = [r for r in self.answers.values() if r.temporal]
        return {r.name: replace(r, number=first + i) for i, r in enumerate(known)}

    @cached_property
    def tables(self) -> dict[str, Relation]:
        """What is kept as state."""
        return {**self.scans, **self.derived}

    @cached_property
    def places(self) -> dict[int, tuple[str, str]]:
        """By table kept the predicate it is of: an input, derived, or known answers."""
        predicates = self.plan.deps.core.predicates
        places = {r.number: (query, "answers") for query, r in self.given.items()}
        for name, table in self.plan.tables.items():
            if table in self.derived:
                places[self.derived[table].number] = (predicates[name].base, "derived")
        for step in self.plan.steps:
            if isinstance(step, Scan) and step.name in self.scans:
                places[self.scans[step.name].number] = (step.predicate.base, "input")
        return places

    @cached_property
    def schema(self) -> pa.Schema:
        return row_schema([*self.tables.values(), *self.answers.values()])

    def _relation(
        self, number: int, name: str, types: Sequence[Type | None], temporal: bool = True
    ) -> Relation:
        known = tuple(t or Type.TEXT for t in types)
        return Relation(number, name, known, slots_of(known), temporal)

    # Stages

    @cached_property
    def _steps(self) -> dict[str, PlanStep]:
        """The step that makes a table."""
        return {table: step for step in self.plan.steps for table in tables_of(step)}

    def steps(self, stage: Stage) -> tuple[PlanStep, ...]:
        """What a stage does, in order: scans, what is known beforehand, its own predicates."""
        elsewhere = {table for other in self.stages for table in self._made(other)}
        todo = self._made(stage)
        wanted: set[int] = set()
        while todo:
            step = self._steps[todo.pop()]
            if id(step) not in wanted:
                wanted.add(id(step))
                todo += [table for table in tables_read(step) if table not in elsewhere]
        return tuple(step for step in self.plan.steps if id(step) in wanted)

    def rigid_beyond_spark(self, stage: Stage) -> dict[str, PlanStep]:
        """By table, the steps without times that a stage needs and Spark's own engine cannot do,
        recursion and aggregates, and all they rest on.

        No fact with a time is among that, so that it is the same in every batch.
        """
        todo = [
            table
            for step in self.steps(stage)
            if (isinstance(step, Fixpoint) and not step.predicates[0].temporal)
            or (isinstance(step, Gather) and not step.predicate.temporal)
            for table in tables_of(step)
        ]
        steps: dict[str, PlanStep] = {}
        while todo:
            table = todo.pop()
            if table not in steps:
                steps[table] = self._steps[table]
                todo += tables_read(steps[table])
        return steps

    def reads(self, stage: Stage) -> dict[str, Relation]:
        """The temporal tables that a stage looks at."""
        tables = {table for step in self.steps(stage) for table in tables_read(step)}
        return {name: relation for name, relation in self.tables.items() if name in tables}

    def own(self, stage: Stage) -> dict[str, Relation]:
        """The temporal tables that a stage derives."""
        names = self._made(stage)
        return {name: relation for name, relation in self.derived.items() if name in names}

    def _made(self, stage: Stage) -> list[str]:
        """The tables of the predicates that a stage derives; parts of a window may have none."""
        tables = self.plan.tables
        return [tables[name] for name in stage.predicates if name in tables]

    def foreign(self, stage: Stage) -> dict[str, Relation]:
        """The derived tables that a stage looks at and does not derive."""
        own = self.own(stage)
        return {n: r for n, r in self.reads(stage).items() if n in self.derived and n not in own}

    def passed(self, index: int) -> dict[str, Relation]:
        """The tables that stages after this one look at and do not derive."""
        passed: dict[str, Relation] = {}
        for stage in self.stages[index + 1 :]:
            passed |= self.foreign(stage)
        later = {n for stage in self.stages[index + 1 :] for n in self.own(stage)}
        return {name: relation for name, relation in passed.items() if name not in later}

    @cached_property
    def rigid(self) -> set[str]:
        """The rigid inputs that kernels look at; others are for Catalyst alone."""
        return {
            step.predicate.name
            for stage in self.stages
            if stage.kind is not StageKind.CATALYST
            for step in self.steps(stage)
            if isinstance(step, Scan) and not step.predicate.temporal
        }

    def answered(self, stage: Stage) -> dict[str, Relation]:
        return {q: r for q, r in self.answers.items() if q in stage.predicates}

    # Keys

    @property
    def is_keyed_alike(self) -> bool:
        """Whether rows that a scan takes in several ways have their key at the same place."""
        for step in self.plan.steps:
            if not isinstance(step, Scan) or not step.others:
                continue
            for stage in self.stages:
                position = stage.positions.get(step.predicate.name)
                if position is None or position in step.columns:
                    continue
                terms = {selection.premise.args[position] for selection in step.selections}
                if len(terms) > 1 and any(isinstance(term, Constant) for term in terms):
                    return False
        return True

    def home(self, stage: Stage, partitions: int, *, spark: bool) -> str:
        """SQL for the partition that a row belongs to in a stage."""
        if stage.kind is StageKind.WHOLE:
            return "0"
        groups: dict[str, list[int]] = {}
        for name, relation in (self.reads(stage) | self.own(stage)).items():
            where = self._home(stage, name, relation, partitions, spark=spark)
            groups.setdefault(where, []).append(relation.number)
        for query, relation in self.given.items():
            if query in stage.predicates:
                name = self.plan.tables[query]
                where = self._home(stage, name, relation, partitions, spark=spark)
                groups.setdefault(where, []).append(relation.number)
        cases = [
            f"WHEN tab IN ({', '.join(map(str, tabs))}) THEN {where}"
            for where, tabs in groups.items()
        ]
        other = spread_sql(partitions)
        return f"CASE {' '.join(cases)} ELSE {other} END" if cases else other

    def _home(
        self, stage: Stage, name: str, relation: Relation, partitions: int, *, spark: bool
    ) -> str:
        key = self.key(stage, name)
        if key is None:
            return "0"
        if isinstance(key, Constant):
            return str(home(key.value, partitions))
        return partition(relation.slots[key], relation.types[key], partitions, spark=spark)

    def key(self, stage: Stage, table: str) -> int | Constant | None:
        """Where the key of a stage stands in a table, or the value it always has there."""
        step = self._steps[table]
        if not isinstance(step, Scan):
            names = {t: n for n, t in self.plan.tables.items()}
            return stage.positions.get(names[table])
        position = stage.positions.get(step.predicate.name)
        if position is None:
            return None
        term = step.premise.args[position]
        if isinstance(term, Constant):
            return term
        kept = [step.premise.args[i] for i in step.columns]
        if term in kept:
            return kept.index(term)
        # Nothing else mentions the key, so that any split will do.
        return 0 if kept else None

    def at_home(self, stage: Stage, predicate: str) -> tuple[int, Type] | None:
        """The key position of a derived predicate, and its type; None for the first partition."""
        position = stage.positions.get(predicate)
        if position is None or stage.kind is not StageKind.KEYED:
            return None
        return position, self.plan.deps.core.predicates[predicate].types[position] or Type.TEXT
