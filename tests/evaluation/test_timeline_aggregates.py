"""Aggregates on the timeline: against the naive evaluator, and over what holds without end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from oracle import naive
from oracle.aggregates import programs_with_aggregates, programs_with_cycles
from oracle.generate import Case as AnyCase
from support import twoway
from support.deep import examples
from support.lines import evaluated, expanded
from support.twoway import Case, Shape

import tidelog
from tidelog.analysis.dependencies import Class, dependencies
from tidelog.errors import NoAnswer
from tidelog.evaluation import timeline
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.ranges import ALWAYS, Range
from tidelog.evaluation.timeline import TooHard
from tidelog.language.program import Row, Type
from tidelog.logic.normalise import core

# Examples

REPEATS = """
    input E @ time.
    clock Tick.
    A @ T :- E @ T. A @ T+3 :- A @ T.
    Count(N) @ T :- Tick @ T, N = count(A @ [T-3, T]).
    Sum(S) @ T :- Tick @ T, S = sum(N : Count(N) @ [T-1, T]).
"""


def test_what_repeats_comes_to_what_repeats() -> None:
    program = tidelog.parse(REPEATS)
    assert program.query("Count", {"E": [(0,)]}, to=None).to_pylist() == [
        {"n": 1, "time": 0, "period": None},
        {"n": 1, "time": 1, "period": 3},
        {"n": 1, "time": 2, "period": 3},
        {"n": 2, "time": 3, "period": 3},
    ]
    assert program.query("Sum", {"E": [(0,)]}, to=None).to_pylist() == [
        {"s": 1, "time": 0, "period": None},
        {"s": 2, "time": 1, "period": None},
        {"s": 2, "time": 2, "period": 3},
        {"s": 3, "time": 3, "period": 3},
        {"s": 3, "time": 4, "period": 3},
    ]


def test_rules_that_run_both_ways_over_an_aggregate() -> None:
    program = tidelog.parse("""
    input Load(v: float) @ time.
    Mean(M) @ T :- Load(_) @ T, M = avg(V : Load(V) @ [T-1, T]).
    High @ T    :- Mean(M) @ T, M > 10.
    Known @ T   :- Load(_) @ T. Known @ T+2 :- Known @ T. Known @ T-1 :- Known @ T.
    Next(M) @ T :- Mean(M) @ T, High @ T, Known @ T+7.
    """)
    facts: dict[str, list[tuple[float, int]]] = {"Load": [(8.0, 0), (14.0, 1), (1e308, 2)]}
    rows = program.query("Next", facts).to_pylist()
    assert [tuple(row.values()) for row in rows] == [(11.0, 1), (5e307, 2)]


def test_a_budget_that_is_asked_for_without_end() -> None:
    program = tidelog.parse("""
    input Ask(x: text, v: int) @ time.
    Wish(X, V) @ T   :- Ask(X, V) @ T.
    Wish(X, V) @ T+1 :- Wish(X, V) @ T.
    Grant(X, V) @ T  :- Wish(X, V) @ T, S = sum(W : Grant(_, W) @ [T-4, T-1]), S + V <= 20.
    """)
    rows = program.query("Grant", {"Ask": [("a", 9, 0), ("b", 11, 1)]}, to=None).to_pylist()
    want = naive.evaluate(
        program, {"Ask": [("a", 9, 0), ("b", 11, 1)]}, ["Grant"], 0, 60, margin=0
    )["Grant"]
    got = {
        (row["x"], row["v"], t)
        for row in rows
        for t in range(row["time"], 61 if row["period"] else row["time"] + 1, row["period"] or 1)
    }
    assert got == want
    assert any(row["period"] for row in rows)


def test_a_cycle_over_what_looks_ahead_without_end_is_refused() -> None:
    program = tidelog.parse("""
    input E @ time.
    Q @ T :- E @ T. Q @ T-1 :- Q @ T.
    P @ T :- Q @ T, N = count(P @ [T-3, T-1]), N + 0 < 2.
    """)
    with pytest.raises(NoAnswer, match=r"hangs on what its own facts come to, and Q @ T needs"):
        program.query("P", {"E": [(0,)]}, from_=0, to=None)


# Generated programs

FINITE = programs_with_aggregates(connected=True, max_rules=3)
CYCLES = programs_with_cycles(connected=True, max_rules=3)


@given(st.one_of(FINITE, CYCLES))
@examples(20, deep=800)
def test_programs_that_never_look_ahead_without_end(case: AnyCase) -> None:
    deps = dependencies(core(case.program, case.queries), case.queries)
    if deps.cls is Class.BLOCKING:
        return
    low, high = case.low - 40, case.high + 40
    wanted = naive.evaluate(case.program, case.facts, case.queries, low, high)
    with Engine(case.program, case.facts) as engine:
        given_ = timeline.history(engine, deps.core)
        limit = timeline.Limit(20, "the test")
        try:
            lines = timeline.evaluate(deps.core, given_, case.queries, ALWAYS, limit)
        except TooHard:
            event("too hard")
            return
    for query in case.queries:
        if deps.core.predicates[query].temporal:
            rows = set(expanded(lines[query], low, high))
        else:
            rows = {row for row, _ in lines[query].rows}
        types = deps.core.predicates[query].types
        assert written(rows, types) == written(wanted[query], types), case.text


def written(rows: Iterable[Row], types: Sequence[Type | None]) -> list[str]:
    """Rows as text, in which floats differ that are written differently; `1` may stand for 1.0."""
    each = [
        [float(v) if t is Type.FLOAT else v for v, t in zip_longest(row, types)] for row in rows
    ]
    return sorted(map(repr, each))


ABOVE = """
    Some({shown}N) @ T :- {at} @ T, N = count({of} @ [T{low:+d}, T{high:+d}]).
"""
BACK = """
    Back(N) @ T :- Some({any}N) @ T.
    Back(N) @ T{way:+d} :- Back(N) @ T, N < 2.
    Again(M) @ T :- Back(_) @ T, M = sum(N : Back(N) @ [T-1, T]).
"""
# Within this all has happened that ever will: periods up to 5 have 60 as their common multiple.
FAR = 170


@given(
    twoway.cases(Shape(arities=(1, 1, 0), free=False)),
    st.sampled_from("PQR"),
    st.sampled_from("PQREF"),
    st.integers(-6, 2),
    st.integers(0, 5),
    st.sampled_from((1, -1, -2, 3)),
    st.booleans(),
)
@examples(8, deep=400)
def test_over_what_runs_both_ways(
    case: Case, at: str, of: str, low: int, ticks: int, way: int, grouped: bool
) -> None:
    """What lies below is on the timeline, too, and checked elsewhere; here it is given as facts."""
    types = {p.base: p.types for p in core(case.program, case.program.heads).predicates.values()}
    if of not in types:
        return
    group = "X, " if grouped and types[at] and types[of] else ""
    term = "(X)" if group else "(_)"
    above = ABOVE.format(
        shown=group,
        at=at + (term if types[at] else ""),
        of=of + (term if types[of] else ""),
        low=low,
        high=low + ticks,
    )
    back = BACK.format(any="_, " if group else "", way=way)
    given_ = {**case.facts}
    for name, line in evaluated(case.program, case.facts, ALWAYS).items():
        given_[name] = set(expanded(line, -FAR - 10, FAR + 10)) if name in (at, of) else set()
    inputs = "".join(f"input {n}{'(x: text)' if types[n] else ''} @ t. " for n in sorted({at, of}))
    wanted = naive.evaluate(tidelog.parse(inputs + above), given_, ["Some"], -FAR, FAR, margin=10)
    some = f"input Some({'x: text, ' if group else ''}n: int) @ t. "
    first, last = case.low - 12, case.high + 12
    wanted |= naive.evaluate(tidelog.parse(some + back), wanted, ["Again"], first, last, margin=FAR)
    whole = tidelog.parse(case.text + above + back)
    for asked in (Range(first, last), ALWAYS):
        lines = evaluated(whole, case.facts, asked)
        for query, rows in wanted.items():
            want = {row for row in rows if first <= int(row[-1]) <= last}
            assert set(expanded(lines[query], first, last)) == want, case.text + above + back
    event(f"answers: {bool(wanted['Again'])}")
