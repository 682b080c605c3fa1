"""The online algorithm (Algorithm 1): answer as soon as can be proved, keep only what can matter.

At every tick each query's output times that have become definitive are answered, in order, and
every fact that no possible later answer rests on is forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import cached_property
from typing import TypeAlias

from tidelog.analysis.definitive import Pending
from tidelog.analysis.dependencies import Dependencies
from tidelog.analysis.possible import all_args, possible
from tidelog.evaluation.possible_derivations import PossibleDerivations
from tidelog.language.program import Row, Value
from tidelog.logic.core import clause_of_a_tick, rules_of
from tidelog.streaming.algorithm import AnswerRows, FactsByTime, RowsByTime
from tidelog.streaming.cells import NO_TIME
from tidelog.streaming.columns import with_time
from tidelog.streaming.joins import IndexedSlice, chosen
from tidelog.streaming.network import Network
from tidelog.streaming.pending import CellFacts
from tidelog.streaming.snapshot import State, as_facts, as_rows, plain, plain_facts
from tidelog.streaming.tracked import tracked_windows

# Of a query and what may come to be an answer, None for arguments that may be any value.
Wanted: TypeAlias = Callable[[str, tuple[Value | None, ...]], bool]


def _every(query: str, args: tuple[Value | None, ...]) -> bool:
    return True


class OnlineAlgorithm:
    """Queries of class 1 or 2 over facts that arrive tick by tick.

    Time points are final once no `wanted` answer may still come. A stream that has the facts of
    some keys only wants no answers of the others: it cannot know when these are final.
    """

    def __init__(
        self,
        deps: Dependencies,
        rigid: Mapping[str, set[Row]],
        *,
        eager: bool = False,
        wanted: Wanted = _every,
    ) -> None:
        self.eager, self.wanted = eager, wanted
        # With eager emission, answers given at times that are not final yet.
        self.given: dict[tuple[str, int | None], Set[Row]] = {}
        self.queries = deps.queries
        self.absences = bool(deps.negated)
        self.deps = deps
        made, tracked = tracked_windows(deps)
        self.network = Network(made, self.queries, rigid, tracked)
        self.due = self.network.liveness.due  # infinite for a rigid query once it is answered
        core = made.deps.core
        self.inputs = tuple(p.name for p in core.inputs if p.temporal)
        clauses = [p.clause for p in made.clauses]
        clauses += [clause for clause in rules_of(core) if clause.negative]
        clauses += [clause_of_a_tick(name, window) for name, window in core.windows.items()]
        self.chosen = {name: chosen(clauses, name) for name in self.inputs}
        self.temporal = [q for q in self.queries if core.predicates[q].temporal]
        self.rigid = [q for q in self.queries if q not in self.temporal]
        self.specs = {
            q: [made.name(q, p) for p in made.patterns[q] if not made.ground(p)]
            for q in self.queries
        }
        grounds = {q: (None,) * len(core.predicates[q].types) for q in self.queries}
        self.ground = {q: made.name(q, pattern) for q, pattern in grounds.items()}
        self.patterns = {
            made.name(q, p): p for q in self.queries for p in (grounds[q], *made.patterns[q])
        }

    def begin(self, earliest: int) -> None:
        """No fact lies before a tick."""
        self.network.begin(self.network.graph.schedule.first(earliest))

    def advance(self, tin: int, facts: FactsByTime, low: int) -> AnswerRows:
        """Everything up to tin has arrived; answers from `low` on are wanted."""
        network = self.network
        useful: dict[str, RowsByTime] = {}
        for name, times in facts.items():
            for time, rows in times.items():
                chosen_rows = self.chosen[name](rows)
                if chosen_rows:
                    useful.setdefault(name, {})[time] = chosen_rows
        answers: AnswerRows = {q: set() for q in self.queries}
        # What is carried on is carried tick by tick.
        arriving = sorted({t for times in useful.values() for t in times}, reverse=True)
        while network.tin < tin:
            before, to, new = network.tin, tin, useful
            if network.graph.moving:
                if before < tin - 1:
                    while arriving and arriving[-1] <= before:
                        arriving.pop()
                    to = network.next_event(arriving[-1] if arriving else tin)
                new = {n: {to: times[to]} for n, times in useful.items() if to in times}
            network.advance(to, new)
            for query in self.temporal:
                self.due[query] = max(self.due[query], min(low, to + 1))
                if self.eager:
                    self._give_early(query, low, int(before), to, answers)
                self._emit(query, low, to, answers)
            for query in self.rigid:
                self._emit_rigid(query, answers)
            network.liveness.forget()
        return answers

    def close(self, last: int, low: int) -> AnswerRows:
        """No more input: what is certain once all absence is final is all there is."""
        answers: AnswerRows = {q: set() for q in self.queries}
        network = self.network
        if self.absences:
            end = network.graph.schedule.last(last)
            while network.tin < end:
                network.advance(network.next_event(end) if network.graph.moving else end, {})
        for query in self.temporal:
            first = max(low, int(self.due[query]))
            for time in self._times(query, first, last):
                self._give(query, time, answers)
            self.due[query] = max(self.due[query], last + 1)
        for query in self.rigid:
            self._emit_rigid(query, answers, closed=True)
        return answers

    @property
    def history(self) -> int:
        """How many facts are kept: inputs, and what recursion carries on."""
        return self.network.model.count

    def facts(self) -> dict[str, RowsByTime]:
        """The input facts that are live."""
        return {name: self.network.model.kept(name) for name in self.inputs}

    def derived(self) -> dict[str, RowsByTime]:
        """The derived facts that are carried on."""
        return self.network.model.carried()

    def finals(self) -> dict[str, int]:
        """The time up to which each query is answered."""
        return {query: int(self.due[query]) - 1 for query in self.temporal}

    # Going on from what was kept

    def go_on(
        self,
        start: int,
        tin: int,
        due: Mapping[str, int],
        answered: Iterable[str],
        facts: Mapping[str, RowsByTime],
        carried: Mapping[str, RowsByTime],
    ) -> None:
        """Go on from what was kept at tin; with eager emission `given` is set before."""
        self.due.update(due)
        self.due.update(dict.fromkeys(answered, math.inf))
        self.network.resume(start, tin, facts, carried)

    def state(self) -> State:
        """Everything needed to go on, as plain data."""
        return {
            "tin": self.network.tin,
            "start": self.network.start,
            "due": {q: None if math.isinf(d) else d for q, d in self.due.items()},
            "answered": [q for q in self.rigid if self.due[q] == math.inf],
            "given": [[*key, plain(rows)] for key, rows in self.given.items()],
            "facts": plain_facts(self.facts()),
            "carried": plain_facts(self.derived()),
        }

    def resume(self, state: State) -> None:
        self.given = {(query, time): as_rows(rows) for query, time, rows in state["given"]}
        due = {query: tick for query, tick in state["due"].items() if tick is not None}
        facts, carried = as_facts(state["facts"]), as_facts(state["carried"])
        self.go_on(state["start"], state["tin"], due, state["answered"], facts, carried)

    # What may still come

    def pending(self, most: int) -> list[Pending]:
        """Answers that may still come at times up to tin, with what each waits for."""
        tin = int(self.network.tin)
        waiting: list[Pending] = []
        for query in self.temporal:
            due = self.due[query]
            if math.isinf(due):
                continue
            for time in range(int(due), tin + 1):
                for spec, rows in self.open(query, time):
                    for row in sorted(rows):
                        if len(waiting) == most:
                            return waiting
                        waiting.append(self.explainer.pending(query, spec, row, time))
        return waiting

    @cached_property
    def explainer(self) -> PossibleDerivations:
        model = self.network.model
        made = model.graph.made
        if model.windows:  # what these are made of is not there, but found when it is asked for
            made = possible(self.deps, anything=True)
        return PossibleDerivations(made, CellFacts(model, made.deps.core))

    # Definitive

    def open(self, query: str, time: int | None) -> Iterator[tuple[str, Set[Row]]]:
        """What may still come to be an answer at a time, by pattern."""
        for spec in self.specs[query]:
            rows = self._slice(query, time, spec).rows
            if rows:
                yield spec, rows
        ground = self._slice(query, time, self.ground[query]).rows
        certain = self._slice(query, time, query).rows
        if ground is not certain and not ground <= certain:
            yield self.ground[query], ground - certain

    def whole(self, spec: str, row: Row) -> tuple[Value | None, ...]:
        """All arguments of what may come, None for those that a pattern leaves open."""
        return all_args(self.patterns[spec], row)

    def definitive(self, query: str, time: int | None) -> bool:
        """Whether the answers at a time are final (Definition 2)."""
        return not any(
            self.wanted(query, self.whole(spec, row))
            for spec, rows in self.open(query, time)
            for row in rows
        )

    def _slice(self, query: str, time: int | None, name: str) -> IndexedSlice:
        model = self.network.model
        fixed = model.static.get(name)
        if fixed is not None:
            return fixed
        number, shift = model.graph.place[query]
        return model.slice(number, NO_TIME if time is None else time + shift, name)

    # Answers

    def _emit(self, query: str, low: int, tin: int, answers: AnswerRows) -> None:
        """Give the answers at all times that have become definitive, in order."""
        number, shift = self.network.graph.place[query]
        cells = self.network.model.cells
        time = max(low, int(self.due[query]))
        while time <= tin and self.definitive(query, time):
            if (number, time + shift) in cells:
                self._give(query, time, answers)
                self.given.pop((query, time), None)
                time += 1
                self.due[query] = time
                self.network.liveness.finished(query, time - 1)
            else:
                time = self._until(query, time, tin)
                self.due[query] = time

    def _give(self, query: str, time: int, answers: AnswerRows) -> None:
        rows = self._slice(query, time, query).rows
        given = self.given.get((query, time))
        answers[query] |= with_time(rows - given if given else rows, time)

    def _give_early(self, query: str, low: int, before: int, tin: int, answers: AnswerRows) -> None:
        """Answers that hold already at times that are not final yet."""
        first = max(low, int(self.due[query]))
        times = {t for t in self.network.liveness.changed(query) if first <= t <= tin}
        times.update(self._times(query, max(first, before + 1), tin))
        for time in times:
            rows = self._slice(query, time, query).rows
            if rows:
                given = self.given.get((query, time), set())
                answers[query] |= with_time(rows - given, time)
                self.given[query, time] = given | rows

    def _times(self, query: str, first: int, last: int) -> list[int]:
        """The times at which there may be answers, in order."""
        number, shift = self.network.graph.place[query]
        cells = self.network.model.cells
        if last - first < len(cells):
            return [t for t in range(first, last + 1) if (number, t + shift) in cells]
        return sorted(
            layer - shift for n, layer in cells if n == number and first <= layer - shift <= last
        )

    def _until(self, query: str, time: int, tin: int) -> int:
        """The next time after one without facts that may be different."""
        number, shift = self.network.graph.place[query]
        if (number, time + 1 + shift) in self.network.model.cells:
            return time + 1
        component = self.network.components[number]
        if component.carrying and time + shift >= tin:
            return time + 1
        wakes = (0,) if component.carrying else component.wakes
        steps = [tin - wake - shift for wake in wakes]
        times = self._times(query, time + 1, tin)[:1]
        later = (t for t in (*times, *steps, *(t + 1 for t in steps), tin + 1) if t > time)
        return min(later)

    def _emit_rigid(self, query: str, answers: AnswerRows, *, closed: bool = False) -> None:
        """Answers without a time: once, when they are definitive; with eager emission, each."""
        if self.due[query] == math.inf:
            return
        final = closed or self.definitive(query, None)
        if not final and not self.eager:
            return
        given = self.given.get((query, None), set())
        rows = self._slice(query, None, query).rows
        answers[query] |= rows - given
        self.given[query, None] = given | rows
        if final:
            self.due[query] = math.inf
            self.network.liveness.finished(query, None)


__all__ = ["OnlineAlgorithm"]
