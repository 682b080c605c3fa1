"""Online streams over long windows: the same answers at the same ticks, at a cost that stays."""

from __future__ import annotations

import random
from typing import Any

import pytest

import tidelog
from tidelog.streaming import slices
from tidelog.streaming import stream as streaming
from tidelog.streaming.offline import OfflineAlgorithm
from tidelog.streaming.options import Emit, StreamMode

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


@pytest.mark.parametrize("mode", ["online", "offline"])
@pytest.mark.parametrize("words", ["some", "always", "at least 3"])
def test_a_tick_derives_as_much_whatever_the_length_of_the_window(
    words: str, mode: StreamMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 0
    plain = slices.derive

    def derive(*args: Any) -> Any:
        nonlocal count
        count += 1
        return plain(*args)

    monkeypatch.setattr(slices, "derive", derive)

    def work(ticks: int) -> int:
        """What is derived in 20 ticks, once the window is full."""
        nonlocal count
        rule = f"P(X) @ T :- Seen(X) @ T, not {words} Hot(X) @ [T-{ticks - 1}, T]."
        program = tidelog.parse(f"input Hot(x: text) @ t. input Seen(x: text) @ t. {rule}")
        stream = tidelog.Stream(program, "P", mode=mode)
        for tick in range(2 * ticks + 20):
            count = 0 if tick == 2 * ticks else count
            stream.push(tick, {"Hot": [("a",)] * (tick % 3), "Seen": [("a",), ("b",)]})
        assert stream.history <= ticks
        return count

    assert work(65) == work(400) > 0


def test_an_object_of_many_facts_is_kept_once_a_tick() -> None:
    program = tidelog.parse("input E(x: text, n: int) @ t. P(X) @ T :- some E(X, _) @ [T-99, T].")
    stream = tidelog.Stream(program, "P")
    assert isinstance(stream._algorithm, OfflineAlgorithm)
    assert stream._algorithm.by_tick is not None
    for tick in range(150):
        step = stream.push(tick, {"E": [("a", n) for n in range(20)] if tick < 140 else []})
        assert step.answers["P"].to_pylist() == [{"x": "a", "time": tick}]
    assert stream.history == 89
