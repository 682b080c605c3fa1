"""Programs with aggregates on Spark: the same answers, bit by bit, in partitions and in batches."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from oracle.aggregates import programs_with_aggregates, programs_with_cycles
from oracle.generate import Case
from oracle.keyed import keyed
from pyspark.sql import SparkSession
from support.deep import examples
from support.spark_streams import PARTITIONS, check, check_batch

import tidelog
from tidelog.errors import NoAnswer
from tidelog.language.checks import check as checked
from tidelog.spark import query
from tidelog.streaming.options import StreamMode

pytestmark = pytest.mark.xdist_group("spark")
randoms = st.randoms(use_true_random=False)


@examples(1, deep=60)
@given(programs_with_aggregates(connected=True), PARTITIONS, randoms)
def test_batch(spark: SparkSession, case: Case, partitions: int, random: Random) -> None:
    try:
        check_batch(spark, random.choice((case, keyed(case, random))), partitions, random)
    except NoAnswer as error:
        event(str(error))


@pytest.mark.deep  # `make test` has cycles through aggregates, and blocks of them
@examples(1, deep=40)
@given(
    programs_with_aggregates(connected=True),
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
    try:
        check(spark, chosen, late, partitions, mode, eager, random)
    except NoAnswer as error:
        event(str(error))


@examples(1, deep=40)
@given(programs_with_cycles(connected=True), PARTITIONS, randoms)
def test_cycles_in_a_batch(
    spark: SparkSession, case: Case, partitions: int, random: Random
) -> None:
    check_batch(spark, random.choice((case, keyed(case, random))), partitions, random)


@examples(1, deep=40)
@given(
    programs_with_cycles(connected=True),
    st.integers(0, 3),
    PARTITIONS,
    st.sampled_from(("offline", "offline", "online")),
    st.booleans(),
    randoms,
)
def test_cycles_in_streams(
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


BLOCKS = """
    input Pay(card: text, id: int, amount: float) @ at.
    input Step(card: text, id: int, count: int) @ at.
    Mean(C, A) @ T :- Pay(C, _, _) @ T, A = avg(V : Pay(C, _, V) @ [T-3, T+1]).
    Sums(C, A, B) @ T :- Pay(C, _, _) @ T, A = sum(V : Pay(C, _, V) @ [T-70, T]),
        B = sum(V : Step(C, _, V) @ [T-2, T]).
    Ends(C, A, B, N) @ T :- Pay(C, _, _) @ T, A = min(V : Pay(C, _, V) @ [T-2, T]),
        B = max(V : Step(_, _, V) @ [T-5, T]), N = count(Pay(_, _, _) @ [T-5, T]).
"""


@pytest.mark.parametrize("mode", ["offline", pytest.param("online", marks=pytest.mark.deep)])
def test_blocks_of_many_facts_a_tick(spark: SparkSession, mode: StreamMode) -> None:
    random = Random(18)
    amounts = (0.1, 1e16, -1e16, 1.0, 1e308, -1e308, 5e-324, 0.0, 12.34, 99.99)
    counts = (2**63 - 1, -(2**63), 7, 1, 0)
    ticks = [*range(6), 40, 66, 67, 75, 140]
    facts: dict[str, list[tuple[str | int | float, ...]]] = {"Pay": [], "Step": []}
    for tick in ticks:
        for i in range(random.randint(1, 12)):
            facts["Pay"].append((random.choice("abc"), i, random.choice(amounts), tick))
            facts["Step"].append((random.choice("abc"), i, random.choice(counts), tick))
    case = Case(BLOCKS, checked(BLOCKS).accepted(), facts, ("Mean", "Sums", "Ends"), 0, 141)
    check(spark, case, 2, 3, mode, False, random)
