"""Parts of exact sums: made of the facts of a tick, added up over ticks, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from oracle.aggregates import measured
from support.deep import times

from tidelog.data.aggregates import WHOLE, Gathered, Limbs, part_sizes_sql
from tidelog.data.packed import unpack_sql
from tidelog.language.program import Measure, Type
from tidelog.logic.clause import PART_COLUMNS, Parts

TICKS = 12


def near_one(random: Random) -> float:
    return random.randint(-(10**6), 10**6) / 100


def of_any_size(random: Random) -> float:
    return math.ldexp(random.uniform(-1, 1), random.randint(-1070, 1000))


def hostile(random: Random) -> float:
    values = (0.0, 5e-324, -5e-324, 1.0, 0.1, 1e16, -1e16, 1.7e308, -1.7e308, 2.0**-20, 2.0**20)
    return random.choice(values)


def sometimes_infinite(random: Random) -> float:
    return math.inf if random.random() < 0.1 else near_one(random)


def integer(random: Random) -> int:
    return random.choice((random.randint(-(2**63), 2**63 - 1), 2**63 - 1, -(2**63), 0, 1, 3))


def added(
    facts: list[tuple[int, Any, int]], measure: Measure, type_: Type, ticks: int
) -> dict[tuple[int, int], Any]:
    """What facts of groups add up to over the last ticks, by group and tick, by way of parts."""
    database = duckdb.connect()
    groups, values, at = zip(*facts, strict=True)
    given = pa.array(values, pa.float64() if type_ is Type.FLOAT else pa.int64())
    database.register("facts", pa.table({"a1": pa.array(groups), "a2": given, "t": pa.array(at)}))
    made = Gathered(measure, ["a1"], "a2", type_, 1, parts=Parts.MADE)
    database.execute(f"CREATE TABLE parts AS {made.temporal('facts', (0, TICKS))}")
    result = Type.INT if type_ is Type.INT and measure is Measure.SUM else Type.FLOAT
    limbs = WHOLE
    if result is Type.FLOAT:
        sizes = database.execute(part_sizes_sql(1, "parts", 60)).fetchone()
        assert sizes is not None
        limbs = Limbs.of_parts(*sizes)
    read = Gathered(measure, ["a1"], None, result, ticks, limbs, Parts.READ)
    names = [f"a{i}" for i in range(1, len(PART_COLUMNS) + 2)]
    rows = f"({unpack_sql(names, 'parts AS u')})"
    answers = f"({read.temporal(rows, (0, TICKS))})"
    told = database.execute(unpack_sql(["a1", "a2"], f"{answers} AS u")).fetchall()
    assert len(told) == len({(group, tick) for group, _, tick in told})
    return {(group, tick): value for group, value, tick in told}


@pytest.mark.parametrize("measure", [Measure.SUM, Measure.AVG])
@pytest.mark.parametrize("ticks", [2, 5])
@pytest.mark.parametrize(
    "value", [near_one, of_any_size, hostile, sometimes_infinite, integer], ids=lambda f: f.__name__
)
def test_parts(measure: Measure, ticks: int, value: Callable[[Random], Any]) -> None:
    random = Random(18 * ticks)
    type_ = Type.INT if value is integer else Type.FLOAT
    facts = [
        (group, value(random), random.randrange(TICKS))
        for group in range(times(40))
        for _ in range(random.randint(1, 30))
    ]
    assert added(facts, measure, type_, ticks) == by_fractions(facts, measure, type_, ticks)


def test_sums_that_take_more_digits_than_two_floats_have() -> None:
    random = Random(20)
    facts = [(0, random.uniform(2.0**19, 2.0**20), i % TICKS) for i in range(4000 * TICKS)]
    told = added(facts, Measure.SUM, Type.FLOAT, 8)
    assert told == by_fractions(facts, Measure.SUM, Type.FLOAT, 8)


def by_fractions(
    facts: list[tuple[int, Any, int]], measure: Measure, type_: Type, ticks: int
) -> dict[tuple[int, int], Any]:
    """The same by adding up fractions."""
    want: dict[tuple[int, int], Any] = {}
    for group in {group for group, _, _ in facts}:
        own = [(v, t) for g, v, t in facts if g == group]
        for tick in range(TICKS + 1):
            there = [v for v, t in own if tick - ticks < t <= tick]
            told = measured(measure, there, type_ is Type.INT) if there else None
            if told is not None:
                want[group, tick] = told + 0
    return want
