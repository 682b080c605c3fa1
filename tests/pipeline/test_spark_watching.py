"""What a stream on Spark says of itself: warnings while it runs, and its place in Spark's UI."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import tidelog
from tidelog.cli import cli
from tidelog.errors import DataError, TidelogWarning
from tidelog.spark import Running, stream

pytestmark = pytest.mark.xdist_group("spark")

RULES = """input E(x: text) @ time.  input F(x: text) @ time.
Hot(X) @ T :- E(X) @ T, not F(X) @ T.
Cold(X) @ T :- F(X) @ T.
output Hot, Cold.
"""
NOW = {"availableNow": True}
OFTEN = {"processingTime": "100 milliseconds"}


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    (tmp_path / "alert.tdl").write_text(RULES)
    folder = tmp_path / "facts"
    for name in "EF":
        (folder / name).mkdir(parents=True)
    return folder


def put(folder: Path, file: str, *rows: str) -> Path:
    path = folder / file
    whole = folder.parent / f"{path.name}.new"
    whole.write_text("x,time\n" + "".join(f"{row}\n" for row in rows))
    return whole.rename(path)


@contextmanager
def heard() -> Iterator[list[str]]:
    said: list[str] = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield said
    said += [str(w.message) for w in told if w.category is TidelogWarning]


def begun(spark: SparkSession, facts: Path, **options: Any) -> Running:
    program = tidelog.load(facts.parent / "alert.tdl")
    words = {"checkpoint": facts.parent / "c", "trigger": OFTEN, **options}
    return stream(spark, program, inputs=facts, **words)


@pytest.mark.parametrize("little", [1_000_000, -1])
def test_rows_that_are_not_used_are_told_of_when_their_batch_is_committed(
    little: int, spark: SparkSession, facts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By input and kind, with the option that helps; in the driver and in the executors."""
    monkeypatch.setattr("tidelog.pipeline.sites.LITTLE", little)
    put(facts, "E/1.csv", "a,1", "a,10", "a,noon", "a,2,2")
    put(facts, "F/1.csv", "b,1", "b,10")
    with heard() as said:
        running = begun(spark, facts, max_jump=50)
        running.query.processAllAvailable()
        put(facts, "E/2.csv", "a,12", "a,7", "a,4", "a,100", "a,300")
        put(facts, "F/2.csv", "b,12", "b,9")
        running.query.processAllAvailable()
        before_the_end = running.committed
        put(facts, "F/3.csv", "b,13", "b,1", "b,2")
        running.query.processAllAvailable()
        running.close()
    assert before_the_end is not None
    counts = {(x.predicate, x.kind): (x.count, x.needed) for x in before_the_end.problems}
    assert counts == {("E", "late"): (2, 6), ("E", "ahead"): (2, 288), ("F", "late"): (1, 1)}
    by_kind = {text.split(";")[0]: text for text in said}
    assert set(by_kind) == {
        "input `E`: 2 rows could not be used",
        "input `E`: 2 rows came too late, at most by 6 ticks",
        "input `E`: 2 rows could not be used, since their times lie too far ahead",
        "input `F`: 1 row came too late, at most by 1 tick",
        "input `F`: 2 more rows came too late, 3 by now, at most by 11 ticks",
    }
    late = by_kind["input `E`: 2 rows came too late, at most by 6 ticks"]
    assert "; --lateness 6 would do; the first: " in late
    assert f"{facts}/E/2.csv: late: tick " in late
    assert late.endswith(f"; all are in {facts.parent}/c/dead_letters")
    assert "; --max-jump 288 takes them; " in " ".join(said).replace(
        "where times are right, ", "; "
    )
    # The options that were named do, from the start.
    with heard() as said:
        begun(
            spark, facts, checkpoint=facts.parent / "d", max_jump=288, lateness=11, trigger=NOW
        ).close()
    assert [text.split(";")[0] for text in said] == ["input `E`: 2 rows could not be used"]


def test_a_stream_has_a_name_jobs_say_what_they_do_and_progress_has_numbers(
    spark: SparkSession, facts: Path
) -> None:
    put(facts, "E/1.csv", "a,1", "a,10", "b,noon")
    put(facts, "F/1.csv", "b,1", "b,10")
    words: dict[str, Any] = {"metrics": facts.parent / "m.prom", "tick": "1s"}
    with pytest.raises(DataError, match="none of its 3 rows"):
        begun(spark, facts, **words).awaitTermination()
    for name, x in (("E", "a"), ("F", "b")):
        rows = [f"{x},1970-01-01T00:00:{n:02}Z" for n in (1, 10)]
        put(facts, f"{name}/1.csv", *rows, *(["b,noon"] if name == "E" else []))
    running = begun(spark, facts, **words)
    second = begun(spark, facts, checkpoint=facts.parent / "d")
    assert (running.name, running.query.name, second.query.name) == ("alert", "alert", "alert 2")
    with pytest.raises(DataError, match="a stream of this Spark session is called `alert`"):
        begun(spark, facts, checkpoint=facts.parent / "e", name="alert")
    second.stop()
    running.query.processAllAvailable()
    commit, progress = running.committed, running.query.lastProgress
    assert commit is not None
    assert progress is not None
    numbers = progress.observedMetrics["tidelog"].asDict()
    stamps = {name: numbers.pop(name) for name in ("tin_time", "tout_time")}
    times = {name: datetime.fromisoformat(text).timestamp() for name, text in stamps.items()}
    assert numbers == {
        "batch": 0, "tin": 9, "tout": 9, "facts": 4, "late": 0, "dead": 1, "answers": 2
    }  # fmt: skip
    assert times == {"tin_time": 9.0, "tout_time": 9.0}
    assert json.loads(progress.json)["observedMetrics"]["tidelog"]["tin"] == 9
    running.close()
    jvm_jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    said = [jvm_jobs.apply(i).description() for i in range(jvm_jobs.size())]
    texts = {text.get() for text in said if text.isDefined()}
    assert "tidelog alert: batch 0: list new files and offsets" in texts
    assert spark.sparkContext.getLocalProperty("spark.job.description") is None
    text = (facts.parent / "m.prom").read_text()
    assert f'tidelog_tin{{name="alert",stream="{running.id}"}}' in text


def test_jobs_of_executors_say_what_they_do(
    spark: SparkSession, facts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelog.pipeline.sites.LITTLE", -1)
    put(facts, "E/1.csv", "a,1", "a,10", "b,noon")
    put(facts, "F/1.csv", "b,1", "b,10")
    out = f"csv:{facts.parent}/o"
    begun(spark, facts, trigger=NOW, sink=out, name="big").close()
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    said = [jobs.apply(i).description() for i in range(jobs.size())]
    texts = {text.get() for text in said if text.isDefined() and "tidelog big" in text.get()}
    for what in ("write dead letters", "write answers of Hot and Cold"):
        assert f"tidelog big: batch 0: {what}" in texts


def test_files_that_change_after_they_were_read_are_named(
    spark: SparkSession, facts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = put(facts, "E/1.csv", "a,1", "a,10")
    two = put(facts, "F/1.csv", "b,1", "b,10")
    with heard() as said:
        running = begun(spark, facts)
        running.query.processAllAvailable()
        assert not running.awaitTermination(1)
        one.write_text(one.read_text() + "a,11\n")
        os.utime(one, (2_000_000_000, 2_000_000_000))
        assert not running.awaitTermination(1)  # a minute has not gone by
        monkeypatch.setattr("tidelog.pipeline.listed.OFTEN", 0.0)
        assert not running.awaitTermination(1)
        running.stop()
    assert said == [
        f"{one} has changed after the stream had read it: a file is read once, and what is new in"
        " it is not used; put new rows into new files"
    ]
    two.unlink()  # what was read may go
    with heard() as said:
        begun(spark, facts, trigger=NOW).stop()
    assert len(said) == 1
    put(facts, "F/1.csv", "b,11")  # another file of the same name
    words = ["run", str(facts.parent / "alert.tdl"), "--facts", str(facts)]
    words += ["--sink", f"jsonl:{facts.parent}/o", "--checkpoint", str(facts.parent / "c2")]
    done = CliRunner().invoke(
        cli,
        [*words, "--name", "again", "--metrics", str(facts.parent / "m.jsonl")],
    )
    assert done.exit_code == 0, done.output
    assert {json.loads(x)["stream"] for x in (facts.parent / "m.jsonl").open()} == {"again"}
    put(facts, "E/1.csv", "a,15")
    again = CliRunner().invoke(
        cli,
        words,
    )
    assert again.exit_code == 0, again.output
    assert f"warning: {one} has changed after the stream had read it" in again.stderr
