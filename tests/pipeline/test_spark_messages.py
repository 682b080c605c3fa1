"""Messages as Kafka's connector gives them, without a broker."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

import tidelog
from tidelog.data.kafka import MessageFormat
from tidelog.data.schema import schemas
from tidelog.evaluation.spark.kafka import Messages
from tidelog.evaluation.spark.sources import Inputs, TimeLimits

pytestmark = pytest.mark.xdist_group("spark")
COLUMNS = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp,"
    " headers array<struct<key: string, value: binary>>"
)
RULES = """
input Temp(device: text, level: int) @ at.
input Door(site: text) @ at.
output P.
P(X, L) @ T :- Temp(X, L) @ T, Door(X) @ T.
"""


def test_each_input_has_its_own_headers(spark: SparkSession) -> None:
    """Of several of one name the last that has a value; some messages have none at all."""
    now = datetime(2020, 1, 1, tzinfo=UTC)
    temps = [
        [("level", b"1"), ("at", b"3"), ("level", b"2")],
        [("at", b"4"), ("level", b"5"), ("level", None), ("other", b"9")],
        [("at", b"5")],
        None,
    ]
    frames = [
        spark.createDataFrame(
            [(b"a", b"{}", "temps", 0, i, now, headers) for i, headers in enumerate(temps)], COLUMNS
        ),
        spark.createDataFrame(
            [(None, b'{"site": "s"}', "doors", 0, 0, now, [("at", b"7")])], COLUMNS
        ),
    ]
    formats = [
        MessageFormat("Temp", "json", "device", ("level", "at")),
        MessageFormat("Door", "json", None, ("at",)),
    ]
    inputs = Inputs(schemas(tidelog.parse(RULES)), None)
    messages = Messages(list(zip(frames, formats, strict=True)), inputs, frozenset())
    rows = messages.batch(messages.stream(), TimeLimits(-100, 100), set).collect()
    device, level = inputs.slots("Temp")
    (site,) = inputs.slots("Door")
    temp, door = inputs.tag("Temp"), inputs.tag("Door")
    facts = [row for row in rows if row.problem is None]
    assert {(r[device], r[level], r.t) for r in facts if r.tag == temp} == {
        ("a", 2, 3),
        ("a", 5, 4),
    }
    assert {(r[site], r.t) for r in facts if r.tag == door} == {("s", 7)}
    broken = {row.file for row in rows if row.problem is not None}
    assert broken == {"kafka:temps/0/2", "kafka:temps/0/3"}
