"""Aggregates over windows of a stream: what is kept are blocks, and the answers are the same."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle.aggregates import measured
from support.deep import examples
from support.streams import rows

import tidelog
from tidelog.analysis.blocks import blocks_kept
from tidelog.analysis.passes import passes
from tidelog.evaluation import gathers
from tidelog.language.program import Measure

RULES = """
    input Pay(card: text, id: int, amount: {type}) @ at.
    input Ask(card: text) @ at.
    Q(C, N) @ T :- Ask(C) @ T, N = {measure}({of}Pay(C, _, {arg}) @ [T-{back}, T+{ahead}]).
"""
WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"emit": "eager"},
    {"history": "strict"},
    {"mode": "online"},
    {"mode": "online", "emit": "eager"},
)
HOSTILE = (0.0, -0.0, 5e-324, -5e-324, 1e-300, 1e16, 1.0, -1e16, 0.1, 1e308, -1e308, 1.7e308)
floats = st.one_of(
    st.sampled_from((*HOSTILE, math.inf, -math.inf)),
    st.sampled_from(HOSTILE),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(10**6), 10**6).map(lambda n: n / 100),
)
integers = st.one_of(st.sampled_from((2**63 - 1, -(2**63), 0, 1)), st.integers(-(2**63), 2**63 - 1))
Fact = tuple[str, int, Any]


def program(measure: Measure, type_: str, back: int, ahead: int) -> tidelog.Program:
    of, arg = ("", "_") if measure is Measure.COUNT else ("A : ", "A")
    text = RULES.format(measure=measure, type=type_, of=of, arg=arg, back=back, ahead=ahead)
    return tidelog.parse(text)


def ticks_of_facts(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[list[Fact]]]:
    """Facts by tick; of some ticks there are none."""
    fact = st.tuples(st.sampled_from("ab"), st.integers(0, 3), values)
    return st.lists(st.lists(fact, max_size=8), min_size=1, max_size=9)


def bits(value: object) -> object:
    """A value that is equal to another only if it is the same, bit by bit."""
    return value.hex() if isinstance(value, float) else value


def streamed(
    rules: tidelog.Program, ticks: list[list[Fact]], file: Path, how: dict[str, Any], random: Random
) -> list[tuple[Any, ...]]:
    """The answers of a stream that is broken off now and then, and goes on from a snapshot."""
    stream = tidelog.Stream(rules, ["Q"], **how)
    answers: list[tuple[Any, ...]] = []
    for tick, facts in enumerate(ticks):
        step = stream.push(tick, {"Pay": facts, "Ask": [("a",), ("b",)]})
        answers += rows(step.answers["Q"])
        if random.random() < 0.3:
            stream.snapshot(file)
            stream = tidelog.Stream(rules, ["Q"], **how)
            stream.restore(file)
    return answers + rows(stream.close().answers["Q"])


@examples(7, deep=2000)
@given(
    st.sampled_from(Measure),
    st.one_of(
        st.tuples(st.just("float"), ticks_of_facts(floats)),
        st.tuples(st.just("int"), ticks_of_facts(integers)),
    ),
    st.integers(1, 4),
    st.integers(0, 2),
    st.sampled_from(WAYS),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_every_measure_of_hostile_numbers(
    tmp_path_factory: pytest.TempPathFactory,
    measure: Measure,
    given_: tuple[str, list[list[Fact]]],
    back: int,
    ahead: int,
    how: dict[str, Any],
    words: bool,
    random: Random,
) -> None:
    type_, ticks = given_
    rules = program(measure, type_, back, ahead)
    with pytest.MonkeyPatch.context() as patch:
        if words:
            patch.setattr(gathers, "MANY_ROWS", 0)
        file: Path = tmp_path_factory.mktemp("kept") / "snapshot"
        answers = streamed(rules, ticks, file, how, random)
    want: set[tuple[Any, ...]] = set()
    for tick in range(len(ticks)):
        for card in "ab":
            window = range(max(0, tick - back), min(len(ticks), tick + ahead + 1))
            facts_there = {(f, t) for t in window for f in ticks[t] if f[0] == card}
            value = measured(measure, [f[2] for f, _ in facts_there], type_ == "int")
            if isinstance(value, int | float):
                want.add((card, bits(value + 0), tick))  # there is one zero
    assert Counter((c, bits(v), t) for c, v, t in answers) == Counter(want)


@pytest.mark.parametrize("measure", Measure)
def test_what_is_kept_does_not_grow_with_the_facts_of_a_tick(measure: Measure) -> None:
    sizes = []
    for facts in (1, 60):
        stream = tidelog.Stream(program(measure, "float", 9, 0), ["Q"])
        for tick in range(15):
            pays = [("a", i, 1.25 + (7 * i + tick) % 101) for i in range(facts)]
            stream.push(tick, {"Pay": pays, "Ask": [("a",)]})
        assert not stream.facts(), "no input fact is kept"
        sizes.append(stream.history)
    assert sizes[0] == sizes[1]


def test_a_sum_and_an_average_of_any_windows_keep_the_same_blocks() -> None:
    rules = tidelog.parse("""
        input Pay(card: text, id: int, amount: float) @ at.
        Q(C, M, S) @ T :- Pay(C, _, _) @ T, M = avg(A : Pay(C, _, A) @ [T-9, T]),
            S = sum(B : Pay(C, _, B) @ [T-99, T]).
    """)
    assert blocks_kept(passes(rules, ["Q"]).planned) == ["sum(A : Pay(C, _, A) @ T)"]


def test_where_there_is_a_number_a_tick_it_is_kept_as_it_is() -> None:
    rules = tidelog.parse("""
        input Temp(x: text, v: float) @ t.
        Q(X, M) @ T :- Temp(X, _) @ T, M = avg(A : Temp(X, A) @ [T-9, T]).
    """)
    assert blocks_kept(passes(rules, ["Q"]).planned) == []
