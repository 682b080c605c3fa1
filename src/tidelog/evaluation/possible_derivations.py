"""How an answer may still come: one possible derivation of it.

It ends in facts that hold and in facts that are waited for. What it needs to be absent may still
come in some ways; in each of them facts must arrive (*unless* they do) or it is there already, and
what would take it away is waited for. Possible facts may be in the tables of an engine or in the
cells of a stream: both say here what they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol, TypeAlias

from tidelog.analysis.containment import Ground
from tidelog.analysis.definitive import Awaited, Counted, Pending
from tidelog.analysis.possible import Open, Possible, PossibleClause, all_args, narrow
from tidelog.language.program import Constant, Row, Term, Value, Variable
from tidelog.logic.clause import Premise, Sign
from tidelog.logic.core import Core, Role, rules_for
from tidelog.logic.match import VALUES, JoinOrder, RowSource, constant_value, matches, term_values
from tidelog.logic.windows import pattern as window_pattern

# Steps from a pending answer down to facts that are taken one by one.
DEEPEST = 50
# Matches of one rule that are tried.
MOST_TRIED = 50
# Ticks of a window that are looked at one by one.
MOST_COUNTED = 2_000

# The arguments of a possible fact; None stands for any value.
PossibleArgs: TypeAlias = tuple[Value | None, ...]


class PossibleFacts(RowSource[Value], Protocol):
    """What is possible, by the names of the possible program."""

    def is_given(self, name: str, tick: int | None) -> bool:
        """Whether a fact of this name stands for itself: nothing below it is looked at."""

    def is_settled(self, predicate: str, tick: int | None) -> bool:
        """Whether it does so where no derivation of it is at hand."""

    def may_come(self, tick: int) -> bool:
        """Whether input at a tick may still arrive."""

    def decided_at(self, query: str, time: int) -> int | None:
        """The input time by which an answer is decided, where that is to be told."""


@dataclass
class _Leaves:
    """What a derivation rests on: facts that hold, facts it waits for, and what must not arrive."""

    may_wait: bool = True
    holds: dict[Ground, None] = field(default_factory=dict)
    waits: dict[Awaited, None] = field(default_factory=dict)
    unless: dict[tuple[Awaited, ...], None] = field(default_factory=dict)
    windows: dict[Counted, None] = field(default_factory=dict)

    def copy(self, *, may_wait: bool) -> _Leaves:
        return _Leaves(
            may_wait, dict(self.holds), dict(self.waits), dict(self.unless), dict(self.windows)
        )

    def take(self, other: _Leaves) -> None:
        self.holds, self.waits, self.unless = other.holds, other.waits, other.unless
        self.windows = other.windows

    def wait(self, awaited: Iterable[Awaited]) -> bool:
        self.waits.update(dict.fromkeys(awaited))
        return self.may_wait

    def wait_for_all(self, parts: Iterable[Awaited], whole: Awaited) -> None:
        """Wait for what some are part of, if there are any."""
        for part in parts:
            del self.waits[part]
            self.waits[whole] = None


@dataclass(frozen=True)
class _Match:
    """A possible rule with values for its variables, as far as these are known."""

    rule: PossibleClause
    order: JoinOrder
    binding: Row
    head: dict[str, Value]  # values that only the head has

    @property
    def rows(self) -> list[Row]:
        """The rows that its premises are."""
        return [self.order.values(p.args, self.binding) for p in self.rule.clause.positive]

    def value(self, term: Term) -> Value | None:
        if isinstance(term, Constant):
            return term.value
        known = self.order.known_value(term, self.binding)
        return self.head.get(term.name) if known is None else known


class PossibleDerivations:
    """Looks for derivations of the answers of a possible program."""

    def __init__(self, possible: Possible, facts: PossibleFacts) -> None:
        self.possible, self.facts = possible, facts
        # Absence makes it matter whether an answer holds already: that is tried first.
        self._patience = (False, True) if possible.deps.negated else (True,)
        self._patterns = {
            possible.name(name, pattern): pattern
            for name, patterns in possible.patterns.items()
            for pattern in patterns
        }
        # What was tried in vain, wherever it is asked for: with leave to wait, and without.
        self._in_vain: set[tuple[object, bool]] = set()
        self._cuts = 0
        self._rules: dict[str, list[tuple[PossibleClause, JoinOrder]]] = {}
        for rule in possible.clauses:
            order = JoinOrder.from_head(rule.clause)
            self._rules.setdefault(rule.clause.head.predicate, []).append((rule, order))

    def pending(self, query: str, name: str, row: Row, time: int) -> Pending:
        """A possible answer with a derivation of it."""
        args = all_args(self._patterns[name], row)
        self._in_vain.clear()
        leaves = _Leaves()
        self._derive(name, args, time, leaves, frozenset())
        until = self.facts.decided_at(query, time)
        unless = sorted(leaves.unless, key=lambda way: (len(way), *map(_order, way)))
        waits = _sorted(leaves.waits)
        holds = tuple(leaves.holds)
        now = bool(unless) and not waits
        windows = tuple(leaves.windows)
        return Pending(query, args, time, holds, waits, until, tuple(unless), now, windows)

    def _derive(
        self,
        name: str,
        args: PossibleArgs,
        time: int | None,
        leaves: _Leaves,
        above: frozenset[object],
    ) -> bool:
        """Collect the leaves of one derivation; False when all lead in a circle or too far."""
        goal = (name, args, time)
        if self._is_cut(goal, above) or (goal, leaves.may_wait) in self._in_vain:
            return False
        cuts = self._cuts
        for may_wait in self._patience:
            if may_wait and not leaves.may_wait:
                break
            for match in self._matches(name, args, time):
                more = leaves.copy(may_wait=may_wait)
                if self._rests(match, more, above | {goal}):
                    leaves.take(more)
                    return True
        if self._cuts == cuts:  # elsewhere it would be the same
            self._in_vain.add((goal, leaves.may_wait))
        return False

    def _is_cut(self, goal: object, above: frozenset[object]) -> bool:
        """Whether a goal leads in a circle or too far: from elsewhere it might not."""
        cut = goal in above or len(above) > DEEPEST
        self._cuts += cut
        return cut

    def _rests(self, match: _Match, leaves: _Leaves, above: frozenset[object]) -> bool:
        """Collect the leaves of a match."""
        rule = match.rule
        for number, premise in enumerate(rule.clause.premises):
            if premise.sign is Sign.POSITIVE and not self._leaf(match, number, leaves, above):
                return False
        absences = (*rule.clause.negative, *rule.unchecked)
        return all(self._absence(match, premise, leaves, above) for premise in absences)

    def _matches(self, name: str, args: PossibleArgs, time: int | None) -> Iterator[_Match]:
        """The matches of rules for one head; those of a rule by the rows of its premises."""
        for rule, order in self._rules.get(name, ()):
            values: dict[str, Value] | None = term_values(rule.head.args, args, constant_value)
            if values is None or not rule.clause.head.can_be_at(time):
                continue
            start = order.start(constant_value, values, time)
            bindings = islice(matches(order, self.facts, start, VALUES), MOST_TRIED)
            some = [_Match(rule, order, binding, values) for binding in bindings]
            yield from sorted(some, key=lambda match: match.rows)

    def _leaf(self, match: _Match, number: int, leaves: _Leaves, above: frozenset[object]) -> bool:
        meaning, premise = match.rule.body[number], match.rule.clause.premises[number]
        whole = meaning.premise if isinstance(meaning, Open) else meaning
        predicate = self.possible.deps.core.predicates[whole.predicate]
        args = tuple(map(match.value, whole.args))
        tick = match.order.known_tick(premise, match.binding)
        if isinstance(meaning, Open):
            assert tick is not None, "only facts with a time are waited for"
            return leaves.wait([Awaited(predicate.base, args, tick)])
        # A step within a rule is none of its own.
        is_fact = predicate.role not in (Role.STEP, Role.TOTAL)
        stands = self.facts.is_given(premise.predicate, tick)
        if not stands:
            before = set(leaves.waits)
            if self._derive(premise.predicate, args, tick, leaves, above):
                core, above_it = self.possible.deps.core, match.rule.head.predicate
                waits = [w for w in leaves.waits if w not in before]
                if predicate.role is Role.WINDOW:
                    if core.predicates[above_it].role is not Role.WINDOW:
                        leaves.windows |= self._counted(whole.predicate, args, tick, waits)
                elif whole.predicate in core.count_of and above_it not in core.count_of:
                    leaves.wait_for_all(waits, Awaited(whole.predicate, args, tick or 0))
                return True
            stands = is_fact and self.facts.is_settled(whole.predicate, tick)
        if stands and is_fact and predicate.role not in (Role.WINDOW, Role.BEGUN):
            known = tuple(value for value in args if value is not None)
            leaves.holds[Ground(predicate.base, known, tick)] = None
        return stands

    def _counted(
        self, name: str, args: PossibleArgs, tick: int | None, waits: list[Awaited]
    ) -> dict[Counted, None]:
        """At how many ticks a window has a fact of an input, where it waits for more of them."""
        core = self.possible.deps.core
        window, values = window_pattern(core, name, args)
        asked, over = window.of, window.over
        selects = core.predicates[asked.predicate].role is Role.STEP
        if selects:
            asked, values = _selected_from(core, asked, values)
        predicate = core.predicates[asked.predicate]
        own = all(w.predicate == predicate.base and w.args == values for w in waits)
        if not waits or not own or not predicate.input or tick is None:
            return {}
        if over.ticks > MOST_COUNTED:
            return {}
        first = tick - over.ticks + 1
        places = {i: value for i, value in enumerate(values) if value is not None}
        there = (
            0
            if None in args or selects  # one that is there would do, and be waited for no more
            else sum(  # what was never seen is nowhere so far
                any(self.facts.rows(asked, t, tuple(places), tuple(places.values())))
                for t in range(first, tick + 1)
                if not self.facts.may_come(t)
            )
        )
        least = over.least
        told = Counted(predicate.base, values, first, tick, least, there, tuple(waits))
        return {told: None} if least - there == len(waits) else {}

    # What must be absent

    def _absence(
        self, match: _Match, premise: Premise, leaves: _Leaves, above: frozenset[object]
    ) -> bool:
        """What must not arrive, and what must, for a premise to stay absent; False: it will not."""
        predicate = self.possible.deps.core.predicates[premise.predicate]
        tick = match.order.known_tick(premise, match.binding)
        if predicate.input:
            if tick is not None and self.facts.may_come(tick):
                args = tuple(map(match.value, premise.args))
                leaves.unless[(Awaited(predicate.base, args, tick),)] = None
            return True
        for way in islice(self._ways(match, premise, tick, above), MOST_TRIED):
            if way.waits:
                leaves.unless[_sorted(way.waits)] = None
            elif not way.unless or not leaves.wait(next(iter(way.unless))):
                return False
        return True

    def _ways(
        self, match: _Match, premise: Premise, tick: int | None, above: frozenset[object]
    ) -> Iterator[_Leaves]:
        """The ways in which what must be absent may be there, by what each rests on."""
        wanted = tuple(map(match.value, premise.args))
        for pattern in self.possible.patterns[premise.predicate]:
            name = self.possible.name(premise.predicate, pattern)
            asked = [v for v, label in zip(wanted, pattern, strict=True) if label is None]
            known = {i: value for i, value in enumerate(asked) if value is not None}
            rows = self.facts.rows(
                narrow(premise, pattern), tick, tuple(known), tuple(known.values())
            )
            for row in islice(rows, MOST_TRIED):
                whole = zip(all_args(self._patterns[name], row), wanted, strict=True)
                args = tuple(other if own is None else own for own, other in whole)
                goal = (name, args, tick)
                if self._is_cut(goal, above):
                    continue
                for other in self._matches(name, args, tick):
                    yield from self._ways_of(other, above | {goal})

    def _ways_of(self, match: _Match, above: frozenset[object]) -> Iterator[_Leaves]:
        """The ways in which a match may come about: one, but any tick of a window is another."""
        (meaning, *more) = match.rule.body or (None,)
        if isinstance(meaning, Premise) and not more:
            predicate = self.possible.deps.core.predicates[meaning.predicate]
            if predicate.role is Role.WINDOW:
                tick = match.order.known_tick(match.rule.clause.premises[0], match.binding)
                yield from self._ways(match, meaning, tick, above)
                return
        leaves = _Leaves()
        if self._rests(match, leaves, above):
            yield leaves


def _selected_from(core: Core, asked: Premise, args: PossibleArgs) -> tuple[Premise, PossibleArgs]:
    """What a window asks for whose facts a step selects, as it asks for those it selects from."""
    (step,) = rules_for(core, asked.predicate)
    (premise,) = step.premises
    known = dict(zip(step.head.args, args, strict=True))
    values = (known.get(t) if isinstance(t, Variable) else t.value for t in premise.args)
    return premise, tuple(values)


def _order(awaited: Awaited) -> tuple[int, str, str]:
    return awaited.time, awaited.predicate, str(awaited.args)


def _sorted(awaited: Iterable[Awaited]) -> tuple[Awaited, ...]:
    return tuple(sorted(awaited, key=_order))
