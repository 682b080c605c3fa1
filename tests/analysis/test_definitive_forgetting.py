"""DTP, Forget and live facts of generated programs: equal to brute force; explanations replay."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st
from support import brute
from support.brute import Fact
from support.deep import examples
from support.programs import PLAIN, Case, Facts, Shape, histories, programs

import tidelog
from tidelog.analysis.definitive import Pending
from tidelog.analysis.dependencies import Class, Dependencies, dependencies
from tidelog.language.program import TimePoint, Type, Value
from tidelog.logic.normalise import core

COMPARED = Shape(types=("int", "float", "text", "bool"), comparisons=True)
RECURSIVE = Shape(recursive=True)
POINTS = Shape(recursive=True, points=True)
LONG = Shape(types=("text", "bool"), rules=2, atoms=7, points=True)
TIN = 2


def deps(case: Case) -> Dependencies:
    return dependencies(core(case.program, [case.query]), [case.query])


@st.composite
def asked(draw: st.DrawFn, shape: Shape = PLAIN) -> tuple[Case, Facts]:
    case = draw(programs(shape))
    assume(deps(case).cls is not Class.BLOCKING)
    return case, draw(histories(case.program, TIN))


def tables(facts: Facts) -> Any:
    return {name: sorted(rows, key=str) for name, rows in facts.items()}


# Definitive time points


def fresh(type_: Type | None) -> Value:
    return {Type.INT: 77, Type.FLOAT: 77.5, Type.BOOL: True}.get(type_, "fresh")


def filled(args: tuple[Value | None, ...], types: tuple[Type | None, ...]) -> tuple[Value, ...]:
    """One fresh object for every arbitrary value."""
    return tuple(fresh(t) if a is None else a for a, t in zip(args, types, strict=True))


def comes(case: Case, known: set[Fact], pending: Pending, tin: int) -> None:
    """With exactly what it waits for, and what it builds on, a pending answer is an answer."""
    types = brute.Shapes.of(case.program).types
    waits = {
        Fact(p.predicate, filled(p.args, types[p.predicate]), p.time) for p in pending.waits_for
    }
    assert waits
    assert all(f.time is not None and f.time > tin for f in waits)
    built = {Fact(f.predicate, f.args, f.time) for f in pending.holds}
    assert built <= known
    answer = filled(pending.args, types[case.query])
    assert answer in brute.answers_at(case.program, case.query, built | waits, pending.time)
    assert answer not in brute.answers_at(case.program, case.query, known, pending.time)
    for one in waits:
        less = known | (waits - {one})
        assert answer not in brute.answers_at(case.program, case.query, less, pending.time)


def compared(case: Case, facts: Facts, tout: int, *, fresh: int = 1) -> bool:
    """All time points at once, and one of them with its pending answers; whether it was exact."""
    known = brute.history(case.program, facts)
    open_ = tidelog.open_points(case.program, case.query, tables(facts), TIN, -1)
    verdict = tidelog.definitive(case.program, case.query, tables(facts), TIN, tout)
    assert verdict.holds == (tout not in open_)
    assert verdict.holds == (verdict.count == 0)
    assert len(verdict.pending) == min(verdict.count, 20)
    assert all(pending.time == tout for pending in verdict.pending)
    expected = [
        t
        for t in range(-1, TIN + 1)
        if not brute.definitive(case.program, case.query, known, TIN, t, fresh)
    ]
    # Yes is never wrong, and no is right wherever it says that it is exact.
    assert set(expected) <= set(open_)
    if verdict.exact and not verdict.holds:
        assert open_ == expected
        for pending in verdict.pending:
            comes(case, known, pending, TIN)
    return verdict.exact


tout = st.integers(-1, TIN)


@examples(4, deep=200)
@given(asked(), tout)
def test_definitive(given_: tuple[Case, Facts], tout: int) -> None:
    assert compared(*given_, tout)


@examples(4, deep=200)
@given(asked(Shape(types=("text",), rules=3)))
def test_definitive_over_all_updates(given_: tuple[Case, Facts]) -> None:
    """No critical update here: truly every update over the objects and a fresh one."""
    case, facts = given_
    known = brute.history(case.program, facts)
    dom = brute.domain(case.program, (v for f in known for v in f.args))
    later = brute.everything_later(case.program, dom, TIN + 1, TIN + 2)
    assume(len(later) <= 9)
    now = brute.answers_at(case.program, case.query, known, TIN)
    changed = any(
        brute.answers_at(case.program, case.query, known | set(update), TIN) != now
        for size in range(len(later) + 1)
        for update in itertools.combinations(sorted(later), size)
    )
    if changed:
        assert not tidelog.definitive(case.program, case.query, tables(facts), TIN, TIN).holds
    elif brute.radius(case.program) <= 2 and not brute.points(case.program):
        assert tidelog.definitive(case.program, case.query, tables(facts), TIN, TIN).holds


@examples(3, deep=160)
@given(asked(COMPARED), tout)
def test_definitive_with_comparisons(given_: tuple[Case, Facts], tout: int) -> None:
    compared(*given_, tout, fresh=2)


@examples(3, deep=120)
@given(asked(LONG), tout)
def test_definitive_with_long_rules(given_: tuple[Case, Facts], tout: int) -> None:
    assert compared(*given_, tout)


@examples(3, deep=160)
@given(asked(POINTS), tout)
def test_definitive_with_recursion_and_explicit_times(
    given_: tuple[Case, Facts], tout: int
) -> None:
    assert compared(*given_, tout)


def test_what_lies_after_tin_is_waited_for_though_the_data_has_it() -> None:
    program = tidelog.parse("Q(X) @ T :- E(X) @ T, F(X) @ T+2.")
    verdict = tidelog.definitive(program, "Q", {"E": [("a", 0)], "F": [("a", 2)]}, 1, 0)
    assert list(map(str, verdict.pending)) == ["Q(a) @ 0 waits for F(a) @ 2"]
    assert [(fact.predicate, fact.time) for fact in verdict.pending[0].holds] == [("E", 0)]


# Forgetting


def lost(case: Case, known: set[Fact], kept: set[Fact], tin: int, tout: int) -> bool:
    """Whether some update tells the kept facts from all of them."""
    reach = 5 if deps(case).recursive else None
    try:
        updates = brute.differing_updates(
            case.program, case.query, known, kept, tin, tout, reach=reach
        )
        return next(updates, None) is not None
    except brute.TooLargeError:
        assume(False)
    raise AssertionError


def update_replays(case: Case, known: set[Fact], verdict: Any, tin: int, tmem: int) -> None:
    assert verdict.update is not None
    update = {Fact(f.predicate, f.args, f.time) for f in verdict.update.facts}
    assert all(f.time is not None and f.time > tin for f in update)
    answer = verdict.update.answer
    kept = brute.segment(known, tmem)
    assert answer.args in brute.answers_at(case.program, case.query, known | update, answer.time)
    assert answer.args not in brute.answers_at(case.program, case.query, kept | update, answer.time)


def forget(case: Case, facts: Facts, tout: int, tmem: int, *, exact: bool) -> None:
    known = brute.history(case.program, facts)
    verdict = tidelog.forgettable(case.program, case.query, tables(facts), TIN, tout, tmem)
    needed = lost(case, known, brute.segment(known, tmem), TIN, tout)
    assert not (verdict.holds and needed), "a wrong yes"
    if exact:
        assert verdict.exact
    if verdict.exact:
        assert verdict.holds != needed
    if verdict.exact and not verdict.holds:
        assert verdict.update is not None
        assert verdict.update.answer.time is not None
        assert verdict.update.answer.time >= tout
        update_replays(case, known, verdict, TIN, tmem)


times = st.tuples(st.integers(0, TIN + 1), st.integers(0, TIN + 1)).filter(lambda t: t[1] <= t[0])


@examples(3, deep=160)
@given(asked(), times)
def test_forgettable(given_: tuple[Case, Facts], at: tuple[int, int]) -> None:
    forget(*given_, *at, exact=not heads_at_points(given_[0]))


def heads_at_points(case: Case) -> bool:
    """Rules whose head is at an explicit time are outside the paper's decision."""
    return any(r.body and isinstance(r.head.time, TimePoint) for r in case.program.rules)


@examples(3, deep=160)
@given(asked(COMPARED), times)
def test_forgettable_with_comparisons(given_: tuple[Case, Facts], at: tuple[int, int]) -> None:
    case, facts = given_
    known = brute.history(case.program, facts)
    verdict = tidelog.forgettable(case.program, case.query, tables(facts), TIN, *at)
    needed = lost(case, known, brute.segment(known, at[1]), TIN, at[0])
    assert not (verdict.holds and needed), "a wrong yes"
    if verdict.update is not None:
        update_replays(case, known, verdict, TIN, at[1])


@examples(3, deep=160)
@given(asked(POINTS), times)
def test_forgettable_for_other_classes(given_: tuple[Case, Facts], at: tuple[int, int]) -> None:
    forget(*given_, *at, exact=False)


# Live facts


def live_is_enough(case: Case, facts: Facts, tout: int) -> None:
    known = brute.history(case.program, facts)
    alive = tidelog.live(case.program, case.query, tables(facts), TIN, tout)
    kept = {f for f in known if f.time is None} | {
        Fact(name, row[:-1], row[-1]) for name, table in alive.items() for row in rows(table)
    }
    assert kept <= known
    assert not lost(case, known, kept, TIN, tout)


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(c.to_pylist() for c in table.columns), strict=True))


next_tout = st.integers(0, TIN + 1)


@examples(4, deep=200)
@given(asked(), next_tout)
def test_live_facts_are_enough(given_: tuple[Case, Facts], tout: int) -> None:
    live_is_enough(*given_, tout)


@examples(3, deep=160)
@given(asked(COMPARED), next_tout)
def test_live_facts_are_enough_with_comparisons(given_: tuple[Case, Facts], tout: int) -> None:
    live_is_enough(*given_, tout)


@examples(3, deep=120)
@given(asked(LONG), next_tout)
def test_live_facts_are_enough_with_long_rules(given_: tuple[Case, Facts], tout: int) -> None:
    live_is_enough(*given_, tout)


@examples(3, deep=80)
@given(asked(POINTS), next_tout)
def test_live_facts_are_enough_with_explicit_times(given_: tuple[Case, Facts], tout: int) -> None:
    live_is_enough(*given_, tout)


@examples(4, deep=200)
@given(asked(RECURSIVE), next_tout)
def test_live_facts_are_enough_with_recursion(given_: tuple[Case, Facts], tout: int) -> None:
    live_is_enough(*given_, tout)
