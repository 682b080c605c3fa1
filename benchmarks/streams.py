"""Streams in process: what a tick costs and how many facts are kept, online and offline.

Every way must give the same answers. Facts kept per tick are drawn to build/bench/history-*.svg.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

import tidelog
from benchmarks.harness import Result, cost, faster, print_table
from tidelog.data.schema import schemas

ROOT = Path(__file__).resolve().parent.parent
DRAWN = ROOT / "build" / "bench"
RULES = (ROOT / "examples" / "turbines" / "rules.tdl").read_text()
AGAIN = """
input Temp(device: text, level: text) @ time.
Again(X) @ T :- Temp(X, high) @ T, Temp(X, high) @ T+{k}.
"""


@dataclass(frozen=True)
class Sizes:
    ticks: dict[int, int]  # facts a tick, and how many ticks of them
    age: int
    far: int
    meteor: int
    borne: int  # ticks of La Haute Borne


FULL = Sizes({10: 2_000, 1_000: 200, 100_000: 10}, 100_000, 10_000, 60, 1_500)
QUICK = Sizes({10: 30, 1_000: 6}, 300, 100, 8, 50)

Tick = tuple[int, pa.Table]


# Data


def readings(facts: int, ticks: int) -> list[Tick]:
    """A reading of every device at every tick, half of them high."""
    random = Random(7)
    devices = [f"device{i:06d}" for i in range(facts)]
    tables = []
    for tick in range(ticks):
        levels = ["high" if random.random() < 0.5 else "low" for _ in devices]
        columns = {"device": devices, "level": levels, "time": [tick] * facts}
        tables.append((tick, pa.table(columns)))
    return tables


def borne(ticks: int) -> tuple[tidelog.Program, dict[str, list], list[tuple[int, dict]]]:
    """The first ticks of La Haute Borne, with its rules; empty where the data is not there."""
    named = os.environ.get("TIDELOG_DATA")
    folder = (Path(named) if named else ROOT.parent / "shared" / "data") / "la_haute_borne"
    if not folder.is_dir():
        return tidelog.parse("P @ T :- E @ T."), {}, []
    program = tidelog.load(folder / "rules.tdl")
    rigid: dict[str, list] = {}
    times: dict[int, list] = {}
    for name, schema in schemas(program).items():
        with (folder / "facts" / f"{name}.csv").open(newline="") as file:
            kinds = [{"int": int, "float": float}.get(str(c.type), str) for c in schema.columns]
            for row in csv.DictReader(file):
                try:
                    values = [k(row[c.name]) for k, c in zip(kinds, schema.columns, strict=True)]
                except ValueError:
                    continue  # a value is missing: no fact
                if schema.time is None:
                    rigid.setdefault(name, []).append(tuple(values))
                else:
                    times.setdefault(int(row[schema.time]), []).append(tuple(values))
    first = min(times)
    return program, rigid, [(t, {"Scada": times.get(t, [])}) for t in range(first, first + ticks)]


# Ways to stream


def pushed(stream: tidelog.Stream, ticks: Sequence[Tick]) -> tuple[list[float], int]:
    """Seconds per tick, and how many answers there were."""
    seconds, answers = [], 0
    for tick, table in ticks:
        start = time.perf_counter()
        step = stream.push(tick, {"Temp": table})
        seconds.append(time.perf_counter() - start)
        answers += sum(t.num_rows for t in step.answers.values())
    answers += sum(t.num_rows for t in stream.close().answers.values())
    return seconds, answers


def malfunc(**how: Any) -> tidelog.Stream:
    return tidelog.Stream(tidelog.parse(RULES), ["Malfunc"], **how)


def by_hand(ticks: Sequence[Tick]) -> tuple[list[float], int]:
    """What one would write: a table of the last three ticks, a join, a deletion."""
    seconds, answers = [], 0
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE recent (device VARCHAR, time BIGINT)")
        for tick, table in ticks:
            start = time.perf_counter()
            connection.register("new", table)
            connection.execute(
                "INSERT INTO recent SELECT DISTINCT device, time FROM new WHERE level = 'high'"
            )
            joined = connection.sql(
                "SELECT a.device, a.time FROM recent a JOIN recent b USING (device)"
                f" JOIN recent c USING (device) WHERE a.time = {tick - 2} AND b.time = {tick - 1}"
                f" AND c.time = {tick}"
            ).to_arrow_table()
            connection.execute(f"DELETE FROM recent WHERE time <= {tick - 2}")
            connection.unregister("new")
            seconds.append(time.perf_counter() - start)
            answers += joined.num_rows
    return seconds, answers


def with_meteor(ticks: Sequence[Tick]) -> tuple[list[float], int]:
    """Materialise the last three ticks at every tick."""
    from meteor_reasoner.materialization.coalesce import coalescing_d
    from meteor_reasoner.materialization.materialize import materialize
    from meteor_reasoner.utils.loader import load_dataset, load_program

    rules = ["Malfunc(X):-High(X),Diamondplus[1,1]High(X),Diamondplus[2,2]High(X)"]
    seconds, answers, recent = [], 0, []
    for tick, table in ticks:
        start = time.perf_counter()
        rows = zip(*(c.to_pylist() for c in table.columns), strict=True)
        recent += [(t, f"High({x})@{t}") for x, level, t in rows if level == "high"]
        recent = [(t, fact) for t, fact in recent if t > tick - 3]
        data, program = load_dataset([fact for _, fact in recent]), load_program(rules)
        coalescing_d(data)
        with contextlib.redirect_stdout(io.StringIO()):  # it reports every round
            materialize(data, rules=program, mode="seminaive", K=100)
        intervals = (i for of_device in data["Malfunc"].values() for i in of_device)
        answers += sum(i.left_value <= tick - 2 <= i.right_value for i in intervals)
        seconds.append(time.perf_counter() - start)
    return seconds, answers


# Measuring


def percentile(seconds: Iterable[float], share: float) -> float:
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def per_tick(sizes: Sizes) -> Iterator[Result]:
    """p50 and p99 of a tick, and the whole against a loop by hand."""
    for facts, count in sizes.ticks.items():
        ticks = readings(facts, count)
        hand, answers = by_hand(ticks)
        for mode in ("online", "offline"):
            seconds, answered = pushed(malfunc(mode=mode), ticks)
            assert answered == answers > 0, (mode, answered, answers)
            name = f"streams/{mode}, {facts:,} facts a tick"
            warm = seconds[1:]
            yield Result(f"{name}, p50", 1000 * percentile(warm, 0.5), "ms")
            soon = "<= 8 ms" if facts == 1_000 else None
            yield Result(f"{name}, p99", 1000 * percentile(warm, 0.99), "ms", target=soon)
            least = ">= 1x" if facts >= 100_000 else None
            yield faster(name, sum(seconds), "a DuckDB loop by hand", sum(hand), least)


def against_meteor(sizes: Sizes) -> Iterator[Result]:
    if find_spec("meteor_reasoner"):
        ticks = readings(10, sizes.meteor)
        theirs, answers = with_meteor(ticks)
        for mode in ("online", "offline"):
            seconds, answered = pushed(malfunc(mode=mode), ticks)
            assert answered == answers > 0, (answered, answers)
            name = f"streams/{mode}, 10 facts a tick, {sizes.meteor} ticks"
            yield faster(name, sum(seconds), "meteor_reasoner, tick by tick", sum(theirs))


def ages(sizes: Sizes) -> Iterator[Result]:
    """A tick costs the same whatever the age of the stream; so does the history."""
    stream = malfunc(mode="online")
    random = Random(3)
    devices = [f"device{i}" for i in range(10)]
    seconds, kept = [], []
    for tick in range(sizes.age):
        rows = [(d, "high" if random.random() < 0.5 else "low") for d in devices]
        start = time.perf_counter()
        step = stream.push(tick, {"Temp": rows})
        seconds.append(time.perf_counter() - start)
        kept.append(step.history)
    tenth = sizes.age // 10
    young, old = sum(seconds[:tenth]), sum(seconds[-tenth:])
    yield Result(f"streams/online, {sizes.age:,} ticks", sum(seconds))
    yield cost("streams/online, the last tenth", old, "the first tenth", young, "<= 1.3x")
    most = max(kept[:tenth])
    yield Result(
        "streams/online, most facts kept in the last tenth",
        max(kept[-tenth:]), "facts", "the first tenth", max(kept[-tenth:]) / most, "<= 1.2x",
    )  # fmt: skip


def offsets(sizes: Sizes) -> Iterator[Result]:
    """A tick costs the same however far the rules look."""
    for mode in ("online", "offline"):
        medians = []
        for k in (1, sizes.far):
            stream = tidelog.Stream(tidelog.parse(AGAIN.format(k=k)), ["Again"], mode=mode)
            # One push brings the stream to its full history; single ticks follow.
            random = Random(1)
            rows = [
                (f"device{d}", "high" if random.random() < 0.5 else "low", t)
                for t in range(2 * k)
                for d in range(10)
            ]
            stream.push(2 * k - 1, {"Temp": rows})
            ticks = [
                (2 * k + i, table.set_column(2, "time", pa.array([2 * k + i] * 10)))
                for i, table in readings(10, 100)
            ]
            medians.append(percentile(pushed(stream, ticks)[0][1:], 0.5))
        near, far = medians
        name = f"streams/{mode}, offset {sizes.far:,}, p50 of a tick"
        yield cost(name, far, "offset 1", near, "<= 1.5x")


# Facts kept


def histories(
    make: Callable[..., tidelog.Stream], ticks: list[tuple[int, dict]]
) -> dict[str, list[int]]:
    """Facts kept after each tick: online, offline in both styles, and by whole time points."""
    lines: dict[str, list[int]] = {}
    ways: dict[str, dict[str, str]] = {
        "online": {"mode": "online"},
        "offline, derived": {},
        "offline, strict": {"history": "strict"},
    }
    for name, how in ways.items():
        try:
            stream = make(**how)
        except ValueError:
            continue  # no window is enough
        sizes: dict[int, int] = {}
        whole = []
        for tick, facts in ticks:
            step = stream.push(tick, facts)
            lines.setdefault(name, []).append(step.history)
            if name == "online":
                # The paper forgets time points from the oldest on, each as a whole.
                sizes[tick] = sum(len(rows) for rows in facts.values())
                live = [t for times in stream.facts().values() for t in times]
                first = min(live, default=tick + 1)
                sizes = {t: n for t, n in sizes.items() if t >= first}
                whole.append(sum(sizes.values()))
        if whole:
            lines["whole time points"] = whole
    return lines


def drawn(name: str, lines: dict[str, list[int]]) -> Path:
    """An SVG of some series over the same ticks."""
    width, height, colours = 900, 320, ("#0a7", "#36c", "#c63", "#999")
    top = max(max(line) for line in lines.values()) or 1
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + 40}"'
        ' font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height + 40}" fill="white"/>',
        f'<text x="8" y="16">{name}: facts kept per tick, at most {top}</text>',
    ]
    for number, (label, line) in enumerate(lines.items()):
        step = max(1, len(line) // width)
        shown = [max(line[i : i + step]) for i in range(0, len(line), step)]
        points = " ".join(
            f"{i * width / max(1, len(shown) - 1):.1f},{height - (height - 30) * n / top:.1f}"
            for i, n in enumerate(shown)
        )
        colour = colours[number % len(colours)]
        parts.append(f'<polyline fill="none" stroke="{colour}" points="{points}"/>')
        parts.append(
            f'<text x="{8 + 210 * number}" y="{height + 28}" fill="{colour}">{label}</text>'
        )
    DRAWN.mkdir(parents=True, exist_ok=True)
    file = DRAWN / f"history-{name}.svg"
    file.write_text("\n".join([*parts, "</svg>\n"]), encoding="utf-8")
    return file


def kept(sizes: Sizes) -> Iterator[Result]:
    random = Random(11)
    quiet = [
        (t, {"Temp": [(f"d{i}", "high" if random.random() < 0.2 else "low") for i in range(20)]})
        for t in range(min(500, sizes.far))
    ]
    turbines = tidelog.parse(RULES)
    program, rigid, ticks = borne(sizes.borne)
    plots: list[tuple[str, Callable[..., tidelog.Stream], list]] = [
        ("turbines", partial(tidelog.Stream, turbines, ["Malfunc"]), quiet)
    ]
    if ticks:
        make = partial(tidelog.Stream, program, ["Onset", "Trip"], rigid=rigid)
        plots.append(("la_haute_borne", make, ticks))
    for name, make, given in plots:
        lines = histories(make, given)
        drawn(name, lines)
        mean = {label: sum(line) / len(line) for label, line in lines.items()}
        peer = "whole time points"
        for label, value in mean.items():
            ratio = value / mean[peer] if mean[peer] else None
            title = f"streams/{name}, facts kept, {label}"
            yield Result(title, value, "facts", peer, ratio)


def run(quick: bool = False) -> list[Result]:
    sizes = QUICK if quick else FULL
    return [
        *per_tick(sizes),
        *against_meteor(sizes),
        *ages(sizes),
        *offsets(sizes),
        *kept(sizes),
    ]


if __name__ == "__main__":
    print_table(run())
