"""On which ticks a predicate is evaluated: enough for exact answers, and no more than needed."""

from __future__ import annotations

import pytest
from hypothesis import given
from oracle import naive
from oracle.generate import Case, programs_and_facts
from support.deep import examples

from tidelog.analysis.dependencies import dependencies
from tidelog.evaluation.ranges import EMPTY, Range, ranges
from tidelog.language.checks import check
from tidelog.logic.normalise import core


def ranges_of(text: str, query: str, data: dict[str, Range], asked: Range) -> dict[str, Range]:
    return ranges(dependencies(core(check(text).accepted()), [query]), data, asked)


def test_leaving_the_data_and_coming_back() -> None:
    """B at the last tick, 9, rests on A at 10, where there is no data."""
    text = "A @ T+1 :- E @ T. B @ T :- A @ T+1."
    assert ranges_of(text, "B", {"E": Range(0, 9)}, Range(0, 9)) == {
        "E": Range(0, 9),
        "A": Range(1, 10),
        "B": Range(0, 9),
    }


def test_only_what_is_asked_for() -> None:
    """B at 5 needs A at 6 and E at 5 only."""
    text = "A @ T+1 :- E @ T. B @ T :- A @ T+1."
    assert ranges_of(text, "B", {"E": Range(0, 9)}, Range(5, 5)) == {
        "E": Range(5, 5),
        "A": Range(6, 6),
        "B": Range(5, 5),
    }


def test_both_atoms_must_have_data() -> None:
    """E is seen from 0 to 9 and F from 5 to 20: both at T and T+2 only for T from 3 to 9."""
    text = "P @ T :- E @ T, F @ T+2."
    data = {"E": Range(0, 9), "F": Range(5, 20)}
    assert ranges_of(text, "P", data, Range(-100, 100))["P"] == Range(3, 9)


@pytest.mark.parametrize(
    ("rule", "range_"),
    [("P @ T+3 :- P @ T.", Range(0, 50)), ("P @ T-3 :- P @ T.", Range(-50, 9))],
)
def test_persistence_ends_where_the_question_does(rule: str, range_: Range) -> None:
    text = f"P @ T :- E @ T. {rule}"
    assert ranges_of(text, "P", {"E": Range(0, 9)}, Range(-50, 50))["P"] == range_


def test_persistence_is_not_cut_at_the_first_tick_asked_for() -> None:
    """What holds at 100 may have begun at 0."""
    text = "P @ T :- E @ T. P @ T+1 :- P @ T."
    assert ranges_of(text, "P", {"E": Range(0, 9)}, Range(100, 100))["P"] == Range(0, 100)


def test_program_facts_widen_the_range() -> None:
    text = "P @ T :- E @ T. P @ 70. Q @ T+1 :- P @ T."
    result = ranges_of(text, "Q", {"E": Range(0, 9)}, Range(-500, 500))
    assert (result["P"], result["Q"]) == (Range(0, 70), Range(1, 71))


def test_no_data_no_range() -> None:
    result = ranges_of("P @ T :- E @ T.", "P", {"E": EMPTY}, Range(0, 9))
    assert all(range_.empty for range_ in result.values())


@given(programs_and_facts(huge=False))
@examples(15, deep=600)
def test_every_answer_lies_in_the_range_of_its_query(case: Case) -> None:
    """That ranges of what lies below are wide enough too, the engine's own tests show."""
    deps = dependencies(core(case.program, case.queries), case.queries)
    data = {
        p.name: Range(min(times), max(times)) if times else EMPTY
        for p in deps.core.inputs
        if p.temporal
        for times in [[int(row[-1]) for row in case.facts.get(p.base, [])]]
    }
    result = ranges(deps, data, Range(case.low, case.high))
    answers = naive.evaluate(case.program, case.facts, case.queries, case.low, case.high)
    for query in case.queries:
        if query in result:
            assert all(result[query].low <= row[-1] <= result[query].high for row in answers[query])


@given(programs_and_facts(huge=False, recursive=False, explicit_times=False, connected=True))
@examples(15, deep=600)
def test_ranges_without_recursion_are_finite_and_near(case: Case) -> None:
    """No further from the data than all rules together can lead, and within what is asked."""
    deps = dependencies(core(case.program, case.queries), case.queries)
    data = {p.name: Range(-7, 7) for p in deps.core.inputs if p.temporal}
    result = ranges(deps, data, Range(-1000, 1000))
    offsets = [
        abs(atom.time.offset)
        for rule in case.program.rules
        for atom in (rule.head, *rule.atoms)
        if hasattr(atom.time, "offset")
    ]
    reach = 7 + 2 * len(case.program.rules) * max(offsets, default=0)
    for name, range_ in result.items():
        assert range_.empty or (-reach <= range_.low <= range_.high <= reach), name
