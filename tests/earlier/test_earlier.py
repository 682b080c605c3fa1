"""Streams that an earlier version began: this one goes on with exactly the answers that are left.

A folder is a version, with the archives that `write.py` made with it. A case that is refused
instead is listed here, with the sentence that says what to do.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from oracle import naive
from pyspark.sql import SparkSession
from support import earlier
from support.earlier import ANSWERS, Answers, Earlier

HERE = Path(__file__).parent
VERSIONS = sorted(path.name for path in HERE.iterdir() if any(path.glob("*.tar.gz")))
# Where the archives were written: their checkpoints remember the place, and nothing is put there.
WRITTEN_AT = "/tmp/tidelog-earlier"

# version/name: a pattern of the one sentence, with its remedy, that refuses it
REFUSED: dict[str, str] = {}


def unpacked(version: str, case: Earlier, folder: Path) -> Answers:
    """The stream as if it had been written in this folder; the answers it had told."""
    with tarfile.open(HERE / version / f"{case.name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    told = folder / "checkpoint" / "tidelog.json"
    if told.exists():
        moved(told, folder)
    return earlier.read_answers(folder / ANSWERS)


def moved(path: Path, folder: Path) -> None:
    """The identity names the place of the answers, under a checksum."""
    value = json.loads(path.read_text().replace(WRITTEN_AT, str(folder)))
    del value["sha256"]
    text = json.dumps(value, sort_keys=True)
    value["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(value))


def check(
    version: str, case: Earlier, folder: Path, go_on: Callable[[Earlier, Path], Answers]
) -> None:
    before = unpacked(version, case, folder)
    reason = REFUSED.get(f"{version}/{case.name}")
    if reason is not None:
        with pytest.raises(Exception, match=reason) as raised:
            go_on(case, folder)
        assert "\n" not in str(raised.value)
        return
    after = go_on(case, folder)
    ticks = [int(row[-1]) for rows in case.facts.values() for row in rows]
    program = case.program
    want = naive.evaluate(program, case.rigid | case.facts, program.outputs, min(ticks), max(ticks))
    got = earlier.together(before, after)
    for query in program.outputs:
        assert sorted(got[query]) == sorted(want[query])
    # Otherwise nothing would be shown: some answers depend on what was kept.
    assert any(before.values())
    assert any(after.values())


def ids(case: Earlier) -> str:
    return case.name


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", earlier.IN_PROCESS, ids=ids)
def test_snapshots(version: str, case: Earlier, tmp_path: Path) -> None:
    check(version, case, tmp_path, earlier.go_on_in_process)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", earlier.BY_COMMAND, ids=ids)
def test_checkpoints_of_the_command(version: str, case: Earlier, tmp_path: Path) -> None:
    check(version, case, tmp_path, earlier.go_on_by_command)


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", earlier.ON_SPARK, ids=ids)
def test_checkpoints_on_spark(
    version: str, case: Earlier, tmp_path: Path, spark: SparkSession
) -> None:
    check(version, case, tmp_path, lambda c, folder: earlier.go_on_on_spark(spark, c, folder))


def test_every_stream_is_there() -> None:
    names = {f"{case.name}.tar.gz" for case in [*earlier.IN_PROCESS, *earlier.BY_COMMAND]}
    names |= {f"{case.name}.tar.gz" for case in earlier.ON_SPARK}
    assert VERSIONS
    for version in VERSIONS:
        assert {path.name for path in (HERE / version).iterdir()} == names
