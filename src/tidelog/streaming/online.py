"""The online algorithm (Algorithm 1): answer as soon as can be proved, keep only what can matter.

At every tick each query's output times that have become definitive are answered, in order, and
every fact that no possible later answer rests on is forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TypeAlias

from tidelog.analysis.definitive import Pending
from tidelog.analysis.dependencies import Dependencies
from tidelog.analysis.possible import possible
from tidelog.language.program import Value
from tidelog.streaming.joins import Row, Slice
from tidelog.streaming.network import NO_TIME, Network, chosen
from tidelog.streaming.pending import Explainer
from tidelog.streaming.snapshot import State, as_facts, as_rows, plain, plain_facts

Answers: TypeAlias = dict[str, set[Row]]  # with the time last, where there is one
# Facts by input and time.
Facts: TypeAlias = Mapping[str, Mapping[int, set[Row]]]


class Online:
    """Queries of class 1 or 2 over facts that arrive tick by tick."""

    def __init__(
        self, deps: Dependencies, rigid: Mapping[str, set[Row]], *, eager: bool = False
    ) -> None:
        self.eager = eager
        # With eager emission, answers given at times that are not final yet.
        self.given: dict[tuple[str, int | None], set[Row]] = {}
        self.deps = deps
        self.queries = deps.queries
        made = possible(deps, anything=True)
        self.network = Network(made, self.queries, rigid)
        self.exact = made.exact
        core = self.network.deps.core
        self.inputs = tuple(p.name for p in core.inputs if p.temporal)
        rules = [p.rule for p in made.rules]
        self.chosen = {name: chosen(rules, name) for name in self.inputs}
        self.temporal = [q for q in self.queries if core.predicates[q].temporal]
        self.rigid = [q for q in self.queries if q not in self.temporal]
        self.specs = {
            q: [made.name(q, p) for p in made.patterns[q] if not made.ground(p)]
            for q in self.queries
        }
        self.ground = {
            q: made.name(q, (None,) * len(core.predicates[q].types)) for q in self.queries
        }

    def begin(self, earliest: int) -> None:
        """No fact lies before a tick."""
        self.network.begin(self.network.schedule.first(earliest))

    def advance(self, tin: int, facts: Facts, low: int) -> Answers:
        """Everything up to tin has arrived; answers from `low` on are wanted."""
        network = self.network
        kept: dict[str, dict[int, set[Row]]] = {}
        for name, times in facts.items():
            for time, rows in times.items():
                useful = self.chosen[name](rows)
                if useful:
                    kept.setdefault(name, {})[time] = useful
        found: Answers = {q: set() for q in self.queries}
        # What is carried on is carried tick by tick.
        arriving = sorted({t for times in kept.values() for t in times}, reverse=True)
        while network.tin < tin:
            before, at, new = network.tin, tin, kept
            if network.moving and before < tin - 1:
                while arriving and arriving[-1] <= before:
                    arriving.pop()
                at = network.next_event(arriving[-1] if arriving else tin)
                new = {n: {at: times[at]} for n, times in kept.items() if at in times}
            elif network.moving:
                new = {n: {at: times[at]} for n, times in kept.items() if at in times}
            network.advance(at, new)
            for query in self.temporal:
                network.due[query] = max(network.due[query], min(low, at + 1))
                if self.eager:
                    self._give_early(query, low, int(before), at, found[query])
                self._emit(query, low, at, found[query])
            for query in self.rigid:
                self._emit_rigid(query, found[query])
            network.forget()
        return found

    def close(self, last: int, low: int) -> Answers:
        """No more input: what is certain is all there is."""
        found: Answers = {q: set() for q in self.queries}
        for query in self.temporal:
            first = max(low, int(self.network.due[query]))
            for time in self._times(query, first, last):
                self._give(query, time, found[query])
            self.network.due[query] = max(self.network.due[query], last + 1)
        for query in self.rigid:
            self._emit_rigid(query, found[query], closed=True)
        return found

    @property
    def history(self) -> int:
        """How many facts are kept: inputs, and what recursion carries on."""
        return self.network.count

    def facts(self) -> dict[str, dict[int, set[Row]]]:
        """The input facts that are live."""
        return {name: self.network.kept(name) for name in self.inputs}

    def derived(self) -> dict[str, dict[int, set[Row]]]:
        """The derived facts that are carried on."""
        return self.network.carried()

    def tout(self) -> int | None:
        """The time up to which every query is answered."""
        ends = [int(self.network.due[q]) - 1 for q in self.temporal]
        return min(ends, default=None)

    # Snapshots

    def state(self) -> State:
        """Everything needed to go on, as plain data."""
        network = self.network
        return {
            "tin": network.tin,
            "start": network.start,
            "due": {q: None if math.isinf(d) else d for q, d in network.due.items()},
            "answered": [q for q in self.rigid if network.due[q] == math.inf],
            "given": [[*key, plain(rows)] for key, rows in self.given.items()],
            "facts": plain_facts(self.facts()),
            "carried": plain_facts(network.carried()),
        }

    def resume(self, state: State) -> None:
        network = self.network
        for query, due in state["due"].items():
            network.due[query] = -math.inf if due is None else due
        for query in state["answered"]:
            network.due[query] = math.inf
        self.given = {(query, time): as_rows(rows) for query, time, rows in state["given"]}
        network.resume(
            state["start"], state["tin"], as_facts(state["facts"]), as_facts(state["carried"])
        )

    # What may still come

    def pending(self, most: int) -> list[Pending]:
        """Answers that may still come at times up to tin, with what each waits for."""
        tin = int(self.network.tin)
        found: list[Pending] = []
        for query in self.temporal:
            due = self.network.due[query]
            if math.isinf(due):
                continue
            for time in range(int(due), tin + 1):
                for spec, rows in self.open(query, time):
                    for row in sorted(rows):
                        if len(found) == most:
                            return found
                        found.append(self.explainer.pending(query, spec, row, time))
        return found

    @cached_property
    def explainer(self) -> Explainer:
        return Explainer(self.network)

    # Definitive

    def open(self, query: str, time: int | None) -> Iterator[tuple[str, set[Row]]]:
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
        return self.explainer.whole(spec, row)

    def definitive(self, query: str, time: int | None) -> bool:
        """Whether the answers at a time are final (Definition 2)."""
        return next(self.open(query, time), None) is None

    def _slice(self, query: str, time: int | None, name: str) -> Slice:
        fixed = self.network.static.get(name)
        if fixed is not None:
            return fixed
        number, shift = self.network.place[query]
        return self.network.slice(number, NO_TIME if time is None else time + shift, name)

    # Answers

    def _emit(self, query: str, low: int, tin: int, found: set[Row]) -> None:
        network = self.network
        number, shift = network.place[query]
        time = max(low, int(network.due[query]))
        while time <= tin and self.definitive(query, time):
            if (number, time + shift) in network.cells:
                self._give(query, time, found)
                self.given.pop((query, time), None)
                time += 1
                network.due[query] = time
                network.finished(query, time - 1)
            else:
                time = self._until(query, time, tin)
                network.due[query] = time

    def _give(self, query: str, time: int, found: set[Row]) -> None:
        rows = self._slice(query, time, query).rows
        given = self.given.get((query, time))
        found.update((*row, time) for row in (rows - given if given else rows))

    def _give_early(self, query: str, low: int, before: int, tin: int, found: set[Row]) -> None:
        """Answers that hold already at times that are not final yet."""
        first = max(low, int(self.network.due[query]))
        times = {t for t in self.network.changed(query) if first <= t <= tin}
        times.update(self._times(query, max(first, before + 1), tin))
        for time in times:
            rows = self._slice(query, time, query).rows
            if rows:
                given = self.given.setdefault((query, time), set())
                found.update((*row, time) for row in rows - given)
                given |= rows

    def _times(self, query: str, first: int, last: int) -> list[int]:
        """The times at which there may be answers, in order."""
        number, shift = self.network.place[query]
        cells = self.network.cells
        if last - first < len(cells):
            return [t for t in range(first, last + 1) if (number, t + shift) in cells]
        return sorted(
            layer - shift for n, layer in cells if n == number and first <= layer - shift <= last
        )

    def _until(self, query: str, time: int, tin: int) -> int:
        """The next time after one without facts that may be different."""
        number, shift = self.network.place[query]
        if (number, time + 1 + shift) in self.network.cells:
            return time + 1
        component = self.network.components[number]
        if component.carrying and time + shift >= tin:
            return time + 1
        wakes = (0,) if component.carrying else component.wakes
        steps = [tin - wake - shift for wake in wakes]
        times = self._times(query, time + 1, tin)[:1]
        later = (t for t in (*times, *steps, *(t + 1 for t in steps), tin + 1) if t > time)
        return min(later)

    def _emit_rigid(self, query: str, found: set[Row], *, closed: bool = False) -> None:
        network = self.network
        if network.due[query] == math.inf:
            return
        final = closed or self.definitive(query, None)
        if not final and not self.eager:
            return
        given = self.given.setdefault((query, None), set())
        rows = self._slice(query, None, query).rows
        found.update(rows - given)
        given |= rows
        if final:
            network.due[query] = math.inf
            network.finished(query, None)


__all__ = ["Answers", "Facts", "Online"]
