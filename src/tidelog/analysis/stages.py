"""Stages: how the work of some queries is split among workers, and where it is exchanged.

A stage has a key of its own, on which every rule in it can be evaluated apart. Where a rule's head
cannot have the key of its body, the body is joined in one stage, under a name of its own, and what
it derives is exchanged to the next. What no key splits is done in one piece: joined by Spark's own
engine (`catalyst`) or, where it is recursive or little is left of it, in one partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from tidelog.analysis.dependencies import Dependencies, dependencies
from tidelog.analysis.partition import PartitionKey, Together, common_key, temporal_atoms
from tidelog.language.program import Atom, Rule, TimeOffset, Variable
from tidelog.logic.normalise import Core, Predicate


class Kind(Enum):
    """How the work of a stage is split."""

    KEYED = "keyed"
    WHOLE = "whole"
    CATALYST = "catalyst"


@dataclass(frozen=True)
class Stage:
    """Derived predicates that are computed together, and the key positions of all they look at.

    A predicate without a position has no arguments; all of it is in the first partition.
    """

    kind: Kind
    predicates: tuple[str, ...]
    positions: dict[str, int]
    reason: str = ""  # why no key splits it
    rule: Rule | None = None


@dataclass(frozen=True)
class Staged:
    """Dependencies in which rules that change the key have a predicate between, and the stages."""

    deps: Dependencies
    stages: tuple[Stage, ...]


def staged(deps: Dependencies, large: Iterable[str] = ()) -> Staged:
    """The stages of some queries; `large` names rigid inputs that are not sent to every worker.

    >>> from tidelog.logic.normalise import core
    >>> from tidelog.language.checks import check
    >>> text = '''S(X) @ T :- E(X) @ T. R(Y) @ T :- S(X) @ T, N(X, Y). R(X) @ T+1 :- R(X) @ T.'''
    >>> found = staged(dependencies(core(check(text).program), ["R"]))
    >>> [(s.kind.value, s.predicates) for s in found.stages]
    [('keyed', ('S', 'R>1')), ('keyed', ('R',))]
    """
    return _Planner(deps, frozenset(large)).plan()


@dataclass
class _Open:
    """A stage that may still grow."""

    kind: Kind
    predicates: list[str] = field(default_factory=list)
    groups: list[Together] = field(default_factory=list)
    reason: str = ""
    rule: Rule | None = None


class _Planner:
    def __init__(self, deps: Dependencies, large: frozenset[str]) -> None:
        self.deps = deps
        self.core = deps.core
        self.predicates = dict(self.core.predicates)
        self.rules = list(self.core.rules)
        self.stages: list[_Open] = []
        self.heavy: set[str] = {p.name for p in self.core.inputs if p.source in large}
        self.timed: set[str] = {p.name for p in self.predicates.values() if p.temporal}
        self.gathered: set[str] = set()  # what depends on a rigid predicate that gathers facts
        for component in deps.components:
            bodies = {a.predicate for n in component for r in self._for(n) for a in r.atoms}
            rigid = not self.predicates[component[0]].temporal
            if bodies & self.gathered or (rigid and bodies & self.timed):
                self.gathered.update(component)
            elif rigid and bodies & self.heavy:
                self.heavy.update(component)

    def _for(self, name: str) -> tuple[Rule, ...]:
        return self.core.rules_for.get(name, ())

    def plan(self) -> Staged:
        derived = [c for c in self.deps.components if self._is_work(c[0])]
        late = [c for c in derived if c[0] in self.gathered]
        if any(c[0] in self.deps.recursive for c in late):
            gathers = next(n for c in late for n in c if not self.predicates[n].temporal)
            reason = f"recursion looks at {gathers}, which gathers facts of all keys"
            everything = [n for c in derived for n in c]
            self.stages = [_Open(Kind.WHOLE, everything, [], reason, self._for(gathers)[0])]
        else:
            for component in derived:
                if component[0] not in self.gathered:
                    self._place(component)
            for component in late:
                rule = self._for(component[0])[0]
                reason = f"{component[0]} rests on facts of all keys"
                self._in_one(component, Kind.CATALYST, reason, rule)
        core = self.core
        if len(self.predicates) > len(core.predicates):
            core = Core(core.program, tuple(self.rules), self.predicates)
        deps = dependencies(core, self.deps.queries) if core is not self.core else self.deps
        return Staged(deps, tuple(self._closed(stage) for stage in self.stages))

    def _is_work(self, name: str) -> bool:
        """Whether a predicate is derived and depends on time; others are known beforehand."""
        return not self.predicates[name].input and (name in self.timed or name in self.gathered)

    def _closed(self, stage: _Open) -> Stage:
        positions: dict[str, int] = {}
        if stage.kind is Kind.KEYED:
            found = self._key(stage.groups).positions
            assert found is not None
            positions = found
        return Stage(stage.kind, tuple(stage.predicates), positions, stage.reason, stage.rule)

    def _key(self, groups: list[Together]) -> PartitionKey:
        names = {a.predicate for group in groups for a in group.atoms}
        arities = {n: len(p.types) for n, p in self.predicates.items() if p.temporal}
        order = [n for n in arities if n in names] + [n for n in arities if n not in names]
        return common_key(groups, {name: arities[name] for name in order})

    # One component after the other

    def _place(self, component: tuple[str, ...]) -> None:
        inside = set(component)
        rules = [rule for name in component for rule in self._for(name)]
        groups = [Together(temporal_atoms(rule), rule) for rule in rules]
        heavy = next((r for r in rules if any(a.predicate in self.heavy for a in r.atoms)), None)
        current = self.stages[-1] if self.stages else None
        if heavy is None and (current is None or current.kind is Kind.KEYED):
            here = _Open(Kind.KEYED) if current is None else current
            if self._key([*here.groups, *groups]).positions is not None:
                here.predicates += component
                here.groups += groups
                if current is None:
                    self.stages.append(here)
                return
        inner = [g for g in groups if any(a.predicate in inside for a in g.rule.atoms)]
        entry = [g for g in groups if g not in inner]
        key = self._key(inner)
        loose = [g.rule for g in inner if self._looks_at_large(g.rule)]
        if key.positions is None or loose:
            reason = key.reason or "recursion looks at a large rigid input"
            self._enter(component, entry, [], None)
            self._in_one(component, Kind.WHOLE, reason, key.rule or loose[0])
            return
        if any(not self.predicates[name].types for name in component):
            self._enter(component, entry, [], None)
            bare = next(name for name in component if not self.predicates[name].types)
            self._in_one(component, Kind.WHOLE, f"{bare} has no arguments to split on", None)
            return
        self._enter(component, entry, inner, _Open(Kind.KEYED, list(component)))

    def _looks_at_large(self, rule: Rule) -> bool:
        return any(atom.predicate in self.heavy for atom in rule.atoms)

    def _enter(
        self,
        component: tuple[str, ...],
        entry: list[Together],
        inner: list[Together],
        stage: _Open | None,
    ) -> None:
        """Rules into a component: in its own stage where they fit, before it where they do not."""
        known = list(inner)
        for group in entry:
            rule = group.rule
            body = tuple(a for a in group.atoms if a is not rule.head)
            if not body:  # facts: every partition knows those at home there
                continue
            if (
                stage is not None
                and not self._looks_at_large(rule)
                and self._key([*known, group]).positions is not None
            ):
                known.append(group)
                continue
            known.append(self._send(rule, body))
        if stage is not None:
            stage.groups = known
            self.stages.append(stage)

    def _send(self, rule: Rule, body: tuple[Atom, ...]) -> Together:
        """Derive what a rule does in an earlier stage, under another name; how it is received."""
        head = self.predicates[rule.head.predicate]
        count = sum(1 for p in self.predicates.values() if p.name.startswith(f"{head.name}>"))
        name = f"{head.name}>{count + 1}"
        self.predicates[name] = Predicate(name, True, head.types, False, head.source)
        self.timed.add(name)
        args = tuple(Variable(f"X{i}") for i in range(1, len(head.types) + 1))
        time = TimeOffset(Variable("T"))
        sent = replace(rule, head=replace(rule.head, predicate=name))
        copy = Rule(Atom(head.name, args, time), (Atom(name, args, time),), rule.origin)
        at = next(i for i, known in enumerate(self.rules) if known is rule)
        self.rules[at : at + 1] = [sent, copy]
        group = Together(body, sent)
        if self._looks_at_large(rule):
            self._in_one((name,), Kind.CATALYST, "a large rigid input is joined", rule)
        else:
            current = self.stages[-1] if self.stages else None
            alone = self._key([group])
            if (
                current is not None
                and current.kind is Kind.KEYED
                and self._key([*current.groups, group]).positions is not None
            ):
                current.predicates.append(name)
                current.groups.append(group)
            elif alone.positions is not None:
                self.stages.append(_Open(Kind.KEYED, [name], [group]))
            else:
                self._in_one((name,), Kind.CATALYST, alone.reason, rule)
        return Together((copy.head, *copy.atoms), copy)

    def _in_one(
        self, component: tuple[str, ...], kind: Kind, reason: str, rule: Rule | None
    ) -> None:
        current = self.stages[-1] if self.stages else None
        if current is not None and current.kind is kind:
            current.predicates += component
        else:
            self.stages.append(_Open(kind, list(component), [], reason, rule))
