"""Online with aggregates: these are made offline, for the rest of the rules.

Once the window of an aggregate has arrived, what it comes to is a fact for the rest, which waits
for it as for any other fact. Rules that cannot be taken apart like that are answered as offline.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.analysis.counted import counted
from tidelog.analysis.definitive import Pending
from tidelog.analysis.dependencies import Class, Dependencies
from tidelog.analysis.passes import Passes
from tidelog.analysis.settled import Settled
from tidelog.evaluation.goal_directed.model import with_aggregates_as_written
from tidelog.evaluation.plan import PlanStep, tables_of, tables_read
from tidelog.evaluation.steps import StepRunner
from tidelog.language.program import Program, Row
from tidelog.streaming.algorithm import AnswerRows, FactsByTime, RowsByTime
from tidelog.streaming.cell_graph import fits
from tidelog.streaming.columns import between
from tidelog.streaming.joins import at
from tidelog.streaming.offline import OfflineAlgorithm
from tidelog.streaming.online import OnlineAlgorithm
from tidelog.streaming.schedule import at_once
from tidelog.streaming.snapshot import State


def in_two_parts(deps: Dependencies) -> Settled | None:
    """Rules with aggregates in two parts; None where they cannot be taken apart.

    That is where an aggregate is not final so many ticks after its own, where it hangs on earlier
    facts of its own, and where the rest looks too far ahead.
    """
    parts = Settled(counted(deps))
    splits = deps.cls is not Class.BLOCKING and parts.splits and fits(parts.rest)
    return parts if splits else None


def by_schedule(needed: Passes) -> bool:
    """Whether the answers of rules with aggregates come by the schedule, online too: where nothing
    is ever pending, and where the rules cannot be taken apart.
    """
    deps = needed.planned
    if deps.aggregate is None or deps.cls is Class.BLOCKING:
        return False
    return at_once(deps) or in_two_parts(deps) is None


class AggregatesFirst:
    """Queries of class 1 or 2 with aggregates, over facts that arrive tick by tick."""

    rest: OnlineAlgorithm

    def __init__(
        self,
        program: Program,
        settled: Settled,
        rigid: Mapping[str, set[Row]],
        *,
        eager: bool = False,
    ) -> None:
        self.settled = settled
        self.below = OfflineAlgorithm(program, settled.below, rigid, delays=settled.waits)
        known = self._without_time()
        self.rest = OnlineAlgorithm(settled.rest, {**rigid, **known}, eager=eager)

    def _without_time(self) -> dict[str, set[Row]]:
        """What aggregates without a time come to."""
        names = [name for name in self.settled.names if name not in self.settled.waits]
        if not names:
            return {}
        below, plan = self.below, self.below.schedule.plan
        wanted = {plan.tables[name] for name in names}
        steps: list[PlanStep] = []
        for step in reversed(plan.steps):
            if not wanted.isdisjoint(tables_of(step)):
                steps.insert(0, step)
                wanted.update(tables_read(step))
        StepRunner(below.database).run(plan, steps, {}, below.inputs)
        return {name: set(below.database.all(f"FROM {plan.tables[name]}")) for name in names}

    def begin(self, earliest: int) -> None:
        self.below.begin(earliest)
        self.rest.begin(earliest)

    def advance(self, tin: int, facts: FactsByTime, low: int) -> AnswerRows:
        below = {name: times for name, times in facts.items() if name in self.below.inputs}
        new = self.below.advance(tin, below, self._first)
        return self.rest.advance(tin, self._with(facts, new), low)

    def close(self, last: int, low: int) -> AnswerRows:
        """No more input; what would have come after the last tick is nothing."""
        end = self.rest.network.graph.schedule.last(last)
        new = self._with({}, self.below.close(end, self._first))
        here = {name: {t: r for t, r in times.items() if t <= end} for name, times in new.items()}
        answers = self.rest.advance(end, here, low)
        for query, rows in self.rest.close(last, low).items():
            answers[query] = answers[query] | rows
        temporal = self.rest.temporal
        return {
            q: between(rows, low - 1, last) if q in temporal else rows
            for q, rows in answers.items()
        }

    @property
    def _first(self) -> int:
        """The first tick at which an aggregate may come to something."""
        assert self.below.start is not None, "the stream has begun"
        return self.below.start - max(self.settled.waits.values(), default=0)

    def _with(self, facts: FactsByTime, new: AnswerRows) -> dict[str, RowsByTime]:
        """The facts that the rest of the rules looks at, aggregates when they are final."""
        given = {name: dict(times) for name, times in facts.items() if name in self.rest.inputs}
        for name, wait in self.settled.waits.items():
            times: dict[int, set[Row]] = {}
            for row in new[name]:
                times.setdefault(at(row) + wait, set()).add(row[:-1])
            given[name] = dict(times)
        return given

    def finals(self) -> dict[str, int]:
        return self.rest.finals()

    @property
    def history(self) -> int:
        """How many facts are kept, for aggregates and for the rest."""
        return self.below.history + self.rest.history

    def facts(self) -> dict[str, RowsByTime]:
        kept = self.below.facts()
        for name, times in self.rest.facts().items():
            if name not in self.settled.waits:
                kept = {**kept, name: {**kept.get(name, {}), **times}}
        return kept

    def derived(self) -> dict[str, RowsByTime]:
        """What is kept of derived predicates; aggregates that the rest still looks at included."""
        waits = self.settled.waits
        waiting = {
            name: {time - waits[name]: rows for time, rows in times.items()}
            for name, times in self.rest.facts().items()
            if name in waits
        }
        return {**self.below.derived(), **self.rest.derived(), **waiting}

    def pending(self, most: int) -> list[Pending]:
        return [with_aggregates_as_written(self.settled, p) for p in self.rest.pending(most)]

    def state(self) -> State:
        return {"aggregates": self.below.state(), "rest": self.rest.state()}

    def resume(self, state: State) -> None:
        self.below.resume(state["aggregates"])
        self.rest.resume(state["rest"])


__all__ = ["AggregatesFirst", "by_schedule", "in_two_parts"]
