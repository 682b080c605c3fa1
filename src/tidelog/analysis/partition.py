"""Partition keys: an argument position per predicate on which all work can be split.

Every clause must find one term at the key position of its head and of all its temporal premises,
negated ones too. Rigid predicates are sent to every partition and need no key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tidelog.language.program import Term, Variable
from tidelog.logic.clause import Clause, Head, Premise
from tidelog.logic.core import Core


@dataclass(frozen=True)
class PartitionKey:
    """Positions (from 0) of temporal predicates; or none, with the reason and the clause."""

    positions: dict[str, int] | None
    reason: str = ""
    clause: Clause | None = None


@dataclass(frozen=True)
class Together:
    """Parts of a clause that must lie in the same partition."""

    parts: tuple[Head | Premise, ...]
    clause: Clause


def partition_key(core: Core) -> PartitionKey:
    """A key for all temporal predicates of the core, where one exists.

    >>> from tidelog.logic.normalise import core
    >>> from tidelog.language.checks import check
    >>> program = check("P(X, Y) @ T :- E(Y) @ T, F(X, Y) @ T+1.").program
    >>> partition_key(core(program)).positions
    {'E': 0, 'F': 1, 'P': 1}
    """
    arities = {n: len(p.types) for n, p in core.predicates.items() if p.temporal}
    if not arities:
        return PartitionKey(None, "no predicate below has a time")
    bare = next((name for name, arity in arities.items() if arity == 0), None)
    if bare is not None:
        using = (c for c in core.uses if any(part.predicate == bare for part in c.timed))
        reason = f"{core.predicates[bare].base} has no arguments to split on"
        return PartitionKey(None, reason, next(using, None))
    for clause in core.uses:
        if not clause.head.temporal and clause.timed:
            reason = f"{clause.head.predicate} gathers facts of all keys"
            return PartitionKey(None, reason, clause)
    return common_key([Together(c.timed, c) for c in core.uses if not c.is_fact], arities)


# Per predicate, the positions at which its key may stand.
_Domains: TypeAlias = dict[str, frozenset[int]]


def common_key(groups: Iterable[Together], arities: Mapping[str, int]) -> PartitionKey:
    """Positions such that the parts of each group have one term there.

    Depth first over positions, narrowing the others by every group that mentions one chosen.
    """
    touching: dict[str, list[Together]] = {}
    for group in groups:
        if len(group.parts) > 1:
            for part in group.parts:
                touching.setdefault(part.predicate, []).append(group)
    domains = {name: frozenset(range(arity)) for name, arity in arities.items()}
    order = [name for name, arity in arities.items() if arity]
    failed = _narrow(domains, list(domains), touching)
    stack = [domains] if failed is None else []
    while stack:
        domains = stack.pop()
        undecided = next((n for n in order if len(domains[n]) > 1), None)
        if undecided is None:
            return PartitionKey({name: min(domains[name]) for name in order})
        for position in sorted(domains[undecided], reverse=True):
            attempt = {**domains, undecided: frozenset((position,))}
            failed = _narrow(attempt, [undecided], touching) or failed
            if all(attempt[name] for name in order):
                stack.append(attempt)
    if failed is None:
        return PartitionKey(None, "no choice of positions fits all rules")
    return PartitionKey(None, _why_not(failed), failed.clause)


def _narrow(
    domains: _Domains, changed: list[str], touching: Mapping[str, list[Together]]
) -> Together | None:
    """Drop the positions that no choice of the others goes with; a group left without any."""
    while changed:
        for group in touching.get(changed.pop(), ()):
            for name, positions in _supported(group, domains).items():
                if positions != domains[name]:
                    domains[name] = positions
                    changed.append(name)
                if not positions:
                    return group
    return None


def _supported(group: Together, domains: _Domains) -> _Domains:
    """Positions that some term occupies in every part at once."""
    allowed: dict[str, set[int]] = {part.predicate: set() for part in group.parts}
    for term in dict.fromkeys(group.parts[0].args):
        spots: dict[str, set[int]] = {}
        for part in group.parts:
            here = {i for i in domains[part.predicate] if part.args[i] == term}
            known = spots.get(part.predicate)
            spots[part.predicate] = here if known is None else known & here
        if all(spots.values()):
            for name, here in spots.items():
                allowed[name] |= here
    return {name: frozenset(here) for name, here in allowed.items()}


def _why_not(group: Together) -> str:
    first, *others = group.parts
    shared: set[Term] = set(first.args)
    for part in others:
        shared &= set(part.args)
    if not shared:
        names = ", ".join(dict.fromkeys(part.predicate for part in group.parts))
        return f"a rule shares no argument between {names}"
    terms = sorted(t.name for t in shared if isinstance(t, Variable))
    return f"the rules disagree on where {' or '.join(terms) or 'the key'} stands"
