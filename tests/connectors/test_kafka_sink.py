"""Answers to Kafka: keys, headers, what is final, and how a reader has every answer once."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.kafka import Broker, Client

import tidelog
from tidelog.errors import DataError
from tidelog.pipeline.commit import Checkpoint
from tidelog.spark import Running, stream

RULES = tidelog.parse("""
input Temp(device: text, level: float) @ at.
output Hot, Warm.
Hot(X) @ T+1 :- Temp(X, V) @ T, Temp(X, W) @ T+1, V >= 5, W >= 5.
Warm(X) @ T :- Temp(X, V) @ T.
""")


def files(folder: Path, *batches: list[tuple[str, float, int]]) -> Path:
    for number, rows in enumerate(batches):
        path = folder / "Temp" / f"{number}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = "".join(f"{d},{v},{t}\n" for d, v, t in rows)
        path.write_text(f"device,level,at\n{lines}")
        os.utime(path, (number + 1, number + 1))  # the order in which Spark takes them
    return folder


FACTS = [
    [("a", 5.0, 0), ("b", 5.0, 0), ("a", 6.0, 1)],
    [("b", 7.0, 1), ("a", 7.0, 2), ("b", 1.0, 2)],
    [("a", 7.0, 3), ("b", 9.0, 4)],
]
ANSWERS = {
    *(("Hot", "a", t) for t in (1, 2, 3)),
    ("Hot", "b", 1),
    *(("Warm", "a", t) for t in (0, 1, 2, 3)),
    *(("Warm", "b", t) for t in (0, 1, 2, 4)),
}


def started(spark: SparkSession, folder: Path, sink: str, **more: Any) -> Running:
    running = stream(
        spark,
        RULES,
        inputs=folder,
        sink=sink,
        files_per_batch=1,
        trigger={"availableNow": True},
        **more,
    )
    running.awaitTermination()
    return running


def once(messages: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The reader's way to once, for the messages of one partition.

    Nothing new comes at a time that is final, and before that keys tell what came again: only keys
    of times that are not final yet have to be remembered.
    """
    answers: list[tuple[Any, ...]] = []
    known: dict[tuple[Any, ...], Any] = {}
    final: Any = None
    for message in messages:
        value = json.loads(message["value"])
        if "final" in value:
            final = value["final"]
            known = {key: time for key, time in known.items() if time > final}
            continue
        answer = tuple(json.loads(message["key"]))
        if (final is not None and value["time"] <= final) or answer in known:
            continue
        known[answer] = value["time"]
        answers.append(answer)
    return answers


@pytest.mark.parametrize("where", ["driver", "executors"])
def test_messages(
    where: str,
    spark: SparkSession,
    broker: Broker,
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if where == "executors":
        monkeypatch.setattr("tidelog.pipeline.sites.LITTLE", -1)
    topic = f"answers-{where}"
    client.create(topic, 2)
    running = started(spark, files(tmp_path, *FACTS), f"kafka://{broker.address}/{topic}")
    running.close()
    parts = [client.read(topic, part) for part in (0, 1)]
    answers = []
    for messages in parts:
        told = [json.loads(m["value"]) for m in messages]
        finals = [value["final"] for value in told if "final" in value]
        assert finals == sorted(set(finals))
        assert finals[-1] == 4
        places = []
        for message, value in zip(messages, told, strict=True):
            assert message["headers"]["stream"].decode() == running.id
            batch = int(message["headers"]["batch"])
            if "final" in value:
                assert "position" not in message["headers"]
            else:
                assert json.loads(message["key"]) == list(value.values())
                places.append((batch, int(message["headers"]["position"])))
        assert places == sorted(set(places))  # in order, also within a partition
        answers += once(messages)
    assert sorted(answers) == sorted(ANSWERS)


def test_a_batch_that_is_sent_twice(
    spark: SparkSession,
    broker: Broker,
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process dies after sending and before its commit: readers still have all of it once."""
    client.create("again")
    folder, sink = files(tmp_path / "facts", *FACTS), f"kafka://{broker.address}/again"
    more = {"checkpoint": tmp_path / "checkpoint"}
    write = Checkpoint.write

    def dies(self: Checkpoint, commit: Any) -> None:
        if commit.batch == 1:
            raise OSError("the machine is gone")
        write(self, commit)

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "write", dies)
        with pytest.raises(OSError, match="the machine is gone"):
            started(spark, folder, sink, **more)
    sent = len(client.read("again"))
    started(spark, folder, sink, **more).close()
    messages = client.read("again")
    keys = [m["key"] for m in messages if b"final" not in m["value"]]
    assert len(keys) > len(set(keys)) == len(ANSWERS)  # at least once
    assert sent > 0
    assert sorted(once(messages)) == sorted(ANSWERS)


def test_timestamps(spark: SparkSession, broker: Broker, client: Client, tmp_path: Path) -> None:
    client.create("stamped")
    (tmp_path / "Temp.csv").write_text(
        "device,level,at\na,5,2024-05-01T12:00:30Z\na,6,2024-05-01T12:10:00Z\n"
    )
    sink = f"kafka://{broker.address}/stamped"
    started(spark, tmp_path, sink, tick="10m").close()
    values = [json.loads(message["value"]) for message in client.read("stamped")]
    assert values[-1] == {"final": "2024-05-01T12:10:00Z"}
    assert {v["time"] for v in values[:-1] if v.get("predicate") == "Hot"} == {
        "2024-05-01T12:10:00Z"
    }


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        ("kafka://{address}/nowhere", "there is no topic `nowhere`"),
        ("kafka://{address}/a,b", "answers go to one topic"),
        ("kafka:temps", "give kafka://HOST:PORT/TOPIC"),
    ],
)
def test_sinks_that_cannot_be(
    sink: str, said: str, spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    folder = files(tmp_path / "facts", *FACTS)
    with pytest.raises(DataError, match=said):
        started(spark, folder, sink.format(address=broker.address))
