"""DataFrames that are nothing but a scan of Parquet files: the tasks read those files themselves.

Whatever else a DataFrame is (a filter, a cached table, another format or file system), Spark reads
it, and Catalyst packs.
"""

from __future__ import annotations

import re
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
# Settings of a session that change what a scan reads, and the value under which DuckDB reads alike.
_ALIKE_VALUES = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.fieldId.read.enabled": "false",
}
# What all settings of Spark's Parquet reader begin with.
_READING = ("spark.sql.files.", "spark.sql.parquet.", "spark.sql.legacy.parquet.")
# Settings among them that change no value that is read, or only columns that no scan here has.
_HARMLESS = re.compile(
    r"spark\.sql\.files\.(\w*Partition\w*|openCostInBytes|maxRecordsPerFile)"
    r"|spark\.sql\.parquet\.(compression\.codec|writeLegacyFormat|outputTimestampType|output\..*"
    r"|.*InWrite|fieldId\.write\.enabled|filterPushdown.*|aggregatePushdown|pushdown\..*"
    r"|recordLevelFilter\..*|columnarReaderBatchSize|enable\w*VectorizedReader|mergeSchema"
    r"|respectSummaryFiles|inferTimestampNTZ\.enabled|int96\w+|fieldId\.read\.ignoreMissing)"
)
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
    setting = _other_setting(frame)
    return None if setting is None else f"the session sets {setting}"


def _other_setting(frame: DataFrame) -> str | None:
    """A setting of the session under which Spark may read other values than DuckDB."""
    settings = frame.sparkSession.conf
    for name, value in _ALIKE_VALUES.items():
        if str(settings.get(name)).lower() != value.lower():
            return name
    known = _ALIKE_VALUES.keys()
    for name in sorted(settings.getAll):
        if name.startswith(_READING) and name not in known and not _HARMLESS.fullmatch(name):
            return name
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
    if any(name not in there.names or name not in fields for name in names):
        return False
    folded = [name.lower() for name in there.names]
    if any(folded.count(name.lower()) != 1 for name in names):  # Spark may take another one
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
