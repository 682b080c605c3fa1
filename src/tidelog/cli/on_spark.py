"""`tidelog run` on Spark: files of facts as they come, until they end or somebody says stop."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.cli.common import FactPaths
from tidelog.cli.running import RunLog, StreamTask, starting
from tidelog.data.kafka import Topics, kafka_options
from tidelog.data.letters import SHOWN
from tidelog.data.readers.places import paths_of
from tidelog.errors import DataError, NoSpark
from tidelog.language.program import Program
from tidelog.streaming.sinks import kind_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.analysis.definitive import Pending
    from tidelog.data.ticks import Ticks
    from tidelog.evaluation.engine import Evaluated
    from tidelog.spark import Commit


def on_spark(
    task: StreamTask,
    log: RunLog,
    *,
    follow: bool,
    master: str,
    jars: tuple[str, ...] = (),
    kafka_option: tuple[str, ...] = (),
    then: tuple[str, ...] = (),
    **spark_options: Any,
) -> list[Pending] | None:
    """Run to the end; what is pending then, if that is asked for."""
    facts = _several(task.facts)
    for path in paths_of([text for text in facts if not Topics.is_one(text)]):
        if path.address is None:
            path.matches()  # before Spark is started
    kind_of(task.sink, in_process=False)
    kafka = kafka_options(kafka_option)
    places = [*facts, *then, *_several(task.rigid), task.sink, task.checkpoint or ""]
    spark = started(master, log.show, places, jars)
    from tidelog.evaluation.spark.failures import SPARK_ERRORS, as_data_error
    from tidelog.spark import stream

    def commit(done: Commit) -> None:
        now = {
            "batch": done.batch,
            "tin": done.clock.tin,
            "tout": done.tout,
            "by_query": done.answers,
            "state_bytes": done.state_bytes,
            **log.awaited(done.waits_for, done.clock),
        }
        log.unused += done.unused[: SHOWN - len(log.unused)]
        counts = {"facts": done.facts, "late": done.late, "dead": done.dead}
        log.batch(now, **counts, answers=sum(done.answers.values()))

    trigger = {"processingTime": "500 milliseconds"} if follow else {"availableNow": True}
    try:
        with starting():
            running = stream(
                spark,
                task.program,
                task.queries,
                inputs=task.facts,
                rigid=task.rigid,
                sink=task.sink,
                checkpoint=task.checkpoint,
                trigger=trigger,
                told=commit,
                then=then or None,
                kafka=kafka,
                **task.options.keywords(),
                **spark_options,
            )
        if running.committed is not None:
            log.now = {"tin": running.committed.clock.tin, "tout": running.committed.tout}
        with _asked_to_stop() as asked_to_stop:
            while not asked_to_stop.is_set() and not running.awaitTermination(1):
                pass
            left = None
            if follow or task.keep_open or asked_to_stop.is_set():
                running.halt()
                left = running.pending() if task.pending else None
                running.stop()
            else:
                running.close()
            return left
    except SPARK_ERRORS as error:
        raise as_data_error(error) from None


def _several(paths: FactPaths) -> tuple[str, ...]:
    return (paths,) if isinstance(paths, str) else paths or ()


def query_on_spark(
    program: Program,
    asked: tuple[str, ...],
    facts: FactPaths,
    master: str,
    jars: tuple[str, ...],
    progress: Callable[[str], None],
    from_: int | float | None,
    to: int | float | None,
    ticks: Ticks | None,
    *,
    timestamps: bool,
    budget: float,
    intervals: bool,
) -> Evaluated:
    """`tidelog query --engine spark`: one query after the other, in the order of time."""
    started(master, progress, _several(facts), jars)
    from tidelog.evaluation.engine import evaluate

    return evaluate(
        program,
        asked,
        facts,
        from_=from_,
        to=to,
        engine="spark",
        ticks=ticks,
        timestamps=timestamps,
        budget=budget,
        progress=progress,
        intervals=intervals,
    )


def started(
    master: str,
    show: Callable[[str], None],
    addresses: Iterable[str] = (),
    jars: tuple[str, ...] = (),
) -> SparkSession:
    """A Spark session with the connectors for some addresses, or one sentence on why there is none.

    Those who bring their jars need no others.
    """
    try:
        from pyspark.accumulators import AccumulatorTCPServer

        from tidelog.evaluation.spark.jars import connectors_of
        from tidelog.spark import session
    except ImportError as error:
        raise NoSpark(error.name, "use --engine duckdb") from None
    for jar in jars:
        if not Path(jar).is_file():
            raise DataError(f"--jars {jar}: no such file")
    connectors = [] if jars else connectors_of(addresses)
    show("starting Spark")
    options = {"spark.jars": ",".join(jars)} if jars else {}
    spark = session(master, connectors=connectors, **options)
    # A server of PySpark's would print a traceback if Spark's process were killed, and so would
    # the connection to it; what they have to say is raised, too.
    AccumulatorTCPServer.handle_error = lambda *_: None  # type: ignore[method-assign]
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    # Some of it goes to the logger of everybody.
    logging.getLogger().addFilter(lambda record: "/py4j/" not in record.pathname)
    return spark


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
