"""Streams and queries on Spark over generated programs: what comes must be what is evaluated."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import currently_in_test_context, event
from hypothesis import strategies as st
from oracle import naive
from oracle.generate import Case
from oracle.wide import wide
from pyspark.sql import DataFrame, SparkSession

from support.deep import DEEP
from support.names import NAMES
from support.spells import spells
from tidelog.data.schema import Schema, resolve, schemas
from tidelog.data.types import arrow_type
from tidelog.evaluation.layout import Layout
from tidelog.language.program import Row
from tidelog.logic.normalise import core
from tidelog.pipeline import sites
from tidelog.spark import Commit, Running, query, stream
from tidelog.streaming.options import StreamMode
from tidelog.streaming.schedule import Blocking
from tidelog.streaming.sinks.functions import MemorySink

NOW = {"availableNow": True}
# How many parts a generated example is done in; each costs as much as a small query in process.
PARTITIONS = st.integers(1, 8 if DEEP > 1 else 3)


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def write(path: Path, schema: Schema, facts: list[Row]) -> None:
    """Facts of an input as a Parquet file."""
    types = [arrow_type(c.type) for c in schema.columns] + [pa.int64()]
    columns = zip(*facts, strict=True) if facts else ((),) * len(types)
    arrays = [pa.array(v, t) for v, t in zip(columns, types, strict=True)]
    pq.write_table(pa.table(arrays, names=list(schema.names)), path, row_group_size=3)


def batches(case: Case, lateness: int, random: Random) -> list[dict[str, list[Row]]]:
    """Rows in order of arrival, at most `lateness` late, cut anywhere: ticks are split."""
    layout = schemas(case.program)
    arriving = [
        (int(row[-1]) + random.randint(0, lateness), random.random(), name, row)
        for name, facts in case.facts.items()
        if layout[name].time is not None
        for row in facts
    ]
    arriving.sort(key=lambda r: r[:2])
    most = 4 if DEEP > 1 else 3
    parts: list[dict[str, list[Row]]] = [{}]
    for _, _, name, row in arriving:
        if random.random() < 0.1 and len(parts) < most:
            parts.append({})
        parts[-1].setdefault(name, []).append(row)
    return parts


def check(
    spark: SparkSession,
    case: Case,
    lateness: int,
    partitions: int,
    mode: StreamMode,
    eager: bool,
    random: Random,
    little: int | None = None,
    *,
    intervals: bool = False,
) -> None:
    """A stream over all temporal inputs, stopped and started again on the way at times.

    Files and folders have any names. `make test-deep` has many tables of state at times; the crash
    tests have them always.
    """
    case = wide(case) if DEEP > 1 and random.random() < 0.2 else case
    program = resolve(case.program, {})
    layout = schemas(program)
    needed = {p.base for p in core(program, case.queries).below(case.queries).inputs}
    inputs = {name for name, schema in layout.items() if schema.time is not None}
    # A clock starts with the first tick of any input; else only what is needed moves time.
    reads = inputs if needed & set(program.clocks) else inputs & needed
    times = [int(r[-1]) for n in reads for r in case.facts.get(n, [])]
    if not times:
        return
    top = Path(tempfile.mkdtemp(prefix="tidelog-test-"))
    try:
        arriving = batches(case, lateness, random)
        # As files, which are read in splits, or as DataFrames, which Catalyst packs.
        as_files = random.random() < 0.5
        folder = top / random.choice(NAMES if as_files else ("plain",))
        for name in inputs:
            (folder / name).mkdir(parents=True)
        given: dict[str, Any] = {name: folder / name for name in inputs}
        if not as_files:  # there a path is a pattern, by Spark's own rules
            given = {name: _frame(spark, layout[name], folder / name) for name in inputs}
        rigid = {n: r for n, r in case.facts.items() if layout[n].time is None}
        # Two starts from one checkpoint, or one that takes everything.
        cut = random.choice((0, len(arriving) // 2))
        gathered = MemorySink()
        commit: Commit | None = None
        for part in (range(cut), range(cut, len(arriving))) if cut else (range(len(arriving)),):
            for number in part:
                file = f"{random.choice(NAMES) if as_files else ''}{number}.parquet"
                _write(arriving[number], number, layout, folder, file)
            try:
                running = stream(
                    spark,
                    case.program,
                    case.queries,
                    inputs=given,
                    files_per_batch=1,
                    rigid=rigid,
                    lateness=lateness,
                    partitions=partitions,
                    mode=mode,
                    emit="eager" if eager else "definitive",
                    intervals=intervals,
                    trigger=NOW,
                    sink=gathered,
                    checkpoint=top / "check:point [x]",
                )
            except Blocking:
                _event("blocking")
                return
            _tell(running)
            # In the driver or in the partitions: it must make no difference.
            some = random.choice((-1, 100_000, 100_000)) if little is None else little
            with patch.object(sites, "LITTLE", some):
                running.awaitTermination()
                if part.stop == len(arriving):
                    commit = running.close()
                else:
                    running.stop()
        assert commit is not None
        # One file of each input a batch: an input may run ahead of another, never be late.
        assert (commit.totals["late"], commit.totals["dead"]) == (0, 0)
        want = naive.evaluate(case.program, case.facts, case.queries, min(times), max(times))
        for query in case.queries:
            table = gathered.table(query)
            if intervals and core(program, case.queries).predicates[query].temporal:
                want[query] = spells(want[query], eager=eager)
            answers = [] if table is None else rows(table)
            answers = [() if row == (True,) and () in want[query] else row for row in answers]
            assert len(answers) == len(set(answers)), "an answer came twice"
            assert set(answers) == want[query]
    finally:
        shutil.rmtree(top)


def _write(
    batch: dict[str, list[Row]], number: int, layout: dict[str, Schema], to: Path, file: str
) -> None:
    """A file for each input; Spark takes them in the order of their age."""
    for name, some in batch.items():
        path = to / name / file
        write(path, layout[name], some)
        os.utime(path, (number + 1, number + 1))


def _frame(spark: SparkSession, schema: Schema, folder: Path) -> DataFrame:
    reader = spark.readStream.schema(_ddl(schema)).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


def _ddl(schema: Schema) -> str:
    kinds = {"text": "STRING", "int": "BIGINT", "float": "DOUBLE", "bool": "BOOLEAN"}
    columns = [f"`{c.name}` {kinds[str(c.type)]}" for c in schema.columns]
    return ", ".join([*columns, f"`{schema.time}` BIGINT"])


def _tell(running: Running) -> None:
    shape = running.plan.rows
    if isinstance(shape, Layout):
        _event(", ".join(stage.kind.value for stage in shape.stages))
    else:
        keyed = getattr(shape, "positions", None) is not None
        _event("online, keyed" if keyed else "online, whole")


def _event(text: str) -> None:
    if currently_in_test_context():
        event(text)


def check_batch(
    spark: SparkSession,
    case: Case,
    partitions: int,
    random: Random | None = None,
    *,
    intervals: bool = False,
) -> None:
    """A query over finite facts; with `random`, also in files, by their paths or as DataFrames."""
    program = resolve(case.program, {})
    layout = schemas(program)
    times = [
        int(r[-1]) for n, rows in case.facts.items() if layout[n].time is not None for r in rows
    ]
    if not times:
        return
    low, high = min(times), max(times)
    want = naive.evaluate(case.program, case.facts, case.queries, low, high)
    timed = core(program, case.queries).predicates
    if intervals:
        want = {q: spells(rows) if timed[q].temporal else rows for q, rows in want.items()}
    with tempfile.TemporaryDirectory(prefix="tidelog-test-") as folder:
        inputs = {
            name: _given(spark, schema, case.facts.get(name, []), Path(folder), random)
            for name, schema in layout.items()
        }
        for asked in case.queries:
            frame = query(
                spark,
                case.program,
                asked,
                inputs,
                from_=low,
                to=high,
                partitions=partitions,
                intervals=intervals,
            )
            answers = rows(frame.toArrow())
            answers = [() if row == (True,) and () in want[asked] else row for row in answers]
            assert len(answers) == len(set(answers)), "an answer came twice"
            assert set(answers) == want[asked]


def _given(
    spark: SparkSession, schema: Schema, facts: list[Row], folder: Path, random: Random | None
) -> object:
    """The facts of an input as a user may have them."""
    if schema.time is None:
        return facts
    if random is not None and random.random() < 0.7:
        as_file = random.random() < 0.5
        path = folder / f"{random.choice(NAMES) if as_file else ''}{schema.predicate}.parquet"
        write(path, schema, facts)
        return path if as_file else spark.read.parquet(str(path))
    return spark.createDataFrame(facts, _ddl(schema))
