"""Checking takes work in proportion to the file, whatever is in it.

Counted in calls, not seconds: the count is the same on every machine and in every run. The times
are in benchmarks/check.py, whose files are used here.
"""

from __future__ import annotations

import cProfile
from importlib import import_module

import pytest
from support.places import ROOT


def calls(kind: str, rules: int, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.syspath_prepend(ROOT)
    bench = import_module("benchmarks.check")
    job = bench.job(getattr(bench, kind)(rules).encode())
    profile = cProfile.Profile()
    profile.runcall(job)
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize(
    "kind", ["plant", "predicates", "mistakes", "integers", "absence", "one_line", "syntax"]
)
def test_twice_the_rules_twice_the_calls(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = (calls(kind, n, monkeypatch) for n in (400, 1600))
    assert 3.5 < large / small < 4.4
