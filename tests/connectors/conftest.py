"""What the tests of connectors share: jars by Maven, a broker, a client, a Spark that has them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support import s3
from support.kafka import Broker, Client

from tidelog.errors import DataError
from tidelog.evaluation.spark.jars import jars_of
from tidelog.spark import session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Only `make test-connectors` runs what needs Maven."""
    if not os.environ.get("TIDELOG_CONNECTORS"):
        here = Path(__file__).parent
        for item in items:
            if here in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="make test-connectors runs these"))


@pytest.fixture(scope="session")
def jars() -> Callable[..., list[str]]:
    """The jars of some connectors, or a skip that says why they are not to be had."""

    def needed(*names: str) -> list[str]:
        try:
            return jars_of(names)
        except DataError as error:
            pytest.skip(str(error))

    return needed


@pytest.fixture(scope="session")
def broker(
    jars: Callable[..., list[str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    jars("kafka-broker")
    broker = Broker(tmp_path_factory.mktemp("kafka") / "broker")
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def client(broker: Broker) -> Iterator[Client]:
    client = Client(broker.address)
    yield client
    client.close()


# The one session of these tests has all of them: a JVM does not take jars later.
CONNECTORS = ("kafka", "s3a")


@pytest.fixture(scope="session")
def spark(jars: Callable[..., list[str]]) -> Iterator[SparkSession]:
    jars(*CONNECTORS)
    options = {"spark.sql.shuffle.partitions": "2", "spark.sql.codegen.wholeStage": "false"}
    made = session("local[2]", connectors=CONNECTORS, **options)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def store(
    jars: Callable[..., list[str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[s3.Server]:
    """A server that speaks S3."""
    jars("s3a")
    if (why := s3.missing()) is not None:
        pytest.skip(why)
    server = s3.Server(tmp_path_factory.mktemp("s3") / "log.txt")
    yield server
    server.stop()
