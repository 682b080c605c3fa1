"""Clauses: rules in the one form that the analyses and the engines work on.

The head of a clause is at time T, at a fixed tick, or has no time; the time of a premise is told
from there. Everything after the language matches on the closed unions of this file and ends in
`assert_never`, so that a new kind of premise is a type error wherever it would be overlooked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import count
from typing import TypeAlias, assert_never

from tidelog.language.program import (
    NOWHERE,
    Aggregate,
    Aggregated,
    Atom,
    Comparison,
    Interval,
    Literal,
    Measure,
    Negated,
    Operator,
    Origin,
    Rule,
    Term,
    Time,
    TimeOffset,
    TimePoint,
    Variable,
    ends,
    terms_of,
    variable_names,
)


@dataclass(frozen=True, slots=True)
class Offset:
    """So many ticks after the head's time; before it, if negative."""

    ticks: int


@dataclass(frozen=True, slots=True)
class FixedTick:
    """The same tick whatever the head's time is: `@ 5`."""

    tick: int


@dataclass(frozen=True, slots=True)
class Rigid:
    """No time at all."""


@dataclass(frozen=True, slots=True)
class Free:
    """A time that the head does not have: a variable of the body, plus so many ticks."""

    variable: str
    ticks: int


@dataclass(frozen=True, slots=True)
class Over:
    """At `least` so many of some `ticks`, the last of which is the premise's time."""

    ticks: int
    least: int


ONE_TICK = Over(1, 1)


class Parts(Enum):
    """Where an aggregate has parts of an exact sum: they are what it makes, or what it adds up."""

    MADE = "made"
    READ = "read"


# The last columns of parts: so many facts add up to (high * 2^63 + low) * 2^power.
PART_COLUMNS = ("power", "facts", "high", "low")


@dataclass(frozen=True, slots=True)
class LastTicks:
    """So many ticks, the last of which is that of the window or the aggregate itself."""

    length: int


# Where in time a window or an aggregate finds its facts.
Extent: TypeAlias = LastTicks
ITS_TICK = LastTicks(1)


@dataclass(frozen=True, slots=True)
class AskedMeasure:
    """The measure that a rule asks for of one of an atom's variables, and the value of it."""

    measure: Measure
    variable: Variable | None
    value: Term


When: TypeAlias = Offset | FixedTick | Rigid | Free
HeadTime: TypeAlias = Offset | FixedTick | Rigid

AT_HEAD = Offset(0)
RIGID = Rigid()


class Sign(Enum):
    """Whether a premise asks for a fact or for its absence."""

    POSITIVE = "positive"
    NEGATIVE = "negative"


class _Part:
    """What heads and premises have in common."""

    __slots__ = ()

    args: tuple[Term, ...]
    when: When

    @property
    def variables(self) -> Iterator[Variable]:
        """The object variables, in order, repeated as written."""
        return (term for term in self.args if isinstance(term, Variable))

    @property
    def temporal(self) -> bool:
        return not isinstance(self.when, Rigid)

    @property
    def offset(self) -> int | None:
        """How far it lies from the head's time; None where that says nothing about it."""
        return self.when.ticks if isinstance(self.when, Offset) else None

    @property
    def point(self) -> int | None:
        """The tick, where it is a fixed one."""
        return self.when.tick if isinstance(self.when, FixedTick) else None


@dataclass(frozen=True, slots=True)
class Head(_Part):
    """What a clause derives. An offset is always 0: all times are told from the head's."""

    predicate: str
    args: tuple[Term, ...] = ()
    when: HeadTime = RIGID
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)

    def can_be_at(self, tick: int | None) -> bool:
        """Whether a fact at a tick can be this: a fixed one must be that tick."""
        return not isinstance(self.when, FixedTick) or self.when.tick == tick


@dataclass(frozen=True, slots=True)
class Premise(_Part):
    """A fact that must be there (or must not be) for a clause to fire."""

    predicate: str
    args: tuple[Term, ...] = ()
    when: When = RIGID
    sign: Sign = Sign.POSITIVE
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)

    def tick(self, head: int | None) -> int | None:
        """When it must hold, given the tick of the head; None without a time.

        >>> Premise("E", when=Offset(-2)).tick(10)
        8
        """
        match self.when:
            case Offset(ticks):
                assert head is not None, "a head with a time has a tick"
                return head + ticks
            case FixedTick(tick):
                return tick
            case Rigid():
                return None
            case Free():
                raise AssertionError("a free time does not follow from the head's")
            case _:
                assert_never(self.when)


@dataclass(frozen=True, slots=True)
class Asked(Premise):
    """A premise as rules write it: `over` some ticks, or an aggregate of all facts there.

    No core has one: a predicate takes its place that is defined as a window or an aggregate
    (logic/windows, logic/gathering). People are shown it again (`ShownCore`).
    """

    over: Over | None = None
    measured: AskedMeasure | None = None


def over_of(premise: Premise) -> Over | None:
    """The ticks that a premise is asked for, as rules write it; None for its own tick."""
    return premise.over if isinstance(premise, Asked) else None


def measured_of(premise: Premise) -> AskedMeasure | None:
    """The measure that a premise asks for, as rules write it."""
    return premise.measured if isinstance(premise, Asked) else None


@dataclass(frozen=True, slots=True)
class WindowOf:
    """The definition of a window: an atom holds at `at_least` so many ticks of an extent."""

    of: Premise  # at the window's own time
    extent: Extent
    at_least: int

    @property
    def over(self) -> Over:
        """The extent and the threshold, for windows of ticks."""
        match self.extent:
            case LastTicks(length):
                return Over(length, self.at_least)
            case _:
                assert_never(self.extent)

    @property
    def ticks(self) -> int:
        """How many ticks it is over."""
        return self.over.ticks

    @property
    def args(self) -> tuple[Variable, ...]:
        """The window's arguments: the variables that have one value for the whole stretch."""
        return tuple(dict.fromkeys(v for v in self.of.variables if not v.anonymous))

    @property
    def of_any(self) -> bool:
        """Whether several facts of a tick may be of one object, which counts once."""
        return any(v.anonymous for v in self.of.variables)


@dataclass(frozen=True, slots=True)
class AggregateOf:
    """The definition of an aggregate: a measure of all facts in an extent, for each group.

    The measure is of one `variable` of the premise; a count has none, and neither has the sum of
    parts that are read.
    """

    of: Premise  # at the aggregate's own time
    extent: Extent
    measure: Measure
    variable: Variable | None
    groups: tuple[Variable, ...]
    parts: Parts | None = None

    @property
    def args(self) -> tuple[Variable, ...]:
        """The aggregate's arguments: its groups and its value, or the parts of that."""
        names = PART_COLUMNS if self.parts is Parts.MADE else ("value",)
        return (*self.groups, *(Variable(f"_#{name}") for name in names))

    @property
    def ticks(self) -> int:
        """How many ticks it is over; one without a time."""
        match self.extent:
            case LastTicks(length):
                return length
            case _:
                assert_never(self.extent)

    @property
    def adds(self) -> bool:
        """Whether it is an exact sum, or made of one."""
        return self.measure in (Measure.SUM, Measure.AVG)


@dataclass(frozen=True)
class Clause:
    """`head :- premises, tests.`; without either, a fact.

    `written` is the rule of the user's file that it comes from, for people to read; clauses that
    come from none have none. One that `copies_input` hands an input on to the predicate of the same
    base: it is ours, people are not shown it, and measures do not count it. One that is `made`
    belongs to a window, a count or a head that lasts; where a window or count is written out it is
    `part_of` that. Only what it says takes part in equality.
    """

    head: Head
    premises: tuple[Premise, ...] = ()
    tests: tuple[Comparison, ...] = ()
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)
    written: Rule | None = field(default=None, compare=False, repr=False)
    copies_input: bool = field(default=False, compare=False, repr=False)
    made: bool = field(default=False, compare=False, repr=False)
    part_of: WindowOf | AggregateOf | None = field(default=None, compare=False, repr=False)

    @property
    def is_fact(self) -> bool:
        return not self.premises and not self.tests

    @cached_property
    def positive(self) -> tuple[Premise, ...]:
        """The premises that ask for a fact."""
        asked = (p for p in self.premises if p.sign is Sign.POSITIVE)
        return tuple(p for p in asked if measured_of(p) is None)

    @cached_property
    def negative(self) -> tuple[Premise, ...]:
        return tuple(p for p in self.premises if p.sign is Sign.NEGATIVE)

    @cached_property
    def free_times(self) -> tuple[str, ...]:
        """The time variables that the head does not have."""
        return tuple(
            dict.fromkeys(p.when.variable for p in self.premises if isinstance(p.when, Free))
        )

    @property
    def connected(self) -> bool:
        """Whether every time in the body follows from the head's (Definition 4)."""
        return not self.free_times

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """How far premises lie from the head's time, in their order."""
        return tuple(p.when.ticks for p in self.premises if isinstance(p.when, Offset))

    @property
    def radius(self) -> int:
        """How far the furthest premise lies from the head; fixed ticks do not count."""
        return max(map(abs, self.offsets), default=0)

    @cached_property
    def parts(self) -> tuple[Head | Premise, ...]:
        """The head and the premises."""
        return (self.head, *self.premises)

    @cached_property
    def timed(self) -> tuple[Head | Premise, ...]:
        """The head and the premises that have a time."""
        return tuple(part for part in self.parts if part.temporal)

    @cached_property
    def fixed_ticks(self) -> tuple[int, ...]:
        """The fixed ticks of the head and the premises."""
        points = (part.point for part in self.parts)
        return tuple(point for point in points if point is not None)

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """All terms: of the head, of the premises, of the tests."""
        parts = [*self.head.args, *(term for p in self.premises for term in p.args)]
        sides = (side for test in self.tests for side in (test.left, test.right))
        return (*parts, *(term for side in sides for term in terms_of(side)))

    @cached_property
    def definitions(self) -> tuple[Comparison, ...]:
        """The tests that give a variable its value, which no premise does: `D = V - W`.

        Each comes after those that give a value to what it is made of.
        """
        known = {v.name for p in self.positive for v in p.variables}
        left = [t for t in self.tests if t.operator is Operator.EQ and isinstance(t.left, Variable)]
        made: list[Comparison] = []
        while ready := [t for t in left if variable_names(t.right) <= known]:
            for test in ready:
                left.remove(test)
                if not variable_names(test.left) <= known:
                    made.append(test)
                    known |= variable_names(test.left)
        return tuple(made)

    @cached_property
    def bound(self) -> frozenset[str]:
        """The variables that have a value: by a positive premise, or by a definition."""
        matched = {v.name for p in self.positive for v in p.variables}
        return frozenset(matched.union(*(variable_names(d.left) for d in self.definitions)))

    @property
    def safe(self) -> bool:
        """Whether positive premises give a value to every variable, and a time to the head."""
        needed = {v.name for v in self.head.variables}
        needed |= {v.name for test in self.tests for v in test.variables}
        needed |= {v.name for p in self.negative for v in p.variables if not v.anonymous}
        timed = not isinstance(self.head.when, Offset) or any(
            isinstance(p.when, Offset) for p in self.positive
        )
        return needed <= self.bound and timed and bool(self.positive)

    def without(self, premise: Premise) -> Clause:
        """The clause without one of its premises, also where it is shown."""
        rest = tuple(p for p in self.premises if p is not premise)
        written = self.written
        if written is not None:
            gone = self.literal(premise)
            written = replace(written, body=tuple(x for x in written.body if x is not gone))
        return replace(self, premises=rest, written=written)

    def literal(self, premise: Premise) -> Literal:
        """What the rule as it is shown has for one of the premises."""
        literals = (x for x in self.shown.body if not isinstance(x, Comparison))
        number = next(i for i, p in enumerate(self.premises) if p is premise)
        return next(x for i, x in enumerate(literals) if i == number)

    @property
    def shown(self) -> Rule:
        """The rule that people read."""
        return self.as_rule if self.written is None else self.written

    @cached_property
    def as_rule(self) -> Rule:
        """The clause in the language: its times and the order of its body as they were written.

        >>> from tidelog.language.printer import print_rule
        >>> made = Clause(Head("P", when=AT_HEAD), (Premise("E", when=Offset(-1)),))
        >>> print_rule(made.as_rule)
        'P @ T :- E @ T-1.'
        """
        clock = self._clock()
        tests = iter(self.tests)
        premises = (_as_literal(p, clock) for p in self.premises)
        order = () if self.written is None else self.written.body
        kinds = [isinstance(literal, Comparison) for literal in order]
        body: tuple[Literal, ...]
        if (kinds.count(False), kinds.count(True)) == (len(self.premises), len(self.tests)):
            body = tuple(next(tests) if test else next(premises) for test in kinds)
        else:
            body = (*premises, *tests)
        head = self.head
        time = None if isinstance(head.when, Rigid) else _as_time(head.when, clock)
        return Rule(Atom(head.predicate, head.args, time, head.origin), body, self.origin)

    def _clock(self) -> TimeOffset:
        """How the head's time is written."""
        written = () if self.written is None else ends(self.written.head.time)
        if written and isinstance(written[0], TimeOffset):
            return written[0]
        taken = {*self.free_times, *(t.name for t in self.terms if isinstance(t, Variable))}
        names = ("T" if n == 1 else f"T{n}" for n in count(1))
        return TimeOffset(Variable(next(name for name in names if name not in taken)))


def _as_literal(premise: Premise, clock: TimeOffset) -> Literal:
    time = None if isinstance(premise.when, Rigid) else _as_time(premise.when, clock)
    atom = Atom(premise.predicate, premise.args, time, premise.origin)
    match premise.sign:
        case Sign.POSITIVE:
            measured = measured_of(premise)
            return atom if measured is None else _as_aggregated(atom, measured, over_of(premise))
        case Sign.NEGATIVE:
            return Negated(atom, premise.origin)
        case _:
            assert_never(premise.sign)


def _as_aggregated(atom: Atom, measured: AskedMeasure, over: Over | None) -> Aggregated:
    time, origin = atom.time, atom.origin
    if over is not None and isinstance(time, TimeOffset | TimePoint):
        before = over.ticks - 1
        if isinstance(time, TimeOffset):
            time = Interval(replace(time, offset=time.offset - before), time)
        else:
            time = Interval(TimePoint(time.tick - before), time)
        atom = replace(atom, time=time)
    aggregate = Aggregate(measured.measure, measured.variable, atom, origin)
    return Aggregated(aggregate, Operator.EQ, measured.value, origin=origin)


def _as_time(when: Offset | FixedTick | Free, clock: TimeOffset) -> Time:
    match when:
        case Offset(ticks):
            return TimeOffset(clock.variable, clock.offset + ticks)
        case FixedTick(tick):
            return TimePoint(tick)
        case Free(variable, ticks):
            return TimeOffset(Variable(variable), ticks)
        case _:
            assert_never(when)
