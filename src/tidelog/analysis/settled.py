"""Rules with aggregates as rules without: what an aggregate comes to is one more input.

At T it is final once everything up to T + phi has arrived, as far as the rules alone tell. So its
facts come at that tick, and the rest of the rules looks for them there. Before it an aggregate may
come to anything: what is final for the rest of the rules, whatever that input brings, is final.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import assert_never

from tidelog.analysis.dependencies import Dependencies, dependencies
from tidelog.language.program import Variable
from tidelog.logic.clause import (
    AT_HEAD,
    RIGID,
    Clause,
    FixedTick,
    Free,
    Head,
    Offset,
    Premise,
    Rigid,
    Sign,
)
from tidelog.logic.core import Core, Operation, Predicate, Role, rules_of


@dataclass(frozen=True)
class Settled:
    """Dependencies, and the same rules in two parts: up to aggregates, and from them on.

    >>> from tidelog.logic.core import rules_for
    >>> from tidelog.logic.normalise import core
    >>> from tidelog.language.checks import check
    >>> rules = "input E(v: int) @ t. P(S) @ T :- E(_) @ T, S = sum(V : E(V) @ [T-1, T+2])."
    >>> settled = Settled(dependencies(core(check(rules).program), ["P"]))
    >>> settled.waits
    {'E(sum of 4 ticks: V1)': 0}
    >>> [premise.offset for premise in rules_for(settled.rest.core, "P")[0].premises]
    [0, 2]
    """

    given: Dependencies

    @cached_property
    def rest(self) -> Dependencies:
        """The rules from aggregates on, which are inputs here."""
        core = self.given.core
        made = {
            p.name: replace(p, role=Role.INPUT, base=p.name) if p.role is Role.GATHERED else p
            for p in core.predicates.values()
        }
        return dependencies(
            core.rewritten(map(self._later, rules_of(core)), made), self.given.queries
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The aggregates that the rest of the rules looks at."""
        roles = self.given.core.predicates
        return tuple(p.name for p in self.rest.core.inputs if roles[p.name].role is Role.GATHERED)

    @cached_property
    def below(self) -> Dependencies:
        """The rules up to aggregates, which are what is asked for here."""
        return dependencies(self.given.core, self.names)

    @cached_property
    def waits(self) -> dict[str, int]:
        """How many ticks after its own each aggregate with a time is final."""
        return {n: self._wait(n) for n in self.names if self.given.core.predicates[n].temporal}

    def _wait(self, name: str) -> int:
        wait = max(0, self.given.phi[name])
        assert wait < math.inf, "rules that do not block settle"
        return int(wait)

    @property
    def splits(self) -> bool:
        """Whether every aggregate is final so many ticks after its own, whatever the facts.

        It is not where fixed ticks lie below it, or where it has no time and what it gathers rests
        on facts that have one. One in a cycle of rules has no rules up to it and from it on.
        """
        if self.given.cycles_through_aggregates:
            return False
        core = self.below.core
        timeless = [n for n in self.names if not core.predicates[n].temporal]
        timed = any(p.temporal for p in core.below(timeless).predicates.values())
        return not self.below.pinned and not timed

    def with_aggregates(self, core: Core, future: str) -> Core:
        """A core of the rest, in which aggregates are made of the facts that have arrived.

        `future` holds at the ticks that have not; up to there what is certain is what holds.
        """
        below = self.below.core
        made = {c.head.predicate for c in rules_of(core)}
        predicates = {**below.predicates, **core.predicates}
        names: dict[str, str] = {}  # of what is there before it comes
        coming: list[Clause] = []
        for name in self.names:
            own = self.given.core.predicates[name]
            settled = own.made(Role.STEP, "settled")
            names[name] = settled.name
            coming.append(self._comes(settled, own, future))
            predicates |= {settled.name: settled, name: replace(own, role=Role.DERIVED)}
        more = (c for c in rules_of(below) if c.head.predicate not in made)
        rules = (*rules_of(core), *(_renamed(clause, names) for clause in more), *coming)
        operations: dict[str, Operation] = {
            names.get(name, name): replace(of, of=_renamed_premise(of.of, names))
            for name, of in below.operations.items()
            if name not in made
        }
        return Core.of(core.program, predicates, rules, {**operations, **core.operations})

    def _comes(self, settled: Predicate, own: Predicate, future: str) -> Clause:
        """An aggregate comes when it is final."""
        args = tuple(Variable(f"_#{i}") for i in range(len(own.types)))
        if not own.temporal:
            return Clause(Head(own.name, args, RIGID), (Premise(settled.name, args, RIGID),))
        here = Premise(settled.name, args, Offset(-self._wait(own.name)))
        arrived = Premise(future, (), AT_HEAD, Sign.NEGATIVE)
        return Clause(Head(own.name, args, AT_HEAD), (here, arrived), made=True)

    def _later(self, clause: Clause) -> Clause:
        premises = tuple(map(self._awaited, clause.premises))
        return replace(clause, premises=premises)

    def _awaited(self, premise: Premise) -> Premise:
        """A premise that looks for an aggregate when it is final."""
        if self.given.core.predicates[premise.predicate].role is not Role.GATHERED:
            return premise
        match premise.when:
            case Offset(ticks):
                return replace(premise, when=Offset(ticks + self._wait(premise.predicate)))
            case FixedTick(tick):
                return replace(premise, when=FixedTick(tick + self._wait(premise.predicate)))
            case Rigid():
                return premise
            case Free():
                raise AssertionError("rules that are not connected block")
            case _:
                assert_never(premise.when)


def _renamed(clause: Clause, names: Mapping[str, str]) -> Clause:
    """The clause with other names for some of the predicates in its body."""
    premises = tuple(_renamed_premise(premise, names) for premise in clause.premises)
    return replace(clause, premises=premises)


def _renamed_premise(premise: Premise, names: Mapping[str, str]) -> Premise:
    return replace(premise, predicate=names.get(premise.predicate, premise.predicate))
