"""What the analyses say of windows is what they say of the rules without intervals, and true."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from oracle.unfold import TooManyRulesError, has_intervals, unfolded
from support import brute, truth
from support.deep import examples
from support.programs import Case, Facts, Shape, histories, programs

import tidelog
from tidelog.analysis.delay import Measure
from tidelog.analysis.dependencies import Class, Dependencies, dependencies
from tidelog.language.program import Program
from tidelog.logic.normalise import core

SMALL = Shape(types=("text",), arity=1, rules=3, atoms=2, facts=False, ticks=3)
NEGATED = Shape(types=("text",), arity=1, rules=3, atoms=2, negated=2, facts=False, ticks=3)
RECURSIVE = Shape(
    types=("text",), arity=1, rules=3, negated=1, recursive=True, points=True, ticks=4
)
LONG = Shape(types=("text",), arity=1, rules=3, negated=2, facts=False, ticks=40)
TIN = 4


def deps(program: Program) -> Dependencies:
    return dependencies(core(program, ["Q"]), ["Q"])


def plain(case: Case, most: int = 60) -> Program:
    """The same without intervals."""
    assume(has_intervals(case.program))
    try:
        return unfolded(case.program, most)
    except TooManyRulesError:
        assume(False)
    raise AssertionError


# How far rules look


@examples(8, deep=300)
@given(programs(RECURSIVE) | programs(NEGATED))
def test_how_far_rules_look(case: Case) -> None:
    own, other = deps(case.program), deps(plain(case, 300))
    assert own.cls is other.cls
    for name in set(own.phi) & set(other.phi):
        assert own.phi[name] == other.phi[name], name
        assert own.psi[name] == other.psi[name], name
        assert own.input_offsets.get(name) == other.input_offsets.get(name), name
    assert bool(own.cycles_through_not) == bool(other.cycles_through_not)


# Delay and window


def agree(one: Measure, other: Measure) -> None:
    """What is exact is equal; bounds never contradict each other."""
    event("exact" if one.exact and other.exact else "bounds")
    if one.exact and other.exact:
        assert (one.upper, one.lower) == (other.upper, other.lower)
    for a, b in ((one, other), (other, one)):
        assert a.upper is None or b.lower is None or b.lower <= a.upper


@examples(5, deep=100)
@given(programs(SMALL) | programs(NEGATED))
def test_delay_and_window(case: Case) -> None:
    other = plain(case)
    waits = tidelog.delay(case.program, "Q", budget=1.0)
    agree(waits, tidelog.delay(other, "Q", budget=1.0))
    d = waits.upper or 0
    agree(*(tidelog.window(p, "Q", d, budget=1.0) for p in (case.program, other)))
    try:
        low, high = truth.offsets(other, "Q")
    except brute.TooLargeError:
        return
    if high is not None and low is not None:
        assert waits.upper is None or max(0, high) <= waits.upper
        assert not waits.exact or waits.upper == max(0, high)


@pytest.mark.parametrize(
    ("rules", "delay", "window"),
    [
        ("Q @ T :- always E @ [T-4, T].", 0, 4),
        ("Q @ T :- always E @ [T-2, T+3].", 3, 5),
        ("Q @ T :- some E @ [T-59, T].", 0, 59),
        ("Q @ T :- at least 3 E @ [T-199, T].", 0, 199),
        ("Q @ T :- F @ T, not some E @ [T, T+5].", 5, 5),
        ("Q @ [T, T+59] :- E @ T.", 0, 59),
        ("Q @ [T-9, T] :- always E @ [T-1, T].", 9, 10),
        ("Q @ T :- F @ T, some E @ [T, T+5], E @ T.", 0, 0),
        ("Q @ T :- some P @ [T-9, T]. P @ T :- some E @ [T-9, T].", 0, 18),
    ],
)
def test_by_hand(rules: str, delay: int, window: int) -> None:
    program = tidelog.parse(f"input E @ t. input F @ t. {rules}")
    waits = tidelog.delay(program, "Q")
    keeps = tidelog.window(program, "Q", delay)
    assert (waits.upper, waits.exact) == (delay, True)
    assert (keeps.upper, keeps.exact) == (window, True)


# Definitive time points and forgetting


def tables(facts: Facts) -> Any:
    return {name: sorted(rows, key=str) for name, rows in facts.items()}


@st.composite
def asked(draw: st.DrawFn, shape: Shape) -> tuple[Case, Facts]:
    case = draw(programs(shape))
    assume(has_intervals(case.program) and deps(case.program).cls is not Class.BLOCKING)
    return case, draw(histories(case.program, TIN))


def test_what_an_answer_waits_for_is_a_fact_of_an_input() -> None:
    program = tidelog.parse(
        "input E(x: text) @ t. input F(x: text) @ t."
        "Q(X) @ T :- E(X) @ T, not always F(a) @ [T, T+1]."
    )
    facts: Any = {"E": [("b", 0)], "F": [("a", 0)]}
    verdict = tidelog.definitive(program, "Q", facts, 0, 0)
    assert (verdict.holds, verdict.exact) == (False, True)
    assert list(map(str, verdict.pending)) == ["Q(b) @ 0 holds unless F(a) @ 1 arrives"]


@examples(5, deep=150)
@given(asked(SMALL) | asked(NEGATED) | asked(RECURSIVE), st.integers(0, TIN))
def test_definitive(given_: tuple[Case, Facts], tout: int) -> None:
    case, facts = given_
    own = tidelog.definitive(case.program, "Q", tables(facts), TIN, tout)
    other = tidelog.definitive(plain(case), "Q", tables(facts), TIN, tout)
    if own.exact and other.exact:
        assert own.holds == other.holds
    elif own.exact or other.exact:
        exact, careful = (own, other) if own.exact else (other, own)
        assert exact.holds or not careful.holds
    if deps(case.program).recursive:
        return
    try:
        known = brute.history(case.program, facts)
        expected = truth.open_rows(case.program, "Q", known, TIN, tout)
    except brute.TooLargeError:
        return
    assert not own.holds or expected.definitive, "a wrong yes"
    assert not own.exact or own.holds == expected.definitive


@examples(3, deep=80)
@given(asked(SMALL) | asked(NEGATED), st.integers(-1, TIN), st.integers(0, 2))
def test_forgettable(given_: tuple[Case, Facts], tmem: int, ahead: int) -> None:
    case, facts = given_
    tout = min(TIN + 1, tmem + ahead)
    own = tidelog.forgettable(case.program, "Q", tables(facts), TIN, tout, tmem)
    other = tidelog.forgettable(plain(case), "Q", tables(facts), TIN, tout, tmem)
    if own.exact and other.exact:
        assert own.holds == other.holds
    known = brute.history(case.program, facts)
    kept = brute.segment(known, tmem)
    try:
        differ = next(truth.differences(case.program, "Q", known, kept, TIN, tout), None)
    except brute.TooLargeError:
        return
    assert not own.holds or differ is None, "a wrong yes"
    assert not own.exact or own.holds == (differ is None)


@pytest.mark.deep
@examples(2)
@given(programs(LONG))
def test_long_windows_are_measured_in_time(case: Case) -> None:
    waits = tidelog.delay(case.program, "Q", budget=2.0)
    assert waits.upper is not None
