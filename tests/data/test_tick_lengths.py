"""Rules that say how long a tick is."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

import tidelog
from tidelog.cli import cli

RULES = """
tick 1m.
input Beat(x: text) @ time.
Lost(X) @ T :- Beat(X) @ T-10m, not some Beat(X) @ [T-9m, T].
"""
WRITTEN_OUT = RULES.replace("tick 1m.", "").replace("10m", "10").replace("9m", "9")
START = datetime(2026, 3, 2, 8, tzinfo=UTC)


def at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


FACTS = {"Beat": [("a", at(0)), ("a", at(1)), ("b", at(30))]}


def test_lengths_of_time_are_ticks() -> None:
    said = tidelog.parse(RULES).query("Lost", FACTS).to_pylist()
    given = tidelog.parse(WRITTEN_OUT).query("Lost", FACTS, tick="1m").to_pylist()
    assert said == given == [{"x": "a", "time": at(11)}]


def test_a_stream_has_the_length_of_its_rules() -> None:
    stream = tidelog.Stream(tidelog.parse(RULES), "Lost")
    answers = [
        row
        for minute in range(14)
        for row in stream.push(at(minute), {"Beat": [("a",)] if minute < 2 else []})
        .answers["Lost"]
        .to_pylist()
    ]
    assert answers == [{"x": "a", "time": at(11)}]


@pytest.mark.parametrize("length", ["60s", timedelta(minutes=1)])
def test_a_length_that_is_given_must_agree(length: str | timedelta) -> None:
    program = tidelog.parse(RULES)
    assert program.query("Lost", FACTS, tick=length).num_rows == 1
    with pytest.raises(ValueError, match=r"the rules say `tick 1m.`, and ticks of 10m are asked"):
        program.query("Lost", FACTS, tick="10m")
    with pytest.raises(ValueError, match=r"the rules say `tick 1m.`"):
        tidelog.Stream(program, tick="10m")


def test_printed_and_read_again_it_is_the_same() -> None:
    program = tidelog.parse(RULES)
    assert tidelog.parse(str(program)) == program


@pytest.mark.parametrize("mode", ["offline", "online"])
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_stream_of_a_file_in_process(tmp_path: Path, ending: str, mode: str) -> None:
    (tmp_path / "rules.tdl").write_text(RULES)
    rows = [{"x": x, "time": when.isoformat()} for x, when in FACTS["Beat"]]
    lines = [json.dumps(row) for row in rows]
    if ending == "csv":
        lines = ["x,time", *(f"{row['x']},{row['time']}" for row in rows)]
    (tmp_path / f"Beat.{ending}").write_text("\n".join(lines) + "\n")
    command = ["run", str(tmp_path / "rules.tdl"), "--facts", str(tmp_path / f"Beat.{ending}")]
    ran = CliRunner().invoke(cli, [*command, "--engine", "duckdb", "--mode", mode])
    assert ran.exit_code == 0, ran.stderr
    assert json.loads(ran.stdout)["time"] == "2026-03-02T08:11:00Z"
