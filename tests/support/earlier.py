"""Streams that an earlier version began and this one goes on with.

`begin` runs a stream over its first facts and leaves it open; `go_on` resumes it with the rest and
closes it. Both use only what users use, so that any version can be asked to begin.
"""

from __future__ import annotations

import csv
import json
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from click.testing import CliRunner, Result

import tidelog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Value: TypeAlias = str | int | float | bool
Row: TypeAlias = tuple[Value, ...]
Facts: TypeAlias = dict[str, list[Row]]
Answers: TypeAlias = dict[str, list[Row]]
ANSWERS = "answers.json"  # what had been told when the stream was left


class CommandError(Exception):
    """What the command printed when it did not go on."""


@dataclass(frozen=True)
class Earlier:
    """A stream, and the last tick whose facts had arrived when the earlier version left it."""

    name: str
    rules: str
    columns: Mapping[str, tuple[str, ...]]
    rigid: Facts
    facts: Facts
    until: int
    options: Mapping[str, Any] = field(default_factory=dict)
    sink: str = "memory"  # of a stream on Spark; `csv` and `jsonl` are below the stream's folder

    @property
    def program(self) -> Any:
        return tidelog.parse(self.rules)

    def part(self, first: bool) -> Facts:
        """The facts that arrived before the stream was left, or those after."""
        return {
            name: [row for row in rows if (int(row[-1]) <= self.until) == first]
            for name, rows in self.facts.items()
        }


TURBINES = """
input Temp(device: text, level: text) @ time.
input Near(a: text, b: text).
output Malfunc, AtRisk.
Flag(X) @ T :- Temp(X, high) @ T.
Cool(X) @ T+1 :- Flag(X) @ T, Flag(X) @ T+1.
Shdn(X) @ T+1 :- Cool(X) @ T, Flag(X) @ T+1.
Malfunc(X) @ T-2 :- Shdn(X) @ T.
AtRisk(Y) @ T :- Shdn(X) @ T, Near(X, Y).
AtRisk(X) @ T+1 :- AtRisk(X) @ T.
"""
MALFUNC = TURBINES.replace("Malfunc, AtRisk.", "Malfunc.")
AT_RISK = TURBINES.replace("Malfunc, AtRisk.", "AtRisk.")
# The streak of `b` lies across the end of the first part, and that of `ü "c"` begins there.
_HIGH = {"a": (0, 1, 2, 7), "b": (2, 3, 5, 6, 7, 8), 'ü "c"': (4, 6, 7, 8, 9)}
_TURBINES: dict[str, Any] = {
    "columns": {"Temp": ("device", "level", "time"), "Near": ("a", "b")},
    "rigid": {"Near": [("a", "b"), ("b", 'ü "c"'), ('ü "c"', "a")]},
    "facts": {
        "Temp": [
            (device, "high" if tick in ticks else "low", tick)
            for tick in range(11)
            for device, ticks in _HIGH.items()
        ]
    },
    "until": 6,
}

# Every type, a join of two inputs over time, answers ahead of their premises, and a recursion.
TYPES = """
input Load(unit: text, amount: float, count: int) @ time.
input Switch(unit: text, on: bool) @ time.
output Peak, Tired.
Busy(U, N) @ T :- Load(U, A, N) @ T, A >= 2.5.
Peak(U, N) @ T :- Busy(U, N) @ T, Busy(U, M) @ T+2, N < M, Switch(U, true) @ T-1.
Tired(U) @ T+1 :- Busy(U, N) @ T, N > 3.
Tired(U) @ T+1 :- Tired(U) @ T, Switch(U, true) @ T.
"""
_TYPES: dict[str, Any] = {
    "columns": {"Load": ("unit", "amount", "count", "time"), "Switch": ("unit", "on", "time")},
    "rigid": {},
    "facts": {
        "Load": [
            (unit, float(tick * shift % 5), (tick * shift * 7) % 6, tick)
            for tick in range(-2, 12)
            for unit, shift in (("x", 1), ("y", 3))
        ],
        "Switch": [
            (unit, (tick + shift) % 4 != 0, tick)
            for tick in range(-2, 12)
            for unit, shift in (("x", 0), ("y", 2))
        ],
    },
    "until": 4,
}

LATE = """
input Alarm(x: text) @ time.
input Stop(x: text) @ time.
output Late.
Late(X) @ T :- Alarm(X) @ T.
Late(X) @ T :- Late(X) @ T+1, Stop(X) @ T.
"""
BLOCKING: dict[str, Any] = {
    "columns": {"Alarm": ("x", "time"), "Stop": ("x", "time")},
    "rigid": {},
    "facts": {
        "Alarm": [("a", 3), ("b", 9)],
        "Stop": [*(("a", t) for t in range(6)), *(("b", t) for t in (4, 5, 6, 7, 8))],
    },
    "until": 5,
}

# A recursion that has nothing to split on, and a predicate that has.
ALERT = """
input Alarm(x: text) @ time.
input Clear(x: text) @ time.
output Alert, Twice.
Alert @ T :- Alarm(X) @ T.
Alert @ T+1 :- Alert @ T, Clear("all") @ T-1.
Twice(X) @ T :- Alarm(X) @ T, Alarm(X) @ T-1, Alert @ T+1.
"""
_ALERT: dict[str, Any] = {
    "columns": {"Alarm": ("x", "time"), "Clear": ("x", "time")},
    "rigid": {},
    "facts": {
        "Alarm": [("a", 1), ("b", 4), ("b", 5), ("a", 8), ("a", 9), ("b", 12)],
        "Clear": [("all", t) for t in (1, 2, 4, 5, 6, 9, 10)],
    },
    "until": 5,
}

IN_PROCESS = [
    Earlier("offline", TURBINES, **_TURBINES),
    Earlier("offline_late", TYPES, **_TYPES, options={"lateness": 2, "max_jump": 1000}),
    Earlier("offline_strict", MALFUNC, **_TURBINES, options={"history": "strict"}),
    Earlier("online", TURBINES, **_TURBINES, options={"mode": "online"}),
    Earlier("online_eager", TYPES, **_TYPES, options={"mode": "online", "emit": "eager"}),
    Earlier("blocking", LATE, **BLOCKING, options={"mode": "online"}),
]
BY_COMMAND = [
    Earlier("command_offline", TURBINES, **_TURBINES),
    Earlier("command_online", TURBINES, **_TURBINES, options={"mode": "online"}),
]
ON_SPARK = [
    Earlier("spark_offline", MALFUNC, **_TURBINES, sink="csv"),
    Earlier("spark_exchange", AT_RISK, **_TURBINES, sink="jsonl", options={"lateness": 1}),
    Earlier("spark_strict", MALFUNC, **_TURBINES, options={"history": "strict"}),
    Earlier("spark_bare", ALERT, **_ALERT),
    Earlier("spark_online", TYPES, **_TYPES, options={"mode": "online", "lateness": 1}),
]


# In process


def _rows(tables: Mapping[str, Any]) -> Answers:
    return {q: [tuple(row.values()) for row in table.to_pylist()] for q, table in tables.items()}


def _push(stream: Any, facts: Facts) -> Answers:
    pushes: dict[int, Facts] = defaultdict(lambda: defaultdict(list))
    for name, rows in facts.items():
        for row in rows:
            pushes[int(row[-1])][name].append(row)
    answers: Answers = defaultdict(list)
    for tick in sorted(pushes):
        for query, rows in _rows(stream.push(tick, pushes[tick]).answers).items():
            answers[query] += rows
    return answers


def _stream(case: Earlier) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a blocking query keeps every fact
        return tidelog.Stream(case.program, rigid=case.rigid, **case.options)


def begin_in_process(case: Earlier, folder: Path) -> Answers:
    stream = _stream(case)
    answers = _push(stream, case.part(first=True))
    stream.snapshot(folder / "snapshot", {"mine": case.name})
    return answers


def go_on_in_process(case: Earlier, folder: Path) -> Answers:
    stream = _stream(case)
    assert stream.restore(folder / "snapshot") == {"mine": case.name}
    answers = _push(stream, case.part(first=False))
    for query, rows in _rows(stream.close().answers).items():
        answers[query] += rows
    return answers


# The command, which finds what it has read before, and reads on


def _command(case: Earlier, folder: Path, *more: str) -> Result:
    from tidelog.cli import cli

    words = ["run", "rules.tdl", "--engine", "duckdb", "--facts", "facts"]
    words += ["--checkpoint", "checkpoint", "--sink", "jsonl:told.jsonl", *more]
    words += [word for name, value in case.options.items() for word in (f"--{name}", str(value))]
    with chdir(folder):
        return CliRunner().invoke(cli, words, catch_exceptions=False)


def begin_by_command(case: Earlier, folder: Path) -> Answers:
    (folder / "rules.tdl").write_text(case.rules)
    write_facts(case, folder / "facts", case.rigid | case.part(first=True))
    result = _command(case, folder, "--keep-open")
    assert result.exit_code == 0, result.output
    return lines(folder / "told.jsonl")


def go_on_by_command(case: Earlier, folder: Path) -> Answers:
    write_facts(case, folder / "facts", case.rigid | case.facts)
    before = lines(folder / "told.jsonl")
    result = _command(case, folder, "--close")
    if result.exit_code:
        raise CommandError(result.stderr.removeprefix("error: ").strip())
    after = lines(folder / "told.jsonl")
    return {query: rows[len(before.get(query, [])) :] for query, rows in after.items()}


# Spark


def _on_spark(spark: SparkSession, case: Earlier, folder: Path) -> Any:
    from tidelog.spark import stream

    sinks = {"csv": f"csv:{folder / 'told'}", "jsonl": f"jsonl:{folder / 'told.jsonl'}"}
    return stream(
        spark,
        case.program,
        inputs=folder / "facts",
        sink=sinks.get(case.sink, case.sink),
        checkpoint=folder / "checkpoint",
        partitions=2,
        trigger={"availableNow": True},
        **case.options,
    )


def _told(case: Earlier, running: Any, folder: Path) -> Answers:
    match case.sink:
        case "csv":
            answers: Answers = defaultdict(list)
            for path in sorted((folder / "told").glob("*/batch=*/*.csv")):
                with path.open(encoding="utf-8", newline="") as file:
                    _, *rows = csv.reader(file)
                for row in rows:
                    answers[path.parts[-3]].append((*row[:-1], int(row[-1])))
            return answers
        case "jsonl":
            return lines(folder / "told.jsonl")
        case _:
            return _rows(running.answers)


def begin_on_spark(spark: SparkSession, case: Earlier, folder: Path) -> Answers:
    write_facts(case, folder / "facts", case.rigid | case.part(first=True), "1.csv")
    running = _on_spark(spark, case, folder)
    running.awaitTermination()
    running.stop()
    return _told(case, running, folder)


def go_on_on_spark(spark: SparkSession, case: Earlier, folder: Path) -> Answers:
    """The rest alone is in the folder now: Spark knows files that it has read by their place."""
    write_facts(case, folder / "facts", case.rigid | case.part(first=False), "2.csv")
    before = {} if case.sink == "memory" else _told(case, None, folder)
    running = _on_spark(spark, case, folder)
    running.awaitTermination()
    commit = running.close()
    assert (commit.totals["late"], commit.totals["dead"]) == (0, 0)
    after = _told(case, running, folder)
    for query, rows in before.items():
        for row in rows:
            after[query].remove(row)
    return after


# Files


def write_facts(case: Earlier, folder: Path, facts: Facts, file: str | None = None) -> None:
    """Facts as CSV: `P.csv`, or, for a stream of files, `P/FILE`."""
    for name, rows in facts.items():
        path = folder / f"{name}.csv"
        if file is not None and name in case.facts:
            path = folder / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out)
            writer.writerow(case.columns[name])
            writer.writerows([_text(value) for value in row] for row in rows)


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def lines(path: Path) -> Answers:
    answers: Answers = defaultdict(list)
    for line in path.read_text("utf-8").splitlines():
        value = json.loads(line)
        answers[value.pop("predicate")].append(tuple(value.values()))
    return answers


def write_answers(path: Path, answers: Answers) -> None:
    path.write_text(json.dumps({q: sorted(rows) for q, rows in answers.items()}) + "\n")


def read_answers(path: Path) -> Answers:
    return {q: [tuple(row) for row in rows] for q, rows in json.loads(path.read_text()).items()}


def together(*parts: Mapping[str, Iterable[Row]]) -> Answers:
    answers: Answers = defaultdict(list)
    for part in parts:
        for query, rows in part.items():
            answers[query] += rows
    return answers
