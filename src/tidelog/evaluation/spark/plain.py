"""DataFrames that are nothing but a scan of Parquet files: the tasks read those files themselves.

Whatever else a DataFrame is (a filter, a cached table, another format or file system), Spark reads
it, and Catalyst packs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame
from pyspark.sql import types as S

from tidelog.data.readers import parquet
from tidelog.data.schema import Schema
from tidelog.data.ticks import Ticks
from tidelog.errors import DataError
from tidelog.evaluation.spark.files import local
from tidelog.evaluation.spark.sources import Inputs, spark_type
from tidelog.evaluation.spark.splits import Split, splits_of
from tidelog.language.program import Type

_PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
# Settings of a session under which Spark does not read all of its files.
_TOLERANT = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")
# Columns that Spark and DuckDB read alike.
_ALIKE: dict[pa.DataType, S.DataType] = {
    pa.string(): S.StringType(),
    pa.large_string(): S.StringType(),
    pa.bool_(): S.BooleanType(),
    pa.int8(): S.ByteType(),
    pa.int16(): S.ShortType(),
    pa.int32(): S.IntegerType(),
    pa.int64(): S.LongType(),
    pa.float32(): S.FloatType(),
    pa.float64(): S.DoubleType(),
    pa.date32(): S.DateType(),
}


def plain_splits(frame: DataFrame, name: str, inputs: Inputs) -> list[Split] | str:
    """The parts of the files that a DataFrame is a scan of; or why it is none, in a few words."""
    try:
        reason = _other_than_a_scan(frame)
        files = [] if reason else [unquote(file) for file in frame.inputFiles()]
    except Py4JError:
        return "its plan cannot be looked at"
    if reason:
        return reason
    if not files:
        return "it has no files"
    if any(not file.startswith("file:/") for file in files):
        return "its files are not on a local file system"
    splits: list[Split] = []
    for path in sorted(map(local, files)):
        try:
            if not _reads_alike(path, frame, inputs.schemas[name], inputs.ticks):
                return "its files have other columns or types"
            splits += splits_of(path, "parquet", name, inputs)
        except DataError:
            return "its files cannot be opened here"
    return splits


def _other_than_a_scan(frame: DataFrame) -> str | None:
    """Why a DataFrame is more than all rows of Parquet files, some of their columns."""
    plan: Any = frame._jdf.queryExecution().optimizedPlan()
    if _kind(plan) == "Project":
        chosen = plan.projectList()
        if any(_kind(chosen.apply(i)) != "AttributeReference" for i in range(chosen.size())):
            return "it is computed"
        plan = plan.child()
    if _kind(plan) != "LogicalRelation" or _kind(plan.relation()) != "HadoopFsRelation":
        return "it is computed" if _kind(plan) != "InMemoryRelation" else "it is cached"
    relation = plan.relation()
    if relation.fileFormat().getClass().getName() != _PARQUET:
        return "it is not Parquet"
    if relation.partitionSchema().size():
        return "its folders have columns"
    options = relation.options().keySet().toSeq()
    if any(str(options.apply(i)).lower() != "path" for i in range(options.size())):
        return "it is read with options"
    session = frame.sparkSession
    if any(str(session.conf.get(name)).lower() == "true" for name in _TOLERANT):
        return "the session leaves out files that cannot be read"
    return None


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _reads_alike(path: Path, frame: DataFrame, schema: Schema, ticks: Ticks | None) -> bool:
    """Whether the columns of a file that an input needs are as the DataFrame has them."""
    metadata = parquet.read_metadata(path)
    if b"org.apache.spark.legacyDateTime" in (metadata.metadata or {}):
        return False
    there = metadata.schema.to_arrow_schema()
    fields = {field.name: field.dataType for field in frame.schema.fields}
    names = list(schema.names) if schema.declared else frame.columns
    if not schema.declared and there.names != frame.columns:
        return False
    if any(there.names.count(name) != 1 or name not in fields for name in names):
        return False
    if any(_spark_type(there.field(name).type) != fields[name] for name in names):
        return False
    for i in range(metadata.num_columns):
        column = metadata.schema.column(i)
        if column.name in names and column.physical_type == "INT96":
            return False
    *columns, time = names
    fits = all(
        spark_type(fields[name]) in _readable_as(column.type or Type.TEXT)
        for name, column in zip(columns, schema.columns, strict=True)
    )
    moment = isinstance(fields[time], (S.TimestampType, S.TimestampNTZType, S.DateType))
    tick = spark_type(fields[time]) is Type.INT
    return fits and (tick if ticks is None else moment)


def _readable_as(type_: Type) -> tuple[Type, ...]:
    return (Type.INT, Type.FLOAT) if type_ is Type.FLOAT else (type_,)


def _spark_type(type_: pa.DataType) -> S.DataType | None:
    if pa.types.is_timestamp(type_) and type_.unit in ("ms", "us"):
        return S.TimestampNTZType() if type_.tz is None else S.TimestampType()
    return _ALIKE.get(type_)
