"""The online algorithm (Algorithm 1): answer as soon as can be proved, keep only what can matter.

At every tick each query's output times that have become definitive are answered, in order, and
every fact that no possible later answer rests on is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tidelog.analysis.dependencies import Dependencies
from tidelog.analysis.possible import possible
from tidelog.streaming.joins import EMPTY, Row, Slice
from tidelog.streaming.network import Network, chosen

Answers = dict[str, set[Row]]  # with the time last, where there is one


class Online:
    """Queries of class 1 or 2 over facts that arrive tick by tick."""

    def __init__(self, deps: Dependencies, rigid: Mapping[str, set[Row]]) -> None:
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
        self.network.begin(self.network.schedule.first(earliest))

    def advance(
        self, tin: int, facts: Mapping[str, Mapping[int, Iterable[Row]]], low: int
    ) -> Answers:
        """Everything up to tin has arrived; answers from `low` on are wanted."""
        network = self.network
        kept: dict[str, dict[int, set[Row]]] = {}
        for name, times in facts.items():
            for time, rows in times.items():
                chosen_ = self.chosen[name](rows)
                if chosen_:
                    kept.setdefault(name, {})[time] = chosen_
        found: Answers = {q: set() for q in self.queries}
        # What is carried on is carried tick by tick.
        first = int(network.tin) + 1 if network.moving else tin
        for at in range(first, tin + 1):
            if first == tin:
                new = kept
            else:
                new = {n: {at: times[at]} for n, times in kept.items() if at in times}
            network.advance(at, new)
            for query in self.temporal:
                network.due[query] = max(network.due[query], min(low, at + 1))
                self._emit(query, low, at, found[query])
            for query in self.rigid:
                self._emit_rigid(query, found[query])
            network.forget()
        return found

    def close(self, last: int, low: int) -> Answers:
        """No more input: what is certain is all there is."""
        found: Answers = {q: set() for q in self.queries}
        for query in self.temporal:
            number, shift = self.network.place[query]
            for time in self._times(query, max(low, int(self.network.due[query])), last):
                rows = self.network.slice(number, time + shift, query).rows
                found[query].update((*row, time) for row in rows)
            self.network.due[query] = last + 1
        for query in self.rigid:
            self._emit_rigid(query, found[query], closed=True)
        return found

    def tout(self) -> int | None:
        """The time up to which every query is answered."""
        ends = [int(self.network.due[q]) - 1 for q in self.temporal]
        return min(ends, default=None)

    def open(self, query: str, time: int) -> Iterator[tuple[str, Slice]]:
        """What may still come to be an answer at a time, by pattern."""
        number, shift = self.network.place[query]
        for spec in self.specs[query]:
            found = self.network.slice(number, time + shift, spec)
            if found.rows:
                yield spec, found
        ground = self.network.slice(number, time + shift, self.ground[query]).rows
        certain = self.network.slice(number, time + shift, query).rows
        if ground is not certain and not ground <= certain:
            yield self.ground[query], Slice(ground - certain)

    def definitive(self, query: str, time: int) -> bool:
        """Whether the answers at a time are final (Definition 2)."""
        return next(self.open(query, time), None) is None

    def _emit(self, query: str, low: int, tin: int, found: set[Row]) -> None:
        network = self.network
        number, shift = network.place[query]
        time = max(low, int(network.due[query]))
        times = self._times(query, time, tin)
        while time <= tin and self.definitive(query, time):
            if (number, time + shift) in network.cells:
                rows = network.slice(number, time + shift, query).rows
                found.update((*row, time) for row in rows)
                time += 1
                network.due[query] = time
                network.finished(query, time - 1)
            else:
                time = self._until(query, time, tin, times)
                network.due[query] = time

    def _times(self, query: str, first: int, last: int) -> list[int]:
        """The times at which there may be answers, in order."""
        number, shift = self.network.place[query]
        cells = self.network.cells
        if last - first < len(cells):
            return [t for t in range(first, last + 1) if (number, t + shift) in cells]
        return sorted(
            layer - shift for n, layer in cells if n == number and first <= layer - shift <= last
        )

    def _until(self, query: str, time: int, tin: int, times: list[int]) -> int:
        """The next time after one without facts that may be different."""
        component = self.network.components[self.network.place[query][0]]
        shift = component.shifts[query]
        steps = [tin - wake - shift for wake in component.wakes]
        later = (t for t in (*times, *steps, *(t + 1 for t in steps), tin + 1) if t > time)
        return min(later)

    def _emit_rigid(self, query: str, found: set[Row], *, closed: bool = False) -> None:
        network = self.network
        if network.due[query] == 0:
            return
        fixed = network.static.get(query)
        if fixed is not None:
            rows = fixed.rows
        else:
            raise NotImplementedError
        found.update(rows)
        network.due[query] = 0


__all__ = ["EMPTY", "Answers", "Online"]
