"""What runs inside each partition: rows in, one stage of a wave in DuckDB, rows out."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa

from tidelog.analysis.stages import Kind, Stage
from tidelog.data.packed import columns
from tidelog.data.types import arrow_type
from tidelog.errors import DataError
from tidelog.evaluation.plan import Scan
from tidelog.evaluation.runner import Runner
from tidelog.evaluation.sql import Writer
from tidelog.language.program import Type
from tidelog.logic.normalise import Predicate, Role
from tidelog.streaming.layout import DONE, KEPT, NEW, Layout, Relation, as_rows, partition
from tidelog.streaming.schedule import WHOLE, Schedule
from tidelog.streaming.wave import Span, Wave

# What to do about a tick far ahead, where facts may be put aside.
AHEAD = (
    "a tick lies that far ahead of those before it; --max-jump N (max_jump in Python) puts such"
    " facts aside"
)


@dataclass(frozen=True)
class Kernel:
    """The work of one pipeline, as it travels to the partitions: plain bytes.

    A worker keeps the connection, the plan and the rigid facts of the pipelines it has met.
    """

    id: str
    layout: bytes  # a layout, and the schedule of a stream
    rigid: bytes  # tables of rigid facts by input, as Arrow streams
    partitions: int
    memory: str

    @staticmethod
    def of(
        id_: str,
        layout: Layout,
        schedule: Schedule | None,
        rigid: dict[str, pa.Table],
        partitions: int,
        memory: str,
    ) -> Kernel:
        """The kernel of a stream; without a schedule, of a query over finite facts."""
        return Kernel(
            id_, pickle.dumps((layout, schedule)), packed_tables(rigid), partitions, memory
        )

    def run(
        self, stage: int, number: int, span: Span | None, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """One stage over the rows of a partition: new slices and answers, packed."""
        worker = _workers.get(self.id)
        if worker is None or worker.kernel != self:
            _workers.clear()  # a worker serves one pipeline at a time
            worker = Worker(self)
        _workers.pop(self.id, None)  # one that failed is not used again
        yield from worker.run(stage, number, span, batches)
        _workers[self.id] = worker


@dataclass(frozen=True)
class Output:
    """A select whose rows are some of a table, packed; or whole rows, without a relation."""

    relation: Relation | None
    part: int
    select: str


@dataclass
class Stages:
    """What the stages of a layout do with the rows of a table `arrived`, for either engine."""

    layout: Layout
    schedule: Schedule | None  # of a stream
    wave: Wave
    inputs: dict[str, str]  # tables of rigid facts

    def outputs(
        self, index: int, span: Span | None, kept: Container[int] | None = None
    ) -> Iterator[Output]:
        """One stage over rows that are new or kept; without a span, over finite facts.

        `kept` are the tables of which there are kept rows, where that is known.
        """
        layout = self.layout
        stage = layout.stages[index]
        reads, own, passed = layout.reads(stage), layout.own(stage), layout.passed(index)
        facts = dict(self.inputs)
        for name, relation in reads.items():
            if name in layout.scans:
                facts[name] = f"{name}_new"
                self.wave.view(f"{name}_new", self._merged(relation, NEW))
        state = {} if span is None else self.kept(reads | own, span, kept)
        for name, relation in layout.foreign(stage).items():
            parts = [self._merged(relation, NEW)]
            parts += [f"SELECT * FROM {state.pop(name)}"] if name in state else []
            self.wave.table(name, Writer(layout.plan).merge(_shape(relation), parts, None))
        # What was done before, and what came for later stages, goes on as it is.
        through = [str(r.number) for name, r in passed.items() if name not in own]
        going = f"part = {DONE}"
        going += f" OR (part = {NEW} AND tab IN ({', '.join(through)}))" if through else ""
        if index:
            yield Output(None, DONE, f"SELECT * FROM arrived WHERE {going}")
        mine = [name for name in passed if name in own]
        if span is not None:
            yield from self.waved(stage, span, state, facts, mine)
            return
        self.wave.steps(layout.plan, layout.steps(stage), {}, facts)
        for query, relation in layout.answered(stage).items():
            yield Output(relation, DONE, Writer(layout.plan).answers(query))
        for name in mine:
            yield Output(layout.derived[name], NEW, f"SELECT * FROM {name}")

    def waved(
        self,
        stage: Stage | None,
        span: Span,
        state: dict[str, str],
        facts: Mapping[str, str],
        passed: Iterable[str] = (),
    ) -> Iterator[Output]:
        """One stage of a wave, or all of it."""
        layout = self.layout
        assert self.schedule is not None
        for query, relation in layout.given.items():
            if query in span.early and (stage is None or query in stage.predicates):
                state[query] = f"given{relation.number}"
                self.wave.table(f"given{relation.number}", self._merged(relation, KEPT))
        steps = None if stage is None else layout.steps(stage)
        waved = self.wave.run(self.schedule, span, state, facts, steps=steps, passed=passed)
        for name, select in waved.state.items():
            yield Output(layout.tables[name], DONE, select)
        for name, select in waved.passed.items():
            yield Output(layout.derived[name], NEW, select)
        for query, select in waved.answers.items():
            if query in layout.answers:
                yield Output(layout.answers[query], DONE, select)
        for query, select in waved.given.items():
            yield Output(layout.given[query], DONE, select)

    def kept(
        self, relations: Mapping[str, Relation], span: Span, there: Container[int] | None
    ) -> dict[str, str]:
        """Tables of the slices that are kept and looked at."""
        assert self.schedule is not None
        writer = Writer(self.layout.plan)
        found: dict[str, str] = {}
        for name, relation in relations.items():
            if there is not None and relation.number not in there:
                continue
            to = span.to + span.ahead
            looked = self.schedule.looked_at(name, span.tin, to, span.start)
            shape = _shape(relation)
            parts = [writer.merge(shape, [_select(relation, KEPT)], range_) for range_ in looked]
            if parts:
                found[name] = f"{name}_old"
                self.wave.table(f"{name}_old", writer.merge(shape, parts, None))
        return found

    def _merged(self, relation: Relation, part: int) -> str:
        return Writer(self.layout.plan).merge(_shape(relation), [_select(relation, part)], None)


class Worker:
    """A DuckDB connection with the rigid facts of a pipeline on it."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        layout, schedule = pickle.loads(kernel.layout)
        self.layout: Layout = layout
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
        self.wave = Wave(self.connection, layout.plan)
        if schedule is not None:
            self.wave.shorter = AHEAD
        else:
            self.wave.shorter = Runner.shorter
        self.inputs: dict[str, str] = {}
        for i, (name, table) in enumerate(unpacked_tables(kernel.rigid).items()):
            self.inputs[name] = f"rigid{i}"
            self.connection.register("given", table)
            self.connection.execute(f"CREATE TEMP TABLE rigid{i} AS SELECT * FROM given")
            self.connection.unregister("given")
        self.stages = Stages(layout, schedule, self.wave, self.inputs)

    def close(self) -> None:
        self.connection.close()
        self._spill.cleanup()

    # In a partition

    def run(
        self, index: int, number: int, span: Span | None, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """One stage over rows that are new or kept; without a span, over finite facts."""
        stage = self.layout.stages[index]
        self.wave.own = _Home(self, stage, number)
        schema = self.layout.schema
        same = (pa.RecordBatch.from_arrays(b.columns, schema=schema) for b in batches)
        try:
            self._load(pa.RecordBatchReader.from_batches(schema, same))
            there = self.wave.all("SELECT DISTINCT tab, part FROM arrived")
            if there or self._known(stage):
                kept = {tab for tab, part in there if part == KEPT}
                yield from self._rows(self.stages.outputs(index, span, kept))
        except duckdb.OutOfMemoryException:
            raise DataError(self._too_much(stage, number)) from None

    def _known(self, stage: Stage) -> bool:
        """Whether anything is known in a stage without any rows."""
        rules = self.layout.plan.deps.core.rules_for
        return any(
            not any(a.time is not None for a in rule.atoms)
            for name in stage.predicates
            for rule in rules.get(name, ())
        )

    def _too_much(self, stage: Stage, number: int) -> str:
        said = f"partition {number} needs more than {self.kernel.memory} of memory"
        if stage.kind is not Kind.KEYED:
            return f"{said}, and its rules cannot be split ({stage.reason}): give it more memory"
        counts: list[tuple[int, object]] = []
        for name, relation in self.layout.reads(stage).items():
            key = self.layout.key(stage, name)
            if isinstance(key, int):
                select = (
                    f"SELECT {relation.slots[key]}, count(*) AS n FROM arrived"
                    f" WHERE tab = {relation.number} GROUP BY 1 ORDER BY n DESC LIMIT 1"
                )
                try:
                    counts += [(n, value) for value, n in self.wave.all(select)]
                except duckdb.Error:
                    continue
        remedy = "give it more memory, or more partitions if many keys share it"
        if not counts:
            return f"{said}: {remedy}"
        rows, value = max(counts, key=lambda c: c[0])
        return f"{said}; its largest key is {value!r} with {rows} rows: {remedy}"

    # In the driver

    def waved(
        self, span: Span, facts: Mapping[str, pa.Table], kept: pa.Table | None
    ) -> Iterator[pa.RecordBatch]:
        """A whole wave over facts by input, not packed yet, and rows that are kept."""
        self.wave.own = None
        empty = self.layout.schema.empty_table()
        self._load(empty if kept is None else kept_rows(kept, self.layout.schema))
        there = {tab for (tab,) in self.wave.all("SELECT DISTINCT tab FROM arrived")}
        state = self.stages.kept(self.layout.tables, span, there)
        offered = {**self.inputs, **self._offered(facts)}
        yield from self._rows(self.stages.waved(None, span, state, offered))

    def packed(self, facts: Mapping[str, pa.Table]) -> Iterator[pa.RecordBatch]:
        """Facts by input as rows, while time stands still."""
        plan = self.layout.plan
        for name, table in self._offered(facts).items():
            self.wave.view(plan.inputs[name], f"SELECT * FROM {table}")
        whole = dict.fromkeys(plan.inputs, WHOLE)
        writer = Writer(replace(plan, ranges=whole, data=whole))
        for step in plan.steps:
            if isinstance(step, Scan) and step.predicate.temporal:
                relation = self.layout.scans[step.name]
                yield from self._rows([Output(relation, DONE, writer.scan(step))])

    def _offered(self, facts: Mapping[str, pa.Table]) -> dict[str, str]:
        """Tables of new facts, one for each temporal input of the core."""
        found: dict[str, str] = {}
        for i, predicate in enumerate(self.layout.plan.deps.core.inputs):
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

    # Rows

    def _load(self, rows: pa.Table | pa.RecordBatchReader) -> None:
        self.connection.register("arriving", rows)
        self.wave.table("arrived", "SELECT * FROM arriving")
        self.connection.unregister("arriving")

    def _rows(self, outputs: Iterable[Output]) -> Iterator[pa.RecordBatch]:
        for output in outputs:
            table = self.wave.arrow(output.select)
            if output.relation is None:
                yield from table.cast(self.layout.schema).to_batches()
            else:
                rows = as_rows(output.relation, table, output.part, self.layout.schema)
                yield from rows.to_batches()


@dataclass(frozen=True)
class _Home:
    """Of what every partition can derive, the keys that are at home in one of them."""

    worker: Worker
    stage: Stage
    number: int

    def __call__(self, predicate: Predicate, select: str) -> str:
        found = self.worker.layout.at_home(self.stage, predicate.name)
        if found is None:
            return select if self.number == 0 else f"SELECT * FROM ({select}) AS o WHERE FALSE"
        position, type_ = found
        key = columns(len(predicate.types))[position]
        home = partition(key, type_, self.worker.kernel.partitions, spark=False)
        return f"SELECT * FROM ({select}) AS o WHERE {home} = {self.number}"


def _shape(relation: Relation) -> Predicate:
    return Predicate(relation.name, True, relation.types, Role.DERIVED, relation.name)


def _select(relation: Relation, part: int) -> str:
    where = f"tab = {relation.number} AND part = {part}"
    return f"SELECT {relation.values()} FROM arrived WHERE {where}"


def kept_rows(kept: pa.Table, schema: pa.Schema) -> pa.Table:
    """State as it was stored."""
    old = pa.repeat(pa.scalar(KEPT, pa.int32()), kept.num_rows)
    arrays = [old if f.name == "part" else kept.column(f.name).cast(f.type) for f in schema]
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
