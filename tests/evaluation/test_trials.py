"""Data centre, payments and arriving files: the answers beside them, worked out in plain loops.

Nothing here knows of rules: each function says in Python what the rules of an example say.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.places import ROOT

from tidelog.cli import cli

EXAMPLES = ROOT / "examples"
Rows = set[tuple[str, ...]]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def minute(text: str, minutes: int = 1) -> datetime:
    at = datetime.fromisoformat(text).astimezone(UTC)
    return at.replace(minute=at.minute - at.minute % minutes, second=0, microsecond=0)


def stamped(answers: Iterable[tuple[object, ...]]) -> Rows:
    """Answers with their time, which comes last, as it is printed."""
    return {
        (*map(str, args), f"{at:%Y-%m-%dT%H:%M:%SZ}")
        for *args, at in answers
        if isinstance(at, datetime)
    }


def data_centre() -> dict[str, Rows]:
    facts = EXAMPLES / "datacentre" / "facts"
    limit = {r["host"]: float(r["cpu"]) for r in rows(facts / "Limit.csv")}
    rack = {r["host"]: r["rack"] for r in rows(facts / "Rack.csv")}
    beside = [(r["a"], r["b"]) for r in rows(facts / "Beside.csv")]
    high: dict[str, set[datetime]] = defaultdict(set)
    fine: dict[str, set[datetime]] = defaultdict(set)
    few_fans: set[tuple[str, datetime]] = set()
    for row in rows(facts / "metrics.csv"):
        host, at = row["host"], minute(row["time"])
        (high if float(row["cpu"]) > limit[host] else fine)[host].add(at)
        if int(row["fans"]) < 4:
            few_fans.add((host, at))
    tick = timedelta(minutes=1)
    hot = {(h, t) for h in high for t in high[h] if {t - tick, t - 2 * tick} <= high[h]}
    onset = {(h, t) for h, t in hot if t - 3 * tick in fine[h]}
    alarm = {
        (rack[g], t) for g, t in hot for h, u in hot if t == u and g != h and rack[g] == rack[h]
    }
    exposed = {
        (host, at)
        for host, at in few_fans
        for one, other in beside
        if rack[host] == other and any((one, at - n * tick) in alarm for n in (1, 2, 3))
    }
    return {
        "Hot": stamped(hot),
        "Onset": stamped(onset),
        "RackAlarm": stamped(alarm),
        "Exposed": stamped(exposed),
    }


def payments() -> dict[str, Rows]:
    paid = [
        (r["id"], r["card"], r["shop"], float(r["amount"]), r["country"], minute(r["at"]))
        for r in rows(EXAMPLES / "payments" / "facts" / "Pay.csv")
    ]
    tick = timedelta(minutes=1)
    last = max(at for *_, at in paid)
    tested = {
        (c, at)
        for _, c, _, amount, _, at in paid
        if amount >= 500
        for _, d, _, before, _, then in paid
        if c == d and before < 2 and then in (at - tick, at - 2 * tick, at - 3 * tick)
    }
    travelled = {
        (c, at)
        for _, c, _, _, here, at in paid
        for _, d, _, _, there, then in paid
        if c == d and here != there and then in (at - tick, at - 2 * tick)
    }
    shops: dict[tuple[str, datetime], set[str]] = defaultdict(set)
    for _, card, shop, _, _, at in paid:
        shops[card, at].add(shop)
    spread = {key for key, names in shops.items() if len(names) >= 3}
    first: dict[str, datetime] = {}
    for card, at in tested | travelled | spread:
        first[card] = min(first.get(card, last), at)
    refused = {(i, c, at) for i, c, _, _, _, at in paid if c in first and at > first[c]}
    return {
        "Tested": stamped(tested),
        "Travelled": stamped(travelled),
        "Spread": stamped(spread),
        "Refused": stamped(refused),
    }


def arriving(folder: Path) -> dict[str, Rows]:
    def lines(name: str) -> list[dict[str, object]]:
        files = sorted((folder / name).iterdir())
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    celsius = {
        (str(r["lorry"]), minute(str(r["at"]), 5)): float(str(r["celsius"]))
        for r in lines("Reading")
        if r["celsius"] != "warm"
    }
    opened = {(str(r["lorry"]), minute(str(r["at"]), 5)) for r in lines("Door") if r["open"]}
    tick = timedelta(minutes=5)
    warm = {key for key, degrees in celsius.items() if degrees > 7}
    spoilt = {(x, t) for x, t in warm if all((x, t - n * tick) in warm for n in (1, 2, 3))}
    left = {
        (x, t)
        for x, t in warm
        if (x, t - 2 * tick) in opened
        and (x, t - 2 * tick) in celsius
        and celsius[x, t] > celsius[x, t - 2 * tick]
    }
    return {"Warm": stamped(warm), "Spoilt": stamped(spoilt), "LeftOpen": stamped(left)}


def kept(example: str) -> dict[str, Rows]:
    """The answers beside an example."""
    return {
        path.stem: {tuple(row.values()) for row in rows(path)}
        for path in (EXAMPLES / example / "expected").glob("*.csv")
    }


def answered(example: str, facts: Path, tick: str, out: Path) -> dict[str, Rows]:
    """What `tidelog query` says."""
    rules = str(EXAMPLES / example / "rules.tdl")
    command = ["query", rules, "--facts", str(facts), "--tick", tick, "--out", f"{out}/"]
    result = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert (result.exit_code, result.output) == (0, "")
    return {path.stem: {tuple(row.values()) for row in rows(path)} for path in out.iterdir()}


@pytest.mark.parametrize(
    ("example", "by_hand"), [("datacentre", data_centre), ("payments", payments)]
)
def test_answers(example: str, by_hand: object, tmp_path: Path) -> None:
    assert callable(by_hand)
    wanted = by_hand()
    assert all(wanted.values()), "an empty answer shows nothing"
    assert kept(example) == wanted
    facts = EXAMPLES / example / "facts"
    assert answered(example, facts, "1m", tmp_path / "out") == wanted


def made(example: str, folder: Path) -> None:
    script = EXAMPLES / example / "make_facts.py"
    subprocess.run([sys.executable, str(script), str(folder)], check=True)


@pytest.mark.slow
def test_arriving_files(tmp_path: Path) -> None:
    made("arriving", tmp_path / "facts")
    wanted = arriving(tmp_path / "facts")
    assert all(wanted.values()), "an empty answer shows nothing"
    assert kept("arriving") == wanted
    for path in (tmp_path / "facts" / "Reading").iterdir():  # a query takes no reading like "warm"
        lines = [line for line in path.read_text().splitlines() if '"warm"' not in line]
        path.write_text("".join(f"{line}\n" for line in lines))
    assert answered("arriving", tmp_path / "facts", "5m", tmp_path / "out") == wanted


@pytest.mark.slow
@pytest.mark.parametrize("example", ["auctions", "datacentre", "oncall", "payments"])
def test_facts_are_those_that_the_script_makes(example: str, tmp_path: Path) -> None:
    copy = tmp_path / "make_facts.py"
    copy.write_text((EXAMPLES / example / "make_facts.py").read_text())
    subprocess.run([sys.executable, str(copy)], check=True)
    for path in (EXAMPLES / example / "facts").iterdir():
        assert (tmp_path / "facts" / path.name).read_bytes() == path.read_bytes()
