"""Counts that are only asked to be so high, as windows over the counts of each tick.

`count(Pay(C, _) @ [T, T+9]) >= 3` is certain as soon as three facts are there. Looked at as a whole
a count is final once its window has arrived. So it is taken apart: the count of a tick is final as
soon as the tick is, and that a stretch has three facts follows from its halves: three in one, or
two in one and one in the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tidelog.analysis.dependencies import Dependencies, dependencies
from tidelog.language.program import Comparison, Constant, Measure, Operator, Variable
from tidelog.logic.clause import (
    AT_HEAD,
    AggregateOf,
    Clause,
    Head,
    LastTicks,
    Offset,
    Premise,
    Sign,
)
from tidelog.logic.core import Operation, Predicate, Role, rules_of
from tidelog.logic.gathering import Aggregates, aggregate_pattern, threshold

# Clauses that a count may be taken apart into.
MOST_CLAUSES = 100


def counted(deps: Dependencies) -> Dependencies:
    """The dependencies with counts taken apart that look ahead and are asked for so many facts.

    >>> from tidelog.logic.core import rules_for
    >>> from tidelog.logic.normalise import core
    >>> from tidelog.language.checks import check
    >>> rules = "input E(x: int) @ t. P @ T :- E(_) @ T, count(E(_) @ [T, T+1]) >= 3."
    >>> made = counted(dependencies(core(check(rules).program), ["P"])).core
    >>> [clause.premises[-1].predicate for clause in rules_for(made, "P")]
    ['E[3 facts of 2 ticks: _1]']
    """
    counts = _Counts(deps)
    rules = [counts.clause(clause) for clause in rules_of(deps.core)]
    if not counts.clauses:
        return deps
    operations: dict[str, Operation] = {**deps.core.windows, **counts.of_a_tick.aggregates}
    made = deps.core.rewritten((*rules, *counts.clauses), counts.predicates, operations)
    return dependencies(made, deps.queries)


class _Counts:
    """The stretches with so many facts, and the counts of a tick, each made once."""

    def __init__(self, deps: Dependencies) -> None:
        self.deps = deps
        self.predicates = dict(deps.core.predicates)
        self.of_a_tick = Aggregates(self.predicates, deps.core.aggregates)
        self.clauses: list[Clause] = []

    def clause(self, clause: Clause) -> Clause:
        """A clause that asks for stretches with so many facts in place of counts."""
        for number, premise in enumerate(clause.premises):
            count, test = self._count(premise), _only_test(clause, premise)
            if count is None or test is None:
                continue
            least, sign = threshold(test, premise.args[-1])
            if count.ticks == 1 or least < 1 or sign is not Sign.POSITIVE:
                continue
            if _clauses(count.ticks, least) > MOST_CLAUSES:
                continue
            stretch = self._stretch(count, least)
            asked = replace(premise, predicate=stretch.name, args=premise.args[:-1])
            premises = (*clause.premises[:number], asked, *clause.premises[number + 1 :])
            rest = tuple(other for other in clause.tests if other is not test)
            clause = replace(clause, premises=premises, tests=rest)
        return clause

    def _count(self, premise: Premise) -> AggregateOf | None:
        """The count that a premise asks for, if it lies ahead and is not on a cycle."""
        if premise.sign is not Sign.POSITIVE or premise.predicate in self.deps.recursive:
            return None
        aggregate = self.deps.core.aggregates.get(premise.predicate)
        if aggregate is None or aggregate.measure is not Measure.COUNT:
            return None
        return aggregate if (premise.offset or 0) > 0 else None

    def _stretch(self, count: AggregateOf, least: int) -> Predicate:
        """The predicate of stretches that have so many facts, with its clauses."""
        below = self.predicates[count.of.predicate]
        types = dict(zip(count.of.args, below.types, strict=True))
        label = f"{least} facts of {count.ticks} ticks: {aggregate_pattern(count)}"
        groups = count.groups
        stretch = below.made(Role.STEP, label, tuple(types[v] for v in groups))
        if stretch.name not in self.predicates:
            self.predicates[stretch.name] = stretch
            made = Clause(Head(stretch.name, groups, AT_HEAD), made=True, part_of=count)
            if count.ticks == 1:
                self.clauses.append(self._at_a_tick(made, count, least))
            for parts in _halves(count.ticks, least) if count.ticks > 1 else ():
                premises = tuple(
                    Premise(self._part(count, ticks, facts).name, groups, Offset(-before))
                    for ticks, facts, before in parts
                )
                self.clauses.append(replace(made, premises=premises))
        return stretch

    def _part(self, count: AggregateOf, ticks: int, least: int) -> Predicate:
        return self._stretch(replace(count, extent=LastTicks(ticks)), least)

    def _at_a_tick(self, made: Clause, count: AggregateOf, least: int) -> Clause:
        name = self.of_a_tick.predicate(count).name
        facts = Variable("_#facts")
        test = Comparison(facts, Operator.GE, Constant.of(least))
        asked = Premise(name, (*count.groups, facts), AT_HEAD)
        return replace(made, premises=(asked,), tests=(test,))


def _only_test(clause: Clause, premise: Premise) -> Comparison | None:
    """The test of what an aggregate comes to, if nothing else looks at that."""
    value = premise.args[-1] if premise.args else None
    tests = [test for test in clause.tests if value in (test.left, test.right)]
    alone = isinstance(value, Variable) and clause.terms.count(value) == 2
    return tests[0] if alone and len(tests) == 1 else None


def _halves(ticks: int, least: int) -> Iterator[tuple[tuple[int, int, int], ...]]:
    """The ways to have so many facts in two parts: of each its ticks, facts, and how far back."""
    half = 1 << (ticks - 1).bit_length() - 1
    for now in range(least + 1):
        both = ((half, now, 0), (ticks - half, least - now, half))
        yield tuple(part for part in both if part[1])


def _clauses(ticks: int, least: int) -> int:
    """How many clauses a stretch takes.

    >>> _clauses(10, 3), _clauses(60, 3), _clauses(60, 8)
    (39, 75, 360)
    """
    seen, todo = {ticks}, [ticks]
    while todo:
        longer = todo.pop()
        if longer > 1:
            half = 1 << (longer - 1).bit_length() - 1
            todo += {half, longer - half} - seen
            seen |= {half, longer - half}
    return (len(seen) - 1) * least * (least + 3) // 2 + least


__all__ = ["counted"]
