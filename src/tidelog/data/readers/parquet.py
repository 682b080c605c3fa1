"""Parquet: DuckDB reads it where it lies; what its statistics say is not read at all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.data.types import sql_path
from tidelog.errors import DataError, first_line


def read_metadata(path: Path) -> pq.FileMetaData:
    """What a file says of itself at its end."""
    try:
        with path.open("rb") as file:
            return pq.read_metadata(file)
    except (pa.ArrowException, OSError) as error:
        said = getattr(error, "strerror", None) or f"not Parquet: {first_line(error)}"
        raise DataError(f"{path}: {said}") from None


def read_schema(path: Path) -> pa.Schema:
    """The columns of a file, under the names that the file gives them."""
    return read_metadata(path).schema.to_arrow_schema()


def source(path: Path, rows: tuple[int, int] | None = None) -> str:
    """A file as a source in SQL, or its rows from one number to another, both included."""
    whole = f"read_parquet({sql_path(path)}, hive_partitioning = false)"
    if rows is None:
        return whole
    return f"(SELECT * FROM {whole} WHERE file_row_number BETWEEN {rows[0]} AND {rows[1]})"


def has_no_nulls(connection: duckdb.DuckDBPyConnection, path: Path, names: Iterable[str]) -> bool:
    """Whether a file's own statistics say that no value of some columns is missing."""
    counted = connection.execute(
        "SELECT path_in_schema, max(coalesce(stats_null_count, 1))"
        f" FROM parquet_metadata({sql_path(path)}) GROUP BY path_in_schema"
    ).fetchall()
    whole = {name for name, nulls in counted if nulls == 0}
    return whole.issuperset(names)
