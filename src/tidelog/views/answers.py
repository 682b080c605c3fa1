"""Answers as CSV, JSON lines, Parquet or a table for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.data.writers import as_text, csv_lines, json_lines
from tidelog.language.diagnostics import visible
from tidelog.views.terminal import plural, table

FORMATS = {"csv": ".csv", "json": ".jsonl", "parquet": ".parquet", "table": ".txt"}
# What the ending of a file says of its format.
ENDINGS = {".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}

# A table for people ends here; a file never does.
MOST_ROWS = 1000


def lines(predicate: str, answers: pa.Table, format_: str) -> Iterator[str]:
    """The answers of one query as lines of text."""
    match format_:
        case "csv":
            return csv_lines(answers)
        case "json":
            return json_lines(predicate, answers)
        case _:
            return iter(table_lines(predicate, answers))


def write(predicate: str, answers: pa.Table, format_: str, path: Path) -> None:
    """The answers of one query as a file."""
    if format_ == "parquet":
        pq.write_table(answers, path)
        return
    write_lines(path, lines(predicate, answers, format_))


def write_lines(path: Path, text: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(f"{line}\n" for line in text)


def table_lines(predicate: str, answers: pa.Table) -> list[str]:
    shown = answers.slice(0, MOST_ROWS)
    rows = [tuple(visible(name) for name in answers.column_names)]
    rows += [tuple(visible(as_text(v)) for v in row.values()) for row in shown.to_pylist()]
    out = [f"{predicate}: {plural(answers.num_rows, 'answer')}"]
    if answers.num_rows:
        out += ["  " + line for line in table(rows)]
    if answers.num_rows > MOST_ROWS:
        out.append(f"  ... and {answers.num_rows - MOST_ROWS} more: see them all with --out FILE")
    return out
