"""The rules that a stream goes by which computes each predicate once and keeps slices of it.

A long window is only named there, and done in a step: tick by tick as a count for each object, or
over the words of a batch. Written out, it would take a step for each of the windows that it is made
of, and their slices would be kept; now what it counts is. So is any window that must not hold for
facts which it hangs on itself: each round would repeat all of what it is written out in. Aggregates
are made of blocks.
"""

from __future__ import annotations

from tidelog.analysis.blocks import in_blocks
from tidelog.analysis.dependencies import Dependencies, dependencies
from tidelog.logic.clause import Clause, Premise, Sign
from tidelog.logic.core import Core, Role
from tidelog.logic.windows import Windows, window_of

# Windows of more ticks than this are done in a step; shorter ones are made of few others.
LONG_WINDOW = 64


def sliced(deps: Dependencies) -> Dependencies:
    """The dependencies with long windows only named, and aggregates in blocks.

    A window of a cycle of rules is named where it must not hold, and else left as it is: it is
    derived with the others.

    >>> from tidelog.logic.normalise import core
    >>> from tidelog.language.checks import check
    >>> rules = "input E(x: text) @ t. P(X) @ T :- always E(X) @ [T-99, T]."
    >>> deps = dependencies(core(check(rules).program), ["P"])
    >>> len(deps.core.clauses), len(sliced(deps).core.clauses)
    (9, 3)
    """
    return in_blocks(_windows_named(deps))


def _windows_named(deps: Dependencies) -> Dependencies:
    core = deps.core
    windows = {**_long_windows(deps), **_windows_of_cycles(deps)}
    if not windows:
        return deps
    made = Windows(dict(core.predicates))
    clauses: list[Clause] = [c for c in core.clauses if c.head.predicate not in windows]
    for name, asked in windows.items():
        clauses += made.in_name(name, asked)
    clauses += made.clauses
    return dependencies(Core(core.program, tuple(clauses), made.predicates), deps.queries)


def _long_windows(deps: Dependencies) -> dict[str, Premise]:
    """The long windows that rules ask for, and that no pass has changed, by predicate."""
    core = deps.core
    asked_for = {p.predicate for c in core.clauses if c.window is None for p in c.premises}
    windows: dict[str, Premise] = {}
    for name in sorted(asked_for - deps.recursive):
        asked = window_of(core, name) if core.predicates[name].role is Role.WINDOW else None
        if asked is not None and asked.over is not None and asked.over.ticks > LONG_WINDOW:
            windows[name] = asked
    return windows


def _windows_of_cycles(deps: Dependencies) -> dict[str, Premise]:
    """The windows of cycles that are made in one step."""
    of_cycles = (absent_windows(deps, c) for c in deps.components if c[0] in deps.recursive)
    return {
        name: asked
        for windows in of_cycles
        for name, asked in windows.items()
        if asked is not None and asked.over is not None and asked.over.ticks > 1
    }


def absent_windows(deps: Dependencies, component: tuple[str, ...]) -> dict[str, Premise | None]:
    """Windows of a cycle that rules there ask for only where they do not hold, by predicate.

    None stands for a window that is only part of such ones.
    """
    roles = {name: deps.core.predicates[name].role for name in component}
    parts = {name for name, role in roles.items() if role is Role.WINDOW}
    asks = [e for e in deps.edges if e.head in roles and e.head not in parts]
    todo = [e.body for e in asks if e.body in parts and e.sign is Sign.POSITIVE]
    while todo:  # derived with the others, and so is what it is made of
        name = todo.pop()
        if name in parts:
            parts.remove(name)
            todo += [e.body for e in deps.edges if e.head == name]
    used = {e.body for e in deps.edges if e.head not in parts and e.body in parts}
    asked = {name: window_of(deps.core, name) for name in used}
    if None in asked.values():
        return {}  # a pass has changed their clauses: these are what is done
    parts -= {window.predicate for window in asked.values() if window is not None}
    return {name: asked.get(name) for name in component if name in parts}


__all__ = ["LONG_WINDOW", "absent_windows", "sliced"]
