"""Expressions as SQL that DuckDB and Spark both run; logic/arithmetic says what they mean.

Integers are calculated as decimals, which are wide enough, and are NULL where they do not fit 64
bits again. That everything on the way has a value is asked for beside: within an expression, its
parts would have to be written twice at every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import assert_never

from tidelog.language.program import (
    Calculation,
    Constant,
    Expression,
    Function,
    Term,
    Type,
    Variable,
    made_type,
)

_INFINITE = "CAST('Infinity' AS DOUBLE)"


def calculation_sql(calculation: Calculation, term: Callable[[Term], str]) -> str:
    """The value of a calculation that has one, given the SQL of its terms. There is one zero."""
    value = _value(calculation, term)
    return f"({value} + 0e0)" if made_type(calculation) is Type.FLOAT else value


def checks_sql(expression: Expression, term: Callable[[Term], str]) -> Iterator[str]:
    """The conditions for an expression to have a value."""
    if not isinstance(expression, Calculation):
        return
    for arg in expression.args:
        yield from checks_sql(arg, term)
        if isinstance(arg, Variable) and expression.type is not Type.INT:
            yield _finite(term(arg))
    value = _value(expression, term)
    yield _finite(value) if made_type(expression) is not Type.INT else f"{value} IS NOT NULL"


def _finite(sql: str) -> str:
    return f"abs({sql}) < {_INFINITE}"


def _value(expression: Expression, term: Callable[[Term], str]) -> str:
    match expression:
        case Variable() | Constant():
            return term(expression)
        case Calculation(function, args):
            values = [_value(arg, term) for arg in args]
            return (
                _whole(function, values) if expression.type is Type.INT else _of(function, values)
            )
        case _:
            assert_never(expression)


def _whole(function: Function, values: list[str]) -> str:
    """What a function makes of integers."""
    match function:
        case Function.DIVIDED:
            return _of(function, [f"CAST({value} AS DOUBLE)" for value in values])
        case Function.LEAST | Function.GREATEST:
            return _of(function, values)
        case _:
            wide = [f"CAST({value} AS DECIMAL(19, 0))" for value in values]
            return f"TRY_CAST({_of(function, wide)} AS BIGINT)"


def _of(function: Function, values: list[str]) -> str:
    match function:
        case Function.PLUS | Function.MINUS | Function.TIMES:
            return f"({values[0]} {function} {values[1]})"
        case Function.DIVIDED:
            return f"({values[0]} / nullif({values[1]}, 0e0))"
        case Function.ABS | Function.LEAST | Function.GREATEST:
            return f"{function}({', '.join(values)})"
        case _:
            assert_never(function)
