"""`tidelog run` on Spark: files of facts as they come, until they end or somebody says stop."""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.errors import DataError
from tidelog.language.diagnostics import visible
from tidelog.language.program import Program
from tidelog.views import terminal

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from tidelog.analysis.definitive import Pending
    from tidelog.cli.run import Told
    from tidelog.data.ticks import Ticks
    from tidelog.evaluation.engine import Evaluated
    from tidelog.spark import Commit


def on_spark(
    program: Program,
    asked: tuple[str, ...],
    facts: str,
    rigid: str | None,
    told: Told,
    *,
    follow: bool,
    keep_open: bool,
    pending: bool,
    master: str,
    **options: Any,
) -> list[Pending] | None:
    """Run to the end; what is pending then, if that is asked for."""
    if not Path(facts).exists():
        raise DataError(f"{facts}: no such file or folder")
    spark = started(master, told.show)
    from py4j.protocol import Py4JNetworkError
    from pyspark.errors import PySparkException

    from tidelog.pipeline.failures import summary
    from tidelog.spark import stream
    from tidelog.streaming.offline import Endless
    from tidelog.streaming.schedule import Blocking
    from tidelog.streaming.stream import Growing

    def commit(found: Commit) -> None:
        now = {
            "batch": found.batch,
            "tin": found.clock.tin,
            "tout": found.tout,
            "by_query": found.answers,
            "state_bytes": found.state_bytes,
        }
        counts = {"facts": found.facts, "late": found.late, "dead": found.dead}
        told.batch(now, **counts, answers=sum(found.answers.values()))

    trigger = {"processingTime": "500 milliseconds"} if follow else {"availableNow": True}
    with warnings.catch_warnings(record=True) as growing:
        warnings.simplefilter("always", Growing)
        try:
            running = stream(
                spark,
                program,
                asked,
                inputs=facts,
                rigid=rigid,
                trigger=trigger,
                told=commit,
                **options,
            )
        except Endless as error:
            raise DataError(str(error)) from None
        except Blocking as error:
            raise DataError(f"{error}; --mode online streams it, and keeps every fact") from None
    for warning in growing:
        if issubclass(warning.category, Growing):
            said = visible(str(warning.message))
            terminal.stderr().print(f"warning: {said}", highlight=False)
    if running.committed is not None:
        told.now = {"tin": running.committed.clock.tin, "tout": running.committed.tout}
    try:
        with _asked_to_stop() as asked_to_stop:
            while not asked_to_stop.is_set() and not running.awaitTermination(1):
                pass
            left = None
            if follow or keep_open or asked_to_stop.is_set():
                running.query.stop()
                left = running.pending() if pending else None
                running.stop()
            else:
                running.close()
            return left
    except (Py4JNetworkError, ConnectionError):
        running.abandon()
        again = "start again with the same checkpoint, and what is committed is kept"
        raise DataError(f"Spark's process has ended: {again}") from None
    except PySparkException as error:
        raise DataError(f"Spark stopped: {summary(error)}") from None


def query_on_spark(
    program: Program,
    asked: tuple[str, ...],
    facts: str | None,
    master: str,
    progress: Callable[[str], None],
    from_: int | float | None,
    to: int | float | None,
    ticks: Ticks | None,
    *,
    timestamps: bool,
    budget: float,
) -> Evaluated:
    """`tidelog query --engine spark`: one query after the other, in the order of time."""
    spark = started(master, progress)
    from py4j.protocol import Py4JNetworkError
    from pyspark.errors import PySparkException

    from tidelog.evaluation.engine import Evaluated
    from tidelog.pipeline.batch import query
    from tidelog.pipeline.failures import clear, summary
    from tidelog.pipeline.shipping import prepare

    prepare(spark)
    found: dict[str, pa.Table] = {}
    try:
        for name in asked:
            progress(f"answers of {name}")
            frame = query(
                spark,
                program,
                name,
                {} if facts is None else facts,
                from_=from_,
                to=to,
                ticks=ticks,
                timestamps=timestamps,
                partitions=None,
                memory="1GB",
                budget=budget,
            )
            table = frame.toArrow()
            order = sorted(table.column_names, key=lambda column: column != "time")
            found[name] = table.sort_by([(column, "ascending") for column in order])
    except (Py4JNetworkError, ConnectionError):
        raise DataError("Spark's process has ended before it had the answers") from None
    except PySparkException as error:
        told = clear(error)
        raise (
            told if isinstance(told, DataError) else DataError(f"Spark stopped: {summary(error)}")
        ) from None
    return Evaluated(found, {})


def started(master: str, show: Callable[[str], None]) -> SparkSession:
    """A Spark session, or one sentence on why there is none."""
    try:
        from pyspark.accumulators import AccumulatorTCPServer

        from tidelog.spark import session
    except ImportError as error:
        raise DataError(
            f"Spark is not installed ({error.name} is missing): install pyspark,"
            " or use --engine duckdb"
        ) from None
    show("starting Spark")
    with _starting(master):
        found = session(master)
    # A server of PySpark's would print a traceback if Spark's process were killed.
    AccumulatorTCPServer.handle_error = lambda *_: None  # type: ignore[method-assign]
    return found


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
                f"Spark does not start with --master {master}: {why}; {remedy}"
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
        found = re.findall(pattern, text, re.MULTILINE)
        if found:
            return str(found[-1]).strip().rstrip(".")
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__


@contextmanager
def _asked_to_stop() -> Iterator[threading.Event]:
    """Set by Ctrl-C and SIGTERM: the stream ends in good order, what is committed is kept.

    Spark's own handler would raise in the middle of a conversation with the JVM.
    """
    asked = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    main = threading.current_thread() is threading.main_thread()
    before = {n: signal.signal(n, lambda *_: asked.set()) for n in numbers} if main else {}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
