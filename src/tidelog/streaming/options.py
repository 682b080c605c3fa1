"""The options of a stream, in process and on Spark alike, and the mistakes one can make in them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Literal, TypeAlias

from tidelog.data.ticks import Duration, Ticks, TimeType, duration_text, in_ticks
from tidelog.errors import DataError
from tidelog.evaluation.engine import Moment, as_tick
from tidelog.language.durations import duration

# How far after the clock on the wall timestamps may lie unless users say otherwise.
MAX_AHEAD = "1d"

StreamMode: TypeAlias = Literal["offline", "online"]
# A silence for all inputs, or one for each that is named.
Idle: TypeAlias = str | timedelta | Mapping[str, str | timedelta]
Emit: TypeAlias = Literal["definitive", "eager"]
History: TypeAlias = Literal["derived", "strict"]

# What `tidelog.Stream` takes: facts are pushed in whole ticks there, which are integers.
_PUSHED = ("mode", "emit", "history", "lateness", "from_", "max_jump", "intervals")


@dataclass(frozen=True)
class StreamOptions:
    """How a stream runs; wrong values are refused with a ValueError when it is made.

    >>> StreamOptions(mode="online", history="strict")
    Traceback (most recent call last):
    ...
    ValueError: online keeps the facts that are live: strict is a style of offline
    """

    mode: StreamMode = "offline"
    emit: Emit = "definitive"
    history: History = "derived"
    lateness: int = 0  # ticks that facts may be late
    sparse: tuple[str, ...] = ()  # inputs that do not hold time back
    max_jump: int | None = None  # ticks that facts may lie ahead
    from_: int | None = None  # the first time of answers; None: the first tick seen
    tick: str | None = None  # the length of a tick, where times are timestamps
    origin: str | None = None  # when tick 0 starts
    timestamps: bool = True  # with a tick length, whether answers have timestamps too
    # After what silence an input no longer holds time back; under "" for all that are not named.
    idle: Mapping[str, timedelta] = field(default_factory=dict)
    intervals: bool = False  # answers from when to when, instead of a row for every tick
    time_types: frozenset[TimeType] = frozenset()  # of DataFrames that facts come from
    # How far after the clock on the wall timestamps may lie; without a tick length nothing does.
    max_ahead: timedelta | None = None
    heartbeats: bool = False  # whether messages may say how far time has come

    @staticmethod
    def of(
        tick: str | timedelta | None,
        origin: str | datetime | None,
        lateness: Duration = 0,
        max_jump: Duration | None = None,
        from_: Moment | None = None,
        idle: Idle | None = None,
        max_ahead: str | timedelta | None = None,
        **others: Any,
    ) -> StreamOptions:
        """Options as users give them: lengths of time for ticks, timestamps for times.

        Where ticks have no length, `max_ahead` says nothing: no clock tells how far they are.

        >>> StreamOptions.of("1m", None, lateness="5m").lateness
        5
        """
        length = duration_text(tick)
        ticks = None if length is None else Ticks.of(length, origin)
        start = origin.isoformat() if isinstance(origin, datetime) else origin
        first = as_tick(from_, ticks)
        if isinstance(first, float):
            raise ValueError("from_ is the first time of answers, and finite")
        return StreamOptions(
            lateness=in_ticks("lateness", lateness, ticks),
            max_jump=None if max_jump is None else in_ticks("max_jump", max_jump, ticks),
            from_=first,
            tick=length,
            origin=start,
            idle=silences(idle),
            max_ahead=None if length is None else ahead(max_ahead),
            **others,
        )

    def __post_init__(self) -> None:
        _one_of("mode", self.mode, ("offline", "online"))
        _one_of("emit", self.emit, ("definitive", "eager"))
        _one_of("history", self.history, ("derived", "strict"))
        if self.mode == "online" and self.history == "strict":
            raise ValueError("online keeps the facts that are live: strict is a style of offline")
        if self.lateness < 0:
            raise ValueError("lateness is a number of ticks, 0 or more")
        if self.max_jump is not None and self.max_jump < 1:
            raise ValueError("max_jump is a number of ticks, 1 or more")
        _ = self.ticks

    @cached_property
    def ticks(self) -> Ticks | None:
        """Length and origin of ticks; None where times are integers."""
        return None if self.tick is None else Ticks.of(self.tick, self.origin)

    @property
    def stamps(self) -> Ticks | None:
        """Length and origin of ticks where answers have timestamps."""
        if self.ticks is None or not self.timestamps:
            return None
        return self.ticks.typed(self.time_types)

    @property
    def online(self) -> bool:
        return self.mode == "online"

    @property
    def eager(self) -> bool:
        return self.emit == "eager"

    @property
    def strict(self) -> bool:
        return self.history == "strict"

    def silence_limits(self, inputs: Iterable[str]) -> dict[str, float]:
        """By input, after how many seconds of silence it no longer holds time back."""
        limits = {name: self.idle.get(name, self.idle.get("")) for name in inputs}
        return {name: t.total_seconds() for name, t in limits.items() if t is not None}

    def keywords(self) -> dict[str, Any]:
        """As keywords of `tidelog.spark.stream`."""
        return {name: value for name, value in asdict(self).items() if name != "time_types"}

    def pushed(self) -> dict[str, Any]:
        """As keywords of `tidelog.Stream`."""
        return {name: getattr(self, name) for name in _PUSHED}

    def identity(self) -> dict[str, Any]:
        """What a stream that goes on from a checkpoint must have in common with it, by name.

        The style of the history is not among it: it makes a difference offline only.
        """
        return {
            "tick": self.tick,
            "origin": None if self.ticks is None else self.ticks.origin,
            "timestamps": self.timestamps,
            "from": self.from_,
            "mode": self.mode,
            "emit": self.emit,
            "intervals": self.intervals,
            **self._time_identity(),
        }

    def rows_to_come(self) -> dict[str, Any]:
        """What decides only about rows to come, by name: another start may have it otherwise."""
        return {
            "lateness": self.lateness,
            "sparse": sorted(self.sparse),
            "max_jump": self.max_jump,
            "max_ahead": duration_text(self.max_ahead),
            "idle": {name: duration_text(length) for name, length in sorted(self.idle.items())},
            "heartbeats": self.heartbeats,
        }

    def _time_identity(self) -> dict[str, str]:
        """The type of times, where it is not the usual one."""
        type_ = TimeType.TIMESTAMP if self.stamps is None else self.stamps.type
        return {} if type_ is TimeType.TIMESTAMP else {"time_type": type_.value}


def silences(idle: Idle | None) -> dict[str, timedelta]:
    """By input, the silence after which it is idle; under "" what goes for all others.

    >>> silences("5m"), silences({"E": "90s"})
    ({'': datetime.timedelta(seconds=300)}, {'E': datetime.timedelta(seconds=90)})
    """
    each = idle if isinstance(idle, Mapping) else {} if idle is None else {"": idle}
    lengths: dict[str, timedelta] = {}
    for name, length in each.items():
        size = duration(length)
        if not size:
            raise ValueError(f"idle is a length of time on the clock, such as 5m, not {length!r}")
        lengths[name] = timedelta(microseconds=size)
    return lengths


def ahead(max_ahead: str | timedelta | None) -> timedelta | None:
    """How far after the clock on the wall timestamps may lie; None or `off` for any distance.

    >>> ahead("1d"), ahead("off")
    (datetime.timedelta(days=1), None)
    """
    if max_ahead is None or max_ahead == "off":
        return None
    size = duration(max_ahead)
    if size is None:
        raise ValueError(f"max_ahead is a length of time such as 1d, or off, not {max_ahead!r}")
    return timedelta(microseconds=size)


def expect_inputs(idle: Iterable[str], temporal: Container[str]) -> None:
    """DataError when a silence is given for what is no input with a time."""
    for name in idle:
        if name and name not in temporal:
            raise DataError(f"`{name}` may be idle, and is no temporal input of the rules")


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} is {' or '.join(known)}, not {value!r}")


# What a start may have otherwise than the one before; all else belongs to the stream.
ROWS_TO_COME = frozenset(StreamOptions().rows_to_come())

__all__ = [
    "MAX_AHEAD",
    "ROWS_TO_COME",
    "Emit",
    "History",
    "Idle",
    "StreamMode",
    "StreamOptions",
    "silences",
]
