"""The one matcher: all ways in which the premises of a clause hold at once.

A `JoinOrder` is made once for a clause: its premises in the order in which they are looked up,
those with most values known first and negated ones last, each with the tests that are due after it.
`matches` walks along it over any source of rows. A binding is a tuple: the clause's constants, what
was known at the start, then the values that each step adds; steps know the places.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, assert_never

from tidelog.language.program import (
    Calculation,
    Comparison,
    Constant,
    Expression,
    Operator,
    Term,
    Value,
    Variable,
    terms_of,
    variable_names,
)
from tidelog.logic.arithmetic import calculated
from tidelog.logic.clause import (
    Clause,
    FixedTick,
    Free,
    Offset,
    Premise,
    Rigid,
    Sign,
)
from tidelog.logic.order import decide

V = TypeVar("V")
# Takes some values of a tuple, in an order that was fixed when it was made.
Picker: TypeAlias = Callable[[tuple[Any, ...]], tuple[Any, ...]]


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
    """A set of rows, with an index for every set of positions that it is looked up by.

    Rows keep the order in which they came.
    """

    __slots__ = ("_indexes", "_rows", "rows")

    def __init__(self, rows: Iterable[tuple[V, ...]] = ()) -> None:
        self._rows: dict[tuple[V, ...], None] = dict.fromkeys(rows)
        self.rows: Set[tuple[V, ...]] = self._rows.keys()
        self._indexes: dict[
            tuple[int, ...], tuple[Picker, dict[tuple[V, ...], list[tuple[V, ...]]]]
        ] = {}

    def add(self, row: tuple[V, ...]) -> bool:
        """Whether the row was not there yet."""
        if row in self._rows:
            return False
        self._rows[row] = None
        for pick, index in self._indexes.values():
            index.setdefault(pick(row), []).append(row)
        return True

    def matching(self, positions: tuple[int, ...], key: tuple[V, ...]) -> Sequence[tuple[V, ...]]:
        """The rows with some values at some positions (a copy: rows may be added meanwhile)."""
        if not positions:
            return tuple(self._rows)
        if key in self._rows:  # then the positions are all there are
            return (key,)
        made = self._indexes.get(positions)
        if made is None:
            pick = picker(positions)
            index: dict[tuple[V, ...], list[tuple[V, ...]]] = {}
            for row in self._rows:
                index.setdefault(pick(row), []).append(row)
            made = self._indexes[positions] = (pick, index)
        return tuple(made[1].get(key, ()))


def picker(positions: Sequence[int]) -> Picker:
    """Takes the values at some positions.

    >>> picker([2, 0])((4, 5, 6)), picker([1])((4, 5)), picker([])((4, 5))
    ((6, 4), (5,), ())
    """
    match positions:
        case []:
            return itemgetter(slice(0, 0))
        case [position]:
            return itemgetter(slice(position, position + 1))
        case _:
            return itemgetter(*positions)


@dataclass(frozen=True, slots=True)
class TimeVariable:
    """The time of the head (without a name) or a free one, as a place in a binding."""

    name: str | None = None


HEAD_TIME = TimeVariable()
_Bindable: TypeAlias = Constant | str | TimeVariable | Calculation


class Reading(Protocol[V]):
    """How tests on the values of a source are decided, and expressions calculated."""

    def decides(self, operator: Operator, left: V, right: V) -> bool: ...

    def made(self, calculation: Calculation, terms: Mapping[str, V]) -> V | None:
        """What a calculation comes to when its variables have these values."""


class _Values:
    """Values as they are."""

    def decides(self, operator: Operator, left: Value, right: Value) -> bool:
        return decide(operator, left, right)

    def made(self, calculation: Calculation, terms: Mapping[str, Value]) -> Value | None:
        return calculated(calculation, terms)


VALUES = _Values()


@dataclass(frozen=True, slots=True)
class Made:
    """An expression whose variables are known, and where the binding has them.

    Its value is added to the binding, for tests, the head and absences to look at.
    """

    calculation: Calculation
    names: tuple[str, ...]
    places: tuple[int, ...]


def calculator(made: Made) -> Callable[..., Value | None]:
    """A function of the values that a calculation is made of."""

    def calculate(*values: Value) -> Value | None:
        return calculated(made.calculation, dict(zip(made.names, values, strict=True)))

    return calculate


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
    ticks: int  # how far it lies from that
    at: int | AnyTick | None  # its tick where the binding does not matter
    finds_time: bool  # whether it adds the value of its time variable
    made: tuple[Made, ...]
    due: tuple[Due, ...]
    kept: tuple[int, ...] | None  # what later steps need of the binding; None: all of it
    # The same as functions, made once.
    pick_known: Picker = field(compare=False, repr=False)
    pick_key: Picker = field(compare=False, repr=False)
    pick_new: Picker = field(compare=False, repr=False)
    pick_kept: Picker | None = field(compare=False, repr=False)

    def tick(self, binding: tuple[Any, ...]) -> int | AnyTick | None:
        """The tick at which its premise is looked up."""
        if self.time is None:
            return self.at
        tick: int = binding[self.time] + self.ticks
        return tick


class JoinOrder:
    """The premises of a clause in the order in which they are best looked up.

    `known` are the object variables that have values at the start, `at_head` says whether the
    head's time does. A premise can be made the `first` one, and some `left_out` altogether: the
    steps before such a one are the same with and without it. With `wanted`, variables are dropped
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
        left_out: Collection[int] = (),
        wanted: Collection[str] | None = None,
    ) -> None:
        self.clause = clause
        self.known = tuple(known)
        self.constants = tuple(dict.fromkeys(_constants(clause)))
        start: list[_Bindable] = [*self.constants, *self.known]
        if at_head and isinstance(clause.head.when, Offset):
            start.append(HEAD_TIME)
        self._at_head = start[-1:] == [HEAD_TIME]
        self.places: dict[_Bindable, int] = {place: i for i, place in enumerate(start)}
        self._size = len(start)  # of bindings by now
        self._tests = list(clause.tests)
        self.made = self._made()
        self.due = self._due()
        self._rest = [(i, p) for i, p in enumerate(clause.premises) if i not in left_out]
        self._wanted = wanted
        steps: list[JoinStep] = []
        while self._rest:
            if first is not None and not steps:
                chosen = (first, clause.premises[first])
            else:
                chosen = self._best()
            self._rest.remove(chosen)
            steps.append(self._step(*chosen))
        self.steps = tuple(steps)

    def start(
        self, constant: Callable[[Constant], V], values: Mapping[str, V], head: V | None = None
    ) -> tuple[V, ...]:
        """The binding at the start."""
        binding = [*map(constant, self.constants), *(values[name] for name in self.known)]
        if self._at_head:
            assert head is not None, "the head's time is known"
            binding.append(head)
        return tuple(binding)

    @property
    def calculates(self) -> bool:
        """Whether something is calculated on the way."""
        return bool(self.made) or any(step.made for step in self.steps)

    @staticmethod
    def from_head(clause: Clause, left_out: Collection[int] = ()) -> JoinOrder:
        """An order for when the head is given: its variables and its time are known."""
        known = dict.fromkeys(variable.name for variable in clause.head.variables)
        return JoinOrder(clause, known, at_head=clause.head.temporal, left_out=left_out)

    def start_from(
        self, constant: Callable[[Constant], V], args: Sequence[V], tick: Any
    ) -> tuple[V, ...] | None:
        """The binding at the start when the head is a fact; None where it never is."""
        values = term_values(self.clause.head.args, args, constant)
        if values is None or not self.clause.head.can_be_at(tick):
            return None
        return self.start(constant, values, tick)

    def place(self, term: Expression) -> int:
        """Where bindings that went through all steps have the value of a term."""
        return self.places[_place(term)]

    def values(self, terms: Iterable[Expression], binding: tuple[V, ...]) -> tuple[V, ...]:
        """The values of some terms under a binding that went through all steps."""
        return tuple(binding[self.places[_place(term)]] for term in terms)

    def picker(self, terms: Iterable[Term]) -> Picker:
        """The same as a function, for terms that are asked for often."""
        return picker([self.places[_place(term)] for term in terms])

    def head_tick(self, binding: tuple[Any, ...]) -> int | None:
        """The tick of the head under a binding that went through all steps."""
        match self.clause.head.when:
            case Offset():
                tick: int = binding[self.places[HEAD_TIME]]
                return tick
            case FixedTick(fixed):
                return fixed
            case Rigid():
                return None
            case _:
                assert_never(self.clause.head.when)

    def known_value(self, term: Expression, binding: tuple[V, ...]) -> V | None:
        """The value of a term under a binding on its way; None while it has none.

        Only for orders that drop no variables.
        """
        place = self.places.get(_place(term))
        return None if place is None or place >= len(binding) else binding[place]

    def known_tick(self, premise: Premise, binding: tuple[Any, ...]) -> int | None:
        """The tick of a premise likewise; None also for one without a time."""
        variable, ticks, fixed = _told(premise)
        if variable is None:
            return None if isinstance(fixed, AnyTick) else fixed
        place = self.places.get(variable)
        return None if place is None or place >= len(binding) else binding[place] + ticks

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
        variable, ticks, at = _told(premise)
        time = None if variable is None else self.places.get(variable)
        known = tuple(i for i, t in enumerate(premise.args) if _place(t) in self.places)
        key = tuple(self.places[_place(premise.args[i])] for i in known)
        first_at: dict[_Bindable, int] = {}
        same: list[tuple[int, int]] = []
        for i, term in enumerate(premise.args):
            if i not in known and first_at.setdefault(_place(term), i) != i:
                same.append((first_at[_place(term)], i))
        finds_time = variable is not None and time is None
        if premise.sign is Sign.NEGATIVE:
            new: tuple[int, ...] = ()
        else:
            new = tuple(first_at.values())
            added: list[_Bindable] = list(first_at)
            if finds_time and variable is not None:
                added.append(variable)
            for place in added:
                self._add(place)
        made, due, kept = self._made(), self._due(), self._keep()
        return JoinStep(
            number,
            premise,
            known,
            key,
            new,
            tuple(same),
            time,
            ticks,
            at,
            finds_time,
            made,
            due,
            kept,
            picker(known),
            picker(key),
            picker(new),
            None if kept is None else picker(kept),
        )

    def _made(self) -> tuple[Made, ...]:
        """The expressions that can be calculated now; one that defines a variable is its value."""
        made: list[Made] = []
        for test in self._tests:
            for side in (test.left, test.right):
                if isinstance(side, Calculation) and side not in self.places:
                    names = tuple(sorted(variable_names(side)))
                    if self.places.keys() >= set(names):
                        made.append(Made(side, names, tuple(self.places[name] for name in names)))
                        self._add(side)
            if test in self.clause.definitions and test.right in self.places:
                self.places.setdefault(_place(test.left), self.places[test.right])
        return tuple(made)

    def _add(self, place: _Bindable) -> None:
        self.places[place] = self._size
        self._size += 1

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
        needed: set[_Bindable] = {*self.constants, *self._wanted, HEAD_TIME}
        for _, premise in self._rest:
            needed |= {_place(term) for term in premise.args}
            variable = time_variable(premise)
            needed |= set() if variable is None else {variable}
        sides = [side for c in self._tests for side in (c.left, c.right)]
        needed |= {_place(part) for side in sides for part in (side, *terms_of(side))}
        staying = {place: at for place, at in self.places.items() if place in needed}
        kept = tuple(sorted(set(staying.values())))
        if len(kept) == self._size:
            return None
        self.places = {place: kept.index(at) for place, at in staying.items()}
        self._size = len(kept)
        return kept


def matches(
    order: JoinOrder,
    source: RowSource[V],
    binding: tuple[V, ...],
    reading: Reading[V],
    done: int = 0,
) -> Iterator[tuple[V, ...]]:
    """The bindings under which everything in the body holds, one after the other.

    The binding given may be one that so many steps are `done` for.
    """
    if not done:
        start = _added(order.made, order.due, binding, reading)
        if start is None:
            return
        binding = start
    steps = order.steps
    if done == len(steps):
        yield binding
        return
    waiting = [extensions(steps[done], source, binding, reading)]
    while waiting:
        current = next(waiting[-1], None)
        if current is None:
            waiting.pop()
        elif done + len(waiting) == len(steps):
            yield current
        else:
            step = steps[done + len(waiting)]
            waiting.append(extensions(step, source, current, reading))


def matches_of_first(
    order: JoinOrder,
    source: RowSource[V],
    binding: tuple[V, ...],
    reading: Reading[V],
    row: tuple[V, ...],
    tick: int | None,
) -> Iterator[tuple[V, ...]]:
    """The matches in which the first premise, a positive one, is a given row at a tick."""
    step = order.steps[0]
    start = _added(order.made, order.due, binding, reading)
    if start is None or step.pick_known(row) != step.pick_key(start):
        return
    asked = step.tick(start)
    if asked is not ANY_TICK and asked != tick:
        return
    longer = _extended(step, start, row, tick, reading)
    if longer is not None:
        yield from matches(order, source, longer, reading, 1)


def joined(
    order: JoinOrder,
    source: RowSource[V],
    binding: tuple[V, ...],
    reading: Reading[V],
) -> set[tuple[V, ...]]:
    """The same bindings as a set, premise by premise: for orders that drop variables."""
    start = _added(order.made, order.due, binding, reading)
    if start is None:
        return set()
    partial = {start}
    for step in order.steps:
        partial = {longer for b in partial for longer in extensions(step, source, b, reading)}
    return partial


def extensions(
    step: JoinStep,
    source: RowSource[V],
    binding: tuple[V, ...],
    reading: Reading[V],
) -> Iterator[tuple[V, ...]]:
    """The bindings that one more premise allows."""
    rows = source.rows(step.premise, step.tick(binding), step.known, step.pick_key(binding))
    if step.premise.sign is Sign.NEGATIVE:
        absent = not any(all(row[i] == row[j] for i, j in step.same) for row in rows)
        longer = _added(step.made, step.due, binding, reading) if absent else None
        if longer is not None:
            yield longer if step.pick_kept is None else step.pick_kept(longer)
        return
    for row in rows:
        longer = _extended(step, binding, row, row[-1] if step.finds_time else None, reading)
        if longer is not None:
            yield longer


def _extended(
    step: JoinStep,
    binding: tuple[V, ...],
    row: tuple[V, ...],
    tick: Any,
    reading: Reading[V],
) -> tuple[V, ...] | None:
    """The binding with what a row (at a tick, where that is not known yet) adds to it."""
    for i, j in step.same:
        if row[i] != row[j]:
            return None
    longer = binding + step.pick_new(row) if step.new else binding
    if step.finds_time:
        longer = (*longer, tick - step.ticks)
    if step.due or step.made:
        tested = _added(step.made, step.due, longer, reading)
        if tested is None:
            return None
        longer = tested
    return longer if step.pick_kept is None else step.pick_kept(longer)


def _added(
    made: tuple[Made, ...], due: tuple[Due, ...], binding: tuple[V, ...], reading: Reading[V]
) -> tuple[V, ...] | None:
    """The binding with what expressions come to; None where one has no value or a test fails."""
    for each in made:
        terms = {name: binding[at] for name, at in zip(each.names, each.places, strict=True)}
        value = reading.made(each.calculation, terms)
        if value is None:
            return None
        binding = (*binding, value)
    for d in due:
        if not reading.decides(d.operator, binding[d.left], binding[d.right]):
            return None
    return binding


def constant_value(constant: Constant) -> Value:
    """What a constant is where facts consist of values; comparisons are then `decide`d."""
    return constant.value


def term_values(
    terms: Iterable[Term], args: Iterable[V | None], constant: Callable[[Constant], V]
) -> dict[str, V] | None:
    """The values of the variables among some terms that are given values; None if they never are.

    A None that is given stands for a value that is not known.
    """
    values: dict[str, V] = {}
    for term, value in zip(terms, args, strict=True):
        if value is None:
            continue
        match term:
            case Variable():
                same = values.setdefault(term.name, value) == value
            case Constant():
                same = constant(term) == value
            case _:
                assert_never(term)
        if not same:
            return None
    return values


def _told(premise: Premise) -> tuple[TimeVariable | None, int, int | AnyTick | None]:
    """The variable of a premise's time and the ticks from it; the tick that is asked for if that
    variable is not known.
    """
    match premise.when:
        case Offset(ticks):
            return HEAD_TIME, ticks, ANY_TICK
        case Free(variable, ticks):
            return TimeVariable(variable), ticks, ANY_TICK
        case FixedTick(tick):
            return None, 0, tick
        case Rigid():
            return None, 0, None
        case _:
            assert_never(premise.when)


def time_variable(premise: Premise) -> TimeVariable | None:
    """The variable that the time of a premise hangs on, if there is one."""
    return _told(premise)[0]


def _place(operand: Expression) -> _Bindable:
    match operand:
        case Variable():
            return operand.name
        case Constant() | Calculation():
            return operand
        case _:
            assert_never(operand)


def _constants(clause: Clause) -> Iterator[Constant]:
    terms = [*clause.head.args, *(term for p in clause.premises for term in p.args)]
    yield from (term for term in terms if isinstance(term, Constant))
    for test in clause.tests:
        yield from (side for side in (test.left, test.right) if isinstance(side, Constant))
