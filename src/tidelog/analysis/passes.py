"""The passes: what is worked out about a program before anything runs, in this order.

    core          normalise: rules as clauses, inputs apart from what has rules   logic/normalise
    brief         the same with very long counts only named                       logic/normalise
    dependencies  reach: what the queries need, its class, phi, keep and key         dependencies
    reduced       reduce: without redundant clauses and premises                       redundancy
    lean          what is left, windows over what they select: this is what runs         selected
    planned       the same with very long counts only named, for plans                    passes
    sliced        the same for streams that keep slices: long windows named, blocks        sliced
    stages        split: what workers do on their own, and what they exchange              stages
    possible      what may still come to hold, as a program                              possible

Each is made when it is first asked for, and kept for its program and queries. Layers above go on
from here: plans (evaluation/plan), schedules (streaming/schedule), pipelines (pipeline/plan). What
`explain` shows and what runs are the same objects.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from tidelog.analysis.containment import Budget
from tidelog.analysis.dependencies import Dependencies, dependencies
from tidelog.analysis.possible import Possible, possible
from tidelog.analysis.redundancy import Redundant, reduced
from tidelog.analysis.selected import selected
from tidelog.analysis.sliced import sliced
from tidelog.analysis.stages import Staged, staged
from tidelog.language.program import Input, Interval, Origin, Program, Statement
from tidelog.logic.clause import Over, Premise
from tidelog.logic.core import Core, Predicate, Role
from tidelog.logic.normalise import core
from tidelog.logic.windows import named_windows, takes_many_clauses

# Steps that may be spent on leaving redundant rules out. No seconds, so that plans never vary.
REDUCING_STEPS = 500
# Programs and queries whose passes are kept.
MOST_KEPT = 64


@dataclass(frozen=True)
class Passes:
    """The results of the passes for some queries of a checked program."""

    program: Program
    queries: tuple[str, ...]
    _stages: dict[tuple[int, frozenset[str]], Staged] = field(
        default_factory=dict, compare=False, repr=False
    )

    @cached_property
    def core(self) -> Core:
        return core(self.program, self.queries)

    @cached_property
    def dependencies(self) -> Dependencies:
        return dependencies(self.core, self.queries)

    def dependencies_of(self, query: str) -> Dependencies:
        """What one of the queries needs."""
        return dependencies(self.core, [query])

    @cached_property
    def _reduction(self) -> tuple[Core, list[Redundant]]:
        return reduced(self.core, self.queries, _budget())

    @property
    def reduced(self) -> Core:
        return self._reduction[0]

    @cached_property
    def lean(self) -> Dependencies:
        return selected(dependencies(self.reduced, self.queries))

    @cached_property
    def brief(self) -> Core:
        """The core with very long counts only named."""
        if not any(map(takes_many_clauses, self._counts)):
            return self.core
        return core(self.program, self.queries, brief_windows=True)

    @cached_property
    def in_brief(self) -> Dependencies:
        """The dependencies, with very long counts only named."""
        return dependencies(self.brief, self.queries)

    @cached_property
    def counts(self) -> dict[str, Premise]:
        """The very long counts that are only named in plans; none, if one of them is on a cycle."""
        named = named_windows(self.in_brief.core)
        return named if named.keys().isdisjoint(self.in_brief.recursive) else {}

    @cached_property
    def planned(self) -> Dependencies:
        """What runs by a plan that does very long counts in a step each: queries over finite facts,
        and streams by a schedule.
        """
        if not self.counts:
            return self.lean
        brief = self.in_brief.core
        counted = [window.predicate for window in self.counts.values()]
        asked = [*self.queries, *(name for name in counted if not brief.predicates[name].input)]
        left, _ = reduced(self.around_counts, dict.fromkeys(asked), _budget())
        windows = (clause for clause in brief.clauses if clause.head.predicate in self.counts)
        planned = replace(brief, clauses=(*left.clauses, *windows))
        return selected(dependencies(planned, self.queries))

    @cached_property
    def around_counts(self) -> Core:
        """The core with very long counts as inputs: what follows from it does whatever they are."""
        brief, counts = self.in_brief.core, self.counts
        own = (brief.predicates[name] for name in counts)
        inputs = {p.name: replace(p, role=Role.INPUT, base=p.name) for p in own}
        clauses = tuple(clause for clause in brief.clauses if clause.head.predicate not in counts)
        return Core(brief.program, clauses, {**brief.predicates, **inputs})

    @property
    def inputs(self) -> tuple[Predicate, ...]:
        """The inputs that the queries need."""
        return self.in_brief.core.inputs

    @property
    def _counts(self) -> set[Over]:
        """What the program asks of intervals."""
        return {
            Over(atom.time.ticks, atom.time.fewest)
            for rule in self.program.rules
            for atom in rule.atoms
            if isinstance(atom.time, Interval)
        }

    @cached_property
    def sliced(self) -> Dependencies:
        """What a stream needs that keeps slices."""
        return sliced(self.planned)

    def stages(self, large: Iterable[str] = ()) -> Staged:
        """The stages, where some rigid inputs are too large to be sent to every worker."""
        return self._staged(self.planned, frozenset(large))

    def stream_stages(self, large: Iterable[str] = ()) -> Staged:
        """The stages of a stream that keeps slices."""
        return self._staged(self.sliced, frozenset(large))

    def _staged(self, deps: Dependencies, large: frozenset[str]) -> Staged:
        place = (id(deps), large)
        if place not in self._stages:
            self._stages[place] = staged(deps, large)
        return self._stages[place]

    @cached_property
    def possible(self) -> Possible:
        return possible(self.dependencies)


def _budget() -> Budget:
    return Budget(math.inf, REDUCING_STEPS)


def passes(program: Program, queries: Iterable[str]) -> Passes:
    """The passes for some queries; the same ones whenever they are asked for again.

    >>> from tidelog.language.checks import check
    >>> program = check("P @ T :- E @ T. P @ T :- E @ T, F @ T.").accepted()
    >>> len(passes(program, ["P"]).core.clauses), len(passes(program, ["P"]).reduced.clauses)
    (2, 1)
    >>> passes(program, ["P"]).core is passes(program, ["P"]).core
    True
    """
    return _kept(_Same(program), tuple(queries))


@dataclass(frozen=True, eq=False)
class _Same:
    """A program that is the same as another if it has the very same rules, and equal inputs.

    Rules that are only equal may stand in different files. Inputs are declared anew whenever the
    types of the data are known.
    """

    program: Program

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Same):
            return NotImplemented
        own, others = self.program.statements, other.program.statements
        return own is others or (len(own) == len(others) and all(map(_same, own, others)))

    def __hash__(self) -> int:
        return hash(tuple(map(id, self.program.rules)))


def _same(one: Statement, other: Statement) -> bool:
    if isinstance(one, Input) and isinstance(other, Input):
        return one == other and _places(one) == _places(other)
    return one is other


def _places(declared: Input) -> list[Origin]:
    return [declared.origin, *(column.origin for column in declared.columns)]


@lru_cache(MOST_KEPT)
def _kept(same: _Same, queries: tuple[str, ...]) -> Passes:
    return Passes(same.program, queries)
