"""Plans as text, for `explain`."""

from __future__ import annotations

import re
from itertools import islice
from typing import assert_never

from tidelog.analysis.dependencies import Class, Dependencies
from tidelog.analysis.passes import passes
from tidelog.analysis.unfolding import Unfolder
from tidelog.evaluation.carrying import can_carry
from tidelog.evaluation.one_pass import folded, united
from tidelog.evaluation.plan import (
    Derive,
    Fill,
    Fixpoint,
    Gather,
    Join,
    Plan,
    Scan,
    Selection,
    Unbounded,
    plan,
)
from tidelog.evaluation.ranges import Range
from tidelog.language.printer import print_literal, print_rule, print_term
from tidelog.language.program import Atom

# Conjunctive queries that are listed; there can be exponentially many.
MOST_CQS = 20
# A plan depends on the times of the data; without data, this much is assumed.
ASSUMED = Range(0, 599)


def assumed_plan(deps: Dependencies) -> Plan:
    lean = passes(deps.core.program, deps.queries).planned
    data = {p.name: ASSUMED for p in lean.core.inputs if p.temporal}
    return folded(united(plan(lean, data, ASSUMED)))


def plan_lines(deps: Dependencies) -> list[str]:
    """The steps of the plan, one a line, rules below."""
    try:
        shown = assumed_plan(deps)
    except Unbounded as error:
        return [f"no plan: {error}"]
    lines = []
    for step in shown.steps:
        match step:
            case Scan():
                lines.append(_scan_line(step))
            case Derive():
                lines.append(f"derive  {_made(step)}")
                lines += [f"          {rule}" for join in step.joins for rule in _rules(join)]
            case Gather():
                lines.append(f"gather  {_made(step)}")
                lines.append(f"          {step.predicate.name}")
            case Fixpoint():
                lines += _fixpoint_lines(step, shown)
            case _:
                assert_never(step)
    named = (_in_users_names(line, shown.deps) for line in lines)
    return [f"plan for data and answers at ticks {ASSUMED}", *named]


def _made(step: Gather | Derive) -> str:
    """What a step makes, and of what."""
    if isinstance(step, Derive):
        over = step.over
        return step.table + (
            "" if over is None else f", at {over.least} of the last {over.ticks} ticks"
        )
    facts = f"{step.table}, {step.measure} of the facts of {step.join.operands[0].table}"
    return facts if step.ticks == 1 else f"{facts} at the last {step.ticks} ticks"


def _in_users_names(line: str, deps: Dependencies) -> str:
    """A line without the keys of predicates that are not the user's."""
    for predicate in deps.core.inputs:
        line = re.sub(rf"(?<!\w){re.escape(predicate.name)}", predicate.shown, line)
    return line


def ucq_lines(deps: Dependencies) -> list[str]:
    """The query as a union of conjunctive queries over inputs, as far as a page holds."""
    if deps.cls is not Class.NONRECURSIVE:
        return ["not unfolded: the unfolding of a recursive query has no end"]
    unfolder = Unfolder(deps)
    unfolded = list(islice(unfolder.all(deps.queries[0]), MOST_CQS + 1))
    lines = [_in_users_names(unfolder.shown(query), deps) for query in unfolded[:MOST_CQS]]
    lines = lines or ["nothing can derive it"]
    return [*lines, "..."] if len(unfolded) > MOST_CQS else lines


def _scan_line(step: Scan) -> str:
    kept = ", ".join(print_term(step.premise.args[i]) for i in step.columns)
    ways = " or ".join(map(_selection, step.selections))
    verb = "pack  " if step.predicate.temporal else "select"
    return f"{verb}  {step.name} = {ways}; keeps ({kept})"


def _selection(selection: Selection) -> str:
    atom = print_literal(Atom(selection.premise.predicate, selection.premise.args))
    return ", ".join([atom, *map(print_literal, selection.tests)])


def _rules(join: Join) -> list[str]:
    return [f"{print_rule(c.as_rule)}  % {c.origin}" for c in (join.clause, *join.also)]


def _fixpoint_lines(step: Fixpoint, shown: Plan) -> list[str]:
    tables = zip(step.tables, step.predicates, strict=True)
    over = ", ".join(
        f"{table} on {shown.ranges[p.name]}" if p.temporal else table for table, p in tables
    )
    lines = [f"repeat  {over}"]
    lines += [f"  before  {_made(made)}" for made in step.before]
    lines += [f"  start   {rule}" for join in step.start for rule in _rules(join)]
    lines += [f"  carry   {_carried(fill)}" for fill in step.fills]
    lines += [f"  round   {rule}" for join in step.repeat for rule in _rules(join)]
    return lines


def _carried(fill: Fill) -> str:
    if fill.ever:
        how = "for ever"
    elif can_carry(fill):
        how = "up to the next stop"
    else:
        how = f"in doubling steps of {fill.step}"
    return f"{print_rule(fill.clause.as_rule)}  % {fill.clause.origin}, {how}"
