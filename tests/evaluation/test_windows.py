"""Programs with windows: the engines, the naive evaluator, clingo and the unfolding agree."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from oracle import naive
from oracle.generate import Case
from oracle.horizon import default_margin, temporal_predicates
from oracle.keyed import keyed
from oracle.unfold import TooManyRulesError, unfolded
from oracle.windows import programs_with_windows
from pyspark.sql import SparkSession
from support.batch import agree, answered, by_time, rows, wanted
from support.deep import examples

from tidelog.errors import NoAnswer
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.engine import evaluate
from tidelog.language.checks import check
from tidelog.language.printer import print_program
from tidelog.language.program import (
    Atom,
    Interval,
    Negated,
    Program,
    Quantifier,
    Rule,
    TimeOffset,
    TimePoint,
    Variable,
)

# Any program


@given(programs_with_windows())
@examples(80)
def test_any_program(case: Case) -> None:
    agree(case)


@given(programs_with_windows(connected=True, max_rules=7))
@examples(50)
def test_connected_programs(case: Case) -> None:
    agree(case)


@given(programs_with_windows(long=True))
@examples(40)
def test_windows_longer_than_a_word(case: Case) -> None:
    agree(case)


@given(programs_with_windows(recursive=False, clock=False, any_number=True))
@examples(30)
def test_programs_without_recursion(case: Case) -> None:
    """These are never refused."""
    assert answered(case) is not None
    agree(case)


@given(programs_with_windows(hostile=True), st.randoms(use_true_random=False))
@examples(30)
def test_hostile_names_and_values_and_a_key(case: Case, random: Random) -> None:
    agree(keyed(case, random) if random.random() < 0.5 else case)


@given(programs_with_windows(long=True) | programs_with_windows())
@examples(20)
def test_programs_whose_inputs_are_not_packed(case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "_sparse", lambda *_: True)
        agree(case)
