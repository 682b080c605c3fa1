"""From the language to clauses, in one place.

Where a predicate is an input and also has rules or facts, or is an output, its input gets a
predicate of its own and a clause copies it. Integer constants in float columns are floats.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import assert_never

from tidelog.language.program import (
    NOWHERE,
    Aggregated,
    Atom,
    Calculation,
    Comparison,
    Constant,
    Expression,
    Function,
    Interval,
    Negated,
    Operator,
    Program,
    Rule,
    Term,
    Time,
    TimeOffset,
    TimePoint,
    Type,
    Variable,
    ends,
    substituted,
    ticks_of,
    time_variable_of,
)
from tidelog.language.types import Types, infer, widen
from tidelog.logic.clause import (
    AT_HEAD,
    RIGID,
    Asked,
    AskedMeasure,
    Clause,
    FixedTick,
    Free,
    Head,
    Offset,
    Over,
    Premise,
    Sign,
    When,
    measured_of,
)
from tidelog.logic.core import Core, Operation, Predicate, Role
from tidelog.logic.gathering import Aggregates, measured_type
from tidelog.logic.windows import Windows


def core(program: Program, queries: Iterable[str] = ()) -> Core:
    """The core of a checked program; queries count as outputs.

    >>> from tidelog.language.checks import check
    >>> from tidelog.logic.core import rules_of
    >>> program = check("input E(a: text) @ t. E(x) @ 5. P(X) @ T :- E(X) @ T.").accepted()
    >>> [(c.head.predicate, [p.predicate for p in c.premises]) for c in rules_of(core(program))]
    [('E', []), ('E', ['E[in]']), ('P', ['E'])]
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
    windows = Windows(predicates, {})
    aggregates = Aggregates(predicates, {})
    clauses = [way for clause in clauses for way in aggregates.without(clause)]
    clauses += aggregates.totals
    lasting: list[Clause] = []
    clauses = [windows.without(_beginning(clause, windows, lasting)) for clause in clauses]
    operations: dict[str, Operation] = {**windows.windows, **aggregates.aggregates}
    return Core.of(program, predicates, (*clauses, *lasting), operations)


def _beginning(clause: Clause, windows: Windows, lasting: list[Clause]) -> Clause:
    """The clause; if its head holds at an interval, with the predicate that begins it, whose own
    clause is added to the lasting ones."""
    time = None if clause.written is None else clause.written.head.time
    if not isinstance(time, Interval):
        return clause
    began, made = windows.lasting(windows.predicates[clause.head.predicate], Over(time.ticks, 1))
    lasting += made
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
        measured = measured_of(part) if isinstance(part, Premise) else None
        if measured is not None and isinstance(measured.value, Variable):
            own = types.columns[part.predicate]
            made = measured_type(measured.measure, measured.variable, part.args, own)
            variables[measured.value.name] = made
    h = clause.head
    head = Head(h.predicate, types.fit(h.predicate, h.args), h.when, h.origin)
    premises = tuple(_typed_premise(p, types) for p in clause.premises)
    tests = tuple(_typed_comparison(test, variables) for test in clause.tests)
    return Clause(head, premises, tests, clause.origin, clause.written)


def _typed_premise(premise: Premise, types: Types) -> Premise:
    typed = replace(premise, args=types.fit(premise.predicate, premise.args))
    if not isinstance(typed, Asked) or typed.measured is None:
        return typed
    measured, own = typed.measured, types.columns[premise.predicate]
    type_ = measured_type(measured.measure, measured.variable, premise.args, own)
    return replace(typed, measured=replace(measured, value=widen(measured.value, type_)))


def _typed_comparison(c: Comparison, variables: dict[str, Type | None]) -> Comparison:
    left, right = _fitting((c.left, c.right), variables)
    return replace(c, left=left, right=right)


def _fitting(
    operands: tuple[Expression, ...], variables: dict[str, Type | None]
) -> tuple[Expression, ...]:
    """Operands of one type: if one is a float, integer constants among them are, too."""
    float_ = Type.FLOAT if Type.FLOAT in [_type_of(o, variables) for o in operands] else None
    return tuple(_fitted(operand, float_, variables) for operand in operands)


def _fitted(
    operand: Expression, type_: Type | None, variables: dict[str, Type | None]
) -> Expression:
    match operand:
        case Variable() | Constant():
            return widen(operand, type_)
        case Calculation(function, args):
            own = None if function is Function.DIVIDED else type_
            made = own or _type_of(args[0], variables)
            if Type.FLOAT in [_type_of(arg, variables) for arg in args]:
                made = Type.FLOAT
            widened = tuple(_fitted(arg, made, variables) for arg in args)
            return replace(operand, args=widened, type=made)
        case _:
            assert_never(operand)


def _type_of(operand: Expression, variables: dict[str, Type | None]) -> Type | None:
    match operand:
        case Variable(name):
            return variables.get(name)
        case Constant(_, type_):
            return type_
        case Calculation(Function.DIVIDED, _):
            return Type.FLOAT
        case Calculation(_, args):
            types = [_type_of(arg, variables) for arg in args]
            return Type.FLOAT if Type.FLOAT in types else next(filter(None, types), None)
        case _:
            assert_never(operand)


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
                when = _when(time, head.time)
                asked = Premise(predicate, args, when, Sign.POSITIVE, literal.origin)
                premises.append(_asked(asked, time))
            case Negated(Atom(predicate, args, time)):
                when = _when(time, head.time)
                asked = Premise(predicate, args, when, Sign.NEGATIVE, literal.origin)
                premises.append(_asked(asked, time))
            case Comparison():
                tests.append(literal)
            case Aggregated():
                premise, more = _measured(literal, rule)
                premises.append(premise)
                tests += more
            case _:
                assert_never(literal)
    at = _when(ends(head.time)[0] if head.time else None, head.time)
    assert not isinstance(at, Free)
    made = Head(head.predicate, head.args, at, head.origin)
    return _defined(Clause(made, tuple(premises), tuple(tests), rule.origin, rule), rule)


def _asked(premise: Premise, time: Time | None) -> Premise:
    """The premise; if it is asked for at an interval, over its ticks."""
    if not isinstance(time, Interval):
        return premise
    p, over = premise, Over(time.ticks, time.fewest)
    return Asked(p.predicate, p.args, p.when, p.sign, p.origin, over)


def _measured(literal: Aggregated, rule: Rule) -> tuple[Premise, tuple[Comparison, ...]]:
    """The premise for an aggregate, with a test of its value unless the two are equal."""
    atom, value, aggregate = literal.atom, literal.value, literal.aggregate
    tests: tuple[Comparison, ...] = ()
    if literal.operator is not Operator.EQ or isinstance(value, Calculation):
        names = {v.name for x in (rule.head, *rule.body) for v in x.variables}
        before = rule.aggregated[: next(i for i, x in enumerate(rule.aggregated) if x is literal)]
        same = sum(x.aggregate.measure is aggregate.measure for x in before)
        made = aggregate.measure.capitalize() + (str(same + 1) if same else "")
        while made in names:
            made += "_"
        result = Variable(made, aggregate.origin)
        sides = (result, value) if literal.leads else (value, result)
        tests = (Comparison(sides[0], literal.operator, sides[1], literal.origin),)
        value = result
    over = Over(atom.time.ticks, 1) if isinstance(atom.time, Interval) else None
    measured = AskedMeasure(aggregate.measure, aggregate.of, value)
    when, sign = _when(atom.time, rule.head.time), Sign.POSITIVE
    premise = Asked(atom.predicate, atom.args, when, sign, literal.origin, over, measured)
    return premise, tests


def _defined(clause: Clause, rule: Rule) -> Clause:
    """The clause with expressions in place of the variables that they are the values of.

    Where the head or an absence needs such a variable, the comparison that gives it its value
    stays as it is; a mere name for another term is replaced there, too.
    """
    values: dict[str, Expression] = {}
    for definition in rule.definitions:
        assert isinstance(definition.left, Variable)
        values[definition.left.name] = substituted(definition.right, values)
    if not values:
        return clause
    terms = {name: term for name, term in values.items() if not isinstance(term, Calculation)}
    head = replace(clause.head, args=_renamed(clause.head.args, terms))
    premises = tuple(replace(p, args=_renamed(p.args, terms)) for p in clause.premises)
    kept = {v.name for part in (head, *premises) for v in part.variables}
    tests = []
    for written in clause.tests:
        left, right = (substituted(side, values) for side in (written.left, written.right))
        name = written.left.name if isinstance(written.left, Variable) else None
        if written in rule.definitions and name in kept:
            left = written.left
        tests.append(replace(written, left=left, right=right))
    return replace(clause, head=head, premises=premises, tests=tuple(tests))


def _renamed(args: tuple[Term, ...], terms: Mapping[str, Term]) -> tuple[Term, ...]:
    return tuple(terms.get(t.name, t) if isinstance(t, Variable) else t for t in args)


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
