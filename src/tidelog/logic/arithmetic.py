"""What expressions come to: the meaning of `+ - * /`, `abs`, `least` and `greatest`.

Every engine does as this file says. Integers are 64 bits wide, floats are those of IEEE 754 and
rounded after each operation. An expression has no value, and the comparison it stands in fails,
where an integer does not fit, something is divided by zero, or a number in it or made by it is
infinite or not a number. There is one zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce
from typing import assert_never

from tidelog.language.program import (
    INT_MAX,
    INT_MIN,
    Calculation,
    Constant,
    Expression,
    Function,
    Value,
    Variable,
)


def calculated(operand: Expression, values: Mapping[str, Value]) -> Value | None:
    """The value of an expression, if it has one.

    >>> half = Calculation(Function.DIVIDED, (Variable("X"), Constant.of(2)))
    >>> calculated(half, {"X": 3}), calculated(half, {"X": float("inf")})
    (1.5, None)
    """
    match operand:
        case Variable(name):
            return values[name]
        case Constant(value):
            return value
        case Calculation(function, args):
            numbers = [as_number(calculated(arg, values)) for arg in args]
            return applied(function, numbers)
        case _:
            assert_never(operand)


def applied(function: Function, numbers: list[int | float | None]) -> int | float | None:
    """What a function makes of numbers; None where one of them is missing."""
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        return None
    if function is Function.DIVIDED:
        known = [float(number) for number in known]
        if not known[1]:
            return None
    return as_number(_FUNCTIONS[function](known))


def as_number(value: Value | None) -> int | float | None:
    """A value that can be calculated with, if it is one; there is one zero."""
    match value:
        case None | str() | bool():
            return None
        case int():
            return value if INT_MIN <= value <= INT_MAX else None
        case float():
            return value + 0.0 if math.isfinite(value) else None


_FUNCTIONS: dict[Function, Callable[[list[int | float]], int | float]] = {
    Function.PLUS: lambda numbers: numbers[0] + numbers[1],
    Function.MINUS: lambda numbers: numbers[0] - numbers[1],
    Function.TIMES: lambda numbers: numbers[0] * numbers[1],
    Function.DIVIDED: lambda numbers: numbers[0] / numbers[1],
    Function.ABS: lambda numbers: abs(numbers[0]),
    Function.LEAST: lambda numbers: reduce(min, numbers),
    Function.GREATEST: lambda numbers: reduce(max, numbers),
}
