"""Facts from Kafka: what can be asked of a broker, and messages as rows.

Spark's connector reads and keeps the offsets; a message is read as a line of a file is.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as S

from tidelog.causes import Cause, cause_of
from tidelog.data.bounds import reason_text, short
from tidelog.data.kafka import MessageFormat, Topics, check_options
from tidelog.data.letters import reason_to_skip
from tidelog.data.readers.csv import facts_of_texts, rows_as_json
from tidelog.data.readers.json import (
    is_heartbeat,
    line_as_json,
    parse_line,
    predicate_of,
    tick_value,
    typed_values,
)
from tidelog.data.schema import Schema, schema_of, schemas
from tidelog.data.secrets import without_secrets
from tidelog.data.types import arrow_type
from tidelog.errors import DataError
from tidelog.evaluation.database import NO_EXTENSIONS
from tidelog.evaluation.spark.sources import Inputs, TimeLimits, arrow_struct, beat_row
from tidelog.language.program import TIME_COLUMN, TIME_MAX, Program, Type

# How long a broker may take to answer, in milliseconds.
PATIENCE = {"default.api.timeout.ms": "15000", "request.timeout.ms": "10000"}
NO_JARS = (
    "Spark has no connector for Kafka: start it with session(connectors=['kafka']), or have"
    " spark-sql-kafka-0-10 among its jars (spark.jars, spark.jars.packages, --jars)"
)
# What users set to go on although messages are gone.
LOSS = "failOnDataLoss"


# Asking a broker


class Brokers:
    """A Kafka that is asked about its topics; DataError, in one sentence, when it cannot say."""

    def __init__(self, spark: SparkSession, topics: Topics, options: Mapping[str, str]) -> None:
        assert spark._jvm is not None
        self.topics = topics
        self._jvm: Any = spark._jvm
        self._kafka: Any = self._jvm.org.apache.kafka
        if not isinstance(self._kafka.clients.admin.Admin, JavaClass):
            raise DataError(NO_JARS)
        settings = self._jvm.java.util.Properties()
        own = {n.removeprefix("kafka."): v for n, v in options.items() if n.startswith("kafka.")}
        for name, value in {**PATIENCE, **own, "bootstrap.servers": topics.servers}.items():
            settings.put(name, value)
        with self._told():
            self._admin = self._kafka.clients.admin.Admin.create(settings)

    def __enter__(self) -> Brokers:
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close(self._jvm.java.time.Duration.ofSeconds(1))

    def _told(self) -> _Told:
        return _Told(self.topics)

    def partitions(self) -> dict[str, int]:
        """How many partitions each topic has."""
        with self._told():
            names = self._jvm.java.util.ArrayList()
            for topic in self.topics.topics:
                names.add(topic)
            described = self._admin.describeTopics(names).allTopicNames().get()
            return {topic: len(described[topic].partitions()) for topic in self.topics.topics}

    def cluster(self) -> str | None:
        """The id of the cluster, where it has one."""
        with self._told():
            known: str | None = self._admin.describeCluster().clusterId().get()
            return known

    def refuse_compacted(self) -> None:
        """DataError for a topic whose messages replace each other: nothing can be read again."""
        config = self._kafka.common.config.ConfigResource
        kind = config.Type.TOPIC
        for topic in self.topics.topics:
            resource = config(kind, topic)
            wanted = self._jvm.java.util.ArrayList()
            wanted.add(resource)
            try:
                known = self._admin.describeConfigs(wanted).all().get()[resource]
            except Py4JJavaError:  # not everybody may ask
                return
            if "compact" in str(known.get("cleanup.policy").value()):
                raise DataError(
                    f"topic `{topic}` is compacted (cleanup.policy): messages vanish from it one by"
                    " one, and a batch could not be read again as it was; use a topic whose policy"
                    f" is delete, or take that risk with --kafka-option {LOSS}=false",
                    code=Cause.COMPACTED,
                )

    def offsets(self, since: int | None = None) -> dict[str, dict[int, int]]:
        """The first offset of each partition; or, of messages since a moment in milliseconds.

        Where there is no such message, it is the offset of the next one to come.
        """
        spec = self._kafka.clients.admin.OffsetSpec
        first = spec.earliest() if since is None else spec.forTimestamp(since)
        offsets = self._list(first)
        if any(offset < 0 for parts in offsets.values() for offset in parts.values()):
            ends = self._list(spec.latest())
            for topic, parts in offsets.items():
                parts |= {p: ends[topic][p] for p, offset in parts.items() if offset < 0}
        return offsets

    def _list(self, spec: Any) -> dict[str, dict[int, int]]:
        asked = self._jvm.java.util.HashMap()
        places = {
            (topic, part): self._kafka.common.TopicPartition(topic, part)
            for topic, count in self.partitions().items()
            for part in range(count)
        }
        for place in places.values():
            asked.put(place, spec)
        offsets: dict[str, dict[int, int]] = {topic: {} for topic in self.topics.topics}
        with self._told():
            listed = self._admin.listOffsets(asked)
            for (topic, part), place in places.items():
                offsets[topic][part] = int(listed.partitionResult(place).get().offset())
        return offsets


class _Told:
    """Errors of Kafka's client in one sentence."""

    def __init__(self, topics: Topics) -> None:
        self.topics = topics

    def __enter__(self) -> None:
        return

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, Py4JJavaError):
            raise self._clear(error) from None

    def _clear(self, error: Py4JJavaError) -> DataError:
        thrown = error.java_exception
        while thrown.getCause() is not None:
            thrown = thrown.getCause()
        kind, said = str(thrown.getClass().getSimpleName()), str(thrown.getMessage())
        if kind == "UnknownTopicOrPartitionException":
            missing = ", ".join(f"`{topic}`" for topic in self.topics.topics)
            return DataError(
                f"{self.topics}: there is no topic {missing}: create it, or see that its name is"
                " right"
            )
        if kind == "TimeoutException":
            return DataError(
                f"{self.topics}: no Kafka answers there: see that it runs, that the address is"
                " right, and which security it asks for (--kafka-option)",
                code=Cause.KAFKA_AWAY,
            )
        code = cause_of(f"{kind}: {said}")
        return DataError(f"{self.topics}: Kafka refuses: {without_secrets(said)}", code=code)


# Reading messages


def topics_by_input(given: Iterable[Topics], program: Program) -> list[Topics]:
    """Topics, those apart that are called as an input is; in an order that does not change."""
    known = schemas(program)
    temporal = {name for name, schema in known.items() if schema.time is not None}
    parts: list[Topics] = []
    for topics in given:
        named = set(topics.topics) & temporal if topics.format.input is None else set()
        parts += (
            replace(topics, topics=(topic,), format=replace(topics.format, input=topic))
            for topic in named
        )
        rest = tuple(topic for topic in topics.topics if topic not in named)
        parts += [replace(topics, topics=rest)] if rest else []
    for topics in parts:
        _check_format(topics, program, known)
    return sorted(parts, key=lambda part: (part.topics, str(part.format.input)))


def _check_format(topics: Topics, program: Program, known: Mapping[str, Schema]) -> None:
    """DataError when messages cannot be read as the address says."""
    format_ = topics.format
    if format_.input is None:
        if format_.format == "csv":
            raise DataError(f"{topics}: CSV does not say what it is of: give NAME={topics}")
        return
    schema = schema_of(format_.input, program, known, str(topics))
    if schema.time is None:
        raise DataError(f"{topics}: `{format_.input}` is not a temporal input of the rules")
    for column in filter(None, (format_.key, *format_.headers)):
        if column not in schema.names:
            raise DataError(f"{topics}: `{format_.input}` has no column `{column}`")


def topic_stream(spark: SparkSession, topics: Topics, options: Mapping[str, str]) -> DataFrame:
    """Topics as a streaming DataFrame of Spark's connector, from the first message on."""
    reader = spark.readStream.format("kafka").options(
        **{
            "startingOffsets": "earliest",
            # Facts of transactions that were aborted, or are open, are none.
            "kafka.isolation.level": "read_committed",
            # A broker may be away for a while; a stream does not wait for it for ever.
            "kafka.default.api.timeout.ms": "30000",
            "kafka.request.timeout.ms": "15000",
            **options,
            "kafka.bootstrap.servers": topics.servers,
            "subscribe": ",".join(topics.topics),
            "includeHeaders": "true" if topics.format.headers else "false",
        }
    )
    return reader.load()


def is_messages(frame: DataFrame) -> bool:
    """Whether a DataFrame has the columns of Spark's connector, as they came."""
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    return isinstance(kinds.get("value"), S.BinaryType) and {
        "key",
        "topic",
        "partition",
        "offset",
    } <= set(kinds)


def clusters_of(
    spark: SparkSession, given: Sequence[Topics], options: Mapping[str, str]
) -> dict[str, str]:
    """The ids of the clusters that have some topics."""
    known: dict[str, str] = {}
    for topics in given:
        with Brokers(spark, topics, options) as brokers:
            cluster = brokers.cluster()
            known |= dict.fromkeys(topics.topics, cluster) if cluster else {}
    return known


def open_topics(
    spark: SparkSession, given: Sequence[Topics], options: Mapping[str, str]
) -> list[tuple[DataFrame, MessageFormat]]:
    """Topics as streams, once their brokers have answered; DataError if they cannot be read."""
    check_options(options)
    for topics in given:
        with Brokers(spark, topics, options) as brokers:
            brokers.partitions()
            if options.get(LOSS, "true").lower() != "false":
                brokers.refuse_compacted()
    return [(topic_stream(spark, topics, options), topics.format) for topics in given]


class Messages:
    """Streaming DataFrames of messages, each with the way in which its messages are written.

    Facts up to the tick `known` are left out: they were there before the messages.
    """

    def __init__(
        self,
        frames: Sequence[tuple[DataFrame, MessageFormat]],
        inputs: Inputs,
        others: frozenset[str],
        known: int | None = None,
        skip: Iterable[str] = (),
    ) -> None:
        self.frames, self.inputs, self.others, self.known = frames, inputs, others, known
        self.skip = frozenset(skip)
        for text in self.skip:
            if not re.fullmatch(r"kafka:.+/\d+/\d+", text):
                raise DataError(
                    f"--skip {text}: a message is kafka:TOPIC/PARTITION/OFFSET, as dead letters"
                    " and Kafka's tools number it"
                )

    def stream(self) -> DataFrame:
        parts = [
            frame.select(
                F.lit(i).alias("source"),
                "value",
                "topic",
                (
                    F.unix_micros("timestamp")
                    if "timestamp" in frame.columns
                    else F.lit(None).cast("bigint")
                ).alias("micros"),
                F.col("partition").cast("int").alias("partition"),
                F.col("offset").cast("bigint").alias("offset"),
                (F.col("key") if format_.key else F.lit(None).cast("binary")).alias("key"),
                *self._headers(format_),
            )
            for i, (frame, format_) in enumerate(self.frames)
        ]
        return reduce(DataFrame.union, parts)

    def _headers(self, format_: MessageFormat) -> Iterator[Column]:
        """The headers that are asked for, a column each.

        As one array they would be dear on their way to Python: Spark asks for the size of a batch
        after every row, and adds up an array from its start each time.
        """
        for i in range(max(len(other.headers) for _, other in self.frames)):
            value = F.lit(None).cast("binary")
            if i < len(format_.headers):
                value = _header(format_.headers[i])
            yield value.alias(f"header{i}")

    def batch(self, frame: DataFrame, limits: TimeLimits, _: Callable[[], set[str]]) -> DataFrame:
        formats = tuple(format_ for _, format_ in self.frames)
        reader = _Reader(self.inputs, limits, self.others, formats, self.skip)
        rows = frame.mapInArrow(reader, arrow_struct(self.inputs.arrow))
        if self.known is None:
            return rows
        return rows.where(F.col("problem").isNotNull() | (F.col("t") > self.known))


def _header(name: str) -> Column:
    """The last header of a name that has a value."""
    given = F.filter(
        "headers", lambda header: (header["key"] == name) & header["value"].isNotNull()
    )
    return F.try_element_at(given, F.lit(-1))["value"]


_PLACE = ("topic", "partition", "offset")


def _place(topic: str, partition: int, offset: int) -> str:
    """Where a message is, as dead letters say it."""
    return f"kafka:{topic}/{partition}/{offset}"


@dataclass(frozen=True)
class _Reader:
    """Reads messages inside the partitions, as `tidelog query` reads lines."""

    inputs: Inputs
    limits: TimeLimits
    others: frozenset[str]  # inputs of the rules that no query needs
    formats: tuple[MessageFormat, ...]
    skip: frozenset[str] = frozenset()  # messages that users leave out

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = {name: batch.column(name) for name in batch.schema.names}
            sources = set(columns["source"].to_pylist())
            for source in sources:
                part = batch
                if len(sources) > 1:
                    part = batch.filter(pc.equal(columns["source"], source))
                format_ = self.formats[source]
                if format_.input in self.others:
                    continue
                if self.skip:
                    left_out, part = self._skipped(part, format_)
                    yield left_out
                if format_.format == "csv":
                    yield self._csv(part, format_)
                    continue
                many = self._many(part, format_)
                if many is not None:
                    plain, part = many
                    yield plain
                yield self._json(part, format_)

    def _skipped(
        self, batch: pa.RecordBatch, format_: MessageFormat
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The messages that users leave out, as dead letters, and all others."""
        places = list(map(_place, *(batch.column(n).to_pylist() for n in _PLACE)))
        left_out = [place in self.skip for place in places]
        rows: list[dict[str, Any]] = []
        for i in (i for i, yes in enumerate(left_out) if yes):
            value = batch.column("value")[i].as_py() or b""
            reason = reason_to_skip(value)
            tag = self.inputs.tag_of(format_.input)
            rows.append({"tag": tag, "problem": reason, "file": places[i]})
        others = batch.filter(pa.array([not yes for yes in left_out], pa.bool_()))
        return pa.RecordBatch.from_pylist(rows, schema=self.inputs.arrow), others

    # JSON

    def _many(
        self, batch: pa.RecordBatch, format_: MessageFormat
    ) -> tuple[pa.RecordBatch, pa.RecordBatch] | None:
        """The facts of messages that are as they should be, read all at once, and the others.

        None where that cannot be told: then each is read by itself.
        """
        schema = None if format_.input is None else self.inputs.schemas[format_.input]
        if schema is None or not schema.declared or format_.key or format_.headers:
            return None
        read = _read_at_once(batch.column("value"), schema, stamped=self.inputs.ticks is not None)
        if read is None:
            return None
        *values, said, time = read.columns
        t = time if self.inputs.ticks is None else self._ticks(time)
        last = min(self.limits.last, TIME_MAX)
        fine = pc.and_(
            pc.and_(pc.greater_equal(t, self.limits.first), pc.less_equal(t, last)),
            pc.or_kleene(pc.is_null(said), pc.equal(said, schema.predicate)),
        )
        for i, (value, column) in enumerate(zip(values, schema.columns, strict=True)):
            fine = pc.and_(fine, pc.is_valid(value))
            if column.type is Type.FLOAT:
                fine = pc.and_(fine, pc.is_finite(value))
                values[i] = pc.add(value, 0.0)  # -0.0 and 0.0 are one value
        fine = pc.fill_null(fine, fill_value=False)
        columns = dict(zip([*self.inputs.slots(schema.predicate), "t"], [*values, t], strict=True))
        columns["tag"] = pa.repeat(
            pa.scalar(self.inputs.tag(schema.predicate), pa.int32()), batch.num_rows
        )
        arrays = [columns.get(f.name, pa.nulls(batch.num_rows, f.type)) for f in self.inputs.arrow]
        plain = pa.RecordBatch.from_arrays(arrays, schema=self.inputs.arrow).filter(fine)
        return plain, batch.filter(pc.invert(fine))

    def _ticks(self, times: pa.Array) -> pa.Array:
        """The ticks of timestamps as texts, each text read once; null where it is none."""
        coded = times.dictionary_encode()
        ticks: list[int | None] = []
        for text in coded.dictionary.to_pylist():
            try:
                ticks.append(tick_value(text, TIME_COLUMN, self.inputs.ticks))
            except ValueError:
                ticks.append(None)
        return pc.take(pa.array(ticks, pa.int64()), coded.indices)

    def _json(self, batch: pa.RecordBatch, format_: MessageFormat) -> pa.RecordBatch:
        rows: list[dict[str, Any]] = []
        given = _given(batch, format_)
        values, topics = batch.column("value").to_pylist(), batch.column("topic").to_pylist()
        parts, offsets = (batch.column(name).to_pylist() for name in ("partition", "offset"))
        rows += self._beats(batch, format_)
        for i, value in enumerate(values):
            if value is None or not value.strip():
                continue
            row = self._row(value, format_.input, given[i] if given else {})
            if row is None:
                continue
            if "came" in row:
                row["file"] = _place(topics[i], parts[i], offsets[i])
            rows.append(row)
        return pa.RecordBatch.from_pylist(rows, schema=self.inputs.arrow)

    def _beats(self, batch: pa.RecordBatch, format_: MessageFormat) -> Iterator[dict[str, Any]]:
        """Messages without a value are heartbeats, at the time that Kafka has for them."""
        ticks = self.inputs.ticks
        if ticks is None or not batch.column("value").null_count:
            return
        for i, (value, micros) in enumerate(
            zip(batch.column("value").to_pylist(), batch.column("micros").to_pylist(), strict=True)
        ):
            if value is None and micros is not None:
                tick = (micros - ticks.origin) // ticks.length
                row = beat_row(self.inputs, self.limits, format_.input, tick)
                place = (batch.column(name)[i].as_py() for name in ("topic", "partition", "offset"))
                yield {**row, "file": _place(*place)}

    def _row(
        self, value: bytes, named: str | None, given: Mapping[str, str]
    ) -> dict[str, Any] | None:
        """A message as a row; None when no query needs it."""
        inputs, limits = self.inputs, self.limits
        row: dict[str, Any] = {"tag": -1 if named is None else inputs.tag(named)}
        try:
            record = parse_line(value)
            if not given and is_heartbeat(record, None if named is None else inputs.schemas[named]):
                tick = tick_value(record[TIME_COLUMN], TIME_COLUMN, inputs.ticks)
                return {**row, **beat_row(inputs, limits, named, tick)}
            name = predicate_of(record, named)
            if name in self.others:
                return None
            schema = inputs.schemas.get(name)
            if schema is None:
                raise ValueError(f"no input is called `{short(name)}`")
            row["tag"] = inputs.tag(name)
            if given:
                record = {**_typed(given, schema, stamped=inputs.ticks is not None), **record}
            typed = typed_values(record, schema, inputs.ticks)
            row |= zip([*inputs.slots(name), "t"], typed, strict=True)
            if not limits.first <= typed[-1] <= limits.last:
                row["came"] = line_as_json(value)
        except ValueError as error:
            row |= {"problem": reason_text(error), "came": line_as_json(value)}
        return row

    # CSV

    def _csv(self, batch: pa.RecordBatch, format_: MessageFormat) -> pa.RecordBatch:
        inputs, name = self.inputs, str(format_.input)
        schema = inputs.schemas[name]
        outside = {format_.key, *format_.headers} & set(schema.names)
        inside = [column for column in schema.names if column not in outside]
        given = _given(batch, format_)
        texts: list[dict[str, str | None]] = []
        places: list[str] = []
        broken = list(self._beats(batch, format_))
        for i, message in enumerate(batch.to_pylist()):
            value = message["value"]
            if value is None or not value.strip():
                continue
            place = _place(message["topic"], message["partition"], message["offset"])
            try:
                line = _csv_values(value)
                if len(line) != len(inside):
                    raise ValueError(f"{len(line)} values for {len(inside)} columns")
                texts.append(
                    {**dict(zip(inside, line, strict=True)), **(given[i] if given else {})}
                )
                places.append(place)
            except ValueError as error:
                problem = {"problem": reason_text(error), "came": line_as_json(value)}
                broken.append({"tag": inputs.tag(name), "file": place, **problem})
        read = self._typed_texts(schema, texts, places)
        return pa.concat_batches([read, pa.RecordBatch.from_pylist(broken, schema=inputs.arrow)])

    def _typed_texts(
        self, schema: Schema, texts: list[dict[str, str | None]], places: list[str]
    ) -> pa.RecordBatch:
        inputs, n = self.inputs, len(texts)
        written = {
            f"c{i}": pa.array([text.get(column) for text in texts], pa.string())
            for i, column in enumerate(schema.names)
        }
        select = facts_of_texts("texts", schema, range(len(schema.names)), inputs.ticks)
        unused = f"CASE WHEN {self.limits.sql} THEN texts END AS texts"
        with duckdb.connect(config={"threads": 1, **NO_EXTENSIONS}) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("texts", pa.table(written))
            table = connection.sql(f"SELECT * REPLACE ({unused}) FROM ({select}) AS x")
            (read,) = table.to_arrow_table().combine_chunks().to_batches() or [None]
        if read is None:
            return pa.RecordBatch.from_pylist([], schema=inputs.arrow)
        names = [*inputs.slots(schema.predicate), "t", "problem", "texts"]
        columns = dict(zip(names, read.columns, strict=True))
        columns |= {
            "tag": pa.repeat(pa.scalar(inputs.tag(schema.predicate), pa.int32()), n),
            "file": pa.array(places, pa.string()),
            "came": rows_as_json(schema, read.columns, inputs.ticks is not None),
        }
        arrays = [columns.get(f.name, pa.nulls(n, f.type)) for f in inputs.arrow]
        return pa.RecordBatch.from_arrays(arrays, schema=inputs.arrow)


def _read_at_once(values: pa.Array, schema: Schema, *, stamped: bool) -> pa.RecordBatch | None:
    """The columns of an input, the predicate and the time of each message; null where one is not.

    None when it cannot be told which message is which, or when one of them is not plain: Arrow
    would read the lines of one text, where a message that is broken could take in the next one.
    """
    if not len(values) or values.null_count:
        return None
    try:
        texts = pc.utf8_trim_whitespace(values.cast(pa.string()))
        whole = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
        if not pc.all(whole).as_py() or pc.any(pc.match_substring(texts, "\n")).as_py():
            return None
        fields = [(column.name, arrow_type(column.type)) for column in schema.columns]
        fields += [
            ("predicate", pa.string()),
            (str(schema.time), pa.string() if stamped else pa.int64()),
        ]
        if len(dict(fields)) < len(fields):
            return None
        text = "\n".join(texts.to_pylist()).encode()
        table = pa.json.read_json(
            io.BytesIO(text),
            read_options=pa.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pa.json.ParseOptions(
                explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowException:
        return None
    if table.num_rows != len(values):
        return None
    (read,) = table.combine_chunks().to_batches()
    return read


def _given(batch: pa.RecordBatch, format_: MessageFormat) -> list[dict[str, str]]:
    """The columns that are in keys and headers, by message; nothing where there are none."""
    if not format_.key and not format_.headers:
        return []
    given: list[dict[str, str]] = []
    places = {f"header{i}": name for i, name in enumerate(format_.headers)}
    if format_.key:
        places = {"key": format_.key, **places}
    for message in batch.select(list(places)).to_pylist():
        texts = {places[place]: value for place, value in message.items() if value is not None}
        given.append({n: value.decode(errors="backslashreplace") for n, value in texts.items()})
    return given


def _typed(given: Mapping[str, str], schema: Schema, *, stamped: bool) -> dict[str, Any]:
    """Texts of keys and headers as JSON would have written them; a text that is none stays."""
    texts = {column.name for column in schema.columns if column.type is Type.TEXT}
    if stamped and schema.time is not None:
        texts.add(schema.time)
    typed: dict[str, Any] = {}
    for name, text in given.items():
        try:
            typed[name] = text if name in texts else json.loads(text)
        except ValueError:
            typed[name] = text
    return {name: value for name, value in typed.items() if name in schema.names}


_FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^",]*))(,|\Z)')


def _csv_values(line: bytes) -> list[str | None]:
    """The values of a line of CSV; one that is empty and not quoted is missing.

    >>> _csv_values(b'a,"b ""c"" ",,"d, e"')
    ['a', 'b "c" ', None, 'd, e']
    """
    try:
        text = line.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    values: list[str | None] = []
    at = 0
    while True:
        field = _FIELD.match(text, at)
        if field is None:
            raise ValueError("a quote is not closed, or text follows it")
        quoted, plain, end = field.groups()
        values.append(quoted.replace('""', '"') if quoted is not None else plain or None)
        if not end:
            return values
        at = field.end()
