"""What runs inside each partition: rows in, one stage of a job in DuckDB, rows out."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic

import duckdb
import pyarrow as pa

from tidelog.analysis.stages import Stage, StageKind
from tidelog.causes import Cause
from tidelog.data.packed import columns
from tidelog.errors import DataError
from tidelog.evaluation.database import NO_EXTENSIONS, Database
from tidelog.evaluation.layout import Layout
from tidelog.evaluation.rows import KEPT, as_rows, partition
from tidelog.evaluation.spark.stages import ARRIVED, A, Job, StageOutput, StageTables
from tidelog.evaluation.sql import Writer
from tidelog.evaluation.steps import StepRunner
from tidelog.logic.core import Predicate


@dataclass(frozen=True)
class Kernel(Generic[A]):
    """The work of one query or stream, as it travels to the partitions: plain bytes.

    A worker keeps the connection, the plan and the rigid facts of the last one it has met.
    """

    id: str
    job: bytes
    rigid: bytes  # tables of rigid facts by input, as Arrow streams
    partitions: int
    memory: str

    @staticmethod
    def of(
        id_: str, job: Job[A], rigid: dict[str, pa.Table], partitions: int, memory: str
    ) -> Kernel[A]:
        return Kernel(id_, pickle.dumps(job), packed_tables(rigid), partitions, memory)

    def run(
        self, stage: int, number: int, asked: A, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """One stage over the rows of a partition."""
        worker = _workers.get(self.id)
        if worker is None or worker.kernel != self:
            _workers.clear()  # a worker serves one query or stream at a time
            worker = Worker(self)
        _workers.pop(self.id, None)  # one that failed is not used again
        yield from worker.run(stage, number, asked, batches)
        _workers[self.id] = worker


class Worker(Generic[A]):
    """A DuckDB connection with the rigid facts of a kernel on it."""

    def __init__(self, kernel: Kernel[A], threads: int = 1) -> None:
        self.kernel = kernel
        self.job: Job[A] = pickle.loads(kernel.job)
        self.layout = self.job.layout
        self._spill = tempfile.TemporaryDirectory(prefix="tidelog-")
        self.connection = duckdb.connect(
            config={
                "threads": threads,
                "memory_limit": kernel.memory,
                "temp_directory": os.path.join(self._spill.name, "spill"),
                **NO_EXTENSIONS,
            }
        )
        self.connection.execute("SET enable_external_access = false")
        self.connection.execute("SET enable_progress_bar = false")
        self.connection.execute("SET preserve_insertion_order = false")
        self.database = Database(self.connection)
        self.database.offer_texts(Writer(self.layout.plan).texts)
        self.runner = StepRunner(self.database, shorter=self.job.shorter)
        self.inputs: dict[str, str] = {}
        for i, (name, table) in enumerate(unpacked_tables(kernel.rigid).items()):
            self.inputs[name] = f"rigid{i}"
            self.connection.register("given", table)
            self.connection.execute(f"CREATE TEMP TABLE rigid{i} AS SELECT * FROM given")
            self.connection.unregister("given")

    def close(self) -> None:
        self.connection.close()
        self._spill.cleanup()

    def run(
        self, index: int, number: int, asked: A, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """One stage over the rows of a partition."""
        stage = self.layout.stages[index]
        self.runner.own = _Home(self.layout, stage, number, self.kernel.partitions)
        schema = self.layout.schema
        same = (pa.RecordBatch.from_arrays(b.columns, schema=schema) for b in batches)
        try:
            self.load(pa.RecordBatchReader.from_batches(schema, same))
            there = self.database.all(f"SELECT DISTINCT tab, part FROM {ARRIVED}")
            if there or self._known(stage):
                kept = {tab for tab, part in there if part == KEPT}
                tables = StageTables(self.layout, self.runner, self.inputs, kept)
                yield from self.rows(self.job.outputs(tables, index, asked))
        except duckdb.OutOfMemoryException:
            raise DataError(self._too_much(stage, number), code=Cause.MEMORY) from None

    def load(self, rows: pa.Table | pa.RecordBatchReader) -> None:
        """Have some rows as those that have arrived."""
        self.connection.register("arriving", rows)
        self.database.table(ARRIVED, "SELECT * FROM arriving")
        self.connection.unregister("arriving")

    def rows(self, outputs: Iterable[StageOutput]) -> Iterator[pa.RecordBatch]:
        """The rows that leave the partition."""
        for output in outputs:
            table = self.database.arrow(output.select)
            if output.relation is None:
                yield from table.cast(self.layout.schema).to_batches()
            else:
                rows = as_rows(output.relation, table, output.part, self.layout.schema)
                yield from rows.to_batches()

    def _known(self, stage: Stage) -> bool:
        """Whether anything is known in a stage without any rows."""
        core = self.layout.plan.deps.core
        return any(
            not any(premise.temporal for premise in clause.premises)
            for name in stage.predicates
            for clause in core.uses_for[name]
        )

    def _too_much(self, stage: Stage, number: int) -> str:
        said = f"partition {number} needs more than {self.kernel.memory} of memory"
        if stage.kind is not StageKind.KEYED:
            return f"{said}, and its rules cannot be split ({stage.reason}): give it more memory"
        counts: list[tuple[int, object]] = []
        for name, relation in self.layout.reads(stage).items():
            key = self.layout.key(stage, name)
            if isinstance(key, int):
                select = (
                    f"SELECT {relation.slots[key]}, count(*) AS n FROM {ARRIVED}"
                    f" WHERE tab = {relation.number} GROUP BY 1 ORDER BY n DESC LIMIT 1"
                )
                try:
                    counts += [(n, value) for value, n in self.database.all(select)]
                except duckdb.Error:
                    continue
        remedy = "give it more memory, or more partitions if many keys share it"
        if not counts:
            return f"{said}: {remedy}"
        rows, value = max(counts, key=lambda c: c[0])
        return f"{said}; its largest key is {value!r} with {rows} rows: {remedy}"


@dataclass(frozen=True)
class _Home:
    """Of what every partition can derive, the keys that are at home in one of them."""

    layout: Layout
    stage: Stage
    number: int
    partitions: int

    def __call__(self, predicate: Predicate, select: str) -> str:
        home = self.layout.at_home(self.stage, predicate.name)
        if home is None:
            return select if self.number == 0 else f"SELECT * FROM ({select}) AS o WHERE FALSE"
        position, type_ = home
        key = columns(len(predicate.types))[position]
        number = partition(key, type_, self.partitions, spark=False)
        return f"SELECT * FROM ({select}) AS o WHERE {number} = {self.number}"


_workers: dict[str, Worker[Any]] = {}


def packed_tables(tables: dict[str, pa.Table]) -> bytes:
    """Tables by name as plain bytes."""
    names = pa.array(list(tables), pa.string())
    parts = pa.array([_ipc(t) for t in tables.values()], pa.large_binary())
    return _ipc(pa.table({"name": names, "table": parts}))


def unpacked_tables(data: bytes) -> dict[str, pa.Table]:
    table = pa.ipc.open_stream(data).read_all()
    return {
        name: pa.ipc.open_stream(part).read_all()
        for name, part in zip(
            table.column("name").to_pylist(), table.column("table").to_pylist(), strict=True
        )
    }


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
