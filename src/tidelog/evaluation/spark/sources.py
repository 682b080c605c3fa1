"""Facts in: streaming DataFrames or files, all as rows of one shape.

A row is `tag, <slots>, t, problem, file`: the input's number, its arguments in slots of their type,
the tick, and why the row is not a fact, if it is not.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as S

from tidelog.data.packed import slots_of
from tidelog.data.readers import parquet
from tidelog.data.readers.csv import facts_of_texts, read_header, read_texts
from tidelog.data.readers.json import parse_line, predicate_of, typed_values
from tidelog.data.readers.memory import Table
from tidelog.data.readers.places import FORMATS, HIDDEN, find_facts, input_of, named_in_unicode
from tidelog.data.schema import Schema, positions
from tidelog.data.ticks import Ticks
from tidelog.data.types import SQL_TYPES, arrow_type
from tidelog.errors import DataError
from tidelog.evaluation.database import NO_EXTENSIONS
from tidelog.language.program import TIME_COLUMN, TIME_MAX, Program, Type

# Of the DuckDB that reads files in a worker.
_READING: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "memory_limit": "1GB",
    **NO_EXTENSIONS,
}
# Hadoop's usual view of local files keeps checksums beside them, and fails on a name with a colon.
_PLAIN_FILES = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
# Spark's readers take a path for a pattern otherwise.
NO_PATTERNS = {"__globPaths__": "false"}


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
        slots: dict[str, Type] = {}
        for name in self.names:
            types = [column.type or Type.TEXT for column in self.schemas[name].columns]
            slots.update(zip(self.slots(name), types, strict=True))
        return dict(sorted(slots.items()))

    @property
    def arrow(self) -> pa.Schema:
        slots = [(name, arrow_type(type_)) for name, type_ in self.all_slots.items()]
        ends = [("t", pa.int64()), ("problem", pa.string()), ("file", pa.string())]
        return pa.schema([("tag", pa.int32()), *slots, *ends])

    def _tagged(
        self, frame: DataFrame, name: str, values: list[Column], time: Column, file: Column
    ) -> DataFrame:
        """A frame as rows, its arguments and time already of their types."""
        schema = self.schemas[name]
        problems = [
            F.when(value.isNull(), F.lit(f"no value in column `{column.name}`"))
            for value, column in zip(values, schema.columns, strict=True)
        ]
        problems += [
            F.when(F.isnan(value), F.lit(f"NaN in column `{column.name}`"))
            for value, column in zip(values, schema.columns, strict=True)
            if column.type is Type.FLOAT
        ]
        far = F.concat(F.lit("time "), time.cast("string"), F.lit(" does not fit 62 bits"))
        problems += [
            F.when(time.isNull(), F.lit(f"no value in column `{schema.time}`")),
            F.when(~time.between(-TIME_MAX, TIME_MAX), far),
        ]
        named = dict(zip(self.slots(name), values, strict=True))
        return frame.select(
            F.lit(self.tag(name)).cast("int").alias("tag"),
            *(
                named.get(slot, F.lit(None)).cast(SQL_TYPES[type_]).alias(slot)
                for slot, type_ in self.all_slots.items()
            ),
            time.cast("bigint").alias("t"),
            F.coalesce(*problems).alias("problem"),
            file.cast("string").alias("file"),
        )

    def typed(self, frame: DataFrame, name: str, where: str, file: Column | None) -> DataFrame:
        """A frame with typed columns as rows; DataError when a column is of another type."""
        schema = self.schemas[name]
        chosen = positions(frame.columns, schema, where)
        fields = frame.schema.fields
        for column, position in zip(schema.columns, chosen, strict=False):
            actual = spark_type(fields[position].dataType)
            wanted = column.type or Type.TEXT
            if not (actual is wanted or (actual is Type.INT and wanted is Type.FLOAT)):
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
            _value(F.col(plain[position]), column.type or Type.TEXT)
            for column, position in zip(schema.columns, chosen, strict=False)
        ]
        time = self._time(F.col(plain[chosen[-1]]), time_type, where, str(schema.time))
        return self._tagged(frame, name, values, time, F.col("file") if extra else F.lit(None))

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
                days = F.unix_date(column).cast("bigint")
                day = F.lit(86_400_000_000).cast("bigint")
                return _ticked(column, F.try_multiply(days, day), ticks)
            if isinstance(type_, S.TimestampNTZType):  # in UTC, whatever the session's zone
                zero = F.lit("1970-01-01 00:00:00").cast(S.TimestampNTZType())
                return _ticked(column, F.timestamp_diff("MICROSECOND", zero, column), ticks)
            return _ticked(column, F.unix_micros(column), ticks)
        wanted = "whole numbers of ticks" if ticks is None else "timestamps"
        kind = type_.simpleString()
        raise DataError(f"{where}: time column `{name}` is {kind}; times are {wanted}")


def _value(column: Column, type_: Type) -> Column:
    value = column.cast(SQL_TYPES[type_])
    return value + F.lit(0.0) if type_ is Type.FLOAT else value  # -0.0 and 0.0 are one value


def _ticked(column: Column, micros: Column, ticks: Ticks) -> Column:
    """The tick of a moment in microseconds since 1970; one that is too far away stays that."""
    since = F.try_subtract(micros, F.lit(ticks.origin).cast("bigint"))
    length = F.lit(ticks.length).cast("bigint")
    down = F.when((since < 0) & (since % length != 0), F.lit(1)).otherwise(F.lit(0))
    tick = F.call_function("div", since, length) - down
    return F.coalesce(tick, F.when(column.isNotNull(), F.lit(TIME_MAX + 1)))


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
    """Reads JSON lines inside the partitions, as `tidelog query` reads them."""

    inputs: Inputs
    facts: Path

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [
                row
                for text, file in zip(
                    *(column.to_pylist() for column in batch.columns), strict=True
                )
                if text.strip()
                and (row := self._row(text, _uri(_local(unquote(file))))) is not None
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=self.inputs.arrow)

    def _row(self, text: str, file: str) -> dict[str, Any] | None:
        """A line as a row; None when no query needs it."""
        inputs = self.inputs
        place = input_of(_local(file), self.facts)
        named = place if place in inputs.schemas else None
        row: dict[str, Any] = {"tag": -1 if named is None else inputs.tag(named), "file": file}
        try:
            record = parse_line(text)
            if list(record) == [TIME_COLUMN]:
                return None  # all before has arrived: files say so by ending
            name = predicate_of(record, named)
            schema = inputs.schemas.get(name)
            if schema is None:
                return None
            row["tag"] = inputs.tag(name)
            values = typed_values(record, schema, inputs.ticks)
            row |= zip([*inputs.slots(name), "t"], values, strict=True)
            if None in values:
                raise ValueError(f"no value in column `{schema.names[values.index(None)]}`")
        except ValueError as error:
            row["problem"] = str(error)
        return row


@dataclass(frozen=True)
class _Csv:
    """Reads CSV files of one input inside the partitions, as `tidelog query` reads them."""

    inputs: Inputs
    name: str
    size: int
    chosen: tuple[int, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path, ending in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                with (
                    tempfile.TemporaryDirectory(prefix="tidelog-") as spill,
                    duckdb.connect(config={**_READING, "temp_directory": spill}) as connection,
                ):
                    yield from self._file(connection, Path(path), ending)

    def _file(
        self, connection: duckdb.DuckDBPyConnection, path: Path, ending: str
    ) -> Iterator[pa.RecordBatch]:
        inputs, schema = self.inputs, self.inputs.schemas[self.name]
        file = _uri(path)
        connection.execute("SET TimeZone = 'UTC'")
        broken = read_texts(connection, "texts", path, self.size, ending)
        select = facts_of_texts("texts", schema, self.chosen, inputs.ticks)
        reader = connection.sql(select).to_arrow_reader(65_536)
        assert reader is not None
        names = [*inputs.slots(self.name), "t", "problem"]
        for part in reader:
            n = part.num_rows
            columns = dict(zip(names, part.columns, strict=True))
            columns |= {
                "tag": pa.repeat(pa.scalar(inputs.tag(self.name), pa.int32()), n),
                "file": pa.repeat(file, n),
            }
            arrays = [columns.get(f.name, pa.nulls(n, f.type)) for f in inputs.arrow]
            yield pa.RecordBatch.from_arrays(arrays, schema=inputs.arrow)
        rows = [{"tag": inputs.tag(self.name), "problem": p, "file": file} for p in broken]
        yield pa.RecordBatch.from_pylist(rows, schema=inputs.arrow)


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
        self.endings: dict[Path, str] = {}  # of the lines of a batch's CSV files

    def _all(self) -> list[Path]:
        """The files there are; DataError for a name that Spark could not read."""
        paths = [self.folder] if self.folder.is_file() else sorted(self.folder.rglob("*"))
        jvm = self.spark._jvm
        assert jvm is not None
        ascii_only = "UTF" not in str(jvm.System.getProperty("sun.jnu.encoding")).upper()
        paths = [path for path in paths if not self._is_hidden(path)]
        for path in map(named_in_unicode, paths):
            if ascii_only and not str(path).isascii():
                raise DataError(
                    f"{path}: Spark's Java reads ASCII names only in this environment: set"
                    " LC_ALL=C.UTF-8, or rename it"
                )
        return [path for path in paths if path.is_file()]

    def _is_hidden(self, path: Path) -> bool:
        return any(part.startswith(HIDDEN) for part in path.relative_to(self.folder).parts)

    def stream(self) -> DataFrame:
        self._all()
        reader = (
            self.spark.readStream.format("binaryFile")
            .options(**_PLAIN_FILES)
            .schema("path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY")
        )
        reader = reader.option("recursiveFileLookup", "true")
        # However old a file is beside the newest one, it is read.
        reader = reader.option("maxFileAge", "100000000d")
        if self.per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", self.per_batch)
        return reader.load(_as_pattern(self.folder)).select("path")

    def batch(self, frame: DataFrame) -> DataFrame:
        paths = sorted(path for (path,) in frame.collect())
        return self._rows(frame.sparkSession, [_local(path) for path in paths])

    def all(self) -> DataFrame:
        """The rows of all files there are."""
        if not self.folder.exists():
            raise DataError(f"{self.folder}: no such file or folder")
        return self._rows(self.spark, self._all())

    def _rows(self, spark: SparkSession, paths: list[Path]) -> DataFrame:
        groups: dict[tuple[str, str, tuple[object, ...]], list[Path]] = {}
        for path in paths:
            if self._is_hidden(path):
                continue
            ending, name = path.suffix, input_of(path, self.folder)
            # The lines of a single file may say themselves what they are facts of.
            mixed = path == self.folder and ending in (".jsonl", ".tdl")
            if ending in (*FORMATS, ".tdl") and (mixed or name in self.inputs.schemas):
                key = (ending, name, self._columns(ending, name, path))
                groups.setdefault(key, []).append(path)
        parts = [self._read(spark, *key, paths) for key, paths in groups.items()]
        if not parts:
            return spark.createDataFrame([], arrow_struct(self.inputs.arrow))
        return reduce(DataFrame.unionByName, parts)

    def _columns(self, ending: str, name: str, path: Path) -> tuple[object, ...]:
        """What tells files apart that cannot be read together: their columns."""
        if ending == ".csv":
            header = read_header(path, self.inputs.schemas[name])
            self.endings[path] = header.ending
            return (len(header.names), header.positions)
        if ending == ".parquet":
            return tuple((f.name, str(f.type)) for f in parquet.read_schema(path))
        return ()

    def _read(
        self,
        spark: SparkSession,
        ending: str,
        name: str,
        columns: tuple[Any, ...],
        paths: list[Path],
    ) -> DataFrame:
        places = [_uri(path) for path in paths]
        # As a URI; a plus stands for itself there, and for a space where Spark decodes.
        file = F.col("_metadata.file_path")
        rows, reader = (
            arrow_struct(self.inputs.arrow),
            spark.read.options(**_PLAIN_FILES, **NO_PATTERNS),
        )
        if ending == ".csv":
            files = [(str(path), self.endings.pop(path)) for path in paths]
            frame = spark.createDataFrame(files, "path STRING, ending STRING")
            return frame.mapInArrow(_Csv(self.inputs, name, *columns), rows)
        if ending == ".parquet":
            plain = F.url_decode(F.replace(file, F.lit("+"), F.lit("%2B")))
            plain = F.regexp_replace(plain, "^file:/+", "file:///")
            return self.inputs.typed(reader.parquet(*places), name, str(paths[0]), plain)
        if ending == ".jsonl":
            frame = reader.text(places).select("value", file.alias("file"))
            return frame.mapInArrow(_Lines(self.inputs, self.folder), rows)
        return self._rules(spark)

    def _rules(self, spark: SparkSession) -> DataFrame:
        """A `.tdl` file of facts."""
        rows = []
        facts = find_facts(self.program, str(self.folder), self.inputs.ticks)
        for name, parts in facts.items():
            for part in parts:
                if name in self.inputs.schemas and isinstance(part, Table):
                    names = [*self.inputs.slots(name), "t"]
                    table = part.table.rename_columns(names)
                    tag = {"tag": self.inputs.tag(name), "file": str(self.folder)}
                    rows += [{**tag, **row} for row in table.to_pylist()]
        table = pa.Table.from_pylist(rows, schema=self.inputs.arrow)
        return spark.createDataFrame(table, arrow_struct(self.inputs.arrow))


def _local(file: str) -> Path:
    """The path of a file as Spark and dead letters name it, where nothing is escaped."""
    return Path(re.sub(r"\Afile:(//)?(?=/)", "", file))


def _uri(path: Path) -> str:
    return f"file://{path}"


def _as_pattern(path: Path) -> str:
    """A folder as a streaming source takes it: a pattern that matches nothing else."""
    pattern = re.sub(r"([\\{}\[\]*?])", r"\\\1", str(path))
    if ":" in pattern and pattern != str(path):
        raise DataError(
            f"{path}: Spark cannot follow a folder with a colon and one of *?[]{{}}\\ in its path:"
            " rename it"
        )
    return f"file://{pattern}"
