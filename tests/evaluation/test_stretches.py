"""Answers from when to when."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import duckdb
import pytest

import tidelog
from tidelog.data.packed import CHUNK, FULL, stretches_sql, unpack_sql
from tidelog.errors import DataError
from tidelog.evaluation.engine import evaluate

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


def words(seed: int) -> list[tuple[str, int, int]]:
    """Packed rows: full words, empty ones, bits at their borders, and any others."""
    pick = random.Random(seed)
    some: list[tuple[str, int, int]] = []
    for x in "abc":
        for c in range(-5 * CHUNK, 6 * CHUNK, CHUNK):
            kind = pick.random()
            bits = pick.getrandbits(CHUNK)
            if kind < 0.4:
                bits = FULL
            elif kind < 0.6:  # all but a few
                bits = FULL & ~(1 << pick.randrange(CHUNK)) & ~(1 << pick.choice([0, 1, 58, 59]))
            elif kind < 0.7:
                bits = pick.choice([1, 1 << 59, 1 | 1 << 59, 0])
            if bits:
                some.append((x, c, bits))
    pick.shuffle(some)
    return some


@pytest.mark.parametrize("seed", range(20))
def test_straight_from_words(seed: int) -> None:
    """Across the borders of words, the same as from a row for each tick, and as by hand."""
    rows = words(seed)
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE w (a1 VARCHAR, c BIGINT, b BIGINT)")
        connection.executemany("INSERT INTO w VALUES (?, ?, ?)", rows)
        made = connection.execute(stretches_sql(["a1"], "w")).fetchall()
        ticks = connection.execute(unpack_sql(["a1"], "w")).fetchall()
        one = "(SELECT c, b FROM w WHERE a1 = 'a') AS o"
        alone = connection.execute(stretches_sql([], one)).fetchall()
    spells = by_hand({(x, 0, t) for x, t in ticks})
    assert sorted(made) == sorted((row["x"], row["from"], row["to"]) for row in spells)
    assert sorted(alone) == sorted((f, t) for x, f, t in made if x == "a")
    plain = {(x, c + i) for x, c, b in rows for i in range(CHUNK) if b >> i & 1}
    assert set(ticks) == plain


def test_sparse_facts_and_facts_twice() -> None:
    """Where packing does not pay, rows hold one bit each; stretches are the same."""
    pick = random.Random(3)
    rows = [(f"o{i % 900}", 1, pick.randrange(3000)) for i in range(2000)]
    program = tidelog.parse(RULES)
    answers = program.query("P", {"E": rows + rows[:50]}, intervals=True)
    assert answers.to_pylist() == by_hand(set(rows))


def test_on_the_timeline() -> None:
    """What only the timeline can evaluate has stretches as well."""
    rules = "P @ T :- E @ T. P @ T+3 :- P @ T. P @ T-2 :- P @ T, Q @ T. Q @ T :- P @ T-3."
    program, facts = tidelog.parse(rules), {"E": [(4,), (5,)]}
    evaluated = evaluate(program, ["P"], facts, from_=0, to=20, intervals=True)
    assert evaluated.timeline is not None
    ends = [(row["from"], row["to"]) for row in evaluated.answers["P"].to_pylist()]
    ticks = program.query("P", facts, from_=0, to=20).column("time").to_pylist()
    assert [t for first, last in ends for t in range(first, last + 1)] == ticks
    assert all(b[0] > a[1] + 1 for a, b in pairwise(ends))
