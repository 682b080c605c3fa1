"""`tidelog why` on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.places import ROOT

from tidelog.cli import cli

TURBINES = ("examples/turbines/rules.tdl", "--facts", "examples/turbines/facts")


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def run(*args: str | Path, **options: str) -> Result:
    return CliRunner().invoke(cli, ["why", *map(str, args)], **options)  # type: ignore[arg-type]


def test_json_of_a_proof() -> None:
    said = json.loads(run(*TURBINES, "Shdn(north) @ 3", "--json").output)
    assert said["holds"]
    assert said["smallest"]
    (proof,) = said["proofs"]
    assert proof["size"] == 8
    assert proof["steps"][0] == {
        "fact": {"predicate": "Shdn", "args": ["north"], "time": 3},
        "rule": "Shdn(X) @ T+1 :- Cool(X) @ T, Flag(X) @ T+1.",
        "file": "examples/turbines/rules.tdl",
        "line": 9,
        "kept": False,
        "premises": [1, 6],
        "comparisons": [],
    }


def test_json_of_a_miss() -> None:
    said = json.loads(run(*TURBINES, "Flag(north) @ 5", "--json").output)
    assert not said["holds"]
    (miss,) = said["misses"]
    assert miss["missing"] == [
        {
            "predicate": "Temp",
            "args": ["north", "high"],
            "time": 5,
            "input": True,
            "instead": [{"predicate": "Temp", "args": ["north", "low"], "time": 5}],
            "because": None,
        }
    ]


def test_several_proofs() -> None:
    said = run(*TURBINES, "AtRisk(east) @ 11", "--all", 9).output
    assert "proof 2, of 18 facts" in said
    assert "proof 3" not in said
    one = json.loads(run(*TURBINES, "AtRisk(east) @ 11", "--json").output)
    assert len(one["proofs"]) == 1


def test_it_fits_the_terminal() -> None:
    for fact in ("AtRisk(south) @ 11", "Malfunc(south) @ 4", "AtRisk(north) @ 3"):
        for line in run(*TURBINES, fact).output.split("\n"):
            assert len(line) <= 80, line


def test_colour_on_a_terminal_only() -> None:
    assert "\x1b" not in run(*TURBINES, "Malfunc(north) @ 1").output
    coloured = CliRunner(env={"FORCE_COLOR": "1", "COLUMNS": "80"})
    assert "\x1b" in coloured.invoke(cli, ["why", *TURBINES, "Malfunc(north) @ 1"]).output


@pytest.mark.parametrize(
    "command",
    [
        ["analyze", TURBINES[0]],
        ["explain", TURBINES[0]],
        ["explain", "examples/timeline/late.tdl"],
        ["definitive", *TURBINES, "--query", "Malfunc", "--tin", "2", "--tout", "2"],
        ["why", *TURBINES, "Malfunc(north) @ 7"],
    ],
)
def test_colour_changes_nothing_but_colour_and_width(command: list[str]) -> None:
    plain = CliRunner().invoke(cli, command).output
    coloured = CliRunner(env={"FORCE_COLOR": "1", "COLUMNS": "80"}).invoke(cli, command).output
    shown = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert shown != coloured
    assert shown.split() == plain.split()
    assert all(len(line) <= 80 for line in shown.split("\n"))


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        ((*TURBINES, "Malfunk(north) @ 1"), 2, "did you mean Malfunc?"),
        ((*TURBINES, "Malfunc(X) @ 1"), 2, "variables"),
        ((*TURBINES, "Malfunc(north)"), 2, "has a time"),
        ((*TURBINES, "Malfunc(north) @ 1", "--all", "0"), 2, "--all"),
        ((TURBINES[0], "--facts", "", "Malfunc(north) @ 1"), 2, "--facts names no file"),
        ((TURBINES[0], "--facts", "nowhere", "Malfunc(north) @ 1"), 1, "no such file"),
        ((*TURBINES, "Malfunc(north) @ 1970-01-01", "--tick", "1d"), 1, "is not a timestamp"),
        ((*TURBINES, "Malfunc(north) @ soon", "--tick", "1d"), 2, "not a timestamp"),
        (("nowhere.tdl", "P @ 1"), 2, "cannot read"),
    ],
)
def test_wrong_use(args: tuple[str, ...], code: int, said: str) -> None:
    result = run(*args)
    assert result.exit_code == code, result.output
    assert said in result.output
    assert "Traceback" not in result.output


def test_a_value_that_does_not_fit_the_data(tmp_path: Path) -> None:
    """Undeclared columns get their types from the data, after the facts are read."""
    (tmp_path / "E.jsonl").write_text('{"predicate": "E", "a": 3, "time": 0}\n')
    result = run("-", "P(north) @ 0", "--facts", tmp_path, input="P(X) @ T :- E(X) @ T.")
    assert result.exit_code == 2
    assert "argument 1 of P is int, not text" in result.output


ONCALL = (
    "examples/oncall/errors.tdl",
    *("--facts", "examples/oncall/facts/requests.csv"),
    *("--facts", "deploys=examples/oncall/facts/deploys.csv"),
    *("--facts", "deploy_ends=examples/oncall/facts/deploys.csv"),
    "Alert(checkout, firing) @ 2026-09-14T10:20:00Z",
)


def test_an_alert_over_counts_fits_two_screens() -> None:
    """It rests on 213 facts; --full has a line for each."""
    brief, full = run(*ONCALL).output, run(*ONCALL, "--full").output
    assert len(brief.splitlines()) < 100 < 200 < len(full.splitlines())
    assert "... " in brief
    assert "more facts" not in full
    told, whole = (
        json.loads(run(*ONCALL, "--json", *options).output) for options in ((), ("--full",))
    )
    steps, every = (len(found["proofs"][0]["steps"]) for found in (told, whole))
    assert steps < 60 < every
