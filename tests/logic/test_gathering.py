"""Aggregates as predicates of their own."""

from __future__ import annotations

import pytest

import tidelog
from tidelog.analysis.passes import passes
from tidelog.language.checks import check
from tidelog.language.printer import print_rule
from tidelog.language.program import Program
from tidelog.logic.core import Core, Role, rules_for, rules_of
from tidelog.logic.normalise import core

INPUTS = "input E(x: text, v: int) @ t. input F(x: text) @ t. input R(x: text, y: text)."


def made(rule: str) -> tuple[Program, Core]:
    program = check(f"{INPUTS} {rule}").accepted()
    return program, core(program)


def bodies(rule: str) -> list[str]:
    """The clauses that a rule becomes, without those of windows and aggregates."""
    _, made_core = made(rule)
    return [print_rule(c.as_rule) for c in rules_of(made_core) if not c.made]


@pytest.mark.parametrize(
    ("literal", "clauses"),
    [
        ("count(F(X) @ [T-4, T]) >= 2", ["F[at 2 of 5 ticks](X) @ T"]),
        ("2 <= count(F(X) @ [T-4, T])", ["F[at 2 of 5 ticks](X) @ T"]),
        (
            "count(F(X) @ [T-1439, T]) >= 700",
            ["F(count of 1440 ticks: #1)(X, Count) @ T, Count >= 700"],
        ),
        ("count(F(X) @ [T-4, T]) < 2", ["not F[at 2 of 5 ticks](X) @ T"]),
        ("count(E(X, _) @ [T-4, T]) > 0", ["E[at 1 of 5 (#0,_) ticks](X) @ T"]),
        ("count(E(X, _) @ [T-4, T]) = 0", ["not E[at 1 of 5 (#0,_) ticks](X) @ T"]),
        (
            "count(E(X, _) @ [T-4, T]) >= 2",
            ["E(count of 5 ticks: #1, _2)(X, Count) @ T, Count >= 2"],
        ),
        ("max(V : E(X, V) @ T) > 3", ["E(X, V) @ T, V > 3"]),
        ("max(V : E(_, V) @ T) > 3", ["E[at 1 of 1 (_,#0) ticks](V) @ T, V > 3"]),
        ("4 >= min(V : E(X, V) @ [T, T+4])", ["E[at 1 of 5 ticks](X, V) @ T+4, 4 >= V"]),
        ("M = min(V : E(X, V) @ T), M < 4, M <= 9", ["E(X, V) @ T, V < 4, V <= 9"]),
        (
            "M = max(V : E(X, V) @ T), M > 4, M < 9",
            ["E(max: #1, V2)(X, M) @ T, M > 4, M < 9"],
        ),
        (
            "E(_, W) @ T, max(V : E(X, V) @ T) >= W",
            ["E(_, W) @ T, E(max: #1, V2)(X, Max) @ T, Max >= W"],
        ),
        (
            "max(V : E(X, V) @ T) >= 3, min(V : E(X, V) @ T) <= 1",
            ["E(X, V_) @ T, E(X, V) @ T, V_ >= 3, V <= 1"],
        ),
        ("max(V : E(X, V) @ T) <= 3", ["E(max: #1, V2)(X, Max) @ T, Max <= 3"]),
        ("min(V : E(X, V) @ T) > 3", ["E(min: #1, V2)(X, Min) @ T, Min > 3"]),
        ("max(Y : R(X, Y)) > b", ["R(max: #1, V2)(X, Max), Max > b"]),
        ("max(V : E(X, V) @ T) = 3", ["E(max: #1, V2)(X, 3) @ T"]),
        (
            "sum(V : E(X, V) @ T) < 3",
            ["E(sum: #1, V2)(X, Sum) @ T, Sum < 3", "not E[at 1 of 1 (#0,_) ticks](X) @ T"],
        ),
        ("sum(V : E(X, V) @ T) > 3", ["E(sum: #1, V2)(X, Sum) @ T, Sum > 3"]),
    ],
)
def test_what_a_literal_becomes(literal: str, clauses: list[str]) -> None:
    """Of nothing a sum is 0; a clause that cannot hold then is left out."""
    got = bodies(f"P(X) @ T :- F(X) @ T, {literal}.")
    assert got == [f"P(X) @ T :- F(X) @ T, {clause}." for clause in clauses]


def test_a_value_of_nothing_stands_in_the_head() -> None:
    got = bodies("P(X, S) @ T :- F(X) @ T, S = sum(V : E(X, V) @ T).")
    assert got[1] == "P(X, 0) @ T :- F(X) @ T, not E[at 1 of 1 (#0,_) ticks](X) @ T."


def test_rules_that_ask_for_the_same_share_it() -> None:
    _, shared = made(
        "P(X, S) @ T :- F(X) @ T, S = max(V : E(X, V) @ [T-2, T])."
        " Q(Y, S) @ T :- F(Y) @ T, S = max(W : E(Y, W) @ [T+1, T+3])."
    )
    gathered = [p for p in shared.predicates.values() if p.role is Role.GATHERED]
    assert len(gathered) == 1


def test_two_counts_of_nothing_without_a_time() -> None:
    """Each has a `_` of its own, so that one may go while the other stays."""
    program, _ = made(
        "P(X) :- R(X, _), count(R(X, a)) < 4, count(R(a, X)) <= 0, count(R(b, X)) = 0."
    )
    assert rules_of(passes(program, ["P"]).reduced)


def totals(made_core: Core) -> list[str]:
    """The rules of totals."""
    names = [n for n, p in made_core.predicates.items() if p.role is Role.TOTAL]
    return [print_rule(c.as_rule) for name in names for c in rules_for(made_core, name)]


def test_many_counts_of_nothing_take_two_rules_each() -> None:
    counts = [f"N{i} = count(E(X, {i}) @ [T-{i}, T])" for i in range(12)]
    total = " + ".join(f"N{i}" for i in range(12))
    _, whole = made(f"P(X, S) @ T :- F(X) @ T, {', '.join(counts)}, S = {total}.")
    assert len(totals(whole)) == 24
    assert len(rules_of(whole)) == 25


def test_a_total_is_at_the_time_of_its_aggregate() -> None:
    _, whole = made(
        "P(X, S) @ T :- F(X) @ T, E(X, W) @ T-1, K = count(E(X, _) @ T+2),"
        " L = sum(V : E(X, V) @ T-3), M = count(R(X, _)), S = K + L + M + W."
    )
    ahead, behind, rigid = "E(count: #1, _2) or 0, 1", "E(sum: #1, V2) or 0, 2", "R(count: #1, _2)"
    assert totals(whole) == [
        f"{ahead}(X, _) @ T :- E(count: #1, _2)(X, _) @ T, F(X) @ T-2.",
        f"{ahead}(X, 0) @ T :- not E[at 1 of 1 (#0,_) ticks](X) @ T, F(X) @ T-2.",
        f"{behind}(X, _) @ T :- E(sum: #1, V2)(X, _) @ T, F(X) @ T+3.",
        f"{behind}(X, 0) @ T :- not E[at 1 of 1 (#0,_) ticks](X) @ T, F(X) @ T+3.",
        f"{rigid} or 0, 3(X, _) @ T :- {rigid}(X, _), F(X) @ T.",
        f"{rigid} or 0, 3(X, 0) @ T :- not {rigid}(X, _), F(X) @ T.",
    ]
    (rule,) = rules_for(whole, "P")
    assert [premise.offset for premise in rule.premises] == [0, -1, 2, -3, 0]


def test_people_see_no_totals() -> None:
    rule = (
        "P(X, S) @ T :- F(X) @ T, K = count(E(X, _) @ [T-4, T+2]), L = count(E(X, 1) @ T-3),"
        " M = count(R(X, _)), S = K + L + M."
    )
    program = tidelog.parse(f"{INPUTS} {rule}")
    deps = passes(program, ["P"]).dependencies
    assert deps.phi["P"] == deps.folded.phi["P"] == 2
    assert [(e.body, e.distance) for e in deps.folded.edges] == [
        ("F", "0"),
        ("E", "[-4, +2]"),
        ("E", "-3"),
        ("R", "rigid"),
    ]
    facts = {"F": [("a", 3)], "E": [("a", 7, 5), ("a", 8, 4)], "R": [("b", "c")]}
    proof = str(program.why("P(a, 2) @ 3", facts))
    assert "count(E(a, _) @ [-1, 5]) = 2" in proof
    assert "not E(a, 1) @ 0" in proof
    assert "or 0" not in proof


def test_what_is_missing_is_no_total() -> None:
    """A total is only missing where the rest of the rule is: then that is what is told."""
    program = tidelog.parse(
        f"{INPUTS} P(X) @ T :- F(X) @ T, K = count(E(X, 1) @ T), L = count(E(X, 2) @ T),"
        " M = count(E(X, 3) @ T), K + L + M > 1."
    )
    facts = {"F": [("a", 0)], "E": [("a", 2, 0)]}
    assert "fails    K + L + M = 1, needs > 1" in str(program.why("P(a) @ 0", facts))
    told = str(program.why("P(b) @ 0", facts))
    assert "missing  F(b) @ 0" in told
    assert "missing  count" not in told
