"""Cells: what the predicates of one component hold at one time, and how one cell is derived.

Predicates that depend on each other form a component and are derived together. Their times differ
by fixed shifts, so that one number, the layer, says which of their times belong to one cell: the
layer of a predicate at a time is the time plus its shift.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from tidelog.analysis.dependencies import Dependencies
from tidelog.language.graph import Bound, components
from tidelog.language.program import Row
from tidelog.logic.aggregate import Aggregate
from tidelog.logic.clause import (
    AggregateOf,
    Clause,
    FixedTick,
    Free,
    Offset,
    Premise,
    Rigid,
    Sign,
    WindowOf,
)
from tidelog.logic.core import External, RuleSet
from tidelog.streaming.joins import EMPTY, CompiledClause, IndexedSlice
from tidelog.streaming.tracked import Tracked

# A time later than all others: it stands for every output time to come.
LATER = 1 << 70
LATE = LATER >> 1  # layers from here on belong to it
# The layer of cells without a time.
NO_TIME = -LATER

CellKey: TypeAlias = tuple[int, int]  # a component and a layer
CellContent: TypeAlias = dict[str, IndexedSlice]  # by predicate, what holds in a cell


@dataclass(frozen=True, slots=True)
class Lookup:
    """A premise in its place: which slices it looks at."""

    name: str
    offset: int | None  # from the head's time
    point: int | None  # or a fixed tick; neither for what has no time
    component: int = -1  # none for what is future or never changes
    shift: int = 0
    inside: bool = False  # whether it lies in the same cell as the head
    earlier: bool = False  # and is derived there before the head is
    negated: bool = False

    @staticmethod
    def of(
        premise: Premise,
        component: int = -1,
        shift: int = 0,
        inside: bool = False,
        earlier: bool = False,
    ) -> Lookup:
        offset = point = None
        match premise.when:
            case Offset(ticks):
                offset = ticks
            case FixedTick(tick):
                point = tick
            case Rigid():
                pass
            case Free():
                raise AssertionError("a clause with a free time is not derived cell by cell")
            case _:
                assert_never(premise.when)
        negated = premise.sign is Sign.NEGATIVE
        return Lookup(premise.predicate, offset, point, component, shift, inside, earlier, negated)

    def time(self, head: int) -> int | None:
        """The time it looks at, for a head at a time; None for what has no time."""
        return self.point if self.offset is None else head + self.offset


class PlacedClause:
    """A clause in its component: its functions, and where its premises lie."""

    def __init__(self, number: int, clause: Clause, lookups: tuple[Lookup, ...]) -> None:
        self.number = number
        self.head = clause.head.predicate
        self.point = clause.head.point  # the only time of its head, if that is a fixed tick
        self.lookups = lookups
        self.compiled = CompiledClause(clause)
        self.within = any(lookup.inside for lookup in lookups)
        # Those that are derived together with the head.
        self.inside = [i for i, look in enumerate(lookups) if look.inside and not look.earlier]
        assert not any(lookups[i].negated for i in self.inside), "absence is known before"


@dataclass
class Component:
    """Predicates that are derived together, and how their cells behave."""

    number: int
    shifts: dict[str, int]  # per predicate and pattern: its layer less its time
    input: bool = False
    carrying: bool = False
    window: bool = False  # whether it is a window over time
    final: Bound = 0  # a cell is final once tin reaches its layer and this
    pin: Bound = -math.inf  # and explicit times below have passed
    ahead: int = 0  # how many layers beyond tin are derived, where facts are carried on
    until: Bound = -math.inf  # and up to which layer, for the sake of explicit times
    stages: list[Stage] = field(default_factory=list)  # in the order in which they are derived
    telling: list[PlacedClause] = field(default_factory=list)  # clauses by which liveness goes
    grounds: dict[str, str] = field(default_factory=dict)  # certain name to known pattern
    follows: dict[str, str] = field(default_factory=dict)  # name to that by whose use it is kept
    queries: dict[str, str] = field(default_factory=dict)  # pattern to query
    above: tuple[tuple[int, int], ...] = ()  # components that look at it, and their layers
    points: frozenset[int] = frozenset()  # layers that rules look at by explicit time
    wakes: tuple[int, ...] = ()  # after how many ticks of its layer a cell changes by itself
    tracked: Tracked | None = None  # if it is a window that is followed object by object
    counted_by: tuple[int, ...] = ()  # the components of such windows that count it


@dataclass
class Stage:
    """Predicates of a component that are derived together in one cell.

    Mostly these are all. Where predicates hang on each other's absence, looking strictly back
    somewhere on the way, they come one after the other in a cell.
    """

    names: tuple[str, ...]
    possible: list[PlacedClause] = field(default_factory=list)
    certain: list[PlacedClause] = field(default_factory=list)
    # What may come to hold if nothing had to be absent, where that is not what is possible.
    loose: list[PlacedClause] = field(default_factory=list)


class Cell:
    """What a component holds at one layer; which rows are used, and by which premises."""

    __slots__ = ("frozen", "shown", "slices", "used_by")

    def __init__(self) -> None:
        self.slices: CellContent = {}
        # By predicate: the rows used by a clause, one of its premises, and the layer of the head.
        self.used_by: dict[str, dict[tuple[int, int, int], Set[Row]]] = {}
        self.frozen = False  # carried on, and final: a fact like those of inputs
        self.shown = False  # whether cells that look at it know of it

    def carried(self, component: Component) -> int:
        """How many facts it carries on."""
        slices = self.slices
        return sum(len(slices[g].rows) for g in component.grounds.values() if g in slices)


# Deriving


def in_order(
    deps: Dependencies, component: tuple[str, ...], phi: Mapping[str, int]
) -> Iterator[tuple[str, ...]]:
    """The predicates of a component that need each other in one cell, what is needed first."""
    if component not in (*deps.cycles_through_not, *deps.cycles_through_aggregates):
        yield component
        return
    needs: dict[str, list[str]] = {}
    for edge in deps.edges:
        inside = edge.head in component and edge.body in component
        if inside and edge.offset == phi[edge.head] - phi[edge.body]:
            needs.setdefault(edge.head, []).append(edge.body)
    yield from map(tuple, components(component, needs))


def derive(
    clauses: Iterable[PlacedClause],
    layer: int,
    shifts: Mapping[str, int],
    read: Callable[[Lookup, int | None], IndexedSlice],
    earlier: CellContent | None = None,
) -> CellContent:
    """What some clauses of a component derive in the cell at a layer.

    It is added to what was derived there `earlier`, if that is given.
    """
    model: CellContent = {} if earlier is None else earlier
    recursive: list[tuple[PlacedClause, list[IndexedSlice]]] = []
    for clause in clauses:
        head = clause.head
        time = layer - shifts[head]
        if clause.point is not None and clause.point != time:
            continue
        slices: list[IndexedSlice] = []
        for lookup in clause.lookups:
            if lookup.earlier:
                slice_ = model.get(lookup.name, EMPTY)
            elif lookup.inside:
                slices.append(EMPTY)
                continue
            else:
                # As `lookup.time` says, without the cost of a call.
                at = lookup.point if lookup.offset is None else time + lookup.offset
                slice_ = read(lookup, at)
            if not slice_.rows and not lookup.negated:
                break
            slices.append(slice_)
        else:
            if clause.inside:
                recursive.append((clause, slices))
                continue
            derived = model.get(head) or model.setdefault(head, IndexedSlice(set()))
            derived.rows = clause.compiled.derive(slices, derived.rows)
    if recursive:
        _close(model, recursive)
    return model


def _close(model: CellContent, recursive: list[tuple[PlacedClause, list[IndexedSlice]]]) -> None:
    """Apply clauses that look at their own cell until nothing is new (semi-naive)."""
    new = {name: IndexedSlice(_copied(slice_.rows)) for name, slice_ in model.items()}
    while any(slice_.rows for slice_ in new.values()):
        out: dict[str, Set[Row]] = {}
        for clause, slices in recursive:
            for first in clause.inside:
                if not new.get(clause.lookups[first].name, EMPTY).rows:
                    continue
                whole = list(slices)
                for i in clause.inside:
                    name = clause.lookups[i].name
                    whole[i] = (new if i == first else model).get(name, EMPTY)
                if all(whole[i].rows for i in clause.inside):
                    known = out.setdefault(clause.head, set())
                    out[clause.head] = clause.compiled.derive(whole, known, first)
        new = {}
        for name, rows in out.items():
            there = model.setdefault(name, IndexedSlice(set()))
            rows -= there.rows
            there.add(rows)
            new[name] = IndexedSlice(rows)


def _copied(rows: Set[Row]) -> Set[Row]:
    """Rows that stay as they are when others are added to a set."""
    return set(rows) if isinstance(rows, set) else rows


# What never changes


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
) -> CellContent:
    """What holds without a time, from rigid facts alone."""
    model: CellContent = {}

    def read(lookup: Lookup, _: int | None) -> IndexedSlice:
        return model[lookup.name]

    for names in deps.components:
        if names[0] not in fixed:
            continue
        if deps.core.predicates[names[0]].input:
            model[names[0]] = IndexedSlice(rigid.get(names[0], set()))
            continue
        clauses = []
        for name in names:
            definition = deps.core.definitions[name]
            match definition:
                case RuleSet(rules):
                    for clause in rules:
                        premises = clause.premises
                        lookups = (Lookup.of(p, inside=p.predicate in names) for p in premises)
                        clauses.append(PlacedClause(0, clause, tuple(lookups)))
                case AggregateOf():
                    aggregate = Aggregate(name, definition)
                    rows = aggregate.of_slices([model[aggregate.source].rows])
                    model[name] = IndexedSlice(rows)
                case WindowOf() | External():
                    raise AssertionError(f"{name} has a time, or is given")
                case _:
                    assert_never(definition)
        derived = derive(clauses, 0, dict.fromkeys(names, 0), read)
        model = {**{name: IndexedSlice(set()) for name in names}, **model, **derived}
    return model
