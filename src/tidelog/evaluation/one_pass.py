"""What is done in one pass, as data: which scans and rules become one, and which scans share one.

Scans that rules only unite become one scan with several selections (`united`). Scans of one input
that keep the same columns are packed by one grouping, with the bits of each on their own
(`scan_groups`). Every engine packs by these descriptions. Rules that only ask where one table holds
at several ticks become one rule (`folded`), where one process does all steps.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from tidelog.data.packed import meets_in_one_grouping
from tidelog.evaluation.plan import (
    Derive,
    Fixpoint,
    Gather,
    Join,
    Operand,
    Plan,
    PlanStep,
    Scan,
    only_meets,
    shifts_of_one_table,
    uses,
)
from tidelog.language.program import Variable
from tidelog.logic.clause import Offset


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


def folded(plan: Plan) -> Plan:
    """The plan without predicates that say where one table holds at several ticks, and that a rule
    of the same kind alone looks at: that rule looks at the table itself.
    """
    asked = {plan.tables[query] for query in plan.deps.queries if query in plan.tables}
    may_go: dict[str, Join] = {}
    gone: set[str] = set()
    steps: list[PlanStep] = []
    for step in plan.steps:
        if isinstance(step, Derive):
            step = replace(step, joins=tuple(_folded(join, may_go, gone) for join in step.joins))
            alone = step.over is None and len(step.joins) == 1 and only_meets(step.joins[0])
            if alone and step.table not in asked and uses(plan, step.table) == 1:
                may_go[step.table] = step.joins[0]
        steps.append(step)
    if not gone:
        return plan
    left = (step for step in steps if not (isinstance(step, Derive) and step.table in gone))
    tables = {name: table for name, table in plan.tables.items() if table not in gone}
    return replace(plan, steps=tuple(left), tables=tables)


def _folded(join: Join, may_go: Mapping[str, Join], gone: set[str]) -> Join:
    """A join that looks at the table of predicates that may go, if that leaves it one table."""
    new = {operand.table for operand in join.operands} & may_go.keys()
    if not new:
        return join
    operands: list[Operand] = []
    for operand in join.operands:
        when, below = operand.premise.when, may_go.get(operand.table)
        if below is None:
            operands.append(operand)
        elif isinstance(when, Offset):
            operands += _moved(below, operand, when.ticks)
        else:
            return join
    clause = replace(join.clause, premises=(*(o.premise for o in operands), *join.clause.negative))
    whole = replace(join, clause=replace(clause, written=None), operands=tuple(operands))
    if not meets_in_one_grouping(shifts_of_one_table(whole)):
        return join
    gone |= new
    return whole


def _moved(below: Join, use: Operand, by: int) -> list[Operand]:
    """The operands of the join of a predicate, as they are where it is used, so many ticks off."""
    values = dict(zip(below.clause.head.args, use.args, strict=True))
    moved: list[Operand] = []
    for operand in below.operands:
        own = operand.premise.offset or 0
        args = tuple(values.get(term, term) for term in operand.premise.args)
        premise = replace(operand.premise, args=args, when=Offset(by + own))
        moved.append(Operand(operand.table, tuple(values[t] for t in operand.args), premise))
    return moved


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
