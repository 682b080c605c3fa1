"""Rows in columns: sets like any other, joined as the compiled clauses join tuples."""

from __future__ import annotations

import operator
import subprocess
import sys
from collections.abc import Callable, Iterator, Set
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.deep import examples

import tidelog
from tidelog.language.program import Row, Type, Value
from tidelog.logic.normalise import clause_of
from tidelog.streaming import columns
from tidelog.streaming.columns import Numbering, RowTable, Texts, as_table, between, with_time
from tidelog.streaming.joins import CompiledClause, IndexedSlice, chosen

TYPES = (Type.TEXT, Type.INT, Type.FLOAT, Type.BOOL)
values = st.tuples(
    st.sampled_from(["", "a", "b", "é", "𝄞", "z\x00"]),
    st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1]),
    st.sampled_from([-1.5, 0.0, 1e300, float("inf")]),
    st.booleans(),
)
OPERATORS: list[Callable[[Any, Any], Any]] = [
    operator.or_, operator.and_, operator.sub, operator.le, operator.ge, operator.eq, operator.ne,
]  # fmt: skip


@given(st.sets(values, max_size=8), st.sets(values, max_size=8))
@examples(15, deep=600)
def test_the_operators_of_sets(one: set[Row], other: set[Row]) -> None:
    texts, younger = Texts(), Texts(age=1)
    mine, theirs = (RowTable.of_rows(TYPES, rows, texts) for rows in (one, other))
    assert set(mine) == one
    assert len(mine) == len(one)
    pairs = [(mine, theirs), (mine, other), (one, theirs), (mine, theirs.into(younger))]
    for apply in OPERATORS:
        for left, right in pairs:
            assert apply(left, right) == apply(one, other), apply
    assert all((row in mine) is (row in one) for row in other)


def test_times_at_the_end() -> None:
    table = RowTable.of_rows((Type.TEXT,), [("a",), ("b",)], Texts())
    rows = with_time(table, 3) | with_time(table, 5)
    assert set(between(rows, 3, 9)) == {("a", 5), ("b", 5)}
    assert set(between(set(rows), 3, 9)) == {("a", 5), ("b", 5)}
    assert isinstance(rows, RowTable)
    assert rows.sorted(["x", "t"]).to_pydict() == {"x": ["a", "b"] * 2, "t": [3, 3, 5, 5]}


def test_old_texts_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_MOST_TEXTS", 100)
    numbering = Numbering()
    first = RowTable.of_rows((Type.TEXT,), [(f"x{i}",) for i in range(200)], numbering.texts(1))
    again = RowTable.of_rows((Type.TEXT,), [(f"x{i}",) for i in range(9)], numbering.texts(1))
    assert len(again.texts.values) == 9
    assert again <= first
    assert len(first - again) == 191


RULES = (
    "P(X, Y) @ T :- E(X, Z) @ T, F(Z, Y) @ T+1, X != Y.",
    "P(X, 1) @ T :- E(X, X) @ T, F(1, X) @ T-1, E(X, Y) @ T+2, Y >= 1.",
    "P(X) @ T :- E(X, Y) @ T, F(Y, _) @ T, not F(X, 1) @ T, not E(Y, Y) @ T+1.",
    "P @ T :- E(X, Y) @ T, not F(_, X) @ T.",
    "P(2, Y, Y) :- G(X, 0), G(Y, _), X = 1.",
)
TEXTS = (
    "P(X, Y) @ T :- E(X, b) @ T, F(X, Y) @ T, Y >= b.",
    "P(Y) @ T :- E(X, Y) @ T, not F(a, X) @ T, X < Y.",
)


@pytest.mark.parametrize("text", RULES + TEXTS)
@given(data=st.data())
@examples(10, deep=400)
def test_the_same_rows_as_from_tuples(text: str, data: st.DataObject) -> None:
    kind = "text" if text in TEXTS else "int"
    inputs = "".join(f"input {name}(x: {kind}, y: {kind}) @ time.\n" for name in "EF")
    clause = clause_of(tidelog.parse(inputs + text).rules[0])
    numbers: st.SearchStrategy[Value] = st.integers(0, 2)
    if text in TEXTS:
        numbers = st.sampled_from("abc")
    few: st.SearchStrategy[Set[Row]] = st.sets(st.tuples(numbers, numbers), min_size=1, max_size=7)
    tuples = [IndexedSlice(data.draw(few)) for _ in clause.premises]
    texts = Texts()
    tables = [IndexedSlice(as_table(slice_.rows, texts)) for slice_ in tuples]
    mixed = [*tables[:1], *tuples[1:]]
    compiled = CompiledClause(clause)
    heads: set[Row] = set()
    compiled.fire(tuples, heads)
    assert compiled.derive(tables, set()) == heads
    some = set(sorted(heads)[::2])
    assert compiled.derive(mixed, set(some)) == heads
    if some:
        marks = compiled.mark(some, tuples)
        assert list(compiled.mark(as_table(some, texts), tables)) == marks
        assert list(compiled.mark(some, mixed)) == marks
    for name in {p.predicate for p in clause.premises}:
        rows = set().union(*(set(slice_.rows) for slice_ in tuples))
        choose = chosen([clause], name)
        assert choose(as_table(rows, texts)) == choose(rows)


def test_values_of_unlike_types_are_compared_as_tuples() -> None:
    clause = clause_of(tidelog.parse("P(X) @ T :- E(X) @ T, F(X) @ T.").rules[0])
    one = IndexedSlice(as_table({(1,), (2,)}, Texts()))
    assert set(CompiledClause(clause).derive([one, IndexedSlice({(1.0,)})], set())) == {(1,)}
    assert one.rows | {(2.0,), (2.5,)} == {(1,), (2,), (2.5,)}
    assert {(2.0,)} <= one.rows


def test_whole_numbers_in_rules_for_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = "input E(x: float) @ time.\nP(X) @ T :- E(X) @ T, X > 1.\nP(2) @ T :- E(1) @ T+1.\n"
    facts = [(0, [(1.0,), (2.0,), (3.5,)]), (1, [(1.0,), (0.5,)]), (2, [])]
    for mode in ("online", "offline"):
        seen = []
        for many in (1_000, 1):
            monkeypatch.setattr(columns, "MANY", many)
            stream = tidelog.Stream(tidelog.parse(rules), ["P"], mode=mode)
            pushed = [stream.push(tick, {"E": rows}).answers["P"] for tick, rows in facts]
            seen.append([table.to_pylist() for table in pushed])
        assert seen[0] == seen[1]


# Whole streams: the same steps, however rows are kept

PROGRAM = """
input E(x: text, v: int) @ time.
input F(x: text, y: float) @ time.
High(X) @ T :- E(X, V) @ T, V > 2.
Twice(X) @ T :- High(X) @ T, High(X) @ T+1.
Alone(X) @ T :- High(X) @ T, not F(X, _) @ T+1.
Kept(X) @ T+1 :- Kept(X) @ T, not F(X, _) @ T+1.
Kept(X) @ T :- Twice(X) @ T.
Paired(X, Y) @ T :- Kept(X) @ T, F(Y, Z) @ T, Z >= 0.5, X != Y.
"""
QUERIES = ["Twice", "Alone", "Paired"]


def _ticks(seed: int) -> Iterator[tuple[int, dict[str, list[Row]]]]:
    """Few facts, many, and few again."""
    random = Random(seed)
    for tick, size in enumerate([3, 2, 40, 45, 0, 38, 3, 1, 2, 30, 0, 1]):
        yield (
            tick,
            {
                "E": [(f"x{random.randrange(20)}", random.randrange(6)) for _ in range(size)],
                "F": [(f"x{random.randrange(20)}", random.random()) for _ in range(size // 4)],
            },
        )


def _steps(folder: Path, **how: Any) -> list[object]:
    stream = tidelog.Stream(tidelog.parse(PROGRAM), QUERIES, **how)
    seen: list[object] = []
    for tick, facts in _ticks(5):
        step = stream.push(tick, facts)
        kept = {
            name: {t: set(rows) for t, rows in times.items()}
            for name, times in stream.facts().items()
        }
        seen.append(
            ({q: t.to_pydict() for q, t in step.answers.items()}, step.tout, step.history, kept)
        )
        if tick == 5:
            stream.snapshot(folder / "state")
            stream = tidelog.Stream(tidelog.parse(PROGRAM), QUERIES, **how)
            stream.restore(folder / "state")
    seen.append({q: t.to_pydict() for q, t in stream.close().answers.items()})
    return seen


@pytest.mark.parametrize("many", [pytest.param(1, marks=pytest.mark.deep), 30])
@pytest.mark.parametrize(
    "how",
    [{"mode": "online"}, {"mode": "online", "emit": "eager", "lateness": 1}, {}, {"emit": "eager"}],
    ids=str,
)
def test_the_same_steps(
    how: dict[str, Any], many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = _steps(tmp_path, **how)
    monkeypatch.setattr(columns, "MANY", many)
    joined: list[RowTable] = []

    def fired(*given: Any) -> RowTable:
        joined.append(columns.fired(*given))
        return joined[-1]

    monkeypatch.setattr("tidelog.streaming.joins.fired", fired)
    assert _steps(tmp_path, **how) == usual
    assert joined  # columns were at work


def test_executors_need_no_numpy() -> None:
    code = "import sys; sys.modules['numpy'] = None; import tidelog.pipeline.shards"
    subprocess.run([sys.executable, "-c", code], check=True)
