"""In process: what a snapshot vouches for is on the disk before it, and is looked at again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner
from support.disk import Disk

from tidelog.cli import cli
from tidelog.data.durable import Machine
from tidelog.streaming import snapshot

LINES = [
    {"predicate": "E", "x": "a", "time": 0},
    {"predicate": "E", "x": "a", "time": "soon"},
    {"predicate": "E", "x": "b", "time": 1},
    {"predicate": "E", "x": "c", "time": 2},
]


def run(folder: Path, sink: str, lines: list[dict[str, Any]]) -> Any:
    (folder / "rules.tdl").write_text("input E(x: text) @ time. P(X) @ T :- E(X) @ T.\n")
    words = ["run", str(folder / "rules.tdl"), "--facts", "-", "--sink", sink]
    words += ["--checkpoint", str(folder / "new" / "c")]
    return CliRunner().invoke(cli, words, input="".join(f"{json.dumps(x)}\n" for x in lines))


@pytest.mark.parametrize("kind", ["jsonl", "csv", "json"])
def test_all_that_a_snapshot_names_is_on_the_disk_before_it(kind: str, tmp_path: Path) -> None:
    disk, replace, seen = Disk(tmp_path), Machine.replace_file, []

    def replaced(machine: Machine, data: bytes, path: str) -> None:
        note = json.loads(data.splitlines()[1])
        seen.append(note)
        answers = tmp_path / "out" / "put"
        files = [answers] if kind == "jsonl" else list(answers.iterdir())
        assert files
        for file in (*files, *(tmp_path / "new" / "c").glob("dead_letters/*")):
            disk.expect(file)
        replace(machine, data, path)
        disk.expect(Path(path))

    often = patch.object(snapshot.CheckpointFolder, "OFTEN", 0.0)
    with disk.watched(), often, patch.object(Machine, "replace_file", replaced):
        done = run(tmp_path, f"{kind}:{tmp_path}/out/put", LINES)
    assert done.exit_code == 0, done.output
    assert len(seen) >= 3


HARMS: list[tuple[Callable[[Path], Any], str]] = [
    (Path.unlink, "is missing"),
    (lambda path: path.write_bytes(b""), "is shorter than at the last"),
    (lambda path: path.write_bytes(path.read_bytes()[:-3] + b"##\n"), "is damaged|has other lines"),
]


@pytest.mark.parametrize(("harm", "said"), HARMS)
@pytest.mark.parametrize("lost", ["out.jsonl", "new/c/dead_letters/part-00000.json"])
def test_what_is_lost_of_the_last_snapshot_is_refused_by_name(
    lost: str, harm: Callable[[Path], Any], said: str, tmp_path: Path
) -> None:
    sink = f"jsonl:{tmp_path}/out.jsonl"
    assert run(tmp_path, sink, LINES).exit_code == 0
    data, before = (tmp_path / lost).read_bytes(), (tmp_path / "new/c/stream.json").read_bytes()
    harm(tmp_path / lost)
    refused = run(tmp_path, sink, LINES)
    told = " ".join(refused.stderr.split())
    assert refused.exit_code == 1
    assert any(f"{lost} {each}" in told for each in said.split("|")), told
    assert "restore it from a copy, or start with a new checkpoint" in told
    assert (tmp_path / "new/c/stream.json").read_bytes() == before
    (tmp_path / lost).write_bytes(data)
    assert run(tmp_path, sink, LINES).exit_code == 0
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2
