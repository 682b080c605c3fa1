"""Programs with `not` on Spark: what is absent here may merely be elsewhere.

Every example has its own number of partitions and its own batches, and most have a key.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle.generate import Case
from oracle.keyed import keyed
from oracle.negation import programs_with_not
from pyspark.sql import SparkSession
from support.counterexamples import counterexample
from support.deep import examples
from support.spark_streams import check, check_batch

from tidelog.analysis.dependencies import Class, dependencies
from tidelog.logic.normalise import core

pytestmark = pytest.mark.xdist_group("spark")

connected = programs_with_not(connected=True, max_rules=5)
partitions = st.integers(1, 8)
randoms = st.randoms(use_true_random=False)
lateness = st.integers(0, 3)


def can_be_answered(case: Case) -> bool:
    """A cycle through `not` and recursion into the future cannot be evaluated together."""
    deps = dependencies(core(case.program, case.queries), case.queries)
    return deps.cls is not Class.BLOCKING or not deps.cycles_through_not


@examples(4)
@given(connected, lateness, partitions, st.booleans(), randoms)
def test_offline(
    spark: SparkSession, case: Case, late: int, partitions: int, eager: bool, random: Random
) -> None:
    chosen = random.choice((case, keyed(case, random), keyed(case, random)))
    if can_be_answered(chosen):
        check(spark, chosen, late, partitions, "offline", eager, random)


@examples(4)
@given(connected, lateness, partitions, st.booleans(), randoms)
def test_online(
    spark: SparkSession, case: Case, late: int, partitions: int, eager: bool, random: Random
) -> None:
    chosen = random.choice((case, keyed(case, random), keyed(case, random)))
    if can_be_answered(chosen):
        check(spark, chosen, late, partitions, "online", eager, random)


@examples(4)
@given(programs_with_not(max_rules=5), partitions, randoms)
def test_batch(spark: SparkSession, case: Case, partitions: int, random: Random) -> None:
    chosen = random.choice((case, keyed(case, random)))
    if can_be_answered(chosen):
        check_batch(spark, chosen, partitions)


@pytest.mark.parametrize("name", ["absent_elsewhere", "last_value"])
@pytest.mark.parametrize("partitions", [1, 5])
def test_counterexamples(spark: SparkSession, name: str, partitions: int) -> None:
    """In the partitions, not in the driver: a key's rows are never all in one place."""
    example = counterexample(name)
    facts = {n: sorted(rows, key=repr) for n, rows in example.facts.items()}
    outputs = example.program.outputs
    case = Case(example.text, example.program, facts, outputs, *example.ticks)
    check(spark, case, 1, partitions, "offline", False, Random(partitions), little=-1)
