"""The core of a program: its clauses and predicates, as the analyses and the engines see them.

Passes add predicates of their own. Such a predicate has a role and a base, the predicate of the
user that it serves; its name is only a key, which nobody takes apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from operator import is_

from tidelog.language.checks import derivable
from tidelog.language.program import Program, Type
from tidelog.logic.clause import AT_HEAD, Clause, Head, Sign, WindowOf


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
    GATHERED = "gathered"  # what many facts come to
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
        if self.role in (Role.WINDOW, Role.GATHERED, Role.BLOCK):
            return self.name
        return f"given {self.base}" if self.role is Role.GIVEN else self.base

    def made(
        self, role: Role, label: str = "", types: tuple[Type | None, ...] | None = None
    ) -> Predicate:
        """A predicate that serves this one."""
        own = self.types if types is None else types
        return Predicate(key(role, self.name, label), self.temporal, own, role, self.base)


@dataclass(frozen=True)
class Core:
    """Clauses in the order of the rules they come from, and windows; inputs have neither.

    A predicate that is a window has no clauses: what it is a window of defines it.
    """

    program: Program
    clauses: tuple[Clause, ...]
    predicates: dict[str, Predicate]
    windows: Mapping[str, WindowOf] = field(default_factory=dict)
    _parts: dict[frozenset[str], Core] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        for clause in self.clauses:
            self._check(clause)
        for clause in self.window_clauses:
            self._check(clause)
            name = clause.head.predicate
            assert name not in self.clauses_for, f"{name} is a window, and has clauses"

    def _check(self, clause: Clause) -> None:
        """Refuse clauses that do not fit the predicates, or that leave out what they ask for."""
        for part in clause.parts:
            predicate = self.predicates[part.predicate]
            assert len(part.args) == len(predicate.types), f"{clause.head}: {part}"
            assert part.temporal is predicate.temporal, f"{clause.head}: {part}"
        assert not self.predicates[clause.head.predicate].input, f"{clause.head} is an input"
        for premise in clause.premises:
            gathers = premise.sign is Sign.GATHERED
            assert gathers is (premise.gathers is not None), f"{clause.head}: {premise}"
            assert not gathers or len(clause.premises) == 1, f"{clause.head}: {premise}"
            window = clause.head.predicate in self.windows
            assert gathers or (premise.over is not None) is window, f"{clause.head}: {premise}"

    @cached_property
    def clauses_for(self) -> dict[str, tuple[Clause, ...]]:
        """Clauses by head predicate."""
        by_head: dict[str, list[Clause]] = {}
        for clause in self.clauses:
            by_head.setdefault(clause.head.predicate, []).append(clause)
        return {name: tuple(clauses) for name, clauses in by_head.items()}

    @cached_property
    def window_clauses(self) -> tuple[Clause, ...]:
        """For each window a clause whose premise lies over its ticks: `W @ T :- P @ [T-9, T]`."""
        return tuple(window_clause(name, window) for name, window in self.windows.items())

    @property
    def uses(self) -> tuple[Clause, ...]:
        """All clauses, those of windows too: what depends on what, and how far away."""
        return (*self.clauses, *self.window_clauses)

    @cached_property
    def uses_for(self) -> dict[str, tuple[Clause, ...]]:
        """All clauses by head predicate, those of windows too."""
        return {**self.clauses_for, **{c.head.predicate: (c,) for c in self.window_clauses}}

    @cached_property
    def window_of(self) -> dict[str, WindowOf]:
        """What predicates are windows of, also those that are written out in clauses."""
        written = ((clause.head.predicate, clause.part_of) for clause in self.clauses)
        parts = {name: of for name, of in written if of is not None and of.of.gathers is None}
        return {**parts, **self.windows}

    @cached_property
    def inputs(self) -> tuple[Predicate, ...]:
        return tuple(p for p in self.predicates.values() if p.input)

    @cached_property
    def input_of(self) -> dict[str, Predicate]:
        """The input by the name that the user gave it."""
        return {predicate.base: predicate for predicate in self.inputs}

    @cached_property
    def fixed_ticks(self) -> tuple[int, ...]:
        """All ticks that clauses name."""
        return tuple(tick for clause in self.clauses for tick in clause.fixed_ticks)

    @cached_property
    def _firing(self) -> tuple[tuple[Clause, ...], set[str]]:
        """The clauses that can fire, since nothing they need is underivable; what is derivable."""
        needs = [
            (c.head.predicate, {p.predicate for p in c.premises if p.sign is not Sign.NEGATIVE})
            for c in self.uses
        ]
        there = derivable(needs, [p.name for p in self.inputs])
        firing = tuple(
            _without_truisms(clause, there)
            for clause, (_, needed) in zip(self.clauses, needs, strict=False)
            if needed <= there
        )
        return firing, there

    def below(self, queries: Iterable[str]) -> Core:
        """Only what the queries need: the paper's program of a query. Each part is made once.

        Clauses that need a predicate nothing can derive are left out, since they never fire. That
        such a predicate does not hold is always true, and left out of its clause.
        """
        firing, there = self._firing
        needs: dict[str, list[str]] = {}
        for clause in (*firing, *self.window_clauses):
            used = (premise.predicate for premise in clause.premises)
            needs.setdefault(clause.head.predicate, []).extend(used)
        wanted: set[str] = set()
        todo = list(queries)
        while todo:
            name = todo.pop()
            if name not in wanted:
                wanted.add(name)
                todo += needs.get(name, ()) if name in there else ()
        key = frozenset(wanted)
        if key not in self._parts:
            self._parts[key] = self._part(
                tuple(c for c in firing if c.head.predicate in wanted),
                {name: p for name, p in self.predicates.items() if name in wanted},
                {n: w for n, w in self.windows.items() if n in wanted and n in there},
            )
        return self._parts[key]

    def _part(
        self,
        clauses: tuple[Clause, ...],
        predicates: dict[str, Predicate],
        windows: dict[str, WindowOf],
    ) -> Core:
        """A part of the core; itself, if that is all of it."""
        same = len(clauses) == len(self.clauses) and all(map(is_, clauses, self.clauses))
        if same and (len(predicates), len(windows)) == (len(self.predicates), len(self.windows)):
            return self
        return Core(self.program, clauses, predicates, windows)


@dataclass(frozen=True)
class ShownCore(Core):
    """A core as people read it: intervals and aggregates are premises. Nothing evaluates it."""

    def __post_init__(self) -> None:
        """It has clauses that no other core may have."""


def clause_of_a_tick(name: str, window: WindowOf) -> Clause:
    """What a window is over, as a clause with its arguments: a fact that it counts at a tick."""
    return Clause(
        Head(name, window.args, AT_HEAD), (window.of,), origin=window.of.origin, made=True
    )


def window_clause(name: str, window: WindowOf) -> Clause:
    """A window as a clause whose premise lies over its ticks."""
    asked = replace(window.of, over=window.over)
    return Clause(Head(name, window.args, AT_HEAD), (asked,), origin=asked.origin, made=True)


def _without_truisms(clause: Clause, there: set[str]) -> Clause:
    """The clause without asking for the absence of what is never there."""
    for premise in clause.negative:
        if premise.predicate not in there:
            clause = clause.without(premise)
    return clause
