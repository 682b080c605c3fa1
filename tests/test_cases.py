"""Every folder under tests/cases is a case: rules.tdl and the exact text the commands print.

check.txt    what `tidelog check rules.tdl` prints; it exits with 1 if and only if there are errors
explain.txt  what `tidelog explain rules.tdl --show class,graph,phi` prints, where it is of interest
facts/, expected/, ways.txt  answers, by every engine and mode that applies: see support/answers.py
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from support import answers

from tidelog import Code
from tidelog.cli import cli

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet
    from pyspark.sql import SparkSession

HERE = Path(__file__).resolve().parent
CASES = sorted(path.parent for path in (HERE / "cases").glob("*/*/check.txt"))
RUNS = answers.runs()
# What is known to be wrong: a case whose defect is mended fails here until its line is deleted.


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


def known(run: answers.Run) -> ParameterSet:
    """A run, with what is known of it."""
    name, large = run.folder.name, run.folder.name == "la_haute_borne"
    # Tick by tick it is also in tests/streaming/test_online.py; tests/evaluation asks Spark, too.
    more = {("la_haute_borne", "online"), ("window", "spark query"), ("always", "spark query")}
    more |= {
        ("gathered", "spark query"),
        ("looks_back", "spark query"),
        ("carried_across_keys", "spark query"),
    }
    deep = (name, run.way) in more
    marks = [pytest.mark.deep if deep else pytest.mark.slow] if deep or large else []
    return pytest.param(run, id=str(run), marks=marks)


def right(run: answers.Run, out: Path) -> None:
    result = answers.invoke(run, out)
    if run.refusal is not None:
        assert result.exit_code == 1
        assert run.refusal in result.stderr
        assert "Traceback" not in result.stderr
        return
    assert result.exit_code == 0, result.stderr
    for name, want in answers.expected(run.folder).items():
        got = answers.written(out, name) or want[:1]
        assert got[0] == want[0]
        # A query's answers are in order, too; those of a stream come when they are known.
        assert got[1:] == want[1:] if run.way == "query" else sorted(got[1:]) == sorted(want[1:])


@pytest.mark.parametrize("run", [known(r) for r in RUNS if not r.on_spark])
def test_answers(run: answers.Run, tmp_path: Path) -> None:
    right(run, tmp_path / "out")


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("run", [known(r) for r in RUNS if r.on_spark])
def test_answers_on_spark(run: answers.Run, tmp_path: Path, spark: SparkSession) -> None:
    right(run, tmp_path / "out")


def test_there_are_cases() -> None:
    assert len(CASES) > 40
    assert len(EXPLAINED) > 10
    assert {run.way for run in RUNS} == set(answers.WAYS)


def test_every_folder_is_a_whole_case() -> None:
    """A folder that lacks something would otherwise test nothing, silently."""
    known = {"rules.tdl", "check.txt", "explain.txt", "facts", "expected", "ways.txt"}
    for folder in (HERE / "cases").glob("*/*"):
        names = {path.name for path in folder.iterdir()}
        facts = {name for name in names if Path(name).stem == "facts"}
        assert "rules.tdl" in names <= known | facts, folder
        assert "check.txt" in names or "expected" in names, folder
        assert len(facts) == int("expected" in names), folder
        assert "expected" not in names or any((folder / "expected").glob("*.csv")), folder


@pytest.mark.parametrize("code", Code, ids=lambda code: code.id)
def test_every_code_has_a_case(code: Code) -> None:
    shown = f"{code.severity}[{code.id}]: "
    assert any(shown in (case / "check.txt").read_text("utf-8") for case in CASES)


@pytest.mark.parametrize("code", Code, ids=lambda code: code.id)
def test_every_code_is_documented(code: Code) -> None:
    page = (HERE.parent / "docs" / "diagnostics.md").read_text("utf-8")
    assert f"\n## {code.id}: {code.title}\n" in page
