"""Programs with aggregates: the engine gives what sets of facts and exact fractions give."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle.aggregates import programs_with_aggregates
from oracle.generate import Case
from oracle.keyed import keyed
from support.batch import agree
from support.deep import examples

from tidelog.evaluation.duckdb import Engine


@given(programs_with_aggregates())
@examples(120, deep=1200)
def test_any_program(case: Case) -> None:
    agree(case)


@given(programs_with_aggregates(connected=True, negation=False))
@examples(80, deep=800)
def test_connected_programs(case: Case) -> None:
    agree(case)


@given(programs_with_aggregates(), st.randoms(use_true_random=False))
@examples(50, deep=500)
def test_programs_with_a_key(case: Case, random: Random) -> None:
    agree(keyed(case, random))


@given(programs_with_aggregates())
@examples(50, deep=500)
def test_programs_whose_inputs_are_not_packed(case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "_sparse", lambda *_: True)
        agree(case)
