"""Programs with aggregates on Spark: the same answers, bit by bit, in partitions and in batches."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from oracle.aggregates import programs_with_aggregates
from oracle.generate import Case
from oracle.keyed import keyed
from pyspark.sql import SparkSession
from support.deep import examples
from support.spark_streams import check, check_batch

from tidelog.errors import NoAnswer

pytestmark = pytest.mark.xdist_group("spark")
randoms = st.randoms(use_true_random=False)


@examples(4, deep=60)
@given(programs_with_aggregates(connected=True), st.integers(1, 8), randoms)
def test_batch(spark: SparkSession, case: Case, partitions: int, random: Random) -> None:
    try:
        check_batch(spark, random.choice((case, keyed(case, random))), partitions, random)
    except NoAnswer as error:
        event(str(error))


@examples(3, deep=40)
@given(
    programs_with_aggregates(connected=True),
    st.integers(0, 3),
    st.integers(1, 8),
    st.booleans(),
    randoms,
)
def test_streams(
    spark: SparkSession, case: Case, late: int, partitions: int, eager: bool, random: Random
) -> None:
    chosen = random.choice((case, keyed(case, random)))
    try:
        check(spark, chosen, late, partitions, "offline", eager, random)
    except NoAnswer as error:
        event(str(error))
