"""JSON lines: `{"predicate": ..., <columns>, "time": ...}`, one fact a line.

What is wrong with a line is a ValueError without its place: a file, standard input and Spark each
know their own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidelog.data.bounds import read_json, reason_text, short
from tidelog.data.letters import DeadLetter
from tidelog.data.readers.files import opened, stem_of
from tidelog.data.readers.memory import Table, table_of
from tidelog.data.schema import Schema, positions, schema_of
from tidelog.data.ticks import Ticks, fitting_tick
from tidelog.data.types import ANY_VALUE, common_type, fit
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

    Only the lines of `wanted` inputs are read, where it is given. One of them that cannot be read
    is an error, or goes `aside`, as do lines of which nobody can say what they are facts of.
    """
    if only is None and stem_of(path) in known:
        only = known[stem_of(path)]
    if only is not None and wanted is not None and only.predicate not in wanted:
        return {}
    file = _LinesFile(path, program, known, only, ticks, wanted, aside)
    if only is not None and all(column.type for column in only.columns):
        file.rows[only.predicate] = []  # known also if there is no line
    with opened(path) as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                file.read(line, f"{path}:{number}")
    return file.tables()


@dataclass
class _LinesFile:
    """The lines of one file, as they are read; see `read_json_lines`."""

    path: Path
    program: Program
    known: Mapping[str, Schema]
    only: Schema | None
    ticks: Ticks | None
    wanted: Container[str] | None
    aside: list[DeadLetter] | None
    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    places: dict[str, list[str]] = field(default_factory=dict)
    keys: dict[str, dict[str, None]] = field(
        default_factory=dict
    )  # by input, those that any line has

    def read(self, line: bytes, where: str) -> None:
        """Take the fact of a line, or say what is wrong with it."""
        name = None if self.only is None else self.only.predicate
        try:
            record = parse_line(line)
            if is_heartbeat(record, self.only):
                return  # all facts of a file are there
            name = predicate_of(record, name)
            if self.only is not None and name != self.only.predicate:
                said, name = name, self.only.predicate
                raise ValueError(f"`{short(said)}` in a file of `{name}` facts")
            if not self._is_left(name):
                self._take(record, name, where)
        except ValueError as error:
            if self._is_left(name):
                return
            if self.aside is None:
                raise DataError(f"{where}: {reason_text(error)}") from None
            self.aside.append(DeadLetter(name, str(error), where, line_as_json(line)))

    def _is_left(self, name: str | None) -> bool:
        """Whether a line is of none of the inputs that are read here."""
        if self.wanted is None or name in self.wanted:
            return False
        return self.aside is None or name in self.known

    def _take(self, record: Mapping[str, Any], name: str, where: str) -> None:
        if self.aside is None:
            schema_of(name, self.program, self.known, where)
        elif name not in self.known:
            raise ValueError(f"no input is called `{short(name)}`")
        else:
            typed_values(record, self.known[name], self.ticks)
        values = written_values(record, self.known[name])
        self.rows.setdefault(name, []).append(values)
        self.places.setdefault(name, []).append(where)
        self.keys.setdefault(name, {}).update(dict.fromkeys(record))

    def tables(self) -> dict[str, Table]:
        for name, there in self.keys.items() if self.aside is None else ():
            _expect_keys(there, self.known[name], self.path)
        return {
            name: table_of(
                self.known[name], values, self.places.get(name, []), str(self.path), self.ticks
            )
            for name, values in self.rows.items()
        }


def _expect_keys(there: Collection[str], schema: Schema, path: Path) -> None:
    """DataError for a declared column that no line has: that is no missing value, but a slip."""
    for name in schema.names if schema.declared else ():
        if name not in there and not (name == schema.time and TIME_COLUMN in there):
            positions([key for key in there if key != "predicate"], schema, str(path))


def parse_line(line: bytes | str) -> dict[str, Any]:
    """
    >>> parse_line('{"predicate": "P", "x": 1e400}')
    Traceback (most recent call last):
    ValueError: `1e400` does not fit a float
    """
    try:
        record = read_json(line if isinstance(line, str) else line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(record, dict):
        raise ValueError('a line is an object, such as {"predicate": "P"}')
    return record


def predicate_of(record: Mapping[str, Any], otherwise: str | None = None) -> str:
    """What a line is a fact of: it says so, or its file does."""
    name = record.get("predicate", otherwise)
    if not isinstance(name, str):
        raise ValueError('no "predicate" says what this line is a fact of')
    return name


def _predicate_in_file(record: Mapping[str, Any], only: Schema | None) -> str:
    """What a line of a file is a fact of; `only` is of the input that all of them are of."""
    name = predicate_of(record, only.predicate if only else None)
    if only is not None and name != only.predicate:
        raise ValueError(f"`{name}` in a file of `{only.predicate}` facts")
    return name


def is_heartbeat(record: Mapping[str, Any], schema: Schema | None) -> bool:
    """Whether a line is no fact and says only that everything before its time has arrived.

    `schema` is of the input that all lines of the file are of. One without arguments has facts
    that look the same.
    """
    return list(record) == [TIME_COLUMN] and (schema is None or bool(schema.columns))


def written_values(record: Mapping[str, Any], schema: Schema) -> tuple[Any, ...]:
    """The values of a line in the schema's order, time last, as they are written.

    A key that is not there is as one without a value.
    """
    names = list(schema.names)
    if schema.time is not None and schema.time not in record and TIME_COLUMN in record:
        names[-1] = TIME_COLUMN
    if not schema.declared:
        # Undeclared columns have no names: they come in the order in which they are written.
        values = [v for k, v in record.items() if k not in ("predicate", TIME_COLUMN)]
        if schema.time is not None:
            values.append(record.get(TIME_COLUMN))
        if len(values) != len(names):
            raise ValueError(f"`{schema.predicate}` has {len(schema.columns)} columns")
        return _with_infinity(values, schema)
    return _with_infinity((record.get(name) for name in names), schema)


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
                raise ValueError(f"{problem} in column `{column.name}`{_why(column.name, record)}")
            fitting = ANY_VALUE[type_]
        typed.append(fitting)
    if schema.time is None:
        return tuple(typed)
    if time is None:
        name = str(schema.time)
        raise ValueError(f"no value in column `{name}`{_why(name, record)}")
    return *typed, tick_value(time, str(schema.time), ticks)


def _why(name: str, record: Mapping[str, Any]) -> str:
    """Why a column has no value, if that is because the line has no such key."""
    return "" if name in record else "; the line has no such key"


def line_as_json(line: bytes | str) -> str:
    """A line as it came: the object that it holds without its predicate, or else its text.

    >>> line_as_json('{"predicate": "P", "x": null}'), line_as_json("{oops")
    ('{"x": null}', '"{oops"')
    """
    text = line if isinstance(line, str) else line.decode("utf-8-sig", "backslashreplace")
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
