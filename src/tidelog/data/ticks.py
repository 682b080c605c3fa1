"""Timestamps and ticks: tick = floor((timestamp - origin) / length), in UTC; ranges of ticks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from typing import Any, TypeAlias

from tidelog.data.bounds import short
from tidelog.data.remedies import STAMP, TICK, remedied
from tidelog.data.types import fit, sql_text
from tidelog.language.durations import UNITS, duration
from tidelog.language.graph import Bound
from tidelog.language.program import TIME_MAX, Program, Type

# ISO 8601, as DuckDB and Python both read it.
PATTERN = (
    "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-[0-9]{2}-[0-9]{2}"
    "([T ]([01][0-9]|2[0-3]):[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?"
)
# What to say of a timestamp where a whole number of ticks is expected.
NO_STAMP = "` is not a timestamp such as 2014-01-01T00:10:00Z"
ADD_TICK = 'add --tick 1m (tick="1m" in Python)'
NEEDS_TICK = f"is not int; it looks like a timestamp: {ADD_TICK}"
GIVE_TICK = f"give the length of a tick: {ADD_TICK}"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 86_400_000_000  # microseconds


class TimeType(Enum):
    """The type that a column of times has in Spark's SQL."""

    DATE = "DATE"
    NTZ = "TIMESTAMP_NTZ"
    TIMESTAMP = "TIMESTAMP"


@dataclass(frozen=True)
class Ticks:
    """Length of a tick and where tick 0 starts, both in microseconds; `type` is that of answers."""

    length: int
    origin: int = 0
    type: TimeType = TimeType.TIMESTAMP

    @staticmethod
    def of(length: str | timedelta, origin: str | datetime | None = None) -> Ticks:
        """
        >>> Ticks.of("10m", "2014-01-01T00:00:00Z").tick("2014-01-01T00:25:00Z")
        2
        """
        size = duration(length)
        if not size:
            raise ValueError(
                f"`{length}` is not a tick length: write a number and us, ms, s, m, h or d: 10m"
            )
        start = 0 if origin is None else micros(origin)
        return Ticks(size, start)

    @staticmethod
    def given(
        program: Program, length: str | timedelta | None, origin: str | datetime | None = None
    ) -> Ticks | None:
        """The ticks that someone asks for, or those of the rules; None where times are integers."""
        one = length_given(program, length)
        return None if one is None else Ticks.of(one, origin)

    def typed(self, inputs: Iterable[TimeType]) -> Ticks:
        """The same ticks, with the type of times that follows from the types of some inputs.

        A TIMESTAMP among them makes all answers that. A DATE is one only if all ticks start at
        midnight.

        >>> Ticks.of("7d").typed({TimeType.DATE}).type.value
        'DATE'
        >>> Ticks.of("1h").typed({TimeType.DATE}).type.value
        'TIMESTAMP_NTZ'
        """
        types = set(inputs)
        if not types or TimeType.TIMESTAMP in types:
            return replace(self, type=TimeType.TIMESTAMP)
        days = types == {TimeType.DATE} and self.length % DAY == 0 == self.origin % DAY
        return replace(self, type=TimeType.DATE if days else TimeType.NTZ)

    def tick(self, moment: Any) -> int:
        """The tick a timestamp is in."""
        return (micros(moment) - self.origin) // self.length

    def micros(self, tick: int) -> int:
        """Microseconds since 1970 at which a tick starts."""
        return tick * self.length + self.origin

    def moment(self, tick: int) -> datetime:
        return _EPOCH + timedelta(microseconds=self.micros(tick))

    @property
    def stamped(self) -> Range:
        """The ticks that start at a timestamp of the years 1 to 9999.

        >>> Ticks.of("1d", "0001-01-01").stamped
        Range(low=0, high=3652058)
        """
        first, last = micros(datetime.min), micros(datetime.max)
        return Range(-((self.origin - first) // self.length), (last - self.origin) // self.length)

    def sql(self, micros: str) -> str:
        """The tick of a SQL expression for microseconds since 1970."""
        return floor_sql(f"({micros} - {self.origin})", self.length)


def length_given(program: Program, length: str | timedelta | None) -> str | timedelta | None:
    """The length of a tick that someone asks for, or that of the rules; both must agree."""
    own = program.tick
    if own is None or length is None:
        return own if length is None else length
    if duration(length) != duration(own):
        said = duration_text(length)
        raise ValueError(f"the rules say `tick {own}.`, and ticks of {said} are asked for")
    return length


Duration: TypeAlias = "int | str | timedelta"


def duration_text(length: str | timedelta | None) -> str | None:
    """A length of time as a text.

    >>> duration_text(timedelta(minutes=90)), duration_text("10m")
    ('90m', '10m')
    """
    if not isinstance(length, timedelta):
        return length
    size = duration(length) or 0
    unit = next(u for u, n in reversed(UNITS.items()) if size % n == 0)
    return f"{size // UNITS[unit]}{unit}"


def in_ticks(name: str, value: Duration, ticks: Ticks | None) -> int:
    """A number of ticks, given as that or as a length of time; what does not fit is rounded up.

    >>> in_ticks("lateness", "5m", Ticks.of("2m")), in_ticks("lateness", "7", None)
    (3, 7)
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,18}\s*", value):
        return int(value)
    size = duration(value)
    if size is None:
        raise ValueError(
            f"{name} is a number of ticks or a length of time such as 5m, not {value!r}"
        )
    if ticks is None:
        raise ValueError(f"{name} is {value}, and ticks have no length: {ADD_TICK}")
    return -(-size // ticks.length)


def micros(moment: Any) -> int:
    """Microseconds since 1970 of a timestamp; without a zone it is UTC."""
    if isinstance(moment, str):
        text = moment.strip(" \t")
        try:
            if not re.fullmatch(PATTERN, text):
                raise ValueError
            moment = datetime.fromisoformat(text)
        except ValueError:
            said = f"`{text[:40]}{NO_STAMP}"
            raise ValueError(remedied(said, text, STAMP)) from None
    if "datetime64" in str(getattr(moment, "dtype", "")):  # of NumPy
        moment = moment.astype("datetime64[us]").item()
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if not isinstance(moment, datetime):
        said = f"{short(repr(moment))} is not a timestamp"
        raise ValueError(remedied(said, str(moment), STAMP))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since: timedelta = moment - _EPOCH
    return since // timedelta(microseconds=1)


def time_text(tick: int, ticks: Ticks | None) -> str:
    """A tick as users see it: the timestamp at which it starts, where ticks have a length.

    >>> time_text(3, Ticks.of("10m")), time_text(3, None)
    ('1970-01-01T00:30:00Z', '3')
    """
    if ticks is None:
        return str(tick)
    try:
        return ticks.moment(tick).isoformat().replace("+00:00", "Z")
    except OverflowError:  # before the year 1, or after 9999
        return f"tick {tick}"


def tick_sql(column: str, ticks: Ticks) -> str:
    """The tick of a text in SQL; NULL if it is no timestamp."""
    moment = f"trim({column}, ' \t')"
    tick = ticks.sql(f"epoch_us(TRY_CAST({moment} AS TIMESTAMPTZ))")
    return f"CASE WHEN regexp_full_match({moment}, {sql_text(PATTERN)}) THEN {tick} END"


def floor_sql(value: str, by: int) -> str:
    """Division in SQL that rounds down, also below 0."""
    return f"(({value} - (({value} % {by}) + {by}) % {by}) // {by})"


def needs_tick(value: Any) -> bool:
    """Whether a value that is no tick would be one, if ticks had a length.

    >>> needs_tick("2024-05-01T12:00:00Z"), needs_tick("noon")
    (True, False)
    """
    if isinstance(value, str):
        return re.fullmatch(PATTERN, value.strip(" \t")) is not None
    return isinstance(value, (date, datetime)) or "datetime64" in str(getattr(value, "dtype", ""))


def fitting_tick(value: Any, ticks: Ticks | None) -> int:
    """The tick of a time as it was written, or ValueError."""
    if ticks is not None:
        return ticks.tick(value)
    if needs_tick(value):
        raise ValueError(f"`{short(str(value))}` {NEEDS_TICK}")
    if isinstance(value, float):
        raise ValueError(remedied(f"{value!r} is not int", str(value), TICK))
    tick = fit(value, Type.INT)
    if tick is None:
        raise ValueError("no value")
    return check_tick(int(tick))


def unfit_time(where: str, name: str, kind: str, sql_type: str, ticks: Ticks | None) -> str:
    """What to say of a time column of a type that is of no use."""
    if ticks is None:
        wanted, remedy = "whole numbers of ticks", ""
        if sql_type == "VARCHAR":
            remedy = f"; if they are timestamps, {GIVE_TICK}"
    else:
        wanted, remedy = "timestamps", ""
        if "INT" in sql_type:
            remedy = "; convert them, or give no length of a tick"
    return f"{where}: time column `{name}` is {kind}; times are {wanted}{remedy}"


def check_tick(tick: int) -> int:
    if not -TIME_MAX <= tick <= TIME_MAX:
        raise ValueError(f"time {short(str(tick))} does not fit 62 bits")
    return tick


@dataclass(frozen=True, slots=True)
class Range:
    """Ticks low to high, both included; infinite ends allowed; empty when low > high."""

    low: Bound
    high: Bound

    @property
    def empty(self) -> bool:
        return self.low > self.high

    @property
    def finite(self) -> bool:
        return self.empty or not (math.isinf(self.low) or math.isinf(self.high))

    def __and__(self, other: Range) -> Range:
        both = Range(max(self.low, other.low), min(self.high, other.high))
        return EMPTY if both.empty else both

    def __or__(self, other: Range) -> Range:
        """The least range around both."""
        if self.empty or other.empty:
            return other if self.empty else self
        return Range(min(self.low, other.low), max(self.high, other.high))

    def __add__(self, offset: int) -> Range:
        return self if self.empty else Range(self.low + offset, self.high + offset)

    def __str__(self) -> str:
        return "nowhere" if self.empty else f"{self.low} to {self.high}"


EMPTY = Range(math.inf, -math.inf)
ALWAYS = Range(-math.inf, math.inf)
