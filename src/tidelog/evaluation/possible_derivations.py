"""How an answer may still come: one possible derivation of it.

It ends in facts that hold and in facts that are waited for. Possible facts may be in the tables of
an engine or in the cells of a stream: both say here what they hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol, TypeAlias

from tidelog.analysis.containment import Ground
from tidelog.analysis.definitive import Awaited, Pending
from tidelog.analysis.possible import Open, Possible, PossibleClause
from tidelog.language.program import Constant, Row, Term, Value
from tidelog.logic.core import Role
from tidelog.logic.match import JoinOrder, RowSource, constant_value, matches, term_values
from tidelog.logic.order import decide

# Steps from a pending answer down to facts that are taken one by one.
DEEPEST = 50
# Matches of one rule that are tried.
MOST_TRIED = 50

# The arguments of a possible fact; None stands for any value.
PossibleArgs: TypeAlias = tuple[Value | None, ...]


class PossibleFacts(RowSource[Value], Protocol):
    """What is possible, by the names of the possible program."""

    def is_given(self, name: str, tick: int | None) -> bool:
        """Whether a fact of this name stands for itself: nothing below it is looked at."""

    def is_settled(self, predicate: str, tick: int | None) -> bool:
        """Whether it does so where no derivation of it is at hand."""

    def decided_at(self, query: str, time: int) -> int | None:
        """The input time by which an answer is decided, where that is to be told."""


@dataclass
class _Leaves:
    """What a derivation rests on: facts that hold, and facts it waits for."""

    holds: dict[Ground, None] = field(default_factory=dict)
    waits: dict[Awaited, None] = field(default_factory=dict)


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
        return [self.order.values(p.args, self.binding) for p in self.rule.clause.premises]

    def value(self, term: Term) -> Value | None:
        if isinstance(term, Constant):
            return term.value
        known = self.order.known_value(term, self.binding)
        return self.head.get(term.name) if known is None else known


class PossibleDerivations:
    """Looks for derivations of the answers of a possible program."""

    def __init__(self, possible: Possible, facts: PossibleFacts) -> None:
        self.possible, self.facts = possible, facts
        self._patterns = {
            possible.name(name, pattern): pattern
            for name, patterns in possible.patterns.items()
            for pattern in patterns
        }
        self._rules: dict[str, list[tuple[PossibleClause, JoinOrder]]] = {}
        for rule in possible.clauses:
            order = JoinOrder.from_head(rule.clause)
            self._rules.setdefault(rule.clause.head.predicate, []).append((rule, order))

    def whole(self, name: str, row: Row) -> PossibleArgs:
        """All arguments of a possible fact, of which a row has those that are known."""
        values = iter(row)
        return tuple(next(values) if label is None else None for label in self._patterns[name])

    def pending(self, query: str, name: str, row: Row, time: int) -> Pending:
        """A possible answer with a derivation of it."""
        args = self.whole(name, row)
        leaves = _Leaves()
        self._derive(name, args, time, leaves, frozenset())
        waits = sorted(leaves.waits, key=lambda p: (p.time, p.predicate, str(p.args)))
        until = self.facts.decided_at(query, time)
        return Pending(query, args, time, tuple(leaves.holds), tuple(waits), until)

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
        if goal in above or len(above) > DEEPEST:
            return False
        for match in self._matches(name, args, time):
            more = _Leaves(dict(leaves.holds), dict(leaves.waits))
            premises = range(len(match.rule.body))
            if all(self._leaf(match, number, more, above | {goal}) for number in premises):
                leaves.holds, leaves.waits = more.holds, more.waits
                return True
        return False

    def _matches(self, name: str, args: PossibleArgs, time: int | None) -> Iterator[_Match]:
        """The matches of rules for one head; those of a rule by the rows of its premises."""
        for rule, order in self._rules.get(name, ()):
            values: dict[str, Value] | None = term_values(rule.head.args, args, constant_value)
            if values is None or not rule.clause.head.can_be_at(time):
                continue
            start = order.start(constant_value, values, time)
            bindings = islice(matches(order, self.facts, start, decide), MOST_TRIED)
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
            leaves.waits[Awaited(predicate.base, args, tick)] = None
            return True
        is_fact = predicate.role is not Role.STEP  # a step within a rule is none of its own
        stands = self.facts.is_given(premise.predicate, tick)
        if not stands:
            if self._derive(premise.predicate, args, tick, leaves, above):
                return True
            stands = is_fact and self.facts.is_settled(whole.predicate, tick)
        if stands and is_fact:
            known = tuple(value for value in args if value is not None)
            leaves.holds[Ground(predicate.base, known, tick)] = None
        return stands
