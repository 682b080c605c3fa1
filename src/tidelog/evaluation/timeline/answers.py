"""Facts for the timeline out of an engine, and its answers as tables."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pyarrow as pa

from tidelog.analysis.passes import passes
from tidelog.data.packed import columns
from tidelog.data.types import arrow_type
from tidelog.evaluation.duckdb import Engine, with_periods
from tidelog.evaluation.ranges import EMPTY, Range
from tidelog.evaluation.timeline.limit import Limit
from tidelog.evaluation.timeline.line import Timeline, evaluate
from tidelog.language.program import Row, Type
from tidelog.logic.core import Core


def answers(
    engine: Engine,
    queries: Iterable[str],
    from_: int | float | None,
    to: int | float | None,
    budget: float,
) -> dict[str, pa.Table]:
    """The answers of some queries over an engine's facts, evaluated on the timeline.

    Where the range has no end, a column `period` says how each answer repeats.
    """
    queries = tuple(queries)
    deps = passes(engine.typed, queries).dependencies
    span = engine.span
    asked = Range(span.low if from_ is None else from_, span.high if to is None else to)
    if asked.low == math.inf or asked.high == -math.inf:
        asked = EMPTY
    limit = Limit.of(deps, budget, engine.progress)
    lines = evaluate(deps.core, history(engine, deps.core), queries, asked, limit)
    return {query: _table(engine, query, deps.core, lines[query], asked) for query in queries}


def history(
    engine: Engine, whole: Core, until: float = math.inf, since: float = -math.inf
) -> dict[str, list[tuple[Row, int | None]]]:
    """The facts of a core's inputs from a tick to a tick and without a time, as rows."""
    facts: dict[str, list[tuple[Row, int | None]]] = {}
    times = [f"t >= {since}"] * math.isfinite(since) + [f"t <= {until}"] * math.isfinite(until)
    where = f" WHERE {' AND '.join(times)}" if times else ""
    for predicate in whole.inputs:
        names = columns(len(predicate.types))
        view = engine.loaded[predicate.base].view
        if predicate.temporal:
            rows = engine.all(f"SELECT DISTINCT {', '.join([*names, 't'])} FROM {view}{where}")
            facts[predicate.name] = [(row[:-1], row[-1]) for row in rows]
        else:
            rows = engine.all(f"SELECT DISTINCT {', '.join(names) or '1'} FROM {view}")
            facts[predicate.name] = [(row[: len(names)], None) for row in rows]
    return facts


def _table(engine: Engine, query: str, whole: Core, line: Timeline, asked: Range) -> pa.Table:
    predicate = whole.predicates[query]
    endless = math.isinf(asked.low) or math.isinf(asked.high)
    rows: list[tuple[Row, int | None, int | None]] = [(row, t, None) for row, t in line.rows]
    rows += [(row, t, period) for row, t, period in line.repeated]
    rows.sort(key=lambda r: (r[1] or 0, r[0], r[2] or 0))
    arrays = [
        pa.array([row[i] for row, _, _ in rows], arrow_type(type_ or Type.TEXT))
        for i, type_ in enumerate(predicate.types)
    ]
    names = columns(len(arrays))
    if predicate.temporal:
        arrays.append(pa.array([t for _, t, _ in rows], pa.int64()))
        names.append("t")
    if not arrays:
        arrays, names = [pa.array([1] * len(rows), pa.int64())], ["z"]
    table = engine.named(predicate, pa.table(arrays, names=names))
    if predicate.temporal and endless:
        return with_periods(table, [period for _, _, period in rows])
    return table
