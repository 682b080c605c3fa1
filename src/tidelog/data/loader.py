"""Facts into a DuckDB connection: a view for each input, measured on the way."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, assert_never

import duckdb
import pyarrow as pa

from tidelog.data.as_they_came import AsTheyCame
from tidelog.data.letters import DeadLetter
from tidelog.data.numbers import Decimals, is_float, not_float
from tidelog.data.readers import csv, parquet
from tidelog.data.readers.columns import too_large, typed_select
from tidelog.data.readers.memory import Table
from tidelog.data.readers.places import DataFiles, FactsLike, Part, find_facts
from tidelog.data.schema import Schema, positions, schemas
from tidelog.data.ticks import EMPTY, Range, Ticks
from tidelog.data.types import SQL_TYPES, filled_sql
from tidelog.errors import DataError, first_line, missing_text
from tidelog.language.program import INT_MAX, TIME_MAX, Program, Type


@dataclass
class Loaded:
    """The facts of one input as a view, and what was counted on the way in."""

    view: str
    types: tuple[Type, ...]
    sources: dict[str, str]  # a select for each file or table
    range: Range = EMPTY
    nulls: int = 0
    incomplete: tuple[str, ...] = ()  # columns in which a value that a rule needs is missing
    places: dict[str, Sequence[str]] = field(default_factory=dict)  # of rows, by file, where known
    missing: str = "FALSE"  # SQL for what makes a row of a source no fact
    rows: int = 0  # of an input with times: facts, and rows that are none


class Loader:
    """Makes the facts of inputs known to a connection.

    A row that cannot be read is an error, or goes `aside` where there is such a place.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        ticks: Ticks | None,
        aside: list[DeadLetter] | None = None,
    ) -> None:
        self.connection, self.ticks, self.aside = connection, ticks, aside
        # By source with integers that may not fit their type: their columns, by position.
        self._wide: dict[str, dict[int, str]] = {}
        self._decimals = Decimals()

    def load(
        self,
        program: Program,
        facts: FactsLike,
        only: frozenset[str] | None,
        progress: Callable[[str], None],
        asked: Iterable[str] = (),
        skip: Container[Path] = (),
    ) -> dict[str, Loaded]:
        """The facts of all inputs, or of some only; `asked` is what will be asked for."""
        loaded: dict[str, Loaded] = {}
        try:
            parts = find_facts(program, facts, self.ticks, only, self.aside, skip)
            for number, (name, schema) in enumerate(schemas(program, asked).items(), 1):
                if only is None or name in only:
                    progress(f"reading {name}")
                    loaded[name] = self._input(schema, parts.get(name, []), f"facts{number}")
        except OSError as error:
            raise DataError(f"{error.filename}: {error.strerror or error}") from None
        return loaded

    def clocks(self, program: Program, loaded: Mapping[str, Loaded]) -> dict[str, Loaded]:
        """For every clock the first tick of the facts that were loaded, as its one fact."""
        timed = [name for name, schema in schemas(program).items() if schema.time is not None]
        first: int | None = None
        for one in (loaded[name] for name in timed if name in loaded and program.clocks):
            ((low,),) = self._all(f"SELECT min(t) FROM {one.view}")
            first = low if first is None or (low is not None and low < first) else first
        clocks: dict[str, Loaded] = {}
        for number, name in enumerate(program.clocks):
            view = f"clock{number}"
            tick = "CAST(NULL AS BIGINT)" if first is None else f"CAST({first} AS BIGINT)"
            where = " WHERE FALSE" if first is None else ""
            self.connection.execute(f"CREATE TEMP VIEW {view} AS SELECT {tick} AS t{where}")
            clocks[name] = Loaded(view, (), {}, EMPTY if first is None else Range(first, first))
        return clocks

    def unreadable(self, loaded: Loaded) -> list[str]:
        """Which files or tables cannot be read to the end, and why."""
        problems = []
        for where, select in loaded.sources.items():
            try:
                # A hash needs every value; counts may come from statistics.
                self._all(f"SELECT bit_xor(hash(COLUMNS(*))) FROM ({select}) AS x")
            except duckdb.Error as error:
                problems.append(f"{where}: {self._plainly(where, error)}")
        return problems

    def _plainly(self, where: str, error: duckdb.Error) -> str:
        """What is wrong with a source."""
        large = re.search(r"value (\d+) can't be cast .* source column c(\d+)", str(error))
        if large and where in self._wide:
            return too_large(self._wide[where][int(large[2])], large[1])
        return first_line(error).removeprefix("Invalid Input Error: ")

    def _all(self, select: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(select).fetchall()

    def _input(self, schema: Schema, parts: list[Part], view: str) -> Loaded:
        types = [column.type for column in schema.columns]
        selects: dict[str, str] = {}  # by where the facts come from
        places: dict[str, Sequence[str]] = {}
        for number, part in enumerate(parts):
            name = f"{view}_{number}"
            match part:
                case DataFiles("csv", paths):
                    for i, path in enumerate(paths):
                        selects[str(path)] = self._csv(f"{name}_{i}", path, schema)
                    types = [t or Type.TEXT for t in types]
                case DataFiles(_, paths):
                    for path in paths:
                        # DuckDB would rename columns that differ in case only.
                        names = parquet.read_schema(path).names
                        chosen = positions(names, schema, str(path))
                        source = parquet.source(path)
                        selects[str(path)] = self._typed(
                            schema, source, chosen, str(path), types, self.ticks
                        )
                case Table(table_, origin, ticked):
                    self._register(name, table_, schema, origin)
                    places[origin] = part.places
                    order = list(range(len(schema.names)))
                    selects[origin] = self._typed(
                        schema, name, order, origin, types, None if ticked else self.ticks
                    )
                case _:
                    assert_never(part)
        resolved = tuple(t or Type.TEXT for t in types)
        self._create_view(view, schema, list(selects.values()), resolved)
        missing = _missing(schema, resolved) or "FALSE"
        loaded = Loaded(view, resolved, selects, places=places, missing=missing)
        return self._measured(loaded, schema, parts)

    def _register(self, name: str, table: pa.Table, schema: Schema, origin: str) -> None:
        """Make a table in memory known; DataError for a column of a type that DuckDB has not."""
        try:
            self.connection.register(name, table)
        except duckdb.Error as error:
            for column, values in zip(schema.names, table.columns, strict=False):
                try:
                    self.connection.register(name, pa.table([values], names=["a"]))
                except duckdb.Error:
                    kind = f"column `{column}` is {values.type}, which cannot be read: convert it"
                    raise DataError(f"{origin}: {kind}") from None
            raise DataError(f"{origin}: {first_line(error)}") from None

    def _csv(self, table: str, path: Path, schema: Schema) -> str:
        """A select of the facts in a CSV file."""
        if self.aside is None or schema.time is None:
            return csv.read_table(self.connection, table, path, schema, self.ticks)
        header = csv.read_header(path, schema)
        names, size = ", ".join(schema.sql_names()), len(header.names)
        broken = csv.read_texts(self.connection, "texts", path, size, header.ending)
        read = csv.facts_of_texts("texts", schema, header.positions, self.ticks)
        texts = "CASE WHEN problem IS NOT NULL THEN texts END AS texts"
        self.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT * REPLACE ({texts}) FROM ({read}) AS x"
        )
        unread = self.connection.sql(f"FROM {table} WHERE problem IS NOT NULL").to_arrow_table()
        columns = [column.combine_chunks() for column in unread.columns]
        came = csv.rows_as_json(schema, columns, self.ticks is not None).to_pylist()
        problems = zip(unread.column("problem").to_pylist(), came, strict=True)
        for problem, row in (*problems, *((said, json.dumps(line)) for said, line in broken)):
            self.aside.append(DeadLetter(schema.predicate, problem, str(path), row))
        return f"SELECT {names} FROM {table} WHERE problem IS NULL"

    def _put_aside(self, schema: Schema, loaded: Loaded) -> None:
        """What has a NULL or NaN and came in columns of its own types, as dead letters."""
        assert self.aside is not None
        came = AsTheyCame(self.connection, self.ticks, schema)
        floats = {n for n, t in zip(schema.names, loaded.types, strict=False) if t is Type.FLOAT}
        for where, select in loaded.sources.items():
            for _, row in came.unusable(where, select, loaded.missing):
                values = json.loads(row)
                read = [n for i, n in enumerate(schema.names) if i not in schema.unread]
                reason = missing_text(name for name in read if values[name] is None)
                for name in self._wide.get(where, {}).values():
                    value = values[name]
                    if isinstance(value, int) and value > INT_MAX:
                        reason = too_large(name, value)
                    elif name in floats and isinstance(value, int) and not is_float(value):
                        reason = not_float(name, value)
                self.aside.append(DeadLetter(schema.predicate, reason, where, row))

    # Rows that came after a stream had read their files

    def counts(self, loaded: Loaded) -> dict[str, int]:
        """How many facts there are in each file."""
        each = [
            f"SELECT {i} AS i FROM ({select}) AS x WHERE NOT ({loaded.missing})"
            for i, select in enumerate(loaded.sources.values())
        ]
        together = " UNION ALL ".join(each) or "SELECT 0 AS i WHERE FALSE"
        counted = dict(self._all(f"SELECT i, count(*) FROM ({together}) GROUP BY i"))
        return {where: counted.get(i, 0) for i, where in enumerate(loaded.sources)}

    def added(
        self, schema: Schema, loaded: Loaded, before: Mapping[str, int], until: int
    ) -> Iterator[tuple[int, str, str]]:
        """Tick, place and row, as it came, of facts up to a tick that a file did not have before.

        `before` says how many facts it had; files grow at their ends.
        """
        came = AsTheyCame(self.connection, self.ticks, schema)
        for where, count in self.counts(loaded).items():
            after = before.get(where, 0)
            if count > after:
                select, places = loaded.sources[where], loaded.places.get(where, ())
                yield from came.added(where, select, places, loaded.missing, after, until)

    def after(self, schema: Schema, loaded: Loaded, last: int) -> Iterator[tuple[int, str, str]]:
        """Tick, place and row, as it came, of facts after a tick."""
        came = AsTheyCame(self.connection, self.ticks, schema)
        for where, select in loaded.sources.items():
            for tick, row in came.unusable(where, select, f"NOT ({loaded.missing}) AND t > {last}"):
                assert tick is not None, "it is a fact"
                yield tick, where, row

    def _typed(
        self,
        schema: Schema,
        source: str,
        chosen: list[int],
        where: str,
        types: list[Type | None],
        ticks: Ticks | None,
    ) -> str:
        lenient = self.aside is not None and schema.time is not None
        select, wide, decimals = typed_select(
            self.connection, schema, source, chosen, where, types, ticks, lenient=lenient
        )
        for decimal in decimals:
            self._decimals.warn(schema.predicate, *decimal)
        if wide:
            names = dict(zip(chosen, schema.names, strict=True))
            self._wide[where] = {position: names[position] for position in wide}
        return select

    def _create_view(
        self, view: str, schema: Schema, selects: list[str], types: tuple[Type, ...]
    ) -> None:
        if not selects:
            kinds = [SQL_TYPES[t] for t in types]
            kinds += ["BIGINT"] if schema.time or not kinds else []
            values = [
                f"CAST(NULL AS {kind}) AS {name}"
                for kind, name in zip(kinds, schema.sql_names(), strict=True)
            ]
            selects = [f"SELECT {', '.join(values)} WHERE FALSE"]
        body = " UNION ALL ".join(selects)
        self.connection.execute(f"CREATE TEMP VIEW {view}_all AS {body}")

    def _measured(self, loaded: Loaded, schema: Schema, parts: list[Part]) -> Loaded:
        low: int | None = None
        high = 0
        view = loaded.view
        missing = loaded.missing
        try:
            if schema.time is not None:
                # Parquet's statistics know all three, so that nothing is read for them.
                ((low, high, loaded.rows),) = self._all(
                    f"SELECT min(t), max(t), count(*) FROM {view}_all"
                )
            whole = self._known_whole(schema, parts, loaded.types)
            if missing != "FALSE" and not whole:
                count = f"SELECT count(*) FROM {view}_all WHERE {missing}"
                ((loaded.nulls,),) = self._all(count)
            if loaded.nulls:
                tests = _missing_values(schema, loaded.types)
                found = ", ".join(f"coalesce(bool_or({test}), false)" for test in tests.values())
                (there,) = self._all(f"SELECT {found} FROM {view}_all")
                loaded.incomplete = tuple(n for n, some in zip(tests, there, strict=True) if some)
            if schema.unread and not self._wide.keys().isdisjoint(loaded.sources):
                self._all(f"SELECT max(COLUMNS(*)) FROM {view}_all")  # an error if one is too large
        except duckdb.Error as error:
            raise DataError(*self.unreadable(loaded) or [first_line(error)]) from None
        if loaded.nulls and self.aside is not None and schema.time is not None:
            self._put_aside(schema, loaded)
        where = f" WHERE NOT ({missing})" if loaded.nulls else ""
        filled = [
            f"{filled_sql(f'a{i + 1}', loaded.types[i])} AS a{i + 1}" for i in sorted(schema.unread)
        ]
        names = f"* REPLACE ({', '.join(filled)})" if filled and not whole else "*"
        self.connection.execute(f"CREATE TEMP VIEW {view} AS SELECT {names} FROM {view}_all{where}")
        if low is not None:
            if low < -TIME_MAX or high > TIME_MAX:
                raise DataError(*self._far_times(schema, loaded))
            loaded.range = Range(low, high)
        return loaded

    def _known_whole(self, schema: Schema, parts: list[Part], types: tuple[Type, ...]) -> bool:
        """Whether Parquet's own statistics say that no value is missing, so that none need be read.

        They do not count NaN.
        """
        if Type.FLOAT in types or not schema.declared:
            return False
        for part in parts:
            if not (isinstance(part, DataFiles) and part.format == "parquet"):
                return False
            for path in part.paths:
                if str(path) in self._wide:
                    return False
                if not parquet.has_no_nulls(self.connection, path, schema.names):
                    return False
        return True

    def _far_times(self, schema: Schema, loaded: Loaded) -> list[str]:
        problems = []
        for where, select in loaded.sources.items():
            far = f"t < {-TIME_MAX} OR t > {TIME_MAX}"
            ((tick,),) = self._all(f"SELECT min(t) FROM ({select}) AS x WHERE {far}")
            if tick is not None:
                problems.append(
                    f"{where}: column `{schema.time}`: time {tick} does not fit 62 bits"
                )
        return problems


def _missing(schema: Schema, types: tuple[Type, ...]) -> str:
    """When a row is not a fact: NULL or NaN in a column that a rule looks at."""
    return " OR ".join(_missing_values(schema, types).values())


def _missing_values(schema: Schema, types: tuple[Type, ...]) -> dict[str, str]:
    """When a value is missing, by the name of its column."""
    tests = {
        schema.names[i]: f"a{i + 1} IS NULL" + (f" OR isnan(a{i + 1})" * (type_ is Type.FLOAT))
        for i, type_ in enumerate(types)
        if i not in schema.unread
    }
    return tests if schema.time is None else {**tests, schema.time: "t IS NULL"}
