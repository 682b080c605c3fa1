"""Live facts and forgetting over data: what later answers can use, and what may go.

What a possible answer rests on is marked from the answer down. Where something must be absent,
dropping a fact could also add answers: so the marks go along every rule instance whose positive
premises may hold *if nothing had to be absent* (loosely). Where one of its negated premises is
certain, the instance never fires as long as that one stays, and only that one is marked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import assert_never

import pyarrow as pa

from tidelog.analysis.canonical import Exhausted
from tidelog.analysis.containment import Budget, Ground
from tidelog.analysis.dependencies import Dependencies
from tidelog.analysis.forgetting import Forgettable, Update, decidable, forgettable
from tidelog.analysis.possible import DUE, Open, Possible, PossibleClause, could_match, narrow
from tidelog.data.packed import columns
from tidelog.data.schema import schemas
from tidelog.evaluation.extents import TooLong
from tidelog.evaluation.open_answers import OpenAnswers, as_awaited
from tidelog.evaluation.plan import Unbounded
from tidelog.evaluation.query_over_data import QueryOverData
from tidelog.evaluation.ranges import Range
from tidelog.evaluation.replay import Replays
from tidelog.evaluation.timeline import history
from tidelog.language.program import Constant, Value, Variable
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
    Sign,
    When,
)
from tidelog.logic.core import Core, Predicate, Role, rules_of

# Output times that are listed one by one when explicit times matter.
MOST_DUE = 1_000
# Output times at which an update is looked for that shows what forgetting would change.
MOST_TIMES = 5


class LiveFacts(QueryOverData):
    """The facts that a query can still need."""

    def live(self, tin: int, tout: int) -> dict[str, str]:
        """Facts up to tin that a possible answer at tout or later can use: a select per input.

        The selects give the arguments and the time. Rigid facts are always live and not listed.
        """
        if self.deps.aggregate is not None:
            return self._in_reach(tin, tout)
        everything = {p.base: self._everything(p, tin) for p in self._inputs(self.deps)}
        # Where any fact may matter at any later time, all of them are kept.
        due = None if self.blocking else self._due(tin, tout)
        if due is None:
            return everything
        try:
            return self._used(tin, *due)
        except (Unbounded, TooLong):
            return everything

    def _in_reach(self, tin: int, tout: int) -> dict[str, str]:
        """With aggregates, all facts that rules can look at: any of them may be measured."""
        low = self.deps.input_offsets[self.query].low
        first = None if math.isinf(low) or self.deps.pinned else tout + int(low)
        return {p.base: self._everything(p, tin, first) for p in self._inputs(self.deps)}

    def _used(
        self, tin: int, due: list[Clause], bounded: bool, until: int | None
    ) -> dict[str, str]:
        made = self.possible
        deps = made.deps
        inputs = self._inputs(deps)
        if not inputs:
            return {}
        whole = made.core(tin, until)
        marks = _Marks.of(made, whole)
        used = marks.used
        # Where every possible fact of a recursive predicate counts as used, none need be derived.
        settled = frozenset() if bounded else deps.recursive
        clauses = [*marks.seeds(everything=not bounded), *marks.users(settled)]
        heads = {clause.head.predicate for clause in clauses}
        predicates = {p.name: p for p in used.values() if p.name in heads}
        predicates[DUE] = Predicate(DUE, True, (), Role.DUE, DUE)
        core = Core.of(
            whole.program,
            {**whole.predicates, **marks.loose, **predicates},
            (*rules_of(whole), *marks.loosened, *due, *clauses),
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

    def _inputs(self, deps: Dependencies) -> list[Predicate]:
        """The temporal inputs; where a clock started is no fact of theirs, and never forgotten."""
        clocks = deps.core.program.clocks
        return [p for p in deps.core.inputs if p.temporal and p.base not in clocks]

    # Forgetting

    def forgettable(self, tin: int, tout: int, tmem: int, budget: Budget) -> Forgettable:
        """Whether everything up to tmem may be forgotten once all before tout is answered."""
        used = self.live(tin, tout)
        needed = [
            row
            for select in used.values()
            for row in self.engine.all(f"SELECT * FROM ({select}) AS l WHERE t <= {tmem} LIMIT 5")
        ]
        if not needed:
            return Forgettable(True, True, "no possible answer uses those facts")
        if self.deps.aggregate is not None:
            return Forgettable(False, False, "an aggregate below may gather those facts")
        if self.blocking:
            return Forgettable(False, False, f"{self.query} is blocking: any fact may matter later")
        if self.deps.negated:
            values = dict.fromkeys(value for row in needed for value in row[:-1])
            update = self._telling(tin, tout, tmem, values, budget)
            if update is not None:
                return Forgettable(False, True, "an update shows the difference", update)
        if not decidable(self.deps):
            return Forgettable(False, False, "a possible answer uses those facts")
        return forgettable(self.deps, self._history(tin, tout), tin, tout, tmem, budget)

    def _telling(
        self, tin: int, tout: int, tmem: int, values: Iterable[Value], budget: Budget
    ) -> Update | None:
        """An update after which the answers with and without the facts up to tmem differ.

        Some values of those facts are given, which may come again.
        """
        low = self.deps.input_offsets[self.query].low
        last = tout + MOST_TIMES - 1 if math.isinf(low) else tmem - int(low)
        answers = OpenAnswers(self.engine, self.query)
        whole = Replays(self.engine, self.deps, tin)
        less = Replays(self.engine, self.deps, tin, kept_after=tmem)
        try:
            for at in range(tout, min(last, tout + MOST_TIMES - 1) + 1):
                for facts in answers.updates(tin, at, tmem, values):
                    budget.spend()
                    rows, left = whole.answers(facts, at), less.answers(facts, at)
                    if rows != left:
                        row = min(rows ^ left, key=str)
                        comes = tuple(map(as_awaited, facts))
                        answer = as_awaited(Ground(self.query, row, at))
                        return Update(comes, answer, lost=row in rows)
        except Exhausted:
            pass
        return None

    def _history(self, tin: int, tout: int) -> list[Ground]:
        """The facts up to tin that answers from tout on can look at, and all rigid ones."""
        low = self.deps.input_offsets[self.query].low
        first = -math.inf if math.isinf(low) else tout + int(low)
        facts = history(self.engine, self.deps.core, tin, first)
        return [Ground(name, row, time) for name, rows in facts.items() for row, time in rows]

    def _everything(self, predicate: Predicate, tin: int, first: int | None = None) -> str:
        names = ", ".join([*columns(len(predicate.types)), "t"])
        view = self.engine.loaded[predicate.base].view
        there = f"t <= {tin}" if first is None else f"t BETWEEN {first} AND {tin}"
        return f"SELECT DISTINCT {names} FROM {view} WHERE {there} ORDER BY t, {names}"

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


@dataclass(frozen=True)
class _Marks:
    """The rules that mark what possible answers rest on."""

    made: Possible
    used: dict[str, Predicate]
    loose: dict[str, Predicate]  # by name; empty where nothing is negated
    names: dict[str, str]  # of a possible predicate, the one that says what may hold loosely

    @staticmethod
    def of(made: Possible, whole: Core) -> _Marks:
        predicates = dict(whole.predicates)
        loose = {}
        names = {}
        if made.deps.negated:
            roles = ((name, predicate.role) for name, predicate in whole.predicates.items())
            for name in [name for name, role in roles if role is Role.POSSIBLE]:
                predicate = predicates[name].made(Role.LOOSE)
                loose[predicate.name] = predicate
                names[name] = predicate.name
        predicates |= loose
        used = {name: predicate.made(Role.USED) for name, predicate in predicates.items()}
        return _Marks(made, used, loose, names)

    @property
    def loosened(self) -> list[Clause]:
        """The possible clauses as if nothing had to be absent."""
        if not self.names:
            return []
        clauses = (rule.clause for rule in self.made.clauses)
        return [
            replace(
                clause,
                head=replace(clause.head, predicate=self.names[clause.head.predicate]),
                premises=tuple(map(self._loosely, clause.positive)),
                written=None,
            )
            for clause in clauses
        ]

    def _loosely(self, premise: Premise) -> Premise:
        return replace(premise, predicate=self.names.get(premise.predicate, premise.predicate))

    def seeds(self, *, everything: bool) -> Iterator[Clause]:
        """Possible answers at open output times are used; with `everything`, recursion always is.

        A fact reaches an answer over recursion only through a recursive predicate near it, whatever
        the answer's time.
        """
        made = self.made
        for name, patterns in made.patterns.items():
            predicate = made.deps.core.predicates[name]
            if predicate.input or not predicate.temporal:
                continue
            for pattern in patterns:
                args = tuple(Variable(f"X{i}") for i, label in enumerate(pattern) if label is None)
                holds = self._loosely(Premise(made.name(name, pattern), args, AT_HEAD))
                head = Head(self.used[holds.predicate].name, args, AT_HEAD)
                if name == made.query:
                    yield Clause(head, (holds, Premise(DUE, when=AT_HEAD)))
                if everything and name in made.deps.recursive:
                    yield Clause(head, (holds,))

    def users(self, settled: frozenset[str]) -> Iterator[Clause]:
        """A premise of a possible match is used when the head is."""
        for rule in self.made.clauses:
            clause = rule.clause
            head = self._loosely(Premise(clause.head.predicate, clause.head.args, clause.head.when))
            used = replace(head, predicate=self.used[head.predicate].name)
            positive = tuple(map(self._loosely, clause.positive))
            meanings = (
                meaning
                for premise, meaning in zip(clause.premises, rule.body, strict=True)
                if premise.sign is Sign.POSITIVE
            )
            # No negated premise is certain: the instance may fire.
            body = (used, *positive, *clause.negative)
            for premise, meaning in zip(positive, meanings, strict=True):
                if not isinstance(meaning, Open) and meaning.predicate not in settled:
                    yield self._mark(rule, premise, body)
            for absent in (*clause.negative, *rule.unchecked):
                if not absent.temporal or absent.predicate in settled:
                    continue
                there = _renamed(absent, clause)
                for premise in self._ways(there):
                    yield self._mark(rule, premise, (*body, premise))
                    if absent in clause.negative:
                        yield self._mark(rule, premise, (used, *positive, premise, there))

    def _ways(self, premise: Premise) -> Iterator[Premise]:
        """What may hold loosely that a premise asks for, under every pattern."""
        if self.made.deps.core.predicates[premise.predicate].input:
            yield premise
            return
        bound = {v.name for v in premise.variables}
        for pattern in self.made.patterns[premise.predicate]:
            if could_match(premise, pattern, bound) is not None:
                yield self._loosely(narrow(premise, pattern))

    def _mark(self, rule: PossibleClause, premise: Premise, body: tuple[Premise, ...]) -> Clause:
        return Clause(
            Head(self.used[premise.predicate].name, premise.args, _as_head(premise.when)),
            tuple(replace(p, when=_told_from(premise.when, p.when)) for p in body),
            rule.clause.tests,
            rule.origin.origin,
        )


def _renamed(absent: Premise, clause: Clause) -> Premise:
    """A negated premise as one that holds; what stood for any value has a name of its own."""
    args = tuple(
        t if isinstance(t, Constant) or t.name in clause.bound else Variable(f"[{t.name}]")
        for t in absent.args
    )
    return replace(absent, args=args, sign=Sign.POSITIVE)


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
