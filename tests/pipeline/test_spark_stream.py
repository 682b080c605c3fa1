"""What is streamed on Spark equals what is evaluated over the same range, however it arrives."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle.generate import Case, programs_and_facts
from oracle.keyed import keyed
from pyspark.sql import SparkSession
from support.deep import examples
from support.spark_streams import PARTITIONS, check, check_batch

from tidelog.streaming.options import StreamMode

pytestmark = pytest.mark.xdist_group("spark")

# What an attack has found mistakes with: see `oracle.generate`.
attacking = programs_and_facts(connected=True, wide=True)
shapes = programs_and_facts(connected=True, huge=False)
anything = programs_and_facts(huge=False)
randoms = st.randoms(use_true_random=False)
modes: st.SearchStrategy[StreamMode] = st.sampled_from(("offline", "online"))


@examples(2, deep=40)
@given(shapes, st.integers(0, 3), PARTITIONS, st.booleans(), randoms)
def test_spark_offline_equals_naive_evaluation(
    spark: SparkSession, case: Case, lateness: int, partitions: int, eager: bool, random: Random
) -> None:
    chosen = random.choice((case, case, keyed(case, random)))
    check(spark, chosen, lateness, partitions, "offline", eager, random)


@examples(1, deep=40)
@given(shapes, st.integers(0, 3), PARTITIONS, st.booleans(), randoms)
def test_spark_online_equals_naive_evaluation(
    spark: SparkSession, case: Case, lateness: int, partitions: int, eager: bool, random: Random
) -> None:
    chosen = random.choice((case, keyed(case, random), keyed(case, random)))
    check(spark, chosen, lateness, partitions, "online", eager, random)


@examples(2, deep=50)
@given(anything, PARTITIONS, randoms)
def test_spark_batch_equals_naive_evaluation(
    spark: SparkSession, case: Case, partitions: int, random: Random
) -> None:
    check_batch(spark, random.choice((case, case, keyed(case, random))), partitions, random)


@examples(1, deep=40)
@given(attacking, st.integers(0, 3), PARTITIONS, st.booleans(), randoms, modes)
def test_what_an_attack_has_found_mistakes_with_as_a_stream(
    spark: SparkSession,
    case: Case,
    lateness: int,
    partitions: int,
    eager: bool,
    random: Random,
    mode: StreamMode,
) -> None:
    check(spark, case, lateness, partitions, mode, eager, random)


@examples(1, deep=60)
@given(programs_and_facts(wide=True), PARTITIONS, randoms)
def test_what_an_attack_has_found_mistakes_with_as_a_query(
    spark: SparkSession, case: Case, partitions: int, random: Random
) -> None:
    check_batch(spark, case, partitions, random)
