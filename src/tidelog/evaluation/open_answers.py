"""Definitive time points over data: which answers can still change, and what they wait for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, islice
from typing import TypeAlias

from tidelog.analysis.containment import Ground
from tidelog.analysis.counted import counted
from tidelog.analysis.definitive import Awaited, Definitive, Pending, TwoUpdates
from tidelog.analysis.differences import constants_of
from tidelog.analysis.possible import FUTURE, Pattern, Possible, possible
from tidelog.analysis.settled import Settled
from tidelog.data.packed import chunks_sql, ticks_of
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.extents import MOST_TICKS, TooLong
from tidelog.evaluation.goal_directed.goal import Goal
from tidelog.evaluation.goal_directed.model import FactModel, with_aggregates_as_written
from tidelog.evaluation.plan import Plan, Unbounded
from tidelog.evaluation.possible_derivations import PossibleArgs, PossibleDerivations
from tidelog.evaluation.query_over_data import QueryOverData
from tidelog.evaluation.ranges import Range
from tidelog.evaluation.replay import Replays
from tidelog.evaluation.sql import Writer
from tidelog.evaluation.timeline import Limit, TooHard, evaluate, history
from tidelog.language.program import Row, Type, Value, type_of
from tidelog.logic.clause import Premise
from tidelog.logic.match import AnyTick

# Pending answers that are explained one by one; all are counted.
MOST_PENDING = 20
_WHOLE_WINDOW = "an aggregate below is taken to be open until its whole window has arrived"
# Updates that are replayed in search of two that differ.
MOST_REPLAYED = 50


class OpenAnswers(QueryOverData):
    """The answers of a query that are not final yet."""

    def definitive(self, tin: int, tout: int, budget: float = 60.0) -> Definitive:
        """Whether the answers at tout can still change when everything up to tin has arrived.

        An aggregate is looked at as a whole: it is final once its window has arrived.
        """
        if self.deps.aggregate is not None:
            return self._with_aggregates(tin, tout)
        if not self.blocking:
            with suppress(Unbounded):  # what is possible may reach further than what is certain
                return self._in_bulk(tin, tout)
        made, pending = self._on_timeline(tin, Range(tout, tout), budget)
        pending.sort(key=str)
        return self._verdict(made, len(pending), pending[:MOST_PENDING], None)

    @cached_property
    def parts(self) -> Settled | None:
        """The rules up to aggregates and from them on, where they can be taken apart."""
        parts = Settled(counted(self.deps))
        return parts if not self.blocking and parts.splits else None

    @cached_property
    def possible(self) -> Possible:
        if self.deps.aggregate is None or self.parts is None:
            return super().possible
        return possible(self.parts.rest)

    def _with_aggregates(self, tin: int, tout: int) -> Definitive:
        if self.parts is None:
            at = self.deps.settled(self.query, tout)
            if at <= tin:
                return Definitive(True, True, 0, ())
            args = (None,) * len(self.deps.core.predicates[self.query].types)
            until = None if math.isinf(at) else int(at)
            anything = Pending(self.query, args, tout, (), (), until)
            return Definitive(False, False, 1, (anything,), _WHOLE_WINDOW)
        count, some = self._pending(tin, tout)
        told = tuple(with_aggregates_as_written(self.parts, pending) for pending in some)
        return Definitive(count == 0, count == 0, count, told, "" if count == 0 else _WHOLE_WINDOW)

    def _in_bulk(self, tin: int, tout: int) -> Definitive:
        replays = Replays(self.engine, self.deps, tin)
        total, some = self._pending(tin, tout)
        some = self._without_needless(some, replays)
        updates = self._apart(some, replays, tout) if self.deps.negated and some else None
        return self._verdict(self.possible, total, some, updates)

    def pending(self, tin: int, tout: int) -> list[Pending]:
        """Some of the open answers at tout, for queries that are not blocking."""
        if self.deps.aggregate is not None:
            return list(self._with_aggregates(tin, tout).pending)
        replays = Replays(self.engine, self.deps, tin)
        return self._without_needless(self._pending(tin, tout)[1], replays)

    def _without_needless(self, some: list[Pending], replays: Replays) -> list[Pending]:
        """Pending answers without what they need not wait for.

        All of them are known by now: replays make tables of their own in place of the model's.
        """
        if self.deps.negated:
            return [self._fewest(pending, replays) for pending in some]
        return [self._least(pending, replays.tin) for pending in some]

    def _verdict(
        self, made: Possible, count: int, some: list[Pending], updates: TwoUpdates | None
    ) -> Definitive:
        exact = made.exact or count == 0 or updates is not None
        reason = "comparisons on values to come are taken to be met"
        if self.deps.negated:
            reason = "no two ways to go on were found that differ"
        return Definitive(count == 0, exact, count, tuple(some), "" if exact else reason, updates)

    def _pending(
        self, tin: int, tout: int, forgotten: int | None = None
    ) -> tuple[int, list[Pending]]:
        """How many answers at tout are open, and some of them."""
        model = self._possible(tin, Range(tout, tout), forgotten)
        some: list[Pending] = []
        total = 0
        for pattern, table in model.tables():
            (count,) = self.engine.one(f"SELECT count(*) FROM {table}")
            total += count
            rows = self.engine.all(f"SELECT * FROM {table} LIMIT {MOST_PENDING - len(some)}")
            some += [model.pending(pattern, row[:-2], tout) for row in sorted(rows, key=str)]
        return total, some

    def updates(
        self, tin: int, tout: int, forgotten: int, values: Iterable[Value]
    ) -> list[tuple[Ground, ...]]:
        """Updates that may tell what is forgotten: those that answers wait for, with and without
        the facts up to there. Some values of theirs may come again.
        """
        some = [p for f in (None, forgotten) for p in self._pending(tin, tout, f)[1]]
        fillings: list[Filling] = [{type_of(value): value} for value in values]
        return [(), *islice(self._updates(some, [*fillings, {}]), MOST_REPLAYED)]

    def open_points(
        self, tin: int, from_: int, to: int, budget: float = 60.0, most: int | None = None
    ) -> list[int]:
        """The time points between two ticks that are not definitive yet, or the first of them."""
        if self.deps.aggregate is not None and self.parts is None:
            settled = self.deps.settled
            late = (tout for tout in range(from_, to + 1) if settled(self.query, tout) > tin)
            return list(islice(late, most))
        if not self.blocking:
            with suppress(Unbounded):
                return self._open_in_bulk(tin, from_, to, most)
        _, pending = self._on_timeline(tin, Range(from_, to), budget)
        return sorted({p.time for p in pending})[:most]

    def _open_in_bulk(self, tin: int, from_: int, to: int, most: int | None) -> list[int]:
        points: set[int] = set()
        # A row has a tick at least, but those of the first one may lie before.
        limit = "" if most is None else f" LIMIT {most + 1}"
        for _, table in self._possible(tin, Range(from_, to)).tables():
            select = f"SELECT c, bit_or(b) FROM {table} WHERE {chunks_sql(from_, to)}"
            for c, b in self.engine.all(f"{select} GROUP BY c ORDER BY c{limit}"):
                points.update(ticks_of(c, b))
        return sorted(p for p in points if from_ <= p <= to)[:most]

    def _possible(self, tin: int, asked: Range, forgotten: int | None = None) -> PossibleModel:
        made = self.possible
        names = [made.name(self.query, p) for p in made.patterns[self.query]]
        whole = made.core(tin)
        if self.deps.aggregate is not None:
            assert self.parts is not None, "others are looked at as a whole"
            whole = self.parts.with_aggregates(whole, FUTURE)
        plan = self.engine.plan_core(whole, [self.query, *names], asked, tin)
        kept = None
        if forgotten is not None:
            kept = self._without(forgotten, plan)
        try:
            writer = self.engine.evaluate(plan, kept)
        except TooLong:
            raise TooHard(
                f"whether answers of {self.query} are final cannot be told: its rules look more"
                f" than {MOST_TICKS} ticks ahead"
            ) from None
        return PossibleModel(self.engine, made, writer, tin)

    def _without(self, forgotten: int, plan: Plan) -> dict[str, str]:
        """Tables of the inputs without the facts up to a tick."""
        clocks = self.engine.typed.clocks
        timed = [p for p in plan.deps.core.inputs if p.temporal and p.base not in clocks]
        tables = {p.name: f"kept_in{number}" for number, p in enumerate(timed)}
        for p in timed:
            view = self.engine.loaded[p.base].view
            self.engine.view(tables[p.name], f"SELECT * FROM {view} WHERE t > {forgotten}")
        return tables

    def _least(self, pending: Pending, tin: int) -> Pending:
        """The pending answer without what it need not wait for: other facts hold already."""
        waits = list(pending.waits_for)
        if len(waits) < 2:
            return pending
        answer = self._ground(pending)

        def comes(awaited: Iterable[Awaited]) -> bool:
            goal = Goal(self.engine, answer, more=self._facts(awaited), until=tin)
            return goal.evaluate(goal.plan()).holds(answer)

        for one in pending.waits_for:
            fewer = [p for p in waits if p is not one]
            if comes(fewer):
                waits = fewer
        return replace(pending, waits_for=tuple(waits))

    # With absence: what differs is shown by evaluating it

    def _fewest(self, pending: Pending, replays: Replays) -> Pending:
        """The pending answer without what it need not wait for."""
        waits = list(pending.waits_for)
        answer = self._ground(pending)
        for one in pending.waits_for if len(waits) > 1 else ():
            fewer = [p for p in waits if p is not one]
            if replays.count < MOST_REPLAYED and answer.args in replays.answers(
                self._facts(fewer), pending.time
            ):
                waits = fewer
        return replace(pending, waits_for=tuple(waits), holds_now=not waits)

    def _apart(self, some: list[Pending], replays: Replays, tout: int) -> TwoUpdates | None:
        """Two updates after which the answers at a time differ, if they can be found."""
        first = replays.answers((), tout)
        most = replays.count + MOST_REPLAYED
        for facts in self._updates(some, self._fillings()):
            if replays.count >= most:
                break
            rows = replays.answers(facts, tout)
            if rows != first:
                row = min(rows ^ first, key=str)
                comes = tuple(map(as_awaited, facts))
                with_it, without_it = (comes, ()) if row in rows else ((), comes)
                answer = as_awaited(Ground(self.query, row, tout))
                return TwoUpdates(answer, with_it, without_it)
        return None

    def _updates(
        self, some: list[Pending], fillings: Iterable[Filling]
    ) -> Iterator[tuple[Ground, ...]]:
        """What may come, as far as pending answers speak of it: each answer's, then all subsets."""
        for filling in fillings:
            for pending in some:
                waits = self._facts(pending.waits_for, filling)
                yield waits
                for way in pending.unless:
                    facts = self._facts(way, filling)
                    yield facts
                    yield (*waits, *facts)
        ways = (way for pending in some for way in (pending.waits_for, *pending.unless))
        single = dict.fromkeys(fact for way in ways for fact in self._facts(way))
        for size in range(1, len(single) + 1):
            yield from combinations(single, size)

    def _fillings(self) -> Iterator[Filling]:
        """What values to come may be: new ones, and those that comparisons speak of."""
        yield {}
        yield {Type.INT: -_FRESH_INT, Type.FLOAT: -_FRESH_FLOAT}
        for constant in sorted(constants_of(self.deps.core), key=str):
            value = constant.value
            yield {constant.type: value}
            if not isinstance(value, str | bool):
                yield {constant.type: value - 1}
                yield {constant.type: value + 1}

    def _facts(
        self, awaited: Iterable[Awaited], filling: Filling | None = None
    ) -> tuple[Ground, ...]:
        types = {p.base: p.types for p in self.deps.core.inputs}
        return tuple(
            Ground(p.predicate, _filled(p.args, types[p.predicate], filling), p.time)
            for p in awaited
        )

    def _ground(self, pending: Pending) -> Ground:
        types = self.deps.core.predicates[self.query].types
        return Ground(self.query, _filled(pending.args, types), pending.time)

    def _on_timeline(self, tin: int, asked: Range, budget: float) -> tuple[Possible, list[Pending]]:
        """The paper's critical query, fresh objects as arbitrary arguments, on the timeline."""
        made = self.possible
        names = {made.name(self.query, p): p for p in made.patterns[self.query]}
        whole = made.core(tin).below([self.query, *names])
        limit = Limit.of(self.deps, budget, self.engine.progress)
        facts = history(self.engine, whole, tin)
        lines = evaluate(whole, facts, [self.query, *names], asked, limit)
        certain = lines[self.query].rows
        now = self._at_hand(facts, asked, limit)
        pending: list[Pending] = []
        for name, pattern in names.items():
            for row, time in lines[name].rows:
                if not (made.ground(pattern) and (row, time) in certain):
                    assert time is not None
                    values = iter(row)
                    args = tuple(next(values) if label is None else None for label in pattern)
                    here = made.ground(pattern) and (row, time) in now
                    pending.append(Pending(self.query, args, time, (), (), holds_now=here))
        return made, pending

    def _at_hand(
        self, facts: dict[str, list[tuple[Row, int | None]]], asked: Range, limit: Limit
    ) -> frozenset[tuple[Row, int | None]]:
        """The answers by the facts at hand that may not be certain."""
        if not self.deps.negated:
            return frozenset()
        return evaluate(self.deps.core, facts, [self.query], asked, limit)[self.query].rows


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
        if premise.predicate not in self._facts.tables:
            return ()  # it can never hold
        later = isinstance(tick, int) and tick > self.tin
        if later and self._is_input(premise.predicate):
            return ()  # it may be among the data, but has not arrived
        return self._facts.rows(premise, tick, positions, key)

    def is_given(self, name: str, tick: int | None) -> bool:
        return self._is_input(name)

    def is_settled(self, predicate: str, tick: int | None) -> bool:
        return self.possible.deps.settled(predicate, tick or 0) <= self.tin

    def may_come(self, tick: int) -> bool:
        return tick > self.tin

    def decided_at(self, query: str, time: int) -> int | None:
        return None

    def _is_input(self, name: str) -> bool:
        """Whether facts are given; aggregates are to the rest of the rules."""
        own = self.possible.deps.core.predicates
        return (own[name] if name in own else self.writer.plan.deps.core.predicates[name]).input


# Values for what may be anything, by type; else it is an object that no one has seen yet.
Filling: TypeAlias = Mapping[Type | None, Value]

_FRESH_INT, _FRESH_FLOAT, _FRESH_TEXT = 2**62 + 1, 2.0**62 + 1024, "\ufffe fresh"
_FRESH: Filling = {Type.INT: _FRESH_INT, Type.FLOAT: _FRESH_FLOAT, Type.BOOL: True}


def _filled(
    args: PossibleArgs, types: tuple[Type | None, ...], filling: Filling | None = None
) -> Row:
    """The arguments with one and the same fresh object for all that may be anything."""
    values = {**_FRESH, **(filling or {})}
    return tuple(
        values.get(t, _FRESH_TEXT) if a is None else a for a, t in zip(args, types, strict=True)
    )


def as_awaited(fact: Ground) -> Awaited:
    """A fact of an update, with None for the fresh object."""
    fresh = {_FRESH_INT, _FRESH_FLOAT, _FRESH_TEXT}
    assert fact.time is not None
    args = tuple(None if value in fresh else value for value in fact.args)
    return Awaited(fact.predicate, args, fact.time)
