"""When cells change though no fact arrives: as time passes, what might have come cannot any more.

What a cell that no fact has touched may come to hold depends on how far it lies from tin alone,
and it changes at a few distances only. Of a predicate these are its *phases*: at tin = T + phase
what may come to hold of it at T can change. A window of n ticks has no more of them than what it
looks at, however long it is: of `at least K` ticks fewer than K are left to come at one moment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tidelog.analysis.dependencies import Dependencies
from tidelog.logic.clause import Clause, Over, Premise, Sign
from tidelog.logic.core import rules_for
from tidelog.streaming.cells import Component


def set_wakes(deps: Dependencies, components: Iterable[Component]) -> None:
    """Tell every component when its cells change without new facts.

    A window that is tracked finds that out object by object.
    """
    phases: dict[str, set[int]] = {}
    for component in components:
        if component.tracked is not None:
            window = component.tracked
            (name,) = component.grounds
            phases[name] = _over_window(window.over, phases[window.base])
            continue
        _add_phases(deps, component, phases)
        if not component.input:
            component.wakes = _wakes(deps, component, phases)


def _add_phases(deps: Dependencies, component: Component, phases: dict[str, set[int]]) -> None:
    """The phases of a component's predicates, those of the components below being known."""
    names = [n for n in component.grounds if deps.core.predicates[n].temporal]
    for name in names:
        if component.input:
            phases[name] = {0}
        elif component.carrying:
            # Near tin, what it may still come to hold is less at every tick.
            shift = component.shifts[name]
            phases[name] = {shift - i for i in range(component.ahead + 1)}
        else:
            phases[name] = set()
    if component.input or component.carrying:
        return
    grew = True
    while grew:
        grew = False
        for name in names:
            more = _phases(deps, name, component, phases)
            grew = grew or not more <= phases[name]
            phases[name] |= more


def _phases(
    deps: Dependencies, name: str, component: Component, phases: Mapping[str, set[int]]
) -> set[int]:
    window = deps.core.window_of.get(name)
    if window is not None:
        return _over_window(window.over, phases[window.of.predicate])
    clauses = rules_for(deps.core, name)
    return {phase for clause in clauses for phase in _of_clause(clause, component, phases)}


def _over_window(over: Over, below: set[int]) -> set[int]:
    """The phases of a window, from those of what it looks at.

    >>> sorted(_over_window(Over(60, 1), {0})), sorted(_over_window(Over(60, 60), {0}))
    ([0], [-59])
    """
    if len(below) <= 1:
        # It may come to hold while as many ticks as are needed are to come.
        return {phase - (over.least - 1) for phase in below}
    # Which phases its ticks are in changes with the last and the first of them, how many of them
    # are in each with any.
    steps = {0, over.ticks - 1} if over.least == 1 else range(over.ticks)
    return {phase - step for phase in below for step in steps}


def _of_clause(clause: Clause, component: Component, phases: Mapping[str, set[int]]) -> set[int]:
    """When what a clause may derive can change: not after one of its premises cannot come to hold.

    What must be absent is absent where no fact is.
    """
    timed = [(p, o) for p, o in _timed(clause) if p.sign is Sign.POSITIVE]
    ends = (
        max((o + phase for phase in phases[p.predicate]), default=-math.inf)
        for p, o in timed
        if p.predicate not in component.grounds
    )
    end = min(ends, default=math.inf)
    return {o + phase for p, o in timed for phase in phases[p.predicate] if o + phase <= end}


def _timed(clause: Clause) -> list[tuple[Premise, int]]:
    """The premises at an offset from the head."""
    return [(p, p.offset) for p in clause.premises if p.offset is not None]


def _wakes(
    deps: Dependencies, component: Component, phases: Mapping[str, set[int]]
) -> tuple[int, ...]:
    """After how many ticks of its layer a cell changes without new facts.

    That is when what one of its clauses looks at changes, and when nothing can change any more.
    """
    wakes: set[int] = set()
    for name in component.grounds:
        if name not in phases:
            continue
        shift = component.shifts[name]
        wakes |= {phase - shift for phase in phases[name]}
        for clause in deps.core.uses_for[name]:
            wakes |= {o + e - shift for p, o in _timed(clause) for e in phases[p.predicate]}
    if wakes and not math.isinf(component.final):
        wakes.add(int(component.final))
    return tuple(sorted(wakes))
