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
from functools import cached_property
from itertools import combinations, islice
from typing import assert_never

from tidelog.analysis.containment import Ground
from tidelog.evaluation.goal_directed.model import FactModel, Gathered, Stretch, gathered, named
from tidelog.explain.proofs import as_written
from tidelog.language.printer import print_term
from tidelog.language.program import (
    Calculation,
    Comparison,
    Constant,
    Expression,
    Row,
    Rule,
    Term,
    Value,
    Variable,
    variable_names,
)
from tidelog.logic.arithmetic import calculated
from tidelog.logic.clause import AggregateOf, Clause, Over, Premise, WindowOf
from tidelog.logic.core import External, Role, RuleSet
from tidelog.logic.match import VALUES, AnyTick, JoinOrder, constant_value, extensions
from tidelog.logic.order import decide
from tidelog.logic.windows import pattern

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
    """A comparison that is false, with the values on its sides and how far they are apart.

    None is what a calculation comes to that has no value.
    """

    comparison: Comparison
    left: Value | None
    right: Value | None

    @property
    def gap(self) -> float:
        """By how much a number is off; 0 for what is no number."""
        if isinstance(self.left, str | None) or isinstance(self.right, str | None):
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
    gathered: Gathered | None = None  # of an aggregate that does not come to this
    over: Over | None = None  # of a window; then `there` is at how many ticks of it the atom holds
    there: int = 0


@dataclass(frozen=True)
class Miss:
    """One rule that nearly gave a fact."""

    fact: Ground
    rule: Rule
    holds: tuple[Ground, ...]
    missing: tuple[Missing, ...]
    unmet: tuple[Unmet, ...]
    undecided: tuple[Comparison, ...]  # comparisons on values that are not known
    in_the_way: tuple[Ground, ...] = ()  # facts whose absence the rule asks for

    @cached_property
    def distance(self) -> tuple[float, float]:
        """Facts and comparisons it is short of, all the way down; and by how much these fail."""
        short = float(len(self.unmet) + len(self.in_the_way))
        gap = sum(unmet.gap for unmet in self.unmet)
        for missing in self.missing:
            if missing.over is not None:
                lacking = missing.over.least - missing.there
                short += lacking if missing.input else UNKNOWN * lacking
            elif missing.because is not None:
                further = missing.because.distance
                short, gap = short + further[0], gap + further[1]
            else:
                short += 1 if missing.input else UNKNOWN
        return short, gap


@dataclass(frozen=True)
class _Partial:
    """Values for the variables of a clause, as far as the premises that are not left out give any.

    Its tests are not asked for: they may come out false.
    """

    order: JoinOrder
    binding: Row

    def value(self, expression: Expression) -> Value | None:
        """The value of an expression; None if it has none."""
        match expression:
            case Constant(value):
                return value
            case Variable():
                return self.order.known_value(expression, self.binding)
            case Calculation():
                values = {v: self.value(Variable(v)) for v in variable_names(expression)}
                known = {name: value for name, value in values.items() if value is not None}
                return calculated(expression, known) if len(known) == len(values) else None
            case _:
                assert_never(expression)

    def known(self, premise: Premise) -> dict[int, Value]:
        """What is known of a premise's row by position; its time comes last."""
        values = [*map(self.value, premise.args), self.order.known_tick(premise, self.binding)]
        return {i: value for i, value in enumerate(values) if value is not None}

    def compared(self, tests: Sequence[Comparison]) -> Iterator[Unmet | None]:
        """Per test None where it holds or is open, or else with the values of its sides."""
        for test in tests:
            left, right = self.value(test.left), self.value(test.right)
            if self.is_open(test):
                yield None
            elif left is None or right is None or not decide(test.operator, left, right):
                yield Unmet(test, left, right)
            else:
                yield None

    def is_open(self, test: Comparison) -> bool:
        """Whether a variable of a test has no value yet."""
        return any(self.value(variable) is None for variable in test.variables)


class _FirstRows:
    """The first rows of a model: all need not be tried."""

    def __init__(self, model: FactModel) -> None:
        self.model = model

    def rows(
        self, premise: Premise, tick: int | AnyTick | None, positions: tuple[int, ...], key: Row
    ) -> Sequence[Row]:
        known = dict(zip(positions, key, strict=True))
        if isinstance(tick, int):
            known[len(premise.args)] = tick
        return self.model.lookup(premise.predicate, known, MOST_TRIED)


class Misses:
    """The near misses of facts that do not hold in a model."""

    def __init__(self, model: FactModel) -> None:
        self.model = model
        self.core = model.core
        self._first_rows = _FirstRows(model)
        self._nearest_of: dict[tuple[Ground, int], Miss | None] = {}
        self._orders: dict[tuple[int, frozenset[int]], JoinOrder] = {}
        self._goals = 0

    def of(self, goal: Ground) -> list[Miss]:
        """The nearest miss of each rule that could give the goal, the nearest first."""
        nearest: list[Miss] = []
        for clause in self._clauses(goal):
            nearest += islice(self._misses(clause, goal, DEEPEST, frozenset([goal])), 1)
        return sorted(nearest, key=lambda m: m.distance)

    def instead(self, goal: Ground) -> tuple[Ground, ...]:
        """Facts at the time of a missing input fact, those that are most like it."""
        known = {} if goal.time is None else {len(goal.args): goal.time}
        rows = self.model.lookup(goal.predicate, known, 100 * MOST_TRIED)

        def unlike(row: Row) -> int:
            return sum(a != b for a, b in zip(goal.args, row, strict=False))

        near = [
            row for row in sorted(rows, key=unlike)[:MOST_INSTEAD] if unlike(row) < len(goal.args)
        ]
        return tuple(self._fact(goal.predicate, row) for row in near)

    def _clauses(self, goal: Ground) -> list[Clause]:
        definition = self.core.definitions[goal.predicate]
        match definition:
            case RuleSet(clauses):
                return [c for c in clauses if not c.copies_input and c.part_of is None]
            case WindowOf() | AggregateOf() | External():
                return []  # what they lack is told of the premises that ask for them
            case _:
                assert_never(definition)

    def _nearest(self, goal: Ground, depth: int, above: frozenset[Ground]) -> Miss | None:
        key = (goal, depth)
        if key not in self._nearest_of:
            self._goals += 1
            self._nearest_of[key] = None
            if depth and self._goals <= MOST_GOALS:
                misses = [
                    miss
                    for clause in self._clauses(goal)
                    for miss in self._misses(clause, goal, depth, above | {goal})
                ]
                self._nearest_of[key] = min(misses, key=lambda m: m.distance, default=None)
        return self._nearest_of[key]

    def _misses(
        self, clause: Clause, goal: Ground, depth: int, above: frozenset[Ground]
    ) -> Iterator[Miss]:
        """The misses of one clause, the nearest first, as far as they are followed."""
        start = self._order(clause).start_from(constant_value, goal.args, goal.time)
        if start is None or clause.is_fact:
            return
        partial = sorted(self._partial(clause, start), key=lambda p: p[:2])
        followed = (
            self._followed(clause, goal, one, depth, above)
            for _, _, one in partial[: 10 * MOST_FOLLOWED]
        )
        misses = islice((miss for miss in followed if miss is not None), MOST_FOLLOWED)
        yield from sorted(misses, key=lambda m: m.distance)

    def _order(self, clause: Clause, left_out: frozenset[int] = frozenset()) -> JoinOrder:
        """The order of a clause without some premises, and without its tests."""
        key = (id(clause), left_out)
        if key not in self._orders:
            defined = replace(clause, tests=clause.definitions)
            self._orders[key] = JoinOrder.from_head(defined, left_out)
        return self._orders[key]

    def _partial(self, clause: Clause, start: Row) -> Iterator[tuple[int, float, _Partial]]:
        """Values with what they are short of: premises left out and false tests; and by how much.

        A premise that is left out leaves the steps before it as they are, so that what they gave
        can be gone on with.
        """
        best = math.inf
        nothing: frozenset[int] = frozenset()
        stack: list[tuple[frozenset[int], int, Row]] = [(nothing, 0, start)]
        tried = 0
        while stack and tried < 20 * MOST_TRIED:
            tried += 1
            left_out, done, binding = stack.pop()
            if len(left_out) > best:
                continue
            order = self._order(clause, left_out)
            if done == len(order.steps):
                one = _Partial(order, binding)
                false = [unmet for unmet in one.compared(clause.tests) if unmet]
                best = min(best, len(left_out) + len(false))
                yield len(left_out) + len(false), sum(unmet.gap for unmet in false), one
                continue
            step = order.steps[done]
            stack.append((left_out | {step.number}, done, binding))
            options: list[tuple[int, float, Row]] = []
            for longer in extensions(step, self._first_rows, binding, VALUES):
                false = [u for u in _Partial(order, longer).compared(clause.tests) if u]
                options.append((len(false), sum(unmet.gap for unmet in false), longer))
            options.sort()
            stack += [(left_out, done + 1, longer) for *_, longer in reversed(options[:20])]

    def _followed(
        self, clause: Clause, goal: Ground, one: _Partial, depth: int, above: frozenset[Ground]
    ) -> Miss | None:
        """The miss of one choice of values; None if it leads in a circle."""
        holds: list[Ground] = []
        all_missing: list[Missing] = []
        totals: list[Missing] = []  # which are there if the rest of the clause is
        in_the_way = self._in_the_way(clause, one)
        if in_the_way is None:
            return None
        for premise in clause.positive:
            known = one.known(premise)
            whole = len(known) == len(premise.args) + premise.temporal
            if self._is_there(premise, known, whole):
                if not whole:
                    return None  # another choice has it
                holds.append(named(self.core, _ground(premise, known)))
                continue
            if not self.model.knows(premise.predicate, known.get(len(premise.args))):
                return None
            missing = self._missing(premise, known, whole, depth, above)
            if missing is None:
                return None
            is_total = self.core.predicates[premise.predicate].role is Role.TOTAL
            (totals if is_total else all_missing).append(missing)
        all_missing = all_missing or totals
        written = clause.shown
        told = as_written(written, clause)
        compared = list(zip(told, one.compared(clause.tests), strict=True))
        unmet = tuple(replace(u, comparison=shown) for shown, u in compared if u is not None)
        undecided = tuple(
            shown for shown, test in zip(told, clause.tests, strict=True) if one.is_open(test)
        )
        if not all_missing and not unmet and not in_the_way:
            return None  # it holds
        fact, missing_ = named(self.core, goal), tuple(all_missing)
        return Miss(fact, written, tuple(holds), missing_, unmet, undecided, in_the_way)

    def _in_the_way(self, clause: Clause, one: _Partial) -> tuple[Ground, ...] | None:
        """Facts that are there though a clause asks for their absence; None where that is open."""
        there: list[Ground] = []
        for premise in clause.negative:
            known = one.known(premise)
            named_ = [t for t in premise.args if isinstance(t, Constant) or not t.anonymous]
            if len(known) < len(named_) + premise.temporal:
                continue  # of values that are not known nothing is asked
            if not self.model.knows(premise.predicate, known.get(len(premise.args))):
                return None
            rows = self.model.lookup(premise.predicate, known, 1)
            there += [self._itself(premise.predicate, row) for row in rows]
        return tuple(there)

    def _itself(self, name: str, row: Row) -> Ground:
        """A fact; for a window in which one fact is one too many, the last such fact."""
        fact = self._fact(name, row)
        if not isinstance(fact, Stretch) or fact.over.least > 1:
            return fact
        window, args = pattern(self.core, name, row[: len(self.core.predicates[name].types)])
        own_name = window.of.predicate
        known = {i: value for i, value in enumerate(args) if value is not None}
        ticks = range(int(row[-1]), int(row[-1]) - min(fact.over.ticks, MOST_TRIED), -1)
        for tick in ticks:
            for own in self.model.lookup(own_name, {**known, len(args): tick}, 1):
                return self._fact(own_name, own)
        return fact

    def _is_there(self, premise: Premise, known: Mapping[int, Value], whole: bool) -> bool:
        rows = self.model.lookup(premise.predicate, known, 1 if whole else None)
        same = [
            (i, j)
            for i, j in combinations(range(len(premise.args)), 2)
            if premise.args[i] == premise.args[j]
        ]
        return any(all(row[i] == row[j] for i, j in same) for row in rows)

    def _missing(
        self,
        premise: Premise,
        known: Mapping[int, Value],
        whole: bool,
        depth: int,
        above: frozenset[Ground],
    ) -> Missing | None:
        predicate = self.core.predicates[premise.predicate]
        # An input that also has rules is still one that a fact can be given to.
        input_ = predicate.base in self.core.input_of
        args = tuple(known.get(i) for i in range(len(premise.args)))
        time = known.get(len(premise.args))
        at = time if isinstance(time, int) else None
        names = tuple(
            print_term(term) if value is None else None
            for term, value in zip(premise.args, args, strict=True)
        )
        missing = Missing(predicate.base, args, names, at, predicate.temporal, input_)
        if predicate.role is Role.WINDOW:
            return self._too_few(missing, premise, whole)
        if premise.predicate in self.core.aggregate_of:
            value = len(premise.args) - 1
            own = replace(missing, gathered=gathered(self.core, predicate.name, args, at))
            return replace(own, instead=self._instead(premise.predicate, known, [value]))
        if not whole:
            return missing
        goal = _ground(premise, known)
        if goal in above:
            return None
        if input_:
            fixed = [i for i, t in enumerate(premise.args) if isinstance(t, Constant)]
            return replace(missing, instead=self._instead(premise.predicate, known, fixed))
        return replace(missing, because=self._nearest(goal, depth - 1, above))

    def _too_few(self, missing: Missing, premise: Premise, whole: bool) -> Missing:
        """A window at too few ticks of which an atom holds."""
        window, args = pattern(self.core, premise.predicate, missing.args)
        asked, over, time = window.of, window.over, missing.time
        open_: dict[Term, str | None] = dict(zip(window.args, missing.variables, strict=True))
        shown = tuple(map(open_.get, asked.args))
        there = 0
        if whole and time is not None:
            known = {i: value for i, value in enumerate(args) if value is not None}
            rows = self.model.lookup(asked.predicate, known)
            there = len({row[-1] for row in rows if 0 <= time - int(row[-1]) < over.ticks})
        return replace(missing, args=args, variables=shown, over=over, there=there)

    def _instead(
        self, name: str, known: Mapping[int, Value], free: Sequence[int]
    ) -> tuple[Ground, ...]:
        if not free:
            return ()
        kept = {i: v for i, v in known.items() if i not in free}
        rows = self.model.lookup(name, kept, MOST_INSTEAD)
        return tuple(self._fact(name, row) for row in rows)

    def _fact(self, name: str, row: Row) -> Ground:
        predicate = self.core.predicates[name]
        args = row[: len(predicate.types)]
        return named(self.core, Ground(name, args, int(row[-1]) if predicate.temporal else None))


def _ground(premise: Premise, known: Mapping[int, Value]) -> Ground:
    args = tuple(known[i] for i in range(len(premise.args)))
    time = known.get(len(premise.args))
    return Ground(premise.predicate, args, int(time or 0) if premise.temporal else None)
