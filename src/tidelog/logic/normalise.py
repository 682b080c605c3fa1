"""The core of a program: what the analyses and the engines see.

Inputs are never heads there: where a predicate is an input and also has rules or facts, or is an
output, the input goes by another name and a rule copies it. Integer constants in float columns are
floats.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import assert_never

from tidelog.language.checks import derivable_predicates
from tidelog.language.program import (
    Atom,
    Comparison,
    Literal,
    Program,
    Rule,
    Time,
    TimeOffset,
    TimePoint,
    Type,
    Variable,
)
from tidelog.language.types import Types, infer, widen
from tidelog.logic.clause import (
    AT_HEAD,
    RIGID,
    Clause,
    FixedTick,
    Free,
    Head,
    HeadTime,
    Offset,
    Premise,
    When,
)


@dataclass(frozen=True)
class Predicate:
    """Name, sort and argument types; `source` is the user's name for it."""

    name: str
    temporal: bool
    types: tuple[Type | None, ...]
    input: bool
    source: str


@dataclass(frozen=True)
class Core:
    program: Program
    rules: tuple[Rule, ...]
    predicates: dict[str, Predicate]

    @cached_property
    def clauses(self) -> tuple[Clause, ...]:
        """The rules in normal form, in the same order."""
        return tuple(map(clause_of, self.rules))

    @cached_property
    def clauses_for(self) -> dict[str, tuple[Clause, ...]]:
        """Clauses by head predicate."""
        by_head: dict[str, list[Clause]] = {}
        for clause in self.clauses:
            by_head.setdefault(clause.head.predicate, []).append(clause)
        return {name: tuple(clauses) for name, clauses in by_head.items()}

    @cached_property
    def rules_for(self) -> dict[str, tuple[Rule, ...]]:
        """Rules by head predicate."""
        found: dict[str, list[Rule]] = {}
        for rule in self.rules:
            found.setdefault(rule.head.predicate, []).append(rule)
        return {name: tuple(rules) for name, rules in found.items()}

    @cached_property
    def inputs(self) -> tuple[Predicate, ...]:
        return tuple(p for p in self.predicates.values() if p.input)

    @cached_property
    def _derivable(self) -> set[str]:
        return derivable_predicates(Program(self.rules), [p.name for p in self.inputs])

    @cached_property
    def _order(self) -> dict[int, int]:
        return {id(rule): i for i, rule in enumerate(self.rules)}

    def below(self, queries: Iterable[str]) -> Core:
        """Only what the queries need: the paper's program of a query.

        Rules that use a predicate nothing can derive are left out, since they never fire.
        """
        queries = tuple(queries)
        wanted: dict[str, None] = {}
        rules: list[Rule] = []
        todo = list(queries)
        while todo:
            name = todo.pop()
            if name in wanted:
                continue
            wanted[name] = None
            for rule in self.rules_for.get(name, ()):
                if all(atom.predicate in self._derivable for atom in rule.atoms):
                    rules.append(rule)
                    todo.extend(atom.predicate for atom in rule.atoms)
        rules.sort(key=lambda rule: self._order[id(rule)])
        kept = {name: p for name, p in self.predicates.items() if name in wanted}
        return Core(self.program, tuple(rules), kept)


def core(program: Program, queries: Iterable[str] = ()) -> Core:
    """The core of a checked program; queries count as outputs.

    >>> from tidelog.language.checks import check
    >>> program = check("input E(a: text) @ t. E(x) @ 5. P(X) @ T :- E(X) @ T.").accepted()
    >>> [(r.head.predicate, [a.predicate for a in r.atoms]) for r in core(program).rules]
    [('E', []), ('P', ['E']), ('E', ['E[in]'])]
    """
    types = infer(program)
    inputs = set(program.inputs)
    split = inputs & {*program.heads, *program.outputs, *queries}
    temporal = _temporal(program)
    predicates: dict[str, Predicate] = {}
    rules = [_typed(rule, types) for rule in program.rules]
    for name in dict.fromkeys([*program.inputs, *program.heads]):
        shape = (temporal[name], types.columns[name])
        if name in split:
            predicates[f"{name}[in]"] = Predicate(f"{name}[in]", *shape, True, name)
            rules.append(_copy(program, name, *shape))
        predicates[name] = Predicate(name, *shape, name in inputs and name not in split, name)
    return Core(program, tuple(rules), predicates)


def _temporal(program: Program) -> dict[str, bool]:
    found = {name: d.time is not None for name, d in program.declarations.items()}
    for rule in program.rules:
        for atom in (rule.head, *rule.atoms):
            found.setdefault(atom.predicate, atom.time is not None)
    return found


def _copy(program: Program, name: str, temporal: bool, types: tuple[Type | None, ...]) -> Rule:
    """`P(X1, .., Xn) @ T :- P[in](X1, .., Xn) @ T.`"""
    declaration = program.declarations.get(name)
    args = tuple(Variable(f"X{i}") for i in range(1, len(types) + 1))
    time = TimeOffset(Variable("T")) if temporal else None
    rule = Rule(Atom(name, args, time), (Atom(f"{name}[in]", args, time),))
    return replace(rule, origin=declaration.origin) if declaration else rule


def _typed(rule: Rule, types: Types) -> Rule:
    body: list[Literal] = []
    variables: dict[str, Type | None] = {}
    for atom in (*rule.atoms, rule.head):
        for term, type_ in zip(atom.args, types.columns[atom.predicate], strict=True):
            if isinstance(term, Variable):
                variables[term.name] = type_
    for literal in rule.body:
        if isinstance(literal, Atom):
            body.append(replace(literal, args=types.fit(literal.predicate, literal.args)))
        else:
            body.append(_typed_comparison(literal, variables))
    head = replace(rule.head, args=types.fit(rule.head.predicate, rule.head.args))
    return replace(rule, head=head, body=tuple(body))


def _typed_comparison(c: Comparison, variables: dict[str, Type | None]) -> Comparison:
    sides = (c.left, c.right)
    known = [variables.get(t.name) if isinstance(t, Variable) else t.type for t in sides]
    type_ = Type.FLOAT if Type.FLOAT in known else None
    return replace(c, left=widen(c.left, type_), right=widen(c.right, type_))


def clause_of(rule: Rule) -> Clause:
    """A rule in normal form: its head at time T, every other time told from there.

    >>> from tidelog.language.checks import check
    >>> clause = clause_of(check("P @ T-2 :- E @ T, F @ 5.").program.rules[0])
    >>> [premise.when for premise in clause.premises]
    [Offset(ticks=2), FixedTick(tick=5)]
    """
    head = rule.head
    premises = tuple(
        Premise(a.predicate, a.args, _when(a.time, head.time), origin=a.origin) for a in rule.atoms
    )
    made = Head(head.predicate, head.args, _head_time(head.time), head.origin)
    return Clause(made, premises, rule.comparisons, rule.origin, rule)


def _head_time(time: Time | None) -> HeadTime:
    match time:
        case TimeOffset():
            return AT_HEAD
        case TimePoint(tick):
            return FixedTick(tick)
        case None:
            return RIGID
        case _:
            assert_never(time)


def _when(time: Time | None, head: Time | None) -> When:
    match time:
        case TimeOffset(variable, offset):
            if isinstance(head, TimeOffset) and head.variable == variable:
                return Offset(offset - head.offset)
            return Free(variable.name, offset)
        case TimePoint(tick):
            return FixedTick(tick)
        case None:
            return RIGID
        case _:
            assert_never(time)


def relative(rule: Rule, atom: Atom) -> int | None:
    """How far a body atom lies behind the head's time: `o = b - h`; None without a shared variable.

    >>> from tidelog.language.checks import check
    >>> rule = check("P @ T-2 :- E @ T.").program.rules[0]
    >>> relative(rule, rule.atoms[0])
    2
    """
    head, body = rule.head.time, atom.time
    if (
        isinstance(head, TimeOffset)
        and isinstance(body, TimeOffset)
        and head.variable == body.variable
    ):
        return body.offset - head.offset
    return None
