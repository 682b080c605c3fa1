"""On which ticks a predicate must be evaluated so that the answers asked for are exact.

*Supply* is where a predicate can hold at all, given the times of the data; *demand* is where the
queries need it. Every true fact lies in its supply, and every fact in a derivation of a demanded
one is demanded, so that evaluating each predicate on the intersection loses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tidelog.analysis.dependencies import Dependencies
from tidelog.data.ticks import ALWAYS, EMPTY, Range
from tidelog.language.program import Atom, Program, Rule, TimePoint
from tidelog.logic.normalise import relative


def times_in_rules(program: Program) -> Range:
    """First to last tick of the facts that stand in the rules."""
    ticks = [
        rule.head.time.tick
        for rule in program.rules
        if not rule.body and isinstance(rule.head.time, TimePoint)
    ]
    return Range(min(ticks), max(ticks)) if ticks else EMPTY


def ranges(deps: Dependencies, data: Mapping[str, Range], asked: Range) -> dict[str, Range]:
    """Per temporal predicate below the queries, the ticks to evaluate it on.

    `data` gives the times at which each temporal input has facts.
    """
    supply = _supply(deps, data)
    demand = _demand(deps, supply, asked)
    return {name: supply[name] & demand[name] for name in supply}


def _supply(deps: Dependencies, data: Mapping[str, Range]) -> dict[str, Range]:
    core = deps.core
    start = {
        name: data.get(name, EMPTY) if p.input else EMPTY
        for name, p in core.predicates.items()
        if p.temporal
    }

    rules = [rule for rule in _in_order(deps) if rule.head.predicate in start]

    def step(supply: dict[str, Range], found: dict[str, Range]) -> None:
        for rule in rules:
            found[rule.head.predicate] |= _reach(rule, supply)

    return _fixpoint(start, step)


def _reach(rule: Rule, supply: Mapping[str, Range]) -> Range:
    """Where a rule's head can hold when its body predicates can hold on their supply."""
    head = ALWAYS
    for atom in rule.atoms:
        if atom.time is None:
            continue
        there = supply[atom.predicate]
        if isinstance(atom.time, TimePoint):
            there = there & Range(atom.time.tick, atom.time.tick)
        if there.empty:
            return EMPTY
        offset = relative(rule, atom)
        if offset is not None:
            head = head & (there + -offset)
    if isinstance(rule.head.time, TimePoint):
        return Range(rule.head.time.tick, rule.head.time.tick)
    return head


def _demand(deps: Dependencies, supply: Mapping[str, Range], asked: Range) -> dict[str, Range]:
    start = {name: asked if name in deps.queries else EMPTY for name in supply}

    rules = _in_order(deps)[::-1]

    def step(demand: dict[str, Range], found: dict[str, Range]) -> None:
        for rule in rules:
            head = ALWAYS
            if rule.head.time is not None:
                name = rule.head.predicate
                head = demand[name] & supply[name]
                if isinstance(rule.head.time, TimePoint):
                    head = head & Range(rule.head.time.tick, rule.head.time.tick)
            if not head.empty:
                for atom in rule.atoms:
                    if atom.time is not None:
                        found[atom.predicate] |= _needed(rule, atom, head)

    return _fixpoint(start, step)


def _in_order(deps: Dependencies) -> list[Rule]:
    """Rules after those for what they look at, so that one round mostly does."""
    place = {name: i for i, component in enumerate(deps.components) for name in component}
    return sorted(deps.core.rules, key=lambda rule: place[rule.head.predicate])


def _needed(rule: Rule, atom: Atom, head: Range) -> Range:
    if isinstance(atom.time, TimePoint):
        return Range(atom.time.tick, atom.time.tick)
    offset = relative(rule, atom)
    if offset is None:
        return ALWAYS
    return head + offset


def _fixpoint(
    start: dict[str, Range], step: Callable[[dict[str, Range], dict[str, Range]], None]
) -> dict[str, Range]:
    """The least fixpoint of a monotone step, or a little more where it would take for ever.

    `step(known, found)` adds to `found` what follows from `known`; they may be one.

    What still grows after as many rounds as there are predicates grows along a cycle: that end
    becomes infinite. Applying the step again can only bring it back to what is still needed.
    """
    now = start
    rounds = len(start) + 1
    for _ in range(rounds):
        following = dict(now)
        step(following, following)
        if following == now:
            return now
        now = following
    while True:
        following = dict(now)
        step(now, following)
        grown = _widen(now, following)
        if grown == now:
            break
        now = grown
    for _ in range(rounds):
        again = dict(start)
        step(now, again)
        following = {name: now[name] & found for name, found in again.items()}
        if following == now:
            break
        now = following
    return now


def _widen(old: dict[str, Range], new: dict[str, Range]) -> dict[str, Range]:
    return {name: _widened(old[name], new[name]) for name in old}


def _widened(old: Range, new: Range) -> Range:
    if old.empty or new.empty:
        return new if old.empty else old
    return Range(
        -math.inf if new.low < old.low else old.low, math.inf if new.high > old.high else old.high
    )


__all__ = ["ALWAYS", "EMPTY", "Range", "ranges"]
