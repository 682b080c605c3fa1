"""All selections of an input in one pass: the same answers, from one reading of the facts."""

from __future__ import annotations

from random import Random

import pytest

import tidelog
from tidelog.analysis.passes import passes
from tidelog.data.ticks import Range
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.one_pass import scan_groups, united
from tidelog.evaluation.plan import Plan, Scan
from tidelog.language.program import Row

INPUTS = "input E(x: int, level: text, v: int) @ time.\n"
UNITED = """
P(X) @ T :- E(X, high, _) @ T.
P(Y) @ T :- E(Y, na, V) @ T, V > 3.
P(X) @ T :- E(X, L, L2) @ T, E(X, L, L2) @ T+1.
Q(X) @ T :- P(X) @ T, P(X) @ T+1.
"""
APART = """
P(X) @ T+1 :- E(X, high, _) @ T, E(X, low, _) @ T+1.
Q(X) @ T :- P(X) @ T, not E(X, na, _) @ T.
Q(X) @ T :- E(X, _, V) @ T, V >= 8.
"""
STARTED = """
Q(X) @ T :- E(X, high, _) @ T.
Q(X) @ T :- E(X, na, _) @ T.
Q(X) @ T+1 :- Q(X) @ T, E(X, low, _) @ T+1.
"""
MOVED = """
Q(X) @ T :- E(X, high, _) @ T.
Q(X) @ T+1 :- E(X, na, _) @ T.
Q(V) @ T :- E(_, low, V) @ T.
Q(7) @ T :- E(7, high, _) @ T.
Q(7) @ T :- E(8, high, _) @ T.
"""


def _facts(seed: int, objects: int, ticks: int) -> list[Row]:
    random = Random(seed)
    return [
        (random.randrange(objects), random.choice(("high", "low", "na")), random.randrange(10), t)
        for t in range(-5, ticks)
        for _ in range(objects)
    ]


def _scans(plan: Plan) -> list[Scan]:
    return [step for step in plan.steps if isinstance(step, Scan)]


def _plain(engine: Engine) -> Plan:
    """The plan without the one pass."""
    return engine.plan_core(passes(engine.typed, ["Q"]).reduced, ["Q"], engine.span)


def _spread(seed: int) -> list[Row]:
    """Objects that are seen now and then over a long time."""
    random = Random(seed)
    return [(*row[:-1], random.randrange(900)) for row in _facts(seed, 400, 1)]


@pytest.mark.parametrize("rules", [UNITED, APART, STARTED, MOVED])
@pytest.mark.parametrize("facts", [_facts(1, 5, 200), _spread(2)], ids=["dense", "sparse"])
def test_the_same_answers(rules: str, facts: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    program = tidelog.parse(INPUTS + rules)
    with Engine(program, {"E": facts}) as engine:
        one = engine.query(["Q"])["Q"].to_pylist()
        # Each scan for itself, as it was before.
        monkeypatch.setattr("tidelog.evaluation.steps.scan_groups", lambda _: {})
        writer = engine.evaluate(_plain(engine))
        apart = engine.named(writer.plan.deps.core.predicates["Q"], engine.arrow(writer.rows("Q")))
    assert one == apart.to_pylist()
    assert one


def test_what_rules_only_unite_is_one_scan() -> None:
    program = tidelog.parse(INPUTS + UNITED)
    with Engine(program, {"E": _facts(1, 3, 20)}) as engine:
        plain, one = _scans(_plain(engine)), _scans(engine.plan(["Q"]))
        assert len(plain) == len(one) + 1
        assert [len(scan.selections) for scan in one] == [2, 1]
        engine.evaluate(engine.plan(["Q"]))


def test_scans_with_the_same_columns_share_a_pass() -> None:
    program = tidelog.parse(INPUTS + APART)
    with Engine(program, {"E": _facts(1, 3, 20)}) as engine:
        plan = engine.plan(["Q"])
        groups = scan_groups(plan.steps)
        assert len(_scans(plan)) == len(groups) == 4
        assert len({id(group) for group in groups.values()}) == 1


def test_what_something_else_looks_at_stays_a_scan() -> None:
    rules = "P(X) @ T :- E(X, high, _) @ T.\nP(X) @ T :- E(X, na, _) @ T.\n"
    rules += "Q(X) @ T :- P(X) @ T, E(X, na, _) @ T+1.\n"
    program = tidelog.parse(INPUTS + rules)
    with Engine(program, {"E": _facts(1, 3, 20)}) as engine:
        plan = engine.plan(["Q"])
        assert [len(scan.selections) for scan in _scans(plan)] == [1, 1]
        assert united(plan) is plan


def test_rows_are_counted_as_facts_are_measured() -> None:
    program = tidelog.parse(INPUTS + STARTED)
    with Engine(program, {"E": _facts(1, 3, 20)}) as engine:
        loaded = engine.loaded["E"]
        assert (loaded.range, loaded.rows) == (Range(-5, 19), 75)
