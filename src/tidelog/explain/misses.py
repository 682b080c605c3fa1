"""Near misses: for a fact that does not hold, the rules that came nearest to giving it.

A miss is a rule with values for its variables, what holds of its body and what does not: facts that
are missing, and comparisons that come out false. A missing fact that rules derive has its own
nearest miss below it. Nearest means fewest missing input facts and false comparisons, down through
the rules; then least by how much the comparisons fail. The search is bounded, and looks at the best
few matches of each rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

from tidelog.analysis.containment import Ground
from tidelog.evaluation.demand import (
    Model,
    compared,
    head_binding,
    known_positions,
    matched,
    time_of,
)
from tidelog.explain.proofs import is_copy
from tidelog.language.printer import print_term
from tidelog.language.program import Atom, Comparison, Constant, Rule, Value

# How deep missing facts are followed, and how many goals may be looked at on the way.
DEEPEST = 8
MOST_GOALS = 2_000
# Facts tried for one premise, and matches of one rule that are followed down.
MOST_TRIED = 500
MOST_FOLLOWED = 4
# What a missing fact counts for that is derived and was not followed down.
UNKNOWN = 10
# Facts shown in place of one that is missing.
MOST_INSTEAD = 3


@dataclass(frozen=True)
class Unmet:
    """A comparison that is false, with the values on its sides and how far they are apart."""

    comparison: Comparison
    left: Value
    right: Value

    @property
    def gap(self) -> float:
        """By how much a number is off; 0 for what is no number."""
        if isinstance(self.left, str) or isinstance(self.right, str):
            return 0.0
        return abs(float(self.left) - float(self.right))


@dataclass(frozen=True)
class Missing:
    """A premise that does not hold; None among its values stands for any.

    `variables` are the rule's names for those; the same name stands for the same value. `instead`
    are facts that differ from it only in what the rule fixes; `because` is the nearest miss of a
    premise that rules derive.
    """

    predicate: str
    args: tuple[Value | None, ...]
    variables: tuple[str | None, ...]
    time: int | None
    temporal: bool
    input: bool
    instead: tuple[Ground, ...] = ()
    because: Miss | None = None


@dataclass(frozen=True)
class Miss:
    """One rule that nearly gave a fact."""

    fact: Ground
    rule: Rule
    holds: tuple[Ground, ...]
    missing: tuple[Missing, ...]
    unmet: tuple[Unmet, ...]
    open: tuple[Comparison, ...]  # comparisons on values that are not known
    short: float  # facts and comparisons it is short of, all the way down
    gap: float

    @property
    def distance(self) -> tuple[float, float]:
        return self.short, self.gap


_Binding: TypeAlias = dict[str, Value]


class Misses:
    """The near misses of facts that do not hold in a model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.core = model.deps.core
        self._found: dict[tuple[Ground, int], Miss | None] = {}
        self._goals = 0

    def of(self, goal: Ground) -> list[Miss]:
        """The nearest miss of each rule that could give the goal, the nearest first."""
        found = []
        for rule in self.core.rules_for.get(goal.predicate, ()):
            if not is_copy(rule):
                found += list(self._rule(rule, goal, DEEPEST, frozenset([goal])))[:1]
        return sorted(found, key=lambda m: m.distance)

    def instead(self, goal: Ground) -> tuple[Ground, ...]:
        """Facts at the time of a missing input fact, those that are most like it."""
        known = {} if goal.time is None else {len(goal.args): goal.time}
        rows = self.model.lookup(goal.predicate, known, 100 * MOST_TRIED)

        def unlike(row: tuple[Value, ...]) -> int:
            return sum(a != b for a, b in zip(goal.args, row, strict=False))

        near = [
            row for row in sorted(rows, key=unlike)[:MOST_INSTEAD] if unlike(row) < len(goal.args)
        ]
        return tuple(self._row(goal.predicate, row) for row in near)

    def _nearest(self, goal: Ground, depth: int, above: frozenset[Ground]) -> Miss | None:
        key = (goal, depth)
        if key not in self._found:
            self._goals += 1
            self._found[key] = None
            if depth and self._goals <= MOST_GOALS:
                found = [
                    miss
                    for rule in self.core.rules_for.get(goal.predicate, ())
                    if not is_copy(rule)
                    for miss in self._rule(rule, goal, depth, above | {goal})
                ]
                self._found[key] = min(found, key=lambda m: m.distance, default=None)
        return self._found[key]

    def _rule(
        self, rule: Rule, goal: Ground, depth: int, above: frozenset[Ground]
    ) -> Iterator[Miss]:
        """The misses of one rule, the nearest first, as far as they are followed."""
        start = head_binding(rule, goal)
        if start is None or not rule.body:
            return
        partial = sorted(self._partial(rule, start), key=lambda p: (p[0], p[1]))
        followed = (
            self._followed(rule, goal, binding, depth, above)
            for _, _, binding in partial[: 10 * MOST_FOLLOWED]
        )
        found = islice((miss for miss in followed if miss is not None), MOST_FOLLOWED)
        yield from sorted(found, key=lambda m: m.distance)

    def _partial(self, rule: Rule, start: _Binding) -> Iterator[tuple[int, float, _Binding]]:
        """Bindings with what they are short of at this rule: premises left out, values off."""
        best = math.inf
        stack: list[tuple[int, _Binding, tuple[Atom, ...]]] = [(0, start, rule.atoms)]
        tried = 0
        while stack and tried < 20 * MOST_TRIED:
            tried += 1
            left_out, binding, todo = stack.pop()
            if left_out > best:
                continue
            if not todo:
                false = [c for c in rule.comparisons if compared(c, binding) is False]
                short = left_out + len(false)
                best = min(best, short)
                yield short, sum(_unmet(c, binding).gap for c in false), binding
                continue
            atom = max(todo, key=lambda a: _share(a, binding))
            rest = tuple(a for a in todo if a is not atom)
            stack.append((left_out + 1, binding, rest))
            rows = self.model.lookup(atom.predicate, known_positions(atom, binding), MOST_TRIED)
            options = []
            for row in rows:
                extended = matched(atom, row, binding)
                if extended is not None:
                    false = [c for c in rule.comparisons if compared(c, extended) is False]
                    gap = sum(_unmet(c, extended).gap for c in false)
                    options.append((len(false), gap, row, extended))
            options.sort(key=lambda o: o[:3])
            stack += [(left_out, o[3], rest) for o in reversed(options[:20])]

    def _followed(
        self, rule: Rule, goal: Ground, binding: _Binding, depth: int, above: frozenset[Ground]
    ) -> Miss | None:
        """The miss of one binding; None if it leads in a circle."""
        holds: list[Ground] = []
        missing: list[Missing] = []
        short = 0.0
        gap = 0.0
        for atom in rule.atoms:
            known = known_positions(atom, binding)
            whole = len(known) == len(atom.args) + (atom.time is not None)
            if self._found_any(atom, known, binding, whole):
                if not whole:
                    return None  # another binding has it
                holds.append(self._named(_ground(atom, known)))
                continue
            if not self.model.knows(atom.predicate, known.get(len(atom.args))):
                return None
            found = self._missing(atom, known, whole, depth, above)
            if found is None:
                return None
            missing.append(found)
            if found.because is not None:
                short += found.because.short
                gap += found.because.gap
            else:
                short += 1 if found.input else UNKNOWN
        written = self.model.written(rule)
        pairs = list(zip(rule.comparisons, written.comparisons, strict=True))
        unmet = tuple(
            replace(_unmet(c, binding), comparison=w)
            for c, w in pairs
            if compared(c, binding) is False
        )
        left = tuple(w for c, w in pairs if compared(c, binding) is None)
        if not missing and not unmet:
            return None  # it holds
        return Miss(
            self._named(goal),
            written,
            tuple(holds),
            tuple(missing),
            unmet,
            left,
            short + len(unmet),
            gap + sum(u.gap for u in unmet),
        )

    def _found_any(
        self, atom: Atom, known: Mapping[int, Value], binding: _Binding, whole: bool
    ) -> bool:
        rows = self.model.lookup(atom.predicate, known, 1 if whole else None)
        return any(matched(atom, row, binding) is not None for row in rows)

    def _missing(
        self,
        atom: Atom,
        known: Mapping[int, Value],
        whole: bool,
        depth: int,
        above: frozenset[Ground],
    ) -> Missing | None:
        predicate = self.core.predicates[atom.predicate]
        # An input that also has rules is still one that a fact can be given to.
        input_ = predicate.input or f"{atom.predicate}[in]" in self.core.predicates
        args = tuple(known.get(i) for i in range(len(atom.args)))
        time = known.get(len(atom.args))
        at = time if isinstance(time, int) else None
        names = tuple(
            print_term(term) if value is None else None
            for term, value in zip(atom.args, args, strict=True)
        )
        found = Missing(predicate.source, args, names, at, predicate.temporal, input_)
        if not whole:
            return found
        goal = _ground(atom, known)
        if goal in above:
            return None
        if input_:
            fixed = [i for i, t in enumerate(atom.args) if isinstance(t, Constant)]
            return replace(found, instead=self._instead(atom.predicate, known, fixed))
        return replace(found, because=self._nearest(goal, depth - 1, above))

    def _instead(
        self, name: str, known: Mapping[int, Value], free: Sequence[int]
    ) -> tuple[Ground, ...]:
        if not free:
            return ()
        kept = {i: v for i, v in known.items() if i not in free}
        rows = self.model.lookup(name, kept, MOST_INSTEAD)
        return tuple(self._row(name, row) for row in rows)

    def _row(self, name: str, row: tuple[Value, ...]) -> Ground:
        predicate = self.core.predicates[name]
        args = row[: len(predicate.types)]
        return Ground(predicate.source, args, int(row[-1]) if predicate.temporal else None)

    def _named(self, fact: Ground) -> Ground:
        return replace(fact, predicate=self.core.predicates[fact.predicate].source)


def _ground(atom: Atom, known: Mapping[int, Value]) -> Ground:
    args = tuple(known[i] for i in range(len(atom.args)))
    time = known.get(len(atom.args))
    return Ground(atom.predicate, args, None if atom.time is None else int(time or 0))


def _unmet(comparison: Comparison, binding: Mapping[str, Value]) -> Unmet:
    left, right = (
        t.value if isinstance(t, Constant) else binding[t.name]
        for t in (comparison.left, comparison.right)
    )
    return Unmet(comparison, left, right)


def _share(atom: Atom, binding: Mapping[str, Value]) -> tuple[float, bool]:
    size = len(atom.args) + (atom.time is not None)
    known = len(known_positions(atom, binding))
    return (known / size if size else 1.0, time_of(atom, binding) is not None)
