"""Sinks of a simulated stream: the real ones where they write files, and models of others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from sim.disk import Disk
from sim.machine import Process
from sim.stream import Text, store_of
from tidelog.data.delta import TableBatch
from tidelog.errors import DataError, Refused
from tidelog.streaming.sinks.delta import DeltaSink
from tidelog.streaming.sinks.folders import BatchFolders
from tidelog.streaming.sinks.lines import LinesSink
from tidelog.streaming.sinks.sink import BatchAnswers, Sink

Answer: TypeAlias = tuple[Any, ...]  # query, value, and its tick or its first and last one


@dataclass
class Tables:
    """Delta tables: a list of versions each, which are durable at once."""

    entries: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def of(self, process: Process) -> TablesOfProcess:
        return TablesOfProcess(self, process)

    def restore(self, address: str, version: int) -> None:
        self.entries[address].append({"restored": version})

    def rows(self, address: str) -> list[Any]:
        """What a reader of the last version sees."""
        seen: list[list[Any]] = []
        for entry in self.entries.get(address, []):
            before = seen[-1] if seen else []
            back = entry.get("restored")
            seen.append(seen[back] if back is not None else [*before, *entry["rows"]])
        return seen[-1] if seen else []


@dataclass
class Table:
    """A table as it is opened."""

    entries: list[dict[str, Any]]

    def version(self) -> int:
        return len(self.entries) - 1

    def file_uris(self) -> list[str]:
        return []


@dataclass
class TablesOfProcess:
    """Delta tables as a process reads and writes them."""

    tables: Tables
    process: Process

    def opened(self, address: str) -> Table | None:
        entries = self.tables.entries.get(address)
        return None if entries is None else Table(entries)

    def last_batch(self, address: str, stream: str) -> int | None:
        """Transactions stay in the log, also if their version was taken out again."""
        entries = self.tables.entries.get(address, [])
        mine = [entry["batch"] for entry in entries if entry.get("stream") == stream]
        return mine[-1] if mine else None

    def batches(self, address: str, stream: str, after: int = -1) -> Iterator[TableBatch]:
        entries = self.tables.entries.get(address, [])
        version = len(entries) - 1
        while version > after:
            entry = entries[version]
            if "restored" in entry:
                version = entry["restored"]
                if version < after:
                    raise Refused(f"{address} was taken back to version {version}")
                continue
            if entry["stream"] == stream:
                yield TableBatch(entry["batch"], entry["lineage"], version)
            version -= 1

    def append(
        self, address: str, rows: Any, stream: str, batch: TableBatch, last: int | None
    ) -> TableBatch:
        try:
            self.process.call("append", address)
        except OSError as error:
            raise DataError(f"{address} cannot be written: {error}") from None
        if self.last_batch(address, stream) != last:
            raise Refused(f"{address}: another process has added batches of this stream")
        entry = {"stream": stream, "batch": batch.number, "lineage": batch.lineage}
        values = list(zip(*rows.to_pydict().values(), strict=True))
        self.tables.entries.setdefault(address, []).append({**entry, "rows": values})
        version = len(self.tables.entries[address]) - 1
        try:
            self.process.call("appended", address)
        except OSError as error:  # it is there, and nobody says so
            raise DataError(f"{address} cannot be written: {error}") from None
        return TableBatch(batch.number, batch.lineage, version)


@dataclass
class Topic:
    """A topic of Kafka: answers with the stream, batch and lineage that sent them."""

    messages: list[tuple[str, int, str, Answer]] = field(default_factory=list)


class TopicSink(Sink):
    """A model of the sink for Kafka: it may send some of a batch, and hear nothing of it."""

    cannot_resume = "messages cannot be taken back"

    def __init__(self, topic: Topic, process: Process) -> None:
        self.topic, self.process, self.name = topic, process, "kafka:out"
        self.stream = self.lineage = ""

    def mark(self, stream: str) -> None:
        self.stream = stream

    def begin(self, batch: int, lineage: str) -> None:
        self.lineage = lineage

    def write(self, batch: int, answers: Mapping[str, BatchAnswers]) -> None:
        for query, rows in answers.items():
            for row in sorted(cast("Text", rows).rows):
                try:
                    self.process.call("send", f"/out/{query}")
                    self.topic.messages.append((self.stream, batch, self.lineage, (query, *row)))
                    self.process.call("sent", f"/out/{query}")
                except OSError as error:
                    raise DataError(f"Kafka: {error}") from None


KINDS = ("json", "jsonl", "delta", "kafka")


@dataclass
class Target:
    """Where the answers of a stream go: a new place for each new checkpoint."""

    kind: str
    number: int = 0
    tables: Tables = field(default_factory=Tables)
    topic: Topic = field(default_factory=Topic)

    @property
    def path(self) -> str:
        return f"/out{self.number}"

    def sink(self, process: Process) -> Sink:
        match self.kind:
            case "json":
                return BatchFolders("json", store_of(process, self.path))
            case "jsonl":
                return LinesSink(f"{self.path}/answers.jsonl", process)
            case "delta":
                return DeltaSink(f"mem:/{self.path}", self.tables.of(process))
            case _:
                return TopicSink(self.topic, process)

    def answers(self, disk: Disk, queries: Sequence[str]) -> list[Answer]:
        """What a reader finds, each as often as it is there."""
        match self.kind:
            case "json":
                return [
                    (query, *row.values())
                    for query in queries
                    for path, data in disk.tree(f"{self.path}/{query}").items()
                    if "/batch=" in path and not path.rpartition("/")[2].startswith((".", "_"))
                    for row in map(json.loads, data.splitlines())
                ]
            case "jsonl":
                data = disk.tree(f"{self.path}/answers.jsonl").values()
                rows = [json.loads(line) for file in data for line in file.splitlines()]
                return [tuple(row.values()) for row in rows]
            case "delta":
                return [
                    (query, *row)
                    for query in queries
                    for row in self.tables.rows(f"mem:/{self.path}/{query}")
                ]
            case _:
                return [answer for *_, answer in self.topic.messages]
