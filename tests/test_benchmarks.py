"""The benchmark harness: timing, targets, the table, the stored run and the comparison of two."""

from __future__ import annotations

import json
import platform
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from support.places import ROOT

TINY = """
from benchmarks.harness import Result, cost, faster

def run(quick):
    seconds = 1.0 if quick else 2.0
    return [
        faster("tiny/join", seconds, "by hand", 6.0, ">= 4x"),
        cost("tiny/recursion", 3.0, "tiny/join", 2.0, "<= 2x"),
        Result("tiny/memory", 12.5, "MB", target="<= 20 MB"),
        Result("tiny/plain", 0.25),
    ]
"""


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT)
    return import_module("benchmarks.harness")


@pytest.fixture
def tiny(harness: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package with one benchmark."""
    folder = tmp_path / "tiny_benchmarks"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "tiny.py").write_text(TINY)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("tiny_benchmarks", "tiny_benchmarks.tiny"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return import_module("tiny_benchmarks")


def main(*argv: str, **options: Any) -> int:
    return import_module("benchmarks.__main__").main(argv, **options)


def test_the_best_time_counts(harness: ModuleType) -> None:
    calls: list[str] = []
    one, two = harness.best_of_each(3, lambda: calls.append("a"), lambda: calls.append("b"))
    assert calls == ["a", "b"] * 3
    assert 0 <= min(one, two) < 1
    assert 0 <= harness.best_of(2, lambda: None) < 1


def test_targets(harness: ModuleType) -> None:
    assert harness.faster("a", 2.0, "peer", 6.0, ">= 3x").met is True
    assert harness.faster("a", 2.0, "peer", 5.9, ">= 3x").met is False
    assert harness.cost("a", 6.0, "peer", 2.0, "<= 2x").met is False
    assert harness.Result("a", 1.5, target="<= 2 s").met is True
    assert harness.Result("a", 1.5).met is None


@pytest.mark.parametrize("target", ["about 3x", ">= 3x", "<= 2 MB", "> 3 s"])
def test_a_target_must_fit_its_result(harness: ModuleType, target: str) -> None:
    with pytest.raises(ValueError, match="target"):
        harness.Result("a", 1.0, target=target)


def test_a_run(tiny: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = tmp_path / "run.json"
    assert main("tiny", "--json", str(stored), package=tiny) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [
        "tiny/join",
        "tiny/recursion",
        "tiny/memory",
        "tiny/plain",
    ]
    assert "3.00x" in lines[1]
    assert "missed" in lines[1]
    assert "met" in lines[2]

    run = json.loads(stored.read_text())
    assert run["quick"] is False
    assert run["results"][0] == {
        "name": "tiny/join",
        "value": 2.0,
        "unit": "s",
        "peer": "by hand",
        "ratio": 3.0,
        "target": ">= 4x",
        "met": False,
    }
    assert run["machine"]["python"] == platform.python_version()
    assert platform.node() not in [str(value) for value in run["machine"].values()]
    assert str(tmp_path) not in stored.read_text()


def test_an_unknown_benchmark(tiny: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main("big", package=tiny)
    assert stop.value.code == 2
    assert "no benchmark big; there is tiny" in capsys.readouterr().err


def test_two_runs_compared(
    tiny: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    main("--json", str(old), package=tiny)
    main("--quick", "--json", str(new), package=tiny)
    run = json.loads(new.read_text())
    run["results"][3]["name"] = "tiny/renamed"
    new.write_text(json.dumps(run))
    capsys.readouterr()

    compare = import_module("benchmarks.compare")
    assert compare.main([str(old), str(new)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["tiny/join", "2", "s", "1", "s", "0.50x"]
    assert lines[4].split() == ["tiny/renamed", "0.25", "s"]
    assert lines[5].split() == ["tiny/plain", "0.25", "s"]
    assert lines[-1] == "not the same in both runs: quick: False then, True now"


def test_the_projects_own_benchmarks_are_found(harness: ModuleType) -> None:
    package = import_module("benchmarks")
    for name in harness.find(package):
        assert callable(harness.load(package, name))


def test_different_answers_end_a_benchmark(harness: ModuleType) -> None:
    nexmark = import_module("benchmarks.nexmark")
    ours = pa.table({"auction": [1, 2], "bids": [3, 4], "time": [0, 0]})
    nexmark.expect_same("hot", ours, pa.concat_tables([ours, ours]), "Flink SQL")
    for theirs, said in (
        (ours.slice(1), r"of the rules are not among those of Flink SQL, \(1, 3, 0\) the first"),
        (
            pa.concat_tables([ours, pa.table({"auction": [1], "bids": [5], "time": [0]})]),
            r"of Flink SQL are not among those of the rules, \(1, 5, 0\) the first",
        ),
    ):
        with pytest.raises(SystemExit, match=f"hot: 1 answers {said}"):
            nexmark.expect_same("hot", ours, theirs, "Flink SQL")
