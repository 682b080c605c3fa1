"""Delay, Window, containment and redundancy of rules with `not`: bounds are never wrong."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle.naive import evaluate
from support import brute, truth
from support.brute import Fact
from support.deep import examples
from support.programs import NEGATED, Case, Shape, histories, programs

import tidelog
from tidelog.analysis.containment import Budget, Verdict, Witness
from tidelog.analysis.delay import Measure, delay_holds
from tidelog.analysis.dependencies import Class, Dependencies, dependencies
from tidelog.analysis.redundancy import reduced
from tidelog.analysis.unfolding import Cut, Unfolder
from tidelog.analysis.window import window_holds
from tidelog.cli import cli
from tidelog.language.printer import print_literal, print_rule
from tidelog.language.program import Program
from tidelog.logic.core import rules_for, rules_of
from tidelog.logic.normalise import core
from tidelog.views.verdicts import measure_lines, verdict_lines

SMALL = replace(NEGATED, facts=False)
COMPARED = replace(NEGATED, types=("int", "bool"), comparisons=True, facts=False)
RECURSIVE = replace(NEGATED, recursive=True, clock=True, types=("text",))


def deps(program: Program, query: str = "Q") -> Dependencies:
    return dependencies(core(program, [query]), [query])


def replayed(program: Program, query: str, witness: Witness | None, cut: Cut) -> None:
    """The answer is there with all facts and not with those the cut leaves, or the reverse."""
    assert witness is not None
    facts = {Fact(f.predicate, f.args, f.time) for f in witness.facts}
    assert {f.predicate for f in facts} <= set(program.inputs)
    answer = witness.answer
    assert answer.time is not None
    left = {f for f in facts if f.time is None or cut.keeps(f.time - answer.time)}
    given_ = answer.args in brute.answers_at(program, query, facts, answer.time)
    still = answer.args in brute.answers_at(program, query, left, answer.time)
    assert (given_, still) == (not witness.withdrawn, witness.withdrawn)


def bounded(case: Case, measure: Measure, needed: int, cut: Cut) -> bool:
    """What all data needs is allowed, and less than the lower bound is shown to be too little."""
    assert measure.upper is None or needed <= measure.upper
    assert measure.exact == (measure.upper == measure.lower or measure.lower is None)
    if measure.lower:
        replayed(case.program, case.query, measure.witness, cut)
    return measure.exact


def offsets(case: Case, reach: int | None = None) -> tuple[int, int]:
    """Least and greatest offset that makes a difference; far off where none does."""
    try:
        low, high = truth.offsets(case.program, case.query, reach=reach)
    except brute.TooLargeError:
        assume(False)
    return (99, -99) if low is None or high is None else (low, high)


def compared(case: Case, low: int, high: int, budget: float = 1.0) -> Counter[str]:
    """Delay and window against all data of a small domain, and how often bounds meet."""
    count: Counter[str] = Counter()
    waits = tidelog.delay(case.program, case.query, budget=budget)
    cut = Cut(high=(waits.lower or 0) - 1)
    count["measures"] += 1
    count["meet"] += bounded(case, waits, max(0, high), cut)
    for d in {0, waits.upper or 0}:
        keeps = tidelog.window(case.program, case.query, d, budget=budget)
        cut = Cut(low=d - (keeps.lower or 0) + 1)
        count["measures"] += 1
        count["meet"] += bounded(case, keeps, max(0, d - low), cut)
    return count


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "share"), [(SMALL, 0.9), (COMPARED, 0.9)])
def test_bounds_hold_and_mostly_meet(shape: Shape, share: float) -> None:
    count: Counter[str] = Counter()

    @examples(60)
    @given(programs(shape))
    def compare(case: Case) -> None:
        assume(deps(case.program).negated)
        count.update(compared(case, *offsets(case)))

    compare()
    assert count["meet"] >= share * count["measures"], count


@pytest.mark.slow
@examples(3, deep=150)
@given(programs(RECURSIVE))
def test_bounds_with_recursion(case: Case) -> None:
    whole = deps(case.program)
    assume(whole.cls is not Class.BLOCKING and whole.negated)
    assume(not any(edge.point is not None for edge in whole.edges))
    low, high = offsets(case, 4 if whole.recursive else None)
    compared(case, low, high, budget=0.1)
    infinite = tidelog.window(case.program, case.query, 0, budget=0.1)
    if infinite.exact and infinite.lower is None:
        # Proved infinite: what lies as far back as one looks makes a difference.
        assert low <= max(1, whole.phi[case.query]) - 4


@examples(5, deep=400)
@given(programs(SMALL))
def test_decision_forms(case: Case) -> None:
    whole = deps(case.program)
    assume(whole.negated)
    low, high = offsets(case)

    def agrees(verdict: Verdict, expected: bool, cut: Cut) -> None:
        assert expected or verdict.holds is not True
        if verdict.holds is False:
            replayed(case.program, case.query, verdict.witness, cut)

    for d in range(3):
        agrees(delay_holds(whole, d, Budget(1.0)), high <= d, Cut(high=d))
        for s in range(3):
            agrees(window_holds(whole, d, s, Budget(1.0)), low >= d - s, Cut(low=d - s))


# Redundancy


def without_redundancy(program: Program) -> Program:
    kept, _ = reduced(core(program, ["Q"]), ["Q"], Budget(2.0))
    ours = {clause for clock in program.clocks for clause in rules_for(kept, clock)}
    rules = [c.as_rule for c in rules_of(kept) if not c.copies_input and c not in ours]
    return Program((*program.declarations.values(), *program.clocks.values(), *rules))


@pytest.mark.slow
@examples(15, deep=1500)
@given(st.data())
def test_every_predicate_keeps_its_meaning(data: st.DataObject) -> None:
    shapes = [SMALL, COMPARED, RECURSIVE, replace(NEGATED, points=True)]
    case = data.draw(programs(data.draw(st.sampled_from(shapes))))
    assume(deps(case.program).cls is not Class.BLOCKING)
    shorter = without_redundancy(case.program)
    facts = data.draw(histories(case.program, 3, 8))
    left = [name for name in case.program.heads if name in shorter.heads]
    assert evaluate(shorter, facts, left, -4, 6) == evaluate(case.program, facts, left, -4, 6)


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        # Two rules that differ in `not` only are one.
        ("Q @ T :- F @ T, A @ T. Q @ T :- F @ T, not A @ T.", ["Q @ T :- F @ T."]),
        ("Q(X) @ T :- F(X) @ T, not A(X, _) @ T. Q(X) @ T :- F(X) @ T, A(X, Y) @ T.", None),
        # Y is the same twice in one of them: neither can go.
        (
            "Q(X) @ T :- F(X) @ T, not A(_, _) @ T. Q(X) @ T :- F(X) @ T, A(Y, Y) @ T.",
            [
                "Q(X) @ T :- F(X) @ T, not A(_, _) @ T.",
                "Q(X) @ T :- F(X) @ T, A(Y, Y) @ T.",
            ],
        ),
        # No Y at all is not the same as not this Y.
        (
            "Q(X) @ T :- F(X, Y) @ T, not A(X, _) @ T. Q(X) @ T :- F(X, Y) @ T, A(X, Y) @ T.",
            [
                "Q(X) @ T :- F(X, Y) @ T, not A(X, _) @ T.",
                "Q(X) @ T :- F(X, Y) @ T, A(X, Y) @ T.",
            ],
        ),
        # More is asked for, among it that something is absent.
        ("Q @ T :- F @ T. Q @ T :- F @ T, not A @ T+1.", ["Q @ T :- F @ T."]),
        ("Q @ T :- F @ T, not A @ T, not A @ T.", ["Q @ T :- F @ T, not A @ T."]),
        # What binds the variable of a negated atom stays.
        (
            "Q(X) @ T :- F(X) @ T, F(Y) @ T, not A(Y) @ T.",
            ["Q(X) @ T :- F(X) @ T, F(Y) @ T, not A(Y) @ T."],
        ),
        # Never fires.
        ("Q @ T :- F @ T, A @ T, not A @ T. Q @ T :- G @ T.", ["Q @ T :- G @ T."]),
        # Nor does what needs what never fires; and that it does not hold need not be said.
        (
            "N(X) @ T :- N(X) @ T-1. N(X) @ T :- F(X) @ T, X < 1, X > 1."
            " Q(X) @ T :- F(X) @ T, N(X) @ T, not G(X) @ T. Q(X) @ T :- A(X) @ T.",
            ["Q(X) @ T :- A(X) @ T."],
        ),
        (
            "N(X) @ T :- N(X) @ T-1. N(X) @ T :- F(X) @ T, X < 1, X > 1."
            " Q(X) @ T :- F(X) @ T, not N(X) @ T. Q(X) @ T :- A(X) @ T.",
            ["Q(X) @ T :- F(X) @ T.", "Q(X) @ T :- A(X) @ T."],
        ),
        # Frozen facts are not all the facts: that E alone does not give A says nothing.
        (
            "Q(X) @ T :- F(X) @ T, not A(X) @ T. Q(X) @ T :- F(X) @ T, G(X) @ T.",
            [
                "Q(X) @ T :- F(X) @ T, not A(X) @ T.",
                "Q(X) @ T :- F(X) @ T, G(X) @ T.",
            ],
        ),
    ],
)
def test_redundant_rules_and_atoms(rules: str, left: list[str] | None) -> None:
    program = tidelog.check(rules).program
    kept, _ = reduced(core(program, ["Q"]), ["Q"], Budget())
    assert [print_rule(c.shown) for c in rules_of(kept)] == (left or ["Q(X) @ T :- F(X) @ T."])


def test_what_is_left_out_is_named() -> None:
    program = tidelog.parse(
        "input F @ t. input A @ t. Q @ T :- F @ T, A @ T. Q @ T :- F @ T, not A @ T."
    )
    _, left_out = reduced(core(program, ["Q"]), ["Q"], Budget())
    atom, rule = left_out
    assert atom.atom is not None
    assert print_literal(atom.atom) == "A @ T"
    assert rule.atom is None


# Containment


def holds(one: str, other: str) -> bool | None:
    return tidelog.contained(tidelog.parse(one), tidelog.parse(other), "Q", budget=2.0).holds


INPUTS = "input E(x: text) @ t. input A(x: text) @ t. input B(x: text) @ t. "


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        # The frozen body of the first satisfies that of the second, which does not contain it.
        ("Q(X) @ T :- E(X) @ T.", "Q(X) @ T :- E(X) @ T, not A(X) @ T.", False),
        ("Q(X) @ T :- E(X) @ T, not A(X) @ T.", "Q(X) @ T :- E(X) @ T.", True),
        ("Q(X) @ T :- E(X) @ T, not A(X) @ T.", "Q(X) @ T :- E(X) @ T, not A(X) @ T.", True),
        ("Q(X) @ T :- E(X) @ T, not A(X) @ T.", "Q(X) @ T :- E(X) @ T, not A(X) @ T+1.", False),
        # Whichever way it is.
        (
            "Q(X) @ T :- E(X) @ T.",
            "Q(X) @ T :- E(X) @ T, A(X) @ T. Q(X) @ T :- E(X) @ T, not A(X) @ T.",
            True,
        ),
        # What is negated may have more facts in the first program, not in the second.
        (
            "N(X) @ T :- A(X) @ T. N(X) @ T :- B(X) @ T. Q(X) @ T :- E(X) @ T, not N(X) @ T.",
            "N(X) @ T :- A(X) @ T. Q(X) @ T :- E(X) @ T, not N(X) @ T.",
            True,
        ),
        (
            "N(X) @ T :- A(X) @ T. Q(X) @ T :- E(X) @ T, not N(X) @ T.",
            "N(X) @ T :- A(X) @ T. N(X) @ T :- B(X) @ T. Q(X) @ T :- E(X) @ T, not N(X) @ T.",
            False,
        ),
        # Never fires.
        ("Q(X) @ T :- E(X) @ T, A(X) @ T, not A(X) @ T.", "Q(X) @ T :- B(X) @ T.", True),
    ],
)
def test_contained(one: str, other: str, expected: bool) -> None:
    assert holds(INPUTS + one, INPUTS + other) is expected


@examples(7, deep=600)
@given(st.data())
def test_contained_is_never_wrong(data: st.DataObject) -> None:
    case = data.draw(programs(SMALL))
    lines = case.text.split("\n")
    rules = [line for line in lines if not line.startswith("input")]
    dropped = data.draw(st.sampled_from(rules))
    text = "\n".join(line for line in lines if line is not dropped)
    report = tidelog.check(text)
    assume(not report.errors and "Q" in report.program.heads)
    assume(set(report.program.inputs) == set(case.program.inputs))
    other = tidelog.parse(text)
    assume(brute.Shapes.of(other).types["Q"] == brute.Shapes.of(case.program).types["Q"])
    for one, two in ((case.program, other), (other, case.program)):
        verdict = tidelog.contained(one, two, "Q", budget=1.0)
        if verdict.holds:
            facts = data.draw(histories(case.program, 2, 6))
            few, many = (evaluate(p, facts, ["Q"], -4, 6)["Q"] for p in (one, two))
            assert few <= many
        elif verdict.holds is False:
            witness = verdict.witness
            assert witness is not None
            known = {Fact(f.predicate, f.args, f.time) for f in witness.facts}
            answer = witness.answer
            assert answer.time is not None
            assert answer.args in brute.answers_at(one, "Q", known, answer.time)
            assert answer.args not in brute.answers_at(two, "Q", known, answer.time)


@examples(5, deep=400)
@given(programs(SMALL))
def test_a_program_is_contained_in_itself(case: Case) -> None:
    assert tidelog.contained(case.program, case.program, "Q", budget=2.0).holds is True


# By name


def measured(rules: str, query: str = "Q", budget: float = 10.0) -> tuple[Measure, Measure]:
    program = tidelog.parse(rules)
    waits = tidelog.delay(program, query)
    keeps = tidelog.window(program, query, waits.upper, budget=budget)
    for measure, cut in (
        (waits, Cut(high=(waits.lower or 0) - 1)),
        (keeps, Cut(low=(waits.upper or 0) - (keeps.lower or 0) + 1)),
    ):
        if measure.lower:
            replayed(program, query, measure.witness, cut)
    return waits, keeps


EFA = "input E @ t. input F @ t. input A @ t. input V(x: int) @ t. "


@pytest.mark.parametrize(
    ("rules", "delay", "window"),
    [
        # An answer that a later fact withdraws.
        ("Q @ T :- E @ T, not F @ T+1.", 1, 1),
        # Either way: it need not be waited for.
        ("Q @ T :- F @ T, A @ T+1. Q @ T :- F @ T, not A @ T+1.", 0, 0),
        # A double negation through a helper changes nothing.
        ("N @ T :- E @ T, not A @ T+1. Q @ T :- E @ T, not N @ T.", 1, 1),
        ("N @ T :- E @ T, not A @ T. Q @ T :- E @ T, not N @ T.", 0, 0),
        # What hides behind a rule that is blocked by something near.
        ("Q @ T :- E @ T, F @ T+1. Q @ T :- E @ T, not A @ T.", 1, 1),
        # Cannot be: E and no E.
        ("Q @ T :- E @ T, not E @ T, F @ T+3. Q @ T :- E @ T.", 0, 0),
        # Only some values can be absent, for which the rules say so.
        ("P(0) @ T :- F @ T+1. Q @ T :- V(X) @ T, not P(X) @ T.", 1, 1),
        # A timeout looks back only.
        ("Q @ T :- E @ T-3, not E @ T-2, not E @ T-1, not E @ T.", 0, 3),
    ],
)
def test_delay_and_window(rules: str, delay: int, window: int) -> None:
    waits, keeps = measured(EFA + rules)
    assert (waits.lower, waits.upper, waits.exact) == (delay, delay, True)
    assert (keeps.lower, keeps.upper, keeps.exact) == (window, window, True)


def test_a_last_value_may_be_any_time_ago() -> None:
    waits, keeps = measured(
        "input Temp(x: text, v: int) @ t. Q(X, V) @ T :- Temp(X, V) @ T."
        " Q(X, V) @ T+1 :- Q(X, V) @ T, not Temp(X, _) @ T+1."
    )
    assert waits.upper == 0
    assert (keeps.lower, keeps.upper, keeps.exact) == (None, None, True)


def test_what_is_never_seen_needs_the_whole_past() -> None:
    waits, keeps = measured(
        "clock Tick. input E @ t. input F @ t. Seen @ T :- E @ T. Seen @ T+1 :- Seen @ T."
        " Q @ T :- Tick @ T, not Seen @ T.",
        budget=1.0,  # which it spends
    )
    assert waits.upper == 0
    assert keeps.upper is None


def test_a_cycle_through_not_that_must_not_be_called_endless() -> None:
    """Q holds at every other tick after an E, or not at all where N stops it at once."""
    _, keeps = measured(
        "input E @ t. N @ T :- E @ T-1. Q @ T :- E @ T. Q @ T+1 :- Q @ T, not N @ T+1.",
        budget=1.0,  # which it spends
    )
    assert keeps.upper is None or keeps.upper <= 1
    assert not (keeps.exact and keeps.lower is None)


def test_unfolded_queries_show_what_is_absent() -> None:
    program = tidelog.parse(
        "input E(x: text) @ t. input N(x: text, y: text) @ t. P(X) @ T :- E(X) @ T+1."
        " Q(X) @ T :- P(X) @ T, not N(X, _) @ T-1, not N(X, a) @ T."
    )
    unfolder = Unfolder(deps(program))
    (query,) = unfolder.all("Q")
    shown = unfolder.shown(query)
    assert shown == "E(X1) @ T+1, not N(X1, _) @ T-1, not N(X1, a) @ T"


# What people see


def test_a_witness_that_a_fact_withdraws(tmp_path: Path) -> None:
    rules = tmp_path / "rules.tdl"
    rules.write_text(
        "input E(x: text) @ t.\ninput F(x: text) @ t.\nQ(X) @ T :- E(X) @ T, not F(X) @ T+1.\n"
    )
    result = CliRunner().invoke(cli, ["delay", str(rules)])
    assert result.output.splitlines() == [
        "delay: 1 tick; the rules look no further",
        "  0 ticks are not enough:",
        "    E(x) @ 0",
        "    F(x) @ 1  <- not with this",
        "    gives Q(x) @ 0 only without what is marked",
    ]
    told = json.loads(CliRunner().invoke(cli, ["delay", str(rules), "--json"]).output)
    assert told["witness"]["withdrawn"] is True
    assert told["exact"] is True


def test_bounds_that_do_not_meet_say_why() -> None:
    measure = Measure(0, 1, False, reason="the rules look no further", beyond_proof=True)
    assert measure_lines("delay", measure, 0) == [
        "delay: 0 to 1; less may do, which is neither proved nor refuted"
    ]
    unknown = Verdict(None, beyond_proof=True)
    assert verdict_lines(unknown, Cut()) == ["unknown: neither proved nor refuted"]
