"""Where answers go, in process and on Spark alike: each kind of sink is a file of this folder.

A new sink is a file with a function `sink(target)` that makes one, and a line of `SINKS` here. What
a sink has to promise is said in `sink.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidelog.data.secrets import without_secrets
from tidelog.errors import DataError

if TYPE_CHECKING:
    from tidelog.streaming.sinks.sink import FileStore, Sink


@dataclass(frozen=True)
class Registered:
    """A kind of sink: how users name it, and the module here that makes it."""

    usage: str
    module: str
    in_process: bool = True

    @property
    def has_path(self) -> bool:
        return ":" in self.usage


SINKS = {
    "csv": Registered("csv:DIR", "folders"),
    "parquet": Registered("parquet:DIR", "folders"),
    "json": Registered("json:DIR", "folders"),
    "jsonl": Registered("jsonl:FILE", "lines"),
    "console": Registered("console", "console"),
    "kafka": Registered("kafka://HOST:PORT/TOPIC", "kafka", in_process=False),
    "delta": Registered("delta:DIR", "delta", in_process=False),
    "memory": Registered("memory", "functions", in_process=False),
}


@dataclass(frozen=True)
class Target:
    """What a text such as `csv:DIR` names: the kind of sink, and the path that goes with it.

    `store` opens a folder on any file system that Spark knows; it and the session of Spark are not
    there in process. `options` are those of Kafka.
    """

    kind: str
    path: str
    store: Callable[[str], FileStore] | None = None
    spark: Any = None
    options: Mapping[str, str] = field(default_factory=dict)


def usages(*, in_process: bool) -> list[str]:
    """How the sinks are named that there are in process, or on Spark."""
    return [kind.usage for kind in SINKS.values() if kind.in_process or not in_process]


def sink_of(
    text: str,
    store: Callable[[str], FileStore] | None = None,
    spark: Any = None,
    options: Mapping[str, str] | None = None,
) -> Sink:
    """The sink that a text such as `csv:DIR` names; DataError when there is none.

    >>> sink_of("xml:out")
    Traceback (most recent call last):
    ...
    tidelog.errors.DataError: `xml:out` is no sink: give csv:DIR, parquet:DIR, json:DIR, \
jsonl:FILE or console
    """
    known = kind_of(text, in_process=store is None)
    kind, _, path = text.partition(":")
    module = import_module(f"tidelog.streaming.sinks.{known.module}")
    made: Sink = module.sink(Target(kind, path, store, spark, options or {}))
    return made


def kind_of(text: str, *, in_process: bool) -> Registered:
    """The kind of sink that a text names; DataError when there is none."""
    kind, _, path = text.partition(":")
    known = SINKS.get(kind)
    if (
        known is not None
        and (known.in_process or not in_process)
        and (bool(path) if known.has_path else text == kind)
    ):
        return known
    *others, last = usages(in_process=in_process)
    function = "" if in_process else ", or a function of batch and answers"
    raise DataError(
        f"`{without_secrets(text)}` is no sink: give {', '.join(others)} or {last}{function}"
    )
