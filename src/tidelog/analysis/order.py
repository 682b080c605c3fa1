"""What comparisons entail: equalities, inequalities and orders among symbols and constants.

Reasoning is over dense orders. Integers and texts are orders too, so that whatever is entailed here
holds for them; what is not entailed may still hold for integers (nothing lies between 3 and 4).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from tidelog.language.program import Constant, Operator, Type, Value


@dataclass(frozen=True, slots=True)
class Symbol:
    """A fresh value: some object, equal to no constant unless that is assumed."""

    number: int
    type: Type | None = None


Object: TypeAlias = Symbol | Constant
Assumption: TypeAlias = tuple[Object, Operator, Object]

_FLIPPED = {Operator.GT: Operator.LT, Operator.GE: Operator.LE}


_DECIDE: dict[Operator, Callable[[Value, Value], bool]] = {
    Operator.EQ: operator.eq,
    Operator.NE: operator.ne,
    Operator.LT: operator.lt,
    Operator.LE: operator.le,
    Operator.GT: operator.gt,
    Operator.GE: operator.ge,
}


def decide(comparison: Operator, left: Value, right: Value) -> bool:
    """A comparison of two values of one type."""
    return bool(_DECIDE[comparison](left, right))


@dataclass(frozen=True)
class Order:
    """A consistent set of assumptions, closed under what follows from them."""

    assumptions: tuple[Assumption, ...] = ()
    _class: dict[Object, Object] = field(default_factory=dict, compare=False, repr=False)
    _below: dict[tuple[Object, Object], bool] = field(
        default_factory=dict, compare=False, repr=False
    )  # True: strictly
    _apart: frozenset[frozenset[Object]] = field(default=frozenset(), compare=False, repr=False)

    def assume(self, *more: Assumption) -> Order | None:
        """These assumptions too, or None when they contradict each other.

        >>> x, y = Symbol(1), Symbol(2)
        >>> less = Order().assume((x, Operator.LT, y))
        >>> less.entails(x, Operator.NE, y), less.assume((y, Operator.LE, x))
        (True, None)
        """
        return _close((*self.assumptions, *more))

    def entails(self, left: Object, op: Operator, right: Object) -> bool | None:
        """True or False when the assumptions settle the comparison, None when they do not."""
        if isinstance(left, Constant) and isinstance(right, Constant):
            return decide(op, left.value, right.value)
        if op in _FLIPPED:
            left, op, right = right, _FLIPPED[op], left
        a, b = self.same(left), self.same(right)
        equal = a == b
        less = self._less(a, b)
        more = self._less(b, a)
        match op:
            case Operator.EQ | Operator.NE:
                apart = less is True or more is True or frozenset((a, b)) in self._apart
                known = True if equal else False if apart else None
                return known if op is Operator.EQ or known is None else not known
            case Operator.LT:
                if equal or more is not None:
                    return False
                if less is not None and (less or frozenset((a, b)) in self._apart):
                    return True
                return None
            case Operator.LE:
                if equal or less is not None:
                    return True
                return False if more is True else None
            case _:
                raise AssertionError(op)

    def same(self, value: Object) -> Object:
        """What stands for everything assumed equal to a value; a constant where there is one."""
        return self._class.get(value, value)

    def _less(self, a: Object, b: Object) -> bool | None:
        """True for strictly below, False for below or equal, None for unknown."""
        if isinstance(a, Constant) and isinstance(b, Constant):
            return True if _lower(a, b) else None
        return self._below.get((a, b))

    def model(self, symbols: Iterable[Symbol], avoid: Iterable[Constant]) -> dict[Symbol, Value]:
        """Concrete values: distinct, new, in the order assumed; ValueError when there are none."""
        return _model(self, list(dict.fromkeys(symbols)), list(avoid))


def _lower(a: Constant, b: Constant) -> bool:
    return a.type is b.type and decide(Operator.LT, a.value, b.value)


def _close(assumptions: tuple[Assumption, ...]) -> Order | None:
    parent: dict[Object, Object] = {}

    def find(x: Object) -> Object:
        while parent.setdefault(x, x) != x:
            x = parent[x]
        return x

    def unite(a: Object, b: Object) -> bool:
        a, b = find(a), find(b)
        if a == b:
            return True
        if isinstance(a, Constant) and isinstance(b, Constant):
            return False
        if isinstance(b, Constant):
            a, b = b, a
        parent[b] = a
        return True

    for left, op, right in assumptions:
        if op is Operator.EQ and not unite(left, right):
            return None
    while True:
        below: dict[tuple[Object, Object], bool] = {}
        apart: set[frozenset[Object]] = set()
        nodes: dict[Object, None] = {}
        for left, op, right in assumptions:
            a, b = find(left), find(right)
            nodes.update({a: None, b: None})
            if op in _FLIPPED:
                a, b, op = b, a, _FLIPPED[op]
            if op is Operator.NE:
                if a == b:
                    return None
                apart.add(frozenset((a, b)))
            elif op in (Operator.LT, Operator.LE):
                below[a, b] = below.get((a, b), False) or op is Operator.LT
        known = [n for n in nodes if isinstance(n, Constant)]
        below.update({(a, b): True for a in known for b in known if _lower(a, b)})
        for k in nodes:
            for i in nodes:
                first = below.get((i, k))
                if first is None:
                    continue
                for j in nodes:
                    second = below.get((k, j))
                    if second is not None:
                        below[i, j] = below.get((i, j), False) or first or second
        merged = False
        for (a, b), strict in list(below.items()):
            if a == b:
                if strict:
                    return None
                continue
            if (b, a) in below:
                if strict or below[b, a] or not unite(a, b):
                    return None
                merged = True
            elif frozenset((a, b)) in apart:
                below[a, b] = True
        if any(len(pair) == 1 for pair in apart):
            return None
        bad = any(
            isinstance(a, Constant) and isinstance(b, Constant) and not _lower(a, b)
            for a, b in below
            if a != b
        )
        if bad:
            return None
        if not merged:
            classes = {x: find(x) for x in parent}
            return Order(assumptions, classes, below, frozenset(apart))


_NAMES = ("x", "y", "z", "u", "v", "w")


def _model(order: Order, symbols: list[Symbol], avoid: list[Constant]) -> dict[Symbol, Value]:
    used: dict[Type, set[Value]] = {t: set() for t in Type}
    for constant in avoid:
        used[constant.type].add(constant.value)
    values: dict[Object, Value] = {}
    free = [s for s in symbols if not isinstance(order.same(s), Constant)]
    classes = list(dict.fromkeys(order.same(s) for s in free))

    def rank(node: Object) -> int:
        return sum(1 for other in classes if order._less(other, node) is not None)

    for node in sorted(classes, key=rank):
        assert isinstance(node, Symbol)
        low = [_value(order, n, values) for n in _neighbours(order, node, below=True)]
        high = [_value(order, n, values) for n in _neighbours(order, node, below=False)]
        bounds = ([v for v in low if v is not None], [v for v in high if v is not None])
        values[node] = _pick(node.type or Type.TEXT, *bounds, used[node.type or Type.TEXT])
        used[node.type or Type.TEXT].add(values[node])
    return {s: _required(order, s, values) for s in symbols}


def _required(order: Order, symbol: Symbol, values: dict[Object, Value]) -> Value:
    same = order.same(symbol)
    return same.value if isinstance(same, Constant) else values[same]


def _value(order: Order, node: Object, values: dict[Object, Value]) -> Value | None:
    return node.value if isinstance(node, Constant) else values.get(node)


def _neighbours(order: Order, node: Object, *, below: bool) -> list[Object]:
    return [a if below else b for (a, b) in order._below if (b if below else a) == node and a != b]


def _pick(type_: Type, low: list[Value], high: list[Value], used: set[Value]) -> Value:
    """A value strictly between the bounds that is not used yet."""
    match type_:
        case Type.BOOL:
            for flag in (True, False):
                if flag not in used:
                    return flag
        case Type.INT | Type.FLOAT:
            floor = max((float(v) for v in low), default=-math.inf)
            roof = min((float(v) for v in high), default=math.inf)
            for value in _numbers(floor, roof, type_ is Type.INT):
                if floor < value < roof and value not in used:
                    return value
        case Type.TEXT:
            lowest = max((str(v) for v in low), default="")
            for text in _texts(lowest):
                above = all(text > str(v) for v in low)
                if above and all(text < str(v) for v in high) and text not in used:
                    return text
    raise ValueError(f"no {type_.value} lies between {low} and {high}")


def _numbers(floor: float, roof: float, whole: bool) -> Iterable[int | float]:
    if math.isinf(floor) and math.isinf(roof):
        start = 1.0
    elif math.isinf(floor):
        start = math.ceil(roof) - 1000.0
    else:
        start = math.floor(floor) + 1.0
    for i in range(2000):
        yield int(start) + i if whole else start + i
    if not whole:
        width = roof - floor
        for parts in (2, 3, 5, 7, 11, 101, 1009):
            for i in range(1, parts):
                yield floor + width * i / parts


def _texts(lowest: str) -> Iterable[str]:
    """Candidates above a text, readable ones first."""
    if not lowest:
        for n in range(1, 500):
            for name in _NAMES:
                yield name if n == 1 else f"{name}{n}"
    for suffix in ("a", "1", "0", " ", "\x01"):
        for n in range(1, 200):
            yield lowest + suffix * n
    for n in range(1, 500):
        yield f"{lowest}~{n}"
