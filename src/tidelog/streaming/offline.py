"""The offline algorithm in process: answers after a fixed delay, state bounded by the schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from tidelog.analysis.containment import reduced
from tidelog.analysis.core import core
from tidelog.analysis.dependencies import dependencies
from tidelog.evaluation.facts import DataError, Rows, Schema, Table, in_memory, resolve, schemas
from tidelog.evaluation.plan import planning_budget
from tidelog.evaluation.ranges import EMPTY, Range
from tidelog.language.program import TIME_COLUMN, TIME_MAX, Program, Type, Value
from tidelog.streaming.schedule import Schedule
from tidelog.streaming.wave import Wave, bits

Late = list[tuple[Value, ...]]


@dataclass(frozen=True)
class Step:
    """What one push brought: answers that are final now, and where the stream stands.

    Everything up to `tin` has arrived, everything up to `tout` is answered. `history` counts the
    facts kept, `late` hands facts back that came too late, or too far ahead.
    """

    answers: dict[str, pa.Table]
    tin: int | None
    tout: int | None
    history: int
    late: dict[str, Late] = field(default_factory=dict)


class Stream:
    """Rules over facts that arrive tick by tick.

    `push(tick, facts)` delivers a whole tick; facts may be out of order by up to `lateness` ticks.
    A row without a time is at the tick pushed. Facts that are later, or more than `max_jump` ticks
    ahead, are handed back and not used. Rigid facts are given at the start.

    >>> import tidelog
    >>> program = tidelog.parse("Hot(X) @ T :- Temp(X, high) @ T, Temp(X, high) @ T+1.")
    >>> stream = Stream(program, ["Hot"])
    >>> [stream.push(t, {"Temp": [("a", "high")]}).answers["Hot"].to_pylist() for t in (0, 1)]
    [[], [{'x': 'a', 'time': 0}]]
    >>> stream.close().answers["Hot"].to_pylist()
    []
    """

    def __init__(
        self,
        program: Program,
        queries: Iterable[str] | None = None,
        *,
        lateness: int = 0,
        rigid: Mapping[str, Rows] | None = None,
        from_: int | None = None,
        max_jump: int | None = None,
    ) -> None:
        if lateness < 0:
            raise ValueError("lateness is a number of ticks, 0 or more")
        self.queries = tuple(queries) if queries is not None else program.outputs
        for query in self.queries:
            if query not in (*program.heads, *program.inputs):
                raise ValueError(f"no predicate {query} in the rules")
        self.program = resolve(program, {})
        self.lateness, self.from_, self.max_jump = lateness, from_, max_jump
        whole = core(self.program, self.queries)
        needed, _ = reduced(whole, self.queries, planning_budget())
        self.schedule = Schedule(dependencies(needed, self.queries))
        self.connection = duckdb.connect(
            config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}
        )
        self.wave = Wave(self.schedule, self.connection)
        self.schemas = schemas(self.program)
        self.tin: int | None = None
        self.closed = False
        self._start: int | None = None  # the schedule began before this input time
        self._done: int | None = None  # the input time up to which waves have run
        self._first: int | None = None  # first and last tick seen
        self._last: int | None = None
        self._state: dict[str, pa.Table] = {}
        self._waiting: dict[str, list[pa.Table]] = {}  # facts not yet in a wave
        self._rigid_facts(rigid or {})

    def push(self, tick: int, facts: Mapping[str, Rows] | None = None) -> Step:
        """Deliver a tick: everything up to tick - lateness has now arrived."""
        if self.closed:
            raise ValueError("the stream is closed")
        if not -TIME_MAX <= tick <= TIME_MAX:
            raise ValueError(f"tick {tick} does not fit 62 bits")
        if self._last is not None and self.tin is not None and tick - self.lateness < self.tin:
            raise ValueError(f"tick {tick} comes after everything up to {self.tin} had arrived")
        late: dict[str, Late] = {}
        for name, rows in (facts or {}).items():
            back = self._take(name, rows, tick)
            if back:
                late[name] = back
        self._seen(tick)
        self.tin = tick - self.lateness
        return self._step(self.tin, late)

    def close(self) -> Step:
        """No more input: everything up to the last tick seen is final."""
        if self.closed:
            raise ValueError("the stream is closed")
        self.closed = True
        if self._last is None:
            self.connection.close()
            return Step(self._nothing(), None, None, 0)
        self.tin = self._last
        step = self._step(self.schedule.last(self._last), {})
        self.connection.close()
        return Step(step.answers, self._last, self._last, step.history)

    def run(self, source: Iterable[tuple[int, Mapping[str, Rows]]]) -> Iterator[Step]:
        """Push every (tick, facts) of a source, then close."""
        for tick, facts in source:
            yield self.push(tick, facts)
        yield self.close()

    @property
    def history(self) -> int:
        """How many facts are kept, inputs and derived slices together."""
        waiting: int = sum(t.num_rows for tables in self._waiting.values() for t in tables)
        return waiting + sum(bits(table) for table in self._state.values())

    # Facts in

    def _rigid_facts(self, rigid: Mapping[str, Rows]) -> None:
        for name in rigid:
            if name not in self.schemas or self.schemas[name].time is not None:
                raise DataError(f"`{name}` is not a rigid input of the rules")
        self._inputs: dict[str, str] = {}
        for number, predicate in enumerate(self.schedule.deps.core.inputs):
            schema = self.schemas[predicate.source]
            name = f"new{number}"
            self._inputs[predicate.name] = name
            rows = rigid.get(predicate.source, ())
            table = _typed(in_memory(schema, rows, None) if schema.time is None else None, schema)
            self.connection.register(name, table)

    def _take(self, name: str, rows: Rows, tick: int) -> Late:
        """Keep what is in time; hand the rest back."""
        schema = self.schemas.get(name)
        if schema is None or schema.time is None:
            raise DataError(f"`{name}` is not a temporal input of the rules")
        table = _typed(in_memory(schema, _timed(rows, schema, tick), None), schema)
        times = table.column("t").to_pylist()
        fine = [self._in_time(t, tick) for t in times]
        for t, ok in zip(times, fine, strict=True):
            if ok:
                self._seen(t)
        self._waiting.setdefault(name, []).append(table.filter(pa.array(fine, pa.bool_())))
        return [
            tuple(row.values()) for row, ok in zip(table.to_pylist(), fine, strict=True) if not ok
        ]

    def _in_time(self, time: int, tick: int) -> bool:
        if self.tin is not None and time <= self.tin:
            return False
        return self.max_jump is None or time <= tick + self.max_jump

    def _seen(self, tick: int) -> None:
        self._first = tick if self._first is None else min(self._first, tick)
        self._last = tick if self._last is None else max(self._last, tick)

    # Waves

    def _step(self, to: int, late: dict[str, Late]) -> Step:
        earliest = self._first
        if self._start is None:
            start = self.schedule.first(earliest)
            if to <= start:
                return Step(self._nothing(), self.tin, None, self.history, late)
            self._start = self._done = start
        assert self._done is not None
        assert self._first is not None
        low = self._first if self.from_ is None else self.from_
        assert self.tin is not None
        emit = Range(low, self.tin) if low <= self.tin else EMPTY
        self._offer()
        waved = self.wave.run(self._state, self._inputs, self._start, self._done, to, emit)
        self._state = waved.state
        self._done = to
        answers = {q: self._named(q, table) for q, table in waved.answers.items()}
        return Step(answers, self.tin, self._tout(to), self.history, late)

    def _offer(self) -> None:
        """New facts as tables for the wave; they are state from then on."""
        for predicate in self.schedule.deps.core.inputs:
            schema = self.schemas[predicate.source]
            if schema.time is not None:
                tables = self._waiting.get(predicate.source, [])
                table = pa.concat_tables(tables) if tables else _typed(None, schema)
                self.connection.unregister(self._inputs[predicate.name])
                self.connection.register(self._inputs[predicate.name], table)
        self._waiting.clear()

    def _tout(self, to: int) -> int | None:
        assert self._start is not None
        ends = [
            self.schedule.frontier(q, to, self._start)
            for q in self.queries
            if q in self.schedule.phi
        ]
        assert self.tin is not None
        return min([*ends, self.tin])

    def _nothing(self) -> dict[str, pa.Table]:
        return {q: self._named(q, None) for q in self.queries}

    def _named(self, query: str, table: pa.Table | None) -> pa.Table:
        names = list(self.program.output_columns(query))
        predicate = self.schedule.deps.core.predicates[query]
        if predicate.temporal:
            names.append(TIME_COLUMN)
        if table is None:
            types = [_ARROW[t or Type.TEXT] for t in predicate.types]
            types += [pa.int64()] if predicate.temporal else []
            return (
                pa.table([pa.array([], t) for t in types], names=names)
                if names
                else pa.table({"holds": pa.array([], pa.bool_())})
            )
        if not names:
            return pa.table({"holds": pa.array([True] * table.num_rows, pa.bool_())})
        return table.rename_columns(names)


_ARROW = {
    Type.TEXT: pa.string(),
    Type.INT: pa.int64(),
    Type.FLOAT: pa.float64(),
    Type.BOOL: pa.bool_(),
}


def _timed(rows: Rows, schema: Schema, tick: int) -> Any:
    """Rows without a time are at the tick they come with."""
    if not isinstance(rows, (list, tuple)):
        return rows
    wanted = len(schema.columns)
    return [
        (*row, tick) if isinstance(row, (tuple, list)) and len(row) == wanted else row
        for row in rows
    ]


def _typed(part: object, schema: Schema) -> pa.Table:
    """Facts under the names and types the SQL expects, without rows that have a NULL."""
    names = [f"a{i}" for i in range(1, len(schema.columns) + 1)]
    types = [_ARROW[c.type or Type.TEXT] for c in schema.columns]
    if schema.time is not None:
        names.append("t")
        types.append(pa.int64())
    if not names:
        names, types = ["z"], [pa.int64()]
    if part is None:
        return pa.table([pa.array([], t) for t in types], names=names)
    assert isinstance(part, Table)
    try:
        columns = [c.cast(t) for c, t in zip(part.table.columns, types, strict=True)]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"{part.origin}: {error}") from None
    return pa.table(columns, names=names).drop_null()
