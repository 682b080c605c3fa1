"""Windows of cycles in clauses: what hangs on itself through a window is derived in rounds.

In each round a window may hold of more, as any other predicate of the cycle may. It is written out,
and its parts are repeated with the others. A window that rules of the cycle ask for only where it
does not hold is made before each round, in one step, and stays what it is.
"""

from __future__ import annotations

from tidelog.analysis.dependencies import Dependencies, dependencies
from tidelog.logic.windows import write_out


def in_rounds(deps: Dependencies) -> Dependencies:
    """The dependencies with those windows of cycles written out that rules there ask to hold.

    >>> from tidelog.logic.normalise import core
    >>> from tidelog.language.checks import check
    >>> rules = "input E(x: text) @ t. P(X) @ T :- E(X) @ T. P(X) @ T+1 :- always P(X) @ [T-1, T]."
    >>> deps = dependencies(core(check(rules).program), ["P"])
    >>> len(deps.core.windows), len(in_rounds(deps).core.windows)
    (1, 0)
    """
    place = {name: i for i, component in enumerate(deps.components) for name in component}
    repeated = {
        edge.body for edge in deps.edges if edge.positive and place[edge.head] == place[edge.body]
    }
    core = write_out(deps.core, repeated.__contains__)
    return deps if core is deps.core else dependencies(core, deps.queries)


__all__ = ["in_rounds"]
