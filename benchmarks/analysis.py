"""The four problems at size: many rules, exponentially many conjunctive queries, many objects."""

from __future__ import annotations

import tempfile
from pathlib import Path

import duckdb

import tidelog
from benchmarks.harness import Result, best_of, print_table
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.live_facts import LiveFacts
from tidelog.evaluation.open_answers import OpenAnswers


def layered(rules: int) -> str:
    """A plant: readings, thresholds, trends, alarms per unit, incidents that draw on several."""
    lines = [
        "input Reading(unit: text, sensor: text, value: float) @ time.",
        "input Near(a: text, b: text).",
    ]
    units = rules // 6
    for i in range(units):
        below = f", Alarm{i - 1}(X) @ T-1" if i % 5 else ""
        lines += [
            f"High{i}(X) @ T :- Reading(X, s{i}, V) @ T, V >= {40 + i % 50}.",
            f"Rising{i}(X) @ T+1 :- High{i}(X) @ T, High{i}(X) @ T+1.",
            f"Alarm{i}(X) @ T+2 :- Rising{i}(X) @ T+1, High{i}(X) @ T+2.",
            f"Alarm{i}(X) @ T :- Reading(X, s{i}, V) @ T, V >= 99{below}.",
            f"Spread{i}(Y) @ T :- Alarm{i}(X) @ T, Near(X, Y), High{i}(Y) @ T+1.",
            f"Incident{i}(X) @ T-1 :- Spread{i}(X) @ T, Rising{i}(X) @ T+1.",
        ]
    lines.append(f"output {', '.join(f'Incident{i}' for i in range(0, units, 10))}.")
    return "\n".join(lines)


def choices(n: int, *, redundant: bool) -> str:
    """A query whose unfolding has 2^n conjunctive queries."""
    lines = [f"Q @ T :- {', '.join(f'A{i} @ T' for i in range(n))}."]
    for i in range(n):
        lines.append(f"A{i} @ T :- E{i} @ T.")
        body = f"E{i} @ T, F{i} @ T+2" if redundant else f"F{i} @ T+2"
        lines.append(f"A{i} @ T :- {body}.")
    return "\n".join(lines)


def history(folder: Path, objects: int) -> None:
    """Events of three arguments, each object seen at a few of 30 ticks."""
    duckdb.sql(
        f"""COPY (SELECT 'object-' || d AS a, 'kind-' || d % 50 AS b, 'site-' || d % 997 AS c,
        t AS time
        FROM range({objects}) AS o(d), range(30) AS n(t) WHERE hash(d * 31 + t) % 10 = 0)
        TO '{folder / "Event.parquet"}' (FORMAT parquet)"""
    )


EVENTS = """
input Event(a: text, b: text, c: text) @ time.
Seen(X, Y, Z) @ T+1 :- Event(X, Y, Z) @ T, Event(X, Y, Z) @ T+1.
Odd(X, Y, Z) @ T :- Seen(X, Y, Z) @ T+1, Event(X, Y, _) @ T+3.
"""


def run(quick: bool) -> list[Result]:
    results: list[Result] = []
    size = 60 if quick else 300
    program = tidelog.parse(layered(size))

    def analyse() -> None:
        for query in program.outputs:
            analysis = tidelog.analyze(program, query)
            assert analysis.delay is not None
            assert analysis.delay.exact
            assert analysis.window is not None
            assert analysis.window.exact

    seconds = best_of(1 if quick else 3, analyse)
    name = f"analyze {len(program.rules)} layered rules, {len(program.outputs)} outputs"
    results.append(Result(name, seconds, target="<= 10 s"))

    for redundant in (False, True):
        hard = tidelog.parse(choices(40, redundant=redundant))
        delay = tidelog.delay(hard, "Q", budget=10.0)
        assert delay.lower == delay.upper == (0 if redundant else 2)
        seconds = best_of(3, lambda hard=hard: tidelog.delay(hard, "Q", budget=10.0))
        kind = "redundant" if redundant else "one witness"
        results.append(
            Result(f"delay of 2^40 conjunctive queries, {kind}", seconds, target="<= 10 s")
        )

    objects = 1_000 if quick else 100_000
    with tempfile.TemporaryDirectory() as place:
        history(Path(place), objects)
        events = tidelog.parse(EVENTS)
        with Engine(events, place) as engine:

            def decide() -> None:
                assert not OpenAnswers(engine, "Odd").definitive(29, 28).holds

            def keep() -> None:
                (select,) = LiveFacts(engine, "Odd").live(29, 28).values()
                (n,) = engine.one(f"SELECT count(*) FROM ({select}) AS l")
                assert n > 0

            seconds = best_of(3, decide)
            name = f"definitive, {objects:,} objects, arity 3"
            results.append(Result(name, seconds, target="<= 5 s"))
            seconds = best_of(3, keep)
            results.append(Result(f"live, {objects:,} objects, arity 3", seconds, target="<= 5 s"))
    return results


if __name__ == "__main__":
    print_table(run(False))
