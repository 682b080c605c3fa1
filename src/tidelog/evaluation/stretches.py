"""Answers as people think of them: from when to when, instead of a row for every tick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa

from tidelog.data.ticks import Ticks
from tidelog.data.writers import stamped
from tidelog.errors import DataError
from tidelog.evaluation.database import NO_EXTENSIONS
from tidelog.language.program import TIME_COLUMN


def end_columns(names: Sequence[str]) -> tuple[str, str]:
    """`from` and `to`, beside arguments of these names.

    >>> end_columns(["x"]), end_columns(["from", "from2"])
    (('from', 'to'), ('from3', 'to'))
    """
    return _unused("from", names), _unused("to", names)


def _unused(name: str, taken: Sequence[str]) -> str:
    """The name, numbered where an argument has it already."""
    chosen, n = name, 2
    while chosen in taken:
        chosen, n = f"{name}{n}", n + 1
    return chosen


def named_stretches(table: pa.Table, names: Sequence[str], ticks: Ticks | None) -> pa.Table:
    """Arguments, first and last tick under the names, and with the times, that users see."""
    if ticks is not None:
        table = stamped(table, 2, ticks)
    return table.rename_columns([*names, *end_columns(names)])


def as_intervals(answers: Mapping[str, pa.Table], ticks: Ticks | None) -> dict[str, pa.Table]:
    """The answers of queries, a row for each tick, as stretches; those without end are none."""
    if any(TIME_COLUMN in t.column_names[:-1] for t in answers.values()):
        raise DataError("intervals have ends: ask for a finite range of times")
    return {query: stretches(table, ticks) for query, table in answers.items()}


def stretches(answers: pa.Table, ticks: Ticks | None) -> pa.Table:
    """The longest stretches of ticks at which each answer holds, by their first tick.

    `from` and `to` are the first and the last tick. Answers without a time stay as they are.

    >>> rows = pa.table({"x": ["a", "a", "a"], "time": [1, 2, 5]})
    >>> stretches(rows, None).to_pylist()
    [{'x': 'a', 'from': 1, 'to': 2}, {'x': 'a', 'from': 5, 'to': 5}]
    """
    names = answers.column_names
    if not names or names[-1] != TIME_COLUMN:
        return answers
    args = [f"a{i}" for i in range(len(names) - 1)]
    at = "t"
    if ticks is not None and pa.types.is_temporal(answers.schema.types[-1]):
        at = f"(epoch_us(t) - {ticks.origin}) // {ticks.length}"
    by = f"PARTITION BY {', '.join(args)} " if args else ""
    groups = ", ".join([*args, "g"])
    rows = answers.rename_columns([*args, "t"])
    with duckdb.connect(config=NO_EXTENSIONS) as connection:
        connection.register("answers", rows)
        run = f"SELECT *, {at} - row_number() OVER ({by}ORDER BY t) AS g FROM answers"
        table: pa.Table = connection.sql(
            f"SELECT {', '.join([*args, 'min(t)', 'max(t)'])} FROM ({run}) AS r"
            f" GROUP BY {groups} ORDER BY {', '.join(['min(t)', *args])}"
        ).to_arrow_table()
    named = [*names[:-1], *end_columns(names[:-1])]
    types = [*answers.schema.types, answers.schema.types[-1]]
    fields = zip(named, types, strict=True)
    return table.rename_columns(named).cast(pa.schema(list(fields)))
