"""One Spark session for the whole suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tidelog.spark import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    found = session("local[2]", **{"spark.sql.shuffle.partitions": "2"})
    yield found
    found.stop()
