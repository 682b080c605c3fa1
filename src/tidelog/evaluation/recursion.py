"""Predicates that depend on themselves: rounds on what is new, and fills in doubling steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tidelog.errors import DataError
from tidelog.evaluation.engine import Feature, SqlEngine
from tidelog.evaluation.plan import Fill, Fixpoint
from tidelog.evaluation.sql import Writer

# Ticks that something which holds for ever may be written out on: 60 to a row, per object.
MOST_TICKS = 1_000_000_000
# What to do when something would hold at more ticks than can be written out.
SHORTER = "ask for a shorter range, or for one without end"


class TooLong(DataError):
    """Something would hold at more ticks than can be written out."""


# A table of where so many ticks may lead to (None: anywhere), and the ticks.
Guard: TypeAlias = tuple[str | None, int]


@dataclass(frozen=True)
class Recursion:
    """Iterates recursive components on an engine."""

    engine: SqlEngine
    progress: Callable[[str], None]
    shorter: str = SHORTER

    def run(self, step: Fixpoint, writer: Writer, given: Mapping[str, str] | None = None) -> None:
        """Make the tables of a component; `given` names tables of facts that hold already."""
        reason = self.engine.limits.get(Feature.RECURSION)
        if reason is not None:
            raise DataError(f"`{step.predicates[0].name}` is recursive: {reason}")
        table = self.engine.table
        for i, (predicate, name) in enumerate(zip(step.predicates, step.tables, strict=True)):
            table(name, writer.start(step, i))
            if given and name in given:
                table(f"{name}_start", writer.merged(predicate, name, given[name]))
                table(name, f"SELECT * FROM {name}_start")
        guards = {id(fill): self._guards(fill, writer, i) for i, fill in enumerate(step.fills)}
        if len(step.tables) == 1 and len(step.fills) == 1 and not step.repeat:
            (name,), (fill,) = step.tables, step.fills
            carried = self._fill(fill, writer, name, f"{name}_fill", guards[id(fill)])
            if fill.filter is None and not given:
                table(name, f"SELECT * FROM {carried}")
            else:  # what was not carried on still holds
                table(name, writer.merged(step.predicates[0], name, carried))
            return
        for name in step.tables:
            table(f"{name}_new", f"SELECT * FROM {name}")
        rounds = 1
        while self._round(step, writer, guards, rounds):
            for predicate, name in zip(step.predicates, step.tables, strict=True):
                table(f"{name}_new", f"SELECT * FROM {name}_next")
                table(name, writer.merged(predicate, name, f"{name}_new"))
            rounds += 1

    def _round(
        self, step: Fixpoint, writer: Writer, guards: Mapping[int, list[Guard]], number: int
    ) -> bool:
        """What follows from what is new, as tables `_next`; whether there is anything."""
        self.progress(f"deriving {', '.join(p.name for p in step.predicates)}, round {number}")
        grew = False
        for i, (predicate, name) in enumerate(zip(step.predicates, step.tables, strict=True)):
            fills = [
                self._fill(fill, writer, f"{name}_new", f"{name}_fill{n}", guards[id(fill)])
                for n, fill in enumerate(step.fills)
                if fill.predicate == predicate.name
            ]
            candidates = writer.candidates(step, i, fills)
            if candidates is None:
                self.engine.table(f"{name}_next", f"SELECT * FROM {name} WHERE FALSE")
                continue
            self.engine.table(f"{name}_maybe", candidates)
            self.engine.table(f"{name}_next", writer.news(predicate, name, f"{name}_maybe"))
            grew = grew or bool(self.engine.rows_of(f"{name}_next"))
        return grew

    # Fills

    def _guards(self, fill: Fill, writer: Writer, number: int) -> list[Guard]:
        """Guards with their steps, which double, as far as anything can be carried."""
        range_ = writer.plan.ranges[fill.predicate]
        width = 0 if range_.empty else int(range_.high - range_.low)
        guards: list[Guard] = []
        step = fill.step
        guard = None
        while abs(step) <= width and not fill.ever:
            if fill.guard is not None:
                name = f"{writer.plan.tables[fill.predicate]}_guard{number}_{len(guards)}"
                if guard is None:
                    self.engine.table(name, writer.fill_guard(fill))
                else:
                    self.engine.table(name, writer.fill_guard_twice(fill, guard, step // 2))
                guard = name
                if not self.engine.rows_of(guard):
                    break
            guards.append((guard, step))
            step *= 2
        return guards

    def _fill(
        self, fill: Fill, writer: Writer, source: str, table: str, guards: list[Guard]
    ) -> str:
        """The facts of a source carried on, as a table, whose name is returned."""
        self.engine.table(table, writer.fill_start(fill, source))
        if fill.ever:
            self._check_size(fill, writer)
            self.engine.table(f"{table}_ever", writer.fill_ever(fill, table))
            return f"{table}_ever"
        for guard, step in guards:
            self.engine.table(f"{table}_more", writer.fill_step(fill, table, guard, step))
            self.engine.table(table, f"SELECT * FROM {table}_more")
        return table

    def _check_size(self, fill: Fill, writer: Writer) -> None:
        range_ = writer.plan.ranges[fill.predicate]
        if not range_.empty and range_.high - range_.low > MOST_TICKS:
            name = writer.plan.deps.core.predicates[fill.predicate].base
            raise TooLong(
                f"`{name}` may hold at each of {int(range_.high - range_.low)} ticks"
                f" ({fill.clause.origin}): {self.shorter}"
            )
