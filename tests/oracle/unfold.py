"""Programs without intervals that mean the same, from the definition and nothing else.

`some` over n ticks is a rule for each tick, `always` is n atoms, at least K a rule for every choice
of K ticks; with `not` before it, a rule for every choice of n-K+1 ticks at which the atom does not
hold. A head at an interval is a rule for each tick. There soon are many rules: more than MOST raise
TooManyRulesError.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from math import comb, prod

from tidelog.language.checks import check
from tidelog.language.printer import print_program
from tidelog.language.program import (
    Atom,
    Instant,
    Interval,
    Literal,
    Negated,
    Program,
    Rule,
    Statement,
    TimeOffset,
    TimePoint,
    atom_of,
)

MOST = 300


class TooManyRulesError(Exception):
    """The program without intervals would be too large."""


def unfolded(program: Program, most: int = MOST) -> Program:
    """The program with rules at single ticks only; checked again.

    >>> print(unfolded(check("Q @ T :- at least 2 E @ [T-1, T+1].").accepted()), end="")
    Q @ T :- E @ T-1, E @ T.
    Q @ T :- E @ T-1, E @ T+1.
    Q @ T :- E @ T, E @ T+1.
    """
    if not has_intervals(program):
        return program
    if sum(map(_count, program.rules)) > most:
        raise TooManyRulesError
    statements: list[Statement] = []
    for statement in program.statements:
        statements += _rules(statement) if isinstance(statement, Rule) else [statement]
    return check(print_program(Program(tuple(statements)))).accepted()


def has_intervals(program: Program) -> bool:
    return any(isinstance(a.time, Interval) for r in program.rules for a in (r.head, *r.atoms))


def _count(rule: Rule) -> int:
    head = rule.head.time.ticks if isinstance(rule.head.time, Interval) else 1
    times = [atom.time for atom in rule.atoms]
    # Choosing k of n or n-k+1 of n: the larger number is a safe guess.
    ways = [
        max(comb(t.ticks, t.fewest), comb(t.ticks, t.ticks - t.fewest + 1))
        for t in times
        if isinstance(t, Interval)
    ]
    return head * prod(ways)


def _rules(rule: Rule) -> Iterator[Rule]:
    bodies = itertools.product(*map(_ways, rule.body))
    heads = [replace(rule.head, time=at) for at in _ticks(rule.head)]
    for body, head in itertools.product(bodies, heads):
        yield Rule(head, tuple(itertools.chain(*body)))


def _ways(literal: Literal) -> list[tuple[Literal, ...]]:
    """The ways in which a literal can be true, each as literals at single ticks."""
    atom = atom_of(literal)
    if atom is None or not isinstance(atom.time, Interval):
        return [(literal,)]
    at_ticks: list[Literal] = [replace(atom, time=at) for at in _ticks(atom)]
    least = atom.time.fewest
    if isinstance(literal, Negated):
        at_ticks = [Negated(a) for a in at_ticks if isinstance(a, Atom)]
        least = atom.time.ticks - least + 1
    return list(itertools.combinations(at_ticks, least))


def _ticks(atom: Atom) -> list[Instant | None]:
    time = atom.time
    if not isinstance(time, Interval):
        return [time]
    if isinstance(time.low, TimePoint):
        return [TimePoint(time.low.tick + i) for i in range(time.ticks)]
    return [TimeOffset(time.low.variable, time.low.offset + i) for i in range(time.ticks)]
