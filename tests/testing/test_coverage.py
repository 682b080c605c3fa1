"""Coverage of every kind of literal: what counts, and that no rules are too much for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle.aggregates import programs_with_aggregates, programs_with_cycles
from oracle.generate import Case
from oracle.horizon import temporal_predicates
from oracle.numbers import programs_with_numbers
from oracle.windows import programs_with_windows
from support.deep import examples

import tidelog.testing
from tidelog.language.printer import print_value
from tidelog.testing import RunReport

programs = st.one_of(
    programs_with_aggregates(max_rules=3),
    programs_with_cycles(max_rules=3),
    programs_with_numbers(max_rules=3),
    programs_with_windows(max_rules=3),
)


def measured(folder: Path, rules: str, test: dict[str, object]) -> RunReport:
    (folder / "rules.tdl").write_text(rules)
    (folder / "rules.test.yaml").write_text(json.dumps({"rules": "rules.tdl", "tests": [test]}))
    return tidelog.testing.run([folder], coverage=True)


def facts_of(case: Case) -> list[str]:
    temporal = temporal_predicates(case.program)
    facts = []
    for name, rows in case.facts.items():
        for row in rows:
            args = row[:-1] if name in temporal else row
            values = f"({', '.join(map(print_value, args))})" if args else ""
            facts.append(f"{name}{values}" + (f" @ {row[-1]}" if name in temporal else ""))
    return facts


def any_answer(case: Case, query: str) -> str:
    types = len(case.program.output_columns(query))
    values = f"({', '.join('_' * types)})" if types else ""
    return f"{values} @ _" if query in temporal_predicates(case.program) else values


@examples(6, deep=300)
@given(programs)
def test_every_program_can_be_measured(
    tmp_path_factory: pytest.TempPathFactory, case: Case
) -> None:
    asked = [query for query in case.queries if query not in case.program.clocks]
    expect = {query: {"has": [any_answer(case, query)]} for query in asked}
    test: dict[str, object] = {"name": "a", "facts": facts_of(case), "expect": expect}
    report = measured(tmp_path_factory.mktemp("rules"), case.text, test)
    assert report.files[0].wrong is None
    assert report.coverage is not None
    (file,) = report.coverage.files
    assert file.rules == sum(1 for rule in case.program.rules if rule.body)
    assert 0 <= file.ways_covered <= file.ways


RATE = """\
input Hit(c: text, id: int) @ t.
input Miss(c: text, id: int) @ t.
Rate(C, R) @ T :- Hit(C, _) @ T, A = count(Miss(C, _) @ T), B = count(Hit(C, _) @ T), R = A / B.
High(C) @ T :- Rate(C, R) @ T, D = R - 0.5, D >= 0.
"""


@pytest.mark.parametrize("high", [["(c) @ 0"], []])
def test_what_gives_a_variable_its_value_has_no_ways(high: list[str], tmp_path: Path) -> None:
    """Of five comparisons only `D >= 0` can hold or fail."""
    facts = ["Hit(c, 1) @ 0", "Hit(c, 2) @ 0", "Miss(c, 3) @ 0", "Hit(c, 4) @ 1"]
    expect = {"High": high, "Rate": ["(c, 0.5) @ 0", "(c, 0.0) @ 1"]}
    test: dict[str, object] = {"name": "a", "facts": facts, "expect": expect}
    report = measured(tmp_path, RATE, test)
    assert report.coverage is not None
    (file,) = report.coverage.files
    assert file.ways == 2
    assert file.ways_covered == 1 + bool(high)
    assert file.rules_covered == 1 + bool(high)


def test_the_opposite_of_a_test_gives_no_variable_its_value(tmp_path: Path) -> None:
    """`D != 3` turned round says `D = 3`, of a D that `A - B` still gives its value."""
    rules = "input E(a: int, b: int) @ t. P(A) @ T :- D != 3, E(A, B) @ T, C = A - B, D = C.\n"
    test: dict[str, object] = {"name": "a", "facts": ["E(4, 1) @ 0"], "expect": {"P": []}}
    report = measured(tmp_path, rules, test)
    assert report.coverage is not None
    (file,) = report.coverage.files
    assert (file.ways, file.ways_covered) == (2, 1)


def test_recursion_through_a_window(tmp_path: Path) -> None:
    """Coverage asks for every predicate, also for those that windows become."""
    rules = "A(X) @ T :- E(X) @ T, not some A(X) @ [T-3, T-1]."
    test = {"name": "a", "facts": ["E(a) @ 0"], "expect": {"A": ["(a) @ 0"]}}
    assert measured(tmp_path, rules, test).coverage is not None
