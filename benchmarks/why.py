"""`tidelog why` on 10 M facts in Parquet: from opening the file to a proof, or to a near miss.

The peer is evaluating the same query over everything, which `why` must not do. Goals are found by
the engine beforehand, so that it is known which hold.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import tidelog
from benchmarks.evaluate import FULL, QUICK, TURBINES, engine, turbines
from benchmarks.harness import Result, best_of_each, cost, print_table


def explain(folder: Path, goal: str, holds: bool) -> Callable[[], None]:
    program = tidelog.parse(TURBINES)

    def job() -> None:
        assert program.why(goal, folder).holds == holds, goal

    return job


def goals(folder: Path, ticks: int) -> dict[str, tuple[str, bool]]:
    """Questions by name: a fact, and whether it holds."""
    program = tidelog.parse(TURBINES)
    middle = ticks // 2
    held = program.query("Malfunc", folder, from_=middle, to=middle).column("x").to_pylist()
    devices = program.query("Near", folder).column("a").to_pylist()
    quiet = min(set(devices) - set(held))
    risk = program.query("AtRisk", folder, from_=2, to=2).column("y").to_pylist()
    safe = min(set(devices) - set(risk))
    return {
        "holds": (f"Malfunc({held[0]}) @ {middle}", True),
        "does not hold": (f"Malfunc({quiet}) @ {middle}", False),
        "recursive, holds": (f"AtRisk({held[0]}) @ {ticks - 1}", True),
        "recursive, does not hold": (f"AtRisk({safe}) @ 2", False),
        # Its near misses are about all devices, at all ticks.
        "nobody": (f"AtRisk(nobody) @ {ticks - 1}", False),
    }


def run(quick: bool = False) -> list[Result]:
    sizes = QUICK if quick else FULL
    folder = turbines(sizes.devices, sizes.ticks)
    asked = goals(folder, sizes.ticks)
    jobs = [explain(folder, goal, holds) for goal, holds in asked.values()]
    whole = {q: engine(TURBINES, folder, q) for q in ("Malfunc", "AtRisk")}
    *times, malfunc, at_risk = best_of_each(1 if quick else 3, *jobs, *whole.values())
    results = []
    for (name, (goal, _)), seconds in zip(asked.items(), times, strict=True):
        query, peer = ("Malfunc", malfunc) if goal.startswith("M") else ("AtRisk", at_risk)
        target = None if quick else "<= 10 s" if name == "nobody" else "<= 3 s"
        results.append(cost(f"why/{name}", seconds, f"all of {query}", peer, target))
    return results


if __name__ == "__main__":
    print_table(run())
