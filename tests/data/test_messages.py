"""Messages of Kafka that are read all at once are read as each by itself would be."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidelog
from tidelog.data.kafka import MessageFormat
from tidelog.data.schema import schemas
from tidelog.data.ticks import Ticks
from tidelog.evaluation.spark.kafka import _Reader
from tidelog.evaluation.spark.sources import Inputs, TimeLimits

RULES = tidelog.parse("""
input Temp(device: text, level: float, count: int, on: bool) @ at.
output Hot.
Hot(X) @ T :- Temp(X, V, N, B) @ T, V >= 5, N >= 5, B = true.
""")
STAMPS = ["2024-05-01T12:00:30Z", "2024-05-01T12:10:00+02:00", "2024-05-01", "soon", 5]


def rows(messages: list[bytes | None], ticks: Ticks | None, at_once: bool) -> list[Any]:
    inputs = Inputs(schemas(RULES), ticks)
    reader = _Reader(inputs, TimeLimits(last=10**9), frozenset(), (MessageFormat("Temp"),))
    n = len(messages)
    batch = pa.RecordBatch.from_pydict(
        {
            "source": pa.array([0] * n, pa.int32()),
            "value": pa.array(messages, pa.binary()),
            "topic": pa.array(["t"] * n, pa.string()),
            "micros": pa.nulls(n, pa.int64()),
            "partition": pa.array([0] * n, pa.int32()),
            "offset": pa.array(range(n), pa.int64()),
        }
    )
    with pytest.MonkeyPatch.context() as patched:
        if not at_once:
            patched.setattr(_Reader, "_many", lambda *_: None)
        read = [row for part in reader([batch]) for row in part.to_pylist()]
    return sorted(read, key=repr)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-10, 10),
    st.floats(),
    st.sampled_from(["a", "", "Infinity", '\u00e9\n"', 5.0, -0.0, *STAMPS]),
)
RECORDS = st.fixed_dictionaries(
    {"device": st.sampled_from(["a", "b"]), "level": st.floats(-9, 9), "on": st.booleans()},
    optional={
        "count": st.integers(-9, 9),
        "at": st.one_of(st.integers(0, 2**40), st.sampled_from(STAMPS)),
        "time": VALUES,
        "predicate": st.sampled_from(["Temp", "Wind"]),
        "more": VALUES,
    },
).flatmap(
    lambda record: st.one_of(
        st.just({"count": 3, "at": 7, **record}),
        st.just({"count": 3, "at": 7, **record}),
        st.dictionaries(st.sampled_from(["device", "level", "count", "on", "at"]), VALUES).map(
            lambda other: {**record, **other}
        ),
    )
)
PLAIN = RECORDS.map(lambda record: json.dumps(record).encode())
ODD = st.sampled_from(
    [
        None,
        b"",
        b" ",
        b"{",
        b"}",
        b"{}",
        b"{}{}",
        b"[1]",
        b"\xff",
        b'{"device": "a\xff"}',
        b'{"device": "a", "device": "b", "level": 1, "count": 1, "on": true, "at": 1}',
        b'{"device": "a", "level": 1e400, "count": 1, "on": true, "at": 1}',
        b'{"device": "a", "level": NaN, "count": 1, "on": true, "at": 1}',
        b'{"device": "a",\n"level": 1, "count": 1, "on": true, "at": 1}\n',
        b'{"device": "a", "level": 1',
        b', "count": 1, "on": true, "at": 1}',
        b'{"device": "\\ud800", "level": 1, "count": 1, "on": true, "at": 1}',
        b'{"device": "a", "level": "\\ud800", "count": 1, "on": true, "at": 1}',
        b'{"device": "a", "level": 1, "count": 1, "on": true, "at": 1} {"device": 1}',
        b'{"time": 7}',
    ]
)


@given(st.lists(st.one_of(PLAIN, PLAIN, PLAIN, PLAIN, ODD), min_size=1, max_size=6), st.booleans())
def test_at_once_as_one_by_one(messages: list[bytes | None], stamped: bool) -> None:
    ticks = Ticks.of("10m", None) if stamped else None
    assert rows(messages, ticks, at_once=True) == rows(messages, ticks, at_once=False)


def test_plain_messages_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = [
        json.dumps({"device": "a", "level": 1, "count": 2, "on": True, "at": t}).encode()
        for t in range(3)
    ]
    monkeypatch.setattr(_Reader, "_row", lambda *_: pytest.fail("one by one"))
    assert [row["t"] for row in rows(plain, None, at_once=True)] == [0, 1, 2]
