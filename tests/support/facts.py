"""Facts for tests of data: programs to ask, rows, and writers that are none of ours."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog
from tidelog.errors import DataError

DECLARED = (
    "input E(name: text, n: int, x: float, ok: bool) @ at. P(A, B, C, D) @ T :- E(A, B, C, D) @ T."
)
COLUMNS = ("name", "n", "x", "ok", "at")
ROWS = [
    ("a", 1, 0.5, True, 0),
    ("", -3, -1e300, False, -61),
    ("two\nlines", 2**63 - 1, 0.1, True, 60),
    ('say "hi", it\'s', -(2**63), 5e-324, False, 59),
    ("\u00fc \U0001f30a", 0, 2.0, True, -1),
    (" padded ", 7, math.inf, False, 7),
]


def ask(rules: str, facts: Any, **options: Any) -> list[tuple[Any, ...]]:
    table = tidelog.parse(rules).query("P", facts, **options)
    return list(zip(*(c.to_pylist() for c in table.columns), strict=True))


def in_order(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(set(rows), key=lambda row: (row[-1], row[:-1]))


def refused(rules: str, facts: Any, **options: Any) -> list[str]:
    with pytest.raises(DataError) as error:
        ask(rules, facts, **options)
    return list(error.value.problems)


def text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def write_csv(folder: Path, name: str, columns: Iterable[str], rows: Iterable[Any]) -> Path:
    path = folder / f"{name}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(columns)
        writer.writerows([text(v) for v in row] for row in rows)
    return path


def write_parquet(folder: Path, name: str, columns: Iterable[str], rows: Iterable[Any]) -> Path:
    path = folder / f"{name}.parquet"
    pq.write_table(arrow(columns, rows), path)
    return path


def write_json(folder: Path, name: str, columns: Iterable[str], rows: Iterable[Any]) -> Path:
    path = folder / f"{name}.jsonl"
    records = ({"predicate": name, **dict(zip(columns, row, strict=True))} for row in rows)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def arrow(columns: Iterable[str], rows: Iterable[Any]) -> pa.Table:
    arrays = [pa.array(values) for values in zip(*rows, strict=True)]
    return pa.table(arrays, names=list(columns))


WRITERS = (write_csv, write_parquet, write_json)
Writer = Callable[[Path, str, Iterable[str], Iterable[Any]], Path]
TYPED = "input E(n: int, x: float, ok: bool, s: text) @ at. P @ T :- E(_, _, _, _) @ T."
