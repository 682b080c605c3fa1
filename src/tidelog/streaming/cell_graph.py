"""What follows from the rules alone about cells: their components, and who looks at whom."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count

from tidelog.analysis.dependencies import Dependencies
from tidelog.analysis.possible import (
    FUTURE,
    Possible,
    PossibleClause,
    could_match,
    narrow,
)
from tidelog.language.graph import Arc, Bound, longest
from tidelog.logic.clause import Clause, Premise
from tidelog.logic.core import Role, rules_of
from tidelog.logic.core import key as key_of
from tidelog.streaming.cells import (
    LATER,
    CellKey,
    Component,
    Lookup,
    PlacedClause,
    Stage,
    in_order,
    never_changing,
)
from tidelog.streaming.joins import MOST_PREMISES
from tidelog.streaming.schedule import Schedule
from tidelog.streaming.tracked import Tracked
from tidelog.streaming.wakes import set_wakes

# How far ahead an explicit time may lie for facts to be carried on to it.
FAR = 1_000


def fits(deps: Dependencies) -> bool:
    """Whether queries can be answered cell by cell.

    They cannot where rules recurse through fixed times or look very far ahead, nor where they both
    carry facts on and look at fixed times, and ask for absence.
    """
    clauses = rules_of(deps.core)
    if any(len(c.premises) > MOST_PREMISES for c in clauses if not c.head.temporal):
        return False
    if deps.negated and deps.carrying and deps.pinned:
        return False  # what is carried on to a fixed tick must be known to the end
    if any(deps.offsets[n].high + max(0, deps.phi[n]) > FAR for n in deps.carrying):
        return False
    place = {name: i for i, c in enumerate(deps.components) for name in c}
    return not any(
        e.offset is None
        and place[e.head] == place[e.body]
        and any(deps.core.predicates[n].temporal for n in deps.components[place[e.head]])
        for e in deps.edges
    )


class CellGraph:
    """The components of some queries of class 1 or 2, inputs first."""

    def __init__(
        self, made: Possible, queries: Iterable[str], tracked: Mapping[str, Tracked]
    ) -> None:
        self.made = made
        self.tracked = tracked
        self.deps = made.deps
        self.schedule = Schedule(made.deps)
        self.queries = tuple(queries)
        self.fixed = never_changing(self.deps)
        self.components: list[Component] = []
        self.place: dict[str, tuple[int, int]] = {}  # a predicate's component, and its shift
        self._base: dict[str, str] = {}  # of a pattern, its predicate
        self._stage: dict[str, int] = {}  # of a predicate, its place among those of its component
        self.loose = self._hanging_on_absence()
        pinned = self._pinned()
        for number, names in enumerate(self.deps.components):
            self.components.append(self._component(number, names, pinned))
        number_of = {name: i for i, c in enumerate(self.deps.components) for name in c}
        self._place_clauses(number_of)
        self.timeless = self._connect(number_of)  # components that are looked at without a time
        set_wakes(self.deps, self.components)
        # When explicit times pass, what depends on them changes everywhere.
        passing: set[Bound] = {c.pin for c in self.components if not math.isinf(c.pin)}
        passing.update(*(c.points for c in self.components if c.input))
        self.pins = sorted(passing)
        self.moving = any(c.carrying for c in self.components)

    def is_rigid(self, component: Component) -> bool:
        return not self.deps.core.predicates[next(iter(component.grounds))].temporal

    def is_fixed(self, component: Component) -> bool:
        return next(iter(component.grounds)) in self.fixed

    def below_later(self) -> Iterator[CellKey]:
        """The cells below an output at a time later than all others."""
        todo: list[CellKey] = []
        for query in self.queries:
            if query not in self.fixed and self.deps.core.predicates[query].temporal:
                number, shift = self.place[query]
                todo.append((number, LATER + shift))
        seen: set[CellKey] = set()
        while todo:
            key = todo.pop()
            component = self.components[key[0]]
            if key in seen or component.input:
                continue
            # One layer stands for all of what is carried on: out there anything may hold.
            if component.carrying and any(k[0] == key[0] for k in seen):
                continue
            seen.add(key)
            yield key
            for clause in component.telling:
                for lookup in clause.lookups:
                    if lookup.offset is not None and lookup.component >= 0:
                        head = key[1] - component.shifts[clause.head]
                        todo.append((lookup.component, head + lookup.offset + lookup.shift))

    def loosely(self, name: str) -> str:
        """The name for what may come to hold of a pattern if nothing had to be absent."""
        return key_of(Role.LOOSE, name) if self._base[name] in self.loose else name

    # Making the components

    def _hanging_on_absence(self) -> frozenset[str]:
        """Predicates that change, and for which something must be absent, or for one below."""
        loose = {e.head for e in self.deps.edges if e.negated} - self.fixed
        grew = bool(loose)
        while grew:
            more = {edge.head for edge in self.deps.edges if edge.body in loose}
            grew = not more <= loose
            loose |= more
        return frozenset(loose)

    def _component(
        self, number: int, names: tuple[str, ...], pinned: Mapping[str, Bound]
    ) -> Component:
        core, phi, made = self.deps.core, self.schedule.phi, self.made
        component = Component(number, {})
        component.input = core.predicates[names[0]].input
        component.carrying = names[0] in self.deps.carrying
        alone = len(names) == 1 and not component.carrying
        component.window = alone and core.predicates[names[0]].role is Role.WINDOW
        component.tracked = self.tracked.get(names[0])
        component.pin = max(self.schedule.pins[n] for n in names)
        if not any(core.predicates[n].temporal for n in names):
            component.final = -math.inf
        elif not component.carrying:
            component.final = max(self.deps.phi[n] - phi[n] for n in names)
        for name in names:
            shift = phi[name] if core.predicates[name].temporal else 0
            patterns = [] if component.input else made.patterns[name]
            specs = [made.name(name, pattern) for pattern in patterns]
            self._base |= dict.fromkeys((name, *specs), name)
            loose = {spec: self.loosely(spec) for spec in specs}
            for spec in (name, *specs, *loose.values()):
                self._base[spec] = name
                component.shifts[spec] = shift
                self.place[spec] = (number, shift)
            ground = made.name(name, (None,) * len(core.predicates[name].types))
            component.grounds[name] = name if component.input else ground
            if not component.input:
                component.follows[name] = loose.get(ground, ground)
                component.follows |= {s: other for s, other in loose.items() if s != other}
            if name in self.queries:
                component.queries |= dict.fromkeys(list(loose.values()) or [name], name)
        for stage, together in enumerate(in_order(self.deps, names, phi)):
            component.stages.append(Stage(together))
            self._stage |= dict.fromkeys(together, stage)
        if component.carrying:
            high = (self.deps.offsets[n].high + phi[n] for n in names)
            component.ahead = int(max([0, *(h for h in high if not math.isinf(h))]))
            component.until = max(pinned[n] + phi[n] for n in names)
        return component

    def _pinned(self) -> dict[str, Bound]:
        """Per predicate, the latest time that a rule asks for by explicit time."""
        nodes = tuple(self.deps.core.predicates)
        arcs = [Arc(e.head, e.body, e.offset) for e in self.deps.edges if e.offset is not None]
        start: dict[str, int] = {}
        for edge in self.deps.edges:
            if edge.point is not None:
                start[edge.body] = max(start.get(edge.body, edge.point), edge.point)
        return longest(nodes, arcs, start)[0]

    def _place_clauses(self, number_of: Mapping[str, int]) -> None:
        number = count()

        def placed(clause: Clause) -> PlacedClause:
            lookups = tuple(self._lookup(clause, premise) for premise in clause.premises)
            return PlacedClause(next(number), clause, lookups)

        for clause in self.made.certain:
            head = clause.head.predicate
            if head not in self.fixed and head not in self.tracked:
                stage = self.components[number_of[head]].stages[self._stage[head]]
                stage.certain.append(placed(clause))
        for rule in self.made.clauses:
            head = self._base[rule.clause.head.predicate]
            if head in self.fixed or head in self.tracked:
                continue
            component = self.components[number_of[head]]
            stage = component.stages[self._stage[head]]
            stage.possible.append(placed(rule.clause))
            telling = stage.possible[-1]
            if head in self.loose:
                loose = self._loosened(rule)
                stage.loose.append(placed(replace(loose, premises=loose.positive)))
                telling = placed(loose)
            component.telling.append(telling)

    def _loosened(self, rule: PossibleClause) -> Clause:
        """A possible clause on what may hold if nothing had to be absent.

        Its negated premises are all that could come in the way of it.
        """
        clause = rule.clause
        positive = map(self._loose_premise, clause.positive)
        ways = (way for absent in (*clause.negative, *rule.unchecked) for way in self._ways(absent))
        head = replace(clause.head, predicate=self.loosely(clause.head.predicate))
        return replace(clause, head=head, premises=(*positive, *ways), written=None)

    def _loose_premise(self, premise: Premise) -> Premise:
        if premise.predicate == FUTURE:
            return premise
        return replace(premise, predicate=self.loosely(premise.predicate))

    def _ways(self, premise: Premise) -> Iterator[Premise]:
        """What may loosely hold that a negated premise asks for, under every pattern."""
        name = premise.predicate
        if name in self.fixed:
            return
        if self.deps.core.predicates[name].input:
            yield premise
            return
        bound = {v.name for v in premise.variables}
        for pattern in self.made.patterns[name]:
            if could_match(premise, pattern, bound) is not None:
                yield self._loose_premise(narrow(premise, pattern))

    def _lookup(self, clause: Clause, premise: Premise) -> Lookup:
        name = premise.predicate
        if name == FUTURE or self._base[name] in self.fixed:
            return Lookup.of(premise)
        number, shift = self.place[name]
        offset = Lookup.of(premise).offset
        above, head_shift = self.place[clause.head.predicate]
        inside = number == above and (offset is None or offset + shift == head_shift)
        stages = self._stage[self._base[name]], self._stage[self._base[clause.head.predicate]]
        return Lookup.of(premise, number, shift, inside, inside and stages[0] != stages[1])

    def _connect(self, number_of: Mapping[str, int]) -> set[int]:
        """Tell components who looks at them, and when; those looked at without a time."""
        phi = self.schedule.phi
        above: list[dict[tuple[int, int], None]] = [{} for _ in self.components]
        points: list[set[int]] = [set() for _ in self.components]
        timeless: set[int] = set()
        for name, window in self.tracked.items():
            self.components[number_of[window.base]].counted_by += (number_of[name],)
        for edge in self.deps.edges:
            if edge.body in self.fixed or edge.head in self.tracked:
                continue
            head, body = number_of[edge.head], number_of[edge.body]
            if edge.offset is not None:
                step = phi[edge.head] - phi[edge.body] - edge.offset
                if head != body or step:
                    above[body][head, step] = None
            elif edge.point is not None:
                points[body].add(edge.point + phi[edge.body])
            elif head != body:
                timeless.add(body)
        for component, users, pinned in zip(self.components, above, points, strict=True):
            component.above = tuple(users)
            component.points = frozenset(pinned)
        return timeless
