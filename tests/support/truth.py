"""The four problems by definition for programs with `not`: every update at once, by truth tables.

Whether a derived fact holds is a function of which input facts are there. `Ground` lists all rule
instances over a small domain; `Ground.column` gives that function for one fact as a truth table: an
integer with a bit for every subset of the free facts, those that may or may not come. Conjunction,
disjunction and absence are `&`, `|` and `~`, for all subsets at once. Nothing here is clever, and
nothing assumes that more facts give more answers. Only the facts on which a goal can hang at all
count as free, so that the tables stay small; beyond MOST of them TooLargeError is raised.

    open_rows(program, "Q", known, tin, tout)          definitive, certain and possible answers
    differences(program, "Q", known, kept, tin, tout)  forgettable, live facts
    offsets(program, "Q")                              delay and window
    psi(program, "Q")                                  when an answer can be withdrawn at last
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from typing import NamedTuple, TypeAlias

from oracle import arithmetic
from oracle.unfold import unfolded

from tidelog.language.program import (
    Atom,
    Constant,
    Interval,
    Program,
    Rule,
    Term,
    TimeOffset,
    TimePoint,
    Type,
    Value,
)

from .brute import (
    Fact,
    Row,
    TooLargeError,
    domain,
    every_row,
    inputs,
    output_times,
    points,
    radius,
    true_comparison,
    values_of,
)

# Free facts of one table: it has two to the power of that many bits.
MOST = 16
Binding: TypeAlias = dict[str, Value]


class Instance(NamedTuple):
    """A rule over facts: the head follows from the facts that hold, where those others do not."""

    head: Fact
    holds: tuple[Fact, ...]
    absent: tuple[Fact, ...]


class Column(NamedTuple):
    """Bit i says whether a fact holds if exactly the free facts that are bits of i are there."""

    free: tuple[Fact, ...]
    bits: int

    @property
    def ones(self) -> int:
        return (1 << (1 << len(self.free))) - 1

    @property
    def certain(self) -> bool:
        return self.bits == self.ones

    @property
    def possible(self) -> bool:
        return self.bits != 0

    def without(self, facts: AbstractSet[Fact]) -> Column:
        """The same with some free facts absent, whatever the subset says of them."""
        bits = self.bits
        for i, fact in enumerate(self.free):
            if fact in facts:
                absent = bits & ~variable(i, len(self.free))
                bits = absent | absent << (1 << i)
        return Column(self.free, bits)

    def depends_on(self) -> set[Fact]:
        """The free facts whose presence makes a difference in some situation."""
        return {f for f in self.free if self.without({f}).bits != self.bits}

    def update(self) -> set[Fact] | None:
        """A smallest set of free facts with which it holds."""
        chosen = (i for i, bit in enumerate(reversed(f"{self.bits:b}")) if bit == "1")
        best = min(chosen, key=int.bit_count, default=None)
        if best is None:
            return None
        return {f for i, f in enumerate(self.free) if best >> i & 1}


@cache
def variable(i: int, count: int) -> int:
    """The column of a free fact: true in the subsets that have it.

    >>> bin(variable(0, 2)), bin(variable(1, 2))
    ('0b1010', '0b1100')
    """
    bits = ((1 << (1 << i)) - 1) << (1 << i)
    for doubled in range(i + 1, count):
        bits |= bits << (1 << doubled)
    return bits


class Ground:
    """All rule instances over some facts that may be there, within some ticks."""

    def __init__(self, program: Program, facts: Iterable[Fact], first: int, last: int) -> None:
        self.program, self.first, self.last = unfolded(program), first, last
        self.inputs = {f for f in facts if f.time is None or first <= f.time <= last}
        self.instances: dict[Fact, list[Instance]] = defaultdict(list)
        self.by_name: dict[str, list[Fact]] = defaultdict(list)
        self.by_time: dict[tuple[str, int | None], list[Fact]] = defaultdict(list)
        self.known: set[Fact] = set()
        self._grow()

    def _grow(self) -> None:
        """Facts that may hold if nothing is ever in the way, and how they follow from one another.

        What is negated is looked up at the end, when all that may hold is known.
        """
        start = set(self.inputs)
        for clock in self.program.clocks:
            ticks = [f.time for f in self.inputs if f.time is not None]
            start |= {Fact(clock, (), t) for t in range(min(ticks, default=0), self.last + 1)}
        self._know(start if self.inputs else self.inputs)
        matches: set[tuple[int, tuple[tuple[str, Value], ...]]] = set()
        size = -1
        while size < len(self.known):
            size = len(self.known)
            for i, rule in enumerate(self.program.rules):
                for binding in list(self._bindings(rule, 0, {})):
                    head = self._fact(rule.head, binding)
                    if head.time is None or self.first <= head.time <= self.last:
                        matches.add((i, tuple(sorted(binding.items()))))
                        self._know({head})
        for i, items in matches:
            rule, binding = self.program.rules[i], dict(items)
            holds = tuple(self._fact(atom, binding) for atom in rule.positive)
            absent = [f for atom in rule.negative for f in self._matching(atom, binding)]
            head = self._fact(rule.head, binding)
            self.instances[head].append(Instance(head, holds, tuple(absent)))
        self._clocks()

    def _clocks(self) -> None:
        """A clock holds at the tick of any input, and after any tick at which it holds."""
        for clock in self.program.clocks:
            for fact in self.by_name[clock]:
                time = fact.time
                assert time is not None
                starts: list[Fact] = [f for f in self.inputs if f.time == time]
                before = Fact(clock, (), time - 1)
                starts += [before] if before in self.known else []
                self.instances[fact] += [Instance(fact, (start,), ()) for start in starts]

    def _know(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            if fact not in self.known:
                self.known.add(fact)
                self.by_name[fact.predicate].append(fact)
                self.by_time[fact.predicate, fact.time].append(fact)

    def _bindings(self, rule: Rule, step: int, binding: Binding) -> Iterator[Binding]:
        if step == len(rule.positive):
            whole = arithmetic.defined(rule.comparisons, binding)
            if all(true_comparison(c, whole) for c in rule.comparisons):
                yield whole
            return
        for extended in self._matches(rule.positive[step], binding):
            yield from self._bindings(rule, step + 1, extended)

    def _matches(self, atom: Atom, binding: Binding) -> Iterator[Binding]:
        time = _time(atom, binding)
        facts = self.by_name[atom.predicate]
        if not isinstance(atom.time, TimeOffset) or time is not None:
            facts = self.by_time[atom.predicate, time]
        for fact in facts:
            extended = dict(binding)
            if isinstance(atom.time, TimeOffset):
                assert fact.time is not None
                extended[f"@{atom.time.variable.name}"] = fact.time - atom.time.offset
            if all(_fits(t, v, extended) for t, v in zip(atom.args, fact.args, strict=True)):
                yield extended

    def _matching(self, atom: Atom, binding: Binding) -> list[Fact]:
        """The facts that a negated atom is about."""
        return [
            fact
            for fact in self.by_time[atom.predicate, _time(atom, binding)]
            if all(_fits(t, v, dict(binding)) for t, v in zip(atom.args, fact.args, strict=True))
        ]

    def _fact(self, atom: Atom, binding: Binding) -> Fact:
        args = tuple(t.value if isinstance(t, Constant) else binding[t.name] for t in atom.args)
        return Fact(atom.predicate, args, _time(atom, binding))

    # Tables

    def rows(self, query: str, at: int | None) -> list[Row]:
        """The answers at a time that may hold at all."""
        return sorted((f.args for f in self.by_time[query, at]), key=repr)

    def column(
        self, goal: Fact, present: AbstractSet[Fact], free: AbstractSet[Fact], most: int = MOST
    ) -> Column:
        """Whether a fact holds, by which free facts are there; of the others, those present are.

        The free facts of the column are those that the goal can hang on, whatever is present.
        """
        cone = self._cone(goal)
        chosen = tuple(sorted((f for f in cone if f in free), key=repr))
        if len(chosen) > most:
            raise TooLargeError
        ones = (1 << (1 << len(chosen))) - 1
        base = {f: ones for f in cone if f in present and f not in free}
        base |= {f: variable(i, len(chosen)) for i, f in enumerate(chosen)}
        rules = [i for f in sorted(cone, key=_order) for i in self.instances.get(f, ())]
        few: dict[Fact, int] = {}
        many = _least(rules, base, few, ones)
        while few != many:
            before = few, many
            few = _least(rules, base, many, ones)
            many = _least(rules, base, few, ones)
            assert (few, many) != before, "no total well-founded model"
        return Column(chosen, many.get(goal, 0))

    def _cone(self, goal: Fact) -> set[Fact]:
        cone = {goal}
        todo = [goal]
        while todo:
            for instance in self.instances.get(todo.pop(), ()):
                for fact in (*instance.holds, *instance.absent):
                    if fact not in cone:
                        cone.add(fact)
                        todo.append(fact)
        return cone


def _least(
    rules: Sequence[Instance], base: dict[Fact, int], believed: dict[Fact, int], ones: int
) -> dict[Fact, int]:
    """The least tables where what is believed is what is not absent."""
    tables = dict(base)
    changed = True
    while changed:
        changed = False
        for head, holds, absent in rules:
            bits = ones
            for fact in holds:
                bits &= tables.get(fact, 0)
            for fact in absent:
                bits &= ~believed.get(fact, 0)
            old = tables.get(head, 0)
            if bits & ~old:
                tables[head] = old | bits
                changed = True
    return {fact: bits for fact, bits in tables.items() if bits}


def _order(fact: Fact) -> tuple[int, str]:
    return fact.time or 0, repr(fact)


def _time(atom: Atom, binding: Binding) -> int | None:
    match atom.time:
        case None:
            return None
        case TimePoint(tick):
            return tick
        case TimeOffset(variable_, offset):
            known = binding.get(f"@{variable_.name}")
            return None if known is None else int(known) + offset
        case Interval():
            raise AssertionError("intervals are unfolded first")


def _fits(term: Term, value: Value, binding: Binding) -> bool:
    known = term.value if isinstance(term, Constant) else binding.setdefault(term.name, value)
    return known == value


# The problems


class OpenRow(NamedTuple):
    """An answer that may hold or not, and an update for each."""

    row: Row
    with_it: set[Fact]
    without_it: set[Fact]


class Verdict(NamedTuple):
    certain: set[Row]
    open: list[OpenRow]

    @property
    def definitive(self) -> bool:
        return not self.open

    @property
    def possible(self) -> set[Row]:
        return self.certain | {o.row for o in self.open}


def open_rows(
    program: Program,
    query: str,
    known: AbstractSet[Fact],
    tin: int,
    tout: int | None,
    fresh: int = 1,
    reach: int | None = None,
) -> Verdict:
    """What every update agrees on, and two updates that differ on each of the other answers.

    `known` has the facts up to tin; updates have facts after it, over the domain of `fresh` values
    more. `reach` is how far beyond tin and tout one looks; recursion needs one.
    """
    far = radius(program) if reach is None else reach
    times = [tin, *points(program), *([] if tout is None else [tout])]
    free = later(program, known, tin, max(times) + far, fresh)
    ground = Ground(program, known | free, *_ticks(known, times, far))
    certain: set[Row] = set()
    open_: list[OpenRow] = []
    for row in ground.rows(query, tout):
        column = ground.column(Fact(query, row, tout), known, free)
        with_it, without_it = column.update(), _not(column).update()
        if without_it is None:
            certain.add(row)
        elif with_it is not None:
            open_.append(OpenRow(row, with_it, without_it))
    return Verdict(certain, open_)


class Difference(NamedTuple):
    """After the update, an answer holds with all facts and not with those kept, or the reverse."""

    update: set[Fact]
    time: int
    row: Row
    lost: bool


def differences(
    program: Program,
    query: str,
    known: AbstractSet[Fact],
    kept: AbstractSet[Fact],
    tin: int,
    tout: int,
    fresh: int = 1,
    reach: int | None = None,
) -> Iterator[Difference]:
    """Updates after which an answer from tout on is lost or new with the kept facts alone."""
    far = radius(program) if reach is None else reach
    times = [tin, tout, *points(program)]
    last = max(times) + far + 1
    free = later(program, known, tin, last + far, fresh)
    ground = Ground(program, known | free, *_ticks(known, [*times, last], far))
    for at in range(tout, last + 1):
        for row in ground.rows(query, at):
            goal = Fact(query, row, at)
            whole = ground.column(goal, known, free)
            less = ground.column(goal, kept, free)
            lost = Column(whole.free, whole.bits & ~less.bits).update()
            new = Column(whole.free, less.bits & ~whole.bits).update()
            if lost is not None:
                yield Difference(lost, at, row, lost=True)
            if new is not None:
                yield Difference(new, at, row, lost=False)


def offsets(
    program: Program, query: str, fresh: int = 1, reach: int | None = None
) -> tuple[int | None, int | None]:
    """The least and the greatest offset of a fact that makes a difference to an answer.

    Delay(Q, d) holds over the domain iff the greatest is at most d, Window(Q, d, s) iff the least
    is at least d - s. None where no answer hangs on temporal facts.
    """
    needed = {
        f.time - at
        for at, column in _over_all_data(program, query, fresh, reach)
        for f in column.depends_on()
        if f.time is not None
    }
    return min(needed, default=None), max(needed, default=None)


def psi(program: Program, query: str, fresh: int = 1, reach: int | None = None) -> int | None:
    """The least p such that an answer at s that is derived at tin >= s + p is never withdrawn.

    None where that holds for every tin: no fact ever withdraws an answer.
    """
    withdrawn = [
        tin - at
        for at, column in _over_all_data(program, query, fresh, reach)
        for tin in sorted({f.time - 1 for f in column.free if f.time is not None})
        if withdrawal(column, tin) is not None
    ]
    return max(withdrawn) + 1 if withdrawn else None


def withdrawal(column: Column, tin: int) -> set[Fact] | None:
    """Facts of which those up to tin give an answer that all together do not."""
    after = {f for f in column.free if f.time is not None and f.time > tin}
    derived = column.without(after)
    return Column(column.free, derived.bits & ~column.bits).update()


def _over_all_data(
    program: Program, query: str, fresh: int, reach: int | None
) -> Iterator[tuple[int, Column]]:
    """Every answer at typical times, as a function of all data near them."""
    far = radius(program) if reach is None else reach
    dom = domain(program, fresh=fresh)
    rigid = {
        Fact(name, row, None)
        for name in inputs(program, temporal=False)
        for row in every_row(program, name, dom)
    }
    for at in output_times(program, far):
        near = [at, *points(program)]
        first, last = min(near) - far, max(near) + far
        data = rigid | _at_ticks(program, dom, range(first, last + 1))
        ground = Ground(program, data, first - far, last + far)
        for row in ground.rows(query, at):
            yield at, ground.column(Fact(query, row, at), set(), data)


def later(
    program: Program, known: Iterable[Fact], tin: int, last: int, fresh: int = 1
) -> set[Fact]:
    """All temporal facts after tin over the program's constants, the data and fresh values."""
    dom = domain(program, values_of(known), fresh)
    return _at_ticks(program, dom, range(tin + 1, last + 1))


def _at_ticks(program: Program, dom: dict[Type | None, Row], ticks: range) -> set[Fact]:
    names = inputs(program, temporal=True)
    rows = {name: every_row(program, name, dom) for name in names}
    return {Fact(n, row, t) for n, t in itertools.product(names, ticks) for row in rows[n]}


def _ticks(known: Iterable[Fact], times: Iterable[int], far: int) -> tuple[int, int]:
    ticks = [*times, *(f.time for f in known if f.time is not None)]
    return min(ticks) - far, max(ticks) + far


def _not(column: Column) -> Column:
    return Column(column.free, ~column.bits & column.ones)
