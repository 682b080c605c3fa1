"""`tidelog run` on Spark: files of facts as they come, until they end or somebody says stop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.cli.common import FactPaths
from tidelog.cli.running import RunLog, StopRequest, StreamTask, starting
from tidelog.data.kafka import Topics, kafka_options
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
    name: str | None = None,
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
    from tidelog.pipeline.progress import stream_name
    from tidelog.spark import stream

    called = name or stream_name(task.program, task.queries)

    def commit(done: Commit) -> None:
        now = {
            "stream": called,
            "batch": done.batch,
            "tin": done.clock.tin,
            "tout": done.tout,
            "by_query": done.answers,
            "state_bytes": done.state_bytes,
            **log.awaited(done.waits_for, done.clock),
        }
        unused = done.dead + done.skipped
        counts = {"facts": done.facts, "late": done.late, "dead": unused}
        log.batch(now, **counts, answers=sum(done.answers.values()))

    trigger = {"processingTime": "500 milliseconds"} if follow else {"availableNow": True}
    try:
        with StopRequest() as request:
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
                    skip=task.skip,
                    name=name,
                    **task.options.keywords(),
                    **spark_options,
                )
            if running.committed is not None:
                log.now = {"tin": running.committed.clock.tin, "tout": running.committed.tout}
            while not request.made and not running.awaitTermination(1):
                pass
            left = None
            if follow or task.keep_open or request.made:
                running.halt(finish=True)
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
