"""The meaning of a core, by the naive evaluation of the rules that it says.

Each clause and each window is written as a rule of the language, under the predicates' own keys;
nothing of what the product does with cores takes part.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from tidelog.language.program import (
    Aggregate,
    Aggregated,
    Atom,
    Column,
    Input,
    Instant,
    Interval,
    Literal,
    Negated,
    Operator,
    Program,
    Quantifier,
    Rule,
    Time,
    TimeOffset,
    TimePoint,
    Variable,
)
from tidelog.logic.clause import (
    AggregateOf,
    Clause,
    FixedTick,
    Free,
    Offset,
    Premise,
    Rigid,
    Sign,
    When,
    WindowOf,
)
from tidelog.logic.core import Core, Definition, External, RuleSet

from .generate import Case
from .horizon import Answers, default_margin
from .naive import evaluate

_CLOCK = Variable("T#")


def answers(core: Core, case: Case) -> Answers:
    """The answers of a case's queries by a core of its program."""
    whole = as_program(core)
    facts = {p.name: set(map(tuple, case.facts.get(p.base, ()))) for p in core.inputs}
    ticks = [
        row[-1]
        for name, declared in case.program.declarations.items()
        if declared.time is not None
        for row in case.facts.get(name, ())
    ]
    for p in core.inputs:
        if p.base in case.program.clocks and ticks:
            facts[p.name] = {(min(ticks),)}
    margin = max(default_margin(case.program), default_margin(whole))
    return evaluate(whole, facts, case.queries, case.low, case.high, margin)


def as_program(core: Core) -> Program:
    """The rules that a core says."""
    inputs = [
        Input(
            p.name, tuple(Column(f"c{i}", t) for i, t in enumerate(p.types)), _time_of(p.temporal)
        )
        for p in core.inputs
    ]
    rules = [rule for name, made in core.definitions.items() for rule in _rules(name, made)]
    return Program((*inputs, *rules))


def _rules(name: str, definition: Definition) -> list[Rule]:
    match definition:
        case RuleSet(clauses):
            return [_rule(clause) for clause in clauses]
        case WindowOf(of, extent, at_least):
            atom = _atom(of, extent.length, at_least)
            return [Rule(Atom(name, definition.args, TimeOffset(_CLOCK)), (atom,))]
        case AggregateOf():
            return [_aggregate(name, definition)]
        case External():
            return []
        case _:
            assert_never(definition)


def _time_of(temporal: bool) -> str | None:
    return "time" if temporal else None


def _rule(clause: Clause) -> Rule:
    head = clause.head
    body: list[Literal] = [_literal(premise) for premise in clause.premises]
    time = None if isinstance(head.when, Rigid) else _instant(head.when)
    return Rule(Atom(head.predicate, head.args, time), (*body, *clause.tests))


def _aggregate(name: str, aggregate: AggregateOf) -> Rule:
    """Its second literal gives values to the groups and the time: there is some fact."""
    assert aggregate.parts is None, "parts of sums are no values"
    of, (*groups, value) = aggregate.of, aggregate.args
    ticks = aggregate.extent.length if of.temporal else 0
    made = Aggregate(aggregate.measure, aggregate.variable, _atom(of, ticks))
    args = tuple(
        Variable(f"_#{t.name}") if isinstance(t, Variable) and t not in groups else t
        for t in of.args
    )
    there = _atom(replace(of, args=args), ticks, 1)
    time = TimeOffset(_CLOCK) if of.temporal else None
    head = Atom(name, aggregate.args, time)
    return Rule(head, (Aggregated(made, Operator.EQ, value), there))


def _literal(premise: Premise) -> Literal:
    match premise.sign:
        case Sign.POSITIVE:
            return _atom(premise)
        case Sign.NEGATIVE:
            return Negated(_atom(premise))
        case _:
            assert_never(premise.sign)


def _atom(premise: Premise, ticks: int = 0, least: int = 0) -> Atom:
    time: Time | None = None
    if not isinstance(premise.when, Rigid):
        time = last = _instant(premise.when)
        if ticks:
            first = _instant(premise.when, 1 - ticks)
            asked = Quantifier.AT_LEAST if least else None
            time = Interval(first, last, asked, least)
    return Atom(premise.predicate, premise.args, time)


def _instant(when: When, more: int = 0) -> Instant:
    match when:
        case Offset(ticks):
            return TimeOffset(_CLOCK, ticks + more)
        case FixedTick(tick):
            return TimePoint(tick + more)
        case Free(variable, ticks):
            return TimeOffset(Variable(variable), ticks + more)
        case Rigid():
            raise AssertionError("it has no time")
        case _:
            assert_never(when)
