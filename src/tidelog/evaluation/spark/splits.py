"""Parts of files that are read in one go, by DuckDB, in a task or in the driver.

A split is rows of a Parquet file, lines of a file of JSON, or a whole CSV file. It is read as a
select for each input, with the columns `a1, .., t, problem, came`: arguments and tick, why a row is
no fact, and all of it as it came.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.causes import Cause
from tidelog.data.bounds import reason_text, short
from tidelog.data.letters import DeadLetter, or_skip, reason_to_skip
from tidelog.data.numbers import not_float
from tidelog.data.packed import columns
from tidelog.data.readers import parquet
from tidelog.data.readers.columns import too_large, typed_select
from tidelog.data.readers.csv import facts_of_texts, read_header, read_texts, rows_as_json
from tidelog.data.readers.files import PACKED, opened
from tidelog.data.readers.json import (
    is_heartbeat,
    line_as_json,
    parse_line,
    predicate_of,
    tick_value,
    typed_values,
)
from tidelog.data.readers.rules import read_rules
from tidelog.data.schema import Schema, positions, schemas
from tidelog.data.secrets import without_secrets
from tidelog.data.ticks import Range, Ticks, TimeType
from tidelog.data.types import SQL_TYPES, filled_sql, sql_text
from tidelog.errors import DataError, first_line
from tidelog.evaluation.database import NO_EXTENSIONS
from tidelog.evaluation.spark.remote import as_addressed
from tidelog.evaluation.spark.sources import Inputs
from tidelog.language.program import TIME_COLUMN, TIME_MAX, Program, Type

# Rows that a task reads, where there are so many: with fewer, tasks cost more than their work.
TASK_ROWS = 500_000
# Rows that a task reads at most: packing them may need a row of memory for each.
MOST_ROWS = 4_000_000
# Bytes of a line of text, as far as nobody has counted; packed files hold more of them.
LINE = 24
# The numbers of Parquet's rows are a column of this name, unless the file has one.
NUMBERED = "file_row_number"
# Lines that are rows of no input's facts: those that cannot be read, and heartbeats.
OTHERS = "others"
# What to say of facts that are no longer those that a lazy answer was planned for.
CHANGED = "the facts have changed since the query was made; ask again"
_OTHERS = pa.schema(
    [
        ("tag", pa.int32()),
        ("t", pa.int64()),
        *((name, pa.string()) for name in ("problem", "file", "came")),
    ]
)


@dataclass(frozen=True)
class Split:
    """A part of a file."""

    path: str
    format: str
    name: str | None  # the input whose facts it has; None if each of its lines says so
    rows: int  # how many there are; of text about as many
    part: tuple[int, int] | None = None  # rows or bytes, from one to another; None for all
    columns: tuple[str, ...] = ()
    chosen: tuple[int, ...] = ()  # where the arguments and the time are among the columns
    ending: str = ""  # how lines of CSV end
    # What statistics say: first and last tick, where no value is missing in any row.
    range: Range | None = None
    time: TimeType = TimeType.TIMESTAMP  # the type of times
    version: tuple[int, int] | None = None  # of a file that must not change: size and time
    problem: str | None = None  # why all of it is one dead letter

    @property
    def shown(self) -> str:
        """The file for people: of a copy, what it is a copy of."""
        return without_secrets(as_addressed(self.path))

    @property
    def uri(self) -> str:
        return self.shown if "://" in self.shown else f"file://{self.path}"


def pinned(splits: Iterable[Split]) -> list[Split]:
    """Splits of files that are still as they are now when they are read, or it is an error."""
    return [replace(split, version=_version(split)) for split in splits]


def _version(split: Split) -> tuple[int, int]:
    """Size and time of a file; a copy may have been made again in the meantime."""
    there = Path(split.path).stat()
    return there.st_size, there.st_mtime_ns if split.shown == split.path else 0


# Which splits a file has


def splits_of(path: Path, format_: str, name: str | None, inputs: Inputs) -> list[Split]:
    """The least parts of a file that can be read alone, in order; DataError if it has no header."""
    whole = Split(str(path), format_, name, 0)
    if format_ == "parquet":
        return list(_row_groups(whole, inputs))
    bytes_ = path.stat().st_size
    rows = bytes_ // LINE * (5 if path.suffix == PACKED else 1)
    if format_ == "csv":
        header = read_header(path, inputs.schemas[str(name)])
        named = replace(whole, rows=rows, columns=header.names, chosen=header.positions)
        return [replace(named, ending=header.ending)]
    if format_ == "tdl" or path.suffix == PACKED:
        return [replace(whole, rows=rows)]
    size = TASK_ROWS * LINE
    return [
        replace(whole, rows=min(size, bytes_ - first) // LINE, part=(first, first + size - 1))
        for first in range(0, bytes_, size)
    ]


def _row_groups(whole: Split, inputs: Inputs) -> Iterator[Split]:
    schema = inputs.schemas[str(whole.name)]
    metadata = parquet.read_metadata(Path(whole.path))
    fields = metadata.schema.to_arrow_schema()
    names = fields.names
    chosen = tuple(positions(names, schema, whole.shown))
    wide = any(pa.types.is_uint64(fields.types[position]) for position in chosen)
    for column, position in zip(schema.columns, chosen, strict=False):
        kind = fields.types[position]
        if pa.types.is_decimal(kind):
            inputs.decimals.warn(schema.predicate, column.name, kind.precision, kind.scale)
    time = _time_type(metadata.schema, fields.field(chosen[-1]))
    named = replace(whole, columns=tuple(names), chosen=chosen, time=time)
    if NUMBERED in names:
        yield replace(named, rows=metadata.num_rows)
        return
    first = 0
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        range_ = _statistics(group, [names[position] for position in chosen], schema, inputs.ticks)
        last = first + group.num_rows - 1
        known = None if wide else range_  # one that does not fit 64 bits would be no fact
        yield replace(named, rows=group.num_rows, part=(first, last), range=known)
        first = last + 1


def _time_type(schema: pq.ParquetSchema, time: pa.Field) -> TimeType:
    """The type that Spark gives to a column of times."""
    if pa.types.is_date(time.type):
        return TimeType.DATE
    if not pa.types.is_timestamp(time.type) or time.type.tz is not None:
        return TimeType.TIMESTAMP
    # There are more columns than fields, where one has parts; INT96 is a moment.
    stored = (schema.column(i) for i in range(len(schema)))
    is_moment = any(one.path == time.name and one.physical_type == "INT96" for one in stored)
    return TimeType.TIMESTAMP if is_moment else TimeType.NTZ


def _statistics(
    group: pq.RowGroupMetaData, names: list[str], schema: Schema, ticks: Ticks | None
) -> Range | None:
    """First and last tick of some rows, if it is known that each of them is a fact."""
    types = [column.type for i, column in enumerate(schema.columns) if i not in schema.unread]
    if Type.FLOAT in types or None in types or ticks is not None or not group.num_rows:
        return None  # NaN is not counted
    chunks = [group.column(i) for i in range(group.num_columns)]
    known = {chunk.path_in_schema: chunk.statistics for chunk in chunks if chunk.is_stats_set}
    needed = [name for i, name in enumerate(names) if i not in schema.unread]
    for name in needed:
        if name not in known or known[name].null_count != 0:
            return None
    time = known[names[-1]]
    if not time.has_min_max or type(time.min) is not int or type(time.max) is not int:
        return None
    range_ = Range(time.min, time.max)
    return range_ if range_.low >= -TIME_MAX and range_.high <= TIME_MAX else None


def in_tasks(splits: Iterable[Split], tasks: int) -> list[list[Split]]:
    """Splits for tasks, about so many of them, in the order of the files.

    >>> one = Split("a.parquet", "parquet", "P", 300_000)
    >>> [len(task) for task in in_tasks([one] * 5, 8)]
    [2, 2, 1]
    """
    all_ = list(splits)
    share = -(-sum(split.rows for split in all_) // max(tasks, 1))
    most = min(max(share, TASK_ROWS), MOST_ROWS)
    groups: list[list[Split]] = []
    rows = 0
    for split in all_:
        if not groups or rows >= most:
            groups.append([])
            rows = 0
        groups[-1].append(split)
        rows += split.rows
    return [list(joined(group)) for group in groups]


def whole_files(splits: Iterable[Split]) -> list[Split]:
    """All parts of some files, as one split for each file."""
    return [replace(split, part=None) for split in joined(splits)]


def joined(splits: Iterable[Split]) -> Iterator[Split]:
    """Parts that follow each other in a file, as one."""
    before: Split | None = None
    for split in splits:
        if before is None:
            before = split
        elif (
            before.path == split.path
            and before.name == split.name
            and before.part is not None
            and split.part is not None
            and before.part[1] + 1 == split.part[0]
        ):
            part = (before.part[0], split.part[1])
            known = None
            if before.range is not None and split.range is not None:
                known = before.range | split.range
            before = replace(before, rows=before.rows + split.rows, part=part, range=known)
        else:
            yield before
            before = split
    if before is not None:
        yield before


# Reading


@dataclass(frozen=True)
class Source:
    """The rows of an input in a split: a select, and how `came` is told as JSON."""

    name: str
    split: Split
    select: str
    stamped: bool

    def letters(self, schema: Schema, rows: pa.Table) -> list[str | None]:
        """By row what came, as JSON, where there is anything in `came`."""
        came = rows.column("came").combine_chunks()
        if self.split.format == "csv":
            values = [rows.column(n).combine_chunks() for n in schema.sql_names()]
            return list(rows_as_json(schema, [*values, came, came], self.stamped).to_pylist())
        if self.split.format != "parquet":
            return [None if line is None else line_as_json(line) for line in came.to_pylist()]
        names = self.split.columns
        return [
            None if row is None else _as_json(dict(zip(names, row.values(), strict=True)))
            for row in came.to_pylist()
        ]


@dataclass(frozen=True)
class Lost:
    """A row of which no value could be read."""

    name: str | None
    problem: str
    came: str | None


@dataclass(frozen=True)
class Beat:
    """A line that says that all facts before a tick have arrived: of one input, or of all."""

    name: str | None
    tick: int
    came: str


@dataclass
class Opened:
    """What is known to a connection of some splits; lost rows and heartbeats are in `OTHERS`."""

    sources: list[Source] = field(default_factory=list)
    lost: list[tuple[Split, Lost]] = field(default_factory=list)
    can_skip: bool = False
    beats: list[tuple[Split, Beat]] = field(default_factory=list)
    rows: int = 0  # that were read, whatever becomes of them

    @contextmanager
    def readable(self, connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """Errors of DuckDB's name the file that it could not read."""
        try:
            yield
        except duckdb.OutOfMemoryException:
            raise DataError(
                "a task needs more memory than it may use, even after spilling to disk: give it"
                " more (memory)",
                code=Cause.MEMORY,
            ) from None
        except duckdb.Error as error:
            for source in self.sources:
                path = source.split.path
                if not Path(path).exists():
                    shown = source.split.shown
                    raise DataError(
                        missing(shown, can_skip=self.can_skip), code=Cause.FILE_GONE
                    ) from None
                try:
                    # A hash needs every value; counts may come from statistics.
                    connection.execute(
                        f"SELECT bit_xor(hash(COLUMNS(*))) FROM ({source.select}) AS z"
                    )
                except duckdb.Error:
                    where = source.split.shown
                    way_on = ", or " + or_skip(where)
                    way_on = way_on if self.can_skip else " or take it away, then go on"
                    raise DataError(
                        f"{where}: the file cannot be read; repair it{way_on}",
                        code=Cause.FILE_UNREADABLE,
                    ) from None
            raise DataError(f"facts cannot be read: {first_line(error)}") from None


@contextmanager
def reading(
    memory: str | None = "1GB", threads: int = 1, *, in_order: bool = False
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that may read files, with so much memory for each thread.

    What one thread reads comes in order anyway, what several read only if that is asked for.
    """
    with TemporaryDirectory(prefix="tidelog-") as spill:
        limits: dict[str, str | bool | int | float | list[str]] = {
            "threads": threads,
            "temp_directory": spill,
        }
        limits |= {} if memory is None else {"memory_limit": memory}
        with duckdb.connect(config=limits | NO_EXTENSIONS) as connection:
            if memory is not None and threads > 1:
                ((each,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
                amount, unit = each.split()
                connection.execute(f"SET memory_limit = '{threads * float(amount)}{unit}'")
            _settle(connection)
            if not in_order:
                connection.execute("SET preserve_insertion_order = false")
            yield connection


def session_of(database: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Another connection to the same database, with tables of its own; to be closed."""
    session = database.cursor()
    _settle(session)
    return session


def _settle(connection: duckdb.DuckDBPyConnection) -> None:
    """What each connection is told for itself."""
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")


@dataclass(frozen=True)
class Reader:
    """Reads splits as `tidelog query` reads files."""

    program: Program
    inputs: Inputs
    can_skip: bool = False  # whether it is for a stream, which may go on without a file

    def open(self, connection: duckdb.DuckDBPyConnection, splits: Iterable[Split]) -> Opened:
        """Make splits known to a connection; DataError for what cannot be read at all."""
        there = Opened(can_skip=self.can_skip)
        for number, split in enumerate(splits):
            if split.problem is not None:
                there.lost.append((split, Lost(split.name, split.problem, None)))
                there.rows += 1
                continue
            try:
                if split.version not in (None, _version(split)):
                    raise DataError(f"{split.shown}: {CHANGED}")
                match split.format:
                    case "parquet":
                        there.sources.append(self._parquet(connection, split))
                        there.rows += split.rows
                    case "csv":
                        self._csv(connection, split, f"texts{number}", there)
                    case _:
                        self._lines(connection, split, f"lines{number}", there)
            except FileNotFoundError:
                raise DataError(
                    missing(split.shown, can_skip=self.can_skip), code=Cause.FILE_GONE
                ) from None
            except OSError as error:
                raise DataError(f"{split.shown}: {error.strerror or error}") from None
            except DataError as error:
                raise (skippable(error, split.shown) if self.can_skip else error) from None
        connection.register(OTHERS, self._others(there))
        return there

    def _others(self, there: Opened) -> pa.Table:
        inputs = self.inputs
        rows: list[dict[str, Any]] = [
            {
                "tag": inputs.tag_of(one.name),
                "problem": one.problem,
                "file": s.uri,
                "came": one.came,
            }
            for s, one in there.lost
        ]
        rows += [
            {"tag": inputs.beat(one.name), "t": one.tick, "file": s.uri, "came": one.came}
            for s, one in there.beats
        ]
        return pa.Table.from_pylist(rows, _OTHERS)

    def _parquet(self, connection: duckdb.DuckDBPyConnection, split: Split) -> Source:
        schema = self.inputs.schemas[str(split.name)]
        path = Path(split.path)
        if not path.exists():
            raise FileNotFoundError
        types = [column.type or Type.TEXT for column in schema.columns]
        source = parquet.source(path, split.part)
        asked: list[Type | None] = list(types)
        ticks = self.inputs.ticks
        inner, wide, _ = typed_select(
            connection,
            schema,
            source,
            split.chosen,
            split.shown,
            asked,
            ticks,
            lenient=True,
            came=True,
        )
        names = schema.sql_names()
        given = [
            f"{filled_sql(name, types[i])} AS {name}" if i in schema.unread else name
            for i, name in enumerate(names)
        ]
        problem = "CAST(NULL AS STRING)"
        if split.range is None:
            problem = _problem_sql(schema, {i: p for i, p in enumerate(split.chosen) if p in wide})
        select = f"SELECT {', '.join(given)}, {problem} AS problem, came FROM ({inner}) AS y"
        return Source(schema.predicate, split, select, stamped=False)

    def _csv(
        self, connection: duckdb.DuckDBPyConnection, split: Split, table: str, there: Opened
    ) -> None:
        schema = self.inputs.schemas[str(split.name)]
        size, path = len(split.columns), Path(split.path)
        broken = read_texts(connection, table, path, size, split.ending)
        ((read,),) = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
        there.rows += read + len(broken)
        select = facts_of_texts(table, schema, split.chosen, self.inputs.ticks)
        renamed = f"SELECT * RENAME (texts AS came) FROM ({select}) AS y"
        stamped = self.inputs.ticks is not None
        there.sources.append(Source(schema.predicate, split, renamed, stamped))
        there.lost += [
            (split, Lost(schema.predicate, problem, json.dumps(line))) for problem, line in broken
        ]

    def _lines(
        self, connection: duckdb.DuckDBPyConnection, split: Split, table: str, there: Opened
    ) -> None:
        rows: dict[str, list[dict[str, Any]]] = {}
        for row in self._rules(split) if split.format == "tdl" else self._json(split):
            there.rows += 1
            match row:
                case Lost():
                    there.lost.append((split, row))
                case Beat():
                    there.beats.append((split, row))
                case _:
                    rows.setdefault(row.pop("tag"), []).append(row)
        for number, (name, some) in enumerate(rows.items()):
            schema = self.inputs.arrow_of(name)
            connection.register(f"{table}_{number}", pa.Table.from_pylist(some, schema))
            select = f"SELECT * FROM {table}_{number}"
            there.sources.append(Source(name, split, select, stamped=False))

    def _json(self, split: Split) -> Iterator[dict[str, Any] | Lost | Beat]:
        inputs = self.inputs
        only = None if split.name is None else inputs.schemas[split.name]
        others = frozenset(self.program.inputs) - inputs.schemas.keys()
        with opened(Path(split.path)) as file:
            for line in _lines_of(file, split.part):
                if not line.strip():
                    continue
                name = split.name
                try:
                    record = parse_line(line)
                    if is_heartbeat(record, only):
                        tick = tick_value(record[TIME_COLUMN], TIME_COLUMN, inputs.ticks)
                        yield Beat(name, tick, json.dumps(record))
                        continue
                    told = predicate_of(record, split.name)
                    if told in others:
                        continue
                    if told not in inputs.schemas:
                        raise ValueError(f"no input is called `{short(told)}`")
                    name, schema = told, inputs.schemas[told]
                    values = typed_values(record, schema, inputs.ticks)
                    row = dict(zip(schema.sql_names(), values, strict=True))
                    yield {"tag": name, **row, "problem": None, "came": line.decode()}
                except ValueError as error:
                    yield Lost(name, reason_text(error), line_as_json(line))

    def _rules(self, split: Split) -> Iterator[dict[str, Any]]:
        known = schemas(self.program)
        for name, facts in read_rules(Path(split.path), self.program, known).items():
            if name in self.inputs.schemas:
                names = self.inputs.schemas[name].sql_names()
                for row in facts.table.rename_columns(names).to_pylist():
                    yield {"tag": name, **row, "problem": None, "came": None}

    def table(self, splits: Iterable[Split]) -> pa.Table:
        """All rows in this process, as they are used: tagged, without what is for letters only."""
        with reading() as connection:
            there = self.open(connection, splits)
            with there.readable(connection):
                return connection.sql(self.rows(there)).to_arrow_table()

    def rows(self, there: Opened) -> str:
        """The same as a select."""
        slots = self.inputs.all_slots.items()
        none = "".join(f"CAST(NULL AS {SQL_TYPES[type_]}) AS {slot}, " for slot, type_ in slots)
        others = f"SELECT tag, {none}t, problem FROM {OTHERS}"
        return " UNION ALL ".join([others, *map(self._tagged, there.sources)])

    def _tagged(self, source: Source) -> str:
        inputs = self.inputs
        names = inputs.schemas[source.name].sql_names()
        named = zip(names, [*inputs.slots(source.name), "t"], strict=True)
        values = {slot: f"{name} AS {slot}" for name, slot in named}
        tag = f"CAST({inputs.tag(source.name)} AS INT) AS tag"
        values |= {"tag": tag, "problem": "problem"}
        listed = ", ".join(values.get(name, f"NULL AS {name}") for name in inputs.used.names)
        return f"SELECT {listed} FROM ({source.select}) AS z"

    def tagged(self, source: Source) -> str:
        """The rows of a source as SQL, with the number of its input."""
        return f"(SELECT *, {self.inputs.tag(source.name)} AS tag FROM ({source.select}) AS z)"

    def letters(
        self, connection: duckdb.DuckDBPyConnection, there: Opened, used: str, reason: str
    ) -> Iterator[DeadLetter]:
        """The rows that are not used, each with the reason that SQL gives for it."""
        for source in there.sources:
            schema = self.inputs.schemas[source.name]
            rows = connection.sql(
                f"SELECT *, {reason} AS reason FROM {self.tagged(source)} AS u WHERE NOT ({used})"
            ).to_arrow_table()
            came = source.letters(schema, rows)
            for said, row in zip(rows.column("reason").to_pylist(), came, strict=True):
                yield DeadLetter(source.name, said, source.split.uri, row)
        others = f"SELECT tag, {reason}, file, came FROM {OTHERS} WHERE NOT ({used})"
        for tag, *letter in connection.execute(others).fetchall():
            yield DeadLetter(self.inputs.names[tag] if tag >= 0 else None, *letter)


def _lines_of(file: IO[bytes], part: tuple[int, int] | None) -> Iterator[bytes]:
    """The lines that start in a part of a file."""
    if part is None:
        yield from file
        return
    first, last = part
    if first:
        file.seek(first - 1)
        file.readline()  # of the part before, unless it ends there
    while file.tell() <= last and (line := file.readline()):
        yield line


def _problem_sql(schema: Schema, wide: Mapping[int, int]) -> str:
    """Why a row of typed columns is no fact.

    `wide` are columns of integers that may not fit their type, with where each is in the source.
    """
    cases = []
    for i, position in wide.items():
        if i not in schema.unread:
            is_float = i < len(schema.columns) and schema.columns[i].type is Type.FLOAT
            said = not_float if is_float else too_large
            before, after = said(schema.names[i], "\0").split("\0")
            value = f"concat({sql_text(before)}, came.c{position}, {sql_text(after)})"
            lost = f"{schema.sql_names()[i]} IS NULL AND came.c{position} IS NOT NULL"
            cases.append(f"WHEN {lost} THEN {value}")
    names = columns(len(schema.columns))
    read = [
        (name, column)
        for i, (name, column) in enumerate(zip(names, schema.columns, strict=True))
        if i not in schema.unread
    ]
    cases += [f"WHEN {n} IS NULL THEN {_said('no value in', c.name)}" for n, c in read]
    cases += [
        f"WHEN isnan({n}) THEN {_said('NaN in', c.name)}" for n, c in read if c.type is Type.FLOAT
    ]
    cases.append(f"WHEN t IS NULL THEN {_said('no value in', str(schema.time))}")
    far = "concat('time ', t, ' does not fit 62 bits')"
    cases.append(f"WHEN t NOT BETWEEN {-TIME_MAX} AND {TIME_MAX} THEN {far}")
    return f"CASE {' '.join(cases)} END"


def _said(what: str, column: str) -> str:
    return sql_text(f"{what} column `{column}`")


def missing(path: str, *, can_skip: bool = False) -> str:
    way_on = f", or {or_skip(path)}" if can_skip else ", then go on"
    return f"{path}: the file is not there any more; put it back{way_on}"


def skippable(error: DataError, path: str) -> DataError:
    """What is wrong with a file, with how a stream goes on without it."""
    *problems, last = error.problems
    return DataError(
        *problems, f"{last}; or {or_skip(path)}", code=error.code or Cause.FILE_UNREADABLE
    )


def skipped(path: Path, name: str | None) -> Split:
    """A file that users leave out, as one dead letter."""
    return Split(str(path), "", name, 0, problem=reason_to_skip(path))


def _as_json(row: dict[str, Any]) -> str:
    return json.dumps({name: _written(v) for name, v in row.items()}, ensure_ascii=False)


def _written(value: Any) -> Any:
    """A value of a column as JSON has it."""
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case None | bool() | int() | str() | float():
            return value
        case Decimal():
            return float(value)
        case bytes():
            return base64.b64encode(value).decode()
        case date():
            return value.isoformat()
        case dict():
            return {str(name): _written(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_written(inner) for inner in value]
        case _:
            return str(value)
