"""Live facts and forgetting over data: what later answers can use, and what may go."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import pyarrow as pa

from tidelog.analysis.containment import Budget, Ground, explicit_times
from tidelog.analysis.dependencies import Dependencies
from tidelog.analysis.forgetting import Forgettable, decidable, forgettable
from tidelog.analysis.possible import DUE, Open, Possible, possible
from tidelog.data.packed import columns
from tidelog.data.schema import schemas
from tidelog.evaluation.plan import Unbounded
from tidelog.evaluation.query_over_data import QueryOverData
from tidelog.evaluation.ranges import Range
from tidelog.evaluation.timeline import history
from tidelog.language.program import Atom, Rule, TimeOffset, TimePoint, Variable
from tidelog.logic.normalise import Core, Predicate

# Output times that are listed one by one when explicit times matter.
MOST_DUE = 1_000

_T = Variable("T")


class LiveFacts(QueryOverData):
    """The facts that a query can still need."""

    def live(self, tin: int, tout: int) -> dict[str, str]:
        """Facts up to tin that a possible answer at tout or later can use: a select per input.

        The selects give the arguments and the time. Rigid facts are always live and not listed.
        """
        deps = self.deps
        everything = {p.source: self._everything(p, tin) for p in deps.core.inputs if p.temporal}
        # Where any fact may matter at any later time, all of them are kept.
        due = None if self.blocking else self._due(deps, tin, tout)
        if due is None:
            return everything
        try:
            return self._used(deps, tin, *due)
        except Unbounded:
            return everything

    def _used(
        self, deps: Dependencies, tin: int, due: list[Rule], bounded: bool, until: int | None
    ) -> dict[str, str]:
        made = possible(deps)
        deps = made.deps
        seeds = list(_seeds(made, deps, everything=not bounded))
        # Where every possible fact of a recursive predicate counts as used, none need be derived.
        settled = frozenset() if bounded else deps.recursive
        rules = [*due, *seeds, *_used(made, settled)]
        predicates = _used_predicates(made, rules)
        whole = made.core(tin, until)
        whole = Core(whole.program, (*whole.rules, *rules), {**whole.predicates, **predicates})
        if not any(p.temporal for p in deps.core.inputs):
            return {}
        asked = {
            p.name: f"{p.name}!"
            for p in deps.core.inputs
            if p.temporal and f"{p.name}!" in predicates
        }
        low = min(
            (self.engine.loaded[p.source].range.low for p in deps.core.inputs if p.temporal),
            default=math.inf,
        )
        plan = self.engine.plan_core(whole, asked.values(), Range(low, tin), tin)
        writer = self.engine.evaluate(plan)
        return {whole.predicates[p].source: writer.rows(name) for p, name in asked.items()}

    def table(self, name: str, select: str) -> pa.Table:
        """The facts a select of `live` gives, under the names of the input's columns."""
        schema = schemas(self.engine.typed)[name]
        return self.engine.arrow(select).rename_columns(list(schema.names))

    # Forgetting

    def forgettable(self, tin: int, tout: int, tmem: int, budget: Budget) -> Forgettable:
        """Whether everything up to tmem may be forgotten once all before tout is answered."""
        deps = self.deps
        used = self.live(tin, tout)
        needed = any(
            self.engine.one(f"SELECT count(*) FROM ({select}) AS l WHERE t <= {tmem}")[0]
            for select in used.values()
        )
        if not needed:
            return Forgettable(True, True, "no possible answer uses those facts")
        if self.blocking:
            return Forgettable(False, False, f"{self.query} is blocking: any fact may matter later")
        if not decidable(deps):
            return Forgettable(False, False, "a possible answer uses those facts")
        return forgettable(deps, self._history(deps, tin, tout), tin, tout, tmem, budget)

    def _history(self, deps: Dependencies, tin: int, tout: int) -> list[Ground]:
        """The facts up to tin that answers from tout on can look at, and all rigid ones."""
        low = deps.input_offsets[self.query].low
        first = -math.inf if math.isinf(low) else tout + int(low)
        facts = history(self.engine, deps.core, tin, first)
        return [Ground(name, row, time) for name, rows in facts.items() for row, time in rows]

    def _everything(self, predicate: Predicate, tin: int) -> str:
        names = ", ".join([*columns(len(predicate.types)), "t"])
        view = self.engine.loaded[predicate.source].view
        return f"SELECT DISTINCT {names} FROM {view} WHERE t <= {tin} ORDER BY t, {names}"

    def _due(
        self, deps: Dependencies, tin: int, tout: int
    ) -> tuple[list[Rule], bool, int | None] | None:
        """Rules for the open output times; whether a fact's reach is bounded; until when later
        input matters (None: for ever). None when there are too many times to look at.
        """
        low = deps.input_offsets[self.query].low
        bounded = low > -math.inf
        if not deps.pinned:
            first = Rule(Atom(DUE, (), TimePoint(tout)))
            on = Rule(Atom(DUE, (), TimeOffset(_T, 1)), (Atom(DUE, (), TimeOffset(_T)),))
            return [first, on], bounded, None
        # One output time beyond the reach of every offset stands for all later ones.
        reach = _reach(deps)
        last = max(tout, tin, *explicit_times(deps.core)) + reach
        if last - tout > MOST_DUE:
            return None
        due = [Rule(Atom(DUE, (), TimePoint(t))) for t in range(tout, last + 1)]
        return due, bounded, last + reach


def _reach(deps: Dependencies) -> int:
    """Further than any path without recursion moves."""
    return sum(abs(edge.offset or 0) for edge in deps.edges) + 1


def _seeds(made: Possible, deps: Dependencies, *, everything: bool) -> Iterator[Rule]:
    """Possible answers at open output times are used; with `everything`, recursion always is.

    A fact reaches an answer over recursion only through a recursive predicate near it, whatever
    the answer's time.
    """
    for name, patterns in made.patterns.items():
        predicate = deps.core.predicates[name]
        if predicate.input or not predicate.temporal:
            continue
        for pattern in patterns:
            spec = made.name(name, pattern)
            args = tuple(Variable(f"X{i}") for i, label in enumerate(pattern) if label is None)
            at = TimeOffset(_T)
            if name == made.query:
                yield Rule(Atom(f"{spec}!", args, at), (Atom(spec, args, at), Atom(DUE, (), at)))
            if everything and name in deps.recursive:
                yield Rule(Atom(f"{spec}!", args, at), (Atom(spec, args, at),))


def _used(made: Possible, settled: frozenset[str]) -> Iterator[Rule]:
    """A body atom of a possible match is used when the head is."""
    for one in made.rules:
        head = one.rule.head
        used = Atom(f"{head.predicate}!", head.args, head.time)
        for atom, meaning in zip(one.rule.atoms, one.body, strict=True):
            if not isinstance(meaning, Open) and meaning.predicate not in settled:
                yield Rule(
                    Atom(f"{atom.predicate}!", atom.args, atom.time),
                    (used, *one.rule.body),
                    one.origin.origin,
                )


def _used_predicates(made: Possible, rules: Iterable[Rule]) -> dict[str, Predicate]:
    known = made.core(0).predicates
    predicates = {DUE: Predicate(DUE, True, (), False, DUE)}
    for rule in rules:
        name = rule.head.predicate
        if name.endswith("!"):
            base = known[name[:-1]]
            predicates[name] = Predicate(name, base.temporal, base.types, False, base.source)
    return predicates
