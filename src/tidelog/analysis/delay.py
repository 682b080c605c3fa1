"""Delay (Definition 4): how long to wait until answers are final, whatever the data.

Delay(Q, d) holds iff every conjunctive query of Q's unfolding is contained in Q restricted to
inputs at most d ticks after the answer. The greatest offset of an input is an upper bound; one
conjunctive query that loses its answer one tick earlier proves it minimal. Under `not` an answer
can also be lost by a fact that comes, and the two bounds need not meet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from tidelog.analysis.canonical import Exhausted, PartialFact
from tidelog.analysis.containment import Budget, Searcher, Verdict, Witness
from tidelog.analysis.dependencies import Class, Dependencies, Edge
from tidelog.analysis.differences import Side, constants_of
from tidelog.analysis.unfolding import Cut, Unfolded, Unfolder
from tidelog.errors import NoAnswer
from tidelog.language.program import Variable
from tidelog.logic.clause import Offset
from tidelog.logic.core import rules_of

# Expansions of a predicate that are tried out to see whether it lasts.
MOST_EXPANSIONS = 8


@dataclass(frozen=True)
class Measure:
    """A least value that holds: lower <= value <= upper; None is infinite or unknown.

    Proved infinite: both None and exact. Not known to be finite: upper None and not exact.
    """

    lower: int | None
    upper: int | None
    exact: bool
    witness: Witness | None = field(default=None, repr=False)
    reason: str = ""
    beyond_proof: bool = False  # whether more time would not have brought the bounds together


def delay(deps: Dependencies, budget: Budget) -> Measure:
    """The least delay of a query, or bounds for it.

    >>> from tidelog.logic.normalise import core
    >>> from tidelog.analysis.dependencies import dependencies
    >>> from tidelog.language.checks import check
    >>> program = check("Q @ T :- E @ T. Q @ T :- E @ T, F @ T+1. P @ T :- E @ T, F @ T+1.").program
    >>> [delay(dependencies(core(program), [q]), Budget()).upper for q in ("Q", "P")]
    [0, 1]
    """
    deps = deps.written_out
    query = checked(deps)
    if deps.cls is Class.BLOCKING:
        cycle = endless(deps, ahead=True)
        if cycle:
            return Measure(None, None, True, reason=f"{walked(cycle)} looks ahead without end")
        return Measure(0, None, False, reason=deps.reason.message)
    most = deps.phi[query]
    upper = max(0, int(most)) if not math.isinf(most) else 0
    searcher = Searcher(deps, deps, same=True)
    return least(
        lambda d: cut_holds(searcher, query, Cut(high=d), budget),
        0,
        upper,
        "the rules look no further",
    )


def delay_holds(deps: Dependencies, d: int, budget: Budget) -> Verdict:
    """Whether d is a delay of the query."""
    deps = deps.written_out
    query = checked(deps)
    if deps.cls is Class.BLOCKING:
        if endless(deps, ahead=True):
            return Verdict(False)
        return Verdict(None)
    searcher = Searcher(deps, deps, same=True)
    return cut_holds(searcher, query, Cut(high=d), budget)


def checked(deps: Dependencies) -> str:
    """The query, if Delay and Window are defined for it."""
    (query,) = deps.queries
    if not deps.core.predicates[query].temporal:
        raise NoAnswer(f"{query} has no time: delay and window concern temporal queries")
    for edge in deps.edges:
        if edge.point is not None:
            raise NoAnswer(
                f"{edge.clause.origin}: `{edge.body}` at the fixed time {edge.point} makes"
                " delay and window depend on the clock; ask `definitive` for one time point"
            )
    return query


def cut_holds(searcher: Searcher, query: str, cut: Cut, budget: Budget) -> Verdict:
    """Whether the query needs nothing that the cut takes away."""
    return searcher.search(searcher.unfolder.start(query), query, cut, budget.share(0.5))


def least(test: Callable[[int], Verdict], lower: int, upper: int, reason: str) -> Measure:
    """The least value for which a monotone test holds, `upper` being known to."""
    witness: Witness | None = None
    unknown: set[int] = set()
    beyond_proof = True
    at = upper - 1  # most bounds are tight: one test settles it
    while lower < upper:
        verdict = test(at)
        if verdict.holds is True:
            upper, reason = at, "shown by containment"
        elif verdict.holds is False:
            lower, witness = at + 1, verdict.witness
        else:
            unknown.add(at)
            beyond_proof = beyond_proof and verdict.beyond_proof
        choices = [(lower + upper) // 2, upper - 1, lower]
        open_ = [c for c in choices if lower <= c < upper and c not in unknown]
        if not open_:
            break
        at = open_[0]
    exact = lower == upper
    return Measure(lower, upper, exact, witness, reason, beyond_proof and not exact)


def endless(deps: Dependencies, *, ahead: bool) -> tuple[Edge, ...]:
    """A cycle that proves that no finite delay (ahead) or window (not ahead) will do.

    Every rule on it and on the way to it has one temporal atom, unconditionally carried along, so
    that going round moves *all* inputs of an answer as far away as one likes; and without any input
    near, nothing is derived. What is negated on the way must not reach that far.
    """
    (query,) = deps.queries
    if any(c.head.point is not None for c in rules_of(deps.core)) or deps.unconnected:
        return ()
    if deps.aggregate is not None:
        return ()
    edges = [e for e in deps.edges if e.offset is not None and _carries(deps, e, ahead)]
    out: dict[str, list[Edge]] = {}
    for edge in edges:
        out.setdefault(edge.head, []).append(edge)
    reached, todo = {query}, [query]
    while todo:
        for edge in out.get(todo.pop(), ()):
            if edge.body not in reached:
                reached.add(edge.body)
                todo.append(edge.body)
    for name in deps.predicates:
        if name in reached and name in deps.recursive:
            cycle = _cycle(name, out, ahead)
            if cycle and (
                _lasting(deps, name, edges, ahead) if deps.negated else _satisfiable(deps, name)
            ):
                return cycle
    return ()


def _carries(deps: Dependencies, edge: Edge, ahead: bool) -> bool:
    clause = edge.clause
    if not edge.positive:
        return False
    temporal = [p for p in clause.positive if p.temporal]
    rigid = [p for p in clause.premises if not p.temporal]
    # What only rules say of rigid premises may end after a few rounds; input can go on. It can
    # bring what is negated elsewhere too, so that it is not relied on then.
    if any(deps.negated or p.predicate not in deps.core.input_of for p in rigid):
        return False
    for absent in clause.negative:
        reach = deps.input_offsets[absent.predicate]
        if absent.offset is None or (reach.high == math.inf if ahead else reach.low == -math.inf):
            return False
    if len(temporal) != 1 or clause.tests or not isinstance(clause.head.when, Offset):
        return False
    return all(_distinct_variables(args) for args in (clause.head.args, temporal[0].args))


def _distinct_variables(args: tuple[object, ...]) -> bool:
    return all(isinstance(t, Variable) for t in args) and len(set(args)) == len(args)


def _cycle(start: str, out: dict[str, list[Edge]], ahead: bool) -> tuple[Edge, ...]:
    """A simple cycle from a predicate to itself that moves the right way."""
    stack: list[tuple[str, tuple[Edge, ...]]] = [(start, ())]
    for _ in range(10_000):
        if not stack:
            break
        name, path = stack.pop()
        for edge in out.get(name, ()):
            walked = (*path, edge)
            moved = sum(e.offset or 0 for e in walked)
            if edge.body == start:
                if moved > 0 if ahead else moved < 0:
                    return walked
            elif all(edge.body != e.head for e in walked):
                stack.append((edge.body, walked))
    return ()


def _satisfiable(deps: Dependencies, name: str) -> bool:
    """Whether the predicate has an expansion down to inputs."""
    return next(_expansions(Unfolder(deps), name), None) is not None


def _lasting(deps: Dependencies, name: str, edges: list[Edge], ahead: bool) -> bool:
    """Whether some facts make the predicate hold so far away from all of them that nothing negated
    on the way is near any: from there it is carried on for ever.
    """
    side = Side(deps, Unfolder(deps))
    strays = sum(abs(e.offset or 0) for e in edges)
    absent = [p for e in edges for p in e.clause.negative]
    reaches = [(p.offset or 0, deps.input_offsets[p.predicate]) for p in absent]
    # How far after (ahead: before) a fact something negated can still hang on it.
    near = [o + r.high if ahead else -o - r.low for o, r in reaches if r.low <= r.high]
    far = strays + int(max(near, default=0)) + 1
    anything = (None,) * len(deps.core.predicates[name].types)
    constants = constants_of(deps.core)
    try:
        for query in islice(_expansions(side.unfolder, name), MOST_EXPANSIONS):
            try:
                values = query.order.model(query.symbols(), constants)
            except ValueError:
                continue  # too few values for its symbols
            for data in side.started(query, values, 0):
                ticks = [f.time for f in data if f.time is not None]
                tick = min(ticks, default=0) - far if ahead else max(ticks, default=0) + far
                if ticks and side.evaluated(data, PartialFact(name, anything, tick))[0]:
                    return True
    except Exhausted:
        pass
    return False


def _expansions(unfolder: Unfolder, name: str) -> Iterator[Unfolded]:
    """Expansions of a predicate down to inputs, as far as a small budget goes."""
    recursive = unfolder.deps.recursive
    budget = Budget(2.0, 2_000)
    stack = [unfolder.start(name)]
    try:
        while stack:
            budget.spend()
            current = stack.pop()
            if current.complete:
                yield current
                continue
            pinned = not current.open
            atom = min(current.open or current.open_pinned, key=str)
            # Clauses that do not recurse are tried first.
            ways = list(unfolder.expand(current, atom, pinned=pinned))
            stack.extend(
                sorted(ways, key=lambda w: sum(f.predicate in recursive for f in w.open))[::-1]
            )
    except Exhausted:
        pass


def walked(cycle: tuple[Edge, ...]) -> str:
    places = dict.fromkeys(str(e.clause.origin) for e in cycle if not e.clause.made)
    return f"the cycle through {cycle[0].head} ({', '.join(places)})"


__all__ = [
    "Measure",
    "checked",
    "delay",
    "delay_holds",
    "endless",
    "least",
]
