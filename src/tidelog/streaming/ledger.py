"""The ledger of a stream: what became of every row that came in.

Rows are counted where they are read, and apart from that by what became of them. The two agree, or
a row was lost or counted twice: then nothing is committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from tidelog.causes import Cause
from tidelog.errors import DataError


@dataclass(frozen=True)
class Ledger:
    """Rows that came in, and what became of them.

    >>> Ledger(rows=5, facts=3, late=1, dead=1).difference
    0
    >>> str(Ledger(rows=5, facts=3, late=1))
    '5 rows in: 3 facts, 1 late, 0 dead, 0 skipped, 0 heartbeats; 1 row more than that'
    """

    rows: int = 0
    facts: int = 0  # usable rows; equal ones count each, although they are one fact
    late: int = 0
    dead: int = 0  # unreadable, or too far ahead
    skipped: int = 0  # rows, messages or files that an operator has put aside
    heartbeats: int = 0  # rows that say only how far time is

    @staticmethod
    def of(value: Mapping[str, Any]) -> Ledger:
        """A ledger as JSON has it."""
        return Ledger(**{one.name: int(value.get(one.name, 0)) for one in fields(Ledger)})

    def as_json(self) -> dict[str, int]:
        return asdict(self)

    def __add__(self, other: Ledger) -> Ledger:
        more = asdict(other)
        return Ledger(**{name: n + more[name] for name, n in asdict(self).items()})

    @property
    def difference(self) -> int:
        """Rows that nothing became of; below zero, rows that were counted twice."""
        parts = self.facts + self.late + self.dead + self.skipped + self.heartbeats
        return self.rows - parts

    def __str__(self) -> str:
        many = "row" if self.rows == 1 else "rows"
        said = (
            f"{self.rows} {many} in: {self.facts} facts, {self.late} late, {self.dead} dead,"
            f" {self.skipped} skipped, {self.heartbeats} heartbeats"
        )
        if not self.difference:
            return said
        off = abs(self.difference)
        which = "more" if self.difference > 0 else "fewer"
        return f"{said}; {off} {'row' if off == 1 else 'rows'} {which} than that"


def expect_balance(ledger: Ledger, letters: int, what: str) -> None:
    """DataError for a batch in which a row has no place, or one that is not a fact no dead letter.

    >>> expect_balance(Ledger(rows=2, facts=1, dead=1), 1, "batch 7")
    >>> expect_balance(Ledger(rows=2, facts=1), 0, "batch 7")
    Traceback (most recent call last):
    tidelog.errors.DataError: batch 7 is not committed: its ledger does not balance (2 rows in: \
1 facts, 0 late, 0 dead, 0 skipped, 0 heartbeats; 1 row more than that). The files may have \
changed while they were read: start again; if it says so again, report it
    """
    unused = ledger.late + ledger.dead + ledger.skipped
    if not ledger.difference and letters == unused:
        return
    said = str(ledger)
    if not ledger.difference:
        said = f"{said}; {letters} dead letters for {unused} rows that are not facts"
    raise DataError(
        f"{what} is not committed: its ledger does not balance ({said}). The files may have changed"
        " while they were read: start again; if it says so again, report it",
        code=Cause.UNBALANCED,
    )
