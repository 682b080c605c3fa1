"""What may be otherwise when a stream in process goes on from a snapshot, and what may not."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle.aggregates import programs_with_aggregates
from oracle.generate import Case, programs_and_facts
from oracle.negation import programs_with_not
from oracle.windows import programs_with_windows
from support.deep import examples
from support.streams import rows, streams_what_is_evaluated

import tidelog
from tidelog.streaming.snapshot import SnapshotError
from tidelog.streaming.stream import Stream, StreamWarning

RULES = """
input E(x: text, v: int) @ time.
input F(x: text) @ time.
P(X) @ T :- E(X, V) @ T, V > 1.
P(X) @ T :- F(X) @ T, E(X, _) @ T-1.
Q(X, N) @ T :- P(X) @ T, N = count(E(X, _) @ [T-2, T]).
R(X) @ T+1 :- Q(X, N) @ T, not F(X) @ T+1.
"""
DISGUISE = """
input F(x: text) @ time.
input E(x: text, v: int) @ time.
R(A) @ U+1 :- Q(A, B) @ U, not F(A) @ U+1.
Q(C, D) @ S :- P(C) @ S, D = count(E(C, _) @ [S-2, S]).
P(Y) @ B :- F(Y) @ B, E(Y, _) @ B-1.
P(V) @ T :- E(V, X) @ T, X > 1.
"""


WAYS: list[dict[str, Any]] = [
    {},
    {"mode": "online"},
    {"emit": "eager"},
    {"mode": "online", "intervals": True},
    {"history": "strict"},
]
CASES = st.one_of(
    programs_and_facts(connected=True),
    programs_with_not(connected=True, clock=True),
    programs_with_aggregates(connected=True),
    programs_with_windows(connected=True),
)


@pytest.mark.filterwarnings("ignore:.*its columns are still called")
@examples(12, deep=400)
@given(CASES, st.integers(0, 2), st.randoms(use_true_random=False), st.sampled_from(WAYS))
def test_rules_in_disguise_go_on(
    tmp_path_factory: pytest.TempPathFactory,
    case: Case,
    lateness: int,
    random: Random,
    how: dict[str, Any],
) -> None:
    file = tmp_path_factory.getbasetemp() / "disguised.snapshot"
    streams_what_is_evaluated(case, lateness, random, file, disguises=True, **how)


@pytest.mark.filterwarnings("ignore:R. its columns")
@pytest.mark.parametrize("mode", ["offline", "online"])
def test_answers_keep_their_columns(mode: Any, tmp_path: Path) -> None:
    stream = Stream(tidelog.parse(RULES), ["Q", "R"], mode=mode)
    stream.push(0, {"E": [("a", 2)]})
    stream.snapshot(tmp_path / "s")
    other = Stream(tidelog.parse(DISGUISE), ["R", "Q"], mode=mode)
    with pytest.warns(StreamWarning, match="Q: its columns are still called x, n, .* not c, d"):
        other.restore(tmp_path / "s")
    steps = [other.push(1, {"F": [("a",)]}), other.close()]
    answers = [table for step in steps for table in [step.answers["Q"]] if table.num_rows]
    assert {tuple(table.column_names) for table in answers} == {("x", "n", "time")}
    assert [row for table in answers for row in rows(table)] == [("a", 1, 1)]


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (RULES.replace("V > 1", "V > 2"), r"there was P.*V > 1\., and now there is P.*V > 2\."),
        (RULES.replace("E(X, V) @ T, V", "E(V, X) @ T, V").replace("v: int", "v: any"), "rules"),
        (RULES.replace("P(X) @ T :- F(X) @ T, E(X, _) @ T-1.", ""), r"there was P\(X\) @ T :- F"),
        (RULES.replace("E(X, _) @ T-1", "E(X, X) @ T-1"), "there was"),
        (RULES + "S(X) @ T :- F(X) @ T.", r"now there is S\(X\)"),
        (RULES.replace("v: int", "w: int"), "other inputs"),
        (RULES + "output Q(who, count), R.", "other output columns"),
    ],
)
def test_other_rules_are_refused_and_shown(now: str, said: str, tmp_path: Path) -> None:
    Stream(tidelog.parse(RULES), ["Q", "R"]).snapshot(tmp_path / "s")
    try:
        program = tidelog.parse(now)
    except tidelog.ProgramError:
        return  # no rules that could be meant
    with pytest.raises(SnapshotError, match=said):
        Stream(program, ["Q", "R"]).restore(tmp_path / "s")


def test_other_queries_are_refused(tmp_path: Path) -> None:
    Stream(tidelog.parse(RULES), ["Q", "R"]).snapshot(tmp_path / "s")
    with pytest.raises(SnapshotError, match="other queries"):
        Stream(tidelog.parse(RULES), ["Q"]).restore(tmp_path / "s")


@examples(100)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3)), min_size=2, max_size=30),
    st.lists(st.integers(0, 5), min_size=1, max_size=4),
)
def test_lateness_may_change_and_time_never_goes_back(
    tmp_path_factory: pytest.TempPathFactory, rows_: list[tuple[int, int]], latenesses: list[int]
) -> None:
    """The oracle: tin is the greatest of all (last tick - lateness at that time); a row is a fact

    if its tick lies after the tin from before it came.
    """
    file = tmp_path_factory.getbasetemp() / "lateness.snapshot"
    program = tidelog.parse("input E(x: int) @ time. P(X) @ T :- E(X) @ T.")
    stream = Stream(program, "P", lateness=latenesses[0])
    known: set[tuple[int, int]] = set()
    got: set[tuple[int, int]] = set()
    tin, last = -10, 0
    for number, (tick, back) in enumerate(rows_):
        part = number * len(latenesses) // len(rows_)
        if stream.options.lateness != latenesses[part] and stream.tin is not None:
            stream.snapshot(file)
            stream = Stream(program, "P", lateness=latenesses[part])
            stream.restore(file)
        last = max(last, tick)
        row = (number, max(0, last - back))
        step = stream.push(last, {"E": [row]})
        late = row[1] <= tin
        assert (step.late == {"E": [row]}) == late
        known |= set() if late else {row}
        tin = max(tin, last - stream.options.lateness)
        assert step.tin == tin
        got |= set(rows(step.answers["P"]))
    got |= set(rows(stream.close().answers["P"]))
    assert got == known


def test_max_jump_may_change(tmp_path: Path) -> None:
    program = tidelog.parse("input E(x: int) @ time. P(X) @ T :- E(X) @ T.")
    stream = Stream(program, "P", max_jump=2)
    assert stream.push(0, {"E": [(1, 9)]}).late == {"E": [(1, 9)]}
    stream.snapshot(tmp_path / "s")
    again = Stream(program, "P", max_jump=10)
    again.restore(tmp_path / "s")
    assert again.push(1, {"E": [(1, 9)]}).late == {}


PAIR = "input E(x: int) @ time. P(X) @ T :- E(X) @ T-1. Q(X) @ T :- E(X) @ T, E(Y) @ T-1, {}."


@pytest.mark.filterwarnings("ignore:.*its columns are still called")
def test_bodies_in_another_order_go_on(tmp_path: Path) -> None:
    stream = Stream(tidelog.parse(PAIR.format("X != Y")), ["P", "Q"])
    stream.push(0, {"E": [(1,)]})
    stream.snapshot(tmp_path / "s")
    now = (
        "input E(x: int) @ time. P(Z) @ T :- E(Z) @ T-1. Q(A) @ T :- E(B) @ T-1, A != B, E(A) @ T."
    )
    again = Stream(tidelog.parse(now), ["P", "Q"])
    again.restore(tmp_path / "s")
    got = {name: rows(table) for name, table in again.push(1, {"E": [(2,)]}).answers.items()}
    assert got == {
        name: rows(table) for name, table in stream.push(1, {"E": [(2,)]}).answers.items()
    }
    assert got["Q"] == [(2, 1)]


def test_a_rule_that_is_only_renamed_is_not_named(tmp_path: Path) -> None:
    stream = Stream(tidelog.parse(PAIR.format("X != Y")), ["P", "Q"])
    stream.push(0, {"E": [(1,)]})
    stream.snapshot(tmp_path / "s")
    now = "input E(x: int) @ time. P(Z) @ T :- E(Z) @ T-1. Q(A) @ T :- E(B) @ T-1, A < B, E(A) @ T."
    with pytest.raises(SnapshotError, match=r"there was Q\(X\).*and now there is Q\(A\)"):
        Stream(tidelog.parse(now), ["P", "Q"]).restore(tmp_path / "s")
