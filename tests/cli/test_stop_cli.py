"""SIGTERM ends `tidelog run` after the batch at work; the exit code says what to do next."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

RUN = [sys.executable, "-m", "tidelog.cli", "run"]
RULES = "input E(x: int) @ time. P(X) @ T :- E(X) @ T."


def command(folder: Path, facts: str, *options: str) -> list[str]:
    (folder / "rules.tdl").write_text(RULES)
    return [*RUN, str(folder / "rules.tdl"), "--facts", facts, *options]


@contextmanager
def started(*command: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that does not outlive the test."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, **options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_until(is_so: Callable[[], bool], process: subprocess.Popen[bytes], most: float) -> None:
    end = time.monotonic() + most
    while not is_so():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def is_blocked(process: subprocess.Popen[bytes]) -> bool:
    """Whether the pipe that nobody reads is full."""
    import fcntl
    import struct
    import termios

    assert process.stdout is not None
    waiting = fcntl.ioctl(process.stdout, termios.FIONREAD, b"\0" * 4)
    return bool(struct.unpack("i", waiting)[0] >= 60_000)


def line(tick: int) -> bytes:
    return json.dumps({"predicate": "E", "x": tick, "time": tick}).encode() + b"\n"


def numbers(text: bytes) -> list[int]:
    """The values of answers, in the order in which they were written."""
    return [json.loads(each)["x"] for each in text.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--idle", "1h"]])
def test_a_stream_that_waits_for_lines_stops_at_once(options: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    run = command(tmp_path, "-", "--checkpoint", str(tmp_path / "c"), "--sink", f"jsonl:{out}")
    with started(*run, *options, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"".join(map(line, range(5))))
        process.stdin.flush()
        wait_until(lambda: out.exists() and out.stat().st_size > 100, process, 60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert process.stderr is not None
        said = process.stderr.read().decode()
    assert "Traceback" not in said
    assert "Fatal" not in said
    assert numbers(out.read_bytes()) == [0, 1, 2, 3]  # tick 4 may get more facts
    lines = b"".join(map(line, range(8)))
    subprocess.run([*run, *options, "--close"], input=lines, check=True, capture_output=True)
    assert numbers(out.read_bytes()) == [*range(8)]


@pytest.mark.slow
def test_files_in_process_stop_after_the_batch_at_work(tmp_path: Path) -> None:
    """The first batch waits for a reader of its answers, and is committed all the same."""
    facts = tmp_path / "E.csv"
    facts.write_text("x,time\n" + "".join(f"{x},{x}\n" for x in range(250_000)))
    run = command(tmp_path, str(facts), "--engine", "duckdb")
    with started(*run, stdout=subprocess.PIPE) as process:
        wait_until(lambda: is_blocked(process), process, 60)
        process.send_signal(signal.SIGTERM)
        time.sleep(1)
        assert process.poll() is None
        printed, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert numbers(printed) == [*range(100_000)]  # one of three batches
    assert b"100000 facts in 1 batch" in said


@pytest.mark.slow
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(second: int, tmp_path: Path) -> None:
    facts = tmp_path / "E.csv"
    facts.write_text("x,time\n" + "".join(f"{x},{x}\n" for x in range(50_000)))
    run = command(tmp_path, str(facts), "--engine", "duckdb")
    listens = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    listens += "; import tidelog.cli; tidelog.cli.main()"
    with started(sys.executable, "-c", listens, *run[3:], stdout=subprocess.PIPE) as process:
        wait_until(lambda: is_blocked(process), process, 60)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(second)
        assert process.wait(20) == (-signal.SIGTERM if second == signal.SIGTERM else 1)


@pytest.mark.slow
def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    run = command(tmp_path, "-")
    ignores = lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN)  # noqa: E731
    with started(
        *run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=ignores
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line(0) + line(1))
        process.stdin.flush()
        assert process.stdout.readline() == b'{"predicate": "P", "x": 0, "time": 0}\n'
        process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate(line(2), timeout=30)
    assert (process.returncode, numbers(printed)) == (0, [1, 2])


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.xdist_group("spark")
def test_spark_commits_the_batch_at_work(tmp_path: Path) -> None:
    """No batch is broken off, so that a sink that takes nothing back gets no answer twice."""
    facts, many = tmp_path / "facts" / "E", 5_000
    facts.mkdir(parents=True)
    (facts / "1.csv").write_text("x,time\n" + "".join(f"{x},{x}\n" for x in range(many)))
    run = command(tmp_path, str(tmp_path / "facts"), "--checkpoint", str(tmp_path / "c"))
    commits = tmp_path / "c" / "commits"
    with started(*run, "--follow", stdout=subprocess.PIPE) as process:
        wait_until(lambda: is_blocked(process), process, 120)
        (facts / "2.csv").write_text(f"x,time\n{many},{many}\n{many + 1},{many + 1}\n")
        process.send_signal(signal.SIGTERM)
        time.sleep(3)
        assert process.poll() is None
        assert not commits.exists() or not os.listdir(commits)
        printed, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert b"Traceback" not in said
    assert numbers(printed) == [*range(many - 1)]
    assert os.listdir(commits) == ["0.json"]  # and no other batch began
    again = subprocess.run([*run, "--close"], capture_output=True, timeout=120, check=True)
    assert numbers(again.stdout) == [*range(many - 1, many + 2)]
