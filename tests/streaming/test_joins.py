"""Clauses as functions over slices: the same matches as the one matcher's, for any kind of head."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.deep import examples

import tidelog
from tidelog.language.program import Row, Value
from tidelog.logic.clause import RIGID, Clause, FixedTick, Offset, Premise, Sign
from tidelog.logic.match import VALUES, JoinOrder, constant_value, matches
from tidelog.logic.normalise import clause_of
from tidelog.streaming.cells import Lookup
from tidelog.streaming.joins import CompiledClause, IndexedSlice, chosen

RULES = (
    "P(X, Y) @ T :- E(X, Z) @ T, F(Z, Y) @ T+1, X != Y.",
    "P(X, 1) @ T :- E(X, X) @ T, F(1, X) @ T-1, E(X, Y) @ T+2, Y >= 1.",
    "P(X, X) @ 4 :- E(X, Y) @ 5, F(Y, 2) @ 6, Y <= X.",
    "P(X) :- G(X, Y), G(Y, X), 0 < X.",
    "P(2) :- G(X, 0), H, X = 1.",
)
rows = st.sets(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=7)


class Slices:
    """A slice for each premise, as the matcher asks for rows."""

    def __init__(self, clause: Clause, slices: list[IndexedSlice]) -> None:
        self.by_id = {id(p): s.rows for p, s in zip(clause.premises, slices, strict=True)}

    def rows(
        self, premise: Premise, _tick: Any, positions: tuple[int, ...], key: tuple[Value, ...]
    ) -> Iterable[Row]:
        return [r for r in self.by_id[id(premise)] if tuple(r[i] for i in positions) == key]


@pytest.mark.parametrize("text", RULES)
@given(data=st.data())
@examples(10, deep=400)
def test_compiled_clauses_match_what_the_matcher_does(text: str, data: st.DataObject) -> None:
    clause = clause_of(tidelog.parse(text).rules[0])
    slices = [
        IndexedSlice(data.draw(rows if premise.args else st.sets(st.just(()))))
        for premise in clause.premises
    ]
    order = JoinOrder(clause)
    start = order.start(constant_value, {}, 0)
    bindings = list(matches(order, Slices(clause, slices), start, VALUES))
    heads = {order.values(clause.head.args, binding) for binding in bindings}
    compiled = CompiledClause(clause)
    for first in (None, *range(len(slices))):
        out: set[Row] = set()
        compiled.fire(slices, out, first)
        assert out == heads
    some = set(sorted(heads)[::2])
    used = [
        {order.values(p.args, b) for b in bindings if order.values(clause.head.args, b) in some}
        for p in clause.premises
    ]
    assert compiled.mark(some, slices) == used
    for name in {p.predicate for p in clause.premises}:
        mine = [i for i, p in enumerate(clause.premises) if p.predicate == name]
        kept = chosen([clause], name)(set().union(*(slices[i].rows for i in mine)))
        assert set().union(*(compiled.mark(heads, slices)[i] for i in mine)) <= kept


def test_an_index_grows_with_its_slice() -> None:
    slice_ = IndexedSlice({(1, 2)})
    assert slice_.index((0,)) == {1: [(1, 2)]}
    slice_.add({(1, 3)})
    assert slice_.index((0,)) == {1: [(1, 2), (1, 3)]}
    assert slice_.index((0, 1)) == {(1, 2): [(1, 2)], (1, 3): [(1, 3)]}


def test_a_premise_in_its_place() -> None:
    assert Lookup.of(Premise("E", when=Offset(-2))).time(10) == 8
    assert Lookup.of(Premise("E", when=FixedTick(5))).time(10) == 5
    assert Lookup.of(Premise("E", when=RIGID)).time(10) is None


# Absence

INPUTS = "input F(a: int, b: int) @ t. input G(a: int, b: int). input H."


@pytest.mark.parametrize(
    "text",
    [
        "P(X) @ T :- E(X, Y) @ T, not F(X, Y) @ T+1.",
        "P(X, Y) @ T :- not F(_, Y) @ T, E(X, Y) @ T, not F(1, _) @ T-1, X < Y.",
        "P(X, Z) @ T :- E(X, Y) @ T, not F(X, Z) @ T, E(Y, Z) @ T+1.",
        "P(X) :- G(X, _), not H, not G(_, X), not F(_, _) @ 3.",
    ],
)
@given(data=st.data())
@examples(10, deep=400)
def test_compiled_clauses_with_absence_match_what_the_matcher_does(
    text: str, data: st.DataObject
) -> None:
    clause = clause_of(tidelog.parse(f"{INPUTS} {text}").rules[0])
    slices = [
        IndexedSlice(data.draw(rows if premise.args else st.sets(st.just(()))))
        for premise in clause.premises
    ]
    order = JoinOrder(clause)
    start = order.start(constant_value, {}, 0)
    heads = {
        order.values(clause.head.args, binding)
        for binding in matches(order, Slices(clause, slices), start, VALUES)
    }
    positive = [i for i, p in enumerate(clause.premises) if p.sign is Sign.POSITIVE]
    for first in (None, *positive):
        out: set[Row] = set()
        CompiledClause(clause).fire(slices, out, first)
        assert out == heads


def test_rows_are_chosen_for_their_absence_too() -> None:
    clause = clause_of(
        tidelog.parse(f"{INPUTS} P(X) @ T :- E(X) @ T, not F(X, 1) @ T, X > 3.").rules[0]
    )
    assert chosen([clause], "F")([(4, 1), (4, 2), (3, 1)]) == {(4, 1)}


@given(here=rows, in_the_way=rows)
@examples(10, deep=400)
def test_what_is_in_the_way_of_a_match_is_marked_with_it(
    here: set[Row], in_the_way: set[Row]
) -> None:
    rule = tidelog.parse(f"{INPUTS} P(X) @ T :- E(X, Y) @ T, not F(Y, _) @ T.").rules[0]
    heads: set[Row] = {(0,), (1,)}
    compiled = CompiledClause(clause_of(rule))
    used, kept = compiled.mark(heads, [IndexedSlice(here), IndexedSlice(in_the_way)])
    assert used == {row for row in here if row[:1] in heads}
    assert kept == {f for f in in_the_way if any(f[0] == row[1] for row in used)}
