"""Windows over packed words, asked for from one tick to another, against counting tick by tick."""

from __future__ import annotations

from random import Random

import duckdb
from hypothesis import event, given
from hypothesis import strategies as st
from support.deep import examples

import tidelog
from tidelog.data.packed import pack, unpack
from tidelog.data.windows import window_sql

LENGTHS = (2, 3, 59, 60, 61, 64, 120, 121, 200, 601, 5_000)


@st.composite
def asked(draw: st.DrawFn) -> tuple[int, int, tuple[int, int]]:
    """So many ticks, so many of them, and where: often far from the facts."""
    ticks = draw(st.sampled_from(LENGTHS))
    least = draw(st.sampled_from((1, 2, 3, ticks - 1, ticks)))
    low = draw(st.integers(-200, 700) | st.integers(ticks - 300, ticks + 700))
    high = low + draw(st.sampled_from((0, 1, 5, 59, 60, 250, 2_000)))
    return ticks, max(1, least), (low, high)


@given(asked(), st.integers(0, 10**6), st.sampled_from((0.004, 0.05, 0.5, 0.999)))
@examples(40, deep=300)
def test_what_holds_is_what_counting_gives(
    window: tuple[int, int, tuple[int, int]], seed: int, share: float
) -> None:
    ticks, least, (low, high) = window
    pick = Random(seed)
    times = {t: [x for x in ("a", "b") if pick.random() < share] for t in range(-130, 500)}
    packed = pack({t: [(x,) for x in there] for t, there in times.items()})
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE s (a1 VARCHAR, c BIGINT, b BIGINT)")
        if packed:
            connection.executemany("INSERT INTO s VALUES (?, ?, ?)", packed)
        sql = window_sql(["a1"], "s", ticks, least, (low, high))
        told = unpack(connection.execute(sql).fetchall())
    want = {}
    for t in range(low, high + 1):
        window_of_t = range(max(t - ticks + 1, -130), min(t, 499) + 1)
        holds = {(x,) for x in "ab" if sum(x in times[s] for s in window_of_t) >= least}
        if holds:
            want[t] = holds
    event("something holds" if want else "nothing does")
    assert told == want


def test_long_after_the_last_fact() -> None:
    """What is asked for lies many words after the facts that it rests on."""
    for words in ("some", "at least 2"):
        program = tidelog.parse(f"input E(x: text) @ t. P(X) @ T :- {words} E(X) @ [T-9999, T].")
        facts = {"E": [("a", 0), ("a", 60)]}
        answers = program.query("P", facts, from_=9_998, to=10_003).to_pylist()
        last = 10_059 if words == "some" else 9_999
        assert [row["time"] for row in answers] == list(range(9_998, min(last, 10_003) + 1))
