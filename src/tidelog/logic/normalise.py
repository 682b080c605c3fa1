"""From the language to clauses, in one place.

Where a predicate is an input and also has rules or facts, or is an output, its input gets a
predicate of its own and a clause copies it. Integer constants in float columns are floats.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from tidelog.language.program import (
    NOWHERE,
    Atom,
    Comparison,
    Interval,
    Negated,
    Program,
    Rule,
    Time,
    TimeOffset,
    TimePoint,
    Type,
    Variable,
    ends,
    ticks_of,
    time_variable_of,
)
from tidelog.language.types import Types, infer, widen
from tidelog.logic.clause import (
    AT_HEAD,
    RIGID,
    Clause,
    FixedTick,
    Free,
    Head,
    Offset,
    Over,
    Premise,
    Sign,
    When,
)
from tidelog.logic.core import Core, Predicate, Role
from tidelog.logic.windows import Windows


def core(program: Program, queries: Iterable[str] = ()) -> Core:
    """The core of a checked program; queries count as outputs.

    >>> from tidelog.language.checks import check
    >>> program = check("input E(a: text) @ t. E(x) @ 5. P(X) @ T :- E(X) @ T.").accepted()
    >>> [(c.head.predicate, [p.predicate for p in c.premises]) for c in core(program).clauses]
    [('E', []), ('P', ['E']), ('E', ['E[in]'])]
    """
    types = infer(program)
    inputs = set(program.inputs)
    split = inputs & {*program.heads, *program.outputs, *queries}
    clauses = [_typed(clause_of(rule), types) for rule in program.rules]
    temporal = _temporal(program, clauses)
    predicates: dict[str, Predicate] = {}
    for name in dict.fromkeys([*program.inputs, *program.heads]):
        role = Role.INPUT if name in inputs and name not in split else Role.DERIVED
        predicate = Predicate(name, temporal[name], types.columns[name], role, name)
        if name in split:
            given = predicate.made(Role.GIVEN)
            predicates[given.name] = given
            declaration = program.declarations.get(name)
            origin = NOWHERE if declaration is None else declaration.origin
            copy = handed_on(given, predicate)
            clauses.append(replace(copy, origin=origin, copies_input=True))
        predicates[name] = predicate
    for name, clock in program.clocks.items():
        first = Predicate(name, True, (), Role.DERIVED, name).made(Role.GIVEN)
        predicates[first.name] = first
        predicates[name] = Predicate(name, True, (), Role.DERIVED, name)
        clauses += [replace(made, origin=clock.origin) for made in _ticking(first, name)]
    windows = Windows(predicates)
    clauses = [windows.without(_lasting(clause, windows)) for clause in clauses]
    return Core(program, (*clauses, *windows.clauses), predicates)


def _lasting(clause: Clause, windows: Windows) -> Clause:
    """The clause; if its head holds at an interval, with the predicate that begins it."""
    time = None if clause.written is None else clause.written.head.time
    if not isinstance(time, Interval):
        return clause
    head = windows.predicates[clause.head.predicate]
    began = windows.lasting(head, Over(time.ticks, 1))
    return replace(clause, head=replace(clause.head, predicate=began.name))


def _ticking(first: Predicate, name: str) -> tuple[Clause, Clause]:
    """A clock holds at the first tick of the data, and after each tick at which it holds."""
    start = Clause(Head(name, (), AT_HEAD), (Premise(first.name, (), AT_HEAD),), copies_input=True)
    return start, Clause(Head(name, (), AT_HEAD), (Premise(name, (), Offset(-1)),))


def handed_on(below: Predicate, above: Predicate) -> Clause:
    """`P(X1, .., Xn) @ T :- Q(X1, .., Xn) @ T.`"""
    args = tuple(Variable(f"X{i}") for i in range(1, len(above.types) + 1))
    when = AT_HEAD if above.temporal else RIGID
    return Clause(Head(above.name, args, when), (Premise(below.name, args, when),))


def _temporal(program: Program, clauses: Iterable[Clause]) -> dict[str, bool]:
    temporal = {name: d.time is not None for name, d in program.declarations.items()}
    for clause in clauses:
        for part in clause.parts:
            temporal.setdefault(part.predicate, part.temporal)
    return temporal


def _typed(clause: Clause, types: Types) -> Clause:
    variables: dict[str, Type | None] = {}
    for part in (*clause.parts[1:], clause.head):
        for term, type_ in zip(part.args, types.columns[part.predicate], strict=True):
            if isinstance(term, Variable):
                variables[term.name] = type_
    h = clause.head
    head = Head(h.predicate, types.fit(h.predicate, h.args), h.when, h.origin)
    premises = tuple(replace(p, args=types.fit(p.predicate, p.args)) for p in clause.premises)
    tests = tuple(_typed_comparison(test, variables) for test in clause.tests)
    return Clause(head, premises, tests, clause.origin, clause.written)


def _typed_comparison(c: Comparison, variables: dict[str, Type | None]) -> Comparison:
    sides = (c.left, c.right)
    known = [variables.get(t.name) if isinstance(t, Variable) else t.type for t in sides]
    type_ = Type.FLOAT if Type.FLOAT in known else None
    return replace(c, left=widen(c.left, type_), right=widen(c.right, type_))


def clause_of(rule: Rule) -> Clause:
    """A rule in normal form: its head at time T, every other time told from there.

    >>> from tidelog.language.checks import check
    >>> clause = clause_of(check("P @ T-2 :- E @ T, F @ 5.").program.rules[0])
    >>> [premise.when for premise in clause.premises]
    [Offset(ticks=2), FixedTick(tick=5)]
    """
    head = rule.head
    premises: list[Premise] = []
    tests: list[Comparison] = []
    for literal in rule.body:
        match literal:
            case Atom(predicate, args, time):
                when, over = _when(time, head.time), _over(time)
                asked = Premise(predicate, args, when, origin=literal.origin, over=over)
                premises.append(asked)
            case Negated(Atom(predicate, args, time)):
                when, over = _when(time, head.time), _over(time)
                absent = Premise(predicate, args, when, Sign.NEGATIVE, literal.origin, over)
                premises.append(absent)
            case Comparison():
                tests.append(literal)
            case _:
                assert_never(literal)
    at = _when(ends(head.time)[0] if head.time else None, head.time)
    assert not isinstance(at, Free)
    made = Head(head.predicate, head.args, at, head.origin)
    return Clause(made, tuple(premises), tuple(tests), rule.origin, rule)


def _over(time: Time | None) -> Over | None:
    return Over(time.ticks, time.fewest) if isinstance(time, Interval) else None


def _when(time: Time | None, head: Time | None) -> When:
    """When a premise holds, told from the head's time; the last tick of an interval.

    A head that holds at an interval is derived at the first tick of it.
    """
    match time:
        case TimeOffset(variable, offset):
            if time_variable_of(head) == variable:
                return Offset(offset - ticks_of(ends(head)[0]))
            return Free(variable.name, offset)
        case Interval(_, high):
            return _when(high, head)
        case TimePoint(tick):
            return FixedTick(tick)
        case None:
            return RIGID
        case _:
            assert_never(time)
