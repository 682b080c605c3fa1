"""The traps of absence, each by name: the expected answers are what both oracles say."""

from __future__ import annotations

import pytest
from support import truth
from support.brute import Fact
from support.counterexamples import NAMES, counterexample

from tidelog.language.checks import check
from tidelog.language.printer import print_literal

from . import asp, naive


@pytest.mark.parametrize("name", NAMES)
def test_expected_answers(name: str) -> None:
    case = counterexample(name)
    for evaluate in (naive.evaluate, asp.evaluate):
        answers = evaluate(case.program, case.facts, case.program.outputs, *case.ticks)
        assert answers == case.expected
    assert any(case.expected.values())


def test_absence_counts_in_each_of_them() -> None:
    """Taking the negated atoms away changes the answers, but for the two where it must not."""
    same = set()
    for name in NAMES:
        case = counterexample(name)
        text = "".join(part for part in case.text.splitlines(keepends=True) if part[0] != "%")
        for rule in case.program.rules:
            for atom in rule.negative:
                text = text.replace(f", not {print_literal(atom)}", "", 1)
        program = check(text).program
        answers = naive.evaluate(program, case.facts, case.program.outputs, *case.ticks)
        if answers == case.expected:
            same.add(name)
    assert same == {"either_way", "never_there"}


def test_both_models_without_a_clock() -> None:
    """`P @ T+1 :- not P @ T.` has no first tick to start from, and is refused for that."""
    errors = check("P @ T+1 :- not P @ T.").errors
    assert [e.code.id for e in errors] == ["E104"]


def test_withdrawn_by_a_later_fact() -> None:
    program = counterexample("withdrawn").program
    assert truth.psi(program, "Q") == 1


def test_certain_either_way() -> None:
    program = counterexample("either_way").program
    verdict = truth.open_rows(program, "Q", {Fact("F", ("a",), 0)}, 0, 0)
    assert verdict.certain == {("a",)}
    assert verdict.definitive


def test_a_loss_adds_an_answer() -> None:
    program = counterexample("loss_adds_an_answer").program
    known = {Fact("E", (), 0), Fact("G", (), 0)}
    (difference,) = truth.differences(program, "A", known, known - {Fact("E", (), 0)}, 0, 1)
    assert difference == ({Fact("C", (), 2)}, 2, (), False)
