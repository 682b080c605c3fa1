"""From Kafka to files and Delta tables, exactly once: drivers are killed, the broker restarts.

TIDELOG_KILLS says how often the driver is killed, 20 times by default.
"""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.kafka import Broker, Client
from support.kills import TIDELOG, killed

import tidelog
from tidelog.data.delta import rows_of

RULES = """
input Temp(device: text, level: float) @ at.
output Hot.
Hot(X) @ T+1 :- Temp(X, V) @ T, Temp(X, W) @ T+1, V >= 5, W >= 5.
"""
KILLS = int(os.environ.get("TIDELOG_KILLS", "20"))


def answers_in_files(folder: Path) -> list[tuple[str, int]]:
    answers = []
    for path in sorted(folder.glob("Hot/batch=*/*.csv")):
        with path.open(newline="") as file:
            answers += [(row["x"], int(row["time"])) for row in csv.DictReader(file)]
    return answers


def answers_in_a_table(folder: Path) -> list[tuple[str, int]]:
    return [(row["x"], row["time"]) for row in rows_of(str(folder / "Hot")).to_pylist()]


@pytest.mark.parametrize(
    ("kind", "answers"), [("csv", answers_in_files), ("delta", answers_in_a_table)]
)
def test_killed_at_random_moments(
    kind: str,
    answers: Callable[[Path], list[tuple[str, int]]],
    broker: Broker,
    client: Client,
    tmp_path: Path,
) -> None:
    moments = random.Random(19)
    topic = f"crash-{kind}"
    client.create(topic, 2)
    rules = tmp_path / "rules.tdl"
    rules.write_text(RULES)
    command = [*TIDELOG, "run", str(rules), "--facts", f"Temp=kafka://{broker.address}/{topic}"]
    command += [
        "--sink",
        f"{kind}:{tmp_path / 'out'}",
        "--checkpoint",
        str(tmp_path / "checkpoint"),
    ]
    command += ["--kafka-option", "maxOffsetsPerTrigger=20", "--lateness", "5"]
    facts: list[tuple[str, float, int]] = []
    bad, lived = 0, 0.0
    for number in range(KILLS):
        new: list[Any] = [
            (device, moments.choice([1.0, 6.0]), number * 5 + t)
            for device in "ab"
            for t in range(5)
        ]
        facts += new
        for part in (0, 1):
            rows = [{"device": d, "level": v, "at": t} for d, v, t in new if (d == "b") == part]
            client.send(topic, [*rows, "{oops"], partition=part)
            bad += 1
        if number == 0:  # how long this machine takes up to a commit
            lived = killed([*command, "--follow"], 240, tmp_path / "checkpoint/commits/0.json")
        else:
            killed([*command, "--follow"], moments.uniform(0.3, 1.7) * lived)
        if number in (KILLS // 3, 2 * KILLS // 3):
            broker.stop(signal.SIGKILL if number % 2 else signal.SIGTERM)
            broker.start()
    assert killed([*command, "--close"], 300) < 300
    wanted = tidelog.parse(RULES).query("Hot", {"Temp": facts}).to_pylist()
    assert wanted
    assert sorted(answers(tmp_path / "out")) == sorted((row["x"], row["time"]) for row in wanted)
    letters = [
        json.loads(line)
        for path in (tmp_path / "checkpoint" / "dead_letters").rglob("*.json")
        for line in path.read_text().splitlines()
    ]
    places = [(letter["partition"], letter["offset"]) for letter in letters]
    assert len(places) == len(set(places)) == bad
    assert {letter["text"] for letter in letters} == {"{oops"}


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_broker_that_stays_away(
    how: signal.Signals, broker: Broker, client: Client, tmp_path: Path
) -> None:
    """One sentence and an exit code, after a while."""
    client.create(f"away{how}")
    client.send(f"away{how}", [{"device": "a", "level": 5, "at": 0}])
    rules = tmp_path / "rules.tdl"
    rules.write_text(RULES)
    command = [*TIDELOG, "run", str(rules), "--follow", "--checkpoint", str(tmp_path / "c")]
    command += ["--facts", f"Temp=kafka://{broker.address}/away{how}", "--sink"]
    command += [f"jsonl:{tmp_path / 'out.jsonl'}"]
    command += ["--kafka-option", "kafka.default.api.timeout.ms=15000"]
    process = subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    end = time.monotonic() + 240
    try:
        while not list((tmp_path / "c").glob("commits/*.json")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.2)
        broker.stop(how)
        _, said = process.communicate(timeout=240)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        broker.start()
    assert process.returncode == 75  # start it again
    assert "error: Kafka does not answer any more: see that it runs, then start again" in said
    assert "Traceback" not in said
