"""Partition keys against all assignments of positions."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.deep import examples

from tidelog.analysis.dependencies import dependencies
from tidelog.analysis.partition import PartitionKey
from tidelog.language.checks import check
from tidelog.logic.normalise import core

ARITY = {"P": 2, "Q": 3, "A": 1, "E": 2, "F": 3, "R": 2}
RIGID = {"R"}

Use = tuple[str, tuple[str, ...]]


def atoms(names: str) -> st.SearchStrategy[Use]:
    terms = st.sampled_from(["X", "X", "Y", "Y", "Z", "a"])
    return st.sampled_from(names).flatmap(
        lambda n: st.tuples(st.just(n), st.tuples(*[terms] * ARITY[n]))
    )


def safe(rule: tuple[Use, list[Use]]) -> tuple[Use, list[Use]]:
    """Head variables that the body lacks become ones that it has, or a constant."""
    (head, args), body = rule
    bound = [t for _, uses in body for t in uses]
    return (head, tuple(t if t in bound else bound[0] for t in args)), body


rules = (
    st.tuples(atoms("PQA"), st.lists(atoms("PQAEFR"), min_size=1, max_size=3))
    .filter(lambda rule: any(name not in RIGID for name, _ in rule[1]))
    .map(safe)
)


def text_of(made: list[tuple[Use, list[Use]]]) -> str:
    def atom(use: Use) -> str:
        name, args = use
        return f"{name}({', '.join(args)})" + ("" if name in RIGID else " @ T")

    lines = [f"{atom(head)} :- {', '.join(map(atom, body))}." for head, body in made]
    # Every predicate can be derived, so that no rule is left out.
    return (
        "\n".join(lines)
        + "\nP(X, Y) @ T :- E(X, Y) @ T, Q(X, X, Y) @ T.\n"
        + "".join(f"{n}({', '.join('abc'[: ARITY[n]])}) @ 0.\n" for n in "PQA")
    )


def splits(rule: tuple[Use, list[Use]], key: dict[str, int]) -> bool:
    """Head and temporal body atoms carry one term at their key positions."""
    head, body = rule
    parts = [head, *(use for use in body if use[0] not in RIGID)]
    return len({args[key[name]] for name, args in parts}) == 1


@examples(50, deep=2000)
@given(st.lists(rules, min_size=1, max_size=4))
def test_a_key_is_found_if_and_only_if_there_is_one(made: list[tuple[Use, list[Use]]]) -> None:
    report = check(text_of(made))
    assert report.errors == ()
    deps = dependencies(core(report.program), ["P"])
    last = (("P", ("X", "Y")), [("E", ("X", "Y")), ("Q", ("X", "X", "Y"))])
    below = [r for r in [*made, last] if r[0][0] in deps.core.predicates]
    temporal = [n for n in deps.core.predicates if n not in RIGID]
    valid = [
        key
        for choice in product(*(range(ARITY[n]) for n in temporal))
        if (key := dict(zip(temporal, choice, strict=True)))
        and all(splits(rule, key) for rule in below)
    ]
    chosen = deps.key
    if valid:
        assert chosen.positions in valid
    else:
        assert chosen.positions is None
        assert chosen.reason
        assert chosen.clause is not None


def key(text: str, query: str = "P") -> PartitionKey:
    return dependencies(core(check(text).accepted()), [query]).key


@pytest.mark.parametrize(
    ("text", "positions"),
    [
        ("P(X) @ T :- E(X, _) @ T.", {"P": 0, "E": 0}),
        ("P(Y, X) @ T :- E(X) @ T, F(X, Y) @ T-1.", {"P": 1, "E": 0, "F": 0}),
        ("P(X) @ T :- E(X) @ T, R(X, Y), S(Y).", {"P": 0, "E": 0}),
        ("P(X) @ T :- E(X) @ T. P(X) @ T+1 :- P(X) @ T.", {"P": 0, "E": 0}),
        ("P(a, X) @ T :- E(X) @ T.", {"P": 1, "E": 0}),
        ("P(a) @ T :- E(a) @ T.", {"P": 0, "E": 0}),
        ("P(X, Y) @ T :- E(X, Y) @ T. Q(Y) @ T :- P(_, Y) @ T.", {"P": 0, "E": 0}),
    ],
)
def test_keys(text: str, positions: dict[str, int]) -> None:
    assert key(text).positions == positions


def test_the_choice_looks_ahead() -> None:
    """The first position would do for the first rule, but not for the second."""
    text = "Q(X, Y) @ T :- E(X, Y) @ T. P(Y) @ T :- Q(_, Y) @ T, F(Y) @ T."
    assert key(text).positions == {"E": 1, "F": 0, "Q": 1, "P": 0}


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("P(Y) @ T :- E(X) @ T, R(X, Y).", "a rule shares no argument between P, E", 1),
        ("P(X) @ T :- E(X) @ T.\nP(X) @ T :- E(Y) @ T, F(X, Y) @ T.", "a rule shares no", 2),
        ("P @ T :- E(_) @ T.", "P has no arguments to split on", 1),
        ("P(X) @ T :- E(X) @ T, Go @ T.", "Go has no arguments to split on", 1),
        ("A(X) :- E(X) @ 5.\nP(X) @ T :- A(X), E(X) @ T.", "A gathers facts of all keys", 1),
        ("P(X, Y) @ T :- E(X, Y) @ T.\nP(X, Y) @ T :- E(Y, X) @ T.", "disagree on where X or Y", 2),
    ],
)
def test_why_there_is_none(text: str, reason: str, line: int) -> None:
    refusal = key(text)
    assert refusal.positions is None
    assert reason in refusal.reason
    assert refusal.clause is not None
    assert refusal.clause.origin.line == line


def test_a_choice_that_fails_is_taken_back() -> None:
    """The first two arguments change places, which only choosing one of them shows."""
    text = "P(X, Y, Z) @ T :- E(X, Y, Z) @ T. P(X, Y, Z) @ T :- E(Y, X, Z) @ T."
    assert key(text).positions == {"E": 2, "P": 2}


def test_nothing_to_split_without_times() -> None:
    assert key("P(X) :- R(X).") == PartitionKey(None, "no predicate below has a time")


def test_facts_fit_any_key() -> None:
    assert key("P(X, Y) @ T :- E(X, Y) @ T. P(a, b) @ 3. P(b, a) @ 4.").positions is not None
