"""CSV: DuckDB reads it fast; Python's reader reads it again to name the line of a bad value."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.data.bounds import finite, short
from tidelog.data.readers.files import opened
from tidelog.data.remedies import STAMP, TICK, remedied, remedies_for
from tidelog.data.schema import Schema, positions
from tidelog.data.ticks import NEEDS_TICK, PATTERN, Ticks, check_tick, needs_tick, tick_sql
from tidelog.data.types import (
    SQL_TYPES,
    filled_sql,
    fit,
    one_zero,
    sql_path,
    sql_text,
)
from tidelog.errors import DataError, first_line
from tidelog.language.program import TIME_MAX, Type

PATTERNS = {
    Type.INT: r"[ \t]*[+-]?[0-9]+[ \t]*",
    Type.FLOAT: r"[ \t]*[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?[ \t]*",
    Type.BOOL: r"(?i)[ \t]*(true|false)[ \t]*",
}
# Written so on purpose, unlike a number that is too large.
NOT_FINITE = r"(?i)[ \t]*([+-]?inf(inity)?|nan)[ \t]*"

_MOST_PROBLEMS = 5


# The header, and rows as Python reads them


@dataclass(frozen=True)
class Header:
    """The first row of a CSV file, and how its line ends."""

    names: tuple[str, ...]
    positions: tuple[int, ...]
    ending: str


def read_header(path: Path, schema: Schema) -> Header:
    """The column names of a CSV file, checked against the schema."""
    for _, row, ending in _rows(path):
        if not row:
            break
        return Header(tuple(row), tuple(positions(row, schema, f"{path}:1")), ending)
    raise DataError(f"{path}:1: the file is empty; its first line names the columns")


def _rows(path: Path) -> Iterator[tuple[int, list[str], str]]:
    """The rows of a CSV file, each with the line it starts on and how it ends."""
    csv.field_size_limit(2**31 - 1)
    last = ""

    def lines(file: TextIO) -> Iterator[str]:
        nonlocal last
        for line in file:
            last = line
            yield line

    start = 1
    with (
        opened(path) as packed,
        io.TextIOWrapper(packed, "utf-8-sig", "surrogateescape", newline="") as file,
    ):
        reader = csv.reader(lines(file), strict=True)
        try:
            for row in reader:
                if any(_undecodable(value) for value in row):
                    raise DataError(f"{path}:{start}: not UTF-8 text")
                yield start, row, last[len(last.rstrip("\r\n")) :]
                start = reader.line_num + 1
        except csv.Error as error:
            raise DataError(f"{path}:{start}: not CSV: {error}") from None


def _undecodable(text: str) -> bool:
    return not text.isascii() and any("\udc80" <= c <= "\udcff" for c in text)


def _is_sound(path: Path, size: int) -> bool:
    """Whether every row has so many values, by Python's reader, which takes any end of line."""
    try:
        return all(len(row) in (0, size) for _, row, _ in _rows(path))
    except DataError:
        return False


def find_problems(path: Path, schema: Schema, ticks: Ticks | None) -> list[str]:
    """The first few values of a CSV file that do not fit, each with its line."""
    header = read_header(path, schema)
    problems: list[str] = []
    rows = _rows(path)
    next(rows)
    for line, row, _ in rows:
        if not row:
            continue
        if len(row) != len(header.names):
            problems.append(f"{path}:{line}: {len(row)} values for {len(header.names)} columns")
        else:
            for i, name in enumerate(schema.names):
                text = row[header.positions[i]]
                is_time = schema.time is not None and i == len(schema.columns)
                type_ = Type.INT if is_time else schema.columns[i].type or Type.TEXT
                problem = _problem(text, type_, is_time, ticks)
                if problem:
                    problems.append(f"{path}:{line}: column `{name}`: {problem}")
        if len(problems) > _MOST_PROBLEMS:
            return [*problems[:_MOST_PROBLEMS], f"{path}: and perhaps more"]
    return problems


def _problem(text: str, type_: Type, is_time: bool, ticks: Ticks | None) -> str | None:
    """Why a text is no value of a type; None when it is one, or empty."""
    if text == "":
        return None
    try:
        if is_time and ticks is not None:
            ticks.tick(text)
        elif type_ in PATTERNS:
            if type_ is Type.FLOAT and re.fullmatch(NOT_FINITE, text):
                return None
            if not re.fullmatch(PATTERNS[type_], text):
                if is_time and needs_tick(text):
                    return f"`{short(text)}` {NEEDS_TICK}"
                kind = TICK if is_time else type_.value
                return remedied(f"`{short(text)}` is not {type_.value}", text, kind)
            if is_time:
                check_tick(int(text))
            elif type_ is Type.INT:
                fit(int(text), Type.INT)
            elif type_ is Type.FLOAT:
                finite(text)
    except ValueError as problem:
        return str(problem)
    return None


# Files as tables


def read_table(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    path: Path,
    schema: Schema,
    ticks: Ticks | None,
) -> str:
    """A CSV file as a typed table; a select of its facts, or DataError for values that do not fit.

    What does not fit is noticed here; only then is the file read again for the lines.
    """
    header = read_header(path, schema)
    names = [f"c{i}" for i in range(len(header.names))]
    values, bad = [], []
    for i, position in enumerate(header.positions):
        column = names[position]
        if i == len(schema.columns):
            value = _time_sql(column, ticks)
        else:
            value = _value_sql(column, schema.columns[i].type or Type.TEXT)
        values.append(value)
        if value != column:
            bad.append(f"({column} <> '' AND {value} IS NULL)")
    columns = schema.sql_names()
    listed = ", ".join(f"{v} AS {n}" for v, n in zip(values or ["1"], columns, strict=True))
    select = f"SELECT {listed}, {' OR '.join(bad) or 'FALSE'} AS bad"
    create = f"CREATE OR REPLACE TEMP TABLE {table} AS {select}"
    try:
        connection.execute(f"{create} FROM {_source(path, names, header.ending)}")
    except duckdb.Error as error:
        if problems := find_problems(path, schema, ticks):
            raise DataError(*problems) from None
        # Python's reader has no objection: ends of line that differ, or very long lines.
        try:
            with _uniform(path) as (copy, longest):
                connection.execute(f"{create} FROM {_source(copy, names, NEWLINE, longest)}")
        except duckdb.Error:
            raise DataError(f"{path}: {first_line(error)}") from None
    count = connection.execute(f"SELECT count(*) FROM {table} WHERE bad").fetchall()[0][0]
    if count:
        problems = find_problems(path, schema, ticks)
        raise DataError(*problems or [f"{path}: {count} rows have a value that does not fit"])
    return f"SELECT {', '.join(columns)} FROM {table}"


# What DuckDB says of a row that it rejects, in our words.
_REJECTED = {
    "MISSING COLUMNS": "the row has too many or too few values",
    "TOO MANY COLUMNS": "the row has too many or too few values",
    "UNQUOTED VALUE": "a quote is not closed, or text follows it",
    "INVALID ENCODING": "not UTF-8 text",
}


def read_texts(
    connection: duckdb.DuckDBPyConnection, table: str, path: Path, size: int, ending: str
) -> list[tuple[str, str]]:
    """The texts of a CSV file, as queries read them, as a table; of other rows what is wrong with
    them, and their text.
    """
    names = [f"c{i}" for i in range(size)]

    rejects = ", store_rejects = true"

    def read(path: Path, ending: str, longest: int = 0, more: str = "") -> None:
        source = _source(path, names, ending, longest, more)
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS FROM {source}")

    try:
        read(path, ending)
        return []
    except duckdb.Error:
        pass
    # As in a query: ends of line that differ, or very long lines, are no reason to refuse.
    try:
        if _is_sound(path, size):
            raise duckdb.Error
        read(path, ending, more=rejects)
    except duckdb.Error:
        try:
            with _uniform(path) as (copy, longest):
                read(copy, NEWLINE, longest, rejects)
        except duckdb.Error as error:
            raise DataError(f"{path}: {first_line(error)}") from None
    rejected = connection.execute(
        "SELECT line, first(error_type), first(csv_line), first(error_message)"
        " FROM reject_errors GROUP BY line ORDER BY line"
    ).fetchall()
    connection.execute("DROP TABLE reject_errors; DROP TABLE reject_scans")
    return [
        (
            f"line {line}: {_REJECTED.get(kind, first_line(said))}: `{text[:60].rstrip()}`",
            text.rstrip("\r\n"),
        )
        for line, kind, text, said in rejected
    ]


def facts_of_texts(table: str, schema: Schema, chosen: Sequence[int], ticks: Ticks | None) -> str:
    """A select of the facts in a table of texts; its column `problem` says why a row is none.

    The column `texts` has what the schema's columns were written as.
    """
    names = schema.sql_names()
    columns = list(zip(names, schema.names, chosen, strict=True))
    types = [column.type or Type.TEXT for column in schema.columns]
    values = [_value_sql(f"c{i}", type_) for type_, i in zip(types, chosen, strict=False)]
    time = f"c{chosen[-1]}"
    values.append(_value_sql(time, Type.INT) if ticks is None else tick_sql(time, ticks))
    kinds = [*(type_.value for type_ in types), "int" if ticks is None else STAMP]
    stamp = (
        f"WHEN {time} <> '' AND t IS NULL AND regexp_full_match(trim({time}, ' \t'),"
        f" {sql_text(PATTERN)}) THEN concat({sql_text(f'column `{schema.time}`: `')}, {time},"
        f" {sql_text(f'` {NEEDS_TICK}')})"
    )
    wrong = [stamp] if ticks is None else []
    wrong += [
        f"WHEN c{i} <> '' AND {name} IS NULL THEN concat({sql_text(f'column `{column}`: `')},"
        f" left(c{i}, 40), {sql_text(f'` is not {kind}')},"
        f" {_remedy_sql(f'c{i}', TICK if name == 't' and ticks is None else kind)})"
        for (name, column, i), kind in zip(columns, kinds, strict=True)
        if kind != Type.TEXT.value
    ]
    missing = [
        f"WHEN {name} IS NULL THEN {sql_text(f'no value in column `{column}`')}"
        for position, (name, column, _) in enumerate(columns)
        if position not in schema.unread
    ]
    nan = [
        f"WHEN isnan({name}) THEN {sql_text(f'NaN in column `{column}`')}"
        for position, ((name, column, _), type_) in enumerate(zip(columns, types, strict=False))
        if type_ is Type.FLOAT and position not in schema.unread
    ]
    far = (
        f"WHEN t NOT BETWEEN {-TIME_MAX} AND {TIME_MAX}"
        " THEN concat('time ', t, ' does not fit 62 bits')"
    )
    cases = [*wrong, *missing[:-1], *nan, missing[-1], far]
    read = ", ".join(f"{v} AS {n}" for v, n in zip(values, names, strict=True))
    given = [
        f"{filled_sql(name, types[i])} AS {name}" if i in schema.unread else name
        for i, name in enumerate(names)
    ]
    texts = f"[{', '.join(f'c{i}' for i in chosen)}] AS texts"
    problem = f"CASE {' '.join(cases)} END AS problem"
    return (
        f"SELECT {', '.join(given)}, {problem}, {texts} FROM (SELECT *, {read} FROM {table}) AS x"
    )


def _remedy_sql(column: str, kind: str) -> str:
    """What to do about the text of a column that is no value of its kind, as SQL."""
    cases = [
        f" WHEN regexp_full_match({column}, {sql_text(pattern)}) THEN {sql_text(f'; {text}')}"
        for pattern, text in remedies_for(kind)
    ]
    return f"CASE{''.join(cases)} ELSE '' END" if cases else "''"


def rows_as_json(schema: Schema, columns: Sequence[pa.Array], stamped: bool) -> pa.Array:
    """Rows as they came, where they have texts: values that were read, and texts that were not.

    The columns are those of `facts_of_texts`. Of timestamps the text is kept, not the tick.
    """
    *values, _, texts = columns
    came: list[str | None] = [None] * len(texts)
    for i in pc.indices_nonzero(pc.is_valid(texts)).to_pylist():
        row: dict[str, Any] = {}
        for name, column, text in zip(schema.names, values, texts[i].as_py(), strict=True):
            value = column[i].as_py()
            finite = not isinstance(value, float) or math.isfinite(value)
            read = text is not None and value is not None and finite
            row[name] = value if read and not (stamped and name == schema.time) else text
        came[i] = json.dumps(row, ensure_ascii=False)
    return pa.array(came, pa.string())


# Files that are not uniform

NEWLINE = "\n"
# Lines that are longer than DuckDB reads unless it is asked to.
_LONG = 1_000_000
_PLAIN = re.compile(rb"[^,\r\n]*")
_TO_CLOSING_QUOTE = re.compile(rb'[^"]*(?:""[^"]*)*"(?!")')
_LINE_END = re.compile(rb"\r\n|\n|\r")


@contextmanager
def _uniform(path: Path) -> Iterator[tuple[Path, int]]:
    """A copy of a CSV file in which all lines end alike, and the bytes of its longest row."""
    with TemporaryDirectory(prefix="tidelog-") as folder:
        copy = Path(folder) / "uniform.csv"
        longest = row = 0
        inside = False  # whether a quoted value goes on in the next line
        with opened(path) as lines, copy.open("wb") as file:
            for line in lines:
                row = row + len(line) if inside else len(line)
                written, inside = _uniform_line(line, inside)
                file.write(written)
                longest = max(longest, row)
        yield copy, longest


def _uniform_line(line: bytes, inside: bool) -> tuple[bytes, bool]:
    r"""What ends at a newline, with that as every end of a row; and whether a quote is open then.

    >>> _uniform_line(b'a,"b\r\n', False), _uniform_line(b'c"\rd\r\n', True)
    ((b'a,"b\r\n', True), (b'c"\nd\n', False))
    """
    if not inside and b'"' not in line:
        return _LINE_END.sub(b"\n", line), False
    parts: list[bytes] = []
    at = 0
    while at < len(line):
        if not inside and line.startswith(b'"', at):
            parts.append(b'"')
            at, inside = at + 1, True
        if inside:
            closed = _TO_CLOSING_QUOTE.match(line, at)
            if closed is None:
                return b"".join([*parts, line[at:]]), True
            parts.append(closed[0])
            at, inside = closed.end(), False
        plain = _PLAIN.match(line, at)
        assert plain is not None, "it may be empty"
        end = _LINE_END.match(line, plain.end())
        at = plain.end() + 1 if end is None else end.end()
        parts += [plain[0], line[plain.end() : at] if end is None else b"\n"]
    return b"".join(parts), False


def _source(path: Path, names: list[str], ending: str, longest: int = 0, more: str = "") -> str:
    """A file's texts as a source in SQL; `longest` is of a row, where one may be very long.

    In a file of one column nothing but a blank line is empty and not quoted: it is no row.
    """
    types = ", ".join(f"'{name}': 'VARCHAR'" for name in names)
    how = f"new_line = {sql_text(ending.encode('unicode_escape').decode() or chr(92) + 'n')}"
    if longest > _LONG:
        size = max(2 * longest, 32_000_000)
        how += f", max_line_size = {longest + 1}, buffer_size = {size}, parallel = false"
    blank = " WHERE c0 IS NOT NULL" if len(names) == 1 else ""
    return (
        f"read_csv({sql_path(path)}, header = true, auto_detect = false, {how},"
        f" columns = {{{types}}}, delim = ',', quote = '\"', escape = '\"',"
        f" allow_quoted_nulls = false{more}){blank}"
    )


def _value_sql(column: str, type_: Type) -> str:
    """The text of a column as its type; NULL if it does not fit, or is empty where text is not."""
    if type_ is Type.TEXT:
        return column
    fits = f"regexp_full_match({column}, {sql_text(PATTERNS[type_])})"
    value = f"trim({column}, ' \t')" if type_ is Type.BOOL else column
    cast = f"TRY_CAST({value} AS {SQL_TYPES[type_]})"
    if type_ is Type.FLOAT:
        cast = one_zero(cast)
        return (
            f"CASE WHEN {fits} THEN CASE WHEN isfinite({cast}) THEN {cast} END"
            f" WHEN regexp_full_match({column}, {sql_text(NOT_FINITE)}) THEN {cast} END"
        )
    return f"CASE WHEN {fits} THEN {cast} END"


def _time_sql(column: str, ticks: Ticks | None) -> str:
    if ticks is None:
        value = _value_sql(column, Type.INT)
        return f"CASE WHEN {value} BETWEEN {-TIME_MAX} AND {TIME_MAX} THEN {value} END"
    return tick_sql(column, ticks)
