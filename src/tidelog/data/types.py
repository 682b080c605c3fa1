"""The types of values: as SQL and Arrow know them, and whether a Python value is of one."""

from __future__ import annotations

import glob
import math
from collections.abc import Iterable
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.data.bounds import short
from tidelog.data.remedies import remedied
from tidelog.errors import DataError
from tidelog.language.program import Type, Value

if TYPE_CHECKING:
    import pyarrow as pa

# In names that both DuckDB and Spark know.
SQL_TYPES = {Type.TEXT: "STRING", Type.INT: "BIGINT", Type.FLOAT: "DOUBLE", Type.BOOL: "BOOLEAN"}
PYTHON_TYPES = {Type.TEXT: str, Type.INT: int, Type.FLOAT: float, Type.BOOL: bool}


# What stands in place of a missing value in a column that no rule looks at.
ANY_VALUE: dict[Type, Value] = {Type.TEXT: "", Type.INT: 0, Type.FLOAT: 0.0, Type.BOOL: False}


def filled_sql(column: str, type_: Type) -> str:
    """SQL, for DuckDB and Spark, for a column in which some value stands for NULL and NaN."""
    missing = f"{column} IS NULL" + (f" OR isnan({column})" if type_ is Type.FLOAT else "")
    value = "''" if type_ is Type.TEXT else str(ANY_VALUE[type_]).upper()
    return f"CASE WHEN {missing} THEN CAST({value} AS {SQL_TYPES[type_]}) ELSE {column} END"


@cache
def arrow_type(type_: Type | None) -> pa.DataType:
    """The Arrow type of a column; what no rule and no data settles is text."""
    import pyarrow as pa

    return {
        Type.TEXT: pa.string(),
        Type.INT: pa.int64(),
        Type.FLOAT: pa.float64(),
        Type.BOOL: pa.bool_(),
    }[type_ or Type.TEXT]


def common_type(values: Iterable[Any]) -> Type:
    """The type that some Python values have in common; text when there is none."""
    kinds = {type(v) for v in values if v is not None}
    for type_, python in PYTHON_TYPES.items():
        if kinds == {python}:
            return type_
    return Type.FLOAT if kinds and kinds <= {int, float} else Type.TEXT


def is_missing(value: Any) -> bool:
    """Whether a value stands for one that is missing: None, or what pandas has for it."""
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def fit(value: Any, type_: Type) -> Value | None:
    """The value as its column's type, or ValueError.

    >>> fit(1, Type.FLOAT)
    1.0
    >>> fit(True, Type.INT)
    Traceback (most recent call last):
    ValueError: True is not int
    """
    if is_missing(value):
        return None
    if hasattr(value, "item"):  # a NumPy scalar
        value = value.item()
    match type_:
        case Type.BOOL if isinstance(value, bool):
            return value
        case Type.INT if isinstance(value, int) and not isinstance(value, bool):
            if not -(2**63) <= value < 2**63:
                raise ValueError(f"{short(str(value))} does not fit 64 bits")
            return value
        case Type.FLOAT if isinstance(value, (int, float)) and not isinstance(value, bool):
            try:
                return float(value) + 0.0  # one zero, not two
            except OverflowError:
                raise ValueError("an integer too large for a float") from None
        case Type.TEXT if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                raise ValueError(f"{short(ascii(value))} has half a surrogate pair") from None
            return value
        case Type.FLOAT if isinstance(value, Decimal):
            raise ValueError(f"{short(repr(value))} is not float; convert it: float(..)")
    raise ValueError(remedied(f"{short(repr(value))} is not {type_.value}", str(value), type_))


def one_zero(value: str) -> str:
    """SQL for a float, the same for 0.0 and -0.0, which are one value."""
    return f"{value} + CAST(0 AS DOUBLE)"


def json_value(value: object) -> object:
    """A value, or what holds values, as JSON can write it: there is no infinity, and one zero.

    >>> json_value({"v": [float("-inf"), -0.0, 1.5]})
    {'v': ['-Infinity', 0.0, 1.5]}
    """
    match value:
        case float():
            return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, value + 0.0)
        case dict():
            return {key: json_value(inner) for key, inner in value.items()}
        case list() | tuple():
            return [json_value(inner) for inner in value]
        case _:
            return value


def sql_text(value: str) -> str:
    """A text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"


def sql_path(path: Path) -> str:
    """A path as DuckDB's readers take it, in which nothing is a wildcard."""
    text = str(path)
    if "\\" not in text or not set("*?[") & set(text):
        return sql_text("".join(f"[{c}]" if c in "*?[" else c for c in text))
    # In a pattern DuckDB takes a backslash for a slash. What matches nothing is a plain name.
    if glob.glob(text.replace("\\", "/")):
        raise DataError(
            f"{path}: a file with a backslash and one of *?[ in its path cannot be read where other"
            " files match that, too: rename it"
        )
    return sql_text(text)
