"""The one matcher: all ways in which the premises of a clause hold at once.

A `JoinOrder` is made once for a clause: its premises in the order in which they are looked up,
those with most values known first and negated ones last, each with the tests that are due after it.
`matches` walks along it over any source of rows. A binding is a tuple: the clause's constants, what
was known at the start, then the values that each step adds; steps know the places.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, assert_never

from tidelog.language.program import Comparison, Constant, Operator, Term, Variable
from tidelog.logic.clause import (
    Clause,
    FixedTick,
    Free,
    Offset,
    Premise,
    Rigid,
    Sign,
)

V = TypeVar("V")


class AnyTick:
    """Where a premise has a time that is not known yet: rows at all ticks are asked for."""


ANY_TICK = AnyTick()


class RowSource(Protocol[V]):
    """Facts to match premises against."""

    def rows(
        self,
        premise: Premise,
        tick: int | AnyTick | None,
        positions: tuple[int, ...],
        key: tuple[V, ...],
    ) -> Iterable[tuple[V, ...]]:
        """Rows of the premise's predicate that have the values of `key` at some positions.

        At a tick, or None for what has no time. At any tick, each row ends with its tick.
        """


class IndexedRows(Generic[V]):
    """A set of rows, with an index for every set of positions that it is looked up by."""

    __slots__ = ("_indexes", "rows")

    def __init__(self, rows: Iterable[tuple[V, ...]] = ()) -> None:
        self.rows: set[tuple[V, ...]] = set(rows)
        self._indexes: dict[tuple[int, ...], dict[tuple[V, ...], list[tuple[V, ...]]]] = {}

    def add(self, row: tuple[V, ...]) -> bool:
        """Whether the row was not there yet."""
        if row in self.rows:
            return False
        self.rows.add(row)
        for positions, index in self._indexes.items():
            index.setdefault(tuple(row[i] for i in positions), []).append(row)
        return True

    def matching(self, positions: tuple[int, ...], key: tuple[V, ...]) -> Sequence[tuple[V, ...]]:
        """The rows with some values at some positions (a copy: rows may be added meanwhile)."""
        if not positions:
            return tuple(self.rows)
        index = self._indexes.get(positions)
        if index is None:
            index = self._indexes[positions] = {}
            for row in self.rows:
                index.setdefault(tuple(row[i] for i in positions), []).append(row)
        return tuple(index.get(key, ()))


@dataclass(frozen=True, slots=True)
class TimeVariable:
    """The time of the head (without a name) or a free one, as a place in a binding."""

    name: str | None = None


HEAD_TIME = TimeVariable()
_Place: TypeAlias = Constant | str | TimeVariable


@dataclass(frozen=True, slots=True)
class Due:
    """A test whose two sides are known, and where the binding has them."""

    test: Comparison
    operator: Operator
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class JoinStep:
    """One premise to look up: by what, and what it adds to the binding."""

    number: int  # of the premise in its clause
    premise: Premise
    known: tuple[int, ...]  # argument positions whose values are known by then
    key: tuple[int, ...]  # where the binding has them
    new: tuple[int, ...]  # argument positions that add a value
    same: tuple[tuple[int, int], ...]  # argument positions that must have equal values
    time: int | None  # where the binding has its time variable; None: a fixed tick, rigid, or new
    finds_time: bool  # whether it adds the value of its time variable
    due: tuple[Due, ...]
    kept: tuple[int, ...] | None  # what later steps need of the binding; None: all of it


class JoinOrder:
    """The premises of a clause in the order in which they are best looked up.

    `known` are the object variables that have values at the start, `at_head` says whether the
    head's time does. A premise can be made the `first` one. With `wanted`, variables are dropped
    from bindings when neither a later step nor the wanted names need them.

    >>> from tidelog.logic.normalise import clause_of
    >>> from tidelog.language.checks import check
    >>> rule = check("P(X) @ T :- E(Y) @ T, F(X, Y) @ T+1, G(a) @ T.").program.rules[0]
    >>> [step.premise.predicate for step in JoinOrder(clause_of(rule), ["X"]).steps]
    ['G', 'F', 'E']
    """

    def __init__(
        self,
        clause: Clause,
        known: Iterable[str] = (),
        *,
        at_head: bool = True,
        first: int | None = None,
        wanted: Collection[str] | None = None,
    ) -> None:
        self.clause = clause
        self.known = tuple(known)
        self.constants = tuple(dict.fromkeys(_constants(clause)))
        start: list[_Place] = [*self.constants, *self.known]
        if at_head:
            start.append(HEAD_TIME)
        self.places: dict[_Place, int] = {place: i for i, place in enumerate(start)}
        self._tests = list(clause.tests)
        self.due = self._due()
        self._rest = list(enumerate(clause.premises))
        self._wanted = wanted
        steps: list[JoinStep] = []
        while self._rest:
            chosen = self._rest[first] if first is not None and not steps else self._best()
            self._rest.remove(chosen)
            steps.append(self._step(*chosen))
        self.steps = tuple(steps)

    def start(
        self, constant: Callable[[Constant], V], values: Mapping[str, V], head: V | None = None
    ) -> tuple[V, ...]:
        """The binding at the start."""
        binding = [*map(constant, self.constants), *(values[name] for name in self.known)]
        if head is not None and HEAD_TIME in self.places:
            binding.append(head)
        return tuple(binding)

    def place(self, term: Term) -> int:
        """Where bindings that went through all steps have the value of a term."""
        return self.places[_place(term)]

    def values(self, terms: Iterable[Term], binding: tuple[V, ...]) -> tuple[V, ...]:
        """The values of some terms under a binding that went through all steps."""
        return tuple(binding[self.places[_place(term)]] for term in terms)

    # Making the steps

    def _best(self) -> tuple[int, Premise]:
        """Positive premises first; of them those at a known time, then with most values known."""

        def rank(numbered: tuple[int, Premise]) -> tuple[bool, bool, float]:
            _, premise = numbered
            known = sum(_place(term) in self.places for term in premise.args)
            share = known / len(premise.args) if premise.args else 1.0
            return (premise.sign is Sign.POSITIVE, self._time_known(premise), share)

        return max(self._rest, key=rank)

    def _time_known(self, premise: Premise) -> bool:
        variable = time_variable(premise)
        return variable is None or variable in self.places

    def _step(self, number: int, premise: Premise) -> JoinStep:
        variable = time_variable(premise)
        time = None if variable is None else self.places.get(variable)
        known = tuple(i for i, t in enumerate(premise.args) if _place(t) in self.places)
        key = tuple(self.places[_place(premise.args[i])] for i in known)
        first_at: dict[_Place, int] = {}
        same: list[tuple[int, int]] = []
        for i, term in enumerate(premise.args):
            if i not in known and first_at.setdefault(_place(term), i) != i:
                same.append((first_at[_place(term)], i))
        finds_time = variable is not None and time is None
        if premise.sign is Sign.NEGATIVE:
            new: tuple[int, ...] = ()
        else:
            new = tuple(first_at.values())
            added: list[_Place] = list(first_at)
            if finds_time and variable is not None:
                added.append(variable)
            for place in added:
                self.places[place] = len(self.places)
        due = self._due()
        return JoinStep(
            number, premise, known, key, new, tuple(same), time, finds_time, due, self._keep()
        )

    def _due(self) -> tuple[Due, ...]:
        ready = [c for c in self._tests if {_place(c.left), _place(c.right)} <= set(self.places)]
        self._tests = [c for c in self._tests if c not in ready]
        return tuple(
            Due(c, c.operator, self.places[_place(c.left)], self.places[_place(c.right)])
            for c in ready
        )

    def _keep(self) -> tuple[int, ...] | None:
        """Drop the variables that nothing needs any more; where those that stay were."""
        if self._wanted is None:
            return None
        needed: set[_Place] = {*self.constants, *self._wanted, HEAD_TIME}
        for _, premise in self._rest:
            needed |= {_place(term) for term in premise.args}
            variable = time_variable(premise)
            needed |= set() if variable is None else {variable}
        needed |= {_place(side) for c in self._tests for side in (c.left, c.right)}
        staying = [place for place in self.places if place in needed]
        if len(staying) == len(self.places):
            return None
        kept = tuple(self.places[place] for place in staying)
        self.places = {place: i for i, place in enumerate(staying)}
        return kept


def matches(
    order: JoinOrder,
    source: RowSource[V],
    binding: tuple[V, ...],
    holds: Callable[[Operator, V, V], bool],
) -> Iterator[tuple[V, ...]]:
    """The bindings under which everything in the body holds, one after the other."""
    if not all(holds(d.operator, binding[d.left], binding[d.right]) for d in order.due):
        return
    steps = order.steps
    waiting: list[Iterator[tuple[V, ...]]] = [iter((binding,))]
    while waiting:
        current = next(waiting[-1], None)
        if current is None:
            waiting.pop()
        elif len(waiting) > len(steps):
            yield current
        else:
            waiting.append(extensions(steps[len(waiting) - 1], source, current, holds))


def joined(
    order: JoinOrder,
    source: RowSource[V],
    binding: tuple[V, ...],
    holds: Callable[[Operator, V, V], bool],
) -> set[tuple[V, ...]]:
    """The same bindings as a set, premise by premise: for orders that drop variables."""
    if not all(holds(d.operator, binding[d.left], binding[d.right]) for d in order.due):
        return set()
    partial = {binding}
    for step in order.steps:
        partial = {longer for b in partial for longer in extensions(step, source, b, holds)}
    return partial


def extensions(
    step: JoinStep,
    source: RowSource[V],
    binding: tuple[V, ...],
    holds: Callable[[Operator, V, V], bool],
) -> Iterator[tuple[V, ...]]:
    """The bindings that one more premise allows."""
    tick = step_tick(step, binding)
    rows = source.rows(step.premise, tick, step.known, tuple(binding[i] for i in step.key))
    if step.premise.sign is Sign.NEGATIVE:
        if not any(all(row[i] == row[j] for i, j in step.same) for row in rows):
            yield from _tested(step, binding, holds)
        return
    for row in rows:
        if all(row[i] == row[j] for i, j in step.same):
            longer = (*binding, *(row[i] for i in step.new)) if step.new else binding
            if step.finds_time:
                longer = (*longer, _time_value(step.premise, row[-1]))
            yield from _tested(step, longer, holds)


def _tested(
    step: JoinStep, binding: tuple[V, ...], holds: Callable[[Operator, V, V], bool]
) -> Iterator[tuple[V, ...]]:
    if all(holds(d.operator, binding[d.left], binding[d.right]) for d in step.due):
        yield binding if step.kept is None else tuple(binding[i] for i in step.kept)


def step_tick(step: JoinStep, binding: tuple[Any, ...]) -> int | AnyTick | None:
    """The tick at which a premise is looked up."""
    when = step.premise.when
    match when:
        case Rigid():
            return None
        case FixedTick(tick):
            return tick
        case Offset(ticks) | Free(_, ticks):
            if step.time is None:
                return ANY_TICK
            at: int = binding[step.time] + ticks
            return at
        case _:
            assert_never(when)


def _time_value(premise: Premise, tick: Any) -> Any:
    """The value of a premise's time variable when it holds at a tick."""
    when = premise.when
    match when:
        case Offset(ticks) | Free(_, ticks):
            return tick - ticks
        case FixedTick() | Rigid():
            raise AssertionError("without a time variable there is nothing to find")
        case _:
            assert_never(when)


def time_variable(premise: Premise) -> TimeVariable | None:
    """The variable that the time of a premise hangs on, if there is one."""
    match premise.when:
        case Offset():
            return HEAD_TIME
        case Free(variable, _):
            return TimeVariable(variable)
        case FixedTick() | Rigid():
            return None
        case _:
            assert_never(premise.when)


def _place(term: Term) -> _Place:
    match term:
        case Variable():
            return term.name
        case Constant():
            return term
        case _:
            assert_never(term)


def _constants(clause: Clause) -> Iterator[Constant]:
    terms = [*clause.head.args, *(term for p in clause.premises for term in p.args)]
    yield from (term for term in terms if isinstance(term, Constant))
    for test in clause.tests:
        yield from (side for side in (test.left, test.right) if isinstance(side, Constant))
