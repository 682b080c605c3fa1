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

from tidelog.evaluation.duckdb import Engine


@given(programs_with_numbers())
@examples(60, deep=1000)
def test_any_program(case: Case) -> None:
    agree(case)


@given(programs_with_numbers(connected=True, negation=False))
@examples(40, deep=600)
def test_connected_programs(case: Case) -> None:
    agree(case)


@given(programs_with_numbers(), st.randoms(use_true_random=False))
@examples(20, deep=300)
def test_programs_with_a_key(case: Case, random: Random) -> None:
    agree(keyed(case, random))


@given(programs_with_numbers())
@examples(20, deep=300)
def test_programs_whose_inputs_are_not_packed(case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "_sparse", lambda *_: True)
        agree(case)
