"""What the analyses say of rules that calculate holds for all data over a small domain."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, event, given
from hypothesis import strategies as st
from support import brute, truth
from support.deep import examples
from support.programs import Case, Facts, Shape, histories, programs
from support.replays import updates_replay

import tidelog
from tidelog.analysis.dependencies import Class, dependencies
from tidelog.language.program import Calculation, Program
from tidelog.logic.normalise import core

PLAIN = Shape(types=("int",), arity=1, rules=3, atoms=2, facts=False, arithmetic=True)
NEGATED = Shape(types=("int",), arity=1, rules=3, atoms=2, negated=1, facts=False, arithmetic=True)
TIN = 3


def calculates(program: Program) -> bool:
    sides = [s for r in program.rules for c in r.comparisons for s in (c.left, c.right)]
    return any(isinstance(side, Calculation) for side in sides)


def tables(facts: Facts) -> Any:
    return {name: sorted(rows, key=str) for name, rows in facts.items()}


@st.composite
def asked(draw: st.DrawFn, shape: Shape) -> tuple[Case, Facts]:
    case = draw(programs(shape))
    deps = dependencies(core(case.program, ["Q"]), ["Q"])
    assume(calculates(case.program) and deps.cls is not Class.BLOCKING)
    return case, draw(histories(case.program, TIN, most=4))


@examples(4, deep=400)
@given(programs(PLAIN) | programs(NEGATED))
def test_delay_and_window_are_never_too_small(case: Case) -> None:
    assume(calculates(case.program))
    try:
        low, high = truth.offsets(case.program, "Q")
    except brute.TooLargeError:
        assume(False)
    if low is None or high is None:
        return
    waits = tidelog.delay(case.program, "Q", budget=1.0)
    event("exact" if waits.exact else "bounds")
    assert waits.upper is None or max(0, high) <= waits.upper
    d = waits.upper or 0
    keeps = tidelog.window(case.program, "Q", d, budget=1.0)
    assert keeps.upper is None or max(0, d - low) <= keeps.upper


@examples(4, deep=400)
@given(asked(PLAIN) | asked(NEGATED), st.integers(0, TIN))
def test_definitive(given_: tuple[Case, Facts], tout: int) -> None:
    case, facts = given_
    own = tidelog.definitive(case.program, "Q", tables(facts), TIN, tout)
    try:
        known = brute.history(case.program, facts)
        expected = truth.open_rows(case.program, "Q", known, TIN, tout)
    except brute.TooLargeError:
        assume(False)
    event(f"{own.holds} {own.exact}")
    assert not own.holds or expected.definitive, "a wrong yes"
    if own.updates is not None:  # with values that the small domain may not have
        updates_replay(case, known, own, TIN)
    else:
        assert own.holds or not own.exact or not expected.definitive


@examples(4, deep=300)
@given(asked(PLAIN) | asked(NEGATED), st.integers(-1, TIN), st.integers(0, 2))
def test_forgettable(given_: tuple[Case, Facts], tmem: int, ahead: int) -> None:
    case, facts = given_
    tout = min(TIN + 1, tmem + ahead)
    own = tidelog.forgettable(case.program, "Q", tables(facts), TIN, tout, tmem)
    known = brute.history(case.program, facts)
    kept = brute.segment(known, tmem)
    try:
        differ = next(truth.differences(case.program, "Q", known, kept, TIN, tout), None)
    except brute.TooLargeError:
        assume(False)
    event(f"{own.holds} {own.exact}")
    assert not own.holds or differ is None, "a wrong yes"


def test_what_is_calculated_in_a_long_rule_has_a_value() -> None:
    """Rules of more than three atoms are looked at in steps; D is known in the last one only."""
    program = tidelog.parse(
        "input E @ t. input F(x: int) @ t.\n"
        "Q(D) @ T :- F(J) @ T, E @ T, E @ T-1, E @ T+1, D = J + 1."
    )
    facts = {"E": [(0,), (1,)], "F": [(4, 1)]}
    early = tidelog.definitive(program, "Q", facts, 1, 1)
    assert not early.holds
    assert [p.args for p in early.pending] == [(5,)]
    assert tidelog.definitive(program, "Q", {**facts, "E": [(0,), (1,), (2,)]}, 2, 1).holds
