"""Aggregates of many facts, as predicates of their own.

`A(X, V) @ T` holds where V is the measure of all facts that an atom matches at the ticks that end
with T; it does not hold where there is none. That is its definition (`AggregateOf`). Over nothing a
count and a sum are 0: a clause that asks for them becomes two, one for the aggregate, one for the
absence of all that it is of. A clause with many of them would become many. It asks for totals
instead: predicates that have two clauses each, for the groups that the rest of the clause gives.

Where an aggregate says no more than a window does, it is one: `count(Trip(X) @ [T-59, T]) >= 3` is
`at least 3 Trip(X) @ [T-59, T]`, and `max(V : Temp(X, V) @ [T, T+9]) >= 80` is `some Temp(X, V) @
[T, T+9], V >= 80`. That is certain as soon as enough facts are there; an aggregate, once all are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from tidelog.language.printer import print_term
from tidelog.language.program import (
    Comparison,
    Constant,
    Expression,
    Measure,
    Operator,
    Origin,
    Term,
    Type,
    Variable,
    substituted,
    terms_of,
)
from tidelog.logic.clause import (
    AT_HEAD,
    ONE_TICK,
    RIGID,
    AggregateOf,
    Asked,
    AskedMeasure,
    Clause,
    FixedTick,
    Free,
    Head,
    HeadTime,
    LastTicks,
    Offset,
    Over,
    Premise,
    Rigid,
    Sign,
    measured_of,
    over_of,
)
from tidelog.logic.core import Predicate, Role
from tidelog.logic.order import decide
from tidelog.logic.windows import takes_many_clauses

# Clauses that a rule with counts or sums may become, for those over nothing.
MOST_FOR_ZEROS = 4

_TURNED = {
    Operator.EQ: Operator.EQ,
    Operator.NE: Operator.NE,
    Operator.LT: Operator.GT,
    Operator.LE: Operator.GE,
    Operator.GT: Operator.LT,
    Operator.GE: Operator.LE,
}


def measured_type(
    measure: Measure,
    variable: Variable | None,
    args: Sequence[Term],
    types: Sequence[Type | None],
) -> Type | None:
    """The type of a measure of facts with some arguments."""
    match measure:
        case Measure.COUNT:
            return Type.INT
        case Measure.AVG:
            return Type.FLOAT
        case Measure.SUM | Measure.MIN | Measure.MAX:
            places = (i for i, term in enumerate(args) if term == variable)
            return next((types[i] for i in places), None)
        case _:
            assert_never(measure)


class Aggregates:
    """The aggregates of a program: predicates and what they are of, each made once."""

    def __init__(
        self, predicates: dict[str, Predicate], aggregates: Mapping[str, AggregateOf]
    ) -> None:
        self.predicates = predicates
        self.aggregates = dict(aggregates)
        self.totals: list[Clause] = []

    def without(self, clause: Clause) -> list[Clause]:
        """A clause as others that ask for aggregates' predicates; together they say the same."""
        ways = self._written_out(clause, self._ways, MOST_FOR_ZEROS)
        if ways is None:
            ways = self._written_out(clause, self._by_total)
        assert ways is not None, "any number of clauses will do"
        return ways

    def _written_out(
        self,
        clause: Clause,
        ways_of: Callable[[Clause, int], list[Clause]],
        most: float = math.inf,
    ) -> list[Clause] | None:
        """A clause without its aggregates, in some way; None if that takes too many clauses."""
        ways = [clause]
        for number, premise in enumerate(clause.premises):
            if measured_of(premise) is not None:
                ways = [way for each in ways for way in ways_of(each, number)]
                if len(ways) > most:
                    return None
        return ways

    def _by_total(self, clause: Clause, number: int) -> list[Clause]:
        """The clause over a total in place of an aggregate that may be 0 over nothing."""
        premise, ways = clause.premises[number], self._ways(clause, number)
        times = _times_of_total(clause, premise)
        if len(ways) < 2 or times is None:
            return ways
        at, known = times
        measured, names = _measured(premise), {v.name for p in clause.positive for v in p.variables}
        aggregate = _defined(premise, measured.measure, measured.variable, names)
        groups, (*_, value) = aggregate.groups, aggregate.args
        below = self.predicate(aggregate)
        total = below.made(Role.TOTAL, str(len(self.totals) // 2 + 1))
        total = replace(total, temporal=not isinstance(at, Rigid))
        self.predicates[total.name] = total
        own = replace(premise, when=aggregate.of.when)
        there = Premise(below.name, aggregate.args, own.when, origin=premise.origin)
        nothing = self._nothing(own, names, number)
        for given, asked in ((value, there), (self._zero(premise), nothing)):
            head = Head(total.name, (*groups, given), at)
            premises = (asked, *_guard(known, groups, at))
            made = Clause(head, premises, origin=premise.origin, made=True, part_of=aggregate)
            self.totals.append(made)
        when = premise.when if premise.temporal else at
        args = (*groups, measured.value)
        asked = Premise(total.name, args, when, origin=premise.origin)
        return [_with(clause, number, asked, clause.tests)]

    def _ways(self, clause: Clause, number: int) -> list[Clause]:
        premise = clause.premises[number]
        measured = _measured(premise)
        groups = {v.name for p in clause.positive for v in p.variables}
        as_window = _counted(clause, premise, groups) or _reached(clause, premise, groups)
        if as_window is not None:
            return [_with(clause, number, *as_window)]
        none = measured.value in (Constant.of(0), Constant.of(0.0))
        if measured.measure is Measure.COUNT and none:
            return self._of_nothing(clause, number, groups)
        aggregate = _defined(premise, measured.measure, measured.variable, groups)
        made = self.predicate(aggregate)
        args = (*aggregate.groups, measured.value)
        asked = Premise(made.name, args, premise.when, origin=premise.origin)
        ways = [_with(clause, number, asked, clause.tests)]
        if measured.measure in (Measure.COUNT, Measure.SUM):
            ways += self._of_nothing(clause, number, groups)
        return ways

    def _of_nothing(self, clause: Clause, number: int, groups: set[str]) -> list[Clause]:
        """The clause where there is nothing, so that the value is 0; none if it cannot be."""
        premise = clause.premises[number]
        measured, zero = _measured(premise), self._zero(premise)
        clause = _with(clause, number, self._nothing(premise, groups, number), clause.tests)
        value = measured.value
        if isinstance(value, Variable) and value.name not in groups:
            return _folded(_put(clause, {value.name: zero}))
        test = Comparison(value, Operator.EQ, zero, premise.origin)
        return _folded(replace(clause, tests=(*clause.tests, test)))

    def _zero(self, premise: Premise) -> Constant:
        """The value of a count or a sum over nothing."""
        measured, columns = _measured(premise), self.predicates[premise.predicate].types
        of = measured_type(measured.measure, measured.variable, premise.args, columns)
        return Constant.of(0.0 if of is Type.FLOAT else 0)

    def _nothing(self, premise: Premise, groups: set[str], number: int) -> Premise:
        """That a premise, the one of this number in its clause, matches nothing."""
        if premise.temporal:
            return replace(_quantified(premise, groups, 1), sign=Sign.NEGATIVE)
        aggregate = _defined(premise, Measure.COUNT, None, groups)
        made = self.predicate(aggregate)
        args = (*aggregate.groups, Variable(f"_#n{number}"))
        return Premise(made.name, args, premise.when, Sign.NEGATIVE, premise.origin)

    def predicate(self, aggregate: AggregateOf) -> Predicate:
        """The predicate of an aggregate; many ask for the same."""
        of = aggregate.of
        below = self.predicates[of.predicate]
        ticks = f" of {aggregate.ticks} ticks" if aggregate.ticks > 1 else ""
        label = f"{aggregate.measure}{ticks}: {aggregate_pattern(aggregate)}"
        type_ = measured_type(aggregate.measure, aggregate.variable, of.args, below.types)
        columns = dict(zip(of.args, below.types, strict=True))
        types = (*(columns[v] for v in aggregate.groups), type_)
        made = below.made(Role.GATHERED, label, types)
        if made.name not in self.predicates:
            self.predicates[made.name] = made
            self.aggregates[made.name] = aggregate
        return made


def _measured(premise: Premise) -> AskedMeasure:
    measured = measured_of(premise)
    assert measured is not None, "a rule asks for a measure of something"
    return measured


def _defined(
    premise: Premise, measure: Measure, variable: Variable | None, groups: set[str]
) -> AggregateOf:
    """The definition of an aggregate that a rule asks for, whose own variables are `groups`."""
    when = AT_HEAD if premise.temporal else RIGID
    of = Premise(premise.predicate, premise.args, when, origin=premise.origin)
    named = tuple(dict.fromkeys(v for v in premise.variables if v.name in groups))
    ticks = (over_of(premise) or ONE_TICK).ticks
    return AggregateOf(of, LastTicks(ticks), measure, variable, named)


def _times_of_total(clause: Clause, premise: Premise) -> tuple[HeadTime, list[Premise]] | None:
    """When a total holds in rules of its own, and the other premises as told from there.

    That is at the time of its aggregate; at the clause's own if that has none. There is no total
    of an aggregate at a fixed tick, nor in a clause that joins unrelated times.
    """
    match premise.when:
        case Offset(ticks):
            if clause.free_times:
                return None
            return AT_HEAD, [_moved(p, -ticks) for p in clause.positive]
        case Free(_, ticks):
            if len(clause.free_times) > 1 or isinstance(clause.head.when, Offset):
                return None
            return AT_HEAD, [_moved(p, -ticks) for p in clause.positive]
        case Rigid():
            return None if clause.free_times else (clause.head.when, [*clause.positive])
        case FixedTick():
            return None
        case _:
            assert_never(premise.when)


def _moved(premise: Premise, ticks: int) -> Premise:
    """The premise as told from another time, so many ticks before."""
    if not isinstance(premise.when, Offset | Free):
        return premise
    return replace(premise, when=Offset(premise.when.ticks + ticks))


def _guard(known: Sequence[Premise], groups: Iterable[Variable], at: HeadTime) -> list[Premise]:
    """Few of some premises that give values to the groups, and to the time of a head."""
    missing: set[object] = {v.name for v in groups}
    if isinstance(at, Offset):
        missing.add(Offset)
    guard: list[Premise] = []
    while missing or not guard:
        gives = [(missing & {*(v.name for v in p.variables), type(p.when)}, p) for p in known]
        given, best = max(gives, key=lambda each: len(each[0]))
        assert given or not guard, f"nothing gives values to {missing}"
        guard.append(best)
        missing -= given
    return guard


def aggregate_pattern(aggregate: AggregateOf) -> str:
    """The arguments of an aggregate's atom, the groups by number: `#1, _2, V3`."""
    of = aggregate.of
    numbers = {v.name: i for i, v in enumerate(dict.fromkeys(of.variables), 1)}
    return ", ".join(_place(term, aggregate, numbers) for term in of.args)


def _place(term: Term, aggregate: AggregateOf, numbers: Mapping[str, int]) -> str:
    """An argument in the name of an aggregate: a group, the value, or neither."""
    if not isinstance(term, Variable):
        return print_term(term)
    if term in aggregate.groups:
        return f"#{aggregate.groups.index(term) + 1}"
    number = numbers[term.name]
    return f"V{number}" if term == aggregate.variable else f"_{number}"


def _quantified(premise: Premise, groups: set[str], least: int) -> Premise:
    """The premise at so many of its ticks at least, whatever else its facts are."""
    numbers = {v.name: i for i, v in enumerate(premise.variables)}
    args = tuple(
        Variable(f"_#g{numbers[t.name]}") if isinstance(t, Variable) and t.name not in groups else t
        for t in premise.args
    )
    over = Over((over_of(premise) or ONE_TICK).ticks, least)
    return Asked(premise.predicate, args, premise.when, Sign.POSITIVE, premise.origin, over)


def _counted(
    clause: Clause, premise: Premise, groups: set[str]
) -> tuple[Premise, tuple[Comparison, ...]] | None:
    """A count that is compared with a constant as a window, and the other tests."""
    measured = _measured(premise)
    if measured.measure is not Measure.COUNT or not premise.temporal:
        return None
    tests = [t for t in clause.tests if measured.value in (t.left, t.right)]
    if len(tests) != 1 or _uses(clause, measured.value) > 1:
        return None
    test = tests[0]
    least, sign = threshold(test, measured.value)
    ticks = (over_of(premise) or ONE_TICK).ticks
    one_a_tick = all(v.name in groups for v in premise.variables)
    if not 1 <= least <= (ticks if one_a_tick else 1):
        return None
    if takes_many_clauses(Over(ticks, least)):
        return None  # a count is made in one step
    rest = tuple(t for t in clause.tests if t is not test)
    return replace(_quantified(premise, groups, least), sign=sign), rest


# How a greatest and a least value are compared where one fact is enough to tell.
_REACHED = {
    Measure.MAX: (Operator.GE, Operator.GT),
    Measure.MIN: (Operator.LE, Operator.LT),
}


def _reached(
    clause: Clause, premise: Premise, groups: set[str]
) -> tuple[Premise, tuple[Comparison, ...]] | None:
    """A greatest value of some number or more as one fact with such a value; a least one too.

    With a number only: the values of other facts are then not needed to tell which are enough.
    """
    measured = _measured(premise)
    value, of = measured.value, measured.variable
    if of is None or not premise.temporal:
        return None
    if not isinstance(value, Variable) or {value.name, of.name} & groups:
        return None
    told = [_told(t, value) for t in clause.tests if value in (t.left, t.right)]
    if not told or len(told) != _uses(clause, value):
        return None
    wanted = _REACHED.get(measured.measure, ())
    if not all(how in wanted and isinstance(other, Constant) for how, other in told):
        return None
    own = _own_name(clause, premise, of)
    tests = tuple(_of_one(test, value, own, premise.origin) for test in clause.tests)
    asked = _quantified(premise, {*groups, of.name}, 1)
    return replace(asked, args=tuple(own if arg == of else arg for arg in asked.args)), tests


def _own_name(clause: Clause, premise: Premise, of: Variable) -> Variable:
    """A name for an aggregate's own variable that nothing else in the clause has."""
    others = tuple(p for p in clause.premises if p is not premise)
    taken = {t.name for t in replace(clause, premises=others).terms if isinstance(t, Variable)}
    name = of.name
    while name in taken:
        name += "_"
    return replace(of, name=name)


def _of_one(test: Comparison, value: Variable, own: Variable, origin: Origin) -> Comparison:
    """The test, if it is of an aggregate, of one of the values that this is made of."""
    if value not in (test.left, test.right):
        return test
    left, right = (own if side == value else side for side in (test.left, test.right))
    return replace(test, left=left, right=right, origin=origin)


def _uses(clause: Clause, value: Term) -> int:
    """How often a value is used beside the aggregate that gives it."""
    args = [term for part in (clause.head, *clause.premises) for term in part.args]
    others = [m.value for m in map(measured_of, clause.premises) if m is not None]
    sides = (side for test in clause.tests for side in (test.left, test.right))
    terms = [term for side in sides for term in terms_of(side)]
    return args.count(value) + others.count(value) - 1 + terms.count(value)


def threshold(test: Comparison, value: Term) -> tuple[int, Sign]:
    """What a test says of a count: at least so many, or (negative) fewer; 0 if neither."""
    operator, other = _told(test, value)
    if not isinstance(other, Constant) or not isinstance(other.value, int):
        return 0, Sign.POSITIVE
    number = other.value
    match operator:
        case Operator.GE:
            return number, Sign.POSITIVE
        case Operator.GT:
            return number + 1, Sign.POSITIVE
        case Operator.LT:
            return number, Sign.NEGATIVE
        case Operator.LE:
            return number + 1, Sign.NEGATIVE
        case Operator.EQ | Operator.NE:
            return 0, Sign.POSITIVE
        case _:
            assert_never(operator)


def _told(test: Comparison, value: Term) -> tuple[Operator, Expression]:
    """How a value is compared, and with what, whichever side it stands on."""
    if test.right == value:
        return _TURNED[test.operator], test.left
    return test.operator, test.right


def _with(clause: Clause, number: int, premise: Premise, tests: tuple[Comparison, ...]) -> Clause:
    premises = (*clause.premises[:number], premise, *clause.premises[number + 1 :])
    return replace(clause, premises=premises, tests=tests)


def _put(clause: Clause, values: Mapping[str, Constant]) -> Clause:
    """The clause with constants in place of some variables."""

    def term(old: Term) -> Term:
        return values.get(old.name, old) if isinstance(old, Variable) else old

    def premise(old: Premise) -> Premise:
        new = replace(old, args=tuple(map(term, old.args)))
        if not isinstance(new, Asked) or new.measured is None:
            return new
        return replace(new, measured=replace(new.measured, value=term(new.measured.value)))

    premises = tuple(map(premise, clause.premises))
    tests = tuple(
        replace(t, left=substituted(t.left, values), right=substituted(t.right, values))
        for t in clause.tests
    )
    head = replace(clause.head, args=tuple(map(term, clause.head.args)))
    return replace(clause, head=head, premises=premises, tests=tests)


def _folded(clause: Clause) -> list[Clause]:
    """The clause without tests that hold of constants; none, if one of them does not."""
    tests: list[Comparison] = []
    for test in clause.tests:
        left, right = test.left, test.right
        if not (isinstance(left, Constant) and isinstance(right, Constant)):
            tests.append(test)
        elif not decide(test.operator, left.value, right.value):
            return []
    return [replace(clause, tests=tuple(tests))]
