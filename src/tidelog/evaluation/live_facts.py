"""Live facts and forgetting over data: what later answers can use, and what may go."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import assert_never

import pyarrow as pa

from tidelog.analysis.containment import Budget, Ground
from tidelog.analysis.dependencies import Dependencies
from tidelog.analysis.forgetting import Forgettable, decidable, forgettable
from tidelog.analysis.possible import DUE, Open, Possible
from tidelog.data.packed import columns
from tidelog.data.schema import schemas
from tidelog.evaluation.plan import Unbounded
from tidelog.evaluation.query_over_data import QueryOverData
from tidelog.evaluation.ranges import Range
from tidelog.evaluation.recursion import TooLong
from tidelog.evaluation.timeline import history
from tidelog.language.program import Variable
from tidelog.logic.clause import (
    AT_HEAD,
    Clause,
    FixedTick,
    Free,
    Head,
    HeadTime,
    Offset,
    Premise,
    Rigid,
    When,
)
from tidelog.logic.core import Core, Predicate, Role

# Output times that are listed one by one when explicit times matter.
MOST_DUE = 1_000


class LiveFacts(QueryOverData):
    """The facts that a query can still need."""

    def live(self, tin: int, tout: int) -> dict[str, str]:
        """Facts up to tin that a possible answer at tout or later can use: a select per input.

        The selects give the arguments and the time. Rigid facts are always live and not listed.
        """
        inputs = [p for p in self.deps.core.inputs if p.temporal]
        everything = {p.base: self._everything(p, tin) for p in inputs}
        # Where any fact may matter at any later time, all of them are kept.
        due = None if self.blocking else self._due(tin, tout)
        if due is None:
            return everything
        try:
            return self._used(tin, *due)
        except (Unbounded, TooLong):
            return everything

    def _used(
        self, tin: int, due: list[Clause], bounded: bool, until: int | None
    ) -> dict[str, str]:
        made = self.possible
        deps = made.deps
        inputs = [p for p in deps.core.inputs if p.temporal]
        if not inputs:
            return {}
        whole = made.core(tin, until)
        used = {name: predicate.made(Role.USED) for name, predicate in whole.predicates.items()}
        # Where every possible fact of a recursive predicate counts as used, none need be derived.
        settled = frozenset() if bounded else deps.recursive
        clauses = [*_seeds(made, used, everything=not bounded), *_users(made, used, settled)]
        heads = {clause.head.predicate for clause in clauses}
        predicates = {p.name: p for p in used.values() if p.name in heads}
        predicates[DUE] = Predicate(DUE, True, (), Role.DUE, DUE)
        core = Core(
            whole.program,
            (*whole.clauses, *due, *clauses),
            {**whole.predicates, **predicates},
        )
        asked = {p.base: used[p.name].name for p in inputs if used[p.name].name in heads}
        low = min(self.engine.loaded[p.base].range.low for p in inputs)
        plan = self.engine.plan_core(core, asked.values(), Range(low, tin), tin)
        writer = self.engine.evaluate(plan)
        return {base: writer.rows(name) for base, name in asked.items()}

    def table(self, name: str, select: str) -> pa.Table:
        """The facts a select of `live` gives, under the names of the input's columns."""
        schema = schemas(self.engine.typed)[name]
        return self.engine.arrow(select).rename_columns(list(schema.names))

    # Forgetting

    def forgettable(self, tin: int, tout: int, tmem: int, budget: Budget) -> Forgettable:
        """Whether everything up to tmem may be forgotten once all before tout is answered."""
        used = self.live(tin, tout)
        needed = any(
            self.engine.one(f"SELECT count(*) FROM ({select}) AS l WHERE t <= {tmem}")[0]
            for select in used.values()
        )
        if not needed:
            return Forgettable(True, True, "no possible answer uses those facts")
        if self.blocking:
            return Forgettable(False, False, f"{self.query} is blocking: any fact may matter later")
        if not decidable(self.deps):
            return Forgettable(False, False, "a possible answer uses those facts")
        return forgettable(self.deps, self._history(tin, tout), tin, tout, tmem, budget)

    def _history(self, tin: int, tout: int) -> list[Ground]:
        """The facts up to tin that answers from tout on can look at, and all rigid ones."""
        low = self.deps.input_offsets[self.query].low
        first = -math.inf if math.isinf(low) else tout + int(low)
        facts = history(self.engine, self.deps.core, tin, first)
        return [Ground(name, row, time) for name, rows in facts.items() for row, time in rows]

    def _everything(self, predicate: Predicate, tin: int) -> str:
        names = ", ".join([*columns(len(predicate.types)), "t"])
        view = self.engine.loaded[predicate.base].view
        return f"SELECT DISTINCT {names} FROM {view} WHERE t <= {tin} ORDER BY t, {names}"

    def _due(self, tin: int, tout: int) -> tuple[list[Clause], bool, int | None] | None:
        """Clauses for the open output times; whether a fact's reach is bounded; until when later
        input matters (None: for ever). None when there are too many times to look at.
        """
        deps = self.deps
        bounded = deps.input_offsets[self.query].low > -math.inf
        if not deps.pinned:
            first = Clause(Head(DUE, when=FixedTick(tout)))
            on = Clause(Head(DUE, when=AT_HEAD), (Premise(DUE, when=Offset(-1)),))
            return [first, on], bounded, None
        # One output time beyond the reach of every offset stands for all later ones.
        reach = _reach(deps)
        last = max(tout, tin, *deps.core.fixed_ticks) + reach
        if last - tout > MOST_DUE:
            return None
        due = [Clause(Head(DUE, when=FixedTick(t))) for t in range(tout, last + 1)]
        return due, bounded, last + reach


def _reach(deps: Dependencies) -> int:
    """Further than any path without recursion moves."""
    return sum(abs(edge.offset or 0) for edge in deps.edges) + 1


def _seeds(made: Possible, used: Mapping[str, Predicate], *, everything: bool) -> Iterator[Clause]:
    """Possible answers at open output times are used; with `everything`, recursion always is.

    A fact reaches an answer over recursion only through a recursive predicate near it, whatever
    the answer's time.
    """
    for name, patterns in made.patterns.items():
        predicate = made.deps.core.predicates[name]
        if predicate.input or not predicate.temporal:
            continue
        for pattern in patterns:
            possible_name = made.name(name, pattern)
            args = tuple(Variable(f"X{i}") for i, label in enumerate(pattern) if label is None)
            head = Head(used[possible_name].name, args, AT_HEAD)
            holds = Premise(possible_name, args, AT_HEAD)
            if name == made.query:
                yield Clause(head, (holds, Premise(DUE, when=AT_HEAD)))
            if everything and name in made.deps.recursive:
                yield Clause(head, (holds,))


def _users(
    made: Possible, used: Mapping[str, Predicate], settled: frozenset[str]
) -> Iterator[Clause]:
    """A premise of a possible match is used when the head is."""
    for rule in made.clauses:
        clause = rule.clause
        head = Premise(used[clause.head.predicate].name, clause.head.args, clause.head.when)
        for premise, meaning in zip(clause.premises, rule.body, strict=True):
            if isinstance(meaning, Open) or meaning.predicate in settled:
                continue
            yield Clause(
                Head(used[premise.predicate].name, premise.args, _as_head(premise.when)),
                tuple(
                    replace(p, when=_told_from(premise.when, p.when))
                    for p in (head, *clause.premises)
                ),
                clause.tests,
                rule.origin.origin,
            )


# A variable for the time of a clause's head, where another head takes its place.
_FORMER = "[head]"


def _as_head(when: When) -> HeadTime:
    """The time of a premise that becomes the head."""
    match when:
        case Offset() | Free():
            return AT_HEAD
        case FixedTick() | Rigid():
            return when
        case _:
            assert_never(when)


def _told_from(new: When, when: When) -> When:
    """A time of a clause, told from that of the premise which becomes the head."""
    match when:
        case Offset(ticks):
            return Offset(ticks - new.ticks) if isinstance(new, Offset) else Free(_FORMER, ticks)
        case Free(variable, ticks):
            if isinstance(new, Free) and new.variable == variable:
                return Offset(ticks - new.ticks)
            return when
        case FixedTick() | Rigid():
            return when
        case _:
            assert_never(when)
