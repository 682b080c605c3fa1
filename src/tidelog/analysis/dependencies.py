"""What depends on what, and how far away in time: rank, radius, phi, keep, class, partition key.

All of it follows from the rules alone. An offset is a body atom's time less its head's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from tidelog.analysis.graph import Arc, Bound, components, longest
from tidelog.analysis.partition import PartitionKey, partition_key
from tidelog.language.program import Atom, Rule, TimeOffset, TimePoint
from tidelog.logic.normalise import Core, relative


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
class Interval:
    """Least and greatest offset; empty (no path) as [inf, -inf]."""

    low: Bound
    high: Bound


@dataclass(frozen=True)
class Edge:
    """One use of a predicate in a rule."""

    head: str
    body: str
    offset: int | None  # None for rigid atoms, explicit time points and unconnected times
    point: int | None
    rule: Rule


@dataclass(frozen=True)
class Reason:
    """Why a query is in its class: a sentence, and the rules that decide."""

    message: str
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True)
class Dependencies:
    """The dependencies below some queries, usually one."""

    queries: tuple[str, ...]
    core: Core

    # The graph

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        return tuple(
            Edge(rule.head.predicate, atom.predicate, relative(rule, atom), _point(atom), rule)
            for rule in self.core.rules
            for atom in rule.atoms
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
        found: set[str] = set()
        for component in self.components:
            inside = [a for a in self._arcs if a.tail in component and a.head in component]
            _, cycle = longest(component, _negated(inside), dict.fromkeys(component, 0))
            if cycle:
                found.update(component)
        return frozenset(found)

    @cached_property
    def _arcs(self) -> tuple[Arc, ...]:
        return tuple(
            Arc(e.head, e.body, e.offset, i)
            for i, e in enumerate(self.edges)
            if e.offset is not None
        )

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
            uses = (e for e in self._uses.get(name, ()) if not _is_copy(e.rule))
            rank[name] = max((rank[e.body] + 1 for e in uses), default=0)
        return max(rank[query] for query in self.queries)

    @cached_property
    def radius(self) -> int | None:
        """Definition 5: number of rules times the greatest radius of a rule; None if unconnected.

        Rules that copy an input under its own name are ours, not the user's, and do not count.
        """
        if self.unconnected is not None:
            return None
        rules = [r for r in self.core.rules if not _is_copy(r)]
        return len(rules) * max((rule_radius(rule) for rule in rules), default=0)

    @cached_property
    def unconnected(self) -> Rule | None:
        """A rule that is not connected, if there is one."""
        return next((rule for rule in self.core.rules if not is_connected(rule)), None)

    # Offsets

    @cached_property
    def offsets(self) -> dict[str, Interval]:
        """Offsets at which a predicate is used below the queries."""
        nodes = tuple(self.core.predicates)
        start = {q: 0 for q in self.queries if self.core.predicates[q].temporal}
        high, _ = longest(nodes, self._arcs, start)
        low, _ = longest(nodes, _negated(self._arcs), start)
        return {name: Interval(-low[name], high[name]) for name in nodes}

    @cached_property
    def input_offsets(self) -> dict[str, Interval]:
        """Offsets at which inputs are used below a predicate; its high end is phi."""
        nodes = tuple(self.core.predicates)
        start = {name: 0 for name in nodes if self._is_temporal_input(name)}
        back = _reversed(self._arcs)
        high, _ = longest(nodes, back, start)
        low, _ = longest(nodes, _negated(back), start)
        return {name: Interval(-low[name], high[name]) for name in nodes}

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

        -inf for what no input reaches (rigid predicates, facts of the program), inf behind a
        positive cycle or a rule that draws on any time.
        """
        nodes = tuple(self.core.predicates)
        # A cycle that only facts of the program start is as endless as one that inputs feed.
        started = {r.head.predicate for r in self.core.rules if not _has_offset(r)}
        started.update(name for name in nodes if self.core.predicates[name].input)
        reach, _ = longest(nodes, _reversed(self._arcs), dict.fromkeys(started, 0))
        endless = self._drawing_on_any_time | {n for n in nodes if reach[n] == math.inf}
        return {n: math.inf if n in endless else self.input_offsets[n].high for n in nodes}

    @cached_property
    def _drawing_on_any_time(self) -> set[str]:
        """Heads of rules that are not connected, and whatever needs them."""
        users: dict[str, list[str]] = {}
        for edge in self.edges:
            users.setdefault(edge.body, []).append(edge.head)
        todo = [rule.head.predicate for rule in self.core.rules if not is_connected(rule)]
        found: set[str] = set()
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += users.get(name, ())
        return found

    @cached_property
    def keep(self) -> dict[str, Bound]:
        """How many older slices of a predicate the schedule at tin - phi needs."""
        keep: dict[str, Bound] = {}
        for edge in self.edges:
            above, below = self.phi[edge.head], self.phi[edge.body]
            if math.isinf(below) or edge.point is not None:
                continue
            # Without an offset the rule joins any time, and phi(head) is infinite.
            slices = above - below - (edge.offset or 0)
            keep[edge.body] = max(keep.get(edge.body, 0), slices)
        for name in self.core.predicates:
            if not math.isinf(self.phi[name]):
                keep.setdefault(name, 0)
        return keep

    @cached_property
    def pinned(self) -> tuple[tuple[str, int], ...]:
        """Slices at explicit time points, which are kept for ever."""
        found = {(e.body, e.point): None for e in self.edges if e.point is not None}
        return tuple(sorted(found))

    def settled(self, query: str, at: int) -> Bound:
        """The least input time after which the query at a time cannot change.

        An atom R @ k below it adds the time at which that slice settles (`k + phi(R)`).
        """
        points = (k + self.phi[name] for name, k in self.pinned)
        return max(at + self.phi[query], *points, -math.inf)

    # What follows

    @cached_property
    def cls(self) -> Class:
        if self.unconnected is not None or self.positive_cycle:
            return Class.BLOCKING
        return Class.RECURSIVE if self.recursive else Class.NONRECURSIVE

    @cached_property
    def reason(self) -> Reason:
        """The rule or cycle that decides the class."""
        if self.positive_cycle:
            ticks = sum(edge.offset or 0 for edge in self.positive_cycle)
            path = _walk(self.positive_cycle)
            rules = tuple(dict.fromkeys(edge.rule for edge in self.positive_cycle))
            far = "tick" if ticks == 1 else "ticks"
            return Reason(f"{path}: a cycle {ticks} {far} into the future", rules)
        if self.unconnected is not None:
            return Reason(_why_unconnected(self.unconnected), (self.unconnected,))
        if self.recursive:
            cycle = self._some_cycle()
            rules = tuple(dict.fromkeys(edge.rule for edge in cycle))
            return Reason(f"{_walk(cycle)}: {_kind_of_cycle(cycle)}", rules)
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
        return partition_key(self.core, self.queries)


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


def is_connected(rule: Rule) -> bool:
    """At most one time variable, which occurs in the head whenever it occurs in the body."""
    body = {a.time.variable.name for a in rule.atoms if isinstance(a.time, TimeOffset)}
    head = {rule.head.time.variable.name} if isinstance(rule.head.time, TimeOffset) else set()
    return len(body | head) <= 1 and body <= head


def rule_radius(rule: Rule) -> int:
    """The greatest distance of a body atom's offset from the head's (time points have offset 0)."""
    if not isinstance(rule.head.time, TimeOffset):
        return 0
    head = rule.head.time.offset
    times = (a.time for a in rule.atoms if a.time is not None)
    offsets = (t.offset if isinstance(t, TimeOffset) else 0 for t in times)
    return max((abs(head - offset) for offset in offsets), default=0)


def _point(atom: Atom) -> int | None:
    return atom.time.tick if isinstance(atom.time, TimePoint) else None


def _is_copy(rule: Rule) -> bool:
    return len(rule.atoms) == 1 and rule.atoms[0].predicate == f"{rule.head.predicate}[in]"


def _negated(arcs: Iterable[Arc]) -> list[Arc]:
    return [Arc(a.tail, a.head, -a.weight, a.label) for a in arcs]


def _reversed(arcs: Iterable[Arc]) -> list[Arc]:
    return [Arc(a.head, a.tail, a.weight, a.label) for a in arcs]


def _has_offset(rule: Rule) -> bool:
    return any(relative(rule, atom) is not None for atom in rule.atoms)


def _walk(cycle: tuple[Edge, ...]) -> str:
    """`P @ T needs Q @ T+1 needs P @ T+1`, offsets adding up along the way."""
    at: int | None = 0
    parts: list[str] = []
    for edge in cycle:
        if not parts:
            rigid = edge.rule.head.time is None
            parts.append(edge.head if rigid else f"{edge.head} @ T")
        if edge.offset is None or at is None:
            at = None
            time = "" if edge.point is None else f" @ {edge.point}"
        else:
            at += edge.offset
            time = f" @ T{at:+d}" if at else " @ T"
        parts.append(edge.body + time)
    return " needs ".join(parts)


def _kind_of_cycle(cycle: tuple[Edge, ...]) -> str:
    if all(edge.rule.head.time is None for edge in cycle):
        return "a cycle without times"
    if any(edge.offset is None for edge in cycle):
        return "a cycle through fixed times"
    return "a cycle that never looks ahead"


def _why_unconnected(rule: Rule) -> str:
    head = rule.head
    times = {a.time.variable.name for a in rule.atoms if isinstance(a.time, TimeOffset)}
    if len(times) > 1:
        return f"a rule for {head.predicate} joins facts at unrelated times"
    what = "at a fixed time" if head.time is not None else "without a time"
    return f"{head.predicate} {what} draws on facts at any time"
