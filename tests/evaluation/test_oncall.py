"""The on-call examples: error rates, logins and sensors, each worked out in plain loops as well.

Nothing here knows of rules: each function says in Python what the rules of an example say.
"""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib import util
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.places import ROOT

import tidelog

ONCALL = ROOT / "examples" / "oncall"
Rows = set[tuple[Any, ...]]  # the values of an answer, and its time in whole ticks
FILES = {
    "errors": {
        "requests": "requests.csv",
        "deploys": "deploys.csv",
        "deploy_ends": "deploys.csv",
    },
    "logins": {"logins": "logins.jsonl"},
    "sensors": {"readings": "readings.csv", "beats": "readings.csv"},
}
TICK = {
    "errors": timedelta(minutes=1),
    "logins": timedelta(milliseconds=1),
    "sensors": timedelta(seconds=1),
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8", newline="") as file:
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in file]
        return list(csv.DictReader(file))


def tick_of(example: str, at: str) -> int:
    return (datetime.fromisoformat(at) - EPOCH) // TICK[example]


def errors(facts: Path) -> dict[str, Rows]:
    status: dict[tuple[str, int], list[int]] = defaultdict(list)
    times: dict[tuple[str, int], list[int]] = defaultdict(list)
    for row in rows(facts / "requests.csv"):
        key = row["service"], tick_of("errors", row["time"])
        status[key].append(int(row["status"]))
        times[key].append(int(row["ms"]))
    minutes = range(min(t for _, t in status), max(t for _, t in status) + 1)
    deploying = {
        (row["service"], minute)
        for row in rows(facts / "deploys.csv")
        for minute in range(
            tick_of("errors", row["started"]), tick_of("errors", row["finished"]) + 1
        )
    }
    rate = {}
    for service, minute in status:
        recent = [c for n in range(5) for c in status.get((service, minute - n), [])]
        if len(recent) >= 20:
            rate[service, minute] = sum(c >= 500 for c in recent) / len(recent)
    alerts: Rows = set()
    for service in {s for s, _ in status}:
        high = {
            m for s, m in rate if s == service and rate[s, m] > 0.05 and (s, m) not in deploying
        }
        low = {m for s, m in rate if s == service and rate[s, m] <= 0.05}
        firing = False
        for minute in minutes:
            last = {minute, minute - 1, minute - 2}
            if not firing and last <= high:
                firing = True
                alerts.add((service, "firing", minute))
            elif firing and last <= low:
                firing = False
                alerts.add((service, "resolved", minute))
    slow = {
        (service, sorted(ms)[math.ceil(95 * len(ms) / 100) - 1], minute)
        for (service, minute), ms in times.items()
    }
    return {
        "Rate": {(s, value, m) for (s, m), value in rate.items()},
        "Alert": alerts,
        "Slow": {answer for answer in slow if answer[1] > 500},
    }


def logins(facts: Path) -> dict[str, Rows]:
    every = [
        (tick_of("logins", r["at"]), r["user"], r["ip"], r["ok"])
        for r in rows(facts / "logins.jsonl")
    ]
    minutes = 10 * 60 * 1000
    guessed, sprayed = set(), set()
    for at, user, address, ok in every:
        before = [(t, u) for t, u, a, fine in every if a == address and not fine and t <= at]
        recent = [(t, u) for t, u in before if at - t <= minutes]
        failures = sum(u == user and t < at for t, u in recent)
        people = len({u for _, u in recent})
        if ok and failures >= 5:
            guessed.add((user, address, failures, at))
        if not ok and people >= 5:
            sprayed.add((address, people, at))
    return {"Guessed": guessed, "Sprayed": sprayed}


def sensors(facts: Path) -> dict[str, Rows]:
    signs: dict[str, set[int]] = defaultdict(set)
    values: dict[str, dict[int, set[float]]] = defaultdict(lambda: defaultdict(set))
    for row in rows(facts / "readings.csv"):
        at = tick_of("sensors", row["at"])
        signs[row["sensor"]].add(at)
        if row["celsius"]:
            values[row["sensor"]][at].add(float(row["celsius"]))
    every = [at for times in signs.values() for at in times]
    answers: dict[str, Rows] = {"Lost": set(), "Back": set(), "Last": set(), "Hot": set()}
    for sensor, times in signs.items():
        silent, last = False, set[float]()
        for at in range(min(every), max(every) + 1):
            if at in times and silent:
                silent = False
                answers["Back"].add((sensor, at))
            if at - 60 in times and not times & set(range(at - 59, at + 1)):
                silent, last = True, set()
                answers["Lost"].add((sensor, at))
            last = values[sensor].get(at, last)
            answers["Last"] |= {(sensor, value, at) for value in last}
            answers["Hot"] |= {(sensor, value, at) for value in last if value > 30}
    return answers


BY_HAND: dict[str, Callable[[Path], dict[str, Rows]]] = {
    "errors": errors,
    "logins": logins,
    "sensors": sensors,
}


def inputs(example: str, facts: Path) -> dict[str, str]:
    return {name: str(facts / file) for name, file in FILES[example].items()}


def answers(example: str, facts: Path, wanted: dict[str, Rows]) -> dict[str, Rows]:
    """What the rules say, for the queries that are wanted."""
    program = tidelog.load(str(ONCALL / f"{example}.tdl"))
    tables = {query: program.query(query, inputs(example, facts)) for query in wanted}
    return {query: {ticked(example, row) for row in rows_of(tables[query])} for query in tables}


def rows_of(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def ticked(example: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """An answer with its time in ticks."""
    *values, time = row
    return (*values, (time - EPOCH) // TICK[example])


@pytest.mark.parametrize("example", BY_HAND)
def test_answers(example: str) -> None:
    wanted = BY_HAND[example](ONCALL / "facts")
    assert all(wanted.values()), "an empty answer shows nothing"
    assert answers(example, ONCALL / "facts", wanted) == wanted


def test_the_answers_beside_the_examples() -> None:
    wanted = {
        query: {(*map(str, values), str(EPOCH + time * TICK[example])) for *values, time in facts}
        for example, by_hand in BY_HAND.items()
        for query, facts in by_hand(ONCALL / "facts").items()
    }
    written = {path.stem: rows(path) for path in (ONCALL / "expected").glob("*.csv")}
    assert set(wanted) - set(written) == {"Last"}, "a row for every second is too much to look at"
    for query, answers in written.items():
        found = {
            (*args, str(datetime.fromisoformat(at))) for *args, at in (r.values() for r in answers)
        }
        assert found == wanted[query]


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("example", BY_HAND)
def test_answers_over_other_facts(example: str, seed: int, tmp_path: Path) -> None:
    spec = util.spec_from_file_location("make_facts", ONCALL / "make_facts.py")
    assert spec is not None
    assert spec.loader is not None
    script = util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.main(tmp_path, seed)
    wanted = BY_HAND[example](tmp_path)
    assert answers(example, tmp_path, wanted) == wanted
