"""Timestamps become ticks and ticks timestamps, in every format."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.facts import arrow, in_order, refused, write_csv, write_json, write_parquet

import tidelog
from tidelog.data.ticks import Ticks
from tidelog.evaluation.duckdb import Engine

ZONED = "input E(name: text) @ at. P(X) @ T :- E(X) @ T."
ORIGIN = "2014-01-01T00:00:00+01:00"
STAMPS = [
    "2013-12-31T23:00:00Z",
    "2013-12-31T22:59:59.999999Z",
    "2014-01-01 00:25:00+01:00",
    "2014-01-01T00:25+0100",
    "2014-01-01T05:00:00.5-05:30",
    "2014-01-01",
    "1969-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59+14",
]


def python_tick(stamp: str, length: timedelta, origin: str) -> int:
    """By Python's own arithmetic, which rounds down."""
    moments = [datetime.fromisoformat(s) for s in (stamp, origin)]
    at, start = (m if m.tzinfo else m.replace(tzinfo=UTC) for m in moments)
    return (at - start) // length


@pytest.mark.parametrize(
    ("tick", "length"),
    [
        ("10m", timedelta(minutes=10)),
        ("1us", timedelta(microseconds=1)),
        ("7 ms", timedelta(milliseconds=7)),
        ("1d", timedelta(days=1)),
        ("3h", timedelta(hours=3)),
        ("90s", timedelta(seconds=90)),
    ],
)
def test_timestamps_become_ticks(tmp_path: Path, tick: str, length: timedelta) -> None:
    """In every format, before 1970 and before the origin too."""
    rows = [(f"x{i}", stamp) for i, stamp in enumerate(STAMPS)]
    wanted = in_order((name, python_tick(stamp, length, ORIGIN)) for name, stamp in rows)
    moments = [(name, datetime.fromisoformat(stamp)) for name, stamp in rows]
    moments = [(n, m if m.tzinfo else m.replace(tzinfo=UTC)) for n, m in moments]
    utc = [(name, moment.astimezone(UTC)) for name, moment in moments[:-2]]
    sources: list[tuple[Any, int]] = [
        (write_csv(tmp_path, "E", ("name", "at"), rows), 0),
        (write_json(tmp_path, "E", ("name", "at"), rows), 0),
        ({"E": moments}, 0),
        (write_parquet(tmp_path, "E", ("name", "at"), utc), 2),
        ({"E": arrow(("name", "at"), utc)}, 2),
    ]
    program = tidelog.parse(ZONED)
    for source, fewer in sources:
        kept = [row for row in wanted if not fewer or row[0] not in ("x7", "x8")]
        with Engine(program, source, Ticks.of(tick, ORIGIN), timestamps=False) as engine:
            table = engine.query(["P"])["P"]
        assert list(zip(*(c.to_pylist() for c in table.columns), strict=True)) == kept, source


def test_nanoseconds_round_down_too() -> None:
    table = pa.table({"name": ["a", "b"], "at": pa.array([-1, 999], pa.timestamp("ns"))})
    with Engine(tidelog.parse(ZONED), {"E": table}, Ticks.of("1us"), timestamps=False) as engine:
        assert engine.query(["P"])["P"]["time"].to_pylist() == [-1, 0]


def test_timestamps_come_out() -> None:
    """The start of each tick; the range asked for is in timestamps or in ticks."""
    facts = {"E": [("a", "2014-01-01T00:07:00Z"), ("b", datetime(2014, 1, 1, 0, 59, 59))]}
    program = tidelog.parse(ZONED)
    rows = program.query("P", facts, tick="10m", origin="2014-01-01").to_pylist()
    midnight = datetime(2014, 1, 1, tzinfo=UTC)
    assert [row["time"] for row in rows] == [midnight, midnight + timedelta(minutes=50)]
    for from_ in (1, "2014-01-01T00:10Z", "2014-01-01T01:19:59+01:00", midnight.replace(minute=19)):
        rows = program.query("P", facts, tick="10m", origin="2014-01-01", from_=from_).to_pylist()
        assert [row["x"] for row in rows] == ["b"]


def test_a_tick_too_far_for_a_timestamp() -> None:
    rules = "P @ T :- E @ T. P @ T+1000000000000 :- E @ T."
    facts = {"E": [("2014-01-01",)]}
    assert refused(rules, facts, tick="1h", to=10**15) == [
        "tick 1000000385704 is no timestamp between the years 1 and 9999; ask for whole ticks"
    ]


@pytest.mark.parametrize(
    "stamp",
    [
        "noon",
        "epoch",
        "infinity",
        "2014-1-1",
        "2014-02-30",
        "20140101T000000",
        "2014-W01-1",
        "2014-01-01T24:00:00",
        "2014-01-01T00:00:60",
        "2014-01-01 00:00 Europe/Paris",
        "0000-01-01",
        "0000-12-31T23:59:59Z",
    ],
)
def test_bad_timestamps(tmp_path: Path, stamp: str) -> None:
    """What one reader takes and another does not is not a timestamp."""
    rows = [("a", "2014-01-01"), ("b", stamp)]
    path = write_csv(tmp_path, "E", ("name", "at"), rows)
    problem = f"column `at`: `{stamp}` is not a timestamp such as 2014-01-01T00:10:00Z"
    assert refused(ZONED, path, tick="1h") == [f"{path}:3: {problem}"]
    path = write_json(tmp_path, "E", ("name", "at"), rows)
    assert refused(ZONED, path, tick="1h") == [f"{path}:2: {problem}"]


def test_numbers_where_timestamps_are_due(tmp_path: Path) -> None:
    path = write_parquet(tmp_path, "E", ("name", "at"), [("a", 5)])
    messages = [
        f"{path}: time column `at` is BIGINT; times are timestamps; convert them, or give no"
        " length of a tick"
    ]
    assert refused(ZONED, path, tick="1h") == messages
    assert refused(ZONED, {"E": [("a", 5)]}, tick="1h") == [
        "facts of `E`, row 1: column `at`: 5 is not a timestamp; ticks are given without --tick"
    ]


@pytest.mark.parametrize("tick", ["", "10", "m", "0m", "-1m", "1.5h", "1w", "10 minutes"])
def test_bad_tick_lengths(tick: str) -> None:
    with pytest.raises(ValueError, match="is not a tick length"):
        Ticks.of(tick)
