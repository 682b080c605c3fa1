"""Times on Spark: which moment a time without a zone is, and which type an answer's time has."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from support.sessions import settings

import tidelog
from tidelog.data.schema import schemas
from tidelog.errors import Refused
from tidelog.evaluation.spark.memory import frame_of
from tidelog.pipeline import sites
from tidelog.spark import query, stream

deltalake = pytest.importorskip("deltalake")

pytestmark = pytest.mark.xdist_group("spark")

NEW_YORK = "America/New_York"
# 02:30 on the day on which New York has no such time.
GAP = datetime(2026, 3, 8, 2, 30)


def zone(spark: SparkSession, name: str = NEW_YORK) -> Any:
    return settings(spark, spark_sql_session_timeZone=name)


def arrow(unit: str) -> pa.Table:
    return pa.table({"x": [unit], "at": pa.array([GAP], pa.timestamp(unit))})


def test_a_time_without_a_zone_is_in_utc(spark: SparkSession, tmp_path: Path) -> None:
    """The session's zone, in which this time does not even exist, changes nothing."""
    deltalake.write_deltalake(str(tmp_path / "e"), arrow("us"))
    facts = {
        "a": arrow("s"),
        "b": arrow("ns"),
        "c": pd.DataFrame({"x": ["pandas"], "at": [pd.Timestamp(GAP)]}),
        "d": [("rows", GAP)],
        "e": f"delta:{tmp_path / 'e'}",
    }
    rules = [f"input {n}(x: text) @ at. O(X) @ T :- {n}(X) @ T." for n in facts]
    with zone(spark):
        answers = tidelog.parse(f"tick 1m. {' '.join(rules)}").query("O", facts, engine="spark")
    texts = ["ns", "pandas", "rows", "s", "us"]
    assert answers.to_pylist() == [{"x": x, "time": GAP.replace(tzinfo=UTC)} for x in texts]


def test_times_before_1970_are_rounded_down(spark: SparkSession) -> None:
    """As in process, where a nanosecond before 1970 is in the tick before it."""
    facts = {"r": pa.table({"x": ["a"], "at": pa.array([-1], pa.timestamp("ns"))})}
    program = tidelog.parse("tick 1us. input r(x: text) @ at. O(X) @ T :- r(X) @ T.")
    known = schemas(program)["r"]
    (row,) = frame_of(spark, known, facts["r"], None).collect()
    assert row.at == datetime(1969, 12, 31, 23, 59, 59, 999_999)
    assert program.query("O", facts).column("time").to_pylist() == [row.at.replace(tzinfo=UTC)]


# Answers have the type of times that the facts have

TOKYO = "Asia/Tokyo"
COPY = "tick {}. input r(x: text) @ at. O(X) @ T :- r(X) @ T."
PAIRS = "tick {}. input r(x: text) @ at. input s(x: text) @ at. O(X) @ T :- r(X) @ T, s(X) @ T."
# Days and moments around those on which New York's clocks change, of long ago and far ahead.
DAYS = ["0001-01-01", "1500-03-01", "1883-11-18", "1969-12-31", "2026-03-08", "2026-11-01"]
DAYS += ["9999-12-31"]
HOURS = ["00:00:00", "01:30:00", "02:30:00", "23:59:59.999999"]


def times_of(spark: SparkSession, type_: str) -> DataFrame:
    """A row for each of many times, of a type."""
    moments = DAYS if type_ == "DATE" else [f"{day} {hour}" for day in DAYS for hour in HOURS]
    if type_ == "TIMESTAMP":
        moments = [f"{moment}Z" for moment in moments]
    rows = [f"('x{i}', {type_}'{moment}')" for i, moment in enumerate(moments)]
    return spark.sql(f"SELECT * FROM VALUES {', '.join(rows)} AS v(x, at)")


@pytest.mark.parametrize("name", [NEW_YORK, TOKYO, "UTC", "Asia/Kathmandu"])
@pytest.mark.parametrize("type_", ["DATE", "TIMESTAMP_NTZ", "TIMESTAMP"])
def test_answers_are_found_again_by_their_time(spark: SparkSession, type_: str, name: str) -> None:
    """An answer is at the time of its fact, in the type of its column, in any zone."""
    with zone(spark, name):
        facts = times_of(spark, type_)
        length = "1d" if type_ == "DATE" else "1us"
        answers = query(spark, tidelog.parse(COPY.format(length)), "O", {"r": facts})
        assert answers.schema["time"].dataType == facts.schema["at"].dataType
        left_out = facts.join(answers, on=[facts.x == answers.x, facts["at"] == answers["time"]])
        assert left_out.count() == facts.count() == answers.count()


@pytest.mark.parametrize(
    ("length", "origin", "types", "expected"),
    [
        ("1d", None, ("DATE", "DATE"), "date"),
        ("7d", "2026-03-02", ("DATE", "DATE"), "date"),
        ("12h", None, ("DATE", "DATE"), "timestamp_ntz"),
        ("1d", "2026-03-02T06:00:00Z", ("DATE", "DATE"), "timestamp_ntz"),
        ("1d", None, ("DATE", "TIMESTAMP_NTZ"), "timestamp_ntz"),
        ("1d", None, ("DATE", "TIMESTAMP"), "timestamp"),
        ("1d", None, ("TIMESTAMP_NTZ", "TIMESTAMP"), "timestamp"),
    ],
)
def test_the_type_follows_from_types_and_ticks(
    spark: SparkSession, length: str, origin: str | None, types: tuple[str, str], expected: str
) -> None:
    """Nothing in the rows has a say. Ticks are those of UTC."""
    with zone(spark):
        facts = [times_of(spark, type_) for type_ in types]
        program = tidelog.parse(PAIRS.format(length))
        inputs = dict(zip("rs", facts, strict=True))
        for intervals in (False, True):
            answers = query(
                spark, program, "O", inputs, origin=origin, intervals=intervals, from_="2020-01-01"
            )
            named = ["from", "to"] if intervals else ["time"]
            assert [answers.schema[n].dataType.typeName() for n in named] == [expected] * len(named)
        assert answers.toArrow().num_rows == answers.count()
        alone = tidelog.parse(f"{PAIRS.format(length)} Other(X) @ T :- r(X) @ T.")
        other = query(spark, alone, "Other", inputs, origin=origin)
        own = "timestamp_ntz" if expected != "date" and types[0] == "DATE" else expected
        only = "date" if types[0] == "DATE" and length == "1d" and origin is None else own
        only = "timestamp_ntz" if types[0] == "TIMESTAMP_NTZ" else only
        assert other.schema["time"].dataType.typeName() == only, "of what the query needs"


@pytest.mark.parametrize("stored", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
def test_a_file_of_spark_has_moments(spark: SparkSession, tmp_path: Path, stored: str) -> None:
    """INT96 says nothing of zones, and is a moment to Spark; parts of other columns count not."""
    facts = spark.sql("SELECT 'a' x, named_struct('a', 1, 'b', 2) z, TIMESTAMP'2026-03-08' at")
    with settings(spark, spark_sql_parquet_outputTimestampType=stored):
        facts.write.parquet(str(tmp_path / "r"))
    answers = query(spark, tidelog.parse(COPY.format("1m")), "O", {"r": str(tmp_path / "r")})
    assert answers.schema["time"].dataType.typeName() == "timestamp"
    assert answers.join(facts, facts["at"] == answers["time"]).count() == 1


def test_files_and_facts_in_memory_have_types_too(spark: SparkSession, tmp_path: Path) -> None:
    days = pa.table({"x": ["a"], "at": pa.array([GAP.date()], pa.date32())})
    pq.write_table(days, tmp_path / "r.parquet")
    moments = pa.table({"x": ["a"], "at": pa.array([GAP], pa.timestamp("ms"))})
    pq.write_table(moments, tmp_path / "m.parquet")
    (tmp_path / "r.csv").write_text("x,at\na,2026-03-08T02:30:00\n")
    ways: list[tuple[Any, object]] = [
        (str(tmp_path / "r.parquet"), GAP.date()),
        (days, GAP.date()),
        ([("a", GAP.date())], GAP.date()),
        (str(tmp_path / "m.parquet"), GAP),
        (moments, GAP),
        (moments.to_pandas(), GAP),
        ([("a", GAP)], GAP),
    ]
    program, by_minute = (tidelog.parse(COPY.format(n)) for n in ("1d", "1m"))
    with zone(spark):
        for facts, expected in ways:
            rules = by_minute if expected == GAP else program
            (row,) = query(spark, rules, "O", {"r": facts}).collect()
            assert row.time == expected
            there = rules.query("O", {"r": facts}, engine="spark")
            assert there.equals(rules.query("O", {"r": facts})), "Arrow has UTC, in any engine"
        for facts in (str(tmp_path / "r.csv"), [("a", GAP.replace(tzinfo=UTC))]):
            answers = query(spark, by_minute, "O", {"r": facts})
            assert answers.schema["time"].dataType.typeName() == "timestamp"
            (stamp,) = answers.selectExpr("unix_seconds(time)").first() or ()
            assert stamp == GAP.replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("type_", "little"), [("DATE", 100_000), ("TIMESTAMP_NTZ", -1), ("TIMESTAMP_NTZ", 100_000)]
)
def test_a_stream_writes_the_type_of_its_facts(
    spark: SparkSession, tmp_path: Path, type_: str, little: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every sink with types, from the driver and from the partitions; texts are in UTC."""
    monkeypatch.setattr(sites, "LITTLE", little)
    facts = times_of(spark, type_)
    facts.write.parquet(str(tmp_path / "in"))
    program = tidelog.parse(COPY.format("1d" if type_ == "DATE" else "1us"))
    told: list[tuple[Any, ...]] = []

    def hear(batch: int, answers: Any) -> None:
        told.extend(map(tuple, answers["O"].collect()))

    def run(sink: Any, **more: Any) -> Any:
        rows = spark.readStream.schema(f"x STRING, at {type_}").parquet(str(tmp_path / "in"))
        now = {"availableNow": True}
        running = stream(
            spark, program, inputs={"r": rows}, sink=sink, trigger=now, max_ahead=None, **more
        )
        running.close()
        return running

    with zone(spark):
        expected = sorted(map(tuple, facts.collect()))
        columns = run("memory").answers["O"].to_pydict().values()
        assert sorted(zip(*columns, strict=True)) == expected
        run(f"parquet:{tmp_path / 'p'}")
        for place in (tmp_path / "p/O").iterdir():
            there = spark.read.parquet(str(place))
            assert there.schema["time"].dataType == facts.schema["at"].dataType
        written = spark.read.parquet(f"{tmp_path}/p/O").select("x", "time")
        assert sorted(map(tuple, written.collect())) == expected
        run(hear)
        assert sorted(told) == expected
        run(f"delta:{tmp_path / 'd'}")
        table = deltalake.DeltaTable(str(tmp_path / "d/O")).to_pyarrow_table().to_pydict()
        assert sorted(zip(*table.values(), strict=True)) == expected
        run(f"jsonl:{tmp_path / 'j'}")
        lines = map(json.loads, (tmp_path / "j").read_text().splitlines())
        utc = {line["x"]: datetime.fromisoformat(line["time"]) for line in lines}
        for x, at in expected:
            whole = at if isinstance(at, datetime) else datetime(at.year, at.month, at.day)
            assert utc[x] == whole.replace(tzinfo=UTC)


def test_a_stream_goes_on_with_the_type_that_it_had(spark: SparkSession, tmp_path: Path) -> None:
    program = tidelog.parse(COPY.format("1d"))

    def run(type_: str) -> None:
        folder = tmp_path / type_
        times_of(spark, type_).write.mode("overwrite").parquet(str(folder))
        rows = spark.readStream.schema(f"x STRING, at {type_}").parquet(str(folder))
        where: dict[str, Any] = {"sink": f"parquet:{tmp_path}/p", "checkpoint": tmp_path / "c"}
        now = {"availableNow": True}
        running = stream(spark, program, inputs={"r": rows}, trigger=now, **where)
        running.awaitTermination()
        running.stop()

    run("DATE")
    run("DATE")
    with pytest.raises(Refused, match='time_type is "TIMESTAMP_NTZ" and was "DATE"'):
        run("TIMESTAMP_NTZ")
