"""Facts of real values that show a difference: an answer is there for one program, or for all the
facts, and not for another program, or for those that a cut leaves.

The facts of a frozen conjunction are tried first. Under `not` they need not do: what the cut leaves
may give the answer in another way that hangs on the absence of something, or the conjunction itself
asks for the absence of what its own facts derive. Then facts are added that make something true on
whose absence the undesired derivation hangs, the furthest first, a few times over. Whatever comes
out was evaluated on the whole program, so that it needs no further proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple, TypeAlias

from tidelog.analysis.canonical import Canonical, FrozenFact, PartialFact
from tidelog.analysis.dependencies import Dependencies
from tidelog.analysis.unfolding import Cut, Unfolded, Unfolder
from tidelog.language.program import Constant, Value, type_of
from tidelog.logic.core import Core
from tidelog.logic.order import Object, Symbol

# Sets of facts that are tried for one conjunction, ways to make something true, steps for each.
MOST_TRIES = 32
MOST_WAYS = 2
MOST_STEPS = 40

# Facts of real values, under the names that users know.
Data: TypeAlias = frozenset[FrozenFact]


def objects(values: Iterable[Value]) -> tuple[Object, ...]:
    return tuple(Constant(v, type_of(v)) for v in values)


def constants_of(core: Core) -> set[Constant]:
    """The constants that clauses mention."""
    terms = (term for clause in core.uses for term in clause.terms)
    return {Constant(t.value, t.type) for t in terms if isinstance(t, Constant)}


@dataclass(frozen=True)
class Side:
    """One of the two programs that facts are replayed on."""

    deps: Dependencies
    unfolder: Unfolder

    @cached_property
    def model(self) -> Canonical:
        return Canonical(self.deps)

    @cached_property
    def _clocks(self) -> frozenset[str]:
        """The inputs that hold at the first tick of the data, by what people call them."""
        return frozenset(self.deps.core.program.clocks)

    def evaluated(self, data: Data, goal: PartialFact) -> tuple[bool, set[PartialFact]]:
        """Whether a goal holds, and on the absence of what."""
        inputs = self.deps.core.input_of
        facts = [
            FrozenFact(inputs[f.predicate].name, f.args, f.time)
            for f in data
            if f.predicate in inputs
        ]
        ticks = [f.time for f in data if f.time is not None]
        if ticks:
            started = [inputs[name].name for name in self._clocks if name in inputs]
            facts += [FrozenFact(name, (), min(ticks)) for name in started]
        return self.model.absent_below(facts, goal)

    def started(self, query: Unfolded, values: dict[Symbol, Value], base: int) -> list[Data]:
        """The facts of a conjunction, and with one more of an input for each that can be the first
        of the data where a clock starts before them.
        """
        data = self.real(query, values, base)
        inputs = [p for p in self.deps.core.inputs if p.temporal]
        clocks = {p.name for p in inputs if p.base in self._clocks}
        ticks = [f.time + base for f in query.atoms if f.predicate in clocks and f.time is not None]
        taken = {v for f in data for v in f.args if isinstance(v, Constant)}
        starts = [data]
        for given in inputs if ticks else ():
            if given.name not in clocks:
                first = PartialFact(given.name, (None,) * len(given.types), min(ticks))
                starts += (data | more for more in self.bringing(first, Cut(), taken))
        return starts

    def real(self, query: Unfolded, values: dict[Symbol, Value], base: int) -> Data:
        """The facts of a conjunction, without what is absent and without clocks."""
        facts = [real(f, values, base) for f in query.atoms]
        facts += [real(f, values, 0) for f in query.pinned]
        core = self.unfolder.core
        named = {f: core.predicates[f.predicate].base for f in facts}
        return frozenset(
            FrozenFact(name, f.args, f.time)
            for f, name in named.items()
            if f.predicate not in self.unfolder.absences and name not in self._clocks
        )

    def absent(self, query: Unfolded, values: dict[Symbol, Value], base: int) -> list[PartialFact]:
        """The facts that a conjunction asks to be absent."""
        facts = [real(f, values, base) for f in query.atoms]
        facts += [real(f, values, 0) for f in query.pinned]
        absences = self.unfolder.absences
        return [absences[f.predicate].pattern(f) for f in facts if f.predicate in absences]

    def bringing(self, goal: PartialFact, cut: Cut, taken: set[Constant]) -> Iterator[Data]:
        """Facts that make something true, unless the absence of more is asked for."""
        start = self.unfolder.start_fact(goal.predicate, goal.args, goal.time)
        for query in self.unfolder.completed(start, cut, MOST_STEPS):
            try:
                values = query.order.model(query.symbols(), taken | constants_of(self.deps.core))
            except ValueError:
                continue  # too few values for its symbols
            yield self.real(query, values, 0)


def real(fact: FrozenFact, values: dict[Symbol, Value], shift: int) -> FrozenFact:
    """A frozen fact with values for its symbols."""
    args = (values[v] if isinstance(v, Symbol) else v.value for v in fact.args)
    time = None if fact.time is None else fact.time + shift
    return FrozenFact(fact.predicate, objects(args), time)


class Difference(NamedTuple):
    """Facts that make the difference; withdrawn: the answer is there for what the cut leaves."""

    data: Data
    withdrawn: bool


class Replay:
    """The search for a difference between one program on all facts and another on a cut."""

    def __init__(
        self, one: Side, other: Side, answer: FrozenFact, cut: Cut, tries: int = MOST_TRIES
    ) -> None:
        self.one, self.other = one, other
        self.answer = PartialFact(answer.predicate, answer.args, answer.time)
        self.base = answer.time or 0
        self.cut = cut
        self.tries = tries
        self.work = 0

    def search(self, start: Iterable[Data], absent: list[PartialFact]) -> Difference | None:
        """`absent` is what the conjunction asks to be absent."""
        todo = list(dict.fromkeys(start))
        first = set(todo)
        # `todo` grows while it is gone through: what is added is tried after what is there.
        for data in islice(todo, self.tries):
            kind, hanging_on = self._compared(data, absent)
            if kind is not None:
                if data not in first:
                    data = self._least(data, kind)
                return Difference(data, kind)
            for more in self._added(data, hanging_on):
                if more not in todo and len(todo) < self.tries:
                    todo.append(more)
        return None

    def _compared(
        self, data: Data, absent: list[PartialFact]
    ) -> tuple[bool | None, set[tuple[bool, PartialFact]]]:
        """Whether the answer is withdrawn (None: there is no difference); what to bring about to
        make one, in the other program or in this one.
        """
        given, below = self._evaluated(self.one, data, self.answer)
        left, below_left = self._evaluated(self.other, self._left(data), self.answer)
        if given != left and (given or not self.cut.everything):
            return left, set()
        hanging_on = {(False, p) for p in below} if not self.cut.everything else set()
        hanging_on |= {(True, p) for p in below_left}
        if not given:
            for pattern in absent:
                _, blocked_by = self._evaluated(self.one, data, pattern)
                hanging_on |= {(False, p) for p in blocked_by}
        return None, hanging_on

    def _added(self, data: Data, hanging_on: set[tuple[bool, PartialFact]]) -> Iterator[Data]:
        """The facts with more of them, for each of the absent facts."""
        cut = Cut(self.cut.low + self.base, self.cut.high + self.base)
        taken = {v for f in data for v in f.args if isinstance(v, Constant)}
        taken |= {v for v in self.answer.args if isinstance(v, Constant)}

        def distance(item: tuple[bool, PartialFact]) -> tuple[float, str]:
            side = self.other if item[0] else self.one
            frozen = FrozenFact(item[1].predicate, (), item[1].time)
            return (-cut.beyond(side.unfolder.reach(frozen)), str(item))

        for in_other, pattern in sorted(hanging_on, key=distance):
            side = self.other if in_other else self.one
            for more in islice(side.bringing(pattern, cut, taken), MOST_WAYS):
                yield data | more

    def _least(self, data: Data, kind: bool) -> Data:
        """The facts without those that make no difference."""
        for fact in sorted(data, key=str):
            less = data - {fact}
            if self._compared(less, [])[0] is kind:
                data = less
        return data

    def _left(self, data: Data) -> Data:
        keeps = self.cut.keeps
        return frozenset(f for f in data if f.time is None or keeps(f.time - self.base))

    def _evaluated(
        self, side: Side, data: Data, goal: PartialFact
    ) -> tuple[bool, set[PartialFact]]:
        try:
            return side.evaluated(data, goal)
        finally:
            self.work += side.model.work
