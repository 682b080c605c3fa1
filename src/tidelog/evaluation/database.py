"""A DuckDB connection as an engine for the SQL of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import duckdb
import pyarrow as pa

from tidelog.evaluation.engine import Feature
from tidelog.evaluation.sql import TEXTS

# Settings of every connection: nothing is fetched from elsewhere.
NO_EXTENSIONS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


class Database:
    """Tables and views of ours on a DuckDB connection."""

    limits: ClassVar[Mapping[Feature, str]] = {}

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection

    def table(self, name: str, select: str) -> None:
        self._create("TABLE", "VIEW", name, select)

    def view(self, name: str, select: str) -> None:
        self._create("VIEW", "TABLE", name, select)

    def _create(self, kind: str, other: str, name: str, select: str) -> None:
        create = f"CREATE OR REPLACE TEMP {kind} {name} AS {select}"
        try:
            self.connection.execute(create)
        except duckdb.CatalogException:
            # An earlier plan had a table of the other kind under this name.
            self.connection.execute(f"DROP {other} IF EXISTS {name}")
            self.connection.execute(create)

    def offer_texts(self, texts: Mapping[str, int]) -> None:
        if not texts:
            return
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {TEXTS} (i BIGINT, v VARCHAR)")
        for text, i in texts.items():
            self.connection.execute(f"INSERT INTO {TEXTS} VALUES (?, ?)", [i, text])

    def rows_of(self, table: str) -> int:
        return int(self.one(f"SELECT count(*) FROM {table}")[0])

    def all(self, select: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(select).fetchall()

    def one(self, select: str) -> tuple[Any, ...]:
        """The only row of a select."""
        (row,) = self.all(select)
        return row

    def arrow(self, select: str) -> pa.Table:
        return self.connection.sql(select).to_arrow_table()
