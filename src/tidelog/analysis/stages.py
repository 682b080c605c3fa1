"""Stages: how the work of some queries is split among workers, and where it is exchanged.

A stage has a key of its own, on which every clause in it can be evaluated apart. Where a clause's
head cannot have the key of its body, the body is joined in one stage, for a predicate of its own,
and what it derives is exchanged to the next. What no key splits is done in one piece: joined by
Spark's own engine (`catalyst`) or, where it is recursive or little is left of it, in one partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from tidelog.analysis.dependencies import Dependencies, dependencies
from tidelog.analysis.partition import PartitionKey, Together, common_key
from tidelog.logic.clause import Clause, Head, Premise
from tidelog.logic.core import Role, rules_of
from tidelog.logic.normalise import handed_on
from tidelog.logic.windows import over_ticks


class StageKind(Enum):
    """How the work of a stage is split."""

    KEYED = "keyed"
    WHOLE = "whole"
    CATALYST = "catalyst"


@dataclass(frozen=True)
class Stage:
    """Derived predicates that are computed together, and the key positions of all they look at.

    A predicate without a position has no arguments; all of it is in the first partition.
    """

    kind: StageKind
    predicates: tuple[str, ...]
    positions: dict[str, int]
    reason: str = ""  # why no key splits it
    clause: Clause | None = None


@dataclass(frozen=True)
class Staged:
    """The stages, and the dependencies with the predicates that are exchanged between them."""

    deps: Dependencies
    stages: tuple[Stage, ...]


def staged(deps: Dependencies, large: Iterable[str] = ()) -> Staged:
    """The stages of some queries; `large` names rigid inputs that are not sent to every worker.

    >>> from tidelog.logic.normalise import core
    >>> from tidelog.language.checks import check
    >>> text = '''S(X) @ T :- E(X) @ T. R(Y) @ T :- S(X) @ T, N(X, Y). R(X) @ T+1 :- R(X) @ T.'''
    >>> split = staged(dependencies(core(check(text).program), ["R"]))
    >>> [(s.kind.value, s.predicates) for s in split.stages]
    [('keyed', ('S', 'R>1')), ('keyed', ('R',))]
    """
    core = over_ticks(deps.core)
    deps = deps if core is deps.core else replace(deps, core=core)
    return _Splitter(deps, frozenset(large)).plan()


@dataclass
class _Growing:
    """A stage that may still grow."""

    kind: StageKind
    predicates: list[str] = field(default_factory=list)
    groups: list[Together] = field(default_factory=list)
    reason: str = ""
    clause: Clause | None = None


class _Splitter:
    def __init__(self, deps: Dependencies, large: frozenset[str]) -> None:
        self.deps = deps
        self.core = deps.core
        self.predicates = dict(self.core.predicates)
        self.clauses = list(rules_of(self.core))
        self.stages: list[_Growing] = []
        self.heavy: set[str] = {p.name for p in self.core.inputs if p.base in large}
        self.timed: set[str] = {p.name for p in self.predicates.values() if p.temporal}
        self.gathered: set[str] = set()  # what depends on a rigid predicate that gathers facts
        for component in deps.components:
            bodies = {p.predicate for n in component for c in self._for(n) for p in c.premises}
            rigid = not self.predicates[component[0]].temporal
            if bodies & self.gathered or (rigid and bodies & self.timed):
                self.gathered.update(component)
            elif rigid and bodies & self.heavy:
                self.heavy.update(component)

    def _for(self, name: str) -> tuple[Clause, ...]:
        return self.core.uses_for[name]

    def plan(self) -> Staged:
        derived = [c for c in self.deps.components if self._is_work(c[0])]
        late = [c for c in derived if c[0] in self.gathered]
        if any(c[0] in self.deps.recursive or self._is_aggregate(c) for c in late):
            gathers = next(n for c in late for n in c if not self.predicates[n].temporal)
            reason = f"what looks at {gathers}, which gathers facts of all keys, is not split"
            everything = [n for c in derived for n in c]
            self.stages = [_Growing(StageKind.WHOLE, everything, [], reason, self._for(gathers)[0])]
        else:
            for component in derived:
                if component[0] not in self.gathered:
                    self._place(component)
            if late:  # together: rows without a time do not go from stage to stage
                together = tuple(name for component in late for name in component)
                reason = f"{together[0]} rests on facts of all keys"
                clause = self._for(together[0])[0]
                self._in_one(together, StageKind.CATALYST, reason, clause)
        core = self.core
        if len(self.predicates) > len(core.predicates):
            core = core.rewritten(self.clauses, self.predicates)
        deps = dependencies(core, self.deps.queries) if core is not self.core else self.deps
        return Staged(deps, tuple(self._closed(stage) for stage in self.stages))

    def _is_work(self, name: str) -> bool:
        """Whether a predicate is derived and depends on time; others are known beforehand."""
        return not self.predicates[name].input and (name in self.timed or name in self.gathered)

    def _closed(self, stage: _Growing) -> Stage:
        positions: dict[str, int] = {}
        if stage.kind is StageKind.KEYED:
            common = self._key(stage.groups).positions
            assert common is not None
            positions = common
        return Stage(stage.kind, tuple(stage.predicates), positions, stage.reason, stage.clause)

    def _key(self, groups: list[Together]) -> PartitionKey:
        names = {part.predicate for group in groups for part in group.parts}
        arities = {n: len(p.types) for n, p in self.predicates.items() if p.temporal}
        order = [n for n in arities if n in names] + [n for n in arities if n not in names]
        return common_key(groups, {name: arities[name] for name in order})

    # One component after the other

    def _is_aggregate(self, component: tuple[str, ...]) -> bool:
        """Whether it is the predicate of an aggregate, and nothing else is together with it."""
        return len(component) == 1 and component[0] in self.core.aggregates

    def _place_whole(self, component: tuple[str, ...], groups: list[Together]) -> None:
        """With a key of its own, an aggregate or a window is made apart; of all facts without."""
        if self._joins(component, groups):
            return
        key = self._key(groups)
        if key.positions is not None:
            self.stages.append(_Growing(StageKind.KEYED, list(component), groups))
        else:
            self._in_one(component, StageKind.WHOLE, key.reason, groups[0].clause)

    def _place(self, component: tuple[str, ...]) -> None:
        inside = set(component)
        clauses = [clause for name in component for clause in self._for(name)]
        groups = [Together(clause.timed, clause) for clause in clauses]
        if len(component) == 1 and component[0] in self.core.operations:
            self._place_whole(component, groups)
            return
        if not any(map(self._looks_at_large, clauses)) and self._joins(component, groups):
            return
        inner = [g for g in groups if any(p.predicate in inside for p in g.clause.premises)]
        entry = [g for g in groups if g not in inner]
        key = self._key(inner)
        loose = [g.clause for g in inner if self._looks_at_large(g.clause)]
        bare = next((name for name in component if not self.predicates[name].types), None)
        if key.positions is None or loose:
            reason = key.reason or "recursion looks at a large rigid input"
            self._enter(entry, [], None)
            self._in_one(component, StageKind.WHOLE, reason, key.clause or loose[0])
        elif bare is not None:
            self._enter(entry, [], None)
            self._in_one(component, StageKind.WHOLE, f"{bare} has no arguments to split on", None)
        else:
            self._enter(entry, inner, _Growing(StageKind.KEYED, list(component)))

    def _joins(self, component: tuple[str, ...], groups: list[Together]) -> bool:
        """Whether a component goes into a stage that there is, or into the first one."""
        if not self.stages:
            if self._key(groups).positions is None:
                return False
            self.stages.append(_Growing(StageKind.KEYED, list(component), list(groups)))
            return True
        for stage in self._from_here(component):
            if self._fits(stage, groups):
                stage.predicates += component
                stage.groups += groups
                return True
        return False

    def _from_here(self, component: tuple[str, ...]) -> list[_Growing]:
        """The stages at which everything is there that some predicates need."""
        own = [clause for clause in self.clauses if clause.head.predicate in component]
        needed = {premise.predicate for clause in own for premise in clause.premises}
        operations = (self.core.operations.get(name) for name in component)
        needed.update(operation.of.predicate for operation in operations if operation is not None)
        before = [i for i, s in enumerate(self.stages) if not needed.isdisjoint(s.predicates)]
        return self.stages[max(before, default=0) :]

    def _fits(self, stage: _Growing, groups: list[Together]) -> bool:
        """Whether one key does for what a stage has already and for some more."""
        return stage.kind is StageKind.KEYED and (
            self._key([*stage.groups, *groups]).positions is not None
        )

    def _looks_at_large(self, clause: Clause) -> bool:
        return any(premise.predicate in self.heavy for premise in clause.premises)

    def _enter(self, entry: list[Together], inner: list[Together], stage: _Growing | None) -> None:
        """Clauses into a component: in its stage where they fit, before it where they do not."""
        known = list(inner)
        for group in entry:
            body = tuple(part for part in group.parts if part is not group.clause.head)
            if not body:  # facts: every partition knows those at home there
                continue
            if stage is None and len(group.clause.premises) == 1:
                continue  # nothing to join beforehand
            if (
                stage is not None
                and not self._looks_at_large(group.clause)
                and self._key([*known, group]).positions is not None
            ):
                known.append(group)
            else:
                known.append(self._send(group.clause, body))
        if stage is not None:
            stage.groups = known
            self.stages.append(stage)

    def _send(self, clause: Clause, body: tuple[Head | Premise, ...]) -> Together:
        """Derive what a clause does in an earlier stage, for a predicate of its own.

        Returned is how it is received.
        """
        head = self.predicates[clause.head.predicate]
        before = [p for p in self.predicates.values() if p.role is Role.SENT]
        number = 1 + sum(p.base == head.base for p in before)
        passed = head.made(Role.SENT, str(number))
        self.predicates[passed.name] = passed
        self.timed.add(passed.name)
        sent = replace(clause, head=replace(clause.head, predicate=passed.name))
        received = replace(handed_on(passed, head), origin=clause.origin, written=clause.written)
        at = next(i for i, known in enumerate(self.clauses) if known is clause)
        self.clauses[at : at + 1] = [sent, received]
        group = Together(body, sent)
        if self._looks_at_large(clause):
            reason = "a large rigid input is joined"
            self._in_one((passed.name,), StageKind.CATALYST, reason, clause)
        elif not self._joins((passed.name,), [group]):
            alone = self._key([group])
            if alone.positions is not None:
                self.stages.append(_Growing(StageKind.KEYED, [passed.name], [group]))
            else:
                self._in_one((passed.name,), StageKind.CATALYST, alone.reason, clause)
        return Together((received.head, *received.premises), received)

    def _in_one(
        self, component: tuple[str, ...], kind: StageKind, reason: str, clause: Clause | None
    ) -> None:
        """Into the first stage of its kind that has all it needs, or into one of its own."""
        for stage in self._from_here(component):
            if stage.kind is kind:
                stage.predicates += component
                return
        self.stages.append(_Growing(kind, list(component), [], reason, clause))
