"""Containment and redundancy of generated programs, against brute force over small data."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle.naive import evaluate
from support import brute
from support.brute import Fact
from support.deep import examples
from support.programs import Case, Facts, Shape, histories, programs

import tidelog
from tidelog.analysis.containment import Budget
from tidelog.analysis.dependencies import Class, dependencies
from tidelog.analysis.redundancy import reduced
from tidelog.cli import cli
from tidelog.errors import NoAnswer
from tidelog.language.program import Program
from tidelog.logic.core import rules_for, rules_of
from tidelog.logic.normalise import core

COMPARED = Shape(types=("int", "float", "text", "bool"), comparisons=True)
POINTS = Shape(points=True)
RECURSIVE = Shape(recursive=True)


@st.composite
def pairs(draw: st.DrawFn, shape: Shape) -> tuple[Case, Case]:
    """A program, and the same with one rule left out, added or swapped for another."""
    case = draw(programs(shape))
    lines = case.text.split("\n")
    inputs = [line for line in lines if line.startswith("input")]
    rules = [line for line in lines if not line.startswith("input")]
    changed = list(rules)
    if len(rules) > 1 and draw(st.booleans()):
        changed.remove(draw(st.sampled_from(rules)))
    if draw(st.booleans()):
        donor = draw(st.sampled_from(rules))
        literals = donor[:-1].split(" :- ")
        if len(literals) == 2:
            atoms = literals[1].split(", ")
            kept = [a for a in atoms if draw(st.booleans())] or atoms
            changed.append(f"{literals[0]} :- {', '.join(kept)}.")
    text = "\n".join([*inputs, *changed])
    report = tidelog.check(text)
    assume(not report.errors and any(r.startswith("Q") for r in changed))
    other = tidelog.parse(text)
    # A predicate that lost its last rule would be an input, and no longer the same one.
    assume(set(other.inputs) == set(case.program.inputs))
    assume(brute.Shapes.of(other).types["Q"] == brute.Shapes.of(case.program).types["Q"])
    return case, Case(text, other, "Q")


def counterexample(one: Case, other: Case, fresh: int) -> bool:
    """Whether data over a small domain gives one query an answer that the other does not have."""
    both = Program((*one.program.statements, *other.program.statements))
    dom = brute.domain(both, fresh=fresh)
    rows = {name: brute.every_row(one.program, name, dom) for name in one.program.inputs}
    reach = max(brute.radius(one.program), brute.radius(other.program))
    for at in brute.output_times(both, reach):
        try:
            supported = brute.supports(one.program, "Q", at, lambda name, _: rows[name], reach)
        except brute.TooLargeError:
            assume(False)
        for answer, reasons in supported.items():
            for support in reasons:
                if answer not in brute.answers_at(other.program, "Q", support, at):
                    return True
    return False


def agree(one: Case, other: Case, fresh: int = 2) -> None:
    verdict = tidelog.contained(one.program, other.program, "Q")
    assert verdict.holds is not None
    if verdict.holds:
        assert not counterexample(one, other, fresh)
        return
    witness = verdict.witness
    assert witness is not None
    facts = {Fact(f.predicate, f.args, f.time) for f in witness.facts}
    answer = witness.answer
    assert answer.time is not None
    assert answer.args in brute.answers_at(one.program, "Q", facts, answer.time)
    assert answer.args not in brute.answers_at(other.program, "Q", facts, answer.time)


@examples(9, deep=800)
@given(pairs(Shape()))
def test_contained(both: tuple[Case, Case]) -> None:
    agree(*both)
    agree(*reversed(both))


@examples(7, deep=600)
@given(pairs(COMPARED))
def test_contained_with_comparisons(both: tuple[Case, Case]) -> None:
    agree(*both, fresh=1)
    agree(*reversed(both), fresh=1)


@examples(4, deep=250)
@given(pairs(POINTS))
def test_contained_with_explicit_times(both: tuple[Case, Case]) -> None:
    agree(*both)
    agree(*reversed(both))


@examples(7, deep=600)
@given(programs(COMPARED))
def test_a_program_is_contained_in_itself(case: Case) -> None:
    assert tidelog.contained(case.program, case.program, "Q").holds is True


@examples(7, deep=300)
@given(programs(Shape(negated=1, ticks=3, rules=3)))
def test_a_program_with_absence_and_windows_is_never_outside_itself(case: Case) -> None:
    """What a window looks at and the window itself are two predicates of one name."""
    assume(dependencies(core(case.program, ["Q"]), ["Q"]).cls is Class.NONRECURSIVE)
    assert tidelog.contained(case.program, case.program, "Q", budget=1.0).holds is not False


# By hand


def holds(one: str, other: str, query: str = "P") -> bool | None:
    return tidelog.contained(tidelog.parse(one), tidelog.parse(other), query).holds


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        # An input that has facts or rules in one program only is the same input.
        ("input E @ t. P @ T :- E @ T.", "input E @ t. E @ 5. P @ T :- E @ T.", True),
        ("input E @ t. E @ 5. P @ T :- E @ T.", "input E @ t. P @ T :- E @ T.", False),
        ("input E @ t. output E, P. P @ T :- E @ T.", "input E @ t. P @ T :- E @ T.", True),
        # Heads at explicit times need no fact near them.
        ("P @ 9 :- E @ 2.", "P @ 9 :- E @ 2.", True),
        ("P(X) @ 9 :- N(X).", "P(X) @ 9 :- N(X).", True),
        ("P @ 9 :- E @ 2, F @ 3.", "P @ 9 :- E @ 2.", True),
        ("P @ 9 :- E @ 2.", "P @ 8 :- E @ 2.", False),
        # What lies at an explicit time may be far from the answer, or not.
        ("P @ T :- E @ T, F @ 5.", "P @ T :- E @ T.", True),
        (
            "P @ T :- E @ T, E @ T-14, F @ 5.",
            "P @ T :- E @ T, R @ 5. R @ T :- E @ T-15, F @ T.",
            False,
        ),
        # Recursion unfolds for ever, yet one step can be enough.
        ("P @ T+1 :- P @ T, E @ T. P @ T :- F @ T.", "P @ T+1 :- P @ T. P @ T :- F @ T.", None),
        ("P @ T :- F @ T, E @ T-1.", "P @ T+1 :- P @ T. P @ T :- F @ T.", True),
        ("P @ T :- F @ T-3.", "P @ T+1 :- P @ T. P @ T :- F @ T.", True),
        ("P @ T :- F @ T+3.", "P @ T+1 :- P @ T. P @ T :- F @ T.", False),
        # Integers have neighbours, bools two values.
        ("P @ T :- E(V) @ T, V > 2.", "P @ T :- E(V) @ T, V >= 3.", True),
        ("P @ T :- E(V) @ T, V > 2.5.", "P @ T :- E(V) @ T, V >= 3.0.", False),
        ("P @ T :- E(true) @ T. P @ T :- E(false) @ T.", "P @ T :- E(X) @ T.", True),
        (
            "input E(b: bool) @ t. P @ T :- E(X) @ T.",
            "P @ T :- E(true) @ T. P @ T :- E(false) @ T.",
            True,
        ),
        ("P @ T :- E(X) @ T.", "P @ T :- E(true) @ T. P @ T :- E(false) @ T.", True),
        (
            "P @ T :- A(X) @ T. A(X) @ T :- E(X) @ T.",
            "P @ T :- E(true) @ T. P @ T :- E(false) @ T.",
            True,
        ),
        # A window over an input is not that input.
        (
            "input F(x, y) @ t. P(X) @ T :- E(X) @ T, not some F(X, _) @ [T-3, T].",
            "input F(x, y) @ t. P(X) @ T :- E(X) @ T, not some F(X, _) @ [T-3, T].",
            True,
        ),
        # A comparison that cannot hold asks for nothing.
        ("P @ T :- E(V) @ T, V > 3, V < 2.", "P @ T :- F(V) @ T, V > 1.", True),
    ],
)
def test_by_hand(one: str, other: str, expected: bool | None) -> None:
    if expected is None:
        verdict = tidelog.contained(tidelog.parse(one), tidelog.parse(other), "P", budget=0.2)
        assert verdict.holds is not False
    else:
        assert holds(one, other) is expected


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        (
            "P(1) @ T :- E @ T.",
            "P(1.5) @ T :- E @ T.",
            "P has int where the other program has float",
        ),
        ("P(X) @ T :- E(X) @ T.", "P(X, X) @ T :- E(X) @ T.", "P has another form"),
        ("P @ T :- E @ T, N(X).", "P @ T :- E @ T, N(X) @ T.", "N has another form"),
    ],
)
def test_what_cannot_be_compared(one: str, other: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(NoAnswer, match=message):
        holds(one, other)
    files = tmp_path / "one.tdl", tmp_path / "other.tdl"
    for file, text in zip(files, (one, other), strict=True):
        file.write_text(text)
    said = CliRunner().invoke(cli, ["contained", *map(str, files), "--query", "P"])
    assert said.exit_code == 1
    assert message in said.output
    assert isinstance(said.exception, SystemExit)


# Redundancy


def without_redundancy(case: Case) -> tuple[Program, int]:
    whole = core(case.program, [case.query])
    kept, redundant = reduced(whole, [case.query], Budget(2.0))
    rules = [clause.as_rule for clause in rules_of(kept) if not clause.copies_input]
    inputs = tuple(case.program.declarations.values())
    return Program((*inputs, *rules)), len(redundant)


def same_answers(case: Case, facts: Facts) -> None:
    shorter, _ = without_redundancy(case)
    before = evaluate(case.program, facts, ["Q"], -8, 10)
    assert evaluate(shorter, facts, ["Q"], -8, 10) == before


@examples(20, deep=2000)
@given(st.data())
def test_without_redundancy_the_answers_are_the_same(data: st.DataObject) -> None:
    case = data.draw(programs(data.draw(st.sampled_from([Shape(), COMPARED, POINTS, RECURSIVE]))))
    assume(dependencies(core(case.program, ["Q"]), ["Q"]).cls is not Class.BLOCKING)
    same_answers(case, data.draw(histories(case.program, 3, 8)))


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        ("Q @ T :- E @ T. Q @ T :- E @ T, F @ T+1.", 1),
        ("Q(X) @ T :- E(X) @ T. Q(a) @ T :- E(a) @ T, F @ T+1.", 1),
        ("Q(X) @ T :- E(X, Y) @ T. Q(X) @ T :- E(X, X) @ T.", 1),
        ("Q @ T :- A @ T. A @ T :- E @ T. Q @ T :- E @ T, G @ T.", 2),
        ("Q @ T :- E(X) @ T, E(Y) @ T.", 1),
        # Each of the two is contained in the other: one of them must stay.
        ("Q @ T :- E @ T, F @ T. Q @ T :- F @ T, E @ T.", 1),
        ("Q @ T :- E(V) @ T, V > 1. Q @ T :- E(V) @ T, V > 2.", 1),
        ("Q @ T :- E @ T. Q @ T+1 :- Q @ T. Q @ T+2 :- Q @ T.", 2),
        ("Q @ T :- E(V) @ T, V > 2, V < 1. Q @ T :- F @ T.", 1),
    ],
)
def test_redundant_rules_go(rules: str, left: int) -> None:
    program = tidelog.parse(rules)
    kept, _ = reduced(core(program, ["Q"]), ["Q"], Budget())
    assert len(rules_of(kept)) == left


def test_what_holds_before_an_explicit_time_need_not_hold_after_it() -> None:
    """F @ T gives R @ 5 only up to T = 5, so that the last rule says something of its own."""
    program = tidelog.parse(
        "Q @ T :- E @ T, R @ 5. R @ T :- F @ T. R @ T+1 :- R @ T. Q @ T :- E @ T, F @ T."
    )
    kept, redundant = reduced(core(program, ["Q"]), ["Q"], Budget())
    assert not redundant
    assert len(rules_of(kept)) == 4


def test_redundant_atoms_go() -> None:
    program = tidelog.parse("Q(X) @ T :- E(X) @ T, E(Y) @ T, A(X) @ T. A(X) @ T :- E(X) @ T.")
    kept, redundant = reduced(core(program, ["Q"]), ["Q"], Budget())
    (rule,) = (clause.as_rule for clause in rules_for(kept, "Q"))
    assert len(rule.atoms) == 1
    assert len(redundant) == 2
