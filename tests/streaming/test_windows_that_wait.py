"""Online streams whose answers wait for a window to come: when they are given, and at what cost."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from support.deep import examples

import tidelog
from tidelog.evaluation.possible_derivations import PossibleDerivations
from tidelog.streaming.cells import Cell, Component
from tidelog.streaming.network import Network


@dataclass(frozen=True)
class Rule:
    """`P(X) @ T :- [A(X) @ T,] [not] at least K A(X) @ [T+low, T+high].`"""

    low: int
    high: int
    least: int
    bound: bool
    negated: bool

    @property
    def text(self) -> str:
        window = f"at least {self.least} A(X) @ [T{self.low:+}, T{self.high:+}]"
        if self.least == 1:
            window = window.replace("at least 1", "some")
        if self.least == self.high - self.low + 1:
            window = window.replace(f"at least {self.least}", "always")
        before = "A(X) @ T, " if self.bound else ""
        return f"input A(x: text) @ t. P(X) @ T :- {before}{'not ' * self.negated}{window}."

    def holds(self, times: set[int], tick: int) -> bool:
        """Whether P holds of an object at a tick, that has A at these times."""
        if self.bound and tick not in times:
            return False
        there = sum(tick + i in times for i in range(self.low, self.high + 1))
        return (there >= self.least) is not self.negated

    def open(self, times: set[int], tick: int, tin: int) -> bool:
        """Whether what comes after tin may change that: it does most if all comes, or nothing."""
        coming = set(range(tin + 1, max(tin, tick + self.high) + 1))
        return self.holds(times, tick) is not self.holds(times | coming, tick)


@st.composite
def rules(draw: st.DrawFn, longest: int = 33) -> Rule:
    low = draw(st.integers(-6, 3))
    ticks = draw(st.sampled_from([n for n in (1, 2, 3, 5, 8, 9, 17, 33) if n <= longest]))
    least = draw(st.sampled_from(sorted({1, ticks, min(2, ticks), draw(st.integers(1, ticks))})))
    bound = draw(st.booleans())
    return Rule(low, low + ticks - 1, least, bound, bound and draw(st.booleans()))


@examples(4, deep=250)
@given(rules(), st.randoms(use_true_random=False), st.sampled_from((0.05, 0.3, 0.7, 0.95)))
def test_each_tick_is_answered_as_soon_as_it_is_decided(
    rule: Rule, pick: random.Random, share: float
) -> None:
    stream = tidelog.Stream(tidelog.parse(rule.text), "P", mode="online", from_=0)
    known: dict[str, set[int]] = {"a": set(), "b": set(), "never seen": set()}
    due = 0
    for tin in range(60):
        come = [x for x in "ab" if pick.random() < share]
        for x in come:
            known[x].add(tin)
        step = stream.push(tin, {"A": [(x,) for x in come]})
        first = due
        while due <= tin and not any(rule.open(times, due, tin) for times in known.values()):
            due += 1
        assert step.tout == due - 1
        given_ = {(row["x"], row["time"]) for row in step.answers["P"].to_pylist()}
        asked = [(x, t) for x in known for t in range(first, due)]
        assert given_ == {(x, t) for x, t in asked if rule.holds(known[x], t)}


@examples(4, deep=150)
@given(rules(8), st.randoms(use_true_random=False), st.sampled_from((0.1, 0.5, 0.95)))
def test_what_is_said_to_do_does_and_nothing_less(
    rule: Rule, pick: random.Random, share: float
) -> None:
    """As many facts as are missing, at the last ticks that are left; and one fewer."""
    stream = tidelog.Stream(tidelog.parse(rule.text), "P", mode="online", from_=0)
    known: dict[str, set[int]] = {"a": set(), "b": set()}
    told = 0
    for tin in range(20):
        come = [x for x in "ab" if pick.random() < share]
        for x in come:
            known[x].add(tin)
        stream.push(tin, {"A": [(x,) for x in come]})
        for pending in stream.pending(4) if tin % 4 == 3 else ():
            if rule.negated or rule.low == rule.high:
                assert pending.windows == ()
                continue
            (counted,) = pending.windows
            (x,) = pending.args
            times = set() if x is None else known[str(x)]
            assert counted.first == pending.time + rule.low
            assert counted.last == pending.time + rule.high
            assert counted.least == rule.least
            missing = counted.least - counted.there
            assert missing > 0
            enough = set(range(counted.last - missing + 1, counted.last + 1))
            assert min(enough) > tin
            assert rule.holds(times | enough, pending.time)
            assert not rule.holds(times | (enough - {counted.last}), pending.time)
            told += 1
    event(f"told: {min(told, 1)}")


def test_in_words() -> None:
    def said(rule: str, *times: int) -> list[str]:
        program = tidelog.parse(f"tick 1m. input A(x: text) @ t. P(X) @ T :- A(X) @ T, {rule}.")
        stream = tidelog.Stream(program, "P", mode="online")
        for tick in range(5):
            stream.push(tick, {"A": [("a",)] if tick in times else []})
        return [p.text() for p in stream.pending()]

    assert said("at least 3 A(X) @ [T, T+70m]", 0, 4) == [
        "P(a) @ 0 may still come: 2 of 3 A(a) so far, a third by 70 would do",
        "P(a) @ 4 may still come: 1 of 3 A(a) so far, 2 more by 74 would do",
    ]
    assert said("some A(X) @ [T+1, T+70]", 0) == [
        "P(a) @ 0 may still come: one A(a) by 70 would do"
    ]
    assert said("always A(X) @ [T, T+7]", 3, 4) == [
        "P(a) @ 3 may still come: A(a) must go on until 10",
        "P(a) @ 4 may still come: A(a) must go on until 11",
    ]


WAITING = [
    ("P(X) @ T :- some A(X) @ [T, T+{}].", 0.05),
    ("P(X) @ T :- A(X) @ T, some A(X) @ [T+1, T+{}].", 0.05),
    ("P(X) @ T :- A(X) @ T, not some A(X) @ [T+1, T+{}].", 0.05),
    ("P(X) @ T :- always A(X) @ [T-5, T+{}].", 0.98),
    ("P(X) @ T :- at least 2 A(X) @ [T, T+{}].", 0.1),
    ("P(X) @ [T-{}, T] :- A(X) @ T.", 0.05),
]


def derived(rule: str, share: float, ticks: int, monkeypatch: pytest.MonkeyPatch) -> float:
    """Cells that are derived a tick, once the window is full."""
    count = 0
    derive = Network._evaluate

    def counted(self: Network, component: Component, layer: int, cell: Cell) -> bool:
        nonlocal count
        count += 1
        return derive(self, component, layer, cell)

    monkeypatch.setattr(Network, "_evaluate", counted)
    program = tidelog.parse(f"input A(x: text) @ t. {rule.format(ticks)}")
    stream = tidelog.Stream(program, "P", mode="online")
    pick = random.Random(7)
    for tick in range(ticks + 150):
        count = 0 if tick == ticks else count
        stream.push(tick, {"A": [("a",)] if pick.random() < share else []})
    monkeypatch.setattr(Network, "_evaluate", derive)
    return count / 150


@pytest.mark.parametrize(("rule", "share"), WAITING)
def test_the_cost_of_a_tick_hardly_grows_with_the_window(
    rule: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight times the ticks are three more steps of doubling."""
    short = derived(rule, share, 48, monkeypatch)
    long = derived(rule, share, 384, monkeypatch)
    assert long <= 2.2 * short, (short, long)


def test_what_was_tried_in_vain_is_not_tried_again() -> None:
    """Of a window that counts there are many ways to get to each number of ticks."""
    program = tidelog.parse(
        "input E(x: text) @ t. input G(x: text) @ t.\n"
        "P(X) @ T :- at least 9 E(X) @ [T, T+16], not G(X) @ T.\n"
    )
    facts: Any = {"E": [("a", t) for t in range(8) if t % 3 != 2], "G": []}
    tried = 0
    matches = PossibleDerivations._matches

    def counted(self: PossibleDerivations, *goal: Any) -> Any:
        nonlocal tried
        tried += 1
        return matches(self, *goal)

    with patch.object(PossibleDerivations, "_matches", counted):
        verdict = tidelog.definitive(program, "P", facts, 7, 0)
    (one,) = [p for p in verdict.pending if p.args == ("a",)]
    assert str(one) == "P(a) @ 0 may still come: 6 of 9 E(a) so far, 3 more by 16 would do"
    assert tried < 200
