"""`tidelog query` and `program.query` on the timeline: notes, answers without end, limits."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import tidelog
from tidelog.cli import cli

MEETING = """input A @ time.
input B @ time.
output C.
A @ T+11 :- A @ T.
B @ T+13 :- B @ T.
C @ T    :- A @ T, B @ T.
C @ T-1  :- C @ T.
"""
# One shift every three ticks from its start, and a break at one tick only.
SHIFTS = """input Start(name: text) @ time.
Shift(X) @ T   :- Start(X) @ T.
Shift(X) @ T+3 :- Shift(X) @ T.
Break(X) @ T+1 :- Start(X) @ T.
"""
PRIMES = (31, 37, 41, 43, 47)
LONG = "".join(f"P{p} @ T+{p} :- P{p} @ T.\nP{p} @ 0.\n" for p in PRIMES)
LONG += f"Met @ T :- {', '.join(f'P{p} @ T+1' for p in PRIMES)}.\nMet @ T-1 :- Met @ T.\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "meeting.tdl").write_text(MEETING)
    (tmp_path / "both.tdl").write_text("A @ 0. B @ 1.")
    (tmp_path / "alone.tdl").write_text("A @ 0.")
    (tmp_path / "shifts.tdl").write_text(SHIFTS)
    (tmp_path / "starts.tdl").write_text("Start(ann) @ 0. Start(bob) @ 1. Start(bob) @ 7.")
    (tmp_path / "long.tdl").write_text(LONG)
    return tmp_path


def query(*args: str) -> Result:
    return CliRunner().invoke(cli, ["query", *args], catch_exceptions=False)


def test_it_falls_back_and_says_so(folder: Path) -> None:
    result = query("meeting.tdl", "--facts", "both.tdl", "--from", "0", "--to", "1")
    assert (result.exit_code, result.stdout) == (0, "time\n0\n1\n")
    assert result.stderr.startswith("note: evaluated on the timeline; meeting.tdl:7: `C` may hold")
    result = query("meeting.tdl", "--facts", "alone.tdl", "--from", "0", "--to", "1")
    assert (result.exit_code, result.stdout) == (0, "time\n")


def test_what_packed_time_can_do_says_nothing(folder: Path) -> None:
    result = query("shifts.tdl", "--facts", "starts.tdl", "--query", "Shift", "--to", "4")
    assert result.stdout == "x,time\nann,0\nbob,1\nann,3\nbob,4\n"
    assert result.stderr == ""


ENDLESS = ("--facts", "starts.tdl", "--from", "-inf", "--to", "inf")


def test_without_end_as_csv(folder: Path) -> None:
    result = query("shifts.tdl", *ENDLESS, "--query", "Shift")
    # Bob's second start is on the course of the first.
    assert (result.exit_code, result.stdout) == (0, "x,time,period\nann,0,3\nbob,1,3\n")
    assert result.stderr == "note: evaluated on the timeline; the range has no end\n"
    single = query("shifts.tdl", *ENDLESS, "--query", "Break")
    assert single.stdout == "x,time,period\nann,1,\nbob,2,\nbob,8,\n"


def test_without_end_as_json(folder: Path) -> None:
    result = query("shifts.tdl", *ENDLESS, "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert rows == [
        {"predicate": "Shift", "x": "ann", "time": 0, "period": 3},
        {"predicate": "Shift", "x": "bob", "time": 1, "period": 3},
        {"predicate": "Break", "x": "ann", "time": 1, "period": None},
        {"predicate": "Break", "x": "bob", "time": 2, "period": None},
        {"predicate": "Break", "x": "bob", "time": 8, "period": None},
    ]


def test_without_end_as_a_table(folder: Path) -> None:
    result = query("shifts.tdl", *ENDLESS, "--format", "table")
    assert result.stdout.splitlines() == [
        "Shift: 2 answers",
        "  x    time  period",
        "  ann  0     3",
        "  bob  1     3",
        "Break: 3 answers",
        "  x    time  period",
        "  ann  1",
        "  bob  2",
        "  bob  8",
    ]


def test_one_end_only(folder: Path) -> None:
    ahead = query(
        "shifts.tdl", "--facts", "starts.tdl", "--from", "5", "--to", "inf", "--query", "Shift"
    )
    # 6 and 7 are the first after 5 on the two courses.
    assert ahead.stdout == "x,time,period\nann,6,3\nbob,7,3\n"
    back = query(
        "shifts.tdl", "--facts", "starts.tdl", "--from", "-inf", "--to", "4", "--query", "Shift"
    )
    assert back.stdout == "x,time,period\nann,0,\nbob,1,\nann,3,\nbob,4,\n"


def test_with_timestamps_the_period_counts_ticks(folder: Path) -> None:
    (folder / "facts").mkdir()
    (folder / "facts" / "Start.csv").write_text("name,time\nann,2024-01-01T00:00:00Z\n")
    args = ("shifts.tdl", "--facts", "facts", "--query", "Shift", "--tick", "8h", "--to", "inf")
    assert query(*args).stdout == "x,time,period\nann,2024-01-01T00:00:00Z,3\n"
    # 19,723 days of three ticks.
    assert query(*args, "--ticks").stdout == "x,time,period\nann,59169,3\n"
    later = query(*args, "--from", "2024-01-01T08:00:00Z")
    assert later.stdout == "x,time,period\nann,2024-01-02T00:00:00Z,3\n"


def test_the_budget_ends_it_and_names_the_rules(folder: Path) -> None:
    result = query("long.tdl", "--query", "Met", "--from", "5", "--to", "5", "--budget", "0.3")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(
        "error: no answer within 0.3 seconds on the timeline: Met @ T needs Met @ T+1: a cycle 1"
        " tick into the future (long.tdl:12); allow more with --budget"
    )
    assert len(result.stderr.splitlines()) == 1


def test_a_wrong_infinity_is_refused(folder: Path) -> None:
    assert query("shifts.tdl", "--facts", "starts.tdl", "--to", "infinitely").exit_code == 2
    result = query(
        "shifts.tdl", "--facts", "starts.tdl", "--query", "Shift", "--from", "inf", "--to", "inf"
    )
    assert (result.exit_code, result.stdout) == (0, "x,time,period\n")


def test_ctrl_c_stops_it(folder: Path) -> None:
    # A process that ignores Ctrl-C would hand that on: the tests may run in the background.
    listens = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{listens}; from tidelog.cli import cli; print('begins', flush=True); cli()"
    command = [sys.executable, "-c", code, "query", "long.tdl", "--query", "Met"]
    running = subprocess.Popen(
        [*command, "--from", "5", "--to", "5"], stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert running.stdout is not None
    assert running.stdout.readline() == b"begins\n"
    time.sleep(1.5)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=20)
    assert running.returncode not in (0, None)
    assert (out, b"Traceback" in err) == (b"", False)


def test_python(folder: Path) -> None:
    program = tidelog.parse(SHIFTS)
    facts = {"Start": [("ann", 0), ("bob", 1)]}
    ahead = program.query("Shift", facts, to=None)
    assert ahead.to_pylist() == [
        {"x": "ann", "time": 0, "period": 3},
        {"x": "bob", "time": 1, "period": 3},
    ]
    assert program.query("Break", facts, from_=None, to=None).to_pylist() == [
        {"x": "ann", "time": 1, "period": None},
        {"x": "bob", "time": 2, "period": None},
    ]
    bounded = program.query("Shift", facts, to=3)
    assert bounded.column_names == ["x", "time"]
    assert bounded.num_rows == 3


def definitive(*args: str) -> Result:
    return CliRunner().invoke(cli, ["definitive", *args], catch_exceptions=False)


def test_definitive_of_a_blocking_query(folder: Path) -> None:
    """B may come at any tick, so that C at 0 may still come; with both it holds already."""
    alone = definitive("meeting.tdl", "--facts", "alone.tdl", "--tin", "1", "--tout", "0")
    assert (alone.exit_code, alone.stdout.splitlines()) == (
        0,
        ["no: 1 answer at 0 may still come", "  C @ 0 may still come"],
    )
    both = definitive("meeting.tdl", "--facts", "both.tdl", "--tin", "1", "--tout", "0", "--json")
    assert json.loads(both.stdout)["holds"] is True


def test_definitive_has_a_budget(folder: Path) -> None:
    # Without input nothing is pending, but that must be found out.
    (folder / "long.tdl").write_text(f"{LONG}Met @ T :- Never @ T, Met @ 1.\n")
    args = ("long.tdl", "--query", "Met", "--tin", "5", "--tout", "5", "--budget", "0.3")
    result = definitive(*args)
    assert result.exit_code == 1
    assert "error: no answer within 0.3 seconds on the timeline: Met @ T" in result.stderr
