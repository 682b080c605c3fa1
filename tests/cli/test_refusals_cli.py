"""Exit codes and codes of causes, as whoever starts `tidelog run` again sees them."""

from __future__ import annotations

import errno
import json
import os
import traceback
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.errors import PySparkException

from tidelog.causes import Cause, cause_of
from tidelog.cli import cli
from tidelog.data.durable import HERE
from tidelog.data.locks import take_lock
from tidelog.errors import DataError
from tidelog.evaluation.spark.failures import clear, without_traceback

FACTS = '{"predicate": "E", "x": "a", "time": 0}\n{"predicate": "E", "x": "b", "time": 1}\n'
RULES = "input E(x: text) @ time. P(X) @ T :- E(X) @ T."


def run(folder: Path, *options: str, facts: str = FACTS, rules: str = RULES) -> Result:
    (folder / "rules.tdl").write_text(rules)
    words = ["run", str(folder / "rules.tdl"), "--facts", "-", *options]
    return CliRunner().invoke(cli, words, input=facts)


def kept(folder: Path, sink: str = "out.jsonl") -> tuple[str, ...]:
    return ("--checkpoint", str(folder / "c"), "--sink", f"jsonl:{folder / sink}")


def stopped(result: Result, code: Cause, said: str) -> None:
    """One sentence with its code, and the exit code that goes with it."""
    assert (result.exit_code, result.stdout) == (code.exit, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert line.endswith(f" [{code.value}]")
    assert said in line


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """The folder of a stream that was stopped after its facts."""
    assert run(tmp_path, *kept(tmp_path)).exit_code == 0
    return tmp_path


def test_success_and_usage_errors_have_their_usual_codes(begun: Path) -> None:
    assert run(begun).exit_code == 0
    assert run(begun, "--mode", "sideways").exit_code == 2
    assert run(begun, "--lateness", "soon").exit_code == 2


def test_wrong_rules_and_wrong_data_have_no_code(tmp_path: Path) -> None:
    wrong = run(tmp_path, rules="P(X) @ T :- Q(Y) @ T.")
    assert (wrong.exit_code, "[R" in wrong.stderr) == (1, False)
    wrong = run(tmp_path, "--rigid", str(tmp_path / "nowhere"))
    assert (wrong.exit_code, "[R" in wrong.stderr) == (1, False)


def test_a_checkpoint_that_another_process_has_is_tried_again(begun: Path) -> None:
    lock = take_lock(begun / "c" / "lock")
    assert lock is not None
    try:
        stopped(run(begun, *kept(begun)), Cause.IN_USE, "another process is at work on this")
    finally:
        lock.release()
    assert Cause.IN_USE.exit == 75
    assert run(begun, *kept(begun)).exit_code == 0


def test_a_snapshot_of_another_stream_or_a_damaged_one(begun: Path) -> None:
    other = run(begun, *kept(begun), rules=RULES.replace("P(X)", "Q(X)"))
    stopped(other, Cause.OTHER_STREAM, "the snapshot is of a stream with other")
    snapshot = begun / "c" / "stream.json"
    whole = snapshot.read_text()
    head, body, _ = whole.split("\n")
    for text, said in (
        ("{", "stream.json: not a snapshot, or damaged"),
        ("{}\n{}\n", "stream.json: not a snapshot ["),
        (f"{head}\n{body} \n", ": the snapshot is damaged: its checksum does not match"),
    ):
        snapshot.write_text(text)
        stopped(run(begun, *kept(begun)), Cause.DAMAGED, said)
    snapshot.write_text(json.dumps({**json.loads(head), "format": 0}) + f"\n{body}\n")
    stopped(run(begun, *kept(begun)), Cause.OTHER_FORMAT, ": a snapshot of format 0, not")
    snapshot.write_text(whole)
    assert run(begun, *kept(begun)).exit_code == 0


def test_a_checkpoint_that_cannot_be_shown(begun: Path) -> None:
    def show() -> Result:
        return CliRunner().invoke(cli, ["checkpoint", "verify", str(begun / "c")])

    snapshot = begun / "c" / "stream.json"
    whole = snapshot.read_text()
    head, body, _ = whole.split("\n")
    for text in ("{", "{}\n{}\n"):
        snapshot.write_text(text)
        stopped(show(), Cause.DAMAGED, "stream.json is no snapshot, or damaged: restore")
    snapshot.write_text(json.dumps({**json.loads(head), "format": 0}) + f"\n{body}\n")
    stopped(show(), Cause.OTHER_FORMAT, "which another version of tidelog reads: use the version")
    snapshot.write_text(f"{head}\n{body} \n")
    stopped(show(), Cause.DAMAGED, "stream.json is damaged: restore it from a copy")
    snapshot.write_text(whole)
    assert run(begun, *kept(begun)).exit_code == 0  # with the first run to go back to
    lock = take_lock(begun / "c" / "lock")
    assert lock is not None
    try:
        words = ["checkpoint", "rollback", str(begun / "c"), "--to", "0", "--yes"]
        done = CliRunner().invoke(cli, words)
        assert (done.exit_code, ": stop that one first [R01]\n" in done.stderr) == (75, True)
    finally:
        lock.release()


def test_folders_that_are_no_checkpoint_of_this_kind(begun: Path) -> None:
    (begun / "file").write_text("mine")
    words = ("--sink", f"jsonl:{begun / 'new'}")
    said = "file: a checkpoint is a folder"
    stopped(run(begun, "--checkpoint", str(begun / "file"), *words), Cause.NO_CHECKPOINT, said)
    (begun / "spark" / "commits").mkdir(parents=True)
    said = "spark: a checkpoint of Spark, not of a stream in process"
    stopped(run(begun, "--checkpoint", str(begun / "spark"), *words), Cause.NO_CHECKPOINT, said)


def test_sinks_that_are_taken_lost_or_cannot_go_on(begun: Path) -> None:
    said = "answers on the console cannot be taken back"
    stopped(run(begun, "--checkpoint", str(begun / "new")), Cause.NO_RESUME, said)
    (begun / "answers").mkdir()
    (begun / "answers" / "mine").write_text("mine")
    said = "answers is there already and not empty: name a new folder ["
    stopped(run(begun, "--sink", f"csv:{begun / 'answers'}"), Cause.SINK_TAKEN, said)
    (begun / "out.jsonl").unlink()
    said = "out.jsonl is missing: restore it from a copy"
    stopped(run(begun, *kept(begun)), Cause.SINK_LOST, said)


def test_a_stream_of_which_no_row_can_be_used(tmp_path: Path) -> None:
    done = run(tmp_path, facts="{}\n" * 100)
    assert done.exit_code == 1
    assert "error: none of the first 100 lines can be used [R38]\n" in done.stderr


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, 75), (errno.EIO, 75), (errno.EDQUOT, 75), (errno.EACCES, 2)]
)
def test_a_disk_that_is_full_or_away(
    number: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot that cannot be written ends the run; whether it may come right, the code says."""

    def fail(*_: object) -> None:
        raise OSError(number, "what the system says", "stream.json")

    monkeypatch.setattr(type(HERE), "replace_file", fail)
    done = run(tmp_path, *kept(tmp_path))
    assert isinstance(done.exception, OSError)
    cause = cause_of(done.exception)
    assert (75 if cause is not None and cause.exit == 75 else 2) == code


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("java.io.IOException: No space left on device", Cause.DISK_FULL),
        ("java.net.UnknownHostException: broker", Cause.STORE_AWAY),
        ("org.apache.hadoop.ipc.StandbyException: not active", Cause.STORE_AWAY),
        ("java.nio.file.AccessDeniedException: s3a://b", None),
        ("java.io.FileNotFoundException: s3a://b", None),
    ],
)
def test_what_java_says_of_outages(said: str, code: Cause | None) -> None:
    assert cause_of(said) is code


def test_a_code_reaches_the_driver_with_the_text_of_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An error of a worker arrives as the text of its traceback."""
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")  # and again when the test has ended
    with pytest.raises(DataError) as raised, without_traceback():
        raise DataError("a: the file cannot be read", "b", code=Cause.FILE_UNREADABLE)
    text = "".join(traceback.format_exception_only(raised.value))
    arrived = clear(PySparkException(f"Traceback:\n{text}\n\tat x"))
    assert isinstance(arrived, DataError)
    assert arrived.problems == ("a: the file cannot be read", "b")
    assert arrived.code is Cause.FILE_UNREADABLE


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
def test_only_its_user_may_enter_a_new_checkpoint(tmp_path: Path) -> None:
    """Dead letters and state hold rows of users; a folder that was made before keeps its rights."""
    before = os.umask(0o022)
    try:
        assert run(tmp_path, *kept(tmp_path)).exit_code == 0
        (tmp_path / "shared").mkdir(mode=0o750)
        words = ("--checkpoint", str(tmp_path / "shared"), "--sink", f"jsonl:{tmp_path / 'o2'}")
        assert run(tmp_path, *words).exit_code == 0
    finally:
        os.umask(before)
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "c", tmp_path / "shared")]
    assert modes == [0o700, 0o750]
    assert (tmp_path / "out.jsonl").stat().st_mode & 0o777 == 0o644  # as the umask says
