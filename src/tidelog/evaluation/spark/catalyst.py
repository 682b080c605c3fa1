"""Spark's own engine for the SQL of a plan: views of a session, computed when rows are wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidelog.evaluation.engine import Feature
from tidelog.evaluation.sql import TEXTS


class Catalyst:
    """Tables of ours as temporary views; nothing runs until rows are wanted."""

    limits: ClassVar[Mapping[Feature, str]] = {
        Feature.RECURSION: "Spark's own engine would plan every round anew;"
        " recursive rules are evaluated in its partitions"
    }

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.views: dict[str, None] = {}
        # Views of the session's own that ours would hide.
        self.before = {
            table.name: spark.table(table.name)
            for table in spark.catalog.listTables()
            if table.isTemporary
        }

    def offer(self, name: str, rows: DataFrame) -> None:
        """Have some rows as a view."""
        self.views[name] = None
        rows.createOrReplaceTempView(name)

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
        """Views were needed to make the plan; what is made does not need them."""
        for name in self.views:
            self.spark.catalog.dropTempView(name)
            if name in self.before:
                self.before[name].createOrReplaceTempView(name)
