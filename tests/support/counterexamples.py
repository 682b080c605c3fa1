"""The folders of tests/cases/negation as data: rules, facts and expected answers, by name.

Each shows a trap of absence; `oracle/test_counterexamples.py` has them checked by both oracles.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from support.places import ROOT
from tidelog.language.checks import check
from tidelog.language.program import Constant, Program, TimePoint, Type, Value
from tidelog.language.types import infer

FOLDER = ROOT / "tests" / "cases" / "negation"
NAMES = tuple(sorted(path.name for path in FOLDER.iterdir()))
Row = tuple[Value, ...]


@dataclass(frozen=True)
class Counterexample:
    """A case; the answers are those between the first and the last tick of the data."""

    name: str
    text: str
    program: Program
    facts: dict[str, set[Row]]
    expected: dict[str, set[Row]]

    @property
    def ticks(self) -> tuple[int, int]:
        declared = self.program.declarations
        timed = [n for n in self.facts if declared[n].time is not None]
        ticks = [int(row[-1]) for name in timed for row in self.facts[name]]
        return min(ticks), max(ticks)


def counterexample(name: str) -> Counterexample:
    """A case by the name of its folder."""
    folder = FOLDER / name
    text = (folder / "rules.tdl").read_text("utf-8")
    program = check(text).accepted()
    facts: dict[str, set[Row]] = {name: set() for name in program.inputs}
    if (folder / "facts").exists():
        for path in (folder / "facts").glob("*.csv"):
            facts[path.stem] = _read(path, program)
    else:
        for rule in check((folder / "facts.tdl").read_text("utf-8")).program.rules:
            values = tuple(t.value for t in rule.head.args if isinstance(t, Constant))
            time = rule.head.time
            row = (*values, time.tick) if isinstance(time, TimePoint) else values
            facts[rule.head.predicate].add(row)
    expected = {path.stem: _read(path, program) for path in (folder / "expected").glob("*.csv")}
    return Counterexample(name, text, program, facts, expected)


def _read(path: Path, program: Program) -> set[Row]:
    """The rows of a file of facts or answers, which have text and integers only."""
    with path.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.reader(lines))[1:]
    types = infer(program).columns[path.stem]
    return {
        tuple(
            value if i < len(types) and types[i] in (Type.TEXT, None) else int(value)
            for i, value in enumerate(row)
        )
        for row in rows
    }
