"""What a lazy answer expects of its facts: those it was planned for.

The plan of a query knows the first and the last tick of each input, and rows are read later. A fact
outside these ticks would be left out, and what looks at it would be wrong: it is an error.
"""

from __future__ import annotations

import math

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidelog.analysis.dependencies import Dependencies
from tidelog.data.ticks import ALWAYS, EMPTY, Range
from tidelog.evaluation.ranges import ranges
from tidelog.evaluation.spark.splits import CHANGED
from tidelog.language.program import TIME_MAX


def relevant_ticks(deps: Dependencies, asked: Range) -> dict[str, Range]:
    """By input the ticks whose facts may change an answer at the ticks asked for."""
    anywhere = {p.name: ALWAYS for p in deps.core.inputs if p.temporal}
    needed = ranges(deps, anywhere, asked)
    relevant: dict[str, Range] = {}
    for predicate in deps.core.inputs:
        if predicate.temporal:
            found = relevant.get(predicate.base, EMPTY)
            relevant[predicate.base] = found | needed[predicate.name]
    return relevant


def expect_unchanged(facts: DataFrame, name: str, known: Range, relevant: Range) -> DataFrame:
    """The facts of an input with ticks within those known of it, or an error when they are read.

    Whatever looks at the tick of a row meets the error, so that no step of Spark's can skip it.
    Spark may look at it before any filter, the one for the input's own rows too: so the facts are
    those of one input, and rows that are no facts are left out again.
    """
    if relevant.empty:
        return facts
    outside = F.col("problem").isNull() & _within(relevant) & ~_within(known)
    error = F.raise_error(F.lit(f"input `{name}`: {CHANGED}")).cast("bigint")
    return facts.withColumn("t", F.when(outside, error).otherwise(F.col("t")))


def _within(range_: Range) -> Column:
    """Whether a tick is in a range."""
    if range_.empty:
        return F.lit(False)
    low = -TIME_MAX if math.isinf(range_.low) else int(range_.low)
    high = TIME_MAX if math.isinf(range_.high) else int(range_.high)
    return F.col("t").between(low, high)
