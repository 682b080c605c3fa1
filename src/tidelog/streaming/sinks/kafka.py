"""`kafka://HOST:PORT/TOPIC`: JSON messages, at least once.

A message is an answer, `{"predicate": ..., <columns>, "time": ...}`; its key is the same as a list,
so that an answer that is sent again has the key that it had. The headers are the stream, the number
and the lineage of the batch, and the position in it. After the answers of a batch every partition
of the topic is told up to which time all answers have been sent: `{"final": ...}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.data.kafka import SCHEME, USAGE, MessageFormat, Topics, check_options
from tidelog.data.writers import json_lines
from tidelog.errors import DataError
from tidelog.evaluation.stretches import end_columns
from tidelog.language.program import TIME_COLUMN
from tidelog.streaming.sinks import Target
from tidelog.streaming.sinks.sink import BatchAnswers, LocalAnswers, Sink

_SCHEMA = pa.schema(
    [
        ("q", pa.int32()),
        ("t", pa.int64()),
        ("ended", pa.bool_()),
        ("key", pa.string()),
        ("value", pa.string()),
    ]
)
_SPARK_SCHEMA = "q INT, t BIGINT, ended BOOLEAN, key STRING, value STRING"
_ORDER = ("q", "t", "ended", "key")


def sink(target: Target) -> Sink:
    return KafkaSink(Topics.of(f"kafka:{target.path}"), target.options, target.spark)


@dataclass(frozen=True)
class _AsMessages:
    """Answers of a query as messages, each with what puts it in order."""

    query: str
    number: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield self.messages(pa.Table.from_batches([batch])).to_batches()[0]

    def messages(self, answers: pa.Table) -> pa.Table:
        """
        >>> made = _AsMessages("P", 0).messages(pa.table({"x": ["a"], "time": [3]}))
        >>> made.select(["t", "key", "value"]).to_pylist()
        [{'t': 3, 'key': '["P", "a", 3]', 'value': '{"predicate": "P", "x": "a", "time": 3}'}]
        """
        values = list(json_lines(self.query, answers))
        keys = [json.dumps(list(json.loads(v).values()), ensure_ascii=False) for v in values]
        times, ended = self._times(answers)
        numbers = pa.repeat(pa.scalar(self.number, pa.int32()), len(values))
        texts = [pa.array(keys, pa.string()), pa.array(values, pa.string())]
        return pa.table([numbers, times, ended, *texts], schema=_SCHEMA)

    def _times(self, answers: pa.Table) -> tuple[pa.Array, pa.Array]:
        """When each answer holds, for their order; a stretch begins before it ends."""
        names, ended = answers.column_names, pa.repeat(pa.scalar(True), answers.num_rows)
        if names[-1] == TIME_COLUMN:
            return answers.column(-1).cast(pa.int64()).combine_chunks(), ended
        if tuple(names[-2:]) == end_columns(names[:-2]) and not pa.types.is_string(
            answers.column(-2).type
        ):
            ended = pc.is_valid(answers.column(-1)).combine_chunks()
            return answers.column(-2).cast(pa.int64()).combine_chunks(), ended
        return pa.nulls(answers.num_rows, pa.int64()), ended


class KafkaSink(Sink):
    """Messages that cannot be taken back; their keys tell which were sent before."""

    cannot_resume = "messages cannot be taken back"

    def __init__(self, topics: Topics, options: Mapping[str, str], spark: Any) -> None:
        if len(topics.topics) != 1 or topics.format != MessageFormat():
            raise DataError(f"{topics}: answers go to one topic, as JSON: give {USAGE}")
        check_options(options)
        self.topics, self.spark, self.stream = topics, spark, ""
        (self.topic,) = topics.topics
        self.options = {n: v for n, v in options.items() if n.startswith("kafka.")}
        self.name = f"{SCHEME}{self.topic}"  # wherever the broker is
        self._partitions = 0
        self._lineage = ""  # of the batch at work

    def prepare(self, queries: Sequence[str], *, fresh: bool) -> None:
        from tidelog.evaluation.spark.kafka import Brokers

        self.queries = tuple(queries)
        with Brokers(self.spark, self.topics, self.options) as brokers:
            self._partitions = brokers.partitions()[self.topic]

    def mark(self, stream: str) -> None:
        self.stream = stream

    def begin(self, batch: int, lineage: str) -> None:
        self._lineage = lineage

    def write(self, batch: int, answers: Mapping[str, BatchAnswers]) -> None:
        from pyspark.sql import DataFrame, Window
        from pyspark.sql import functions as F

        frames, tables = [], []
        for query, rows in answers.items():
            shaped = _AsMessages(query, self.queries.index(query))
            if isinstance(rows, LocalAnswers):
                tables.append(shaped.messages(rows.table()))
            else:
                frames.append(rows.frame().mapInArrow(shaped, _SPARK_SCHEMA))
        if tables:
            frames.append(self.spark.createDataFrame(pa.concat_tables(tables), _SPARK_SCHEMA))
        if frames:
            together = reduce(DataFrame.union, frames)
            position = F.row_number().over(Window.orderBy(*_ORDER)) - 1
            self._send(
                together.withColumn("position", position).select(
                    "key", "value", self._headers(batch, F.col("position")).alias("headers")
                )
            )

    def final(self, batch: int, time: int | str) -> None:
        from pyspark.sql import functions as F

        said = json.dumps({"final": time}, ensure_ascii=False)
        places = self.spark.range(self._partitions).select(
            F.lit(said).alias("key"),
            F.lit(said).alias("value"),
            self._headers(batch, None).alias("headers"),
            F.col("id").cast("int").alias("partition"),
        )
        self._send(places)

    def _headers(self, batch: int, position: Any) -> Any:
        from pyspark.sql import functions as F

        texts = {"stream": self.stream, "batch": str(batch), "lineage": self._lineage}
        named = {name: F.lit(text) for name, text in texts.items()}
        if position is not None:
            named["position"] = position.cast("string")
        return F.array(
            *(
                F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))
                for name, value in named.items()
            )
        )

    def _send(self, messages: Any) -> None:
        """In one task, so that they arrive in their order."""
        writer = messages.coalesce(1).write.format("kafka").options(**self.options)
        writer = writer.option("kafka.bootstrap.servers", self.topics.servers)
        writer.option("topic", self.topic).option("includeHeaders", "true").save()
