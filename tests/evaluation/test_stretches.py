"""Answers from when to when."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

import tidelog
from tidelog.errors import DataError

RULES = """
input E(x: text, n: int) @ time.
P(X, N) @ T :- E(X, N) @ T.
Q @ T :- E(_, _) @ T.
R(X) :- E(X, 1) @ T.
"""


def by_hand(rows: set[tuple[str, int, int]]) -> list[dict[str, object]]:
    """Stretches by walking from each beginning."""
    spells = []
    for x, n, t in rows:
        if (x, n, t - 1) not in rows:
            end = t
            while (x, n, end + 1) in rows:
                end += 1
            spells.append((t, x, n, end))
    return [{"x": x, "n": n, "from": t, "to": end} for t, x, n, end in sorted(spells)]


@pytest.mark.parametrize("seed", range(5))
def test_stretches_are_the_longest(seed: int) -> None:
    pick = random.Random(seed)
    some = [(x, n, t) for x in "ab" for n in (1, 2) for t in range(-70, 140)]
    rows = {row for row in some if pick.random() < 0.7}
    answers = tidelog.parse(RULES).query("P", {"E": sorted(rows)}, intervals=True)
    assert answers.to_pylist() == by_hand(rows)


def test_without_arguments_and_without_a_time() -> None:
    program = tidelog.parse(RULES)
    facts = {"E": [("a", 1, 3), ("b", 2, 4), ("a", 2, 9)]}
    both = program.query(["Q", "R"], facts, intervals=True)
    assert both["Q"].to_pylist() == [{"from": 3, "to": 4}, {"from": 9, "to": 9}]
    assert both["R"].to_pylist() == [{"x": "a"}]


def test_with_timestamps_and_names_that_are_taken() -> None:
    start = datetime(2026, 3, 2, tzinfo=UTC)
    rows = [("a", start + timedelta(minutes=10 * i)) for i in (0, 1, 2, 5)]
    program = tidelog.parse(
        "tick 10m. input E(from: text) @ time. output P(from). P(X) @ T :- E(X) @ T."
    )
    answers = program.query("P", {"E": rows}, intervals=True).to_pylist()
    ends = [(row["from2"], row["to"]) for row in answers]
    assert ends == [(rows[0][1], rows[2][1]), (rows[3][1], rows[3][1])]


def test_nothing_and_no_end() -> None:
    program = tidelog.parse(RULES)
    assert program.query("P", {"E": []}, intervals=True).column_names == ["x", "n", "from", "to"]
    with pytest.raises(DataError, match="intervals have ends"):
        program.query("P", {"E": [("a", 1, 3)]}, to=None, intervals=True)
