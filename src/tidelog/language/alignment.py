"""Rules that mean what earlier rules meant: in another order, or with other names of variables.

A stream lays its state out by the order of rules. A program that means the same is therefore
brought into the order of the rules that the stream was started with, under their names. So are the
literals of each body.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import Field, fields, is_dataclass, replace
from typing import Any

from tidelog.language.diagnostics import Source
from tidelog.language.parser import parse_source
from tidelog.language.printer import print_rule, print_statement
from tidelog.language.program import Clock, Literal, Program, Rule, TimeOffset, Variable

# So many pairs of literals are compared before two bodies count as different ones.
_MOST_PAIRS = 10_000


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
    return (rule.head.predicate, *sorted(atom.predicate for atom in rule.atoms))


def changed(was: str, now: str) -> str:
    """The first line of printed rules that is gone, and the first that is new.

    Rules that differ only in names of variables, or in the order of their bodies, are the same.

    >>> changed("a.\\nb.", "a.\\nc.")
    'there was b., and now there is c.'
    >>> changed("P(X) @ T :- E(X) @ T.\\nb.", "P(A) @ S :- E(A) @ S.")
    'there was b.'
    """
    old, new = was.splitlines(), now.splitlines()
    gone = [line for line in old if line not in new]
    added = [line for line in new if line not in old]
    rules = {line: _rule(line) for line in (*gone, *added)}
    for line in tuple(gone):
        twin = next((other for other in added if _same(rules[line], rules[other])), None)
        if twin is not None:
            gone.remove(line)
            added.remove(twin)
    heads = {line: rule.head.predicate for line, rule in rules.items() if rule is not None}
    if gone:  # beside a rule that is gone, one for the same predicate says most
        added.sort(key=lambda line: heads.get(line) != heads.get(gone[0]))
    parts = [f"there was {gone[0]}"] if gone else []
    parts += [f"now there is {added[0]}"] if added else []
    return ", and ".join(parts) or "their order is another"


def _rule(line: str) -> Rule | None:
    """The rule that a printed line is, if it can be read by itself."""
    parsed = parse_source(Source("", line))
    rules = parsed.program.rules
    return rules[0] if parsed.complete and len(rules) == 1 else None


def _same(old: Rule | None, new: Rule | None) -> bool:
    return old is not None and new is not None and renamed(old, new) is not None


def renamed(old: Rule, new: Rule) -> Rule | None:
    """An earlier rule, written where the new one is.

    None unless they differ only in names, and in the order of their bodies.
    """
    if len(old.body) != len(new.body) or _predicates(old) != _predicates(new):
        return None
    names = _Names()
    try:
        head = names.match(old.head, new.head)
    except _Differs:
        return None
    body = _matched(old.body, new.body, names, iter(range(_MOST_PAIRS)))
    return None if body is None else replace(old, head=head, body=body, origin=new.origin)


def _matched(
    old: tuple[Literal, ...], new: tuple[Literal, ...], names: _Names, tries: Iterator[int]
) -> tuple[Literal, ...] | None:
    """An earlier body, each literal written where its equal in the new one is; None if none is."""
    if not old:
        return ()
    for i, candidate in enumerate(new):
        if next(tries, None) is None:
            return None
        known = names.copy()
        try:
            literal = known.match(old[0], candidate)
        except _Differs:
            continue
        others = _matched(old[1:], (*new[:i], *new[i + 1 :]), known, tries)
        if others is not None:
            return (literal, *others)
    return None


class _Differs(Exception):
    """Two rules are not the same up to names of variables."""


class _Names:
    """Pairs of variables that stand for each other in two rules."""

    def __init__(self) -> None:
        self.then: dict[str, str] = {}
        self.now: dict[str, str] = {}

    def copy(self) -> _Names:
        names = _Names()
        names.then, names.now = dict(self.then), dict(self.now)
        return names

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
