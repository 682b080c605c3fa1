"""Facts for a stream in process: files in the order of their ticks, or JSON lines as they come."""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa

from tidelog.causes import Cause
from tidelog.data.bounds import short
from tidelog.data.letters import SHOWN, DeadLetter, letter_text, refuse_useless
from tidelog.data.readers.json import (
    is_heartbeat,
    line_as_json,
    parse_line,
    predicate_of,
    tick_value,
    typed_values,
)
from tidelog.data.schema import Schema
from tidelog.data.ticks import Range, Ticks
from tidelog.errors import DataError
from tidelog.evaluation.duckdb import Engine
from tidelog.language.program import TIME_COLUMN
from tidelog.streaming.clock import (
    Clock,
    Horizon,
    Pace,
    ahead_reason,
    first_in_time,
    late_reason,
    was_silent,
)
from tidelog.streaming.options import StreamOptions
from tidelog.streaming.silence import Silence

# Facts, and the tick up to which time goes on with them; None if it stays where it is.
Push: TypeAlias = "tuple[int | None, dict[str, pa.Table | list[tuple[Any, ...]]]]"

# Facts that one push takes in from files.
PUSH = 100_000
# What to do when standard input is another one.
FROM_WHERE = (
    "give that input again from its beginning, or --resume-from here if all of its lines are new"
)
# Facts of ticks that are not complete which a checkpoint keeps.
HELD = 100_000
# Lines of an input that are looked at before it is said that none of them can be used.
FIRST_LINES = 100


def first_leap(engine: Engine, inputs: Iterable[str], most: int) -> int | None:
    """The tick before the first leap over more than so many; None if there is no such leap."""
    views = [f"SELECT t FROM {engine.loaded[name].view}" for name in inputs]
    ticks = f"SELECT t, lead(t) OVER (ORDER BY t) - t AS leap FROM ({' UNION '.join(views)}) AS x"
    (last,) = engine.one(f"SELECT min(t) FROM ({ticks}) AS x WHERE leap > {most}")
    return None if last is None else int(last)


def from_files(
    engine: Engine,
    inputs: Mapping[str, Schema],
    after: int | None = None,
    until: float = math.inf,
    pushed: int | None = None,
) -> Iterator[Push]:
    """The facts of a loaded engine, many ticks a push; those after a tick and up to one.

    `pushed` is the last tick pushed before, which may lie after that: facts may come late.
    """
    ranges = [engine.loaded[name].range for name in inputs if not engine.loaded[name].range.empty]
    if not ranges or until == -math.inf:
        return
    low, high = min(int(r.low) for r in ranges), max(int(r.high) for r in ranges)
    total = sum(engine.loaded[name].rows for name in inputs)
    width = max(1, (high - low + 1) * PUSH // max(total, 1))
    low = low if after is None else max(low, after + 1)
    high = int(min(high, until))
    while low <= high:
        last = min(high, low + width - 1)
        facts: dict[str, pa.Table | list[tuple[Any, ...]]] = {}
        for name, schema in inputs.items():
            table = engine.arrow(
                f"SELECT * FROM {engine.loaded[name].view} WHERE t BETWEEN {low} AND {last}"
            )
            if table.num_rows:
                facts[name] = table.rename_columns(list(schema.names))
        yield last if pushed is None else max(last, pushed), facts
        low = last + 1


def after(
    engine: Engine, inputs: Mapping[str, Schema], tick: float, last: float
) -> tuple[int, Callable[[], dict[str, pa.Table]]]:
    """How many facts of a loaded engine lie after a tick, up to another one; and these facts."""
    selects: dict[str, str] = {}
    for name in inputs:
        loaded = engine.loaded[name]
        range_ = Range(tick + 1, last) & loaded.range
        if not range_.empty:
            where = f"t BETWEEN {range_.low} AND {range_.high}"
            selects[name] = f"SELECT * FROM {loaded.view} WHERE {where}"
    count = sum(engine.one(f"SELECT count(*) FROM ({x}) AS x")[0] for x in selects.values())

    def facts() -> dict[str, pa.Table]:
        tables = ((name, engine.arrow(select)) for name, select in selects.items())
        return {name: table.rename_columns(list(inputs[name].names)) for name, table in tables}

    return count, facts


class TooFarAhead(ValueError):
    """A tick lies too far ahead; `needed` is the max_jump with which it would not."""

    def __init__(self, tick: int, last: int, most: int, ticks: Ticks | None) -> None:
        super().__init__(ahead_reason(tick, last, most, ticks))
        self.needed = tick - last


@dataclass
class Horizons:
    """The horizon of this moment; the clock is looked at once a second."""

    options: StreamOptions
    now: Callable[[], float] = time.time
    _at: float = -math.inf
    _last: Horizon | None = None

    def __call__(self) -> Horizon | None:
        now = self.now()
        if abs(now - self._at) >= 1:
            self._at, self._last = now, Horizon.of(self.options, int(now * 1_000_000))
        return self._last


@dataclass
class LinesRead:
    """A running digest of the lines of an input: whether it is the one that was read before.

    Another input is noticed early: digests of the first 1, 2, 4, 8, .. lines are kept.

    >>> read = LinesRead()
    >>> for line in (b"a", b"b", b"c"):
    ...     read.add(line)
    >>> again = LinesRead(known=read.state())
    >>> again.add(b"a")
    >>> again.add(b"x")
    Traceback (most recent call last):
    tidelog.errors.DataError: standard input is not what was read before: its first 2 lines are \
others; give that input again from its beginning, or --resume-from here if all of its lines are new
    """

    known: dict[str, str] = field(default_factory=dict)  # by number of lines
    number: int = 0
    marks: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, line: bytes) -> None:
        """One more line; DataError if the lines so far are not those that were read before."""
        self.number += 1
        self._digest.update(line.rstrip(b"\r\n") + b"\n")
        number = str(self.number)
        if number in self.known and self.known[number] != self._digest.hexdigest():
            lines = "line is another" if self.number == 1 else f"{number} lines are others"
            raise DataError(
                f"standard input is not what was read before: its first {lines}; {FROM_WHERE}",
                code=Cause.OTHER_STREAM,
            )
        if self.number & (self.number - 1) == 0:
            self.marks[number] = self._digest.hexdigest()

    def state(self) -> dict[str, str]:
        """Digests by number of lines; of what was read before, until there are new lines."""
        if self.number < max(map(int, self.known), default=0):
            return self.known
        now = {str(self.number): self._digest.hexdigest()} if self.number else {}
        return {**self.marks, **now}

    def end(self) -> None:
        """DataError if some lines have come, and not all that were read before."""
        before = max(map(int, self.known), default=0)
        if 0 < self.number < before:
            raise DataError(
                f"standard input ends after {self.number} lines, and {before} were read before;"
                f" {FROM_WHERE}",
                code=Cause.OTHER_STREAM,
            )


@dataclass
class Lines:
    """JSON lines as they come; a tick is complete once every input has lines of a later one.

    `{"time": 7}` alone says that everything before 7 has arrived. Lines that cannot be used go
    `aside`; when none of the first ones can be, that is an error. `told` hears of each at once, and
    of late facts, with their rows. `late` has lines as they came that come too late, by what is
    read from them.
    """

    inputs: Mapping[str, Schema]
    others: Mapping[str, Schema]  # inputs of the rules that the queries do not need
    pace: Pace
    ticks: Ticks | None
    max_jump: int | None = None
    seen: dict[str, int] = field(default_factory=dict)
    tin: int | None = None
    taken: int = 0  # lines that are in a push
    rows: int = 0  # lines read here that are not of inputs nobody needs
    heartbeats: int = 0  # of them
    beat: int | None = None  # the last heartbeat
    idle: tuple[str, ...] = ()  # inputs that are silent and hold nothing back
    overtaken: dict[str, int] = field(default_factory=dict)  # how far time went on without them
    silence: Silence = field(default_factory=lambda: Silence({}))
    aside: list[DeadLetter] = field(default_factory=list)
    late: dict[tuple[str, tuple[Any, ...]], list[DeadLetter]] = field(default_factory=dict)
    told: Callable[[DeadLetter, tuple[Any, ...] | None], None] = lambda *_: None
    useless: Counter[str | None] = field(default_factory=Counter)  # lines put aside, by input
    read: LinesRead = field(default_factory=LinesRead)
    horizon: Callable[[], Horizon | None] = lambda: None
    stays_open: bool = False  # more lines of the last tick may come in the next run

    @property
    def clock(self) -> Clock:
        """Where the lines have brought time."""
        return Clock(seen=self.seen, tin=self.tin, told=self._beats, idle=self.idle)

    @property
    def _beats(self) -> dict[str, int]:
        return {} if self.beat is None else dict.fromkeys(self.inputs, self.beat)

    def _hear(self, names: Iterable[str]) -> None:
        """Settle who is silent now that something has come of some inputs."""
        self.silence.hear(names)
        silent = {*self.idle, *self.silence.silent()}
        if self.tin is not None:
            self.overtaken |= dict.fromkeys(silent, self.tin)
        self.idle = tuple(sorted(silent.difference(names)))

    def pushes(self, lines: Iterable[bytes | None]) -> Iterator[Push]:
        """A push whenever time moves on; what is left at the end comes with the last tick.

        None among the lines is a moment in which nothing has come.
        """
        waiting: dict[str, pa.Table | list[tuple[Any, ...]]] = {}
        number = 0
        for line in lines:
            if line is not None:
                number += 1
                self.read.add(line)
            if line is None:
                self._hear(())
            elif not line.strip() or number <= self.taken:
                continue
            else:
                self.rows += 1
                read = self._line(line, f"<stdin>:{number}")
                if read is None:
                    continue
                if isinstance(read, int):
                    self.beat = read if self.beat is None else max(read, self.beat)
                    self._hear(self.inputs)
                else:
                    name, row = read
                    rows = waiting.setdefault(name, [])
                    assert isinstance(rows, list)
                    rows.append(row)
                    self.seen[name] = max(row[-1], self.seen.get(name, row[-1]))
                    self._hear([name])
            tin = self.pace.tin(self.seen, self._beats, self.idle)
            if tin is not None and (self.tin is None or tin > self.tin):
                self.tin, self.taken = tin, number
                yield tin + self.pace.lateness, waiting
                waiting = {}
        self.read.end()
        self.taken = max(self.taken, number)
        if waiting and self.stays_open:
            yield None, waiting
        elif waiting:
            last = max(self.seen.values())
            before = [] if self.tin is None else [self.tin + self.pace.lateness]
            yield max([last, *before]), waiting

    def _without(self, name: str) -> float:
        """How far time has gone on without an input."""
        if name in self.idle and self.tin is not None:
            return self.tin
        return self.overtaken.get(name, -math.inf)

    def _line(self, line: bytes, where: str) -> int | tuple[str, tuple[Any, ...]] | None:
        """A fact and what it is of, or the tick before which everything has arrived."""
        name = None
        try:
            record = parse_line(line)
            if is_heartbeat(record, None):
                beat = tick_value(record[TIME_COLUMN], TIME_COLUMN, self.ticks)
                self._expect_near(beat)
                self.heartbeats += 1
                return beat
            name = predicate_of(record)
            schema = self.inputs.get(name) or self.others.get(name)
            if schema is None:
                raise ValueError(f"no input is called `{short(name)}`")
            if schema.time is None:
                raise ValueError(f"`{name}` is rigid: give its facts with --rigid")
            row = typed_values(record, schema, self.ticks)
            if name not in self.inputs:
                self.rows -= 1
                return None
            self._expect_near(row[-1])
            if row[-1] < first_in_time(self.tin):
                reason = late_reason(row[-1], self.tin, self.ticks)
                if row[-1] <= self._without(name):
                    reason += was_silent(name)
                needed, cause = self._remedy(name, row[-1])
                came = line_as_json(line)
                late = DeadLetter(name, reason, where, came, needed, cause)
                self.late.setdefault((name, row), []).append(late)
                self.told(late, row)
            return name, row
        except ValueError as error:
            needed = getattr(error, "needed", None)
            self._put_aside(DeadLetter(name, str(error), where, line_as_json(line), needed))
            return None

    def _remedy(self, name: str, tick: int) -> tuple[int | None, str]:
        """The lateness that a late fact would have needed, and another reason why it was late."""
        without = self._without(name)
        overtaken = {} if without == -math.inf else {name: int(without)}
        clock = replace(self.clock, overtaken=overtaken)
        return self.pace.needed(clock, tick), self.pace.cause(clock, name, tick)

    def _expect_near(self, tick: int) -> None:
        """ValueError for a tick that lies too far ahead of all that came before it."""
        last = max([*self.seen.values(), *self._beats.values()], default=tick)
        horizon = self.horizon()
        if horizon is not None and tick > horizon.last:
            raise ValueError(horizon.reason)
        if self.max_jump is not None and tick - last > self.max_jump:
            raise TooFarAhead(tick, last, self.max_jump, self.ticks)

    def _put_aside(self, letter: DeadLetter) -> None:
        """Keep a line that cannot be used; DataError when none of the first ones could be."""
        self.aside.append(letter)
        self.told(letter, None)
        name = letter.predicate if letter.predicate in self.inputs else None
        self.useless[name] += 1
        used = self.seen if name is None else name in self.seen
        if self.useless[name] < FIRST_LINES or used:
            return
        first = [letter.as_json() for letter in self.aside[:SHOWN]]
        if name is not None:
            refuse_useless({name: FIRST_LINES}, first)
        raise DataError(
            f"none of the first {FIRST_LINES} lines can be used",
            *map(letter_text, first),
            code=Cause.NO_ROW_USABLE,
        )
