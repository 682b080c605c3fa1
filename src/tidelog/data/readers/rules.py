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
from tidelog.language.program import Constant, Program, Rule, TimePoint, Value


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
        rows.setdefault(schema.predicate, []).append(_values(statement, schema, where))
        places.setdefault(schema.predicate, []).append(where)
    return {
        name: table_of(known[name], values, places[name], str(path), None)
        for name, values in rows.items()
    }


def _values(rule: Rule, schema: Schema, where: str) -> tuple[Value, ...]:
    """The values of a ground fact, time last."""
    head = rule.head
    if (head.time is None) != (schema.time is None) or len(head.args) != len(schema.columns):
        raise DataError(
            f"{where}: `{head.predicate}` has {len(schema.columns)} arguments and"
            f" {'a' if schema.time else 'no'} time in the rules"
        )
    values = [t.value for t in head.args if isinstance(t, Constant)]
    if isinstance(head.time, TimePoint):
        values.append(head.time.tick)
    if len(values) != len(schema.names):
        raise DataError(f"{where}: a fact has no variables")
    return tuple(values)
