"""A query in one task: DuckDB reads the files there and does all steps; nothing is exchanged.

So few facts are queried, and any number of them where all tasks would run on one machine: threads
of one DuckDB share memory, and tasks would have to pass their rows through the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidelog.errors import DataError
from tidelog.evaluation.database import Database
from tidelog.evaluation.density import Density
from tidelog.evaluation.duckdb_failures import TOO_FAR
from tidelog.evaluation.layout import Layout
from tidelog.evaluation.rows import DONE, as_rows, row_schema
from tidelog.evaluation.spark.scans import fact_views, in_each
from tidelog.evaluation.spark.sources import arrow_struct
from tidelog.evaluation.spark.splits import Reader, Split, reading
from tidelog.evaluation.sql import Writer
from tidelog.evaluation.steps import StepRunner


@dataclass(frozen=True)
class OneTask:
    """What the task does; it gives the packed answers."""

    reader: Reader
    splits: tuple[Split, ...]
    layout: Layout
    rigid: Mapping[str, pa.Table]
    memory: str  # for each thread
    threads: int

    def frame(self, spark: SparkSession) -> DataFrame:
        return in_each(spark, [self.splits], self, arrow_struct(self.schema))

    @property
    def schema(self) -> pa.Schema:
        return row_schema(self.layout.answers.values())

    def __call__(self, _: int, splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
        with reading(self.memory, self.threads) as connection:
            there = self.reader.open(connection, splits)
            with there.readable(connection):
                wanted = {p.base for p in self.layout.plan.deps.core.inputs if p.temporal}
                facts = fact_views(connection, self.reader, there, wanted)
                writer = self._evaluate(Database(connection), facts)
                for query, relation in self.layout.answers.items():
                    rows = connection.sql(writer.answers(query)).to_arrow_table()
                    yield from as_rows(relation, rows, DONE, self.schema).to_batches()

    def _evaluate(self, database: Database, facts: Mapping[str, str]) -> Writer:
        """Do all steps of the plan over views of facts by input."""
        plan = self.layout.plan
        inputs = [p for p in plan.deps.core.inputs if p.temporal]
        tables = {p.name: facts[p.base] for p in inputs if p.base in facts}
        for number, (name, rows) in enumerate(self.rigid.items()):
            tables[name] = f"rigid{number}"
            database.connection.register(tables[name], rows)
        many = {p.name: sum(s.rows for s in self.splits if s.name == p.base) for p in inputs}
        writer = Writer(plan)
        database.offer_texts(writer.texts)
        runner = StepRunner(database, whole=True, sparse=Density(database, many).is_sparse)
        try:
            runner.run(plan, plan.steps, {}, tables, writer)
        except duckdb.OutOfRangeException:
            raise DataError(TOO_FAR) from None
        return writer
