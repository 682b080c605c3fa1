"""Online streams whose answers wait for a window to come: when they are given, and at what cost."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.deep import examples

import tidelog
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
def rules(draw: st.DrawFn) -> Rule:
    low = draw(st.integers(-6, 3))
    ticks = draw(st.sampled_from((1, 2, 3, 5, 8, 9, 17, 33)))
    least = draw(st.sampled_from(sorted({1, ticks, min(2, ticks), draw(st.integers(1, ticks))})))
    bound = draw(st.booleans())
    return Rule(low, low + ticks - 1, least, bound, bound and draw(st.booleans()))


@examples(25)
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
