"""What is selected from an input, as data: which scans become one, and which share one pass.

Scans that rules only unite become one scan with several selections (`united`). Scans of one input
that keep the same columns are packed by one grouping, with the bits of each on their own
(`scan_groups`). Every engine packs by these descriptions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from tidelog.evaluation.plan import (
    Derive,
    Fixpoint,
    Gather,
    Join,
    Plan,
    PlanStep,
    Scan,
    uses,
)
from tidelog.language.program import Variable


@dataclass(frozen=True)
class ScanGroup:
    """Temporal scans of one input that keep the same columns: one grouping packs them all."""

    scans: tuple[Scan, ...]

    @property
    def table(self) -> str:
        """The table of the grouping: the columns kept, c, and b0, b1.. with the bits of each."""
        return f"{self.scans[0].name}_pass"

    def bits(self, scan: Scan) -> str:
        """The column with the bits of a scan."""
        return f"b{self.scans.index(scan)}"


def scan_groups(steps: Iterable[PlanStep]) -> dict[str, ScanGroup]:
    """By the names of scans, those that share a pass over their input with others."""
    together: dict[Hashable, list[Scan]] = {}
    for step in steps:
        if isinstance(step, Scan) and step.predicate.temporal:
            together.setdefault((step.predicate.name, step.columns), []).append(step)
    groups = (ScanGroup(tuple(scans)) for scans in together.values() if len(scans) > 1)
    return {scan.name: group for group in groups for scan in group.scans}


def united(plan: Plan) -> Plan:
    """The plan with one scan in place of several that the rules of a predicate only unite."""
    scans = {step.name: step for step in plan.steps if isinstance(step, Scan)}
    alone = {name for name, scan in scans.items() if scan.predicate.temporal}
    alone = {name for name in alone if uses(plan, name, rounds=1) == 1}
    into: dict[str, str] = {}  # a scan that goes, and the one that takes its rows
    steps: list[PlanStep] = []
    for step in plan.steps:
        match step:
            case Derive():
                steps.append(replace(step, joins=_united(step.joins, scans, alone, into)))
            case Fixpoint():
                steps.append(replace(step, start=_united(step.start, scans, alone, into)))
            case Scan() | Gather():
                steps.append(step)
            case _:
                assert_never(step)
    return replace(plan, steps=tuple(_with_selections(steps, scans, into))) if into else plan


def _united(
    joins: tuple[Join, ...], scans: Mapping[str, Scan], alone: set[str], into: dict[str, str]
) -> tuple[Join, ...]:
    """The joins less those that only unite what another one's scan can take."""
    first: dict[Hashable, int] = {}
    kept: list[Join] = []
    for join in joins:
        way = _way(join, scans, alone)
        if way is None:
            kept.append(join)
        elif way not in first:
            first[way] = len(kept)
            kept.append(join)
        else:
            other = kept[first[way]]
            into[join.operands[0].table] = other.operands[0].table
            kept[first[way]] = replace(other, also=(*other.also, join.clause))
    return tuple(kept)


def _way(join: Join, scans: Mapping[str, Scan], alone: set[str]) -> Hashable | None:
    """How a clause takes over the facts of a scan that nothing else looks at; None if it does more.

    Clauses of the same way, over whatever selections, derive the union.
    """
    if len(join.operands) != 1 or join.absent or join.tests:
        return None
    (operand,) = join.operands
    if operand.table not in alone:
        return None
    place = {term: i for i, term in enumerate(operand.args) if isinstance(term, Variable)}
    head = join.clause.head
    values = tuple(place[t] if isinstance(t, Variable) else t for t in head.args)
    scan = scans[operand.table]
    when = operand.premise.when
    return (scan.predicate.name, scan.columns, when, head.predicate, values, head.when)


def _with_selections(
    steps: Iterable[PlanStep], scans: Mapping[str, Scan], into: Mapping[str, str]
) -> Iterable[PlanStep]:
    for step in steps:
        if not isinstance(step, Scan):
            yield step
        elif step.name not in into:
            more = (
                s for name, to in into.items() if to == step.name for s in scans[name].selections
            )
            yield replace(step, others=tuple(more))
