"""Streams of programs with aggregates: in every way, what is streamed is what is evaluated."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from oracle.aggregates import programs_with_aggregates
from oracle.generate import Case
from support.deep import examples
from support.streams import streams_what_is_evaluated

import tidelog
from tidelog.errors import DataError, NoAnswer
from tidelog.evaluation import steps
from tidelog.streaming.stream import Overtaken, warn_overtaken

WAYS: tuple[dict[str, object], ...] = (
    {},
    {"emit": "eager"},
    {"history": "strict"},
    {"mode": "online"},
    {"mode": "online", "emit": "eager"},
    {"intervals": True},
)
randoms = st.randoms(use_true_random=False)


@examples(60, deep=1000)
@given(
    programs_with_aggregates(connected=True),
    st.integers(0, 3),
    randoms,
    st.sampled_from(WAYS),
)
def test_every_way(case: Case, late: int, random: Random, how: dict[str, object]) -> None:
    try:
        done = streams_what_is_evaluated(case, late, random, **how)
    except NoAnswer:
        done = False
    event("compared" if done else "refused")


@examples(20, deep=400)
@given(programs_with_aggregates(connected=True), randoms, st.sampled_from(WAYS))
def test_every_way_with_words(case: Case, random: Random, how: dict[str, object]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "MANY_ROWS", 0)
        try:
            streams_what_is_evaluated(case, 1, random, **how)
        except NoAnswer:
            event("refused")


@examples(10, deep=200)
@given(programs_with_aggregates(connected=True), randoms, st.sampled_from(WAYS))
def test_across_snapshots(
    tmp_path_factory: pytest.TempPathFactory, case: Case, random: Random, how: dict[str, object]
) -> None:
    file: Path = tmp_path_factory.mktemp("kept") / "snapshot"
    try:
        streams_what_is_evaluated(case, 1, random, file, **how)
    except NoAnswer:
        event("refused")


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


def test_what_looks_ahead_is_refused_online() -> None:
    with pytest.raises(NoAnswer, match="use the offline mode"):
        tidelog.Stream(tidelog.parse(RULES), ["Mean"], mode="online")
    stream = tidelog.Stream(tidelog.parse(RULES), ["Count"], mode="online")
    assert stream.push(0, {"Pulse": [("a", 1)]}).answers["Count"].num_rows == 1


def test_what_is_added_up_needs_a_type() -> None:
    stream = tidelog.Stream(tidelog.parse("P(S) @ T :- E(_) @ T, S = sum(V : E(V) @ T)."), "P")
    with pytest.raises(DataError, match="declare it, as in `input E"):
        stream.push(0, {"E": [("x",)]})


def test_an_aggregate_of_a_sparse_input_is_warned_of() -> None:
    deps = tidelog.Stream(tidelog.parse(RULES), ["Count"]).deps
    with pytest.warns(Overtaken, match=r"an aggregate of `Pulse` .* without waiting for `Pulse`"):
        warn_overtaken(deps, ["Pulse"])
