"""Facts in: files, folders, rows and tables, found, named and checked against the program.

Nothing is converted silently: a value that does not fit its column is an error with file and line.
A row with NULL (or NaN) in a declared column is not a fact; such rows are counted.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from tidelog.data.ticks import Ticks
from tidelog.language.checks import Similar, decode
from tidelog.language.diagnostics import ProgramError
from tidelog.language.parser import parse_source
from tidelog.language.program import (
    TIME_COLUMN,
    TIME_MAX,
    Column,
    Constant,
    Input,
    Program,
    Rule,
    TimePoint,
    Type,
    Value,
)
from tidelog.language.types import infer

if TYPE_CHECKING:
    import pyarrow as pa


class DataError(Exception):
    """The data is wrong; every problem found is one line that says where and what."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


@dataclass(frozen=True)
class Schema:
    """How one input's facts are laid out: columns by name when declared, by position when not."""

    predicate: str
    columns: tuple[Column, ...]
    time: str | None
    declared: bool

    @property
    def names(self) -> tuple[str, ...]:
        names = tuple(column.name for column in self.columns)
        return names if self.time is None else (*names, self.time)


@dataclass(frozen=True)
class Files:
    """Facts in files of one format."""

    format: str
    paths: tuple[Path, ...]


@dataclass(frozen=True)
class Table:
    """Facts in memory: columns in the schema's order, time last, in ticks if `ticked`."""

    table: pa.Table
    origin: str
    ticked: bool


Part: TypeAlias = Files | Table
Rows: TypeAlias = "Iterable[tuple[Any, ...]] | pa.Table | Any"
FactsLike: TypeAlias = "str | PathLike[str] | Mapping[str, Rows] | None"

_FORMATS = {".csv": "csv", ".parquet": "parquet", ".jsonl": "jsonl"}


def schemas(program: Program) -> dict[str, Schema]:
    """The layout of every input, from its declaration or else from its use in the rules."""
    found: dict[str, Schema] = {}
    inferred = infer(program).columns
    temporal = {a.predicate: a.time is not None for r in program.rules for a in r.atoms}
    for name in program.inputs:
        declaration = program.declarations.get(name)
        types = inferred[name]
        if declaration is not None:
            columns = tuple(
                replace(c, type=t) for c, t in zip(declaration.columns, types, strict=True)
            )
            found[name] = Schema(name, columns, declaration.time, True)
        else:
            columns = tuple(Column(f"arg{i}", t) for i, t in enumerate(types, 1))
            found[name] = Schema(name, columns, TIME_COLUMN if temporal[name] else None, False)
    return found


def find_facts(
    program: Program, facts: FactsLike, ticks: Ticks | None, only: Container[str] | None = None
) -> dict[str, list[Part]]:
    """Where the facts of each input are; in-memory facts and small formats are read at once.

    Of a folder, the files of other inputs than `only` are left alone.
    """
    known = schemas(program)
    if facts is None:
        return {}
    if isinstance(facts, Mapping):
        return {
            name: [in_memory(_schema(known, program, name, "facts"), rows, ticks)]
            for name, rows in facts.items()
        }
    path = Path(facts)
    if path.is_dir():
        return _folder(path, program, known, ticks, only)
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if path.suffix == ".tdl":
        return _rules_file(path, program, known)
    if path.suffix == ".jsonl":
        return _json_lines(path, program, known, None, ticks)
    if path.suffix in _FORMATS:
        schema = _schema(known, program, path.stem, str(path))
        return {schema.predicate: [Files(_FORMATS[path.suffix], (path,))]}
    raise DataError(
        f"{path}: facts are a folder, or a .csv, .parquet, .jsonl or .tdl file, by its ending"
    )


def _schema(known: Mapping[str, Schema], program: Program, name: str, where: str) -> Schema:
    if name in known:
        return known[name]
    if name in program.heads:
        raise DataError(
            f"{where}: `{name}` is derived by rules; declare it as an input to give it facts"
        )
    near = Similar(known).to(name)
    hint = f"did you mean `{near}`?" if near else f"the inputs are {', '.join(known) or 'none'}"
    raise DataError(f"{where}: no input is called `{name}`; {hint}")


def _folder(
    folder: Path,
    program: Program,
    known: Mapping[str, Schema],
    ticks: Ticks | None,
    only: Container[str] | None,
) -> dict[str, list[Part]]:
    """`<Predicate>.csv|.parquet|.jsonl`, or a subfolder `<Predicate>/` of such files."""
    found: dict[str, list[Part]] = {}
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir():
            paths = _below(entry)
            if not paths:
                continue
            name = entry.name
        elif entry.suffix in _FORMATS:
            paths, name = [entry], entry.stem
        elif entry.name.split(".")[0] in known:
            endings = ", ".join(_FORMATS)
            raise DataError(f"{entry}: facts in a folder end in {endings}; rename or convert it")
        else:
            continue
        schema = _schema(known, program, name, str(entry))
        if only is not None and name not in only:
            continue
        parts = found.setdefault(name, [])
        for format_ in ("csv", "parquet"):
            chosen = tuple(p for p in paths if _FORMATS[p.suffix] == format_)
            parts += [Files(format_, chosen)] if chosen else []
        for path in paths:
            if path.suffix == ".jsonl":
                parts += _json_lines(path, program, known, schema, ticks).get(name, [])
    return found


def _below(folder: Path) -> list[Path]:
    """The files of facts in a folder and its subfolders; one that cannot be read is an error."""
    found: list[Path] = []
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir() and not entry.is_symlink():
            found += _below(entry)
        elif entry.is_file() and entry.suffix in _FORMATS:
            found.append(entry)
    return found


def _rules_file(path: Path, program: Program, known: Mapping[str, Schema]) -> dict[str, list[Part]]:
    """A `.tdl` file of ground facts."""
    source, unreadable = decode(path.read_bytes(), str(path))
    parsed = parse_source(source)
    if unreadable is not None or parsed.diagnostics:
        raise ProgramError([unreadable] if unreadable else parsed.diagnostics, source)
    rows: dict[str, list[tuple[Value, ...]]] = {}
    places: dict[str, list[str]] = {}
    for statement in parsed.program.statements:
        where = str(statement.origin)
        if not isinstance(statement, Rule) or statement.body:
            raise DataError(f"{where}: a file of facts holds facts only, such as `P(a, 1) @ 5.`")
        head = statement.head
        schema = _schema(known, program, head.predicate, where)
        if (head.time is None) != (schema.time is None) or len(head.args) != len(schema.columns):
            raise DataError(
                f"{where}: `{head.predicate}` has {len(schema.columns)} arguments and"
                f" {'a' if schema.time else 'no'} time in the rules"
            )
        values = [t.value for t in head.args if isinstance(t, Constant)]
        if len(values) < len(head.args) or not (
            head.time is None or isinstance(head.time, TimePoint)
        ):
            raise DataError(f"{where}: a fact has no variables")
        if isinstance(head.time, TimePoint):
            values.append(head.time.tick)
        rows.setdefault(head.predicate, []).append(tuple(values))
        places.setdefault(head.predicate, []).append(where)
    return {
        name: [_table(known[name], found, places[name], str(path), None)]
        for name, found in rows.items()
    }


def _json_lines(
    path: Path,
    program: Program,
    known: Mapping[str, Schema],
    only: Schema | None,
    ticks: Ticks | None,
) -> dict[str, list[Part]]:
    """Lines of `{"predicate": ..., <columns>, "time": ...}`; a file name may say which."""
    rows: dict[str, list[tuple[Value | None, ...]]] = {}
    places: dict[str, list[str]] = {}
    if only is None and path.stem in known:
        only = known[path.stem]
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            try:
                found = json.loads(line, parse_float=_finite)
            except (json.JSONDecodeError, UnicodeDecodeError) as error:
                raise DataError(f"{where}: not JSON: {error}") from None
            except (ValueError, RecursionError) as error:
                raise DataError(f"{where}: {error}") from None
            if not isinstance(found, dict):
                raise DataError(f'{where}: a line is an object, such as {{"predicate": "P"}}')
            name = found.get("predicate", only.predicate if only else None)
            if not isinstance(name, str):
                raise DataError(f'{where}: no "predicate" says what this line is a fact of')
            if only is not None and name != only.predicate:
                raise DataError(f"{where}: `{name}` in a file of `{only.predicate}` facts")
            schema = _schema(known, program, name, where)
            rows.setdefault(name, []).append(record(found, schema, where))
            places.setdefault(name, []).append(where)
    return {
        name: [_table(known[name], values, places[name], str(path), ticks)]
        for name, values in rows.items()
    }


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"`{_short(text)}` does not fit a float")
    return value


def record(found: dict[str, Any], schema: Schema, where: str) -> tuple[Any, ...]:
    """The values of a JSON object in the schema's order, time last."""
    names = list(schema.names)
    if schema.time is not None and schema.time not in found and TIME_COLUMN in found:
        names[-1] = TIME_COLUMN
    if not schema.declared:
        # Undeclared columns have no names: they come in the order in which they are written.
        values = [v for k, v in found.items() if k not in ("predicate", TIME_COLUMN)]
        if schema.time is not None:
            if TIME_COLUMN not in found:
                raise DataError(f"{where}: no `{TIME_COLUMN}`, and `{schema.predicate}` has one")
            values.append(found[TIME_COLUMN])
        if len(values) != len(names):
            raise DataError(f"{where}: `{schema.predicate}` has {len(schema.columns)} columns")
        return tuple(values)
    for name in names:
        if name not in found:
            raise DataError(f"{where}: no column `{name}`, which `{schema.predicate}` declares")
    return tuple(found[name] for name in names)


def in_memory(schema: Schema, rows: Rows, ticks: Ticks | None) -> Part:
    """Rows, an Arrow table, or anything that can become one (pandas, polars)."""
    import pyarrow as pa

    where = f"facts of `{schema.predicate}`"
    if isinstance(rows, (str, bytes)):
        raise DataError(f"{where}: rows are tuples or a table, not text")
    if isinstance(rows, pa.Table):  # not by Arrow's protocol, whose names end at a NUL
        return _arranged(rows, schema, where)
    if hasattr(rows, "__arrow_c_stream__"):
        return _arranged(pa.table(rows), schema, where)
    if hasattr(rows, "columns") and hasattr(rows, "iloc"):
        table = pa.Table.from_pandas(rows, preserve_index=False)
        return _arranged(table, schema, where)
    found: list[tuple[Any, ...]] = []
    for number, row in enumerate(rows, 1):
        values = tuple(row) if isinstance(row, (tuple, list)) else (row,)
        if len(values) != len(schema.names):
            raise DataError(
                f"{where}, row {number}: {len(values)} values for {len(schema.names)} columns"
                f" ({', '.join(schema.names)})"
            )
        found.append(values)
    return _table(schema, found, None, where, ticks)


def positions(names: Sequence[str], schema: Schema, where: str) -> list[int]:
    """Where the schema's columns are among those there: by name when declared, else in order."""
    if schema.declared:
        for name in schema.names:
            if names.count(name) != 1:
                problem = "no column" if name not in names else "more than one column"
                raise DataError(
                    f"{where}: {problem} `{name}`, which `{schema.predicate}` declares;"
                    f" there are {', '.join(names) or 'none'}"
                )
        return [names.index(name) for name in schema.names]
    if len(names) != len(schema.names):
        raise DataError(
            f"{where}: {len(names)} columns for the {len(schema.names)} of `{schema.predicate}`"
            f" ({', '.join(schema.names)}); declare the input to pick columns by name"
        )
    return list(range(len(names)))


def _arranged(table: pa.Table, schema: Schema, where: str) -> Table:
    """The columns of a table in the schema's order, under names that no user chose."""
    chosen = positions(table.column_names, schema, where)
    if not chosen:
        return _table(schema, [()] * table.num_rows, None, where, None)
    found = table.select(chosen).rename_columns(_plain_names(len(chosen)))
    return Table(found, where, False)


def _plain_names(n: int) -> list[str]:
    return [f"a{i}" for i in range(1, n + 1)]


def _table(
    schema: Schema,
    rows: list[tuple[Any, ...]],
    places: list[str] | None,
    origin: str,
    ticks: Ticks | None,
) -> Table:
    """Python values as an Arrow table of the schema's types."""
    import pyarrow as pa

    arrays: list[pa.Array] = []
    for i, name in enumerate(schema.names):
        values = [row[i] for row in rows]
        is_time = schema.time is not None and i == len(schema.columns)
        type_ = Type.INT if is_time else schema.columns[i].type or _type_of(values)
        converted: list[Value | None] = []
        for number, value in enumerate(values):
            try:
                if is_time:
                    converted.append(None if value is None else fitting_tick(value, ticks))
                else:
                    converted.append(fit(value, type_))
            except ValueError as problem:
                where = places[number] if places else f"{origin}, row {number + 1}"
                raise DataError(f"{where}: column `{name}`: {problem}") from None
        arrays.append(pa.array(converted, arrow_type(type_)))
    names = _plain_names(len(arrays))
    if not arrays:
        # A table without columns still has rows: a rigid fact without arguments.
        arrays, names = [pa.array([1] * len(rows), pa.int64())], ["z"]
    return Table(pa.table(arrays, names=names), origin, True)


def _type_of(values: Iterable[Any]) -> Type:
    found = {type(v) for v in values if v is not None}
    for python, type_ in ((bool, Type.BOOL), (int, Type.INT), (float, Type.FLOAT)):
        if found == {python}:
            return type_
    return Type.FLOAT if found and found <= {int, float} else Type.TEXT


def arrow_type(type_: Type) -> pa.DataType:
    import pyarrow as pa

    return {
        Type.TEXT: pa.string(),
        Type.INT: pa.int64(),
        Type.FLOAT: pa.float64(),
        Type.BOOL: pa.bool_(),
    }[type_]


def fit(value: Any, type_: Type) -> Value | None:
    """The value as its column's type, or ValueError."""
    if value is None:
        return None
    if hasattr(value, "item"):  # a NumPy scalar
        value = value.item()
    match type_:
        case Type.BOOL if isinstance(value, bool):
            return value
        case Type.INT if isinstance(value, int) and not isinstance(value, bool):
            if not -(2**63) <= value < 2**63:
                raise ValueError(f"{value} does not fit 64 bits")
            return value
        case Type.FLOAT if isinstance(value, (int, float)) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:
                raise ValueError("an integer too large for a float") from None
        case Type.TEXT if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                raise ValueError(f"{_short(ascii(value))} has half a surrogate pair") from None
            return value
    raise ValueError(f"{_short(repr(value))} is not {type_.value}")


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def fitting_tick(value: Any, ticks: Ticks | None) -> int:
    """The tick of a time as it was written, or ValueError."""
    if ticks is not None:
        return ticks.tick(value)
    tick = fit(value, Type.INT)
    assert isinstance(tick, int)
    return check_tick(tick)


def check_tick(tick: int) -> int:
    if not -TIME_MAX <= tick <= TIME_MAX:
        raise ValueError(f"time {tick} does not fit 62 bits")
    return tick


# CSV: what the engine reads fast, and the slow path that finds the line of a bad value

PATTERNS = {
    Type.INT: r"[ \t]*[+-]?[0-9]+[ \t]*",
    Type.FLOAT: r"[ \t]*[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?[ \t]*",
    Type.BOOL: r"(?i)[ \t]*(true|false)[ \t]*",
}
# Written so on purpose, unlike a number that is too large.
NOT_FINITE = r"(?i)[ \t]*([+-]?inf(inity)?|nan)[ \t]*"


_MOST_PROBLEMS = 5


@dataclass(frozen=True)
class Header:
    """The first row of a CSV file, and how its line ends."""

    names: tuple[str, ...]
    positions: tuple[int, ...]
    ending: str


def csv_header(path: Path, schema: Schema) -> Header:
    """The column names of a CSV file, checked against the schema."""
    for _, row, ending in _csv_rows(path):
        if not row:
            break
        return Header(tuple(row), tuple(positions(row, schema, f"{path}:1")), ending)
    raise DataError(f"{path}:1: the file is empty; its first line names the columns")


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str], str]]:
    """The rows of a CSV file, each with the line it starts on and how it ends."""
    csv.field_size_limit(2**31 - 1)
    last = ""

    def lines(file: TextIO) -> Iterator[str]:
        nonlocal last
        for line in file:
            last = line
            yield line

    start = 1
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(lines(file), strict=True)
        try:
            for row in reader:
                if any(_undecodable(value) for value in row):
                    raise DataError(f"{path}:{start}: not UTF-8 text")
                yield start, row, last[len(last.rstrip("\r\n")) :]
                start = reader.line_num + 1
        except csv.Error as error:
            raise DataError(f"{path}:{start}: not CSV: {error}") from None


def csv_is_sound(path: Path, size: int) -> bool:
    """Whether every row has so many values, by Python's reader, which takes any end of line."""
    try:
        return all(len(row) in (0, size) for _, row, _ in _csv_rows(path))
    except DataError:
        return False


def _undecodable(text: str) -> bool:
    return not text.isascii() and any("\udc80" <= c <= "\udcff" for c in text)


def find_csv_problems(path: Path, schema: Schema, ticks: Ticks | None) -> list[str]:
    """The first few values of a CSV file that do not fit, each with its line."""
    header = csv_header(path, schema)
    problems: list[str] = []
    rows = _csv_rows(path)
    next(rows)
    for line, row, _ in rows:
        if not row:
            continue
        if len(row) != len(header.names):
            problems.append(f"{path}:{line}: {len(row)} values for {len(header.names)} columns")
        else:
            for i, name in enumerate(schema.names):
                text = row[header.positions[i]]
                is_time = schema.time is not None and i == len(schema.columns)
                type_ = Type.INT if is_time else schema.columns[i].type or Type.TEXT
                problem = _csv_problem(text, type_, is_time, ticks)
                if problem:
                    problems.append(f"{path}:{line}: column `{name}`: {problem}")
        if len(problems) > _MOST_PROBLEMS:
            return [*problems[:_MOST_PROBLEMS], f"{path}: and perhaps more"]
    return problems


def _csv_problem(text: str, type_: Type, is_time: bool, ticks: Ticks | None) -> str | None:
    if text == "":
        return None
    try:
        if is_time and ticks is not None:
            ticks.tick(text)
        elif type_ in PATTERNS:
            if type_ is Type.FLOAT and re.fullmatch(NOT_FINITE, text):
                return None
            if not re.fullmatch(PATTERNS[type_], text):
                return f"`{_short(text)}` is not {type_.value}"
            if is_time:
                check_tick(int(text))
            elif type_ is Type.INT:
                fit(int(text), Type.INT)
            elif type_ is Type.FLOAT:
                _finite(text)
    except ValueError as problem:
        return str(problem)
    return None


def resolve(program: Program, types: Mapping[str, tuple[Type, ...]]) -> Program:
    """The program with every input declared, those left open with the types of their data."""
    found = schemas(program)
    statements = []
    for name, schema in found.items():
        known = types.get(name, tuple(Type.TEXT for _ in schema.columns))
        columns = tuple(
            Column(c.name, c.type or t, c.origin)
            for c, t in zip(schema.columns, known, strict=True)
        )
        origin = program.declarations[name].origin if schema.declared else None
        made = Input(name, columns, schema.time)
        statements.append(made if origin is None else Input(name, columns, schema.time, origin))
    rest = tuple(s for s in program.statements if not isinstance(s, Input))
    return Program((*statements, *rest))
