"""Streams and queries on Spark over generated programs: what comes must be what is evaluated."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from random import Random
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import currently_in_test_context, event
from oracle import naive
from oracle.generate import Case
from pyspark.sql import SparkSession

from tidelog.data.schema import resolve, schemas
from tidelog.data.types import arrow_type
from tidelog.evaluation.layout import Layout
from tidelog.language.program import Row
from tidelog.logic.normalise import core
from tidelog.pipeline import loop as pipeline
from tidelog.spark import query, stream
from tidelog.streaming.options import StreamMode
from tidelog.streaming.schedule import Blocking

NOW = {"availableNow": True}


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def batches(case: Case, lateness: int, random: Random) -> list[dict[str, list[Row]]]:
    """Rows in order of arrival, at most `lateness` late, cut anywhere: ticks are split."""
    layout = schemas(case.program)
    arriving = [
        (int(row[-1]) + random.randint(0, lateness), random.random(), name, row)
        for name, found in case.facts.items()
        if layout[name].time is not None
        for row in found
    ]
    arriving.sort(key=lambda r: r[:2])
    found: list[dict[str, list[Row]]] = [{}]
    for _, _, name, row in arriving:
        if random.random() < 0.1 and len(found) < 4:
            found.append({})
        found[-1].setdefault(name, []).append(row)
    return found


def check(
    spark: SparkSession,
    case: Case,
    lateness: int,
    partitions: int,
    mode: StreamMode,
    eager: bool,
    random: Random,
    little: int | None = None,
) -> None:
    program = resolve(case.program, {})
    layout = schemas(program)
    needed = core(program, case.queries).below(case.queries).inputs
    inputs = {p.base for p in needed if p.temporal}
    times = [int(r[-1]) for n in inputs for r in case.facts.get(n, [])]
    if not times:
        return
    folder = Path(tempfile.mkdtemp(prefix="tidelog-test-"))
    try:
        for name in inputs:
            (folder / name).mkdir()
        for number, batch in enumerate(batches(case, lateness, random)):
            for name in inputs & set(batch):
                schema = layout[name]
                types = [arrow_type(c.type) for c in schema.columns] + [pa.int64()]
                columns = zip(*batch[name], strict=True)
                arrays = [pa.array(v, t) for v, t in zip(columns, types, strict=True)]
                path = folder / name / f"{number}.parquet"
                pq.write_table(pa.table(arrays, names=list(schema.names)), path)
                os.utime(path, (number + 1, number + 1))
        frames = {}
        for name in inputs:
            kinds = {"text": "STRING", "int": "BIGINT", "float": "DOUBLE", "bool": "BOOLEAN"}
            ddl = [f"`{c.name}` {kinds[str(c.type)]}" for c in layout[name].columns]
            ddl.append(f"`{layout[name].time}` BIGINT")
            reader = spark.readStream.schema(", ".join(ddl)).option("maxFilesPerTrigger", 1)
            frames[name] = reader.parquet(str(folder / name))
        rigid = {n: r for n, r in case.facts.items() if layout[n].time is None}
        try:
            running = stream(
                spark,
                case.program,
                case.queries,
                inputs=frames,
                rigid=rigid,
                lateness=lateness,
                partitions=partitions,
                mode=mode,
                emit="eager" if eager else "definitive",
                trigger=NOW,
            )
        except Blocking:
            if currently_in_test_context():
                event("blocking")
            return
        shape = running.plan.rows
        if isinstance(shape, Layout):
            if currently_in_test_context():
                event(", ".join(stage.kind.value for stage in shape.stages))
        else:
            keyed = getattr(shape, "positions", None) is not None
            if currently_in_test_context():
                event("online, keyed" if keyed else "online, whole")
        # In the driver or in the partitions: it must make no difference.
        some = random.choice((-1, 100_000, 100_000)) if little is None else little
        with patch.object(pipeline, "LITTLE", some):
            running.awaitTermination()
            commit = running.close()
        assert commit is not None
        # One file of each input a batch: an input may run ahead of another, never be late.
        assert (commit.totals["late"], commit.totals["dead"]) == (0, 0)
        got = running.answers
        # A clock starts with what arrives, and only what the queries need is read.
        facts = {n: r for n, r in case.facts.items() if n in inputs or n in rigid}
        want = naive.evaluate(case.program, facts, case.queries, min(times), max(times))
        for query in case.queries:
            answers = rows(got[query]) if query in got else []
            answers = [() if row == (True,) and () in want[query] else row for row in answers]
            assert len(answers) == len(set(answers)), "an answer came twice"
            assert set(answers) == want[query]
    finally:
        shutil.rmtree(folder)


def check_batch(spark: SparkSession, case: Case, partitions: int) -> None:
    program = resolve(case.program, {})
    layout = schemas(program)
    times = [
        int(r[-1]) for n, rows in case.facts.items() if layout[n].time is not None for r in rows
    ]
    if not times:
        return
    kinds = {"text": "STRING", "int": "BIGINT", "float": "DOUBLE", "bool": "BOOLEAN"}
    inputs: dict[str, object] = {}
    for name, schema in layout.items():
        if schema.time is None:
            inputs[name] = case.facts.get(name, [])
            continue
        ddl = [f"`{c.name}` {kinds[str(c.type)]}" for c in schema.columns]
        ddl.append(f"`{schema.time}` BIGINT")
        inputs[name] = spark.createDataFrame(case.facts.get(name, []), ", ".join(ddl))
    low, high = min(times), max(times)
    want = naive.evaluate(case.program, case.facts, case.queries, low, high)
    for asked in case.queries:
        frame = query(spark, case.program, asked, inputs, from_=low, to=high, partitions=partitions)
        answers = rows(frame.toArrow())
        answers = [() if row == (True,) and () in want[asked] else row for row in answers]
        assert len(answers) == len(set(answers)), "an answer came twice"
        assert set(answers) == want[asked]
