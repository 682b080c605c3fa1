"""What CI gets: annotations, SARIF, pre-commit hooks and the GitHub Action."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest
import yaml
from click.testing import CliRunner, Result
from support.places import ROOT

from tidelog.cli import cli

SCHEMAS = ROOT / "tests" / "schemas"
CASES = sorted((ROOT / "tests" / "cases").glob("*/*/rules.tdl"))


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.tdl").write_text("P(X) :- E(X).\n")
    (tmp_path / "bad é.tdl").write_text("P(X) :- E(X), V > 5.\nQ(X) :- E(X, Y).\n")
    return tmp_path


# check --format


def test_sarif_fits_its_schema() -> None:
    """All diagnostics that there are, from the cases of every one of them."""
    result = run("check", "--format", "sarif", *map(str, CASES))
    assert result.exit_code == 1
    sarif = json.loads(result.stdout)
    fastjsonschema.compile(json.loads((SCHEMAS / "sarif-2.1.0.json").read_text()))(sarif)
    (log,) = sarif["runs"]
    rules = [rule["id"] for rule in log["tool"]["driver"]["rules"]]
    assert {r["ruleId"] for r in log["results"]} == set(rules)
    assert all(rules[r["ruleIndex"]] == r["ruleId"] for r in log["results"])


def test_sarif_names_files_by_references(project: Path) -> None:
    sarif = json.loads(run("check", "--format", "sarif", "bad é.tdl").stdout)
    place = sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "bad%20%C3%A9.tdl"
    assert place["region"] == {"startLine": 1, "startColumn": 15, "endLine": 1, "endColumn": 16}


def test_annotations(project: Path) -> None:
    result = run("check", "--format", "github", "good.tdl", "bad é.tdl")
    assert result.exit_code == 1
    first, *_ = result.stdout.splitlines()
    assert first == (
        "::error file=bad é.tdl,line=1,endLine=1,title=E102 unsafe comparison variable,col=15,"
        "endColumn=16::`V` is compared but has no value%0Ahint: use `V` in an atom of the body"
    )
    assert len(result.stdout.splitlines()) == 3


def test_notes_in_every_format(project: Path) -> None:
    rules = ROOT / "tests" / "cases" / "last_values" / "handed_on" / "rules.tdl"
    (project / "last.tdl").write_text(rules.read_text())
    github = run("check", "--format", "github", "--strict", "last.tdl")
    assert github.exit_code == 0
    assert github.stdout.startswith(
        "::notice file=last.tdl,line=10,endLine=10,title=N401 no order within a tick,"
    )
    result = run("check", "--format", "sarif", "--strict", "last.tdl")
    assert result.exit_code == 0
    (log,) = json.loads(result.stdout)["runs"]
    assert [(r["ruleId"], r["level"]) for r in log["results"]] == [("N401", "note")]
    levels = {
        r["id"][0]: r["defaultConfiguration"]["level"] for r in log["tool"]["driver"]["rules"]
    }
    assert levels == {"E": "error", "W": "warning", "N": "note"}


def test_several_files(project: Path) -> None:
    result = run("check", "good.tdl", "bad é.tdl")
    assert result.exit_code == 1
    assert result.stdout.startswith("good.tdl: no problems")
    assert "bad é.tdl: 2 errors, 1 warning\n" in result.stdout
    reports = json.loads(run("check", "--json", "good.tdl", "good.tdl").stdout)
    assert [each["file"] for each in reports] == ["good.tdl", "good.tdl"]
    assert json.loads(run("check", "--format", "json", "good.tdl").stdout)["errors"] == 0
    assert run("check", "--json", "--format", "sarif", "good.tdl").exit_code == 2


def test_several_files_are_formatted(project: Path) -> None:
    (project / "a.tdl").write_text("P( X ):-E(X).\n")
    assert run("fmt", "--check", "good.tdl", "a.tdl").exit_code == 1
    result = run("fmt", "good.tdl", "a.tdl")
    assert (result.exit_code, result.stdout) == (0, "a.tdl: reformatted\n")


# pre-commit


HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())


def test_the_hooks_are_commands_that_exist(project: Path) -> None:
    assert [hook["id"] for hook in HOOKS] == ["tidelog-check", "tidelog-fmt", "tidelog-test"]
    (project / "good.test.yaml").write_text(
        'rules: good.tdl\ntests:\n- {name: a, facts: "E(a).", expect: {P: ["(a)"]}}\n'
    )
    files = ["good.tdl", "good.test.yaml", "README.md"]
    for hook in HOOKS:
        wanted = [name for name in files if re.search(hook["files"], name)]
        assert "README.md" not in wanted
        command = shlex.split(hook["entry"])
        assert command[0] == "tidelog"
        passed = wanted if hook.get("pass_filenames", True) else []
        assert run(*command[1:], *passed).exit_code == 0, hook


# The GitHub Action


ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())


def test_the_action_fits_its_schema() -> None:
    fastjsonschema.compile(json.loads((SCHEMAS / "github-action.json").read_text()))(ACTION)


def step(name: str, folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run a step as GitHub would, with the inputs given or their defaults."""
    (chosen,) = (s for s in ACTION["runs"]["steps"] if s.get("name") == name)
    values = {k: v["default"] for k, v in ACTION["inputs"].items()} | inputs
    env = {
        key: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: values[m.group(1)], value)
        for key, value in chosen["env"].items()
    }
    here = folder.parent / "bin"
    here.mkdir(exist_ok=True)
    command = here / "tidelog"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tidelog.cli "$@"\n')
    command.chmod(0o755)
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", chosen["run"]],
        cwd=folder,
        env={**os.environ, **env, "PATH": f"{here}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_the_steps_of_the_action(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    assert step("Check", folder).returncode == step("Test", folder).returncode == 0
    (folder / "good.tdl").write_text("P(X) :- E(X).\n")
    (folder / "good.test.yaml").write_text(
        'rules: good.tdl\ntests:\n- {name: a, facts: "E(a).", expect: {P: ["(a)"]}}\n'
    )
    checked = step("Check", folder, sarif="found.sarif")
    assert (checked.returncode, checked.stdout) == (0, "")
    assert json.loads((folder / "found.sarif").read_text())["version"] == "2.1.0"
    tested = step("Test", folder, junit="report.xml", **{"min-coverage": "100"})
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert (folder / "report.xml").exists()
    (folder / "bad.tdl").write_text("P(X) :- E(X), V > 5.\n")
    refused = step("Check", folder)
    assert refused.returncode == 1
    assert refused.stdout.startswith("::error file=./bad.tdl,line=1")
