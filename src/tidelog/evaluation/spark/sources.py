"""Facts in: DataFrames of several inputs, all as rows of one shape.

A row is `tag, <slots>, t, problem, file, came`: the input's number, its arguments in slots of their
type, the tick, and why the row is not a fact, if it is not. Rows that may not be used, because of
that or because of their time, have in `came` what they were before anything was read from them, as
JSON: an object, or a text where not even that could be read. A heartbeat, which says that all facts
before its tick have arrived, is a row with a tag of its own (`Inputs.beat`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as S

from tidelog.data.numbers import EXACT, Decimals, not_float
from tidelog.data.packed import slots_of
from tidelog.data.schema import Schema, positions
from tidelog.data.ticks import GIVE_TICK, Ticks, TimeType, time_text, unfit_time
from tidelog.data.types import ANY_VALUE, SQL_TYPES, arrow_type
from tidelog.errors import DataError
from tidelog.language.program import INT_MAX, TIME_COLUMN, TIME_MAX, Type
from tidelog.language.program import Column as SchemaColumn

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
    decimals: Decimals = field(default_factory=Decimals, compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.schemas))

    def tag(self, name: str) -> int:
        return self.names.index(name)

    def tag_of(self, name: str | None) -> int:
        """The number of an input, or one for rows of none."""
        return -1 if name is None else self.tag(name)

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
    def used(self) -> pa.Schema:
        """Rows without what only matters where they are not used."""
        slots = [(name, arrow_type(type_)) for name, type_ in self.all_slots.items()]
        return pa.schema([("tag", pa.int32()), *slots, ("t", pa.int64()), ("problem", pa.string())])

    @property
    def arrow(self) -> pa.Schema:
        return pa.schema([*self.used, ("file", pa.string()), ("came", pa.string())])

    def arrow_of(self, name: str) -> pa.Schema:
        """The rows of one input, as they are read."""
        schema = self.schemas[name]
        types = [*(arrow_type(column.type) for column in schema.columns), pa.int64()]
        named = list(zip(schema.sql_names(), types, strict=True))
        return pa.schema([*named, ("problem", pa.string()), ("came", pa.string())])

    def _tagged(
        self,
        frame: DataFrame,
        name: str,
        values: list[Column],
        time: Column,
        file: Column,
        came: Column,
        unfit: Mapping[int, Column],
    ) -> DataFrame:
        """A frame as rows, its arguments and time already of their types.

        `unfit` is what is wrong with values that have no place in their type, by position.
        """
        schema = self.schemas[name]
        read = [
            (value, column)
            for i, (value, column) in enumerate(zip(values, schema.columns, strict=True))
            if i not in schema.unread
        ]
        problems = [unfit[i] for i in unfit if i not in schema.unread]
        problems += [
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
            kind = fields[position].dataType
            expect_type(column, kind, where)
            if isinstance(kind, S.DecimalType):
                self.decimals.warn(name, column.name, kind.precision, kind.scale)
        time_type = fields[chosen[-1]].dataType
        # Columns go by their position: no name of a user's reaches an expression.
        extra = [] if file is None else [file.alias("file")]
        plain = [f"c{i}" for i in range(len(fields))]
        frame = frame.select("*", *extra).toDF(*plain, *(["file"] if extra else []))
        values = [
            _value(F.col(plain[position]), column.type or Type.TEXT)
            for column, position in zip(schema.columns, chosen, strict=False)
        ]
        unfit: dict[int, Column] = {}
        for i, (column, position) in enumerate(zip(schema.columns, chosen, strict=False)):
            there = F.col(plain[position])
            if isinstance(fields[position].dataType, S.StringType):
                said = F.lit(f"column `{column.name}`: the text is not UTF-8")
                unfit[i] = F.when(~F.is_valid_utf8(there), said)
            elif column.type is Type.FLOAT and isinstance(fields[position].dataType, S.LongType):
                unfit[i] = _not_float(there, column.name)
        time = self._time(F.col(plain[chosen[-1]]), time_type, where, str(schema.time))
        came = F.struct(*map(_as_it_came, plain, fields))
        place = F.col("file") if extra else F.lit(None)
        return self._tagged(frame, name, values, time, place, came, unfit)

    def _time(self, column: Column, type_: S.DataType, where: str, name: str) -> Column:
        ticks = self.ticks
        if isinstance(type_, (S.LongType, S.IntegerType, S.ShortType, S.ByteType)):
            if ticks is None:
                return column.cast("bigint")
        elif isinstance(type_, (S.TimestampType, S.TimestampNTZType, S.DateType)):
            if ticks is None:
                raise DataError(f"{where}: time column `{name}` holds timestamps; {GIVE_TICK}")
            if isinstance(type_, S.DateType):
                return _ticked(column, _micros_of_days(column), ticks)
            if isinstance(type_, S.TimestampNTZType):
                return _ticked(column, _micros_without_zone(column), ticks)
            return _ticked(column, F.unix_micros(column), ticks)
        is_text = isinstance(type_, S.StringType)
        said = unfit_time(where, name, type_.simpleString(), type_.simpleString().upper(), ticks)
        remedy = f": make it one, as in `to_timestamp({name})`" if is_text and ticks else ""
        raise DataError(f"{said}{remedy}")


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
    if type_ is Type.TEXT:  # one that is not UTF-8 is no fact, and must not end the batch
        return F.make_valid_utf8(value)
    return value + F.lit(0.0) if type_ is Type.FLOAT else value  # -0.0 and 0.0 are one value


def _micros_of_days(day: Column) -> Column:
    """Microseconds from 1970 to a date; NULL where they are too many."""
    return F.try_multiply(F.unix_date(day).cast("bigint"), F.lit(86_400_000_000).cast("bigint"))


def _micros_without_zone(time: Column) -> Column:
    """Microseconds from 1970 to a TIMESTAMP_NTZ in UTC.

    Functions of moments such as `timestamp_diff` would move a time that the session's zone leaves
    out, an hour in spring. Parts of a time depend on no zone.
    """
    hours = F.hour(time).cast("bigint") * F.lit(3_600_000_000).cast("bigint")
    minutes = F.minute(time).cast("bigint") * F.lit(60_000_000).cast("bigint")
    seconds = (F.date_part(F.lit("SECOND"), time) * F.lit(1_000_000)).cast("bigint")
    return F.try_add(_micros_of_days(time.cast("date")), hours + minutes + seconds)


def _ticked(column: Column, micros: Column, ticks: Ticks) -> Column:
    """The tick of a moment in microseconds since 1970; one that is too far away stays that."""
    since = F.try_subtract(micros, F.lit(ticks.origin).cast("bigint"))
    length = F.lit(ticks.length).cast("bigint")
    down = F.when((since < 0) & (since % length != 0), F.lit(1)).otherwise(F.lit(0))
    tick = F.call_function("div", since, length) - down
    return F.coalesce(tick, F.when(column.isNotNull(), F.lit(TIME_MAX + 1)))


def _as_it_came(name: str, field: S.StructField) -> Column:
    """A column of a row, of which a text can be written."""
    is_text = field.dataType == S.StringType()
    return (F.make_valid_utf8(name) if is_text else F.col(name)).alias(field.name)


def expect_type(column: SchemaColumn, type_: S.DataType, where: str) -> None:
    """DataError for a column of a type that the rules cannot use."""
    actual = spark_type(type_)
    wanted = column.type or actual or Type.TEXT
    if actual is wanted or (actual is Type.INT and wanted is Type.FLOAT):
        return
    kind = type_.simpleString()
    remedy = f"cast it, or declare it `{actual.value}`" if actual else "cast it"
    if isinstance(type_, S.StringType) and wanted is Type.TEXT:
        remedy = "texts are compared by their bytes; make it one with `collate(.., 'UTF8_BINARY')`"
    raise DataError(
        f"{where}: column `{column.name}` is {kind}, and the rules need {wanted.value}: {remedy}"
    )


def _not_float(column: Column, name: str) -> Column:
    """What is wrong with a BIGINT that is no float; NULL where it is one."""
    before, after = not_float(name, "\0").split("\0")
    value = F.concat(F.lit(before), column.cast("string"), F.lit(after))
    # As a float the greatest BIGINT is one more than that, and the cast takes it back to it.
    again = column.cast("double").try_cast("bigint").eqNullSafe(column) & (column < INT_MAX)
    return F.when(~(column.between(-EXACT, EXACT) | again), value)


def time_types(frame: DataFrame, schema: Schema) -> set[TimeType]:
    """The type of an input's times in a frame; none where they are whole ticks."""
    position = positions(frame.columns, schema, schema.predicate)[-1]
    kind = frame.schema.fields[position].dataType.typeName().upper()
    return {type_ for type_ in TimeType if type_.value == kind}


def spark_type(type_: S.DataType) -> Type | None:
    match type_:
        case S.StringType():
            return Type.TEXT if type_.collation == "UTF8_BINARY" else None
        case S.CharType() | S.VarcharType():
            return Type.TEXT
        case S.BooleanType():
            return Type.BOOL
        case S.LongType() | S.IntegerType() | S.ShortType() | S.ByteType():
            return Type.INT
        case S.DoubleType() | S.FloatType() | S.DecimalType():
            return Type.FLOAT
    return None


def rigid_rows(frame: DataFrame, schema: Schema) -> pa.Table:
    """The facts of an input without times in this process."""
    where = f"input `{schema.predicate}`"
    chosen = positions(frame.columns, schema, where)
    if not chosen:
        return frame.toArrow()
    for column, position in zip(schema.columns, chosen, strict=True):
        expect_type(column, frame.schema.fields[position].dataType, where)
    plain = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
    return plain.select(*(f"c{i}" for i in chosen)).toArrow().rename_columns(list(schema.names))


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

    def batch(self, frame: DataFrame, limits: TimeLimits, _: Callable[[], set[str]]) -> DataFrame:
        wholes = [f"came{self.inputs.tag(name)}" for name in self.inputs.names]
        came = F.coalesce(*(came_as_json(frame, limits, whole) for whole in wholes))
        return frame.withColumn("came", came).drop(*wholes)
