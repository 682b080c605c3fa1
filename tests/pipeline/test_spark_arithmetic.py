"""Programs that calculate on Spark: the same to the last bit, in Catalyst and in the partitions."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle.generate import Case
from oracle.keyed import keyed
from oracle.numbers import programs_with_numbers
from pyspark.sql import SparkSession
from support.deep import examples
from support.spark_streams import PARTITIONS, check, check_batch

from tidelog.analysis.dependencies import Class, dependencies
from tidelog.logic.normalise import core
from tidelog.streaming.options import StreamMode

pytestmark = pytest.mark.xdist_group("spark")
randoms = st.randoms(use_true_random=False)


def can_be_answered(case: Case) -> bool:
    """A cycle through `not` and recursion into the future cannot be evaluated together."""
    deps = dependencies(core(case.program, case.queries), case.queries)
    return deps.cls is not Class.BLOCKING or not deps.cycles_through_not


@examples(1, deep=60)
@given(programs_with_numbers(connected=True), PARTITIONS, randoms)
def test_batch(spark: SparkSession, case: Case, partitions: int, random: Random) -> None:
    chosen = random.choice((case, keyed(case, random)))
    if can_be_answered(chosen):
        check_batch(spark, chosen, partitions, random)


@examples(1, deep=40)
@given(
    programs_with_numbers(connected=True),
    st.integers(0, 3),
    PARTITIONS,
    st.sampled_from(("offline", "online")),
    st.booleans(),
    randoms,
)
def test_streams(
    spark: SparkSession,
    case: Case,
    late: int,
    partitions: int,
    mode: StreamMode,
    eager: bool,
    random: Random,
) -> None:
    chosen = random.choice((case, keyed(case, random)))
    if can_be_answered(chosen):
        check(spark, chosen, late, partitions, mode, eager, random)
