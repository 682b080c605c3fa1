"""What is possible and what is used, slice by slice, kept up to date as time goes on.

The possible program says what may still come to hold. Here its model is a set of *cells*: what the
predicates of one component hold at one time. A new tick touches the cells that look at it, those
above them where something changed, and no others, so that a tick costs what changes, whatever the
age of the stream and however far the rules look. Cells that no fact has touched are not stored:
what they hold follows from how far they lie from tin alone.

Top-down, every cell says which rows of the cells below some possible answer at a time still to be
answered rests on. What is not used by any of them is forgotten, facts first of all.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import TypeAlias

from tidelog.analysis.dependencies import Dependencies
from tidelog.analysis.graph import Arc, Bound, longest
from tidelog.analysis.possible import FUTURE, Possible, PossibleRule, any_pattern
from tidelog.language.program import Atom, Rule, TimeOffset, TimePoint
from tidelog.streaming.joins import EMPTY, MOST_ATOMS, ONE, Joined, Row, Slice, chosen
from tidelog.streaming.schedule import Schedule

# A time later than all others: it stands for every output time to come.
LATER = 1 << 70
_LATE = 1 << 69
# How far ahead an explicit time may lie for facts to be carried on to it.
FAR = 1_000
# The layer of cells without a time.
NO_TIME = -LATER

Key: TypeAlias = tuple[int, int]  # a component and a layer


@dataclass(frozen=True)
class Body:
    """A body atom: a predicate, and when it is looked at."""

    name: str
    offset: int | None  # from the head's time
    point: int | None
    component: int  # -1 for what is future or never changes
    shift: int
    inside: bool  # in the same cell as the head


class Way:
    """A rule in its place: its functions, and where its body lies."""

    def __init__(
        self, number: int, rule: Rule, bodies: tuple[Body, ...], origin: PossibleRule | None
    ) -> None:
        self.number = number
        self.head = rule.head.predicate
        self.point = rule.head.time.tick if isinstance(rule.head.time, TimePoint) else None
        self.bodies = bodies
        self.joined = Joined(rule)
        self.origin = origin
        self.inside = [i for i, b in enumerate(bodies) if b.inside]


@dataclass
class Component:
    """Predicates that are derived together, and how their cells behave."""

    number: int
    shifts: dict[str, int]  # per predicate and pattern: its layer less its time
    input: bool = False
    carrying: bool = False
    final: Bound = 0  # a cell is final once tin reaches its layer and this
    pin: Bound = -math.inf  # and explicit times below have passed
    ahead: int = 0  # how many layers beyond tin are derived, where facts are carried on
    until: Bound = -math.inf  # and up to which layer, for the sake of explicit times
    ways: list[Way] = field(default_factory=list)  # the possible rules
    certain: list[Way] = field(default_factory=list)
    grounds: dict[str, str] = field(default_factory=dict)  # certain name to known pattern
    queries: dict[str, str] = field(default_factory=dict)  # pattern to query
    recursive: bool = False
    above: tuple[tuple[int, int], ...] = ()  # components that look at it, and their layers
    points: frozenset[int] = frozenset()  # layers that rules look at by explicit time
    wakes: tuple[int, ...] = ()  # after how many ticks of its layer a cell changes by itself


class Cell:
    """What a component holds at one layer; which rows are used, and by whom."""

    __slots__ = ("frozen", "shown", "slices", "used_by")

    def __init__(self) -> None:
        self.slices: dict[str, Slice] = {}
        self.used_by: dict[str, dict[tuple[int, int, int], set[Row]]] = {}
        self.frozen = False  # carried on, and final: a fact like those of inputs
        self.shown = False  # those that look at it have been told


def fits(deps: Dependencies) -> bool:
    """Whether the network is the way: no recursion through fixed times or very far ahead."""
    if any(len(rule.atoms) > MOST_ATOMS for rule in deps.core.rules if rule.head.time is None):
        return False
    if any(deps.offsets[n].high + max(0, deps.phi[n]) > FAR for n in deps.carrying):
        return False
    place = {name: i for i, c in enumerate(deps.components) for name in c}
    return not any(
        e.offset is None
        and place[e.head] == place[e.body]
        and any(deps.core.predicates[n].temporal for n in deps.components[place[e.head]])
        for e in deps.edges
    )


def never_changing(deps: Dependencies) -> frozenset[str]:
    """Rigid predicates that no temporal fact reaches."""
    moving = {n for n, p in deps.core.predicates.items() if p.temporal}
    grew = True
    while grew:
        grew = False
        for edge in deps.edges:
            if edge.body in moving and edge.head not in moving:
                moving.add(edge.head)
                grew = True
    return frozenset(n for n in deps.core.predicates if n not in moving)


def rigid_model(
    deps: Dependencies, fixed: frozenset[str], rigid: Mapping[str, set[Row]]
) -> dict[str, Slice]:
    """What holds without a time, from rigid facts alone."""
    found: dict[str, Slice] = {}
    for names in deps.components:
        if names[0] not in fixed:
            continue
        if deps.core.predicates[names[0]].input:
            found[names[0]] = Slice(rigid.get(names[0], set()))
            continue
        for name in names:
            found[name] = Slice(set())
        rules = [Joined(r) for r in deps.core.rules if r.head.predicate in names]
        grew = True
        while grew:
            grew = False
            for joined in rules:
                out: set[Row] = set()
                joined.fire([found[a.predicate] for a in joined.atoms], out)
                head = found[joined.rule.head.predicate]
                new = out - head.rows
                if new:
                    head.add(new)
                    grew = True
    return found


def close_cell(found: dict[str, Slice], ways: list[tuple[Way, list[Slice]]]) -> None:
    """Semi-naive, within one cell: `found` is what other rules gave, and grows."""
    new = {name: Slice(set(slice_.rows)) for name, slice_ in found.items()}
    while any(slice_.rows for slice_ in new.values()):
        out: dict[str, set[Row]] = {}
        for way, bodies in ways:
            for first in way.inside:
                if not new.get(way.bodies[first].name, EMPTY).rows:
                    continue
                whole = list(bodies)
                for i in way.inside:
                    name = way.bodies[i].name
                    whole[i] = (new if i == first else found).get(name, EMPTY)
                if all(slice_.rows for slice_ in whole):
                    way.joined.fire(whole, out.setdefault(way.head, set()), first)
        new = {}
        for name, rows in out.items():
            known = found.setdefault(name, Slice(set()))
            rows -= known.rows
            known.add(rows)
            new[name] = Slice(rows)


class Network:
    """The cells of some queries of class 1 or 2."""

    def __init__(
        self, made: Possible, queries: Iterable[str], rigid: Mapping[str, set[Row]]
    ) -> None:
        self.made = made
        self.deps = made.deps
        self.schedule = Schedule(made.deps)
        self.queries = tuple(queries)
        self.tin: Bound = -math.inf
        self.start: Bound = -math.inf
        self.settled: Bound = -math.inf  # what is carried on is not derived again up to here
        self.due: dict[str, Bound] = dict.fromkeys(self.queries, -math.inf)
        self.cells: dict[Key, Cell] = {}
        self.count = 0  # input facts and carried ones that are kept
        self._build()
        self.static = rigid_model(self.deps, self.fixed, rigid)
        self._static_patterns()
        self._dirty: dict[Key, None] = {}
        self._heap: list[Key] = []
        self._stale: dict[Key, None] = {}
        self._alarms: list[tuple[int, int, int]] = []
        self._defaults: dict[tuple[int, Bound], dict[str, Slice]] = {}
        self._open()

    # What follows from the rules

    def _build(self) -> None:
        deps, made = self.deps, self.made
        core, phi, pins = deps.core, self.schedule.phi, self.schedule.pins
        fixed = never_changing(deps)
        self.fixed = fixed
        place = {name: i for i, c in enumerate(deps.components) for name in c}
        pinned = self._pinned()
        self.components: list[Component] = []
        self.place: dict[str, tuple[int, int]] = {}
        self.base: dict[str, str] = {}
        for number, names in enumerate(deps.components):
            found = Component(number, {})
            self.components.append(found)
            temporal = any(core.predicates[n].temporal for n in names)
            found.input = core.predicates[names[0]].input
            found.recursive = names[0] in deps.recursive
            found.carrying = names[0] in deps.carrying
            found.pin = max(pins[n] for n in names)
            if temporal and not found.carrying:
                found.final = max(deps.phi[n] - phi[n] for n in names)
            elif not temporal:
                found.final = -math.inf
            for name in names:
                shift = phi[name] if core.predicates[name].temporal else 0
                specs = [name]
                if not found.input:
                    specs += [made.name(name, p) for p in made.patterns[name]]
                for spec in specs:
                    self.base[spec] = name
                    found.shifts[spec] = shift
                    self.place[spec] = (number, shift)
                ground = made.name(name, (None,) * len(core.predicates[name].types))
                found.grounds[name] = name if found.input else ground
                if name in self.queries:
                    for spec in specs[1:] or specs:
                        found.queries[spec] = name
            if found.carrying:
                high = (deps.offsets[n].high + phi[n] for n in names)
                found.ahead = int(max([0, *(h for h in high if not math.isinf(h))]))
                found.until = max(pinned[n] + phi[n] for n in names)
        self._rules(place)
        self._reach(place)

    def _pinned(self) -> dict[str, Bound]:
        """Per predicate, the latest time that a rule asks for by explicit time."""
        nodes = tuple(self.deps.core.predicates)
        arcs = [Arc(e.head, e.body, e.offset) for e in self.deps.edges if e.offset is not None]
        start: dict[str, int] = {}
        for edge in self.deps.edges:
            if edge.point is not None:
                start[edge.body] = max(start.get(edge.body, edge.point), edge.point)
        return longest(nodes, arcs, start)[0]

    def _rules(self, place: Mapping[str, int]) -> None:
        numbered = 0
        possible = {id(p.rule): p for p in self.made.rules}
        for rule in (*self.deps.core.rules, *(p.rule for p in self.made.rules)):
            head = self.base[rule.head.predicate]
            if head in self.fixed:
                continue
            bodies = tuple(self._body(rule, atom, place[head]) for atom in rule.atoms)
            way = Way(numbered, rule, bodies, possible.get(id(rule)))
            numbered += 1
            component = self.components[place[head]]
            (component.certain if way.origin is None else component.ways).append(way)

    def _body(self, rule: Rule, atom: Atom, above: int) -> Body:
        name = atom.predicate
        offset = point = None
        if isinstance(atom.time, TimePoint):
            point = atom.time.tick
        elif isinstance(atom.time, TimeOffset):
            assert isinstance(rule.head.time, TimeOffset)
            offset = atom.time.offset - rule.head.time.offset
        if name == FUTURE or self.base[name] in self.fixed:
            return Body(name, offset, point, -1, 0, False)
        number, shift = self.place[name]
        _, over = self.place[rule.head.predicate]
        inside = number == above and (offset is None or offset + shift == over)
        return Body(name, offset, point, number, shift, inside)

    def _reach(self, place: Mapping[str, int]) -> None:
        """Who looks at what, and when a cell changes by itself."""
        phi = self.schedule.phi
        above: list[dict[tuple[int, int], None]] = [{} for _ in self.components]
        points: list[set[int]] = [set() for _ in self.components]
        self._timeless: set[int] = set()  # looked at without a time
        for edge in self.deps.edges:
            if edge.body in self.fixed:
                continue
            head, body = place[edge.head], place[edge.body]
            if edge.offset is not None:
                step = phi[edge.head] - phi[edge.body] - edge.offset
                if head != body or step:
                    above[body][head, step] = None
            elif edge.point is not None:
                points[body].add(edge.point + phi[edge.body])
            elif head != body:
                self._timeless.add(body)
        offsets = self._input_offsets()
        for found, users, pinned in zip(self.components, above, points, strict=True):
            found.above = tuple(users)
            found.points = frozenset(pinned)
            if not found.input and not found.carrying:
                names = [n for n in found.grounds if n in offsets]
                ticks = {o - found.shifts[n] for n in names for o in offsets[n]}
                found.wakes = tuple(sorted(ticks))
        # When explicit times pass, what depends on them changes everywhere.
        passing: set[Bound] = {c.pin for c in self.components if not math.isinf(c.pin)}
        passing.update(*(c.points for c in self.components if c.input))
        self._pins = sorted(passing)
        self.moving = any(c.carrying for c in self.components)

    def _input_offsets(self) -> dict[str, set[int]]:
        """Per predicate, at which offsets inputs lie below it, or what is carried on comes near."""
        core, carrying = self.deps.core, self.deps.carrying
        found: dict[str, set[int]] = {n: set() for n, p in core.predicates.items() if p.temporal}
        todo = [(n, 0) for n in found if core.predicates[n].input]
        for component in self.components:
            if component.carrying:
                # Near tin, what it may still come to hold is less at every tick.
                near = range(component.ahead + 1)
                todo += [(n, component.shifts[n] - i) for n in component.grounds for i in near]
        users: dict[str, list[tuple[str, int]]] = {}
        for edge in self.deps.edges:
            if edge.offset is not None and edge.head not in carrying:
                users.setdefault(edge.body, []).append((edge.head, edge.offset))
        while todo:
            name, offset = todo.pop()
            if offset not in found[name]:
                found[name].add(offset)
                todo += [(head, offset + o) for head, o in users.get(name, ())]
        return found

    def _static_patterns(self) -> None:
        """What never changes has no arbitrary arguments."""
        for name in self.fixed:
            if not self.deps.core.predicates[name].input:
                for pattern in self.made.patterns[name]:
                    ground = self.made.ground(pattern)
                    spec = self.made.name(name, pattern)
                    self.static[spec] = self.static[name] if ground else EMPTY

    def _open(self) -> None:
        """Cells that are there before any fact: explicit times, and one for all later answers."""
        self._wild: dict[str, Slice] = {}
        for name in self.deps.carrying:
            predicate = self.deps.core.predicates[name]
            pattern = any_pattern(predicate)
            bools = sum(label is None for label in pattern)
            rows: set[Row] = set(product((True, False), repeat=bools))
            self._wild[self.made.name(name, pattern)] = Slice(rows)
        for component in self.components:
            for way in (*component.ways, *component.certain):
                if way.point is not None:
                    self._touch((component.number, way.point + component.shifts[way.head]))
            for layer in () if component.input else component.points:
                self._touch((component.number, layer))
            if not component.input and not self._is_fixed(component) and self._rigid(component):
                self._touch((component.number, NO_TIME))
        if any(c.points for c in self.components) or self._timeless:
            for key in self._below_later():
                self._touch(key)

    def _is_fixed(self, component: Component) -> bool:
        return next(iter(component.grounds)) in self.fixed

    def _rigid(self, component: Component) -> bool:
        return not self.deps.core.predicates[next(iter(component.grounds))].temporal

    def _below_later(self) -> Iterator[Key]:
        """The cells below an output at a time later than all others."""
        todo: list[Key] = []
        for query in self.queries:
            if query not in self.fixed and self.deps.core.predicates[query].temporal:
                number, shift = self.place[query]
                todo.append((number, LATER + shift))
        seen: set[Key] = set()
        while todo:
            key = todo.pop()
            component = self.components[key[0]]
            if key in seen or component.input:
                continue
            seen.add(key)
            # One layer stands for all of what is carried on: out there anything may hold.
            if component.carrying and any(k[0] == key[0] and k != key for k in seen):
                seen.discard(key)
                continue
            yield key
            for way in component.ways:
                for body in way.bodies:
                    if body.offset is not None and body.component >= 0:
                        at = key[1] - component.shifts[way.head] + body.offset + body.shift
                        todo.append((body.component, at))

    # Reading

    def read(self, body: Body, at: int | None) -> Slice:
        """What a body atom holds at a time."""
        if body.component < 0:
            if body.name == FUTURE:
                assert at is not None
                return ONE if at > self.tin else EMPTY
            return self.static[body.name]
        layer = NO_TIME if at is None else at + body.shift
        return self.slice(body.component, layer, body.name)

    def slice(self, number: int, layer: int, name: str) -> Slice:
        component = self.components[number]
        if component.carrying and layer > self.near(component):
            return self._wild.get(name, EMPTY)
        cell = self.cells.get((number, layer))
        if cell is not None:
            return cell.slices.get(name, EMPTY)
        return self._default(component, layer).get(name, EMPTY)

    def near(self, component: Component) -> Bound:
        """The last layer that is derived of what is carried on; anything may hold after it."""
        if self.tin < component.until <= self.tin + FAR:
            return max(self.tin + component.ahead, component.until)
        return self.tin + component.ahead

    def is_final(self, component: Component, layer: int) -> bool:
        return layer + component.final <= self.tin and component.pin <= self.tin

    def _default(self, component: Component, layer: int) -> dict[str, Slice]:
        """What a cell that no fact has touched holds."""
        if component.input or self.is_final(component, layer):
            return {}
        if component.carrying:
            if layer > self.near(component):
                return self._wild
            found: dict[str, Slice] = {}
            for n in range(1, int(layer - self.tin) + 1):
                if (component.number, n) not in self._defaults:
                    found = self._evaluated(component, int(self.tin) + n, untouched=True)
                    self._defaults[component.number, n] = found
            return self._defaults.get((component.number, layer - self.tin), {})
        # Beyond everything that has arrived all is alike.
        alike = not component.wakes or layer + component.wakes[0] > self.tin
        key = (component.number, math.inf if alike else layer - self.tin)
        known = self._defaults.get(key)
        if known is None:
            known = self._defaults[key] = self._evaluated(component, layer, untouched=True)
        return known

    def _read_default(self, body: Body, at: int | None) -> Slice:
        if body.component < 0 or body.offset is None:
            return self.read(body, at)
        assert at is not None
        component = self.components[body.component]
        return self._default(component, at + body.shift).get(body.name, EMPTY)

    def _evaluated(
        self, component: Component, layer: int, *, untouched: bool = False
    ) -> dict[str, Slice]:
        """The model of one cell."""
        read = self._read_default if untouched else self.read
        ways = component.ways
        final = self.is_final(component, layer)
        if not final and not untouched:
            ways = [*ways, *component.certain]
        found: dict[str, Slice] = {}
        later: list[tuple[Way, list[Slice]]] = []
        for way in ways:
            time = layer - component.shifts[way.head]
            if way.point is not None and (untouched or way.point != time):
                continue
            bodies: list[Slice] = []
            for body in way.bodies:
                if body.inside:
                    bodies.append(EMPTY)
                    continue
                slice_ = read(body, body.point if body.offset is None else time + body.offset)
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
        if final:
            for name, ground in component.grounds.items():
                if ground in found:
                    found[name] = found[ground]
        return found

    # Time goes on

    def begin(self, start: int) -> None:
        """The input time before which there is no fact."""
        self.tin = self.start = start
        self._update()

    def advance(self, tin: int, facts: Mapping[str, Mapping[int, Iterable[Row]]]) -> None:
        """Everything up to tin has arrived: these facts, by input and time, are new."""
        before, self.tin = self.tin, tin
        for name, times in facts.items():
            number, _ = self.place[name]
            for time, rows in times.items():
                self.put(number, name, time, set(rows))
        while self._alarms and self._alarms[0][0] <= tin:
            _, number, layer = heapq.heappop(self._alarms)
            if (number, layer) in self.cells:
                self._touch((number, layer))
        for component in self.components:
            if component.carrying:
                for layer in range(tin, int(self.near(component)) + 1):
                    if (component.number, layer) in self.cells:
                        self._touch((component.number, layer))
        if any(before < pin <= tin for pin in self._pins) or any(
            before < component.until <= tin + FAR for component in self.components
        ):
            self._touch_all(-1)
        self._update()

    def next_event(self, tin: int) -> int:
        """The next input time, at most tin, at which something happens without new facts."""
        found = [tin, *(a[0] for a in self._alarms[:1]), *(p for p in self._pins if p > self.tin)]
        for number, layer in self.cells:
            component = self.components[number]
            if component.carrying and layer > self.tin:
                found.append(layer - component.ahead)
        if any(c.until > self.tin for c in self.components):
            found.append(self.tin + 1)
        return max(int(min(found)), int(self.tin) + 1)

    def put(self, number: int, name: str, layer: int, rows: set[Row]) -> None:
        """Facts of an input, or of a predicate that is carried on, at a layer."""
        if not rows:
            return
        key = (number, layer)
        cell = self.cells.get(key)
        if cell is None:
            cell = self.cells[key] = Cell()
        known = cell.slices.get(name, EMPTY).rows
        self.count += len(rows - known)
        cell.slices[name] = Slice(known | rows)
        self._spread(key)
        self._stale[key] = None

    def _touch(self, key: Key) -> None:
        if self._is_settled(key):
            return
        if key not in self._dirty:
            self._dirty[key] = None
            heapq.heappush(self._heap, key)

    def _touch_all(self, above: int) -> None:
        self._defaults.clear()
        for key, cell in self.cells.items():
            if key[0] > above and not self.components[key[0]].input and not cell.frozen:
                self._touch(key)

    def _spread(self, key: Key) -> None:
        """A cell has changed: so may those that look at it."""
        number, layer = key
        component = self.components[number]
        if layer != NO_TIME:
            for above, step in component.above:
                over = self.components[above]
                if over.carrying and layer + step <= self.start:
                    continue
                self._touch((above, layer + step))
        if layer in component.points or layer == NO_TIME:
            self._touch_all(number)

    def _update(self) -> None:
        """Evaluate what was touched, from the inputs up."""
        while self._heap:
            key = heapq.heappop(self._heap)
            del self._dirty[key]
            number, layer = key
            component = self.components[number]
            cell = self.cells.get(key)
            if cell is not None and cell.frozen:
                continue
            if cell is None:
                cell = self.cells[key] = Cell()
                if layer < _LATE:
                    for wake in component.wakes:
                        if layer + wake > self.tin:
                            heapq.heappush(self._alarms, (layer + wake, number, layer))
            old, cell.slices = cell.slices, self._evaluated(component, layer)
            self._stale[key] = None
            far = component.carrying and layer > self.near(component)
            if component.carrying and layer <= self.tin and component.pin <= self.tin:
                cell.frozen = True
                self.count += self._carried(component, cell)
            if far:
                continue  # whatever looks at it takes anything to be possible
            if not cell.shown:
                # A cell that is settled and empty is what it was taken for.
                changed = not cell.frozen or any(s.rows for s in cell.slices.values())
            else:
                changed = _differ(old, cell.slices)
            if changed:
                cell.shown = True
                self._spread(key)

    def _carried(self, component: Component, cell: Cell) -> int:
        return sum(len(cell.slices[g].rows) for g in component.grounds.values() if g in cell.slices)

    def carried(self) -> dict[str, dict[int, set[Row]]]:
        """The facts that are carried on and final, by predicate and layer."""
        return {name: self.kept(name) for name in sorted(self.deps.carrying)}

    def resume(
        self,
        start: int,
        tin: int,
        facts: Mapping[str, Mapping[int, set[Row]]],
        carried: Mapping[str, Mapping[int, set[Row]]],
    ) -> None:
        """Go on from what was kept at tin, with `due` set already."""
        self.start, self.tin = start, tin
        if all(c.pin <= tin for c in self.components if c.carrying):
            self.settled = tin
            self._dirty = {k: None for k in self._dirty if not self._is_settled(k)}
            self._heap = sorted(self._dirty)
        for name, layers in facts.items():
            for layer, rows in layers.items():
                self.put(self.place[name][0], name, layer, rows)
        for name, layers in carried.items():
            number, _ = self.place[name]
            for layer, rows in layers.items():
                cell = self.cells.setdefault((number, layer), Cell())
                cell.frozen = cell.shown = True
                found = Slice(rows)
                cell.slices[name] = cell.slices[self.components[number].grounds[name]] = found
                self.count += len(rows)
                self._spread((number, layer))
                self._stale[number, layer] = None
        self._update()
        self.forget()

    def _is_settled(self, key: Key) -> bool:
        return key[1] <= self.settled and self.components[key[0]].carrying

    def kept(self, name: str) -> dict[int, set[Row]]:
        """The facts of an input, or of what is carried on, that are kept, by layer."""
        number, _ = self.place[name]
        component = self.components[number]
        ground = component.grounds[name]
        return {
            layer: cell.slices[ground].rows
            for (n, layer), cell in self.cells.items()
            if n == number and ground in cell.slices and (component.input or cell.frozen)
        }

    # What is used

    def changed(self, query: str) -> list[int]:
        """The times at which a query's cells were evaluated since the last `forget`."""
        number, shift = self.place[query]
        return [layer - shift for n, layer in self._stale if n == number]

    def finished(self, query: str, time: int | None) -> None:
        """The answers at a time are given: nothing is needed for them any more."""
        if query in self.fixed:
            return
        number, shift = self.place[query]
        key = (number, NO_TIME if time is None else time + shift)
        if key in self.cells:
            self._stale[key] = None

    def forget(self) -> None:
        """Drop what no possible answer that is still due rests on."""
        heap = [(-number, -layer) for number, layer in self._stale]
        heapq.heapify(heap)
        while heap:
            number, layer = heapq.heappop(heap)
            key = (-number, -layer)
            del self._stale[key]
            cell = self.cells.get(key)
            if cell is None:
                continue
            for below in self._use(key, cell):
                if below not in self._stale:
                    self._stale[below] = None
                    heapq.heappush(heap, (-below[0], -below[1]))

    def _use(self, key: Key, cell: Cell) -> list[Key]:
        """Which rows of a cell are used; the cells below for which that makes a difference."""
        number, layer = key
        component = self.components[number]
        used: dict[str, set[Row]] = {}
        free = component.carrying and not cell.frozen
        for name, slice_ in cell.slices.items():
            if name in component.grounds and not component.input:
                continue  # certain rows follow those that are possible
            rows: set[Row] = set()
            query = component.queries.get(name)
            if free or (query is not None and self._is_due(query, layer - component.shifts[name])):
                rows = slice_.rows
            else:
                reasons = cell.used_by.get(name)
                if reasons and len(reasons) == 1:
                    (rows,) = reasons.values()
                elif reasons:
                    rows = set().union(*reasons.values())
                if len(rows) > len(slice_.rows) or not rows <= slice_.rows:
                    rows = rows & slice_.rows
            if rows:
                used[name] = rows
        changed: list[Key] = []
        if not component.input and not cell.frozen:
            changed = self._pass_on(key, component, cell, used, closed=free)
        elif cell.frozen:
            changed = self._pass_on(key, component, cell, {}, closed=True)
        self._prune(key, component, cell, used)
        return changed

    def _is_due(self, query: str, time: int) -> bool:
        return time >= self.due[query]

    def _pass_on(
        self,
        key: Key,
        component: Component,
        cell: Cell,
        used: dict[str, set[Row]],
        *,
        closed: bool,
    ) -> list[Key]:
        layer = key[1]
        changed: dict[Key, None] = {}
        while True:
            grew = False
            for way in component.ways:
                time = layer - component.shifts[way.head]
                if way.point is not None and way.point != time:
                    continue
                marks: list[set[Row]] | None = None
                heads = used.get(way.head)
                if heads:
                    bodies: list[Slice] = []
                    for body in way.bodies:
                        at = body.point if body.offset is None else time + body.offset
                        slice_ = (
                            cell.slices.get(body.name, EMPTY)
                            if body.inside
                            else self.read(body, at)
                        )
                        if not slice_.rows:
                            break
                        bodies.append(slice_)
                    else:
                        marks = way.joined.mark(heads, bodies)
                for i, body in enumerate(way.bodies):
                    if body.component < 0:
                        continue
                    rows = marks[i] if marks else set()
                    if body.inside:
                        if not closed and rows:
                            known = used.setdefault(body.name, set())
                            if not rows <= known:
                                used[body.name] = known | rows
                                grew = True
                        continue
                    at = body.point if body.offset is None else time + body.offset
                    under = NO_TIME if at is None else at + body.shift
                    below = self.cells.get((body.component, under))
                    if below is None:
                        continue
                    reasons = below.used_by.setdefault(body.name, {})
                    reason = (way.number, i, layer)
                    if rows:
                        if reasons.get(reason) != rows:
                            reasons[reason] = rows
                            changed[body.component, under] = None
                    elif reasons.pop(reason, None) is not None:
                        changed[body.component, under] = None
            if not grew:
                return list(changed)

    def _prune(self, key: Key, component: Component, cell: Cell, used: dict[str, set[Row]]) -> None:
        layer = key[1]
        if component.input:
            (name,) = component.grounds
            rows = used.get(name, set())
            self.count -= len(cell.slices[name].rows) - len(rows)
            if not rows:
                del self.cells[key]
            elif len(rows) < len(cell.slices[name].rows):
                cell.slices[name] = Slice(rows)
            return
        if layer == NO_TIME or layer >= _LATE:
            return
        if component.carrying and not cell.frozen:
            return
        before = self._carried(component, cell) if cell.frozen else 0
        if not used and (cell.frozen or self.is_final(component, layer)):
            self.count -= before
            del self.cells[key]
            return
        for name, slice_ in list(cell.slices.items()):
            ground = component.grounds.get(name)
            rows = used.get(name if ground is None else ground, set())
            if not rows:
                del cell.slices[name]
            elif ground is None and len(rows) == len(slice_.rows):
                continue  # all of it is used
            elif not slice_.rows <= rows:
                cell.slices[name] = Slice(slice_.rows & rows)
        if cell.frozen:
            self.count += self._carried(component, cell) - before


def _differ(old: Mapping[str, Slice], new: Mapping[str, Slice]) -> bool:
    return any(old.get(name, EMPTY).rows != new.get(name, EMPTY).rows for name in {**old, **new})


__all__ = ["LATER", "NO_TIME", "Network", "chosen", "fits"]
