"""Offsets and times at the edge of what fits: the same answers as nearby, only further apart.

A program whose times are all multiplied by k, and moved, has its answers at the times so multiplied
and moved. So a small program says what a large one must answer.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import naive
from oracle.generate import Case, programs_and_facts
from support.deep import examples

import tidelog
from tidelog.data.schema import schemas
from tidelog.errors import DataError
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.engine import evaluate
from tidelog.evaluation.plan import Unbounded
from tidelog.evaluation.timeline import TooHard
from tidelog.language.checks import check
from tidelog.language.printer import print_program
from tidelog.language.program import (
    REACH_MAX,
    TIME_MAX,
    Atom,
    Literal,
    Negated,
    Program,
    Rule,
    Time,
    TimeOffset,
    TimePoint,
)
from tidelog.streaming.offline import Endless
from tidelog.streaming.schedule import Blocking
from tidelog.streaming.slices import MOST_TICKS
from tidelog.streaming.stream import Growing, Stream


class Scale:
    """Times t become k * t + shift, as far out as they fit."""

    def __init__(self, case: Case, random: Random) -> None:
        self.case = case
        rules = case.program.rules
        atoms = [atom for rule in rules for atom in (rule.head, *rule.atoms)]
        offsets = [abs(a.time.offset) for a in atoms if isinstance(a.time, TimeOffset)]
        points = [a.time.tick for a in atoms if isinstance(a.time, TimePoint)]
        self.temporal = {n for n, s in schemas(case.program).items() if s.time is not None}
        ticks = [row[-1] for n in self.temporal for row in case.facts.get(n, ())]
        times = [int(t) for t in (*ticks, *points, case.low, case.high)]
        most = min(REACH_MAX // (2 * sum(offsets) + 1), TIME_MAX // (2 * max(map(abs, times)) + 1))
        self.k = random.choice((most, most, most - most % 60, min(most, 2**40 + 7)))
        room = (-TIME_MAX - self.k * min(times), TIME_MAX - self.k * max(times))
        self.shift = random.choice((*room, 0))

    def at(self, tick: int) -> int:
        return self.k * tick + self.shift

    def program(self) -> Program:
        statements = tuple(
            replace(s, head=self._atom(s.head), body=tuple(map(self._literal, s.body)))
            if isinstance(s, Rule)
            else s
            for s in self.case.program.statements
        )
        return check(print_program(Program(statements))).accepted()

    def _literal(self, literal: Literal) -> Literal:
        if isinstance(literal, Atom):
            return self._atom(literal)
        return (
            replace(literal, atom=self._atom(literal.atom))
            if isinstance(literal, Negated)
            else literal
        )

    def _atom(self, atom: Atom) -> Atom:
        return replace(atom, time=self._time(atom.time))

    def _time(self, time: Time | None) -> Time | None:
        match time:
            case TimeOffset(variable, offset):
                return TimeOffset(variable, self.k * offset, time.origin)
            case TimePoint(tick):
                return TimePoint(self.at(tick), time.origin)
            case _:
                return time

    def facts(self) -> dict[str, list[tuple[Any, ...]]]:
        return {
            name: [(*r[:-1], self.at(r[-1])) for r in rows] if name in self.temporal else list(rows)
            for name, rows in self.case.facts.items()
        }

    def answers(self, queries: dict[str, set[tuple[Any, ...]]]) -> dict[str, set[tuple[Any, ...]]]:
        temporal = {
            r.head.predicate for r in self.case.program.rules if r.head.time
        } | self.temporal
        return {
            name: {(*r[:-1], self.at(r[-1])) for r in rows} if name in temporal else rows
            for name, rows in queries.items()
        }


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    if table.column_names == ["holds"]:
        return [()] * table.num_rows
    return [tuple(row.values()) for row in table.to_pylist()]


@examples(4, deep=400)
@given(programs_and_facts(huge=False), st.randoms(use_true_random=False))
def test_far_queries(case: Case, random: Random) -> None:
    scale = Scale(case, random)
    want = scale.answers(
        naive.evaluate(case.program, case.facts, case.queries, case.low, case.high)
    )
    with Engine(scale.program(), scale.facts()) as engine:
        try:
            got = engine.query(case.queries, scale.at(case.low), scale.at(case.high))
        except Unbounded:
            return
    assert {query: set(rows(table)) for query, table in got.items()} == want


WAYS: dict[str, dict[str, Any]] = {
    "offline": {},
    "eager": {"emit": "eager"},
    "strict": {"history": "strict"},
    "online": {"mode": "online"},
    "online eager": {"mode": "online", "emit": "eager"},
}


@pytest.mark.parametrize("way", WAYS)
@examples(3, deep=120)
@given(
    case=programs_and_facts(connected=True, huge=False, max_rules=5),
    random=st.randoms(use_true_random=False),
)
def test_far_streams(way: str, case: Case, random: Random) -> None:
    scale = Scale(case, random)
    facts = scale.facts()
    ticks = [row[-1] for n in scale.temporal for row in case.facts.get(n, ())]
    if not ticks:
        return
    rigid = {n: r for n, r in facts.items() if n not in scale.temporal}
    pushes: dict[int, dict[str, list[Any]]] = {}
    for name in scale.temporal & set(facts):
        for row in facts[name]:
            pushes.setdefault(row[-1], {}).setdefault(name, []).append(row)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Growing)
        try:
            stream = Stream(scale.program(), case.queries, rigid=rigid, budget=1.0, **WAYS[way])
        except (Blocking, Endless):
            return
        got: dict[str, list[tuple[Any, ...]]] = {query: [] for query in case.queries}
        try:
            for step in stream.run(sorted(pushes.items())):
                for query, table in step.answers.items():
                    got[query] += rows(table)
        except TooHard:  # rules that run both ways through time, over too many ticks
            return
    want = scale.answers(
        naive.evaluate(case.program, case.facts, case.queries, min(ticks), max(ticks))
    )
    for query in case.queries:
        assert len(got[query]) == len(set(got[query])), "an answer came twice"
        assert set(got[query]) == want[query]


# What is refused


def test_sums_that_do_not_fit_are_refused() -> None:
    big = 2**62 - 1
    for text in (
        f"P @ T :- E @ T, F @ T+{big}.",
        f"P @ T-{big} :- Q @ T+{big}. Q @ T-{big} :- E @ T+{big}.",
        f"P @ T :- E @ T-{REACH_MAX}. Q @ T :- P @ T-1.",
        f"P @ T :- E @ T, F @ S, G @ S+{2**61}.",
        f"P @ T :- E @ T. P @ T :- P @ T-{REACH_MAX}, Q @ T. Q @ T :- P @ T-1.",
    ):
        (error,) = check(text).errors
        assert error.code.id == "E003"
        assert "and a sum must fit 60 bits" in error.message


@pytest.mark.parametrize(
    "text",
    [
        f"P @ T :- E @ T-{REACH_MAX}. Q @ T :- P @ T+{REACH_MAX}.",
        f"P @ T+{2**62 - 1} :- E @ T+{2**62 - 1}.",
        f"P @ T :- E @ T, F @ {2**62 - 1}.",
    ],
)
def test_what_fits_is_accepted(text: str) -> None:
    assert not check(text).errors


@pytest.mark.parametrize("way", WAYS)
def test_other_rules_of_the_predicate_lose_nothing(way: str) -> None:
    """An offset close to the limit, beside a plain rule, and a carrying one below it."""
    program = tidelog.parse(
        f"P(X) @ T :- E(X) @ T, F(X) @ T+{REACH_MAX}. P(X) @ T :- G(X) @ T.\n"
        "On(X) @ T :- E(X) @ T. On(X) @ T+1 :- On(X) @ T, G(X) @ T+1.\n"
        "R(X) @ T :- On(X) @ T, P(X) @ T.\n"
        "input E(x: text) @ time. input F(x: text) @ time. input G(x: text) @ time."
    )
    facts = {
        "E": [("a", 0), ("b", 1)],
        "F": [("a", REACH_MAX)],
        "G": [("b", 1), ("b", 2), ("a", 1)],
    }
    queries = ["P"] if way == "strict" else ["P", "R"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Growing)
        stream = Stream(program, queries, **WAYS[way])
    got: dict[str, set[tuple[Any, ...]]] = {query: set() for query in queries}
    pushes = [(0, ["E"]), (1, ["E", "G"]), (2, ["G"]), (REACH_MAX, ["F"])]
    steps = [
        stream.push(t, {n: [r for r in facts[n] if r[-1] == t] for n in ns}) for t, ns in pushes
    ]
    for step in [*steps, stream.close()]:
        for query, table in step.answers.items():
            got[query] |= set(rows(table))
    want = evaluate(program, queries, facts).answers
    assert got == {query: set(rows(table)) for query, table in want.items()}
    assert got["P"] == {("a", 0), ("b", 1), ("b", 2), ("a", 1)}


def test_a_stretch_that_cannot_be_written_out_is_named() -> None:
    program = tidelog.parse("P(X) @ T :- E(X) @ T. P(X) @ T+1 :- P(X) @ T.")
    stream = Stream(program, ["P"])
    stream.push(0, {"E": [("a",)]})
    with pytest.raises(DataError, match="`P` may hold at each of"):
        stream.push(TIME_MAX)


def test_what_is_kept_tick_by_tick_is_there_at_a_far_end() -> None:
    """The end looks further ahead than ticks are gone through one by one."""
    far = 2 * MOST_TICKS
    program = tidelog.parse(f"P(X) @ T :- G(X) @ T. P(X) @ T :- E(X) @ T, F(X) @ T+{far}.")
    stream = Stream(program, ["P"])
    got = [row for t in range(3) for row in rows(stream.push(t, {"G": [("a",)]}).answers["P"])]
    got += rows(stream.close().answers["P"])
    assert sorted(got) == [("a", 0), ("a", 1), ("a", 2)]
