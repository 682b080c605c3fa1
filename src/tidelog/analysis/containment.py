"""Containment by evaluation: every conjunctive query, frozen, must still give its own answer.

`search` asks one question in several dresses: is each conjunctive query of a union derived by a
program from the part of its frozen facts that a `Cut` leaves? Without a cut that is containment of
queries; with one it is Delay and Window. It answers yes, no with a counterexample, or that the
budget ended first.

With `not` these problems are undecidable. What is shown of absence taken as input (`opaque`) holds,
a counterexample is replayed on the program itself (`differences`), and there may be neither.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

from tidelog.analysis.canonical import Canonical, Exhausted, FrozenFact, PartialFact, splits
from tidelog.analysis.dependencies import Dependencies, dependencies
from tidelog.analysis.differences import (
    MOST_STEPS,
    MOST_TRIES,
    MOST_WAYS,
    Replay,
    Side,
    constants_of,
    real,
)
from tidelog.analysis.opaque import Opaque
from tidelog.analysis.unfolding import Cut, Unfolded, Unfolder
from tidelog.errors import NoAnswer
from tidelog.language.program import Constant, Value
from tidelog.logic.clause import Clause
from tidelog.logic.core import Core
from tidelog.logic.order import Assumption, Order, Symbol


@dataclass
class Budget:
    """Seconds and steps that may still be spent."""

    seconds: float = 10.0
    steps: int = 200_000
    parent: Budget | None = None
    _end: float = field(init=False)

    def __post_init__(self) -> None:
        self._end = time.monotonic() + self.seconds

    def spend(self, steps: int = 1) -> None:
        """Some steps; Exhausted when there are none left, here or where this came from."""
        self.steps -= steps
        if self.parent is not None:
            self.parent.spend(steps)
        if self.steps < 0 or time.monotonic() > self._end:
            raise Exhausted

    def share(self, part: float) -> Budget:
        """Part of what is left, to be spent from here."""
        left = max(0.0, self._end - time.monotonic())
        return Budget(left * part, max(1, int(self.steps * part)), self)


@dataclass(frozen=True)
class Ground:
    """A fact of concrete values."""

    predicate: str
    args: tuple[Value, ...]
    time: int | None = None

    def as_json(self) -> dict[str, object]:
        fact: dict[str, object] = {"predicate": self.predicate, "args": list(self.args)}
        return fact if self.time is None else {**fact, "time": self.time}


@dataclass(frozen=True)
class Witness:
    """Facts that give an answer which the facts the cut leaves do not give.

    Withdrawn: the other way round, what the cut leaves gives an answer that all the facts do not.
    """

    answer: Ground
    facts: tuple[Ground, ...]
    clauses: tuple[Clause, ...]
    withdrawn: bool = False

    def kept(self, cut: Cut) -> tuple[Ground, ...]:
        at = self.answer.time
        return tuple(
            f for f in self.facts if f.time is None or at is None or cut.keeps(f.time - at)
        )


@dataclass(frozen=True)
class Verdict:
    """Yes, no with a witness, or unknown (None): within the budget, or whatever is spent."""

    holds: bool | None
    witness: Witness | None = field(default=None, repr=False)
    beyond_proof: bool = False


# Places and rows an evaluation may look at for one step of a budget.
_WORK_PER_STEP = 1000


class Searcher:
    """Searches the unfolding of one program against another (often the same) program."""

    def __init__(
        self,
        source: Dependencies,
        target: Dependencies,
        *,
        same: bool,
        absent_there: Iterable[str] = (),
        tries: int = MOST_TRIES,
    ) -> None:
        source, target = source.written_out, target.written_out
        self.source = source
        self.unfolder = Unfolder(source)
        opaque = self.unfolder.opaque if source is target else Opaque(target)
        self.target = Canonical(opaque.positive)
        self._tries = tries  # sets of facts that may be replayed for one conjunction
        self.same = same  # whether derived predicates mean the same in both
        self.one = Side(source, self.unfolder)
        self.other = self.one if source is target else Side(target, Unfolder(target))
        # The input of the target that has the facts of an input of the source, if there is one.
        self._there = {p.name: target.core.input_of.get(p.base) for p in source.core.inputs}
        # What is absent in the source is absent in the target only where that is known.
        there, known = self.target.core.predicates, set(absent_there)
        for name, absence in self.unfolder.absences.items():
            self._there[name] = there.get(name) if absence.predicate in known else None
        for name in self.unfolder.opaque.aggregates:
            self._there[name] = there.get(name) if self._alike(name, target) else None

    def _alike(self, name: str, target: Dependencies) -> bool:
        """Whether an aggregate, named after its definition, is of the same input in both."""
        of = self.source.core.aggregates[name].of.predicate
        both = (core.predicates.get(of) for core in (self.source.core, target.core))
        return all(predicate is not None and predicate.input for predicate in both)

    @cached_property
    def _own(self) -> Canonical:
        """The source with absence as input."""
        same = self.source is self.other.deps
        return self.target if same else Canonical(self.unfolder.opaque.positive)

    def search(self, start: Unfolded, query: str, cut: Cut, budget: Budget) -> Verdict:
        """Whether everything that becomes of `start` is derived from what the cut leaves of it."""
        stack = [start]
        unknown = False
        # Without `not` only the budget, or work beyond one evaluation's, leaves anything unknown.
        sides = (self.unfolder, self.other.unfolder)
        spent = not any(side.absences or side.opaque.aggregates for side in sides)
        try:
            while stack:
                budget.spend()
                unfolded = stack.pop()
                if not cut.everything and self._inside(unfolded, cut):
                    continue
                impossible, perhaps = self._impossible(unfolded)
                if impossible:
                    continue
                try:
                    derived, open_ = self.derived(unfolded, query, cut)
                    budget.spend(self.target.work // _WORK_PER_STEP)
                except Exhausted:
                    unknown = spent = True
                    continue
                if derived:
                    continue
                if not unfolded.complete:
                    stack.extend(self.unfolder.furthest_first(unfolded, cut))
                    continue
                orders = self._left_open(unfolded, query, cut, open_, perhaps, budget)
                if isinstance(orders, Witness):
                    return Verdict(False, orders)
                unknown = unknown or orders is None
                stack.extend(replace(unfolded, order=order) for order in orders or ())
        except Exhausted:
            return Verdict(None)
        if unknown or not self.timeless:
            return Verdict(None, beyond_proof=not spent)
        return Verdict(True)

    def _left_open(
        self,
        unfolded: Unfolded,
        query: str,
        cut: Cut,
        open_: Assumption | None,
        perhaps: Assumption | None,
        budget: Budget,
    ) -> Witness | list[Order] | None:
        """What to do about a conjunction that is not derived: the cases to look at (none left where
        it follows in another way), a witness, or nothing known.

        Derived or impossible may hang on a comparison each.
        """
        if open_ is not None:
            return list(splits(unfolded.order, *open_))
        if self._by_cases(unfolded, query, cut, budget):
            return []
        if perhaps is not None:
            return list(splits(unfolded.order, *perhaps))
        return self._witness(unfolded, query, cut, budget)

    def _inside(self, unfolded: Unfolded, cut: Cut) -> bool:
        """Nothing lies or can come to lie outside the cut: it gives itself."""
        facts = (*unfolded.atoms, *unfolded.open)
        return all(cut.keeps_all(self.unfolder.reach(f)) for f in facts)

    def _impossible(self, unfolded: Unfolded) -> tuple[bool, Assumption | None]:
        """Whether a conjunction asks for the absence of what it derives; what that may hang on."""
        open_: Assumption | None = None
        absences = self.unfolder.absences
        if not absences or (self.source.core.fixed_ticks and unfolded.time is None):
            return False, None
        facts = self._moved((*unfolded.atoms, *unfolded.open), self._base(unfolded))
        facts += [*unfolded.pinned, *unfolded.open_pinned]
        for fact in facts:
            if fact.predicate in absences:
                absent = absences[fact.predicate].pattern(fact)
                holds, left_open = self._own.derives(facts, absent, unfolded.order)
                if holds:
                    return True, None
                open_ = open_ or left_open
        return False, open_

    def derived(self, unfolded: Unfolded, query: str, cut: Cut) -> tuple[bool, Assumption | None]:
        """Whether what is already unfolded, as far as the cut leaves it, gives the answer.

        An atom still open counts as a fact where the programs agree on what it means and nothing it
        can unfold to lies outside the cut.
        """
        facts = self._kept(unfolded, cut)
        return self.target.derives(facts, self._goal(unfolded, query), unfolded.order)

    def _kept(self, unfolded: Unfolded, cut: Cut) -> list[FrozenFact]:
        """What the cut leaves, as the target knows it."""
        facts = [*unfolded.atoms, *(unfolded.open if self.same else ())]
        facts = [f for f in facts if cut.keeps_all(self.unfolder.reach(f))]
        pinned = list(unfolded.pinned)
        if self.same and cut.everything:
            pinned += unfolded.open_pinned
        return self._translated([*self._moved(facts, self._base(unfolded)), *pinned])

    def _moved(self, facts: Iterable[FrozenFact], base: int) -> list[FrozenFact]:
        return [f if f.time is None else replace(f, time=f.time + base) for f in facts]

    def _goal(self, unfolded: Unfolded, query: str) -> FrozenFact:
        temporal = self.source.core.predicates[query].temporal
        return FrozenFact(query, unfolded.head, self._base(unfolded) if temporal else None)

    def _by_cases(self, unfolded: Unfolded, query: str, cut: Cut, budget: Budget) -> bool:
        """Whether the answer follows whichever of the facts that are cut off is there or not.

        One may be taken to be there if the answer follows from its absence.
        """
        if not self.same or not self.unfolder.absences or cut.everything:
            return False
        order, goal = unfolded.order, self._goal(unfolded, query)
        known = set(self._kept(unfolded, cut))
        held = self.target.held(self._kept(unfolded, Cut()), goal, order)
        pairs = [pair for fact in sorted(held, key=str) for pair in self._opposites(fact)]
        grew = True
        while grew:
            grew = False
            for fact, opposite in pairs:
                if fact in known:
                    continue
                budget.spend(1 + self.target.work // _WORK_PER_STEP)
                if self.target.derives([*known, opposite], goal, order)[0]:
                    known.add(fact)
                    grew = True
                    if self.target.derives(known, goal, order)[0]:
                        return True
        return False

    def _opposites(self, fact: FrozenFact) -> Iterator[tuple[FrozenFact, FrozenFact]]:
        """A fact, or what is left of it under `_`, and what holds if it does not."""
        for name, absence in self.unfolder.absences.items():
            if fact.predicate == name:
                yield fact, self._any(absence.pattern(fact))
            elif fact.predicate == absence.predicate:
                named = tuple(fact.args[i] for i in absence.named)
                absent = FrozenFact(name, named, fact.time)
                yield self._any(absence.pattern(absent)), absent

    def _any(self, pattern: PartialFact) -> FrozenFact:
        """A fact that fits, over fresh symbols."""
        (fact,) = self.unfolder.start_fact(pattern.predicate, pattern.args, pattern.time).facts
        return fact

    def _translated(self, facts: Iterable[FrozenFact]) -> list[FrozenFact]:
        """The facts as the target knows them."""
        if self.same:
            return list(facts)
        pairs = ((fact, self._there[fact.predicate]) for fact in facts)
        return [replace(fact, predicate=there.name) for fact, there in pairs if there is not None]

    @property
    def timeless(self) -> bool:
        """Whether what is derived at a time far before every explicit one is derived at any time.

        So it is where that time and the explicit ones are out of each other's reach.
        """
        if not self.target.core.fixed_ticks:
            return True
        back = 0 if not self.target.deps.pinned else self.target.back
        return not math.isinf(self.target.ahead) and not math.isinf(back)

    def _base(self, unfolded: Unfolded) -> int:
        """The answer's time: where facts fix it, there; else far before every explicit time."""
        if unfolded.time is not None:
            return unfolded.time
        points = [*self.source.core.fixed_ticks, *self.target.core.fixed_ticks]
        points += [f.time for f in (*unfolded.pinned, *unfolded.open_pinned) if f.time is not None]
        if not points:
            return 0
        reach = sum(int(r) for r in (self.target.ahead, self.target.back) if not math.isinf(r))
        latest = max(
            (f.time for f in (*unfolded.atoms, *unfolded.open) if f.time is not None), default=0
        )
        return min(points) - reach - max(latest, 0) - 1

    def _witness(
        self, unfolded: Unfolded, query: str, cut: Cut, budget: Budget
    ) -> Witness | list[Order] | None:
        """The frozen facts with concrete values, if the whole program really tells them apart.

        Where there are too few values to keep all symbols distinct: the cases to look at instead.
        Nothing is known of facts that give an aggregate a value.
        """
        if self.source.aggregate is not None or self.other.deps.aggregate is not None:
            return None
        constants = constants_of(self.source.core) | constants_of(self.other.deps.core)
        try:
            values = unfolded.order.model(unfolded.symbols(), constants)
        except ValueError:
            return cases(unfolded.order, unfolded.symbols(), constants)
        witness = self._replayed(unfolded, query, cut, values, budget)
        if witness is None and self._tries > 1:
            # The rules may make only some values absent, which other values then stand for.
            for blocked in self.unfolder.with_what_is_absent(unfolded):
                ways = self.unfolder.completed(blocked, cut, MOST_STEPS)
                for way in islice(ways, MOST_WAYS):
                    try:
                        values = way.order.model(way.symbols(), constants)
                    except ValueError:
                        continue  # too few values for its symbols
                    witness = witness or self._replayed(way, query, cut, values, budget)
        return witness

    def _replayed(
        self,
        unfolded: Unfolded,
        query: str,
        cut: Cut,
        values: dict[Symbol, Value],
        budget: Budget,
    ) -> Witness | None:
        """The witness that some values for a conjunction lead to."""
        base = self._base(unfolded)
        answer = real(self._goal(unfolded, query), values, 0)
        replay = Replay(self.one, self.other, answer, cut, self._tries)
        start = self.one.started(unfolded, values, base)
        difference = replay.search(start, self.one.absent(unfolded, values, base))
        if self.unfolder.absences or self.other.unfolder.absences:
            budget.spend(replay.work // _WORK_PER_STEP)
        if difference is None:
            return None
        shown = sorted(map(_named, difference.data), key=_sorting)
        return Witness(_named(answer), tuple(shown), unfolded.clauses, difference.withdrawn)


def cases(
    order: Order, symbols: Iterable[Symbol], constants: Iterable[Constant]
) -> list[Order] | None:
    """The orders that settle one more equality, where there is one left to settle."""
    open_ = order.unsettled(symbols, constants)
    return None if open_ is None else list(splits(order, *open_))


def ground(fact: FrozenFact, core: Core) -> Ground:
    """A fact of constants only, under the name its predicate has in the rules."""
    return _named(replace(fact, predicate=core.predicates[fact.predicate].base))


def _named(fact: FrozenFact) -> Ground:
    """A fact of constants only whose predicate has that name already."""
    args = tuple(v.value for v in fact.args if isinstance(v, Constant))
    return Ground(fact.predicate, args, fact.time)


def _sorting(fact: Ground) -> tuple[bool, int, str, str]:
    return (fact.time is not None, fact.time or 0, fact.predicate, str(fact.args))


def contained(one: Dependencies, other: Dependencies, query: str, budget: Budget) -> Verdict:
    """Whether the answers of a query in one program are always among those in another.

    A predicate that is an input of one program and only derived in the other has no facts there.
    """
    one, other = one.written_out, other.written_out
    one = _agreed(one, other, query)
    if one.unconnected is not None or other.unconnected is not None:
        return Verdict(None)
    absent = [n for n in one.negated & other.negated if _absent_there(one, other, n, budget)]
    searcher = Searcher(one, other, same=False, absent_there=absent)
    return searcher.search(searcher.unfolder.start(query), query, Cut(), budget)


def _absent_there(one: Dependencies, other: Dependencies, name: str, budget: Budget) -> bool:
    """Whether what is absent in one program is always absent in the other: it has no more facts."""
    mine, theirs = one.core.predicates[name], other.core.predicates[name]
    if (mine.temporal, len(mine.types)) != (theirs.temporal, len(theirs.types)):
        return False
    here, there = dependencies(one.core, [name]), dependencies(other.core, [name])
    cycles = [d.cycles_through_not or d.cycles_through_aggregates for d in (here, there)]
    if any(cycles):
        return False
    return contained(there, here, name, budget.share(0.2)).holds is True


def _agreed(one: Dependencies, other: Dependencies, query: str) -> Dependencies:
    """One program, its inputs typed as in the other where only that says how."""
    there = {p.base: p for p in other.core.inputs}
    predicates = dict(one.core.predicates)
    for name, mine in one.core.predicates.items():
        theirs = other.core.predicates.get(query) if name == query else None
        if theirs is None and (mine.input or name == query):
            theirs = there.get(mine.base)
        if theirs is None:
            continue
        if (mine.temporal, len(mine.types)) != (theirs.temporal, len(theirs.types)):
            raise NoAnswer(f"{mine.base} has another form in the other program: nothing to compare")
        for a, b in zip(mine.types, theirs.types, strict=True):
            if a and b and a is not b:
                raise NoAnswer(f"{mine.base} has {a} where the other program has {b}")
        types = tuple(a or b for a, b in zip(mine.types, theirs.types, strict=True))
        predicates[name] = replace(mine, types=types)
    return Dependencies(one.queries, replace(one.core, predicates=predicates))
