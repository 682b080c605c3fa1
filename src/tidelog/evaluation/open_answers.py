"""Definitive time points over data: which answers can still change, and what they wait for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from tidelog.analysis.containment import Ground
from tidelog.analysis.definitive import Awaited, Definitive, Pending
from tidelog.analysis.possible import Pattern, Possible
from tidelog.data.packed import ticks_of
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.goal_directed.goal import Goal
from tidelog.evaluation.goal_directed.model import FactModel
from tidelog.evaluation.plan import Unbounded
from tidelog.evaluation.possible_derivations import PossibleArgs, PossibleDerivations
from tidelog.evaluation.query_over_data import QueryOverData
from tidelog.evaluation.ranges import Range
from tidelog.evaluation.recursion import MOST_TICKS, TooLong
from tidelog.evaluation.sql import Writer
from tidelog.evaluation.timeline import Limit, TooHard, evaluate, history
from tidelog.language.program import Row, Type, Value
from tidelog.logic.clause import Premise
from tidelog.logic.match import AnyTick

# Pending answers that are explained one by one; all are counted.
MOST_PENDING = 20


class OpenAnswers(QueryOverData):
    """The answers of a query that are not final yet."""

    def definitive(self, tin: int, tout: int, budget: float = 60.0) -> Definitive:
        """Whether the answers at tout can still change when everything up to tin has arrived."""
        model = self._possible(tin, Range(tout, tout))
        if model is None:
            made, pending = self._on_timeline(tin, Range(tout, tout), budget)
            pending.sort(key=str)
            return Definitive(
                not pending, made.exact or not pending, len(pending), tuple(pending[:MOST_PENDING])
            )
        some: list[Pending] = []
        total = 0
        for pattern, table in model.tables():
            (count,) = self.engine.one(f"SELECT count(*) FROM {table}")
            total += count
            rows = self.engine.all(f"SELECT * FROM {table} LIMIT {MOST_PENDING - len(some)}")
            some += [model.pending(pattern, row[:-2], tout) for row in sorted(rows, key=str)]
        least = tuple(self._least(pending, tin) for pending in some)
        return Definitive(total == 0, model.possible.exact or total == 0, total, least)

    def open_points(self, tin: int, from_: int, to: int, budget: float = 60.0) -> list[int]:
        """The time points from a tick to a tick that are not definitive yet."""
        model = self._possible(tin, Range(from_, to))
        if model is None:
            _, pending = self._on_timeline(tin, Range(from_, to), budget)
            return sorted({p.time for p in pending})
        points: set[int] = set()
        for _, table in model.tables():
            for c, b in self.engine.all(f"SELECT c, bit_or(b) FROM {table} GROUP BY c"):
                points.update(ticks_of(c, b))
        return sorted(p for p in points if from_ <= p <= to)

    def _possible(self, tin: int, asked: Range) -> PossibleModel | None:
        """What is possible after tin, in tables; None where it reaches infinitely far."""
        if self.blocking:
            return None
        made = self.possible
        names = [made.name(self.query, p) for p in made.patterns[self.query]]
        whole = made.core(tin)
        try:
            plan = self.engine.plan_core(whole, [self.query, *names], asked, tin)
            writer = self.engine.evaluate(plan)
        except Unbounded:
            return None
        except TooLong:
            raise TooHard(
                f"whether answers of {self.query} are final cannot be told: its rules look more"
                f" than {MOST_TICKS} ticks ahead"
            ) from None
        return PossibleModel(self.engine, made, writer, tin)

    def _least(self, pending: Pending, tin: int) -> Pending:
        """The pending answer without what it need not wait for: other facts hold already."""
        waits = list(pending.waits_for)
        if len(waits) < 2:
            return pending
        types = {p.base: p.types for p in self.deps.core.predicates.values()}

        def comes(awaited: Iterable[Awaited]) -> bool:
            more = tuple(
                Ground(p.predicate, _filled(p.args, types[p.predicate]), p.time) for p in awaited
            )
            answer = Ground(self.query, _filled(pending.args, types[self.query]), pending.time)
            goal = Goal(self.engine, answer, more=more, until=tin)
            return goal.evaluate(goal.plan()).holds(answer)

        for one in pending.waits_for:
            fewer = [p for p in waits if p is not one]
            if comes(fewer):
                waits = fewer
        return replace(pending, waits_for=tuple(waits))

    def _on_timeline(self, tin: int, asked: Range, budget: float) -> tuple[Possible, list[Pending]]:
        """The paper's critical query, fresh objects as arbitrary arguments, on the timeline."""
        made = self.possible
        names = {made.name(self.query, p): p for p in made.patterns[self.query]}
        whole = made.core(tin).below([self.query, *names])
        limit = Limit.of(self.deps, budget, self.engine.progress)
        facts = history(self.engine, whole, tin)
        lines = evaluate(whole, facts, [self.query, *names], asked, limit)
        certain = lines[self.query].rows
        pending: list[Pending] = []
        for name, pattern in names.items():
            for row, time in lines[name].rows:
                if not (made.ground(pattern) and (row, time) in certain):
                    assert time is not None
                    values = iter(row)
                    args = tuple(next(values) if label is None else None for label in pattern)
                    pending.append(Pending(self.query, args, time, (), ()))
        return made, pending


@dataclass(frozen=True)
class PossibleModel:
    """What is possible after tin, in tables, and the answers among it that are not certain."""

    engine: Engine
    possible: Possible
    writer: Writer
    tin: int

    def tables(self) -> Iterator[tuple[Pattern, str]]:
        """Per pattern of the query, a table of the answers still open."""
        query = self.possible.query
        plan = self.writer.plan
        for number, pattern in enumerate(self.possible.patterns[query]):
            name = self.possible.name(query, pattern)
            if name not in plan.tables:
                continue
            table = f"open{number}"
            inside = f"({self.writer.answers(name)})"
            if self.possible.ground(pattern):
                predicate = plan.deps.core.predicates[name]
                self.engine.table(table, self.writer.news(predicate, plan.tables[query], inside))
            else:
                self.engine.table(table, f"SELECT * FROM {inside} AS q")
            yield pattern, table

    def pending(self, pattern: Pattern, known: Row, tout: int) -> Pending:
        """One open answer with a possible derivation of it."""
        query = self.possible.query
        return self._derivations.pending(query, self.possible.name(query, pattern), known, tout)

    @cached_property
    def _derivations(self) -> PossibleDerivations:
        return PossibleDerivations(self.possible, self)

    @cached_property
    def _facts(self) -> FactModel:
        plan = self.writer.plan
        return FactModel(
            self.engine, plan.deps.core, {**plan.inputs, **plan.tables}, at_once=20_000
        )

    # What the search for derivations asks

    def rows(
        self,
        premise: Premise,
        tick: int | AnyTick | None,
        positions: tuple[int, ...],
        key: Row,
    ) -> Iterable[Row]:
        later = isinstance(tick, int) and tick > self.tin
        if later and self._is_input(premise.predicate):
            return ()  # it may be among the data, but has not arrived
        return self._facts.rows(premise, tick, positions, key)

    def is_given(self, name: str, tick: int | None) -> bool:
        return self._is_input(name)

    def is_settled(self, predicate: str, tick: int | None) -> bool:
        return self.possible.deps.settled(predicate, tick or 0) <= self.tin

    def decided_at(self, query: str, time: int) -> int | None:
        return None

    def _is_input(self, name: str) -> bool:
        return self.writer.plan.deps.core.predicates[name].input


# An object that no one has seen yet, by type.
_FRESH: dict[Type | None, Value] = {
    Type.INT: 2**62 + 1,
    Type.FLOAT: 2.0**62 + 1024,
    Type.BOOL: True,
}


def _filled(args: PossibleArgs, types: tuple[Type | None, ...]) -> Row:
    """The arguments with one and the same fresh object for all that may be anything."""
    return tuple(
        _FRESH.get(t, "\ufffe fresh") if a is None else a for a, t in zip(args, types, strict=True)
    )
