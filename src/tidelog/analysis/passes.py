"""The passes: what is worked out about a program before anything runs, in this order.

    core          normalise: rules as clauses, inputs apart from what has rules   logic/normalise
    dependencies  reach: what the queries need, its class, phi, keep and key         dependencies
    reduced       reduce: without redundant clauses and premises                       redundancy
    planned       windows over what they select; on cycles, in clauses: this runs  selected, rounds
    sliced        the same for streams that keep slices: short windows in clauses, blocks   sliced
    stages        split: what workers do on their own, and what they exchange              stages
    written_out   the dependencies with windows in clauses, for analyses and proofs  logic/windows
    possible      what may still come to hold, as a program                              possible

Each is made when it is first asked for, and kept for its program and queries. Layers above go on
from here: plans (evaluation/plan), schedules (streaming/schedule), pipelines (pipeline/plan). What
`explain` shows and what runs are the same objects.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TypeAlias

from tidelog.analysis.blocks import in_blocks
from tidelog.analysis.containment import Budget
from tidelog.analysis.counted import counted
from tidelog.analysis.dependencies import Dependencies, dependencies
from tidelog.analysis.opaque import counts_as_inputs
from tidelog.analysis.possible import Possible, possible
from tidelog.analysis.redundancy import Redundant, reduced
from tidelog.analysis.rounds import in_rounds
from tidelog.analysis.selected import selected
from tidelog.analysis.sliced import in_steps, sliced
from tidelog.analysis.stages import Staged, staged
from tidelog.language.program import Input, Origin, Program, Statement
from tidelog.logic.core import Core, Predicate, rules_of
from tidelog.logic.normalise import core

# Passes are of three kinds, each with a law (tests/analysis/test_pass_laws). An equivalence keeps
# the answers of the queries, and every other predicate's meaning.
Pass: TypeAlias = Callable[[Dependencies], Dependencies]
EQUIVALENCES: tuple[Pass, ...] = (selected, in_rounds, in_steps, counted)
# A layout keeps them too, and makes some of their facts of others, which are stored or sent.
LAYOUTS: tuple[Pass, ...] = (in_blocks, sliced)
# An abstraction has every answer among what is possible: `possible`, `Opaque`, `counts_as_inputs`
# and `Settled.rest`. They have more than a core to say.

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

    @property
    def written_out(self) -> Dependencies:
        """The same with windows in clauses: what analyses of rules, and proofs, work with."""
        return self.dependencies.written_out

    def dependencies_of(self, query: str) -> Dependencies:
        """What one of the queries needs."""
        return dependencies(self.core, [query])

    @cached_property
    def _reduction(self) -> tuple[Core, list[Redundant]]:
        around, asked = counts_as_inputs(self.dependencies)
        left, redundant = reduced(around, asked, _budget())
        if around is not self.dependencies.core:
            left = self.core.rewritten(rules_of(left)).below(self.queries)
        return left, redundant

    @property
    def reduced(self) -> Core:
        return self._reduction[0]

    @cached_property
    def planned(self) -> Dependencies:
        """What runs by a plan: reduced, windows over what they select, and windows of cycles in
        clauses, which are derived with the others.
        """
        return in_rounds(selected(dependencies(self.reduced, self.queries)))

    @property
    def inputs(self) -> tuple[Predicate, ...]:
        """The inputs that the queries need."""
        return self.dependencies.core.inputs

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
        return possible(self.written_out)


def _budget() -> Budget:
    return Budget(math.inf, REDUCING_STEPS)


def passes(program: Program, queries: Iterable[str]) -> Passes:
    """The passes for some queries; the same ones whenever they are asked for again.

    >>> from tidelog.language.checks import check
    >>> program = check("P @ T :- E @ T. P @ T :- E @ T, F @ T.").accepted()
    >>> made = passes(program, ["P"])
    >>> len(rules_of(made.core)), len(rules_of(made.reduced))
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
