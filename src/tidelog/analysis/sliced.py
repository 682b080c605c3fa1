"""The rules that a stream goes by which computes each predicate once and keeps slices of it.

A long window is done in a step there: tick by tick as a count for each object, or over the words of
a batch. Written out, it would take a step for each of the windows that it is made of, and their
slices would be kept; now what it counts is. So is any window that must not hold for facts which it
hangs on itself: each round would repeat all of what it is written out in. Aggregates are made of
blocks.
"""

from __future__ import annotations

from tidelog.analysis.blocks import in_blocks
from tidelog.analysis.dependencies import Dependencies, dependencies
from tidelog.logic.clause import ONE_TICK
from tidelog.logic.windows import over_ticks, takes_many_clauses, write_out

# Windows of more ticks than this are done in a step; shorter ones are made of few others.
LONG_WINDOW = 64


def sliced(deps: Dependencies) -> Dependencies:
    """The dependencies with short windows written out, and aggregates in blocks."""
    return in_blocks(in_steps(deps))


def in_steps(deps: Dependencies) -> Dependencies:
    """The dependencies with short windows written out; the others are done in a step.

    >>> from tidelog.logic.normalise import core
    >>> from tidelog.language.checks import check
    >>> rules = "input E(x: text) @ t. P(X) @ T :- always E(X) @ [T-99, T], some E(X) @ [T-9, T]."
    >>> deps = dependencies(core(check(rules).program), ["P"])
    >>> len(deps.core.windows), len(in_steps(deps).core.windows)
    (2, 1)
    """

    def is_short(name: str) -> bool:
        over = deps.core.windows[name].over
        if name in deps.recursive:
            return over == ONE_TICK
        return over.ticks <= LONG_WINDOW and not takes_many_clauses(over)

    core = over_ticks(write_out(deps.core, is_short))
    return deps if core is deps.core else dependencies(core, deps.queries)


__all__ = ["LONG_WINDOW", "in_steps", "sliced"]
