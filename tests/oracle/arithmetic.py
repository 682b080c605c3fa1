"""What expressions come to, written without the code that is tested: exact fractions, rounded."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tidelog.language.program import (
    Calculation,
    Comparison,
    Constant,
    Expression,
    Function,
    Operator,
    Value,
    Variable,
)

_LARGEST = 2**63 - 1


def value(expression: Expression, binding: Mapping[str, Value]) -> Value | None:
    """The value of an expression; None where it has none."""
    if isinstance(expression, Constant):
        return expression.value
    if isinstance(expression, Variable):
        return binding.get(expression.name)
    args = [value(arg, binding) for arg in expression.args]
    numbers = [arg for arg in args if isinstance(arg, int | float)]
    if len(numbers) < len(args) or any(abs(number) == float("inf") for number in numbers):
        return None
    whole = all(isinstance(number, int) for number in numbers)
    if expression.function is Function.DIVIDED:
        numbers, whole = [float(number) for number in numbers], False
        if numbers[1] == 0:
            return None
    return _rounded(_exact(expression, [Fraction(number) for number in numbers]), whole)


def _exact(calculation: Calculation, numbers: list[Fraction]) -> Fraction:
    match calculation.function.value:
        case "+":
            return numbers[0] + numbers[1]
        case "-":
            return numbers[0] - numbers[1]
        case "*":
            return numbers[0] * numbers[1]
        case "/":
            return numbers[0] / numbers[1]
        case "abs":
            return abs(numbers[0])
        case "least":
            return sorted(numbers)[0]
        case "greatest":
            return sorted(numbers)[-1]
        case _:
            raise AssertionError(calculation)


def _rounded(number: Fraction, whole: bool) -> Value | None:
    if whole:
        return int(number) if -_LARGEST - 1 <= number <= _LARGEST else None
    try:
        return float(number)
    except OverflowError:
        return None


def defined(comparisons: tuple[Comparison, ...], binding: Mapping[str, Value]) -> dict[str, Value]:
    """The binding with what `X = ..` gives to variables that have no value."""
    whole = dict(binding)
    for _ in comparisons:
        for c in comparisons:
            if c.operator is Operator.EQ and isinstance(c.left, Variable):
                made = value(c.right, whole)
                if made is not None:
                    whole.setdefault(c.left.name, made)
    return whole
