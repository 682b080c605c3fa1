"""Proofs: which rule gave a fact from which premises, down to input facts.

The size of a proof is the number of facts in its tree, a fact counted as often as it is used. Sizes
of smallest proofs come bottom-up as shortest paths do (Knuth 1977), over the matches that can be
part of a proof of the goal; further proofs in order of size come from a best-first search guided by
them. No fact is used in its own proof, and each is proved in one way throughout a proof.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import TypeAlias

from tidelog.analysis.containment import Ground
from tidelog.evaluation.demand import Model
from tidelog.language.program import NOWHERE, Comparison, Constant, Rule, Value

# Matches of one rule for one fact, and in all, that are looked at: usually all there are; where
# they are too many, few of each; and if that does not prove the goal, as many as it takes.
TRIES = ((1_000, 200_000), (2, 500_000), (20, 2_000_000), (10**9, 10**12))
# Steps that may be spent on further proofs.
MOST_STEPS = 100_000


@dataclass(frozen=True)
class Match:
    """One way in which a rule gives a fact: its premises in the rule's order, and its values."""

    rule: Rule
    premises: tuple[Ground, ...]
    binding: tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class Step:
    """A fact, the rule that gives it (None: an input fact) and where its premises are proved.

    A derived fact that was `kept` when what it rests on was forgotten has no rule either.
    """

    fact: Ground
    rule: Rule | None
    premises: tuple[int, ...] = ()
    comparisons: tuple[tuple[Comparison, Value, Value], ...] = ()
    kept: bool = False


@dataclass(frozen=True)
class Proof:
    """Steps, the proved fact first and each before its premises; a fact that is used twice is there
    once.
    """

    steps: tuple[Step, ...]
    size: int

    @property
    def facts(self) -> tuple[Ground, ...]:
        """The input facts it rests on."""
        return tuple(step.fact for step in self.steps if step.rule is None)


class Matches:
    """The matches that can be part of proofs of some facts, and the smallest way to each fact."""

    def __init__(self, model: Model, goals: Iterable[Ground]) -> None:
        self.model = model
        self.complete = True  # whether every match was looked at, so that sizes are least
        goals = list(goals)
        for most, in_all in TRIES:
            self._explore(goals, most, in_all)
            self._measure()
            if self.complete or all(goal in self.least for goal in goals):
                break

    def _explore(self, goals: Iterable[Ground], most: int, in_all: int) -> None:
        """Every match that can be part of a proof, those near the goals first; so many in all."""
        core = self.model.deps.core
        self.matches: dict[Ground, list[Match]] = {}
        self.complete = True
        todo = deque(goals)
        while todo:
            fact = todo.popleft()
            if fact in self.matches:
                continue
            found = self.matches[fact] = []
            if in_all <= 0:
                self.complete = self.complete and core.predicates[fact.predicate].input
                continue
            for rule in core.rules_for.get(fact.predicate, ()):
                here = 0
                for binding, premises in islice(self.model.matches(rule, fact), most):
                    here += 1
                    values = tuple(sorted(binding.items()))
                    found.append(Match(rule, premises, values))
                    todo += (p for p in premises if p not in self.matches)
                in_all -= here
                self.complete = self.complete and here < most

    def _measure(self) -> None:
        """The least size of a proof of each fact, and the first match that gives it."""
        core = self.model.deps.core
        self.least: dict[Ground, int] = {}
        self.best: dict[Ground, Match] = {}
        waiting: dict[Ground, list[tuple[Ground, Match, set[Ground]]]] = {}
        heap: list[tuple[int, int, Ground, Match | None]] = []
        order = count()
        for fact, matches in self.matches.items():
            if core.predicates[fact.predicate].input:
                heapq.heappush(heap, (1, next(order), fact, None))
            for match in matches:
                missing = set(match.premises)
                if not missing:
                    heapq.heappush(heap, (1, next(order), fact, match))
                for one in missing:
                    waiting.setdefault(one, []).append((fact, match, missing))
        while heap:
            size, _, fact, chosen = heapq.heappop(heap)
            if fact in self.least:
                continue
            self.least[fact] = size
            if chosen is not None:
                self.best[fact] = chosen
            for head, match, missing in waiting.pop(fact, ()):
                missing.discard(fact)
                if not missing and head not in self.least:
                    total = self._own(match) + sum(self.least[p] for p in match.premises)
                    heapq.heappush(heap, (total, next(order), head, match))

    def _own(self, match: Match) -> int:
        """What a step adds to the size: nothing where it merely names an input by its own name."""
        return 0 if is_copy(match.rule) else 1


class Proofs(Matches):
    """The proofs of one fact that holds in a model."""

    def __init__(self, model: Model, goal: Ground) -> None:
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
        seen: set[frozenset[tuple[Ground, Match]]] = set()
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
            if fact not in self.matches or not self.matches[fact]:
                following = (least, -next(order), size + 1, tuple(rest), chosen)
                heapq.heappush(heap, following)
                continue
            # The best one last: among equals it is popped first, and the search goes straight down.
            options = [chosen[fact]] if fact in chosen else self.matches[fact]
            options = sorted(options, key=lambda m: m is self.best.get(fact))
            for match in options:
                if any(p == fact or _among(p, above) for p in match.premises):
                    continue
                if any(p not in self.least for p in match.premises):
                    continue
                own = self._own(match)
                total = own + sum(self.least[p] for p in match.premises)
                estimate = least - self.least[fact] + total
                goals = (*((p, (fact, above)) for p in match.premises), *rest)
                now = chosen if fact in chosen else {**chosen, fact: match}
                heapq.heappush(heap, (estimate, -next(order), size + own, goals, now))

    def smallest(self) -> Proof | None:
        """A smallest proof, if the fact holds."""
        if self.goal not in self.least:
            return None
        chosen: dict[Ground, Match] = {}
        todo = [self.goal]
        while todo:
            fact = todo.pop()
            if fact in self.best and fact not in chosen:
                chosen[fact] = self.best[fact]
                todo += self.best[fact].premises
        return self._proof(chosen, self.least[self.goal])

    def _proof(self, chosen: dict[Ground, Match], size: int) -> Proof:
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
            match = chosen.get(fact)
            if match is None or is_copy(match.rule):
                steps.append(Step(self._named(fact), None, kept=self._kept(fact)))
                continue
            rule = self.model.written(match.rule)
            premises = tuple(order[p] for p in match.premises)
            values = sides(match.rule, rule, dict(match.binding))
            steps.append(Step(self._named(fact), rule, premises, tuple(values)))
        return Proof(tuple(steps), size)

    def _below(self, fact: Ground, chosen: dict[Ground, Match]) -> tuple[Ground, ...]:
        match = chosen.get(fact)
        return () if match is None or is_copy(match.rule) else match.premises

    def _kept(self, fact: Ground) -> bool:
        """Whether an input was declared by no one: it stands for what a rule once derived."""
        program = self.model.deps.core.program
        name = self._named(fact).predicate
        return name in program.heads and program.declarations[name].origin is NOWHERE

    def _named(self, fact: Ground) -> Ground:
        return named(self.model, fact)


_Above: TypeAlias = "tuple[Ground, _Above] | None"
_State: TypeAlias = tuple[int, int, int, tuple[tuple[Ground, _Above], ...], dict[Ground, Match]]


def _among(fact: Ground, above: _Above) -> bool:
    while above is not None:
        if above[0] == fact:
            return True
        above = above[1]
    return False


def is_copy(rule: Rule) -> bool:
    """Whether a rule only gives an input its own name, and was not written by anyone."""
    return len(rule.atoms) == 1 and rule.atoms[0].predicate == f"{rule.head.predicate}[in]"


def named(model: Model, fact: Ground) -> Ground:
    """The fact under the name its predicate has in the rules."""
    return Ground(model.deps.core.predicates[fact.predicate].source, fact.args, fact.time)


def sides(
    rule: Rule, written: Rule, binding: Mapping[str, Value]
) -> Iterator[tuple[Comparison, Value, Value]]:
    """The comparisons of a rule as they were written, with the values on their two sides."""
    for comparison, shown in zip(rule.comparisons, written.comparisons, strict=True):
        left, right = (
            t.value if isinstance(t, Constant) else binding[t.name]
            for t in (comparison.left, comparison.right)
        )
        yield shown, left, right
