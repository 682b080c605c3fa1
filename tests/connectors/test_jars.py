"""Jars are fetched once; where they cannot be, one sentence says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tidelog.errors import DataError
from tidelog.evaluation.spark.jars import JARS, jars_of


def test_fetched_once(
    jars: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = jars("kafka")
    assert len(there) == len(JARS["kafka"].coordinates)
    monkeypatch.setenv("PATH", str(tmp_path))  # no Maven
    assert jars_of(["kafka", "kafka"]) == there


def test_no_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match=r"install Maven \(mvn\), .* name them with --jars"):
        jars_of(["kafka"])


def test_maven_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho '[ERROR] no network -> [Help 1]'\nexit 1\n")
    maven.chmod(0o755)
    with pytest.raises(DataError, match="fetch the jars for kafka: no network; see that"):
        jars_of(["kafka"])
    assert [path.name for path in (tmp_path / "tidelog" / "jars").iterdir()] == []
