"""Numbers of a batch for Spark's own progress, and the name of a stream in Spark's UI.

Spark's progress shows what `observe` has gathered from the rows of a batch. Ticks and counts are
known only when the batch is committed. So the plan observes a column that is NULL in all rows, and
the driver adds one row to what Spark has gathered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.data.bounds import short
from tidelog.data.ticks import Ticks
from tidelog.evaluation.spark.failures import SPARK_ERRORS
from tidelog.language.program import Program
from tidelog.pipeline.commit import Commit

# Under this name progress has the numbers.
OBSERVED = "tidelog"
# A column beside those of users, which nobody sees.
_COLUMN = "_tidelog_batch"
# The thread's own property with which Spark describes jobs.
_DESCRIPTION = "spark.job.description"
# Characters of a name that is made of queries.
_NAME = 60


def stream_name(program: Program, queries: Sequence[str]) -> str:
    """The name of a stream that has been given none: its rules' file, or its queries.

    >>> from tidelog.language.checks import check
    >>> stream_name(check("P @ T :- E @ T.", "rules/alert.tdl").program, ["P"])
    'alert'
    >>> stream_name(check("P @ T :- E @ T.").program, ["P", "Q"])
    'P, Q'
    """
    files = (rule.origin.file for rule in program.rules)
    stems = (Path(file).stem for file in files if file and not file.startswith("<"))
    return short(next(stems, "") or ", ".join(queries), _NAME)


@dataclass
class JobDescriptions:
    """What Spark's UI says of the jobs of a batch; those of the thread's own come back after it."""

    spark: SparkSession
    before: str | None = None
    _is_ours: bool = False

    def say(self, name: str, batch: int, what: str | None) -> None:
        """The next jobs of this thread do this; None gives it back its own description."""
        if what is None:
            self._restore()
            return
        context = self.spark.sparkContext
        if not self._is_ours:
            self.before, self._is_ours = context.getLocalProperty(_DESCRIPTION), True
        context.setLocalProperty(_DESCRIPTION, f"tidelog {name}: batch {batch}: {what}")

    def _restore(self) -> None:
        if self._is_ours:
            self._is_ours = False
            with suppress(*SPARK_ERRORS):  # Spark may be gone
                set_property: Any = self.spark.sparkContext.setLocalProperty
                set_property(_DESCRIPTION, self.before)  # None is none


def free_name(name: str, spark: SparkSession) -> str:
    """The name, with a number if a query of the session has it already."""
    taken = {query.name for query in spark.streams.active}
    names = (name if i == 1 else f"{name} {i}" for i in range(1, len(taken) + 2))
    return next(one for one in names if one not in taken)


def observed(rows: DataFrame, ticks: Ticks | None) -> DataFrame:
    """The same rows, in a plan that observes the numbers of a batch."""
    types = _types(ticks)
    fields = ", ".join(f"'{name}', CAST(0 AS {type_})" for name, type_ in types.items())
    # Spark would fold a NULL that it can tell from the plan.
    nothing = F.expr(f"IF(spark_partition_id() < 0, named_struct({fields}), NULL)")
    numbers = [F.max(F.col(_COLUMN).getField(name)).alias(name) for name in types]
    return rows.withColumn(_COLUMN, nothing).observe(OBSERVED, *numbers).drop(_COLUMN)


def report(spark: SparkSession, query: str, commit: Commit, ticks: Ticks | None) -> None:
    """Have Spark's progress show the numbers of the batch that its query works on.

    A Spark whose inner parts have other names goes without.
    """
    try:
        active = spark.streams.get(query)
        if active is not None:
            _add(spark, active._jsq.streamingQuery().lastExecution(), _numbers(commit, ticks))
    except (*SPARK_ERRORS, TypeError):
        return


def _types(ticks: Ticks | None) -> dict[str, str]:
    names = ("batch", "tin", "tout", "facts", "late", "dead", "answers")
    times = {} if ticks is None else dict.fromkeys(("tin_time", "tout_time"), "TIMESTAMP")
    return {**dict.fromkeys(names, "BIGINT"), **times}


def _numbers(commit: Commit, ticks: Ticks | None) -> Mapping[str, int | None]:
    """The numbers of a batch; times are microseconds since 1970."""
    tin, tout = commit.clock.tin, commit.tout
    numbers: dict[str, int | None] = {
        "batch": commit.batch,
        "tin": tin,
        "tout": tout,
        "facts": commit.facts,
        "late": commit.late,
        "dead": commit.dead,
        "answers": sum(commit.answers.values()),
    }
    if ticks is not None:
        for name, tick in (("tin_time", tin), ("tout_time", tout)):
            numbers[name] = None if tick is None else ticks.micros(tick)
    return numbers


def _add(spark: SparkSession, execution: Any, numbers: Mapping[str, int | None]) -> None:
    """Add one row of numbers to what the plan of a batch has gathered."""
    jvm: Any = spark._jvm
    rows = jvm.org.apache.spark.sql.catalyst.expressions
    for node in _nodes(execution.executedPlan()):
        if node.getClass().getSimpleName() == "CollectMetricsExec" and node.name() == OBSERVED:
            gathered = jvm.org.apache.spark.util.AccumulatorContext.get(node.accumulatorId())
            output = node.child().output()
            row = rows.GenericInternalRow(output.size())
            for i in range(output.size()):
                if output.apply(i).name() == _COLUMN:
                    values = rows.SpecificInternalRow(output.apply(i).dataType())
                    for position, number in enumerate(numbers.values()):
                        if number is not None:
                            values.setLong(position, number)
                    row.update(i, values)
            gathered.get().add(row)
            return


def _nodes(plan: Any) -> Iterable[Any]:
    """The nodes of a physical plan, from the top."""
    open_ = [plan]
    while open_:
        node = open_.pop()
        yield node
        if node.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
            open_.append(node.executedPlan())
        else:
            children = node.children()
            open_ += [children.apply(i) for i in range(children.size())]
