"""Redundancy: without a rule or an atom that is called redundant every answer is the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from oracle import naive
from oracle.aggregates import programs_with_aggregates
from oracle.generate import Case
from oracle.horizon import Facts
from oracle.negation import programs_with_not
from oracle.windows import programs_with_windows
from support.deep import examples

import tidelog
from tidelog.analysis.containment import Budget
from tidelog.analysis.redundancy import Redundant, reduced
from tidelog.language.checks import check
from tidelog.language.printer import print_program
from tidelog.language.program import Literal, Program, Rule, Statement
from tidelog.logic.normalise import core

connected = st.one_of(
    programs_with_aggregates(connected=True, max_rules=3),
    programs_with_windows(connected=True, max_rules=3),
    programs_with_not(connected=True, max_rules=3),
)


def without(program: Program, redundant: Redundant) -> Program:
    """The program without a rule, or without an atom of it."""

    def changed(statement: Statement) -> tuple[Statement, ...]:
        if statement is not redundant.rule or not isinstance(statement, Rule):
            return (statement,)
        if redundant.atom is None:
            return ()
        body = tuple(literal for literal in statement.body if literal is not redundant.atom)
        return (replace(statement, body=body),)

    return Program(tuple(new for old in program.statements for new in changed(old)))


def more_rules(draw: st.DrawFn, program: Program) -> Program:
    """The program with a copy of a rule, which may ask for an atom more or an atom less."""
    rules = [rule for rule in program.rules if rule.body]
    if not rules:
        return program
    rule = draw(st.sampled_from(rules))
    body: list[Literal] = list(rule.body)
    place = draw(st.integers(0, len(body) - 1))
    match draw(st.sampled_from(["again", "less", "more", "same"])):
        case "again":
            body.append(body[place])
        case "less":
            del body[place]
        case "more":
            body += [x for x in draw(st.sampled_from(rules)).body if x not in body][:1]
    copied = replace(rule, body=tuple(body))
    report = check(print_program(Program((*program.statements, copied))))
    return program if report.errors else report.accepted()


@st.composite
def cases(draw: st.DrawFn) -> Case:
    case = draw(connected)
    return case._replace(program=more_rules(draw, case.program))


def answers(program: Program, case: Case, facts: Facts) -> dict[str, set[tuple[object, ...]]]:
    found = naive.evaluate(program, facts, case.queries, case.low, case.high, limit=20_000)
    return {query: set(rows) for query, rows in found.items()}


@examples(30)
@given(cases(), st.data())
def test_what_is_called_redundant_changes_no_answer(case: Case, data: st.DataObject) -> None:
    _, redundant = reduced(core(case.program, case.queries), case.queries, Budget(5.0, 2000))
    assume(redundant)
    few = {
        name: data.draw(st.lists(st.sampled_from(rows), max_size=6)) if rows else []
        for name, rows in case.facts.items()
    }
    for each in redundant:
        event(f"{'rule' if each.atom is None else 'atom'}, {bool(each.rule.aggregated)}")
        shorter = without(case.program, each)
        if not any(rule.head.predicate in case.queries for rule in shorter.rules):
            continue
        for facts in (case.facts, few):
            try:
                before = answers(case.program, case, facts)
                after = answers(shorter, case, facts)
            except (naive.TooLargeError, naive.NotTotalError):
                continue
            left = {query: rows for query, rows in after.items() if rows or before[query]}
            assert left == {query: rows for query, rows in before.items() if query in left}


@pytest.mark.parametrize(
    "rule",
    [
        "P(S, N) @ T :- R(_, S) @ T, N = count(R(_, S) @ [T-4, T]).",
        "P(S, N) @ T :- R(_, S) @ T, N = count(R(_, S) @ T).",
        "P(S, N) @ T :- R(_, S) @ T, N = sum(V : R(V, S) @ [T-4, T]).",
        "P(S, N) @ T :- R(_, S) @ T, N = sum(V : R(V, S) @ T), N < 7.",
        "P(a, N) @ T :- R(_, S) @ T, N = sum(V : R(V, _) @ T).",
    ],
)
def test_the_only_rule_of_a_predicate_is_not_redundant(rule: str) -> None:
    """A count and a sum are 0 over nothing. That case never holds here; the other one does."""
    program = tidelog.parse(f"input R(a: int, s: text) @ t. {rule}")
    assert tidelog.analyze(program, "P").redundant == ()


def test_an_atom_that_every_case_of_an_aggregate_can_do_without_is_redundant() -> None:
    text = "input R(s: text) @ t. P(S, N) @ T :- R(S) @ T, R(S) @ T, N = count(R(S) @ [T-4, T])."
    (redundant,) = tidelog.analyze(tidelog.parse(text), "P").redundant
    assert redundant.atom is not None


def test_a_rule_that_repeats_one_with_an_aggregate_is_redundant() -> None:
    rule = "P(S, N) @ T :- R(S) @ T, N = count(R(S) @ [T-4, T])."
    more = "P(S, N) @ T :- R(S) @ T, F(S) @ T, N = count(R(S) @ [T-4, T])."
    program = tidelog.parse(f"input R(s: text) @ t. {rule} {more}")
    (redundant,) = tidelog.analyze(program, "P").redundant
    assert redundant.rule is program.rules[1]
    assert redundant.atom is None
