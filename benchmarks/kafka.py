"""Kafka to files beside Spark's own `from_json` into nothing, over the same topic, in turns.

A broker is started on loopback. Its jars and the connector's come from Maven; without them there is
nothing to measure, and one sentence says so.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidelog
from benchmarks.harness import Result, best_of_each, console, cost
from benchmarks.spark_stream import RULES
from tidelog.errors import DataError
from tidelog.spark import session, stream

SCHEMA = "device STRING, level STRING, time BIGINT"


def messages(spark: SparkSession, address: str, count: int) -> None:
    """Readings of a thousand devices, in the order of their times, in one partition."""
    rows = spark.range(count).coalesce(1)
    level = F.when(F.hash("id") % 2 == 0, "high").otherwise("low")
    reading = F.struct(
        F.concat(F.lit("turbine-"), F.col("id") % 1000).alias("device"),
        level.alias("level"),
        F.floor(F.col("id") / 1000).alias("time"),
    )
    writer = rows.select(F.to_json(reading).alias("value")).write.format("kafka")
    writer.option("kafka.bootstrap.servers", address).option("topic", "readings").save()


def topic(spark: SparkSession, address: str, portion: int) -> DataFrame:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", address)
    reader = reader.option("subscribe", "readings").option("startingOffsets", "earliest")
    return reader.option("maxOffsetsPerTrigger", portion).load()


def run(quick: bool) -> list[Result]:
    tests = str(Path(__file__).resolve().parent.parent / "tests")
    if tests not in sys.path:
        sys.path.append(tests)
    from support.kafka import Broker, Client

    try:
        spark = session("local[2]", connectors=["kafka"])
        root = tempfile.TemporaryDirectory(prefix="tidelog-bench-")
        broker = Broker(Path(root.name) / "broker")
    except DataError as error:
        console().print(f"kafka: {error}")
        return []
    count = 20_000 if quick else 500_000
    portion = count // 5
    folders = iter(range(100))
    broker.start()
    client = Client(broker.address)
    try:
        client.create("readings")
        messages(spark, broker.address, count)

        def ours() -> None:
            out = Path(root.name) / str(next(folders))
            running = stream(
                spark,
                tidelog.parse(RULES),
                inputs={"Temp": topic(spark, broker.address, portion)},
                sink=f"parquet:{out / 'answers'}",
                checkpoint=out / "checkpoint",
                trigger={"availableNow": True},
            )
            running.awaitTermination()
            running.stop()

        def theirs() -> None:
            out = Path(root.name) / str(next(folders))
            row = F.from_json(F.col("value").cast("string"), SCHEMA).alias("row")
            read = topic(spark, broker.address, portion).select(row).select("row.*")
            writer = read.writeStream.format("noop").option("checkpointLocation", str(out))
            writer.trigger(availableNow=True).start().awaitTermination()

        seconds, peer = best_of_each(1 if quick else 3, ours, theirs)
    finally:
        client.close()
        broker.stop()
        spark.stop()
        root.cleanup()
    rate = Result("kafka/messages to files", count / seconds, "facts/s")
    return [rate, cost(f"kafka/{count:,} messages to files", seconds, "from_json, noop", peer)]
