"""Expressions as SQL that DuckDB and Spark both run; logic/arithmetic says what they mean.

NULL is what has no value, and makes the comparison fail. Integers are calculated as decimals, which
are wide enough, and must fit 64 bits again. Floats may become infinite on the way, and stay it, or
no number: looking at the end is enough, but for what a division or a choice could hide.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import assert_never

from tidelog.language.program import (
    Calculation,
    Constant,
    Expression,
    Function,
    Term,
    Type,
    Variable,
)

_INFINITE = "CAST('Infinity' AS DOUBLE)"


def calculation_sql(expression: Calculation, term: Callable[[Term], str]) -> str:
    """The value of an expression, given the SQL of its terms."""
    made = _made(expression, term)
    return made if _whole(expression) else _finite(made)


def _whole(operand: Calculation) -> bool:
    """Whether an expression makes an integer."""
    return operand.type is Type.INT and operand.function is not Function.DIVIDED


def _finite(sql: str) -> str:
    return f"CASE WHEN abs({sql}) < {_INFINITE} THEN {sql} + 0e0 END"


def _made(expression: Calculation, term: Callable[[Term], str]) -> str:
    function, whole = expression.function, _whole(expression)
    args = [_operand(arg, term) for arg in expression.args]
    match function:
        case Function.PLUS | Function.MINUS | Function.TIMES:
            left, right = map(_wide, args) if whole else args
            made = f"({left} {function} {right})"
            return f"TRY_CAST({made} AS BIGINT)" if whole else made
        case Function.DIVIDED:
            left, right = args
            if expression.type is Type.INT:
                left, right = f"CAST({left} AS DOUBLE)", f"CAST({right} AS DOUBLE)"
            else:
                right = _finite(right)
            return f"({left} / nullif({right}, 0e0))"
        case Function.ABS:
            return f"TRY_CAST(abs({_wide(args[0])}) AS BIGINT)" if whole else f"abs({args[0]})"
        case Function.LEAST | Function.GREATEST:
            compare = "<=" if function is Function.LEAST else ">="
            known = args if whole else [_finite(arg) for arg in args]
            return reduce(lambda a, b: _chosen(a, compare, b), known)
        case _:
            assert_never(function)


def _operand(operand: Expression, term: Callable[[Term], str]) -> str:
    match operand:
        case Variable() | Constant():
            return term(operand)
        case Calculation():
            return _made(operand, term)
        case _:
            assert_never(operand)


def _wide(sql: str) -> str:
    return f"CAST({sql} AS DECIMAL(19, 0))"


def _chosen(one: str, compare: str, other: str) -> str:
    """One of two numbers; none where one of them is missing."""
    return (
        f"CASE WHEN {one} {compare} {other} THEN {one}"
        f" WHEN {other} {compare} {one} THEN {other} END"
    )
