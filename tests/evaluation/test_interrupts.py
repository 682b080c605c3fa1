"""Ctrl-C while DuckDB works."""

from __future__ import annotations

import signal
import subprocess
import sys
from unittest.mock import patch

import duckdb
import pytest
from click.testing import CliRunner

import tidelog
from tidelog.cli import cli
from tidelog.evaluation.interrupts import interruptible

# Facts for ever, asked for far longer than anyone waits; the signal comes once DuckDB is at it.
SESSION = """
import os, signal, threading
import tidelog
from tidelog.evaluation.duckdb import Engine

signal.signal(signal.SIGINT, signal.default_int_handler)
program = tidelog.parse("P(X) @ T+1 :- P(X) @ T. P(a) @ 0.")
try:
    with Engine(program) as engine:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        engine.query(["P"], 0, 10**9)
except KeyboardInterrupt:
    print("stopped")
assert signal.set_wakeup_fd(-1) == -1
"""


# Facts that take far longer to read than anyone waits.
LOADING = """
import os, signal, sys, threading
import tidelog
from tidelog.data.loader import Loader
from tidelog.evaluation.duckdb import Engine

def load(self, *_):
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    many = "range(1000000000)"
    self.connection.execute(f"SELECT sum(a.range * b.range) FROM {many} a, {many} b").fetchall()

Loader.load = load
"""
IN_PYTHON = """
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    Engine(tidelog.parse("P(a) @ 0."))
except KeyboardInterrupt:
    print("stopped")
"""
AS_COMMAND = """
import tidelog.cli
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["tidelog", "query", os.devnull, "--facts", os.devnull]
tidelog.cli.main()
"""


def session(code: str) -> tuple[str, str, int]:
    """What a Python writes, and its exit code."""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    return result.stdout, result.stderr, result.returncode


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (SESSION, ("stopped\n", "", 0)),
        (LOADING + IN_PYTHON, ("stopped\n", "", 0)),
        (LOADING + AS_COMMAND, ("", "\nAborted!\n", 1)),
    ],
    ids=["query", "facts", "command"],
)
def test_a_query_stops_at_once(code: str, expected: tuple[str, str, int]) -> None:
    assert session(code) == expected


INTERRUPTED = [duckdb.InterruptException("INTERRUPT Error"), RuntimeError("Query interrupted")]


@pytest.mark.parametrize("raised", INTERRUPTED)
def test_a_command_that_is_interrupted_anywhere(raised: Exception) -> None:
    """DuckDB's own errors of Ctrl-C are no traceback, whichever command meets them."""
    with patch("tidelog.cli.rules.accepted", side_effect=raised):
        result = CliRunner().invoke(cli, ["explain", "rules.tdl"])
    assert (result.exit_code, result.stderr) == (1, "\nAborted!\n")


@pytest.mark.parametrize("raised", INTERRUPTED)
def test_a_push_that_is_interrupted(raised: Exception) -> None:
    stream = tidelog.Stream(tidelog.parse("P(X) @ T :- E(X) @ T."))
    with patch.object(stream, "_read", side_effect=raised), pytest.raises(KeyboardInterrupt):
        stream.push(0, {"E": [("a",)]})


IGNORED = """
import signal
from tidelog.evaluation.interrupts import sigint_stays_ignored
from tidelog.cli.running import StopRequest

signal.signal(signal.SIGINT, signal.SIG_IGN)
with sigint_stays_ignored():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as Spark does
print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)
with StopRequest() as request:
    signal.raise_signal(signal.SIGINT)
    print(request.made)
    signal.raise_signal(signal.SIGTERM)
    print(request.made)
"""


@pytest.mark.slow
def test_an_ignored_signal_stays_ignored() -> None:
    """As of a command that a script has started in the background."""
    assert session(IGNORED) == ("True\nFalse\nTrue\n", "", 0)


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (duckdb.InterruptException("INTERRUPT Error: Interrupted!"), KeyboardInterrupt),
        (RuntimeError("Query interrupted"), KeyboardInterrupt),  # it saw the signal first
        (RuntimeError("anything else"), RuntimeError),
    ],
)
def test_both_ways_in_which_a_query_ends(raised: Exception, expected: type[BaseException]) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(expected), interruptible(duckdb.connect()):
            raise raised
    finally:
        signal.signal(signal.SIGINT, before)


STARTING = """
import sys
from importlib.abc import MetaPathFinder

class Stops(MetaPathFinder):
    def find_spec(self, name, *_):
        if name == "tidelog.cli.run":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Stops())
from tidelog.cli import main
"""


def test_ctrl_c_while_the_command_starts() -> None:
    command = [sys.executable, "-c", STARTING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "Aborted!\n")
