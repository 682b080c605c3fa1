"""History from files, then messages: no gap, no double, also after a restart at any point."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.kafka import Broker, Client

import tidelog
from tidelog.errors import DataError, Refused
from tidelog.pipeline.handover import Live
from tidelog.spark import Running, stream

RULES = tidelog.parse("""
input Temp(device: text) @ at.
output Twice, Seen.
Twice(X) @ T+1 :- Temp(X) @ T, Temp(X) @ T+1.
Seen(X) @ T :- Temp(X) @ T.
""")
START = datetime(2024, 5, 1, 12, tzinfo=UTC)


def at(tick: int) -> str:
    return f"{START + timedelta(minutes=10 * tick):%Y-%m-%dT%H:%M:%SZ}"


def history(folder: Path, last: int) -> Path:
    """Ticks 0 to `last`, in two files."""
    for part in (0, 1):
        path = folder / "Temp" / f"{part}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        ticks = range(part * (last + 1) // 2, (part + 1) * (last + 1) // 2)
        path.write_text("device,at\n" + "".join(f"a,{at(t)}\n" for t in ticks))
    return folder


def run(spark: SparkSession, folder: Path, address: str, **more: Any) -> Running:
    running = stream(
        spark,
        RULES,
        inputs=folder / "facts",
        then=f"Temp={address}",
        tick="10m",
        checkpoint=folder / "checkpoint",
        sink=f"jsonl:{folder / 'out.jsonl'}",
        trigger={"availableNow": True},
        **more,
    )
    running.awaitTermination()
    return running


def seen(folder: Path) -> list[str]:
    lines = map(json.loads, (folder / "out.jsonl").read_text().splitlines())
    return [line["time"] for line in lines if line["predicate"] == "Seen"]


def messages(ticks: range) -> list[dict[str, Any]]:
    return [{"device": "a", "at": at(t)} for t in ticks]


def test_history_then_messages(
    spark: SparkSession, broker: Broker, client: Client, tmp_path: Path
) -> None:
    """They overlap; every fact counts once, nothing is late, and a restart goes on."""
    client.create("then")
    address = f"kafka://{broker.address}/then"
    client.send("then", messages(range(3, 9)))
    history(tmp_path / "facts", 5)
    first = run(spark, tmp_path, address)
    first.stop()
    assert first.committed is not None
    assert (first.committed.clock.tin, first.committed.totals["late"]) == (tin(7), 0)
    assert first.committed.totals["dead"] == 0
    client.send("then", messages(range(9, 11)))
    again = run(spark, tmp_path, address)
    again.close()
    assert seen(tmp_path) == [at(t) for t in range(11)]
    assert not (tmp_path / "checkpoint" / "dead_letters").exists()


def tin(tick: int) -> int:
    """A tick of ours as the stream counts, from 1970 on."""
    return int(START.timestamp()) // 600 + tick


def test_a_restart_between_history_and_messages(
    spark: SparkSession,
    broker: Broker,
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client.create("between")
    address = f"kafka://{broker.address}/between"
    client.send("between", messages(range(4, 9)))
    history(tmp_path / "facts", 5)
    settle = Live._settle

    def dies(self: Live) -> Any:
        raise OSError("the machine is gone")

    monkeypatch.setattr(Live, "_settle", dies)
    with pytest.raises(OSError, match="the machine is gone"):
        run(spark, tmp_path, address)
    monkeypatch.setattr(Live, "_settle", settle)
    run(spark, tmp_path, address).close()
    assert seen(tmp_path) == [at(t) for t in range(9)]


def test_gaps_are_refused(
    spark: SparkSession, broker: Broker, client: Client, tmp_path: Path
) -> None:
    client.create("gap")
    address = f"kafka://{broker.address}/gap"
    client.send("gap", messages(range(4, 9)))
    client.forget("gap", before=3)
    history(tmp_path / "facts", 3)
    with pytest.raises(DataError, match=r"`gap`, partition 0 begins at offset 3, .* may be a gap"):
        run(spark, tmp_path, address)
    run(spark, tmp_path, address, kafka={"startingOffsets": "earliest"}).close()
    assert seen(tmp_path) == [at(t) for t in (0, 1, 2, 3, 7, 8)]


def test_what_comes_after_may_not_change(
    spark: SparkSession, broker: Broker, client: Client, tmp_path: Path
) -> None:
    client.create("one")
    client.create("two")
    history(tmp_path / "facts", 3)
    run(spark, tmp_path, f"kafka://{broker.address}/one").stop()
    with pytest.raises(Refused, match="the topics are"):
        run(spark, tmp_path, f"kafka://{broker.address}/two")
