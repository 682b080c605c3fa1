"""The pytest plugin, in a project outside this repository."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # processes

RULES = "Hot(X) @ T :- Temp(X, high) @ T, Temp(X, high) @ T+1.\n"
TESTS = """\
rules: rules.tdl
tests:
- name: two highs
  series: {"Temp(a, _)": "high high"}
  expect: {Hot: ["(a) @ 0"]}
- name: one high
  series: {"Temp(a, _)": "high low"}
  expect: {Hot: ["(a) @ 0"]}
limits: {Hot: {delay: 1}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "rules.tdl").write_text(RULES)
    (tmp_path / "rules.test.yaml").write_text(TESTS)
    (tmp_path / "test_other.py").write_text("def test_other():\n    assert True\n")
    return tmp_path


def pytest_in(project: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Without the entry point's help, since the package may not be installed: by its name."""
    known = {point.value for point in entry_points(group="pytest11")}
    plugin = [] if "tidelog.pytest_plugin" in known else ["-p", "tidelog.pytest_plugin"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugin, *args],
        capture_output=True,
        text=True,
        cwd=project,
        env=os.environ,
        timeout=120,
        check=False,
    )


def test_the_files_are_collected_and_run(project: Path) -> None:
    done = pytest_in(project, "-q")
    assert "1 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    assert "FAIL" in done.stdout
    assert "rules.test.yaml:6: one high" in done.stdout
    assert "there is Temp(a, low) @ 1" in done.stdout
    assert "Traceback" not in done.stdout
    assert "runtest" not in done.stdout


def test_files_of_others_are_left_alone(project: Path) -> None:
    (project / "other.test.yaml").write_text("rules:\n- id: a\n  tests: {not: ours}\n")
    (project / "worse.test.yml").write_text("\t%% no YAML")
    done = pytest_in(project, "-q")
    assert "1 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    named = pytest_in(project, "-q", "other.test.yaml")
    assert named.returncode == 2
    assert "other.test.yaml" in named.stdout


def test_names_modes_and_wrong_files(project: Path) -> None:
    chosen = pytest_in(project, "-v", "-k", "two", "--tidelog-mode", "online")
    assert "rules.test.yaml::two highs PASSED" in chosen.stdout
    assert "1 passed, 3 deselected" in chosen.stdout
    (project / "rules.test.yaml").write_text("rules: rules.tdl\ntests:\n- nam: a\n")
    wrong = pytest_in(project, "-q")
    assert wrong.returncode == 2
    assert "hint: did you mean `name`?" in wrong.stdout
    assert "Traceback" not in wrong.stdout


def test_the_plugin_is_light() -> None:
    probe = (
        "import sys, tidelog.pytest_plugin;"
        "print([m for m in ('duckdb', 'pyarrow', 'yaml', 'rich') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=False
    )
    assert done.stdout == "[]\n"
