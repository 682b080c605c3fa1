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

import tidelog
from tidelog.errors import NoAnswer
from tidelog.language.checks import check as checked
from tidelog.spark import query
from tidelog.streaming.options import StreamMode

pytestmark = pytest.mark.xdist_group("spark")
randoms = st.randoms(use_true_random=False)


@examples(1, deep=60)
@given(programs_with_aggregates(connected=True), st.integers(1, 8), randoms)
def test_batch(spark: SparkSession, case: Case, partitions: int, random: Random) -> None:
    try:
        check_batch(spark, random.choice((case, keyed(case, random))), partitions, random)
    except NoAnswer as error:
        event(str(error))


@examples(1, deep=40)
@given(
    programs_with_aggregates(connected=True),
    st.integers(0, 3),
    st.integers(1, 8),
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
    try:
        check(spark, chosen, late, partitions, mode, eager, random)
    except NoAnswer as error:
        event(str(error))


BESIDE = (
    "input E(x: text) @ t. input F(y: text) @ t. input Limit(v: int).\n"
    "P(X, Y, M) @ T :- E(X) @ T, F(Y) @ T, M = max(V : Limit(V)).\n"
)


def test_an_aggregate_without_time_beside_a_join_that_no_key_splits(spark: SparkSession) -> None:
    program = tidelog.parse(BESIDE)
    inputs = {
        "E": spark.createDataFrame([("a", 1), ("b", 2)], "x string, t long"),
        "F": spark.createDataFrame([("c", 1), ("d", 2), ("e", 2)], "y string, t long"),
        "Limit": [(3,), (7,), (5,)],
    }
    rows = query(spark, program, "P", inputs).collect()
    assert sorted(map(tuple, rows)) == [("a", "c", 7, 1), ("b", "d", 7, 2), ("b", "e", 7, 2)]


def test_the_same_on_a_stream(spark: SparkSession) -> None:
    facts = {
        "E": [("a", 1), ("b", 2)],
        "F": [("c", 1), ("d", 2), ("e", 2)],
        "Limit": [(3,), (7,), (5,)],
    }
    case = Case(BESIDE, checked(BESIDE).accepted(), facts, ("P",), 0, 3)
    check(spark, case, 0, 2, "offline", True, Random(18))
