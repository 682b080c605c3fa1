"""On which ticks a predicate must be evaluated so that the answers asked for are exact.

*Supply* is where a predicate can hold at all, given the times of the data; *demand* is where the
queries need it. Every true fact lies in its supply, and every fact in a derivation of a demanded
one is demanded, so that evaluating each predicate on the intersection loses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import assert_never

from tidelog.analysis.dependencies import Dependencies, Edge
from tidelog.data.ticks import ALWAYS, EMPTY, Range
from tidelog.language.program import Program, TimePoint, ends
from tidelog.logic.clause import (
    AggregateOf,
    Clause,
    FixedTick,
    Free,
    Offset,
    Over,
    Premise,
    Rigid,
    Sign,
    WindowOf,
)
from tidelog.logic.core import Definition, External, RuleSet


def times_in_rules(program: Program) -> Range:
    """First to last tick of the facts that stand in the rules."""
    ticks = [
        end.tick
        for rule in program.rules
        if not rule.body
        for end in ends(rule.head.time)
        if isinstance(end, TimePoint)
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

    names = [name for name in _in_order(deps) if name in start]

    def step(supply: dict[str, Range], wider: dict[str, Range]) -> None:
        for name in names:
            wider[name] |= _given(core.definitions[name], supply)

    return _fixpoint(start, step)


def _given(definition: Definition, supply: Mapping[str, Range]) -> Range:
    """Where a predicate can hold when all that it depends on can hold on its supply."""
    match definition:
        case RuleSet(clauses):
            there = EMPTY
            for clause in clauses:
                there = there | _reach(clause, supply)
            return there
        case WindowOf(of):
            return _reach_over(definition.over, _reach_by(of, supply))
        case AggregateOf(of):
            there = _reach_by(of, supply)
            return there | (there + (definition.ticks - 1))
        case External():
            return EMPTY
        case _:
            assert_never(definition)


def _reach(clause: Clause, supply: Mapping[str, Range]) -> Range:
    """Where a clause's head can hold when its premises can hold on their supply."""
    reach = ALWAYS
    for premise in clause.premises:
        match premise.sign:
            case Sign.POSITIVE:
                reach = reach & _reach_by(premise, supply)
            case Sign.NEGATIVE:
                pass  # an absence can be anywhere
            case _:
                assert_never(premise.sign)
    if reach.empty:
        return EMPTY
    return reach if clause.head.point is None else Range(clause.head.point, clause.head.point)


def _reach_over(over: Over, there: Range) -> Range:
    """Where a window can hold of what can hold on a range.

    >>> _reach_over(Over(4, 3), Range(0, 9))
    Range(low=2, high=10)
    >>> _reach_over(Over(4, 3), Range(0, 1)).empty
    True
    """
    if there.empty:
        return EMPTY
    if there.high - there.low + 1 < over.least:
        return EMPTY
    return Range(there.low + over.least - 1, there.high + over.ticks - over.least)


def _reach_by(premise: Premise, supply: Mapping[str, Range]) -> Range:
    """Where a head can hold, as far as one premise says."""
    when = premise.when
    match when:
        case Offset(ticks):
            return supply[premise.predicate] + -ticks
        case FixedTick(tick):
            there = supply[premise.predicate] & Range(tick, tick)
        case Free():
            there = supply[premise.predicate]
        case Rigid():
            return ALWAYS
        case _:
            assert_never(when)
    return EMPTY if there.empty else ALWAYS


def _demand(deps: Dependencies, supply: Mapping[str, Range], asked: Range) -> dict[str, Range]:
    start = {name: asked if name in deps.queries else EMPTY for name in supply}

    place = {name: i for i, name in enumerate(_in_order(deps))}
    edges = [edge for edge in deps.edges if edge.premise.temporal]
    edges.sort(key=lambda edge: place[edge.head], reverse=True)

    def step(demand: dict[str, Range], wider: dict[str, Range]) -> None:
        for edge in edges:
            clause, head = edge.clause, ALWAYS
            if clause.head.temporal:
                head = demand[edge.head] & supply[edge.head]
            if clause.head.point is not None:
                head = head & Range(clause.head.point, clause.head.point)
            if not head.empty:
                wider[edge.body] |= _needed(edge, head)

    return _fixpoint(start, step)


def _in_order(deps: Dependencies) -> list[str]:
    """Predicates after those that they depend on, so that one round mostly does."""
    return [name for component in deps.components for name in component]


def _needed(edge: Edge, head: Range) -> Range:
    """Where a body is looked at, present or absent, for a head within a range."""
    when = edge.premise.when
    match when:
        case Offset(ticks):
            return (head + ticks) | (head + (ticks - (edge.ticks or 1) + 1))
        case FixedTick(tick):
            return Range(tick, tick)
        case Free():
            return ALWAYS
        case Rigid():
            return EMPTY
        case _:
            assert_never(when)


def _fixpoint(
    start: dict[str, Range], step: Callable[[dict[str, Range], dict[str, Range]], None]
) -> dict[str, Range]:
    """The least fixpoint of a monotone step, or a little more where it would take for ever.

    `step(known, wider)` adds to `wider` what follows from `known`; they may be one.

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
        following = {name: now[name] & range_ for name, range_ in again.items()}
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
