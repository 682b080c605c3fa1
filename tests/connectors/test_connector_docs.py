"""The sessions of docs/kafka.md and docs/cluster.md, against a broker and a server of S3."""

from __future__ import annotations

import csv
import shlex
import shutil

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from support.kafka import Broker, Client
from support.places import ROOT
from support.s3 import Server
from test_docs import sessions, steps

from tidelog.cli import cli

FACTS = ROOT / "examples" / "turbines" / "facts"
BLOCKS = [
    (page, block)
    for page in ("kafka.md", "cluster.md")
    for _, block in sessions((ROOT / "docs" / page).read_text("utf-8"), "shell")
]


@pytest.fixture(scope="module")
def temps(client: Client) -> None:
    """The readings of the example as messages."""
    client.create("temps")
    with (FACTS / "Temp.csv").open(newline="") as file:
        rows = [{**row, "time": int(row["time"])} for row in csv.DictReader(file)]
    client.send("temps", rows)


@pytest.fixture(scope="module")
def turbines(spark: SparkSession, store: Server) -> None:
    """The facts of the example in a bucket."""
    store.tell(spark)
    store.make("turbines")
    for path in FACTS.iterdir():
        store.put(f"turbines/facts/{path.name}", path.read_bytes())


@pytest.mark.parametrize(("page", "block"), BLOCKS)
def test_session(
    page: str,
    block: str,
    spark: SparkSession,
    broker: Broker,
    temps: None,
    turbines: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    shutil.rmtree(ROOT / "build" / "connectors", ignore_errors=True)
    for command, expected in steps(block):
        words = shlex.split(command.replace("127.0.0.1:9092", broker.address))[1:]
        result = CliRunner().invoke(cli, words, catch_exceptions=False)
        assert result.output.replace(broker.address, "127.0.0.1:9092") == expected


def test_there_are_sessions() -> None:
    pages = [page for page, _ in BLOCKS]
    assert pages.count("kafka.md") >= 2
    assert pages.count("cluster.md") >= 2
