"""Pending answers of an online stream: what each builds on, and what it waits for."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

from tidelog.analysis.containment import Ground
from tidelog.analysis.definitive import Awaited, Pending
from tidelog.analysis.possible import Open, Pattern
from tidelog.language.program import Constant, Row, Value
from tidelog.logic import clause as logic
from tidelog.logic.core import Role
from tidelog.streaming.cell_model import CellModel
from tidelog.streaming.cells import NO_TIME, PlacedClause
from tidelog.streaming.joins import IndexedSlice

# Steps from a pending answer down to facts.
DEEPEST = 50

_Args: TypeAlias = tuple[Value | None, ...]


@dataclass
class _Leaves:
    """What a derivation rests on: facts that hold, and facts it waits for."""

    holds: dict[Ground, None] = field(default_factory=dict)
    waits: dict[Awaited, None] = field(default_factory=dict)


class Explainer:
    """Finds a possible derivation of an answer in the cells of a model."""

    def __init__(self, model: CellModel) -> None:
        self.model, self.graph = model, model.graph
        self.patterns: dict[str, Pattern] = {
            self.graph.made.name(name, pattern): pattern
            for name, patterns in self.graph.made.patterns.items()
            for pattern in patterns
        }

    def pending(self, query: str, spec: str, row: Row, time: int) -> Pending:
        args = self.whole(spec, row)
        leaves = _Leaves()
        self._derive(spec, args, time, leaves, frozenset())
        waits = sorted(leaves.waits, key=lambda p: (p.time, p.predicate, str(p.args)))
        until = self.graph.deps.settled(query, time)
        return Pending(
            query,
            args,
            time,
            tuple(leaves.holds),
            tuple(waits),
            None if math.isinf(until) else int(until),
        )

    def whole(self, spec: str, row: Row) -> _Args:
        values = iter(row)
        return tuple(next(values) if label is None else None for label in self.patterns[spec])

    def _known(self, spec: str, args: _Args) -> Row:
        """The arguments that a pattern knows."""
        pattern = self.patterns[spec]
        known = zip(args, pattern, strict=True)
        return tuple(a for a, label in known if label is None and a is not None)

    def _derive(
        self,
        spec: str,
        args: _Args,
        time: int | None,
        leaves: _Leaves,
        above: frozenset[object],
    ) -> bool:
        goal = (spec, args, time)
        if goal in above or len(above) > DEEPEST:
            return False
        number, _ = self.graph.place[spec]
        for way in self.graph.components[number].possible:
            if way.head != spec or (way.point is not None and way.point != time):
                continue
            match = self._match(way, args, time)
            if match is None:
                continue
            binding, rows = match
            found = _Leaves(dict(leaves.holds), dict(leaves.waits))
            if all(
                self._leaf(way, i, binding, rows[i], time, found, above | {goal})
                for i in range(len(way.lookups))
            ):
                leaves.holds, leaves.waits = found.holds, found.waits
                return True
        return False

    def _match(
        self, way: PlacedClause, args: _Args, time: int | None
    ) -> tuple[dict[str, Value], list[Row]] | None:
        """One match of a rule for a head: its variables, and a row for each atom."""
        assert way.origin is not None
        binding: dict[str, Value] = {}
        for term, value in zip(way.origin.head.args, args, strict=True):
            if value is None:
                continue
            known = (
                term.value if isinstance(term, Constant) else binding.setdefault(term.name, value)
            )
            if known != value:
                return None
        head: Row = tuple(
            t.value if isinstance(t, Constant) else binding[t.name]
            for t in way.compiled.clause.head.args
        )
        bodies = [self.model.read(b, b.time(time or 0)) for b in way.lookups]
        if not all(b.rows for b in bodies):
            return None
        # Rows that fit what is known elsewhere come first; one atom after the other is settled.
        for i, atom in enumerate(way.compiled.clause.premises):
            rows = way.compiled.mark({head}, bodies)[i]
            fitting = [r for r in sorted(rows) if _fits(atom, r, binding)]
            if not fitting:
                return None
            bodies[i] = IndexedSlice({fitting[0]})
            for term, value in zip(atom.args, fitting[0], strict=True):
                if not isinstance(term, Constant):
                    binding[term.name] = value
        return binding, [next(iter(b.rows)) for b in bodies]

    def _leaf(
        self,
        way: PlacedClause,
        index: int,
        binding: dict[str, Value],
        row: Row,
        time: int | None,
        leaves: _Leaves,
        above: frozenset[object],
    ) -> bool:
        assert way.origin is not None
        body, meaning = way.lookups[index], way.origin.body[index]
        at = body.time(time or 0)
        whole = meaning.atom if isinstance(meaning, Open) else meaning
        args = tuple(
            t.value if isinstance(t, Constant) else binding.get(t.name) for t in whole.args
        )
        predicate = self.graph.deps.core.predicates[whole.predicate]
        if isinstance(meaning, Open):
            assert at is not None
            leaves.waits[Awaited(predicate.source, args, at)] = None
            return True
        if predicate.input or body.component < 0:
            leaves.holds[Ground(predicate.source, row, at)] = None
            return True
        number, shift = self.graph.place[body.name]
        cell = self.model.cells.get((number, NO_TIME if at is None else at + shift))
        if cell is not None and cell.frozen:
            # Carried on: it stands for what it rests on.
            if predicate.role is not Role.STEP:
                leaves.holds[Ground(predicate.source, row, at)] = None
            return True
        return self._derive(body.name, args, at, leaves, above)


def _fits(atom: logic.Premise, row: Row, binding: dict[str, Value]) -> bool:
    return all(
        isinstance(t, Constant) or binding.get(t.name, value) == value
        for t, value in zip(atom.args, row, strict=True)
    )


__all__ = ["Explainer"]
