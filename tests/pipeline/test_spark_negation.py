"""Programs with `not` on Spark: what is absent here may merely be elsewhere.

Every example has its own number of partitions and its own batches, and most have a key.
"""

from __future__ import annotations

from random import Random

import duckdb
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

import tidelog
from tidelog.analysis.dependencies import Class, dependencies
from tidelog.evaluation.spark.sources import Inputs
from tidelog.logic.normalise import core
from tidelog.pipeline.places import FactTest
from tidelog.pipeline.plan import pipeline_plan
from tidelog.streaming.clock import Clock

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
@pytest.mark.parametrize("partitions", [pytest.param(1, marks=pytest.mark.deep), 5])
def test_counterexamples(spark: SparkSession, name: str, partitions: int) -> None:
    """In the partitions, not in the driver: a key's rows are never all in one place."""
    example = counterexample(name)
    facts = {n: sorted(rows, key=repr) for n, rows in example.facts.items()}
    outputs = example.program.outputs
    case = Case(example.text, example.program, facts, outputs, *example.ticks)
    check(spark, case, 1, partitions, "offline", False, Random(partitions), little=-1)


def test_the_dead_letter_of_a_late_fact_names_what_it_could_have_changed(
    spark: SparkSession,
) -> None:
    program = tidelog.parse(
        "input E @ t. input F @ t."
        "Q @ T :- E @ T, not F @ T. P @ T :- E @ T, not F @ T-5. R @ T :- E @ T."
    )
    plan = pipeline_plan(program, ("Q", "P", "R"))
    clock = Clock(first=0, seen={"E": 8, "F": 8}, tin=7)
    reason = FactTest.of(plan, Inputs(plan.inputs, None), clock).reason
    rows = "(VALUES (0, 3, NULL), (1, 2, NULL), (1, 4, NULL), (1, 9, 'bad')) AS r(tag, t, problem)"
    said = "came after everything up to 7 had arrived"
    want = [
        f"late: tick 3 {said}; it could have changed Q, P",
        f"late: tick 2 {said}; it could have changed Q, P",
        f"late: tick 4 {said}; it could have changed Q",
        "bad",
    ]
    ask = f"SELECT {reason} AS reason FROM {rows}"
    assert [row[0] for row in duckdb.sql(ask).fetchall()] == want
    assert [row.reason for row in spark.sql(ask).collect()] == want
    positive = pipeline_plan(tidelog.parse("R @ T :- E @ T."), ("R",))
    assert FactTest.of(positive, Inputs(positive.inputs, None), clock).changed is None
