"""Cycles of rules that look strictly back, by definition: a predicate at one tick is a thing of its
own.

A pair of a predicate and a tick needs the pairs that its rules look at. Where every cycle through
`not` or an aggregate looks strictly back, no pair needs itself through one of these, so that the
pairs can be put into an order in which all that is negated or gathered comes first. Pairs that need
one another, at one tick and without either, are derived together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from tidelog.language.program import (
    Interval,
    Program,
    Rule,
    Time,
    TimeOffset,
    TimePoint,
    ends,
    ticks_of,
)

# A predicate at a tick.
Pair: TypeAlias = tuple[str, int]


def pairs_in_order(
    program: Program, names: Iterable[str], first: int, last: int
) -> Iterator[list[Pair]]:
    """Predicates at the ticks from `first` to `last`, each after what it needs of the others."""
    group = set(names)
    rules = [rule for rule in program.rules if rule.head.predicate in group]
    needs: dict[Pair, set[Pair]] = {
        (name, tick): set() for name in sorted(group) for tick in range(first, last + 1)
    }
    for rule in rules:
        for name, tick in needs:
            if rule.head.predicate == name:
                for base in bases(rule, tick):
                    for atom in rule.atoms:
                        if atom.predicate in group:
                            ticks = _ticks(atom.time, base)
                            near = range(max(ticks[0], first), min(ticks[1], last) + 1)
                            needs[name, tick].update((atom.predicate, t) for t in near)
    return _components(needs)


def bases(rule: Rule, tick: int) -> Iterator[int]:
    """The values of the head's time variable for which a rule says something of a tick."""
    low, high = ends(rule.head.time)[0], ends(rule.head.time)[-1]
    if isinstance(low, TimePoint):
        if low.tick <= tick <= ticks_of(high):
            yield 0
        return
    yield from range(tick - ticks_of(high), tick - ticks_of(low) + 1)


def time_of(rule: Rule, base: int) -> dict[str, int]:
    """The value of the head's time variable, if it has one."""
    low = ends(rule.head.time)[0]
    return {low.variable.name: base} if isinstance(low, TimeOffset) else {}


def _ticks(time: Time | None, base: int) -> tuple[int, int]:
    match time:
        case TimeOffset(_, offset):
            return base + offset, base + offset
        case Interval(low, high):
            return _ticks(low, base)[0], _ticks(high, base)[1]
        case _:
            raise AssertionError("such a cycle has no fixed tick and no rigid predicate")


def _components(needs: Mapping[Pair, set[Pair]]) -> Iterator[list[Pair]]:
    """Kosaraju's two walks: pairs that need one another, what is needed first."""
    users: dict[Pair, set[Pair]] = {pair: set() for pair in needs}
    for pair, below in needs.items():
        for other in below:
            users[other].add(pair)
    order = _finished(users, users.__getitem__, set())
    seen: set[Pair] = set()
    for pair in reversed(order):
        if pair not in seen:
            yield _finished([pair], needs.__getitem__, seen)


def _finished(
    starts: Iterable[Pair], following: Callable[[Pair], set[Pair]], seen: set[Pair]
) -> list[Pair]:
    """Pairs in the order in which a walk leaves them."""
    left: list[Pair] = []
    for start in starts:
        if start in seen:
            continue
        seen.add(start)
        walk = [(start, iter(following(start)))]
        while walk:
            pair, rest = walk[-1]
            step = next((other for other in rest if other not in seen), None)
            if step is None:
                walk.pop()
                left.append(pair)
            else:
                seen.add(step)
                walk.append((step, iter(following(step))))
    return left
