"""Online streams split by key: what each partition keeps, answers and waits for.

A shard is a pure function: live facts, carried facts and known answers in, with what has arrived;
the same out, at a later input time. Every shard starts from the least time that is not final in all
of them: what one knows beyond it is kept as known answers, and derived again at worst.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.analysis.definitive import Pending
from tidelog.analysis.dependencies import Class, Dependencies
from tidelog.analysis.settled import Settled
from tidelog.analysis.sliced import sliced
from tidelog.data.packed import columns, slots_of, unpack
from tidelog.evaluation.layout import Layout
from tidelog.evaluation.rows import (
    DONE,
    Relation,
    as_rows,
    home,
    partition,
    row_schema,
)
from tidelog.language.program import Program, Row, Type, Value
from tidelog.logic.core import Predicate
from tidelog.streaming.aggregates_first import AggregatesFirst, in_two_parts
from tidelog.streaming.algorithm import AnswerRows, RowsByTime
from tidelog.streaming.blocking import BlockingAlgorithm
from tidelog.streaming.cell_graph import fits
from tidelog.streaming.clock import ShardReport, Turn
from tidelog.streaming.joins import at
from tidelog.streaming.online import OnlineAlgorithm
from tidelog.streaming.schedule import Schedule
from tidelog.streaming.slices import packed_table


@dataclass(frozen=True)
class Shards:
    """The rows of an online stream, and what happens to them in a partition."""

    program: Program
    deps: Dependencies
    eager: bool
    budget: float = 10.0

    @cached_property
    def settled(self) -> Settled | None:
        """The rules in two parts, where they have aggregates and do not block."""
        return None if self.deps.aggregate is None else in_two_parts(self.deps)

    @property
    def online(self) -> Dependencies:
        """The rules that answers come from as soon as can be proved."""
        return self.deps if self.settled is None else self.settled.rest

    @property
    def whole(self) -> bool:
        """Whether every fact is kept and every turn decided on all of them."""
        apart = self.deps.aggregate is None or self.settled is not None
        return self.deps.cls is Class.BLOCKING or not apart or not fits(self.online)

    @cached_property
    def positions(self) -> dict[str, int] | None:
        """The partition key; None when one shard has it all, as it has with aggregates."""
        return None if self.whole or self.settled is not None else self.deps.key.positions

    # Rows

    @cached_property
    def inputs(self) -> dict[str, Relation]:
        """By temporal input: the facts that are live, and those after tin."""
        names = [p.name for p in self.deps.core.inputs if p.temporal]
        return {name: self._relation(name, i) for i, name in enumerate(names)}

    @cached_property
    def carried(self) -> dict[str, Relation]:
        """By predicate: derived facts that are carried on."""
        names = () if self.whole else sorted(self.online.carrying)
        return {name: self._relation(name, len(self.inputs) + i) for i, name in enumerate(names)}

    @cached_property
    def aggregates(self) -> dict[str, Relation]:
        """By predicate: what aggregates have come to, as far as rules may still look at it."""
        names = [] if self.settled is None else [*self.settled.waits]
        first = len(self.inputs) + len(self.carried)
        return {name: self._relation(name, first + i) for i, name in enumerate(names)}

    @cached_property
    def slices(self) -> dict[str, Relation]:
        """By table: what aggregates that are not final yet are made of."""
        if self.settled is None:
            return {}
        tables = Layout(Schedule(sliced(self.settled.below)).plan, ()).tables
        first = len(self.inputs) + len(self.carried) + len(self.aggregates)
        return {name: replace(r, number=first + r.number) for name, r in tables.items()}

    @cached_property
    def tables(self) -> dict[str, Relation]:
        return {**self.inputs, **self.carried, **self.aggregates, **self.slices}

    @cached_property
    def given(self) -> dict[str, Relation]:
        """By query: answers known at times that are not final everywhere."""
        first = len(self.tables)
        return {q: self._relation(q, first + i) for i, q in enumerate(self.deps.queries)}

    @cached_property
    def answers(self) -> dict[str, Relation]:
        first = len(self.tables) + len(self.given)
        return {q: self._relation(q, first + i) for i, q in enumerate(self.deps.queries)}

    @cached_property
    def reports(self) -> dict[int, str]:
        """Numbers of rows that report on a query: c is when it is due, b what is open."""
        first = len(self.tables) + 2 * len(self.given)
        return {first + i: q for i, q in enumerate(self.deps.queries)}

    @property
    def _predicates(self) -> dict[str, Predicate]:
        """Those of the rules in two parts have counts of a tick among them."""
        return (self.deps if self.settled is None else self.settled.given).core.predicates

    def _relation(self, name: str, number: int) -> Relation:
        predicate = self._predicates[name]
        types = tuple(t or Type.TEXT for t in predicate.types)
        return Relation(number, name, types, slots_of(types), predicate.temporal)

    @cached_property
    def places(self) -> dict[int, tuple[str, str]]:
        """By table kept the predicate it is of: an input, derived, or known answers."""
        predicates = self._predicates
        places = {r.number: (predicates[n].base, "input") for n, r in self.inputs.items()}
        derived = {**self.carried, **self.aggregates}
        places |= {r.number: (predicates[n].base, "derived") for n, r in derived.items()}
        places |= {r.number: (name, "derived") for name, r in self.slices.items()}
        return places | {r.number: (query, "answers") for query, r in self.given.items()}

    @cached_property
    def schema(self) -> pa.Schema:
        return row_schema([*self.tables.values(), *self.given.values()])

    def home(self, partitions: int, *, spark: bool) -> str:
        """SQL for the partition that a row belongs to."""
        assert self.positions is not None
        cases = []
        for name, relation in (*self.tables.items(), *self.given.items()):
            key = self.positions[name]
            where = partition(relation.slots[key], relation.types[key], partitions, spark=spark)
            cases.append(f"WHEN tab = {relation.number} THEN {where}")
        return f"CASE {' '.join(cases)} END"

    def report(self, tab: int, due: int, open_: int) -> ShardReport:
        """What a row of a report says."""
        query = self.reports[tab]
        if self.given[query].temporal:
            return ShardReport(query, due, open_)
        return ShardReport(query, None, open_, bool(due))

    # A turn

    def run(
        self,
        turn: Turn,
        rigid: Mapping[str, set[Row]],
        rows: pa.Table,
        number: int = 0,
        partitions: int = 1,
    ) -> Iterator[pa.RecordBatch]:
        """One turn over rows that are new or kept, in one partition of several."""
        yield from _Shard(self, rigid, turn, rows, number, partitions).run()

    def pending(
        self, turn: Turn, rigid: Mapping[str, set[Row]], rows: pa.Table, most: int
    ) -> list[Pending]:
        """Answers that may still come, as things stand before a turn."""
        return _Shard(self, rigid, turn, rows).algorithm.pending(most)


class _Shard:
    def __init__(
        self,
        shards: Shards,
        rigid: Mapping[str, set[Row]],
        turn: Turn,
        rows: pa.Table,
        number: int = 0,
        partitions: int = 1,
    ) -> None:
        self.shards, self.turn = shards, turn
        self.number, self.partitions = number, partitions
        self.known = {q: _times(rows, relation) for q, relation in shards.given.items()}
        by_time = {**shards.inputs, **shards.carried, **shards.aggregates}
        facts = {name: _times(rows, relation) for name, relation in by_time.items()}
        self.slices = {name: _table(rows, relation) for name, relation in shards.slices.items()}
        tin = -math.inf if turn.tin is None else turn.tin
        self.live = _between(facts, -math.inf, tin)
        self.new = _between(facts, tin, turn.to)
        if turn.ticking is not None:
            predicates = shards.deps.core.predicates
            for name in shards.inputs:
                if predicates[name].base in shards.program.clocks:
                    self.new[name] = {turn.ticking: {()}}
        self.later = _between(facts, turn.to, math.inf)
        self.algorithm: BlockingAlgorithm | OnlineAlgorithm | AggregatesFirst
        if shards.whole:
            self.algorithm = self._blocking(rigid)
        elif shards.settled is not None:
            self.algorithm = self._aggregates_first(shards.settled, rigid)
        else:
            self.algorithm = OnlineAlgorithm(
                shards.deps, rigid, eager=shards.eager, wanted=self._may_be_at_home
            )
            self._go_on(self.algorithm)

    def _blocking(self, rigid: Mapping[str, set[Row]]) -> BlockingAlgorithm:
        shards, turn = self.shards, self.turn
        queries = shards.deps.queries
        algorithm = BlockingAlgorithm(
            shards.program, queries, rigid, eager=shards.eager, budget=shards.budget
        )
        algorithm.tin = turn.tin
        algorithm.due.update(turn.due)
        for query, times in self.known.items():
            temporal = shards.given[query].temporal
            algorithm.given[query] = {
                (*row, time) if temporal else row for time in times for row in times[time]
            }
        algorithm.take(self.live)
        return algorithm

    def _aggregates_first(self, settled: Settled, rigid: Mapping[str, set[Row]]) -> AggregatesFirst:
        shards, turn = self.shards, self.turn
        algorithm = AggregatesFirst(shards.program, settled, rigid, eager=shards.eager)
        algorithm.below.begin(turn.first)
        if turn.tin is not None:
            algorithm.below.go_on(turn.tin, self.slices)
        self._go_on(algorithm.rest)
        return algorithm

    def _go_on(self, algorithm: OnlineAlgorithm) -> None:
        shards, turn = self.shards, self.turn
        if turn.tin is None:
            algorithm.begin(turn.first)
            return
        if shards.eager:
            algorithm.given = {
                (query, time if shards.given[query].temporal else None): rows
                for query, times in self.known.items()
                for time, rows in times.items()
            }
        algorithm.go_on(
            algorithm.network.graph.schedule.first(turn.first),
            turn.tin,
            turn.due,
            turn.answered,
            {name: self.live.get(name, {}) for name in algorithm.inputs},
            {name: self.live.get(name, {}) for name in shards.carried},
        )

    def run(self) -> Iterator[pa.RecordBatch]:
        shards, turn, algorithm = self.shards, self.turn, self.algorithm
        answers: AnswerRows = {q: set() for q in shards.deps.queries}
        if turn.tin is None or turn.to > turn.tin:
            _add(answers, algorithm.advance(turn.to, self.new, turn.low))
        if turn.closed:
            _add(answers, algorithm.close(turn.to, turn.low))
        for query, rows in answers.items():
            relation = shards.given[query]
            new: dict[int, set[Row]] = {}
            for row in rows:
                time, args = (at(row), row[:-1]) if relation.temporal else (0, row)
                if self._at_home(query, args):
                    new.setdefault(time, set()).add(args)
            if shards.eager or not relation.temporal:
                yield from self._rows(shards.answers[query], new)
            for time, args_ in new.items():
                known = self.known[query].setdefault(time, set())
                self.known[query][time] = known | args_
            yield from self._rows(relation, self.known[query])
        yield from self._state()
        yield from self._reports()

    def _state(self) -> Iterator[pa.RecordBatch]:
        shards, algorithm = self.shards, self.algorithm
        kept: dict[str, RowsByTime] = {}
        if not self.turn.closed:
            online = algorithm.rest if isinstance(algorithm, AggregatesFirst) else algorithm
            kept = {**online.facts(), **online.derived()}
        for name, relation in shards.tables.items():
            if name in shards.slices:
                continue
            times = {**kept.get(name, {}), **self.later.get(name, {})}
            if name in shards.carried:
                times = {t: {r for r in times[t] if self._at_home(name, r)} for t in times}
            yield from self._rows(relation, times)
        if isinstance(algorithm, AggregatesFirst) and not self.turn.closed:
            for name, table in algorithm.below.slices.items():
                yield from as_rows(shards.slices[name], table, DONE, shards.schema).to_batches()

    def _reports(self) -> Iterator[pa.RecordBatch]:
        rows = []
        for tab, query in self.shards.reports.items():
            if not self.shards.given[query].temporal:
                due = int(self._due(query) == math.inf or self.turn.closed)
            else:
                due = int(max(self._due(query), min(self.turn.low, self.turn.to + 1)))
            rows.append({"tab": tab, "part": DONE, "c": due, "b": self._open(query)})
        yield from pa.Table.from_pylist(rows, self.shards.schema).to_batches()

    @property
    def _online(self) -> OnlineAlgorithm | None:
        """The algorithm that knows what may still come."""
        match self.algorithm:
            case OnlineAlgorithm() as online:
                return online
            case AggregatesFirst(rest=online):
                return online
            case BlockingAlgorithm():
                return None
            case _ as never:
                assert_never(never)

    def _due(self, query: str) -> float:
        if self._online is not None:
            return self._online.due[query]
        assert isinstance(self.algorithm, BlockingAlgorithm)
        due = self.algorithm.due[query]
        return -math.inf if due is None else due

    def _open(self, query: str) -> int:
        """How many answers may still come at times up to tin."""
        due, online = self._due(query), self._online
        if online is None or self.turn.closed or math.isinf(due):
            return 0
        temporal = self.shards.given[query].temporal
        times = range(int(due), self.turn.to + 1) if temporal else [None]
        return sum(
            self._at_home(query, online.whole(spec, row))
            for time in times
            for spec, rows in online.open(query, time)
            for row in rows
        )

    def _at_home(self, name: str, row: Sequence[Value | None]) -> bool:
        """Whether a fact is this shard's: facts of the rules are known to all of them."""
        positions = self.shards.positions
        if self.partitions == 1 or positions is None:
            return True
        value = row[positions[name]]
        where = 0 if value is None else home(value, self.partitions)
        return where == self.number

    def _may_be_at_home(self, name: str, row: Sequence[Value | None]) -> bool:
        """Whether a fact is this shard's for some key, where that may be any."""
        positions = self.shards.positions
        return positions is None or row[positions[name]] is None or self._at_home(name, row)

    def _rows(self, relation: Relation, times: Mapping[int, Set[Row]]) -> Iterator[pa.RecordBatch]:
        table = packed_table(relation.types, times)
        if table.num_rows:
            yield from as_rows(relation, table, DONE, self.shards.schema).to_batches()


def _add(answers: AnswerRows, more: AnswerRows) -> None:
    for query, rows in more.items():
        answers[query] = answers[query] | rows


def _times(rows: pa.Table, relation: Relation) -> RowsByTime:
    """The facts of a table among rows, by time."""
    mine = rows.filter(pc.equal(rows.column("tab"), relation.number))
    names = (*relation.slots, "c", "b")
    return {**unpack(zip(*(mine.column(name).to_pylist() for name in names), strict=True))}


def _table(rows: pa.Table, relation: Relation) -> pa.Table:
    """A packed table among rows."""
    mine = rows.filter(pc.equal(rows.column("tab"), relation.number))
    names = columns(len(relation.slots))
    return mine.select([*relation.slots, "c", "b"]).rename_columns([*names, "c", "b"])


def _between(facts: Mapping[str, RowsByTime], after: float, until: float) -> dict[str, RowsByTime]:
    """The facts at some times; predicates without any are left out."""
    parts = {
        n: {t: r for t, r in times.items() if after < t <= until} for n, times in facts.items()
    }
    return {name: times for name, times in parts.items() if times}


__all__ = ["Shards"]
