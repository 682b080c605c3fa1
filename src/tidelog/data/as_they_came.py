"""Rows of files as they were before anything was read from them, so that they can be sent again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from tidelog.data.readers import csv, parquet
from tidelog.data.readers.files import format_of, opened
from tidelog.data.readers.json import line_as_json
from tidelog.data.schema import Schema, positions
from tidelog.data.ticks import Ticks, time_text


@dataclass(frozen=True)
class AsTheyCame:
    """Looks rows of one input up, in the files that they are in."""

    connection: duckdb.DuckDBPyConnection
    ticks: Ticks | None
    schema: Schema

    def unusable(self, where: str, select: str, missing: str) -> Iterator[tuple[int | None, str]]:
        """Tick and row of what is no fact among the typed rows of a source."""
        rows = self._beside(where, select)
        yield from self._rows(f"SELECT * FROM ({rows}) AS x WHERE {missing}")

    def added(
        self, where: str, select: str, places: Sequence[str], missing: str, after: int, until: int
    ) -> Iterator[tuple[int, str, str]]:
        """Tick, place and row of the facts after the first so many, up to a tick."""
        path, some = Path(where), f"n > {after} AND t <= {until} ORDER BY n"
        self.connection.execute("SET preserve_insertion_order = true")  # rows are counted
        try:
            if format_of(path) == "csv":
                yield from ((t, where, row) for t, row in self._texts(path, some))
                return
            facts = f"SELECT * FROM ({self._beside(where, select)}) AS x WHERE NOT ({missing})"
            numbered = f"SELECT *, row_number() OVER () AS n FROM ({facts}) AS x"
            numbers = f"SELECT n FROM ({numbered}) AS x WHERE {some}"
            at = [n - 1 for (n,) in self.connection.execute(numbers).fetchall()]
            rows = list(self._rows(f"SELECT * EXCLUDE (n) FROM ({numbered}) AS x WHERE {some}"))
        finally:
            self.connection.execute("SET preserve_insertion_order = false")
        shown = [places[n] if places else where for n in at]
        lines = _lines(path, shown) if format_of(path) == "jsonl" else {}
        for place, (t, row) in zip(shown, rows, strict=True):
            assert t is not None, "it is a fact"
            yield t, place, lines.get(place, row)

    def _texts(self, path: Path, some: str) -> Iterator[tuple[int, str]]:
        """Facts of a CSV file by their numbers, with their texts."""
        header = csv.read_header(path, self.schema)
        csv.read_texts(self.connection, "texts", path, len(header.names), header.ending)
        read = csv.facts_of_texts("texts", self.schema, header.positions, self.ticks)
        facts = f"SELECT *, row_number() OVER () AS n FROM ({read}) AS x WHERE problem IS NULL"
        select = f"SELECT * EXCLUDE (n) FROM ({facts}) AS x WHERE {some}"
        rows = self.connection.sql(select).to_arrow_table()
        columns = [column.combine_chunks() for column in rows.columns]
        came = csv.rows_as_json(self.schema, columns, self.ticks is not None)
        yield from zip(rows.column("t").to_pylist(), came.to_pylist(), strict=True)

    def _beside(self, where: str, select: str) -> str:
        """The typed rows of a source, and beside each the values that it was read from."""
        if format_of(Path(where)) != "parquet":
            names = ", ".join(f"{n} AS v{i}" for i, n in enumerate(self.schema.sql_names()))
            return f"SELECT *, {names} FROM ({select}) AS x"
        names = parquet.read_schema(Path(where)).names
        *values, time = positions(names, self.schema, where)
        shown = [f"c{position} AS v{i}" for i, position in enumerate(values)]
        stamp = f"strftime(TRY_CAST(c{time} AS TIMESTAMP), '%Y-%m-%dT%H:%M:%S.%fZ')"
        moment = f"coalesce({stamp}, CAST(c{time} AS STRING))"
        shown.append(f"{moment if self.ticks else f'c{time}'} AS v{len(values)}")
        listed = ", ".join(f"c{i}" for i in range(len(names)))
        came = f"SELECT {', '.join(shown)} FROM {parquet.source(Path(where))} AS x({listed})"
        return f"SELECT * FROM ({select}) AS f POSITIONAL JOIN ({came}) AS x"

    def _rows(self, select: str) -> Iterator[tuple[int | None, str]]:
        """Ticks, and rows as JSON, of a select of rows beside the values they were read from."""
        names = self.schema.names
        for row in self.connection.execute(select).fetchall():
            t, came = row[len(names) - 1], [None if v != v else v for v in row[len(names) :]]
            if self.ticks is not None and isinstance(came[-1], int):
                came[-1] = time_text(came[-1], self.ticks)
            yield (
                t,
                json.dumps(dict(zip(names, came, strict=True)), ensure_ascii=False, default=str),
            )


def _lines(path: Path, places: Iterable[str]) -> dict[str, str]:
    """Lines of a file as they came, by their places `FILE:NUMBER`."""
    wanted = {int(place.rpartition(":")[2]): place for place in places}
    with opened(path) as lines:
        numbered: Iterator[tuple[int, Any]] = enumerate(lines, 1)
        return {wanted[n]: line_as_json(line) for n, line in numbered if n in wanted}
