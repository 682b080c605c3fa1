"""Suggestions: the changed rules block no more, and differ from the old ones as they say."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from oracle import naive
from oracle.generate import Case, programs_and_facts
from support.deep import examples

import tidelog
from tidelog.analysis.advice import Suggestion, advice
from tidelog.analysis.dependencies import Class, dependencies
from tidelog.cli import cli
from tidelog.language.checks import check
from tidelog.language.printer import print_program, print_rule
from tidelog.language.program import Program, Value
from tidelog.logic.normalise import core

Rows = set[tuple[Value, ...]]


def changed(program: Program, suggestion: Suggestion) -> Program:
    """The program as someone would write it who follows the suggestion."""
    kept = [s for s in program.statements if s not in suggestion.before]
    return check(print_program(Program((*kept, *suggestion.after)))).accepted()


def class_of(program: Program, query: str) -> Class:
    return dependencies(core(program, [query]), [query]).cls


def after(suggestion: Suggestion) -> list[str]:
    return [print_rule(rule) for rule in suggestion.after]


def answers(program: Program, facts: dict[str, Rows], query: str, low: int, high: int) -> Rows:
    return naive.evaluate(program, facts, [query], low, high)[query]


events = st.sets(st.tuples(st.sampled_from("ab"), st.integers(0, 6)), max_size=6)


@pytest.mark.slow
@pytest.mark.grows
def test_every_suggestion_can_be_followed() -> None:
    count: Counter[str] = Counter()

    @given(programs_and_facts(huge=False))
    @examples(100)
    def follow(case: Case) -> None:
        for query in case.program.heads:
            suggestions = advice(case.program, query)
            if class_of(case.program, query) is not Class.BLOCKING:
                assert not suggestions
                continue
            count["blocking"] += 1
            count["helped"] += bool(suggestions)
            for suggestion in suggestions:
                new = changed(case.program, suggestion)
                assert class_of(new, query) is suggestion.cls is not Class.BLOCKING
                assert suggestion.before
                assert suggestion.after

    follow()
    assert count["helped"] > 20, count


LATE = "input Alarm(x: text) @ t. Late(X) @ T :- Alarm(X) @ T. Late(X) @ T-2 :- Late(X) @ T."


@given(events)
@examples(7, deep=250)
def test_looking_ahead(alarms: Rows) -> None:
    program = tidelog.parse(LATE)
    forward, ahead = advice(program, "Late")
    assert (forward.cls, ahead.cls) == (Class.RECURSIVE, Class.NONRECURSIVE)
    facts = {"Alarm": alarms}
    # Forward: the same with time running the other way.
    mirrored = {"Alarm": {(x, -t) for x, t in alarms}}
    old = answers(program, mirrored, "Late", -10, 10)
    new = answers(changed(program, forward), facts, "Late", -10, 10)
    assert new == {(x, -t) for x, t in old}
    # Ahead: up to four ticks.
    new = answers(changed(program, ahead), facts, "Late", -10, 10)
    assert new == {(x, t - n) for x, t in alarms for n in (0, 2, 4)}


@given(events, events)
@examples(7, deep=250)
def test_a_rigid_head(faults: Rows, starts: Rows) -> None:
    text = """
    input Fault(x: text) @ t. input Start(x: text) @ t.
    Faulty(X) :- Fault(X) @ T, Fault(X) @ T+1.
    Careful(X) @ T :- Start(X) @ T, Faulty(X).
    """
    program = tidelog.parse(text)
    facts = {"Fault": faults, "Start": starts}
    (suggestion,) = advice(program, "Faulty")
    new = changed(program, suggestion)
    # By the end of the data everything is known that ever will be.
    late = answers(new, facts, "Faulty", 9, 9)
    assert {row[:1] for row in late} == answers(program, facts, "Faulty", 0, 0)
    (suggestion,) = advice(program, "Careful")
    known = {
        (x, t)
        for x, t in starts
        if any((x, s) in faults and (x, s - 1) in faults for s in range(t + 1))
    }
    assert answers(changed(program, suggestion), facts, "Careful", 0, 9) == known


@given(events, events)
@examples(7, deep=250)
def test_unrelated_times(faults: Rows, starts: Rows) -> None:
    text = """
    input Fault(x: text) @ t. input Start(x: text) @ t.
    Again(X) @ T :- Start(X) @ T, Fault(X) @ S.
    """
    program = tidelog.parse(text)
    (suggestion,) = advice(program, "Again")
    facts = {"Fault": faults, "Start": starts}
    derived = answers(changed(program, suggestion), facts, "Again", 0, 9)
    assert derived == {(x, t) for x, t in starts if any((x, s) in faults for s in range(t + 1))}


def test_a_head_at_a_fixed_time() -> None:
    program = tidelog.parse("Once(X) @ 5 :- E(X) @ _.")
    (suggestion,) = advice(program, "Once")
    assert after(suggestion) == ["Once(X) @ T :- E(X) @ T."]


def test_a_name_that_is_taken_is_not_used() -> None:
    program = tidelog.parse("SeenF(X) :- G(X). P(T) @ S :- E(T) @ S, F(T) @ _.")
    (suggestion,) = advice(program, "P")
    # T is an object here, and SeenF something else.
    assert after(suggestion) == [
        "SeenF2(T) @ T2 :- F(T) @ T2.",
        "SeenF2(T) @ T2+1 :- SeenF2(T) @ T2.",
        "P(T) @ S :- E(T) @ S, SeenF2(T) @ S.",
    ]


INPUTS = "input E(x: text) @ t. input F(x: text) @ t. input G(x: text) @ t. "


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (
            "Known(X) :- F(X) @ T. Q(X) @ T :- E(X) @ T, not Known(X).",
            [
                "Known(X) @ T :- F(X) @ T.",
                "Known(X) @ T+1 :- Known(X) @ T.",
                "Q(X) @ T :- E(X) @ T, not Known(X) @ T.",
            ],
        ),
        (
            "Q(X) @ T :- E(X) @ T, F(X) @ S, not G(X) @ S+1.",
            [
                "SeenQ(X) @ T+1 :- F(X) @ T, not G(X) @ T+1.",
                "SeenQ(X) @ T+1 :- SeenQ(X) @ T.",
                "Q(X) @ T :- E(X) @ T, SeenQ(X) @ T.",
            ],
        ),
        (
            "Q(X) @ T :- E(X) @ T. Q(X) @ T :- Q(X) @ T+1, not F(X) @ T.",
            ["Q(X) @ T+1 :- Q(X) @ T, not F(X) @ T+1."],
        ),
    ],
)
def test_what_is_absent_keeps_its_time(rules: str, expected: list[str]) -> None:
    (suggestion,) = advice(tidelog.parse(INPUTS + rules), "Q")
    assert after(suggestion) == expected


def test_what_was_absent_once_is_not_remembered_for_good() -> None:
    rules = "K(X) :- F(X) @ T. R(X) :- E(X) @ T, not K(X). Q(X) @ T :- E(X) @ T, R(X)."
    assert advice(tidelog.parse(INPUTS + rules), "Q") == []


@pytest.mark.parametrize(
    "text",
    [
        "P(a). P(X) :- E(X) @ _.",  # a fact has no time to be given
        "input P(x: text). P(X) :- E(X) @ _.",  # nor has an input
        "P(X) @ T :- Q(X) @ T+1. Q(X) @ T :- P(X) @ T. P(X) @ T :- E(X) @ T.",  # two rules decide
        "P(X) @ T :- E(X) @ T. P(X) @ T :- P(X) @ T+1, P(X) @ T+2.",  # which one to turn?
    ],
)
def test_where_no_small_change_helps(text: str) -> None:
    program = tidelog.parse(text)
    assert class_of(program, "P") is Class.BLOCKING
    assert advice(program, "P") == []


def test_json(tmp_path: Path) -> None:
    (tmp_path / "r.tdl").write_text(
        "Late @ T :- Alarm @ T. Late @ T :- Late @ T+1. Now @ T :- Alarm @ T."
    )
    result = CliRunner().invoke(cli, ["explain", str(tmp_path / "r.tdl"), "--json"])
    late, now = json.loads(result.stdout)["queries"]
    assert [a["class"] for a in late["advice"]] == [2, 1]
    assert late["advice"][0]["before"] == ["Late @ T :- Late @ T+1."]
    assert late["advice"][0]["after"] == ["Late @ T+1 :- Late @ T."]
    assert now["advice"] == []
