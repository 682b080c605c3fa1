"""Rules over Spark Structured Streaming: any streaming DataFrame in, answers out, exactly once."""

from __future__ import annotations

import os
import pickle
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidelog.analysis.containment import reduced
from tidelog.analysis.core import core
from tidelog.analysis.dependencies import dependencies
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.facts import DataError, FactsLike, resolve, schemas
from tidelog.evaluation.plan import planning_budget
from tidelog.evaluation.ticks import Ticks
from tidelog.language.checks import check_program
from tidelog.language.diagnostics import Severity
from tidelog.language.printer import print_rule
from tidelog.language.program import Program, Type
from tidelog.streaming.clock import Pace
from tidelog.streaming.kernel import Kernel, packed_tables
from tidelog.streaming.layout import Layout
from tidelog.streaming.publishing import publisher
from tidelog.streaming.schedule import Schedule
from tidelog.streaming.spark.checkpoint import Checkpoint, Commit
from tidelog.streaming.spark.metrics import Board
from tidelog.streaming.spark.pipeline import Pipeline, Source
from tidelog.streaming.spark.shipping import check_shared, prepare
from tidelog.streaming.spark.sinks import MARK, Folder, Memory, Sink, sink_of
from tidelog.streaming.spark.sources import Files, Frames, Inputs, spark_type
from tidelog.streaming.spark.store import Refused, Store, said
from tidelog.streaming.spark.work import Setting

__all__ = ["Commit", "Refused", "Running", "session", "stream"]


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
    }
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        defaults |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    for name, value in (defaults | options).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def stream(
    spark: SparkSession,
    program: Program,
    queries: Iterable[str] | None = None,
    *,
    inputs: Mapping[str, DataFrame] | str | os.PathLike[str],
    rigid: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    sink: str | Callable[[int, Mapping[str, DataFrame]], None] | Sink = "memory",
    checkpoint: str | os.PathLike[str] | None = None,
    lateness: int = 0,
    tick: str | None = None,
    origin: str | None = None,
    timestamps: bool = True,
    sparse: Iterable[str] = (),
    max_jump: int | None = None,
    from_: int | None = None,
    partitions: int | None = None,
    memory: str = "1GB",
    files_per_batch: int | None = None,
    trigger: Mapping[str, Any] | None = None,
    told: Callable[[Commit], None] = lambda _: None,
    metrics: str | int | os.PathLike[str] | None = None,
) -> Running:
    """Run the rules over streaming DataFrames, one for each temporal input, or a folder of facts.

    `rigid` are facts without time, as DataFrames, rows or a folder; they are copied at the first
    start. The sink is `parquet:DIR`, `csv:DIR`, `json:DIR`, `jsonl:FILE`, `console`, `memory` or a
    function of batch number and DataFrames of answers. `trigger` is what Spark's `trigger` takes.
    `told` hears of every commit. `metrics` is where numbers for Prometheus go: `FILE.prom`, or a
    port, which is served on 127.0.0.1 unless `HOST:PORT` says otherwise.
    """
    if lateness < 0:
        raise ValueError("lateness is a number of ticks, 0 or more")
    if max_jump is not None and max_jump < 1:
        raise ValueError("max_jump is a number of ticks, 1 or more")
    ticks = None if tick is None else Ticks.of(tick, origin)
    asked = tuple(queries) if queries is not None else program.outputs
    for query in asked:
        if query not in (*program.heads, *program.inputs):
            raise ValueError(f"no predicate {query} in the rules")
    folder = None if isinstance(inputs, Mapping) else str(inputs)
    frames = inputs if isinstance(inputs, Mapping) else {}
    given: FactsLike
    if isinstance(rigid, Mapping):
        given = _collected(rigid)
    else:
        given = rigid if rigid is not None else folder
    _check_names(program, frames, rigid if isinstance(rigid, Mapping) else {})
    temporal = {name for name, schema in schemas(program).items() if schema.time is not None}
    names = frozenset(schemas(program)) - temporal
    with Engine(program, given, only=names) as engine:
        types = {name: loaded.types for name, loaded in engine.loaded.items()}
        types |= _types(program, frames, folder)
        program = resolve(program, types)
        clashes = [d for d in check_program(program) if d.severity is Severity.ERROR]
        if clashes:
            raise DataError(
                *(f"the data's types do not fit the rules: {d.message}" for d in clashes)
            )
        needed, _ = reduced(core(program, asked), asked, planning_budget())
        schedule = Schedule(dependencies(needed, asked))
        layout = Layout(schedule)
        known = schemas(program)
        wanted = {p.source: known[p.source] for p in schedule.deps.core.inputs if p.temporal}
        missing = sorted(set(wanted) - set(frames)) if folder is None else []
        if missing:
            raise DataError(f"no stream for input `{missing[0]}`, which {', '.join(asked)} needs")
        unknown = sorted(set(sparse) - temporal)
        if unknown:
            raise DataError(f"`{unknown[0]}` is listed as sparse and is no temporal input")
        pace = Pace(tuple(sorted(wanted)), lateness, frozenset(sparse) & frozenset(wanted), from_)
        sources: Source
        feed = Inputs(wanted, ticks)
        if folder is not None:
            sources = Files(spark, program, folder, feed, files_per_batch)
        else:
            sources = Frames(frames, feed)
        arriving = sources.stream()
        target = sink_of(spark, sink)
        temporary = None
        if checkpoint is None:
            temporary = tempfile.TemporaryDirectory(prefix="tidelog-checkpoint-")
            checkpoint = temporary.name
        point = Checkpoint(Store(spark, str(checkpoint)))
        identity = {
            "program": "\n".join(print_rule(rule) for rule in program.rules),
            "queries": list(asked),
            "inputs": {
                name: {
                    "columns": [[c.name, str(c.type)] for c in schema.columns],
                    "time": schema.time,
                }
                for name, schema in sorted(known.items())
            },
            "tick": tick,
            "origin": None if ticks is None else ticks.origin,
            "timestamps": timestamps,
            "lateness": lateness,
            "sparse": sorted(pace.sparse),
            "max_jump": max_jump,
            "from": from_,
            "mode": "offline",
            "emit": "definitive",
            "sink": target.name,
            "tables": {
                name: [relation.number, *map(str, relation.types)]
                for name, relation in layout.tables.items()
            },
        }
        rigid_tables = {
            p.name: _rigid(engine, p.source) for p in schedule.deps.core.inputs if not p.temporal
        }

        def copy_rigid() -> None:
            for i, table in enumerate(rigid_tables.values()):
                buffer = pa.BufferOutputStream()
                pq.write_table(table, buffer)
                point.store.write(bytes(buffer.getvalue()), "rigid", f"{i}.parquet")

        published = None if metrics is None else publisher(metrics)
        try:
            prepare(spark)
            point.take()
            point.recognise(identity)
            target.check(point.id, point.last is None)
            point.start(identity, copy_rigid)
            target.mark(point.id)
            mark = target.store.here(MARK) if isinstance(target, Folder) else None
            check_shared(spark, point.store.here("lock"), mark)
            tables = {
                name: pq.read_table(pa.BufferReader(point.store.read("rigid", f"{i}.parquet")))
                for i, name in enumerate(rigid_tables)
            }
        except BaseException:
            point.release()
            if published is not None:
                published.close()
            raise
    board = None
    if published is not None:
        board = Board(published, point.id, layout, point.last)
        told = board.also(told)
    count = partitions or spark.sparkContext.defaultParallelism
    kernel = Kernel(point.id, pickle.dumps(layout), packed_tables(tables), count, memory)
    setting = Setting(
        spark=spark,
        program=program,
        layout=layout,
        inputs=feed,
        kernel=kernel,
        store=point.store,
        max_jump=max_jump,
        timestamps=timestamps,
    )
    constant = _constant(program, asked, tables)
    pipeline = Pipeline(setting, pace, point, target, constant, told)
    return Running(pipeline, sources, arriving, trigger, temporary, board)


class Running:
    """A stream that runs: a handle around Spark's StreamingQuery."""

    def __init__(
        self,
        pipeline: Pipeline,
        source: Source,
        arriving: DataFrame,
        trigger: Mapping[str, Any] | None,
        temporary: tempfile.TemporaryDirectory[str] | None,
        board: Board | None,
    ) -> None:
        self._pipeline, self._source, self._temporary = pipeline, source, temporary
        self._board = board
        self._error: BaseException | None = None
        try:
            writer = arriving.writeStream.foreachBatch(self._batch)
            writer = writer.option("checkpointLocation", pipeline.checkpoint.store.path("spark"))
            if trigger:
                writer = writer.trigger(**trigger)
            self.query: StreamingQuery = writer.start()
            if board is not None:
                board.follow(pipeline.setting.spark, self.query)
        except BaseException as error:
            self._error = error
            self._release()
            if isinstance(error, Py4JJavaError):
                raise DataError(f"Spark cannot start the stream: {said(error)}") from None
            raise _clear(error) from None

    def _batch(self, frame: DataFrame, number: int) -> None:
        try:
            self._pipeline.run(self._source.batch(frame), number)
        except BaseException as error:
            self._error = error
            raise

    @property
    def id(self) -> str:
        """The stream's own name, which its sink carries."""
        return self._pipeline.checkpoint.id

    @property
    def committed(self) -> Commit | None:
        """What the last commit says: tin, tout, counts and state."""
        return self._pipeline.checkpoint.last

    @property
    def status(self) -> dict[str, Any]:
        """What Spark says of the query, and where the stream stands."""
        found: dict[str, Any] = {**self.query.status, "isActive": self.query.isActive}
        commit = self.committed
        if commit is not None:
            found |= {"tin": commit.clock.tin, "tout": commit.tout, "batch": commit.batch}
        return found

    @property
    def progress(self) -> Any:
        """Spark's own progress reports."""
        return self.query.recentProgress

    @property
    def answers(self) -> dict[str, pa.Table]:
        """What a memory sink has gathered."""
        sink = self._pipeline.sink
        if not isinstance(sink, Memory):
            raise ValueError(f"answers go to {sink.name}; only a memory sink gathers them")
        found = {query: sink.table(query) for query in self._pipeline.queries}
        return {query: table for query, table in found.items() if table is not None}

    @property
    def metrics(self) -> str | None:
        """Where the numbers for Prometheus are: a file or an address."""
        return None if self._board is None else self._board.publisher.place

    def awaitTermination(self, timeout: int | None = None) -> bool:
        """Wait until the query ends; whether it did, or its error."""
        try:
            if timeout is None:
                self.query.awaitTermination()
                return True
            return bool(self.query.awaitTermination(timeout))
        except StreamingQueryException as error:
            self._release()
            raise _clear(self._error or error) from None

    def stop(self) -> None:
        """Stop after what is committed; a later start goes on from there."""
        self.query.stop()
        self._release()

    def close(self) -> Commit | None:
        """No more input: take in what is there, answer everything up to the last tick, and end."""
        try:
            if self.query.isActive:
                self.query.processAllAvailable()
                self.query.stop()
            elif self.query.exception() is not None:
                self.awaitTermination()
            last = self.committed
            if last is not None and not last.clock.closed:
                self._pipeline.run(None, last.batch + 1)
            return self.committed
        except (StreamingQueryException, PySparkException) as error:
            self._error = self._error or error
            raise _clear(self._error) from None
        finally:
            self._release()

    def _release(self) -> None:
        self._pipeline.checkpoint.release()
        self._pipeline.setting.close()
        if self._board is not None:
            self._board.close(failed=self._error is not None)
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _clear(error: BaseException) -> BaseException:
    """An error that names the file Spark could not read, where it is that."""
    if isinstance(error, PySparkException):
        text = str(error)
        found = re.search(r"file:(/[^\s'\"]+\.(?:csv|parquet|jsonl))", text)
        if found and ("FAILED_READ_FILE" in text or "Could not read footer" in text):
            return DataError(
                f"{found.group(1)}: the file cannot be read; repair it or take it away, then go on"
            )
    return error


def _check_names(
    program: Program, frames: Mapping[str, DataFrame], rigid: Mapping[str, Any]
) -> None:
    known = schemas(program)
    for name, frame in frames.items():
        if name not in known or known[name].time is None:
            raise DataError(f"`{name}` is not a temporal input of the rules")
        if not frame.isStreaming:
            raise DataError(
                f"input `{name}` is not a streaming DataFrame: read it with spark.readStream"
            )
    for name in rigid:
        if name not in known or known[name].time is not None:
            raise DataError(f"`{name}` is not a rigid input of the rules")


def _collected(rigid: Mapping[str, Any]) -> FactsLike:
    return {
        name: rows.toArrow() if isinstance(rows, DataFrame) else rows
        for name, rows in rigid.items()
    }


def _types(
    program: Program, frames: Mapping[str, DataFrame], folder: str | None
) -> dict[str, tuple[Type, ...]]:
    """Types of columns that the rules leave open, as the data has them."""
    found: dict[str, tuple[Type, ...]] = {}
    for name, schema in schemas(program).items():
        if schema.time is None or all(column.type for column in schema.columns):
            continue
        if name in frames:
            fields = frames[name].schema.fields[: len(schema.columns)]
            found[name] = tuple(spark_type(f.dataType) or Type.TEXT for f in fields)
        elif folder is not None:
            paths = [*Path(folder).glob(f"{name}.parquet"), *Path(folder).glob(f"{name}/*.parquet")]
            if paths:
                with Engine(program, {name: pq.read_table(paths[0]).slice(0, 0)}) as engine:
                    found[name] = engine.loaded[name].types
    return found


def _rigid(engine: Engine, source: str) -> pa.Table:
    schema = schemas(engine.typed)[source]
    table = engine.arrow(f"SELECT * FROM {engine.loaded[source].view}")
    return table if schema.columns else table.select(["z"])


def _constant(
    program: Program, queries: tuple[str, ...], tables: Mapping[str, pa.Table]
) -> dict[str, pa.Table]:
    """The answers of rigid queries, which no stream changes."""
    known = schemas(program)
    temporal = {p for p, s in known.items() if s.time is not None}
    temporal |= {r.head.predicate for r in program.rules if r.head.time is not None}
    asked = [query for query in queries if query not in temporal]
    if not asked:
        return {}
    facts: dict[str, Any] = {}
    for name, table in tables.items():
        source = name.removesuffix("[in]")
        schema = known[source]
        if schema.columns:
            facts[source] = table.rename_columns([c.name for c in schema.columns])
        else:
            facts[source] = [()] * table.num_rows
    with Engine(program, facts) as engine:
        return engine.query(asked)
