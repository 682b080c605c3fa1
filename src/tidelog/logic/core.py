"""The core of a program: what each predicate is, as the analyses and the engines see it.

Passes add predicates of their own. Such a predicate has a role and a base, the predicate of the
user that it serves; its name is only a key, which nobody takes apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from operator import is_
from typing import TypeAlias, assert_never

from tidelog.language.checks import derivable
from tidelog.language.program import Program, Type
from tidelog.logic.clause import (
    AT_HEAD,
    RIGID,
    AggregateOf,
    Asked,
    Clause,
    Head,
    Sign,
    WindowOf,
)


class Role(Enum):
    """What a predicate is for."""

    INPUT = "input"
    DERIVED = "derived"
    GIVEN = "given"  # the input of a predicate that also has rules, or is an output
    SENT = "sent"  # what a clause derives for another stage to receive
    STEP = "step"  # what is known after some premises of a long clause, or selected for a window
    POSSIBLE = "possible"  # what may come to hold, some arguments being arbitrary
    LOOSE = "loose"  # what may come to hold if nothing had to be absent
    USED = "used"  # what a possible answer rests on
    FUTURE = "future"  # every tick after the last one that is known
    DUE = "due"  # every tick still to be answered
    WINDOW = "window"  # that an atom holds at some of the ticks up to now
    BEGUN = "begun"  # that a predicate holds from now on for a stretch
    GATHERED = "gathered"  # an aggregate of many facts
    TOTAL = "total"  # an aggregate, or 0 over nothing, for the groups that a rule asks about
    BLOCK = "block"  # what the facts of one tick come to, of which a window is made
    ABSENT = "absent"  # that facts of a predicate are not there, taken as an input of its own


# How keys are made. Checkpoints and plans name tables by them.
_KEYS = {
    Role.GIVEN: "{name}[in]",
    Role.SENT: "{name}>{label}",
    Role.STEP: "{name}[{label}]",
    Role.POSSIBLE: "{name}?{label}",
    Role.LOOSE: "{name}~",
    Role.USED: "{name}!",
    Role.FUTURE: "[future]",
    Role.DUE: "[due]",
    Role.WINDOW: "{name}[at {label} ticks]",
    Role.BEGUN: "{name}[for {label} ticks]",
    Role.GATHERED: "{name}({label})",
    Role.TOTAL: "{name} or 0, {label}",
    Role.BLOCK: "{name}(a tick's {label})",
    Role.ABSENT: "not {name}{label}",
}


def key(role: Role, name: str = "", label: str = "") -> str:
    """The name of a predicate that a pass makes for another one.

    >>> key(Role.GIVEN, "Temp"), key(Role.SENT, "AtRisk", "1")
    ('Temp[in]', 'AtRisk>1')
    """
    return _KEYS[role].format(name=name, label=label)


@dataclass(frozen=True)
class Predicate:
    """Name, sort, argument types and role; `base` is the user's predicate that it serves."""

    name: str
    temporal: bool
    types: tuple[Type | None, ...]
    role: Role
    base: str

    @property
    def input(self) -> bool:
        """Whether its facts come from outside."""
        role = self.role
        return role is Role.INPUT or role is Role.GIVEN or role is Role.ABSENT

    @property
    def shown(self) -> str:
        """What people read: the user's own name; `given E` is the part of E that comes in.

        Windows and aggregates are shown where the steps of a plan are: `Hot[at 2 of 4 ticks]`.
        """
        if self.role in (Role.WINDOW, Role.GATHERED, Role.TOTAL, Role.BLOCK):
            return self.name
        return f"given {self.base}" if self.role is Role.GIVEN else self.base

    def made(
        self, role: Role, label: str = "", types: tuple[Type | None, ...] | None = None
    ) -> Predicate:
        """A predicate that serves this one."""
        own = self.types if types is None else types
        return Predicate(key(role, self.name, label), self.temporal, own, role, self.base)


@dataclass(frozen=True)
class RuleSet:
    """The definition by rules, each of which may derive the predicate; none if nothing does."""

    clauses: tuple[Clause, ...] = ()


@dataclass(frozen=True)
class External:
    """The definition of an input: its facts come from outside. Its role says from where."""


Definition: TypeAlias = RuleSet | WindowOf | AggregateOf | External
# The definitions that are not rules but say what is made of facts at some ticks.
Operation: TypeAlias = WindowOf | AggregateOf
NO_OPERATIONS: Mapping[str, Operation] = {}


@dataclass(frozen=True)
class Core:
    """The definition of each predicate: a set of rules, a window, an aggregate, or an input.

    Whoever works with definitions matches on them and ends in `assert_never`. `rules_of` gives the
    rules alone.
    """

    program: Program
    predicates: dict[str, Predicate]
    definitions: Mapping[str, Definition]
    _parts: dict[frozenset[str], Core] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    @classmethod
    def of(
        cls,
        program: Program,
        predicates: dict[str, Predicate],
        rules: Iterable[Clause],
        operations: Mapping[str, Operation] = NO_OPERATIONS,
    ) -> Core:
        """A core of rules, windows and aggregates; a predicate that is an input is a source.

        Predicates come in the order of their rules, then as they are listed.
        """
        by_head: dict[str, list[Clause]] = {}
        for clause in rules:
            by_head.setdefault(clause.head.predicate, []).append(clause)
        definitions: dict[str, Definition] = {n: RuleSet(tuple(c)) for n, c in by_head.items()}
        for name, predicate in predicates.items():
            if predicate.input:
                assert name not in definitions, f"{name} is an input, and has rules"
                definitions[name] = External()
            elif name in operations:
                assert name not in definitions, f"{name} is an operation, and has rules"
                definitions[name] = operations[name]
            else:
                definitions.setdefault(name, RuleSet())
        return cls(program, predicates, definitions)

    def rewritten(
        self,
        rules: Iterable[Clause] | None = None,
        predicates: dict[str, Predicate] | None = None,
        operations: Mapping[str, Operation] | None = None,
    ) -> Core:
        """The core with other rules, predicates, or windows and aggregates; the rest stays."""
        return Core.of(
            self.program,
            self.predicates if predicates is None else predicates,
            self._rules if rules is None else rules,
            self.operations if operations is None else operations,
        )

    def __post_init__(self) -> None:
        assert self.definitions.keys() == self.predicates.keys(), "each predicate has a definition"
        for name, definition in self.definitions.items():
            assert self.predicates[name].input is isinstance(definition, External), name
        for clause in self.uses:
            self._check(clause)

    def _check(self, clause: Clause) -> None:
        """Refuse clauses that do not fit the predicates."""
        for part in clause.parts:
            predicate = self.predicates[part.predicate]
            assert len(part.args) == len(predicate.types), f"{clause.head}: {part}"
            assert part.temporal is predicate.temporal, f"{clause.head}: {part}"
        for premise in clause.premises:
            assert not isinstance(premise, Asked), f"{clause.head}: {premise} has no definition"

    @cached_property
    def _rules(self) -> tuple[Clause, ...]:
        sets = (d.clauses for d in self.definitions.values() if isinstance(d, RuleSet))
        return tuple(clause for clauses in sets for clause in clauses)

    @cached_property
    def operations(self) -> dict[str, Operation]:
        """The windows and the aggregates."""
        return {**self.windows, **self.aggregates}

    @cached_property
    def windows(self) -> dict[str, WindowOf]:
        """The windows among the definitions."""
        return {n: d for n, d in self.definitions.items() if isinstance(d, WindowOf)}

    @cached_property
    def aggregates(self) -> dict[str, AggregateOf]:
        """The aggregates among the definitions."""
        return {n: d for n, d in self.definitions.items() if isinstance(d, AggregateOf)}

    @cached_property
    def uses_for(self) -> dict[str, tuple[Clause, ...]]:
        """By predicate, what it depends on: its rules, or what a window or an aggregate is of.

        Of the last two it is the fact of a tick, as a clause: how far they reach is left out.
        """
        return {name: _uses(name, d) for name, d in self.definitions.items()}

    @cached_property
    def uses(self) -> tuple[Clause, ...]:
        """What depends on what, of all predicates."""
        return tuple(clause for clauses in self.uses_for.values() for clause in clauses)

    @cached_property
    def window_of(self) -> dict[str, WindowOf]:
        """What predicates are windows of, also those that are written out in rules."""
        written = ((clause.head.predicate, clause.part_of) for clause in self._rules)
        parts = {name: of for name, of in written if isinstance(of, WindowOf)}
        return {**parts, **self.windows}

    @cached_property
    def _part_of(self) -> dict[str, AggregateOf]:
        written = ((clause.head.predicate, clause.part_of) for clause in self._rules)
        return {name: of for name, of in written if isinstance(of, AggregateOf)}

    @cached_property
    def count_of(self) -> dict[str, AggregateOf]:
        """The counts that predicates are steps of, written out in rules."""
        steps = self._part_of.items()
        return {name: of for name, of in steps if self.predicates[name].role is Role.STEP}

    @cached_property
    def aggregate_of(self) -> dict[str, AggregateOf]:
        """What predicates are aggregates of, also those that are totals."""
        parts = self._part_of.items()
        totals = {name: of for name, of in parts if self.predicates[name].role is Role.TOTAL}
        return {**totals, **self.aggregates}

    @cached_property
    def inputs(self) -> tuple[Predicate, ...]:
        return tuple(p for p in self.predicates.values() if p.input)

    @cached_property
    def input_of(self) -> dict[str, Predicate]:
        """The input by the name that the user gave it."""
        return {predicate.base: predicate for predicate in self.inputs}

    @cached_property
    def fixed_ticks(self) -> tuple[int, ...]:
        """All ticks that rules name."""
        return tuple(tick for clause in self._rules for tick in clause.fixed_ticks)

    @cached_property
    def _firing(self) -> dict[str, Definition]:
        """The definitions that can give a fact, with the rules that can fire; or sources.

        A rule never fires if a premise is underivable.
        """
        needs = [
            (c.head.predicate, {p.predicate for p in c.premises if p.sign is not Sign.NEGATIVE})
            for c in self.uses
        ]
        there = derivable(needs, [p.name for p in self.inputs])
        return {
            name: _firing(definition, there)
            for name, definition in self.definitions.items()
            if name in there
        }

    def below(self, queries: Iterable[str]) -> Core:
        """Only what the queries need: the paper's program of a query. Each part is made once.

        Clauses that need a predicate nothing can derive are left out, since they never fire. That
        such a predicate does not hold is always true, and left out of its clause.
        """
        firing = self._firing
        wanted: dict[str, Definition] = {}
        todo = list(queries)
        while todo:
            name = todo.pop()
            if name not in wanted:
                wanted[name] = firing.get(name, RuleSet())
                todo += (p.predicate for c in _uses(name, wanted[name]) for p in c.premises)
        key = frozenset(wanted)
        if key not in self._parts:
            predicates = {name: p for name, p in self.predicates.items() if name in wanted}
            part = {name: wanted[name] for name in self.definitions if name in wanted}
            same = len(part) == len(self.definitions) and all(
                map(is_, part.values(), self.definitions.values())
            )
            self._parts[key] = self if same else Core(self.program, predicates, part)
        return self._parts[key]


@dataclass(frozen=True)
class ShownCore(Core):
    """A core as people read it: intervals and aggregates are premises. Nothing evaluates it."""

    def _check(self, clause: Clause) -> None:
        """Accept what no other core may have."""


def rules_of(core: Core) -> tuple[Clause, ...]:
    """The rules of a core. Windows and aggregates are none: see `Core.definitions` for them."""
    return core._rules


def rules_for(core: Core, name: str) -> tuple[Clause, ...]:
    """The rules of a predicate that is known to be defined by rules, or to be an input."""
    definition = core.definitions[name]
    match definition:
        case RuleSet(clauses):
            return clauses
        case External():
            return ()
        case WindowOf() | AggregateOf():
            raise AssertionError(f"{name} is not written out in rules")
        case _:
            assert_never(definition)


def _uses(name: str, definition: Definition) -> tuple[Clause, ...]:
    match definition:
        case RuleSet(clauses):
            return clauses
        case WindowOf() | AggregateOf():
            return (clause_of_a_tick(name, definition),)
        case External():
            return ()
        case _:
            assert_never(definition)


def clause_of_a_tick(name: str, operation: Operation) -> Clause:
    """A window or an aggregate as a clause for one tick, with its arguments.

    It says which facts are counted or measured there, and by which arguments; not what follows.
    """
    when = AT_HEAD if operation.of.temporal else RIGID
    head = Head(name, operation.args, when)
    return Clause(head, (operation.of,), origin=operation.of.origin, made=True)


def _firing(definition: Definition, there: set[str]) -> Definition:
    """The definition without rules that never fire, and without truisms; itself, if that is all."""
    match definition:
        case RuleSet(clauses):
            firing = tuple(
                _without_truisms(clause, there)
                for clause in clauses
                if all(p.predicate in there for p in clause.positive)
            )
            same = len(firing) == len(clauses) and all(map(is_, firing, clauses))
            return definition if same else RuleSet(firing)
        case WindowOf() | AggregateOf() | External():
            return definition
        case _:
            assert_never(definition)


def _without_truisms(clause: Clause, there: set[str]) -> Clause:
    """The clause without asking for the absence of what is never there."""
    for premise in clause.negative:
        if premise.predicate not in there:
            clause = clause.without(premise)
    return clause
