"""Evaluation on the timeline for tests, and what its descriptions stand for."""

from __future__ import annotations

from collections import Counter

import tidelog
from support import twoway
from support.twoway import Case
from tidelog.evaluation import timeline
from tidelog.evaluation.ranges import Range
from tidelog.evaluation.timeline import Limit, Timeline
from tidelog.language.program import Value
from tidelog.logic.normalise import core

Rows = set[tuple[Value, ...]]


def evaluated(program: tidelog.Program, facts: twoway.Facts, asked: Range) -> dict[str, Timeline]:
    whole = core(program, program.heads)
    given = {
        p.name: [
            (row[:-1], int(row[-1])) if p.temporal else (row, None) for row in facts.get(p.base, ())
        ]
        for p in whole.inputs
    }
    return timeline.evaluate(whole, given, program.heads, asked, Limit(60, "the test"))


def as_rows(line: Timeline) -> Rows:
    assert not line.repeated
    return {row if tick is None else (*row, tick) for row, tick in line.rows}


def agrees(case: Case) -> None:
    wanted = twoway.closure(case)
    if wanted is None:
        return
    line = evaluated(case.program, case.facts, Range(case.low, case.high))
    assert {name: as_rows(rows) for name, rows in line.items()} == wanted, (case.text, case.facts)


def expanded(line: Timeline, low: int, high: int) -> Counter[tuple[Value, ...]]:
    count: Counter[tuple[Value, ...]] = Counter()
    for row, tick in line.rows:
        assert tick is not None
        if low <= tick <= high:
            count[*row, tick] += 1
    for row, first, period in line.repeated:
        for tick in range(first, (high + 1) if period > 0 else (low - 1), period):
            if low <= tick <= high:
                count[*row, tick] += 1
    return count


def least_period(ticks: set[int], low: int, high: int) -> int:
    return next(
        p
        for p in range(1, high - low)
        if all((t in ticks) == (t + p in ticks) for t in range(low, high - p + 1))
    )
