"""The DuckDB engine: loads facts, runs a plan's SQL in process, hands answers back as Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb
import pyarrow as pa

from tidelog.analysis.core import Predicate, core
from tidelog.analysis.dependencies import dependencies
from tidelog.evaluation.facts import (
    PATTERNS,
    DataError,
    FactsLike,
    Files,
    Part,
    Schema,
    Table,
    arrange,
    csv_header,
    find_csv_problems,
    find_facts,
    resolve,
    schemas,
)
from tidelog.evaluation.plan import Derive, Fill, Fixpoint, Plan, Scan, plan
from tidelog.evaluation.ranges import EMPTY, Range
from tidelog.evaluation.sql import TEXTS, Writer
from tidelog.evaluation.ticks import Ticks
from tidelog.language.checks import check_program
from tidelog.language.diagnostics import Severity
from tidelog.language.program import TIME_COLUMN, TIME_MAX, Program, TimePoint, Type

_SQL_TYPES = {Type.TEXT: "VARCHAR", Type.INT: "BIGINT", Type.FLOAT: "DOUBLE", Type.BOOL: "BOOLEAN"}
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_WIDE_INTEGERS = ("UBIGINT", "HUGEINT", "UHUGEINT")


@dataclass
class Loaded:
    """The facts of one input as a view, and what was counted on the way in."""

    view: str
    types: tuple[Type, ...]
    range: Range = EMPTY
    nulls: int = 0


@dataclass
class Engine:
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
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.connection.close()

    # Facts in

    def _load(self) -> None:
        self.loaded: dict[str, Loaded] = {}
        known = schemas(self.program)
        parts = find_facts(self.program, self.facts, self.ticks)
        for number, name in enumerate(known, 1):
            self.progress(f"reading {name}")
            self.loaded[name] = self._input(known[name], parts.get(name, []), f"facts{number}")
        types = {name: loaded.types for name, loaded in self.loaded.items()}
        self.typed = resolve(self.program, types)
        clashes = [d for d in check_program(self.typed) if d.severity is Severity.ERROR]
        if clashes:
            raise DataError(
                *(f"the data's types do not fit the rules: {d.message}" for d in clashes)
            )

    def _input(self, schema: Schema, parts: list[Part], view: str) -> Loaded:
        types = [column.type for column in schema.columns]
        selects: list[str] = []
        for number, part in enumerate(parts):
            name = f"{view}_{number}"
            match part:
                case Files("csv", paths):
                    selects += [
                        self._csv(schema, path, f"{name}_{i}") for i, path in enumerate(paths)
                    ]
                    types = [t or Type.TEXT for t in types]
                case Files(_, paths):
                    for path in paths:
                        source = f"read_parquet({_glob(str(path))})"
                        selects.append(self._typed(schema, source, str(path), types, self.ticks))
                case Table(table, origin, ticked):
                    self.connection.register(name, table)
                    ticks = None if ticked else self.ticks
                    selects.append(self._typed(schema, name, origin, types, ticks, ordered=True))
        resolved = tuple(t or Type.TEXT for t in types)
        self._create_view(view, schema, selects, resolved)
        return self._measured(view, schema, resolved, parts)

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
        names = set(schema.names)
        for part in parts:
            if not (isinstance(part, Files) and part.format == "parquet" and schema.declared):
                return False
            paths = ", ".join(_text(str(path)) for path in part.paths)
            for name, nulls in self._all(
                f"SELECT path_in_schema, stats_null_count FROM parquet_metadata([{paths}])"
            ):
                if name in names and nulls != 0:
                    return False
        return Type.FLOAT not in types

    def _measured(
        self, view: str, schema: Schema, types: tuple[Type, ...], parts: list[Part]
    ) -> Loaded:
        loaded = Loaded(view, types)
        low: int | None = None
        high = 0
        missing = self._missing(schema, types)
        try:
            if schema.time is not None:
                low, high = self._one(f"SELECT min(t), max(t) FROM {view}_all")
            if missing and not self._known_whole(schema, parts, types):
                (loaded.nulls,) = self._one(f"SELECT count(*) FROM {view}_all WHERE {missing}")
        except duckdb.Error as error:
            raise DataError(f"facts of `{schema.predicate}`: {_first_line(error)}") from None
        where = f" WHERE NOT ({missing})" if loaded.nulls else ""
        self.connection.execute(f"CREATE TEMP VIEW {view} AS SELECT * FROM {view}_all{where}")
        if low is not None:
            if low < -TIME_MAX or high > TIME_MAX:
                raise DataError(
                    f"facts of `{schema.predicate}`: times {low} to {high} do not fit 62 bits"
                )
            loaded.range = Range(low, high)
        return loaded

    def _typed(
        self,
        schema: Schema,
        source: str,
        where: str,
        types: list[Type | None],
        ticks: Ticks | None,
        *,
        ordered: bool = False,
    ) -> str:
        """A select of the schema's columns from a typed source; settles types left open."""
        try:
            described = self._all(f"DESCRIBE SELECT * FROM {source}")
        except duckdb.Error as error:
            raise DataError(f"{where}: {_first_line(error)}") from None
        found = {row[0]: row[1] for row in described}
        names = [row[0] for row in described]
        if not ordered:
            empty = pa.table({name: pa.array([], pa.null()) for name in names})
            names = arrange(empty, schema, where).column_names
        values: list[str] = []
        for i, name in enumerate(names[: len(schema.names)]):
            if i < len(schema.columns):
                type_, expression = self._column(name, found[name], types[i], where)
                types[i] = type_
                values.append(f"{expression} AS a{i + 1}")
            elif schema.time is not None:
                values.append(f"{self._time(name, found[name], where, ticks)} AS t")
        return f"SELECT {', '.join(values or ['1 AS z'])} FROM {source}"

    def _column(
        self, name: str, sql_type: str, wanted: Type | None, where: str
    ) -> tuple[Type, str]:
        kind = sql_type.split("(")[0]
        quoted = _identifier(name)
        actual = {"VARCHAR": Type.TEXT, "ENUM": Type.TEXT, "BOOLEAN": Type.BOOL}.get(kind)
        if kind in _INTEGERS or kind in _WIDE_INTEGERS:
            actual = Type.INT
        elif kind in ("FLOAT", "DOUBLE", "DECIMAL"):
            actual = Type.FLOAT
        type_ = wanted or actual
        if kind == '"NULL"' or kind == "NULL":
            type_ = wanted or Type.TEXT
        elif type_ is None or not (actual is type_ or (actual is Type.INT and type_ is Type.FLOAT)):
            raise DataError(
                f"{where}: column `{name}` is {sql_type}, and the rules need"
                f" {type_.value if type_ else 'text, int, float or bool'}"
            )
        return type_, f"CAST({quoted} AS {_SQL_TYPES[type_]})"

    def _time(self, name: str, sql_type: str, where: str, ticks: Ticks | None) -> str:
        quoted = _identifier(name)
        if sql_type in (*_INTEGERS, *_WIDE_INTEGERS) and ticks is None:
            return f"CAST({quoted} AS BIGINT)"
        if sql_type.startswith("TIMESTAMP") or sql_type == "DATE":
            if ticks is not None:
                return _tick_sql(f"CAST({quoted} AS TIMESTAMPTZ)", ticks)
            raise DataError(
                f"{where}: time column `{name}` holds timestamps; give the length of a tick,"
                " for example `--tick 10m`"
            )
        if sql_type in ('"NULL"', "NULL"):
            return "CAST(NULL AS BIGINT)"
        wanted = "whole numbers of ticks" if ticks is None else "timestamps"
        raise DataError(f"{where}: time column `{name}` is {sql_type}; times are {wanted}")

    def _csv(self, schema: Schema, path: Path, table: str) -> str:
        """A CSV file as a typed table: text that does not fit is found here, its line later."""
        header = csv_header(path, schema)
        raw = [f"c{i}" for i in range(len(header))]
        types = ", ".join(f"'{name}': 'VARCHAR'" for name in raw)
        source = (
            f"read_csv({_glob(str(path))}, header = true, auto_detect = false,"
            f" columns = {{{types}}}, delim = ',', quote = '\"', escape = '\"',"
            " allow_quoted_nulls = false)"
        )
        values, bad = [], []
        for i, name in enumerate(schema.names):
            column = raw[header.index(name) if schema.declared else i]
            if i < len(schema.columns):
                type_ = schema.columns[i].type or Type.TEXT
                value = column
                if type_ is not Type.TEXT:
                    value = (
                        f"CASE WHEN regexp_full_match({column}, {_text(PATTERNS[type_])})"
                        f" THEN TRY_CAST(trim({column}) AS {_SQL_TYPES[type_]}) END"
                    )
                values.append(f"{value} AS a{i + 1}")
            else:
                value = (
                    _tick_sql(f"TRY_CAST({column} AS TIMESTAMPTZ)", self.ticks)
                    if self.ticks
                    else f"CASE WHEN regexp_full_match({column}, {_text(PATTERNS[Type.INT])})"
                    f" THEN TRY_CAST(trim({column}) AS BIGINT) END"
                )
                values.append(f"{value} AS t")
            bad.append(f"({column} IS NOT NULL AND {values[-1].rsplit(' AS ', 1)[0]} IS NULL)")
        try:
            self.connection.execute(
                f"CREATE TEMP TABLE {table} AS SELECT {', '.join(values or ['1 AS z'])},"
                f" {' OR '.join(bad) or 'FALSE'} AS bad FROM {source}"
            )
            (problems,) = self._one(f"SELECT count(*) FROM {table} WHERE bad")
        except duckdb.Error as error:
            found = find_csv_problems(path, schema, self.ticks)
            raise DataError(*found or [f"{path}: {_first_line(error)}"]) from None
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
        whole = core(self.typed, queries)
        data = {p.name: self.loaded[p.source].range for p in whole.inputs if p.temporal}
        return plan(dependencies(whole, queries), data, EMPTY if asked.empty else asked)

    def query(
        self, queries: Iterable[str], from_: int | None = None, to: int | None = None
    ) -> dict[str, pa.Table]:
        """The answers of each query, by time and arguments."""
        queries = tuple(queries)
        writer = self.evaluate(self.plan(queries, from_, to))
        found = {}
        for name in queries:
            self.progress(f"answers of {name}")
            table = self._arrow(writer.rows(name))
            found[name] = self._named(writer.plan.deps.core.predicates[name], table)
        return found

    def count(self, query: str, from_: int | None = None, to: int | None = None) -> int:
        """How many answers a query has."""
        writer = self.evaluate(self.plan([query], from_, to))
        (n,) = self._one(writer.count(query))
        return int(n)

    def _named(self, predicate: Predicate, table: pa.Table) -> pa.Table:
        names = list(self.typed.output_columns(predicate.name))
        if predicate.temporal:
            names.append(TIME_COLUMN)
            if self.ticks is not None and self.timestamps:
                stamps = pa.array(
                    [self.ticks.micros(t) for t in table.column(-1).to_pylist()],
                    pa.timestamp("us", tz="UTC"),
                )
                table = table.set_column(table.num_columns - 1, "t", stamps)
        if not names:
            return pa.table({"holds": pa.array([True] * table.num_rows, pa.bool_())})
        return table.rename_columns(names)

    # Plans

    def evaluate(self, plan: Plan) -> Writer:
        """Run the steps of a plan; afterwards each derived predicate is a table."""
        writer = Writer(plan)
        run = self.connection.execute
        for name, table in plan.inputs.items():
            source = plan.deps.core.predicates[name].source
            run(f"CREATE OR REPLACE TEMP VIEW {table} AS SELECT * FROM {self.loaded[source].view}")
        run(f"CREATE OR REPLACE TEMP TABLE {TEXTS} (i BIGINT, v VARCHAR)")
        for text, i in writer.texts.items():
            run(f"INSERT INTO {TEXTS} VALUES (?, ?)", [i, text])
        try:
            for step in plan.steps:
                match step:
                    case Scan():
                        self.progress(f"packing {step.predicate.source}")
                        self._table(step.name, writer.scan(step))
                    case Derive():
                        self.progress(f"deriving {step.predicate.name}")
                        if writer.is_copy(step):
                            self._view(step.table, writer.join(step.joins[0]))
                        else:
                            self._table(step.table, writer.derive(step))
                    case Fixpoint():
                        self._fixpoint(step, writer)
        except duckdb.OutOfRangeException:
            raise DataError(
                "a derived time does not fit 62 bits; ask for a narrower range"
            ) from None
        return writer

    def _fixpoint(self, step: Fixpoint, writer: Writer) -> None:
        for i, table in enumerate(step.tables):
            self._table(table, writer.start(step, i))
        guards = {id(fill): self._guards(fill, writer, i) for i, fill in enumerate(step.fills)}
        if len(step.tables) == 1 and len(step.fills) == 1 and not step.repeat:
            (table,), (fill,) = step.tables, step.fills
            carried = self._fill(fill, writer, table, f"{table}_fill", guards[id(fill)])
            if fill.filter is None:
                self._table(table, f"SELECT * FROM {carried}")
            else:  # what the filter kept from being carried on still holds
                self._table(table, writer.merged(step.predicates[0], table, carried))
            return
        for table in step.tables:
            self._table(f"{table}_new", f"SELECT * FROM {table}")
        rounds = 0
        while True:
            rounds += 1
            self.progress(f"deriving {', '.join(p.name for p in step.predicates)}, round {rounds}")
            grew = False
            for i, (predicate, table) in enumerate(zip(step.predicates, step.tables, strict=True)):
                fills = [
                    self._fill(f, writer, f"{table}_new", f"{table}_fill{n}", guards[id(f)])
                    for n, f in enumerate(step.fills)
                    if f.predicate == predicate.name
                ]
                candidates = writer.candidates(step, i, fills)
                if candidates is None:
                    self._table(f"{table}_next", f"SELECT * FROM {table} WHERE FALSE")
                    continue
                self._table(f"{table}_maybe", candidates)
                self._table(f"{table}_next", writer.news(predicate, table, f"{table}_maybe"))
                grew = grew or bool(self._one(f"SELECT count(*) FROM {table}_next")[0])
            if not grew:
                return
            for predicate, table in zip(step.predicates, step.tables, strict=True):
                self._table(f"{table}_new", f"SELECT * FROM {table}_next")
                self._table(table, writer.merged(predicate, table, f"{table}_new"))

    def _guards(self, fill: Fill, writer: Writer, number: int) -> list[tuple[str | None, int]]:
        """Pairs of a guard and a step, doubling, as far as anything can be carried."""
        range_ = writer.plan.ranges[fill.predicate]
        width = 0 if range_.empty else int(range_.high - range_.low)
        found: list[tuple[str | None, int]] = []
        step = fill.step
        guard = None
        while abs(step) <= width and not fill.ever:
            if fill.guard is not None:
                name = f"{writer.plan.tables[fill.predicate]}_guard{number}_{len(found)}"
                if guard is None:
                    self._table(name, writer.fill_guard(fill))
                else:
                    self._table(name, writer.fill_guard_twice(fill, guard, step // 2))
                guard = name
                if not self._one(f"SELECT count(*) FROM {guard}")[0]:
                    break
            found.append((guard, step))
            step *= 2
        return found

    def _fill(
        self,
        fill: Fill,
        writer: Writer,
        source: str,
        table: str,
        guards: list[tuple[str | None, int]],
    ) -> str:
        self._table(table, writer.fill_start(fill, source))
        if fill.ever:
            self._table(f"{table}_ever", writer.fill_ever(fill, table))
            return f"{table}_ever"
        for guard, step in guards:
            self._table(f"{table}_more", writer.fill_step(fill, table, guard, step))
            self._table(table, f"SELECT * FROM {table}_more")
        return table

    # DuckDB

    def _table(self, name: str, select: str) -> None:
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {select}")

    def _view(self, name: str, select: str) -> None:
        self.connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {select}")

    def _arrow(self, select: str) -> pa.Table:
        return self.connection.sql(select).to_arrow_table()

    def _one(self, select: str) -> tuple[Any, ...]:
        (row,) = self._all(select)
        return row

    def _all(self, select: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(select).fetchall()


def _tick_sql(moment: str, ticks: Ticks) -> str:
    micros = f"(epoch_us({moment}) - {ticks.origin})"
    length = ticks.length
    return f"(({micros} - (({micros} % {length}) + {length}) % {length}) // {length})"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _glob(path: str) -> str:
    """A path as a SQL text in which nothing is a wildcard."""
    return _text("".join(f"[{c}]" if c in "*?[" else c for c in path))


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
