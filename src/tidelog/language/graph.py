"""Graph algorithms the dependencies need: components and longest path sums, both iterative."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

N = TypeVar("N", bound=Hashable)

# An exact integer, or plus or minus infinity; integers are never turned into floats.
Bound: TypeAlias = int | float


@dataclass(frozen=True, slots=True)
class Arc:
    """From a node to a node it depends on, with a weight and what put it there."""

    tail: str
    head: str
    weight: int
    label: int = -1


def components(nodes: Iterable[N], successors: Mapping[N, Iterable[N]]) -> list[list[N]]:
    """Strongly connected components, what is depended on first (Tarjan).

    >>> components("abc", {"a": "b", "b": "ac"})
    [['c'], ['a', 'b']]
    """
    index: dict[N, int] = {}
    low: dict[N, int] = {}
    stack: list[N] = []
    on_stack: set[N] = set()
    closed: list[list[N]] = []
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(successors.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for child in rest:
                if child not in index:
                    index[child] = low[child] = len(index)
                    stack.append(child)
                    on_stack.add(child)
                    work.append((child, iter(successors.get(child, ()))))
                    break
                if child in on_stack:
                    low[node] = min(low[node], index[child])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.append(member)
                        if member == node:
                            break
                    closed.append(component[::-1])
    return closed


def longest(
    nodes: Sequence[str], arcs: Sequence[Arc], start: Mapping[str, int]
) -> tuple[dict[str, Bound], list[Arc]]:
    """Greatest path sums from the start nodes, and a positive cycle on such a path, if any.

    A node not reached has -inf, one that a positive cycle leads to +inf.

    >>> longest(["a", "b"], [Arc("a", "b", 2), Arc("b", "b", -1)], {"a": 0})
    ({'a': 0, 'b': 2}, [])
    """
    out: dict[str, list[Arc]] = {}
    for arc in arcs:
        out.setdefault(arc.tail, []).append(arc)
    successors = {node: [a.head for a in out.get(node, ())] for node in nodes}
    best: dict[str, Bound] = {node: start.get(node, -math.inf) for node in nodes}
    cycle: list[Arc] = []
    for component in reversed(components(nodes, successors)):
        inside = set(component)
        local = [a for node in component for a in out.get(node, ()) if a.head in inside]
        if local and any(best[node] > -math.inf for node in component):
            gaining = _relax(component, local, best)
            if gaining:
                cycle = cycle or gaining
                for node in component:
                    best[node] = math.inf
        for node in component:
            for arc in out.get(node, ()):
                if arc.head not in inside:
                    best[arc.head] = max(best[arc.head], best[node] + arc.weight)
    return best, cycle


def _relax(nodes: list[str], arcs: list[Arc], best: dict[str, Bound]) -> list[Arc]:
    """Bellman-Ford inside one component; a positive cycle when there is one."""
    came: dict[str, Arc] = {}
    if any(best[node] == math.inf for node in nodes):
        for node in nodes:
            best[node] = math.inf
        return []
    out: dict[str, list[Arc]] = {}
    for arc in arcs:
        out.setdefault(arc.tail, []).append(arc)
    changed = {node: None for node in nodes if best[node] > -math.inf}
    for _ in range(len(nodes) + 1):
        active, changed = changed, {}
        for arc in (arc for node in active for arc in out.get(node, ())):
            sum_ = best[arc.tail] + arc.weight
            if sum_ > best[arc.head]:
                best[arc.head], came[arc.head], changed[arc.head] = sum_, arc, None
        if not changed:
            return []
    # Still changing after as many rounds as there are nodes: walk back into the cycle, then round.
    node = next(iter(changed))
    for _ in nodes:
        node = came[node].tail
    cycle = [came[node]]
    while cycle[-1].tail != node:
        cycle.append(came[cycle[-1].tail])
    return cycle[::-1]
