"""What a benchmark reports, how it is timed, and how results are shown and stored."""

from __future__ import annotations

import gc
import json
import operator
import os
import pkgutil
import platform
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from rich.console import Console
from rich.table import Table

_TARGET = re.compile(r"(>=|<=) *([0-9.]+) *(\S+)")
_COMPARE = {">=": operator.ge, "<=": operator.le}


@dataclass(frozen=True)
class Result:
    """One measurement.

    The ratio is against a peer measured in the same run, and whoever measures says which way
    round: `faster` and `cost` make the two usual kinds. A target speaks of the ratio when it
    ends in `x` (">= 3x") and of the value otherwise ("<= 2 s").
    """

    name: str
    value: float
    unit: str = "s"
    peer: str | None = None
    ratio: float | None = None
    target: str | None = None

    def __post_init__(self) -> None:
        if self.target is not None:
            _, _, unit = _parse(self.target)
            if unit != "x" and unit != self.unit:
                raise ValueError(f"target {self.target} is not in {self.unit}")
            if unit == "x" and self.ratio is None:
                raise ValueError(f"target {self.target} needs a ratio")

    @property
    def met(self) -> bool | None:
        """Whether the target was met; None without one."""
        if self.target is None:
            return None
        compare, bound, unit = _parse(self.target)
        measured = self.ratio if unit == "x" else self.value
        return compare(measured, bound)


Run: TypeAlias = Callable[[bool], list[Result]]


def _parse(target: str) -> tuple[Callable[[Any, Any], bool], float, str]:
    match = _TARGET.fullmatch(target)
    if match is None:
        raise ValueError(f"a target is written like '>= 3x' or '<= 2 s', not {target!r}")
    return _COMPARE[match[1]], float(match[2]), match[3]


# Timing


def best_of(n: int, fn: Callable[[], object]) -> float:
    """The least of n wall-clock times, in seconds."""
    return best_of_each(n, fn)[0]


def best_of_each(n: int, *fns: Callable[[], object]) -> list[float]:
    """The least time of each function, taking turns, so that a slow moment hits all of them."""
    best = [float("inf")] * len(fns)
    for _ in range(n):
        for i, fn in enumerate(fns):
            gc.collect()
            start = time.perf_counter()
            fn()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def faster(
    name: str, seconds: float, peer: str, peer_seconds: float, target: str | None = None
) -> Result:
    """How many times faster than the peer: 3.0 when the peer takes three times as long."""
    return Result(name, seconds, "s", peer, peer_seconds / seconds, target)


def cost(
    name: str, seconds: float, peer: str, peer_seconds: float, target: str | None = None
) -> Result:
    """How many times the peer's time: 2.0 when it takes twice as long as the peer."""
    return Result(name, seconds, "s", peer, seconds / peer_seconds, target)


# Running


def find(package: ModuleType) -> tuple[str, ...]:
    """Names of the benchmarks in a package: its modules, save those that serve them all.

    What several benchmarks share goes into modules whose names start with `_`.
    """
    names = (module.name for module in pkgutil.iter_modules(package.__path__))
    return tuple(sorted(n for n in names if n[0] != "_" and n not in ("harness", "compare")))


def load(package: ModuleType, name: str) -> Run:
    run: Run = import_module(f"{package.__name__}.{name}").run
    return run


# Showing and storing


def console() -> Console:
    """Standard output; wide enough for the tables where it is not a terminal."""
    return Console(width=None if sys.stdout.isatty() else 160)


def print_table(results: Iterable[Result]) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("benchmark")
    for column in ("measured", "ratio"):
        table.add_column(column, justify="right")
    for column in ("against", "target", ""):
        table.add_column(column)
    for r in results:
        verdict = {None: "", True: "[green]met[/]", False: "[red]missed[/]"}[r.met]
        ratio = "" if r.ratio is None else f"{r.ratio:.2f}x"
        table.add_row(
            r.name, f"{r.value:.4g} {r.unit}", ratio, r.peer or "", r.target or "", verdict
        )
    console().print(table)


def machine() -> dict[str, str | int | None]:
    """What the numbers depend on, and nothing that says whose machine it is."""
    details: dict[str, str | int | None] = {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
    }
    for package in ("duckdb", "pyarrow", "pyspark"):
        try:
            details[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            details[package] = None
    return details


def write_json(file: Path, results: Sequence[Result], quick: bool) -> None:
    entries = [{**asdict(r), "met": r.met} for r in results]
    data = {"machine": machine(), "quick": quick, "results": entries}
    file.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
