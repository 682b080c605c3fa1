"""Time in a stream, in process and on Spark alike: what has arrived, who is late, what is final.

Plain data and pure functions. The input time tin is a tick up to which everything has arrived; a
fact is late if its tick is at or before the tin from before it came. An answer is final once tin is
past its time by the query's delay.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from heapq import merge
from itertools import islice, repeat
from typing import Any

from tidelog.analysis.definitive import Pending
from tidelog.analysis.dependencies import Dependencies
from tidelog.data.ticks import ALWAYS, EMPTY, Range, Ticks, duration_text, time_text
from tidelog.language.graph import Bound
from tidelog.language.program import TIME_MAX
from tidelog.streaming.options import StreamOptions
from tidelog.streaming.schedule import Schedule

NOTHING: Mapping[str, int] = {}


def first_in_time(tin: int | None) -> int:
    """The least tick that is not late when everything up to tin has arrived."""
    return -TIME_MAX if tin is None else tin + 1


def came_late(tin: int | None, ticks: Ticks | None) -> str:
    """What is said of a late fact.

    >>> came_late(5, None)
    'came after everything up to 5 had arrived'
    """
    until = "nothing" if tin is None else time_text(tin, ticks)
    return f"came after everything up to {until} had arrived"


def was_silent(name: str) -> str:
    """What is said of a late fact besides, where time went on without its input."""
    return f"; time had gone on without {name}, which was silent"


def late_reason(tick: int, tin: int | None, ticks: Ticks | None) -> str:
    """Why a late row is not used; where ticks have a length, the time is in the row, as it came.

    >>> late_reason(3, 5, None)
    'late: tick 3 came after everything up to 5 had arrived'
    """
    told = f"tick {tick}" if ticks is None else "its time"
    return f"late: {told} {came_late(tin, ticks)}"


def ahead_reason(tick: int, last: int, most: int, ticks: Ticks | None) -> str:
    """Why a row is not used that lies too far ahead of all that came before it.

    >>> ahead_reason(300, 5, 100, None)
    'tick 300 is more than 100 ahead of 5'
    """
    if ticks is None:
        return f"tick {tick} is more than {most} ahead of {last}"
    return f"its time is more than {most} ticks ahead of {time_text(last, ticks)}"


@dataclass(frozen=True)
class Horizon:
    """The last tick that is not too far after the clock on the wall, and why later rows are."""

    last: int
    reason: str

    @staticmethod
    def of(options: StreamOptions, now: int) -> Horizon | None:
        """The horizon when the clock says so many microseconds since 1970; None if there is none.

        >>> options = StreamOptions.of("1m", None, max_ahead="1h")
        >>> Horizon.of(options, 0)
        Horizon(last=60, reason='its time is more than 1h after the clock, which said \
1970-01-01T00:00:00Z; --max-ahead allows more')
        """
        if options.ticks is None or options.max_ahead is None:
            return None
        ahead = options.max_ahead // timedelta(microseconds=1)
        moment = time_text(now // 1_000_000, Ticks(1_000_000))
        reason = (
            f"its time is more than {duration_text(options.max_ahead)} after the clock, which said"
            f" {moment}; --max-ahead allows more"
        )
        return Horizon((now + ahead - options.ticks.origin) // options.ticks.length, reason)


@dataclass(frozen=True)
class Pace:
    """What moves time: the temporal inputs, how late facts may be, what does not hold time back."""

    inputs: tuple[str, ...]
    lateness: int = 0
    sparse: frozenset[str] = frozenset()
    from_: int | None = None

    def tin(
        self,
        seen: Mapping[str, int],
        told: Mapping[str, int] = NOTHING,
        idle: Container[str] = (),
    ) -> int | None:
        """Up to where everything has arrived, by the inputs that hold time back.

        By input, `seen` is the greatest tick of its facts and `told` the tick of its last
        heartbeat: everything before that is there. Those that are `idle` hold nothing back; if all
        are, time stays where the furthest input has brought it.

        >>> Pace(("E", "F"), lateness=2).tin({"E": 10, "F": 20})
        7
        >>> Pace(("E", "F")).tin({"E": 10}) is None
        True
        >>> Pace(("E", "F")).tin({"E": 10}, {"F": 8}), Pace(("E", "F")).tin({"E": 10}, {}, ["F"])
        (7, 9)
        """
        there = self._there(seen, told)
        awake = [name for name in self.held if name not in idle]
        if not awake:
            return max(there.values(), default=None)
        return (
            None if any(name not in there for name in awake) else min(map(there.__getitem__, awake))
        )

    @property
    def held(self) -> tuple[str, ...]:
        """The inputs that time waits for."""
        return tuple(name for name in self.inputs if name not in self.sparse) or self.inputs

    def _there(self, seen: Mapping[str, int], told: Mapping[str, int]) -> dict[str, int]:
        """By input, up to where its facts have arrived."""
        # More facts of the greatest tick may come: only those before it are all there.
        there = {name: self.complete(seen[name] - 1) for name in self.inputs if name in seen}
        for name in (name for name in self.inputs if name in told):
            there[name] = max(told[name] - 1, there.get(name, told[name] - 1))
        return there

    def waits_for(self, clock: Clock) -> tuple[str, ...]:
        """The inputs that tin waits for: a fact of a later tick of each would move it on.

        >>> pace = Pace(("E", "F", "G"))
        >>> pace.waits_for(Clock(seen={"E": 10, "F": 7, "G": 7}))
        ('F', 'G')
        >>> pace.waits_for(Clock(seen={"E": 10, "F": 7}, idle=("F",)))
        ('G',)
        """
        if clock.closed:
            return ()
        there = self._there(clock.seen, clock.told)
        awake = [name for name in self.held if name not in clock.idle]
        first = min((there.get(name, -math.inf) for name in awake), default=math.inf)
        return tuple(name for name in awake if there.get(name, -math.inf) == first)

    def needed(self, clock: Clock, tick: int) -> int | None:
        """The least lateness with which a fact that came too late would have been in time.

        >>> Pace(("E",), lateness=2).needed(Clock(seen={"E": 10}, tin=7), 4)
        6
        """
        return None if clock.tin is None else self.lateness + clock.tin + 1 - tick

    def cause(self, clock: Clock, name: str, tick: int) -> str:
        """Why time had gone on without a late fact, where more lateness is no remedy.

        >>> Pace(("E", "F")).cause(Clock(seen={"F": 9}, tin=8, overtaken={"E": 8}), "E", 3)
        'time had gone on without E, which was silent: a longer --idle would do'
        """
        if tick <= clock.overtaken.get(name, -math.inf):
            return f"{was_silent(name)[2:]}: a longer --idle would do"
        if clock.told and self.tin(clock.seen, NOTHING, clock.idle) != clock.tin:
            return "a heartbeat had said that everything before it was there"
        return ""

    def delivered(self, told: int) -> int:
        """The tick that a heartbeat delivers: nothing before it is missing, however late."""
        return told - 1 + self.lateness

    def complete(self, tick: int) -> int:
        """The input time once all facts up to a tick are there but for those that come late."""
        return tick - self.lateness

    def first_answer(self, first: int) -> int:
        """The first time at which answers are given, the least tick seen being `first`."""
        return first if self.from_ is None else self.from_


@dataclass(frozen=True)
class Emission:
    """When answers are given: after the delay of their query, or as soon as they are derived."""

    delays: dict[str, int]  # of queries with a time: at most their settling times
    eager: bool = False
    window: int | None = None  # strict: input facts of so many ticks are all that is kept

    def final(self, schedule: Schedule, query: str, tin: int, start: int) -> int:
        """The time up to which a query is final at tin, whatever the data.

        Where rules look at explicit times, nothing is final before these have passed.
        """
        if tin < schedule.pins[query]:
            return start - schedule.phi[query]
        return tin - self.delays[query]

    def until(self, schedule: Schedule, query: str, tin: int, start: int) -> int:
        """The time up to which answers are given at tin, those that may be given early included.

        What rests on absence is given early only if no later fact can withdraw it.
        """
        until = tin if self.eager else tin - self.delays[query]
        final = self.final(schedule, query, tin, start)
        return int(min(until, max(final, last_safe(schedule.deps, query, tin))))

    def open(
        self, schedule: Schedule, finals: Mapping[str, int], low: int, tin: int, most: int
    ) -> list[Pending]:
        """What may still come from `low` to tin: anything, at the times that are not final.

        At most so many, the earliest first.
        """
        predicates = schedule.deps.core.predicates
        open_ = [zip(range(max(low, last + 1), tin + 1), repeat(q)) for q, last in finals.items()]
        return [
            Pending(
                query,
                (None,) * len(predicates[query].types),
                time,
                (),
                (),
                int(max(time + self.delays[query], schedule.pins[query])),
            )
            for time, query in islice(merge(*open_), most)
        ]


def last_safe(deps: Dependencies, query: str, tin: int) -> Bound:
    """The last time at which an answer that is derived at tin cannot be withdrawn any more.

    >>> from tidelog.analysis.dependencies import dependencies
    >>> from tidelog.language.checks import check
    >>> from tidelog.logic.normalise import core
    >>> program = check("Q @ T :- E @ T, not F @ T+1. P @ T :- E @ T.").program
    >>> deps = dependencies(core(program), ["P", "Q"])
    >>> last_safe(deps, "Q", 10), last_safe(deps, "P", 10)
    (9, inf)
    """
    last = -deps.psi[query] if math.isinf(deps.psi[query]) else tin - deps.psi[query]
    return last if deps.safe_at(query, -TIME_MAX) <= tin else -math.inf


def ticks_that_matter(deps: Dependencies, name: str, published: Range) -> Range:
    """Where one more fact of an input could change the answers of a query that are published.

    >>> from tidelog.analysis.dependencies import dependencies
    >>> from tidelog.language.checks import check
    >>> from tidelog.logic.normalise import core
    >>> program = check("P @ T :- F @ T, not E @ T-3.").program
    >>> ticks_that_matter(dependencies(core(program), ["P"]), "E", Range(0, 7))
    Range(low=-3, high=4)
    """
    if name not in deps.core.predicates:
        return EMPTY
    # Over a fixed tick, or without a time, a fact reaches answers at any time.
    if any(edge.offset is None and deps.phi[edge.body] > -math.inf for edge in deps.edges):
        return ALWAYS
    reach = deps.offsets[name]
    return Range(published.low + reach.low, published.high + reach.high)


@dataclass(frozen=True)
class Span:
    """Where a wave goes: begun before `start`, from tin up to `to`, answers at the times `asked`.

    With `ahead`, predicates are computed that much further, as if nothing more came; nothing of
    that is kept. `early` are the last final times of queries whose answers are given before that.
    With a `window`, input facts of so many ticks are all that is kept, and what is derived from
    them is derived anew; `since` is then the input time of the wave before.
    """

    start: int
    tin: int
    to: int
    asked: dict[str, Range]
    ahead: int = 0
    early: dict[str, int] = field(default_factory=dict)
    window: int | None = None
    since: int | None = None

    @staticmethod
    def settled(schedule: Schedule, start: int, tin: int, to: int, emit: Range) -> Span:
        """A span that answers what the wave settles, at the times in `emit`."""
        asked: dict[str, Range] = {}
        for query in schedule.deps.queries:
            if query in schedule.phi:
                low = schedule.frontier(query, tin, start) + 1
                high = schedule.frontier(query, to, start)
                asked[query] = Range(low, high) & emit if low <= high else EMPTY
        return Span(start, tin, to, asked)


@dataclass(frozen=True)
class Turn:
    """From one input time to another; `due` and `answered` say where the answers stand."""

    first: int  # no fact lies before this tick
    tin: int | None
    to: int
    low: int  # answers from this time on are wanted
    due: dict[str, int]
    answered: tuple[str, ...] = ()
    closed: bool = False
    ticking: int | None = None  # where clocks start, if that is settled in this turn


@dataclass(frozen=True)
class ShardReport:
    """What a shard says of a query: final before `due`; so many answers may still come."""

    query: str
    due: int | None  # None for a query without time
    open: int
    answered: bool = False


@dataclass(frozen=True)
class Clock:
    """Between two batches: plain data, written with every commit."""

    first: int | None = None  # the least tick seen
    seen: dict[str, int] = field(default_factory=dict)  # the greatest tick seen, by input
    tin: int | None = None  # everything up to here has arrived
    start: int | None = None  # the schedule began before this input time
    done: int | None = None  # waves have run up to this input time
    closed: bool = False
    due: dict[str, int] = field(default_factory=dict)  # online: final before this, by query
    answered: tuple[str, ...] = ()  # online: queries without time that are final
    told: dict[str, int] = field(default_factory=dict)  # the tick of the last heartbeat, by input
    idle: tuple[str, ...] = ()  # inputs that are silent and hold nothing back
    overtaken: dict[str, int] = field(default_factory=dict)  # how far time went on without them

    def after(
        self,
        first: int | None,
        seen: Mapping[str, int],
        pace: Pace,
        told: Mapping[str, int] = NOTHING,
        silent: Collection[str] = (),
        heard: Container[str] = (),
    ) -> Clock:
        """The clock once facts with these least and greatest ticks have arrived.

        `told` has the heartbeats that came with them; `silent` are the inputs that were idle before
        that, of which those that were `heard` are so no longer.
        """
        merged = _latest(self.seen, seen, pace.inputs)
        beats = _latest(self.told, told, pace.inputs)
        delivered = [pace.delivered(tick) for tick in told.values()]
        ticks = [tick for tick in (self.first, first, *delivered) if tick is not None]
        idle = tuple(sorted(name for name in silent if name not in heard))
        tins = [tin for tin in (self.tin, pace.tin(merged, beats, idle)) if tin is not None]
        tin = max(tins, default=None)
        without = {name: tin if name in idle else self.tin for name in silent}
        overtaken = {name: tick for name, tick in without.items() if tick is not None}
        return replace(
            self,
            first=min(ticks, default=None),
            seen=merged,
            tin=tin,
            told=beats,
            idle=idle,
            overtaken={**self.overtaken, **overtaken},
        )

    def close(self, lateness: int = 0) -> Clock:
        """No more input: everything up to the last tick seen has arrived."""
        ticks = [
            *self.seen.values(),
            *(Pace((), lateness).delivered(t) for t in self.told.values()),
        ]
        return replace(self, tin=max(ticks, default=None), closed=True)

    def wave(self, schedule: Schedule, pace: Pace, emission: Emission) -> tuple[Clock, Span | None]:
        """The wave that is due, and the clock after it."""
        if self.tin is None or self.first is None:
            return self, None
        start = schedule.first(self.first) if self.start is None else self.start
        done = start if self.done is None else self.done
        to = max(schedule.last(self.tin), done) if self.closed else self.tin
        if to <= done:
            return self, None
        low = pace.first_answer(self.first)
        emit = Range(low, self.tin) if low <= self.tin else EMPTY
        asked: dict[str, Range] = {}
        early: dict[str, int] = {}
        ahead = 0
        for query, delay in emission.delays.items():
            after = emission.final(schedule, query, done, start)
            until = emission.final(schedule, query, to, start)
            if emission.eager:
                early[query] = until
                until = self.tin if self.closed else emission.until(schedule, query, to, start)
            asked[query] = Range(after + 1, until) & emit if after < until else EMPTY
            ahead = max(ahead, schedule.phi[query] - (0 if emission.eager else delay))
        span = Span(start, done, to, asked, 0 if self.closed else ahead, early)
        if emission.window is not None:
            anew = schedule.first(max(self.first, done - emission.window + 1))
            since = None if self.done is None else done
            span = replace(span, start=anew, tin=anew, window=emission.window, since=since)
        return replace(self, start=start, done=to), span

    def turn(self, pace: Pace) -> tuple[Clock, Turn | None]:
        """The turn of an online stream that is due, and the clock after it."""
        if self.tin is None or self.first is None:
            return self, None
        if self.done is not None and self.tin <= self.done and not self.closed:
            return self, None
        first = min(self.first, self.tin + 1) if self.start is None else self.start
        low = pace.first_answer(self.first)
        to = self.tin if self.done is None else max(self.tin, self.done)
        ticking = self.ticking(self.done, to)
        answered = tuple(self.answered)
        turn = Turn(first, self.done, to, low, self.due, answered, self.closed, ticking)
        return replace(self, start=first, done=to), turn

    def ticking(self, done: int | None, to: int) -> int | None:
        """Where clocks start, if that is settled between two input times: at the least tick."""
        if self.first is None or self.first > to or (done is not None and self.first <= done):
            return None
        return self.first

    def reported(self, reports: Iterable[ShardReport]) -> Clock:
        """The clock once all shards have said what they wait for."""
        due: dict[str, int] = {}
        waiting: set[str] = set()
        reports = list(reports)
        for report in reports:
            if report.due is not None:
                due[report.query] = min(report.due, due.get(report.query, report.due))
            elif not report.answered:
                waiting.add(report.query)
        rigid = {report.query for report in reports if report.due is None} - waiting
        return replace(self, due=due, answered=tuple(sorted({*self.answered, *rigid})))

    def online_finals(self) -> dict[str, int]:
        """By query with a time, up to when it is answered by every shard."""
        return {query: due - 1 for query, due in self.due.items()}

    def finals(self, schedule: Schedule, emission: Emission) -> dict[str, int]:
        """By query with a time, up to when it is answered."""
        if self.done is None or self.start is None:
            return {}
        done, start = self.done, self.start
        return {q: emission.final(schedule, q, done, start) for q in emission.delays}

    def tout(self, finals: Mapping[str, int]) -> int | None:
        """Everything up to here is answered."""
        if self.tin is None or self.done is None:
            return None
        return self.tin if self.closed else min([*finals.values(), self.tin])

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def _latest(
    before: Mapping[str, int], new: Mapping[str, int], inputs: Iterable[str]
) -> dict[str, int]:
    """By input the later of two ticks, where there is one."""
    both = {name: [t[name] for t in (before, new) if name in t] for name in inputs}
    return {name: max(ticks) for name, ticks in both.items() if ticks}
