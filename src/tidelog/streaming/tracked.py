"""Windows that an online stream follows object by object, and not by the windows they are made of.

Written out, a window of n ticks is made of about log2 n shorter ones, each with cells of its own. A
window whose ticks are known one after the other, all of a tick at once, needs none of them: per
object it is enough to keep the last ticks at which it was there, and when it will be too late.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace

from tidelog.analysis.dependencies import Dependencies
from tidelog.analysis.possible import FUTURE, Possible, any_pattern, pattern_name, possible
from tidelog.language.program import Type
from tidelog.logic.clause import AT_HEAD, ITS_TICK, Over, Sign
from tidelog.logic.core import Core
from tidelog.logic.windows import Windows, over_ticks


@dataclass(frozen=True)
class Tracked:
    """What a window counts."""

    base: str  # the predicate, with the arguments of the window
    over: Over
    after: int  # what holds of it at a tick is known so many ticks later, and nothing before
    anything: str  # the name for that the window may hold of any object


def tracked_windows(deps: Dependencies) -> tuple[Possible, dict[str, Tracked]]:
    """The possible program of some rules, and their windows that are followed object by object."""
    windows = _candidates(deps)
    deps = replace(deps, core=over_ticks(deps.core, windows))
    while True:
        made = possible(deps, anything=True, followed=windows)
        later = _from_future_alone(made)
        awkward = [n for n, window in windows.items() if not _is_any(made, window.base, later)]
        if not awkward:
            return made, windows
        windows = {name: window for name, window in windows.items() if name not in awkward}


def _candidates(deps: Dependencies) -> dict[str, Tracked]:
    """The windows that rules ask for and whose ticks are known one after the other."""
    core = deps.core
    if any(e.offset is None and core.predicates[e.body].temporal for e in deps.edges):
        return {}  # what rules look at by fixed ticks, or at any, changes as these pass
    moments: dict[str, int | None] = {}
    windows: dict[str, Tracked] = {}
    for name, window in sorted(core.windows.items()):
        if window.over.ticks < 2 or name in deps.recursive:
            continue
        moment = _moment(core, window.of.predicate, moments)
        types = core.predicates[name].types
        if moment is not None and types and Type.BOOL not in types:
            base = Windows.of(core).of_a_tick(window).name
            anything = pattern_name(name, any_pattern(core.predicates[name]))
            windows[name] = Tracked(base, window.over, moment, anything)
    return windows


def _moment(core: Core, name: str, known: dict[str, int | None]) -> int | None:
    """So many ticks after its own all that a predicate rests on arrives, and nothing before.

    None where it arrives bit by bit, where something must be absent, and where not all has a time.
    """
    if name in known:
        return known[name]
    known[name] = None  # what goes in a circle rests on many ticks
    if core.predicates[name].input:
        known[name] = 0 if core.predicates[name].temporal else None
        return known[name]
    operator = core.operations.get(name)
    if operator is not None and operator.extent != ITS_TICK:
        return None
    moments: set[int | None] = set()
    for clause in core.uses_for[name]:
        if clause.head.when != AT_HEAD or not clause.premises:
            return None
        for premise in clause.premises:
            below = _moment(core, premise.predicate, known)
            if premise.sign is not Sign.POSITIVE or premise.offset is None or below is None:
                return None
            moments.add(premise.offset + below)
    known[name] = moments.pop() if len(moments) == 1 else None
    return known[name]


def _from_future_alone(made: Possible) -> set[str]:
    """The names of the possible program for what may hold where nothing is known yet."""
    names, grew = {FUTURE}, True
    while grew:
        more = {
            rule.clause.head.predicate
            for rule in made.clauses
            if all(p.predicate in names for p in rule.clause.positive)
        }
        grew = not more <= names
        names |= more
    return names


def _is_any(made: Possible, base: str, later: Set[str]) -> bool:
    """Whether a predicate may hold of anything, and of nothing special, where nothing is known."""
    predicate = made.deps.core.predicates[base]
    if predicate.input:
        return True
    names = {pattern_name(base, pattern) for pattern in made.patterns[base]}
    return names & later == {pattern_name(base, any_pattern(predicate))}
