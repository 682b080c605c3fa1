"""Facts on a stretch of time, closed under clauses one fact at a time.

A clause fires on each new fact of its body; its other premises are looked up at the ticks that
follow from it. The timeline closes its middle and the windows of its half lines this way.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TypeAlias, assert_never

from tidelog.evaluation.timeline.limit import Limit
from tidelog.language.program import Row, Value
from tidelog.logic.clause import Clause, FixedTick, Free, Offset, Premise, Rigid
from tidelog.logic.match import (
    AnyTick,
    IndexedRows,
    JoinOrder,
    constant_value,
    matches,
    matches_of_first,
)
from tidelog.logic.order import decide

# Predicate, tick (None for rigid facts), arguments.
LineFact: TypeAlias = tuple[str, int | None, Row]
# Facts by predicate and tick, None for rigid ones.
LineRows: TypeAlias = dict[tuple[str, int | None], IndexedRows[Value]]
# The facts on some ticks, counted from the first of them.
LineWindow: TypeAlias = frozenset[LineFact]


class Firing:
    """A clause that fires on a fact of one premise; without premises, on nothing at all."""

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
        self.points: set[tuple[str, int]] = set()  # slices at explicit times
        for clause in clauses:
            if not clause.premises:
                self.unconditional.append(Firing(clause, None))
            for i, premise in enumerate(clause.premises):
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

    def run(self) -> None:
        while self.todo:
            name, tick, row = self.todo.pop()
            for firing in self.firings.get(name, ()):
                self.limit.check("closing the line")
                order, start = firing.order, firing.start
                for binding in matches_of_first(order, self, start, decide, row, tick):
                    self.add(firing.fact(binding))

    def fire_unconditional(self, firings: Firings) -> None:
        for firing in firings.unconditional:
            for binding in matches(firing.order, self, firing.start, decide):
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
            return ()
        if len(positions) == len(premise.args):
            return (key,) if key in there.rows else ()
        return there.matching(positions, key)

    def window(self, low: int, high: int) -> LineWindow:
        """The facts on some ticks, counted from the first of them."""
        return frozenset(
            (name, tick - low, row)
            for (name, tick), rows in self.by_tick.items()
            if tick is not None and low <= tick <= high
            for row in rows.rows
        )
