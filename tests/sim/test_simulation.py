"""The simulation itself: some histories, the mutants they notice, and Spark's logs as recorded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from oracle import naive

from sim import mutants
from sim.disk import Disk
from sim.history import History, Violation
from sim.in_process import SnapshotHistory
from sim.machine import Box
from sim.spark_log import SparkQuery
from sim.stream import EXAMPLES, Choice, plan_of
from tidelog.data.durable import Machine
from tidelog.streaming.sinks.growing import GrowingFile
from tidelog.streaming.snapshot import CheckpointFolder

HERE = Path(__file__).parent
SEEDS: dict[str, int] = json.loads(mutants.SEEDS.read_text())
NOTICED = [mutant for mutant in mutants.MUTANTS if mutant.name in SEEDS]


@pytest.mark.parametrize("first", range(0, 200, 100))
def test_histories_keep_every_promise(first: int) -> None:
    for seed in range(first, first + 100):
        History(seed).run()


@pytest.mark.parametrize("mutant", NOTICED, ids=lambda mutant: mutant.name)
def test_a_mutant_is_noticed(mutant: mutants.Mutant) -> None:
    """By a history that keeps every promise otherwise; any change of the product shifts which."""
    known = mutants.is_found(mutant, SEEDS[mutant.name])
    assert known or mutants.first_seed(mutant, 1000) is not None


def test_every_mutant_is_noticed_or_said_to_survive() -> None:
    names = [mutant.name for mutant in mutants.MUTANTS]
    assert sorted(names) == sorted([*SEEDS, *mutants.SURVIVORS])


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_answers_of_an_example_are_those_of_the_naive_evaluator(number: int) -> None:
    example, plan, random = EXAMPLES[number], plan_of(Choice(number)), Random(number)
    for _ in range(20):
        facts = {
            name: {(random.choice("ab"), random.randint(0, 6)) for _ in range(random.randint(0, 8))}
            for name in plan.inputs
        }
        known = naive.evaluate(plan.program, facts, example.queries, -5, 15)
        for query, answers in example.answers.items():
            assert known[query] == answers(facts)


def _logs(box: Box) -> dict[str, str]:
    files = box.disk.tree("/spark").items()
    texts = {path.removeprefix("/spark/"): data.decode() for path, data in files}
    return {n: re.sub(r'(?<="batchTimestampMs": )\d+', "0", text) for n, text in texts.items()}


def test_the_stand_in_writes_what_spark_has_written() -> None:
    """A real run was recorded with its times, ids and settings taken out, in this order."""
    box, there = Box(0), 0
    expected: dict[str, str] = {}
    steps: list[dict[str, Any]] = json.loads((HERE / "recorded.json").read_text())
    for step in steps:
        expected = {**{n: t for n, t in expected.items() if n not in step["gone"]}, **step["new"]}
        there += step["files"]
        query = SparkQuery(box.process(), "/spark", files=True, checksums=False)
        if step["gone"]:  # killed before it was noted that the last batch is done
            for name in step["gone"]:
                box.disk.put(f"/spark/{name}", None)
        else:
            while query.plan(there, step["most"]):
                query.note_done()
        found = {**_logs(box), "metadata": json.dumps({"id": ""})}
        assert found == expected, step["step"]


def test_histories_of_snapshots_keep_every_promise() -> None:
    for seed in range(300):
        SnapshotHistory(seed).run()


SYNCS = [
    mutants.Mutant(Machine, "write_file", "self.sync(file)"),
    mutants.Mutant(Machine, "sync_tree", "self.sync_file)", "str)"),
    mutants.Mutant(Machine, "replace_file", "self.sync_folder(os.path.dirname(path))"),
    mutants.Mutant(GrowingFile, "open", "self._machine.sync_folder(os.path.dirname(self.path))"),
    mutants.Mutant(GrowingFile, "state", "self._machine.sync(self.file)"),
    mutants.Mutant(GrowingFile, "cut", "self._machine.cut(self.path, self.end)"),
    mutants.Mutant(CheckpointFolder, "letters", "self._machine.sync_tree(folder)"),
]


@pytest.mark.parametrize("mutant", SYNCS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_noticed_in_process(mutant: mutants.Mutant) -> None:
    def run() -> None:
        for seed in range(500):
            SnapshotHistory(seed).run()

    with mutant.applied(), pytest.raises((Violation, ValueError, KeyError)):
        run()


def test_a_disk_loses_what_was_not_synced_only() -> None:
    kept: set[tuple[bytes | None, bytes | None]] = set()
    for seed in range(300):
        disk = Disk()
        for name, synced in (("a", True), ("b", False)):
            file = disk.create(f"/{name}")
            file.data += b"one"
            if synced:
                file.sync()
                disk.sync_folder("/")
                file.data += b"two"
        disk.crash(Random(seed))
        files = disk.tree()
        kept.add((files.get("/a"), files.get("/b")))
    assert {a for a, _ in kept} >= {b"one", b"onetwo", b"onet", b"one\0\0\0"}
    assert all(a is not None and a.startswith(b"one") for a, _ in kept)
    assert {b for _, b in kept} >= {None, b"", b"one", b"on"}
