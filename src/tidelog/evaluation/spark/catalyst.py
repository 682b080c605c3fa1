"""Spark's own engine for the SQL of a plan: views of a session, computed when rows are wanted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidelog.evaluation.engine import Feature
from tidelog.evaluation.sql import TEXTS

# Views have fixed names: one thread at a time makes its plan from them.
_PLANNING = Lock()


@contextmanager
def planning(spark: SparkSession) -> Iterator[Catalyst]:
    """An engine whose views are there until the plan is made; what is made does not need them."""
    with _PLANNING:
        engine = Catalyst(spark)
        try:
            yield engine
        finally:
            engine.forget()


def as_a_table(stored: DataFrame) -> DataFrame:
    """Stored rows without the plan that made them.

    A plan holds the plan of a view once for every look at it: with the plans of the stages before
    in it, a chain of stages would grow by a factor with each of them.
    """
    made: Any = stored._jdf
    rows = made.queryExecution().toRdd()
    frame = made.sparkSession().internalCreateDataFrame(rows, made.schema(), False)
    return DataFrame(frame, stored.sparkSession)


class Catalyst:
    """Tables of ours as temporary views; nothing runs until rows are wanted."""

    limits: ClassVar[Mapping[Feature, str]] = {
        Feature.RECURSION: "Spark's own engine would plan every round anew;"
        " recursive rules are evaluated in its partitions",
        Feature.AGGREGATES: "Spark's own engine has no integers that are wide enough for exact"
        " sums; aggregates are made in its partitions",
    }

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        # Our views, each with the session's own view of that name, which it hides.
        self.views: dict[str, DataFrame | None] = {}

    def offer(self, name: str, rows: DataFrame) -> None:
        """Have some rows as a view."""
        if name not in self.views:
            self.views[name] = self._view_of_the_session(name)
        rows.createOrReplaceTempView(name)

    def _view_of_the_session(self, name: str) -> DataFrame | None:
        catalog = self.spark.catalog
        if catalog.tableExists(name) and catalog.getTable(name).isTemporary:
            return self.spark.table(name)
        return None

    def select(self, select: str) -> DataFrame:
        return self.spark.sql(select)

    def table(self, name: str, select: str) -> None:
        self.offer(name, self.select(select))

    view = table

    def offer_texts(self, texts: Mapping[str, int]) -> None:
        rows = [(i, text) for text, i in texts.items()]
        self.offer(TEXTS, self.spark.createDataFrame(rows, "i BIGINT, v STRING"))

    def rows_of(self, table: str) -> int:
        return self.spark.table(table).count()

    def all(self, select: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.select(select).collect()]

    def arrow(self, select: str) -> pa.Table:
        return self.select(select).toArrow()

    def forget(self) -> None:
        """Leave the session's views as they were."""
        for name, hidden in self.views.items():
            self.spark.catalog.dropTempView(name)
            if hidden is not None:
                hidden.createOrReplaceTempView(name)
