"""What docs/alerts.md says of Prometheus, against Prometheus's own definitions.

A series has a sample a minute. An alerting rule with `for` fires once the time since its first
true evaluation is `for`; a range `[5m]` has the samples younger than five minutes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import pytest
from support.places import ROOT

import tidelog

PAGE = (ROOT / "docs" / "alerts.md").read_text("utf-8")
MINUTES = 400
Series = dict[int, int]  # the samples, by minute


def fires_for(minutes: int) -> Callable[[Series], set[int]]:
    """`for:` of an alerting rule, evaluated once a minute."""

    def firing(error: Series) -> set[int]:
        ticks, active_since = set(), None
        for now in range(MINUTES):
            if not error.get(now):
                active_since = None
                continue
            active_since = now if active_since is None else active_since
            if now - active_since >= minutes:
                ticks.add(now)
        return ticks

    return firing


def recent(series: Series, now: int, minutes: int) -> list[int]:
    """A range selector, `series[5m]`: open to the left, in order."""
    return [series[t] for t in sorted(series) if now - minutes < t <= now]


def three_of_five(error: Series) -> set[int]:
    errors = {t: value for t, value in error.items() if value}
    return {now for now in range(MINUTES) if len(recent(errors, now, 5)) >= 3}


def five_changes(error: Series) -> set[int]:
    def changes(now: int) -> int:
        values = recent(error, now, 21)
        return sum(a != b for a, b in pairwise(values))

    return {now for now in range(MINUTES) if changes(now) >= 5}


def absent(error: Series) -> set[int]:
    up = {t: 1 for t, value in error.items() if value}
    return {now for now in range(MINUTES) if not recent(up, now, 4)}


def answers(rules: str, error: Series) -> set[int]:
    program = tidelog.parse(f"input Error(s: text) @ t.\n{rules}")
    facts = {"Error": [("a", t) for t, value in error.items() if value]}
    return set(program.query("Q", facts)["time"].to_pylist())


@pytest.fixture
def error() -> Series:
    """Errors in spells of one to nine minutes, so that every length is there."""
    chance, series = random.Random(20261118), dict.fromkeys(range(MINUTES), 0)
    start = 30
    while start < MINUTES - 20:
        length = chance.randint(1, 9)
        series |= dict.fromkeys(range(start, start + length), 1)
        start += length + chance.randint(1, 9)
    return series


@pytest.mark.parametrize(
    ("statement", "window", "prometheus"),
    [
        ("`for: 5m` is `always Error(S) @ [T-5, T]`", "always Error(S) @ [T-5, T]", fires_for(5)),
        ("evaluated once a minute | `for: 4m` |", "always Error(S) @ [T-4, T]", fires_for(4)),
        ("`count_over_time(error[5m]) >= 3`", "at least 3 Error(S) @ [T-4, T]", three_of_five),
    ],
)
def test_the_window_is_the_alert(
    statement: str, window: str, prometheus: Callable[[Series], set[int]], error: Series
) -> None:
    assert statement in PAGE
    wanted = prometheus(error)
    assert wanted
    assert answers(f"Q(S) @ T :- {window}.", error) == wanted


def test_three_beginnings_are_five_changes(error: Series) -> None:
    assert "`changes(error[21m])`" in PAGE
    begins = "Begins(S) @ T :- Error(S) @ T, not Error(S) @ T-1."
    flapping = answers(f"{begins} Q(S) @ T :- at least 3 Begins(S) @ [T-19, T].", error)
    assert flapping
    assert flapping <= five_changes(error)
    assert flapping != five_changes(error)


def test_a_timeout_fires_once_and_absence_goes_on(error: Series) -> None:
    assert "`absent_over_time(up[4m])`" in PAGE
    lost = answers("Q(S) @ T :- Error(S) @ T-4, not some Error(S) @ [T-3, T].", error)
    silent = absent(error)
    last = max(t for t, value in error.items() if value)  # a query ends with its data
    assert lost
    assert lost == {t for t in silent if t - 1 not in silent and 0 < t <= last}
    assert {0, 1} <= silent - lost
