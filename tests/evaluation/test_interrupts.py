"""Ctrl-C while DuckDB works."""

from __future__ import annotations

import signal
import subprocess
import sys

import duckdb
import pytest

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


@pytest.mark.slow
def test_a_query_stops_at_once() -> None:
    result = subprocess.run(
        [sys.executable, "-c", SESSION], capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.stdout, result.stderr, result.returncode) == ("stopped\n", "", 0)


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
