"""Spark sessions."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from tidelog.causes import cause_of
from tidelog.data.secrets import is_secret
from tidelog.errors import DataError
from tidelog.evaluation.interrupts import sigint_stays_ignored
from tidelog.evaluation.spark.jars import jars_of

_CONNECT = (
    "Spark Connect is not supported: tidelog works in the process of Spark's driver; use a session"
    " of its own (tidelog.spark.session(), or SparkSession.builder.master(..)), or spark-submit"
)


def expect_classic(*things: object) -> None:
    """DataError for sessions and DataFrames of Spark Connect."""
    for thing in things:
        if type(thing).__module__.startswith("pyspark.sql.connect."):
            raise DataError(_CONNECT)


def session(
    master: str = "local[*]", *, connectors: Iterable[str] = (), **options: str
) -> SparkSession:
    """A quiet Spark session; on this machine, loopback only and with this Python in its workers.

    On a cluster the workers' Python is what PYSPARK_PYTHON or the option `spark.pyspark.python`
    names, else their `python3`. `connectors` such as `kafka` have their jars fetched once by Maven;
    those who bring them name them with `spark.jars`. Options that are secret, such as
    `spark.hadoop.fs.s3a.secret.key`, are on no command line.
    """
    if master.startswith("sc://") or {"SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"} & set(
        os.environ
    ):
        raise DataError(_CONNECT)
    if jars := jars_of(connectors):
        options["spark.jars"] = ",".join(filter(None, [options.get("spark.jars"), *jars]))
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
        # A thread keeps the session of the stream that it was made in for a minute or longer.
        "spark.sql.shuffleExchange.maxThreadThreshold": "128",
        "spark.sql.resultQueryStage.maxThreadThreshold": "128",
    }
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        defaults |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    for name, value in (defaults | options).items():
        builder = builder.config(name, value)
    with _starting(master), sigint_stays_ignored():
        _start_java({"spark.master": master, **defaults, **options})
        spark = builder.getOrCreate()
        if spark.conf.get("spark.ui.enabled") == "false":
            _draw_no_plans(spark)
        return spark


def _start_java(settings: Mapping[str, str]) -> None:
    """Start Spark's Java, whose command line anybody on this machine may read.

    It has no secrets: a session gives all settings to a Java that runs.
    """
    public = {name: value for name, value in settings.items() if not is_secret(name)}
    SparkContext._ensure_initialized(conf=SparkConf().setAll(list(public.items())))


def _draw_no_plans(spark: SparkSession) -> None:
    """Nothing keeps drawings of plans for the pages of Spark, which are off.

    While a query runs, one is drawn at the end of each of its stages and added to those before: a
    large plan would fill the memory.
    """
    java: Any = spark._jsparkSession
    listener = java.sharedState().statusStore().listener()
    if listener.isDefined():
        java.sparkContext().removeSparkListener(listener.get())


@contextmanager
def _starting(master: str) -> Iterator[None]:
    """What Spark's JVM says on standard error is kept; if it does not start, one line of it."""
    with tempfile.TemporaryFile() as said:
        sys.stderr.flush()
        before = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            yield
        except Exception as error:
            said.seek(0)
            why = _telling(said.read().decode(errors="replace"), error)
            remedy = (
                "set JAVA_HOME to a Java of version 17 or later"
                if "java" in why.lower()
                else "a master is local[*], or spark://HOST:PORT of one that runs"
            )
            raise DataError(
                f"Spark does not start with --master {master}: {why}; {remedy}",
                code=None if master.startswith("local") else cause_of(why),
            ) from None
        finally:
            os.dup2(before, 2)
            os.close(before)


def _telling(said: str, error: Exception) -> str:
    """Why Spark did not start: the cause that its JVM names, or the shell, or else Python."""
    text = f"{said}\n{error}"
    for pattern in (
        r"Reason: (.+)$",
        r"^Caused by: [\w.$]+: (.+)$",
        r"^(?:Exception in thread \"\w+\" |: )?[\w.$]+(?:Exception|Error): (.+)$",
        r"(?s)(?:spark-class|\.sh|spark-submit): line \d+: ([^\n]+)\n.*",
        r"^(JAVA_HOME .+)$",
    ):
        reasons = re.findall(pattern, text, re.MULTILINE)
        if reasons:
            return str(reasons[-1]).strip().rstrip(".")
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
