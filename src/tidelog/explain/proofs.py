"""Proofs: which rule gave a fact from which premises, down to input facts.

The size of a proof is the number of facts in its tree, a fact counted as often as it is used. Sizes
of smallest proofs come bottom-up as shortest paths do (Knuth 1977), over the derivations that can
be part of a proof of the goal; further proofs in order of size come from a best-first search guided
by them. No fact is used in its own proof, and each is proved in one way throughout a proof.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from typing import TypeAlias, assert_never

from tidelog.analysis.containment import Ground
from tidelog.evaluation.goal_directed.model import (
    Absence,
    Derivation,
    FactModel,
    Stretch,
    named,
)
from tidelog.language.program import NOWHERE, Comparison, Rule, Value
from tidelog.logic.clause import AggregateOf, Clause, WindowOf
from tidelog.logic.core import Core, External, Role, RuleSet, clause_of_a_tick

# Derivations of one fact by one rule, and in all, that are looked at: usually all there are; where
# they are too many, few of each; and if that does not prove the goal, as many as it takes.
TRIES = ((1_000, 200_000), (2, 500_000), (20, 2_000_000), (10**9, 10**12))
# Other ways to have enough ticks of a very long window that are looked at.
MOST_SWAPPED = 1_000
# Steps that may be spent on further proofs.
MOST_STEPS = 100_000


@dataclass(frozen=True)
class ProofStep:
    """A fact, the rule that gives it (None: an input fact) and where its premises are proved.

    The fact of a window has no rule either: its premises are the facts that are counted. So it is
    with what an aggregate comes to.

    What is absent needs no proof here: that it does not hold can be asked about. A derived fact
    that was `kept` when what it rests on was forgotten has no rule either.
    """

    fact: Ground
    rule: Rule | None
    premises: tuple[int, ...] = ()
    comparisons: tuple[tuple[Comparison, Value, Value], ...] = ()
    kept: bool = False
    absent: tuple[Absence, ...] = ()


@dataclass(frozen=True)
class Proof:
    """Steps, the proved fact first and each before its premises; a fact that is used twice is there
    once.
    """

    steps: tuple[ProofStep, ...]
    size: int

    @property
    def facts(self) -> tuple[Ground, ...]:
        """The input facts it rests on."""
        bare = (step.fact for step in self.steps if step.rule is None)
        return tuple(fact for fact in bare if not isinstance(fact, Stretch))


class Derivations:
    """The derivations that can be part of proofs of some facts, and the smallest for each fact."""

    def __init__(self, model: FactModel, goals: Iterable[Ground]) -> None:
        self.model = model
        self.complete = True  # whether all derivations were looked at, so that sizes are least
        goals = list(goals)
        for most, in_all in TRIES:
            self._explore(goals, most, in_all)
            self._measure()
            if self.complete or all(goal in self.least for goal in goals):
                break

    def _explore(self, goals: Iterable[Ground], most: int, in_all: int) -> None:
        """What can be part of a proof, that near the goals first; so many derivations in all."""
        core = self.model.core
        self.derivations: dict[Ground, list[Derivation]] = {}
        self.counted: dict[Ground, list[Ground]] = {}  # of windows
        self.complete = True
        todo = deque(goals)
        while todo:
            fact = todo.popleft()
            if fact in self.derivations:
                continue
            ways = self.derivations[fact] = []
            if in_all <= 0:
                self.complete = self.complete and core.predicates[fact.predicate].input
                continue
            definition = core.definitions[fact.predicate]
            match definition:
                case WindowOf():
                    counted = list(self.model.counted(fact))
                    self.counted[fact] = counted
                    todo += (one for one in counted if one not in self.derivations)
                    in_all -= len(counted)
                case AggregateOf():
                    measured = tuple(self.model.measured(fact))
                    clause = clause_of_a_tick(fact.predicate, definition)
                    ways.append(Derivation(clause, measured, ()))
                    todo += (one for one in measured if one not in self.derivations)
                    in_all -= 1
                case RuleSet(clauses):
                    for clause in clauses:
                        some = list(islice(self.model.derivations(clause, fact), most))
                        ways += some
                        used = (p for way in some for p in way.premises)
                        todo += (p for p in used if p not in self.derivations)
                        in_all -= len(some)
                        self.complete = self.complete and len(some) < most
                case External():
                    pass
                case _:
                    assert_never(definition)

    def _measure(self) -> None:
        """The least size of a proof of each fact, and the first derivation that gives it."""
        core = self.model.core
        self.least: dict[Ground, int] = {}
        self.best: dict[Ground, Derivation] = {}
        waiting: dict[Ground, list[tuple[Ground, Derivation, set[Ground]]]] = {}
        heap: list[tuple[int, int, Ground, Derivation | None]] = []
        order = count()
        for fact, ways in self.derivations.items():
            if core.predicates[fact.predicate].input:
                heapq.heappush(heap, (1, next(order), fact, None))
            for way in ways:
                missing = set(way.premises)
                if not missing:
                    heapq.heappush(heap, (self._own(way), next(order), fact, way))
                for one in missing:
                    waiting.setdefault(one, []).append((fact, way, missing))
        windows = _Windows(self)
        while heap:
            size, _, fact, chosen = heapq.heappop(heap)
            if fact in self.least:
                continue
            self.least[fact] = size
            if chosen is not None:
                self.best[fact] = chosen
            for window, way in windows.counting(fact):
                total = sum(self.least[p] for p in way.premises)
                heapq.heappush(heap, (total, next(order), window, way))
            for head, way, missing in waiting.pop(fact, ()):
                missing.discard(fact)
                if not missing and head not in self.least:
                    total = self._own(way) + sum(self.least[p] for p in way.premises)
                    heapq.heappush(heap, (total, next(order), head, way))
        self.derivations |= windows.ways()

    def _own(self, way: Derivation) -> int:
        """What a step adds to the size: nothing where it merely names an input by its own name."""
        return 0 if way.clause.copies_input or way.clause.made else 1


class _Windows:
    """The windows that are not written out, while facts are proved from the smallest proof up."""

    def __init__(self, known: Derivations) -> None:
        self.known = known
        self._counting: dict[Ground, list[Ground]] = {}  # by fact, the windows that count it
        self._ticks: dict[Ground, dict[int | None, Ground]] = {}  # a fact a tick, smallest first
        for window, facts in known.counted.items():
            for fact in facts:
                self._counting.setdefault(fact, []).append(window)

    def counting(self, fact: Ground) -> Iterator[tuple[Ground, Derivation]]:
        """A fact is proved: the windows of which that is the last one that it takes."""
        for window in self._counting.get(fact, ()):
            ticks = self._ticks.setdefault(window, {})
            if fact.time not in ticks:
                ticks[fact.time] = fact
                if len(ticks) == self._least(window):
                    yield window, self._way(window, ticks.values())

    def ways(self) -> dict[Ground, list[Derivation]]:
        """By window, the smallest way to have enough ticks, and those with one tick for another."""
        ways: dict[Ground, list[Derivation]] = {}
        for window, ticks in self._ticks.items():
            if window in self.known.best:
                facts, least = list(ticks.values()), self._least(window)
                others = (
                    self._way(window, [*facts[:i], *facts[i + 1 : least], more])
                    for more in facts[least:]
                    for i in reversed(range(least))
                )
                ways[window] = [self.known.best[window], *islice(others, MOST_SWAPPED)]
        return ways

    def _least(self, window: Ground) -> int:
        return self.known.model.core.windows[window.predicate].at_least

    def _way(self, window: Ground, facts: Iterable[Ground]) -> Derivation:
        definition = self.known.model.core.windows[window.predicate]
        clause = clause_of_a_tick(window.predicate, definition)
        return Derivation(clause, tuple(facts), ())


class Proofs(Derivations):
    """The proofs of one fact that holds in a model."""

    def __init__(self, model: FactModel, goal: Ground) -> None:
        self.goal = goal
        self.exhausted = True  # whether the search for further proofs came to its end
        super().__init__(model, [goal])

    def __iter__(self) -> Iterator[Proof]:
        """Proofs by size, the smallest first, as far as a bounded search goes."""
        if self.goal not in self.least:
            return
        order = count()
        # Size so far and at least; facts still to prove, each with those above it; what is chosen.
        start: _State = (self.least[self.goal], 0, 0, ((self.goal, None),), {})
        heap = [start]
        seen: set[frozenset[tuple[Ground, Derivation]]] = set()
        for steps in count():
            if not heap:
                return
            if steps > MOST_STEPS:
                self.exhausted = False
                return
            least, _, size, todo, chosen = heapq.heappop(heap)
            if not todo:
                key = frozenset(chosen.items())
                if key not in seen:
                    seen.add(key)
                    yield self._proof(chosen, size)
                continue
            (fact, above), *rest = todo
            if fact not in self.derivations or not self.derivations[fact]:
                following = (least, -next(order), size + 1, tuple(rest), chosen)
                heapq.heappush(heap, following)
                continue
            # The best one last: among equals it is popped first, and the search goes straight down.
            options = [chosen[fact]] if fact in chosen else self.derivations[fact]
            options = sorted(options, key=lambda m: m is self.best.get(fact))
            for way in options:
                if any(p == fact or _among(p, above) for p in way.premises):
                    continue
                if any(p not in self.least for p in way.premises):
                    continue
                own = self._own(way)
                total = own + sum(self.least[p] for p in way.premises)
                estimate = least - self.least[fact] + total
                goals = (*((p, (fact, above)) for p in way.premises), *rest)
                now = chosen if fact in chosen else {**chosen, fact: way}
                heapq.heappush(heap, (estimate, -next(order), size + own, goals, now))

    def smallest(self) -> Proof | None:
        """A smallest proof, if the fact holds."""
        if self.goal not in self.least:
            return None
        chosen: dict[Ground, Derivation] = {}
        todo = [self.goal]
        while todo:
            fact = todo.pop()
            if fact in self.best and fact not in chosen:
                chosen[fact] = self.best[fact]
                todo += self.best[fact].premises
        return self._proof(chosen, self.least[self.goal])

    def _proof(self, chosen: dict[Ground, Derivation], size: int) -> Proof:
        """The steps in the order in which a tree shows them; copies of inputs are the inputs."""
        order: dict[Ground, int] = {}
        todo = [self.goal]
        while todo:
            fact = todo.pop()
            if fact not in order:
                order[fact] = len(order)
                todo += reversed(self._below(fact, chosen))
        steps = []
        for fact in order:
            way = way_of(self.model.core, fact, chosen)
            name = named(self.model.core, fact)
            premises = tuple(order[p] for p in self._below(fact, chosen))
            if way is None:
                kept = not premises and self._kept(fact)
                steps.append(ProofStep(name, None, premises, kept=kept))
                continue
            rule = way.clause.shown
            steps.append(ProofStep(name, rule, premises, sides(rule, way), absent=way.absent))
        return Proof(tuple(steps), size)

    def _below(self, fact: Ground, chosen: dict[Ground, Derivation]) -> tuple[Ground, ...]:
        return below(self.model.core, fact, chosen)

    def _kept(self, fact: Ground) -> bool:
        """Whether an input was declared by no one: it stands for what a rule once derived."""
        program = self.model.core.program
        name = named(self.model.core, fact).predicate
        return name in program.heads and program.declarations[name].origin is NOWHERE


_Above: TypeAlias = "tuple[Ground, _Above] | None"
_State: TypeAlias = tuple[
    int, int, int, tuple[tuple[Ground, _Above], ...], dict[Ground, Derivation]
]


def _among(fact: Ground, above: _Above) -> bool:
    while above is not None:
        if above[0] == fact:
            return True
        above = above[1]
    return False


def way_of(core: Core, fact: Ground, chosen: Mapping[Ground, Derivation]) -> Derivation | None:
    """How a rule of the user's gives a fact; None for an input, a window and an aggregate."""
    way = chosen.get(fact)
    if way is None or way.clause.copies_input:
        return None
    if not way.clause.made:
        return _without_totals(core, way, chosen)
    if core.predicates[fact.predicate].role in (Role.WINDOW, Role.GATHERED):
        return None
    # A head that lasts holds because it began.
    (begun,) = counted(core, way.premises, chosen)
    return way_of(core, begun, chosen)


def _without_totals(core: Core, way: Derivation, chosen: Mapping[Ground, Derivation]) -> Derivation:
    """The way with what totals come from in place of them: an aggregate, or its absence."""
    totals = [p for p in way.premises if core.predicates[p.predicate].role is Role.TOTAL]
    if not totals or any(total not in chosen for total in totals):
        return way
    premises = (chosen[p].premises if p in totals else (p,) for p in way.premises)
    absent = (absence for total in totals for absence in chosen[total].absent)
    return replace(way, premises=tuple(chain(*premises)), absent=(*way.absent, *absent))


def below(core: Core, fact: Ground, chosen: Mapping[Ground, Derivation]) -> tuple[Ground, ...]:
    """The facts that a fact is shown to rest on."""
    way = way_of(core, fact, chosen)
    if way is not None:
        return way.premises
    role = core.predicates[fact.predicate].role
    if role is Role.GATHERED:
        return chosen[fact].premises
    if role is not Role.WINDOW:
        return ()
    facts = counted(core, chosen[fact].premises, chosen)
    return tuple(sorted(facts, key=lambda f: -(f.time or 0)))


def counted(
    core: Core, facts: Iterable[Ground], chosen: Mapping[Ground, Derivation]
) -> tuple[Ground, ...]:
    """Some facts, with what is counted in place of those of windows."""
    leaves: dict[Ground, None] = {}
    todo = list(facts)
    while todo:
        fact = todo.pop()
        if core.predicates[fact.predicate].role is Role.WINDOW:
            todo += chosen[fact].premises
        else:
            leaves[fact] = None
    return tuple(leaves)


def sides(written: Rule, way: Derivation) -> tuple[tuple[Comparison, Value, Value], ...]:
    """The comparisons of a rule as they were written, with the values on their two sides."""
    compared = zip(as_written(written, way.clause), way.compared, strict=True)
    return tuple((comparison, left, right) for comparison, (left, right) in compared)


def as_written(written: Rule, clause: Clause) -> tuple[Comparison, ...]:
    """The tests of a clause as the rule has them; what an aggregate is compared with stays."""
    if not written.aggregated:
        return written.comparisons
    by_place = {comparison.origin: comparison for comparison in written.comparisons}
    return tuple(by_place.get(test.origin, test) for test in clause.tests)
