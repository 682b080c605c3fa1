"""Programs as text: `parse(print_program(p)) == p`."""

from __future__ import annotations

from typing import assert_never

from tidelog.language.program import (
    Aggregate,
    Aggregated,
    Atom,
    Calculation,
    Clock,
    Comparison,
    Constant,
    Expression,
    Function,
    Input,
    Interval,
    Literal,
    Negated,
    Outputs,
    Program,
    Quantifier,
    Rule,
    Statement,
    Term,
    TickLength,
    Time,
    TimeOffset,
    TimePoint,
    Type,
    Value,
    Variable,
)
from tidelog.language.tokens import is_name, is_variable_name, quote


def print_program(program: Program) -> str:
    """One statement a line."""
    return "".join(print_statement(statement) + "\n" for statement in program.statements)


def print_statement(statement: Statement) -> str:
    match statement:
        case Input():
            columns = ", ".join(
                _column(c.name) + (f": {c.type}" if c.type else "") for c in statement.columns
            )
            time = f" @ {_column(statement.time)}" if statement.time is not None else ""
            return f"input {statement.predicate}{_args(columns)}{time}."
        case Outputs():
            items = (
                item.predicate + _args(", ".join(map(_column, item.columns or ())))
                for item in statement.items
            )
            return f"output {', '.join(items)}."
        case Clock():
            return f"clock {statement.predicate}."
        case TickLength():
            return f"tick {statement.length}."
        case Rule():
            return print_rule(statement)
        case _:
            assert_never(statement)


def print_rule(rule: Rule) -> str:
    """
    >>> from tidelog.language.program import Variable, TimeOffset, Atom, Rule
    >>> at = TimeOffset(Variable("T"))
    >>> print_rule(Rule(Atom("P", (Variable("X"),), at), (Atom("E", (Variable("X"),), at),)))
    'P(X) @ T :- E(X) @ T.'
    """
    body = f" :- {', '.join(map(print_literal, rule.body))}" if rule.body else ""
    return f"{print_literal(rule.head)}{body}."


def print_literal(literal: Literal) -> str:
    match literal:
        case Atom():
            time = "" if literal.time is None else f" @ {print_time(literal.time)}"
            words = quantifier(literal.time)
            args = _args(", ".join(map(print_term, literal.args)))
            return f"{words}{literal.predicate}{args}{time}"
        case Negated():
            return f"not {print_literal(literal.atom)}"
        case Comparison():
            left, right = print_expression(literal.left), print_expression(literal.right)
            return f"{left} {literal.operator} {right}"
        case Aggregated(aggregate, operator, value):
            sides = (print_expression(value), print_aggregate(aggregate))
            return f" {operator} ".join(sides[::-1] if literal.leads else sides)
        case _:
            assert_never(literal)


def print_aggregate(aggregate: Aggregate) -> str:
    """
    >>> from tidelog.language.program import Measure
    >>> print_aggregate(Aggregate(Measure.MAX, Variable("V"), Atom("Load", (Variable("V"),))))
    'max(V : Load(V))'
    """
    of = "" if aggregate.of is None else f"{print_term(aggregate.of)} : "
    return f"{aggregate.measure}({of}{print_literal(aggregate.atom)})"


def print_term(term: Term) -> str:
    match term:
        case Variable():
            return "_" if term.anonymous else term.name
        case Constant():
            return print_value(term.value)
        case _:
            assert_never(term)


# How tightly what a function makes holds together.
_BINDING = {Function.PLUS: 1, Function.MINUS: 1, Function.TIMES: 2, Function.DIVIDED: 2}


def print_expression(operand: Expression) -> str:
    """
    >>> v, w = Variable("V"), Variable("W")
    >>> print_expression(Calculation(Function.MINUS, (v, Calculation(Function.PLUS, (v, w)))))
    'V - (V + W)'
    """
    if not isinstance(operand, Calculation):
        return print_term(operand)
    binding = _BINDING.get(operand.function)
    if binding is None:
        return f"{operand.function}({', '.join(map(print_expression, operand.args))})"
    left, right = operand.args
    return f"{_inside(left, binding)} {operand.function} {_inside(right, binding + 1)}"


def _inside(operand: Expression, binding: int) -> str:
    """An operand of what holds together as tightly as `binding` says."""
    text = print_expression(operand)
    function = operand.function if isinstance(operand, Calculation) else None
    loose = function is not None and _BINDING.get(function, binding) < binding
    return f"({text})" if loose else text


def print_value(value: Value) -> str:
    """A constant as the language writes it: bare where it can be, quoted where it must be.

    >>> print_value("high"), print_value("High"), print_value(1e300), print_value(True)
    ('high', '"High"', '1e+300', 'true')
    """
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            bare = is_name(value) and not is_variable_name(value)
            return value if bare and value not in ("true", "false") else quote(value)


def quantifier(time: Time | None) -> str:
    """The words before an atom that is asked for over an interval: `some `, `at least 3 `."""
    if not isinstance(time, Interval) or time.quantifier is None:
        return ""
    least = f" {time.least}" if time.quantifier is Quantifier.AT_LEAST else ""
    return f"{time.quantifier}{least} "


def print_time(time: Time) -> str:
    """
    >>> at = Variable("T")
    >>> print_time(Interval(TimeOffset(at, -4), TimeOffset(at)))
    '[T-4, T]'
    """
    match time:
        case TimePoint(tick):
            return str(tick)
        case TimeOffset(variable, offset):
            name = print_term(variable)
            if time.written is not None and time.written[1] == offset:
                return f"{name}{time.written[0]}"
            return f"{name}{offset:+d}" if offset else name
        case Interval(low, high):
            return f"[{print_time(low)}, {print_time(high)}]"
        case _:
            assert_never(time)


def _column(name: str) -> str:
    return name if is_name(name) else quote(name)


def _args(text: str) -> str:
    return f"({text})" if text else ""


def print_type(type_: Type | None) -> str:
    return type_.value if type_ else "any"
