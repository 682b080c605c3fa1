"""What holds until something stops it: last values, alarms until they are silenced.

`P(X..) @ T+1 :- P(X..) @ T, not Q(..) @ T+1` needs no join for every doubling. Within a chunk of 60
ticks one addition carries it on: the carry runs along the ticks that nothing stops. What reaches
the end of its chunk goes on up to the next chunk with a stop, which is looked up. So only those
words are joined again: one in a chunk, where values differ from tick to tick.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.data.packed import CHUNK, FULL, chunk, columns, mask_sql
from tidelog.evaluation.engine import SqlEngine
from tidelog.evaluation.extents import check_extent
from tidelog.evaluation.plan import Fill, Stop
from tidelog.evaluation.sql import Writer

_LAST = 1 << (CHUNK - 1)  # the bit of the last tick of a chunk


def can_carry(fill: Fill) -> bool:
    """Whether a fill goes from each tick to the next one, and only a presence can stop it."""
    return bool(fill.stops) and fill.guard is None and fill.step == 1


@dataclass
class Carrying:
    """Carries facts on; where the stops of a fill are is looked up once for all rounds."""

    engine: SqlEngine
    writer: Writer
    fill: Fill
    name: str  # what its tables are called, before a number
    shorter: str  # what to do where something would hold at too many ticks
    nexts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        predicate = self.writer.plan.deps.core.predicates[self.fill.predicate]
        self.names = columns(len(predicate.types))
        self.range = self.writer.plan.ranges[self.fill.predicate]

    def carried(self, table: str) -> str:
        """What is in a table, and where it leads to, as a table, whose name is returned."""
        if self.range.empty:
            return table
        if not self.nexts:
            self.nexts = [self._next(i, stop) for i, stop in enumerate(self.fill.stops)]
        within, out = f"{table}_within", f"{table}_out"
        self.engine.table(within, self._within(table))
        last = chunk(int(self.range.high))
        reaching = f"(b & {_LAST}) <> 0 AND c < {last}"
        self.engine.table(out, f"SELECT {self._list('c')} FROM {within} WHERE {reaching}")
        if not self.engine.rows_of(out):
            return within
        for i in range(len(self.nexts)):
            out = self._looked_up(out, i)
        self.engine.table(f"{table}_ends", self._ends(out, last + CHUNK))
        arrived = self._arrived(f"{table}_ends", f"{table}_far")
        self.engine.table(f"{table}_carried", self._together(within, arrived))
        return f"{table}_carried"

    def _list(self, *more: str, of: str = "") -> str:
        """The arguments, and more columns, of a table."""
        own = [f"{of}.{name} AS {name}" if of else name for name in self.names]
        return ", ".join([*own, *more])

    def _same(self, stop: Stop, one: str, other: str) -> str:
        """That a stop is about a fact."""
        own = zip(columns(len(stop.columns)), stop.columns, strict=True)
        return "".join(f"{one}.{name} = {other}.{self.names[i]} AND " for name, i in own)

    # Within a chunk

    def _next(self, number: int, stop: Stop) -> str:
        """Where a stop is, and beside each chunk the next one of the same arguments: its ticks
        before the stop.
        """
        stopping, table = f"{self.name}_stop{number}", f"{self.name}_next{number}"
        self.engine.table(stopping, self.writer.fill_stop(self.fill, stop))
        names = columns(len(stop.columns))
        by = f"PARTITION BY {', '.join(names)} " if names else ""
        after = f"OVER ({by}ORDER BY c)"
        self.engine.table(
            table,
            f"SELECT {', '.join([*names, 'c', 'b'])}, lead(c) {after} AS nc,"
            f" lead((b & -b) - 1) {after} AS nb FROM {stopping}",
        )
        return table

    def _within(self, table: str) -> str:
        """What holds in the chunks of a table, nothing being carried into them.

        Of the ticks p that nothing stops, those reached first are n. In p + n a carry runs from
        each of them through all that follow in p, and leaves zeros where it passes; at those of n
        that it meets it leaves a one.
        """
        stopped, joined = [], ""
        for i, (stop, there) in enumerate(zip(self.fill.stops, self.nexts, strict=True)):
            joined += f" LEFT JOIN {there} AS n{i} ON {self._same(stop, f'n{i}', 'x')}n{i}.c = x.c"
            stopped.append(f"coalesce(n{i}.b, CAST(0 AS BIGINT))")
        free = f"{FULL} & ~({' | '.join(stopped)})"
        own = self._list("x.c AS c", "x.b AS b", of="x")
        first = f"SELECT {own}, {free} AS p FROM {table} AS x{joined}"
        second = f"SELECT *, ((b & {FULL >> 1}) << 1) & p AS n FROM ({first}) AS y"
        mask = mask_sql(int(self.range.low), int(self.range.high))
        bits = f"(b | n | (p & ~(p + n))) & {mask}"
        return f"SELECT {self._list('c', f'{bits} AS b')} FROM ({second}) AS z"

    # From chunk to chunk

    def _looked_up(self, out: str, number: int) -> str:
        """Facts that leave their chunks, with the next chunk in which there is a stop, as `nc`, and
        its ticks before that, as `nb`; NULL if there is none.
        """
        stop, table = self.fill.stops[number], self.nexts[number]
        known, lost = f"{out}_known", f"{out}_lost"
        on = f"{self._same(stop, 'n', 'x')}n.c = x.c"
        next_stop = f"n.nc AS nc{number}, n.nb AS nb{number}"
        self.engine.table(
            known, f"SELECT x.*, {next_stop} FROM {out} AS x JOIN {table} AS n ON {on}"
        )
        if self.engine.rows_of(known) == self.engine.rows_of(out):
            return known
        # Where nothing stops in the chunk itself, the next stop is the nearest among those after.
        self.engine.table(lost, f"SELECT x.* FROM {out} AS x ANTI JOIN {table} AS n ON {on}")
        names = columns(len(stop.columns))
        own = [f"{self.names[i]} AS {name}" for name, i in zip(names, stop.columns, strict=True)]
        asked = f"SELECT DISTINCT {', '.join([*own, 'c'])} FROM {lost}"
        events = (
            f"SELECT *, CAST(NULL AS BIGINT) AS s FROM ({asked}) AS a"
            f" UNION ALL SELECT {', '.join([*names, 'c', 'c AS s'])} FROM {table}"
        )
        by = f"PARTITION BY {', '.join(names)} " if names else ""
        nearest = f"min(s) OVER ({by}ORDER BY c DESC ROWS UNBOUNDED PRECEDING)"
        then = f"SELECT {', '.join([*names, 'c'])}, {nearest} AS nc FROM ({events}) AS e"
        there = "".join(f"m.{name} = n.{name} AND " for name in names)
        self.engine.table(
            f"{out}_looked_up",
            f"SELECT * FROM {known} UNION ALL SELECT x.*, n.nc AS nc{number},"
            f" (m.b & -m.b) - 1 AS nb{number} FROM {lost} AS x JOIN ({then}) AS n ON {on}"
            f" LEFT JOIN {table} AS m ON {there}m.c = n.nc",
        )
        return f"{out}_looked_up"

    def _ends(self, out: str, beyond: int) -> str:
        """Facts that leave their chunks: where all stops are taken together, and the last chunk of
        the range is behind everything.
        """
        numbers = range(len(self.nexts))
        nearest = f"least({', '.join([*(f'nc{i}' for i in numbers), str(beyond)])})"
        cut = [f"CASE WHEN nc{i} = e THEN nb{i} ELSE {FULL} END" for i in numbers]
        inner = f"SELECT *, CAST({nearest} AS BIGINT) AS e FROM {out}"
        bits = " & ".join(f"({each})" for each in cut)
        return f"SELECT {self._list('c', 'e', f'{bits} AS b')} FROM ({inner}) AS y"

    def _arrived(self, ends: str, far: str) -> str:
        """A select of what is carried into other chunks."""
        last = mask_sql(int(self.range.low), int(self.range.high))
        beyond = chunk(int(self.range.high))
        cut = f"SELECT {self._list('e AS c', 'b')} FROM {ends} WHERE b <> 0 AND e <= {beyond}"
        cut = f"SELECT {self._list('c', f'b & {last} AS b')} FROM ({cut}) AS y"
        # Chunks that are passed as a whole: stretches of them, halved until each is one. A stretch
        # ends where the same fact leaves a later chunk, which has a stretch of its own.
        by = f"PARTITION BY {', '.join(self.names)} " if self.names else ""
        end = f"least(e, lead(c) OVER ({by}ORDER BY c) + {CHUNK}) AS e"
        passed = f"SELECT {self._list(f'c + {CHUNK} AS c', end)} FROM {ends}"
        self.engine.table(far, f"{passed} WHERE e > c + {CHUNK}")
        if not self.engine.rows_of(far):
            return cut
        self._check_size(far)
        half = f"((e - c) >> 1) - ((e - c) >> 1) % {CHUNK}"
        while self.engine.all(f"SELECT max(e - c) FROM {far}")[0][0] > CHUNK:
            long, short = f"e > c + {CHUNK}", f"e = c + {CHUNK}"
            self.engine.table(
                f"{far}_halved",
                f"SELECT {self._list('c', 'e')} FROM {far} WHERE {short} UNION ALL"
                f" SELECT {self._list('c', f'c + {half} AS e')} FROM {far} WHERE {long} UNION ALL"
                f" SELECT {self._list(f'c + {half} AS c', 'e')} FROM {far} WHERE {long}",
            )
            self.engine.table(far, f"SELECT * FROM {far}_halved")
        full = f"SELECT {self._list('c', f'{FULL} & {last} AS b')} FROM {far}"
        # Two words of one fact may lead to the same chunk, and the same stop.
        return (
            f"SELECT {self._list('c')}, bit_or(b) AS b FROM ({cut} UNION ALL {full}) AS u"
            f" GROUP BY {self._list('c')}"
        )

    def _check_size(self, far: str) -> None:
        """Refuse to write out the stretches of a table, if they are too long."""
        length = f"least(e, {int(self.range.high)}) - c"
        longest, in_all = self.engine.all(
            f"SELECT max({length}), sum(CAST({length} AS DOUBLE)) FROM {far}"
        )[0]
        check_extent(self.writer, self.fill, int(longest), int(in_all), self.shorter)

    def _together(self, within: str, arrived: str) -> str:
        """What holds in a chunk by itself, and what is carried into it."""
        own = [f"coalesce(x.{name}, y.{name}) AS {name}" for name in (*self.names, "c")]
        same = "".join(f"x.{name} = y.{name} AND " for name in self.names)
        zero = "CAST(0 AS BIGINT)"
        return (
            f"SELECT {', '.join(own)}, coalesce(x.b, {zero}) | coalesce(y.b, {zero}) AS b"
            f" FROM {within} AS x FULL OUTER JOIN ({arrived}) AS y ON {same}x.c = y.c"
        )
