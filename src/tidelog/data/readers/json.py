"""JSON lines: `{"predicate": ..., <columns>, "time": ...}`, one fact a line.

What is wrong with a line is a ValueError without its place: a file, standard input and Spark each
know their own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from tidelog.data.letters import DeadLetter
from tidelog.data.readers.files import opened, stem_of
from tidelog.data.readers.memory import Table, table_of
from tidelog.data.schema import Schema, schema_of
from tidelog.data.ticks import Ticks, fitting_tick
from tidelog.data.types import ANY_VALUE, common_type, finite, fit
from tidelog.errors import DataError
from tidelog.language.program import TIME_COLUMN, Program, Type


def read_json_lines(
    path: Path,
    program: Program,
    known: Mapping[str, Schema],
    only: Schema | None,
    ticks: Ticks | None,
    wanted: Container[str] | None = None,
    aside: list[DeadLetter] | None = None,
) -> dict[str, Table]:
    """The facts of each input that a file has lines of; its name may say which input that is.

    A line that cannot be read is an error; with `aside`, one of a wanted input goes there.
    """
    rows: dict[str, list[tuple[Any, ...]]] = {}
    places: dict[str, list[str]] = {}
    if only is None and stem_of(path) in known:
        only = known[stem_of(path)]
    if only is not None and all(column.type for column in only.columns):
        rows[only.predicate], places[only.predicate] = [], []  # known also if there is no line
    with opened(path) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            where, name = f"{path}:{number}", None
            try:
                record = parse_line(line)
                if is_heartbeat(record, only):
                    continue  # all facts of a file are there
                name = predicate_of(record, only.predicate if only else None)
                if only is not None and name != only.predicate:
                    raise ValueError(f"`{name}` in a file of `{only.predicate}` facts")
                if aside is not None:
                    if name not in known:
                        raise ValueError(f"no input is called `{name}`")
                    if wanted is not None and name not in wanted:
                        continue
                    typed_values(record, known[name], ticks)
                schema = schema_of(name, program, known, where)
                rows.setdefault(name, []).append(written_values(record, schema))
            except ValueError as error:
                if aside is None:
                    raise DataError(f"{where}: {error}") from None
                aside.append(DeadLetter(name, str(error), where, line_as_json(line)))
                continue
            places.setdefault(name, []).append(where)
    return {
        name: table_of(known[name], values, places[name], str(path), ticks)
        for name, values in rows.items()
    }


def parse_line(line: bytes | str) -> dict[str, Any]:
    """
    >>> parse_line('{"predicate": "P", "x": 1e400}')
    Traceback (most recent call last):
    ValueError: `1e400` does not fit a float
    """
    try:
        record = json.loads(line, parse_float=finite)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"not JSON: {error}") from None
    except RecursionError as error:
        raise ValueError(str(error)) from None
    if not isinstance(record, dict):
        raise ValueError('a line is an object, such as {"predicate": "P"}')
    return record


def predicate_of(record: Mapping[str, Any], otherwise: str | None = None) -> str:
    """What a line is a fact of: it says so, or its file does."""
    name = record.get("predicate", otherwise)
    if not isinstance(name, str):
        raise ValueError('no "predicate" says what this line is a fact of')
    return name


def is_heartbeat(record: Mapping[str, Any], schema: Schema | None) -> bool:
    """Whether a line is no fact and says only that everything before its time has arrived.

    `schema` is of the input that all lines of the file are of. One without arguments has facts
    that look the same.
    """
    return list(record) == [TIME_COLUMN] and (schema is None or bool(schema.columns))


def written_values(record: Mapping[str, Any], schema: Schema) -> tuple[Any, ...]:
    """The values of a line in the schema's order, time last, as they are written."""
    names = list(schema.names)
    if schema.time is not None and schema.time not in record and TIME_COLUMN in record:
        names[-1] = TIME_COLUMN
    if not schema.declared:
        # Undeclared columns have no names: they come in the order in which they are written.
        values = [v for k, v in record.items() if k not in ("predicate", TIME_COLUMN)]
        if schema.time is not None:
            if TIME_COLUMN not in record:
                raise ValueError(f"no `{TIME_COLUMN}`, and `{schema.predicate}` has one")
            values.append(record[TIME_COLUMN])
        if len(values) != len(names):
            raise ValueError(f"`{schema.predicate}` has {len(schema.columns)} columns")
        return _with_infinity(values, schema)
    for name in names:
        if name not in record:
            raise ValueError(f"no column `{name}`, which `{schema.predicate}` declares")
    return _with_infinity((record[name] for name in names), schema)


def _with_infinity(values: Iterable[Any], schema: Schema) -> tuple[Any, ...]:
    """Values as they are written, but for the floats that JSON can only write as texts."""
    read = list(values)
    for i, column in enumerate(schema.columns):
        if column.type is Type.FLOAT and isinstance(read[i], str):
            read[i] = {"Infinity": math.inf, "-Infinity": -math.inf}.get(read[i], read[i])
    return tuple(read)


def typed_values(record: Mapping[str, Any], schema: Schema, ticks: Ticks | None) -> tuple[Any, ...]:
    """The values of a line, of their types, time last; ValueError where one is missing."""
    values = list(written_values(record, schema))
    time = None if schema.time is None else values.pop()
    typed: list[Any] = []
    for i, (value, column) in enumerate(zip(values, schema.columns, strict=True)):
        type_ = column.type or common_type([value])
        try:
            fitting = fit(value, type_)
        except ValueError as error:
            raise ValueError(f"column `{column.name}`: {error}") from None
        if fitting is None or fitting != fitting:
            if i not in schema.unread:
                problem = "no value" if fitting is None else "NaN"
                raise ValueError(f"{problem} in column `{column.name}`")
            fitting = ANY_VALUE[type_]
        typed.append(fitting)
    if schema.time is None:
        return tuple(typed)
    if time is None:
        raise ValueError(f"no value in column `{schema.time}`")
    return *typed, tick_value(time, str(schema.time), ticks)


def line_as_json(line: bytes | str) -> str:
    """A line as it came: the object that it holds without its predicate, or else its text.

    >>> line_as_json('{"predicate": "P", "x": null}'), line_as_json("{oops")
    ('{"x": null}', '"{oops"')
    """
    text = line.decode(errors="backslashreplace") if isinstance(line, bytes) else line
    try:
        record = parse_line(text)
        row = {key: value for key, value in record.items() if key != "predicate"}
        written = json.dumps(row, ensure_ascii=False, allow_nan=False)
        written.encode()  # half a character, which JSON can escape, is nothing that can be written
        return written
    except ValueError:
        return json.dumps(text.rstrip("\r\n"), ensure_ascii=False)


def tick_value(value: Any, column: str, ticks: Ticks | None) -> int:
    """The tick of a time in a column of some name."""
    try:
        return fitting_tick(value, ticks)
    except ValueError as error:
        raise ValueError(f"column `{column}`: {error}") from None
