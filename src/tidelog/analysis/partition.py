"""Partition keys: an argument position per predicate on which all work can be split.

Every rule must find one term at the key position of its head and of all its temporal body atoms.
Rigid predicates are sent to every partition and need no key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidelog.analysis.core import Core
from tidelog.language.program import Atom, Rule, Term, Variable


@dataclass(frozen=True)
class PartitionKey:
    """Positions (from 0) of temporal predicates; or none, with the reason and the rule."""

    positions: dict[str, int] | None
    reason: str = ""
    rule: Rule | None = None


def partition_key(core: Core, queries: Iterable[str]) -> PartitionKey:
    """A key for all temporal predicates of the core, where one exists.

    >>> from tidelog.analysis.core import core
    >>> from tidelog.language.checks import check
    >>> program = check("P(X, Y) @ T :- E(Y) @ T, F(X, Y) @ T+1.").program
    >>> partition_key(core(program), ["P"]).positions
    {'E': 0, 'F': 1, 'P': 1}
    """
    temporal = {n: len(p.types) for n, p in core.predicates.items() if p.temporal}
    if not temporal:
        return PartitionKey(None, "no predicate below has a time")
    bare = next((name for name, arity in temporal.items() if arity == 0), None)
    if bare is not None:
        rule = next((r for r in core.rules if bare in _temporal_names(r)), None)
        return PartitionKey(None, f"{bare} has no arguments to split on", rule)
    for rule in core.rules:
        if rule.head.time is None and any(a.time is not None for a in rule.atoms):
            return PartitionKey(None, f"{rule.head.predicate} gathers facts of all keys", rule)
    return _search(core.rules, temporal)


def _search(rules: tuple[Rule, ...], temporal: dict[str, int]) -> PartitionKey:
    """Depth first over positions, narrowing the others by every rule that mentions one chosen."""
    touching: dict[str, list[Rule]] = {}
    for rule in rules:
        if rule.body:
            for name in _temporal_names(rule):
                touching.setdefault(name, []).append(rule)
    failed: Rule | None = None

    def narrow(domains: dict[str, frozenset[int]], changed: list[str]) -> Rule | None:
        while changed:
            for rule in touching.get(changed.pop(), ()):
                allowed = _supported(rule, domains)
                for name, positions in allowed.items():
                    if positions != domains[name]:
                        domains[name] = positions
                        changed.append(name)
                    if not positions:
                        return rule
        return None

    domains = {name: frozenset(range(arity)) for name, arity in temporal.items()}
    failed = narrow(domains, list(domains))
    if failed is None:
        order = list(domains)
        stack = [domains]
        while stack:
            domains = stack.pop()
            open_ = next((n for n in order if len(domains[n]) > 1), None)
            if open_ is None:
                return PartitionKey({name: min(domains[name]) for name in order})
            for position in sorted(domains[open_], reverse=True):
                attempt = {**domains, open_: frozenset((position,))}
                failed = narrow(attempt, [open_]) or failed
                if all(attempt.values()):
                    stack.append(attempt)
    return PartitionKey(None, _why_not(failed), failed)


def _supported(rule: Rule, domains: dict[str, frozenset[int]]) -> dict[str, frozenset[int]]:
    """Positions that some term of the rule occupies in every temporal atom at once."""
    atoms = _temporal_atoms(rule)
    allowed: dict[str, set[int]] = {atom.predicate: set() for atom in atoms}
    for term in dict.fromkeys(rule.head.args):
        spots: dict[str, set[int]] = {}
        for atom in atoms:
            here = {i for i in domains[atom.predicate] if atom.args[i] == term}
            known = spots.get(atom.predicate)
            spots[atom.predicate] = here if known is None else known & here
        if all(spots.values()):
            for name, here in spots.items():
                allowed[name] |= here
    return {name: frozenset(here) for name, here in allowed.items()}


def _why_not(rule: Rule | None) -> str:
    if rule is None:
        return "no choice of positions fits all rules"
    shared: set[Term] = set(rule.head.args)
    for atom in _temporal_atoms(rule):
        shared &= set(atom.args)
    if not shared:
        names = ", ".join(dict.fromkeys(_temporal_names(rule)))
        return f"a rule shares no argument between {names}"
    terms = sorted(t.name for t in shared if isinstance(t, Variable))
    return f"the rules disagree on where {' or '.join(terms) or 'the key'} stands"


def _temporal_atoms(rule: Rule) -> list[Atom]:
    return [atom for atom in (rule.head, *rule.atoms) if atom.time is not None]


def _temporal_names(rule: Rule) -> list[str]:
    return [atom.predicate for atom in _temporal_atoms(rule)]
