"""`tidelog run` on Spark: files of facts as they come, until they end or somebody says stop."""

from __future__ import annotations

import os
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

        from tidelog.spark import session, stream
    except ImportError as error:
        raise DataError(
            f"Spark is not installed ({error.name} is missing): install pyspark,"
            " or use --engine duckdb"
        ) from None
    if not Path(facts).exists():
        raise DataError(f"{facts}: no such file or folder")
    told.show("starting Spark")
    with _quiet():
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
        raise DataError(f"Spark stopped: {str(error).splitlines()[0]}") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """What Spark's JVM says on standard error is kept, and shown only if it does not start."""
    with tempfile.TemporaryFile() as said:
        sys.stderr.flush()
        before = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(before, 2)
            said.seek(0)
            sys.stderr.write(said.read().decode(errors="replace"))
            raise
        finally:
            os.dup2(before, 2)
            os.close(before)


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
