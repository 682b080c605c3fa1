"""What comparisons entail: equalities, inequalities and orders among symbols and constants.

Floats and texts are taken to be dense: something lies between any two of them. Integers are not, so
that `2 < X, X < 4` makes X three; a bool that is not true is false.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from tidelog.language.program import Constant, Function, Operator, Type, Value


@dataclass(frozen=True, slots=True)
class Symbol:
    """A fresh value: some object, equal to no constant unless that is assumed.

    What is made of others is `of` a function and them: the same of the same is the same value,
    and no more is known of it.
    """

    number: int
    type: Type | None = None
    of: tuple[Function, tuple[Symbol | Constant, ...]] | None = None


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
    # a + gap <= b for integers; for the others 0 is `<=` and 1 is `<`.
    _gaps: dict[tuple[Object, Object], int] = field(default_factory=dict, compare=False, repr=False)
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
        a, b = self.same(left), self.same(right)
        if isinstance(a, Constant) and isinstance(b, Constant):
            return decide(op, a.value, b.value)
        if op in _FLIPPED:
            a, op, b = b, _FLIPPED[op], a
        equal = a == b
        less, more = self._gap(a, b), self._gap(b, a)
        match op:
            case Operator.EQ | Operator.NE:
                apart = less > 0 or more > 0 or frozenset((a, b)) in self._apart
                known = True if equal else False if apart else None
                return known if op is Operator.EQ or known is None else not known
            case Operator.LT:
                if equal or more >= 0:
                    return False
                return True if less > 0 else None
            case Operator.LE:
                if equal or less >= 0:
                    return True
                return False if more > 0 else None
            case _:
                raise AssertionError(op)

    def same(self, value: Object) -> Object:
        """What stands for everything assumed equal to a value; a constant where there is one."""
        return self._class.get(value, value)

    def _gap(self, a: Object, b: Object) -> float:
        """How far a lies below b at least; negative when nothing is known."""
        known = self._gaps.get((a, b))
        if known is not None:
            return known
        # A constant that no assumption names: by way of those that are named.
        best = -math.inf
        if isinstance(a, Constant):
            for (k, x), gap in self._gaps.items():
                if x == b and isinstance(k, Constant):
                    best = max(best, _join(_between(a, k), gap, k))
        elif isinstance(b, Constant):
            for (x, k), gap in self._gaps.items():
                if x == a and isinstance(k, Constant):
                    best = max(best, _join(gap, _between(k, b), k))
        return best

    def unsettled(self, symbols: Iterable[Symbol], avoid: Iterable[Constant]) -> Assumption | None:
        """An equality with few ways to turn out that the assumptions leave open, if there is one.

        Only bools and integers can run out of values, so that no distinct ones are left.
        """
        few = [s for s in symbols if s.type in (Type.BOOL, Type.INT)]
        known = sorted(avoid, key=str)
        for one in few:
            truth = Constant(True, Type.BOOL)
            others: list[Object] = [truth] if one.type is Type.BOOL else [*few, *known]
            for other in others:
                if other.type is one.type and self.entails(one, Operator.EQ, other) is None:
                    return one, Operator.EQ, other
        return None

    def model(self, symbols: Iterable[Symbol], avoid: Iterable[Constant]) -> dict[Symbol, Value]:
        """Concrete values: distinct, new, in the order assumed; ValueError when there are none.

        Only bools need not be distinct or new.
        """
        return _model(self, list(dict.fromkeys(symbols)), list(avoid))


def _between(a: Constant, b: Constant) -> float:
    """The gap from a constant to another of its type."""
    if a.type is not b.type:
        return -math.inf
    if a.type is Type.INT:
        return int(b.value) - int(a.value)
    return 1 if decide(Operator.LT, a.value, b.value) else 0 if a.value == b.value else -math.inf


def _join(one: float, other: float, at: Object) -> float:
    """The gap over a value in the middle."""
    if at.type is Type.INT:
        return one + other
    return max(one, other) if one >= 0 and other >= 0 else -math.inf


def _close(assumptions: tuple[Assumption, ...]) -> Order | None:
    classes = _Classes()
    for left, op, right in assumptions:
        if op is Operator.EQ and not classes.unite(left, right):
            return None
    while True:
        told = _told(assumptions, classes)
        if told is None:
            return None
        gaps, apart, nodes = told
        differences = _differences(assumptions, classes)
        for _ in range(MOST_ROUNDS if differences else 1):
            if not _shortest(gaps, nodes, apart):
                return None
            if not _link(differences, gaps, nodes):
                break
        equal = [*_other_bools(apart), *_squeezed(gaps, classes)]
        if not all(classes.unite(one, other) for one, other in equal):
            return None
        if not equal:
            return Order(assumptions, classes.all(), gaps, frozenset(apart))


class _Classes:
    """Which values are equal; a constant stands for a class that has one.

    What is calculated stands for a class only where nothing else is in it: calculated of itself,
    it would grow without end.
    """

    def __init__(self) -> None:
        self._parent: dict[Object, Object] = {}

    def find(self, value: Object) -> Object:
        while self._parent.setdefault(value, value) != value:
            value = self._parent[value]
        return value

    def unite(self, one: Object, other: Object) -> bool:
        """Make two values equal; False if they are different constants."""
        a, b = self.find(one), self.find(other)
        if a == b:
            return True
        if isinstance(a, Constant) and isinstance(b, Constant):
            return False
        if _plainness(b) < _plainness(a):
            a, b = b, a
        self._parent[b] = a
        return True

    def all(self) -> dict[Object, Object]:
        return {value: self.find(value) for value in self._parent}


def _plainness(value: Object) -> int:
    if isinstance(value, Constant):
        return 0
    return 1 if value.of is None else 2


_Gaps: TypeAlias = dict[tuple[Object, Object], int]
_Apart: TypeAlias = set[frozenset[Object]]


def _told(
    assumptions: tuple[Assumption, ...], classes: _Classes
) -> tuple[_Gaps, _Apart, list[Object]] | None:
    """The gaps and differences that the assumptions and the constants tell, class by class."""
    gaps: _Gaps = {}
    apart: _Apart = set()
    nodes: dict[Object, None] = {}
    for left, op, right in assumptions:
        a, b = classes.find(left), classes.find(right)
        nodes.update({a: None, b: None})
        if op in _FLIPPED:
            a, b, op = b, a, _FLIPPED[op]
        if op is Operator.NE:
            if a == b:
                return None
            apart.add(frozenset((a, b)))
        elif op in (Operator.LT, Operator.LE):
            gaps[a, b] = max(gaps.get((a, b), 0), int(op is Operator.LT))
    known = [n for n in nodes if isinstance(n, Constant)]
    for first, second in itertools.permutations(known, 2):
        between = _between(first, second)
        if not math.isinf(between):
            gaps[first, second] = int(max(gaps.get((first, second), between), between))
    return gaps, apart, list(nodes)


# A difference of two integers with them: `(V - W, V, W)`, each as what stands for it.
_Difference: TypeAlias = tuple[Object, Object, Object]
# How often gaps and differences tell each other something new; what is left out is only not known.
MOST_ROUNDS = 6


def _differences(assumptions: tuple[Assumption, ...], classes: _Classes) -> list[_Difference]:
    """The differences of integers that assumptions speak of: they have a value, or none would."""
    told: dict[_Difference, None] = {}
    for left, _, right in assumptions:
        for side in (left, right):
            if isinstance(side, Symbol) and side.of is not None and side.type is Type.INT:
                function, args = side.of
                if function is Function.MINUS:
                    one, other = map(classes.find, args)
                    told[classes.find(side), one, other] = None
    return list(told)


def _link(differences: list[_Difference], gaps: _Gaps, nodes: list[Object]) -> bool:
    """Tell gaps what differences are known to be, and the reverse; whether that was anything."""
    more: _Gaps = {}
    for low, high, gap in _told_by(differences, gaps, nodes):
        if low != high and gap > gaps.get((low, high), -math.inf):
            more[low, high] = max(gap, more.get((low, high), gap))
    gaps.update(more)
    for new in dict.fromkeys(node for pair in more for node in pair):
        if new not in nodes:
            nodes.append(new)
            if isinstance(new, Constant):
                _place_constant(new, gaps, nodes)
    return bool(more)


def _told_by(
    differences: list[_Difference], gaps: _Gaps, nodes: list[Object]
) -> Iterator[tuple[Object, Object, int]]:
    """The gaps that follow from differences, and those of differences that follow from others."""
    constants = [n for n in nodes if isinstance(n, Constant) and n.type is Type.INT]
    for difference, one, other in differences:
        if isinstance(difference, Constant):
            yield other, one, int(difference.value)
            yield one, other, -int(difference.value)
            continue
        for known in constants:
            value = int(known.value)
            if (known, difference) in gaps:
                yield other, one, value + gaps[known, difference]
            if (difference, known) in gaps:
                yield one, other, gaps[difference, known] - value
        if (other, one) in gaps:
            yield Constant(gaps[other, one], Type.INT), difference, 0
        if (one, other) in gaps:
            yield difference, Constant(-gaps[one, other], Type.INT), 0


def _place_constant(new: Constant, gaps: _Gaps, nodes: list[Object]) -> None:
    for other in nodes:
        if isinstance(other, Constant) and other != new and other.type is new.type:
            gaps[new, other] = int(_between(new, other))
            gaps[other, new] = int(_between(other, new))


def _other_bools(apart: _Apart) -> Iterator[tuple[Object, Object]]:
    """A bool that is not one truth value is the other."""
    for pair in apart:
        for one, other in itertools.permutations(pair):
            if one.type is Type.BOOL and isinstance(one, Constant) and isinstance(other, Symbol):
                yield other, Constant(not one.value, Type.BOOL)


def _squeezed(gaps: _Gaps, classes: _Classes) -> Iterator[tuple[Object, Object]]:
    """Values between which there is exactly one distance: they are equal, or known integers."""
    for (low, high), gap in gaps.items():
        back = gaps.get((high, low))
        if back == -gap and not isinstance(high, Constant):
            value = _offset(low, gap)
            same = low if value is None and gap == 0 else value
            if same is not None and classes.find(low) != classes.find(high):
                yield high, same


def _offset(value: Object, gap: int) -> Constant | None:
    if isinstance(value, Constant) and value.type is Type.INT:
        return Constant(int(value.value) + gap, Type.INT)
    return None


def _shortest(gaps: _Gaps, nodes: list[Object], apart: _Apart) -> bool:
    """Close gaps over paths and tighten those between values that differ; False if impossible."""
    while True:
        for k in nodes:
            for i in nodes:
                first = gaps.get((i, k))
                if first is None:
                    continue
                for j in nodes:
                    second = gaps.get((k, j))
                    if second is not None:
                        joined = _join(first, second, k)
                        if joined > gaps.get((i, j), -math.inf):
                            gaps[i, j] = int(joined)
            if any(gaps.get((i, i), 0) > 0 for i in nodes):
                return False
        tighter = [
            (a, b)
            for pair in apart
            for a, b in itertools.permutations(pair)
            if gaps.get((a, b)) == 0
        ]
        if not tighter:
            return True
        gaps.update(dict.fromkeys(tighter, 1))


_NAMES = ("x", "y", "z", "u", "v", "w")


def _model(order: Order, symbols: list[Symbol], avoid: list[Constant]) -> dict[Symbol, Value]:
    used: dict[Type, set[Value]] = {t: set() for t in Type}
    # What a symbol must be is as much in use as what is to be avoided.
    settled = [v for v in map(order.same, symbols) if isinstance(v, Constant)]
    for constant in (*avoid, *settled):
        used[constant.type].add(constant.value)
    values: dict[Object, Value] = {}
    free = [s for s in symbols if not isinstance(order.same(s), Constant)]
    classes = list(dict.fromkeys(order.same(s) for s in free))
    # Known values bound the others, those below first.
    constants = dict.fromkeys(v for pair in order._gaps for v in pair if isinstance(v, Constant))
    values.update((c, c.value) for c in constants)

    def rank(node: Object) -> int:
        return sum(1 for other in classes if order._gap(other, node) >= 0)

    for node in sorted(classes, key=rank):
        assert isinstance(node, Symbol)
        type_ = node.type or Type.TEXT
        alike = [(n, v) for n, v in values.items() if (n.type or Type.TEXT) is type_]
        below = [(v, order._gap(n, node)) for n, v in alike]
        above = [(v, order._gap(node, n)) for n, v in alike]
        match type_:
            case Type.BOOL:
                others = {values.get(v) for pair in order._apart if node in pair for v in pair}
                value: Value = _first(v for v in (True, False) if v not in others)
            case Type.INT:
                low = max((int(v) + g for v, g in below if not math.isinf(g)), default=-math.inf)
                high = min((int(v) - g for v, g in above if not math.isinf(g)), default=math.inf)
                value = _first(v for v in _integers(low, high) if v not in used[type_])
            case _:
                under = [v for v, gap in below if gap >= 0]
                over = [v for v, gap in above if gap >= 0]
                value = _pick(type_, under, over, used[type_])
        values[node] = value
        used[type_].add(value)
    return {s: _required(order, s, values) for s in symbols}


def _required(order: Order, symbol: Symbol, values: dict[Object, Value]) -> Value:
    same = order.same(symbol)
    return same.value if isinstance(same, Constant) else values[same]


def _first(values: Iterator[Value]) -> Value:
    for value in values:
        return value
    raise ValueError("the assumptions leave no distinct values")


def _integers(low: float, high: float) -> Iterator[Value]:
    """The integers from low to high, at most a few thousand, small ones first."""
    if math.isinf(low):
        start, step, stop = (1, 1, high) if math.isinf(high) else (int(high), -1, low)
    else:
        start, step, stop = int(low), 1, high
    for i in range(5000):
        value = start + i * step
        if value > stop if step > 0 else value < stop:
            return
        yield value


def _pick(type_: Type, low: list[Value], high: list[Value], used: set[Value]) -> Value:
    """A value strictly between the bounds that is not used yet."""
    if type_ is Type.FLOAT:
        floor = max((float(v) for v in low), default=-math.inf)
        roof = min((float(v) for v in high), default=math.inf)
        for value in _numbers(floor, roof):
            if floor < value < roof and value not in used:
                return value
    else:
        for text in _texts(max((str(v) for v in low), default="")):
            above = all(text > str(v) for v in low)
            if above and all(text < str(v) for v in high) and text not in used:
                return text
    raise ValueError(f"no {type_.value} lies between {low} and {high}")


def _numbers(floor: float, roof: float) -> Iterator[float]:
    if math.isinf(floor) and math.isinf(roof):
        start = 1.0
    elif math.isinf(floor):
        start = math.ceil(roof) - 1000.0
    else:
        start = math.floor(floor) + 1.0
    for i in range(2000):
        yield start + i
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
