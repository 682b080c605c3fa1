"""The kernel over batches, partitions and slices kept in files, without any Spark."""

from __future__ import annotations

import pickle
from dataclasses import replace
from random import Random

import duckdb
import pyarrow as pa
from deep import examples
from hypothesis import event, given
from hypothesis import strategies as st
from oracle import naive
from oracle.generate import Case, programs_and_facts
from oracle.keyed import keyed

from tidelog.analysis.core import core
from tidelog.analysis.dependencies import dependencies
from tidelog.evaluation.facts import in_memory, resolve, schemas
from tidelog.evaluation.plan import Scan
from tidelog.evaluation.sql import Writer
from tidelog.streaming.clock import Clock, Pace
from tidelog.streaming.intake import typed
from tidelog.streaming.kernel import Kernel, Worker, packed_tables
from tidelog.streaming.layout import Keyless, Layout
from tidelog.streaming.schedule import WHOLE, Blocking, Schedule


def literal(value: object) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


class Emulated:
    """A driver that keeps everything in lists: slices never merged, as files would be."""

    def __init__(self, case: Case, partitions: int, pace: Pace) -> None:
        program = resolve(case.program, {})
        self.schedule = Schedule(dependencies(core(program, case.queries), case.queries))
        self.layout = Layout(self.schedule)
        self.schemas = schemas(program)
        self.pace = pace
        rigid = {
            p.name: typed(
                in_memory(self.schemas[p.source], case.facts.get(p.source, []), None),
                self.schemas[p.source],
            )
            for p in self.schedule.deps.core.inputs
            if not p.temporal
        }
        kernel = Kernel("test", pickle.dumps(self.layout), packed_tables(rigid), partitions, "1GB")
        self.workers = [Worker(kernel) for _ in range(partitions)]
        self.clock = Clock()
        self.state: list[pa.Table] = []
        self.got: dict[str, list[tuple[object, ...]]] = {q: [] for q in case.queries}
        self.sql = duckdb.connect()

    def batch(self, facts: dict[str, list[tuple]]) -> None:
        inputs = {p.source for p in self.schedule.deps.core.inputs if p.temporal}
        facts = {n: f for n, f in facts.items() if n in inputs and f}
        ticks = [row[-1] for rows in facts.values() for row in rows]
        seen = {name: max(row[-1] for row in rows) for name, rows in facts.items()}
        self.clock = self.clock.after(min(ticks, default=None), seen, self.pace)
        self.run(self.packed(facts))

    def packed(self, facts: dict[str, list[tuple]]) -> list[pa.Table]:
        inputs = {p.name: WHOLE for p in self.schedule.deps.core.inputs}
        plan = replace(self.schedule.plan, ranges=inputs, data=inputs)
        for p in self.schedule.deps.core.inputs:
            if p.temporal:
                schema = self.schemas[p.source]
                table = typed(in_memory(schema, facts.get(p.source, []), None), schema)
                self.sql.register(plan.inputs[p.name], table)
        writer = Writer(plan)
        self.sql.execute("CREATE OR REPLACE TABLE tidelog_text (i BIGINT, v VARCHAR)")
        for text, i in writer.texts.items():
            self.sql.execute("INSERT INTO tidelog_text VALUES (?, ?)", [i, text])
        found = []
        for step in plan.steps:
            if isinstance(step, Scan) and step.predicate.temporal:
                table = self.sql.sql(writer.scan(step)).to_arrow_table()
                rows = self.layout.rows(self.layout.scans[step.name], table)
                new = pa.repeat(pa.scalar(False), rows.num_rows)
                found.append(rows.set_column(1, "old", new))
        return found

    def run(self, new: list[pa.Table]) -> None:
        self.clock, span = self.clock.wave(self.schedule, self.pace)
        if span is None:
            self.state += [t.set_column(1, "old", pa.repeat(pa.scalar(True), len(t))) for t in new]
            return
        everything = pa.concat_tables([self.layout.schema.empty_table(), *self.state, *new])
        home = self.layout.home(len(self.workers), literal, spark=False)
        self.sql.register("everything", everything)
        out = []
        for number, worker in enumerate(self.workers):
            mine = self.sql.sql(f"SELECT * FROM everything WHERE {home} = {number}")
            batches = mine.to_arrow_table().cast(self.layout.schema).to_batches(max_chunksize=7)
            out += list(worker.run(number, span, iter(batches)))
        table = pa.Table.from_batches(out, self.layout.schema)
        answers = {r.number: (q, r) for q, r in self.layout.answers.items()}
        for row in table.to_pylist():
            if row["tab"] in answers:
                query, relation = answers[row["tab"]]
                args = [row[slot] for slot in relation.slots]
                self.got[query] += [(*args, row["c"] + i) for i in range(60) if row["b"] >> i & 1]
        mask = pa.array([tab not in answers for tab in table.column("tab").to_pylist()], pa.bool_())
        self.state.append(table.filter(mask))


def shuffled(case: Case, lateness: int, random: Random) -> list[dict[str, list[tuple]]]:
    """Batches that split ticks: rows in order of arrival, cut anywhere."""
    layout = schemas(case.program)
    rows = [
        (row[-1] + random.randint(0, lateness), random.random(), name, row)
        for name, found in case.facts.items()
        if layout[name].time is not None
        for row in found
    ]
    rows.sort(key=lambda r: r[:2])
    batches: list[dict[str, list[tuple]]] = [{}]
    for _, _, name, row in rows:
        if random.random() < 0.3:
            batches.append({})
        batches[-1].setdefault(name, []).append(row)
    return batches


def check(case: Case, lateness: int, partitions: int, random: Random) -> None:
    layout = schemas(case.program)
    inputs = tuple(
        p.source
        for p in core(resolve(case.program, {}), case.queries).below(case.queries).inputs
        if p.temporal
    )
    times = [r[-1] for n, f in case.facts.items() if n in inputs for r in f]
    if not times or any(layout[n].time is None for n in inputs):
        return
    # Rows come in the order of their ticks, but inputs are held back by the slowest one.
    pace = Pace(inputs, lateness)
    try:
        emulated = Emulated(case, partitions, pace)
    except (Blocking, Keyless) as error:
        event(type(error).__name__)
        return
    event("run")
    for batch in shuffled(case, lateness, random):
        emulated.batch(batch)
    emulated.clock = emulated.clock.close()
    emulated.run([])
    want = naive.evaluate(case.program, case.facts, case.queries, min(times), max(times))
    temporal = [q for q in case.queries if q in emulated.layout.answers]
    for query in temporal:
        assert len(emulated.got[query]) == len(set(emulated.got[query])), "an answer came twice"
        assert set(emulated.got[query]) == want[query]


@examples(300)
@given(
    programs_and_facts(connected=True, huge=False),
    st.integers(0, 3),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_kernels_equal_naive_evaluation(
    case: Case, lateness: int, partitions: int, random: Random
) -> None:
    check(keyed(case, random), lateness, partitions, random)
