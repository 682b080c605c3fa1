"""Columns that have types of their own, in Parquet and Arrow, as the types that the rules need."""

from __future__ import annotations

import re
from collections.abc import Sequence

import duckdb

from tidelog.data.numbers import DIGITS, EXACT, not_float
from tidelog.data.schema import Schema
from tidelog.data.ticks import GIVE_TICK, NO_STAMP, Ticks, floor_sql, tick_sql, unfit_time
from tidelog.data.types import SQL_TYPES, one_zero, sql_text
from tidelog.errors import DataError, first_line
from tidelog.language.program import INT_MAX, TIME_MAX, Type

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_WIDE_INTEGERS = ("UBIGINT", "HUGEINT", "UHUGEINT")
# Integers that a float may not hold, and a type for all of them.
_LONG_INTEGERS = {"BIGINT": "HUGEINT"} | dict.fromkeys(_WIDE_INTEGERS, "HUGEINT")
_LONG_INTEGERS |= {"UHUGEINT": "UHUGEINT"}
_NULLS = ("NULL", '"NULL"')


def typed_select(
    connection: duckdb.DuckDBPyConnection,
    schema: Schema,
    source: str,
    chosen: Sequence[int],
    where: str,
    types: list[Type | None],
    ticks: Ticks | None,
    *,
    lenient: bool = False,
    came: bool = False,
) -> tuple[str, list[int], list[tuple[str, int, int]]]:
    """A select of the schema's columns from a typed source; settles types left open.

    The second are the positions in the source of integers that may not fit their type, 64 bits or a
    float; one that does not is an error, or NULL where that is `lenient`. The third are columns of
    decimals, with precision and scale. With `came`, a column of that name has all columns of the
    source, as they came.
    """
    try:
        described = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
    except duckdb.Error as error:
        raise DataError(f"{where}: {first_line(error)}") from None
    sql_types = [row[1] for row in described]
    values: list[str] = []
    wide: list[int] = []
    decimals: list[tuple[str, int, int]] = []
    for i, (name, position) in enumerate(zip(schema.names, chosen, strict=True)):
        column, sql_type = f"c{position}", sql_types[position]
        if i < len(schema.columns):
            types[i] = type_ = _type_of(name, sql_type, types[i], where)
            if type_ is Type.FLOAT and sql_type in _LONG_INTEGERS and i not in schema.unread:
                value = _float_of_integer(name, column, sql_type, lenient)
                wide.append(position)
            elif type_ is Type.FLOAT:
                sized = re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", sql_type)
                if sized:
                    decimals.append((name, int(sized[1]), int(sized[2])))
                value = f"CAST({column} AS DOUBLE)"
                if sized and int(sized[1]) > DIGITS:  # not the nearest float
                    value = f"CAST(CAST({column} AS VARCHAR) AS DOUBLE)"
            else:
                cast = "TRY_CAST" if lenient and sql_type in _WIDE_INTEGERS else "CAST"
                value = f"{cast}({column} AS {SQL_TYPES[type_]})"
                wide += [position] * (sql_type in _WIDE_INTEGERS)
            values.append(one_zero(value) if type_ is Type.FLOAT else value)
        else:
            time = _time(name, column, sql_type, where, ticks, lenient)
            values.append(_far_stays_far(column, sql_type, time, ticks) if came else time)
            wide += [position] * (sql_type in _WIDE_INTEGERS)
    names = schema.sql_names()
    listed = ", ".join(f"{v} AS {n}" for v, n in zip(values or ["1"], names, strict=True))
    if came:
        columns = map(_as_it_came, range(len(sql_types)), sql_types)
        listed += f", {{{', '.join(columns)}}} AS came"
    # Columns go by their position: no name of a user's reaches the SQL.
    named = ", ".join(f"c{i}" for i in range(len(sql_types)))
    return f"SELECT {listed} FROM {source} AS x({named})", wide, decimals


def _float_of_integer(name: str, column: str, sql_type: str, lenient: bool) -> str:
    """An integer as a float, if it is one; else an error, or NULL where that is `lenient`."""
    wide = _LONG_INTEGERS[sql_type]
    least = 0 if sql_type.startswith("U") else -EXACT
    near = f"{column} BETWEEN {least} AND {EXACT}"
    back = f"TRY_CAST(CAST({column} AS DOUBLE) AS {wide})"
    value = f"WHEN {near} OR {back} = {column} THEN CAST({column} AS DOUBLE)"
    if lenient:
        return f"CASE {value} END"
    before, after = map(sql_text, not_float(name, "\0").split("\0"))
    error = f"error(concat({before}, {column}, {after}))"
    return f"CASE {value} WHEN {column} IS NOT NULL THEN {error} END"


def too_large(column: str, value: object) -> str:
    """What is wrong with an integer that does not fit 64 bits."""
    return f"column `{column}`: `{value}` is not int: it does not fit 64 bits"


def _far_stays_far(column: str, sql_type: str, time: str, ticks: Ticks | None) -> str:
    """The tick of a moment; of one that is too far away for 64 bits, a tick that is so too."""
    if ticks is None or not sql_type.startswith("TIMESTAMP") or sql_type == "TIMESTAMP_NS":
        return time
    most = INT_MAX - abs(ticks.origin) - 2 * ticks.length
    near = f"epoch_us(CAST({column} AS TIMESTAMPTZ)) BETWEEN {-most} AND {most}"
    return f"CASE WHEN {near} THEN {time} WHEN {column} IS NOT NULL THEN {TIME_MAX + 1} END"


def _as_it_came(position: int, sql_type: str) -> str:
    """A column of a row; of a moment the text, for it may be one that Python does not know."""
    if not sql_type.startswith("TIMESTAMP"):
        return f"c{position}: c{position}"
    zone = "Z" if sql_type == "TIMESTAMP WITH TIME ZONE" else ""
    text = f"strftime(CAST(c{position} AS TIMESTAMP), '%Y-%m-%dT%H:%M:%S.%f{zone}')"
    return f"c{position}: coalesce(TRY({text}), CAST(c{position} AS STRING))"


def _type_of(name: str, sql_type: str, wanted: Type | None, where: str) -> Type:
    """The type that a column is read as: the one wanted, or its own where that is left open."""
    kind = sql_type.split("(")[0]
    actual = {"VARCHAR": Type.TEXT, "ENUM": Type.TEXT, "BOOLEAN": Type.BOOL}.get(kind)
    if kind in _INTEGERS or kind in _WIDE_INTEGERS:
        actual = Type.INT
    elif kind in ("FLOAT", "DOUBLE", "DECIMAL"):
        actual = Type.FLOAT
    if kind in _NULLS:
        return wanted or Type.TEXT
    type_ = wanted or actual
    if type_ is None or not (actual is type_ or (actual is Type.INT and type_ is Type.FLOAT)):
        needed = type_.value if type_ else "text, int, float or bool"
        declare = f", or declare it `{actual.value}`" if actual else ""
        raise DataError(
            f"{where}: column `{name}` is {sql_type}, and the rules need {needed}:"
            f" convert it{declare}"
        )
    return type_


def _time(
    name: str, column: str, sql_type: str, where: str, ticks: Ticks | None, lenient: bool
) -> str:
    if sql_type in (*_INTEGERS, *_WIDE_INTEGERS) and ticks is None:
        return f"{'TRY_CAST' if lenient else 'CAST'}({column} AS BIGINT)"
    if sql_type.startswith("TIMESTAMP") or sql_type == "DATE":
        if ticks is None:
            raise DataError(f"{where}: time column `{name}` holds timestamps; {GIVE_TICK}")
        if sql_type == "TIMESTAMP_NS":
            return ticks.sql(floor_sql(f"epoch_ns({column})", 1000))
        return ticks.sql(f"epoch_us(CAST({column} AS TIMESTAMPTZ))")
    if sql_type in _NULLS:
        return "CAST(NULL AS BIGINT)"
    if sql_type == "VARCHAR" and ticks is not None:
        return _read_moment(name, column, ticks, lenient)
    raise DataError(unfit_time(where, name, sql_type, sql_type, ticks))


def _read_moment(name: str, column: str, ticks: Ticks, lenient: bool) -> str:
    """The tick of a text, as CSV has it; of another text NULL, or an error with its value."""
    tick = tick_sql(column, ticks)
    if lenient:
        return tick
    said = f"concat({sql_text(f'column `{name}`: `')}, left({column}, 40), {sql_text(NO_STAMP)})"
    return f"CASE WHEN {column} <> '' THEN coalesce({tick}, error({said})) END"
