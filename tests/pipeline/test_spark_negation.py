"""Programs with `not` on Spark: what is absent here may merely be elsewhere.

Every example has its own number of partitions and its own batches, and most have a key.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import naive
from oracle.generate import Case
from oracle.keyed import keyed
from oracle.negation import programs_with_not
from pyspark.sql import SparkSession
from support.counterexamples import counterexample
from support.deep import DEEP, examples
from support.spark_streams import PARTITIONS, check, check_batch

import tidelog
from tidelog.analysis.dependencies import Class, dependencies
from tidelog.evaluation.spark.sources import Inputs
from tidelog.logic.normalise import core
from tidelog.pipeline.places import FactTest
from tidelog.pipeline.plan import pipeline_plan
from tidelog.spark import stream
from tidelog.streaming.clock import Clock
from tidelog.streaming.options import History, StreamMode

pytestmark = pytest.mark.xdist_group("spark")

connected = programs_with_not(connected=True, max_rules=5)
randoms = st.randoms(use_true_random=False)
lateness = st.integers(0, 3)


def can_be_answered(case: Case) -> bool:
    """A cycle through `not` and recursion into the future cannot be evaluated together."""
    deps = dependencies(core(case.program, case.queries), case.queries)
    return deps.cls is not Class.BLOCKING or not deps.cycles_through_not


@examples(1, deep=40)
@given(connected, lateness, PARTITIONS, st.booleans(), randoms)
def test_offline(
    spark: SparkSession, case: Case, late: int, partitions: int, eager: bool, random: Random
) -> None:
    chosen = random.choice((case, keyed(case, random), keyed(case, random)))
    if can_be_answered(chosen):
        # One example alone is in the partitions: there what is absent may be elsewhere.
        little = None if DEEP > 1 else -1
        check(spark, chosen, late, partitions, "offline", eager, random, little)


@examples(1, deep=40)
@given(connected, lateness, PARTITIONS, st.booleans(), randoms)
def test_online(
    spark: SparkSession, case: Case, late: int, partitions: int, eager: bool, random: Random
) -> None:
    chosen = random.choice((case, keyed(case, random), keyed(case, random)))
    if can_be_answered(chosen):
        check(spark, chosen, late, partitions, "online", eager, random)


@examples(1, deep=40)
@given(programs_with_not(max_rules=5), PARTITIONS, randoms)
def test_batch(spark: SparkSession, case: Case, partitions: int, random: Random) -> None:
    chosen = random.choice((case, keyed(case, random)))
    if can_be_answered(chosen):
        check_batch(spark, chosen, partitions)


def counter_case(name: str, *queries: str) -> Case:
    example = counterexample(name)
    facts = {n: sorted(rows, key=repr) for n, rows in example.facts.items()}
    outputs = queries or example.program.outputs
    return Case(example.text, example.program, facts, outputs, *example.ticks)


@pytest.mark.deep  # in the driver they are in `tests/cases/negation`
@pytest.mark.parametrize("name", ["absent_elsewhere", "last_value"])
@pytest.mark.parametrize("partitions", [1, 5])
def test_counterexamples(spark: SparkSession, name: str, partitions: int) -> None:
    """In the partitions, not in the driver: a key's rows are never all in one place."""
    case = counter_case(name)
    check(spark, case, 1, partitions, "offline", False, Random(partitions), little=-1)


@pytest.mark.parametrize("mode", ["offline", pytest.param("online", marks=pytest.mark.deep)])
def test_a_clock_starts_with_an_input_that_no_query_reads(
    spark: SparkSession, mode: StreamMode
) -> None:
    case = counter_case("clock_starts_with_any_input", "Idle")
    assert min(row[-1] for row in case.facts["Log"]) < min(row[-1] for row in case.facts["Beat"])
    check(spark, case, 0, 2, mode, False, Random(1), little=100_000)


ABSENCE = """
input E(x: text) @ t. input F(x: text) @ t. clock Tick.
Free(X) @ T :- E(X) @ T, not F(X) @ T, not F(X) @ T-1.
Last(X) @ T :- E(X) @ T.
Last(X) @ T :- Last(X) @ T-1, Tick @ T, not F(X) @ T.
Quiet(X) @ T :- E(X) @ T-1, not E(_) @ T, not F(X) @ T-1.
"""


@pytest.mark.parametrize(
    ("history", "queries"), [("derived", ("Free", "Last")), ("strict", ("Free", "Quiet"))]
)
def test_rows_without_a_value_and_late_facts_are_not_there(
    spark: SparkSession, tmp_path: Path, history: History, queries: tuple[str, str]
) -> None:
    """What is put aside is as absent as what never came; time goes on without it."""
    rows = {
        "E": (["a,0", "b,1", "a,2"], ["b,4", "a,5"], ["a,6"]),
        "F": ([",0", "b,2"], ["a,0", "b,", "b,5"], ["c,6"]),  # a at 0 is late
    }
    for name, files in rows.items():
        (tmp_path / "facts" / name).mkdir(parents=True)
        for number, lines in enumerate(files):
            path = tmp_path / "facts" / name / f"{number}.csv"
            path.write_text("\n".join(["x,t", *lines]) + "\n")
            os.utime(path, (number + 1, number + 1))
    program = tidelog.parse(ABSENCE)
    running = stream(
        spark,
        program,
        queries,
        inputs=tmp_path / "facts",
        checkpoint=tmp_path / "checkpoint",
        trigger={"availableNow": True},
        files_per_batch=2,
        history=history,
    )
    running.awaitTermination()
    commit = running.close()
    assert commit is not None
    assert (commit.totals["late"], commit.totals["dead"]) == (1, 2)
    used = {
        "E": {("a", 0), ("b", 1), ("a", 2), ("b", 4), ("a", 5), ("a", 6)},
        "F": {("b", 2), ("b", 5), ("c", 6)},
    }
    want = naive.evaluate(program, used, queries, 0, 6)
    for query in queries:
        assert want[query]
        got = [tuple(row.values()) for row in running.answers[query].to_pylist()]
        assert sorted(got) == sorted(want[query])
    letters = [
        json.loads(line)["reason"]
        for path in (tmp_path / "checkpoint" / "dead_letters").glob("batch=*/*.json")
        for line in path.read_text().splitlines()
    ]
    said = f"it could have changed {', '.join(queries)}"
    assert any(reason.endswith(said) for reason in letters), letters


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
