"""Counts over windows so long that thousands of clauses would say them: planned in a few."""

import random
from collections.abc import Iterable, Mapping

import pytest

import tidelog
from tidelog.analysis import stages
from tidelog.analysis.partition import PartitionKey, Together, common_key
from tidelog.analysis.passes import passes
from tidelog.logic import windows
from tidelog.logic.core import rules_of

RULES = """
input P(x: text) @ t.
input Off(x: text) @ t.
Seen(X) @ T :- P(X) @ T.
Seen(X) @ T :- P(X) @ T, Off(X) @ T.
Busy(X) @ T :- at least 40 Seen(X) @ [T-699, T].
Calm(X) @ T :- P(X) @ T, not at least 40 P(X) @ [T-600, T+99].
output Busy. output Calm.
"""


def _ticks(seed: int) -> dict[str, set[int]]:
    """Ticks of two objects: one that is busy at times, one that is nearly always."""
    rng = random.Random(seed)
    rare = {t for t in range(1500) if rng.random() < (0.08 if t < 700 else 0.03)}
    return {"a": rare, "b": {t for t in range(1500) if rng.random() < 0.5}}


def _expected(ticks: dict[str, set[int]]) -> tuple[set[tuple[str, int]], set[tuple[str, int]]]:
    """From the definition: ticks counted one by one."""
    busy, calm = set(), set()
    for x, held in ticks.items():
        for t in range(1500):
            if sum(s in held for s in range(t - 699, t + 1)) >= 40:
                busy.add((x, t))
            if t in held and sum(s in held for s in range(t - 600, t + 100)) < 40:
                calm.add((x, t))
    return busy, calm


def _given(ticks: dict[str, set[int]]) -> dict[str, list[tuple[str, int]]]:
    return {"P": [(x, t) for x, held in ticks.items() for t in sorted(held)], "Off": [("a", 3)]}


def test_answers_are_counted_tick_by_tick() -> None:
    ticks = _ticks(1)
    busy, calm = _expected(ticks)
    assert busy
    assert calm
    program = tidelog.parse(RULES)
    for name, expected in (("Busy", busy), ("Calm", calm)):
        table = program.query(name, facts=_given(ticks))
        assert set(map(tuple, (row.values() for row in table.to_pylist()))) == expected


def test_plans_of_long_counts_are_short() -> None:
    needed = passes(tidelog.parse(RULES), ["Busy", "Calm"])
    assert len(rules_of(needed.planned.core)) < 20
    assert "written_out" not in vars(needed.dependencies)


def test_on_a_cycle_a_long_count_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "MOST_WRITTEN_OUT", 5)
    rules = """
    input P(x: text) @ t.
    Q(X) @ T :- P(X) @ T.
    Q(X) @ T :- at least 3 Q(X) @ [T-6, T-1].
    output Q.
    """
    facts = {"P": [("a", 0), ("a", 2), ("a", 5)]}
    answers = tidelog.parse(rules).query("Q", facts=facts, to=20).to_pylist()
    assert [row["time"] for row in answers] == [0, 2, *range(5, 21)]


def test_stages_look_for_a_key_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    program = tidelog.parse("Busy(X) @ T :- at least 10 Seen(X) @ [T-63, T].")
    looked = []

    def counted(groups: Iterable[Together], arities: Mapping[str, int]) -> PartitionKey:
        looked.append(arities)
        return common_key(groups, arities)

    monkeypatch.setattr(stages, "common_key", counted)
    split = passes(program, ["Busy"]).stages()
    assert [stage.kind.value for stage in split.stages] == ["keyed"]
    assert len(looked) < 6
