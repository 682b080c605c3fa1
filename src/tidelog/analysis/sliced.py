"""The rules that a stream goes by which computes each predicate once and keeps slices of it.

A long window is only named there, and done in a step: tick by tick as a count for each object, or
over the words of a batch. Written out, it would take a step for each of the windows that it is made
of, and their slices would be kept; now what it counts is. Aggregates are made of blocks.
"""

from __future__ import annotations

from tidelog.analysis.blocks import in_blocks
from tidelog.analysis.dependencies import Dependencies, dependencies
from tidelog.logic.clause import Clause, Premise
from tidelog.logic.core import Core, Role
from tidelog.logic.windows import Windows, window_of

# Windows of more ticks than this are done in a step; shorter ones are made of few others.
LONG_WINDOW = 64


def sliced(deps: Dependencies) -> Dependencies:
    """The dependencies with long windows only named, and aggregates in blocks.

    A window that hangs on itself in a cycle of rules is left as it is.

    >>> from tidelog.logic.normalise import core
    >>> from tidelog.language.checks import check
    >>> rules = "input E(x: text) @ t. P(X) @ T :- always E(X) @ [T-99, T]."
    >>> deps = dependencies(core(check(rules).program), ["P"])
    >>> len(deps.core.clauses), len(sliced(deps).core.clauses)
    (9, 3)
    """
    return in_blocks(_long_windows_named(deps))


def _long_windows_named(deps: Dependencies) -> Dependencies:
    core = deps.core
    windows = _long_windows(deps)
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


__all__ = ["LONG_WINDOW", "sliced"]
