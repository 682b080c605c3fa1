"""The kernel over batches, partitions and slices kept in files, without any Spark."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import duckdb
import pyarrow as pa
from hypothesis import event, given
from hypothesis import strategies as st
from oracle import naive
from oracle.generate import Case, programs_and_facts
from oracle.keyed import keyed
from support.deep import examples

from tidelog.analysis.dependencies import dependencies
from tidelog.analysis.stages import Stage, StageKind, staged
from tidelog.data.readers.memory import in_memory, typed_table
from tidelog.data.schema import resolve, schemas
from tidelog.evaluation.layout import Layout
from tidelog.evaluation.plan import Scan
from tidelog.evaluation.rows import DONE, KEPT, NEW, as_rows
from tidelog.evaluation.spark.kernel import Kernel, Worker
from tidelog.evaluation.sql import Writer
from tidelog.logic.normalise import core
from tidelog.pipeline.kernel import WaveJob
from tidelog.streaming.clock import Clock, Emission, Pace, Span
from tidelog.streaming.offline import Endless, enough_window, least_delay
from tidelog.streaming.schedule import WHOLE, Blocking, Schedule


class Emulated:
    """A driver that keeps everything in lists: slices never merged, as files would be."""

    def __init__(self, case: Case, partitions: int, pace: Pace, eager: bool, strict: bool) -> None:
        program = resolve(case.program, {})
        split = staged(dependencies(core(program, case.queries), case.queries))
        self.schedule = Schedule(split.deps)
        phi = self.schedule.phi
        delays = {q: least_delay(program, q, phi[q]) for q in case.queries if q in phi}
        window = enough_window(program, self.schedule, delays) if strict else None
        self.emission = Emission(delays, eager, window)
        self.layout = Layout(self.schedule.plan, split.stages)
        self.schemas = schemas(program)
        self.pace = pace
        rigid = {
            p.name: typed_table(
                in_memory(self.schemas[p.base], case.facts.get(p.base, []), None),
                self.schemas[p.base],
            )
            for p in self.schedule.deps.core.inputs
            if not p.temporal
        }
        kernel = Kernel.of("test", WaveJob(self.layout, self.schedule), rigid, partitions, "1GB")
        self.workers = [Worker(kernel) for _ in range(partitions)]
        self.clock = Clock()
        self.state = self.layout.schema.empty_table()
        self.got: dict[str, list[tuple[object, ...]]] = {q: [] for q in case.queries}
        self.sql = duckdb.connect()

    def batch(self, facts: dict[str, list[tuple]]) -> None:
        inputs = {p.base for p in self.schedule.deps.core.inputs if p.temporal}
        facts = {n: f for n, f in facts.items() if n in inputs and f}
        ticks = [row[-1] for rows in facts.values() for row in rows]
        seen = {name: max(row[-1] for row in rows) for name, rows in facts.items()}
        self.clock = self.clock.after(min(ticks, default=None), seen, self.pace)
        self.run(self.packed(facts))

    def packed(self, facts: dict[str, list[tuple]]) -> pa.Table:
        inputs = {p.name: WHOLE for p in self.schedule.deps.core.inputs}
        plan = replace(self.schedule.plan, ranges=inputs, data=inputs)
        for p in self.schedule.deps.core.inputs:
            if p.temporal:
                schema = self.schemas[p.base]
                table = typed_table(in_memory(schema, facts.get(p.base, []), None), schema)
                self.sql.register(plan.inputs[p.name], table)
        writer = Writer(plan)
        self.sql.execute("CREATE OR REPLACE TABLE tidelog_text (i BIGINT, v VARCHAR)")
        for text, i in writer.texts.items():
            self.sql.execute("INSERT INTO tidelog_text VALUES (?, ?)", [i, text])
        tables = [self.layout.schema.empty_table()]
        for step in plan.steps:
            if isinstance(step, Scan) and step.predicate.temporal:
                table = self.sql.sql(writer.scan(step)).to_arrow_table()
                tables.append(as_rows(self.layout.scans[step.name], table, NEW, self.layout.schema))
        return pa.concat_tables(tables)

    def run(self, new: pa.Table) -> None:
        self.clock, span = self.clock.wave(self.schedule, self.pace, self.emission)
        if span is None:
            self.state = pa.concat_tables([self.state, parted(new, KEPT)])
            return
        out = self.layout.schema.empty_table()
        for index, stage in enumerate(self.layout.stages):
            tabs = {r.number for r in self.layout.reads(stage).values()}
            kept = tabs | {r.number for r in self.layout.own(stage).values()}
            kept |= {r.number for q, r in self.layout.given.items() if q in stage.predicates}
            rows = pa.concat_tables([chosen(self.state, kept), chosen(new, tabs), out])
            out = self.stage(index, stage, span, rows)
        parts = set(out.column("part").to_pylist())
        assert parts <= {DONE}, "something was passed on to nobody"
        answers = {r.number: (q, r) for q, r in self.layout.answers.items()}
        for row in out.to_pylist():
            if row["tab"] in answers:
                query, relation = answers[row["tab"]]
                args = [row[slot] for slot in relation.slots]
                times = [(row["c"] + i,) for i in range(60) if row["b"] >> i & 1]
                self.got[query] += [(*args, *(t if relation.temporal else ())) for t in times]
        kept = {*self.layout.tables.values(), *self.layout.given.values()}
        new = chosen(out, {r.number for r in kept})
        self.state = pa.concat_tables([self.state, parted(new, KEPT)])

    def stage(self, index: int, stage: Stage, span: Span, rows: pa.Table) -> pa.Table:
        workers = self.workers if stage.kind is StageKind.KEYED else self.workers[:1]
        home = self.layout.home(stage, len(workers), spark=False)
        if stage.kind is not StageKind.KEYED:
            home = "0"
        self.sql.register("everything", rows)
        out = [self.layout.schema.empty_table()]
        for number, worker in enumerate(workers):
            mine = self.sql.sql(f"SELECT * FROM everything WHERE {home} = {number}")
            batches = mine.to_arrow_table().cast(self.layout.schema).to_batches(max_chunksize=7)
            results = list(worker.run(index, number, span, iter(batches)))
            out.append(pa.Table.from_batches(results, self.layout.schema))
        return pa.concat_tables(out)


def parted(table: pa.Table, part: int) -> pa.Table:
    return table.set_column(1, "part", pa.repeat(pa.scalar(part, pa.int32()), len(table)))


def chosen(table: pa.Table, tabs: set[int]) -> pa.Table:
    return table.filter(pa.array([t in tabs for t in table.column("tab").to_pylist()], pa.bool_()))


def shuffled(case: Case, lateness: int, random: Random) -> list[dict[str, list[tuple]]]:
    """Batches that split ticks: rows in order of arrival, cut anywhere."""
    layout = schemas(case.program)
    rows = [
        (row[-1] + random.randint(0, lateness), random.random(), name, row)
        for name, facts in case.facts.items()
        if layout[name].time is not None
        for row in facts
    ]
    rows.sort(key=lambda r: r[:2])
    batches: list[dict[str, list[tuple]]] = [{}]
    for _, _, name, row in rows:
        if random.random() < 0.3:
            batches.append({})
        batches[-1].setdefault(name, []).append(row)
    return batches


def check(
    case: Case, lateness: int, partitions: int, eager: bool, strict: bool, random: Random
) -> None:
    layout = schemas(case.program)
    inputs = tuple(
        p.base
        for p in core(resolve(case.program, {}), case.queries).below(case.queries).inputs
        if p.temporal
    )
    times = [r[-1] for n, f in case.facts.items() if n in inputs for r in f]
    if not times or any(layout[n].time is None for n in inputs):
        return
    # Rows come in the order of their ticks, but inputs are held back by the slowest one.
    pace = Pace(inputs, lateness)
    try:
        emulated = Emulated(case, partitions, pace, eager, strict)
    except (Blocking, Endless) as error:
        event(type(error).__name__)
        return
    kinds = [stage.kind.value for stage in emulated.layout.stages]
    event(", ".join(kinds) or "nothing to do")
    for batch in shuffled(case, lateness, random):
        emulated.batch(batch)
    emulated.clock = emulated.clock.close()
    emulated.run(emulated.layout.schema.empty_table())
    want = naive.evaluate(case.program, case.facts, case.queries, min(times), max(times))
    for query in emulated.layout.answers:
        assert len(emulated.got[query]) == len(set(emulated.got[query])), "an answer came twice"
        assert set(emulated.got[query]) == want[query]


@examples(4, deep=400)
@given(
    programs_and_facts(connected=True, huge=False),
    st.integers(0, 3),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_kernels_equal_naive_evaluation(
    case: Case, lateness: int, partitions: int, split: bool, eager: bool, random: Random
) -> None:
    strict = random.random() < 0.2
    check(keyed(case, random) if split else case, lateness, partitions, eager, strict, random)
