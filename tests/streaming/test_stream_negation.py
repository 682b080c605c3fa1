"""Streams of programs with `not`: in every way, what is streamed is what is evaluated."""

from __future__ import annotations

import warnings
from pathlib import Path
from random import Random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from oracle import naive
from oracle.generate import Case
from oracle.keyed import keyed
from oracle.negation import programs_with_not
from support.counterexamples import NAMES, counterexample
from support.deep import examples
from support.streams import streams_what_is_evaluated

import tidelog
from tidelog.analysis.dependencies import Class, dependencies
from tidelog.errors import NoAnswer
from tidelog.logic.normalise import core
from tidelog.streaming import offline as offline_module
from tidelog.streaming.stream import Growing, Overtaken, Stream, warn_overtaken

OFFLINE: tuple[dict[str, str], ...] = (
    {},
    {"emit": "eager"},
    {"history": "strict"},
    {"history": "strict", "emit": "eager"},
)
ONLINE: tuple[dict[str, str], ...] = ({"mode": "online"}, {"mode": "online", "emit": "eager"})
offline = st.sampled_from(OFFLINE)
online = st.sampled_from(ONLINE)
randoms = st.randoms(use_true_random=False)
lateness = st.integers(0, 3)
connected = programs_with_not(connected=True)


def streamed(case: Case, late: int, random: Random, file: Path | None = None, **how: str) -> None:
    """Refused is only what looks ahead without end, and a window that is not finite."""
    if random.random() < 0.3:
        case = keyed(case, random)
    deps = dependencies(core(case.program, case.queries), case.queries)
    ahead = deps.cls is Class.BLOCKING
    try:
        done = streams_what_is_evaluated(case, late, random, file, **how)
    except NoAnswer:
        assert ahead, case.text
        assert deps.cycles_through_not, case.text
        done = False
    event("compared" if done else "refused")
    assert done or ahead or how.get("history") == "strict", case.text


@examples(4, deep=400)
@given(connected, lateness, randoms, offline)
def test_offline(case: Case, late: int, random: Random, how: dict[str, str]) -> None:
    streamed(case, late, random, **how)


@examples(4, deep=400)
@given(connected, lateness, randoms, online)
def test_online(case: Case, late: int, random: Random, how: dict[str, str]) -> None:
    streamed(case, late, random, **how)


@examples(3, deep=200)
@given(programs_with_not(connected=True, huge=True, hostile=True), lateness, randoms, offline)
def test_offline_with_huge_offsets_and_hostile_values(
    case: Case, late: int, random: Random, how: dict[str, str]
) -> None:
    streamed(case, late, random, **how)


@examples(3, deep=200)
@given(connected, lateness, randoms, st.sampled_from([{}, {"emit": "eager"}]), st.integers(0, 6))
def test_a_wave_takes_over_when_there_are_many_facts(
    case: Case, late: int, random: Random, how: dict[str, str], most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offline_module, "MOST_FACTS", most)
        streamed(case, late, random, **how)


@examples(3, deep=200)
@given(connected, lateness, randoms, st.sampled_from([*OFFLINE, *ONLINE]))
def test_across_snapshots(
    tmp_path_factory: pytest.TempPathFactory,
    case: Case,
    late: int,
    random: Random,
    how: dict[str, str],
) -> None:
    file = tmp_path_factory.getbasetemp() / "negation.snapshot"
    streamed(case, late, random, file, **how)


@pytest.mark.parametrize("how", [*OFFLINE, *ONLINE], ids=lambda how: " ".join(how.values()) or "-")
@pytest.mark.parametrize("name", NAMES)
def test_counterexamples(name: str, how: dict[str, str]) -> None:
    example = counterexample(name)
    facts = {n: sorted(rows, key=repr) for n, rows in example.facts.items()}
    queries = tuple(q for q in example.program.outputs if q != "Unseen")  # has no time
    case = Case(example.text, example.program, facts, queries, *example.ticks)
    deps = dependencies(core(case.program, queries), queries)
    # A fact at a fixed tick is needed for ever, too.
    endless = how.get("history") == "strict" and (deps.recursive or deps.pinned)
    assert streams_what_is_evaluated(case, 0, Random(name), **how) or endless


# When answers come


def told(stream: Stream, tick: int, **facts: list[tuple[object, ...]]) -> set[tuple[object, ...]]:
    table = stream.push(tick, facts).answers["Q"]
    return {tuple(row.values()) for row in table.to_pylist()}


@pytest.mark.parametrize("mode", ["offline", "online"])
def test_an_eager_answer_waits_until_it_cannot_be_withdrawn(mode: str) -> None:
    program = counterexample("withdrawn").program
    stream = Stream(program, ["Q"], mode=mode, emit="eager")
    assert told(stream, 0, E=[("a",), ("b",)]) == set()
    assert told(stream, 1, F=[("a",)]) == {("b", 0)}
    assert told(stream, 2, E=[("a",)]) == set()
    assert {tuple(r.values()) for r in stream.close().answers["Q"].to_pylist()} == {("a", 2)}


def test_closing_makes_all_absence_final() -> None:
    program = tidelog.parse("input E @ t. input F @ t. Q @ T :- E @ T, not F @ T+9.")
    stream = Stream(program, ["Q"])
    assert told(stream, 3, E=[()]) == set()
    assert stream.close().answers["Q"].to_pylist() == [{"time": 3}]


def test_a_clock_ticks_through_silence() -> None:
    program = tidelog.parse(
        "input Beat(x: text) @ t. clock Tick. Q @ T :- Tick @ T, not Beat(_) @ T."
    )
    stream = Stream(program, ["Q"])
    assert told(stream, 3) == set()
    assert told(stream, 5, Beat=[("a",)]) == set()
    assert told(stream, 8) == {(6,), (7,), (8,)}
    assert told(stream, 9, Beat=[("a",)]) == set()
    want = naive.evaluate(program, {"Beat": {("a", 5), ("a", 9)}}, ["Q"], 3, 9)
    assert want["Q"] == {(6,), (7,), (8,)}


# Clocks, late facts, warnings


CLOCKED = (
    "input Beat(x: text) @ t. input Other @ t. clock Tick. Q @ T :- Tick @ T, not Beat(_) @ T."
)


@pytest.mark.parametrize("how", [*OFFLINE[:2], *ONLINE], ids=lambda how: " ".join(how.values()))
def test_a_clock_starts_at_the_first_fact_of_any_input(how: dict[str, str], tmp_path: Path) -> None:
    """Not at the first tick pushed nor at `from_`, whatever comes late, across snapshots."""
    program = tidelog.parse(CLOCKED)
    pushes = [(0, {}), (3, {"Beat": [("a", 3)]}), (4, {"Other": [(2,)]}), (6, {}), (8, {})]
    for from_ in (None, 1, 4):

        def made(first: int | None = from_) -> Stream:
            return Stream(program, ["Q"], lateness=2, from_=first, **how)

        stream, got = made(), set()
        for tick, facts in pushes:
            got |= told(stream, tick, **facts)
            stream.snapshot(tmp_path / "clock")
            stream = made()
            stream.restore(tmp_path / "clock")
        got |= {tuple(row.values()) for row in stream.close().answers["Q"].to_pylist()}
        ticks = [2, 4, 5, 6, 7, 8]
        assert got == {(t,) for t in ticks if from_ is None or t >= from_}


def test_a_clock_of_a_blocking_stream_knows_facts_that_nothing_else_needs() -> None:
    program = tidelog.parse(f"{CLOCKED} Q @ T :- Other @ T, Q @ T+1.")
    with pytest.warns(Growing):
        stream = Stream(program, ["Q"], mode="online")
    got = told(stream, 1, Other=[()]) | told(stream, 2, Beat=[("a",)]) | told(stream, 3)
    got |= {tuple(row.values()) for row in stream.close().answers["Q"].to_pylist()}
    assert got == {(1,), (3,)}


def test_late_facts_name_what_they_could_have_changed() -> None:
    program = tidelog.parse(
        "input E @ t. input F @ t."
        "Q @ T :- E @ T, not F @ T. P @ T :- E @ T, not F @ T-5. R @ T :- E @ T."
    )
    stream = Stream(program, ["Q", "P", "R"])
    stream.push(0)
    stream.push(3, {"E": [()]})
    step = stream.push(4, {"F": [(2,), (4,)]})
    assert step.late == {"F": [(2,)]}
    assert step.could_change == {"F": ("Q",)}
    assert stream.push(9, {"F": [(1,)]}).could_change == {"F": ("Q", "P")}
    assert stream.push(10, {"E": [(1,)]}).could_change == {"E": ("Q", "P", "R")}


def test_the_absence_of_a_sparse_input_is_worth_a_warning() -> None:
    program = tidelog.parse("input E @ t. input F @ t. Q @ T :- E @ T, not N @ T. N @ T :- F @ T.")
    deps = Stream(program, ["Q"]).deps
    with pytest.warns(Overtaken, match=r"`not N` \(<text>:1\) .* without waiting for `F`"):
        warn_overtaken(deps, ["F", "E"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_overtaken(deps, ["E"])
    # One warning for each sparse input, whatever the number of rules.
    several = f"{program} R @ T :- E @ T, not F @ T, not N @ T-1. S @ T :- R @ T, not E @ T-1."
    deps = Stream(tidelog.parse(several), ["Q", "S"]).deps
    with pytest.warns(Overtaken) as told:
        warn_overtaken(deps, ["F", "E"])
    first, second = sorted(str(one.message).split(" believed")[0] for one in told)
    assert (first.count("`not E`"), first.count("`not F`")) == (1, 0)
    assert (second.count("`not N`"), second.count("`not F`")) == (2, 1)
