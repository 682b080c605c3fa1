"""Kafka as users name it: `kafka://HOST:PORT/TOPIC`, and the options that go with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import parse_qsl

from tidelog.data.secrets import without_secrets
from tidelog.errors import DataError

SCHEME = "kafka://"
USAGE = "kafka://HOST:PORT/TOPIC"

ValueFormat: TypeAlias = Literal["json", "csv"]


@dataclass(frozen=True)
class MessageFormat:
    """How the facts of messages are written.

    `input` is what all of them are facts of; without it JSON says so itself, with a `predicate`.
    Columns may be in the key and in headers, as text.
    """

    input: str | None = None
    format: ValueFormat = "json"
    key: str | None = None  # the column that a message's key holds
    headers: tuple[str, ...] = ()  # columns that are headers of their own name


@dataclass(frozen=True)
class Topics:
    """Some topics of a Kafka, and how their messages are written."""

    servers: str
    topics: tuple[str, ...]
    format: MessageFormat = MessageFormat()

    @staticmethod
    def is_one(text: object) -> bool:
        """Whether a text names topics, perhaps for one input: `Temp=kafka://HOST:PORT/temps`."""
        return isinstance(text, str) and re.match(rf"(\w+=)?{SCHEME}", text) is not None

    @staticmethod
    def of(text: str, input_: str | None = None) -> Topics:
        """
        >>> Topics.of("Temp=kafka://a:9092,b:9092/temps?format=csv&key=device")
        Topics(servers='a:9092,b:9092', topics=('temps',), format=MessageFormat(input='Temp', \
format='csv', key='device', headers=()))
        """
        name, _, address = text.partition(SCHEME)
        place, _, query = address.partition("?")
        servers, _, topics = place.partition("/")
        shown = without_secrets(text)
        if "@" in servers:
            raise DataError(f"{shown}: a name and a password go into --kafka-option, not here")
        server = r"(\[[\da-fA-F:]+\]|[\w.-]+):\d+"
        if not re.fullmatch(rf"{server}(,{server})*", servers):
            raise DataError(f"{shown}: give {USAGE}, or several HOST:PORT with commas between them")
        named = tuple(topics.split(","))
        for topic in named:
            if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic):
                raise DataError(f"{shown}: `{topic}` is no name of a topic; give {USAGE}")
        format_ = _format(query, input_ or name.removesuffix("=") or None, shown)
        return Topics(servers, named, format_)

    def __str__(self) -> str:
        return f"{SCHEME}{self.servers}/{','.join(self.topics)}"


def _format(query: str, input_: str | None, shown: str) -> MessageFormat:
    given = dict(parse_qsl(query, keep_blank_values=True))
    for name in given.keys() - {"format", "key", "headers"}:
        raise DataError(
            f"{shown}: after ? an address knows format, key and headers, not `{name}`; options of"
            " Kafka and of Spark's connector go into --kafka-option"
        )
    headers = tuple(filter(None, given.get("headers", "").split(",")))
    match given.get("format", "json"):
        case "json":
            return MessageFormat(input_, "json", given.get("key"), headers)
        case "csv":
            return MessageFormat(input_, "csv", given.get("key"), headers)
        case other:
            raise DataError(f"{shown}: messages are json or csv, not `{other}`")


def kafka_options(given: Iterable[str]) -> dict[str, str]:
    """Options as `NAME=VALUE`; of `NAME=@FILE` the value is in a file, where secrets belong.

    >>> kafka_options(["startingOffsets=latest", "kafka.client.id=a=b"])
    {'startingOffsets': 'latest', 'kafka.client.id': 'a=b'}
    """
    options: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise DataError(
                f"--kafka-option {name}: give NAME=VALUE, such as startingOffsets=latest"
            )
        if value.startswith("@"):
            try:
                value = Path(value[1:]).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                said = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
                raise DataError(f"--kafka-option {name}: {value[1:]}: {said}") from None
        options[name] = value
    return options


# What our own reader relies on; an address says the first two.
_OURS = {
    "kafka.bootstrap.servers": "the address says where Kafka is",
    "subscribe": "the address names the topics",
    "subscribePattern": "the address names the topics",
    "assign": "the address names the topics",
    "includeHeaders": "headers=COLUMN in the address reads headers",
}


def check_options(options: Mapping[str, str]) -> None:
    """DataError for an option that is not for users to set."""
    for name, why in _OURS.items():
        if name in options:
            raise DataError(f"--kafka-option {name}: {why}")
