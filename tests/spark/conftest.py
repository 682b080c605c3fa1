"""One Spark session for the whole suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tidelog.spark import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    options = {
        "spark.sql.shuffle.partitions": "2",
        # Compiling takes longer than running when there are ten rows.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    found = session("local[2]", **options)
    yield found
    found.stop()
