"""Spark sessions."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession


def session(master: str = "local[*]", **options: str) -> SparkSession:
    """A quiet Spark session; on this machine, loopback only and with this Python in its workers.

    On a cluster the workers' Python is what PYSPARK_PYTHON or the option `spark.pyspark.python`
    names, else their `python3`.
    """
    if "spark.pyspark.python" in options:  # Spark itself looks at it in spark-submit only
        os.environ["PYSPARK_PYTHON"] = options["spark.pyspark.python"]
    builder = SparkSession.builder.master(master).appName("tidelog")
    defaults = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.streaming.metricsEnabled": "false",
        # Nobody looks at the pages of what was run; whole plans of it would fill the memory.
        "spark.sql.ui.retainedExecutions": "10",
        "spark.ui.retainedJobs": "10",
        "spark.ui.retainedStages": "10",
        "spark.ui.retainedTasks": "100",
        "spark.ui.dagGraph.retainedRootRDDs": "10",
    }
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        defaults |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    for name, value in (defaults | options).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
