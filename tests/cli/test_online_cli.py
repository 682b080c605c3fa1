"""`tidelog run` in process: modes, pending answers, and going on after SIGKILL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.places import ROOT

from tidelog.cli import cli

RULES = str(ROOT / "examples" / "turbines" / "rules.tdl")
FACTS = str(ROOT / "examples" / "turbines" / "facts")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "tidelog.cli", "run", *args]


def run(*args: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, ["run", *args], input=stdin, catch_exceptions=False)


def in_a_process(*args: str) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own, which lets go of its checkpoint when it ends."""
    return subprocess.run(
        command(*args), capture_output=True, text=True, env=ENVIRONMENT, check=False
    )


def test_pending_answers_are_told(tmp_path: Path) -> None:
    result = run(
        RULES, "--engine", "duckdb", "--facts", FACTS, "--query", "Malfunc",
        "--mode", "online", "--pending", "--json", "--sink", f"jsonl:{tmp_path / 'out'}",
    )  # fmt: skip
    (pending,) = json.loads(result.stdout)["pending"]
    assert pending["args"] == ["east"]
    assert pending["until"] == 13
    assert [w["time"] for w in pending["waits_for"]] == [12, 13]


def test_what_may_grow_is_told_with_the_reason(tmp_path: Path) -> None:
    rules = tmp_path / "late.tdl"
    rules.write_text("Late @ T :- Alarm @ T.\nLate @ T :- Late @ T+1.\n")
    result = run(
        str(rules), "--facts", "-", "--mode", "online",
        stdin='{"predicate": "Alarm", "time": 3}\n{"time": 6}\n',
    )  # fmt: skip
    offline = run(str(rules), "--facts", "-", stdin='{"predicate": "Alarm", "time": 3}\n')
    assert offline.exit_code == 1
    assert "--mode online streams it" in offline.stderr
    assert result.exit_code == 0
    assert "every fact is kept" in result.stderr
    assert "late.tdl:2" in result.stderr
    assert [json.loads(line)["time"] for line in result.stdout.splitlines()] == [2, 3]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (["--history", "strict", "--mode", "online"], "goes with --mode offline"),
        (["--pending"], "goes with --mode online"),
    ],
)
def test_options_that_do_not_go_together(how: list[str], message: str) -> None:
    result = run(RULES, "--engine", "duckdb", "--facts", FACTS, *how)
    assert result.exit_code == 2
    assert message in result.stderr


def test_no_window_is_an_error_of_the_rules() -> None:
    result = run(RULES, "--engine", "duckdb", "--facts", FACTS, "--history", "strict")
    assert result.exit_code == 1
    assert "no window is enough for AtRisk" in result.stderr


def lines(ticks: int) -> list[str]:
    return [
        json.dumps({"predicate": "Temp", "device": device, "level": level, "time": tick})
        for tick in range(ticks)
        for n, device in enumerate("abc")
        for level in ["high" if (tick * 7 + n) % 5 else "low"]
    ]


@pytest.mark.parametrize("mode", ["online", pytest.param("offline", marks=pytest.mark.deep)])
def test_after_sigkill_nothing_is_lost_and_nothing_doubled(tmp_path: Path, mode: str) -> None:
    near = tmp_path / "near"
    near.mkdir()
    (near / "Near.csv").write_text("a,b\na,b\nb,c\n")
    given = lines(40)
    common = [RULES, "--facts", "-", "--rigid", str(near), "--mode", mode]
    want = tmp_path / "want.jsonl"
    done = run(*common, "--sink", f"jsonl:{want}", stdin="\n".join(given) + "\n")
    assert done.exit_code == 0, done.stderr
    got, checkpoint = tmp_path / "got.jsonl", tmp_path / "checkpoint"
    again = [*common, "--sink", f"jsonl:{got}", "--checkpoint", str(checkpoint)]
    for stop in (30, 75):
        with subprocess.Popen(command(*again), stdin=subprocess.PIPE, env=ENVIRONMENT) as process:
            assert process.stdin is not None
            for line in given[:stop]:
                process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            deadline = time.monotonic() + 20
            while not (checkpoint / "stream.json").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            # Some of it may be written, some not; some after the last snapshot.
            time.sleep(1.3)
            process.stdin.write(f"{given[stop]}\n{given[stop + 1]}\n{given[stop + 2]}\n".encode())
            process.stdin.flush()
            time.sleep(0.3)
            process.send_signal(signal.SIGKILL)
    done = run(*again, "--close", stdin="\n".join(given) + "\n")
    assert done.exit_code == 0, done.stderr
    assert got.read_text() == want.read_text()
    closed = run(*again, stdin="")
    assert closed.exit_code == 1
    assert "the stream is closed" in closed.stderr


def test_a_checkpoint_of_other_rules_or_another_sink_is_refused(tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    sink = f"jsonl:{tmp_path / 'out.jsonl'}"
    first = ["--engine", "duckdb", "--facts", FACTS, "--checkpoint", checkpoint, "--keep-open"]
    assert in_a_process(RULES, *first, "--sink", sink).returncode == 0
    other = tmp_path / "other.tdl"
    other.write_text(Path(RULES).read_text().replace("T-2", "T-1"))
    for rules, to, message in (
        (str(other), sink, "a stream with other rules"),
        (RULES, f"jsonl:{tmp_path / 'elsewhere.jsonl'}", "the answers went to"),
        (RULES, "console", "the answers went to"),
    ):
        done = in_a_process(rules, *first, "--sink", to)
        assert done.returncode == 1
        assert message in done.stderr
        assert "Traceback" not in done.stderr
    (Path(checkpoint) / "stream.json").write_bytes(b"{}\n{}\n")
    done = in_a_process(RULES, *first, "--sink", sink)
    assert done.returncode == 1
    assert "not a snapshot" in done.stderr
