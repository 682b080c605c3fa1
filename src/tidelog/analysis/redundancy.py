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
from tidelog.language.program import Literal, Rule
from tidelog.logic.clause import Clause, Premise, Sign
from tidelog.logic.core import Core


@dataclass(frozen=True)
class Redundant:
    """A rule that says nothing new, or an atom of it, as they are written."""

    rule: Rule
    atom: Literal | None = None


def reduced(core: Core, queries: Iterable[str], budget: Budget) -> tuple[Core, list[Redundant]]:
    """The core without redundant clauses and premises, and what was left out.

    A clause goes when the others derive its head from its body; a premise when the program derives
    the head from the rest of the body, or from the rest and the opposite of the premise.
    """
    queries = tuple(queries)
    left_out: list[Redundant] = []
    current = core.below(queries)
    deps = dependencies(current, queries)
    if deps.cls is Class.BLOCKING:
        return current, left_out
    place = {n: i for i, c in enumerate(deps.components) for n in c}
    below = _inputs_below(deps)
    try:
        # What others are built on first: with less below, there is less to look through above.
        there = set(map(id, current.clauses))
        for clause in sorted(current.clauses, key=lambda c: place[c.head.predicate]):
            if clause.is_fact or clause.made or id(clause) not in there:
                continue
            budget.spend()
            rivals = current.clauses_for[clause.head.predicate]
            without = _replaced(current, clause, None)
            if len(rivals) > 1 and _implied(current, without, clause, budget):
                left_out.append(Redundant(clause.shown))
                # Without it, what it was the last to derive never holds, nor what needs that.
                current = without.below(queries)
                there = set(map(id, current.clauses))
            else:
                current = _shortened(current, clause, below, budget, left_out)
    except Exhausted:
        pass
    return current.below(queries), left_out


def _shortened(
    core: Core,
    clause: Clause,
    below: dict[str, frozenset[str]],
    budget: Budget,
    left_out: list[Redundant],
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
        if any(_implied(core, core, one, budget) for one in tried):
            left_out.append(Redundant(clause.shown, clause.literal(premise)))
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
    rivals = [c for c in core.clauses_for[clause.head.predicate] if c is not clause]
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
        case Sign.GATHERED:
            return None
        case _:
            assert_never(premise.sign)


def _with(clause: Clause, premise: Premise) -> Clause:
    return replace(clause, premises=(*clause.premises, premise))


def _inputs_below(deps: Dependencies) -> dict[str, frozenset[str]]:
    """The inputs that each predicate rests on."""
    inputs: dict[str, frozenset[str]] = {}
    for component in deps.components:
        clauses = [c for name in component for c in deps.core.clauses_for.get(name, ())]
        uses = {p.predicate for c in clauses for p in c.premises if p.predicate not in component}
        below = frozenset[str]().union(*(inputs[name] for name in uses))
        for name in component:
            inputs[name] = below | {name} if deps.core.predicates[name].input else below
    return inputs


def _implied(source: Core, target: Core, clause: Clause, budget: Budget) -> bool:
    """Whether a program derives a clause's head from its body, open atoms counting as facts."""
    name = clause.head.predicate
    wanted = [name, *(p.predicate for p in clause.premises)]
    try:
        left, right = dependencies(source, wanted), dependencies(target, wanted)
        if left.negated:
            budget.spend(len(left.core.clauses) // 4)  # they are rewritten without `not` first
        searcher = Searcher(left, right, same=True, tries=1)
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


def _replaced(core: Core, clause: Clause, by: Clause | None) -> Core:
    changed = (by if c is clause else c for c in core.clauses)
    return replace(core, clauses=tuple(c for c in changed if c is not None))
