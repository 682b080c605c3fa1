"""`tidelog run` on Spark: files of facts as they come, until they end or somebody says stop."""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.evaluation.facts import DataError
from tidelog.language.program import Program

if TYPE_CHECKING:
    from tidelog.cli.run import Told
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
    master: str,
    **options: Any,
) -> None:
    try:
        from pyspark.errors import PySparkException

        from tidelog.spark import session, stream, summary
    except ImportError as error:
        raise DataError(
            f"Spark is not installed ({error.name} is missing): install pyspark,"
            " or use --engine duckdb"
        ) from None
    if not Path(facts).exists():
        raise DataError(f"{facts}: no such file or folder")
    told.show("starting Spark")
    with _starting(master):
        spark = session(master)

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
    if running.committed is not None:
        told.now = {"tin": running.committed.clock.tin, "tout": running.committed.tout}
    try:
        with _asked_to_stop() as asked_to_stop:
            while not asked_to_stop.is_set() and not running.awaitTermination(1):
                pass
            if follow or keep_open or asked_to_stop.is_set():
                running.stop()
            else:
                running.close()
    except PySparkException as error:
        raise DataError(f"Spark stopped: {summary(error)}") from None


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
