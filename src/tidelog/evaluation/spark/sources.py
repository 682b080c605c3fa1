"""Facts in: streaming DataFrames or files, all as rows of one shape.

A row is `tag, <slots>, t, problem, file, came`: the input's number, its arguments in slots of their
type, the tick, and why the row is not a fact, if it is not. Rows that may not be used, because of
that or because of their time, have in `came` what they were before anything was read from them, as
JSON: an object, or a text where not even that could be read. A heartbeat, which says that all facts
before its tick have arrived, is a row with a tag of its own (`Inputs.beat`).
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
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

from tidelog.data.delta import LOG, added_by, check_log
from tidelog.data.packed import slots_of
from tidelog.data.readers import parquet
from tidelog.data.readers.csv import facts_of_texts, read_header, read_texts, rows_as_json
from tidelog.data.readers.files import format_of, named_in_unicode
from tidelog.data.readers.json import (
    is_heartbeat,
    line_as_json,
    parse_line,
    predicate_of,
    tick_value,
    typed_values,
)
from tidelog.data.readers.places import FactsPath, is_hidden, is_input
from tidelog.data.readers.rules import read_rules
from tidelog.data.schema import Schema, positions, schemas
from tidelog.data.ticks import GIVE_TICK, Ticks, time_text
from tidelog.data.types import ANY_VALUE, SQL_TYPES, arrow_type
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
# What makes Spark think that a path is a pattern.
_WILD = frozenset("{}[]*?\\")


# Tags up to this one are of heartbeats.
BEAT = -2
# How timestamps are written in JSON and CSV.
STAMPS = "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX"


@dataclass(frozen=True)
class TimeLimits:
    """The ticks that facts may have, as far as is known before they are read."""

    first: int = -TIME_MAX
    last: int = TIME_MAX

    @property
    def sql(self) -> str:
        """When a row may not be used."""
        return f"problem IS NOT NULL OR t NOT BETWEEN {self.first} AND {self.last}"


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

    def beat(self, name: str | None) -> int:
        """The tag of a heartbeat: of one input, or of all."""
        return BEAT if name is None else BEAT - 1 - self.tag(name)

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
        ends = [(name, pa.string()) for name in ("problem", "file", "came")]
        ends.insert(0, ("t", pa.int64()))
        return pa.schema([("tag", pa.int32()), *slots, *ends])

    def _tagged(
        self,
        frame: DataFrame,
        name: str,
        values: list[Column],
        time: Column,
        file: Column,
        came: Column,
    ) -> DataFrame:
        """A frame as rows, its arguments and time already of their types."""
        schema = self.schemas[name]
        read = [
            (value, column)
            for i, (value, column) in enumerate(zip(values, schema.columns, strict=True))
            if i not in schema.unread
        ]
        problems = [
            F.when(value.isNull(), F.lit(f"no value in column `{column.name}`"))
            for value, column in read
        ]
        problems += [
            F.when(F.isnan(value), F.lit(f"NaN in column `{column.name}`"))
            for value, column in read
            if column.type is Type.FLOAT
        ]
        far = F.concat(F.lit("time "), time.cast("string"), F.lit(" does not fit 62 bits"))
        problems += [
            F.when(time.isNull(), F.lit(f"no value in column `{schema.time}`")),
            F.when(~time.between(-TIME_MAX, TIME_MAX), far),
        ]
        values = [
            _filled(value, column.type or Type.TEXT) if i in schema.unread else value
            for i, (value, column) in enumerate(zip(values, schema.columns, strict=True))
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
            came.alias("came"),
        )

    def typed(self, frame: DataFrame, name: str, where: str, file: Column | None) -> DataFrame:
        """A frame with typed columns as rows; DataError when a column is of another type.

        `came` is the whole row, which `came_as_json` writes where it matters.
        """
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
        came = F.struct(*(F.col(c).alias(f.name) for c, f in zip(plain, fields, strict=True)))
        place = F.col("file") if extra else F.lit(None)
        return self._tagged(frame, name, values, time, place, came)

    def _time(self, column: Column, type_: S.DataType, where: str, name: str) -> Column:
        ticks = self.ticks
        if isinstance(type_, (S.LongType, S.IntegerType, S.ShortType, S.ByteType)):
            if ticks is None:
                return column.cast("bigint")
        elif isinstance(type_, (S.TimestampType, S.TimestampNTZType, S.DateType)):
            if ticks is None:
                raise DataError(f"{where}: time column `{name}` holds timestamps; {GIVE_TICK}")
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


def each_once(read: Callable[[list[str]], DataFrame], places: list[str]) -> DataFrame:
    """Files at some places, by a reader with NO_PATTERNS.

    For every place that looks like a pattern, Spark would read all of the places again.
    """
    wild = [place for place in places if not _WILD.isdisjoint(place)]
    if not wild or len(places) == 1:
        return read(places)
    plain = [place for place in places if place not in wild]
    groups = [[place] for place in wild] + ([plain] if plain else [])
    return reduce(DataFrame.unionAll, map(read, groups))


def beat_row(inputs: Inputs, limits: TimeLimits, name: str | None, tick: int) -> dict[str, Any]:
    """A heartbeat of an input, or of all, as a row."""
    row: dict[str, Any] = {"tag": inputs.beat(name), "t": tick}
    if not limits.first <= tick <= limits.last:
        time = tick if inputs.ticks is None else time_text(tick, inputs.ticks)
        row["came"] = json.dumps({TIME_COLUMN: time})
    return row


def came_as_json(rows: DataFrame, limits: TimeLimits, came: str = "came") -> Column:
    """The text of whole rows, for those that may not be used."""
    how = {"ignoreNullFields": "false", "timestampFormat": STAMPS, "timeZone": "UTC"}
    return F.when(F.expr(limits.sql), F.to_json(rows[came], how))


def _filled(column: Column, type_: Type) -> Column:
    """A column in which some value stands for one that is missing."""
    some = F.lit(ANY_VALUE[type_]).cast(SQL_TYPES[type_])
    missing = column.isNull() | F.isnan(column) if type_ is Type.FLOAT else column.isNull()
    return F.when(missing, some).otherwise(column)


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
    limits: TimeLimits
    others: frozenset[str]  # inputs of the rules that no query needs
    named: str | None  # the input that all lines are of; else they say so themselves

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
        inputs, named, limits = self.inputs, self.named, self.limits
        row: dict[str, Any] = {"tag": -1 if named is None else inputs.tag(named), "file": file}
        try:
            record = parse_line(text)
            if is_heartbeat(record, None if named is None else inputs.schemas[named]):
                tick = tick_value(record[TIME_COLUMN], TIME_COLUMN, inputs.ticks)
                return {**row, **beat_row(inputs, limits, named, tick)}
            name = predicate_of(record, named)
            if name in self.others:
                return None
            schema = inputs.schemas.get(name)
            if schema is None:
                raise ValueError(f"no input is called `{name}`")
            row["tag"] = inputs.tag(name)
            values = typed_values(record, schema, inputs.ticks)
            row |= zip([*inputs.slots(name), "t"], values, strict=True)
            if not limits.first <= values[-1] <= limits.last:
                row["came"] = line_as_json(text)
        except ValueError as error:
            row |= {"problem": str(error), "came": line_as_json(text)}
        return row


@dataclass(frozen=True)
class _Csv:
    """Reads CSV files of one input inside the partitions, as `tidelog query` reads them."""

    inputs: Inputs
    limits: TimeLimits
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
        texts = f"CASE WHEN {self.limits.sql} THEN texts END AS texts"
        select = f"SELECT * REPLACE ({texts}) FROM ({select}) AS x"
        reader = connection.sql(select).to_arrow_reader(65_536)
        assert reader is not None
        names = [*inputs.slots(self.name), "t", "problem", "texts"]
        for part in reader:
            n = part.num_rows
            columns = dict(zip(names, part.columns, strict=True))
            columns |= {
                "tag": pa.repeat(pa.scalar(inputs.tag(self.name), pa.int32()), n),
                "file": pa.repeat(file, n),
                "came": rows_as_json(schema, part.columns, inputs.ticks is not None),
            }
            arrays = [columns.get(f.name, pa.nulls(n, f.type)) for f in inputs.arrow]
            yield pa.RecordBatch.from_arrays(arrays, schema=inputs.arrow)
        tag = {"tag": inputs.tag(self.name), "file": file}
        rows = [{**tag, "problem": p, "came": json.dumps(line)} for p, line in broken]
        yield pa.RecordBatch.from_pylist(rows, schema=inputs.arrow)


class Frames:
    """Streaming DataFrames, one for each input: tagged and unioned in the order of their names."""

    def __init__(self, frames: Mapping[str, DataFrame], inputs: Inputs) -> None:
        self.frames, self.inputs = frames, inputs

    def stream(self) -> DataFrame:
        # Whole rows have columns of their own until it is known which of them are written.
        parts = [
            self.inputs.typed(self.frames[name], name, f"input `{name}`", None).withColumnRenamed(
                "came", f"came{self.inputs.tag(name)}"
            )
            for name in self.inputs.names
        ]
        if not parts:
            raise DataError("the queries need no input with a time, so that nothing streams")
        return reduce(lambda one, two: one.unionByName(two, allowMissingColumns=True), parts)

    def batch(self, frame: DataFrame, limits: TimeLimits) -> DataFrame:
        wholes = [f"came{self.inputs.tag(name)}" for name in self.inputs.names]
        came = F.coalesce(*(came_as_json(frame, limits, whole) for whole in wholes))
        return frame.withColumn("came", came).drop(*wholes)


class Files:
    """Files of facts: Spark says which of them are new, we read them as `tidelog query` does."""

    def __init__(
        self,
        spark: SparkSession,
        program: Program,
        facts: Iterable[FactsPath],
        inputs: Inputs,
        per_batch: int | None = None,
    ) -> None:
        self.program, self.inputs, self.per_batch = program, inputs, per_batch
        self.places = [place.resolved() for place in facts]
        self.spark = spark
        self.endings: dict[Path, str] = {}  # of the lines of a batch's CSV files
        self._told: set[str] = set()

    def _all(self) -> list[Path]:
        """The files there are; DataError for a name that Spark could not read."""
        jvm = self.spark._jvm
        assert jvm is not None
        ascii_only = "UTF" not in str(jvm.System.getProperty("sun.jnu.encoding")).upper()
        paths: list[Path] = []
        for place in self.places:
            paths += place.files()
        for path in map(named_in_unicode, paths):
            if ascii_only and not str(path).isascii():
                raise DataError(
                    f"{path}: Spark's Java reads ASCII names only in this environment: set"
                    " LC_ALL=C.UTF-8, or rename it"
                )
        return list(dict.fromkeys(paths))

    def missing(self) -> list[str]:
        """The inputs that have no file yet."""
        there: set[str | None] = set()
        for path in self._all():
            name, mixed = self._input(path)
            if mixed:  # its lines may be of any input
                return []
            there.add(name)
        return [name for name in self.inputs.names if name not in there]

    def stream(self) -> DataFrame:
        self._all()
        frames = [self._stream(root) for root in dict.fromkeys(p.root for p in self.places)]
        return reduce(DataFrame.union, frames)

    def _stream(self, root: Path) -> DataFrame:
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
        return reader.load(_as_pattern(root)).select("path")

    def batch(self, frame: DataFrame, limits: TimeLimits) -> DataFrame:
        paths = sorted({path for (path,) in frame.collect()})
        return self._rows(frame.sparkSession, [_local(path) for path in paths], limits)

    def all(self) -> DataFrame:
        """The rows of all files there are."""
        for place in self.places:
            if place.delta is not None:
                raise DataError(f"{place}: a query reads Delta tables with --engine duckdb")
        return self._rows(self.spark, self._all(), TimeLimits())

    def _input(self, path: Path) -> tuple[str | None, bool]:
        """The input that a file is of, None if there is none; whether its lines may say so."""
        for place in self.places:
            name = place.input_of(path)
            if name is None or is_hidden(path, place.root):
                continue
            alone = place.input is None and (path == place.root or place.pattern is not None)
            if alone and name not in self.inputs.schemas:
                return None, format_of(path) == "jsonl" or path.suffix == ".tdl"
            return name, False
        return None, False

    def _rows(self, spark: SparkSession, paths: list[Path], limits: TimeLimits) -> DataFrame:
        groups: dict[tuple[str, str | None, tuple[object, ...]], list[Path]] = {}
        for path in paths:
            name, mixed = self._input(path)
            format_ = "tdl" if mixed and path.suffix == ".tdl" else format_of(path)
            if format_ is None or (name is None and not mixed):
                continue
            if mixed or name in self.inputs.schemas:
                key = (format_, name, self._columns(format_, name, path))
                groups.setdefault(key, []).append(path)
            elif str(name) not in self._told:
                self._told.add(str(name))
                is_input(str(name), self.program, schemas(self.program), path)
        parts = [self._read(spark, *key, paths, limits) for key, paths in groups.items()]
        if not parts:
            return spark.createDataFrame([], arrow_struct(self.inputs.arrow))
        return reduce(DataFrame.unionByName, parts)

    def _columns(self, format_: str, name: str | None, path: Path) -> tuple[object, ...]:
        """What tells files apart that cannot be read together: their columns."""
        if format_ == "csv":
            header = read_header(path, self.inputs.schemas[str(name)])
            self.endings[path] = header.ending
            return (len(header.names), header.positions)
        if format_ == "parquet":
            return tuple((f.name, str(f.type)) for f in parquet.read_schema(path))
        return ()

    def _read(
        self,
        spark: SparkSession,
        format_: str,
        name: str | None,
        columns: tuple[Any, ...],
        paths: list[Path],
        limits: TimeLimits,
    ) -> DataFrame:
        places = [_uri(path) for path in paths]
        # As a URI; a plus stands for itself there, and for a space where Spark decodes.
        file = F.col("_metadata.file_path")
        rows = arrow_struct(self.inputs.arrow)
        reader = spark.read.options(**_PLAIN_FILES, **NO_PATTERNS)
        if format_ == "csv":
            files = [(str(path), self.endings.pop(path)) for path in paths]
            frame = spark.createDataFrame(files, "path STRING, ending STRING")
            return frame.mapInArrow(_Csv(self.inputs, limits, str(name), *columns), rows)
        if format_ == "parquet":
            plain = F.url_decode(F.replace(file, F.lit("+"), F.lit("%2B")))
            plain = F.regexp_replace(plain, "^file:/+", "file:///")

            def typed(places: list[str]) -> DataFrame:
                read = reader.parquet(*places)
                rows = self.inputs.typed(read, str(name), str(paths[0]), plain)
                return rows.withColumn("came", came_as_json(rows, limits))

            return each_once(typed, places)
        if format_ == "jsonl":
            frame = each_once(lambda p: reader.text(p).select("value", file.alias("file")), places)
            others = frozenset(self.program.inputs) - self.inputs.schemas.keys()
            return frame.mapInArrow(_Lines(self.inputs, limits, others, name), rows)
        return self._rules(spark, paths)

    def _rules(self, spark: SparkSession, paths: list[Path]) -> DataFrame:
        """`.tdl` files of facts."""
        rows = []
        for path in paths:
            for name, table in read_rules(path, self.program, schemas(self.program)).items():
                if name in self.inputs.schemas:
                    named = table.table.rename_columns([*self.inputs.slots(name), "t"])
                    tag = {"tag": self.inputs.tag(name), "file": str(path)}
                    rows += [{**tag, **row} for row in named.to_pylist()]
        table = pa.Table.from_pylist(rows, schema=self.inputs.arrow)
        return spark.createDataFrame(table, arrow_struct(self.inputs.arrow))


class DeltaFiles(Files):
    """Delta tables: Spark says which entries of their logs are new, we read what those added."""

    def missing(self) -> list[str]:
        return [n for n in self.inputs.names if n not in {place.input for place in self.places}]

    def stream(self) -> DataFrame:
        for place in self.places:
            if "://" in str(place.delta):
                raise DataError(f"{place}: a stream follows Delta tables on local disks only")
            check_log(place.root)
        return reduce(DataFrame.union, [self._stream(place.root / LOG) for place in self.places])

    def _stream(self, root: Path) -> DataFrame:
        return super()._stream(root).where(F.col("path").endswith(".json"))

    def batch(self, frame: DataFrame, limits: TimeLimits) -> DataFrame:
        entries = sorted({_local(path) for (path,) in frame.collect()})
        added = [file for entry in entries for file in added_by(entry)]
        return self._rows(frame.sparkSession, added, limits)

    def _input(self, path: Path) -> tuple[str | None, bool]:
        return next(p.input for p in self.places if path.is_relative_to(p.root)), False


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
