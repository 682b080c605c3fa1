"""Streams with windows on Spark: a window whose ticks lie in different batches and partitions."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle.generate import Case
from oracle.keyed import keyed
from oracle.windows import programs_with_windows
from pyspark.sql import SparkSession
from support.deep import examples
from support.spark_streams import PARTITIONS, check

from tidelog.analysis.dependencies import Class, dependencies
from tidelog.language.checks import check as check_rules
from tidelog.language.program import Value
from tidelog.logic.core import rules_of
from tidelog.logic.normalise import core
from tidelog.pipeline.plan import pipeline_plan
from tidelog.streaming.options import StreamMode, StreamOptions

pytestmark = pytest.mark.xdist_group("spark")


COUNT = """
input Trip(x: text) @ t.
output Busy.
Busy(X) @ T :- at least 30 Trip(X) @ [T-150, T+49], not Trip(X) @ T.
"""


@pytest.mark.parametrize("mode", ["offline", pytest.param("online", marks=pytest.mark.deep)])
@examples(1, deep=5)
@given(st.booleans(), st.integers(0, 10**6))
def test_a_count_that_is_never_written_out(
    spark: SparkSession, mode: StreamMode, eager: bool, seed: int
) -> None:
    random = Random(seed)
    program = check_rules(COUNT).accepted()
    shares = {"a": 0.12, "b": 0.16, "c": 0.5}
    trips: list[tuple[Value, ...]] = [
        (x, t) for x, share in shares.items() for t in range(400) if random.random() < share
    ]
    plan = pipeline_plan(program, ("Busy",), StreamOptions(mode))
    assert len(rules_of(plan.work.core)) < 6
    check(
        spark, Case(COUNT, program, {"Trip": trips}, ("Busy",), 0, 400), 2, 3, mode, eager, random
    )


@examples(1, deep=30)
@given(
    programs_with_windows(connected=True, max_rules=4)
    | programs_with_windows(connected=True, max_rules=2, long=True),
    st.integers(0, 3),
    PARTITIONS,
    st.sampled_from(("offline", "online")),
    st.booleans(),
    st.randoms(use_true_random=False),
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
    deps = dependencies(core(chosen.program, chosen.queries), chosen.queries)
    if deps.cls is not Class.BLOCKING or not deps.cycles_through_not:
        check(spark, chosen, late, partitions, mode, eager, random)
