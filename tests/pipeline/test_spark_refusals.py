"""A restart that would not give the right answers is refused with one sentence, nothing touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tidelog
from tidelog.errors import DataError
from tidelog.spark import Refused, stream
from tidelog.streaming.offline import Endless
from tidelog.streaming.schedule import Blocking

pytestmark = pytest.mark.xdist_group("spark")

RULES = "input E(x: text, v: int) @ time. P(X) @ T+1 :- E(X, V) @ T, E(X, V) @ T+1, V > 1."
NOW = {"availableNow": True}


def start(spark: SparkSession, folder: Path, rules: str = RULES, **options: Any) -> Any:
    wanted: dict[str, Any] = {
        "inputs": folder / "facts",
        "sink": f"parquet:{folder / 'answers'}",
        "checkpoint": folder / "checkpoint",
        "lateness": 1,
        "trigger": NOW,
    }
    return stream(spark, tidelog.parse(rules), **(wanted | options))


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


@pytest.fixture(scope="module")
def begun(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream that was stopped after a batch, with state and an open end."""
    folder = tmp_path_factory.mktemp("begun")
    (folder / "facts" / "E").mkdir(parents=True)
    (folder / "facts" / "E" / "1.csv").write_text("x,v,time\na,2,0\na,2,1\na,2,2\na,2,3\nb,5,4\n")
    running = start(spark, folder)
    running.awaitTermination()
    running.stop()
    return folder


def refused(spark: SparkSession, folder: Path, match: str, **options: Any) -> None:
    before = tree(folder)
    with pytest.raises(DataError, match=match) as raised:
        start(spark, folder, **options)
    assert "\n" not in str(raised.value)
    assert tree(folder) == before


def test_changed_rules_are_refused(spark: SparkSession, begun: Path) -> None:
    refused(
        spark,
        begun,
        r"other rules: there was P\(X\) .*V > 1\., and now there is P\(X\) .*V > 2\.",
        rules=RULES.replace("1.", "2."),
    )


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"lateness": 2}, "lateness is 2 and was 1"),
        ({"queries": ["E"]}, r'the queries are \["E"\] and was \["P"\]'),
        ({"max_jump": 5}, "max_jump is 5 and was null"),
        ({"from_": 3}, "from is 3 and was null"),
        ({"sink": "memory"}, 'sink is "memory" and was'),
        ({"rules": RULES.replace("v: int", "w: int")}, "the inputs are .* and was"),
        ({"tick": "1s"}, 'tick is "1s" and was null'),
    ],
)
def test_other_options_are_refused(
    options: dict[str, Any], match: str, spark: SparkSession, begun: Path
) -> None:
    refused(spark, begun, match, **options)


def test_a_damaged_commit_is_refused_by_name(spark: SparkSession, begun: Path) -> None:
    path = begun / "checkpoint" / "commits" / "0.json"
    good = path.read_text()
    try:
        path.write_text(good.replace('"tin": 2', '"tin": 3'))
        refused(spark, begun, r"commits/0\.json is damaged")
        path.write_text(good[:40])
        refused(spark, begun, r"commits/0\.json is damaged")
    finally:
        path.write_text(good)


def test_a_damaged_or_missing_state_file_is_refused_by_name(
    spark: SparkSession, begun: Path
) -> None:
    (path,) = (begun / "checkpoint" / "state").glob("*/*.parquet")
    good = path.read_bytes()
    try:
        path.write_bytes(good[:-20] + b"x" * 20)
        refused(spark, begun, rf"{path.name} is damaged")
        path.unlink()
        refused(spark, begun, rf"{path.name} is missing")
    finally:
        path.write_bytes(good)


def test_a_damaged_identity_is_refused_by_name(spark: SparkSession, begun: Path) -> None:
    path = begun / "checkpoint" / "tidelog.json"
    good = path.read_text()
    try:
        path.write_text(good.replace('"lateness": 1', '"lateness": 0'))
        refused(spark, begun, r"tidelog\.json is damaged")
    finally:
        path.write_text(good)


def test_a_foreign_sink_is_refused(spark: SparkSession, begun: Path, tmp_path: Path) -> None:
    before = tree(begun / "answers")
    with pytest.raises(Refused, match="belongs to another stream"):
        start(spark, begun, checkpoint=tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert tree(begun / "answers") == before
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "report.txt").write_text("mine")
    with pytest.raises(Refused, match="is there already and not empty"):
        start(spark, begun, checkpoint=tmp_path / "new", sink=f"csv:{mine}")
    assert not (tmp_path / "new").exists()
    with pytest.raises(Refused, match="is no checkpoint"):
        start(spark, begun, checkpoint=mine, sink=f"csv:{tmp_path / 'out'}")
    assert sorted(entry.name for entry in mine.iterdir()) == ["report.txt"]


def test_a_second_process_is_refused(spark: SparkSession, begun: Path) -> None:
    lock = begun / "checkpoint" / "lock"
    code = (
        "import fcntl, sys, time; f = open(sys.argv[1], 'r+'); fcntl.flock(f, fcntl.LOCK_EX);"
        "f.truncate(0); f.write('4711'); f.flush(); print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        refused(spark, begun, "is in use by process 4711")
        other.communicate(b"")


def test_it_goes_on_and_once_closed_takes_nothing_more(spark: SparkSession, begun: Path) -> None:
    facts = begun / "facts" / "E"
    (facts / "2.csv").write_text("x,v,time\nb,5,5\na,1,0\n")
    running = start(spark, begun)
    running.awaitTermination()
    commit = running.close()
    assert commit.clock.closed
    assert (commit.totals["facts"], commit.totals["late"]) == (6, 1)
    # Started again with nothing new it is done at once; with new facts it says so.
    again = start(spark, begun)
    again.awaitTermination()
    assert again.close() == commit
    before = tree(begun / "answers")
    (facts / "3.csv").write_text("x,v,time\nb,5,9\n")
    late = start(spark, begun)
    with pytest.raises(DataError, match="is closed: everything up to tick 5 was declared final"):
        late.awaitTermination()
    assert tree(begun / "answers") == before


def test_blocking_queries_are_refused_offline_with_the_rule(
    spark: SparkSession, tmp_path: Path
) -> None:
    rules = "input E(x: text) @ t. P(X) @ T :- E(X) @ T. P(X) @ T :- P(X) @ T+1."
    with pytest.raises(Blocking, match=r"cannot be streamed with a fixed delay"):
        stream(spark, tidelog.parse(rules), inputs=tmp_path)
    with pytest.raises(ValueError, match="strict is a style of offline"):
        stream(spark, tidelog.parse(rules), inputs=tmp_path, mode="online", history="strict")
    forever = "input E(x: text) @ t. P(X) @ T :- E(X) @ T. P(X) @ T+1 :- P(X) @ T."
    with pytest.raises(Endless, match="no window is enough for P"):
        stream(spark, tidelog.parse(forever), inputs=tmp_path, history="strict")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"inputs": {}}, "no stream for input `E`"),
        ({"sparse": ["F"]}, "`F` is listed as sparse"),
        ({"sink": "xml:out"}, "`xml:out` is no sink"),
        ({"rigid": {"N": []}}, "no input is called `N`; the inputs are E"),
    ],
)
def test_wrong_options_are_refused(
    options: dict[str, Any], match: str, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "facts" / "E").mkdir(parents=True)
    with pytest.raises(DataError, match=match):
        start(spark, tmp_path, **options)
    assert not (tmp_path / "checkpoint").exists()


def test_inputs_must_stream_and_have_the_right_columns(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([("a", 1, 2)], "x STRING, v INT, time BIGINT")
    with pytest.raises(DataError, match="is not a streaming DataFrame"):
        start(spark, tmp_path, inputs={"E": frame})
    (tmp_path / "in").mkdir()

    def reader(ddl: str) -> Any:
        return {"E": spark.readStream.schema(ddl).parquet(str(tmp_path / "in"))}

    with pytest.raises(DataError, match="no column `v`, which `E` declares"):
        start(spark, tmp_path, inputs=reader("x STRING, w INT, time BIGINT"))
    with pytest.raises(DataError, match="column `v` is string, and the rules need int"):
        start(spark, tmp_path, inputs=reader("x STRING, v STRING, time BIGINT"))
    with pytest.raises(DataError, match="holds timestamps; give the length of a tick"):
        start(spark, tmp_path, inputs=reader("x STRING, v INT, time TIMESTAMP"))
    assert json.dumps(sorted(os.listdir(tmp_path))) == '["in"]'
