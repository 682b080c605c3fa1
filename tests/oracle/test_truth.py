"""Truth tables over all updates: what evaluating each update says, and the notions by hand."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support import brute, truth
from support.brute import Fact
from support.deep import examples
from support.programs import NEGATED, PLAIN, Case, Shape, histories, programs

import tidelog

RECURSIVE = Shape(types=("text",), arity=1, negated=2, recursive=True, points=True, clock=True)
TIN = 2


def rules(text: str) -> tidelog.Program:
    return tidelog.parse(text)


def fact(name: str, *row: int) -> Fact:
    return Fact(name, row[:-1], row[-1])


# By hand


def test_an_answer_that_can_be_withdrawn() -> None:
    program = rules("input E @ t. input F @ t. Q @ T :- E @ T, not F @ T+1.")
    known = {fact("E", 0)}
    assert truth.offsets(program, "Q") == (0, 1)
    assert truth.psi(program, "Q") == 1
    early = truth.open_rows(program, "Q", known, 0, 0)
    assert early.open == [((), set(), {fact("F", 1)})]
    assert truth.open_rows(program, "Q", known, 1, 0).certain == {()}


def test_an_answer_either_way() -> None:
    """Nothing of A counts, though both rules look at it."""
    program = rules(
        "input F @ t. input A @ t. Q @ T :- F @ T, A @ T+1. Q @ T :- F @ T, not A @ T+1."
    )
    assert truth.offsets(program, "Q") == (0, 0)
    assert truth.psi(program, "Q") is None
    assert truth.open_rows(program, "Q", {fact("F", 0)}, 0, 0).definitive


def test_a_fact_whose_loss_adds_an_answer() -> None:
    program = rules(
        "input C @ t. input G @ t. input E @ t."
        "A @ T :- B @ T, C @ T. B @ T :- G @ T-1, not N @ T. N @ T :- E @ T-1."
    )
    known = {fact("E", 0), fact("G", 0)}
    (difference,) = truth.differences(program, "A", known, {fact("G", 0)}, 0, 1)
    assert difference == ({fact("C", 1)}, 1, (), False)
    assert not list(truth.differences(program, "A", known, set(), 0, 2))
    # Without G there is nothing to be in the way of.
    assert not list(truth.differences(program, "A", known, set(), 0, 1))


def test_a_cycle_and_a_clock() -> None:
    program = rules("input E(x: text) @ t. clock Tick. Q @ T :- Tick @ T, not Q @ T-1.")
    known = {Fact("E", ("a",), 0)}
    verdicts = {t: truth.open_rows(program, "Q", known, 2, t, reach=6) for t in range(6)}
    assert [t for t in verdicts if verdicts[t].certain] == [0, 2, 4]
    assert all(verdict.definitive for verdict in verdicts.values())


def test_a_clock_starts_with_the_first_fact() -> None:
    program = rules("input E @ t. clock Tick. Q @ T :- Tick @ T.")
    later = truth.open_rows(program, "Q", set(), 0, 2, reach=3)
    assert later.open[0].with_it in ({fact("E", 1)}, {fact("E", 2)})
    assert later.open[0].without_it == set()


def test_too_many_free_facts() -> None:
    text = "input E(x: int, y: int) @ t. Q @ T :- E(_, _) @ T, not E(1, 2) @ T, not E(3, 5) @ T."
    with pytest.raises(brute.TooLargeError):
        truth.offsets(rules(text), "Q")


# Against evaluation of one update after the other


def every_update_agrees(case: Case, facts: brute.Facts, reach: int | None) -> None:
    known = brute.history(case.program, facts)
    at = TIN
    try:
        verdict = truth.open_rows(case.program, case.query, known, TIN, at, reach=reach)
    except brute.TooLargeError:
        assume(False)
    for open_ in verdict.open:
        for update, holds in ((open_.with_it, True), (open_.without_it, False)):
            answers = brute.answers_at(case.program, case.query, known | update, at)
            assert (open_.row in answers) == holds
    far = max(TIN, *brute.points(case.program), TIN) + 2
    later = sorted(truth.later(case.program, known, TIN, far), key=repr)[:6]
    for size in range(len(later) + 1):
        for some in itertools.combinations(later, size):
            answers = brute.answers_at(case.program, case.query, known | set(some), at)
            assert verdict.certain <= answers <= verdict.possible


@given(st.data())
@examples(5, deep=400)
def test_every_update(data: st.DataObject) -> None:
    case = data.draw(programs(NEGATED))
    every_update_agrees(case, data.draw(histories(case.program, TIN)), None)


@given(st.data())
@examples(5, deep=400)
def test_every_update_with_recursion(data: st.DataObject) -> None:
    case = data.draw(programs(RECURSIVE))
    every_update_agrees(case, data.draw(histories(case.program, TIN)), 4)


# Against least supports, which know no `not`


@given(st.data())
@examples(5, deep=400)
def test_programs_without_negation(data: st.DataObject) -> None:
    case = data.draw(programs(PLAIN))
    try:
        assert truth.offsets(case.program, case.query) == brute.offsets(case.program, case.query)
        assert truth.psi(case.program, case.query) is None
    except brute.TooLargeError:
        assume(False)
    facts = data.draw(histories(case.program, TIN))
    known = brute.history(case.program, facts)
    for at in range(TIN + 2):
        try:
            verdict = truth.open_rows(case.program, case.query, known, TIN, at)
        except brute.TooLargeError:
            continue
        assert verdict.definitive == brute.definitive(case.program, case.query, known, TIN, at)
