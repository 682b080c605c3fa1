"""What Spark's process holds in its memory."""

from __future__ import annotations

import gc
from typing import Any

from pyspark.sql import SparkSession


def objects(spark: SparkSession) -> dict[str, int]:
    """How many objects of each class there are, once those nobody holds are gone."""
    jvm: Any = spark._jvm
    for _ in range(3):  # what is let go of here is let go of there a little later
        gc.collect()
        jvm.System.gc()
        jvm.Thread.sleep(200)
    server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    bean = jvm.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    words = gateway.new_array(jvm.String, 0)
    arguments, signature = gateway.new_array(jvm.Object, 1), gateway.new_array(jvm.String, 1)
    arguments[0] = words
    signature[0] = words.getClass().getName()
    text = str(server.invoke(bean, "gcClassHistogram", arguments, signature))
    counts: dict[str, int] = {}
    for line in text.splitlines():
        parts = line.split()
        if len(parts) >= 4 and parts[0].endswith(":"):
            counts[parts[3]] = counts.get(parts[3], 0) + int(parts[1])
    return counts
