"""Clauses: rules in the one form that the analyses and the engines work on.

The head of a clause is at time T, at a fixed tick, or has no time; the time of a premise is told
from there. Everything after the language matches on the closed unions of this file and ends in
`assert_never`, so that a new kind of premise is a type error wherever it would be overlooked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TypeAlias, assert_never

from tidelog.language.program import NOWHERE, Comparison, Origin, Rule, Term, Variable


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


When: TypeAlias = Offset | FixedTick | Rigid | Free
HeadTime: TypeAlias = Offset | FixedTick | Rigid

AT_HEAD = Offset(0)
RIGID = Rigid()


class Sign(Enum):
    """Whether a premise asks for a fact or for its absence."""

    POSITIVE = "positive"
    NEGATIVE = "negative"


@dataclass(frozen=True, slots=True)
class Head:
    """What a clause derives. An offset is always 0: all times are told from the head's."""

    predicate: str
    args: tuple[Term, ...] = ()
    when: HeadTime = RIGID
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)

    @property
    def variables(self) -> Iterator[Variable]:
        """The object variables, in order, repeated as written."""
        return (term for term in self.args if isinstance(term, Variable))

    @property
    def temporal(self) -> bool:
        return not isinstance(self.when, Rigid)

    @property
    def point(self) -> int | None:
        """The tick, where it is a fixed one."""
        return self.when.tick if isinstance(self.when, FixedTick) else None

    def can_be_at(self, tick: int | None) -> bool:
        """Whether a fact at a tick can be this: a fixed one must be that tick."""
        return not isinstance(self.when, FixedTick) or self.when.tick == tick


@dataclass(frozen=True, slots=True)
class Premise:
    """A fact that must be there (or must not be) for a clause to fire."""

    predicate: str
    args: tuple[Term, ...] = ()
    when: When = RIGID
    sign: Sign = Sign.POSITIVE
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)

    @property
    def variables(self) -> Iterator[Variable]:
        """The object variables, in order, repeated as written."""
        return (term for term in self.args if isinstance(term, Variable))

    @property
    def temporal(self) -> bool:
        return not isinstance(self.when, Rigid)

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


@dataclass(frozen=True)
class Clause:
    """`head :- premises, tests.`; without either, a fact.

    `written` is the rule as it stands in the user's file, for people to read; clauses that a pass
    made up have none. Neither it nor origins take part in equality.
    """

    head: Head
    premises: tuple[Premise, ...] = ()
    tests: tuple[Comparison, ...] = ()
    origin: Origin = field(default=NOWHERE, compare=False, repr=False)
    written: Rule | None = field(default=None, compare=False, repr=False)

    @property
    def is_fact(self) -> bool:
        return not self.premises and not self.tests

    @cached_property
    def positive(self) -> tuple[Premise, ...]:
        return tuple(p for p in self.premises if p.sign is Sign.POSITIVE)

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

    @cached_property
    def fixed_ticks(self) -> tuple[int, ...]:
        """The explicit times in its head and premises."""
        times = [self.head.when, *(p.when for p in self.premises)]
        return tuple(when.tick for when in times if isinstance(when, FixedTick))

    @property
    def temporal(self) -> bool:
        """Whether the head has a time."""
        return not isinstance(self.head.when, Rigid)
