"""The schedule tick by tick, in plain Python: what a wave does, for few facts at a time.

At input time tin each predicate P is computed at tin - phi(P), once, from the slices that are kept
of the others; a slice goes when no rule looks at it any more. A wave does the same for many ticks
and facts at once, and takes over when there are that many.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tidelog.language.program import TimeOffset
from tidelog.streaming.joins import EMPTY, MOST_ATOMS, Row, Slice, chosen
from tidelog.streaming.network import Body, Way, close_cell, never_changing, rigid_model
from tidelog.streaming.schedule import Schedule

# Ticks and facts of one push beyond which a wave is the better way.
MOST_TICKS = 50_000
MOST_FACTS = 60_000


def small(schedule: Schedule, ahead: int) -> bool:
    """Whether rules can be taken tick by tick: no explicit times, nothing far to look ahead."""
    rules = schedule.deps.core.rules
    if any(pin > -math.inf for pin in schedule.pins.values()) or ahead > 60:
        return False
    return all(len(rule.atoms) <= MOST_ATOMS for rule in rules) and all(
        edge.offset is not None
        for edge in schedule.deps.edges
        if schedule.deps.core.predicates[edge.head].temporal
        and schedule.deps.core.predicates[edge.body].temporal
    )


class Slices:
    """The slices of some queries that are kept at an input time."""

    def __init__(self, schedule: Schedule, rigid: Mapping[str, set[Row]]) -> None:
        self.schedule = schedule
        self.phi = schedule.phi
        deps = schedule.deps
        core = deps.core
        self.static = rigid_model(deps, never_changing(deps), rigid)
        self.cells: dict[tuple[str, int], Slice] = {}
        self.count = 0
        self.inputs = [p.name for p in core.inputs if p.temporal]
        self.chosen = {name: chosen(core.rules, name) for name in self.inputs}
        place = {name: i for i, c in enumerate(deps.components) for name in c}
        self.layers: list[tuple[list[str], list[Way]]] = []
        numbered = 0
        for names in deps.components:
            if not core.predicates[names[0]].temporal or core.predicates[names[0]].input:
                continue
            ways: list[Way] = []
            for rule in core.rules:
                if rule.head.predicate not in names:
                    continue
                bodies: list[Body] = []
                for atom in rule.atoms:
                    name, offset, inside = atom.predicate, None, False
                    if isinstance(atom.time, TimeOffset):
                        assert isinstance(rule.head.time, TimeOffset)
                        offset = atom.time.offset - rule.head.time.offset
                        layer = offset + self.phi[name] - self.phi[rule.head.predicate]
                        inside = place[name] == place[rule.head.predicate] and not layer
                    bodies.append(Body(name, offset, None, 0, 0, inside))
                ways.append(Way(numbered, rule, tuple(bodies), None))
                numbered += 1
            self.layers.append((list(names), ways))
        # How far behind tin a slice is still looked at; those not listed are never kept.
        self.behind: dict[str, int] = {}
        for edge in deps.edges:
            if edge.offset is not None:
                ticks = self.phi[edge.head] - edge.offset - 1
                self.behind[edge.body] = max(self.behind.get(edge.body, ticks), ticks)
        self.queries = [q for q in deps.queries if core.predicates[q].temporal]

    def take(self, facts: Mapping[str, Mapping[int, Iterable[Row]]]) -> None:
        """New facts after tin."""
        for name, times in facts.items():
            for time, rows in times.items():
                useful = self.chosen[name](rows)
                if useful:
                    self._store(name, time, Slice(useful))

    def run(
        self, tin: int, to: int, low: int, high: int, *, stay: bool = False
    ) -> dict[str, set[Row]]:
        """Go on from tin, and give the answers between two times; with `stay`, only look."""
        found: dict[str, set[Row]] = {q: set() for q in self.queries}
        before = (dict(self.cells), self.count) if stay else None
        for at in range(tin + 1, to + 1):
            passing: list[tuple[str, int]] = []
            for names, ways in self.layers:
                made = self._evaluated(ways, at)
                for name in names:
                    slice_ = made.get(name)
                    if slice_ is not None and slice_.rows:
                        time = at - self.phi[name]
                        self._store(name, time, slice_)
                        if name not in self.behind or time < at - self.behind[name]:
                            passing.append((name, time))
            for query in self.queries:
                time = at - self.phi[query]
                if low <= time <= high:
                    rows = self.cells.get((query, time), EMPTY).rows
                    found[query].update((*row, time) for row in rows)
            passing += [(name, at - ticks - 1) for name, ticks in self.behind.items()]
            for key in passing:
                gone = self.cells.pop(key, None)
                if gone is not None:
                    self.count -= len(gone.rows)
        if before is not None:
            self.cells, self.count = before
        return found

    def _store(self, name: str, time: int, slice_: Slice) -> None:
        known = self.cells.get((name, time))
        if known is not None:
            self.count -= len(known.rows)
            slice_ = Slice(known.rows | slice_.rows)
        self.cells[name, time] = slice_
        self.count += len(slice_.rows)

    def _evaluated(self, ways: list[Way], at: int) -> dict[str, Slice]:
        found: dict[str, Slice] = {}
        later: list[tuple[Way, list[Slice]]] = []
        for way in ways:
            time = at - self.phi[way.head]
            if way.point is not None and way.point != time:
                continue
            bodies: list[Slice] = []
            for body in way.bodies:
                if body.inside:
                    bodies.append(EMPTY)
                    continue
                if body.offset is None:
                    slice_ = self.static[body.name]
                else:
                    slice_ = self.cells.get((body.name, time + body.offset), EMPTY)
                if not slice_.rows:
                    break
                bodies.append(slice_)
            else:
                if way.inside:
                    later.append((way, bodies))
                    continue
                slice_ = found.get(way.head) or found.setdefault(way.head, Slice(set()))
                way.joined.fire(bodies, slice_.rows)
        if later:
            close_cell(found, later)
        return found

    # As plain data, and as the tables of a wave

    def kept(self, *, inputs: bool) -> dict[str, dict[int, set[Row]]]:
        """Slices of inputs or of derived predicates, by name and time."""
        found: dict[str, dict[int, set[Row]]] = {}
        for (name, time), slice_ in self.cells.items():
            if (name in self.chosen) is inputs:
                found.setdefault(name, {})[time] = slice_.rows
        return found

    def resume(self, facts: Mapping[str, Mapping[int, set[Row]]]) -> None:
        for name, times in facts.items():
            for time, rows in times.items():
                self._store(name, time, Slice(rows))


__all__ = ["MOST_FACTS", "MOST_TICKS", "Slices", "small"]
