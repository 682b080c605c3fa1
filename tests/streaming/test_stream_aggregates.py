"""Streams of programs with aggregates: in every way, what is streamed is what is evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from oracle.aggregates import (
    programs_with_aggregates,
    programs_with_cycles,
    programs_with_reached_values,
)
from oracle.generate import Case
from support.deep import examples
from support.streams import rows, streams_what_is_evaluated

import tidelog
from tidelog.errors import DataError
from tidelog.evaluation import gathers
from tidelog.streaming import offline
from tidelog.streaming.stream import Growing, Overtaken, warn_overtaken

WAYS: tuple[dict[str, object], ...] = (
    {},
    {"emit": "eager"},
    {"history": "strict"},
    {"mode": "online"},
    {"mode": "online", "emit": "eager"},
    {"intervals": True},
)
randoms = st.randoms(use_true_random=False)


@examples(4, deep=1000)
@given(
    programs_with_aggregates(connected=True),
    st.integers(0, 3),
    randoms,
    st.sampled_from(WAYS),
)
def test_every_way(case: Case, late: int, random: Random, how: dict[str, object]) -> None:
    event("compared" if streams_what_is_evaluated(case, late, random, **how) else "refused")


@examples(4, deep=500)
@given(programs_with_reached_values(connected=True), randoms, st.sampled_from(WAYS))
def test_every_way_to_reach_a_value(case: Case, random: Random, how: dict[str, object]) -> None:
    event("compared" if streams_what_is_evaluated(case, 1, random, **how) else "refused")


@examples(3, deep=400)
@given(programs_with_aggregates(connected=True), randoms, st.sampled_from(WAYS))
def test_every_way_with_words(case: Case, random: Random, how: dict[str, object]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathers, "MANY_ROWS", 0)
        patch.setattr(offline, "MOST_AGGREGATE_FACTS", -1)  # all in DuckDB
        streams_what_is_evaluated(case, 1, random, **how)


class Alternating:
    """A limit that some pushes are above and some below."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def __ge__(self, facts: int) -> bool:
        return self.random.random() < 0.6


@examples(4, deep=600)
@given(
    st.one_of(programs_with_aggregates(connected=True), programs_with_cycles(connected=True)),
    randoms,
    st.sampled_from(WAYS),
    st.booleans(),
)
def test_from_ticks_to_waves_and_back(
    tmp_path_factory: pytest.TempPathFactory,
    case: Case,
    random: Random,
    how: dict[str, object],
    snapshots: bool,
) -> None:
    """Blocks and facts that one of them has kept are what the other goes on from."""
    file = tmp_path_factory.mktemp("kept") / "snapshot" if snapshots else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offline, "MOST_AGGREGATE_FACTS", Alternating(random))
        event("compared" if streams_what_is_evaluated(case, 1, random, file, **how) else "refused")


@examples(2, deep=200)
@given(programs_with_aggregates(connected=True), randoms, st.sampled_from(WAYS))
def test_across_snapshots(
    tmp_path_factory: pytest.TempPathFactory, case: Case, random: Random, how: dict[str, object]
) -> None:
    file: Path = tmp_path_factory.mktemp("kept") / "snapshot"
    streams_what_is_evaluated(case, 1, random, file, **how)


@dataclass(frozen=True)
class Asked:
    """`Q(X) @ T :- E(X) @ T, count(P(X, _) @ [T+low, T+high]) >= 3.`, or a value to be reached."""

    measure: str
    low: int
    high: int
    least: int

    @property
    def text(self) -> str:
        at = f"[T{self.low:+}, T{self.high:+}]" if self.low < self.high else f"T{self.low:+}"
        counts = self.measure == "count"
        of, value = ("", "_") if counts else ("V : ", "V")
        operator = "<=" if self.measure == "min" else ">="
        asked = f"{self.measure}({of}P(X, {value}) @ {at}) {operator} {self.least}"
        return f"input E(x: text) @ t. input P(x: text, v: int) @ t. Q(X) @ T :- E(X) @ T, {asked}."

    def holds(self, known: set[tuple[str, int, int]], x: str, tick: int) -> bool:
        values = [v for y, v, t in known if y == x and self.low <= t - tick <= self.high]
        if self.measure == "count":
            return len(values) >= self.least
        if self.measure == "min":
            return any(v <= self.least for v in values)
        return any(v >= self.least for v in values)


@examples(6, deep=300)
@given(
    st.builds(
        lambda measure, low, more, least: Asked(measure, low, low + more, least),
        st.sampled_from(("count", "max", "min")),
        st.integers(-3, 3),
        st.sampled_from((0, 1, 2, 4, 7, 9)),
        st.integers(1, 4),
    ),
    randoms,
    st.sampled_from((0.05, 0.2, 0.6)),
)
def test_online_each_tick_is_answered_as_soon_as_it_is_decided(
    asked: Asked, pick: Random, share: float
) -> None:
    stream = tidelog.Stream(tidelog.parse(asked.text), ["Q"], mode="online", from_=0)
    known: set[tuple[str, int, int]] = set()
    begun: dict[int, set[str]] = {}
    due = 0
    for tin in range(25):
        begun[tin] = {x for x in "ab" if pick.random() < 0.3}
        new = {(x, v, tin) for x in "ab" for v in range(6) if pick.random() < share}
        known |= new
        facts = {"E": [(x,) for x in begun[tin]], "P": [(x, v) for x, v, _ in new]}
        step = stream.push(tin, facts)
        first = due
        while due <= tin and (
            tin >= due + asked.high or all(asked.holds(known, x, due) for x in begun[due])
        ):
            due += 1
        assert step.tout == due - 1
        want = {(x, t) for t in range(first, due) for x in begun[t] if asked.holds(known, x, t)}
        assert {(row["x"], row["time"]) for row in step.answers["Q"].to_pylist()} == want


RULES = """
    input Pulse(p: text, v: int) @ time.
    Mean(P, A) @ T :- Pulse(P, _) @ T, A = avg(V : Pulse(P, V) @ [T-2, T+1]).
    Count(P, N) @ T :- Pulse(P, _) @ T, N = count(Pulse(P, _) @ [T-2, T]).
"""


def test_an_aggregate_is_final_once_its_window_has_arrived() -> None:
    stream = tidelog.Stream(tidelog.parse(RULES), ["Mean", "Count"])
    step = stream.push(0, {"Pulse": [("a", 1)]})
    assert step.answers["Mean"].num_rows == 0
    assert step.answers["Count"].to_pylist() == [{"p": "a", "n": 1, "time": 0}]
    step = stream.push(1, {"Pulse": [("a", 2)]})
    assert step.answers["Mean"].to_pylist() == [{"p": "a", "a": 1.5, "time": 0}]


ONLINE = """
    input Pulse(p: text, v: int) @ time.
    input Near(p: text, q: text).
    input Alarm(p: text) @ time.
    Calm(P, A, N) @ T :- Pulse(P, _) @ T, A = avg(V : Pulse(P, V) @ [T, T+2]), not Alarm(P) @ T+3,
        N = count(Near(P, _)).
    Settles(P, A) @ T :- Pulse(P, 0) @ T, A = max(V : Pulse(P, V) @ [T, T+2]), Pulse(P, 7) @ T+1.
"""
NEAR = {"Near": [("a", "b"), ("a", "c"), ("c", "a")]}


def test_online_an_answer_comes_when_its_aggregate_and_all_else_is_known() -> None:
    stream = tidelog.Stream(tidelog.parse(ONLINE), ["Calm"], mode="online", rigid=NEAR)
    assert not stream.push(0, {"Pulse": [("a", 1), ("c", 5)]}).answers["Calm"].num_rows
    assert not stream.push(2, {"Pulse": [("a", 2)]}).answers["Calm"].num_rows
    step = stream.push(3, {"Alarm": [("c",)]})
    assert step.answers["Calm"].to_pylist() == [{"p": "a", "a": 1.5, "n": 2, "time": 0}]
    rest = stream.close().answers["Calm"].to_pylist()
    assert rest == [{"p": "a", "a": 2.0, "n": 2, "time": 2}]


def test_online_what_cannot_come_any_more_is_not_waited_for() -> None:
    """Nothing of tick 0 can settle after tick 1, though no window has arrived by then."""
    stream = tidelog.Stream(tidelog.parse(ONLINE), ["Settles"], mode="online", rigid=NEAR)
    assert stream.push(0, {"Pulse": [("a", 0)]}).tout == -1
    assert stream.push(1, {"Pulse": [("a", 6)]}).tout == 1
    assert stream.push(2, {"Pulse": [("a", 0)]}).tout == 1
    assert stream.push(3, {"Pulse": [("a", 7)]}).tout == 1
    (waits,) = stream.pending()
    assert str(waits) == "Settles(a, _) @ 2 waits for max(V : Pulse(a, V) @ [2, 4])"
    awaited = {"predicate": "Pulse", "args": ["a", None], "measure": "max", "of": 1}
    assert waits.as_json()["waits_for"] == [{**awaited, "from": 2, "to": 4}]
    assert stream.history == 4  # two facts for windows that are open, the same two for the rest
    step = stream.push(4)
    assert step.answers["Settles"].to_pylist() == [{"p": "a", "a": 7, "time": 2}]
    assert step.tout == 4
    assert stream.history == 1  # the window from 3 to 5 is open


FIXED = """
    input E(v: int) @ t.
    P @ T :- E(_) @ T, E(_) @ 5.
    Q(N) @ T :- P @ T, N = count(P @ T+1).
"""


def test_online_an_aggregate_over_facts_at_fixed_ticks_waits_for_them(tmp_path: Path) -> None:
    def start() -> tidelog.Stream:
        return tidelog.Stream(tidelog.parse(FIXED), ["Q"], mode="online")

    stream = start()
    for tick in (2, 3):
        step = stream.push(tick, {"E": [(1,)]})
        assert not step.answers["Q"].num_rows
    awaited = [("Q(_) @ 2 may still come", 5), ("Q(_) @ 3 may still come", 5)]
    assert [(str(p), p.until) for p in stream.pending()] == awaited
    assert len(stream.pending(1)) == 1
    stream.snapshot(tmp_path / "kept")
    stream = start()
    stream.restore(tmp_path / "kept")
    assert [(str(p), p.until) for p in stream.pending()] == awaited
    step = stream.push(5, {"E": [(1,)]})
    assert [(row["n"], row["time"]) for row in step.answers["Q"].to_pylist()] == [(1, 2), (0, 3)]
    assert (step.tout, [str(p) for p in stream.pending()]) == (4, ["Q(_) @ 5 may still come"])
    assert stream.close().answers["Q"].to_pylist() == [{"n": 0, "time": 5}]


BLOCKING = """
    input E(x: text) @ t.
    Until(X) @ T :- E(X) @ T.
    Until(X) @ T :- Until(X) @ T+1.
    Q(N) @ T :- E(_) @ T, N = count(Until(_) @ T).
"""


def test_online_what_may_wait_for_ever_is_answered_at_the_end() -> None:
    with pytest.warns(Growing, match=r"answers may wait for ever, since Until @ T needs"):
        stream = tidelog.Stream(tidelog.parse(BLOCKING), ["Q"], mode="online")
    for tick in (0, 2):
        assert stream.push(tick, {"E": [(f"x{tick}",)]}).tout == -1
    assert [(str(p), p.until) for p in stream.pending(1)] == [("Q(_) @ 0 may still come", None)]
    rows = stream.close().answers["Q"].to_pylist()
    assert [(row["n"], row["time"]) for row in rows] == [(2, 0), (1, 2)]


def test_what_is_added_up_needs_a_type() -> None:
    program = tidelog.parse("P(S) @ T :- E(_) @ T, S = sum(V : E(V) @ T).")
    with pytest.raises(DataError, match="declare it, as in `input E"):
        tidelog.Stream(program, "P")


def test_an_aggregate_of_a_sparse_input_is_warned_of() -> None:
    deps = tidelog.Stream(tidelog.parse(RULES), ["Count"]).deps
    with pytest.warns(Overtaken, match=r"an aggregate of `Pulse` .* without waiting for `Pulse`"):
        warn_overtaken(deps, ["Pulse"])


def test_blocks_on_both_sides_of_tick_0() -> None:
    """What is kept lies below zero, what is new above it."""
    rule = "N(X, C) @ T :- F(X, 0) @ T, C = count(F(X, _) @ [T-2, T])."
    program = tidelog.parse(f"input F(x: text, v: int) @ time. {rule}")
    stream = tidelog.Stream(program, "N")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathers, "MANY_ROWS", 0)
        patch.setattr(offline, "MOST_AGGREGATE_FACTS", -1)
        for tick in range(-4, 4):
            step = stream.push(tick, {"F": [("a", 0), ("a", 1)]})
            number = 2 * min(tick + 5, 3)
            assert rows(step.answers["N"]) == [("a", number, tick)]
