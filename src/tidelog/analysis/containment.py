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

from tidelog.analysis.canonical import Canonical, Exhausted, Fact, splits
from tidelog.analysis.dependencies import Class, Dependencies, dependencies
from tidelog.analysis.graph import Bound
from tidelog.analysis.unfolding import Unfolded, Unfolder
from tidelog.errors import NoAnswer
from tidelog.language.program import Atom, Constant, Rule, TimeOffset, TimePoint, Value, type_of
from tidelog.logic.normalise import Core
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
        found: dict[str, object] = {"predicate": self.predicate, "args": list(self.args)}
        return found if self.time is None else {**found, "time": self.time}


@dataclass(frozen=True)
class Witness:
    """Facts that give an answer which the facts the cut leaves do not give."""

    answer: Ground
    facts: tuple[Ground, ...]
    rules: tuple[Rule, ...]

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


# Goals and rows an evaluation may look at for one step of a budget.
_WORK_PER_STEP = 1000


class Searcher:
    """Searches the unfolding of one program against another (often the same) program."""

    def __init__(self, source: Dependencies, target: Dependencies, *, same: bool) -> None:
        self.source = source
        self.unfolder = Unfolder(source)
        self.target = Canonical(target)
        self.replay = Canonical(source)
        self.same = same  # whether derived predicates mean the same in both
        inputs = {p.source: p.name for p in target.core.inputs}
        # What a fact of the source is called in the target, where it is an input there too.
        self._there = {p.name: inputs.get(p.source) for p in source.core.inputs}

    def search(self, start: Unfolded, query: str, cut: Cut, budget: Budget) -> Verdict:
        """Whether everything that becomes of `start` is derived from what the cut leaves of it."""
        stack = [start]
        unknown = False
        try:
            while stack:
                budget.spend()
                found = stack.pop()
                if not cut.everything and self._inside(found, cut):
                    continue
                try:
                    derived, open_ = self._derived(found, query, cut)
                    budget.spend(self.target.work // _WORK_PER_STEP)
                except Exhausted:
                    unknown = True
                    continue
                if derived:
                    continue
                if not found.complete:
                    stack.extend(self._expanded(found, cut))
                elif open_ is not None:
                    stack.extend(replace(found, order=o) for o in splits(found.order, *open_))
                else:
                    witness = self._witness(found, query, cut)
                    if isinstance(witness, Witness):
                        return Verdict(False, witness)
                    if witness is None:
                        unknown = True
                    else:
                        stack.extend(replace(found, order=o) for o in witness)
        except Exhausted:
            return Verdict(None)
        return Verdict(None if unknown or not self.timeless else True)

    def _inside(self, found: Unfolded, cut: Cut) -> bool:
        """Nothing lies or can come to lie outside the cut: it gives itself."""
        reaches = [self.unfolder.reach(f) for f in (*found.atoms, *found.open)]
        return all(r.low > r.high or (cut.keeps(r.low) and cut.keeps(r.high)) for r in reaches)

    def _derived(self, found: Unfolded, query: str, cut: Cut) -> tuple[bool, Assumption | None]:
        """Whether what is already unfolded, as far as the cut leaves it, gives the answer.

        An atom still open counts as a fact where the programs agree on what it means and nothing it
        can unfold to lies outside the cut.
        """
        facts = [f for f in found.atoms if f.time is None or cut.keeps(f.time)]
        pinned = list(found.pinned)
        if self.same:
            for atom in found.open:
                reach = self.unfolder.reach(atom)
                if reach.low > reach.high or (cut.keeps(reach.low) and cut.keeps(reach.high)):
                    facts.append(atom)
            if cut.everything:
                pinned += found.open_pinned
        base = self._base(found)
        moved = [f if f.time is None else replace(f, time=f.time + base) for f in facts]
        temporal = self.source.core.predicates[query].temporal
        goal = Fact(query, found.head, base if temporal else None)
        return self.target.derives(self._translated([*moved, *pinned]), goal, found.order)

    def _translated(self, facts: Iterable[Fact]) -> list[Fact]:
        """The facts as the target knows them."""
        if self.same:
            return list(facts)
        names = ((fact, self._there[fact.predicate]) for fact in facts)
        return [replace(fact, predicate=name) for fact, name in names if name is not None]

    @property
    def timeless(self) -> bool:
        """Whether what is derived at a time far before every explicit one is derived at any time.

        So it is where that time and the explicit ones are out of each other's reach.
        """
        if not explicit_times(self.target.core):
            return True
        behind = 0 if not self.target.deps.pinned else self.target.behind
        return not math.isinf(self.target.ahead) and not math.isinf(behind)

    def _base(self, found: Unfolded) -> int:
        """The answer's time: where facts fix it, there; else far before every explicit time."""
        if found.time is not None:
            return found.time
        points = [p for core in (self.source.core, self.target.core) for p in explicit_times(core)]
        points += [f.time for f in (*found.pinned, *found.open_pinned) if f.time is not None]
        if not points:
            return 0
        reach = sum(int(r) for r in (self.target.ahead, self.target.behind) if not math.isinf(r))
        latest = max((f.time for f in (*found.atoms, *found.open) if f.time is not None), default=0)
        return min(points) - reach - max(latest, 0) - 1

    def _expanded(self, found: Unfolded, cut: Cut) -> list[Unfolded]:
        """One atom resolved every way; first the one that can leave the cut furthest."""

        def outside(fact: Fact) -> tuple[Bound, str, str]:
            reach = self.unfolder.reach(fact)
            far = 0.0 if reach.low > reach.high else max(reach.high - cut.high, cut.low - reach.low)
            return (far, fact.predicate, str(fact))

        if found.open:
            atom, pinned = max(found.open, key=outside), False
        else:
            atom, pinned = min(found.open_pinned, key=str), True
        ways = list(self.unfolder.expand(found, atom, pinned=pinned))

        def promise(way: Unfolded) -> tuple[bool, Bound]:
            far = max((outside(f)[0] for f in (*way.atoms, *way.open)), default=0)
            return (not math.isinf(far), far)

        # The last one is looked at first: the furthest that ends, then what recurses on.
        return sorted(ways, key=promise)

    def _witness(self, found: Unfolded, query: str, cut: Cut) -> Witness | list[Order] | None:
        """The frozen facts with concrete values, if the whole program really tells them apart.

        Where there are too few values to keep all symbols distinct: the cases to look at instead.
        """
        base = self._base(found)
        constants = _constants(self.source.core) | _constants(self.target.core)
        try:
            values = found.order.model(found.symbols(), constants)
        except ValueError:
            return cases(found.order, found.symbols(), constants)

        def concrete(fact: Fact, shift: int) -> Fact:
            args = (values[v] if isinstance(v, Symbol) else v.value for v in fact.args)
            time = None if fact.time is None else fact.time + shift
            return Fact(fact.predicate, objects(args), time)

        temporal = self.source.core.predicates[query].temporal
        answer = concrete(Fact(query, found.head, 0 if temporal else None), base)
        facts = {concrete(f, base) for f in found.atoms} | {concrete(f, 0) for f in found.pinned}
        left = {f for f in facts if f.time is None or cut.keeps(f.time - base)}
        given, _ = self.replay.derives(facts, answer, Order())
        still, _ = self.target.derives(self._translated(left), answer, Order())
        if still or not given:
            return None
        shown = sorted((ground(f, self.source.core) for f in facts), key=_sorting)
        return Witness(ground(answer, self.source.core), tuple(shown), found.rules)


def cases(
    order: Order, symbols: Iterable[Symbol], constants: Iterable[Constant]
) -> list[Order] | None:
    """The orders that settle one more equality, where there is one left to settle."""
    open_ = order.unsettled(symbols, constants)
    return None if open_ is None else list(splits(order, *open_))


def objects(values: Iterable[Value]) -> tuple[Object, ...]:
    return tuple(Constant(v, type_of(v)) for v in values)


def ground(fact: Fact, core: Core) -> Ground:
    """A fact of constants only, under the name its predicate has in the rules."""
    args = tuple(v.value for v in fact.args if isinstance(v, Constant))
    return Ground(core.predicates[fact.predicate].source, args, fact.time)


def _sorting(fact: Ground) -> tuple[bool, int, str, str]:
    return (fact.time is not None, fact.time or 0, fact.predicate, str(fact.args))


def explicit_times(core: Core) -> list[int]:
    atoms = (a for rule in core.rules for a in (rule.head, *rule.atoms))
    return [a.time.tick for a in atoms if isinstance(a.time, TimePoint)]


def _constants(core: Core) -> set[Constant]:
    found: set[Constant] = set()
    for rule in core.rules:
        terms = [t for a in (rule.head, *rule.atoms) for t in a.args]
        terms += [t for c in rule.comparisons for t in (c.left, c.right)]
        found.update(Constant(t.value, t.type) for t in terms if isinstance(t, Constant))
    return found


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
    there = {p.source: p for p in other.core.predicates.values() if p.input or p.name == query}
    predicates = dict(one.core.predicates)
    for name, mine in one.core.predicates.items():
        theirs = there.get(mine.source) if mine.input or name == query else None
        if theirs is None:
            continue
        if (mine.temporal, len(mine.types)) != (theirs.temporal, len(theirs.types)):
            raise NoAnswer(
                f"{mine.source} has another form in the other program: nothing to compare"
            )
        for a, b in zip(mine.types, theirs.types, strict=True):
            if a and b and a is not b:
                raise NoAnswer(f"{mine.source} has {a} where the other program has {b}")
        types = tuple(a or b for a, b in zip(mine.types, theirs.types, strict=True))
        predicates[name] = replace(mine, types=types)
    return Dependencies(one.queries, Core(one.core.program, one.core.rules, predicates))


# Redundancy


@dataclass(frozen=True)
class Redundant:
    """A rule, or one atom of a rule, that can be left out without changing any answer."""

    rule: Rule
    atom: Atom | None = None


def reduced(core: Core, queries: Iterable[str], budget: Budget) -> tuple[Core, list[Redundant]]:
    """The core without redundant rules and atoms, and what was left out.

    A rule goes when the others derive its head from its body; an atom when the program derives the
    head from the rest of the body.
    """
    queries = tuple(queries)
    found: list[Redundant] = []
    current = core.below(queries)
    if dependencies(core, queries).cls is Class.BLOCKING:
        return current, found
    deps = dependencies(current, queries)
    place = {n: i for i, c in enumerate(deps.components) for n in c}
    below = _inputs_below(deps)
    try:
        # What others are built on first: with less below, there is less to look through above.
        for rule in sorted(current.rules, key=lambda r: place[r.head.predicate]):
            if not rule.body:
                continue
            budget.spend()
            rivals = current.rules_for[rule.head.predicate]
            without = _replaced(current, rule, None)
            if len(rivals) > 1 and _implied(current, without, rule, budget):
                found.append(Redundant(rule))
                current = without
                continue
            now = rule
            for atom in rule.atoms:
                shorter = Rule(now.head, tuple(x for x in now.body if x is not atom), now.origin)
                if _worth_trying(below, atom, shorter) and _implied(
                    current, current, shorter, budget
                ):
                    found.append(Redundant(rule, atom))
                    current = _replaced(current, now, shorter)
                    now = shorter
    except Exhausted:
        pass
    return current.below(queries), found


def _worth_trying(below: dict[str, frozenset[str]], atom: Atom, shorter: Rule) -> bool:
    """An input can only follow from other atoms that rest on it."""
    others = frozenset[str]().union(*(below[a.predicate] for a in shorter.atoms))
    return _safe(shorter) and (
        below[atom.predicate] != {atom.predicate} or atom.predicate in others
    )


def _inputs_below(deps: Dependencies) -> dict[str, frozenset[str]]:
    """The inputs that each predicate rests on."""
    found: dict[str, frozenset[str]] = {}
    for component in deps.components:
        rules = [r for name in component for r in deps.core.rules_for.get(name, ())]
        uses = {a.predicate for r in rules for a in r.atoms if a.predicate not in component}
        below = frozenset[str]().union(*(found[name] for name in uses))
        for name in component:
            found[name] = below | {name} if deps.core.predicates[name].input else below
    return found


def _implied(source: Core, target: Core, rule: Rule, budget: Budget) -> bool:
    """Whether a program derives a rule's head from its body, open atoms counting as facts."""
    name = rule.head.predicate
    wanted = [name, *(a.predicate for a in rule.atoms)]
    try:
        left, right = dependencies(source, wanted), dependencies(target, wanted)
        searcher = Searcher(left, right, same=True)
        start = searcher.unfolder.start_rule(rule)
        if start is None:
            return True  # its comparisons contradict each other
        recursive = bool(left.recursive)
        if recursive:
            # Unfolding may not end: only what follows at once counts.
            derived, _ = searcher._derived(start, name, Cut())
            return derived and searcher.timeless
        return searcher.search(start, name, Cut(), budget.share(0.1)).holds is True
    except Exhausted:
        return False


def _replaced(core: Core, rule: Rule, by: Rule | None) -> Core:
    rules = tuple(by if r is rule else r for r in core.rules if r is not rule or by is not None)
    return Core(core.program, tuple(r for r in rules if r is not None), core.predicates)


def _safe(rule: Rule) -> bool:
    bound = {v.name for a in rule.atoms for v in a.variables}
    needed = {v.name for v in rule.head.variables}
    needed |= {v.name for c in rule.comparisons for v in c.variables}
    if isinstance(rule.head.time, TimeOffset):
        needed.add(rule.head.time.variable.name)
        bound |= {a.time.variable.name for a in rule.atoms if isinstance(a.time, TimeOffset)}
    return needed <= bound and bool(rule.atoms)
