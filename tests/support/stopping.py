"""Stops the session of Spark that the tests share."""

from __future__ import annotations

import warnings
from typing import Any

from py4j.protocol import Py4JError


def stop(spark: Any) -> None:
    """Stop a session; if its JVM is gone, say how it ended and fail nothing.

    Every test has had its answers by then. The JVM ignores SIGINT of its group, so an exit status
    of 137 or -9 means that someone or the kernel has killed it.
    """
    process = spark.sparkContext._gateway.proc
    try:
        spark.stop()
    except (Py4JError, OSError) as error:
        try:
            status = process.wait(5)
        except Exception:
            status = None
        how = "still runs" if status is None else f"ended before the tests, with status {status}"
        warnings.warn(f"Spark's JVM {how}: {error}", stacklevel=2)
