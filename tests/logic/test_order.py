"""What comparisons entail, against every assignment of a small grid."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.deep import examples

from tidelog.analysis.canonical import splits
from tidelog.language.checks import check
from tidelog.language.program import (
    Calculation,
    Constant,
    Expression,
    Function,
    Operator,
    Type,
    Value,
    Variable,
)
from tidelog.logic.order import Assumption, Object, Order, Symbol, decide

SYMBOLS = 3
# Three symbols and two constants: a grid with room for all of them below, between and above.
GRIDS: dict[Type, tuple[Value, ...]] = {
    Type.INT: tuple(range(-3, 7)),
    Type.FLOAT: tuple(i / 4 for i in range(-3, 8)),
    Type.TEXT: ("0", "1", "2", "a", "b", "c", "d", "e", "f", "g", "h"),
    Type.BOOL: (True, False),
}
CONSTANTS: dict[Type, tuple[Value, ...]] = {
    Type.INT: (0, 2, 3),
    Type.FLOAT: (0.0, 1.0),
    Type.TEXT: ("a", "e"),
    Type.BOOL: (True, False),
}


def symbols(type_: Type) -> list[Symbol]:
    return [Symbol(i, type_) for i in range(SYMBOLS)]


@st.composite
def assumptions(draw: st.DrawFn, type_: Type, most: int = 4) -> list[Assumption]:
    objects: list[Object] = [*symbols(type_), *(Constant(v, type_) for v in CONSTANTS[type_])]
    operators = [Operator.EQ, Operator.NE] if type_ is Type.BOOL else list(Operator)
    one = st.tuples(st.sampled_from(objects), st.sampled_from(operators), st.sampled_from(objects))
    return draw(st.lists(one, max_size=most))


def value(term: Object, values: dict[Symbol, Value]) -> Value:
    return term.value if isinstance(term, Constant) else values[term]


def true(assumption: Assumption, values: dict[Symbol, Value]) -> bool:
    left, op, right = assumption
    return decide(op, value(left, values), value(right, values))


def models(assumed: list[Assumption], type_: Type) -> Iterator[dict[Symbol, Value]]:
    for row in itertools.product(GRIDS[type_], repeat=SYMBOLS):
        values = dict(zip(symbols(type_), row, strict=True))
        if all(true(a, values) for a in assumed):
            yield values


def total(order: Order, type_: Type) -> Iterator[Order]:
    """Every refinement in which each two symbols, and each symbol and constant, are compared."""
    objects: list[Object] = [*symbols(type_), *(Constant(v, type_) for v in CONSTANTS[type_])]
    for one, other in itertools.combinations(objects, 2):
        if isinstance(one, Symbol) and order.entails(one, Operator.EQ, other) is not True:
            for op in (Operator.LT, Operator.GT):
                if order.entails(one, op, other) is None:
                    for following in splits(order, one, op, other):
                        yield from total(following, type_)
                    return
    yield order


@pytest.mark.parametrize("type_", Type)
@examples(30, deep=750)
@given(st.data())
def test_entailment_and_contradiction(type_: Type, data: st.DataObject) -> None:
    assumed = data.draw(assumptions(type_))
    left, op, right = data.draw(assumptions(type_).filter(bool))[0]
    order = Order().assume(*assumed)
    all_models = list(models(assumed, type_))
    if order is None:
        assert not all_models
        return
    known = order.entails(left, op, right)
    outcomes = {true((left, op, right), m) for m in all_models}
    if known is not None:
        assert outcomes <= {known}
    if known is None and len(assumed) <= 2 and type_ in (Type.FLOAT, Type.TEXT):
        # Few assumptions on a dense order: nothing that follows is overlooked.
        assert outcomes == {True, False}


@pytest.mark.parametrize("type_", [Type.INT, Type.FLOAT, Type.TEXT])
@examples(4, deep=80)
@given(st.data())
def test_all_cases_together_are_exact(type_: Type, data: st.DataObject) -> None:
    """Refined until everything is compared, an order is consistent iff it has a model."""
    assumed = data.draw(assumptions(type_))
    order = Order().assume(*assumed)
    all_models = list(models(assumed, type_))
    cases = [] if order is None else list(total(order, type_))
    assert bool(cases) == bool(all_models)
    for case in cases:
        assert any(all(true(a, m) for a in case.assumptions) for m in all_models)
    for m in all_models:
        assert any(all(true(a, m) for a in case.assumptions) for case in cases)


def test_values_that_follow_are_not_given_to_others() -> None:
    x, y = Symbol(1, Type.INT), Symbol(2, Type.INT)
    zero, two = Constant(0, Type.INT), Constant(2, Type.INT)
    order = Order().assume((zero, Operator.LT, x), (x, Operator.LT, two), (x, Operator.NE, y))
    assert order is not None
    model = order.model([x, y], [zero, two])
    assert model[x] == 1
    assert model[y] != 1


@pytest.mark.parametrize("type_", Type)
@examples(30, deep=750)
@given(st.data())
def test_models(type_: Type, data: st.DataObject) -> None:
    """Values that meet the assumptions, distinct and new unless they must not be."""
    assumed = data.draw(assumptions(type_))
    avoid = [Constant(v, type_) for v in CONSTANTS[type_]]
    todo = [o for o in [Order().assume(*assumed)] if o is not None]
    model = None
    while todo and model is None:
        order = todo.pop()
        try:
            model = order.model(symbols(type_), avoid)
        except ValueError:
            open_ = order.unsettled(symbols(type_), avoid)
            todo += [] if open_ is None else splits(order, *open_)
    assert (model is not None) == any(True for _ in models(assumed, type_))
    if model is not None:
        assert all(true(a, model) for a in assumed)
        if type_ is not Type.BOOL:
            for one, other in itertools.combinations([*symbols(type_), *avoid], 2):
                if value(one, model) == value(other, model):
                    assert order.entails(one, Operator.EQ, other) is True


def test_integers_have_no_room_between_neighbours() -> None:
    x, y = Symbol(1, Type.INT), Symbol(2, Type.INT)
    two, three, four = (Constant(v, Type.INT) for v in (2, 3, 4))
    between = Order().assume((two, Operator.LT, x), (x, Operator.LT, four))
    assert between is not None
    assert between.same(x) == three
    assert Order().assume((two, Operator.LT, x), (x, Operator.LT, three)) is None
    crowded = [(two, Operator.LT, x), (x, Operator.LT, y), (y, Operator.LE, three)]
    assert Order().assume(*crowded) is None


def test_large_integers_are_exact() -> None:
    x = Symbol(1, Type.INT)
    big = 2**53
    order = Order().assume(
        (Constant(big, Type.INT), Operator.LT, x), (x, Operator.LT, Constant(big + 2, Type.INT))
    )
    assert order is not None
    assert order.model([x], []) == {x: big + 1}


def test_a_bool_is_one_of_two() -> None:
    x, true_ = Symbol(1, Type.BOOL), Constant(True, Type.BOOL)
    order = Order().assume((x, Operator.NE, true_))
    assert order is not None
    assert order.same(x) == Constant(False, Type.BOOL)
    assert order.assume((x, Operator.NE, Constant(False, Type.BOOL))) is None


def differences() -> list[Symbol]:
    pairs = itertools.permutations(symbols(Type.INT), 2)
    return [Symbol(0, Type.INT, (Function.MINUS, pair)) for pair in pairs]


@st.composite
def about_differences(draw: st.DrawFn) -> list[Assumption]:
    objects: list[Object] = [
        *symbols(Type.INT),
        *differences(),
        *(Constant(v, Type.INT) for v in (-2, 0, 1, 3)),
    ]
    one = st.tuples(
        st.sampled_from(objects), st.sampled_from(list(Operator)), st.sampled_from(objects)
    )
    return draw(st.lists(one, min_size=1, max_size=4))


def with_differences(values: dict[Symbol, Value]) -> dict[Symbol, Value]:
    made = dict(values)
    for each in differences():
        assert each.of is not None
        one, other = each.of[1]
        assert isinstance(one, Symbol)
        assert isinstance(other, Symbol)
        made[each] = int(values[one]) - int(values[other])
    return made


@examples(60, deep=1500)
@given(about_differences(), about_differences())
def test_differences_of_integers(assumed: list[Assumption], asked: list[Assumption]) -> None:
    """What is said of differences is true in every model."""
    rows = itertools.product(range(-4, 5), repeat=SYMBOLS)
    all_values = (with_differences(dict(zip(symbols(Type.INT), r, strict=True))) for r in rows)
    all_models = [values for values in all_values if all(true(a, values) for a in assumed)]
    order = Order().assume(*assumed)
    if order is None:
        assert not all_models
        return
    for question in asked:
        known = order.entails(*question)
        outcomes = {true(question, m) for m in all_models}
        assert known is None or outcomes <= {known}


@pytest.mark.parametrize(
    ("assumed", "asked", "known"),
    [
        ("V - W > 10", "V > W", True),
        ("V - W > 10", "V <= W", False),
        ("V - W > 10", "V - W > 3", True),
        ("V - W = 0", "V = W", True),
        ("V - W > 10, W - X > 10", "V > X", True),
        ("V - W > 10, W - X > 10, V - X > 0", "V - X > 21", True),
        ("V - W > 10, W - X > 10, V - X > 0", "V - X > 22", None),
        ("V - W <= 1, V > W", "V - W = 1", True),
        ("V - W < 5", "V < W", None),
    ],
)
def test_differences_by_hand(assumed: str, asked: str, known: bool | None) -> None:
    order = Order().assume(*_read(assumed))
    assert order is not None
    assert order.entails(*_read(asked)[0]) is known


def test_differences_that_contradict_each_other() -> None:
    assert Order().assume(*_read("V - W > 10, W - X > 10, V - X < 20")) is None
    assert Order().assume(*_read("V - W > 0, W - V > 0")) is None


def _read(text: str) -> list[Assumption]:
    rule = check(f"P :- E(V, W, X), {text}.").program.rules[0]
    numbers = {name: Symbol(i, Type.INT) for i, name in enumerate("VWX")}

    def read(side: Expression) -> Object:
        match side:
            case Variable(name):
                return numbers[name]
            case Constant():
                return side
            case Calculation(function, args):
                return Symbol(0, Type.INT, (function, tuple(map(read, args))))

    return [(read(c.left), c.operator, read(c.right)) for c in rule.comparisons]
