"""Credentials that users give reach neither files of ours nor anything that is shown."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import tidelog
from tidelog.cli import cli
from tidelog.data.secrets import without_secrets
from tidelog.errors import DataError
from tidelog.pipeline.store import open_store
from tidelog.spark import Refused, Running, stream
from tidelog.streaming.sinks import sink_of

pytestmark = pytest.mark.xdist_group("spark")

# Spark's usual way to a checkpoint knows no passwords in addresses.
MANAGER = (
    "spark.sql.streaming.checkpointFileManagerClass",
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
)
SECRET = "wJal/rXU+tnFEMI"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"s3a://AKIA:{SECRET}@box/in", "s3a://***@box/in"),
        (f"csv:s3a://AKIA:{SECRET}@box/in and more", "csv:s3a://***@box/in and more"),
        ("https://t0ken@host/x", "https://***@host/x"),
        ("https://h/x?sv=1&sig=ab%2Bc&se=2", "https://h/x?sv=1&sig=***&se=2"),
        ("gs://b/o?X-Goog-Signature=abc", "gs://b/o?X-Goog-Signature=***"),
        ("jdbc:db://h/d;user=me;password=pw", "jdbc:db://h/d;user=me;password=***"),
        ('username="u" password="p w";', 'username="u" password=***;'),
        ("fs.s3a.secret.key=abc, x", "fs.s3a.secret.key=***, x"),
        ("fs.s3a.access.key=abc", "fs.s3a.access.key=***"),
        # What is no secret stays as it is.
        ("hdfs://name:8020/a@b", "hdfs://name:8020/a@b"),
        ("hdfs://name:8020", "hdfs://name:8020"),
        ("abfss://box@acc.dfs.core.windows.net/p", "abfss://box@acc.dfs.core.windows.net/p"),
        ("file:///data/a@b/c?d", "file:///data/a@b/c?d"),
        ("Token(X) @ T :- Key(X, K) @ T, K = 5.", "Token(X) @ T :- Key(X, K) @ T, K = 5."),
        ("/data/token=3/x", "/data/token=***"),
    ],
)
def test_without_secrets(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


@pytest.fixture
def box(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """A file system that ends at a local folder, its address with a name and a password."""
    name = f"box{uuid.uuid4().hex}"
    spark.conf.set(*MANAGER)

    def address(login: str) -> str:
        conf = spark._jsc.hadoopConfiguration()
        conf.set(f"fs.viewfs.mounttable.{login}@{name}.link./data", f"file://{tmp_path}")
        return f"viewfs://{login}@{name}/data"

    yield address
    spark.conf.unset(MANAGER[0])


def start(spark: SparkSession, folder: Path, place: str, **more: Any) -> Running:
    if not (folder / "in").exists():
        rows = [("a", 0), ("a", 1), (None, 1), ("a", 2)]
        spark.createDataFrame(rows, "x STRING, t BIGINT").write.parquet(str(folder / "in"))
    frame = spark.readStream.schema("x STRING, t BIGINT").option("secret.key", SECRET)
    return stream(
        spark,
        tidelog.parse("input E(x: text) @ t. P(X) @ T+1 :- E(X) @ T, E(X) @ T+1."),
        inputs={"E": frame.parquet(str(folder / "in"))},
        sink=f"json:{place}/out",
        checkpoint=f"{place}/c",
        metrics=folder / "m.prom",
        trigger={"availableNow": True},
        **more,
    )


def test_nothing_that_is_written_has_the_password(
    spark: SparkSession, tmp_path: Path, box: Callable[[str], str]
) -> None:
    running = start(spark, tmp_path, box("me:hidden"))
    running.awaitTermination()
    running.close()
    identity = (tmp_path / "c" / "tidelog.json").read_text()
    assert '"sink": "json:viewfs://***@' in identity
    assert (tmp_path / "c" / "commits" / "0.json").exists()
    assert list((tmp_path / "c" / "dead_letters").rglob("*.json"))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 10
    for path in files:
        data = path.read_bytes()
        assert b"hidden" not in data, path
        assert SECRET.encode() not in data, path


def test_nothing_that_is_said_has_the_password(
    spark: SparkSession, tmp_path: Path, box: Callable[[str], str]
) -> None:
    running = start(spark, tmp_path, box("me:hidden"))
    running.awaitTermination()
    running.stop()
    with pytest.raises(Refused, match=r"viewfs://\*\*\*@") as refused:
        start(spark, tmp_path, box("me:hidden"), mode="online")
    assert "hidden" not in str(refused.value)
    # With another password it is the same place.
    again = start(spark, tmp_path, box("me:changed"))
    assert again.id == running.id
    again.stop()


def test_a_start_that_fails_says_why_and_no_more(
    spark: SparkSession, tmp_path: Path, box: Callable[[str], str]
) -> None:
    place = box("me:hidden")
    spark.conf.unset(MANAGER[0])
    with pytest.raises(
        DataError, match=r"Spark cannot start the stream: .*viewfs://\*\*\*@"
    ) as wrong:
        start(spark, tmp_path, place)
    assert "hidden" not in str(wrong.value)
    assert "\n" not in str(wrong.value)


@pytest.mark.parametrize("address", ["nowhere://me:hidden@box/x", "s3a://me:hidden@box/x"])
def test_a_store_that_cannot_be_reached(spark: SparkSession, address: str) -> None:
    with pytest.raises(DataError, match=r"://\*\*\*@box/x: Spark cannot reach this place") as wrong:
        open_store(spark, address)
    assert "hidden" not in str(wrong.value)


def test_sinks_that_are_none(spark: SparkSession) -> None:
    for sink in ("jsonl:s3a://me:hidden@box/x", "xml:s3a://me:hidden@box/x"):
        with pytest.raises(DataError, match=r"s3a://\*\*\*@box/x`") as wrong:
            sink_of(sink, lambda root: open_store(spark, root))
        assert "hidden" not in str(wrong.value)


def test_on_the_command_line(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "rules.tdl").write_text("input E(x: text) @ t. P(X) @ T :- E(X) @ T.\n")
    (tmp_path / "E.csv").write_text("x,t\na,1\n")
    words = ("run", str(tmp_path / "rules.tdl"), "--facts", str(tmp_path), "--checkpoint")
    done = CliRunner().invoke(cli, (*words, "nowhere://me:hidden@box/x"), catch_exceptions=False)
    assert done.exit_code == 1
    assert done.stderr.startswith("error: nowhere://***@box/x: Spark cannot reach this place")
    assert "hidden" not in done.output


OWN = """
import subprocess, sys
from pathlib import Path
from tidelog.spark import session

spark = session("local[1]", **{
    "spark.hadoop.fs.s3a.secret.key": "hush-1",
    "spark.hadoop.fs.azure.account.key.box": "hush-2",
    "spark.ssl.keyPassword": "hush-3",
    "spark.hadoop.fs.s3a.endpoint": "box.example",
    "spark.driver.memory": "600m",
})
hadoop = spark._jsc.hadoopConfiguration()
print([hadoop.get(f"fs.{name}") for name in ("s3a.secret.key", "azure.account.key.box")])
print(spark.conf.get("spark.ssl.keyPassword"), hadoop.get("fs.s3a.endpoint"))
pid = spark._jvm.java.lang.ProcessHandle.current().pid()
line = Path(f"/proc/{pid}/cmdline").read_text() + Path(f"/proc/{pid}/environ").read_text()
print("hush" in line, "box.example" in line, "-Xmx600m" in line)
spark.stop()
"""


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
def test_secret_settings_are_on_no_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OWN], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.splitlines() == [
        "['hush-1', 'hush-2']",
        "hush-3 box.example",
        "False True True",
    ]
