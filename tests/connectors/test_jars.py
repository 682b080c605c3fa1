"""Jars are fetched once; where they cannot be, one sentence says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tidelog.errors import DataError
from tidelog.evaluation.spark.jars import JARS, digests_of, jars_of


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


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("kafka-clients-3.9.2.jar", "has SHA-256 [0-9a-f]{64}, and [0-9a-f]{64} is pinned"),
        ("another.jar", "has SHA-256 [0-9a-f]{64}, and no such jar is pinned"),
    ],
)
def test_a_jar_that_is_not_the_pinned_one_is_not_kept(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from a repository that was tampered with."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    maven = tmp_path / "mvn"
    maven.write_text(
        "#!/bin/sh\ncase \"$*\" in *' -C '*) ;; *) exit 1;; esac\n"
        f'for each in "$@"; do case $each in -DoutputDirectory=*)'
        f' mkdir -p "${{each#*=}}"; echo bad > "${{each#*=}}/{name}";; esac; done\n'
    )
    maven.chmod(0o755)
    with pytest.raises(DataError, match=f"fetch the jars for kafka: {name} {said}"):
        jars_of(["kafka"])
    assert [path.name for path in (tmp_path / "tidelog" / "jars").iterdir()] == []


def test_every_jar_has_a_digest() -> None:
    for name, jars in JARS.items():
        pinned = {jar.removesuffix(".jar") for jar in digests_of(name)}
        files = {f"{c.split(':')[1]}-{c.split(':')[2]}" for c in jars.coordinates}
        assert files == pinned or (jars.whole and files < pinned)


def test_maven_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho '[ERROR] no network -> [Help 1]'\nexit 1\n")
    maven.chmod(0o755)
    with pytest.raises(DataError, match="fetch the jars for kafka: no network; see that"):
        jars_of(["kafka"])
    assert [path.name for path in (tmp_path / "tidelog" / "jars").iterdir()] == []
