"""Rules that ask where one table holds at several ticks: one grouping, and one rule for a chain."""

from __future__ import annotations

from random import Random

import duckdb
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from oracle import naive
from support.deep import examples

import tidelog
from tidelog.data.packed import meet_sql, meets_in_one_grouping
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.plan import Derive, Plan
from tidelog.language.program import Row

INPUTS = "input E(x: int, y: int) @ time.\ninput F(x: int, y: int) @ time.\n"
THREE_IN_A_ROW = """
Cool(X, Y) @ T+1 :- E(X, Y) @ T, E(X, Y) @ T+1.
Shdn(X, Y) @ T+1 :- Cool(X, Y) @ T, E(X, Y) @ T+1.
Malfunc(X, Y) @ T-2 :- Shdn(X, Y) @ T.
"""
LOW, HIGH = -75, 150


def _facts(seed: int) -> dict[str, list[Row]]:
    """Two inputs that hold most of the time, on both sides of tick 0."""
    random = Random(seed)
    pairs = [(0, 0), (0, 1), (1, 0)]
    there = [(*pair, t) for pair in pairs for t in range(LOW, HIGH)]
    return {name: [row for row in there if random.random() < 0.85] for name in ("E", "F")}


def _derived(plan: Plan) -> list[str]:
    return [step.predicate.name for step in plan.steps if isinstance(step, Derive)]


@st.composite
def _chains(draw: st.DrawFn) -> str:
    """Rules of which each looks at the one before and at an input, mostly of the same objects."""
    near, far = st.integers(-3, 3), st.sampled_from([59, 60, -60, 61, -119, 120])
    offsets = st.one_of(near, near, near, far)
    args = st.sampled_from(["X, Y"] * 20 + ["Y, X", "X, 0", "X, X"])
    rules: list[str] = []
    last = "E"
    for n in range(draw(st.integers(1, 4))):
        body = [f"{last}(X, Y) @ {_at(draw(offsets))}"]
        for _ in range(draw(st.integers(0, 3))):
            name = draw(st.sampled_from(["E"] * 8 + ["F", last]))
            body.append(f"{name}({draw(args)}) @ {_at(draw(offsets))}")
        body += draw(st.sampled_from([[]] * 8 + [["X < Y"], ["not F(X, Y) @ T+1"]]))
        head = draw(st.sampled_from(["X, Y"] * 8 + ["Y, X", "Y, Y"]))
        rules.append(f"P{n}({head}) @ {_at(draw(offsets))} :- {', '.join(body)}.")
        last = f"P{n}"
    ends = [
        "Q(X) @ T :- {}(X, _) @ T.",
        "Q(X) @ T :- E(X, Y) @ T, {}(X, Y) @ 5.",
        "Q(X) @ 3 :- {}(X, _) @ S.",
    ]
    rules += draw(st.sampled_from([[], [], [], *([end.format(last)] for end in ends)]))
    return "\n".join(rules)


def _at(offset: int) -> str:
    return f"T{offset:+}" if offset else "T"


@given(_chains(), st.integers(0, 3))
@examples(30)
def test_any_chain(rules: str, seed: int) -> None:
    program = tidelog.parse(INPUTS + rules)
    query = rules.rsplit("\n", 1)[-1].split("(")[0]
    facts = _facts(seed)
    with Engine(program, facts) as engine:
        plan = engine.plan([query], LOW, HIGH)
        event(f"{len(program.rules) - len(_derived(plan))} rules folded")
        event("one grouping" if "w0" in _sql(engine, plan) else "joins")
        table = engine.query([query], LOW, HIGH)[query]
    got = {tuple(row.values()) for row in table.to_pylist()}
    assert got == naive.evaluate(program, facts, (query,), LOW, HIGH)[query], rules


def _sql(engine: Engine, plan: Plan) -> str:
    writer = engine.evaluate(plan)
    return "".join(writer.derive(step) for step in plan.steps if isinstance(step, Derive))


def test_a_chain_is_one_rule() -> None:
    program = tidelog.parse(INPUTS + THREE_IN_A_ROW)
    with Engine(program, _facts(1)) as engine:
        (only,) = (step for step in engine.plan(["Malfunc"]).steps if isinstance(step, Derive))
        assert sorted(o.premise.offset or 0 for o in only.joins[0].operands) == [0, 1, 2]
        # What is asked for is there.
        assert _derived(engine.plan(["Shdn", "Malfunc"])) == ["Shdn", "Malfunc"]


@pytest.mark.parametrize(
    "more",
    [
        "Q(X, Y) @ T :- Cool(X, Y) @ T, F(X, Y) @ T+1.",  # another table
        "Q(X, Y) @ T :- Cool(X, Y) @ T, E(Y, X) @ T+1.",  # other arguments
        "Q(X, Y) @ T :- Cool(X, Y) @ T, Cool(X, Y) @ T+2.",  # looked at twice
        "Q(X, Y) @ T :- Cool(X, Y) @ T, E(X, Y) @ T+5000.",  # too far for one grouping
        "Q(X, Y) @ T :- E(X, Y) @ T, not Cool(X, Y) @ T.",  # asked to be absent
        "Q(X, Y) @ T :- E(X, Y) @ T, Cool(X, Y) @ 5.",  # at a tick of its own
        "Q(X, Y) @ 0 :- Cool(X, Y) @ S, E(X, Y) @ S+3.",  # at a time that the head does not have
        "Q(X, Y) @ T :- E(X, Y) @ T. Q(X, Y) @ T+1 :- Q(X, Y) @ T, Cool(X, Y) @ T.",  # recursion
    ],
)
def test_what_stays_a_rule_of_its_own(more: str) -> None:
    program = tidelog.parse(f"{INPUTS}{THREE_IN_A_ROW}{more}")
    facts = _facts(2)
    with Engine(program, facts) as engine:
        assert "Cool" in _derived(engine.plan(["Q"]))
        got = {tuple(row.values()) for row in engine.query(["Q"], LOW, HIGH)["Q"].to_pylist()}
    assert got == naive.evaluate(program, facts, ("Q",), LOW, HIGH)["Q"]


@given(st.lists(st.integers(-200, 200), min_size=1, max_size=6), st.integers(0, 5))
@examples(20)
def test_ticks_that_meet(shifts: list[int], seed: int) -> None:
    """Against sets of ticks, with several rows for a chunk and whatever meets in it."""
    random = Random(seed)
    held = {x: {t for t in range(-130, 130) if random.random() < 0.8} for x in (1, 2)}
    rows = [(x, t // 60 * 60, 1 << t % 60) for x, ticks in held.items() for t in ticks]
    expected = {
        (x, t)
        for x, ticks in held.items()
        for t in range(-400, 400)
        if all(t - by in ticks for by in shifts)
    }
    with duckdb.connect() as connection:
        values = ", ".join(f"(CAST({x} AS BIGINT), {c}, {b})" for x, c, b in rows)
        connection.execute(f"CREATE TABLE p AS FROM (VALUES {values}) AS v(a1, c, b)")
        words = connection.execute(f"FROM {meet_sql(['a1'], 'p', shifts)} AS m").fetchall()
    assert len({(x, c) for x, c, _ in words}) == len(words)
    assert {(x, c + i) for x, c, b in words for i in range(60) if b >> i & 1} == expected
    event("one grouping" if meets_in_one_grouping(shifts) else "far apart")
