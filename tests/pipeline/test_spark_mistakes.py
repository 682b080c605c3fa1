"""What goes wrong on Spark is said in one sentence that names the place, without a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import tidelog
from tidelog.cli import cli
from tidelog.errors import DataError
from tidelog.evaluation.spark.failures import as_data_error, clear, summary
from tidelog.spark import query, stream

pytestmark = pytest.mark.xdist_group("spark")

RULES = """
input E(x: text) @ time.
input F(x: text) @ time.
input R(x: text).
P(X) @ T+1 :- E(X) @ T.
Both(X) @ T :- E(X) @ T, F(X) @ T.
Near(X) :- R(X).
"""
ANSWER = '{"predicate": "P", "x": "a", "time": 1}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rules.tdl").write_text(RULES)
    for name in ("facts", "empty", "rigid"):
        (tmp_path / name).mkdir()
    (tmp_path / "facts" / "E.csv").write_text("x,time\na,0\nb,1\n")
    (tmp_path / "rigid" / "R.csv").write_text("x\nr\n")
    (tmp_path / "file").write_text("hello\n")
    return tmp_path


def run(folder: Path, *words: str, facts: str = "facts", query: str = "P") -> Result:
    """`tidelog run` in a folder; `{}` in a word stands for it."""
    named = [word.replace("{}", str(folder)) for word in words]
    command = ["run", str(folder / "rules.tdl"), "--facts", str(folder / facts), "--query", query]
    return CliRunner().invoke(cli, [*command, *named], catch_exceptions=False)


def refused(done: Result, *parts: str) -> None:
    assert done.exit_code == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    for part in parts:
        assert part in line


# Errors from the workers


def test_a_tick_far_ahead_is_explained(spark: SparkSession, folder: Path) -> None:
    (folder / "rules.tdl").write_text(
        "input E(x: text) @ time.\nOn(X) @ T+1 :- On(X) @ T.\nOn(X) @ T :- E(X) @ T.\n"
    )
    (folder / "facts" / "E.csv").write_text("x,time\na,0\na,1000000000000\n")
    what = ("`On` may hold at each of 100000000000", "rules.tdl:2", "a tick lies that far ahead")
    refused(run(folder, query="On"), *what, "--max-jump N (max_jump in Python) puts such facts")
    refused(run(folder, "--engine", "duckdb", query="On"), *what, "--max-jump N (max_jump in")
    aside = run(folder, "--max-jump", "10", query="On")
    assert aside.exit_code == 0
    assert json.loads(aside.stdout) == {"predicate": "On", "x": "a", "time": 0}


def test_nothing_but_the_sentence_reaches_the_terminal(folder: Path) -> None:
    """In a process of its own, at whose end DuckDB tells of connections that are still held."""
    (folder / "rules.tdl").write_text(
        "input E(x: text) @ time.\nP(X) @ T+1 :- P(X) @ T.\nP(X) @ T :- E(X) @ T.\n"
    )
    (folder / "facts" / "E.csv").write_text("x,time\na,0\na,1000000000000\n")
    done = started(folder)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: `P` may hold at each of")


def test_the_line_that_says_most() -> None:
    trace = (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        '  File "work.py", line 1, in run\n    raise it\n'
    )
    ours = PySparkException(f"{trace}tidelog.errors.DataError: one\ntwo\n\nJVM\n\tat x")
    assert isinstance(clear(ours), DataError)
    assert str(clear(ours)) == "one\ntwo"
    other = PySparkException(f"{trace}duckdb.OutOfMemoryException: too much\n\n\tat x\n")
    assert clear(other) is other
    assert summary(other) == "duckdb.OutOfMemoryException: too much"
    assert summary(PySparkException("first\nsecond")) == "first"


@pytest.mark.parametrize(
    ("said", "code", "told"),
    [
        ("FILE_NOT_EXIST", "R30", "the file is not there any more; put it back, then go on"),
        ("NO_HINT", "R31", "the file cannot be read; repair it, then go on"),
    ],
)
def test_a_file_that_spark_itself_reads(said: str, code: str, told: str) -> None:
    text = f"[FAILED_READ_FILE.{said}] Error while reading file file:///a/b%20c.parquet. SQLSTATE"
    error = clear(PySparkException(text))
    assert isinstance(error, DataError)
    assert str(error) == f"/a/b c.parquet: {told}"
    assert error.code is not None
    assert error.code.value == code


class Captured(PySparkException):
    """As Spark raises them, with what Java says at length."""

    def __init__(self, text: str, at_length: str) -> None:
        super().__init__(text)
        self._stackTrace = at_length


def test_what_says_nothing_is_told_by_its_cause() -> None:
    """As Java does when a thread waits for another one."""
    waited = "org.apache.spark.SparkException: Exception thrown in awaitResult: \n\tat x\n"
    broke = "Caused by: a.b.TooBad: it broke\n\tat y\n"
    assert summary(PySparkException(waited + broke)) == "it broke"
    assert summary(Captured(waited.splitlines()[0], waited + broke)) == "it broke"
    daemon = "Caused by: a.B: EOFException occurred while reading from pyspark.daemon's stdout.\n"
    gone = clear(Py4JNetworkError("Answer from Java side is empty"))
    assert str(gone).startswith("Spark's process has ended: start again with the same checkpoint")
    lost = clear(Captured("Exception thrown in awaitResult: ", waited + daemon))
    assert str(lost).startswith("a Python worker of Spark did not start: start again with")
    trace = "Traceback:\ntidelog.errors.DataError: one\ntwo"
    assert str(clear(Captured(trace, "org.apache.spark.PythonException: it"))) == "one\ntwo"


def test_a_stream_that_ended_is_told_by_what_ended_it() -> None:
    said = (
        "[STREAM_FAILED] Query [id = 1-a, runId = 2-b] terminated with exception: {} SQLSTATE: XX"
    )
    full = clear(PySparkException(said.format("java.io.IOException: No space left on device")))
    assert str(full).startswith(
        "No space left on device: make room, then start again with the same"
    )
    lost = as_data_error(PySparkException(said.format("java.io.IOException: Stale file handle")))
    assert str(lost) == "Spark stopped: Stale file handle"


# Spark that does not start


def started(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidelog.cli", "run", str(folder / "rules.tdl"), "--facts"]
    return subprocess.run(
        [*command, str(folder / "facts"), "--query", "P", *words],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=240,
        check=False,
    )


def test_a_master_that_is_none(folder: Path) -> None:
    done = started(folder, "--master", "local[x]")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: Spark does not start with --master local[x]: Could not parse Master URL:"
        " 'local[x]'; a master is local[*], or spark://HOST:PORT of one that runs\n"
    )


def test_a_java_that_is_none(folder: Path) -> None:
    done = started(folder, JAVA_HOME=str(folder / "nowhere"))
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert "nowhere/bin/java: No such file or directory; set JAVA_HOME to a Java" in line


# Places that cannot be used


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--checkpoint", "{}/file"), ("{}/file is a file, and a checkpoint is a folder",)),
        (
            ("--checkpoint", "{}/file/c"),
            ("{}/file/c cannot be a checkpoint: Not a directory; name another folder [R04]",),
        ),
        (("--checkpoint", "/proc/nope"), ("/proc/nope cannot be a checkpoint",)),
        (("--sink", "csv:{}/file"), ("{}/file is a file, and answers in csv go to a folder",)),
        (("--sink", "parquet:/proc/nope"), ("/proc/nope cannot be written", "another place")),
        (("--sink", "jsonl:/proc/nope/x"), ("/proc/nope/x cannot be written", "another place")),
        (("--sink", "jsonl:{}/empty"), ("{}/empty is a folder, and JSON lines go to a file",)),
        (("--sink", "jsonl:{}/file/x"), ("{}/file/x cannot be written",)),
    ],
)
def test_places_that_cannot_be_written(
    words: tuple[str, ...], parts: tuple[str, ...], spark: SparkSession, folder: Path
) -> None:
    kept = ("--checkpoint", "{}/kept") if "--sink" in words else ()
    refused(run(folder, *words, *kept), *(part.replace("{}", str(folder)) for part in parts))
    assert not (folder / "kept").exists()  # or a second try with another sink would be refused


@pytest.mark.parametrize("place", ["/proc/nope", "{}/file/c"])
def test_a_checkpoint_in_process_that_cannot_be_written(place: str, folder: Path) -> None:
    done = run(folder, "--engine", "duckdb", "--checkpoint", place)
    refused(done, "cannot be a checkpoint", "; name another folder [R04]")


# Facts in one file, and no facts at all


def test_one_file_of_facts(spark: SparkSession, folder: Path) -> None:
    (folder / "E.csv").write_text("x,time\na,0\nb,1\n")
    (folder / "E.jsonl").write_text('{"x": "a", "time": 0}\n{"x": "b", "time": 1}\n')
    (folder / "all.jsonl").write_text(
        '{"predicate": "R", "x": "r"}\n{"predicate": "E", "x": "a", "time": 0}\n'
        '{"predicate": "E", "x": "b", "time": 1}\n'
    )
    pq.write_table(pa.table({"x": ["a", "b"], "time": [0, 1]}), folder / "E.parquet")
    (folder / "facts.tdl").write_text("E(a) @ 0. R(r).\nE(b) @ 1.\n")
    for name in ("E.csv", "E.jsonl", "all.jsonl", "E.parquet", "facts.tdl"):
        done = run(folder, facts=name)
        assert (done.exit_code, done.stdout) == (0, ANSWER), name
    (folder / "Z.csv").write_text("x,time\na,0\n")
    refused(run(folder, facts="Z.csv"), "Z.csv: no input is called `Z`")
    refused(run(folder, facts="file"), "file: facts are a folder, or a .csv, .parquet")


def test_an_input_without_files(spark: SparkSession, folder: Path) -> None:
    done = run(folder, "--query", "Both")
    assert (done.exit_code, done.stdout) == (0, ANSWER)
    assert done.stderr == (
        "warning: no facts for input `F`, which Both needs\n"
        "2 facts in 2 batches, 1 answer; complete up to 1, answered up to 1\n"
    )


@pytest.mark.parametrize("engine", ["spark", "duckdb"])
def test_rigid_answers_need_no_facts_with_a_time(
    engine: str, spark: SparkSession, folder: Path
) -> None:
    words = ("--rigid", "{}/rigid", "--query", "Near", "--engine", engine)
    done = run(folder, *words, facts="empty")
    assert done.exit_code == 0, done.output
    assert done.stdout == '{"predicate": "Near", "x": "r"}\n'
    assert done.stderr == (
        "warning: no facts for input `E`, which P needs\n"
        "0 facts in 1 batch, 1 answer; complete up to nothing yet, answered up to nothing yet\n"
    )


def test_an_empty_input_that_was_closed_takes_nothing_more(
    spark: SparkSession, folder: Path
) -> None:
    words = ("--checkpoint", "{}/kept", "--sink", "jsonl:{}/out", "--close")
    for _ in range(2):
        assert run(folder, *words, facts="empty").exit_code == 0
    (folder / "empty" / "E.csv").write_text("x,time\na,0\n")
    refused(run(folder, *words, facts="empty"), "is closed: its input had ended")


def test_a_column_of_another_type_in_a_file(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's own reason: the column, its type in the file, and that of the schema."""
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "a b.parquet"
    pq.write_table(pa.table({"x": ["a"], "v": ["text"], "t": [1]}), path)
    schema = "x string, v bigint, t bigint"
    program = tidelog.parse("input a(x: text, v: int) @ t. O(X, V) @ T :- a(X, V) @ T.")
    said = (
        rf"^{path}: column `v` is BINARY in the file, and the schema says bigint: read the file"
        " with its own type, or write it anew$"
    )
    with pytest.raises(DataError, match=said):
        query(spark, program, "O", {"a": spark.read.schema(schema).parquet(str(path.parent))})
    arriving = spark.readStream.schema(schema).parquet(str(path.parent))
    running = stream(spark, program, inputs={"a": arriving}, trigger={"availableNow": True})
    with pytest.raises(DataError, match=said):
        running.awaitTermination()
