"""Java objects that nobody in Python needs any more.

Spark's process keeps a Java object, with every plan that hangs on it, until Python has collected
its handle. A handle and its methods refer to each other, so only Python's search for cycles
collects it. That search counts Python objects, knows nothing of the memory of Spark's process, and
comes late in a large program: some hundred queries or streams could fill it. So we count handles.
"""

from __future__ import annotations

import gc
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from py4j.finalizer import ThreadSafeFinalizer
from pyspark.sql import DataFrame

from tidelog.evaluation.spark.failures import SPARK_ERRORS

MANY = 10_000  # handles since the last search: some 20 queries, or 15 MB in Spark's process

_left = 0  # handles that were still in use after the last search
_unused: deque[Callable[[], None]] = deque()  # releases what no frame needs any more


def release_after(frame: DataFrame, release: Callable[[], None]) -> None:
    """Release what is stored for a frame once nobody has it any more, and work goes on.

    Not at once: Python may notice in the midst of a call to Spark, when there must be no other.
    """
    weakref.finalize(frame, _unused.append, release).atexit = False


def release_handles() -> None:
    """Let go of what queries and batches before this one have left, if it is much."""
    global _left
    while _unused:
        with suppress(*SPARK_ERRORS):  # its session may have ended
            _unused.popleft()()
    if len(ThreadSafeFinalizer.finalizers) - _left > MANY:
        gc.collect()
        _left = len(ThreadSafeFinalizer.finalizers)
