"""Evaluation over finite data, from Parquet files to a count of answers, against its peers.

The data is made once, by the same arithmetic everywhere, and kept in build/bench. Every peer must
find as many answers as the engine does, and all open their files within the measured time.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import clingo
import duckdb

import tidelog
from benchmarks.harness import Result, best_of_each, cost, faster, print_table
from tidelog.evaluation.duckdb import Engine

CACHE = Path(__file__).resolve().parent.parent / "build" / "bench"

TURBINES = """
input Temp(device: text, level: text) @ time.
input Near(a: text, b: text).
Flag(X) @ T :- Temp(X, high) @ T.
Flag(X) @ T :- Temp(X, na) @ T.
Cool(X) @ T+1 :- Flag(X) @ T, Flag(X) @ T+1.
Shdn(X) @ T+1 :- Cool(X) @ T, Flag(X) @ T+1.
Malfunc(X) @ T-2 :- Shdn(X) @ T.
AtRisk(Y) @ T :- Shdn(X) @ T, Near(X, Y).
AtRisk(X) @ T+1 :- AtRisk(X) @ T.
"""
AGAIN = """
input Temp(device: text, level: text) @ time.
input Near(a: text, b: text).
Again(X) @ T+{k} :- Temp(X, high) @ T, Temp(X, high) @ T+{k}.
"""
ONCE = """
input E(object: int, level: text) @ time.
input F(object: int) @ time.
Next(X) @ T+1 :- E(X, high) @ T.
Followed(X) @ T+1 :- E(X, high) @ T, F(X) @ T+1.
"""

# A level that looks random and is the same in every run: half high, 1 % na, the rest low.
LEVEL = "CASE WHEN h < 500 THEN 'high' WHEN h < 510 THEN 'na' ELSE 'low' END"
NAME = "'device' || lpad(CAST(d AS VARCHAR), 5, '0')"


@dataclass(frozen=True)
class Sizes:
    devices: int
    ticks: int
    few: int  # devices with long histories
    long: int
    far: int  # the larger of two offsets
    objects: int
    clingo: tuple[int, int]  # devices and ticks that the logic engines are given
    meteor: tuple[int, int]
    large: int  # ticks of so many facts that memory matters
    rounds: int


FULL = Sizes(10_000, 1_000, 100, 100_000, 10_000, 2_500_000, (500, 400), (50, 400), 10_000, 5)
QUICK = Sizes(40, 100, 4, 1_000, 100, 1_000, (4, 50), (4, 50), 1_000, 1)
# What a process may use of memory for the largest data, in MB.
MEMORY = 4_096


# Data


def made(name: str, **files: str) -> Path:
    """A folder of Parquet files, each the result of a query; made if it is not there yet."""
    folder = CACHE / name
    if not folder.exists():
        unfinished = folder.with_name(f"{name}.{os.getpid()}")
        unfinished.mkdir(parents=True)
        with duckdb.connect() as connection:
            for file, query in files.items():
                path = str(unfinished / f"{file}.parquet").replace("'", "''")
                connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
        unfinished.rename(folder)
    return folder


def turbines(devices: int, ticks: int) -> Path:
    """A reading of every device at every tick, in the order of time, and a ring of neighbours."""
    numbered = f"SELECT i % {devices} AS d, i // {devices} AS t FROM range({devices * ticks}) r(i)"
    readings = f"SELECT d, t, hash(d * 1000003 + t) % 1000 AS h FROM ({numbered})"
    following = NAME.replace("d AS", f"(d + 1) % {devices} AS")
    return made(
        f"turbines-{devices}-{ticks}",
        Temp=f"SELECT {NAME} AS device, {LEVEL} AS level, t AS time FROM ({readings})",
        Near=f"SELECT {NAME} AS a, {following} AS b FROM range({devices}) AS b(d)",
    )


def once(objects: int) -> Path:
    """Two inputs in each of which every object is seen once, half of the time one tick later."""
    seen = f"SELECT d, hash(d) % 100000 AS t, hash(d + 7) % 1000 AS h FROM range({objects}) AS b(d)"
    return made(
        f"once-{objects}",
        E=f"SELECT d AS object, {LEVEL} AS level, CAST(t AS BIGINT) AS time FROM ({seen})",
        F=f"SELECT d AS object, CAST(t + 1 + hash(d + 3) % 2 AS BIGINT) AS time FROM ({seen})",
    )


# Jobs: each opens its files, evaluates and counts


def engine(rules: str, folder: Path, query: str) -> Callable[[], int]:
    program = tidelog.parse(rules)

    def job() -> int:
        with Engine(program, folder) as running:
            return running.count(query)

    return job


def by_hand(folder: Path, *statements: str) -> Callable[[], int]:
    """SQL as a specialist writes it; `{E}` stands for a file of the folder."""
    files = {f.stem: f"read_parquet('{f}')" for f in sorted(folder.glob("*.parquet"))}

    def job() -> int:
        with duckdb.connect() as connection:
            connection.execute("SET enable_progress_bar = false")
            for statement in statements:
                connection.execute(statement.format(**files))
            (n,) = connection.fetchone() or (0,)
            return int(n)

    return job


# Straight from the file the three-way join takes minutes: the readings that count come first.
SELF_JOIN = (
    "CREATE TEMP TABLE flag AS SELECT device, time FROM {Temp} WHERE level IN ('high', 'na')",
    "SELECT count(*) FROM flag AS x JOIN flag AS y ON y.device = x.device AND y.time = x.time + 1"
    " JOIN flag AS z ON z.device = x.device AND z.time = x.time + 2",
)
# Right as long as no reading is repeated.
WINDOWS = (
    "SELECT count(*) FROM (SELECT time, lead(time, 1) OVER w AS next, lead(time, 2) OVER w AS third"
    " FROM {Temp} WHERE level IN ('high', 'na')"
    " WINDOW w AS (PARTITION BY device ORDER BY time))"
    " WHERE next = time + 1 AND third = time + 2",
)
# The one pass that there must be: the readings that count, 60 ticks to a row.
PACKING = (
    "SELECT count(*) FROM (SELECT device, time - time % 60 AS c,"
    " bit_or(CAST(1 AS BIGINT) << CAST(time % 60 AS INT)) AS b"
    " FROM {Temp} WHERE level IN ('high', 'na') GROUP BY ALL)",
)
NEXT = ("SELECT count(*) FROM (SELECT DISTINCT object, time + 1 FROM {E} WHERE level = 'high')",)
FOLLOWED = (
    "SELECT count(*) FROM (SELECT DISTINCT e.object, f.time FROM {E} AS e JOIN {F} AS f"
    " ON f.object = e.object AND f.time = e.time + 1 WHERE e.level = 'high')",
)


def rows(folder: Path) -> list[tuple[str, str, int]]:
    with duckdb.connect() as connection:
        return connection.execute(f"FROM read_parquet('{folder / 'Temp.parquet'}')").fetchall()


def with_clingo(folder: Path) -> Callable[[], int]:
    rules = """
    flag(X, T) :- temp(X, high, T).
    flag(X, T) :- temp(X, na, T).
    cool(X, T+1) :- flag(X, T), flag(X, T+1).
    shdn(X, T+1) :- cool(X, T), flag(X, T+1).
    malfunc(X, T-2) :- shdn(X, T).
    """

    def job() -> int:
        facts = "".join(f"temp({x},{level},{t})." for x, level, t in rows(folder))
        control = clingo.Control(["--warn=none"])
        control.add("base", [], rules + facts)
        control.ground([("base", [])])
        return sum(1 for _ in control.symbolic_atoms.by_signature("malfunc", 2))

    return job


def with_meteor(folder: Path) -> Callable[[], int]:
    from meteor_reasoner.materialization.coalesce import coalescing_d
    from meteor_reasoner.materialization.materialize import materialize
    from meteor_reasoner.utils.loader import load_dataset, load_program

    rules = [
        "Flag(X):-High(X)",
        "Flag(X):-Na(X)",
        "Malfunc(X):-Flag(X),Diamondplus[1,1]Flag(X),Diamondplus[2,2]Flag(X)",
    ]

    def job() -> int:
        facts = [f"{level.title()}({x})@{t}" for x, level, t in rows(folder)]
        data, program = load_dataset(facts), load_program(rules)
        coalescing_d(data)
        with contextlib.redirect_stdout(io.StringIO()):  # it reports every round
            materialize(data, rules=program, mode="seminaive", K=100)
        intervals = (i for of_device in data["Malfunc"].values() for i in of_device)
        return sum(int(i.right_value - i.left_value) + 1 for i in intervals)

    return job


# Measuring


def timed(rounds: int, *jobs: Callable[[], int]) -> list[float]:
    """The best time of each job; all must find the same number of answers, and some."""
    counts = [job() for job in jobs]
    assert counts[0] > 0, counts
    assert len(set(counts)) == 1, counts
    return best_of_each(rounds, *jobs)


def peak(job: str, *args: object) -> float:
    """The most memory that a process needs for one job, in MB, as Linux tells it."""
    return alone(job, *args)[1]


def alone(job: str, *args: object, memory: int | None = None) -> tuple[float, float]:
    """Seconds of a job in a process of its own, which may have so many MB, and its peak in MB."""
    call = f"{job}({', '.join(map(repr, args))})"
    limit = None if memory is None else memory << 20
    # Not ru_maxrss, which a process starts with at what its parent used.
    code = (
        "import resource, time; from pathlib import Path; from benchmarks.evaluate import *;"
        f" limit = {limit};"
        " limit and resource.setrlimit(resource.RLIMIT_DATA, (limit, limit));"
        f" job = {call}; start = time.perf_counter(); job();"
        " print(time.perf_counter() - start,"
        " Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])"
    )
    root = Path(__file__).resolve().parent.parent
    result = subprocess.run(
        [sys.executable, "-c", code.replace("PosixPath", "Path")],
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
    )
    seconds, kilobytes = result.stdout.split()
    return float(seconds), int(kilobytes) / 1024


def run(quick: bool = False) -> list[Result]:
    sizes = QUICK if quick else FULL

    def target(text: str) -> str | None:
        return None if quick else text

    return [
        *malfunctions(sizes, target),
        *growth(sizes, target),
        *offsets(sizes, target),
        *sparse(sizes, target),
        *memory(sizes),
        *large(sizes, target),
        *logic_engines(sizes),
    ]


Target = Callable[[str], str | None]


def malfunctions(sizes: Sizes, target: Target) -> list[Result]:
    folder = turbines(sizes.devices, sizes.ticks)
    packed = engine(TURBINES, folder, "Malfunc")
    ours, joins, windows = timed(
        sizes.rounds, packed, by_hand(folder, *SELF_JOIN), by_hand(folder, *WINDOWS)
    )
    once_more, packing = best_of_each(sizes.rounds, packed, by_hand(folder, *PACKING))
    again, recursion = best_of_each(sizes.rounds, packed, engine(TURBINES, folder, "AtRisk"))
    by_pass = "one packing pass by hand"
    return [
        cost("evaluate/malfunc", once_more, by_pass, packing, target("<= 2.2x")),
        faster("evaluate/malfunc", ours, "row-wise SQL, self-joins", joins, target(">= 4x")),
        faster("evaluate/malfunc", ours, "row-wise SQL, windows", windows),
        cost("evaluate/at risk", recursion, "evaluate/malfunc", again, target("<= 2x")),
    ]


def growth(sizes: Sizes, target: Target) -> list[Result]:
    """Four times the facts should take four times as long; a quarter more is a machine's noise."""
    steps = [sizes.devices // 4, sizes.devices // 2, sizes.devices]
    jobs = [engine(TURBINES, turbines(n, sizes.ticks), "Malfunc") for n in steps]
    seconds = best_of_each(sizes.rounds, *jobs)
    names = [f"evaluate/{n * sizes.ticks / 1e6:g} M facts" for n in steps]
    results = [Result(names[0], seconds[0])]
    for i, most in ((1, "<= 2.5x"), (2, "<= 5x")):
        results.append(cost(names[i], seconds[i], names[0], seconds[0], target(most)))
    return results


def offsets(sizes: Sizes, target: Target) -> list[Result]:
    folder = turbines(sizes.few, sizes.long)
    near, far = (engine(AGAIN.format(k=k), folder, "Again") for k in (1, sizes.far))
    assert near() > 0
    assert far() > 0
    one, many = best_of_each(sizes.rounds, near, far)
    names = [f"evaluate/offset {k}" for k in (1, sizes.far)]
    return [Result(names[0], one), cost(names[1], many, names[0], one, target("<= 1.5x"))]


def sparse(sizes: Sizes, target: Target) -> list[Result]:
    folder = once(sizes.objects)
    results = []
    for query, name, sql in (("Next", "alone", NEXT), ("Followed", "joined", FOLLOWED)):
        ours, hand = timed(sizes.rounds, engine(ONCE, folder, query), by_hand(folder, *sql))
        peer = "the same by hand, row by row"
        results.append(cost(f"evaluate/sparse, {name}", ours, peer, hand, target("<= 1.5x")))
    return results


def memory(sizes: Sizes) -> list[Result]:
    folder = turbines(sizes.devices, sizes.ticks)
    ours = peak("engine", TURBINES, folder, "Malfunc")
    hand = peak("by_hand", folder, *SELF_JOIN)
    peer = "row-wise SQL, self-joins"
    return [Result("evaluate/malfunc, peak memory", ours, "MB", peer, ours / hand)]


def large(sizes: Sizes, target: Target) -> list[Result]:
    """Ten times the facts, in a process that may not have more memory than a laptop spares."""
    counts = [sizes.ticks, sizes.large]
    folders = [turbines(sizes.devices, ticks) for ticks in counts]
    small, whole = (
        alone("engine", TURBINES, folder, "Malfunc", memory=MEMORY) for folder in folders
    )
    names = [f"{sizes.devices * ticks / 1e6:g} M facts" for ticks in counts]
    name = f"evaluate/{names[1]}, {MEMORY} MB"
    times = 1.2 * sizes.large / sizes.ticks
    return [
        cost(name, whole[0], names[0], small[0], target(f"<= {times:g}x")),
        Result(f"{name}, peak memory", whole[1], "MB", names[0], whole[1] / small[1]),
    ]


def logic_engines(sizes: Sizes) -> list[Result]:
    peers = {"clingo": (with_clingo, sizes.clingo)}
    if find_spec("meteor_reasoner"):
        peers["meteor_reasoner"] = (with_meteor, sizes.meteor)
    results = []
    for peer, (job, (devices, ticks)) in peers.items():
        folder = turbines(devices, ticks)
        ours = engine(TURBINES, folder, "Malfunc")
        seconds, theirs = timed(1, ours, job(folder))
        name = f"evaluate/malfunc, {devices * ticks / 1e6:g} M facts"
        results.append(faster(name, seconds, peer, theirs))
    return results


if __name__ == "__main__":
    print_table(run())
