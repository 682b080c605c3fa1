"""How the tables of a plan are laid out in rows, and which of them each stage reads and makes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from tidelog.analysis.stages import Kind, Stage
from tidelog.data.packed import CHUNK, slots_of
from tidelog.evaluation.plan import Derive, Fixpoint, Join, Plan, PlanStep, Scan
from tidelog.evaluation.rows import Relation, partition, row_schema
from tidelog.language.program import Constant, Type, Value


@dataclass(frozen=True)
class Layout:
    """How the tables of a plan are laid out in rows, and what each stage does with them."""

    plan: Plan
    stages: tuple[Stage, ...]

    # Relations

    @cached_property
    def scans(self) -> dict[str, Relation]:
        """By the scan's name; rigid inputs are in every partition and have no rows."""
        found: dict[str, Relation] = {}
        for step in self.plan.steps:
            if isinstance(step, Scan) and step.predicate.temporal:
                types = [step.predicate.types[i] for i in step.columns]
                found[step.name] = self._relation(len(found), step.name, types)
        return found

    @cached_property
    def derived(self) -> dict[str, Relation]:
        """By table."""
        found: dict[str, Relation] = {}
        for name, table in self.plan.tables.items():
            predicate = self.plan.deps.core.predicates[name]
            if predicate.temporal:
                number = len(self.scans) + len(found)
                found[table] = self._relation(number, table, predicate.types)
        return found

    @cached_property
    def answers(self) -> dict[str, Relation]:
        """By query; but what rests on nothing temporal is known before the first batch."""
        found: dict[str, Relation] = {}
        work = {name for stage in self.stages for name in stage.predicates}
        for query in self.plan.deps.queries:
            if query in work:
                predicate = self.plan.deps.core.predicates[query]
                number = len(self.scans) + len(self.derived) + len(found)
                found[query] = self._relation(number, query, predicate.types, predicate.temporal)
        return found

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
        found = {r.number: (query, "answers") for query, r in self.given.items()}
        for name, table in self.plan.tables.items():
            if table in self.derived:
                found[self.derived[table].number] = (predicates[name].source, "derived")
        for step in self.plan.steps:
            if isinstance(step, Scan) and step.name in self.scans:
                found[self.scans[step.name].number] = (step.predicate.source, "input")
        return found

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
        found: dict[str, PlanStep] = {}
        for step in self.plan.steps:
            match step:
                case Scan():
                    found[step.name] = step
                case Derive():
                    found[step.table] = step
                case Fixpoint():
                    found.update(dict.fromkeys(step.tables, step))
        return found

    def steps(self, stage: Stage) -> tuple[PlanStep, ...]:
        """What a stage does, in order: scans, what is known beforehand, its own predicates."""
        elsewhere = {self.plan.tables[name] for other in self.stages for name in other.predicates}
        todo = [self.plan.tables[name] for name in stage.predicates]
        wanted: set[int] = set()
        while todo:
            step = self._steps[todo.pop()]
            if id(step) not in wanted:
                wanted.add(id(step))
                todo += [table for table in _read(step) if table not in elsewhere]
        return tuple(step for step in self.plan.steps if id(step) in wanted)

    def reads(self, stage: Stage) -> dict[str, Relation]:
        """The temporal tables that a stage looks at."""
        found = {table for step in self.steps(stage) for table in _read(step)}
        return {name: relation for name, relation in self.tables.items() if name in found}

    def own(self, stage: Stage) -> dict[str, Relation]:
        """The temporal tables that a stage derives."""
        names = {self.plan.tables[name] for name in stage.predicates}
        return {name: relation for name, relation in self.derived.items() if name in names}

    def foreign(self, stage: Stage) -> dict[str, Relation]:
        """The derived tables that a stage looks at and does not derive."""
        own = self.own(stage)
        return {n: r for n, r in self.reads(stage).items() if n in self.derived and n not in own}

    def passed(self, index: int) -> dict[str, Relation]:
        """The tables that stages after this one look at and do not derive."""
        found: dict[str, Relation] = {}
        for stage in self.stages[index + 1 :]:
            found |= self.foreign(stage)
        later = {n for stage in self.stages[index + 1 :] for n in self.own(stage)}
        return {name: relation for name, relation in found.items() if name not in later}

    @cached_property
    def rigid(self) -> set[str]:
        """The rigid inputs that kernels look at; others are for Catalyst alone."""
        return {
            step.predicate.name
            for stage in self.stages
            if stage.kind is not Kind.CATALYST
            for step in self.steps(stage)
            if isinstance(step, Scan) and not step.predicate.temporal
        }

    def answered(self, stage: Stage) -> dict[str, Relation]:
        return {q: r for q, r in self.answers.items() if q in stage.predicates}

    # Keys

    def home(
        self, stage: Stage, partitions: int, literal: Callable[[Value], str], *, spark: bool
    ) -> str:
        """SQL for the partition that a row belongs to in a stage; `literal` writes a constant."""
        groups: dict[str, list[int]] = {}
        for name, relation in (self.reads(stage) | self.own(stage)).items():
            where = self._home(stage, name, relation, partitions, literal, spark=spark)
            groups.setdefault(where, []).append(relation.number)
        for query, relation in self.given.items():
            if query in stage.predicates:
                name = self.plan.tables[query]
                where = self._home(stage, name, relation, partitions, literal, spark=spark)
                groups.setdefault(where, []).append(relation.number)
        cases = [
            f"WHEN tab IN ({', '.join(map(str, tabs))}) THEN {where}"
            for where, tabs in groups.items()
        ]
        around = CHUNK * partitions
        other = f"CAST((c % {around} + {around}) / {CHUNK} % {partitions} AS INT)"
        return f"CASE {' '.join(cases)} ELSE {other} END" if cases else other

    def _home(
        self,
        stage: Stage,
        name: str,
        relation: Relation,
        partitions: int,
        literal: Callable[[Value], str],
        *,
        spark: bool,
    ) -> str:
        key = self.key(stage, name)
        if key is None:
            return "0"
        if isinstance(key, Constant):
            return partition(literal(key.value), key.type, partitions, spark=spark)
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
        term = step.atom.args[position]
        if isinstance(term, Constant):
            return term
        kept = [step.atom.args[i] for i in step.columns]
        if term in kept:
            return kept.index(term)
        # Nothing else mentions the key, so that any split will do.
        return 0 if kept else None

    def at_home(self, stage: Stage, predicate: str) -> tuple[int, Type] | None:
        """The key position of a derived predicate, and its type; None for the first partition."""
        position = stage.positions.get(predicate)
        if position is None or stage.kind is not Kind.KEYED:
            return None
        return position, self.plan.deps.core.predicates[predicate].types[position] or Type.TEXT


def _read(step: PlanStep) -> Iterable[str]:
    """The tables that a step looks at."""
    joins: list[Join] = []
    match step:
        case Scan():
            pass
        case Derive():
            joins += step.joins
        case Fixpoint():
            joins += [*step.start, *step.repeat]
            for fill in step.fills:
                joins += [part for part in (fill.filter, fill.guard) if part is not None]
    return dict.fromkeys(source.table for join in joins for source in join.sources)
