"""The examples of the paper, and the small ones our own pages argue with.

References are to Ronca, Kaminski, Cuenca Grau, Motik and Horrocks, Stream Reasoning in Temporal
Datalog: Example 1 is the turbine program, Examples 2 to 5 follow Definitions 2 to 6.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.places import ROOT

import tidelog
from tidelog.analysis.delay import Measure
from tidelog.errors import NoAnswer

TURBINES = (ROOT / "examples" / "turbines" / "rules.tdl").read_text()
# Example 2: "which defines an invalid reading as a malfunction".
INVALID = TURBINES + "Malfunc(X) @ T :- Temp(X, na) @ T.\n"


def delay_of(text: str, query: str) -> Measure:
    return tidelog.delay(tidelog.parse(text), query)


def window_of(text: str, query: str, delay: int | None = None) -> Measure:
    return tidelog.window(tidelog.parse(text), query, delay)


def exactly(measure: Measure) -> int | None:
    assert measure.exact
    assert measure.lower == measure.upper
    return measure.lower


# Example 2: definitive time points


def test_dtp_is_false_while_an_update_can_add_an_answer() -> None:
    verdict = tidelog.definitive(
        tidelog.parse(INVALID), "Malfunc", {"Temp": [("a", "high", 0)]}, 0, 0
    )
    assert not verdict.holds
    assert verdict.exact
    assert [str(p) for p in verdict.pending] == [
        "Malfunc(a) @ 0 waits for Temp(a, high) @ 1 and Temp(a, high) @ 2"
    ]


def test_dtp_is_true_when_the_only_possible_answer_is_there() -> None:
    verdict = tidelog.definitive(
        tidelog.parse(INVALID), "Malfunc", {"Temp": [("a", "na", 0)]}, 0, 0
    )
    assert verdict.holds


def test_an_answer_at_tin_may_be_about_an_object_not_seen_yet() -> None:
    """With delay 1 the update speaks about the past, so of objects the history does not know."""
    program = tidelog.parse("P(X) @ T :- E(X) @ T+1.")
    verdict = tidelog.definitive(program, "P", {"E": []}, 3, 3)
    assert [str(p) for p in verdict.pending] == ["P(_) @ 3 waits for E(_) @ 4"]


# Example 3: forgetting. Forget(Q, D, tin, tout, tmem) forgets times up to tmem; as printed, tmem is
# 1, and the difference of the second history shows at time 2.


def test_a_broken_run_can_be_forgotten() -> None:
    history = {"Temp": [("a", "high", 0), ("a", "low", 1)]}
    assert tidelog.forgettable(tidelog.parse(TURBINES), "Shdn", history, 1, 1, 1).holds


def test_a_run_that_goes_on_cannot() -> None:
    history = {"Temp": [("a", "high", 0), ("a", "high", 1)]}
    verdict = tidelog.forgettable(tidelog.parse(TURBINES), "Shdn", history, 1, 1, 1)
    assert not verdict.holds
    assert verdict.exact
    assert verdict.update is not None
    assert [(f.args, f.time) for f in verdict.update.facts] == [(("a", "high"), 2)]
    assert (verdict.update.answer.args, verdict.update.answer.time) == (("a",), 2)


# Examples 4 and 5: delay and window


@pytest.mark.parametrize(("query", "delay"), [("AtRisk", 0), ("Shdn", 0), ("Malfunc", 2)])
def test_delays_of_the_turbines(query: str, delay: int) -> None:
    assert exactly(delay_of(TURBINES, query)) == delay


def test_window_of_shdn_is_two() -> None:
    assert exactly(window_of(TURBINES, "Shdn", 0)) == 2


def test_at_risk_has_no_finite_window() -> None:
    assert exactly(window_of(TURBINES, "AtRisk", 0)) is None


# What our own design notes claim


@pytest.mark.parametrize(
    ("rules", "query", "delay"),
    [
        ("Q @ T :- E @ T. Q @ T :- E @ T, F @ T+1.", "Q", 0),
        ("Q @ T :- E @ T. A @ T :- E @ T, F @ T+1. Q @ T :- A @ T.", "Q", 0),
        # Four levels down, and only there, the longer way turns out to be contained.
        (
            "Q @ T :- A @ T. A @ T :- B @ T. B @ T :- C @ T. C @ T :- E @ T. C @ T :- D @ T+1."
            " D @ T :- E @ T-1, F @ T+7.",
            "Q",
            0,
        ),
        # A constant, or a repeated variable, makes the containment; without it there is none.
        ("Q @ T :- E(X, Y) @ T. Q @ T :- E(a, Y) @ T, F(Y) @ T+1.", "Q", 0),
        ("Q @ T :- E(a, Y) @ T. Q @ T :- E(X, Y) @ T, F(Y) @ T+1.", "Q", 1),
        ("Q @ T :- E(X, Y) @ T. Q @ T :- E(X, X) @ T, F(X) @ T+1.", "Q", 0),
        ("Q @ T :- E(X, X) @ T. Q @ T :- E(X, Y) @ T, F(Y) @ T+1.", "Q", 1),
        # A bool is one of two values.
        ("P @ T :- E(true) @ T. P @ T :- E(false) @ T. P @ T :- E(X) @ T, G @ T+1.", "P", 0),
        ("P @ T :- E(true) @ T. P @ T :- E(X) @ T, G @ T+1. input E(b: bool) @ t.", "P", 1),
        # Orders are split into cases.
        (
            "P @ T :- E(V) @ T, V < 5. P @ T :- E(V) @ T, V >= 5. P @ T :- E(V) @ T, G @ T+3.",
            "P",
            0,
        ),
        ("P @ T :- E(V) @ T, V < 5. P @ T :- E(V) @ T, V > 5. P @ T :- E(V) @ T, G @ T+3.", "P", 3),
        # A fact of the program makes the difference at one time, and that is enough.
        ("P @ T :- E @ T+1, F @ T. F @ 5.", "P", 1),
        ("P @ T :- E @ T-3.", "P", 0),
    ],
)
def test_delay_sees_through_redundancy(rules: str, query: str, delay: int) -> None:
    assert exactly(delay_of(rules, query)) == delay


@pytest.mark.parametrize(
    ("rules", "window"),
    [
        ("Q @ T :- E @ T. Q @ T :- E @ T, F @ T-4.", 0),
        ("Q @ T :- E @ T. A @ T :- B @ T-2. B @ T :- E @ T+2, F @ T-2. Q @ T :- A @ T.", 0),
        ("Q @ T :- E(X, Y) @ T. Q @ T :- E(a, Y) @ T, F(Y) @ T-2.", 0),
        ("Q @ T :- E(a, Y) @ T. Q @ T :- E(X, Y) @ T, F(Y) @ T-2.", 2),
        # Recursion looks back without end, and yet nothing there ever matters.
        ("Q @ T :- E @ T. Q @ T+1 :- Q @ T, E @ T+1.", 0),
    ],
)
def test_window_sees_through_redundancy(rules: str, window: int) -> None:
    assert exactly(window_of(rules, "Q", 0)) == window


def test_window_depends_on_the_delay() -> None:
    rules = "Q @ T :- E @ T-2, F @ T+3."
    assert [exactly(window_of(rules, "Q", d)) for d in (3, 5)] == [5, 7]


def test_a_query_that_looks_ahead_without_end_has_no_delay() -> None:
    measure = delay_of("Late @ T :- Alarm @ T. Late @ T :- Late @ T+1.", "Late")
    assert (measure.lower, measure.upper, measure.exact) == (None, None, True)


def test_recursion_with_an_open_window_says_so_with_a_witness() -> None:
    rules = "Q(X) @ T :- S(X) @ T. Q(X) @ T+1 :- Q(X) @ T, E(X) @ T+1."
    measure = window_of(rules, "Q", 0)
    assert (measure.upper, measure.exact) == (None, False)
    assert measure.lower is not None
    assert measure.lower > 5
    assert measure.witness is not None


@pytest.mark.parametrize("ask", [tidelog.delay, tidelog.window])
def test_explicit_times_in_bodies_are_refused(
    ask: Callable[[tidelog.Program, str], Measure],
) -> None:
    program = tidelog.parse("P @ T :- E @ T, Go @ 5.", "rules.tdl")
    with pytest.raises(NoAnswer, match=r"rules\.tdl:1: `Go` at the fixed time 5.*definitive"):
        ask(program, "P")


def test_explicit_times_are_definitive_once_they_have_passed() -> None:
    program = tidelog.parse("P(X) @ T :- E(X) @ T, Go @ 5.")
    history = {"E": [("a", 0)], "Go": []}
    early = tidelog.definitive(program, "P", history, 4, 0)
    assert [str(p) for p in early.pending] == ["P(a) @ 0 waits for Go @ 5"]
    assert tidelog.definitive(program, "P", history, 5, 0).holds


# Containment and redundancy


def test_a_rewrite_that_lost_answers_is_shown_with_data() -> None:
    one = tidelog.parse("P(X) @ T :- E(X, V) @ T, V >= 80.")
    other = tidelog.parse("P(X) @ T :- E(X, V) @ T, V > 80.")
    assert tidelog.contained(other, one, "P").holds is True
    verdict = tidelog.contained(one, other, "P")
    assert verdict.holds is False
    assert verdict.witness is not None
    (fact,) = verdict.witness.facts
    assert fact.args[1] == 80


def test_redundant_rules_and_atoms_are_named() -> None:
    program = tidelog.parse(
        "Q(X) @ T :- E(X) @ T.\n"
        "Q(X) @ T :- E(X) @ T, F(X) @ T+1.\n"
        "R(X) @ T :- E(X) @ T, E(_) @ T.\n"
        "P(X) @ T :- Q(X) @ T, R(X) @ T.\n"
    )
    redundant = tidelog.analyze(program, "P").redundant
    named = {(r.rule.origin.line, r.atom.predicate if r.atom else None) for r in redundant}
    assert (2, None) in named
    assert (3, "E") in named
