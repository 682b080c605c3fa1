"""Writes files of readings into a folder, as they would arrive: `python make_facts.py FOLDER`.

Always the same ones. A file is written under another name first and moved into place whole, since a
stream reads every file once. Files of one hour come in any order; a reading or two cannot be used.
"""

from __future__ import annotations

import json
import random
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

START = datetime(2026, 7, 6, 5, 0, tzinfo=UTC)
HOURS = 6
LORRIES = ("ant", "bee", "cow")


def main(folder: str) -> None:
    chance = random.Random(20260706)
    celsius = dict.fromkeys(LORRIES, 4.0)
    for hour in range(HOURS):
        readings, doors = [], []
        for tick in range(12):
            at = START + timedelta(hours=hour, minutes=5 * tick)
            stamp = f"{at:%Y-%m-%dT%H:%M:%SZ}"
            for lorry in LORRIES:
                is_open = chance.random() < 0.2
                celsius[lorry] += chance.uniform(1, 3) if is_open else chance.uniform(-1.5, 0.9)
                celsius[lorry] = max(2.0, celsius[lorry])
                readings.append({"lorry": lorry, "celsius": round(celsius[lorry], 1), "at": stamp})
                doors.append({"lorry": lorry, "open": is_open, "at": stamp})
        if hour == 3:
            readings.append({"lorry": "ant", "celsius": "warm", "at": f"{at:%Y-%m-%dT%H:%M:%SZ}"})
        chance.shuffle(readings)
        save(Path(folder, "Reading", f"{hour:02}-a.jsonl"), readings[::2])
        save(Path(folder, "Reading", f"{hour:02}-b.jsonl"), readings[1::2])
        save(Path(folder, "Door", f"{hour:02}.jsonl"), doors)


def save(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}")
    beside.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    beside.rename(path)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "facts")
