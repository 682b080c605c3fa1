"""The matcher against brute force over all values, on small random clauses and facts."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from tidelog.language.checks import check
from tidelog.language.program import Comparison, Constant, Operator, Value, Variable
from tidelog.logic.clause import Clause, FixedTick, Free, Head, Offset, Premise, Rigid, Sign
from tidelog.logic.match import (
    VALUES,
    AnyTick,
    IndexedRows,
    JoinOrder,
    constant_value,
    joined,
    matches,
    matches_of_first,
)
from tidelog.logic.normalise import clause_of
from tidelog.logic.order import decide

NUMBERS = (0, 1, 2)
TICKS = range(-3, 6)


class Facts:
    """Rows by predicate and tick, as the matcher asks for them."""

    def __init__(self, facts: Iterable[tuple[str, int | None, tuple[Value, ...]]]) -> None:
        self.facts = set(facts)

    def rows(
        self,
        premise: Premise,
        tick: int | AnyTick | None,
        positions: tuple[int, ...],
        key: tuple[Value, ...],
    ) -> Iterable[tuple[Value, ...]]:
        for name, at, row in sorted(self.facts, key=str):
            if name != premise.predicate or tuple(row[i] for i in positions) != key:
                continue
            if isinstance(tick, AnyTick):
                assert at is not None
                yield (*row, at)
            elif at == tick:
                yield row


def brute(clause: Clause, facts: Facts, head: int) -> set[tuple[Value, ...]]:
    """Values of the head's variables for which the body holds, by trying everything."""
    names = sorted({v.name for p in clause.positive for v in p.variables})
    heads = set()
    for values in product(NUMBERS, repeat=len(names)):
        bound: dict[str, Value] = dict(zip(names, values, strict=True))
        for times in product(TICKS, repeat=len(clause.free_times)):
            free = dict(zip(clause.free_times, times, strict=True))
            if all(_holds(p, bound, free, facts, head) for p in clause.premises) and all(
                decide(c.operator, _value(c.left, bound), _value(c.right, bound))
                for c in clause.tests
            ):
                heads.add(tuple(_value(t, bound) for t in clause.head.args))
    return heads


def _value(term: Variable | Constant, bound: dict[str, Value]) -> Value:
    return bound[term.name] if isinstance(term, Variable) else term.value


def _holds(
    premise: Premise, bound: dict[str, Value], free: dict[str, int], facts: Facts, head: int
) -> bool:
    match premise.when:
        case Offset(ticks):
            at: int | None = head + ticks
        case FixedTick(tick):
            at = tick
        case Rigid():
            at = None
        case Free(variable, ticks):
            at = free[variable] + ticks
    unknown = sorted({v.name for v in premise.variables if v.name not in bound})
    there = any(
        (
            premise.predicate,
            at,
            tuple(
                _value(t, {**bound, **dict(zip(unknown, extra, strict=True))}) for t in premise.args
            ),
        )
        in facts.facts
        for extra in product(NUMBERS, repeat=len(unknown))
    )
    return there is (premise.sign is Sign.POSITIVE)


def random_case(rng: random.Random) -> tuple[Clause, Facts]:
    def terms(n: int, names: str) -> tuple[Variable | Constant, ...]:
        return tuple(
            Constant.of(rng.choice(NUMBERS)) if rng.random() < 0.2 else Variable(rng.choice(names))
            for _ in range(n)
        )

    premises = []
    for i in range(rng.randint(1, 3)):
        when = rng.choice(
            [Offset(rng.randint(-1, 1)), FixedTick(1), Rigid(), Free("S", rng.randint(-1, 1))]
        )
        arity = rng.randint(0, 3)
        premises.append(Premise(f"E{i}", terms(arity, "XYZ"), when))
    bound = sorted({v.name for p in premises for v in p.variables})
    if rng.random() < 0.5:
        arity = rng.randint(0, 2)
        args = terms(arity, "".join(bound) + "U") if bound else terms(arity, "U")
        when = rng.choice([Offset(rng.randint(-1, 1)), Rigid(), FixedTick(0)])
        premises.append(Premise("N", args, when, Sign.NEGATIVE))
    tests = []
    if {"X", "Y"} <= set(bound) and rng.random() < 0.5:
        tests.append(Comparison(Variable("X"), Operator.LE, Variable("Y")))
    head = Head("P", tuple(Variable(n) for n in bound), Offset(0))
    clause = Clause(head, tuple(premises), tuple(tests))
    facts = set()
    for premise in premises:
        for _ in range(rng.randint(0, 12)):
            row = tuple(rng.choice(NUMBERS) for _ in premise.args)
            at = None if isinstance(premise.when, Rigid) else rng.choice([-1, 0, 1, 2])
            facts.add((premise.predicate, at, row))
    return clause, Facts(facts)


def test_matches_are_those_of_brute_force() -> None:
    rng = random.Random(7)
    some = 0
    for _ in range(600):
        clause, facts = random_case(rng)
        expected = brute(clause, facts, 1)
        some += bool(expected)
        order = JoinOrder(clause)
        start = order.start(lambda c: c.value, {}, 1)
        all_ways = list(matches(order, facts, start, VALUES))
        assert {order.values(clause.head.args, b) for b in all_ways} == expected
        known = sorted({v.name for v in clause.head.variables})[:1]
        for row in expected:
            values = dict(zip((v.name for v in clause.head.variables), row, strict=True))
            from_head = JoinOrder(clause, known)
            begin = from_head.start(lambda c: c.value, values, 1)
            rows = {
                from_head.values(clause.head.args, b)
                for b in matches(from_head, facts, begin, VALUES)
            }
            assert rows == {r for r in expected if r[: len(known)] == row[: len(known)]}
    assert some > 150


def test_dropping_variables_changes_no_answer() -> None:
    rng = random.Random(8)
    for _ in range(300):
        clause, facts = random_case(rng)
        wanted = {v.name for v in clause.head.variables}
        narrow = Clause(Head("P", clause.head.args[:1], Offset(0)), clause.premises)
        keep = {v.name for v in narrow.head.variables}
        order = JoinOrder(narrow, wanted=keep)
        start = order.start(lambda c: c.value, {}, 1)
        rows = {order.values(narrow.head.args, b) for b in joined(order, facts, start, VALUES)}
        expected = {row[:1] for row in brute(Clause(clause.head, clause.premises), facts, 1)}
        assert rows == expected
        assert len(wanted) >= len(keep)


def test_any_premise_can_come_first() -> None:
    rng = random.Random(9)
    for _ in range(200):
        clause, facts = random_case(rng)
        expected = brute(clause, facts, 1)
        for first, premise in enumerate(clause.premises):
            if premise.sign is Sign.POSITIVE:
                order = JoinOrder(clause, first=first)
                assert order.steps[0].number == first
                start = order.start(lambda c: c.value, {}, 1)
                rows = {
                    order.values(clause.head.args, b) for b in matches(order, facts, start, VALUES)
                }
                assert rows == expected


def test_the_facts_of_one_premise_give_all_matches_one_by_one() -> None:
    rng = random.Random(10)
    for _ in range(200):
        clause, facts = random_case(rng)
        expected = brute(clause, facts, 1)
        for first, premise in enumerate(clause.premises):
            if premise.sign is Sign.POSITIVE:
                order = JoinOrder(clause, first=first)
                start = order.start(constant_value, {}, 1)
                rows = {
                    order.values(clause.head.args, binding)
                    for name, tick, row in facts.facts
                    if name == premise.predicate
                    for binding in matches_of_first(order, facts, start, VALUES, row, tick)
                }
                assert rows == expected


def test_leaving_a_premise_out_leaves_the_steps_before_it_as_they_are() -> None:
    rng = random.Random(11)
    for _ in range(200):
        clause, _ = random_case(rng)
        order = JoinOrder.from_head(clause)
        for done, step in enumerate(order.steps):
            fewer = JoinOrder.from_head(clause, {step.number})
            assert len(fewer.steps) == len(order.steps) - 1
            # Tests become due elsewhere; what is looked up, and by what, is the same.
            for one, other in zip(order.steps[:done], fewer.steps[:done], strict=True):
                assert replace(one, due=()) == replace(other, due=())


def test_a_given_head_is_where_matches_start() -> None:
    rng = random.Random(12)
    for _ in range(200):
        clause, facts = random_case(rng)
        expected = brute(clause, facts, 1)
        order = JoinOrder.from_head(clause)
        for row in product(NUMBERS, repeat=len(clause.head.args)):
            start = order.start_from(constant_value, row, 1)
            assert start is not None
            assert any(True for _ in matches(order, facts, start, VALUES)) == (row in expected)


def test_a_head_that_no_fact_can_be() -> None:
    clause = Clause(Head("P", (Variable("X"), Variable("X"), Constant.of(1)), FixedTick(3)))
    order = JoinOrder.from_head(clause)
    assert order.start_from(constant_value, (2, 2, 1), 3) is not None
    for args, tick in (((2, 0, 1), 3), ((2, 2, 0), 3), ((2, 2, 1), 4)):
        assert order.start_from(constant_value, args, tick) is None


def test_rows_are_indexed_as_they_grow() -> None:
    rows = IndexedRows[int]([(1, 2), (1, 3)])
    assert sorted(rows.matching((0,), (1,))) == [(1, 2), (1, 3)]
    assert rows.add((1, 4))
    assert not rows.add((1, 4))
    assert sorted(rows.matching((0,), (1,))) == [(1, 2), (1, 3), (1, 4)]
    assert rows.matching((0, 1), (2, 2)) == ()
    assert len(rows.matching((), ())) == 3


def test_tests_without_variables_are_looked_at_first() -> None:
    clause = clause_of(check("P @ T :- E @ T, 1 > 2.").program.rules[0])
    order = JoinOrder(clause)
    assert [due.operator for due in order.due] == [Operator.GT]
    assert list(matches(order, Facts([]), order.start(lambda c: c.value, {}, 0), VALUES)) == []
