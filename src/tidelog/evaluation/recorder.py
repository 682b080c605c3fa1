"""A recorder of the statements that run on a DuckDB connection, for `explain --show sql`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import duckdb


@dataclass(frozen=True)
class RecordedStatement:
    """A statement that ran, and what the engine was doing."""

    sql: str
    subject: str
    values: tuple[object, ...] = ()  # those that were bound to its question marks


@dataclass
class Recorder:
    """The statements that ran on some connections, in order."""

    statements: list[RecordedStatement] = field(default_factory=list)
    subject: str = "settings"

    def progress(self, subject: str) -> None:
        """Name what the statements from now on are for; engines call this as they go."""
        self.subject = subject

    def connection(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
        """The same connection, recorded."""
        return cast("duckdb.DuckDBPyConnection", _RecordedConnection(connection, self))


class _RecordedConnection:
    """A connection that tells a recorder of each statement before it runs it."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, recorder: Recorder) -> None:
        self._connection, self._recorder = connection, recorder

    def execute(self, query: str, values: Sequence[object] = ()) -> Any:
        self._record(query, tuple(values))
        return self._connection.execute(query, values or None)

    def sql(self, query: str) -> Any:
        self._record(query)
        return self._connection.sql(query)

    def _record(self, query: str, values: tuple[object, ...] = ()) -> None:
        statement = RecordedStatement(query, self._recorder.subject, values)
        self._recorder.statements.append(statement)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)
