"""How far beyond the question an evaluation over bounded time must look.

Both oracles forget every fact outside a horizon `[L, H]` of ticks. Without `not` that never adds
an answer, and loses none when every answer in the asked range has a derivation inside the horizon.
With `not` the absence of a forgotten fact may count: then every fact on which an answer hangs must
be inside. The horizon is the hull of the data, the explicit times of the program and the asked
range, widened by a margin:

- Without recursion a derivation is at most as deep as there are rules, and each step moves by at
  most the largest span of a rule; so `rules * span` is enough.
- Where every cycle moves time the same way, a derivation walks from the data to the question and
  strays by less than one cycle and one path: twice as much is enough.
- Where cycles run both ways a derivation may go out and come back after a number of steps that
  depends on all the periods together. No simple margin is enough for every such program; the
  default adds `SLACK`, enough for two or three periods up to 5. Compare with a larger margin
  where that matters.

A clock counts as a rule that moves time by one tick.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from tidelog.language.program import (
    Atom,
    Program,
    Rule,
    Time,
    TimeOffset,
    TimePoint,
    Value,
    ends,
    ticks_of,
    time_variable_of,
)

# Rows by predicate; the time is the last value of a temporal row. Duplicates are harmless.
Facts: TypeAlias = Mapping[str, Iterable[tuple[Value, ...]]]
Answers: TypeAlias = dict[str, set[tuple[Value, ...]]]

SLACK = 120


def temporal_predicates(program: Program) -> set[str]:
    """Names of the predicates that have a time."""
    names = {name for name, d in program.declarations.items() if d.time is not None}
    names |= set(program.clocks)
    return names | {atom.predicate for atom in _atoms(program) if atom.time is not None}


def default_margin(program: Program) -> int:
    """See above; 0 when no rule moves time."""
    rules = sum(1 for rule in program.rules if rule.body)
    span = max(map(_span, program.rules), default=0)
    if program.clocks:
        return 2 * (rules + 1) * max(span, 1) + SLACK
    if not span:
        return 0
    if not _recursive(program):
        return rules * span
    return 2 * (rules + 1) * span + SLACK


def horizon(
    program: Program, facts: Facts, low: int, high: int, margin: int | None = None
) -> tuple[int, int]:
    """The ticks `[L, H]` that an evaluation over `[low, high]` must consider."""
    ticks = [low, high]
    named = (end for atom in _atoms(program) for end in ends(atom.time))
    ticks += [end.tick for end in named if isinstance(end, TimePoint)]
    temporal = temporal_predicates(program)
    ticks += [int(row[-1]) for name, rows in facts.items() if name in temporal for row in rows]
    margin = default_margin(program) if margin is None else margin
    return min(ticks) - margin, max(ticks) + margin


def ticking(program: Program, facts: Facts, last: int) -> range:
    """When a clock holds: from the first tick of any input on."""
    ticks = [
        int(row[-1])
        for name, declaration in program.declarations.items()
        if declaration.time is not None
        for row in facts.get(name, ())
    ]
    return range(min(ticks), last + 1) if ticks else range(0)


def _atoms(program: Program) -> Iterator[Atom]:
    for rule in program.rules:
        yield rule.head
        yield from rule.atoms


def _span(rule: Rule) -> int:
    """The largest distance between two atoms of one time variable."""
    offsets: dict[str, list[int]] = {}
    for atom in (rule.head, *rule.atoms):
        for end in ends(atom.time):
            if isinstance(end, TimeOffset):
                offsets.setdefault(end.variable.name, []).append(end.offset)
    return max((max(numbers) - min(numbers) for numbers in offsets.values()), default=0)


def _recursive(program: Program) -> bool:
    below: dict[str, set[str]] = {}
    for rule in program.rules:
        below.setdefault(rule.head.predicate, set()).update(a.predicate for a in rule.atoms)
    for name in below:
        seen: set[str] = set()
        todo = [name]
        while todo:
            for body in below.get(todo.pop(), set()) - seen:
                seen.add(body)
                todo.append(body)
        if name in seen:
            return True
    return False


def runs_both_ways(program: Program, queries: Iterable[str]) -> bool:
    """Whether recursion below the queries can go forwards for ever and backwards for ever.

    By walking: from a predicate at tick 0, every rule leads to its body atoms at other ticks. A
    walk of as many steps as there are predicates, times two, that returns to where it started has
    gone round a cycle. Cycles that only go one way leave the range finite on the other side.
    """
    steps: dict[str, set[tuple[str, int | None]]] = {
        clock: {(clock, -1)} for clock in program.clocks
    }
    for rule in program.rules:
        head = rule.head.time
        for atom in rule.atoms:
            for offset in _offsets(head, atom.time):
                steps.setdefault(rule.head.predicate, set()).add((atom.predicate, offset))
    below = set(queries)
    todo = list(below)
    while todo:
        for name, _ in steps.get(todo.pop(), set()):
            if name not in below:
                below.add(name)
                todo.append(name)
    forwards = any(_gains(name, steps, 1) for name in below)
    backwards = any(_gains(name, steps, -1) for name in below)
    # A predicate whose time is not tied to its head's is needed at every tick, both ways.
    untied = any(offset is None for targets in steps.values() for _, offset in targets)
    return (forwards and backwards) or (untied and (forwards or backwards))


def _offsets(head: Time | None, body: Time | None) -> list[int | None]:
    """How far a body may lie from its head: the least and the most, or nobody knows."""
    if time_variable_of(head) is None or time_variable_of(head) != time_variable_of(body):
        return [None]
    first, last = ends(head)[0], ends(head)[-1]
    near = ticks_of(ends(body)[0]) - ticks_of(last)
    return [near, ticks_of(ends(body)[-1]) - ticks_of(first)]


def _gains(start: str, steps: dict[str, set[tuple[str, int | None]]], sign: int) -> bool:
    """Whether some cycle through a predicate adds up to more than 0, times the sign."""
    best = {start: 0}
    for _ in range(len(steps) + 1):
        following: dict[str, int] = {}
        for name, sum_ in best.items():
            for body, offset in steps.get(name, set()):
                if offset is not None:
                    gain = sum_ + sign * offset
                    following[body] = max(following.get(body, gain), gain)
        if following.get(start, 0) > 0:
            return True
        best = following
    return False
