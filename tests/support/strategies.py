"""Arbitrary programs as data: every construct of the language, whether or not it makes sense.

The programs are well formed, not well typed or safe: what the parser and the printer must agree on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from hypothesis import strategies as st

from tidelog.language.program import (
    INT_MAX,
    INT_MIN,
    TIME_MAX,
    Aggregate,
    Aggregated,
    Atom,
    Calculation,
    Clock,
    Column,
    Comparison,
    Constant,
    Expression,
    Function,
    Input,
    Interval,
    Literal,
    Measure,
    Negated,
    Operator,
    Output,
    Outputs,
    Program,
    Quantifier,
    Rule,
    Term,
    Time,
    TimeOffset,
    TimePoint,
    Type,
    Variable,
)
from tidelog.language.tokens import is_name

ODD_NAMES = [
    "input",
    "output",
    "not",
    "clock",
    "some",
    "always",
    "at",
    "least",
    "true",
    "false",
    "text",
    "Ünïcode",
    "温度",
    "é́lan",
    "ǅ",
    "x²",
]

lower = st.from_regex(r"[a-z][a-zA-Z0-9_]{0,4}", fullmatch=True)
upper = st.from_regex(r"[A-Z][a-zA-Z0-9_]{0,4}", fullmatch=True)
any_name = st.text(min_size=1, max_size=4).filter(is_name)
names = lower | upper | st.sampled_from(ODD_NAMES) | any_name
predicates = names
texts = st.text(max_size=8) | st.sampled_from(
    ["\x00", "😀", 'say "hi"', "back\\slash", "two\nlines", "\u2028", "\u200b", "%", "T+1", " ", ""]
)
columns = names | texts

variables = st.builds(
    Variable,
    upper | st.from_regex(r"_[a-zA-Z0-9_]{1,4}", fullmatch=True) | st.sampled_from(["Äpfel", "ǅ"]),
)
# `_` is numbered by its place in the rule; `numbered` does that.
anonymous = st.just(Variable("_#0"))
# There is one zero (the parser says so), and infinities and NaN have no syntax.
floats = st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x or 0.0)
values = (
    texts
    | lower
    | st.sampled_from(ODD_NAMES)
    | st.integers(INT_MIN, INT_MAX)
    | st.integers(-3, 3)
    | floats
    | st.booleans()
)
constants: st.SearchStrategy[Constant] = values.map(Constant.of)
terms: st.SearchStrategy[Term] = variables | constants | anonymous
ticks = st.integers(-3, 3) | st.integers(-TIME_MAX, TIME_MAX)
times: st.SearchStrategy[Time] = st.builds(TimePoint, ticks) | st.builds(
    TimeOffset, variables | anonymous, ticks
)


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    """In order, its ends on one variable: two `_` would be two variables."""
    low = draw(ticks)
    high = draw(st.integers(low, min(low + 200, TIME_MAX)) | st.integers(low, TIME_MAX))
    if draw(st.booleans()):
        return Interval(TimePoint(low), TimePoint(high))
    at = draw(variables)
    return Interval(TimeOffset(at, low), TimeOffset(at, high))


@st.composite
def asked(draw: st.DrawFn) -> Interval:
    interval = draw(intervals())
    quantifier = draw(st.sampled_from(Quantifier))
    most = min(interval.ticks, TIME_MAX)
    least = draw(st.integers(1, most)) if quantifier is Quantifier.AT_LEAST else 0
    return replace(interval, quantifier=quantifier, least=least)


def at_times(times: st.SearchStrategy[Time | None]) -> st.SearchStrategy[Atom]:
    return st.builds(Atom, predicates, st.lists(terms, max_size=4).map(tuple), times)


heads = at_times(st.none() | times | intervals())
atoms = at_times(st.none() | times | asked())
expressions: st.SearchStrategy[Expression] = st.recursive(
    terms,
    lambda parts: (
        st.builds(Calculation, st.sampled_from([*Function][:4]), st.tuples(parts, parts))
        | st.builds(Calculation, st.just(Function.ABS), st.tuples(parts))
        | st.builds(
            Calculation,
            st.sampled_from((Function.LEAST, Function.GREATEST)),
            st.lists(parts, min_size=2, max_size=3).map(tuple),
        )
    ),
    max_leaves=6,
)
comparisons = st.builds(Comparison, expressions, st.sampled_from(Operator), expressions)


def numbered(rule: Rule) -> Rule:
    """The rule with its anonymous variables numbered in the order in which they are written."""
    count = 0

    def variable(v: Variable) -> Variable:
        nonlocal count
        if not v.anonymous:
            return v
        count += 1
        return Variable(f"_#{count}")

    def term(t: Term) -> Term:
        return variable(t) if isinstance(t, Variable) else t

    def side(s: Expression) -> Expression:
        if isinstance(s, Calculation):
            return replace(s, args=tuple(map(side, s.args)))
        return term(s)

    def literal(part: Literal) -> Literal:
        match part:
            case Comparison():
                return Comparison(side(part.left), part.operator, side(part.right))
            case Negated():
                return Negated(atom(part.atom))
            case Atom():
                return atom(part)
            case Aggregated() if part.leads:
                gathered = replace(part.aggregate, atom=atom(part.atom))
                return replace(part, aggregate=gathered, value=side(part.value))
            case Aggregated():
                value = side(part.value)
                gathered = replace(part.aggregate, atom=atom(part.atom))
                return replace(part, aggregate=gathered, value=value)
            case _:
                assert_never(part)

    def atom(a: Atom) -> Atom:
        args = tuple(map(term, a.args))
        time = a.time
        if isinstance(time, TimeOffset):
            time = TimeOffset(variable(time.variable), time.offset)
        return Atom(a.predicate, args, time)

    head = atom(rule.head)
    return Rule(head, tuple(map(literal, rule.body)))


negated = st.builds(Negated, atoms)
gathered = at_times(st.none() | times | intervals())
aggregates = st.builds(Aggregate, st.just(Measure.COUNT), st.none(), gathered) | st.builds(
    Aggregate, st.sampled_from([*Measure][1:]), variables, gathered
)
aggregated = st.builds(
    Aggregated, aggregates, st.sampled_from(Operator), expressions, st.booleans()
)
literals = atoms | comparisons | negated | aggregated
rules = st.builds(Rule, heads, st.lists(literals, max_size=4).map(tuple)).map(numbered)
clocks = st.builds(Clock, predicates)
inputs = st.builds(
    Input,
    predicates,
    st.lists(st.builds(Column, columns, st.none() | st.sampled_from(Type)), max_size=3).map(tuple),
    st.none() | columns,
)
outputs = st.builds(
    Outputs,
    st.lists(
        st.builds(
            Output, predicates, st.none() | st.lists(columns, min_size=1, max_size=3).map(tuple)
        ),
        min_size=1,
        max_size=3,
    ).map(tuple),
)
programs = st.lists(rules | rules | inputs | outputs | clocks, max_size=6).map(
    lambda statements: Program(tuple(statements))
)
