"""Forgetting (Definition 3): may the facts up to tmem go, without changing any later answer?

For class 1 the paper's decision: every partial match of a conjunctive query over the history leaves
an open rest for the update to supply; what uses facts up to tmem must be contained in what the
history without them still gives. A rest is frozen and evaluated, like everything here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelog.analysis.canonical import Canonical, Exhausted, FrozenFact, splits
from tidelog.analysis.containment import Budget, Ground, cases, ground
from tidelog.analysis.definitive import Awaited
from tidelog.analysis.dependencies import Class, Dependencies
from tidelog.analysis.differences import constants_of, objects
from tidelog.analysis.unfolding import Unfolded, Unfolder
from tidelog.language.program import Calculation, Constant, Operator, Term, Variable
from tidelog.logic.clause import AT_HEAD, RIGID, Clause, Head, Offset, Premise
from tidelog.logic.core import rules_of
from tidelog.logic.match import AnyTick, IndexedRows, JoinOrder, matches
from tidelog.logic.order import Object, Order, Symbol


@dataclass(frozen=True)
class Update:
    """Later facts that make the difference: with them an answer is lost if tmem is forgotten.

    Or it is there only then, which is no less wrong. None stands for an object not seen before.
    """

    facts: tuple[Ground | Awaited, ...]
    answer: Ground | Awaited
    lost: bool = True

    def as_json(self) -> dict[str, object]:
        facts = [fact.as_json() for fact in self.facts]
        more = {} if self.lost else {"lost": False}
        return {"facts": facts, "answer": self.answer.as_json(), **more}


@dataclass(frozen=True)
class Forgettable:
    """Whether everything up to tmem may be forgotten. `exact` False: "no" may be too careful."""

    holds: bool
    exact: bool
    reason: str
    update: Update | None = field(default=None, repr=False)


def decidable(deps: Dependencies) -> bool:
    """Whether the paper's decision applies: class 1, no `not` and no explicit times in rules."""
    points = any(e.point is not None for e in deps.edges)
    heads = any(not c.is_fact and c.head.point is not None for c in rules_of(deps.core))
    plain = not (points or heads or deps.negated)
    return deps.cls is Class.NONRECURSIVE and plain


def forgettable(
    deps: Dependencies,
    history: Iterable[Ground],
    tin: int,
    tout: int,
    tmem: int,
    budget: Budget,
) -> Forgettable:
    """The decision for a class-1 query over a small history."""
    (query,) = deps.queries
    check = _Check(deps, query, list(history), tin, tmem)
    low = deps.input_offsets[query].low
    last = tmem - int(low) if not math.isinf(low) else tout - 1
    unknown = False
    try:
        for unfolded in check.unfolder.all(query):
            budget.spend()
            for tau in check.times(unfolded, tout, last):
                for rest in check.rests(unfolded, tau, budget):
                    update = check.lost(rest, budget)
                    if isinstance(update, Update):
                        reason = "an update shows the difference"
                        return Forgettable(False, True, reason, update)
                    unknown = unknown or update
    except Exhausted:
        return Forgettable(False, False, "the budget ended before it was shown")
    if unknown:
        return Forgettable(False, False, "comparisons leave it open")
    return Forgettable(True, True, "no later answer uses those facts and nothing else")


@dataclass(frozen=True)
class _Rest:
    """What a partial match leaves: the answer and the open atoms, at absolute times."""

    answer: FrozenFact
    open: frozenset[FrozenFact]
    order: Order


class _Check:
    def __init__(
        self, deps: Dependencies, query: str, history: list[Ground], tin: int, tmem: int
    ) -> None:
        self.deps = deps
        self.query = query
        self.tin, self.tmem = tin, tmem
        self.unfolder = Unfolder(deps)
        self.canonical = Canonical(deps)
        self.history: dict[tuple[str, int | None], IndexedRows[Object]] = {}
        self.all = [FrozenFact(f.predicate, objects(f.args), f.time) for f in history]
        self.kept = [f for f in self.all if f.time is None or f.time > tmem]
        for fact in self.all:
            place = (fact.predicate, fact.time)
            self.history.setdefault(place, IndexedRows()).add(fact.args)
        self.seen: set[_Rest] = set()

    def times(self, unfolded: Unfolded, tout: int, last: int) -> Iterable[int]:
        """Output times at which a conjunctive query would use a fact up to tmem."""
        offsets = [f.time for f in unfolded.atoms if f.time is not None]
        if not offsets:
            return ()
        if unfolded.time is not None:
            near = tout <= unfolded.time <= self.tmem - min(offsets)
            return (unfolded.time,) if near else ()
        return range(tout, min(last, self.tmem - min(offsets)) + 1)

    def rests(self, unfolded: Unfolded, tau: int, budget: Budget) -> Iterator[_Rest]:
        """The distinct rests of all matches of the part that lies in the history."""
        atoms = sorted(unfolded.atoms, key=lambda f: (f.time is not None, f.time or 0, str(f)))
        past = [f for f in atoms if f.time is None or f.time + tau <= self.tin]
        later = [f for f in atoms if f not in past]
        for bound in self._matches(past, tau, budget):
            order = Order()
            if unfolded.order.assumptions:
                moved = [
                    (_bind(a, bound), op, _bind(b, bound))
                    for a, op, b in unfolded.order.assumptions
                ]
                closed = Order().assume(*moved)
                if closed is None:
                    continue
                order = closed
            head = tuple(_bind(v, bound) for v in unfolded.head)
            open_ = frozenset(
                FrozenFact(f.predicate, tuple(_bind(v, bound) for v in f.args), (f.time or 0) + tau)
                for f in later
            )
            rest = _Rest(FrozenFact(self.query, head, tau), open_, order)
            if rest not in self.seen:
                self.seen.add(rest)
                yield rest

    def _matches(
        self, atoms: list[FrozenFact], tau: int, budget: Budget
    ) -> Iterator[dict[Symbol, Object]]:
        """The values of symbols under which some atoms are facts of the history."""
        symbols = dict.fromkeys(v for f in atoms for v in f.args if isinstance(v, Symbol))
        order = JoinOrder(Clause(Head(self.query, when=AT_HEAD), tuple(map(_as_premise, atoms))))
        at: Any = tau  # the one value of a binding that is no object
        start = order.start(lambda constant: constant, {}, at)
        values = order.picker([_term(symbol) for symbol in symbols])
        for binding in matches(order, _History(self.history, budget), start, _NoTests()):
            yield dict(zip(symbols, values(binding), strict=True))

    def lost(self, rest: _Rest, budget: Budget) -> Update | bool:
        """An update that shows the loss, False when there is none, True when it stays unknown."""
        stack = [rest.order]
        unknown = False
        while stack:
            budget.spend()
            order = stack.pop()
            derived, open_ = self.canonical.derives([*self.kept, *rest.open], rest.answer, order)
            if derived:
                continue
            if open_ is not None:
                stack.extend(splits(order, *open_))
                continue
            update = self._update(rest, order)
            if isinstance(update, Update):
                return update
            if update is None:
                unknown = True
            else:
                stack.extend(update)
        return unknown

    def _update(self, rest: _Rest, order: Order) -> Update | list[Order] | None:
        """Concrete values for a rest that is lost, or the cases to look at where they run out."""
        symbols = [v for f in (rest.answer, *rest.open) for v in f.args if isinstance(v, Symbol)]
        seen = {v for f in self.all for v in f.args if isinstance(v, Constant)}
        constants = constants_of(self.deps.core) | seen
        try:
            values = order.model(symbols, constants)
        except ValueError:
            return cases(order, symbols, constants)

        def concrete(fact: FrozenFact) -> FrozenFact:
            args = (values[v] if isinstance(v, Symbol) else v.value for v in fact.args)
            return FrozenFact(fact.predicate, objects(args), fact.time)

        answer = concrete(rest.answer)
        facts = sorted(map(concrete, rest.open), key=lambda f: (f.time or 0, str(f)))
        given, _ = self.canonical.derives([*self.all, *facts], answer, Order())
        left, _ = self.canonical.derives([*self.kept, *facts], answer, Order())
        if left or not given:
            return None
        core = self.deps.core
        return Update(tuple(ground(f, core) for f in facts), ground(answer, core))


def _bind(value: Object, bound: dict[Symbol, Object]) -> Object:
    return bound.get(value, value) if isinstance(value, Symbol) else value


@dataclass(frozen=True)
class _History:
    """The rows of a history for the matcher; each one costs a step."""

    history: dict[tuple[str, int | None], IndexedRows[Object]]
    budget: Budget

    def rows(
        self,
        premise: Premise,
        tick: int | AnyTick | None,
        positions: tuple[int, ...],
        key: tuple[Object, ...],
    ) -> Iterator[tuple[Object, ...]]:
        assert not isinstance(tick, AnyTick), "the answer's time is known"
        table = self.history.get((premise.predicate, tick))
        for row in () if table is None else table.matching(positions, key):
            self.budget.spend()
            yield row


def _as_premise(fact: FrozenFact) -> Premise:
    when = RIGID if fact.time is None else Offset(fact.time)
    return Premise(fact.predicate, tuple(map(_term, fact.args)), when)


def _term(value: Object) -> Term:
    return Variable(f"X{value.number}") if isinstance(value, Symbol) else value


class _NoTests:
    """Conjunctive queries have their comparisons in an order."""

    def decides(self, operator: Operator, left: Object, right: Object) -> bool:
        raise AssertionError

    def made(self, calculation: Calculation, terms: Mapping[str, Object]) -> Object | None:
        raise AssertionError
