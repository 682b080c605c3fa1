"""Whether packing pays: a look at a few of the facts, before all of them are grouped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidelog.data.packed import CHUNK, chunk
from tidelog.data.ticks import EMPTY
from tidelog.evaluation.database import Database
from tidelog.evaluation.plan import Scan
from tidelog.evaluation.sql import Writer

# Facts a packed row must take for packing to pay, chunks of data that make it worth a look, and
# facts that are looked at first.
_DENSE = 1.25
_WORTH_A_LOOK = 12
_SAMPLE = 20_000


@dataclass(frozen=True)
class Density:
    """How dense the facts of inputs are that a connection has as a whole."""

    database: Database
    rows: Mapping[str, int]  # of each input, about

    def is_sparse(self, writer: Writer, scans: Sequence[Scan]) -> bool:
        """Whether packing would not pay: in a few chunks hardly a row takes two facts.

        Grouping then costs more than it saves; joins do not mind, and what they derive is merged.
        """
        name = scans[0].predicate.name
        range_ = writer.plan.ranges.get(name, EMPTY) & writer.plan.data.get(name, EMPTY)
        if range_.empty or range_.high - range_.low < _WORTH_A_LOOK * CHUNK:
            return False
        # The first facts that are read tell most: those of some ticks in data ordered by time,
        # the histories of some objects in data ordered by objects.
        facts, rows, keys, ticks = self.database.one(writer.first_facts(scans, _SAMPLE))
        if facts >= _DENSE * rows:
            return False
        from_any_time = 2 * ticks > range_.high - range_.low
        if from_any_time and facts**2 > 2 * (facts - keys + 1) * self.rows.get(name, 0):
            # From any time, and hardly an object twice: each has about one fact in all.
            return bool(facts)
        quarter = int(range_.high - range_.low) // 4
        chunks = [chunk(int(range_.low) + quarter * i) for i in (1, 2, 3)]
        facts, rows = self.database.one(writer.density(scans, chunks))
        return bool(0 < facts < _DENSE * rows)
