"""What is streamed equals what is evaluated over the same range, however it arrives."""

from __future__ import annotations

import csv
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import naive
from oracle.generate import Case, programs_and_facts
from support.deep import examples
from support.places import ROOT

import tidelog
from tidelog.data.schema import schemas
from tidelog.errors import DataError
from tidelog.streaming.offline import Endless
from tidelog.streaming.schedule import Blocking, Schedule
from tidelog.streaming.stream import Stream

TURBINES = (ROOT / "examples" / "turbines" / "rules.tdl").read_text()


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def streamed(case: Case, lateness: int, random: Random) -> tuple[dict[str, list], int, int]:
    """Push the facts of a case, each up to `lateness` ticks late, and close."""
    layout = schemas(case.program)
    rigid = {n: r for n, r in case.facts.items() if layout[n].time is None}
    pushes: dict[int, dict[str, list]] = {}
    for name, facts in case.facts.items():
        if layout[name].time is not None:
            for row in facts:
                arrives = row[-1] + random.randint(0, lateness)
                pushes.setdefault(arrives, {}).setdefault(name, []).append(row)
    stream = Stream(case.program, case.queries, lateness=lateness, rigid=rigid)
    got: dict[str, list] = {query: [] for query in case.queries}
    for step in stream.run(sorted(pushes.items())):
        assert not step.late
        for query, table in step.answers.items():
            got[query] += rows(table)
    ticks = [*pushes, *(r[-1] for n, f in case.facts.items() if n not in rigid for r in f)]
    return got, min(ticks), max(ticks)


def check(case: Case, lateness: int, random: Random) -> None:
    layout = schemas(case.program)
    if not any(f for n, f in case.facts.items() if layout[n].time is not None):
        return
    try:
        got, first, last = streamed(case, lateness, random)
    except Blocking:
        return
    want = naive.evaluate(case.program, case.facts, case.queries, first, last)
    for query in case.queries:
        answers = [() if row == (True,) and () in want[query] else row for row in got[query]]
        assert len(answers) == len(set(answers)), "an answer came twice"
        assert set(answers) == want[query]


@examples(4, deep=250)
@given(
    programs_and_facts(connected=True, huge=False),
    st.integers(0, 3),
    st.randoms(use_true_random=False),
)
def test_stream_equals_naive_evaluation(case: Case, lateness: int, random: Random) -> None:
    check(case, lateness, random)


@examples(5, deep=500)
@given(
    programs_and_facts(connected=True, explicit_times=False),
    st.integers(0, 3),
    st.randoms(use_true_random=False),
)
def test_stream_with_huge_offsets_equals_naive_evaluation(
    case: Case, lateness: int, random: Random
) -> None:
    check(case, lateness, random)


def high(*ticks: int, device: str = "a") -> list[tuple[str, str, int]]:
    return [(device, "high", tick) for tick in ticks]


def test_answers_come_when_they_are_final() -> None:
    stream = Stream(tidelog.parse(TURBINES), ["Malfunc"])
    answers = [rows(stream.push(t, {"Temp": high(t)}).answers["Malfunc"]) for t in range(4)]
    assert answers == [[], [], [("a", 0)], [("a", 1)]]
    step = stream.close()
    assert rows(step.answers["Malfunc"]) == []
    assert (step.tin, step.tout) == (3, 3)


def test_pushes_of_few_facts_need_no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(**_: object) -> None:
        raise AssertionError("a database is opened")

    monkeypatch.setattr(duckdb, "connect", opened)
    rules = "Q(X) @ T :- E(X) @ T+1, Known(X)."
    steps = ((tick, {"E": [("a",), ("b",)]}) for tick in range(3))
    stream = Stream(tidelog.parse(rules), "Q", rigid={"Known": [("a",)]})
    answers = [rows(step.answers["Q"]) for step in stream.run(steps)]
    assert answers == [[], [("a", 0)], [("a", 1)], []]
    strict = Stream(tidelog.parse(rules), "Q", history="strict", rigid={"Known": [("a",)]})
    with pytest.raises(AssertionError, match="opened"):
        strict.push(0, {"E": [("a",)]})


def test_recursion_keeps_one_slice_whatever_the_age() -> None:
    stream = Stream(tidelog.parse(TURBINES), ["AtRisk"], rigid={"Near": [("a", "b")]})
    for tick in range(3):
        stream.push(tick, {"Temp": high(tick)})
    kept = []
    for tick in range(3, 200):
        step = stream.push(tick)
        assert rows(step.answers["AtRisk"]) == [("b", tick)]
        kept.append(step.history)
    assert max(kept[5:]) == min(kept[5:]) == 1


def test_skipped_ticks_are_empty() -> None:
    stream = Stream(tidelog.parse("P(X) @ T+1 :- E(X) @ T. P(X) @ T+1 :- P(X) @ T."), ["P"])
    assert rows(stream.push(0, {"E": [("a",)]}).answers["P"]) == []
    assert rows(stream.push(1000).answers["P"]) == [("a", t) for t in range(1, 1001)]


def test_late_facts_are_handed_back_and_change_nothing() -> None:
    stream = Stream(tidelog.parse("P(X) @ T :- E(X) @ T."), ["P"], lateness=2)
    stream.push(10, {"E": [("a", 10)]})
    step = stream.push(11, {"E": [("b", 9), ("c", 8), ("d", 7)]})
    assert step.late == {"E": [("c", 8), ("d", 7)]}
    assert step.tin == 9
    assert rows(step.answers["P"]) == [("b", 9)]
    assert rows(stream.close().answers["P"]) == [("a", 10)]


def test_a_clock_far_ahead_is_handed_back() -> None:
    stream = Stream(tidelog.parse("P(X) @ T :- E(X) @ T."), ["P"], max_jump=100)
    step = stream.push(0, {"E": [("a", 0), ("b", 101), ("c", 100)]})
    assert step.late == {"E": [("b", 101)]}
    assert rows(stream.close().answers["P"]) == [("c", 100)]


def test_an_explicit_time_holds_answers_back() -> None:
    stream = Stream(tidelog.parse("P(X) @ T :- E(X) @ T, Go @ 5. Go @ T :- G @ T."), ["P"])
    for tick in range(5):
        assert rows(stream.push(tick, {"E": [("a",)]}).answers["P"]) == []
    assert rows(stream.push(5, {"G": [()]}).answers["P"]) == [("a", t) for t in range(5)]


def test_no_window_is_enough_for_answers_without_time_over_fixed_ticks() -> None:
    program = tidelog.parse("G :- F @ 3, E @ 0.")
    with pytest.raises(Endless, match=r"no window is enough for G, .* fixed ticks \(0, 3\)"):
        Stream(program, ["G"], history="strict")
    stream = Stream(program, ["G"])
    steps = [stream.push(tick, {"E": [()], "F": [()]}) for tick in range(5)]
    assert [step.answers["G"].num_rows for step in steps] == [0, 0, 0, 1, 0]


def test_blocking_queries_are_refused_with_the_rule() -> None:
    program = tidelog.parse("Late @ T :- Alarm @ T.\nLate @ T :- Late @ T+1.", "late.tdl")
    with pytest.raises(Blocking, match=r"Late @ T needs Late @ T\+1.*late\.tdl:2"):
        Stream(program, ["Late"])


@pytest.mark.parametrize(
    ("push", "message"),
    [
        ({"Tmp": []}, "no input is called `Tmp`; did you mean `Temp`"),
        ({"Near": [("a", "b")]}, "`Near` is not a temporal input"),
        ({"Temp": [("a", 1, 0)]}, "column `level`: 1 is not text"),
        ({"Temp": [("a", "high", 0, 0)]}, "4 values for 3 columns"),
    ],
)
def test_wrong_facts_are_refused(push: dict[str, list], message: str) -> None:
    stream = Stream(tidelog.parse(TURBINES), ["Malfunc"])
    with pytest.raises(DataError, match=message):
        stream.push(0, push)


def test_time_does_not_run_backwards_and_a_closed_stream_stays_closed() -> None:
    stream = Stream(tidelog.parse("P @ T :- E @ T."), ["P"])
    stream.push(5)
    with pytest.raises(ValueError, match="everything up to 5"):
        stream.push(4)
    stream.close()
    with pytest.raises(ValueError, match="closed"):
        stream.push(6)


def test_a_stream_without_facts_closes_empty() -> None:
    step = Stream(tidelog.parse("P(X) @ T :- E(X) @ T."), ["P"]).close()
    assert step.answers["P"].column_names == ["x", "time"]
    assert step.answers["P"].num_rows == 0


@pytest.mark.parametrize("name", [pytest.param("la_haute_borne", marks=pytest.mark.deep), "nab"])
def test_real_data_in_batches(name: str, shared_data: Path) -> None:
    """Many ticks a push: the schedule works on ranges, so that answers are the same."""
    folder = shared_data / name
    program = tidelog.load(folder / "rules.tdl")
    layout = schemas(program)
    facts: dict[str, list[tuple[object, ...]]] = {}
    for predicate, schema in layout.items():
        with (folder / "facts" / f"{predicate}.csv").open(newline="") as file:
            converters = [{"int": int, "float": float}.get(c.type, str) for c in schema.columns]
            converters += [int] if schema.time else []
            facts[predicate] = [
                tuple(f(row[n]) for f, n in zip(converters, schema.names, strict=True))
                for row in csv.DictReader(file)
            ]
    rigid = {n: f for n, f in facts.items() if layout[n].time is None}
    stream = Stream(program, rigid=rigid)
    got: dict[str, list] = {query: [] for query in program.outputs}
    size = 5000
    batches: dict[int, dict[str, list]] = {}
    for predicate, all_rows in facts.items():
        if predicate not in rigid:
            for row in all_rows:
                tick = int(row[-1])
                batches.setdefault(tick // size, {}).setdefault(predicate, []).append(row)
    for number in sorted(batches):
        latest = max(r[-1] for some in batches[number].values() for r in some)
        for query, table in stream.push(latest, batches[number]).answers.items():
            got[query] += rows(table)
    for query, table in stream.close().answers.items():
        got[query] += rows(table)
    for query in program.outputs:
        with (folder / "expected" / f"{query}.csv").open(newline="") as file:
            want = [(*row[:-1], int(row[-1])) for row in list(csv.reader(file))[1:]]
        assert sorted(got[query], key=str) == sorted(want, key=str)


def test_settling_times_respect_every_rule() -> None:
    from tidelog.analysis.dependencies import dependencies
    from tidelog.logic.normalise import core

    program = tidelog.parse("F @ 5. G @ T+2 :- F @ T. P @ T :- E @ T-4, G @ T+3. Q @ T+9 :- P @ T.")
    schedule = Schedule(dependencies(core(program), ["Q", "P"]))
    for edge in schedule.deps.edges:
        if edge.offset is not None:
            assert schedule.phi[edge.head] >= schedule.phi[edge.body] + edge.offset
    assert schedule.phi["Q"] == 0
