"""What depends on what, and how far away in time: rank, radius, phi, keep, class, partition key.

All of it follows from the clauses alone. An offset is a premise's time less its head's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import assert_never

from tidelog.analysis.partition import PartitionKey, partition_key
from tidelog.errors import NoAnswer
from tidelog.language.graph import Arc, Bound, components, longest
from tidelog.language.program import Rule
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
    measured_of,
    over_of,
)
from tidelog.logic.core import Core, Definition, External, RuleSet, clause_of_a_tick, rules_of
from tidelog.logic.windows import folded, write_out


class Class(Enum):
    """What can be promised about a query."""

    NONRECURSIVE = 1
    RECURSIVE = 2
    BLOCKING = 3

    @property
    def title(self) -> str:
        return {
            Class.NONRECURSIVE: "nonrecursive and connected",
            Class.RECURSIVE: "recursive, with bounded derived state",
            Class.BLOCKING: "blocking",
        }[self]


@dataclass(frozen=True)
class Reach:
    """Least and greatest offset; empty (no path) as [inf, -inf]."""

    low: Bound
    high: Bound


@dataclass(frozen=True)
class Edge:
    """One use of a predicate: by a premise of a rule, or by a window or an aggregate.

    `ticks` are as many as are looked at, the last of which is the premise's time.
    """

    clause: Clause
    premise: Premise
    ticks: int | None = None
    aggregated: bool = False

    @property
    def head(self) -> str:
        return self.clause.head.predicate

    @property
    def body(self) -> str:
        return self.premise.predicate

    @property
    def offset(self) -> int | None:
        """How far the body lies from the head; None for rigid, fixed and unconnected times."""
        return self.premise.offset

    @property
    def first(self) -> int | None:
        """The offset of the first tick that is looked at; others than `offset` for an interval."""
        if self.offset is None or self.ticks is None:
            return self.offset
        return self.offset - self.ticks + 1

    @property
    def point(self) -> int | None:
        return self.premise.point

    @property
    def negated(self) -> bool:
        """Whether the absence of the body is asked for."""
        return self.premise.sign is Sign.NEGATIVE

    @property
    def positive(self) -> bool:
        """Whether more facts of the body can only mean more of the head."""
        return not self.negated and not self.aggregated

    @property
    def asks(self) -> str:
        """What stands before the body where it is not simply asked for: `not` or `all`."""
        if self.negated:
            return "not "
        return "all " if self.aggregated else ""

    @property
    def distance(self) -> str:
        """How far the body lies from the head, for people: `+1`, `0`, `@ 5`, `any` or `rigid`."""
        when = self.premise.when
        match when:
            case Offset(ticks):
                last = f"{ticks:+d}" if ticks else "0"
                if self.first is None or self.first == ticks:
                    return last
                return f"[{self.first:+d}, {last}]" if self.first else f"[0, {last}]"
            case FixedTick(tick):
                return f"@ {tick}"
            case Free():
                return "any"
            case Rigid():
                return "rigid"
            case _:
                assert_never(when)


@dataclass(frozen=True)
class Reason:
    """Why something is as it is: a sentence, and the clauses that decide."""

    message: str
    clauses: tuple[Clause, ...] = ()

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules to show."""
        return tuple(clause.shown for clause in self.clauses)


@dataclass(frozen=True)
class Dependencies:
    """The dependencies below some queries, usually one."""

    queries: tuple[str, ...]
    core: Core

    # The graph

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        return tuple(
            edge
            for name, definition in self.core.definitions.items()
            for edge in _edges(name, definition)
        )

    @cached_property
    def predicates(self) -> tuple[str, ...]:
        """Queries first, inputs last: what is derived before what it is derived from."""
        order = [name for component in reversed(self.components) for name in component]
        return tuple(sorted(order, key=lambda name: self.core.predicates[name].input))

    @cached_property
    def components(self) -> tuple[tuple[str, ...], ...]:
        """Strongly connected components, what is depended on first."""
        successors: dict[str, list[str]] = {}
        for edge in self.edges:
            successors.setdefault(edge.head, []).append(edge.body)
        roots = dict.fromkeys([*self.queries, *self.core.predicates])
        return tuple(tuple(c) for c in components(roots, successors))

    @cached_property
    def recursive(self) -> frozenset[str]:
        """Predicates that depend on themselves."""
        loops = {edge.head for edge in self.edges if edge.head == edge.body}
        return frozenset(n for c in self.components for n in c if len(c) > 1 or n in loops)

    @cached_property
    def carrying(self) -> frozenset[str]:
        """Predicates on a cycle into the past: they carry facts on, without end."""
        carrying: set[str] = set()
        place = {name: i for i, component in enumerate(self.components) for name in component}
        inside_of: dict[int, list[Arc]] = {}
        for arc in self._arcs:
            if place[arc.tail] == place[arc.head]:
                inside_of.setdefault(place[arc.tail], []).append(arc)
        for i, inside in inside_of.items():
            component = self.components[i]
            _, cycle = longest(component, _negated(inside), dict.fromkeys(component, 0))
            if cycle:
                carrying.update(component)
        return frozenset(carrying)

    @cached_property
    def _arcs(self) -> tuple[Arc, ...]:
        return tuple(
            Arc(e.head, e.body, offset, i)
            for i, e in enumerate(self.edges)
            for offset in dict.fromkeys((e.offset, e.first))
            if offset is not None
        )

    @cached_property
    def folded(self) -> Dependencies:
        """The same as people think of it: windows are intervals that premises look at."""
        core = folded(self.core)
        queries = tuple(name for name in self.queries if name in core.predicates)
        return self if core is self.core else Dependencies(queries, core)

    @cached_property
    def written_out(self) -> Dependencies:
        """The same with windows in clauses, for what works with clauses alone."""
        core = write_out(self.core)
        return self if core is self.core else Dependencies(self.queries, core)

    # The paper's measures

    @cached_property
    def rank(self) -> int | None:
        """The paper's rank of the query; None when it is recursive.

        As for the radius, a copied input is the input: it stays at rank 0.
        """
        if self.recursive:
            return None
        rank = dict.fromkeys(self.core.predicates, 0)
        for (name,) in self.components:
            uses = (e for e in self._uses.get(name, ()) if not e.clause.copies_input)
            rank[name] = max((rank[e.body] + 1 for e in uses), default=0)
        return max(rank[query] for query in self.queries)

    @cached_property
    def radius(self) -> int | None:
        """Definition 5: number of rules times the greatest radius of a rule; None if unconnected.

        Clauses that copy an input are ours, not the user's, and do not count.
        """
        if self.unconnected is not None:
            return None
        own = [clause for clause in self.core.uses if not clause.copies_input]
        ends = [
            abs(end)
            for edge in self.edges
            if not edge.clause.copies_input
            for end in (edge.offset, edge.first)
            if end is not None
        ]
        return len(own) * max(ends, default=0)

    @cached_property
    def unconnected(self) -> Clause | None:
        """A clause that is not connected, if there is one."""
        return next((clause for clause in rules_of(self.core) if not clause.connected), None)

    # Offsets

    @cached_property
    def offsets(self) -> dict[str, Reach]:
        """Offsets at which a predicate is used below the queries."""
        nodes = tuple(self.core.predicates)
        start = {q: 0 for q in self.queries if self.core.predicates[q].temporal}
        high, _ = longest(nodes, self._arcs, start)
        low, _ = longest(nodes, _negated(self._arcs), start)
        return {name: Reach(-low[name], high[name]) for name in nodes}

    @cached_property
    def input_offsets(self) -> dict[str, Reach]:
        """Offsets at which inputs are used below a predicate; its high end is phi."""
        nodes = tuple(self.core.predicates)
        start = {name: 0 for name in nodes if self._is_temporal_input(name)}
        back = _reversed(self._arcs)
        high, _ = longest(nodes, back, start)
        low, _ = longest(nodes, _negated(back), start)
        return {name: Reach(-low[name], high[name]) for name in nodes}

    def _is_temporal_input(self, name: str) -> bool:
        predicate = self.core.predicates[name]
        return predicate.input and predicate.temporal

    @cached_property
    def positive_cycle(self) -> tuple[Edge, ...]:
        """Uses that lead from a predicate to itself at a later time, in order; empty if none.

        Everything in the core can be derived, so that any cycle reaches an input or a fact.
        """
        nodes = tuple(self.core.predicates)
        _, cycle = longest(nodes, self._arcs, dict.fromkeys(nodes, 0))
        return tuple(self.edges[arc.label] for arc in cycle)

    @cached_property
    def phi(self) -> dict[str, Bound]:
        """Settling times: P at s is final once input up to s + phi(P) is known.

        -inf for what no input reaches (rigid predicates, facts of the program), inf for what
        depends on a positive cycle or on a clause that draws on any time.
        """
        nodes = tuple(self.core.predicates)
        # A cycle that only facts of the program start is as endless as one that inputs feed.
        started = {c.head.predicate for c in self.core.uses if not c.offsets}
        started.update(name for name in nodes if self.core.predicates[name].input)
        reach, _ = longest(nodes, _reversed(self._arcs), dict.fromkeys(started, 0))
        endless = self._drawing_on_any_time | {n for n in nodes if reach[n] == math.inf}
        return {n: math.inf if n in endless else self.input_offsets[n].high for n in nodes}

    @cached_property
    def psi(self) -> dict[str, Bound]:
        """When a derived fact can no longer be withdrawn: P at s is safe from s + psi(P) on.

        -inf where nothing below is negated: what is derived once holds for good. Premises at fixed
        ticks are left to `safe_at`.
        """
        start: dict[str, int] = {}
        endless: set[str] = set()
        for edge in self.edges:
            if not edge.positive and edge.point is None:
                settled = self.phi[edge.body] + (edge.offset or 0)
                if settled == math.inf or isinstance(edge.premise.when, Free):
                    endless.add(edge.head)
                elif settled > -math.inf:
                    start[edge.head] = max(start.get(edge.head, int(settled)), int(settled))
        # Along positive uses a head is as safe as its premises are.
        positive = [e for e in self.edges if e.positive and e.point is None]
        arcs = [Arc(e.body, e.head, e.offset or 0) for e in positive]
        reach, _ = longest(tuple(self.core.predicates), arcs, start)
        endless.update(
            e.head
            for e in positive
            if isinstance(e.premise.when, Free) and reach[e.body] > -math.inf
        )
        above = self._above(endless)
        return {n: math.inf if n in above else bound for n, bound in reach.items()}

    def _above(self, names: Iterable[str]) -> set[str]:
        """Some predicates and whatever needs them."""
        users: dict[str, list[str]] = {}
        for edge in self.edges:
            users.setdefault(edge.body, []).append(edge.head)
        todo = list(names)
        reached: set[str] = set()
        while todo:
            name = todo.pop()
            if name not in reached:
                reached.add(name)
                todo += users.get(name, ())
        return reached

    @cached_property
    def negated(self) -> frozenset[str]:
        """Predicates of which more facts may mean fewer answers: their absence is asked for
        somewhere below the queries, or a measure of all of them."""
        return frozenset(edge.body for edge in self.edges if not edge.positive)

    @cached_property
    def aggregate(self) -> AggregateOf | None:
        """One of the aggregates, if there is any."""
        return next(iter(self.core.aggregates.values()), None)

    @cached_property
    def _drawing_on_any_time(self) -> set[str]:
        """Heads of clauses that are not connected, and whatever needs them."""
        return self._above(c.head.predicate for c in rules_of(self.core) if not c.connected)

    @cached_property
    def keep(self) -> dict[str, Bound]:
        """How many older slices of a predicate the schedule at tin - phi needs."""
        keep: dict[str, Bound] = {}
        for edge in self.edges:
            above, below = self.phi[edge.head], self.phi[edge.body]
            if math.isinf(below) or edge.point is not None:
                continue
            # Without an offset the rule joins any time, and phi(head) is infinite.
            slices = above - below - (edge.first or 0)
            keep[edge.body] = max(keep.get(edge.body, 0), slices)
        for name in self.core.predicates:
            if not math.isinf(self.phi[name]):
                keep.setdefault(name, 0)
        return keep

    @cached_property
    def pinned(self) -> tuple[tuple[str, int], ...]:
        """Slices at explicit time points, which are kept for ever."""
        pinned: set[tuple[str, int]] = set()
        for edge in self.edges:
            if edge.point is not None:
                pinned.update((edge.body, edge.point - i) for i in range(edge.ticks or 1))
        return tuple(sorted(pinned))

    def settled(self, query: str, at: int) -> Bound:
        """The least input time after which the query at a time cannot change.

        A premise R @ k below it adds the time at which that slice settles (`k + phi(R)`).
        """
        points = (k + self.phi[name] for name, k in self.pinned)
        return max(at + self.phi[query], *points, -math.inf)

    def safe_at(self, query: str, at: int | None) -> Bound:
        """The least input time after which an answer derived at a time cannot be withdrawn."""
        points = [
            edge.point + (self.psi if edge.positive else self.phi)[edge.body]
            for edge in self.edges
            if edge.point is not None
        ]
        if at is None:
            rests = math.inf if self.psi[query] > -math.inf else -math.inf
            return max(rests, *points, -math.inf)
        return max(at + self.psi[query], *points, -math.inf)

    # What follows

    @cached_property
    def strata(self) -> tuple[tuple[str, ...], ...]:
        """Derived predicates in layers: what is negated or gathered lies in a layer below, or in
        its own where a cycle looks strictly back.
        """
        layer: dict[str, int] = {}
        inputs = {predicate.name for predicate in self.core.inputs}
        for component in self.components:
            uses = (e for name in component for e in self._uses.get(name, ()))
            own = [e for e in uses if e.body not in component]
            below = [layer[e.body] + (not e.positive and e.body not in inputs) for e in own]
            layer.update(dict.fromkeys(component, max(below, default=0)))
        derived = [name for name in layer if name not in inputs]
        count = 1 + max((layer[name] for name in derived), default=-1)
        return tuple(tuple(n for n in derived if layer[n] == i) for i in range(count))

    @cached_property
    def cycles_through_not(self) -> tuple[tuple[str, ...], ...]:
        """Components in which predicates hang on the absence of one another."""
        return self._cycles_through(e for e in self.edges if e.negated)

    @cached_property
    def cycles_through_aggregates(self) -> tuple[tuple[str, ...], ...]:
        """Components in which predicates depend on aggregates of one another."""
        return self._cycles_through(e for e in self.edges if e.aggregated and not e.negated)

    def _cycles_through(self, edges: Iterable[Edge]) -> tuple[tuple[str, ...], ...]:
        place = {name: i for i, component in enumerate(self.components) for name in component}
        through = {place[e.head] for e in edges if place[e.head] == place[e.body]}
        return tuple(component for i, component in enumerate(self.components) if i in through)

    @cached_property
    def cls(self) -> Class:
        if self.unconnected is not None or self.positive_cycle:
            return Class.BLOCKING
        return Class.RECURSIVE if self.recursive else Class.NONRECURSIVE

    @cached_property
    def reason(self) -> Reason:
        """The clause or cycle that decides the class, in the words of the rules."""
        if self.folded is not self and self.folded.cls is self.cls:
            return self.folded.reason
        if self.positive_cycle:
            ticks = sum(edge.offset or 0 for edge in self.positive_cycle)
            path = _walk(self.positive_cycle)
            far = "tick" if ticks == 1 else "ticks"
            message = f"{path}: a cycle {ticks} {far} into the future"
            return Reason(message, _clauses(self.positive_cycle))
        if self.unconnected is not None:
            return Reason(_why_unconnected(self.unconnected), (self.unconnected,))
        if self.recursive:
            cycle = self._some_cycle()
            return Reason(f"{_walk(cycle)}: {_kind_of_cycle(cycle)}", _clauses(cycle))
        return Reason("no predicate depends on itself, and no rule joins unrelated times")

    def _some_cycle(self) -> tuple[Edge, ...]:
        """A shortest cycle through the first recursive predicate."""
        start = next(name for name in self.predicates if name in self.recursive)
        came: dict[str, Edge] = {}
        layer = [start]
        while layer:
            following = []
            for edge in (e for name in layer for e in self._uses.get(name, ())):
                if edge.body == start:
                    path = [edge]
                    while path[-1].head != start:
                        path.append(came[path[-1].head])
                    return tuple(path[::-1])
                if edge.body not in came:
                    came[edge.body] = edge
                    following.append(edge.body)
            layer = following
        raise AssertionError("a recursive predicate has a cycle")

    @cached_property
    def _uses(self) -> dict[str, list[Edge]]:
        uses: dict[str, list[Edge]] = {}
        for edge in self.edges:
            uses.setdefault(edge.head, []).append(edge)
        return uses

    @cached_property
    def key(self) -> PartitionKey:
        return partition_key(self.core)


def refuse_blocking_cycles(deps: Dependencies) -> None:
    """A cycle through `not` or an aggregate goes from the past to the future: it cannot be had
    where something that it hangs on may look ahead without end.
    """
    hanging = [("what its own facts come to", c) for c in deps.cycles_through_aggregates]
    hanging += [("its own absence", c) for c in deps.cycles_through_not]
    for what, (name, *_) in hanging:
        if deps.phi[name] == math.inf:
            base = deps.core.predicates[name].base
            raise NoAnswer(
                f"`{base}` hangs on {what}, and {deps.reason.message}: the two cannot be"
                " evaluated together"
            )


def refuse_aggregates(deps: Dependencies, message: str) -> None:
    """Say that something cannot be had of rules with aggregates, and where there is one."""
    if deps.aggregate is not None:
        raise NoAnswer(f"{deps.aggregate.of.origin}: {message}")


def dependencies(core: Core, queries: Iterable[str]) -> Dependencies:
    """The dependencies below the queries.

    >>> from tidelog.logic.normalise import core
    >>> from tidelog.language.checks import check
    >>> program = check("Late @ T :- Alarm @ T. Late @ T :- Late @ T+1.").program
    >>> print(dependencies(core(program), ["Late"]).reason.message)
    Late @ T needs Late @ T+1: a cycle 1 tick into the future
    """
    queries = tuple(queries)
    return Dependencies(queries, core.below(queries))


def _edges(name: str, definition: Definition) -> Iterator[Edge]:
    match definition:
        case RuleSet(clauses):
            for clause in clauses:
                for premise in clause.premises:
                    over, measured = over_of(premise), measured_of(premise) is not None
                    yield Edge(clause, premise, None if over is None else over.ticks, measured)
        case WindowOf():
            clause = clause_of_a_tick(name, definition)
            yield Edge(clause, definition.of, definition.over.ticks)
        case AggregateOf():
            clause = clause_of_a_tick(name, definition)
            ticks = definition.ticks if definition.of.temporal else None
            yield Edge(clause, definition.of, ticks, aggregated=True)
        case External():
            pass
        case _:
            assert_never(definition)


def _clauses(cycle: tuple[Edge, ...]) -> tuple[Clause, ...]:
    return tuple(dict.fromkeys(edge.clause for edge in cycle))


def _negated(arcs: Iterable[Arc]) -> list[Arc]:
    return [Arc(a.tail, a.head, -a.weight, a.label) for a in arcs]


def _reversed(arcs: Iterable[Arc]) -> list[Arc]:
    return [Arc(a.head, a.tail, a.weight, a.label) for a in arcs]


def _walk(cycle: tuple[Edge, ...]) -> str:
    """`P @ T needs Q @ T+1 needs P @ T+1`, offsets adding up along the way."""
    at: int | None = 0
    parts: list[str] = []
    for edge in cycle:
        if not parts:
            parts.append(f"{edge.head} @ T" if edge.clause.head.temporal else edge.head)
        if edge.offset is None or at is None:
            at = None
            time = "" if edge.point is None else f" @ {edge.point}"
        else:
            at += edge.offset
            time = f" @ {_told(at)}"
            if edge.ticks is not None:
                time = f" @ [{_told(at - edge.ticks + 1)}, {_told(at)}]"
        parts.append(edge.body + time)
    return " needs ".join(parts)


def _told(at: int) -> str:
    return f"T{at:+d}" if at else "T"


def _kind_of_cycle(cycle: tuple[Edge, ...]) -> str:
    if not any(edge.clause.head.temporal for edge in cycle):
        return "a cycle without times"
    if any(edge.offset is None for edge in cycle):
        return "a cycle through fixed times"
    return "a cycle that never looks ahead"


def _why_unconnected(clause: Clause) -> str:
    head = clause.head
    if len(clause.free_times) + bool(clause.offsets) > 1:
        return f"a rule for {head.predicate} joins facts at unrelated times"
    what = "at a fixed time" if head.temporal else "without a time"
    return f"{head.predicate} {what} draws on facts at any time"
