"""Clauses in the form the timeline needs: each has one time variable; strata of such clauses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import assert_never

from tidelog.language.graph import components
from tidelog.logic.clause import (
    AggregateOf,
    Clause,
    FixedTick,
    Free,
    Head,
    Offset,
    Premise,
    Rigid,
    Sign,
    When,
)


def separated(clauses: Iterable[Clause]) -> list[Clause]:
    """Every time variable that the head does not have is projected away by a clause of its own.

    Only a head without a time may keep one. A negated premise goes with its time variable.
    """
    return [part for number, clause in enumerate(clauses) for part in _parts(clause, number)]


def _parts(clause: Clause, number: int) -> Iterator[Clause]:
    groups: dict[str, list[Premise]] = {}
    rest: list[Premise] = []
    for premise in clause.premises:
        match premise.when:
            case Free(variable, _):
                groups.setdefault(variable, []).append(premise)
            case Offset() | FixedTick() | Rigid():
                rest.append(premise)
            case _:
                assert_never(premise.when)
    if not groups or (len(groups) == 1 and not clause.head.temporal):
        yield clause
        return
    for variable, premises in groups.items():
        others = [*rest, *(p for other, some in groups.items() if other != variable for p in some)]
        elsewhere = chain(
            clause.head.variables,
            *(p.variables for p in others),
            *(test.variables for test in clause.tests),
        )
        wanted = {v.name for v in elsewhere}
        values = list(_values(premises, clause, f"{number}:{variable}"))
        yield from values
        premises = [*premises, *(Premise(c.head.predicate, c.head.args) for c in values)]
        own = dict.fromkeys(v for p in premises for v in p.variables)
        head = Head(f"[{number}:{variable}]", tuple(v for v in own if v.name in wanted))
        yield Clause(head, tuple(premises))
        rest.append(Premise(head.predicate, head.args))
    yield replace(clause, premises=tuple(rest))


def _values(premises: Iterable[Premise], clause: Clause, label: str) -> Iterator[Clause]:
    """The values that a clause can give to variables of negated premises, where the positive ones
    among some premises give none: one clause without a time for each premise that does.
    """
    bound = {v for p in premises if p.sign is Sign.POSITIVE for v in p.variables}
    missing = {v for p in premises if p.sign is Sign.NEGATIVE for v in p.variables} - bound
    for i, premise in enumerate(clause.positive):
        given = tuple(v for v in dict.fromkeys(premise.variables) if v in missing)
        if given:
            missing.difference_update(given)
            when = Free("T", 0) if isinstance(premise.when, Offset | Free) else premise.when
            yield Clause(Head(f"[{label}:{i}]", given), (replace(premise, when=when),))


def mirrored(clauses: Iterable[Clause]) -> list[Clause]:
    """The same clauses on a line that runs the other way."""
    return [
        replace(c, premises=tuple(replace(p, when=_mirrored(p.when)) for p in c.premises))
        for c in clauses
    ]


def _mirrored(when: When) -> When:
    match when:
        case Offset(ticks):
            return Offset(-ticks)
        case Free(variable, ticks):
            return Free(variable, -ticks)
        case FixedTick() | Rigid():
            return when
        case _:
            assert_never(when)


def width(clauses: Iterable[Clause], aggregates: Iterable[AggregateOf] = ()) -> int:
    """How many ticks lie at most between the first and the last time of a separated clause, or of
    an aggregate."""
    return max([1, *map(_span, clauses), *(aggregate.ticks - 1 for aggregate in aggregates)])


def _span(clause: Clause) -> int:
    times = [clause.head.when, *(p.when for p in clause.premises)]
    ticks = [when.ticks for when in times if isinstance(when, Offset | Free)]
    return max(ticks) - min(ticks) if ticks else 0


@dataclass(frozen=True)
class Stratum:
    """Clauses that are closed together, what they negate or aggregate being known before.

    Only with `through_not` some of their heads depend on the absence of others, or on aggregates of
    others, strictly earlier. An aggregate is a stratum of its own otherwise.
    """

    clauses: tuple[Clause, ...]
    aggregates: Mapping[str, AggregateOf]
    through_not: bool

    @property
    def heads(self) -> frozenset[str]:
        return frozenset((*(c.head.predicate for c in self.clauses), *self.aggregates))

    @property
    def lower(self) -> frozenset[str]:
        """The predicates that are known before."""
        used = [p.predicate for c in self.clauses for p in c.premises]
        used += [aggregate.of.predicate for aggregate in self.aggregates.values()]
        return frozenset(used) - self.heads

    @property
    def width(self) -> int:
        """How many ticks its clauses and aggregates reach."""
        return width(self.clauses, self.aggregates.values())


def strata(clauses: Sequence[Clause], aggregates: Mapping[str, AggregateOf]) -> list[Stratum]:
    """The clauses in layers, the lowest first; an aggregate is one of its own, and so is a
    component with a cycle through `not` or an aggregate.

    Without these there is one.
    """
    uses: dict[str, list[Premise]] = {name: [of.of] for name, of in aggregates.items()}
    for clause in clauses:
        uses.setdefault(clause.head.predicate, []).extend(clause.premises)
    names = {name: [p.predicate for p in premises] for name, premises in uses.items()}
    layer: dict[str, int] = {}
    alone: set[str] = set()
    through_not: set[str] = set()
    layers: dict[tuple[int, str], list[str]] = {}
    for component in components(uses, names):
        if component[0] not in uses:
            continue
        used = [premise for name in component for premise in uses[name]]
        below = {p.predicate for p in used if p.predicate in layer}
        known = {premise.predicate for premise in used if premise.sign is Sign.NEGATIVE}
        known.update(aggregates[n].of.predicate for n in component if n in aggregates)
        if not known.isdisjoint(component):
            through_not.update(component)
        own = not known.isdisjoint(component) or any(name in aggregates for name in component)
        if own:
            alone.update(component)
        number = max((layer[b] + (own or b in known | alone) for b in below), default=0)
        layer.update(dict.fromkeys(component, number))
        layers.setdefault((number, component[0] if own else ""), []).extend(component)
    return [
        Stratum(
            tuple(c for c in clauses if c.head.predicate in own),
            {name: aggregates[name] for name in own if name in aggregates},
            not through_not.isdisjoint(own),
        )
        for _, own in sorted(layers.items())
    ]
