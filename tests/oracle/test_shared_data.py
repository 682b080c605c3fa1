"""The naive evaluator against answers that were computed elsewhere, on real data."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from tidelog.language.checks import check
from tidelog.language.program import Program, Type, Value

from .naive import evaluate

# A stretch of ticks that has answers to every query and at whose start no recursion is under way.
STRETCHES = {"la_haute_borne": (45_000, 53_000), "nab": (0, 25_000)}
# No other rule looks further than this.
MARGIN = 10

_READ: dict[Type, Callable[[str], Value]] = {
    Type.TEXT: str,
    Type.INT: int,
    Type.FLOAT: float,
    Type.BOOL: "true".__eq__,
}


@pytest.mark.parametrize("name", STRETCHES)
def test_expected_answers(shared_data: Path, name: str) -> None:
    folder = shared_data / name
    program = check((folder / "rules.tdl").read_bytes()).accepted()
    first, last = STRETCHES[name]
    facts = {}
    for p in program.inputs:
        rows = read_facts(program, p, folder / "facts" / f"{p}.csv")
        rigid = not temporal(program, p)
        facts[p] = [row for row in rows if rigid or first <= int(row[-1]) <= last]
    low, high = first + MARGIN, last - MARGIN
    answers = evaluate(program, facts, program.outputs, low, high)
    for predicate in program.outputs:
        expected = read_answers(folder / "expected" / f"{predicate}.csv", low, high)
        assert expected, predicate
        assert answers[predicate] == expected, predicate


def temporal(program: Program, predicate: str) -> bool:
    return program.declarations[predicate].time is not None


def read_facts(program: Program, predicate: str, file: Path) -> list[tuple[Value, ...]]:
    columns = program.declarations[predicate].columns
    read = [_READ[column.type or Type.TEXT] for column in columns]
    if temporal(program, predicate):
        read.append(int)
    with file.open(newline="", encoding="utf-8") as lines:
        rows = csv.reader(lines)
        next(rows)
        return [tuple(f(v) for f, v in zip(read, row, strict=True)) for row in rows]


def read_answers(file: Path, low: int, high: int) -> set[tuple[Value, ...]]:
    """All columns of these answers are text, save the time."""
    with file.open(newline="", encoding="utf-8") as lines:
        rows = csv.reader(lines)
        next(rows)
        return {(*row[:-1], int(row[-1])) for row in rows if low <= int(row[-1]) <= high}
