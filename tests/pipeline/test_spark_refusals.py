"""A restart that would not give the right answers is refused with one sentence, nothing touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tidelog
from tidelog.errors import DataError, TidelogWarning
from tidelog.pipeline.commit import Checkpoint
from tidelog.pipeline.local_store import LocalStore
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
        ({"queries": ["E"]}, r'the queries are \["E"\] and was \["P"\]'),
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
        path.write_text(good.replace('"timestamps": true', '"timestamps": false'))
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
    said = f"{mine} is there already and not empty: name a new folder, or the checkpoint that it"
    with pytest.raises(Refused, match=said):
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


def test_changed_rigid_facts_are_told_of(spark: SparkSession, tmp_path: Path) -> None:
    """The stream goes on with its copy; a changed copy is refused."""
    rules = "input E(x: text) @ time. input Near(x: text). P(X) @ T :- E(X) @ T, Near(X)."
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "E.csv").write_text("x,time\na,0\nb,1\n")

    def again(*near: str) -> None:
        rigid = {"Near": [(x,) for x in near]}
        start(spark, tmp_path, rules, rigid=rigid, sink=f"csv:{tmp_path / 'out'}").stop()

    again("a", "b")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again("b", "a")  # in another order
    with pytest.warns(TidelogWarning, match="the rigid facts of `Near` are others than at the fir"):
        again("a", "b", "c")
    kept = tmp_path / "checkpoint" / "rigid" / "0.parquet"
    kept.write_bytes(b"other")
    with pytest.raises(Refused, match=r"0\.parquet is damaged"):
        again("a", "b")


def test_a_checkpoint_that_another_process_began_meanwhile(tmp_path: Path) -> None:
    """As where a mount has no locks: the first one to write its name has it."""
    one, other = Checkpoint(LocalStore(str(tmp_path))), Checkpoint(LocalStore(str(tmp_path)))
    one.recognise({})
    other.recognise({})
    one.start({}, lambda: None)
    with pytest.raises(Refused, match="another process has begun a stream in"):
        other.start({}, lambda: None)
