"""The sessions of docs/kafka.md, against a broker."""

from __future__ import annotations

import csv
import shlex

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from support.kafka import Broker, Client
from support.places import ROOT
from test_docs import sessions, steps

from tidelog.cli import cli

BLOCKS = sessions((ROOT / "docs" / "kafka.md").read_text("utf-8"), "shell")


@pytest.fixture(scope="module")
def temps(client: Client) -> None:
    """The readings of the example as messages."""
    client.create("temps")
    with (ROOT / "examples" / "turbines" / "facts" / "Temp.csv").open(newline="") as file:
        rows = [{**row, "time": int(row["time"])} for row in csv.DictReader(file)]
    client.send("temps", rows)


@pytest.mark.parametrize("block", [block for _, block in BLOCKS])
def test_session(
    block: str, spark: SparkSession, broker: Broker, temps: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    for command, expected in steps(block):
        words = shlex.split(command.replace("127.0.0.1:9092", broker.address))[1:]
        result = CliRunner().invoke(cli, words, catch_exceptions=False)
        assert result.output.replace(broker.address, "127.0.0.1:9092") == expected


def test_there_are_sessions() -> None:
    assert len(BLOCKS) >= 2
