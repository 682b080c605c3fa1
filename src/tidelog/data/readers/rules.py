"""Facts in the syntax of rules: a `.tdl` file of ground facts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tidelog.data.readers.memory import Table, table_of
from tidelog.data.schema import Schema, schema_of
from tidelog.errors import DataError
from tidelog.language.checks import decode
from tidelog.language.diagnostics import ProgramError
from tidelog.language.parser import parse_source
from tidelog.language.program import Constant, Program, Rule, Value, fixed_ticks

# A fact at an interval is a row for each of its ticks.
MOST_TICKS = 1_000_000


def read_rules(path: Path, program: Program, known: Mapping[str, Schema]) -> dict[str, Table]:
    """The facts of each input that a file has facts of; times are ticks."""
    source, unreadable = decode(path.read_bytes(), str(path))
    parsed = parse_source(source)
    if unreadable is not None or parsed.diagnostics:
        raise ProgramError([unreadable] if unreadable else parsed.diagnostics, source)
    rows: dict[str, list[tuple[Value, ...]]] = {}
    places: dict[str, list[str]] = {}
    for statement in parsed.program.statements:
        where = str(statement.origin)
        if not isinstance(statement, Rule) or statement.body:
            raise DataError(f"{where}: a file of facts holds facts only, such as `P(a, 1) @ 5.`")
        schema = schema_of(statement.head.predicate, program, known, where)
        values = _values(statement, schema, where)
        rows.setdefault(schema.predicate, []).extend(values)
        places.setdefault(schema.predicate, []).extend([where] * len(values))
    return {
        name: table_of(known[name], values, places[name], str(path), None)
        for name, values in rows.items()
    }


def _values(rule: Rule, schema: Schema, where: str) -> list[tuple[Value, ...]]:
    """The values of a ground fact, time last, at each of its ticks."""
    head = rule.head
    if (head.time is None) != (schema.time is None) or len(head.args) != len(schema.columns):
        raise DataError(
            f"{where}: `{head.predicate}` has {len(schema.columns)} arguments and"
            f" {'a' if schema.time else 'no'} time in the rules"
        )
    values = tuple(t.value for t in head.args if isinstance(t, Constant))
    ticks = fixed_ticks(head.time)
    if len(values) != len(head.args) or (head.time is not None and not ticks):
        raise DataError(f"{where}: a fact has no variables")
    if len(ticks) > MOST_TICKS:
        raise DataError(
            f"{where}: an interval of {len(ticks)} ticks is too long for a file of facts, which has"
            f" a fact for each; {MOST_TICKS} are the most. In the rules it may be of any length"
        )
    return [values] if head.time is None else [(*values, tick) for tick in ticks]
