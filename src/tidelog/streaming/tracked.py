"""Windows that an online stream follows object by object, and not by the windows they are made of.

Written out, a window of n ticks is made of about log2 n shorter ones, each with cells of its own. A
window whose ticks are known one after the other, all of a tick at once, needs none of them: per
object it is enough to keep the last ticks at which it was there, and when it will be too late.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from tidelog.analysis.dependencies import Class, Dependencies, dependencies
from tidelog.analysis.passes import Passes
from tidelog.analysis.possible import FUTURE, Possible, any_pattern, pattern_name, possible
from tidelog.language.program import Type
from tidelog.logic.clause import AT_HEAD, Clause, Head, Offset, Over, Premise, Sign
from tidelog.logic.core import Core, Role
from tidelog.logic.windows import Windows, named_windows, names_of, window_of


@dataclass(frozen=True)
class Tracked:
    """What a window counts."""

    base: str  # the predicate, with the arguments of the window
    over: Over
    after: int  # what holds of it at a tick is known so many ticks later, and nothing before
    anything: str  # the name for that the window may hold of any object


def tracked_windows(deps: Dependencies) -> tuple[Possible, dict[str, Tracked]]:
    """The possible program of some rules, and their windows that are followed object by object.

    Of these it has only the ends: they say what the window depends on, not when it holds.
    """
    windows = _candidates(deps)
    while True:
        brief = _by_their_ends(deps, windows) if windows else deps
        made = possible(brief, anything=True)
        later = _from_future_alone(made)
        awkward = [n for n, window in windows.items() if not _is_any(made, window.base, later)]
        if not awkward:
            return made, windows
        windows = {name: window for name, window in windows.items() if name not in awkward}


def online_rules(needed: Passes) -> Dependencies:
    """The rules that an online stream goes by.

    Very long counts are only named there, if it can follow each of them object by object.
    """
    planned = needed.planned
    named = named_windows(planned.core)
    if not named:
        return planned
    waits = planned.cls is not Class.BLOCKING and planned.gathered is None
    followed = waits and named.keys() <= tracked_windows(planned)[1].keys()
    return planned if followed else needed.lean


def _candidates(deps: Dependencies) -> dict[str, Tracked]:
    """The windows that rules ask for and whose ticks are known one after the other."""
    core = deps.core
    if any(e.offset is None and core.predicates[e.body].temporal for e in deps.edges):
        return {}  # what rules look at by fixed ticks, or at any, changes as these pass
    moments: dict[str, int | None] = {}
    asked_for = {p.predicate for c in core.clauses if c.window is None for p in c.premises}
    windows: dict[str, Tracked] = {}
    for name in sorted(asked_for):
        asked = window_of(core, name) if core.predicates[name].role is Role.WINDOW else None
        if asked is None or asked.over is None or asked.over.ticks < 2 or name in deps.recursive:
            continue
        moment = _moment(core, asked.predicate, moments)
        types = core.predicates[name].types
        if moment is not None and types and Type.BOOL not in types:
            base = Windows(dict(core.predicates)).of_a_tick(asked).name
            anything = pattern_name(name, any_pattern(core.predicates[name]))
            windows[name] = Tracked(base, asked.over, moment, anything)
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
    moments: set[int | None] = set()
    for clause in core.clauses_for.get(name, ()):
        if clause.head.when != AT_HEAD or not clause.premises:
            return None
        for premise in clause.premises:
            below = _moment(core, premise.predicate, known)
            if premise.sign is not Sign.POSITIVE or premise.offset is None or below is None:
                return None
            moments.add(premise.offset + below)
    known[name] = moments.pop() if len(moments) == 1 else None
    return known[name]


def _by_their_ends(deps: Dependencies, windows: Mapping[str, Tracked]) -> Dependencies:
    """The rules with the ends of some windows in place of what these are made of."""
    core = deps.core
    written = Windows(dict(core.predicates))
    clauses = [clause for clause in core.clauses if clause.head.predicate not in windows]
    for name, window in windows.items():
        asked = window_of(core, name)
        assert asked is not None, "a window that is tracked is as it was written"
        names = names_of(asked)
        base = written.of_a_tick(asked).name
        for back in (0, 1 - window.over.ticks):
            end = Premise(base, names, Offset(back))
            clauses.append(Clause(Head(name, names, AT_HEAD), (end,), made=True, window=asked))
    clauses += written.clauses
    return dependencies(Core(core.program, tuple(clauses), written.predicates), deps.queries)


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
