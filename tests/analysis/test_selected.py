"""Windows over what is selected: the same answers, from fewer facts."""

from __future__ import annotations

import pytest
from oracle.generate import Case
from support.batch import agree, wanted

from tidelog.analysis.passes import passes
from tidelog.language.checks import check
from tidelog.language.program import Value
from tidelog.logic.core import Role, rules_for

INPUTS = "input E(x: text) @ t. input F(x: text, v: int, w: int) @ t."
FACTS: dict[str, list[tuple[Value, ...]]] = {
    "E": [(x, t) for x in "ab" for t in (0, 3, 70)],
    "F": [("a", 1, 9, 0), ("a", 9, 1, 2), ("b", 9, 9, 3), ("b", 2, 2, 64), ("a", 7, 7, 69)],
}


def steps(rule: str) -> list[str]:
    made = passes(check(f"{INPUTS} {rule}").accepted(), ["P"]).planned.core
    return [name for name, p in made.predicates.items() if p.role is Role.STEP]


@pytest.mark.parametrize(
    ("rule", "selected"),
    [
        ("some F(X, V, _) @ [T-9, T], V >= 5", ["F[X1, X2, _3; X2 >= 5]"]),
        ("some F(X, V, W) @ [T-9, T], V >= 5, 3 > W", ["F[X1, X2, X3; 3 > X3, X2 >= 5]"]),
        ("some F(X, V, W) @ [T, T+9], V * 2 >= 9, W > V", []),
        ("some F(X, V, V) @ [T, T+9], V >= 5", ["F[X1, X2, X2; X2 >= 5]"]),
        ("some F(X, V, _) @ [T-9, T], V >= 5, some F(X, _, V) @ [T-9, T]", []),
        ("always F(X, V, _) @ [T-1, T], V >= 5", []),
        ("at least 2 F(X, V, _) @ [T-9, T], V >= 5", []),
        ("max(V : F(X, V, _) @ [T-9, T]) >= 5", ["F[X1, X2, _3; X2 >= 5]"]),
        ("max(V : F(_, V, V) @ [T-9, T]) > 6", ["F[_1, X2, X2; X2 > 6]"]),
        ("min(V : F(_, V, 9) @ T) <= 1", ["F[_1, X2, 9; X2 <= 1]"]),
    ],
)
def test_what_is_compared_with_constants_only_is_selected(rule: str, selected: list[str]) -> None:
    rule = f"P(X) @ T :- E(X) @ T, {rule}."
    assert steps(rule) == selected
    text = f"{INPUTS} {rule}"
    agree(Case(text, check(text).accepted(), FACTS, ("P",), -5, 80))


def test_what_others_look_at_is_not_selected() -> None:
    text = f"{INPUTS} P(X, V) @ T :- E(X) @ T, some F(X, V, _) @ [T-9, T], V >= 5."
    assert steps(text.removeprefix(INPUTS)) == []
    case = Case(text, check(text).accepted(), FACTS, ("P",), 0, 80)
    assert len(wanted(case)["P"]) == 3
    agree(case)


def test_windows_are_the_same_whatever_their_variables_are_called() -> None:
    """So that each is done in one step."""
    text = f"""{INPUTS}
        P(X, V) @ T :- E(X) @ T, some F(X, V, _) @ [T-3, T].
        P(X, W) @ T :- E(X) @ T, some F(X, W, _) @ [T-8, T]."""
    case = Case(text, check(text).accepted(), FACTS, ("P",), 0, 80)
    core = passes(case.program, ["P"]).core
    asked = {p.predicate for c in rules_for(core, "P") for p in c.premises} - {"E"}
    assert len(asked) == 2
    assert asked == core.windows.keys()
    agree(case)
