"""Makes the facts of this example, always the same ones: `python make_facts.py`."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

FACTS = Path(__file__).resolve().parent / "facts"
START = datetime(2026, 9, 14, 10, 0, tzinfo=UTC)


def main(folder: Path = FACTS, seed: int = 20260914) -> None:
    chance = random.Random(seed)
    folder.mkdir(exist_ok=True)
    table(folder / "requests.csv", ("id", "service", "status", "ms", "time"), requests(chance))
    table(folder / "deploys.csv", ("service", "started", "finished"), deploys())
    table(folder / "readings.csv", ("sensor", "celsius", "at"), readings(chance))
    with (folder / "logins.jsonl").open("w", newline="", encoding="utf-8") as file:
        for n, (at, user, address, ok) in enumerate(sorted(logins(chance)), 1):
            row = {"id": f"l{n:03}", "user": user, "ip": address, "ok": ok, "at": text(at)}
            file.write(f"{json.dumps(row)}\n")


def table(path: Path, columns: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def text(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"


def requests(chance: random.Random) -> list[tuple[object, ...]]:
    """An hour: an outage of checkout with a pause in it, a deployment of search, one bad minute."""
    rows = []
    for minute in range(60):
        for service, usual in (("checkout", 9), ("mail", 5), ("search", 8)):
            if service == "checkout" and 25 <= minute < 28:
                continue  # nobody tries any more
            for _ in range(chance.randint(usual - 2, usual + 2)):
                failing = (
                    (service == "checkout" and 18 <= minute < 31)
                    or (service == "search" and 40 <= minute < 46)
                    or (service == "mail" and minute == 8)
                )
                bad = chance.random() < (0.5 if failing else 0.004)
                status = chance.choice((500, 502, 503)) if bad else 200
                slow = service == "search" and 50 <= minute < 55
                ms = int(chance.lognormvariate(6.5 if slow else 4, 0.5))
                second = START + timedelta(minutes=minute, seconds=chance.randint(0, 59))
                rows.append((f"{second:%Y-%m-%dT%H:%M:%SZ}", service, status, ms))
    rows.sort()
    return [
        (f"r{n:04}", service, status, ms, at) for n, (at, service, status, ms) in enumerate(rows, 1)
    ]


def deploys() -> list[tuple[object, ...]]:
    spans = (("mail", 2, 4), ("search", 39, 47))
    return [
        (service, *(f"{START + timedelta(minutes=m):%Y-%m-%dT%H:%M:%SZ}" for m in (first, last)))
        for service, first, last in spans
    ]


def logins(chance: random.Random) -> list[tuple[datetime, str, str, bool]]:
    """People who mistype, a guessed password, a password tried on everybody, and a near miss."""
    people = ("ada", "bo", "cy", "dee", "eli", "flo")
    rows = []
    for n in range(60):
        person = chance.choice(people)
        at = START + timedelta(seconds=60 * n, milliseconds=chance.randint(0, 59_000))
        for _ in range(chance.choice((0, 0, 0, 0, 1, 1, 2))):
            rows.append((at, person, f"10.0.0.{people.index(person) + 1}", False))
            at += timedelta(milliseconds=chance.randint(2_000, 9_000))
        rows.append((at, person, f"10.0.0.{people.index(person) + 1}", True))
    # Seven guesses, the last of them right, all within three seconds of one minute.
    at = START + timedelta(minutes=21, seconds=30)
    rows += [(at + timedelta(milliseconds=430 * n), "bo", "203.0.113.9", n == 6) for n in range(7)]
    # A success first, and then five failures in the same minute: somebody else's old password.
    at = START + timedelta(minutes=33, seconds=5)
    rows += [(at + timedelta(seconds=4 * n), "dee", "10.0.0.40", n == 0) for n in range(6)]
    # Five failures, and the success eleven minutes after the first.
    at = START + timedelta(minutes=40)
    minutes = (0, 2, 4, 6, 8, 11)
    rows += [(at + timedelta(minutes=m), "eli", "10.0.0.50", m == 11) for m in minutes]
    # One password for everybody.
    at = START + timedelta(minutes=52)
    rows += [
        (at + timedelta(seconds=70 * n), person, "198.51.100.7", False)
        for n, person in enumerate(people)
    ]
    return rows


def readings(chance: random.Random) -> list[tuple[object, ...]]:
    """Every twenty seconds; attic falls silent, cellar sends no value, and roof sends twice."""
    rows = []
    for sensor, usual in (("attic", 24.0), ("cellar", 12.0), ("roof", 29.0)):
        celsius = usual
        for n in range(90):
            at = START + timedelta(seconds=20 * n + chance.randint(0, 4))
            celsius = round(celsius + chance.choice((-0.5, 0.0, 0.0, 0.5)), 1)
            if sensor == "attic" and 30 <= n < 55:
                continue
            empty = sensor == "cellar" and 20 <= n < 50
            rows.append((sensor, "" if empty else celsius, f"{at:%Y-%m-%dT%H:%M:%SZ}"))
            if sensor == "roof" and n % 30 == 10:  # a correction, some seconds later
                at += timedelta(seconds=3)
                rows.append((sensor, celsius + 4, f"{at:%Y-%m-%dT%H:%M:%SZ}"))
    return sorted(rows, key=lambda row: (row[2], row[0]))


if __name__ == "__main__":
    main()
