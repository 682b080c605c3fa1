"""What runs inside each partition: rows in, one wave in DuckDB, rows out."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa

from tidelog.analysis.core import Predicate
from tidelog.evaluation.facts import arrow_type
from tidelog.evaluation.plan import Scan
from tidelog.evaluation.ranges import Range
from tidelog.evaluation.sql import Writer, columns
from tidelog.language.program import Type
from tidelog.streaming.layout import Layout, Relation, partition
from tidelog.streaming.schedule import WHOLE
from tidelog.streaming.wave import Wave

# What to do about a tick far ahead, where facts may be put aside.
AHEAD = (
    "a tick lies that far ahead of those before it; --max-jump N (max_jump in Python) puts such"
    " facts aside"
)


@dataclass(frozen=True)
class Span:
    """Where a wave goes: begun before `start`, from tin up to `to`, answers at `emit`."""

    start: int
    tin: int
    to: int
    emit: Range


@dataclass(frozen=True)
class Kernel:
    """The work of one stream, as it travels to the partitions: plain bytes.

    A worker keeps the connection, the plan and the rigid facts of the streams it has met.
    """

    id: str
    layout: bytes
    rigid: bytes  # tables of rigid facts by input, as Arrow streams
    partitions: int
    memory: str

    def run(
        self, number: int, span: Span, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """One wave over the rows of a partition: new slices and answers, packed."""
        worker = _workers.get(self.id)
        if worker is None or worker.kernel != self:
            _workers.clear()  # a worker serves one stream at a time
            worker = Worker(self)
        _workers.pop(self.id, None)  # one that failed is not used again
        yield from worker.run(number, span, batches)
        _workers[self.id] = worker


class Worker:
    """A connection with the rigid facts of a stream on it."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.layout: Layout = pickle.loads(kernel.layout)
        self._spill = tempfile.TemporaryDirectory(prefix="tidelog-")
        self.connection = duckdb.connect(
            config={
                "threads": 1,
                "memory_limit": kernel.memory,
                "temp_directory": os.path.join(self._spill.name, "spill"),
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
        )
        self.connection.execute("SET enable_external_access = false")
        self.connection.execute("SET enable_progress_bar = false")
        self.connection.execute("SET preserve_insertion_order = false")
        self.wave = Wave(self.layout.schedule, self.connection, own=self._own)
        self.wave.shorter = AHEAD
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
        self, number: int, span: Span, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """One wave over rows that are new or kept."""
        layout = self.layout
        same = (pa.RecordBatch.from_arrays(b.columns, schema=layout.schema) for b in batches)
        arriving = pa.RecordBatchReader.from_batches(layout.schema, same)
        self._load(arriving)
        there = set(self.wave.all("SELECT DISTINCT tab, old FROM arrived"))
        if not there and not self._known:
            return
        facts = dict(self.inputs)
        for name, relation in layout.scans.items():
            facts[name] = f"{name}_new"
            shape = Predicate(name, True, relation.types, False, name)
            merged = Writer(layout.schedule.plan).merge(shape, [_select(relation, "NOT old")], None)
            self.wave.view(f"{name}_new", merged)
        yield from self._waved(number, span, facts, {tab for tab, old in there if old})

    def waved(
        self, span: Span, facts: Mapping[str, pa.Table], kept: pa.Table | None
    ) -> Iterator[pa.RecordBatch]:
        """One wave over facts by input, not packed yet, and rows that are kept."""
        empty = self.layout.schema.empty_table()
        rows = empty if kept is None else _as_rows(kept, self.layout.schema)
        self._load(rows)
        there = {tab for (tab,) in self.wave.all("SELECT DISTINCT tab FROM arrived")}
        yield from self._waved(0, span, {**self.inputs, **self._offered(facts)}, there)

    def packed(self, facts: Mapping[str, pa.Table]) -> Iterator[pa.RecordBatch]:
        """Facts by input as rows, while time stands still."""
        plan = self.layout.schedule.plan
        offered = self._offered(facts)
        for name, table in offered.items():
            self.wave.view(plan.inputs[name], f"SELECT * FROM {table}")
        whole = dict.fromkeys(plan.inputs, WHOLE)
        writer = Writer(replace(plan, ranges=whole, data=whole))
        for step in plan.steps:
            if isinstance(step, Scan) and step.predicate.temporal:
                found = self.wave.arrow(writer.scan(step))
                yield from self.layout.rows(self.layout.scans[step.name], found).to_batches()

    def _offered(self, facts: Mapping[str, pa.Table]) -> dict[str, str]:
        """Tables of new facts, one for each temporal input of the core."""
        found: dict[str, str] = {}
        for i, predicate in enumerate(self.layout.schedule.deps.core.inputs):
            if not predicate.temporal:
                continue
            table = facts.get(predicate.source)
            if table is None:
                names = [f"a{n}" for n in range(1, len(predicate.types) + 1)]
                types = [arrow_type(t or Type.TEXT) for t in predicate.types]
                fields = zip([*names, "t"], [*types, pa.int64()], strict=True)
                table = pa.schema(list(fields)).empty_table()
            found[predicate.name] = f"offered{i}"
            self.connection.register(f"offered{i}", table)
        return found

    def _load(self, rows: pa.Table | pa.RecordBatchReader) -> None:
        self.connection.register("arriving", rows)
        self.wave.table("arrived", "SELECT * FROM arriving")
        self.connection.unregister("arriving")

    def _waved(
        self, number: int, span: Span, facts: Mapping[str, str], there: set[int]
    ) -> Iterator[pa.RecordBatch]:
        self.number = number
        layout, schedule = self.layout, self.layout.schedule
        writer = Writer(schedule.plan)
        state: dict[str, str] = {}
        for name, relation in layout.tables.items():
            if relation.number not in there:
                continue
            looked = schedule.looked_at(name, span.tin, span.to, span.start)
            shape = Predicate(name, True, relation.types, False, name)
            parts = [writer.merge(shape, [_select(relation, "old")], range_) for range_ in looked]
            if parts:
                state[name] = f"{name}_old"
                self.wave.table(f"{name}_old", writer.merge(shape, parts, None))
        waved = self.wave.run(state, facts, span.start, span.tin, span.to, span.emit, fresh=True)
        for relation, table in (
            *((layout.tables[name], table) for name, table in waved.state.items()),
            *((relation, waved.answers[query]) for query, relation in layout.answers.items()),
        ):
            yield from layout.rows(relation, table).to_batches()

    @property
    def _known(self) -> bool:
        """Whether anything temporal is known without any input."""
        core = self.layout.schedule.deps.core
        return any(
            rule.head.time is not None and all(a.time is None for a in rule.atoms)
            for rule in core.rules
        )

    def _own(self, predicate: Predicate, select: str) -> str:
        """Of what every partition can derive, the keys that are at home in this one."""
        position = self.layout.positions[predicate.name]
        key = columns(len(predicate.types))[position]
        type_ = predicate.types[position] or Type.TEXT
        home = partition(key, type_, self.kernel.partitions, spark=False)
        return f"SELECT * FROM ({select}) AS o WHERE {home} = {self.number}"


def _select(relation: Relation, which: str) -> str:
    where = f"tab = {relation.number} AND {which}"
    return f"SELECT {relation.values()} FROM arrived WHERE {where}"


def _as_rows(kept: pa.Table, schema: pa.Schema) -> pa.Table:
    """State as it was stored, which is old."""
    old = pa.repeat(pa.scalar(True), kept.num_rows)
    arrays = [old if f.name == "old" else kept.column(f.name).cast(f.type) for f in schema]
    return pa.table(arrays, schema=schema)


_workers: dict[str, Worker] = {}


def packed_tables(tables: dict[str, pa.Table]) -> bytes:
    """Tables by name as plain bytes."""
    sink = pa.BufferOutputStream()
    names = pa.array(list(tables), pa.string())
    parts = pa.array([_ipc(t) for t in tables.values()], pa.large_binary())
    table = pa.table({"name": names, "table": parts})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


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
