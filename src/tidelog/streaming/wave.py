"""The wave: one pure step from state and new facts to answers and new state, over packed SQL.

`(state, new facts, from tin, to tin) -> (answers, new state)`: each predicate is computed once, on
the ticks that the input time newly settles, from what is kept of the others. In process the new
state is all that is kept; where state lies in files it is the new slices only (`fresh`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

import pyarrow as pa

from tidelog.data.packed import chunks_sql
from tidelog.evaluation.plan import Derive, Fixpoint, Gather, PlanStep, Scan
from tidelog.evaluation.ranges import EMPTY, Range
from tidelog.evaluation.sql import Writer, narrowed
from tidelog.evaluation.steps import StepRunner
from tidelog.language.graph import Bound
from tidelog.language.program import FAR_MAX
from tidelog.logic.core import Predicate
from tidelog.streaming.clock import Span
from tidelog.streaming.schedule import Schedule

# What to do about a tick far ahead.
AHEAD = (
    "a tick lies that far ahead of those before it; --max-jump N (max_jump in Python) puts such"
    " facts aside"
)


@dataclass(frozen=True)
class Waved:
    """What a wave gives, as selects: answers by query, and slices by table.

    Of a `fresh` wave the slices are those that were not there before; `given` are those answers
    that are given early, at times that are not final yet, and `passed` is all that was computed of
    some tables.
    """

    answers: dict[str, str]
    state: dict[str, str]
    given: dict[str, str] = field(default_factory=dict)
    passed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wave:
    """Runs waves: the steps of a plan, on the times that are newly settled."""

    runner: StepRunner

    def run(
        self,
        schedule: Schedule,
        span: Span,
        state: Mapping[str, str],
        facts: Mapping[str, str],
        *,
        packed: bool = True,
        fresh: bool = True,
        steps: Iterable[PlanStep] | None = None,
        passed: Iterable[str] = (),
    ) -> Waved:
        """One wave; `facts` names a table of new facts (or all rigid ones) per input.

        Facts that are packed already go by the name of their scan; `state` names tables of slices
        by table, and of answers given early by query. Of the `steps` of the plan, all are run
        unless some are chosen. Answers are `packed` or a row each.
        """
        ranges = schedule.ranges(span.tin, span.to + span.ahead, span.start)
        data = {name: r for name, r in ranges.items() if schedule.deps.core.predicates[name].input}
        before = schedule.given(span.tin, span.start)
        plan = replace(schedule.plan, ranges=ranges, data=data, given=before)
        steps = plan.steps if steps is None else tuple(steps)
        new = self.runner.run(plan, steps, state, facts)
        writer = Writer(plan)
        kept: dict[str, str] = {}
        known: dict[str, str] = {}
        wanted = set(passed)
        for step in steps:
            match step:
                case Scan():
                    # Rigid facts may have been scanned beforehand.
                    table = new.get(step.name, step.name) if fresh else step.name
                    kept |= _kept_facts(schedule, span, step, table, writer)
                case Derive() | Fixpoint() | Gather():
                    for predicate, table in _derived(step):
                        kept |= _kept_slices(schedule, span, predicate, table, writer, fresh=fresh)
                        if table in wanted:
                            known[table] = _passed(schedule, span, predicate, table, writer)
                case _:
                    assert_never(step)
        here = {predicate.name for step in steps for predicate, _ in _derived(step)}
        answers: dict[str, str] = {}
        given: dict[str, str] = {}
        for query in schedule.deps.queries:
            if query not in here:
                continue
            asked = Writer(replace(plan, asked=span.asked.get(query, EMPTY)))
            if query in span.early:
                answers[query], given[query] = self._early(asked, query, state, span.early[query])
            elif query in span.asked:
                answers[query] = asked.answers(query) if packed else asked.rows(query)
            else:
                rows = asked.rows(query)
                due = _rigid_due(span, schedule.pins[query])
                answers[query] = rows if due else f"SELECT * FROM ({rows}) AS r LIMIT 0"
        return Waved(answers, kept, given, known)

    def _early(
        self, writer: Writer, query: str, state: Mapping[str, str], final: int
    ) -> tuple[str, str]:
        """Answers that were not given before, and those of them at times that are not final."""
        predicate = writer.plan.deps.core.predicates[query]
        table = f"{writer.plan.tables[query]}_early"
        self.runner.engine.table(f"{table}_all", writer.answers(query))
        if query in state:
            self.runner.engine.table(table, writer.news(predicate, state[query], f"{table}_all"))
        else:
            self.runner.engine.table(table, f"SELECT * FROM {table}_all")
        later = _clipped(writer, predicate, table, Range(final + 1, FAR_MAX))
        return f"SELECT * FROM {table}", later


def _derived(step: PlanStep) -> Iterator[tuple[Predicate, str]]:
    """The predicates that a step derives, each with its table."""
    match step:
        case Derive() | Gather():
            yield step.predicate, step.table
        case Fixpoint():
            yield from zip(step.predicates, step.tables, strict=True)
            yield from ((made.predicate, made.table) for made in step.before)
        case Scan():
            pass
        case _:
            assert_never(step)


def _rigid_due(span: Span, pin: Bound) -> bool:
    """A rigid query is answered once, in the wave that passes all that it draws on."""
    if span.window is None:
        begun, since = span.tin > span.start, span.tin
    else:
        begun, since = span.since is not None, span.to if span.since is None else span.since
    return pin <= span.to and (not begun or since < pin)


def _passed(
    schedule: Schedule, span: Span, predicate: Predicate, table: str, writer: Writer
) -> str:
    """All of a table that this wave computes."""
    low = schedule.frontier(predicate.name, span.tin, span.start) + 1
    high = schedule.frontier(predicate.name, span.to + span.ahead, span.start)
    return _clipped(writer, predicate, table, Range(low, high) if low <= high else EMPTY)


def _kept_facts(
    schedule: Schedule, span: Span, scan: Scan, table: str, writer: Writer
) -> dict[str, str]:
    """What later waves look at of the facts of a scan, as a select by its name."""
    if not scan.predicate.temporal:
        return {}
    first = schedule.kept_from(scan.name, span.to, span.start)
    first = span.to + 1 if first is None else min(first, span.to + 1)
    if span.window is not None:
        first = span.to - span.window + 1
    ranges = _kept_ranges(schedule, scan.name, first, None, math.inf)
    return _kept(narrowed(scan.predicate, scan.columns), scan.name, table, ranges, writer)


def _kept_slices(
    schedule: Schedule,
    span: Span,
    predicate: Predicate,
    table: str,
    writer: Writer,
    *,
    fresh: bool,
) -> dict[str, str]:
    """What later waves look at of a derived predicate; of a `fresh` wave, only what is new."""
    if not predicate.temporal or span.window is not None:
        return {}
    first = schedule.kept_from(table, span.to, span.start)
    known = schedule.frontier(predicate.name, span.tin, span.start) if fresh else None
    if known is not None and first is not None:
        first = max(first, known + 1)
    last = schedule.frontier(predicate.name, span.to, span.start)
    ranges = _kept_ranges(schedule, table, first, known, last)
    return _kept(predicate, table, table, ranges, writer)


def _kept_ranges(
    schedule: Schedule, table: str, first: int | None, known: int | None, last: float
) -> list[Range]:
    """The times of a table that later waves look at: from `first` on, and pinned ones."""
    ranges = []
    if first is not None and first <= last:
        ranges.append(Range(max(first, -FAR_MAX), min(last, FAR_MAX)))
    ranges += [
        Range(tick, tick)
        for tick in sorted(schedule.pinned.get(table, ()))
        if (first is None or tick < first) and (known is None or tick > known) and tick <= last
    ]
    return ranges


def _kept(
    predicate: Predicate, name: str, table: str, ranges: list[Range], writer: Writer
) -> dict[str, str]:
    if not ranges:
        return {}
    parts = [_clipped(writer, predicate, table, range_) for range_ in ranges]
    return {name: parts[0] if len(parts) == 1 else writer.merge(predicate, parts, None)}


def _clipped(writer: Writer, predicate: Predicate, table: str, clip: Range) -> str:
    if clip.empty:
        return writer.empty(predicate)
    names = ", ".join(writer.names(predicate))
    inside = chunks_sql(int(clip.low), int(clip.high))
    rows = f"SELECT {names} FROM {table} WHERE {inside}"
    return writer.merge(predicate, [rows], clip)


def bits(table: pa.Table) -> int:
    """How many facts a packed table holds."""
    import numpy as np

    return int(np.bitwise_count(table.column("b").to_numpy()).sum())


__all__ = ["AHEAD", "Wave", "Waved", "bits"]
