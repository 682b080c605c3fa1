"""Facts from S3 and answers to it; what it cannot give is refused by name."""

from __future__ import annotations

import csv
import io
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.kills import TIDELOG, killed
from support.s3 import SECRET, USER, Server

import tidelog
from tidelog.errors import DataError, Refused
from tidelog.pipeline.commit import Checkpoint
from tidelog.spark import Running, query, stream

RULES = """
input Temp(device: text, level: float) @ at.
input Near(a: text, b: text).
output Hot.
Hot(Y) @ T+1 :- Temp(X, V) @ T, Temp(X, W) @ T+1, V >= 5, W >= 5, Near(X, Y).
"""
FACTS = [("a", float(level), t) for t, level in enumerate((5, 6, 7, 1, 8, 9))]
NEAR = [("a", "ä")]


@pytest.fixture
def readings(spark: SparkSession, store: Server, request: pytest.FixtureRequest) -> str:
    """A bucket of its own with facts in three formats."""
    name = f"b{abs(hash(request.node.name))}"
    store.tell(spark)
    store.make(name)
    store.put(f"{name}/in/Near.csv", "a,b\na,ä\n")
    store.put(f"{name}/in/Temp/1.csv", "device,level,at\na,5,0\na,6,1\n")
    lines = '{"device": "a", "level": 7, "at": 2}\n{"device": "a", "level": 1, "at": 3}\n{oops\n'
    store.put(f"{name}/in/Temp/2.jsonl", lines)
    table = pa.table({"device": ["a", "a"], "level": [8.0, 9.0], "at": [4, 5]})
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    store.put(f"{name}/in/Temp/3.parquet", buffer.getvalue())
    return name


def wanted() -> list[tuple[Any, ...]]:
    table = tidelog.parse(RULES).query("Hot", {"Temp": FACTS, "Near": NEAR})
    return [tuple(row.values()) for row in table.to_pylist()]


def started(spark: SparkSession, bucket: str, **more: Any) -> Running:
    running = stream(
        spark,
        tidelog.parse(RULES),
        inputs=f"s3a://{bucket}/in",
        lateness=10,
        trigger={"availableNow": True},
        **more,
    )
    running.awaitTermination()
    return running


def answered(store: Server, bucket: str, prefix: str = "out/Hot") -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for key in store.keys(bucket, prefix):
        if key.endswith(".csv"):
            text = store.get(f"{bucket}/{key}").decode()
            rows += [(row["y"], int(row["time"])) for row in csv.DictReader(io.StringIO(text))]
    return sorted(rows)


@pytest.mark.parametrize("where", ["driver", "executors"])
def test_facts_in_and_answers_out(
    where: str,
    spark: SparkSession,
    store: Server,
    readings: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if where == "executors":
        monkeypatch.setattr("tidelog.pipeline.sites.LITTLE", -1)
    more: dict[str, Any] = {"checkpoint": tmp_path / "c", "sink": f"csv:s3a://{readings}/out"}
    started(spark, readings, **more).stop()
    store.put(f"{readings}/in/Temp/4.csv", "device,level,at\na,1,6\n")
    running = started(spark, readings, **more)
    running.close()
    assert answered(store, readings) == wanted()
    assert running.committed is not None
    assert running.committed.totals["dead"] == 1
    (letters,) = (tmp_path / "c" / "dead_letters").rglob("*.json")
    assert f'"s3a://{readings}/in/Temp/2.jsonl"' in letters.read_text()
    keys = store.keys(readings, "out/Hot/")
    batches = {key.split("/")[2] for key in keys if "batch=" in key}
    assert batches
    assert all(f"out/Hot/{batch}/_complete" in keys for batch in batches)
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def test_a_query(spark: SparkSession, store: Server, readings: str) -> None:
    store.put(f"{readings}/in/Temp/2.jsonl", '{"device": "a", "level": 7, "at": 2}\n')
    program, facts = tidelog.parse(RULES), f"s3a://{readings}/in"
    assert [tuple(r) for r in query(spark, program, "Hot", facts).collect()] == wanted()


def test_a_batch_that_dies_half_way(
    spark: SparkSession,
    store: Server,
    readings: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Answers are there without a commit; they are taken back and written once."""
    more: dict[str, Any] = {"checkpoint": tmp_path / "c", "sink": f"csv:s3a://{readings}/out"}

    write = Checkpoint.write

    def dies(self: Checkpoint, commit: Any) -> None:
        if commit.clock.closed:
            raise OSError("the machine is gone")
        write(self, commit)

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "write", dies)
        with pytest.raises(OSError, match="the machine is gone"):
            started(spark, readings, **more).close()
    assert answered(store, readings)
    started(spark, readings, **more).close()
    assert answered(store, readings) == wanted()


def test_what_is_refused(spark: SparkSession, store: Server, readings: str, tmp_path: Path) -> None:
    where = f"s3a://{readings}/c"
    refused = rf"^{where} cannot be a checkpoint: on this store \(s3a\) a rename may be a copy"
    with pytest.raises(Refused, match=refused):
        started(spark, readings, checkpoint=where, sink=f"csv:s3a://{readings}/o")
    assert store.keys(readings, "c") == store.keys(readings, "o") == []
    store.put(f"{readings}/other/x.csv", "x")
    with pytest.raises(Refused, match=f"s3a://{readings}/other is there already and not empty"):
        started(spark, readings, checkpoint=tmp_path / "c", sink=f"csv:s3a://{readings}/other")
    with pytest.raises(
        DataError, match=r"^s3a://nobodys-bucket/in: Spark cannot read this place: .*bucket"
    ):
        started(spark, "nobodys-bucket")
    with pytest.raises(DataError, match=r"^s3a://nobodys-bucket/out: Spark cannot reach .*bucket"):
        started(spark, readings, checkpoint=tmp_path / "c", sink="csv:s3a://nobodys-bucket/out")


def settings(store: Server, folder: Path) -> dict[str, str]:
    """An environment whose Spark knows the store, and nobody else's files do."""
    (folder / "conf").mkdir()
    lines = [f"spark.hadoop.{name} {value}\n" for name, value in store.settings().items()]
    (folder / "conf" / "spark-defaults.conf").write_text("".join(lines))
    return {"SPARK_CONF_DIR": str(folder / "conf")}


def test_the_command_is_killed_at_random_moments(store: Server, tmp_path: Path) -> None:
    """Three times; each answer is there once, and keys are nowhere."""
    moments = random.Random(19)
    store.make("killed")
    (tmp_path / "rules.tdl").write_text(RULES)
    command = [*TIDELOG, "run", str(tmp_path / "rules.tdl"), "--facts", "s3a://killed/in"]
    command += ["--sink", "csv:s3a://killed/out", "--checkpoint", str(tmp_path / "c")]
    command += ["--files-per-batch", "2", "--lateness", "20"]
    environment = settings(store, tmp_path)
    store.put("killed/in/Near.csv", "a,b\na,ä\n")
    facts: list[tuple[str, float, int]] = []
    lived = 0.0
    for number in range(3):
        for t in range(number * 4, number * 4 + 4):
            facts.append(("a", moments.choice([1.0, 6.0]), t))
            store.put(f"killed/in/Temp/{t}.csv", "device,level,at\na,{1},{2}\n".format(*facts[-1]))
        if number == 0:
            commit = tmp_path / "c" / "commits" / "0.json"
            lived = killed([*command, "--follow"], 240, commit, environment)
        else:
            killed([*command, "--follow"], moments.uniform(0.6, 1.5) * lived, None, environment)
    done = subprocess.run(
        [*command, "--close"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    near = {"Temp": facts, "Near": NEAR}
    rows = tidelog.parse(RULES).query("Hot", near).to_pylist()
    assert rows
    assert answered(store, "killed") == [tuple(row.values()) for row in rows]
    for secret in (USER, SECRET):
        assert secret not in done.stdout + done.stderr
        for path in (tmp_path / "c").rglob("*"):
            assert not path.is_file() or secret.encode() not in path.read_bytes(), path
