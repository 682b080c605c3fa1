"""Online streams over long windows: the same answers at the same ticks, at a cost that stays."""

from __future__ import annotations

import random

import pytest

import tidelog
from tidelog.streaming import stream as streaming
from tidelog.streaming.options import Emit

RULES = [
    "P(X) @ T :- always Hot(X) @ [T-69, T].",
    "P(X) @ T :- some Hot(X) @ [T-90, T-20].",
    "P(X) @ T :- Hot(X) @ T, not some Hot(X) @ [T-70, T-1].",
    "P(X) @ T :- at least 3 Hot(X) @ [T-79, T], not Hot(X) @ T-1.",
    "P(X) @ [T, T+75] :- Hot(X) @ T, not Hot(X) @ T-1.",
]


def told(
    rule: str, facts: list[tuple[str, int]], emit: Emit = "definitive"
) -> list[list[dict[str, object]]]:
    """What each tick tells."""
    program = tidelog.parse(f"input Hot(x: text) @ t. {rule}")
    stream = tidelog.Stream(program, "P", mode="online", emit=emit)
    steps = [
        stream.push(t, {"Hot": [(x,) for x, at in facts if at == t]}).answers["P"].to_pylist()
        for t in range(160)
    ]
    assert stream.pending() == []
    return steps


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("emit", ["definitive", "eager"])
def test_the_same_at_every_tick(rule: str, emit: Emit, monkeypatch: pytest.MonkeyPatch) -> None:
    pick = random.Random(rule)
    share = 0.99 if "always" in rule else 0.04
    facts = [(x, t) for t in range(160) for x in "ab" if pick.random() < share]
    quick = told(rule, facts, emit)
    monkeypatch.setattr(streaming, "LONG_WINDOW", 10**9)
    assert told(rule, facts, emit) == quick
    assert any(quick)


def test_what_waits_is_followed_all_the_same() -> None:
    """Where answers wait for what is to come, an online stream says so."""
    program = tidelog.parse("input H @ t. P @ T :- H @ T, not some H @ [T+1, T+80].")
    stream = tidelog.Stream(program, "P", mode="online")
    stream.push(0, {"H": [()]})
    assert str(stream.pending()[0]).startswith("P @ 0")
