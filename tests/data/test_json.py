"""JSON lines: whatever is wrong is said with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from support.facts import ask, refused

import tidelog
from tidelog.cli import cli
from tidelog.errors import DataError, TidelogWarning
from tidelog.evaluation.duckdb import Engine


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"x": "a", "time": 0', "not JSON"),
        ("E,a,0", "not JSON"),
        ("[1, 2]", "a line is an object"),
        ("[" * 100_000, "nested deeper than 64 levels"),
        ('{"predicate": "F", "x": 1.5, "time": 0}', "`F` in a file of `E` facts"),
        ('{"predicate": 7, "x": 1.5, "time": 0}', 'no "predicate" says'),
        ('{"x": "a", "time": 0}', "column `x`: 'a' is not float"),
        ('{"x": true, "time": 0}', "column `x`: True is not float"),
        ('{"x": {}, "time": 0}', "column `x`: {} is not float"),
        ('{"x": 1e400, "time": 0}', "`1e400` does not fit a float"),
        (f'{{"x": 1{"0" * 400}, "time": 0}}', "column `x`: an integer too large for a float"),
        ('{"x": 1, "time": 0.5}', "column `time`: 0.5 is not int"),
        ('{"x": 1, "time": "0"}', "column `time`: '0' is not int"),
        ('{"x": 1, "time": 4611686018427387904}', "does not fit 62 bits"),
    ],
)
def test_a_bad_json_line(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "E.jsonl"
    path.write_text(f'{{"x": 1, "time": 0}}\n\n{line}\n')
    (message,) = refused("input E(x: float) @ time. P(X) @ T :- E(X) @ T.", path)
    assert message.startswith(f"{path}:3: ")
    assert problem in message


def test_half_a_surrogate_pair(tmp_path: Path) -> None:
    path = tmp_path / "E.jsonl"
    path.write_text('{"x": "\\ud83c\\udf0a", "time": 0}\n{"x": "\\ud83c", "time": 0}\n')
    (message,) = refused("P(X) @ T :- E(X) @ T.", path)
    assert message == f"{path}:2: column `arg1`: '\\ud83c' has half a surrogate pair"


RULES = "input E(x: text, v: float, note: text) @ at. P(X, V) @ T :- E(X, V, _) @ T, V > 0."


def test_a_missing_key_is_as_null(tmp_path: Path) -> None:
    """In a column that a rule reads the row is left out; elsewhere it is a fact."""
    path = tmp_path / "E.jsonl"
    path.write_text(
        '{"x": "a", "v": 1, "note": "n", "at": 0}\n'
        '{"x": "b", "v": 2, "at": 1}\n'
        '{"x": "c", "note": "n", "at": 2}\n'
        '{"x": "d", "v": 4, "note": "n"}\n'
    )
    with pytest.warns(TidelogWarning, match="2 rows of E left out"):
        assert ask(RULES, path) == [("a", 1.0, 0), ("b", 2.0, 1)]


def test_a_key_that_no_line_has_is_a_slip(tmp_path: Path) -> None:
    path = tmp_path / "E.jsonl"
    path.write_text('{"x": "a", "V": 1, "note": "n", "at": 0}\n' * 2)
    (message,) = refused(RULES, path)
    assert message.startswith(f"{path}: no column `v`, which `E` declares")
    assert message.endswith("did you mean `V`?")


MIXED = """
input Event(x: text) @ time.
input Site(x: text).
P(X) @ T :- Event(X) @ T, Site(X).
"""
LINES = """{"predicate": "Site", "x": "a"}
{"predicate": "Event", "x": "a", "time": "2024-05-01T12:00:30Z"}
oops
{"predicate": "Event", "x": 7, "time": "2024-05-01T12:01:30Z"}
{"predicate": "Nobody", "x": "a"}
{"predicate": "Event", "x": "a", "time": "2024-05-01T12:02:30Z"}
"""


def test_lines_of_other_inputs_are_left_alone(tmp_path: Path) -> None:
    """Those that are looked for have no times, and every line of theirs is fine."""
    path = tmp_path / "all.jsonl"
    path.write_text(LINES)
    with Engine(tidelog.parse(MIXED), path, only=frozenset(["Site"])) as engine:
        assert engine.all(f"SELECT a1 FROM {engine.loaded['Site'].view}") == [("a",)]
    path.write_text(LINES + '{"predicate": "Site", "x": 7}\n')
    with pytest.raises(DataError, match=r"all\.jsonl:7: column `x`: 7 is not text"):
        Engine(tidelog.parse(MIXED), path, only=frozenset(["Site"]))


@pytest.mark.parametrize("named", ["all.jsonl", "Event.jsonl", "events=events.jsonl"])
def test_a_bad_line_of_a_single_file_is_a_dead_letter(tmp_path: Path, named: str) -> None:
    """As it is of a folder, of CSV and of standard input."""
    (tmp_path / "rules.tdl").write_text(MIXED)
    (tmp_path / "Site.csv").write_text("x\na\n")
    lines = (
        LINES
        if named == "all.jsonl"
        else "".join(line + "\n" for line in LINES.splitlines() if "Site" not in line)
    )
    facts = (
        named.replace("events=", f"Event={tmp_path}/") if "=" in named else f"{tmp_path}/{named}"
    )
    (tmp_path / named.rpartition("=")[2]).write_text(lines)
    words = ["run", str(tmp_path / "rules.tdl"), "--facts", facts, "--engine", "duckdb"]
    words += [] if named == "all.jsonl" else ["--facts", str(tmp_path / "Site.csv")]
    done = CliRunner().invoke(cli, [*words, "--tick", "1m"], catch_exceptions=False)
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 2)
    assert "3 unusable rows" in done.stderr
