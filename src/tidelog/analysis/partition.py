"""Partition keys: an argument position per predicate on which all work can be split.

Every rule must find one term at the key position of its head and of all its temporal body atoms.
Rigid predicates are sent to every partition and need no key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidelog.language.program import Atom, Rule, Term, Variable
from tidelog.logic.normalise import Core


@dataclass(frozen=True)
class PartitionKey:
    """Positions (from 0) of temporal predicates; or none, with the reason and the rule."""

    positions: dict[str, int] | None
    reason: str = ""
    rule: Rule | None = None


@dataclass(frozen=True)
class Together:
    """Atoms of a rule that must lie in the same partition."""

    atoms: tuple[Atom, ...]
    rule: Rule


def partition_key(core: Core, queries: Iterable[str]) -> PartitionKey:
    """A key for all temporal predicates of the core, where one exists.

    >>> from tidelog.logic.normalise import core
    >>> from tidelog.language.checks import check
    >>> program = check("P(X, Y) @ T :- E(Y) @ T, F(X, Y) @ T+1.").program
    >>> partition_key(core(program), ["P"]).positions
    {'E': 0, 'F': 1, 'P': 1}
    """
    arities = {n: len(p.types) for n, p in core.predicates.items() if p.temporal}
    if not arities:
        return PartitionKey(None, "no predicate below has a time")
    bare = next((name for name, arity in arities.items() if arity == 0), None)
    if bare is not None:
        names = {rule: [a.predicate for a in temporal_atoms(rule)] for rule in core.rules}
        rule = next((r for r in core.rules if bare in names[r]), None)
        return PartitionKey(None, f"{bare} has no arguments to split on", rule)
    for rule in core.rules:
        if rule.head.time is None and any(a.time is not None for a in rule.atoms):
            return PartitionKey(None, f"{rule.head.predicate} gathers facts of all keys", rule)
    return common_key([Together(temporal_atoms(r), r) for r in core.rules if r.body], arities)


def common_key(groups: Iterable[Together], arities: Mapping[str, int]) -> PartitionKey:
    """Positions such that the atoms of each group have one term there.

    Depth first over positions, narrowing the others by every group that mentions one chosen.
    """
    touching: dict[str, list[Together]] = {}
    for group in groups:
        if len(group.atoms) > 1:
            for atom in group.atoms:
                touching.setdefault(atom.predicate, []).append(group)
    failed: Together | None = None

    def narrow(domains: dict[str, frozenset[int]], changed: list[str]) -> Together | None:
        while changed:
            for group in touching.get(changed.pop(), ()):
                allowed = _supported(group, domains)
                for name, positions in allowed.items():
                    if positions != domains[name]:
                        domains[name] = positions
                        changed.append(name)
                    if not positions:
                        return group
        return None

    domains = {name: frozenset(range(arity)) for name, arity in arities.items()}
    order = [name for name, arity in arities.items() if arity]
    failed = narrow(domains, list(domains))
    if failed is None:
        stack = [domains]
        while stack:
            domains = stack.pop()
            open_ = next((n for n in order if len(domains[n]) > 1), None)
            if open_ is None:
                return PartitionKey({name: min(domains[name]) for name in order})
            for position in sorted(domains[open_], reverse=True):
                attempt = {**domains, open_: frozenset((position,))}
                failed = narrow(attempt, [open_]) or failed
                if all(attempt[name] for name in order):
                    stack.append(attempt)
    if failed is None:
        return PartitionKey(None, "no choice of positions fits all rules")
    return PartitionKey(None, _why_not(failed), failed.rule)


def _supported(group: Together, domains: dict[str, frozenset[int]]) -> dict[str, frozenset[int]]:
    """Positions that some term occupies in every atom at once."""
    allowed: dict[str, set[int]] = {atom.predicate: set() for atom in group.atoms}
    for term in dict.fromkeys(group.atoms[0].args):
        spots: dict[str, set[int]] = {}
        for atom in group.atoms:
            here = {i for i in domains[atom.predicate] if atom.args[i] == term}
            known = spots.get(atom.predicate)
            spots[atom.predicate] = here if known is None else known & here
        if all(spots.values()):
            for name, here in spots.items():
                allowed[name] |= here
    return {name: frozenset(here) for name, here in allowed.items()}


def _why_not(group: Together) -> str:
    first, *others = group.atoms
    shared: set[Term] = set(first.args)
    for atom in others:
        shared &= set(atom.args)
    if not shared:
        names = ", ".join(dict.fromkeys(atom.predicate for atom in group.atoms))
        return f"a rule shares no argument between {names}"
    terms = sorted(t.name for t in shared if isinstance(t, Variable))
    return f"the rules disagree on where {' or '.join(terms) or 'the key'} stands"


def temporal_atoms(rule: Rule) -> tuple[Atom, ...]:
    """The head and the body atoms that have a time."""
    return tuple(atom for atom in (rule.head, *rule.atoms) if atom.time is not None)
