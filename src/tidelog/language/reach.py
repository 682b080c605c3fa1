"""How far rules reach: offsets add up along rules, and a time must still fit 64 bits after that.

Times of facts take 62 bits. A sum of offsets has 60, so that neither a derived time nor one that is
computed on the way to it ever overflows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidelog.language.diagnostics import Code, Diagnostic
from tidelog.language.graph import components
from tidelog.language.program import REACH_MAX, Atom, Program, Rule, TimeOffset, ends


@dataclass(frozen=True)
class _Step:
    """From the head of a rule to an atom of its body, so many ticks away."""

    head: str
    atom: Atom
    ticks: int


def check_reach(program: Program) -> Iterator[Diagnostic]:
    """Offsets whose sum, along some rules, does not fit; for programs that have some.

    >>> from tidelog.language.checks import check
    >>> text = f"P @ T :- E @ T+{2**59}. Q @ T :- P @ T+{2**59 + 1}."
    >>> print(*(d.message for d in check(text).errors))
    the offsets from Q on add up to 1152921504606846977 ticks, and a sum must fit 60 bits
    """
    steps = [step for rule in program.rules for step in _steps(rule)]
    reach = _reach(steps)
    far = max(reach, key=lambda name: reach[name])
    if reach[far] <= REACH_MAX:
        return
    largest = max(steps, key=lambda step: abs(step.ticks))
    yield Diagnostic(
        Code.NUMBER,
        f"the offsets from {far} on add up to {reach[far]} ticks, and a sum must fit 60 bits",
        largest.atom.origin,
        hint=f"the largest sum is {REACH_MAX}: write smaller offsets, or have longer ticks",
    )


def reach_of(rule: Rule) -> int:
    """All offsets of a rule added up: where those of a program fit, no sum of them does not."""
    return sum(abs(step.ticks) for step in _steps(rule))


def _steps(rule: Rule) -> Iterator[_Step]:
    """The atoms of a rule, each from the head; those at another time from the first of these."""
    first: dict[object, int] = {}
    for atom in (rule.head, *rule.atoms):
        for end in ends(atom.time):
            if isinstance(end, TimeOffset):
                start = first.setdefault(end.variable, end.offset)
                if end.offset != start or atom is not rule.head:
                    yield _Step(rule.head.predicate, atom, end.offset - start)


def _reach(steps: list[_Step]) -> dict[str, int]:
    """By predicate the greatest sum of offsets, forth or back, of anything below it.

    Within a cycle each step counts once: how often it is gone round is up to the times asked for.
    """
    below: dict[str, list[_Step]] = {}
    for step in steps:
        below.setdefault(step.head, []).append(step)
    successors = {head: [step.atom.predicate for step in some] for head, some in below.items()}
    forth: dict[str, int] = {}
    back: dict[str, int] = {}
    for component in components(successors, successors):
        own = [step for name in component for step in below.get(name, ())]
        inside = {step for step in own if step.atom.predicate in component}
        around = sum(abs(step.ticks) for step in inside)
        out = [step for step in own if step not in inside]
        ahead = max((step.ticks + forth[step.atom.predicate] for step in out), default=0)
        behind = max((back[step.atom.predicate] - step.ticks for step in out), default=0)
        for name in component:
            forth[name], back[name] = max(ahead, 0) + around, max(behind, 0) + around
    return {name: max(forth[name], back[name]) for name in forth}
