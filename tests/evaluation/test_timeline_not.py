"""The timeline with `not`: against the naive evaluator, packed time and its own descriptions."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from oracle import naive
from oracle.generate import Case as AnyCase
from oracle.negation import programs_with_not
from support import twoway
from support.deep import examples
from support.lines import agrees, as_rows, evaluated, expanded, least_period
from support.twoway import Case, Shape

import tidelog
from tidelog.analysis.dependencies import Class, dependencies
from tidelog.errors import NoAnswer
from tidelog.evaluation import timeline
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.plan import Unbounded
from tidelog.evaluation.ranges import ALWAYS, Range
from tidelog.evaluation.timeline import TooHard
from tidelog.logic.normalise import core

ABSENCE = Shape(absence=True, arities=(1, 0, 1))


# Examples


def test_a_last_value_holds_for_ever() -> None:
    program = tidelog.parse("""
    input Temp(name: text, value: int) @ time.
    Level(X, V) @ T   :- Temp(X, V) @ T.
    Level(X, V) @ T+1 :- Level(X, V) @ T, not Temp(X, _) @ T+1.
    """)
    facts: twoway.Facts = {"Temp": {("a", 20, 0), ("a", 23, 3), ("b", 7, 1)}}
    level = evaluated(program, facts, ALWAYS)["Level"]
    assert level.rows == {(("a", 20), 0), (("a", 20), 1), (("a", 20), 2)}
    assert level.repeated == {(("a", 23), 3, 1), (("b", 7), 1, 1)}


def test_silence_after_an_alarm_repeats_with_the_clock() -> None:
    program = tidelog.parse("""
    input Hot(name: text) @ time.
    clock Tick.
    Warm(X) @ T   :- Hot(X) @ T.
    Warm(X) @ T+1 :- Warm(X) @ T, Tick @ T+1.
    Alarm(X) @ T  :- Warm(X) @ T, not Alarm(X) @ T-1, not Alarm(X) @ T-2.
    """)
    rows = program.query("Alarm", {"Hot": [("a", 2), ("b", 4)]}, to=None).to_pylist()
    assert rows == [
        {"x": "a", "time": 2, "period": 3},
        {"x": "b", "time": 4, "period": 3},
    ]


def test_what_holds_at_every_other_tick() -> None:
    program = tidelog.parse("""
    input E @ time.
    clock Tick.
    P @ T+1 :- Tick @ T, not P @ T.
    """)
    assert program.query("P", {"E": [(0,)]}, to=None).to_pylist() == [{"time": 1, "period": 2}]
    # The clock has no first tick, and P nothing to start with.
    assert program.query("P", {"E": []}, from_=0, to=None).num_rows == 0


def test_three_in_turn_and_what_rests_on_them() -> None:
    """Counting modulo 8 with bits that hang on their own absence; a stratum above, and back."""
    program = tidelog.parse("""
    input E @ time.
    clock Tick.
    A @ T+1 :- Tick @ T, not A @ T.
    B @ T+1 :- A @ T, not B @ T, Tick @ T.
    B @ T+1 :- B @ T, not A @ T.
    C @ T+1 :- A @ T, B @ T, not C @ T.
    C @ T+1 :- C @ T, not A @ T.
    C @ T+1 :- C @ T, not B @ T.
    Zero @ T :- Tick @ T, not A @ T, not B @ T, not C @ T.
    """)
    facts: dict[str, list[tuple[int]]] = {"E": [(0,)]}
    assert program.query("Zero", facts, to=None).to_pylist() == [{"time": 0, "period": 8}]
    assert program.query("B", facts, from_=80, to=None).to_pylist() == [
        {"time": 82, "period": 4},
        {"time": 83, "period": 4},
    ]


@pytest.mark.parametrize("way", [1, -1])
def test_absence_far_away_comes_back(way: int) -> None:
    """A holds every 4 ticks and B every 6: at 0, 12, .. both. Alone is carried back from wherever A
    holds without B, which the data does not say: with B every 2 ticks there is no such place.
    """
    text = f"""
    input A @ time. input B @ time. input E @ time.
    A @ T{4 * way:+d} :- A @ T.
    B @ T{{step:+d}} :- B @ T.
    Alone @ T :- A @ T, not B @ T.
    Alone @ T{-way:+d} :- Alone @ T.
    Seen @ T :- E @ T, Alone @ T.
    """
    facts: twoway.Facts = {"A": {(0,)}, "B": {(0,)}, "E": {(-way,)}}
    program = tidelog.parse(text.format(step=6 * way))
    assert as_rows(evaluated(program, facts, Range(-1, 1))["Seen"]) == {(-way,)}
    program = tidelog.parse(text.format(step=2 * way))
    assert as_rows(evaluated(program, facts, Range(-1, 1))["Seen"]) == set()


def test_the_end_of_what_has_no_end() -> None:
    """Where a horizon cuts P off, it must not count as absent."""
    program = tidelog.parse("""
    input E @ time.
    P @ T :- E @ T.
    P @ T+1 :- P @ T.
    Last @ T :- P @ T, not P @ T+1.
    Before @ T :- Last @ T.
    Before @ T-1 :- Before @ T.
    """)
    lines = evaluated(program, {"E": {(0,)}}, ALWAYS)
    assert (lines["Last"].rows, lines["Last"].repeated) == (frozenset(), frozenset())
    assert (lines["Before"].rows, lines["Before"].repeated) == (frozenset(), frozenset())


def test_before_anything_happened() -> None:
    """The left half line has its own course."""
    program = tidelog.parse("""
    input E @ time. input F @ time.
    Early @ T :- E @ T.
    Early @ T-3 :- Early @ T.
    Ever @ T :- F @ T.
    Ever @ T-2 :- Ever @ T.
    Only @ T :- Early @ T, not Ever @ T.
    """)
    only = evaluated(program, {"E": {(0,)}, "F": {(6,)}}, ALWAYS)["Only"]
    assert expanded(only, -40, 40) == Counter({(t,): 1 for t in range(-39, 0, 6)})
    assert {period for _, _, period in only.repeated} == {-6}


def test_absence_at_unrelated_and_fixed_times_and_without_any() -> None:
    program = tidelog.parse("""
    input E(a: text) @ time. input F(a: text) @ time. input N(a: text).
    Both(X, Y) @ T :- E(X) @ T, F(Y) @ S, not F(X) @ S+1, not N(Y).
    Start(X) @ T   :- E(X) @ T, not E(X) @ 0.
    Known(X)       :- E(X) @ T, not F(X) @ T+1.
    Unknown(X) @ 5 :- F(X) @ T, not Known(X).
    """)
    facts: twoway.Facts = {
        "E": {("a", 0), ("b", 2)},
        "F": {("a", 1), ("b", 3), ("c", 2)},
        "N": {("a",)},
    }
    lines = evaluated(program, facts, ALWAYS)
    assert as_rows(lines["Both"]) == {("a", "b", 0), ("a", "c", 0), ("b", "b", 2)}
    assert as_rows(lines["Start"]) == {("b", 2)}
    assert as_rows(lines["Known"]) == set()
    assert as_rows(lines["Unknown"]) == {("a", 5), ("b", 5), ("c", 5)}


# Refused, and too hard


def test_a_cycle_through_not_over_what_looks_ahead_without_end_is_refused() -> None:
    program = tidelog.parse("""
    input E @ time.
    Q @ T :- E @ T. Q @ T-1 :- Q @ T.
    P @ T :- Q @ T, not P @ T-1.
    """)
    for high in (5, None):
        with pytest.raises(NoAnswer, match=r"`P` hangs .* Q @ T needs Q @ T\+1"):
            program.query("P", {"E": [(0,)]}, from_=0, to=high)


def test_what_looks_ahead_over_a_cycle_through_not_comes_back() -> None:
    program = tidelog.parse("""
    input E @ time. input F @ time.
    clock Tick.
    P @ T   :- Tick @ T, not P @ T-1, not P @ T-2.
    A @ T   :- F @ T. A @ T+5 :- A @ T.
    Met @ T :- P @ T, A @ T.
    Q @ T   :- Met @ T. Q @ T-4 :- Q @ T.
    """)
    # P holds at 0, 3, ..; A at 1, 6, 11, ..; they meet at 6, 21, .., which lead back to every tick.
    facts: dict[str, list[tuple[int]]] = {"E": [(0,)], "F": [(1,)]}
    assert program.query("Met", facts, to=None).to_pylist() == [{"time": 6, "period": 15}]
    rows = program.query("Q", facts, from_=None, to=None).to_pylist()
    assert sorted(row["period"] for row in rows) == [-1, 1]


def test_the_limit_ends_a_long_count() -> None:
    bits = range(16)
    rules = [
        f"B{i} @ T+1 :- Tick @ T, {''.join(f'B{j} @ T, ' for j in range(i))}not B{i} @ T."
        for i in bits
    ]
    rules += [f"B{i} @ T+1 :- B{i} @ T, not B{j} @ T." for i in bits for j in range(i)]
    program = tidelog.parse(f"input E @ time. clock Tick. {' '.join(rules)}")
    with pytest.raises(TooHard, match=r"within 0\.2 seconds"):
        program.query("B15", {"E": [(0,)]}, to=None, budget=0.2)


# Generated programs


@given(twoway.cases(Shape(absence=True, arguments=False)))
@examples(8, deep=800)
def test_propositional_programs(case: Case) -> None:
    agrees(case)


@given(twoway.cases(ABSENCE))
@examples(7, deep=600)
def test_programs_with_arguments(case: Case) -> None:
    agrees(case)


# Beyond this everything repeats: periods up to 5 have 60 as their common multiple.
FAR, END = 190, 330


@given(twoway.cases(ABSENCE))
@examples(5, deep=400)
def test_descriptions_without_end_are_exact(case: Case) -> None:
    endless = evaluated(case.program, case.facts, ALWAYS)
    bounded = evaluated(case.program, case.facts, Range(-END, END))
    for name, line in endless.items():
        rows = bounded[name].rows
        if not core(case.program).predicates[name].temporal:
            assert line == bounded[name]
            continue
        count = expanded(line, -END, END)
        assert set(count) == {(*row, tick) for row, tick in rows}, case.text
        assert set(count.values()) <= {1}, case.text
        for row, _, period in line.repeated:
            ticks = {tick for other, tick in rows if other == row and tick is not None}
            low, high = (FAR, END) if period > 0 else (-END, -FAR)
            assert abs(period) == least_period(ticks, low, high), case.text


@given(programs_with_not(connected=True))
@examples(8, deep=800)
def test_programs_that_never_look_ahead_without_end(case: AnyCase) -> None:
    """Cycles through `not` and clocks among them, against the naive evaluator and packed time."""
    deps = dependencies(core(case.program, case.queries), case.queries)
    if deps.cls is Class.BLOCKING:
        return
    low, high = case.low - 40, case.high + 40
    wanted = naive.evaluate(case.program, case.facts, case.queries, low, high)
    with Engine(case.program, case.facts) as engine:
        given = timeline.history(engine, deps.core)
        limit = timeline.Limit(60, "the test")
        lines = timeline.evaluate(deps.core, given, case.queries, ALWAYS, limit)
        for query in case.queries:
            if deps.core.predicates[query].temporal:
                rows = set(expanded(lines[query], low, high))
            else:
                rows = {row for row, _ in lines[query].rows}
            assert rows == wanted[query], case.text
        try:
            packed = engine.query(case.queries, case.low, case.high)
        except Unbounded:
            return
        line = timeline.answers(engine, case.queries, case.low, case.high, 60)
    assert line == packed, case.text


def going_back(case: AnyCase) -> tuple[str, int] | None:
    """A query over a cycle through `not`, and how many arguments it has."""
    for query in case.queries:
        deps = dependencies(core(case.program, [query]), [query])
        predicate = deps.core.predicates[query]
        if deps.cycles_through_not and deps.cls is not Class.BLOCKING and predicate.temporal:
            return query, len(predicate.types)
    return None


@given(programs_with_not(connected=True, rigid=False, max_rules=4))
@examples(8, deep=800)
def test_what_is_carried_back_from_cycles_through_not(case: AnyCase) -> None:
    chosen = going_back(case)
    if chosen is None:
        return
    query, arity = chosen
    args = f"({', '.join('_' * arity)})" if arity else ""
    more = f"Zback @ T :- {query}{args} @ T, not Zlast @ T. Zlast @ {case.low}."
    program = tidelog.parse(f"{case.text}\n{more} Zback @ T-2 :- Zback @ T.")
    wanted = naive.evaluate(case.program, case.facts, [query], case.low - 60, case.high + 240)
    ticks = {int(row[-1]) for row in wanted[query]} - {case.low}
    asked = range(case.low, case.high + 1)
    back = {t for t in asked if any((u - t) % 2 == 0 and u >= t for u in ticks)}
    whole = core(program, ["Zback"]).below(["Zback"])
    with Engine(program, case.facts) as engine:
        lines = timeline.evaluate(
            whole,
            timeline.history(engine, whole),
            ["Zback"],
            Range(case.low, case.high),
            timeline.Limit(60, "the test"),
        )
    assert {tick for _, tick in lines["Zback"].rows} == back, program


@pytest.mark.slow
def test_the_generated_programs_hang_on_absence() -> None:
    """Enough of them have other answers without the negated atoms; few are too far for us."""
    count: Counter[str] = Counter()

    @given(twoway.cases(ABSENCE))
    @examples(50)
    def collect(case: Case) -> None:
        wanted = twoway.closure(case)
        count["all"] += 1
        count["unstable"] += wanted is None
        count["endless"] += any(
            line.repeated for line in evaluated(case.program, case.facts, ALWAYS).values()
        )
        if wanted is not None:
            count["answers"] += any(wanted[name] for name in wanted if name[0] in "UVW")

    collect()
    assert count["unstable"] < 0.1 * count["all"]
    assert count["endless"] > 0.5 * count["all"]
    assert count["answers"] > 0.4 * count["all"]
