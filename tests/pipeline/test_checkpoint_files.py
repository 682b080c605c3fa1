"""`tidelog checkpoint` on checkpoints of Spark that are made by hand, without Spark."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import tidelog
from tidelog.cli import cli
from tidelog.data.sealed import sealed
from tidelog.errors import Refused
from tidelog.pipeline.commit import Checkpoint, Commit
from tidelog.pipeline.local_store import LocalStore
from tidelog.pipeline.spark_log import SparkBatch, check_logs
from tidelog.streaming.clock import Clock


def call(*words: object) -> Result:
    return CliRunner().invoke(cli, list(map(str, words)))


def write(folder: Path, name: str, data: bytes | str) -> bytes:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    made = data.encode() if isinstance(data, str) else data
    path.write_bytes(made)
    return made


def stream(folder: Path, sink: str = "console") -> None:
    """A checkpoint in which nothing is committed."""
    identity = {
        "id": "s1", "format": 3, "program": "P(X) @ T :- E(X) @ T.", "queries": ["P"],
        "inputs": {}, "tick": None, "origin": None, "timestamps": True, "sink": sink,
    }  # fmt: skip
    write(folder, "tidelog.json", sealed(identity))
    write(folder, "rigid/complete.json", sealed({"files": []}))


def plan(folder: Path, place: str, number: int, log: int | None) -> SparkBatch:
    """What Spark writes before a batch, and after it."""
    write(folder, f"{place}/metadata", json.dumps({"id": f"query of {place}"}))
    end = '{"topic":{"0":7}}' if log is None else json.dumps({"logOffset": log})
    offsets = write(folder, f"{place}/offsets/{number}", f'v1\n{{"batchId":{number}}}\n{end}')
    write(folder, f"{place}/commits/{number}", "v1\n{}")
    return SparkBatch(place, f"query of {place}", number, hashlib.sha256(offsets).hexdigest())


def commit(folder: Path, number: int, spark: SparkBatch | None, **more: Any) -> None:
    made = Commit(number, Clock(tin=number), number, spark=spark, totals={"rows": 0}, **more)
    write(folder, f"commits/{number}.json", sealed(made.as_json()))


def test_a_stream_that_has_committed_nothing(tmp_path: Path) -> None:
    stream(tmp_path)
    assert "nothing is committed yet" in call("checkpoint", "show", tmp_path).stdout
    for command in ("verify", "audit", "letters"):
        assert call("checkpoint", command, tmp_path).exit_code == 0
    back = call("checkpoint", "rollback", tmp_path, "--to", 0, "--yes")
    assert (back.exit_code, "it can go back to none" in back.stderr) == (1, True)
    export = call("checkpoint", "export", tmp_path, tmp_path / "t")
    assert (export.exit_code, "it has that of no commit" in export.stderr) == (1, True)


@pytest.mark.parametrize(
    ("entries", "left"),
    [
        ([*"0123456"], [*"01234"]),
        ([*"012345678", "9.compact", "10"], [*"01234"]),
        (["9.compact", "10", "11"], ["9.compact", "10", "11"]),  # what came before is in there only
    ],
)
def test_the_files_of_later_batches_are_listed_again(
    entries: list[str], left: list[str], tmp_path: Path
) -> None:
    stream(tmp_path)
    batches = [plan(tmp_path, "spark", number, number) for number in range(6)]
    for number, batch in enumerate(batches):
        commit(tmp_path, number, batch)
    for entry in entries:
        write(tmp_path, f"spark/sources/0/{entry}", 'v1\n{"path":"a"}')
        write(tmp_path, f"spark/sources/0/.{entry}.crc", b"crc\0")
    assert call("checkpoint", "rollback", tmp_path, "--to", 4, "--yes").exit_code == 0
    there = sorted(path.name for path in (tmp_path / "spark/sources/0").iterdir())
    assert there == sorted([*left, *(f".{entry}.crc" for entry in left)])
    check_logs(LocalStore(str(tmp_path)), batches[4])
    with pytest.raises(Refused):
        check_logs(LocalStore(str(tmp_path)), batches[5])


def test_from_messages_back_into_the_history(tmp_path: Path) -> None:
    stream(tmp_path)
    write(tmp_path, "live.json", sealed({"offsets": {}}))
    history = [plan(tmp_path, "spark", number, number) for number in range(2)]
    live = [plan(tmp_path, "live", number, None) for number in range(2)]
    write(tmp_path, "live/sources/0/0", "v1\n{}")
    for number in range(2):
        file = json.dumps({"path": f"file:///f/{number}.csv", "timestamp": 1, "batchId": number})
        write(tmp_path, f"spark/sources/0/{number}", f"v1\n{file}")
    for number, batch in enumerate([*history, *live]):
        commit(tmp_path, number, batch)
    assert tidelog.Checkpoint(tmp_path).show().possible == (0, 1, 2)
    # Within the messages the history stays as it is, and offsets are Spark's.
    assert call("checkpoint", "rollback", tmp_path, "--to", 2, "--yes").exit_code == 0
    check_logs(LocalStore(str(tmp_path)), live[0])
    assert (tmp_path / "live/sources/0/0").exists()
    assert call("checkpoint", "rollback", tmp_path, "--to", 0, "--yes").exit_code == 0
    check_logs(LocalStore(str(tmp_path)), history[0])
    assert not (tmp_path / "live").exists()
    assert (tmp_path / "live.json").exists()  # messages begin where they began
    assert call("checkpoint", "verify", tmp_path).exit_code == 0


def opened(folder: Path) -> Checkpoint:
    """The checkpoint as a start finds it."""
    point = Checkpoint(LocalStore(str(folder)))
    identity = point.identity()
    point.recognise(
        {name: value for name, value in identity.items() if name not in ("id", "format")}
    )
    return point


def test_where_messages_begin_is_written_once(tmp_path: Path) -> None:
    stream(tmp_path)
    older, newer = opened(tmp_path), opened(tmp_path)
    older.start({}, lambda: None)
    newer.start({}, lambda: None)
    with pytest.raises(Refused, match="another process has started from"):
        older.go_live({"known": 1, "offsets": []})
    newer.go_live({"known": 2, "offsets": []})
    with pytest.raises(Refused, match="another process goes on with messages in"):
        newer.go_live({"known": 3, "offsets": []})
    assert json.loads((tmp_path / "live.json").read_text())["known"] == 2


@pytest.mark.parametrize("lost", [b"", None])
def test_messages_do_not_begin_again_elsewhere(lost: bytes | None, tmp_path: Path) -> None:
    stream(tmp_path)
    commit(tmp_path, 0, plan(tmp_path, "live", 0, None))
    write(tmp_path, "live.json", sealed({"known": 1, "offsets": []}))
    opened(tmp_path)
    (tmp_path / "live.json").unlink()
    if lost is not None:
        write(tmp_path, "live.json", lost)
    with pytest.raises(Refused, match=r"live.json is (missing|damaged): restore it from a copy"):
        opened(tmp_path)


def test_commits_of_a_version_without_rows_balance(tmp_path: Path) -> None:
    stream(tmp_path)
    for number in range(2):
        made = Commit(number, Clock(tin=number), number, facts=3, late=0, dead=0).as_json()
        for name in ("rows", "skipped", "heartbeats", "by_input"):
            del made[name]
        made["totals"] = {"facts": 3 * (number + 1), "late": 0, "dead": 0, "answers": 0}
        write(tmp_path, f"commits/{number}.json", sealed(made))
    shown = tidelog.Checkpoint(tmp_path).show().as_json()
    assert (shown["ledger"]["rows"], shown["commits"][0]["ledger"]["rows"]) == (6, 3)
    assert call("checkpoint", "audit", tmp_path).exit_code == 0


def test_a_ledger_that_does_not_add_up_is_told(tmp_path: Path) -> None:
    stream(tmp_path)
    commit(tmp_path, 0, None, facts=3, rows=4, late=1)
    done = call("checkpoint", "audit", tmp_path)
    assert done.exit_code == 1
    assert "batch 0: late dead letters: 1 by the commits, 0 found" in done.stdout


def test_a_gap_between_commits_is_told(tmp_path: Path) -> None:
    stream(tmp_path)
    for number in (0, 1, 3):
        commit(tmp_path, number, None)
    done = call("checkpoint", "verify", tmp_path)
    assert done.exit_code == 1
    assert f"{tmp_path}/commits/2.json is missing" in done.stdout


def test_another_format_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "tidelog.json", sealed({"id": "x", "format": 99}))
    done = call("checkpoint", "show", tmp_path)
    assert (done.exit_code, "has format 99" in done.stderr) == (1, True)
