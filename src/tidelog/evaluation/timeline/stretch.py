"""Facts on a stretch of time, closed under clauses one fact at a time.

A clause fires on each new fact that it asks for; its other premises are looked up at the ticks that
follow from it. The timeline closes its middle and the windows of its half lines this way. What is
negated is known before, but on the ticks of the stretch only: whether it is absent elsewhere is not
for the stretch to say, and a clause that asks that does not fire here.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TypeAlias, assert_never

from tidelog.evaluation.timeline.limit import Limit
from tidelog.language.program import Row, Value
from tidelog.logic.clause import Clause, FixedTick, Free, Offset, Premise, Rigid, Sign
from tidelog.logic.match import (
    VALUES,
    AnyTick,
    IndexedRows,
    JoinOrder,
    constant_value,
    matches,
    matches_of_first,
)

# Predicate, tick (None for rigid facts), arguments.
LineFact: TypeAlias = tuple[str, int | None, Row]
# The rows of one predicate at one tick.
SliceRows: TypeAlias = IndexedRows[Value]
# Facts by predicate and tick, None for rigid ones.
LineRows: TypeAlias = dict[tuple[str, int | None], SliceRows]
# The facts on some ticks, counted from the first of them.
LineWindow: TypeAlias = frozenset[LineFact]


class Firing:
    """A clause that fires on a fact of one positive premise; without any, on nothing at all."""

    def __init__(self, clause: Clause, first: int | None) -> None:
        self.head = clause.head
        self.order = JoinOrder(clause, at_head=False, first=first)
        self.start: Row = self.order.start(constant_value, {})
        self.pick_head = self.order.picker(clause.head.args)

    def fact(self, binding: Row) -> LineFact:
        return self.head.predicate, self.order.head_tick(binding), self.pick_head(binding)


class Firings:
    """Clauses by the predicates whose facts they fire on."""

    def __init__(self, clauses: Iterable[Clause]) -> None:
        self.unconditional: list[Firing] = []
        self.all: dict[str, list[Firing]] = {}
        self.heads: set[str] = set()
        self.points: set[tuple[str, int]] = set()  # slices at explicit times
        for clause in clauses:
            self.heads.add(clause.head.predicate)
            if not clause.positive:
                self.unconditional.append(Firing(clause, None))
            for i, premise in enumerate(clause.premises):
                if premise.sign is Sign.POSITIVE:
                    self.all.setdefault(premise.predicate, []).append(Firing(clause, i))
                if isinstance(premise.when, FixedTick):
                    self.points.add((premise.predicate, premise.when.tick))

    @cached_property
    def moving(self) -> dict[str, list[Firing]]:
        """Only those that fire on a fact at a tick like any other."""
        kept = {
            name: [f for f in firings if f.order.steps[0].finds_time]
            for name, firings in self.all.items()
        }
        return {name: firings for name, firings in kept.items() if firings}


class Stretch:
    """Facts on the ticks low to high, closed under the clauses as far as these lie on them.

    On a half line, rigid facts and those at explicit times are given as `elsewhere`; rigid facts
    that are new are put aside in `new_rigid`.
    """

    def __init__(
        self, firings: Firings, low: int, high: int, limit: Limit, elsewhere: LineRows | None = None
    ) -> None:
        self.firings = firings.all if elsewhere is None else firings.moving
        self.heads = firings.heads
        self.low, self.high = low, high
        self.limit = limit
        self.by_tick: LineRows = {}
        self.fixed = self.by_tick if elsewhere is None else elsewhere
        self.todo: list[LineFact] = []
        self.new_rigid: set[LineFact] = set()

    def add(self, fact: LineFact) -> None:
        name, tick, row = fact
        if tick is None and self.fixed is not self.by_tick:
            there = self.fixed.get((name, None))
            if there is None or row not in there.rows:
                self.new_rigid.add(fact)
            return
        if tick is not None and not self.low <= tick <= self.high:
            return
        rows = self.by_tick.get((name, tick))
        if rows is None:
            rows = self.by_tick[name, tick] = IndexedRows()
        if rows.add(row):
            self.todo.append(fact)

    def take(self, name: str, tick: int | None, rows: SliceRows) -> None:
        """All rows of a predicate at a tick. It is no head of the clauses: no more will come."""
        self.by_tick[name, tick] = rows
        self.todo += [(name, tick, row) for row in rows.rows]

    def run(self) -> None:
        while self.todo:
            name, tick, row = self.todo.pop()
            for firing in self.firings.get(name, ()):
                self.limit.check("closing the line")
                order, start = firing.order, firing.start
                for binding in matches_of_first(order, self, start, VALUES, row, tick):
                    self.add(firing.fact(binding))

    def fire_unconditional(self, firings: Firings) -> None:
        for firing in firings.unconditional:
            for binding in matches(firing.order, self, firing.start, VALUES):
                self.add(firing.fact(binding))

    def rows(
        self, premise: Premise, tick: int | AnyTick | None, positions: tuple[int, ...], key: Row
    ) -> Iterable[Row]:
        """The rows that the matcher asks for."""
        self.limit.check("closing the line")
        match premise.when:
            case Offset() | Free():
                facts = self.by_tick
            case FixedTick() | Rigid():
                facts = self.fixed
            case _:
                assert_never(premise.when)
        if isinstance(tick, AnyTick):
            # Reached from a rigid fact or one at an explicit time: any tick will do.
            ticks = [t for name, t in facts if name == premise.predicate and t is not None]
            return (
                (*row, t)
                for t in ticks
                for row in facts[premise.predicate, t].matching(positions, key)
            )
        there = facts.get((premise.predicate, tick))
        if there is None:
            return self._elsewhere(premise, tick)
        return rows_of(there, premise, positions, key)

    def _elsewhere(self, premise: Premise, tick: int | None) -> Iterable[Row]:
        """Where there are no rows. Outside the stretch what is negated counts as there: any row."""
        if premise.sign is Sign.POSITIVE or tick is None or isinstance(premise.when, FixedTick):
            return ()
        return () if self.low <= tick <= self.high else (("",) * len(premise.args),)

    def window(self, low: int, high: int) -> LineWindow:
        """The facts of the clauses' heads on some ticks, counted from the first of them."""
        return frozenset(
            (name, tick - low, row)
            for (name, tick), rows in self.by_tick.items()
            if tick is not None and low <= tick <= high and name in self.heads
            for row in rows.rows
        )


def rows_of(
    there: SliceRows, premise: Premise, positions: tuple[int, ...], key: Row
) -> Iterable[Row]:
    """The rows at a tick that have some values at some positions of a premise."""
    if len(positions) == len(premise.args):
        return (key,) if key in there.rows else ()
    return there.matching(positions, key)
