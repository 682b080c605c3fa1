"""Predicates that depend on themselves: rounds on what is new, and fills in doubling steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tidelog.data.packed import CHUNK, columns
from tidelog.errors import DataError
from tidelog.evaluation.carrying import Carrying, can_carry
from tidelog.evaluation.engine import Feature, SqlEngine
from tidelog.evaluation.extents import MOST_ROWS, MOST_TICKS, TooLong, check_extent
from tidelog.evaluation.gathers import gathered
from tidelog.evaluation.plan import Derive, Fill, Fixpoint, Gather, Stop
from tidelog.evaluation.sql import Writer
from tidelog.logic.core import Predicate

# What to do when something would hold at more ticks than can be written out.
SHORTER = (
    "ask for a shorter range (--from, --to; from_, to in Python), or leave out facts that lie that"
    " far from the others"
)


def check_window(step: Derive, writer: Writer, shorter: str) -> None:
    """Refuse a window that would be written out on more ticks than can be."""
    clip = writer.clip(step.predicate) if step.over is not None else None
    if step.over is None or clip is None or clip.empty or step.over.least == step.over.ticks:
        return
    ticks = min(step.over.ticks, int(clip.high - clip.low))
    if ticks > MOST_TICKS:
        name = step.predicate.base
        raise TooLong(f"a window over `{name}` may hold at each of {ticks} ticks: {shorter}")


@dataclass(frozen=True)
class Stride:
    """So many ticks at once: where they may lead to (None: anywhere), and where they must not."""

    step: int
    guard: str | None
    stops: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recursion:
    """Iterates recursive components on an engine."""

    engine: SqlEngine
    progress: Callable[[str], None]
    shorter: str = SHORTER

    def run(self, step: Fixpoint, writer: Writer, given: Mapping[str, str] | None = None) -> None:
        """Make the tables of a component; `given` names tables of facts that hold already."""
        reason = self.engine.limits.get(Feature.RECURSION)
        if reason is not None:
            raise DataError(f"`{step.predicates[0].name}` is recursive: {reason}")
        if step.through_not or step.before:
            self._settle(step, writer, given or {})
        else:
            self._least(step, writer, given)

    def _settle(self, step: Fixpoint, writer: Writer, given: Mapping[str, str]) -> None:
        """The model of predicates that hang on the absence of earlier facts of one another, or on
        what these come to.

        Absence and aggregates are those of the facts of the last round. What hangs on none of these
        facts is right after the first round, what hangs on that after the next: each settles a
        layer more, and what stays as it is is the model (docs/evaluate.md).
        """
        table = self.engine.table
        predicates = dict(zip(step.tables, step.predicates, strict=True))
        for name, predicate in predicates.items():
            kept = writer.merged(predicate, given[name]) if name in given else None
            table(name, kept or writer.empty(predicate))
        writer.absent = {name: f"{name}_low" for name in step.asked_before}
        changed = True
        while changed:
            for made in step.before:
                self._make(made, writer, given)
            for name, low in writer.absent.items():
                table(low, f"SELECT * FROM {name}")
            self._least(step, writer, given)
            changed = any(
                self._differs(writer, predicates[name], name, *two)
                for name, low in writer.absent.items()
                for two in ((name, low), (low, name))
            )
        writer.absent = {}

    def _make(self, step: Gather | Derive, writer: Writer, given: Mapping[str, str]) -> None:
        """What the facts that are there now come to, with what is kept of earlier ticks."""
        if isinstance(step, Derive):
            check_window(step, writer, self.shorter)
            made = writer.derive(step)
        else:
            made = gathered(self.engine, step, writer)
        if step.table in given:
            names = ", ".join(writer.names(step.predicate))
            kept = f"SELECT {names} FROM {given[step.table]}"
            made = f"{kept} UNION ALL SELECT {names} FROM ({made}) AS m"
            writer.unmerged.add(step.table)
        self.engine.table(step.table, made)

    def _differs(
        self, writer: Writer, predicate: Predicate, name: str, one: str, other: str
    ) -> bool:
        """Whether one table of a predicate holds less than another."""
        self.engine.table(f"{name}_open", writer.news(predicate, one, other))
        return bool(self.engine.rows_of(f"{name}_open"))

    def _least(self, step: Fixpoint, writer: Writer, given: Mapping[str, str] | None) -> None:
        """What follows, absence being what the writer takes for it."""
        table = self.engine.table
        for i, (predicate, name) in enumerate(zip(step.predicates, step.tables, strict=True)):
            table(name, writer.start(step, i))
            if given and name in given:
                table(f"{name}_start", writer.merged(predicate, name, given[name]))
                table(name, f"SELECT * FROM {name}_start")
        if not step.fills and not step.repeat:
            return
        strides = {
            id(fill): _Strides(self.engine, fill, writer, i, self.shorter)
            for i, fill in enumerate(step.fills)
        }
        if len(step.tables) == 1 and len(step.fills) == 1 and not step.repeat:
            (name,), (fill,) = step.tables, step.fills
            carried = self._fill(fill, writer, name, f"{name}_fill", strides[id(fill)])
            if fill.filter is None and not given:
                table(name, f"SELECT * FROM {carried}")
            else:  # what was not carried on still holds
                table(name, writer.merged(step.predicates[0], name, carried))
            return
        for name in step.tables:
            table(f"{name}_new", f"SELECT * FROM {name}")
        rounds = 1
        while self._round(step, writer, strides, rounds):
            for predicate, name in zip(step.predicates, step.tables, strict=True):
                table(f"{name}_new", f"SELECT * FROM {name}_next")
                table(name, writer.merged(predicate, name, f"{name}_new"))
            rounds += 1

    def _round(
        self, step: Fixpoint, writer: Writer, strides: Mapping[int, _Strides], number: int
    ) -> bool:
        """What follows from what is new, as tables `_next`; whether there is anything."""
        self.progress(f"deriving {', '.join(p.name for p in step.predicates)}, round {number}")
        grew = False
        for i, (predicate, name) in enumerate(zip(step.predicates, step.tables, strict=True)):
            fills = [
                self._fill(fill, writer, f"{name}_new", f"{name}_fill{n}", strides[id(fill)])
                for n, fill in enumerate(step.fills)
                if fill.predicate == predicate.name
            ]
            candidates = writer.candidates(step, i, fills)
            if candidates is None:
                self.engine.table(f"{name}_next", f"SELECT * FROM {name} WHERE FALSE")
                continue
            self.engine.table(f"{name}_maybe", candidates)
            self.engine.table(f"{name}_next", writer.news(predicate, name, f"{name}_maybe"))
            grew = grew or bool(self.engine.rows_of(f"{name}_next"))
        return grew

    # Fills

    def _fill(self, fill: Fill, writer: Writer, source: str, table: str, strides: _Strides) -> str:
        """The facts of a source carried on, as a table, whose name is returned."""
        self.engine.table(table, writer.fill_start(fill, source))
        if fill.ever:
            self._check_size(fill, writer, table)
            self.engine.table(f"{table}_ever", writer.fill_ever(fill, table))
            return f"{table}_ever"
        if strides.carrying is not None:
            return strides.carrying.carried(table)
        predicate = writer.plan.deps.core.predicates[fill.predicate]
        for stride in strides:
            if fill.stops:
                arrived = writer.fill_arrived(fill, table, stride.guard, stride.stops, stride.step)
                self.engine.table(f"{table}_arrived", arrived)
                if not self.engine.rows_of(f"{table}_arrived"):
                    break  # what cannot be carried so far cannot be carried further
                if 2 * abs(stride.step) > MOST_TICKS:
                    check_extent(writer, fill, strides.width, 0, self.shorter)
                more = writer.merged(predicate, table, f"{table}_arrived")
            else:
                more = writer.fill_step(fill, table, stride.guard, stride.step)
            self.engine.table(f"{table}_more", more)
            rows = self.engine.rows_of(f"{table}_more")
            if rows > MOST_ROWS:
                check_extent(writer, fill, 0, rows * CHUNK, self.shorter)
            self.engine.table(table, f"SELECT * FROM {table}_more")
        return table

    def _check_size(self, fill: Fill, writer: Writer, table: str) -> None:
        """Refuse to write out what holds for ever from the facts of a table on, if it is too much.

        Facts are only looked at where there may be too many of them.
        """
        range_ = writer.plan.ranges[fill.predicate]
        if range_.empty:
            return
        ticks = int(range_.high - range_.low)
        in_all = 0
        if ticks <= MOST_TICKS and self.engine.rows_of(table) * ticks > MOST_ROWS * CHUNK:
            names = columns(len(writer.plan.deps.core.predicates[fill.predicate].types))
            first = f"{int(range_.high)} - min(c)" if fill.step > 0 else f"max(c) - {range_.low}"
            by = f" GROUP BY {', '.join(names)}" if names else ""
            each = f"SELECT CAST({first} AS DOUBLE) AS n FROM {table}{by}"
            in_all = int(self.engine.all(f"SELECT coalesce(sum(n), 0) FROM ({each}) AS f")[0][0])
        check_extent(writer, fill, ticks, in_all, self.shorter)


class _Strides:
    """The strides of a fill, which double, as far as anything can be carried.

    Their tables are made when they are first asked for, and kept for later rounds.
    """

    def __init__(
        self, engine: SqlEngine, fill: Fill, writer: Writer, number: int, shorter: str
    ) -> None:
        self.engine, self.fill, self.writer = engine, fill, writer
        self.name = f"{writer.plan.tables[fill.predicate]}_%s{number}_"
        range_ = writer.plan.ranges[fill.predicate]
        self.width = 0 if range_.empty else int(range_.high - range_.low)
        self.made: list[Stride] = []
        self.ended = fill.ever
        self.carrying = (
            Carrying(engine, writer, fill, self.name % "carry", shorter)
            if can_carry(fill)
            else None
        )

    def __iter__(self) -> Iterator[Stride]:
        number = 0
        while number < len(self.made) or self._another():
            yield self.made[number]
            number += 1

    def _another(self) -> bool:
        """Make the next stride; False when none is needed."""
        last = self.made[-1] if self.made else None
        step = self.fill.step if last is None else 2 * last.step
        self.ended = self.ended or abs(step) > self.width
        if self.ended:
            return False
        guard = self._guard(last)
        if guard is not None and not self.engine.rows_of(guard):
            self.ended = True
            return False
        stops = tuple(self._stop(i, stop, last) for i, stop in enumerate(self.fill.stops))
        self.made.append(Stride(step, guard, stops))
        return True

    def _guard(self, last: Stride | None) -> str | None:
        if self.fill.guard is None:
            return None
        name = f"{self.name % 'guard'}{len(self.made)}"
        if last is None:
            self.engine.table(name, self.writer.fill_guard(self.fill))
        else:
            assert last.guard is not None, "a guard goes on being one"
            self.engine.table(name, self.writer.fill_guard_twice(self.fill, last.guard, last.step))
        return name

    def _stop(self, number: int, stop: Stop, last: Stride | None) -> str:
        name = f"{self.name % f'stop{number}_'}{len(self.made)}"
        if last is None:
            self.engine.table(name, self.writer.fill_stop(self.fill, stop))
        else:
            twice = self.writer.fill_stop_twice(self.fill, stop, last.stops[number], last.step)
            self.engine.table(name, twice)
        return name
