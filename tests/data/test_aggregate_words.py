"""Sums of words of ticks: what fractions give that are added up tick by tick."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle.aggregates import measured
from support.deep import examples

import tidelog
from tidelog.data.aggregates import Limbs
from tidelog.evaluation import gathers
from tidelog.evaluation.density import Density
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.plan import Gather
from tidelog.evaluation.sql import Writer
from tidelog.language.program import Measure

Facts = dict[tuple[str, int], list[float]]  # by object and tick

# Around the length of a chunk, and of two; and so long that chunks have no fact.
LENGTHS = st.one_of(st.sampled_from([2, 59, 60, 61, 119, 120, 121, 400]), st.integers(2, 300))
MEASURES = st.sampled_from([Measure.COUNT, Measure.SUM, Measure.AVG])
FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 0.1, 1.0, -0.7, 1e7]),
    st.floats(-1e3, 1e3).filter(lambda v: v == 0 or abs(v) > 1e-3),
)
INTS = st.one_of(st.sampled_from([2**63 - 1, -(2**63), 0]), st.integers(-100, 100))


@st.composite
def facts_of(draw: st.DrawFn, values: st.SearchStrategy[float]) -> Facts:
    """Stretches of facts at every tick, or at some of them, far apart and close together."""
    facts: Facts = {}
    for name in draw(st.sampled_from(["a", "ab"])):
        tick = draw(st.integers(-200, 200))
        for _ in range(draw(st.integers(1, 4))):
            tick += draw(st.integers(1, 250))
            some = draw(st.lists(values, min_size=1, max_size=5))
            for i in range(draw(st.sampled_from([1, 3, 70, 200]))):
                facts[name, tick] = [some[i % len(some)]]
                tick += draw(st.sampled_from([1, 1, 2])) if i < 9 else 1
    return facts


def rules(measure: Measure, ticks: int, kind: str) -> str:
    counted = "E(X, _)" if measure is Measure.COUNT else "V : E(X, V)"
    return (
        f"input E(x: text, v: {kind}) @ time. input Name(x: text). clock Tick.\n"
        f"P(X, A) @ T :- Tick @ T, Name(X), A = {measure}({counted} @ [T-{ticks - 1}, T])."
    )


def exactly(value: object) -> object:
    return value.hex() if isinstance(value, float) else value


def agree(facts: Facts, ticks: int, measure: Measure, kind: str, cut: int) -> None:
    """At every tick from the first fact on until none is in the window; `cut` at both ends."""
    times = [t for _, t in facts]
    low, high = min(times) + cut, max(times) + ticks - cut
    names = sorted({name for name, _ in facts})
    want = set()
    for name in names:
        own = {t: values for (x, t), values in facts.items() if x == name}
        for t in range(low, high + 1):
            there = [v for u, values in own.items() if t - ticks < u <= t for v in set(values)]
            value = measured(measure, there, kind == "int")
            if value is not None:
                plus = value + 0.0 if isinstance(value, float) else value  # no minus zero
                want.add((name, exactly(plus), t))
    rows = [(x, v, t) for (x, t), values in facts.items() for v in values]
    given_ = {"E": rows, "Name": [(x,) for x in names]}
    with Engine(tidelog.parse(rules(measure, ticks, kind)), given_) as engine:
        table = engine.query(["P"], low, high)["P"]
    got = zip(*(column.to_pylist() for column in table.columns), strict=True)
    assert {(x, exactly(v), t) for x, v, t in got} == want


@pytest.fixture(autouse=True)
def in_words() -> Iterator[list[str | None]]:
    """Few facts are enough for words; the tables of words that aggregates were made of."""
    made: list[str | None] = []
    gather = Writer.gather

    def told(self: Writer, step: Gather, limbs: Limbs, words: str | None = None) -> str:
        made.append(words)
        return gather(self, step, limbs, words)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathers, "MANY_ROWS", 0)
        patch.setattr(Writer, "gather", told)
        yield made


@given(facts_of(FLOATS), LENGTHS, MEASURES, st.integers(0, 100), st.booleans())
@examples(7, deep=300)
def test_floats(facts: Facts, ticks: int, measure: Measure, cut: int, sparse: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Density, "is_sparse", lambda *_: sparse)
        agree(facts, ticks, measure, "float", cut)


@given(facts_of(INTS), LENGTHS, MEASURES, st.integers(0, 100), st.booleans())
@examples(7, deep=300)
def test_ints(facts: Facts, ticks: int, measure: Measure, cut: int, sparse: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Density, "is_sparse", lambda *_: sparse)
        agree(facts, ticks, measure, "int", cut)


@pytest.mark.parametrize("measure", [Measure.COUNT, Measure.SUM, Measure.AVG])
def test_one_fact_a_tick_is_made_of_words(in_words: list[str | None], measure: Measure) -> None:
    facts: Facts = {("a", t): [t / 10] for t in range(-30, 200) if t % 7}
    agree(facts, 90, measure, "float", 0)
    assert in_words
    assert None not in in_words


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("measure", [Measure.COUNT, Measure.SUM, Measure.AVG])
def test_several_facts_at_a_tick_are_not(
    in_words: list[str | None],
    measure: Measure,
    sparse: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Density, "is_sparse", lambda *_: sparse)
    facts: Facts = {("a", t): [t / 10] for t in range(200)}
    facts["a", 120] = [1.5, 2.5, 1.5]
    agree(facts, 70, measure, "float", 0)
    assert in_words == [None]


def test_facts_in_any_order(in_words: list[str | None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Density, "is_sparse", lambda *_: True)
    ticks = sorted(range(200), key=lambda t: t * 37 % 101)
    agree({("a", t): [t / 10] for t in ticks}, 90, Measure.AVG, "float", 0)
    assert None not in in_words


@pytest.mark.parametrize("cut", [0, 150])
@pytest.mark.parametrize("measure", [Measure.COUNT, Measure.SUM, Measure.AVG])
def test_chunks_without_a_change(measure: Measure, cut: int) -> None:
    facts: Facts = {("a", t): [t / 10] for t in (-250, 3, 4, 200, 900)}
    agree(facts, 400, measure, "float", cut)


def test_a_fact_that_is_told_twice_counts_once() -> None:
    facts: Facts = {("a", t): [0.1, 0.1] for t in range(100)}
    for measure in (Measure.COUNT, Measure.SUM, Measure.AVG):
        agree(facts, 70, measure, "float", 0)
