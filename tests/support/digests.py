"""Digests of answers: 2,000 programs, what they answered when recorded, and when it came.

The programs were drawn once and are kept as text, so that a change to the generators changes
nothing here. Answers may come at an earlier tick than recorded, never at a later one.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import tempfile
import warnings
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from oracle.generate import Case

import tidelog
from support.places import ROOT
from support.streams import arrivals, interrupted, rigid_facts, rows
from tidelog.errors import DataError, TidelogWarning
from tidelog.evaluation.engine import evaluate
from tidelog.evaluation.timeline import TooHard
from tidelog.streaming.schedule import Blocking
from tidelog.streaming.stream import Step, Stream

CORPUS = ROOT / "tests" / "digests" / "corpus.json.gz"
ANSWERS = ROOT / "tests" / "digests" / "answers.json.gz"
LATENESS = 1
QUERY, ON_SPARK = "query", "query on spark"
# The ways to stream a program, each with its options.
STREAMS: dict[str, dict[str, Any]] = {
    "offline": {},
    "eager": {"emit": "eager"},
    "strict": {"history": "strict"},
    "online": {"mode": "online"},
    "online eager": {"mode": "online", "emit": "eager"},
    "intervals": {"intervals": True},
}
SNAPSHOTS = {"offline snapshots": "offline", "online snapshots": "online"}
MODES = (QUERY, *STREAMS, *SNAPSHOTS)


class Recorded(NamedTuple):
    """A program of the corpus with its facts; a row ends with its tick, if it has one."""

    name: str
    text: str
    facts: dict[str, list[list[Any]]]
    queries: list[str]
    low: int
    high: int

    @property
    def case(self) -> Case:
        facts = {name: [tuple(row) for row in rows] for name, rows in self.facts.items()}
        program = tidelog.parse(self.text)
        return Case(self.text, program, facts, tuple(self.queries), self.low, self.high)


def read(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def write(path: Path, value: Any) -> None:
    """One value a line where it has several, compressed without a time."""
    path.write_bytes(gzip.compress(json.dumps(value).encode(), mtime=0))


def corpus() -> list[Recorded]:
    return [Recorded(*values) for values in read(CORPUS)]


def answers_of(recorded: Recorded, modes: tuple[str, ...] = MODES) -> dict[str, Any]:
    """By mode, the digest of the answers and the ticks at which they came."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TidelogWarning)
        case = recorded.case
        return {mode: _answers(case, mode) for mode in modes}


def _answers(case: Case, mode: str) -> Any:
    try:
        if mode in (QUERY, ON_SPARK):
            engine = "duckdb" if mode == QUERY else "spark"
            return [digest(finite_answers(case, engine)), []]
        came = streamed_answers(case, mode)
    except (ValueError, DataError, Blocking, TooHard) as error:
        return type(error).__name__
    answers = sorted(came, key=repr)
    return [digest(answers), runs([came[answer] for answer in answers])]


def finite_answers(case: Case, engine: str) -> list[tuple[Any, ...]]:
    """The answers of a query over all facts, each with the name of its query."""
    tables = evaluate(
        case.program,
        case.queries,
        case.facts,
        from_=case.low,
        to=case.high,
        engine=engine,
        budget=5.0,
    ).answers
    return sorted(((q, *row) for q, table in tables.items() for row in rows(table)), key=repr)


def streamed_answers(case: Case, mode: str) -> dict[tuple[Any, ...], int]:
    """The answers of a stream, each with the tick that brought it."""
    pushes = arrivals(case, LATENESS, Random(case.text))
    options = STREAMS[SNAPSHOTS.get(mode, mode)]

    def made() -> Stream:
        return Stream(
            case.program,
            case.queries,
            lateness=LATENESS,
            rigid=rigid_facts(case),
            budget=5.0,
            **options,
        )

    def steps() -> Iterator[Step]:
        if mode not in SNAPSHOTS:
            yield from made().run(pushes.items())
            return
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "snapshot"

            def again(stream: Stream) -> Stream:
                stream.snapshot(file, {})
                stream = made()
                stream.restore(file)
                return stream

            yield from interrupted(made(), pushes, again)

    came: dict[tuple[Any, ...], int] = {}
    ticks = [*pushes, max(pushes, default=0) + 1]
    for tick, step in zip(ticks, steps(), strict=True):
        for query, table in step.answers.items():
            for row in rows(table):
                assert (query, *row) not in came, "an answer came twice"
                came[query, *row] = tick
    return came


def digest(answers: list[tuple[Any, ...]]) -> str:
    text = "\n".join(map(repr, answers))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def runs(ticks: list[int]) -> list[list[int]]:
    """Equal numbers that follow one another, as a number and how often it comes."""
    return [[tick, len([*equal])] for tick, equal in groupby(ticks)]


def spread(pairs: list[list[int]]) -> list[int]:
    return [tick for tick, count in pairs for _ in range(count)]


def difference(recorded: Any, now: Any) -> str | None:
    """What has changed for the worse in one mode; None if nothing has."""
    if isinstance(recorded, str) or isinstance(now, str):
        if recorded == now or isinstance(recorded, str):
            return None if recorded == now or not isinstance(now, str) else f"{recorded} is {now}"
        return f"answered when recorded, and now {now}"
    if recorded[0] != now[0]:
        return "other answers"
    pairs = zip(spread(recorded[1]), spread(now[1]), strict=True)
    late = sum(now_at > then for then, now_at in pairs)
    return f"{late} answers come later" if late else None
