"""Tidelog: a stream reasoner for temporal Datalog.

>>> import tidelog
>>> program = tidelog.parse("Hot(X) @ T :- Temp(X, high) @ T, Temp(X, high) @ T+1.")
>>> program.outputs
('Hot',)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.language import program as _program
from tidelog.language.checks import Report, check
from tidelog.language.diagnostics import Code, Diagnostic, ProgramError, Severity

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.evaluation.facts import FactsLike

__version__ = "0.1.0"

__all__ = [
    "Code",
    "Diagnostic",
    "Program",
    "ProgramError",
    "Report",
    "Severity",
    "check",
    "load",
    "parse",
]


@dataclass(frozen=True)
class Program(_program.Program):
    """A checked program, and what can be asked of it."""

    def query(
        self,
        query: str,
        facts: FactsLike = None,
        *,
        from_: int | str | datetime | None = None,
        to: int | str | datetime | None = None,
        engine: str = "duckdb",
        tick: str | None = None,
        origin: str | datetime | None = None,
    ) -> pa.Table:
        """The answers of a predicate over finite facts, as an Arrow table by time and arguments.

        Facts are a path (a folder, or a .csv, .parquet, .jsonl or .tdl file) or a mapping from
        inputs to rows: tuples, an Arrow table or a data frame. Answers cover the ticks `from_` to
        `to`, by default the first to the last tick of the data. With `tick="10m"` times are
        timestamps, and tick 0 starts at `origin` (by default 1970-01-01T00:00Z).

        >>> import tidelog
        >>> program = tidelog.parse("Hot(X) @ T+1 :- Temp(X, high) @ T, Temp(X, high) @ T+1.")
        >>> facts = {"Temp": [("a", "high", 0), ("a", "high", 1), ("b", "high", 1)]}
        >>> program.query("Hot", facts).to_pylist()
        [{'x': 'a', 'time': 1}]
        """
        from tidelog.evaluation.engines import evaluate
        from tidelog.evaluation.ticks import Ticks

        ticks = None if tick is None else Ticks.of(tick, origin)
        found = evaluate(self, [query], facts, from_=from_, to=to, engine=engine, ticks=ticks)
        return found.answers[query]


def parse(text: str, file: str = "<text>") -> Program:
    """The program of a text; ProgramError carries every diagnostic when the rules are wrong."""
    return Program(check(text, file).accepted().statements)


def load(path: str | PathLike[str]) -> Program:
    """The program of a rules file; ProgramError carries every diagnostic when it is wrong."""
    return Program(check(Path(path).read_bytes(), str(path)).accepted().statements)
