"""The paper's reductions, as tests that turn one problem into another.

Containment of Q1 in Q2 holds iff Delay, Window and Forget hold for queries built from both (the
lemmas on hardness); the Forget instance is <Q, {A(0)}, 0, 0, 0>: the printed one always holds.
Evaluation gives an answer iff DTP holds for a query that otherwise waits for one more fact, all of
the data lying at times up to tau.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from oracle.naive import evaluate
from support.deep import examples

import tidelog
from tidelog.analysis.containment import Budget
from tidelog.analysis.delay import delay_holds
from tidelog.analysis.dependencies import Dependencies, dependencies
from tidelog.analysis.window import window_holds
from tidelog.logic.normalise import core

TERMS = ("X", "Y", "Z", "a")


@st.composite
def unions(draw: st.DrawFn) -> list[str]:
    """A few conjunctions over E and F, each with X in it."""
    bodies = []
    for _ in range(draw(st.integers(1, 3))):
        atoms = []
        for _ in range(draw(st.integers(1, 3))):
            if draw(st.booleans()):
                pair = draw(st.tuples(st.sampled_from(TERMS), st.sampled_from(TERMS)))
                atoms.append(f"E({pair[0]}, {pair[1]}) @ T")
            else:
                atoms.append(f"F({draw(st.sampled_from(TERMS))}) @ T")
        if not any("X" in atom for atom in atoms):
            atoms.append("F(X) @ T")
        bodies.append(", ".join(atoms))
    return bodies


def rules(head: str, bodies: list[str]) -> str:
    """The union through one more level, so that there is something to unfold."""
    lines = [f"{head}(X) @ T :- {head}0(X) @ T."]
    return "\n".join(lines + [f"{head}0(X) @ T :- {body}." for body in bodies])


def query(text: str) -> Dependencies:
    return dependencies(core(tidelog.parse(text), ["P"]), ["P"])


INPUTS = "input E(a: text, b: text) @ t. input F(a: text) @ t. input A @ t.\n"


@examples(4, deep=240)
@given(unions(), unions())
def test_containment_is_delay_window_and_forgetting(one: list[str], two: list[str]) -> None:
    both = INPUTS + rules("G1", one) + "\n" + rules("G2", two) + "\nP(X) @ T :- G2(X) @ T.\n"
    later = both + "P(X) @ T :- A @ T+1, G1(X) @ T."
    earlier = both + "P(X) @ T :- A @ T-1, G1(X) @ T."
    programs = [tidelog.parse(INPUTS + rules("P", bodies)) for bodies in (one, two)]
    inside = tidelog.contained(*programs, "P").holds
    assert inside is not None
    assert delay_holds(query(later), 0, Budget()).holds is inside
    assert window_holds(query(earlier), 0, 0, Budget()).holds is inside
    forget = tidelog.forgettable(tidelog.parse(earlier), "P", {"A": [(0,)]}, 0, 0, 0)
    assert forget.exact
    assert forget.holds is inside


@examples(4, deep=150)
@given(
    unions(),
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from("ab"), st.integers(0, 2)), max_size=4
    ),
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), max_size=3),
    st.sampled_from("ab"),
)
def test_evaluation_is_dtp(
    bodies: list[str],
    edges: list[tuple[str, str, int]],
    marks: list[tuple[str, int]],
    value: str,
) -> None:
    tau = 2
    plain = INPUTS + rules("P", bodies)
    facts = {"E": edges, "F": marks, "A": []}
    holds = (value, tau) in evaluate(tidelog.parse(plain), facts, ["P"], tau, tau)["P"]
    text = (
        plain
        + "\ninput Next @ t. input Asked(a: text) @ t.\n"
        + "R(X) @ T :- Next @ T+1, Asked(X) @ T.\nR(X) @ T :- P(X) @ T, Asked(X) @ T."
    )
    asked = {**facts, "Asked": [(value, tau)], "Next": []}
    verdict = tidelog.definitive(tidelog.parse(text), "R", asked, tau, tau)
    assert verdict.exact
    assert verdict.holds is holds
