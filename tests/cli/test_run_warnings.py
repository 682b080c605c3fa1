"""What `tidelog run` in process says while it runs: unused rows, and files that were replaced."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from tidelog.cli import cli

RULES = "input E(x: text) @ time.  P(X) @ T :- E(X) @ T, not E(off) @ T."


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.tdl"
    path.write_text(RULES)
    (tmp_path / "facts").mkdir()
    return path


def run(*words: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["run", *map(str, words)], input=stdin, catch_exceptions=False)


def line(x: str, time: object) -> str:
    return json.dumps({"predicate": "E", "x": x, "time": time}) + "\n"


def put(path: Path, *rows: str) -> Path:
    path.write_text("x,time\n" + "".join(f"{row}\n" for row in rows))
    return path


def answers(path: Path) -> list[tuple[str, int]]:
    rows = map(json.loads, path.read_text().splitlines())
    return sorted((row["x"], row["time"]) for row in rows)


def test_a_run_that_is_killed_has_told_of_its_rows(rules: Path) -> None:
    """The warning comes without a terminal, before any more rows come."""
    words = [sys.executable, "-m", "tidelog.cli", "run", str(rules), "--facts", "-"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stderr=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(line("a", 5) + line("a", 9) + "oops\n")
        process.stdin.flush()
        assert "<stdin>:3: not JSON" in process.stderr.readline()
        process.stdin.write(line("a", 6))
        process.stdin.flush()
        late = process.stderr.readline()
        process.kill()
    assert "input `E`: 1 row came too late, at most by 3 ticks; --lateness 3 would do" in late
    assert "answers of P could have been other ones; the first: <stdin>:4: late: tick 6" in late


def test_late_rows_of_a_run_are_two_lines(rules: Path) -> None:
    text = line("a", 1) + line("a", 50) + "".join(line("b", n % 40) for n in range(130))
    done = run(rules, "--facts", "-", stdin=text)
    warned = [said for said in done.stderr.splitlines() if "warning" in said]
    assert len(warned) == 2
    assert (
        "129 more rows came too late, 130 by now, at most by 50 ticks; --lateness 50" in warned[1]
    )
    assert "answers, 130 late rows;" in done.stderr
    assert "late" not in run(rules, "--facts", "-", "--lateness", "50", stdin=text).stderr
    assert "late row" in run(rules, "--facts", "-", "--lateness", "49", stdin=text).stderr


def test_a_run_that_fails_warns_of_nothing_later(rules: Path) -> None:
    """Rows that are to be told of in a minute are forgotten with the run."""
    done = run(rules, "--facts", "-", stdin="oops\n" * 100)
    assert done.exit_code == 1
    timers = [one for one in threading.enumerate() if isinstance(one, threading.Timer)]
    for timer in timers:
        timer.join(1)
    assert not any(timer.is_alive() for timer in timers)


def test_other_reasons_why_rows_come_too_late(rules: Path) -> None:
    beat = line("a", 1) + '{"time": 9}\n' + line("a", 4) + line("a", 10)
    assert (
        "a heartbeat had said that everything before it was there"
        in run(rules, "--facts", "-", stdin=beat).stderr
    )
    jump = line("a", 1) + line("a", 300) + line("a", 2)
    said = run(rules, "--facts", "-", "--max-jump", "100", stdin=jump).stderr
    assert "where times are right, --max-jump 299 takes them" in said
    assert "unusable" not in run(rules, "--facts", "-", "--max-jump", "299", stdin=jump).stderr


def test_facts_of_an_open_tick_outlive_their_file(rules: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "facts" / "E.csv", tmp_path / "out"
    words = [rules, "--facts", tmp_path / "facts", "--engine", "duckdb"]
    words += ["--checkpoint", tmp_path / "c", "--sink", f"jsonl:{out}"]
    put(file, "a,1", "b,14", "off,14", "c,14")
    assert run(*words).exit_code == 0
    assert answers(out) == [("a", 1)]
    file.rename(tmp_path / "E.csv.1")
    put(file, "d,3", "e,15", "f,16")
    second = run(*words)
    assert (
        f"{file} was replaced since the run before; 1 of its rows is at or before 13, which is"
        " complete, and not used" in second.stderr
    )
    assert "4 facts in 1 batch" in second.stderr  # three of tick 14, and one of 15
    assert answers(out) == [("a", 1), ("e", 15)]
    third = run(*words, "--close")
    assert "replaced" not in third.stderr
    # What a query over all rows gives that were in time.
    everything = put(tmp_path / "E.csv", "a,1", "b,14", "off,14", "c,14", "e,15", "f,16")
    asked = CliRunner().invoke(cli, ["query", str(rules), "--facts", str(everything), "--json"])
    wanted = map(json.loads, asked.stdout.splitlines())
    assert answers(out) == sorted((row["x"], row["time"]) for row in wanted)


@pytest.mark.parametrize("mode", ["offline", "online"])
@pytest.mark.parametrize("lateness", [0, 3])
def test_files_that_grow_and_files_that_stay_are_no_news(
    mode: str, lateness: int, rules: Path, tmp_path: Path
) -> None:
    """Facts that are kept and read again are one fact; counts are those of one run."""
    counted = "input E(x: text, n: int) @ time.  N(C) @ T :- E(_, _) @ T, C = count(E(_, _) @ T)."
    rules.write_text(counted)
    file, out = tmp_path / "facts" / "E.csv", tmp_path / "out"
    words = [rules, "--facts", tmp_path / "facts", "--engine", "duckdb", "--mode", mode]
    words += ["--lateness", lateness, "--sink", f"jsonl:{out}"]
    rows = [f"{'ab'[n % 2]},{n},{n // 3}" for n in range(30)]
    facts = 0
    for size in (4, 4, 17, 30):
        file.write_text("x,n,time\n" + "".join(f"{row}\n" for row in rows[:size]))
        done = run(*words, "--checkpoint", tmp_path / "c", *(["--close"] if size == 30 else []))
        assert "warning" not in done.stderr
        facts += int(done.stderr.split(" fact")[0].splitlines()[-1])
    assert facts == 30
    counts = [json.loads(said)["c"] for said in out.read_text().splitlines()]
    assert counts == [3] * 10


def test_too_many_open_facts_need_their_files(
    rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelog.streaming.feeds.HELD", 1)
    put(tmp_path / "facts" / "E.csv", "a,1", "b,14", "c,14")
    words = [rules, "--facts", tmp_path / "facts", "--engine", "duckdb"]
    done = run(*words, "--checkpoint", tmp_path / "c", "--sink", f"jsonl:{tmp_path}/out")
    assert "2 facts after 13 wait for the next run, which reads them again: keep" in done.stderr


def test_a_missing_value_is_named_with_its_column(tmp_path: Path) -> None:
    """As Spark names it, with one warning for each input."""
    rules = tmp_path / "r.tdl"
    rules.write_text(
        "input E(x: text, v: float, w: int) @ at.  input F(x: text) @ at."
        "  P(X) @ T :- E(X, V, _) @ T, F(X) @ T, V > 0."
    )
    times = [datetime(2024, 5, 1, 0, n) for n in (0, 1, 2, 3)]
    columns = {"x": ["a", None, "c", "d"], "v": [1.0, 1.0, float("nan"), 1.0], "w": [None] * 4}
    pq.write_table(pa.table({**columns, "at": times}), tmp_path / "E.parquet")
    pq.write_table(pa.table({"x": ["a", "d"], "at": [times[0], None]}), tmp_path / "F.parquet")
    words = [rules, "--facts", tmp_path / "E.parquet", "--facts", tmp_path / "F.parquet"]
    words += ["--engine", "duckdb", "--tick", "1m", "--sparse", "E", "--sparse", "F"]
    done = run(*words, "--checkpoint", tmp_path / "c", "--sink", f"jsonl:{tmp_path}/out")
    assert done.exit_code == 0, done.output
    letters = (tmp_path / "c/dead_letters/part-00000.json").read_text().splitlines()
    reasons = sorted(json.loads(letter)["reason"] for letter in letters)
    assert reasons == [f"NULL or NaN in column `{name}`" for name in ("at", "v", "x")]
    warned = [said for said in done.stderr.splitlines() if said.startswith("warning: ")]
    assert [said.split(";")[0] for said in warned] == [
        "warning: input `E`: 2 rows could not be used",
        "warning: input `F`: 1 row could not be used",
    ]
