"""Small programs whose delay, window, definitive points and live facts are worked out by hand."""

from __future__ import annotations

import math

import pytest

import tidelog
from tidelog.errors import NoAnswer

TURBINES = """
input Temp(device: text, level: text) @ time.
input Near(a: text, b: text).
Flag(X)    @ T    :- Temp(X, high) @ T.
Cool(X)    @ T+1  :- Flag(X) @ T, Flag(X) @ T+1.
Shdn(X)    @ T+1  :- Cool(X) @ T, Flag(X) @ T+1.
Malfunc(X) @ T-2  :- Shdn(X) @ T.
AtRisk(Y)  @ T    :- Shdn(X) @ T, Near(X, Y).
AtRisk(X)  @ T+1  :- AtRisk(X) @ T.
"""


def temp(*rows: tuple[str, str, int]) -> dict[str, list[tuple[object, ...]]]:
    return {"Temp": list(rows), "Near": []}


def delay(rules: str, query: str = "P") -> int | None:
    measure = tidelog.delay(tidelog.parse(rules), query)
    assert measure.exact
    return measure.upper


def window(rules: str, query: str = "P", d: int | None = None) -> int | None:
    measure = tidelog.window(tidelog.parse(rules), query, d)
    assert measure.exact
    return measure.upper


# Delay and window


def test_atrisk_needs_one_slice_of_itself() -> None:
    """No window of input is enough, one slice of what is derived is."""
    analysis = tidelog.analyze(tidelog.parse(TURBINES), "AtRisk")
    assert analysis.derived_state()["AtRisk"] == 1


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        # Redundant rules look further ahead than anyone need wait.
        ("P @ T :- E @ T. P @ T :- E @ T, F @ T+1.", 0),
        # A finite type: both values are covered.
        ("P @ T :- E(true) @ T. P @ T :- E(false) @ T. P @ T :- E(X) @ T, G @ T+1.", 0),
        ("P @ T :- E(true) @ T. P @ T :- E(X) @ T, G @ T+1.", 1),
        # Facts of the program at explicit times.
        ("P @ T :- E @ T+1, F @ T. F @ 5.", 1),
        ("P @ T :- E @ T+1, F @ T. F @ 5. P @ 5 :- N. N.", 0),
        ("P @ T :- E @ T+1, F @ T. F @ 5. P @ T :- F @ T.", 0),
        ("P @ T :- E @ T+1, F @ T. F @ 5. P @ 4.", 1),
        ("P @ T :- E @ T+1, F @ T, G @ T. F @ 5. G @ 6. G @ T :- H @ T.", 1),
        ("P @ T :- E @ T+1, F @ T, G @ T. F @ 5. G @ 6.", 0),
        # Through several levels.
        (
            "P @ T :- A @ T. A @ T :- B @ T+1. B @ T :- E @ T-1."
            " P @ T :- E @ T, C @ T. C @ T :- F @ T+3.",
            0,
        ),
        # Only a constant makes the containment ...
        ("P(X) @ T :- E(X, a) @ T. P(X) @ T :- E(X, a) @ T, E(X, b) @ T+1.", 0),
        ("P(X) @ T :- E(X, a) @ T. P(X) @ T :- E(X, b) @ T, E(X, b) @ T+1.", 1),
        ("P(X) @ T :- E(X) @ T. P(a) @ T :- E(a) @ T, F @ T+1.", 0),
        ("P(a) @ T :- E(a) @ T. P(X) @ T :- E(X) @ T, F @ T+1.", 1),
        # ... or a repeated variable.
        ("P @ T :- E(X, Y) @ T. P @ T :- E(X, X) @ T, F @ T+1.", 0),
        ("P @ T :- E(X, X) @ T. P @ T :- E(X, Y) @ T, F @ T+1.", 1),
        (
            "P @ T :- A(X, Y) @ T, F(Y) @ T. A(X, X) @ T :- E(X) @ T."
            " P @ T :- E(Z) @ T, F(Z) @ T, G @ T+2.",
            0,
        ),
        # Comparisons: what the rule itself says is enough.
        ("P @ T :- E(V) @ T, V > 1. P @ T :- E(V) @ T, V > 2, F @ T+1.", 0),
        ("P @ T :- E(V) @ T, V > 2. P @ T :- E(V) @ T, V > 1, F @ T+1.", 1),
        ("P @ T :- E(V) @ T, V > 1. P @ T :- E(V) @ T, V <= 1. P @ T :- E(V) @ T, F @ T+1.", 0),
        ("P @ T :- E(X, Y) @ T, X != Y. P @ T :- E(X, X) @ T. P @ T :- E(X, Y) @ T, F @ T+1.", 0),
        ("P @ T :- E(V) @ T, V >= 3. P @ T :- E(V) @ T, V > 2, F @ T+1.", 0),
        # What cannot hold looks nowhere.
        ("P @ T :- E(V) @ T, V > 2, V < 1, F @ T+9. P @ T :- E(V) @ T.", 0),
        # A body of constants only is a fact, or none.
        ("P @ T :- E @ T+1, F @ T. F @ 5 :- 1 < 2.", 1),
        ("P @ T :- E @ T+1, F @ T. F @ 5 :- 2 < 1. F @ T :- G @ T-1.", 1),
        ("P @ T :- E @ T+1, F @ T. F @ 5 :- 2 < 1. P @ T :- E @ T.", 0),
        # What only has to exist is not multiplied out.
        ("P @ T :- " + "".join(f"E(X{i}, Y{i}) @ T, " for i in range(12)) + "F @ T+1.", 1),
        # Nothing but the program's own facts.
        ("P @ T :- F @ T+3. F @ 5.", 0),
    ],
)
def test_delays(rules: str, expected: int) -> None:
    assert delay(rules) == expected


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("P @ T :- E @ T. P @ T :- E @ T, F @ T-3.", 0),
        ("P @ T :- E @ T-1. P @ T :- E @ T-1, F @ T-3.", 1),
        (
            "P @ T :- A @ T. A @ T :- B @ T-1. B @ T :- E @ T+1."
            " P @ T :- E @ T, C @ T. C @ T :- F @ T-3.",
            0,
        ),
        ("P(X) @ T :- E(X) @ T. P(a) @ T :- E(a) @ T, F @ T-2.", 0),
        ("P @ T :- E(X, Y) @ T. P @ T :- E(X, X) @ T, F @ T-2.", 0),
        ("P @ T :- E(X, X) @ T. P @ T :- E(X, Y) @ T, F @ T-2.", 2),
        # A cycle alone proves nothing: what it finds far back is found near as well.
        ("P @ T :- E @ T. P @ T+1 :- P @ T, E @ T+1.", 0),
    ],
)
def test_windows(rules: str, expected: int) -> None:
    assert window(rules, d=0) == expected


def test_a_window_depends_on_how_far_it_exceeds_the_delay() -> None:
    rules = "P @ T :- E @ T-1, F @ T+2."
    assert [window(rules, d=d) for d in range(4)] == [1, 2, 3, 4]
    assert window(rules) == 3


def test_a_cycle_that_ends_is_no_proof() -> None:
    """N says b is next to a and nothing more: the cycle is gone round once."""
    rules = "P(X) @ T :- E(X) @ T. P(X) @ T+1 :- P(Y) @ T, N(X, Y). N(a, b)."
    measure = tidelog.window(tidelog.parse(rules), "P", 0, budget=2.0)
    assert not (measure.exact and measure.lower is None)
    assert measure.lower == 1


def test_no_finite_delay() -> None:
    measure = tidelog.delay(tidelog.parse("P @ T :- E @ T. P @ T :- P @ T+1."), "P")
    assert (measure.lower, measure.upper, measure.exact) == (None, None, True)


@pytest.mark.parametrize("ask", [tidelog.delay, tidelog.window])
def test_explicit_times_are_refused(ask: object) -> None:
    assert callable(ask)
    with pytest.raises(NoAnswer, match=r"<text>:1: `E` at the fixed time 5 .* ask `definitive`"):
        ask(tidelog.parse("P @ T :- F @ T, E @ 5."), "P")


def test_rigid_queries_are_refused() -> None:
    with pytest.raises(NoAnswer, match="R has no time"):
        tidelog.delay(tidelog.parse("R(X) :- N(X)."), "R")


# Definitive, live, forgettable


def test_a_diagonal_stays_one() -> None:
    """H(X, X) is possible for any X, but never two different ones."""
    program = tidelog.parse(
        "input E(x: text) @ t. H(X, X) @ T :- E(X) @ T+1. P @ T :- H(a, b) @ T."
    )
    assert tidelog.definitive(program, "P", {"E": []}, 0, 0).holds
    assert not tidelog.definitive(program, "H", {"E": []}, 0, 0).holds


def test_rigid_input_is_never_arbitrary() -> None:
    program = tidelog.parse("P(X) @ T :- N(X), E(X) @ T+1.")
    verdict = tidelog.definitive(program, "P", {"N": [("a",)], "E": []}, 0, 0)
    assert [str(p) for p in verdict.pending] == ["P(a) @ 0 waits for E(a) @ 1"]
    assert tidelog.definitive(program, "P", {"N": [], "E": []}, 0, 0).holds


def test_a_fact_that_no_rule_wants_dies_on_arrival() -> None:
    program = tidelog.parse(TURBINES)
    facts = temp(("a", "high", 1), ("a", "low", 1), ("b", "low", 1), ("c", "high", 0))
    kept = tidelog.live(program, "Shdn", facts, 1, 2)
    assert kept["Temp"].to_pylist() == [{"device": "a", "level": "high", "time": 1}]


def test_what_recursion_carries_on_stays_live() -> None:
    """E @ 0 gives P at any later time, and so Q whenever F comes; the second F is spent."""
    program = tidelog.parse("Q @ T :- P @ T, F @ T. P @ T :- E @ T. P @ T+1 :- P @ T.")
    kept = tidelog.live(program, "Q", {"E": [(0,)], "F": [(3,)]}, 5, 6)
    assert (kept["E"].num_rows, kept["F"].num_rows) == (1, 0)


def test_a_live_fact_may_be_forgettable() -> None:
    """The second rule adds nothing, yet it can use E @ 0."""
    program = tidelog.parse("P @ T :- F @ T. P @ T :- F @ T, E @ T-1.")
    facts = {"E": [(0,)], "F": []}
    assert tidelog.forgettable(program, "P", facts, 0, 0, 0).holds


def test_algorithm_1_asks_beyond_the_definition() -> None:
    """tout = tin + 1: everything up to tin is answered."""
    program = tidelog.parse("P @ T :- E @ T, F @ T-1.")
    facts = {"E": [], "F": [(0,)]}
    assert not tidelog.forgettable(program, "P", facts, 0, 1, 0).holds
    assert tidelog.forgettable(program, "P", facts, 1, 2, 0).holds
    with pytest.raises(ValueError, match="tmem <= tout"):
        tidelog.forgettable(program, "P", facts, 0, 2, 0)


def test_explicit_times_wait_for_the_latest() -> None:
    """P @ T rests on E @ 5 too: open until 5 has arrived, then final."""
    program = tidelog.parse("P @ T :- F @ T, E @ 5.")
    facts = {"F": [(1,), (2,)], "E": []}
    assert tidelog.open_points(program, "P", facts, 3, 0) == [1, 2]
    assert tidelog.open_points(program, "P", facts, 5, 0) == []
    # E @ 5 is asked for at any time to come: never to be forgotten.
    late = {"F": [(1,)], "E": [(5,)]}
    assert tidelog.live(program, "P", late, 900, 900)["E"].num_rows == 1
    assert tidelog.live(program, "P", late, 900, 900)["F"].num_rows == 0
    assert not tidelog.forgettable(program, "P", late, 900, 900, 5).holds


def test_a_derivation_through_much_history_is_told() -> None:
    """What is certain is not taken apart without end."""
    program = tidelog.parse(
        "P(X) @ T :- E(X) @ T. P(X) @ T+1 :- P(X) @ T. Q(X) @ T :- P(X) @ T, F(X) @ T+1."
    )
    verdict = tidelog.definitive(program, "Q", {"E": [("a", 0)], "F": []}, 2000, 2000)
    assert [str(p) for p in verdict.pending] == ["Q(a) @ 2000 waits for F(a) @ 2001"]


def test_infinity_is_not_a_number_in_a_measure() -> None:
    for query in ("AtRisk", "Shdn", "Malfunc"):
        for measure in (
            tidelog.delay(tidelog.parse(TURBINES), query),
            tidelog.window(tidelog.parse(TURBINES), query),
        ):
            assert all(b is None or not math.isinf(b) for b in (measure.lower, measure.upper))
