"""Window (Definition 6): how much history to keep, whatever the data.

Window(Q, d, s) holds iff every conjunctive query of Q's unfolding is contained in Q restricted to
inputs at most s - d ticks before the answer; it depends on d - s only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from tidelog.analysis.containment import Budget, Searcher, Verdict
from tidelog.analysis.delay import Measure, checked, cut_holds, endless, least, walked
from tidelog.analysis.dependencies import Class, Dependencies
from tidelog.analysis.unfolding import Cut

# How far a window that the rules do not bound is looked for.
FAR = 16


def window(deps: Dependencies, d: int, budget: Budget) -> Measure:
    """The least window of a query evaluated with delay d, or bounds for it."""
    deps = deps.written_out
    query = checked(deps)
    cycle = endless(deps, ahead=False)
    if cycle:
        return Measure(None, None, True, reason=f"{walked(cycle)} looks back without end")
    if deps.cls is Class.BLOCKING:
        return Measure(0, None, False, reason=deps.reason.message)
    searcher = Searcher(deps, deps, same=True)

    def test(s: int) -> Verdict:
        return cut_holds(searcher, query, Cut(low=d - s), budget)

    first = deps.input_offsets[query].low
    if not math.isinf(first):
        return least(test, 0, max(0, d - int(first)), "the rules look no further")
    if first > 0:  # no input below at all
        return Measure(0, 0, True, reason="no input reaches it")
    return _unbounded_rules(test, deps)


def _unbounded_rules(test: Callable[[int], Verdict], deps: Dependencies) -> Measure:
    """Recursion looks back for ever, but what it finds there may never matter."""
    lower, witness, s = 0, None, 0
    while s <= FAR:
        verdict = test(s)
        if verdict.holds is True:
            measure = least(test, lower, s, "shown by containment")
            return measure if measure.witness else replace(measure, witness=witness)
        if verdict.holds is None:
            break
        lower, witness = s + 1, verdict.witness
        s = max(1, 2 * s)
    reason = f"{deps.reason.message}; derived state is kept instead"
    return Measure(lower, None, False, witness, reason)


def window_holds(deps: Dependencies, d: int, s: int, budget: Budget) -> Verdict:
    """Whether s is a window of the query evaluated with delay d."""
    deps = deps.written_out
    query = checked(deps)
    if endless(deps, ahead=False):
        return Verdict(False)
    if deps.cls is Class.BLOCKING:
        return Verdict(None)
    searcher = Searcher(deps, deps, same=True)
    return cut_holds(searcher, query, Cut(low=d - s), budget)
