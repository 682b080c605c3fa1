"""A stream without Spark: the real batch loop, plan, clock and state over a small program."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

import pyarrow as pa

import tidelog
from tidelog.data.bounds import reason_text
from tidelog.data.letters import SHOWN, DeadLetter, excerpt, or_skip, reason_to_skip
from tidelog.data.packed import chunk
from tidelog.data.readers.json import (
    is_heartbeat,
    line_as_json,
    parse_line,
    predicate_of,
    tick_value,
    typed_values,
)
from tidelog.errors import DataError
from tidelog.evaluation.rows import Relation
from tidelog.pipeline.commit import Checkpoint, Commit, StatePart
from tidelog.pipeline.handover import MARGIN, Live
from tidelog.pipeline.local_store import LocalStore
from tidelog.pipeline.loop import Pipeline
from tidelog.pipeline.modes import Derived, OfflineMode
from tidelog.pipeline.places import Arrived, Count, WrittenLetters
from tidelog.pipeline.plan import OfflineWork, PipelinePlan, pipeline_plan
from tidelog.pipeline.state import StateFiles
from tidelog.pipeline.stretches import Stretches
from tidelog.streaming.clock import Clock, Horizon, Span, first_in_time, late_reason
from tidelog.streaming.options import StreamOptions
from tidelog.streaming.silence import Silence
from tidelog.streaming.sinks.sink import FileStore, Sink
from tidelog.streaming.stretches import OpenStretches

TOPIC = "live"  # what a stream goes on with after a history
TICK = MARGIN  # milliseconds of a tick, where its length matters
Facts = Mapping[str, set[tuple[str, int]]]
Answers = set[tuple[str, int]]


@dataclass(frozen=True)
class Example:
    """A program with its answers by definition."""

    rules: str
    answers: Mapping[str, Callable[[Facts], Answers]]

    @property
    def queries(self) -> tuple[str, ...]:
        return tuple(self.answers)


E, F = "input E(x: text) @ time. ", "input F(x: text) @ time. "
EXAMPLES = [
    Example(f"{E}P(X) @ T :- E(X) @ T.", {"P": lambda f: set(f["E"])}),
    Example(
        f"{E}P(X) @ T :- E(X) @ T, E(Y) @ T+2, not E(X) @ T+1.",
        {
            "P": lambda f: {
                (x, t)
                for x, t in f["E"]
                if any(s == t + 2 for _, s in f["E"]) and (x, t + 1) not in f["E"]
            }
        },
    ),
    Example(
        f"{E}{F}P(X) @ T :- E(X) @ T, not F(X) @ T-1. Q(X) @ T :- F(X) @ T.",
        {
            "P": lambda f: {(x, t) for x, t in f["E"] if (x, t - 1) not in f["F"]},
            "Q": lambda f: set(f["F"]),
        },
    ),
    Example(f"{E}P(X) @ T :- E(X) @ T-1.", {"P": lambda f: {(x, t + 1) for x, t in f["E"]}}),
]


@dataclass(frozen=True)
class Choice:
    """A program by its number, and options that a stream of it is started with."""

    number: int
    lateness: int = 0
    idle: float = 0.0
    intervals: bool = False


@lru_cache(maxsize=64)
def plan_of(choice: Choice) -> PipelinePlan:
    example, idle = EXAMPLES[choice.number], choice.idle
    options = StreamOptions.of(
        None,
        None,
        choice.lateness,
        idle=f"{idle:.0f}s" if idle else None,
        heartbeats=True,
        intervals=choice.intervals,
    )
    return pipeline_plan(tidelog.parse(example.rules), example.queries, options)


@lru_cache(maxsize=1_000)
def identity_of(choice: Choice, sink: str) -> dict[str, Any]:
    return plan_of(choice).identity(sink)


@dataclass(frozen=True)
class Row:
    """A row that was read: a fact, a heartbeat, or neither."""

    predicate: str | None
    values: tuple[Any, ...]  # with the tick; of a heartbeat the tick alone
    problem: str | None
    came: str


@lru_cache(maxsize=100_000)
def read(message: bytes, number: int) -> Row:
    """A message as the readers of the product read it."""
    inputs = plan_of(Choice(number)).inputs
    try:
        record = parse_line(message)
        if is_heartbeat(record, None):
            return Row(None, (tick_value(record["time"], "time", None),), None, "")
        name = predicate_of(record)
        if name not in inputs:
            raise ValueError("no input is called so")
        return Row(name, typed_values(record, inputs[name], None), None, line_as_json(message))
    except ValueError as error:
        return Row(None, (), reason_text(error), line_as_json(message))


@dataclass(frozen=True)
class Unit:
    """A file or a message: what is skipped as a whole."""

    place: str  # as `--skip` names it
    input: str | None  # that it is of, where its place says so
    rows: tuple[tuple[str, bytes], ...]  # with the place of each

    @property
    def data(self) -> bytes:
        return b"\n".join(message for _, message in self.rows)


@dataclass(frozen=True)
class Batch:
    """The units that Spark gives to a batch."""

    units: tuple[Unit, ...] = ()
    skip: frozenset[str] = frozenset()
    unreadable: frozenset[str] = frozenset()
    known: int | None = None  # facts up to this tick are left out
    number: int = 0  # of the example

    @property
    def skipped(self) -> list[Unit]:
        return [unit for unit in self.units if unit.place in self.skip]

    @property
    def rows(self) -> list[tuple[str, bytes]]:
        """The rows of all other units; DataError for a file that cannot be read."""
        rows: list[tuple[str, bytes]] = []
        for unit in self.units:
            if unit.place in self.skip:
                continue
            if unit.place in self.unreadable:
                way_on = f"repair it, or {or_skip(unit.place)}"
                raise DataError(f"{unit.place}: the file cannot be read; {way_on}")
            rows += unit.rows
        return [row for row in rows if not self._is_known(row[1])]

    def _is_known(self, message: bytes) -> bool:
        row = read(message, self.number)
        return self.known is not None and row.problem is None and row.values[-1] <= self.known


@dataclass(frozen=True)
class Text:
    """Answers as lines of JSON."""

    query: str
    rows: Sequence[tuple[Any, ...]]
    names: tuple[str, ...] = ("x", "time")

    def table(self) -> pa.Table:
        columns = zip(*sorted(self.rows), strict=True)
        return pa.table(dict(zip(self.names, map(list, columns), strict=True)))

    def frame(self) -> Any:
        raise NotImplementedError

    def save(self, format_: str, store: FileStore, place: tuple[str, ...]) -> None:
        lines = [json.dumps(dict(zip(self.names, row, strict=True))) for row in sorted(self.rows)]
        data = "".join(f"{line}\n" for line in lines).encode()
        store.write(data, *place, f"part-00000.{format_}")


class Site:
    """Where a batch is done: in lists and sets."""

    def __init__(self, sites: Sites, batch: Batch | None) -> None:
        self.sites, self.batch = sites, batch or Batch()
        self.counts: dict[int, Count] = {}
        self.facts: dict[str, Answers] = {name: set() for name in sites.plan.inputs}
        self.letters: list[DeadLetter] = []
        self.derived: dict[int, list[tuple[str, int]]] = {}

    def take_in(self, before: Clock, horizon: Horizon | None = None) -> Arrived:
        rows, skipped = self.batch.rows, self.batch.skipped
        arrived = Arrived(rows=len(rows) + len(skipped))
        by_input: dict[str, list[int]] = {}
        late: dict[str, list[int]] = {}
        dead = 0
        for place, message in rows:
            row = read(message, self.sites.number)
            if row.problem is not None:
                self.letters.append(DeadLetter(None, row.problem, place, row.came))
                dead += 1
            elif row.predicate is None:
                arrived.heartbeats += 1
                for name in self.facts:
                    arrived.heard.add(name)
                    arrived.told[name] = max(row.values[0], arrived.told.get(name, row.values[0]))
            elif row.values[-1] < first_in_time(before.tin):
                reason = late_reason(row.values[-1], before.tin, None)
                self.letters.append(DeadLetter(row.predicate, reason, place, row.came))
                late.setdefault(row.predicate, []).append(row.values[-1])
            else:
                by_input.setdefault(row.predicate, []).append(row.values[-1])
                self.facts[row.predicate].add(cast("tuple[str, int]", row.values))
        for name in sorted({*by_input, *late}):
            ticks, missed = by_input.get(name, []), late.get(name, [])
            first, last = min(ticks, default=None), max(ticks, default=None)
            latest = max(missed, default=None)
            arrived.add(name, len(ticks), len(missed), 0, first, last, None, latest, None)
        if dead:
            arrived.add("", 0, 0, dead, None, None, None, None, None)
        for unit in skipped:
            self.letters.append(DeadLetter(unit.input, reason_to_skip(unit.data), unit.place, None))
            arrived.add(unit.input or "", 0, 0, 1, None, None, None, None, None)
        arrived.skip(Counter(unit.input or "" for unit in skipped))
        return arrived

    def answers(self, query: str, relation: Relation) -> Text:
        return Text(query, self.derived[relation.number])

    def keep(self, tabs: list[int], place: tuple[str, ...]) -> None:
        tables = {str(tab): sorted(self.derived[tab]) for tab in tabs}
        store = self.sites.checkpoint.store
        store.write(json.dumps(tables).encode(), *place, "part-00000.parquet")

    def dead_letters(self, place: tuple[str, ...]) -> WrittenLetters:
        data = b"".join(letter.line() for letter in self.letters)
        self.sites.checkpoint.store.write(data, *place, "part-00000.json")
        first = [excerpt(letter.as_json()) for letter in self.letters[:SHOWN]]
        return WrittenLetters(len(self.letters), first)

    def release(self) -> None:
        return


@dataclass
class BatchIntervals:
    """The intervals of a batch, in lists."""

    counts: dict[int, int]
    ended: dict[int, list[tuple[Any, ...]]]
    open: dict[int, list[list[Any]]]
    store: FileStore

    def answers(self, query: str, relation: Relation) -> Text:
        return Text(query, self.ended[relation.number], ("x", "from", "to"))

    def save(self, place: tuple[str, ...]) -> None:
        if any(self.open.values()):
            self.store.write(json.dumps(self.open).encode(), *place, "part-00000.parquet")


class Intervals(Stretches):
    """Keeps intervals between batches as the stream in process does, in the folders of Spark's."""

    def after(self, place: Any, parts: Iterable[StatePart], final: Mapping[str, int]) -> Any:
        kept: dict[str, list[Any]] = {}
        for part in parts:
            for file, _, _ in part.files:
                kept = json.loads(self.store.read("state", part.folder, file))
        made = BatchIntervals({}, {}, {}, self.store)
        for query, relation in self.relations.items():
            open_ = OpenStretches(eager=False)
            open_.resume(kept.get(str(relation.number), ()))
            some = open_.after(place.derived.get(relation.number, ()), final[query])
            made.ended[relation.number], made.counts[relation.number] = some, len(some)
            made.open[relation.number] = open_.state()
        return made


@dataclass
class Sites:
    """One site, which does it all."""

    number: int  # of the example
    plan: PipelinePlan
    checkpoint: Checkpoint

    def site(self, rows: Any, number: int) -> Any:
        return Site(self, rows)

    def exceeds(self, place: Any, step: Span, parts: tuple[StatePart, ...]) -> bool:
        return False

    def executors(self, rows: Any) -> Any:
        raise NotImplementedError

    def advance(
        self, place: Any, step: Span | None, clock: Clock, parts: tuple[StatePart, ...]
    ) -> Derived:
        site, store, layout = cast("Site", place), self.checkpoint.store, self.plan.rows
        inputs = {tab: name for tab, (name, kind) in layout.places.items() if kind == "input"}
        for tab, name in inputs.items():
            if site.facts[name]:
                site.derived[tab] = list(site.facts[name])
        facts = {name: set(rows) for name, rows in site.facts.items()}
        if step is not None:
            for part in parts:
                for file, _, _ in part.files:
                    for tab, rows in json.loads(store.read("state", part.folder, file)).items():
                        facts[inputs[int(tab)]] |= {(x, t) for x, t in rows}
            for query, relation in layout.answers.items():
                asked = step.asked[query]
                if not asked.empty:
                    rows = EXAMPLES[self.number].answers[query](facts)
                    due = [(x, t) for x, t in rows if asked.low <= t <= asked.high]
                    if due:
                        site.derived[relation.number] = due
        for tab, some in site.derived.items():
            ticks = [chunk(t) for _, t in some]
            site.counts[tab] = Count(len(some), min(ticks), max(ticks), len(some))
        return Derived(clock)

    def local(self, table: Any) -> Any:
        raise NotImplementedError

    def read_back(self, number: int, answers: Any) -> Any:
        return answers

    def close(self) -> None:
        return


def pipeline_of(
    number: int,
    plan: PipelinePlan,
    point: Checkpoint,
    sink: Sink,
    told: Callable[[Commit], None],
    now: Callable[[], float],
    skip: Iterable[str] = (),
) -> Pipeline[Span]:
    """The real loop around the site."""
    work, inputs = plan.work, cast("Any", None)
    assert isinstance(work, OfflineWork)
    state = StateFiles(point.store, plan.rows)
    mode = OfflineMode(work, plan.pace, inputs, state, cast("Any", None), {})
    sites = cast("Any", Sites(number, plan, point))
    silence = Silence(plan.options.silence_limits(plan.pace.held), now)
    rest: Any = {"lenient": True, "limits_of_work": {"skip": sorted(skip)}}
    stream = Pipeline(plan, mode, sites, state, point, sink, {}, told, silence, **rest)
    stream.stretches = Intervals(plan, point.store)
    return stream


@dataclass(frozen=True)
class ModelBrokers:
    """Brokers of a topic with one partition, by the times of its messages in milliseconds."""

    first: int  # messages before it were deleted
    times: Sequence[int]

    def __enter__(self) -> ModelBrokers:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def offsets(self, since: int | None = None) -> dict[str, dict[int, int]]:
        ends = [n for n, time in enumerate(self.times) if since is None or time >= since]
        return {TOPIC: {0: next((n for n in ends if n >= self.first), len(self.times))}}


def live_of(
    plan: PipelinePlan, point: Checkpoint, brokers: ModelBrokers, kafka: Mapping[str, str]
) -> Live:
    """The real hand-over from a history; a tick is as long as clocks may differ."""
    options = replace(plan.options, tick=f"{TICK // 1000}s")
    topics = cast("Any", [TOPIC])
    return Live(
        cast("Any", None),
        replace(plan, options=options),
        point,
        topics,
        kafka,
        (),
        lambda *_: brokers,
    )


def store_of(machine: Any, folder: str) -> LocalStore:
    return LocalStore(folder, machine=machine)
