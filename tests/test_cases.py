"""Every folder under tests/cases is a case: rules.tdl and the exact text the commands print.

check.txt    what `tidelog check rules.tdl` prints; it exits with 1 if and only if there are errors
explain.txt  what `tidelog explain rules.tdl --show class,graph,phi` prints, where it is of interest
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tidelog import Code
from tidelog.cli import cli

HERE = Path(__file__).resolve().parent
CASES = sorted(path.parent for path in (HERE / "cases").glob("*/*/rules.tdl"))


def run(case: Path, monkeypatch: pytest.MonkeyPatch, *args: str) -> Result:
    monkeypatch.chdir(case)  # so that the file is called rules.tdl whatever the folder
    return CliRunner().invoke(cli, args, catch_exceptions=False)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_check(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = (case / "check.txt").read_text("utf-8")
    result = run(case, monkeypatch, "check", "rules.tdl")
    assert result.output == expected
    assert result.exit_code == (1 if re.search(r"^error\[", expected, re.MULTILINE) else 0)


EXPLAINED = [case for case in CASES if (case / "explain.txt").exists()]


@pytest.mark.parametrize("case", EXPLAINED, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_explain(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(case, monkeypatch, "explain", "rules.tdl", "--show", "class,graph,phi")
    assert result.stdout == (case / "explain.txt").read_text("utf-8")
    assert result.exit_code == 0


def test_there_are_cases() -> None:
    assert len(CASES) > 40
    assert len(EXPLAINED) > 10


def test_every_folder_is_a_whole_case() -> None:
    """A folder without rules.tdl or check.txt would otherwise test nothing, silently."""
    for folder in (HERE / "cases").glob("*/*"):
        names = {path.name for path in folder.iterdir()}
        assert {"rules.tdl", "check.txt"} <= names <= {"rules.tdl", "check.txt", "explain.txt"}, (
            folder
        )


@pytest.mark.parametrize("code", Code, ids=lambda code: code.id)
def test_every_code_has_a_case(code: Code) -> None:
    shown = f"{code.severity}[{code.id}]: "
    assert any(shown in (case / "check.txt").read_text("utf-8") for case in CASES)


@pytest.mark.parametrize("code", Code, ids=lambda code: code.id)
def test_every_code_is_documented(code: Code) -> None:
    page = (HERE.parent / "docs" / "diagnostics.md").read_text("utf-8")
    assert f"\n## {code.id}: {code.title}\n" in page
