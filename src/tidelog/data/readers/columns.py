"""Columns that have types of their own, in Parquet and Arrow, as the types that the rules need."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from tidelog.data.schema import Schema
from tidelog.data.ticks import GIVE_TICK, Ticks, floor_sql
from tidelog.data.types import SQL_TYPES, one_zero
from tidelog.errors import DataError, first_line
from tidelog.language.program import INT_MAX, TIME_MAX, Type

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_WIDE_INTEGERS = ("UBIGINT", "HUGEINT", "UHUGEINT")
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
) -> tuple[str, list[int]]:
    """A select of the schema's columns from a typed source; settles types left open.

    The second are the positions in the source of integers that may not fit 64 bits; one that does
    not is an error, or NULL where that is `lenient`. With `came`, a column of that name has all
    columns of the source, as they came.
    """
    try:
        described = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
    except duckdb.Error as error:
        raise DataError(f"{where}: {first_line(error)}") from None
    sql_types = [row[1] for row in described]
    values: list[str] = []
    for i, (name, position) in enumerate(zip(schema.names, chosen, strict=True)):
        column, sql_type = f"c{position}", sql_types[position]
        if i < len(schema.columns):
            types[i] = type_ = _type_of(name, sql_type, types[i], where)
            cast = "TRY_CAST" if lenient and sql_type in _WIDE_INTEGERS else "CAST"
            value = f"{cast}({column} AS {SQL_TYPES[type_]})"
            values.append(one_zero(value) if type_ is Type.FLOAT else value)
        else:
            time = _time(name, column, sql_type, where, ticks, lenient)
            values.append(_far_stays_far(column, sql_type, time, ticks) if came else time)
    names = schema.sql_names()
    listed = ", ".join(f"{v} AS {n}" for v, n in zip(values or ["1"], names, strict=True))
    if came:
        columns = map(_as_it_came, range(len(sql_types)), sql_types)
        listed += f", {{{', '.join(columns)}}} AS came"
    # Columns go by their position: no name of a user's reaches the SQL.
    named = ", ".join(f"c{i}" for i in range(len(sql_types)))
    wide = [position for position in chosen if sql_types[position] in _WIDE_INTEGERS]
    return f"SELECT {listed} FROM {source} AS x({named})", wide


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
        raise DataError(
            f"{where}: column `{name}` is {sql_type}, and the rules need"
            f" {type_.value if type_ else 'text, int, float or bool'}"
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
    wanted = "whole numbers of ticks" if ticks is None else "timestamps"
    raise DataError(f"{where}: time column `{name}` is {sql_type}; times are {wanted}")
