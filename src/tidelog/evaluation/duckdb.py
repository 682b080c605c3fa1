"""The DuckDB engine: loads facts, runs a plan's SQL in process, hands answers back as Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.analysis.containment import reduced
from tidelog.analysis.dependencies import dependencies
from tidelog.data.facts import (
    NOT_FINITE,
    PATTERNS,
    DataError,
    FactsLike,
    Files,
    Part,
    Schema,
    Table,
    csv_header,
    csv_is_sound,
    find_csv_problems,
    find_facts,
    positions,
    resolve,
    schemas,
)
from tidelog.data.packed import CHUNK, chunk
from tidelog.data.ticks import PATTERN, Ticks
from tidelog.evaluation.interrupts import interruptible
from tidelog.evaluation.plan import (
    Derive,
    Fixpoint,
    Plan,
    Scan,
    plan,
    planning_budget,
    uses,
)
from tidelog.evaluation.ranges import EMPTY, Range
from tidelog.evaluation.runner import Runner
from tidelog.evaluation.sql import TEXTS, Writer
from tidelog.language.checks import check_program
from tidelog.language.diagnostics import Severity
from tidelog.language.program import TIME_COLUMN, TIME_MAX, Program, TimePoint, Type
from tidelog.logic.normalise import Core, Predicate, core

_SQL_TYPES = {Type.TEXT: "VARCHAR", Type.INT: "BIGINT", Type.FLOAT: "DOUBLE", Type.BOOL: "BOOLEAN"}
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_WIDE_INTEGERS = ("UBIGINT", "HUGEINT", "UHUGEINT")
_NULLS = ("NULL", '"NULL"')
# Facts a packed row must take for packing to pay, and chunks of data that make it worth a look.
_DENSE = 1.25
_WORTH_A_LOOK = 12


@dataclass
class Loaded:
    """The facts of one input as a view, and what was counted on the way in."""

    view: str
    types: tuple[Type, ...]
    sources: dict[str, str]  # a select for each file or table
    range: Range = EMPTY
    nulls: int = 0


@dataclass
class Engine(Runner):
    """One DuckDB connection with the facts of one program.

    >>> from tidelog.language.checks import check
    >>> program = check("P(X) @ T+1 :- E(X) @ T.").accepted()
    >>> with Engine(program, {"E": [("a", 0), ("b", 7)]}) as engine:
    ...     engine.query(["P"])["P"].to_pylist()
    [{'x': 'a', 'time': 1}]
    """

    program: Program
    facts: FactsLike = None
    ticks: Ticks | None = None
    timestamps: bool = True
    progress: Callable[[str], None] = field(default=lambda _: None)
    only: frozenset[str] | None = None  # load these inputs, not all

    def __post_init__(self) -> None:
        self.connection = duckdb.connect(
            config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}
        )
        try:
            self.connection.execute("SET TimeZone = 'UTC'")
            self.connection.execute("SET preserve_insertion_order = false")
            self.connection.execute("SET enable_progress_bar = false")
            self._load()
        except BaseException:
            self.connection.close()
            raise

    def __enter__(self) -> Engine:
        self._entered = ExitStack()
        self._entered.callback(self.connection.close)
        self._entered.enter_context(interruptible(self.connection))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._entered.__exit__(kind, error, trace)

    # Facts in

    def _load(self) -> None:
        self.loaded: dict[str, Loaded] = {}
        self.narrowed: set[str] = set()  # sources with integers that may not fit 64 bits
        known = schemas(self.program)
        try:
            parts = find_facts(self.program, self.facts, self.ticks, self.only)
            for number, name in enumerate(known, 1):
                if self.only is not None and name not in self.only:
                    continue
                self.progress(f"reading {name}")
                self.loaded[name] = self._input(known[name], parts.get(name, []), f"facts{number}")
        except OSError as error:
            raise DataError(f"{error.filename}: {error.strerror or error}") from None
        types = {name: loaded.types for name, loaded in self.loaded.items()}
        self.typed = resolve(self.program, types)
        clashes = [d for d in check_program(self.typed) if d.severity is Severity.ERROR]
        if clashes:
            raise DataError(
                *(f"the data's types do not fit the rules: {d.message}" for d in clashes)
            )

    def _input(self, schema: Schema, parts: list[Part], view: str) -> Loaded:
        types = [column.type for column in schema.columns]
        selects: dict[str, str] = {}  # by where the facts come from
        for number, part in enumerate(parts):
            name = f"{view}_{number}"
            match part:
                case Files("csv", paths):
                    for i, path in enumerate(paths):
                        selects[str(path)] = self._csv(schema, path, f"{name}_{i}")
                    types = [t or Type.TEXT for t in types]
                case Files(_, paths):
                    for path in paths:
                        selects[str(path)] = self._parquet(schema, path, types)
                case Table(table, origin, ticked):
                    self.connection.register(name, table)
                    ticks = None if ticked else self.ticks
                    order = range(len(schema.names))
                    selects[origin] = self._typed(schema, name, order, origin, types, ticks)
        resolved = tuple(t or Type.TEXT for t in types)
        self._create_view(view, schema, list(selects.values()), resolved)
        return self._measured(Loaded(view, resolved, selects), schema, parts)

    def _create_view(
        self, view: str, schema: Schema, selects: list[str], types: tuple[Type, ...]
    ) -> None:
        if not selects:
            values = [f"CAST(NULL AS {_SQL_TYPES[t]}) AS a{i}" for i, t in enumerate(types, 1)]
            values += ["CAST(NULL AS BIGINT) AS t"] if schema.time else []
            selects = [f"SELECT {', '.join(values or ['1 AS z'])} WHERE FALSE"]
        body = " UNION ALL ".join(selects)
        self.connection.execute(f"CREATE TEMP VIEW {view}_all AS {body}")

    def _missing(self, schema: Schema, types: tuple[Type, ...]) -> str:
        """When a row is not a fact: NULL or NaN in a column."""
        tests = [f"a{i} IS NULL" for i in range(1, len(types) + 1)]
        tests += [f"isnan(a{i})" for i, t in enumerate(types, 1) if t is Type.FLOAT]
        tests += ["t IS NULL"] if schema.time else []
        return " OR ".join(tests)

    def _known_whole(self, schema: Schema, parts: list[Part], types: tuple[Type, ...]) -> bool:
        """Whether Parquet's own statistics say that no value is missing, so that none need be read.

        They do not count NaN.
        """
        whole = set()
        for part in parts:
            if not (isinstance(part, Files) and part.format == "parquet" and schema.declared):
                return False
            for path in part.paths:
                if str(path) in self.narrowed:
                    return False
                for name, nulls in self.all(
                    "SELECT path_in_schema, max(coalesce(stats_null_count, 1))"
                    f" FROM parquet_metadata({_glob(str(path))}) GROUP BY path_in_schema"
                ):
                    if nulls == 0:
                        whole.add((path, name))
                if not all((path, name) in whole for name in schema.names):
                    return False
        return Type.FLOAT not in types

    def _measured(self, loaded: Loaded, schema: Schema, parts: list[Part]) -> Loaded:
        low: int | None = None
        high = 0
        view = loaded.view
        missing = self._missing(schema, loaded.types)
        try:
            if schema.time is not None:
                low, high = self.one(f"SELECT min(t), max(t) FROM {view}_all")
            if missing and not self._known_whole(schema, parts, loaded.types):
                (loaded.nulls,) = self.one(f"SELECT count(*) FROM {view}_all WHERE {missing}")
        except duckdb.Error as error:
            raise DataError(*self._unreadable(loaded) or [_first_line(error)]) from None
        where = f" WHERE NOT ({missing})" if loaded.nulls else ""
        self.connection.execute(f"CREATE TEMP VIEW {view} AS SELECT * FROM {view}_all{where}")
        if low is not None:
            if low < -TIME_MAX or high > TIME_MAX:
                raise DataError(*self._far_times(schema, loaded))
            loaded.range = Range(low, high)
        return loaded

    def _unreadable(self, loaded: Loaded) -> list[str]:
        """Which files or tables cannot be read to the end, and why."""
        found = []
        for where, select in loaded.sources.items():
            try:
                # A hash needs every value; counts may come from statistics.
                self.all(f"SELECT bit_xor(hash(COLUMNS(*))) FROM ({select}) AS x")
            except duckdb.Error as error:
                found.append(f"{where}: {_first_line(error)}")
        return found

    def _far_times(self, schema: Schema, loaded: Loaded) -> list[str]:
        found = []
        for where, select in loaded.sources.items():
            far = f"t < {-TIME_MAX} OR t > {TIME_MAX}"
            (tick,) = self.one(f"SELECT min(t) FROM ({select}) AS x WHERE {far}")
            if tick is not None:
                found.append(f"{where}: column `{schema.time}`: time {tick} does not fit 62 bits")
        return found

    def _parquet(self, schema: Schema, path: Path, types: list[Type | None]) -> str:
        # DuckDB would rename columns that differ in case only: the file's own names count.
        try:
            with path.open("rb") as file:
                names = pq.read_schema(file).names
        except pa.ArrowException as error:
            raise DataError(f"{path}: not Parquet: {_first_line(error)}") from None
        source = f"read_parquet({_glob(str(path))}, hive_partitioning = false)"
        chosen = positions(names, schema, str(path))
        return self._typed(schema, source, chosen, str(path), types, self.ticks)

    def _typed(
        self,
        schema: Schema,
        source: str,
        chosen: Sequence[int],
        where: str,
        types: list[Type | None],
        ticks: Ticks | None,
    ) -> str:
        """A select of the schema's columns from a typed source; settles types left open."""
        try:
            found = [row[1] for row in self.all(f"DESCRIBE SELECT * FROM {source}")]
        except duckdb.Error as error:
            raise DataError(f"{where}: {_first_line(error)}") from None
        values: list[str] = []
        for i, (name, position) in enumerate(zip(schema.names, chosen, strict=True)):
            column, sql_type = f"c{position}", found[position]
            if sql_type in _WIDE_INTEGERS:
                self.narrowed.add(where)
            if i < len(schema.columns):
                types[i], expression = self._column(name, column, sql_type, types[i], where)
                values.append(f"{expression} AS a{i + 1}")
            else:
                values.append(f"{self._time(name, column, sql_type, where, ticks)} AS t")
        # Columns go by their position: no name of a user's reaches the SQL.
        columns = ", ".join(f"c{i}" for i in range(len(found)))
        return f"SELECT {', '.join(values or ['1 AS z'])} FROM {source} AS x({columns})"

    def _column(
        self, name: str, column: str, sql_type: str, wanted: Type | None, where: str
    ) -> tuple[Type, str]:
        kind = sql_type.split("(")[0]
        actual = {"VARCHAR": Type.TEXT, "ENUM": Type.TEXT, "BOOLEAN": Type.BOOL}.get(kind)
        if kind in _INTEGERS or kind in _WIDE_INTEGERS:
            actual = Type.INT
        elif kind in ("FLOAT", "DOUBLE", "DECIMAL"):
            actual = Type.FLOAT
        type_ = wanted or actual
        if kind in _NULLS:
            type_ = wanted or Type.TEXT
        elif type_ is None or not (actual is type_ or (actual is Type.INT and type_ is Type.FLOAT)):
            raise DataError(
                f"{where}: column `{name}` is {sql_type}, and the rules need"
                f" {type_.value if type_ else 'text, int, float or bool'}"
            )
        return type_, f"CAST({column} AS {_SQL_TYPES[type_]})"

    def _time(self, name: str, column: str, sql_type: str, where: str, ticks: Ticks | None) -> str:
        if sql_type in (*_INTEGERS, *_WIDE_INTEGERS) and ticks is None:
            return f"CAST({column} AS BIGINT)"
        if sql_type.startswith("TIMESTAMP") or sql_type == "DATE":
            if ticks is None:
                raise DataError(
                    f"{where}: time column `{name}` holds timestamps; give the length of a tick,"
                    " for example `--tick 10m`"
                )
            if sql_type == "TIMESTAMP_NS":
                return _tick_sql(_floor_sql(f"epoch_ns({column})", 1000), ticks)
            return _tick_sql(f"epoch_us(CAST({column} AS TIMESTAMPTZ))", ticks)
        if sql_type in _NULLS:
            return "CAST(NULL AS BIGINT)"
        wanted = "whole numbers of ticks" if ticks is None else "timestamps"
        raise DataError(f"{where}: time column `{name}` is {sql_type}; times are {wanted}")

    def _csv(self, schema: Schema, path: Path, table: str) -> str:
        """A CSV file as a typed table: text that does not fit is found here, its line later."""
        header = csv_header(path, schema)
        raw = [f"c{i}" for i in range(len(header.names))]
        values, bad = [], []
        for i, position in enumerate(header.positions):
            column = raw[position]
            if i == len(schema.columns):
                name, value = "t", _csv_time(column, self.ticks)
            else:
                name, value = f"a{i + 1}", _csv_value(column, schema.columns[i].type or Type.TEXT)
            values.append(f"{value} AS {name}")
            if value != column:
                bad.append(f"({column} <> '' AND {value} IS NULL)")
        select = f"SELECT {', '.join(values or ['1 AS z'])}, {' OR '.join(bad) or 'FALSE'} AS bad"
        # In a file of one column nothing but a blank line is empty and not quoted.
        where = " WHERE c0 IS NOT NULL" if len(raw) == 1 else ""
        try:
            self.table(table, f"{select} FROM {_csv_source(path, raw, header.ending)}{where}")
        except duckdb.Error as error:
            if found := find_csv_problems(path, schema, self.ticks):
                raise DataError(*found) from None
            # Python's reader has no objection: ends of line that differ, or very long lines.
            try:
                lenient = _csv_source(path, raw, None, path.stat().st_size)
                self.table(table, f"{select} FROM {lenient}{where}")
            except duckdb.Error:
                raise DataError(f"{path}: {_first_line(error)}") from None
        (problems,) = self.one(f"SELECT count(*) FROM {table} WHERE bad")
        if problems:
            found = find_csv_problems(path, schema, self.ticks)
            raise DataError(*found or [f"{path}: {problems} rows have a value that does not fit"])
        names = [v.rsplit(" AS ", 1)[1] for v in values] or ["z"]
        return f"SELECT {', '.join(names)} FROM {table}"

    # Queries

    @property
    def nulls(self) -> dict[str, int]:
        """Rows left out for a NULL in a declared column, by input."""
        return {name: found.nulls for name, found in self.loaded.items() if found.nulls}

    @property
    def span(self) -> Range:
        """First to last tick of the data and of the facts in the rules."""
        span = EMPTY
        for loaded in self.loaded.values():
            span = span | loaded.range
        for rule in self.program.rules:
            if not rule.body and isinstance(rule.head.time, TimePoint):
                span = span | Range(rule.head.time.tick, rule.head.time.tick)
        return span

    def plan(self, queries: Iterable[str], from_: int | None = None, to: int | None = None) -> Plan:
        """The plan of the queries over these facts, for answers from a tick to a tick."""
        span = self.span
        low = span.low if from_ is None else from_
        high = span.high if to is None else to
        asked = Range(low, high)
        queries = tuple(queries)
        needed, _ = reduced(core(self.typed, queries), queries, planning_budget())
        return self.plan_core(needed, queries, asked)

    def plan_core(
        self, whole: Core, queries: Iterable[str], asked: Range, until: int | None = None
    ) -> Plan:
        """The plan of queries of a core; facts after the tick `until` are not looked at."""
        data = {p.name: self.loaded[p.source].range for p in whole.inputs if p.temporal}
        return plan(dependencies(whole, queries), data, EMPTY if asked.empty else asked, until)

    def query(
        self, queries: Iterable[str], from_: int | None = None, to: int | None = None
    ) -> dict[str, pa.Table]:
        """The answers of each query, by time and arguments."""
        queries = tuple(queries)
        writer = self.evaluate(self.plan(queries, from_, to))
        found = {}
        for name in queries:
            self.progress(f"answers of {name}")
            table = self.arrow(writer.rows(name))
            found[name] = self._named(writer.plan.deps.core.predicates[name], table)
        return found

    def count(self, query: str, from_: int | None = None, to: int | None = None) -> int:
        """How many answers a query has."""
        writer = self.evaluate(self.plan([query], from_, to))
        (n,) = self.one(writer.count(query))
        return int(n)

    def _named(self, predicate: Predicate, table: pa.Table) -> pa.Table:
        names = list(self.typed.output_columns(predicate.name))
        if predicate.temporal:
            names.append(TIME_COLUMN)
            if self.ticks is not None and self.timestamps:
                stamps = timestamps(table.column(-1), self.ticks)
                table = table.set_column(table.num_columns - 1, "t", stamps)
        if not names:
            return pa.table({"holds": pa.array([True] * table.num_rows, pa.bool_())})
        return table.rename_columns(names)

    # Plans

    def evaluate(self, plan: Plan, facts: Mapping[str, str] | None = None) -> Writer:
        """Run the steps of a plan; afterwards each derived predicate is a table.

        `facts` names other tables than those loaded to take the facts of inputs from.
        """
        writer = Writer(plan)
        run = self.connection.execute
        for name, table in plan.inputs.items():
            view = self.loaded[plan.deps.core.predicates[name].source].view
            view = view if facts is None else facts.get(name, view)
            run(f"CREATE OR REPLACE TEMP VIEW {table} AS SELECT * FROM {view}")
        run(f"CREATE OR REPLACE TEMP TABLE {TEXTS} (i BIGINT, v VARCHAR)")
        for text, i in writer.texts.items():
            run(f"INSERT INTO {TEXTS} VALUES (?, ?)", [i, text])
        copied: dict[str, str] = {}
        try:
            for step in plan.steps:
                match step:
                    case Scan():
                        self.progress(f"packing {step.predicate.source}")
                        store = self.table
                        if self._sparse(step, writer):
                            writer.unpacked.add(step.name)
                            store = self.view if uses(plan, step.name) == 1 else self.table
                        store(step.name, writer.scan(step))
                    case Derive():
                        self.progress(f"deriving {step.predicate.name}")
                        if writer.is_copy(step):
                            # A copy of a copy looks at the first: views do not nest far.
                            source = step.joins[0].sources[0].table
                            copied[step.table] = copied.get(source, source)
                            join = writer.join(step.joins[0], {0: copied[step.table]})
                            self.view(step.table, join)
                        else:
                            self.table(step.table, writer.derive(step))
                    case Fixpoint():
                        self.fixpoint(step, writer)
        except duckdb.OutOfRangeException:
            raise DataError(
                "a derived time does not fit 62 bits; ask for a narrower range"
            ) from None
        except duckdb.Error:
            # Parquet is read here for the first time where its statistics said enough before.
            broken = [line for found in self.loaded.values() for line in self._unreadable(found)]
            if not broken:
                raise
            raise DataError(*broken) from None
        return writer

    def _sparse(self, scan: Scan, writer: Writer) -> bool:
        """Whether packing would not pay: in a few chunks hardly a row takes two facts.

        Grouping then costs more than it saves; joins do not mind, and what they derive is merged.
        """
        range_ = writer.plan.ranges.get(scan.predicate.name, EMPTY)
        range_ = range_ & writer.plan.data.get(scan.predicate.name, EMPTY)
        if range_.empty or range_.high - range_.low < _WORTH_A_LOOK * CHUNK:
            return False
        quarter = int(range_.high - range_.low) // 4
        chunks = [chunk(int(range_.low) + quarter * i) for i in (1, 2, 3)]
        facts, rows = self.one(writer.density(scan, chunks))
        return bool(0 < facts < _DENSE * rows)


def timestamps(ticks: pa.ChunkedArray, length: Ticks) -> pa.ChunkedArray:
    """When each tick starts; ticks come in order."""
    for tick in (ticks[0].as_py(), ticks[-1].as_py()) if len(ticks) else ():
        try:
            length.moment(tick)
        except OverflowError:
            raise DataError(
                f"tick {tick} is no timestamp between the years 1 and 9999; ask for whole ticks"
            ) from None
    micros = pc.add(pc.multiply(ticks, length.length), length.origin)
    return micros.cast(pa.timestamp("us", tz="UTC"))


def _tick_sql(micros: str, ticks: Ticks) -> str:
    return _floor_sql(f"({micros} - {ticks.origin})", ticks.length)


def _floor_sql(value: str, by: int) -> str:
    """Division that rounds down, also below 0."""
    return f"(({value} - (({value} % {by}) + {by}) % {by}) // {by})"


# What DuckDB says of a row that it rejects, in our words.
_REJECTED = {
    "MISSING COLUMNS": "the row has too many or too few values",
    "TOO MANY COLUMNS": "the row has too many or too few values",
    "UNQUOTED VALUE": "a quote is not closed, or text follows it",
    "INVALID ENCODING": "not UTF-8 text",
}


def csv_texts(
    connection: duckdb.DuckDBPyConnection, table: str, path: Path, size: int, ending: str
) -> list[str]:
    """The texts of a CSV file, as queries read them, as a table; what is wrong with other rows."""
    names = [f"c{i}" for i in range(size)]
    blank = " WHERE c0 IS NOT NULL" if size == 1 else ""

    def read(ending: str | None, more: str = "") -> None:
        longest = 0 if ending is not None else path.stat().st_size
        source = _csv_source(path, names, ending, longest, more)
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS FROM {source}{blank}")

    try:
        read(ending)
        return []
    except duckdb.Error:
        pass
    # As in a query: ends of line that differ, or very long lines, are no reason to refuse.
    for how in (None,) if csv_is_sound(path, size) else (ending, None):
        try:
            read(how, ", store_rejects = true")
            break
        except duckdb.Error as error:
            last = error
    else:
        raise DataError(f"{path}: {_first_line(last)}")
    rejected = connection.execute(
        "SELECT line, first(error_type), first(left(csv_line, 60)), first(error_message)"
        " FROM reject_errors GROUP BY line ORDER BY line"
    ).fetchall()
    connection.execute("DROP TABLE reject_errors; DROP TABLE reject_scans")
    return [
        f"line {line}: {_REJECTED.get(kind, _first_line(said))}: `{text.rstrip()}`"
        for line, kind, text, said in rejected
    ]


def _csv_source(
    path: Path, names: list[str], ending: str | None, longest: int = 0, more: str = ""
) -> str:
    types = ", ".join(f"'{name}': 'VARCHAR'" for name in names)
    if ending is None:
        how = f"strict_mode = false, max_line_size = {longest + 1}, buffer_size = {longest + 2}"
    else:
        how = f"new_line = {_text(ending.encode('unicode_escape').decode() or chr(92) + 'n')}"
    return (
        f"read_csv({_glob(str(path))}, header = true, auto_detect = false, {how},"
        f" columns = {{{types}}}, delim = ',', quote = '\"', escape = '\"',"
        f" allow_quoted_nulls = false{more})"
    )


def _csv_value(column: str, type_: Type) -> str:
    """The text of a column as its type; NULL if it does not fit, or is empty where text is not."""
    if type_ is Type.TEXT:
        return column
    fits = f"regexp_full_match({column}, {_text(PATTERNS[type_])})"
    value = f"trim({column}, ' \t')" if type_ is Type.BOOL else column
    cast = f"TRY_CAST({value} AS {_SQL_TYPES[type_]})"
    if type_ is Type.FLOAT:
        return (
            f"CASE WHEN {fits} THEN CASE WHEN isfinite({cast}) THEN {cast} END"
            f" WHEN regexp_full_match({column}, {_text(NOT_FINITE)}) THEN {cast} END"
        )
    return f"CASE WHEN {fits} THEN {cast} END"


def _csv_time(column: str, ticks: Ticks | None) -> str:
    if ticks is None:
        value = _csv_value(column, Type.INT)
        return f"CASE WHEN {value} BETWEEN {-TIME_MAX} AND {TIME_MAX} THEN {value} END"
    moment = f"trim({column}, ' \t')"
    tick = _tick_sql(f"epoch_us(TRY_CAST({moment} AS TIMESTAMPTZ))", ticks)
    return f"CASE WHEN regexp_full_match({moment}, {_text(PATTERN)}) THEN {tick} END"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _glob(path: str) -> str:
    """A path as a SQL text in which nothing is a wildcard."""
    return _text("".join(f"[{c}]" if c in "*?[" else c for c in path))


def _first_line(error: object) -> str:
    return str(error).split("\n", 1)[0]
