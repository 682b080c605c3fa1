"""Redundancy: clauses and premises that change no answer are left out before anything runs.

Every predicate keeps its meaning, not only the queries: what is left out changes nothing, whether
a predicate is asked for or its absence is. Absence counts as an input of its own (see `opaque`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import assert_never

from tidelog.analysis.canonical import Exhausted
from tidelog.analysis.containment import Budget, Searcher
from tidelog.analysis.dependencies import Class, Dependencies, dependencies
from tidelog.analysis.opaque import Absence
from tidelog.analysis.unfolding import Cut
from tidelog.language.program import Atom, Literal, Rule
from tidelog.logic.clause import Clause, Premise, Sign
from tidelog.logic.core import Core, rules_for, rules_of
from tidelog.logic.windows import write_out


@dataclass(frozen=True)
class Redundant:
    """A rule that says nothing new, or an atom of it, as they are written."""

    rule: Rule
    atom: Literal | None = None


def reduced(core: Core, queries: Iterable[str], budget: Budget) -> tuple[Core, list[Redundant]]:
    """The core without redundant clauses and premises, and the rules and atoms that are redundant.

    A clause goes when the others derive its head from its body; a premise when the program derives
    the head from the rest of the body, or from the rest and the opposite of the premise. A rule
    with an aggregate may have several clauses: it is redundant only if each of them is. Windows are
    looked into, and stay what they are.
    """
    queries = tuple(queries)
    current = write_out(core).below(queries)
    deps = dependencies(current, queries)
    if deps.cls is Class.BLOCKING:
        return core.below(queries), []
    looked_into = current.predicates.keys() - {c.head.predicate for c in rules_of(core)}
    place = {n: i for i, c in enumerate(deps.components) for n in c}
    below = _inputs_below(deps)
    implied = _Implied()
    findings = _Findings(current, implied)
    try:
        # What others are built on first: with less below, there is less to look through above.
        there = set(map(id, rules_of(current)))
        for clause in sorted(rules_of(current), key=lambda c: place[c.head.predicate]):
            if clause.is_fact or clause.made or id(clause) not in there:
                continue
            budget.spend()
            rivals = rules_for(current, clause.head.predicate)
            others = _replaced(current, clause, None) if len(rivals) > 1 else None
            if others is not None and implied.holds(current, others, clause, budget):
                findings.dropped(clause)
                # Without it, what it was the last to derive never holds, nor what needs that.
                current = others.below(queries)
                there = set(map(id, rules_of(current)))
            else:
                current = _shortened(current, clause, below, budget, findings, implied)
    except Exhausted:
        pass
    if core.windows:
        left = (c for c in rules_of(current) if c.head.predicate not in looked_into)
        current = core.rewritten(left)
    return current.below(queries), findings.redundant(budget)


class _Findings:
    """The clauses and premises that are redundant, by the rules that they come from."""

    def __init__(self, core: Core, implied: _Implied) -> None:
        self._core = core
        self._implied = implied
        self._clauses: dict[int, list[Clause]] = {}
        self._dropped: dict[int, Clause] = {}
        self._premises: dict[int, list[Premise]] = {}
        for clause in rules_of(core):
            if clause.written is not None:
                self._clauses.setdefault(id(clause.written), []).append(clause)

    def dropped(self, clause: Clause) -> None:
        """Note that a clause is redundant."""
        self._dropped[id(clause)] = clause

    def shortened(self, clause: Clause, premise: Premise) -> None:
        """Note that a clause holds without a premise."""
        self._premises.setdefault(id(clause), []).append(premise)

    def redundant(self, budget: Budget) -> list[Redundant]:
        """The rules and atoms that may go from the program."""
        found: list[Redundant] = []
        for clauses in self._clauses.values():
            rule = clauses[0].shown
            if all(id(clause) in self._dropped for clause in clauses):
                found.append(Redundant(rule))
                continue
            left = [clause for clause in clauses if id(clause) not in self._dropped]
            premises = self._premises.get(id(left[0]), ())
            atoms = [left[0].literal(premise) for premise in premises]
            found += (
                Redundant(rule, atom)
                for atom in atoms
                if _same_groups(rule, atom) and all(self._goes(c, atom, budget) for c in clauses)
            )
        return found

    def _goes(self, clause: Clause, atom: Literal, budget: Budget) -> bool:
        """Whether a clause says nothing more without an atom of its rule."""
        if id(clause) not in self._dropped:
            gone = self._premises.get(id(clause), ())
            return any(clause.literal(premise) is atom for premise in gone)
        premise = next(p for p in clause.premises if clause.literal(p) is atom)
        shorter = clause.without(premise)
        return shorter.safe and self._implied.holds(self._core, self._core, shorter, budget)


def _same_groups(rule: Rule, atom: Literal) -> bool:
    """Whether the aggregates of a rule have the same groups without one of its atoms."""
    left = {v.name for other in rule.positive if other is not atom for v in other.variables}
    gone = {v.name for v in atom.variables} - left if isinstance(atom, Atom) else set()
    return not any(gone & {v.name for v in each.atom.variables} for each in rule.aggregated)


def _shortened(
    core: Core,
    clause: Clause,
    below: dict[str, frozenset[str]],
    budget: Budget,
    findings: _Findings,
    implied: _Implied,
) -> Core:
    """The core with a clause that has lost its redundant premises, which are noted."""
    now = clause
    for premise in clause.premises:
        shorter = now.without(premise)
        if not shorter.safe:
            continue
        opposite = _opposite(core, premise, now)
        tried = [shorter] if _worth_trying(below, premise, shorter) else []
        tried += [] if opposite is None else [_with(shorter, opposite)]
        if any(implied.holds(core, core, one, budget) for one in tried):
            findings.shortened(clause, premise)
            core = _replaced(core, now, shorter)
            now = shorter
    return core


def _worth_trying(below: dict[str, frozenset[str]], premise: Premise, shorter: Clause) -> bool:
    """An input can only follow from other premises that rest on it."""
    others = frozenset[str]().union(*(below[p.predicate] for p in shorter.premises))
    name = premise.predicate
    return below[name] != {name} or name in others


def _opposite(core: Core, premise: Premise, clause: Clause) -> Premise | None:
    """What holds if a premise of a clause does not, where another clause for the head asks for it.

    So a premise goes from the one of two clauses that only differ in its sign.
    """
    rivals = [c for c in rules_for(core, clause.head.predicate) if c is not clause]
    match premise.sign:
        case Sign.NEGATIVE:
            opposite = replace(premise, sign=Sign.POSITIVE)
            asked = any(p.predicate == premise.predicate for r in rivals for p in r.positive)
            return opposite if asked else None
        case Sign.POSITIVE:
            opposite = replace(premise, sign=Sign.NEGATIVE)
            absence = Absence.of(opposite, clause.without(premise))
            unnamed = [t for i, t in enumerate(premise.args) if i not in absence.named]
            # `not A(_, _)` says more than that A(Y, Y) holds for no Y.
            if len(set(unnamed)) < len(unnamed):
                return None
            asked = any(Absence.of(p, r) == absence for r in rivals for p in r.negative)
            return opposite if asked else None
        case _:
            assert_never(premise.sign)


def _with(clause: Clause, premise: Premise) -> Clause:
    return replace(clause, premises=(*clause.premises, premise))


def _inputs_below(deps: Dependencies) -> dict[str, frozenset[str]]:
    """The inputs that each predicate rests on."""
    inputs: dict[str, frozenset[str]] = {}
    for component in deps.components:
        clauses = [c for name in component for c in deps.core.uses_for[name]]
        uses = {p.predicate for c in clauses for p in c.premises if p.predicate not in component}
        below = frozenset[str]().union(*(inputs[name] for name in uses))
        for name in component:
            inputs[name] = below | {name} if deps.core.predicates[name].input else below
    return inputs


class _Implied:
    """Whether programs derive clauses; what searches one program against another is made once."""

    def __init__(self) -> None:
        self._searchers: dict[tuple[int, int], Searcher] = {}

    def holds(self, source: Core, target: Core, clause: Clause, budget: Budget) -> bool:
        """Whether a program derives a clause's head from its body, open atoms being facts."""
        name = clause.head.predicate
        try:
            searcher = self._searcher(source, target, clause)
            left = searcher.source
            if left.negated:
                budget.spend(len(left.core.uses) // 4)  # they are rewritten without `not` first
            start = searcher.unfolder.start_clause(clause)
            if start is None:
                return True  # its comparisons contradict each other
            if left.recursive:
                # Unfolding may not end: only what follows at once counts.
                derived, _ = searcher.derived(start, name, Cut())
                return derived and searcher.timeless
            return searcher.search(start, name, Cut(), budget.share(0.1)).holds is True
        except Exhausted:
            return False

    def _searcher(self, source: Core, target: Core, clause: Clause) -> Searcher:
        """The searcher below what a clause speaks of."""
        wanted = (clause.head.predicate, *(p.predicate for p in clause.premises))
        left, right = source.below(wanted), target.below(wanted)
        key = id(left), id(right)  # searchers keep them alive
        if key not in self._searchers:
            one = Dependencies(wanted, left)
            other = one if right is left else Dependencies(wanted, right)
            self._searchers[key] = Searcher(one, other, same=True, tries=1)
        return self._searchers[key]


def _replaced(core: Core, clause: Clause, by: Clause | None) -> Core:
    changed = (by if c is clause else c for c in rules_of(core))
    return core.rewritten(c for c in changed if c is not None)
