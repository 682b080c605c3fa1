"""What holds until something stops it: by additions within words, equal to a loop over ticks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from support.deep import examples

import tidelog
from tidelog.analysis.dependencies import dependencies
from tidelog.data.ticks import Range
from tidelog.evaluation import recursion
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.engine import Feature
from tidelog.evaluation.plan import plan
from tidelog.evaluation.sql import Writer
from tidelog.evaluation.steps import StepRunner
from tidelog.logic.normalise import core

INPUTS = """
input Read(x: int, v: int) @ t.
input Reset(x: int) @ t.
input Off @ t.
"""
# What starts is what stops; what starts may also go on in chunks without a stop; several stops.
PROGRAMS = {
    ("Read",): "Level(X, V) @ T+1 :- Level(X, V) @ T, not Read(X, _) @ T+1.",
    ("Reset",): "Level(X, V) @ T+1 :- Level(X, V) @ T, not Reset(X) @ T+1.",
    ("Off",): "Level(X, V) @ T+1 :- Level(X, V) @ T, not Off @ T+1.",
    ("Read", "Reset", "Off"): "Level(X, V) @ T+1 :- Level(X, V) @ T, not Read(X, _) @ T+1,"
    " not Reset(X) @ T+1, not Off @ T+1.",
}
START = "Level(X, V) @ T :- Read(X, V) @ T.\n"
LOW, HIGH = -130, 400
Facts = dict[str, list[tuple[int, ...]]]

ticks = st.one_of(st.integers(LOW, HIGH), st.sampled_from([-60, -1, 0, 58, 59, 60, 119, 120, 179]))
devices = st.integers(1, 2)
facts = st.fixed_dictionaries(
    {
        "Read": st.lists(st.tuples(devices, st.integers(1, 3), ticks), max_size=12, unique=True),
        "Reset": st.lists(st.tuples(devices, ticks), max_size=4, unique=True),
        "Off": st.lists(st.tuples(ticks), max_size=3, unique=True),
    }
)


def by_hand(given: Facts, stops: tuple[str, ...], low: int, high: int) -> set[tuple[int, ...]]:
    """A loop over the ticks."""
    level: set[tuple[int, ...]] = set()
    answers: set[tuple[int, ...]] = set()
    for t in range(LOW, high + 1):
        read = {row[:-1] for row in given["Read"] if row[-1] == t}
        gone = {x for x, _ in read} if "Read" in stops else set()
        gone |= {x for x, at in given["Reset"] if at == t} if "Reset" in stops else set()
        off = "Off" in stops and (t,) in given["Off"]
        level = read | {row for row in level if row[0] not in gone and not off}
        answers |= {(*row, t) for row in level if t >= low}
    return answers


def answered(rules: str, given: Facts, low: int, high: int) -> set[tuple[int, ...]]:
    with Engine(tidelog.parse(INPUTS + START + rules), given) as engine:
        table = engine.query(["Level"], low, high)["Level"]
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    assert len(rows) == len(set(rows))
    return set(rows)


@given(facts=facts, low=st.integers(LOW, HIGH), ticks=st.integers(0, 400))
@examples(4, deep=120)
def test_carrying_is_a_loop_over_ticks(facts: Facts, low: int, ticks: int) -> None:
    for stops, rules in PROGRAMS.items():
        want = by_hand(facts, stops, low, low + ticks)
        assert answered(rules, facts, low, low + ticks) == want, rules


def test_it_is_what_doubling_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    some: Facts = {
        "Read": [(1, 1, 0), (1, 2, 61), (1, 1, 62), (1, 1, 300), (2, 3, -130), (2, 3, 59)],
        "Reset": [(1, 180), (2, 119)],
        "Off": [(240,), (400,)],
    }
    carried = [answered(rules, some, LOW, HIGH) for rules in PROGRAMS.values()]
    monkeypatch.setattr(recursion, "can_carry", lambda fill: False)
    assert carried == [answered(rules, some, LOW, HIGH) for rules in PROGRAMS.values()]


def test_a_stretch_without_a_stop_is_written_out_in_halves() -> None:
    with Engine(
        tidelog.parse(INPUTS + START + PROGRAMS["Reset",]), {"Read": [(1, 1, 7)]}
    ) as engine:
        assert engine.count("Level", 0, 1_000_006) == 1_000_000


@pytest.mark.xdist_group("spark")
@pytest.mark.deep
def test_the_same_in_catalyst(spark: SparkSession) -> None:
    """The SQL is that of every engine, though rounds are not what Spark's own is asked for.

    What Spark is asked to carry is in `cases/answers/carried_across_keys`.
    """
    from tidelog.evaluation.spark.catalyst import Catalyst

    class Rounds(Catalyst):
        limits: ClassVar[Mapping[Feature, str]] = {}

        def table(self, name: str, select: str) -> None:
            # Rounds would be planned and done again for each that follows.
            self.offer(name, self.select(select).localCheckpoint())

    some: Facts = {
        "Read": [(1, 1, 0), (1, 2, 61), (1, 1, 300), (2, 3, -130)],
        "Reset": [(1, 180)],
        "Off": [(240,)],
    }
    stops, rules = list(PROGRAMS.items())[-1]
    program = tidelog.parse(INPUTS + START + rules)
    deps = dependencies(core(program, ["Level"]), ["Level"])
    temporal = {p.name: Range(LOW, HIGH) for p in deps.core.inputs if p.temporal}
    made = plan(deps, temporal, Range(LOW, HIGH))
    catalyst = Rounds(spark)
    for name, rows in some.items():
        names = [*(f"a{i}" for i in range(1, len(rows[0]))), "t"]
        columns: dict[str, Any] = dict(zip(names, zip(*rows, strict=True), strict=True))
        catalyst.offer(f"given_{name}", spark.createDataFrame(pa.table(columns)))
    catalyst.offer_texts(Writer(made).texts)
    named = {p.name: f"given_{p.base}" for p in made.deps.core.inputs}
    StepRunner(catalyst).run(made, made.steps, {}, named)
    assert set(catalyst.all(Writer(made).rows("Level"))) == by_hand(some, stops, LOW, HIGH)
    catalyst.forget()
