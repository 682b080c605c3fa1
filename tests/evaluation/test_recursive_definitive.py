"""Definitive time points of blocking queries against brute force.

By monotonicity the greatest update decides: every input fact over the objects there are and two
more, at every tick after tin. It is cut off far away, and twice as far must make no difference.
"""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import naive
from support import twoway
from support.deep import examples
from support.twoway import Case, Shape

import tidelog
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.open_answers import OpenAnswers
from tidelog.language.program import Constant, Value

Rows = set[tuple[Value, ...]]
FRESH = ("~0", "~1")
WIDE = 20
# Brute force tries every pair of facts at two unrelated times: few objects, few arguments.
SHAPE = Shape(comparisons=False, last=2, arities=(1, 0), objects=("a", "c"))


def objects(case: Case) -> list[Value]:
    values: set[Value] = set(FRESH)
    for rule in case.program.rules:
        for atom in (rule.head, *rule.atoms):
            values |= {t.value for t in atom.args if isinstance(t, Constant)}
    for name, rows in case.facts.items():
        timed = case.program.declarations[name].time is not None
        values |= {v for row in rows for v in (row[:-1] if timed else row)}
    return sorted(values, key=str)


def answers(case: Case, query: str, facts: twoway.Facts, tout: int, wide: int) -> Rows:
    derived = naive.evaluate(case.program, facts, [query], tout, tout, wide)
    return {row[:-1] for row in derived[query]}


def updated(case: Case, tin: int, wide: int) -> twoway.Facts:
    """The history up to tin and everything that may happen in the `wide` ticks after it."""
    facts: twoway.Facts = {}
    dom = objects(case)
    for name, declaration in case.program.declarations.items():
        rows = case.facts.get(name, set())
        if declaration.time is not None:
            rows = {row for row in rows if int(row[-1]) <= tin}
            rows |= {
                (*args, tick)
                for args in product(dom, repeat=len(declaration.columns))
                for tick in range(tin + 1, tin + wide + 1)
            }
        facts[name] = rows
    return facts


def brute_force(case: Case, query: str, tin: int, tout: int) -> tuple[Rows, Rows] | None:
    """The answers that are certain at tout, and all that are possible; None if too far to see."""
    pairs = []
    for wide in (WIDE, 2 * WIDE):
        certain = answers(case, query, updated(case, tin, 0), tout, 3 * wide)
        pairs.append((certain, answers(case, query, updated(case, tin, wide), tout, wide)))
    return pairs[0] if pairs[0] == pairs[1] else None


@pytest.mark.slow
@pytest.mark.grows
def test_generated_instances() -> None:
    seen: Counter[str] = Counter()

    @given(twoway.cases(SHAPE), st.data())
    @examples(50, deep=1000)
    def compare(case: Case, data: st.DataObject) -> None:
        seen[agrees(case, data)] += 1

    compare()
    assert min(seen["holds"], seen["open"]) > 5, seen


def agrees(case: Case, data: st.DataObject) -> str:
    queries = [q for q in case.program.heads if q not in ("K", "N")]
    query = data.draw(st.sampled_from(queries))
    tin = data.draw(st.integers(0, 3))
    tout = data.draw(st.integers(tin - 4, tin))
    with Engine(case.program, case.facts) as engine:
        problem = OpenAnswers(engine, query)
        if not problem.blocking:
            return "not blocking"
        wanted = brute_force(case, query, tin, tout)
        if wanted is None:
            return "too far"
        verdict = problem.definitive(tin, tout)
        assert problem.open_points(tin, tout, tout) == ([] if verdict.holds else [tout])
    certain, possible = wanted
    told = (case.text, case.facts, query, tin, tout)
    assert verdict.exact
    assert verdict.holds == (certain == possible), told
    # Each pending answer is one that may come, and each that may come is pending.
    pending = [p.args for p in verdict.pending]
    assert verdict.count == len(set(pending)) == len(pending) or verdict.count > len(pending)
    for args in pending:
        assert tuple(FRESH[0] if a is None else a for a in args) in possible - certain, told
    if verdict.count == len(pending):
        for row in possible - certain:
            assert any(_matches(args, row) for args in pending), told
    return "holds" if verdict.holds else "open"


def _matches(args: tuple[Value | None, ...], row: tuple[Value, ...]) -> bool:
    return all(a is None or a == v for a, v in zip(args, row, strict=True))


def definitive(text: str, query: str, facts: twoway.Facts, tin: int, tout: int) -> list[str] | None:
    """None when the time is definitive, else what is pending there."""
    verdict = tidelog.definitive(tidelog.parse(text), query, facts, tin, tout)
    return None if verdict.holds else [str(p) for p in verdict.pending]


def test_looking_ahead_without_end() -> None:
    text = "input Alarm(x: text) @ t. Late(X) @ T :- Alarm(X) @ T. Late(X) @ T :- Late(X) @ T+1."
    # Any object may still get an alarm, but a's answers are there already.
    assert definitive(text, "Late", {"Alarm": {("a", 3)}}, 3, 0) == ["Late(_) @ 0 may still come"]


def test_what_cannot_come_any_more_is_definitive() -> None:
    """Only even distances lead back, and a guard at tick 0 did not hold."""
    text = """
    input E @ t. input G @ t.
    P @ T :- E @ T, G @ 0.
    P @ T :- P @ T+2.
    """
    assert definitive(text, "P", {"E": set(), "G": set()}, 0, 0) is None
    assert definitive(text, "P", {"E": set(), "G": {(0,)}}, 0, 0) == ["P @ 0 may still come"]


def test_the_future_meets_what_is_carried_on() -> None:
    """A comes round at 11, 22, ..; B may come at any later tick: C at 0 waits for that."""
    text = """
    input A @ time. input B @ time.
    A @ T+11 :- A @ T. B @ T+13 :- B @ T. C @ T :- A @ T, B @ T. C @ T-1 :- C @ T.
    """
    assert definitive(text, "C", {"A": {(0,)}, "B": set()}, 1, 0) == ["C @ 0 may still come"]
    # Once it holds nothing can be added.
    assert definitive(text, "C", {"A": {(0,)}, "B": {(1,)}}, 1, 0) is None


def test_the_future_starts_right_after_tin() -> None:
    """F may come at any time, but G is needed at the tick after the answer's."""
    text = """
    input E @ t. input F @ t. input G @ t.
    P @ T :- E @ T, G @ T+1, F @ _.
    """
    facts: twoway.Facts = {"E": {(0,)}, "F": set(), "G": set()}
    assert definitive(text, "P", facts, 0, 0) == ["P @ 0 may still come"]
    assert definitive(text, "P", facts, 1, 0) is None


def test_the_first_of_very_many_open_points() -> None:
    far = 10**8
    program = tidelog.parse(f"input E @ t. P @ T :- E @ T+{far}.")
    with Engine(program, {"E": []}) as engine:
        answers = OpenAnswers(engine, "P")
        for tin in (0, 7, 59):
            first = tin - far + 1
            assert answers.open_points(tin, -far - 100, tin, most=1) == [first]
            assert answers.open_points(tin, first + 3, tin, most=2) == [first + 3, first + 4]
            assert answers.open_points(tin, -far - 100, first - 1, most=1) == []
