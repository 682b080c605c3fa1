"""Whether numbers that rules make come to an end: none may flow around a cycle of rules.

What a rule makes, as in `N = M + 1`, is a new value. If it came back to where it was made, there
would be no end of values; so the arguments that values flow through must not lie on a cycle with a
place where one is made. A sum and an average are made of the values that tell facts apart, and so
is a count: with more values there are more facts. The least and the greatest are not made, but
values that are there.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidelog.language.diagnostics import Code, Diagnostic, Note
from tidelog.language.graph import components
from tidelog.language.printer import print_literal
from tidelog.language.program import (
    Aggregated,
    Calculation,
    Comparison,
    Measure,
    Rule,
    Variable,
    terms_of,
    variable_names,
)

# An argument of a predicate.
_Position: TypeAlias = tuple[str, int]
# What makes a value.
_Making: TypeAlias = Comparison | Aggregated


@dataclass(frozen=True)
class _Flow:
    """A value of one argument becomes that of another, as it is or as what is made of it."""

    source: _Position
    target: _Position
    rule: Rule
    made: _Making | None


def check_made(rules: Sequence[Rule]) -> Iterator[Diagnostic]:
    """The definitions that make a number anew from what became of it, one for each cycle.

    >>> from tidelog.language.checks import check
    >>> rules = "input E @ t. N(M) @ T :- E @ T, N(K) @ T-1, M = K + 1. N(0) @ T :- E @ T."
    >>> print(check(rules).errors[0].message)
    `M = K + 1` makes a number of what it has made before: N
    """
    flows = [flow for rule in rules for flow in _flows(rule)]
    successors: dict[_Position, list[_Position]] = {}
    for flow in flows:
        successors.setdefault(flow.target, []).append(flow.source)
    groups = components(successors, successors)
    number = {position: i for i, group in enumerate(groups) for position in group}
    told: set[int] = set()
    for flow in flows:
        group = number[flow.target]
        if flow.made is None or number[flow.source] != group or group in told:
            continue
        told.add(group)
        names = dict.fromkeys(name for name, _ in groups[group])
        others = [f for f in flows if f.rule is not flow.rule and number[f.target] == group]
        others = [f for f in others if number[f.source] == group]
        yield Diagnostic(
            Code.MADE_AROUND_A_CYCLE,
            f"`{print_literal(flow.made)}` makes a number of what it has made before:"
            f" {', '.join(names)}",
            flow.made.origin,
            tuple(Note("the cycle goes on here", f.rule.origin) for f in others[:1]),
            "there would be no end of values: make numbers of inputs, or of predicates that do"
            " not need this one",
        )


def made_columns(rules: Sequence[Rule]) -> set[tuple[str, int]]:
    """The arguments of heads that rules calculate or measure, or have from such ones.

    >>> from tidelog.language.checks import check
    >>> rules = "input E(x: int) @ t. P(X, N) @ T :- E(X) @ T, N = count(E(_) @ [T-9, T])."
    >>> made_columns(check(rules).program.rules)
    {('P', 1)}
    """
    made: set[_Position] = set()
    size = -1
    while len(made) > size:
        size = len(made)
        for rule in rules:
            values = _Values(rule)
            made |= {
                (rule.head.predicate, i)
                for i, term in enumerate(rule.head.args)
                if isinstance(term, Variable) and values.is_made(term.name, made)
            }
    return made


def _flows(rule: Rule) -> Iterator[_Flow]:
    """From which arguments of the body the arguments of the head have their values."""
    values = _Values(rule)
    for i, term in enumerate(rule.head.args):
        if isinstance(term, Variable):
            target = (rule.head.predicate, i)
            for source, made in values.sources(term.name):
                yield _Flow(source, target, rule, made)


class _Values:
    """Where the variables of a rule have their values from."""

    def __init__(self, rule: Rule) -> None:
        self.defined = {c.left.name: c for c in rule.definitions if isinstance(c.left, Variable)}
        self.measured = {n: m for m in rule.measured for n in variable_names(m.value)}
        self.stands: dict[str, list[_Position]] = {}
        for atom in rule.positive:
            for i, term in enumerate(atom.args):
                if isinstance(term, Variable):
                    self.stands.setdefault(term.name, []).append((atom.predicate, i))

    def is_made(self, name: str, made: Container[_Position]) -> bool:
        """Whether a variable has a value that is calculated or measured, here or before."""
        if name in self.measured:
            return True
        if name not in self.defined:
            return any(position in made for position in self.stands.get(name, ()))
        right = self.defined[name].right
        names = [term.name for term in terms_of(right) if isinstance(term, Variable)]
        return isinstance(right, Calculation) or any(self.is_made(n, made) for n in names)

    def sources(self, name: str) -> Iterator[tuple[_Position, _Making | None]]:
        """Where the value of a variable comes from, and what makes it on the way."""
        if name in self.measured:
            yield from self._gathered(self.measured[name])
        elif name in self.defined:
            definition = self.defined[name]
            made = definition if isinstance(definition.right, Calculation) else None
            for term in terms_of(definition.right):
                if isinstance(term, Variable):
                    for position, earlier in self.sources(term.name):
                        yield position, made or earlier
        else:
            yield from ((position, None) for position in self.stands.get(name, ()))

    def _gathered(self, literal: Aggregated) -> Iterator[tuple[_Position, _Making | None]]:
        """The arguments that an aggregate looks at; what its groups have makes no more facts."""
        picks = literal.aggregate.measure in (Measure.MIN, Measure.MAX)
        for i, term in enumerate(literal.atom.args):
            own = isinstance(term, Variable) and term.name not in self.stands
            if own and (not picks or term == literal.aggregate.of):
                yield (literal.atom.predicate, i), None if picks else literal
