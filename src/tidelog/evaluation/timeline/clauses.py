"""Clauses in the form the timeline needs: each has one time variable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import assert_never

from tidelog.logic.clause import Clause, FixedTick, Free, Head, Offset, Premise, Rigid, When


def separated(clauses: Iterable[Clause]) -> list[Clause]:
    """Every time variable that the head does not have is projected away by a clause of its own.

    Only a head without a time may keep one.
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
        own = dict.fromkeys(v for p in premises for v in p.variables)
        head = Head(f"[{number}:{variable}]", tuple(v for v in own if v.name in wanted))
        yield Clause(head, tuple(premises))
        rest.append(Premise(head.predicate, head.args))
    yield replace(clause, premises=tuple(rest))


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


def span(clause: Clause) -> int:
    """How many ticks lie between the first and the last time of a separated clause."""
    times = [clause.head.when, *(p.when for p in clause.premises)]
    ticks = [when.ticks for when in times if isinstance(when, Offset | Free)]
    return max(ticks) - min(ticks) if ticks else 0
