"""Programs that calculate: the engines give what exact fractions, rounded, give."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle.generate import Case
from oracle.keyed import keyed
from oracle.numbers import programs_with_numbers
from support.batch import agree
from support.deep import examples

import tidelog
from tidelog.evaluation.density import Density
from tidelog.language.checks import check
from tidelog.language.program import Value


@given(programs_with_numbers())
@examples(7, deep=1000)
def test_any_program(case: Case) -> None:
    agree(case)


@given(programs_with_numbers(connected=True, negation=False))
@examples(5, deep=600)
def test_connected_programs(case: Case) -> None:
    agree(case)


@given(programs_with_numbers(), st.randoms(use_true_random=False))
@examples(5, deep=300)
def test_programs_with_a_key(case: Case, random: Random) -> None:
    agree(keyed(case, random))


@given(programs_with_numbers())
@examples(5, deep=300)
def test_programs_whose_inputs_are_not_packed(case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Density, "is_sparse", lambda *_: True)
        agree(case)


def test_a_variable_that_only_an_equation_gives_a_value() -> None:
    """One atom is enough for both names, and is all that is left of the rule."""
    program = check("input E(a: int) @ t. G(I) @ T :- I = J, E(I) @ T, E(J) @ T, 0 + 0 = 0.")
    facts: dict[str, list[tuple[Value, ...]]] = {"E": [(3, 1)]}
    agree(Case("", program.accepted(), facts, ("G",), 0, 2))
    stream = tidelog.Stream(tidelog.parse("input E(a: int) @ t. G(I) @ T :- E(J) @ T, I = J."), "G")
    assert stream.push(1, {"E": [(3,)]}).answers["G"].to_pylist() == [{"i": 3, "time": 1}]


def test_a_variable_that_an_equation_gives_a_value_once_a_redundant_atom_is_gone() -> None:
    """`G(Y)` follows from the rest; then only `Y = X` says what Y is, which is compared before."""
    rules = """
        input E(x: int) @ time.
        G(X) @ T :- E(X) @ T.
        P(X) @ T :- X >= Y, Y = X, G(Y) @ T, E(X) @ T.
    """
    table = tidelog.parse(rules).query("P", {"E": [(3, 0), (4, 1)]})
    assert table.to_pylist() == [{"x": 3, "time": 0}, {"x": 4, "time": 1}]
