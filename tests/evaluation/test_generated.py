"""Generated programs and data: the engine, the naive evaluator and clingo give the same answers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import asp, naive
from oracle.generate import Case, programs_and_facts
from oracle.horizon import Answers, default_margin, runs_both_ways, temporal_predicates
from support.deep import examples
from support.facts import WRITERS
from support.names import NAMES

from tidelog.data.schema import resolve, schemas
from tidelog.evaluation.density import Density
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.plan import Unbounded
from tidelog.language.checks import check
from tidelog.language.program import Program, Value

Rows = list[tuple[Value, ...]]


def answers(case: Case) -> dict[str, Rows] | None:
    """What the engine says, in its order; None where it refuses."""
    with Engine(case.program, case.facts) as engine:
        try:
            tables = engine.query(case.queries, case.low, case.high)
        except Unbounded as error:
            refusal = error
        else:
            return {name: rows(table) for name, table in tables.items()}
    assert refusal.clause.head.predicate in case.program.heads
    assert str(refusal).startswith(f"{refusal.clause.origin}: `{refusal.predicate}` ")
    return None


def rows(table: pa.Table) -> Rows:
    if table.column_names == ["holds"]:
        return [() for _ in range(table.num_rows)]
    columns = [column.to_pylist() for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else []


def by_time(program: Program, name: str, unordered: set[tuple[Value, ...]]) -> Rows:
    """In Python's order: time first, then the arguments."""
    if name not in temporal_predicates(program):
        return sorted(unordered)
    return sorted(unordered, key=lambda row: (row[-1], row[:-1]))


def expected(case: Case) -> Answers:
    _, program, facts, queries, low, high = case
    wanted = naive.evaluate(program, facts, queries, low, high)
    if asp.fits(program, facts, low, high):
        assert asp.evaluate(program, facts, queries, low, high) == wanted
    return wanted


def agree(case: Case) -> None:
    """Same answers, none twice, by time and arguments, several queries at once or one by one."""
    answered = answers(case)
    if answered is None:
        assert runs_both_ways(case.program, case.queries), case.text
        return
    wanted = expected(case)
    for name in case.queries:
        assert answered[name] == by_time(case.program, name, wanted[name]), (name, case.text)
    with Engine(case.program, case.facts) as engine:
        for name in case.queries:
            alone = engine.query([name], case.low, case.high)
            assert {n: rows(table) for n, table in alone.items()} == {name: answered[name]}
            assert engine.count(name, case.low, case.high) == len(answered[name])


@given(programs_and_facts())
@examples(4, deep=240)
def test_any_program(case: Case) -> None:
    agree(case)


@given(programs_and_facts(connected=True, max_rules=10))
@examples(4, deep=240)
def test_connected_programs(case: Case) -> None:
    agree(case)


@given(programs_and_facts(recursive=False))
@examples(4, deep=160)
def test_programs_without_recursion(case: Case) -> None:
    """These are never refused: however far a rule leads away from the data, it is finitely far."""
    assert answers(case) is not None
    agree(case)


@given(programs_and_facts(hostile=True))
@examples(5, deep=180)
def test_hostile_names_and_values(case: Case) -> None:
    agree(case)


@given(programs_and_facts(wide=True), st.randoms(use_true_random=False))
@examples(3, deep=2000)
def test_what_an_attack_has_found_mistakes_with(case: Case, random: Random) -> None:
    """From memory, and from files under any names."""
    agree(case)
    known = schemas(resolve(case.program, {}))
    with TemporaryDirectory() as folder:
        place = Path(folder, random.choice(NAMES))
        place.mkdir()
        facts: dict[str, Any] = {}
        for name, given_ in case.facts.items():
            columns, facts[name] = known[name].names, given_
            if columns and given_:
                file = f"{random.choice(NAMES)}{name}"
                path = random.choice(WRITERS)(place, file, columns, given_)
                if path.suffix == ".jsonl":  # its lines name the input, too
                    path.write_text(path.read_text().replace(json.dumps(file), f'"{name}"'))
                facts[name] = path
        assert answers(case._replace(facts=facts)) == answers(case)


# What is refused


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("P @ T+1 :- P @ T. P @ T-1 :- P @ T. P @ T :- E @ T.", "1"),
        ("P @ T+1 :- P @ T.\nP @ T :- E @ T.\nQ @ T-1 :- P @ T.\nQ @ T-1 :- Q @ T.", "14"),
        ("P @ T :- E @ T.\nP @ T+3 :- P @ T.\nQ @ T-5 :- P @ T.\nP @ T :- Q @ T.", "234"),
    ],
)
def test_a_refusal_names_a_rule_of_a_cycle(text: str, lines: str) -> None:
    program = check(text, "rules.tdl").accepted()
    with (
        Engine(program, {"E": [(0,)]}) as engine,
        pytest.raises(Unbounded, match=rf"^rules\.tdl:[{lines}]: "),
    ):
        engine.query([program.heads[-1]])


@pytest.mark.slow
@pytest.mark.deep
def test_refused_models_do_grow_without_end() -> None:
    """The naive model of a refused query that has data grows with the margin, both times."""
    seen: Counter[str] = Counter()

    @given(programs_and_facts(huge=False, explicit_times=False, connected=True))
    @examples(150)
    def look(case: Case) -> None:
        if answers(case) is not None:
            return
        seen["refused"] += 1
        near, far, further = (
            sum(len(derived) for derived in whole_model(case, margin).values())
            for margin in (200, 400, 600)
        )
        seen["grows"] += near < far < further

    look()
    assert seen["refused"] >= 3
    assert seen["grows"] >= seen["refused"] / 2


def whole_model(case: Case, margin: int) -> Answers:
    """Every fact within the margin, not only those asked for."""
    names = case.program.heads
    low, high = case.low - margin, case.high + margin
    return naive.evaluate(case.program, case.facts, names, low, high, default_margin(case.program))


# Corners


def test_no_facts_at_all() -> None:
    program = check("P(X) @ T :- E(X) @ T. P(a) @ 3. R(X) :- E(X) @ T. S @ T+1 :- S @ T, E(_) @ T.")
    with Engine(program.accepted(), None) as engine:
        tables = engine.query(["P", "R", "S"])
    assert tables["P"].to_pylist() == [{"x": "a", "time": 3}]
    assert tables["R"].num_rows == tables["S"].num_rows == 0


@pytest.mark.parametrize("step", [1, -1, 2, 59, 60, 61, -60, 1000])
@pytest.mark.parametrize("start", [-61, -1, 0, 59])
def test_what_persists_reaches_the_end(step: int, start: int) -> None:
    """`P @ T+k :- P @ T` is every k-th tick, as Python's range counts."""
    program = check(f"P @ T :- E @ T. P @ T{step:+d} :- P @ T.").accepted()
    low, high = -3000, 3000
    with Engine(program, {"E": [(start,)]}) as engine:
        times = engine.query(["P"], low, high)["P"]["time"].to_pylist()
    edge = high + 1 if step > 0 else low - 1
    assert times == sorted(range(start, edge, step))


def test_two_periods_together() -> None:
    """Steps of 6 and 10 and 15 reach 0, the sums of them, and from 30 on every tick."""
    rules = "P @ T :- E @ T. " + " ".join(f"P @ T+{k} :- P @ T." for k in (6, 10, 15))
    with Engine(check(rules).accepted(), {"E": [(0,)]}) as engine:
        times = set(engine.query(["P"], 0, 400)["P"]["time"].to_pylist())
    reached = {0}
    for tick in range(401):
        if any(tick - k in reached for k in (6, 10, 15)):
            reached.add(tick)
    assert times == reached
    assert set(range(30, 401)) <= times


def test_a_hundred_thousand_rounds_are_not_needed() -> None:
    """A guard that holds for long is followed in doubling steps: rounds grow with its logarithm."""
    program = check("P @ T :- S @ T. P @ T+1 :- P @ T, G @ T+1.").accepted()
    said: list[str] = []
    facts = {"S": [(0,)], "G": [(t,) for t in range(1, 100_000) if t != 70_000]}
    with Engine(program, facts, progress=said.append) as engine:
        assert engine.count("P") == 70_000
    assert len(said) < 100


# Sparse data is not packed


@given(programs_and_facts())
@examples(4, deep=160)
def test_programs_whose_inputs_are_not_packed(case: Case) -> None:
    """A row per fact instead of a row per chunk: the same answers, from every kind of rule."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Density, "is_sparse", lambda *_: True)
        agree(case)


def test_what_counts_as_sparse() -> None:
    """Objects seen once are not packed; objects seen all the time are; answers do not differ."""
    program = check("P(X) @ T+7 :- E(X) @ T, F(X) @ T+7. Q(X) @ T :- E(X) @ T.").accepted()
    once = [(str(i), i) for i in range(6000)]
    often = [("a", t) for t in range(6000)]
    for rows, unpacked in ((once, 2), (often, 0)):
        facts = {"E": rows + rows[:10], "F": [(x, t + 7) for x, t in rows]}
        with Engine(program, facts) as engine:
            writer = engine.evaluate(engine.plan(["P", "Q"]))
            # E is scanned once for both rules.
            assert len(writer.unpacked) == unpacked
            assert engine.count("P", -100, 10_000) == 6000
            assert engine.count("Q") == 6000
