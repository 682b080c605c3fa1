"""Containment by evaluation: every conjunctive query, frozen, must still give its own answer.

`search` asks one question in several dresses: is each conjunctive query of a union derived by a
program from the part of its frozen facts that a `Cut` leaves? Without a cut that is containment of
queries; with one it is Delay and Window. It answers yes, no with a counterexample, or that the
budget ended first.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from tidelog.analysis.canonical import Canonical, Exhausted, FrozenFact, splits
from tidelog.analysis.dependencies import Dependencies
from tidelog.language.graph import Bound
from tidelog.analysis.unfolding import Unfolded, Unfolder
from tidelog.errors import NoAnswer
from tidelog.language.program import Constant, Value, type_of
from tidelog.logic.clause import Clause
from tidelog.logic.core import Core
from tidelog.logic.order import Assumption, Object, Order, Symbol


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
class Cut:
    """The offsets from the answer's time that are left: low to high, both included."""

    low: Bound = -math.inf
    high: Bound = math.inf

    def keeps(self, offset: Bound) -> bool:
        return self.low <= offset <= self.high

    @property
    def everything(self) -> bool:
        return math.isinf(self.low) and math.isinf(self.high)


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
    """Facts that give an answer which the facts the cut leaves do not give."""

    answer: Ground
    facts: tuple[Ground, ...]
    clauses: tuple[Clause, ...]

    def kept(self, cut: Cut) -> tuple[Ground, ...]:
        at = self.answer.time
        return tuple(
            f for f in self.facts if f.time is None or at is None or cut.keeps(f.time - at)
        )


@dataclass(frozen=True)
class Verdict:
    """Yes, no with a witness, or unknown (None)."""

    holds: bool | None
    witness: Witness | None = None


# Places and rows an evaluation may look at for one step of a budget.
_WORK_PER_STEP = 1000


class Searcher:
    """Searches the unfolding of one program against another (often the same) program."""

    def __init__(self, source: Dependencies, target: Dependencies, *, same: bool) -> None:
        self.source = source
        self.unfolder = Unfolder(source)
        self.target = Canonical(target)
        self.same = same  # whether derived predicates mean the same in both
        # The input of the target that has the facts of an input of the source, if there is one.
        self._there = {p.name: target.core.input_of.get(p.base) for p in source.core.inputs}

    @cached_property
    def replay(self) -> Canonical:
        return self.target if self.source is self.target.deps else Canonical(self.source)

    def search(self, start: Unfolded, query: str, cut: Cut, budget: Budget) -> Verdict:
        """Whether everything that becomes of `start` is derived from what the cut leaves of it."""
        stack = [start]
        unknown = False
        try:
            while stack:
                budget.spend()
                unfolded = stack.pop()
                if not cut.everything and self._inside(unfolded, cut):
                    continue
                try:
                    derived, open_ = self.derived(unfolded, query, cut)
                    budget.spend(self.target.work // _WORK_PER_STEP)
                except Exhausted:
                    unknown = True
                    continue
                if derived:
                    continue
                if not unfolded.complete:
                    stack.extend(self._expanded(unfolded, cut))
                elif open_ is not None:
                    stack.extend(replace(unfolded, order=o) for o in splits(unfolded.order, *open_))
                else:
                    witness = self._witness(unfolded, query, cut)
                    if isinstance(witness, Witness):
                        return Verdict(False, witness)
                    if witness is None:
                        unknown = True
                    else:
                        stack.extend(replace(unfolded, order=o) for o in witness)
        except Exhausted:
            return Verdict(None)
        return Verdict(None if unknown or not self.timeless else True)

    def _inside(self, unfolded: Unfolded, cut: Cut) -> bool:
        """Nothing lies or can come to lie outside the cut: it gives itself."""
        reaches = [self.unfolder.reach(f) for f in (*unfolded.atoms, *unfolded.open)]
        return all(r.low > r.high or (cut.keeps(r.low) and cut.keeps(r.high)) for r in reaches)

    def derived(self, unfolded: Unfolded, query: str, cut: Cut) -> tuple[bool, Assumption | None]:
        """Whether what is already unfolded, as far as the cut leaves it, gives the answer.

        An atom still open counts as a fact where the programs agree on what it means and nothing it
        can unfold to lies outside the cut.
        """
        facts = [f for f in unfolded.atoms if f.time is None or cut.keeps(f.time)]
        pinned = list(unfolded.pinned)
        if self.same:
            for atom in unfolded.open:
                reach = self.unfolder.reach(atom)
                if reach.low > reach.high or (cut.keeps(reach.low) and cut.keeps(reach.high)):
                    facts.append(atom)
            if cut.everything:
                pinned += unfolded.open_pinned
        base = self._base(unfolded)
        moved = [f if f.time is None else replace(f, time=f.time + base) for f in facts]
        temporal = self.source.core.predicates[query].temporal
        goal = FrozenFact(query, unfolded.head, base if temporal else None)
        return self.target.derives(self._translated([*moved, *pinned]), goal, unfolded.order)

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

    def _expanded(self, unfolded: Unfolded, cut: Cut) -> list[Unfolded]:
        """One atom resolved every way; first the one that can leave the cut furthest."""

        def outside(fact: FrozenFact) -> Bound:
            reach = self.unfolder.reach(fact)
            return 0 if reach.low > reach.high else max(reach.high - cut.high, cut.low - reach.low)

        if unfolded.open:
            atom = max(unfolded.open, key=lambda f: (outside(f), f.predicate, str(f)))
        else:
            atom = min(unfolded.open_pinned, key=str)
        ways = self.unfolder.expand(unfolded, atom, pinned=not unfolded.open)

        def promise(way: Unfolded) -> tuple[bool, Bound]:
            far = max((outside(f) for f in (*way.atoms, *way.open)), default=0)
            return (not math.isinf(far), far)

        # The last one is looked at first: the furthest that ends, then what recurses on.
        return sorted(ways, key=promise)

    def _witness(self, unfolded: Unfolded, query: str, cut: Cut) -> Witness | list[Order] | None:
        """The frozen facts with concrete values, if the whole program really tells them apart.

        Where there are too few values to keep all symbols distinct: the cases to look at instead.
        """
        base = self._base(unfolded)
        constants = constants_of(self.source.core) | constants_of(self.target.core)
        try:
            values = unfolded.order.model(unfolded.symbols(), constants)
        except ValueError:
            return cases(unfolded.order, unfolded.symbols(), constants)

        def concrete(fact: FrozenFact, shift: int) -> FrozenFact:
            args = (values[v] if isinstance(v, Symbol) else v.value for v in fact.args)
            time = None if fact.time is None else fact.time + shift
            return FrozenFact(fact.predicate, objects(args), time)

        temporal = self.source.core.predicates[query].temporal
        answer = concrete(FrozenFact(query, unfolded.head, 0 if temporal else None), base)
        facts = {concrete(f, base) for f in unfolded.atoms}
        facts |= {concrete(f, 0) for f in unfolded.pinned}
        left = {f for f in facts if f.time is None or cut.keeps(f.time - base)}
        given, _ = self.replay.derives(facts, answer, Order())
        still, _ = self.target.derives(self._translated(left), answer, Order())
        if still or not given:
            return None
        shown = sorted((ground(f, self.source.core) for f in facts), key=_sorting)
        return Witness(ground(answer, self.source.core), tuple(shown), unfolded.clauses)


def cases(
    order: Order, symbols: Iterable[Symbol], constants: Iterable[Constant]
) -> list[Order] | None:
    """The orders that settle one more equality, where there is one left to settle."""
    open_ = order.unsettled(symbols, constants)
    return None if open_ is None else list(splits(order, *open_))


def objects(values: Iterable[Value]) -> tuple[Object, ...]:
    return tuple(Constant(v, type_of(v)) for v in values)


def ground(fact: FrozenFact, core: Core) -> Ground:
    """A fact of constants only, under the name its predicate has in the rules."""
    args = tuple(v.value for v in fact.args if isinstance(v, Constant))
    return Ground(core.predicates[fact.predicate].base, args, fact.time)


def _sorting(fact: Ground) -> tuple[bool, int, str, str]:
    return (fact.time is not None, fact.time or 0, fact.predicate, str(fact.args))


def constants_of(core: Core) -> set[Constant]:
    """The constants that clauses mention."""
    terms = (term for clause in core.clauses for term in clause.terms)
    return {Constant(t.value, t.type) for t in terms if isinstance(t, Constant)}


def contained(one: Dependencies, other: Dependencies, query: str, budget: Budget) -> Verdict:
    """Whether the answers of a query in one program are always among those in another.

    A predicate that is an input of one program and only derived in the other has no facts there.
    """
    one = _agreed(one, other, query)
    if one.unconnected is not None or other.unconnected is not None:
        return Verdict(None)
    searcher = Searcher(one, other, same=False)
    return searcher.search(searcher.unfolder.start(query), query, Cut(), budget)


def _agreed(one: Dependencies, other: Dependencies, query: str) -> Dependencies:
    """One program, its inputs typed as in the other where only that says how."""
    there = {p.base: p for p in other.core.predicates.values() if p.input or p.name == query}
    predicates = dict(one.core.predicates)
    for name, mine in one.core.predicates.items():
        theirs = there.get(mine.base) if mine.input or name == query else None
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
