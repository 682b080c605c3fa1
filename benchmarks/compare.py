"""`python -m benchmarks.compare OLD.json NEW.json`: what changed between two runs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.harness import console


@dataclass(frozen=True)
class Change:
    """A benchmark in two runs; None where a run does not have it."""

    name: str
    unit: str
    old: float | None
    new: float | None

    @property
    def ratio(self) -> float | None:
        """New over old: below 1 is faster, where the unit is a time."""
        if self.old is None or self.new is None or not self.old:
            return None
        return self.new / self.old


def compare(old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    """Benchmarks in the order of the new run, then those it no longer has."""
    before = {r["name"]: r for r in old["results"]}
    after = {r["name"]: r for r in new["results"]}

    def value(results: dict[str, Any], name: str) -> float | None:
        return results[name]["value"] if name in results else None

    return [
        Change(name, {**before, **after}[name]["unit"], value(before, name), value(after, name))
        for name in dict.fromkeys([*after, *before])
    ]


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Why the two runs may not be comparable."""
    settings = [{**run["machine"], "quick": run["quick"]} for run in (old, new)]
    keys = dict.fromkeys([*settings[0], *settings[1]])
    return [
        f"{key}: {settings[0].get(key)} then, {settings[1].get(key)} now"
        for key in keys
        if settings[0].get(key) != settings[1].get(key)
    ]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    options = parser.parse_args(argv)
    old, new = (json.loads(f.read_text(encoding="utf-8")) for f in (options.old, options.new))

    table = Table(box=None, pad_edge=False)
    table.add_column("benchmark")
    for column in ("old", "new", "new/old"):
        table.add_column(column, justify="right")
    for change in compare(old, new):
        shown = ["" if v is None else f"{v:.4g} {change.unit}" for v in (change.old, change.new)]
        table.add_row(change.name, *shown, "" if change.ratio is None else f"{change.ratio:.2f}x")
    console().print(table)
    for difference in differences(old, new):
        console().print(f"not the same in both runs: {difference}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
