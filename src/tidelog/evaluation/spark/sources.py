"""Facts in: streaming DataFrames or files, all as rows of one shape.

A row is `tag, <slots>, t, problem, file`: the input's number, its arguments in slots of their type,
the tick, and why the row is not a fact, if it is not.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import duckdb
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as S

from tidelog.data.packed import slots_of
from tidelog.data.readers import parquet
from tidelog.data.readers.csv import NOT_FINITE, PATTERNS, read_header, read_texts
from tidelog.data.readers.json import parse_line, predicate_of, typed_values
from tidelog.data.readers.memory import Table
from tidelog.data.readers.places import find_facts
from tidelog.data.schema import Schema, positions
from tidelog.data.ticks import PATTERN, Ticks
from tidelog.data.types import arrow_type
from tidelog.errors import DataError
from tidelog.language.program import TIME_COLUMN, TIME_MAX, Program, Type

_SPARK = {
    Type.TEXT: S.StringType(),
    Type.INT: S.LongType(),
    Type.FLOAT: S.DoubleType(),
    Type.BOOL: S.BooleanType(),
}
_BLANKS = " \t"
# Of the DuckDB that reads files in a worker.
_READING: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "memory_limit": "1GB",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


@dataclass(frozen=True)
class Inputs:
    """The temporal inputs that some queries need, by name, and the rows their facts become."""

    schemas: dict[str, Schema]
    ticks: Ticks | None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.schemas))

    def tag(self, name: str) -> int:
        return self.names.index(name)

    def slots(self, name: str) -> list[str]:
        """The column that holds each argument of an input."""
        return list(slots_of(column.type or Type.TEXT for column in self.schemas[name].columns))

    @property
    def all_slots(self) -> dict[str, Type]:
        found: dict[str, Type] = {}
        for name in self.names:
            types = [column.type or Type.TEXT for column in self.schemas[name].columns]
            found.update(zip(self.slots(name), types, strict=True))
        return dict(sorted(found.items()))

    @property
    def arrow(self) -> pa.Schema:
        slots = [(name, arrow_type(type_)) for name, type_ in self.all_slots.items()]
        ends = [("t", pa.int64()), ("problem", pa.string()), ("file", pa.string())]
        return pa.schema([("tag", pa.int32()), *slots, *ends])

    def rows(
        self,
        frame: DataFrame,
        name: str,
        values: list[Column],
        time: Column,
        problems: list[Column],
        file: Column,
    ) -> DataFrame:
        """A frame as rows, its arguments and time already of their types."""
        schema = self.schemas[name]
        missing = [
            F.when(value.isNull(), F.lit(f"no value in column `{column.name}`"))
            for value, column in zip(values, schema.columns, strict=True)
        ]
        missing += [
            F.when(F.isnan(value), F.lit(f"NaN in column `{column.name}`"))
            for value, column in zip(values, schema.columns, strict=True)
            if column.type is Type.FLOAT
        ]
        far = F.concat(F.lit("time "), time.cast("string"), F.lit(" does not fit 62 bits"))
        missing += [
            F.when(time.isNull(), F.lit(f"no value in column `{schema.time}`")),
            F.when(~time.between(-TIME_MAX, TIME_MAX), far),
        ]
        named = dict(zip(self.slots(name), values, strict=True))
        return frame.select(
            F.lit(self.tag(name)).cast("int").alias("tag"),
            *(
                named.get(slot, F.lit(None)).cast(_SPARK[type_]).alias(slot)
                for slot, type_ in self.all_slots.items()
            ),
            time.cast("bigint").alias("t"),
            F.coalesce(*problems, *missing).alias("problem"),
            file.cast("string").alias("file"),
        )

    def typed(self, frame: DataFrame, name: str, where: str, file: Column | None) -> DataFrame:
        """A frame with typed columns as rows; DataError when a column is of another type."""
        schema = self.schemas[name]
        chosen = positions(frame.columns, schema, where)
        fields = frame.schema.fields
        for column, position in zip(schema.columns, chosen, strict=False):
            found = spark_type(fields[position].dataType)
            wanted = column.type or Type.TEXT
            if not (found is wanted or (found is Type.INT and wanted is Type.FLOAT)):
                kind = fields[position].dataType.simpleString()
                raise DataError(
                    f"{where}: column `{column.name}` is {kind}, and the rules need {wanted.value}"
                )
        time_type = fields[chosen[-1]].dataType
        # Columns go by their position: no name of a user's reaches an expression.
        extra = [] if file is None else [file.alias("file")]
        plain = [f"c{i}" for i in range(len(fields))]
        frame = frame.select("*", *extra).toDF(*plain, *(["file"] if extra else []))
        values = [
            F.col(plain[position]).cast(_SPARK[column.type or Type.TEXT])
            for column, position in zip(schema.columns, chosen, strict=False)
        ]
        time = self._time(F.col(plain[chosen[-1]]), time_type, where, str(schema.time))
        return self.rows(frame, name, values, time, [], F.col("file") if extra else F.lit(None))

    def _time(self, column: Column, type_: S.DataType, where: str, name: str) -> Column:
        ticks = self.ticks
        if isinstance(type_, (S.LongType, S.IntegerType, S.ShortType, S.ByteType)):
            if ticks is None:
                return column.cast("bigint")
        elif isinstance(type_, (S.TimestampType, S.TimestampNTZType, S.DateType)):
            if ticks is None:
                raise DataError(
                    f"{where}: time column `{name}` holds timestamps; give the length of a tick,"
                    " for example 10m"
                )
            if isinstance(type_, S.DateType):
                return _ticked(F.unix_date(column).cast("bigint") * 86_400_000_000, ticks)
            if isinstance(type_, S.TimestampNTZType):  # in UTC, whatever the session's zone
                zero = F.lit("1970-01-01 00:00:00").cast(S.TimestampNTZType())
                return _ticked(F.timestamp_diff("MICROSECOND", zero, column), ticks)
            return _ticked(F.unix_micros(column), ticks)
        wanted = "whole numbers of ticks" if ticks is None else "timestamps"
        kind = type_.simpleString()
        raise DataError(f"{where}: time column `{name}` is {kind}; times are {wanted}")

    def texts(self, frame: DataFrame, name: str, chosen: list[int], file: Column) -> DataFrame:
        """A frame of texts `c0..cn` as rows: what cannot be read is a problem of its row."""
        schema = self.schemas[name]
        values: list[Column] = []
        problems = [F.col("broken")]
        for column, position in zip(schema.columns, chosen, strict=False):
            value, problem = _read(F.col(f"c{position}"), column.type or Type.TEXT, column.name)
            values.append(value)
            problems += [] if problem is None else [problem]
        text = F.col(f"c{chosen[-1]}")
        if self.ticks is None:
            time, problem = _read(text, Type.INT, str(schema.time))
        else:
            trimmed = F.btrim(text, F.lit(_BLANKS))
            fits = trimmed.rlike(f"\\A(?:{PATTERN})\\z")
            moment = F.when(fits, F.try_to_timestamp(trimmed))
            time = _ticked(F.unix_micros(moment), self.ticks)
            problem = F.when((text != "") & moment.isNull(), _not(text, "a timestamp", schema))
        assert problem is not None
        return self.rows(frame, name, values, time, [*problems, problem], file)

    def lines(self, frame: DataFrame, only: Callable[[str], str | None]) -> DataFrame:
        """JSON lines, read as `tidelog query` reads them; `frame` has `value` and `file`."""
        parse = _Lines(self, only)
        return frame.mapInArrow(parse, arrow_struct(self.arrow))


def _ticked(micros: Column, ticks: Ticks) -> Column:
    since = micros - F.lit(ticks.origin)
    length = F.lit(ticks.length).cast("bigint")
    return (
        ((since - F.pmod(since, length)) / length).cast("bigint")
        if ticks.length == 1
        else (F.call_function("div", since - F.pmod(since, length), length))
    )


def _not(text: Column, what: str, schema: Schema | str) -> Column:
    name = schema if isinstance(schema, str) else schema.time
    shown = F.substring(text, 1, 40)
    return F.concat(F.lit(f"column `{name}`: `"), shown, F.lit(f"` is not {what}"))


def _read(text: Column, type_: Type, name: str) -> tuple[Column, Column | None]:
    """A text as a value of a type, and what is wrong where it is not one."""
    if type_ is Type.TEXT:
        return text, None
    trimmed = F.btrim(text, F.lit(_BLANKS))
    fits = text.rlike(f"\\A(?:{PATTERNS[type_]})\\z")
    if type_ is Type.FLOAT:
        endless = text.rlike(f"\\A(?:{NOT_FINITE})\\z")
        number = F.when(fits | endless, trimmed.try_cast("double"))
        value = F.when(F.abs(number) != float("inf"), number).when(endless, number)
    elif type_ is Type.INT:
        value = F.when(fits, trimmed.try_cast("bigint"))
    else:
        value = F.when(fits, F.lower(trimmed) == "true")
    bad = (text != "") & value.isNull()
    return value, F.when(bad, _not(text, type_.value, name))


def spark_type(type_: S.DataType) -> Type | None:
    match type_:
        case S.StringType():
            return Type.TEXT
        case S.BooleanType():
            return Type.BOOL
        case S.LongType() | S.IntegerType() | S.ShortType() | S.ByteType():
            return Type.INT
        case S.DoubleType() | S.FloatType() | S.DecimalType():
            return Type.FLOAT
    return None


def arrow_struct(schema: pa.Schema) -> S.StructType:
    """An Arrow schema of our own types as Spark's."""
    kinds = {
        pa.int32(): S.IntegerType(),
        pa.int64(): S.LongType(),
        pa.float64(): S.DoubleType(),
        pa.bool_(): S.BooleanType(),
        pa.string(): S.StringType(),
    }
    return S.StructType([S.StructField(f.name, kinds[f.type]) for f in schema])


@dataclass(frozen=True)
class _Lines:
    """Reads JSON lines inside the partitions."""

    inputs: Inputs
    only: Callable[[str], str | None]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [
                row
                for text, file in zip(
                    batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True
                )
                if (row := self._row(text, unquote(file))) is not None
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=self.inputs.arrow)

    def _row(self, text: str, file: str) -> dict[str, Any] | None:
        if not text.strip():
            return None
        named = self.only(file)
        row: dict[str, Any] = {"tag": -1 if named is None else self.inputs.tag(named), "file": file}
        try:
            record = parse_line(text)
            if list(record) == [TIME_COLUMN]:
                return None  # all before has arrived: files say so by ending
            name = predicate_of(record, named)
            schema = self.inputs.schemas.get(name)
            if schema is None:
                return None  # no query needs it
            row["tag"] = self.inputs.tag(name)
            values = typed_values(record, schema, self.inputs.ticks)
            row |= zip([*self.inputs.slots(name), "t"], values, strict=True)
            if None in values:
                raise ValueError(f"no value in column `{schema.names[values.index(None)]}`")
        except ValueError as error:
            row["problem"] = str(error)
        return row


@dataclass(frozen=True)
class _Texts:
    """Reads CSV files inside the partitions, as `tidelog query` reads them."""

    size: int

    @property
    def schema(self) -> pa.Schema:
        names = [f"c{i}" for i in range(self.size)]
        return pa.schema([(name, pa.string()) for name in (*names, "broken", "file")])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = ", ".join(f"c{i}" for i in range(self.size))
        for batch in batches:
            for uri, ending in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                path = _local(uri)
                file = f"file://{quote(str(path))}"  # as Spark names the files it reads itself
                with (
                    tempfile.TemporaryDirectory(prefix="tidelog-") as spill,
                    duckdb.connect(config={**_READING, "temp_directory": spill}) as connection,
                ):
                    problems = read_texts(connection, "texts", path, self.size, ending)
                    reader = connection.sql(f"SELECT {names} FROM texts").to_arrow_reader(65_536)
                    assert reader is not None
                    for part in reader:
                        n = part.num_rows
                        more = [pa.nulls(n, pa.string()), pa.repeat(file, n)]
                        yield pa.RecordBatch.from_arrays([*part.columns, *more], schema=self.schema)
                broken = [{"broken": problem, "file": file} for problem in problems]
                yield pa.RecordBatch.from_pylist(broken, schema=self.schema)


class Frames:
    """Streaming DataFrames, one for each input: tagged and unioned in the order of their names."""

    def __init__(self, frames: Mapping[str, DataFrame], inputs: Inputs) -> None:
        self.frames, self.inputs = frames, inputs

    def stream(self) -> DataFrame:
        parts = [
            self.inputs.typed(self.frames[name], name, f"input `{name}`", None)
            for name in self.inputs.names
        ]
        if not parts:
            raise DataError("the queries need no input with a time, so that nothing streams")
        return reduce(DataFrame.unionByName, parts)

    def batch(self, frame: DataFrame) -> DataFrame:
        return frame


class Files:
    """A folder of facts: Spark says which files are new, we read them as `tidelog query` does."""

    def __init__(
        self,
        spark: SparkSession,
        program: Program,
        facts: str,
        inputs: Inputs,
        per_batch: int | None = None,
    ) -> None:
        self.program, self.inputs, self.per_batch = program, inputs, per_batch
        self.folder = Path(facts).resolve()
        self.spark = spark
        self.endings: dict[str, str] = {}  # of the lines of a batch's CSV files

    def stream(self) -> DataFrame:
        reader = self.spark.readStream.format("binaryFile").schema(
            "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
        )
        reader = reader.option("recursiveFileLookup", "true")
        # However old a file is beside the newest one, it is read.
        reader = reader.option("maxFileAge", "36500d")
        if self.per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", self.per_batch)
        return reader.load(_glob(str(self.folder))).select("path")

    def batch(self, frame: DataFrame) -> DataFrame:
        return self._rows(frame.sparkSession, sorted(path for (path,) in frame.collect()))

    def all(self) -> DataFrame:
        """The rows of all files there are."""
        if not self.folder.exists():
            raise DataError(f"{self.folder}: no such file or folder")
        paths = [self.folder] if self.folder.is_file() else sorted(self.folder.rglob("*"))
        hidden = (".", "_")
        return self._rows(
            self.spark,
            [
                path.as_uri()
                for path in paths
                if path.is_file()
                and not any(part.startswith(hidden) for part in path.relative_to(self.folder).parts)
            ],
        )

    def _rows(self, spark: SparkSession, paths: list[str]) -> DataFrame:
        groups: dict[tuple[str, str, tuple[object, ...]], list[str]] = {}
        for path in paths:
            name, ending = self._name(path), Path(path).suffix
            known = name is None or name in self.inputs.schemas
            if known and ending in (".csv", ".parquet", ".jsonl", ".tdl"):
                key = (ending, name or "", self._columns(ending, name, path))
                groups.setdefault(key, []).append(path)
        parts = [self._read(spark, *key, paths) for key, paths in groups.items()]
        empty = spark.createDataFrame([], arrow_struct(self.inputs.arrow))
        return (
            reduce(DataFrame.unionByName, parts, empty)
            if not parts
            else reduce(DataFrame.unionByName, parts)
        )

    def _name(self, path: str) -> str | None:
        """The input that a file's place says it is of; None when its lines say so."""
        if self.folder.is_file():
            stem = self.folder.stem
            return stem if self.folder.suffix not in (".jsonl", ".tdl") else None
        first = _local(path).relative_to(self.folder).parts[0]
        return first if "." not in first else Path(first).stem

    def _columns(self, ending: str, name: str | None, path: str) -> tuple[object, ...]:
        """What tells files apart that cannot be read together: their columns."""
        local = _local(path)
        if ending == ".csv":
            assert name is not None
            header = read_header(local, self.inputs.schemas[name])
            self.endings[path] = header.ending
            return (len(header.names), *header.positions)
        if ending == ".parquet":
            return tuple((f.name, str(f.type)) for f in parquet.read_schema(local))
        return ()

    def _read(
        self,
        spark: SparkSession,
        ending: str,
        name: str,
        columns: tuple[object, ...],
        paths: list[str],
    ) -> DataFrame:
        places = [_glob(path) for path in paths]
        file = F.col("_metadata.file_path")
        if ending == ".csv":
            size, *chosen = [int(str(n)) for n in columns]
            read = _Texts(size)
            files = [(path, self.endings.pop(path)) for path in paths]
            found = spark.createDataFrame(files, "path STRING, ending STRING")
            frame = found.mapInArrow(read, arrow_struct(read.schema))
            return self.inputs.texts(frame, name, chosen, F.col("file"))
        if ending == ".parquet":
            frame = spark.read.parquet(*places)
            return self.inputs.typed(frame, name, paths[0], file)
        if ending == ".jsonl":
            frame = spark.read.text(places).select("value", file.alias("file"))
            return self.inputs.lines(frame, _NameOf(str(self.folder), tuple(self.inputs.names)))
        return self._rules(spark)

    def _rules(self, spark: SparkSession) -> DataFrame:
        """A `.tdl` file of facts."""
        found = find_facts(self.program, str(self.folder), self.inputs.ticks)
        rows = []
        for name, parts in found.items():
            for part in parts:
                if name in self.inputs.schemas and isinstance(part, Table):
                    names = [*self.inputs.slots(name), "t"]
                    table = part.table.rename_columns(names)
                    tag = {"tag": self.inputs.tag(name), "file": str(self.folder)}
                    rows += [{**tag, **row} for row in table.to_pylist()]
        table = pa.Table.from_pylist(rows, schema=self.inputs.arrow)
        return spark.createDataFrame(table, arrow_struct(self.inputs.arrow))


@dataclass(frozen=True)
class _NameOf:
    """The input that the place of a file names."""

    folder: str
    names: tuple[str, ...]

    def __call__(self, uri: str) -> str | None:
        path = _local(uri)
        place = path.name if str(path) == self.folder else path.relative_to(self.folder).parts[0]
        stem = place.split(".")[0]
        return stem if stem in self.names else None


def _local(uri: str) -> Path:
    """The path of a URI as Spark writes it, where nothing is escaped."""
    return Path(re.sub(r"\Afile:(//)?(?=/)", "", uri))


def _glob(path: str) -> str:
    """A path as a pattern that matches nothing else."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", path)
