"""Definitive time points, live facts and forgetting under `not`, against truth tables over all
updates: never wrong, and exact where they say so.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from hypothesis import assume, given
from hypothesis import strategies as st
from support import brute, truth
from support.brute import Fact, Row
from support.deep import examples
from support.programs import NEGATED, Case, Facts, Shape, histories, programs
from support.replays import updates_replay

import tidelog
from tidelog.analysis.definitive import Awaited
from tidelog.analysis.dependencies import Class, Dependencies, dependencies
from tidelog.analysis.possible import Pattern, one_sign
from tidelog.cli import cli
from tidelog.data.packed import ticks_of
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.open_answers import OpenAnswers
from tidelog.evaluation.ranges import Range
from tidelog.language.program import Value
from tidelog.logic.normalise import core

PAIRS = Shape(types=("text",), rules=3, atoms=2, negated=2)
RECURSIVE = Shape(types=("text",), arity=1, negated=2, recursive=True, points=True)
CLOCKED = Shape(types=("text",), arity=1, negated=2, recursive=True, clock=True)
COMPARED = Shape(types=("int", "text"), arity=1, rules=3, negated=2, comparisons=True)
LONG = Shape(types=("text",), arity=1, rules=2, atoms=6, negated=2)
TIN = 2
REACH = 4  # for recursion, which no radius bounds


def deps(case: Case) -> Dependencies:
    return dependencies(core(case.program, [case.query]), [case.query])


@st.composite
def asked(draw: st.DrawFn, shape: Shape) -> tuple[Case, Facts]:
    case = draw(programs(shape))
    for _ in range(3):  # most programs should have something absent
        case = case if deps(case).negated else draw(programs(shape))
    assume(deps(case).cls is not Class.BLOCKING)
    return case, draw(histories(case.program, TIN))


def tables(facts: Facts) -> Any:
    return {name: sorted(rows, key=str) for name, rows in facts.items()}


def reach(case: Case) -> int | None:
    return REACH if deps(case).recursive else None


def by_definition(case: Case, known: set[Fact], tin: int, tout: int) -> truth.Verdict:
    try:
        return truth.open_rows(case.program, case.query, known, tin, tout, reach=reach(case))
    except truth.TooLargeError:
        assume(False)
    raise AssertionError


# The counterexamples of the design, by name


def parsed(text: str) -> tidelog.Program:
    names = {"A", "B", "C", "D", "E", "F", "G", "H"}
    derived = {line.split(" @")[0].strip() for line in text.split(".") if ":-" in line}
    used = sorted(name for name in names - derived if f"{name} @" in text)
    return tidelog.parse(" ".join(f"input {name} @ t." for name in used) + text)


def test_an_answer_that_eager_emission_would_have_to_withdraw() -> None:
    program = parsed("Q @ T :- E @ T, not F @ T+1.")
    early = tidelog.definitive(program, "Q", {"E": [(0,)], "F": []}, 0, 0)
    assert (early.holds, early.exact) == (False, True)
    assert list(map(str, early.pending)) == ["Q @ 0 holds unless F @ 1 arrives"]
    assert early.updates is not None
    assert early.updates.without_it == (Awaited("F", (), 1),)
    assert early.updates.with_it == ()
    assert tidelog.definitive(program, "Q", {"E": [(0,)], "F": []}, 1, 0).holds


def test_an_answer_that_comes_either_way_is_taken_to_be_open() -> None:
    program = parsed("Q @ T :- F @ T, A @ T+1. Q @ T :- F @ T, not A @ T+1.")
    verdict = tidelog.definitive(program, "Q", {"F": [(0,)], "A": []}, 0, 0)
    assert (verdict.holds, verdict.exact, verdict.updates) == (False, False, None)
    assert tidelog.definitive(program, "Q", {"F": [(0,)], "A": []}, 1, 0).holds


def test_a_fact_that_only_keeps_an_answer_away_is_live() -> None:
    program = parsed("A @ T :- B @ T, C @ T. B @ T :- G @ T-1, not N @ T. N @ T :- E @ T-1.")
    facts = {"E": [(0,)], "G": [(0,)], "C": []}
    live = tidelog.live(program, "A", facts, 0, 1)
    assert live["E"].to_pylist() == [{"t": 0}]
    # B is impossible while E is remembered, and G tells no more.
    assert live["G"].num_rows == 0
    verdict = tidelog.forgettable(program, "A", facts, 0, 1, 0)
    # Without E and G together B is as impossible as with both: the "no" is too careful.
    assert (verdict.holds, verdict.exact) == (False, False)
    assert tidelog.forgettable(program, "A", facts, 1, 2, 0).holds


def test_what_forgetting_would_add_is_shown() -> None:
    program = parsed("A @ T :- B @ T, C @ T. B @ T :- G @ T, not N @ T. N @ T :- E @ T-1.")
    facts = {"E": [(0,)], "G": [(1,)], "C": []}
    assert tidelog.forgettable(program, "A", facts, 1, 1, 0).holds, "C is missing for good"
    facts = {"E": [(0,)], "G": [(1,)], "C": [(1,)]}
    verdict = tidelog.forgettable(program, "A", facts, 1, 1, 0)
    assert (verdict.holds, verdict.exact) == (False, True)
    assert verdict.update is not None
    assert (verdict.update.facts, verdict.update.lost) == ((), False)


def test_an_answer_with_two_negations_waits_for_what_is_under_both() -> None:
    program = parsed("Q @ T :- E @ T, not N @ T. N @ T :- G @ T, not F @ T+1.")
    verdict = tidelog.definitive(program, "Q", {"E": [(0,)], "G": [(0,)], "F": []}, 0, 0)
    assert verdict.exact
    assert list(map(str, verdict.pending)) == ["Q @ 0 waits for F @ 1"]


def test_absence_of_what_takes_two_facts_to_come() -> None:
    program = parsed("Q @ T :- E @ T, not N @ T. N @ T :- F @ T+1, G @ T+2.")
    verdict = tidelog.definitive(program, "Q", {"E": [(0,)], "G": [], "F": []}, 0, 0)
    assert list(map(str, verdict.pending)) == ["Q @ 0 holds unless F @ 1 and G @ 2 arrive"]
    assert verdict.pending[0].as_json()["unless"] == [
        [
            {"predicate": "F", "args": [], "time": 1},
            {"predicate": "G", "args": [], "time": 2},
        ]
    ]


def test_the_last_value_holds_unless_another_arrives() -> None:
    program = tidelog.parse(
        "input Temp(x: text, v: int) @ t. Level(X, V) @ T :- Temp(X, V) @ T."
        "Level(X, V) @ T+1 :- Level(X, V) @ T, not Temp(X, _) @ T+1."
        "Next(X, V) @ T :- Level(X, V) @ T+1."
    )
    verdict = tidelog.definitive(program, "Next", {"Temp": [("a", 5, 0)]}, 1, 1)
    assert verdict.exact
    assert list(map(str, verdict.pending)) == [
        "Next(a, 5) @ 1 holds unless Temp(a, _) @ 2 arrives",
        "Next(_, _) @ 1 waits for Temp(_, _) @ 2",
    ]


def test_an_answer_without_a_delay_may_go() -> None:
    program = parsed("Late @ T :- E @ T. Late @ T :- Late @ T+1. Q @ T :- F @ T, not Late @ T+1.")
    verdict = tidelog.definitive(program, "Q", {"E": [], "F": [(2,)]}, 3, 2)
    assert (verdict.holds, verdict.exact) == (False, True)
    assert list(map(str, verdict.pending)) == ["Q @ 2 holds and may still go"]
    assert tidelog.definitive(program, "Q", {"E": [(3,)], "F": [(2,)]}, 3, 2).holds


def test_a_clock_is_no_input_to_forget() -> None:
    program = tidelog.parse("input E @ t. clock Tick. Q @ T :- Tick @ T, not E @ T.")
    facts = {"E": [(3,), (5,)]}
    assert set(tidelog.live(program, "Q", facts, 6, 7)) == {"E"}
    assert tidelog.forgettable(program, "Q", facts, 6, 7, 5).holds
    assert tidelog.definitive(program, "Q", facts, 6, 6).holds
    assert tidelog.definitive(program, "Q", facts, 2, 2).holds


# On the command line

SILENT = """input Beat(device: text) @ time.
Silent(X) @ T :- Beat(X) @ T, not Beat(X) @ T+1.
"""


def asked_in_a_shell(folder: Path, *args: str) -> str:
    (folder / "rules.tdl").write_text(SILENT)
    (folder / "facts.tdl").write_text("Beat(a) @ 0. Beat(b) @ 1.")
    command, *options = args
    files = [str(folder / "rules.tdl"), "--facts", str(folder / "facts.tdl"), "--query", "Silent"]
    result = CliRunner().invoke(cli, [command, *files, *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_definitive_on_the_command_line(tmp_path: Path) -> None:
    asked = ("definitive", "--tin", "1", "--tout", "1")
    assert asked_in_a_shell(tmp_path, *asked).splitlines() == [
        "no: 1 answer at 1 may still come or go",
        "  Silent(b) @ 1 holds unless Beat(b) @ 2 arrives",
        "  Silent(b) @ 1 is an answer if nothing more arrives",
        "  Silent(b) @ 1 is no answer if Beat(b) @ 2 arrives and no more",
    ]
    told = json.loads(asked_in_a_shell(tmp_path, *asked, "--json"))
    comes = {"predicate": "Beat", "args": ["b"], "time": 2}
    assert (told["holds"], told["exact"], told["count"]) == (False, True, 1)
    assert told["pending"][0]["unless"] == [[comes]]
    assert told["pending"][0]["holds_now"]
    assert told["updates"] == {
        "answer": {"predicate": "Silent", "args": ["b"], "time": 1},
        "with": [],
        "without": [comes],
    }
    assert "yes" in asked_in_a_shell(tmp_path, "definitive", "--tin", "1", "--tout", "0")


def test_forgettable_on_the_command_line(tmp_path: Path) -> None:
    needed = ("forgettable", "--tin", "1", "--tout", "1", "--tmem", "1")
    assert asked_in_a_shell(tmp_path, *needed).splitlines() == [
        "no: the facts up to 1 are needed; an update shows the difference",
        "  if nothing more arrives, Silent(b) @ 1 would be lost",
    ]
    gone = ("forgettable", "--tin", "1", "--tout", "1", "--tmem", "0")
    assert asked_in_a_shell(tmp_path, *gone).startswith("yes: the facts up to 0 can go")


# Definitive, for generated programs


def compared(case: Case, facts: Facts, tout: int, *, theory: bool = True) -> None:
    known = brute.history(case.program, facts)
    expected = by_definition(case, known, TIN, tout)
    verdict = tidelog.definitive(case.program, case.query, tables(facts), TIN, tout)
    points = tidelog.open_points(case.program, case.query, tables(facts), TIN, tout, tout)
    assert verdict.holds == (tout not in points)
    assert verdict.holds == (verdict.count == 0)
    assert not verdict.holds or expected.definitive, "a wrong yes"
    assert not verdict.exact or verdict.holds == expected.definitive
    if theory and one_sign(deps(case)):
        assert verdict.exact, "every input has one sign"
    if verdict.updates is not None:
        updates_replay(case, known, verdict, TIN)
    assert verdict.exact or verdict.reason


tout = st.sampled_from((TIN, TIN, TIN - 1, 0))


@examples(3, deep=300)
@given(asked(NEGATED), tout)
def test_definitive(given_: tuple[Case, Facts], tout: int) -> None:
    compared(*given_, tout, theory=False)


@examples(3, deep=150)
@given(asked(PAIRS), tout)
def test_definitive_of_pairs(given_: tuple[Case, Facts], tout: int) -> None:
    compared(*given_, tout, theory=False)


@examples(3, deep=150)
@given(asked(Shape(types=("text",), arity=0, negated=2, atoms=2)), tout)
def test_definitive_without_objects(given_: tuple[Case, Facts], tout: int) -> None:
    """No values, no comparisons: exact wherever every input has one sign."""
    compared(*given_, tout)


@examples(3, deep=150)
@given(asked(RECURSIVE), tout)
def test_definitive_with_recursion(given_: tuple[Case, Facts], tout: int) -> None:
    compared(*given_, tout, theory=False)


@examples(3, deep=100)
@given(asked(CLOCKED), tout)
def test_definitive_with_clocks(given_: tuple[Case, Facts], tout: int) -> None:
    compared(*given_, tout, theory=False)


@examples(3, deep=100)
@given(asked(COMPARED), tout)
def test_definitive_with_comparisons(given_: tuple[Case, Facts], tout: int) -> None:
    compared(*given_, tout, theory=False)


@examples(3, deep=100)
@given(asked(LONG), tout)
def test_definitive_with_long_rules(given_: tuple[Case, Facts], tout: int) -> None:
    compared(*given_, tout, theory=False)


# The two models


class Models:
    """The certain and the possible answers at some ticks, from the possible program itself."""

    def __init__(self, case: Case, facts: Facts, tin: int, low: int, high: int) -> None:
        asked = Range(low, high)
        with Engine(case.program, tables(facts)) as engine:
            answers = OpenAnswers(engine, case.query)
            made = answers.possible
            names = {made.name(case.query, p): p for p in made.patterns[case.query]}
            whole = made.core(tin)
            plan = engine.plan_core(whole, [case.query, *names], asked, tin)
            writer = engine.evaluate(plan)

            def rows(name: str) -> set[tuple[Row, int]]:
                if name not in plan.tables:
                    return set()
                return {
                    (tuple(args), t)
                    for *args, c, b in engine.all(writer.answers(name))
                    for t in ticks_of(c, b)
                }

            self.certain = rows(case.query)
            self.possible: dict[Pattern, set[tuple[Row, int]]] = {
                pattern: rows(name) for name, pattern in names.items()
            }

    def may(self, row: Row, at: int) -> bool:
        """Whether an answer is possible under some pattern."""
        for pattern, rows in self.possible.items():
            labels: dict[int, Value] = {}
            known = tuple(v for v, label in zip(row, pattern, strict=True) if label is None)
            same = all(
                label is None or labels.setdefault(label, v) == v
                for v, label in zip(row, pattern, strict=True)
            )
            if same and (known, at) in rows:
                return True
        return False


@examples(3, deep=200)
@given(st.one_of(asked(NEGATED), asked(RECURSIVE), asked(PAIRS)))
def test_certain_answers_grow_and_possible_ones_shrink(given_: tuple[Case, Facts]) -> None:
    case, facts = given_
    models = [Models(case, facts, tin, -1, TIN + 1) for tin in range(-1, TIN + 1)]
    for before, after in itertools.pairwise(models):
        assert before.certain <= after.certain
        for pattern, rows in after.possible.items():
            ground = all(label is None for label in pattern)
            # A value that has been seen by now was any value before.
            assert all(before.may(row, t) if ground else True for row, t in rows)
        assert all(after.may(row, t) for row, t in after.certain)


@examples(3, deep=200)
@given(st.one_of(asked(NEGATED), asked(PAIRS)))
def test_certain_and_possible_answers_are_as_by_definition(given_: tuple[Case, Facts]) -> None:
    case, facts = given_
    known = brute.history(case.program, facts)
    models = Models(case, facts, TIN, 0, TIN)
    for at in range(TIN + 1):
        expected = by_definition(case, known, TIN, at)
        assert {row for row, t in models.certain if t == at} <= expected.certain
        assert all(models.may(row, at) for row in expected.possible)


# Live facts and forgetting


def differs(case: Case, known: set[Fact], kept: set[Fact], tout: int) -> bool:
    """Whether some update tells the kept facts from all of them."""
    try:
        differences = truth.differences(
            case.program, case.query, known, kept, TIN, tout, reach=reach(case)
        )
        return next(differences, None) is not None
    except truth.TooLargeError:
        assume(False)
    raise AssertionError


def live_is_enough(case: Case, facts: Facts, tout: int) -> None:
    known = brute.history(case.program, facts)
    live = tidelog.live(case.program, case.query, tables(facts), TIN, tout)
    kept = {f for f in known if f.time is None} | {
        Fact(name, tuple(row[:-1]), row[-1])
        for name, table in live.items()
        for row in zip(*(c.to_pylist() for c in table.columns), strict=True)
    }
    assert kept <= known
    assert not differs(case, known, kept, tout)


next_tout = st.integers(0, TIN + 1)


@examples(3, deep=300)
@given(asked(NEGATED), next_tout)
def test_live_facts_are_enough(given_: tuple[Case, Facts], tout: int) -> None:
    live_is_enough(*given_, tout)


@examples(3, deep=150)
@given(asked(PAIRS), next_tout)
def test_live_facts_of_pairs_are_enough(given_: tuple[Case, Facts], tout: int) -> None:
    live_is_enough(*given_, tout)


@examples(3, deep=150)
@given(asked(RECURSIVE), next_tout)
def test_live_facts_are_enough_with_recursion(given_: tuple[Case, Facts], tout: int) -> None:
    live_is_enough(*given_, tout)


@examples(3, deep=100)
@given(asked(LONG), next_tout)
def test_live_facts_are_enough_with_long_rules(given_: tuple[Case, Facts], tout: int) -> None:
    live_is_enough(*given_, tout)


times = st.tuples(st.integers(0, TIN + 1), st.integers(0, TIN + 1)).filter(lambda t: t[1] <= t[0])


@examples(3, deep=200)
@given(st.one_of(asked(NEGATED), asked(RECURSIVE), asked(COMPARED)), times)
def test_forgettable(given_: tuple[Case, Facts], at: tuple[int, int]) -> None:
    case, facts = given_
    tout, tmem = at
    known = brute.history(case.program, facts)
    verdict = tidelog.forgettable(case.program, case.query, tables(facts), TIN, tout, tmem)
    needed = differs(case, known, brute.segment(known, tmem), tout)
    assert not (verdict.holds and needed), "a wrong yes"
    assert not verdict.exact or verdict.holds != needed
