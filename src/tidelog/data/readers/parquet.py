"""Parquet: DuckDB reads it where it lies; what its statistics say is not read at all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.data.types import sql_path
from tidelog.errors import DataError, first_line


def read_schema(path: Path) -> pa.Schema:
    """The columns of a file, under the names that the file gives them."""
    try:
        with path.open("rb") as file:
            return pq.read_schema(file)
    except (pa.ArrowException, OSError) as error:
        said = getattr(error, "strerror", None) or f"not Parquet: {first_line(error)}"
        raise DataError(f"{path}: {said}") from None


def source(path: Path) -> str:
    """A file as a source in SQL."""
    return f"read_parquet({sql_path(path)}, hive_partitioning = false)"


def has_no_nulls(connection: duckdb.DuckDBPyConnection, path: Path, names: Iterable[str]) -> bool:
    """Whether a file's own statistics say that no value of some columns is missing."""
    counted = connection.execute(
        "SELECT path_in_schema, max(coalesce(stats_null_count, 1))"
        f" FROM parquet_metadata({sql_path(path)}) GROUP BY path_in_schema"
    ).fetchall()
    whole = {name for name, nulls in counted if nulls == 0}
    return whole.issuperset(names)
