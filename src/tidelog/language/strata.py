"""Whether absence is well founded: no fact may hang on its own absence, nor on what it adds to.

A cycle of rules through `not` is fine where it looks strictly back: whether something is absent at
a tick is then settled before the tick that asks. So it is with aggregates, which come to something
else with every fact more. Each use of a predicate gets the pair (offset, 1 if under `not` or
gathered); with n predicates, the sum of `offset * (n + 1) + settled before` around a cycle is below
zero exactly if its offsets sum to less than 0 (or to 0 without any of these).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidelog.language.diagnostics import Code, Diagnostic, Note
from tidelog.language.graph import Arc, components, longest
from tidelog.language.printer import print_time
from tidelog.language.program import (
    Aggregated,
    Atom,
    Negated,
    Rule,
    Time,
    atom_of,
    ends,
    ticks_of,
    time_variable_of,
)


@dataclass(frozen=True)
class Use:
    """One use of a predicate in a rule; `offset` is None where the head's time does not fix it."""

    rule: Rule
    atom: Atom
    negated: bool
    offset: int | None
    head: str
    body: str
    aggregated: Aggregated | None = None

    @property
    def settled_before(self) -> bool:
        """Whether all facts of the body must be known before the head is."""
        return self.negated or self.aggregated is not None

    @property
    def through(self) -> str:
        """What a cycle goes through here, for people."""
        return "not" if self.aggregated is None else self.aggregated.aggregate.measure

    @property
    def looks_back(self) -> str:
        """What such a cycle has to do."""
        example = "not P @ T-1" if self.negated else f"{self.through}(P @ [T-30, T-1])"
        if self.through not in ("not", "count"):
            example = f"{self.through}(V : P(V) @ [T-30, T-1])"
        return f"a cycle through `{self.through}` must look strictly back, as in `{example}`"


def check_strata(uses: Sequence[Use]) -> Iterator[Diagnostic]:
    """The cycles through `not` or an aggregate that do not look strictly back, one for each group
    of rules.

    >>> from tidelog.language.checks import check
    >>> report = check("input E @ t. P @ T :- E @ T, not Q @ T. Q @ T :- E @ T, not P @ T.")
    >>> print(report.errors[0].message)
    a cycle through `not`: P @ T needs the absence of Q @ T needs the absence of P @ T
    """
    successors: dict[str, list[str]] = {}
    for use in uses:
        successors.setdefault(use.head, []).append(use.body)
    groups = components(successors, successors)
    number = {name: i for i, names in enumerate(groups) for name in names}
    inside = [use for use in uses if number[use.head] == number[use.body]]
    for i in sorted({number[use.head] for use in inside if use.settled_before}):
        yield from _component(groups[i], [use for use in inside if number[use.head] == i])


def uses(rule: Rule) -> Iterator[Use]:
    """What a rule needs: there, absent, or gathered."""
    for literal in rule.body:
        atom = atom_of(literal)
        if atom is not None:
            offset = _offset(rule.head.time, atom.time)
            names = rule.head.predicate, atom.predicate
            gathering = literal if isinstance(literal, Aggregated) else None
            yield Use(rule, atom, isinstance(literal, Negated), offset, *names, gathering)


def _offset(head: Time | None, body: Time | None) -> int | None:
    """How far a body may lie from the head; of intervals the earliest head and the last tick."""
    if time_variable_of(head) is None or time_variable_of(head) != time_variable_of(body):
        return None
    return ticks_of(ends(body)[-1]) - ticks_of(ends(head)[0])


def _component(names: list[str], uses: list[Use]) -> Iterator[Diagnostic]:
    """Predicates that need one another, some of them absent or gathered."""
    timeless = next((use for use in uses if use.offset is None), None)
    if timeless is not None:
        shown = next(use for use in uses if use.settled_before)
        cycle = _path(uses, shown, timeless)
        hint = f"`{shown.through}` in a cycle needs a time before the head's at every step"
        yield _finding(cycle, shown, hint)
        return
    arcs = [
        Arc(use.head, use.body, (use.offset or 0) * (len(names) + 1) + use.settled_before, i)
        for i, use in enumerate(uses)
    ]
    _, around = longest(names, arcs, dict.fromkeys(names, 0))
    if around:
        cycle = [uses[arc.label] for arc in around]
        ahead = None if any(use.settled_before for use in cycle) else cycle[0]
        if ahead is not None:
            # It can be gone round as often as one likes before the `not`.
            cycle = _path(uses, next(use for use in uses if use.settled_before), ahead)
        shown = next(use for use in cycle if use.settled_before)
        if ahead is None:
            hint = f"the offsets of this cycle sum to {_sum(cycle)}: {shown.looks_back}"
        else:
            hint = f"`{ahead.head}` also needs itself at later ticks: {shown.looks_back}"
        yield _finding(cycle, shown, hint)


def _sum(cycle: list[Use]) -> str:
    ticks = sum(use.offset or 0 for use in cycle)
    return f"{ticks:+d}" if ticks else "0"


def _path(uses: list[Use], first: Use, through: Use) -> list[Use]:
    """A closed walk along two uses, which are in one component."""
    walk = [first]
    for goal in (through, first):
        walk += _way(uses, walk[-1].body, goal.head)
        if goal is not walk[0]:
            walk.append(goal)
    return walk if first is not through else [first, *_way(uses, first.body, first.head)]


def _way(uses: list[Use], start: str, goal: str) -> list[Use]:
    """A shortest way from a predicate to one that it needs."""
    came: dict[str, Use | None] = {start: None}
    layer = [start]
    while goal not in came:
        step = [use for use in uses if use.head in layer and use.body not in came]
        for use in step:
            came.setdefault(use.body, use)
        layer = [use.body for use in step]
    way: list[Use] = []
    last = came[goal]
    while last is not None:
        way.append(last)
        last = came[last.head]
    return way[::-1]


def _finding(cycle: list[Use], shown: Use, hint: str) -> Diagnostic:
    at: int | None = 0
    first = cycle[0].rule.head
    told = first.predicate + (" @ T" if time_variable_of(first.time) else "")
    for use in cycle:
        at = None if at is None or use.offset is None else at + use.offset
        time = f" @ T{at:+d}" if at else " @ T"
        if at is None:
            time = "" if use.atom.time is None else f" @ {print_time(use.atom.time)}"
        all_of = "" if use.aggregated is None else "all facts of "
        told += f" needs {'the absence of ' if use.negated else all_of}{use.body}{time}"
    others = [use for use in cycle if use is not shown]
    notes = tuple(Note("the cycle goes on here", use.atom.origin) for use in others)
    return Diagnostic(
        Code.NOT_STRATIFIED,
        f"a cycle through `{shown.through}`: {told}",
        shown.atom.origin,
        notes,
        hint,
    )
