"""Makes the facts of this example, always the same ones: `python make_facts.py`."""

from __future__ import annotations

import csv
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

FACTS = Path(__file__).resolve().parent / "facts"
START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
MINUTES = 180
RACKS = ("r1", "r2", "r3")


def main() -> None:
    chance = random.Random(20260302)
    hosts = {f"web{n:02}": RACKS[n % len(RACKS)] for n in range(1, 10)}
    limits = {host: float(chance.choice((80, 85, 90))) for host in hosts}
    rows = []
    cpu = {host: chance.uniform(30, 60) for host in hosts}
    load = dict.fromkeys(RACKS, 0)
    for minute in range(MINUTES):
        at = START + timedelta(minutes=minute)
        for rack in RACKS:
            if load[rack] == 0 and chance.random() < 0.02:
                load[rack] = chance.randint(4, 9)
            load[rack] = max(0, load[rack] - 1)
        for host, rack in hosts.items():
            target = chance.uniform(70, 110) if load[rack] else chance.uniform(20, 75)
            cpu[host] += 0.6 * (target - cpu[host])
            fans = 4 if chance.random() < 0.9 else chance.randint(1, 3)
            if chance.random() < 0.98:  # a reading is lost now and then
                shown = round(min(100.0, cpu[host]), 1)
                rows.append((host, shown, fans, f"{at:%Y-%m-%dT%H:%M:%SZ}"))
    write("metrics", ("host", "cpu", "fans", "time"), rows)
    write("Limit", ("host", "cpu"), list(limits.items()))
    write("Rack", ("host", "rack"), list(hosts.items()))
    write("Beside", ("a", "b"), [("r1", "r2"), ("r2", "r1"), ("r2", "r3"), ("r3", "r2")])


def write(name: str, columns: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    FACTS.mkdir(exist_ok=True)
    with (FACTS / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([columns, *rows])


if __name__ == "__main__":
    main()
