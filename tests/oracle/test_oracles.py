"""The oracles agree with each other, with answers worked out by hand, and are worth running."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.deep import examples

from tidelog.analysis.dependencies import Class, dependencies
from tidelog.language.checks import check
from tidelog.language.program import Negated, Program, Rule, Statement, TimeOffset, TimePoint
from tidelog.logic.normalise import core

from . import asp, naive
from .generate import Case, programs_and_facts
from .horizon import Answers, Facts, default_margin, horizon
from .keyed import keyed
from .negation import programs_with_not

TURBINES = """
input Temp(device: text, level: text) @ time.
input Near(a: text, b: text).
Flag(X)    @ T    :- Temp(X, high) @ T.
Cool(X)    @ T+1  :- Flag(X) @ T, Flag(X) @ T+1.
Shdn(X)    @ T+1  :- Cool(X) @ T, Flag(X) @ T+1.
Malfunc(X) @ T-2  :- Shdn(X) @ T.
AtRisk(Y)  @ T    :- Shdn(X) @ T, Near(X, Y).
AtRisk(X)  @ T+1  :- AtRisk(X) @ T.
"""


def both(text: str, facts: Facts, low: int, high: int, margin: int | None = None) -> Answers:
    """What the two oracles say about every output of a program."""
    program = check(text).accepted()
    answers = naive.evaluate(program, facts, program.outputs, low, high, margin)
    assert asp.evaluate(program, facts, program.outputs, low, high, margin) == answers
    return answers


def at(*ticks: int) -> set[tuple[int]]:
    return {(tick,) for tick in ticks}


# By hand


def test_turbines() -> None:
    high = {("a", "high", t) for t in (3, 4, 5, 6)} | {("b", "high", t) for t in (3, 4)}
    facts: Facts = {"Temp": high | {("b", "low", 5)}, "Near": {("a", "b"), ("b", "c")}}
    answers = both(TURBINES, facts, 0, 8)
    assert answers["Flag"] == {row[::2] for row in high}
    assert answers["Cool"] == {("a", 4), ("a", 5), ("a", 6), ("b", 4)}
    assert answers["Shdn"] == {("a", 5), ("a", 6)}
    assert answers["Malfunc"] == {("a", 3), ("a", 4)}
    assert answers["AtRisk"] == {("b", t) for t in (5, 6, 7, 8)}


@pytest.mark.parametrize("far", [1, 60, 10**6])
def test_rules_leave_the_data_and_come_back(far: int) -> None:
    text = f"A @ T+{far} :- E @ T. B @ T :- A @ T+{far}. C @ T :- A @ T-{far}."
    assert both(text, {"E": at(0, 5)}, 0, 5)["B"] == at(0, 5)
    assert both(text, {"E": at(0, 5)}, 2 * far, 2 * far + 3)["C"] == at(2 * far)


def test_offsets_beyond_clingo() -> None:
    text = f"A @ T+{2**40} :- E @ T. B @ T :- A @ T+{2**40}, E @ T+1."
    program = check(text).accepted()
    facts = {"E": at(0, 1, 7)}
    assert naive.evaluate(program, facts, ["B"], -9, 9) == {"B": at(0)}
    assert not asp.fits(program, facts, -9, 9)


def test_persistence() -> None:
    facts = {"E": {("a", 0), ("b", 4)}}
    forward = both("P(X) @ T :- E(X) @ T. P(X) @ T+3 :- P(X) @ T.", facts, -5, 8)
    assert forward["P"] == {("a", 0), ("a", 3), ("a", 6), ("b", 4), ("b", 7)}
    backward = both("P(X) @ T :- E(X) @ T. P(X) @ T-3 :- P(X) @ T.", facts, -5, 8)
    assert backward["P"] == {("a", 0), ("a", -3), ("b", 4), ("b", 1), ("b", -2), ("b", -5)}


def test_two_periods() -> None:
    text = "P @ T :- E @ T. P @ T+3 :- P @ T. P @ T+5 :- P @ T."
    assert both(text, {"E": at(0)}, 0, 9)["P"] == at(0, 3, 5, 6, 8, 9)


def test_two_ways_out_and_back() -> None:
    # Out in steps of 5, back in steps of 3: every tick, though 1 needs 10 first.
    text = "P @ T :- E @ T. P @ T+5 :- P @ T. Q @ T :- P @ T. Q @ T-3 :- Q @ T."
    answers = both(text, {"E": at(0)}, -2, 2)
    assert answers["Q"] == at(-2, -1, 0, 1, 2)
    assert both(text, {"E": at(0)}, -2, 2, margin=0)["Q"] == at(0)


def test_mutual_recursion() -> None:
    text = "Odd @ T+1 :- Even @ T. Even @ T+1 :- Odd @ T. Even @ T :- Start @ T."
    answers = both(text, {"Start": at(2)}, 0, 6)
    assert answers == {"Odd": at(3, 5), "Even": at(2, 4, 6)}


def test_transitive_closure() -> None:
    text = "Path(X, Y) :- Near(X, Y). Path(X, Z) :- Path(X, Y), Near(Y, Z)."
    facts = {"Near": {("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")}}
    loop = {(x, y) for x in "abc" for y in "abc"}
    assert both(text, facts, 0, 0)["Path"] == loop | {("d", y) for y in "abc"}


def test_explicit_times() -> None:
    text = """
    P(X) @ T :- E(X) @ T, F(X) @ 5.   % a fact there counts everywhere
    Q @ 9 :- E(X) @ T, X != b.        % any time counts there
    R(X) :- E(X) @ 2.                 % and this one is rigid
    F(c) @ 5.
    """
    facts = {"E": {("a", 1), ("b", 2), ("c", 3)}, "F": {("a", 5), ("b", 4)}}
    assert both("input F(x: text) @ t. " + text, facts, 0, 9) == {
        "P": {("a", 1), ("c", 3)},
        "Q": at(9),
        "R": {("b",)},
        "F": {("a", 5), ("b", 4), ("c", 5)},
    }


def test_two_time_variables() -> None:
    text = "P(X) @ T :- E(X) @ T, F(X) @ S, F(X) @ S+1. G(X) :- E(X) @ T, F(X) @ T."
    facts = {"E": {("a", 1), ("b", 2)}, "F": {("a", 7), ("a", 8), ("b", 2), ("b", 4)}}
    assert both(text, facts, 0, 9) == {"P": {("a", 1)}, "G": {("b",)}}


def test_comparisons_and_types() -> None:
    text = """
    input M(x: text, n: int, v: float, b: bool) @ time.
    Int(N) @ T :- M(_, N, _, _) @ T, N >= 2, 3 != N.
    Float(V) @ T :- M(_, _, V, _) @ T, V > 1, V <= 2.
    Exact @ T :- M(_, _, 2, _) @ T.
    Bool(X) @ T :- M(X, _, _, B) @ T, B != false.
    Text(X) @ T :- M(X, _, _, _) @ T, X < "b".
    Same(X) @ T :- M(X, N, _, _) @ T, M(Y, N, _, _) @ T, X != Y.
    """
    rows = {
        ("A", 1, 1.0, True, 0),
        ("a\x00", 2, 1.5, False, 0),
        ("b", 3, 2.0, True, 0),
        ("\U0001f30a", 10**12, 2.5, False, 0),
        ("\uffff", 10**12, -0.5, False, 0),
    }
    assert both(text, {"M": rows}, 0, 0) == {
        "Int": {(2, 0), (10**12, 0)},
        "Float": {(1.5, 0), (2.0, 0)},
        "Exact": at(0),
        "Bool": {("A", 0), ("b", 0)},
        "Text": {("A", 0), ("a\x00", 0)},
        "Same": {("\U0001f30a", 0), ("\uffff", 0)},
    }


def test_repeated_and_anonymous_variables() -> None:
    text = "P(X) @ T :- E(X, X) @ T. Q @ T :- E(_, _) @ T, E(_, c) @ T."
    facts = {"E": {("a", "a", 0), ("a", "b", 1), ("b", "c", 2), ("c", "c", 3)}}
    assert both(text, facts, 0, 3) == {"P": {("a", 0), ("c", 3)}, "Q": at(2, 3)}


def test_an_input_with_rules() -> None:
    text = "input E @ t. output E. E @ T+2 :- E @ T. E @ 1."
    assert both(text, {"E": at(4)}, 0, 6)["E"] == at(1, 3, 4, 5, 6)


def test_a_margin() -> None:
    program = check("A @ T+5 :- E @ T. B @ T :- A @ T-2, E @ T.").accepted()
    assert default_margin(program) == 2 * 5
    assert horizon(program, {"E": at(-7)}, 0, 9) == (-17, 19)
    assert horizon(program, {"E": at(-7)}, 0, 9, margin=1) == (-8, 10)


def test_a_model_can_be_too_large() -> None:
    program = check("P @ 0. P @ T+1 :- P @ T.").accepted()
    with pytest.raises(naive.TooLargeError):
        naive.evaluate(program, {}, ["P"], 0, 10**9, limit=1000)


# Absence, by hand


def test_absence_of_inputs_and_of_derived_facts() -> None:
    text = """
    input E(x: text) @ t. input F(x: text, n: int) @ t. input Known(x: text).
    New(X) @ T :- E(X) @ T, not E(X) @ T-1.
    Bare(X) @ T :- E(X) @ T, not F(X, _) @ T.
    Strange(X) @ T :- E(X) @ T, not Known(X).
    Zero(X) @ T :- E(X) @ T, F(X, _) @ T, not F(X, 0) @ T.
    Old(X) @ T :- E(X) @ T, not New(X) @ T.
    Before(X) @ T :- E(X) @ T, not E(_) @ 9.
    """
    facts: Facts = {
        "E": {("a", 1), ("a", 2), ("b", 2), ("a", 4)},
        "F": {("a", 0, 1), ("a", 1, 1), ("b", 1, 2)},
        "Known": {("a",)},
    }
    assert both(text, facts, 0, 9) == {
        "New": {("a", 1), ("b", 2), ("a", 4)},
        "Bare": {("a", 2), ("a", 4)},
        "Strange": {("b", 2)},
        "Zero": {("b", 2)},
        "Old": {("a", 2)},
        "Before": facts["E"],
    }


def test_a_timeout_fires_once() -> None:
    text = """input Beat(x: text) @ t.
    Lost(X) @ T :- Beat(X) @ T-3, not Beat(X) @ T-2, not Beat(X) @ T-1, not Beat(X) @ T."""
    facts = {"Beat": {("a", 0), ("a", 2), ("a", 9), ("b", 4)}}
    assert both(text, facts, 0, 20)["Lost"] == {("a", 5), ("a", 12), ("b", 7)}


def test_the_last_value() -> None:
    text = """input Temp(x: text, v: int) @ t.
    Level(X, V) @ T :- Temp(X, V) @ T.
    Level(X, V) @ T+1 :- Level(X, V) @ T, not Temp(X, _) @ T+1."""
    facts = {"Temp": {("a", 5, 0), ("a", 7, 3), ("a", 8, 3), ("b", 1, 4)}}
    assert both(text, facts, 0, 5)["Level"] == {
        *((("a", 5, t)) for t in (0, 1, 2)),
        *((("a", v, t)) for t in (3, 4, 5) for v in (7, 8)),
        *((("b", 1, t)) for t in (4, 5)),
    }


def test_silence_after_an_alarm() -> None:
    text = "input Hot @ t. Alarm @ T :- Hot @ T, not Alarm @ T-1, not Alarm @ T-2."
    hot = at(*range(10), 11)
    assert both(text, {"Hot": hot}, 0, 20)["Alarm"] == at(0, 3, 6, 9)


def test_a_clock_starts_with_the_data_and_not_with_the_question() -> None:
    text = "input E @ t. input F @ t. clock Tick. Odd @ T+1 :- Tick @ T, not Odd @ T."
    facts = {"E": at(6), "F": at(3)}
    for low in (-9, 4, 7):
        answers = both(text, facts, low, 10)
        assert answers["Odd"] == at(*(t for t in (4, 6, 8, 10) if t >= low))
    assert both(text, {"E": set()}, 0, 9)["Odd"] == set()


def test_a_double_negation_through_a_helper() -> None:
    text = """input E @ t. input F @ t.
    Q @ T :- E @ T, not Not @ T. Not @ T :- E @ T, not F @ T+1."""
    assert both(text, {"E": at(0, 1, 2), "F": at(1, 3)}, -5, 9)["Q"] == at(0, 2)


def test_a_cycle_that_goes_ahead_and_further_back() -> None:
    text = "input E @ t. P @ T :- Q @ T+3. Q @ T :- E @ T, not P @ T-4."
    answers = both(text, {"E": at(*range(6))}, -9, 9)
    # Q at t and at t-1 exclude each other.
    assert answers["Q"] == at(0, 2, 4)
    assert answers["P"] == at(-3, -1, 1)


def test_three_alarms_within_five_ticks() -> None:
    text = "input Hot @ t. Alarm @ T :- Hot @ T, N = count(Alarm @ [T-5, T-1]), N < 3."
    hot = {"Hot": at(*range(10), 11)}
    program = check(text).accepted()
    assert naive.evaluate(program, hot, ["Alarm"], 0, 20)["Alarm"] == at(0, 1, 2, 6, 7, 8)


def test_a_budget() -> None:
    text = """input Ask(v: int) @ t.
    Grant(V) @ T :- Ask(V) @ T, S = sum(W : Grant(W) @ [T-3, T-1]), S + V <= 10.
    Twice(V) @ T :- Grant(V) @ T. Twice(V) @ T :- Twice(V) @ T, Grant(_) @ T-1."""
    facts = {"Ask": {(6, 0), (5, 1), (4, 2), (3, 3), (9, 4), (9, 6)}}
    program = check(text).accepted()
    answers = naive.evaluate(program, facts, ["Grant"], 0, 20)
    # 6; not 11; 10; not 13; not 13; 9, when nothing is left of the ticks before.
    assert answers["Grant"] == {(6, 0), (4, 2), (9, 6)}


def test_a_program_that_means_nothing() -> None:
    """What `check` refuses: two stable models, or none."""
    program = check("input E @ t. P @ T :- E @ T, not P @ T.").program
    with pytest.raises(naive.NotTotalError, match="P: 1 facts"):
        naive.evaluate(program, {"E": at(0)}, ["P"], 0, 0)
    with pytest.raises(ValueError, match="unpack"):
        asp.evaluate(program, {"E": at(0)}, ["P"], 0, 0)
    two = check("input E @ t. P @ T :- E @ T, not Q @ T. Q @ T :- E @ T, not P @ T.").program
    with pytest.raises(ValueError, match="unpack"):
        asp.evaluate(two, {"E": at(0)}, ["P"], 0, 0)


# At random


def agree(case: Case) -> None:
    _, program, facts, queries, low, high = case
    answers = naive.evaluate(program, facts, queries, low, high)
    if asp.fits(program, facts, low, high):
        assert asp.evaluate(program, facts, queries, low, high) == answers


@given(programs_and_facts())
@examples(8, deep=750)
def test_naive_is_clingo(case: Case) -> None:
    agree(case)


@given(programs_and_facts(hostile=True))
@examples(5, deep=500)
def test_naive_is_clingo_on_hostile_values(case: Case) -> None:
    agree(case)


@given(programs_and_facts(recursive=False))
@examples(5, deep=500)
def test_the_default_margin_is_enough_without_recursion(case: Case) -> None:
    _, program, facts, queries, low, high = case
    wider = 3 * default_margin(program) + 7
    answers = naive.evaluate(program, facts, queries, low, high)
    assert naive.evaluate(program, facts, queries, low, high, margin=wider) == answers


@given(programs_and_facts(connected=True, explicit_times=False, huge=False))
@examples(10, deep=1000)
def test_the_default_margin_is_enough_where_time_runs_one_way(case: Case) -> None:
    _, program, facts, queries, low, high = case
    if dependencies(core(program), queries).cls is Class.BLOCKING:
        return
    wider = default_margin(program) + 100
    answers = naive.evaluate(program, facts, queries, low, high)
    assert naive.evaluate(program, facts, queries, low, high, margin=wider) == answers


@given(programs_with_not(both_ways=True))
@examples(10, deep=1000)
def test_naive_is_clingo_with_not(case: Case) -> None:
    agree(case)


@given(programs_with_not(hostile=True, huge=True))
@examples(5, deep=500)
def test_naive_is_clingo_with_not_on_hostile_values(case: Case) -> None:
    agree(case)


@given(programs_with_not(explicit_times=False))
@examples(8, deep=750)
def test_tick_by_tick_is_by_turns(case: Case) -> None:
    """Two ways to derive what hangs on its own absence; the second is that of aggregates."""

    def absent_inside(program: Program, names: set[str]) -> bool:
        rules = [rule for rule in program.rules if rule.head.predicate in names]
        return any(atom.predicate in names for rule in rules for atom in rule.negative)

    _, program, facts, queries, low, high = case
    answers = naive.evaluate(program, facts, queries, low, high)
    by_tick = naive.evaluate(program, facts, queries, low, high, tick_by_tick=absent_inside)
    assert by_tick == answers


@given(programs_with_not())
@examples(8, deep=750)
def test_the_default_margin_is_enough_with_not(case: Case) -> None:
    _, program, facts, queries, low, high = case
    wider = 2 * default_margin(program) + 100
    answers = naive.evaluate(program, facts, queries, low, high)
    assert naive.evaluate(program, facts, queries, low, high, margin=wider) == answers


@given(programs_with_not(), st.randoms(use_true_random=False))
@examples(5, deep=500)
def test_naive_is_clingo_with_not_and_a_key(case: Case, random: Random) -> None:
    agree(keyed(case, random))


# The generator


@pytest.mark.grows
def test_generated_programs_are_worth_running() -> None:
    """Most have answers, and every kind of program is among them."""
    seen: Counter[str] = Counter()

    @given(programs_and_facts())
    @examples(200)
    def look(case: Case) -> None:
        deps = dependencies(core(case.program), case.queries)
        answers = naive.evaluate(case.program, case.facts, case.queries, case.low, case.high)
        seen["all"] += 1
        seen["with answers"] += any(answers.values())
        seen["recursive"] += bool(deps.recursive)
        seen[deps.cls.name] += 1
        seen["huge"] += largest_offset(case) >= 10_000

    look()
    shares = {kind: n / seen["all"] for kind, n in seen.items()}
    assert shares["with answers"] >= 0.65
    assert shares["recursive"] >= 0.2
    assert shares["huge"] >= 0.05
    assert all(shares[kind.name] >= 0.05 for kind in Class)


@pytest.mark.slow
def test_generated_programs_with_not_are_worth_running() -> None:
    """Absence makes a difference in most, and every kind of it is among them."""
    seen: Counter[str] = Counter()

    @given(programs_with_not(huge=True))
    @examples(150)
    def look(case: Case) -> None:
        _, program, facts, queries, low, high = case
        deps = dependencies(core(program), queries)
        answers = naive.evaluate(program, facts, queries, low, high)
        seen["all"] += 1
        seen["with answers"] += any(answers.values())
        positive = replace(program, statements=tuple(map(without_not, program.statements)))
        seen["matters"] += naive.evaluate(positive, facts, queries, low, high) != answers
        seen["cycles"] += bool(deps.cycles_through_not)
        seen["clocks"] += bool(program.clocks)
        seen["recursive"] += bool(deps.recursive)
        for rule in program.rules:
            for atom in rule.negative:
                seen["of inputs"] += atom.predicate in program.inputs
                seen["of derived"] += atom.predicate in program.heads
                seen["of rigid"] += atom.time is None
                seen["fixed"] += isinstance(atom.time, TimePoint)
                seen["any value"] += any(v.anonymous for v in atom.variables)

    look()
    shares = {kind: n / seen["all"] for kind, n in seen.items()}
    assert shares["with answers"] >= 0.65
    assert shares["matters"] >= 0.4
    for kind in ("cycles", "clocks", "recursive", "of rigid", "fixed"):
        assert shares[kind] > 0, kind
    assert all(shares[kind] >= 0.3 for kind in ("of inputs", "of derived", "any value"))


def without_not(statement: Statement) -> Statement:
    if not isinstance(statement, Rule):
        return statement
    body = tuple(part for part in statement.body if not isinstance(part, Negated))
    return replace(statement, body=body)


@given(programs_and_facts(recursive=False, connected=True, huge=False, explicit_times=False))
@examples(5, deep=500)
def test_a_restricted_shape(case: Case) -> None:
    deps = dependencies(core(case.program), case.queries)
    assert deps.cls is Class.NONRECURSIVE
    assert not deps.pinned
    assert largest_offset(case) <= 128
    assert math.isfinite(deps.radius or 0)


def largest_offset(case: Case) -> int:
    atoms = (atom for rule in case.program.rules for atom in (rule.head, *rule.atoms))
    return max((abs(a.time.offset) for a in atoms if isinstance(a.time, TimeOffset)), default=0)
