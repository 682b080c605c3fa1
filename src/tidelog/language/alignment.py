"""Rules that mean what earlier rules meant: in another order, or with other names of variables.

A stream lays its state out by the order of rules. A program that means the same is therefore
brought into the order of the rules that the stream was started with, under their names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import Field, fields, is_dataclass, replace
from typing import Any

from tidelog.language.diagnostics import Source
from tidelog.language.parser import parse_source
from tidelog.language.printer import print_rule, print_statement
from tidelog.language.program import Clock, Program, Rule, TimeOffset, Variable


def rules_text(program: Program) -> str:
    """Clocks and rules, one a line: what the answers of some facts follow from.

    Lengths of time are in ticks where the program does not say how long a tick is.
    """
    rules = program.rules if program.tick else map(_in_ticks, program.rules)
    return "\n".join([*map(print_statement, program.clocks.values()), *map(print_rule, rules)])


def _in_ticks(part: Any) -> Any:
    """A part of a rule as if no length of time had been written in it."""
    if isinstance(part, TimeOffset):
        return replace(part, written=None)
    if isinstance(part, tuple):
        return tuple(map(_in_ticks, part))
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{f.name: _in_ticks(getattr(part, f.name)) for f in fields(part)})
    return part


def aligned(program: Program, text: str) -> Program | None:
    """A program with clocks and rules as an earlier `rules_text` has them; None if they differ.

    Each rule says where it is written now, and is otherwise what it was.

    >>> from tidelog.language.parser import parse_source
    >>> now = parse_source(Source("", "Q(A) @ T :- P(A) @ T. P(B) @ S :- E(B, _) @ S.")).program
    >>> print(aligned(now, "P(X) @ T :- E(X, _) @ T.\\nQ(X) @ T :- P(X) @ T."), end="")
    P(X) @ T :- E(X, _) @ T.
    Q(X) @ T :- P(X) @ T.
    >>> aligned(now, "P(X) @ T :- E(X, _) @ T.") is None
    True
    """
    if rules_text(program) == text:
        return program
    parsed = parse_source(Source("", text), program.tick)
    before = parsed.program
    same_clocks = before.clocks.keys() == program.clocks.keys()
    if not (parsed.complete and same_clocks and len(before.rules) == len(program.rules)):
        return None
    waiting: dict[tuple[str, ...], list[Rule]] = {}
    for rule in program.rules:
        waiting.setdefault(_predicates(rule), []).append(rule)
    rules: list[Rule] = []
    for old in before.rules:
        candidates = waiting.get(_predicates(old), [])
        pairs = ((new, renamed(old, new)) for new in candidates)
        found = next(((new, rule) for new, rule in pairs if rule is not None), None)
        if found is None:
            return None
        candidates.remove(found[0])
        rules.append(found[1])
    others = (s for s in program.statements if not isinstance(s, (Clock, Rule)))
    clocks = (program.clocks[name] for name in before.clocks)
    return replace(program, statements=(*others, *clocks, *rules))


def in_order(names: Iterable[str], before: Iterable[str]) -> tuple[str, ...]:
    """Names in the order in which the same names were given before, if they are the same."""
    now, then = tuple(names), tuple(before)
    return then if sorted(now) == sorted(then) else now


def _predicates(rule: Rule) -> tuple[str, ...]:
    return (rule.head.predicate, *(atom.predicate for atom in rule.atoms))


def renamed(old: Rule, new: Rule) -> Rule | None:
    """An earlier rule, written where the new one is; None unless they differ in names only."""
    names = _Names()
    try:
        rule: Rule = names.match(old, new)
    except _Differs:
        return None
    return rule


class _Differs(Exception):
    """Two rules are not the same up to names of variables."""


class _Names:
    """Pairs of variables that stand for each other in two rules."""

    def __init__(self) -> None:
        self.then: dict[str, str] = {}
        self.now: dict[str, str] = {}

    def match(self, old: Any, new: Any) -> Any:
        """The older of two parts of rules, with the origins of the newer one."""
        if type(old) is not type(new):
            raise _Differs
        if isinstance(old, Variable):
            self._pair(old, new)
            return replace(old, origin=new.origin)
        if isinstance(old, tuple):
            if len(old) != len(new):
                raise _Differs
            return tuple(map(self.match, old, new))
        if is_dataclass(old) and not isinstance(old, type):
            return replace(old, **{f.name: self._field(f, old, new) for f in fields(old)})
        if old != new:
            raise _Differs
        return old

    def _field(self, field: Field[Any], old: Any, new: Any) -> Any:
        then, now = getattr(old, field.name), getattr(new, field.name)
        if field.compare:
            return self.match(then, now)
        return then if field.name == "written" else now

    def _pair(self, old: Variable, new: Variable) -> None:
        if old.anonymous != new.anonymous:
            raise _Differs
        known = self.then.setdefault(new.name, old.name), self.now.setdefault(old.name, new.name)
        if known != (old.name, new.name):
            raise _Differs
