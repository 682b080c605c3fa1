"""Absence as an input of its own, for questions about rules alone.

A negated premise `not N(X, _) @ T+o` becomes a positive one, over an input that has a row for each
X with no N(X, _) at that time. What follows whatever rows that input has follows from its real
ones, so that everything shown of the positive program holds for the given one. Nothing may be
concluded from a row that is *not* there: frozen facts are not all the facts. In the same way the
predicate of an aggregate is an input, which may have any rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tidelog.analysis.canonical import FrozenFact, PartialFact
from tidelog.analysis.dependencies import Dependencies
from tidelog.language.program import Constant
from tidelog.logic.clause import Clause, Premise, Sign
from tidelog.logic.core import Core, Predicate, Role, key, rules_of
from tidelog.logic.order import Object
from tidelog.logic.windows import takes_many_clauses


@dataclass(frozen=True)
class Absence:
    """What an input of absent rows is about: a predicate, and the arguments that are not `_`."""

    predicate: str
    arity: int
    named: tuple[int, ...]

    @property
    def name(self) -> str:
        """
        >>> Absence("Temp", 2, (0, 1)).name, Absence("Temp", 2, (0,)).name
        ('not Temp', 'not Temp[1]')
        """
        places = ",".join(str(i + 1) for i in self.named)
        return key(
            Role.ABSENT, self.predicate, "" if len(self.named) == self.arity else f"[{places}]"
        )

    def pattern(self, row: FrozenFact) -> PartialFact:
        """The facts that a row of the input says are absent."""
        values: dict[int, Object] = dict(zip(self.named, row.args, strict=True))
        args = tuple(values.get(i) for i in range(self.arity))
        return PartialFact(self.predicate, args, row.time)

    @staticmethod
    def of(premise: Premise, clause: Clause) -> Absence:
        """What a premise of a clause is about; a variable that nothing else binds is `_`."""
        named = (
            i
            for i, term in enumerate(premise.args)
            if isinstance(term, Constant) or term.name in clause.bound
        )
        return Absence(premise.predicate, len(premise.args), tuple(named))


@dataclass(frozen=True)
class Opaque:
    """Dependencies, and the positive program in which absence is input."""

    given: Dependencies

    @cached_property
    def absences(self) -> dict[str, Absence]:
        """What the inputs of absent rows are about, by their names."""
        rules = rules_of(self.given.core)
        about = (Absence.of(p, clause) for clause in rules for p in clause.negative)
        return {absence.name: absence for absence in about}

    @cached_property
    def aggregates(self) -> dict[str, Predicate]:
        """Aggregates as inputs, by their names: their values may be any."""
        core = self.given.core
        return {n: replace(core.predicates[n], role=Role.ABSENT, base=n) for n in core.aggregates}

    @cached_property
    def positive(self) -> Dependencies:
        """The same rules without `not` and aggregates; the same object where there is none."""
        core = self.given.core
        if not self.absences and not self.aggregates:
            return self.given
        made = {name: _input(absence, core) for name, absence in self.absences.items()}
        predicates = {**core.predicates, **made, **self.aggregates}
        opaque = core.rewritten(map(self.clause, rules_of(core)), predicates)
        return Dependencies(self.given.queries, opaque)

    def clause(self, clause: Clause) -> Clause:
        """A clause without `not`."""
        if not clause.negative:
            return clause
        return replace(clause, premises=tuple(_opaque(p, clause) for p in clause.premises))


def _input(absence: Absence, core: Core) -> Predicate:
    predicate = core.predicates[absence.predicate]
    types = tuple(predicate.types[i] for i in absence.named)
    return Predicate(absence.name, predicate.temporal, types, Role.ABSENT, absence.name)


def _opaque(premise: Premise, clause: Clause) -> Premise:
    if premise.sign is Sign.POSITIVE:
        return premise
    absence = Absence.of(premise, clause)
    args = tuple(premise.args[i] for i in absence.named)
    return replace(premise, predicate=absence.name, args=args, sign=Sign.POSITIVE)


def counts_as_inputs(deps: Dependencies) -> tuple[Core, tuple[str, ...]]:
    """The core with very long counts as inputs, and what is then asked for.

    What follows from it does whatever they are. Where one is on a cycle it is the core as it is.
    """
    core = deps.core
    long = {n: w for n, w in core.windows.items() if takes_many_clauses(w.over)}
    if not long or not long.keys().isdisjoint(deps.recursive):
        return core, deps.queries
    own = (core.predicates[name] for name in long)
    inputs = {p.name: replace(p, role=Role.INPUT, base=p.name) for p in own}
    counted = [window.of.predicate for window in long.values()]
    asked = [*deps.queries, *(name for name in counted if not core.predicates[name].input)]
    around = core.rewritten(predicates={**core.predicates, **inputs})
    return around, tuple(dict.fromkeys(asked))


def shown_args(named: Sequence[str], absence: Absence) -> list[str]:
    """Arguments with `_` where it was.

    >>> shown_args(["x"], Absence("Temp", 2, (0,)))
    ['x', '_']
    """
    values = iter(named)
    return [next(values) if i in absence.named else "_" for i in range(absence.arity)]
