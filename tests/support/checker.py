"""A proof checker that shares nothing with the search: rules, facts, and arithmetic on times."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from oracle import arithmetic

from tidelog.language.program import (
    Atom,
    Constant,
    Interval,
    Program,
    Rule,
    TimeOffset,
    TimePoint,
    Value,
    ticks_of,
    time_variable_of,
)

COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Fact = tuple[str, tuple[Value, ...], int | None]


def as_fact(data: dict[str, Any]) -> Fact:
    return data["predicate"], tuple(data["args"]), data.get("time")


def given(facts: dict[str, list[tuple[Value, ...]]], temporal: set[str]) -> set[Fact]:
    return {
        (name, row[:-1], int(row[-1])) if name in temporal else (name, row, None)
        for name, rows in facts.items()
        for row in rows
    }


def unify(atom: Atom, fact: Fact, binding: dict[str, Any]) -> bool:
    """Extend the binding in place so that the atom is the fact."""
    name, args, time = fact
    if atom.predicate != name or len(atom.args) != len(args):
        return False
    for term, value in zip(atom.args, args, strict=True):
        if isinstance(term, Constant):
            if term.value != value:
                return False
        elif binding.setdefault(f"object {term.name}", value) != value:
            return False
    match atom.time:
        case None:
            return time is None
        case TimePoint(tick):
            return time == tick
        case TimeOffset(variable, offset):
            if time is None:
                return False
            base = time - offset
            return bool(binding.setdefault(f"time {variable.name}", base) == base)
        case Interval(low, high) if low == high:
            return unify(replace(atom, time=low), fact, binding)
        case Interval():
            return time is not None and time in _ticks(atom.time, binding)


def _ticks(interval: Interval, binding: dict[str, Any]) -> range:
    """The ticks of an interval whose variable, if it has one, has a value."""
    variable = time_variable_of(interval)
    base = 0 if variable is None else binding[f"time {variable.name}"]
    return range(base + ticks_of(interval.low), base + ticks_of(interval.high) + 1)


@dataclass(frozen=True)
class Stretch:
    """What a proof says of an interval: the facts that are counted in it."""

    predicate: str
    first: int
    last: int
    facts: tuple[Fact, ...]


def counts(atom: Atom, stretch: Stretch, binding: dict[str, Any]) -> bool:
    """Whether an atom holds at enough ticks of its interval; only `_` differs between them."""
    interval = atom.time
    assert isinstance(interval, Interval)
    variable = time_variable_of(interval)
    if variable is not None:
        base = stretch.first - ticks_of(interval.low)
        if binding.setdefault(f"time {variable.name}", base) != base:
            return False
    ticks = _ticks(interval, binding)
    for fact in stretch.facts:
        loose = {name: v for name, v in binding.items() if not name.startswith("object _#")}
        if not unify(atom, fact, loose):
            return False
        binding |= {name: v for name, v in loose.items() if not name.startswith("object _#")}
    right = (ticks[0], ticks[-1]) == (stretch.first, stretch.last)
    return right and len({time for _, _, time in stretch.facts}) >= interval.fewest


def applies(rule: Rule, head: Fact, premises: Sequence[Fact | Stretch]) -> dict[str, Any] | None:
    """The binding under which a rule gives the head from the premises, in order; or None."""
    binding: dict[str, Any] = {}
    if len(premises) != len(rule.positive):
        return None
    for atom, fact in zip(rule.positive, premises, strict=True):
        if isinstance(fact, Stretch):
            if not counts(atom, fact, binding):
                return None
        elif not unify(atom, fact, binding):
            return None
    if not unify(rule.head, head, binding):
        return None
    objects = {name.removeprefix("object "): value for name, value in binding.items()}
    for comparison in rule.comparisons:
        left, right = (arithmetic.value(s, objects) for s in (comparison.left, comparison.right))
        if left is None or right is None:
            return None
        if not COMPARE[comparison.operator.value](left, right):
            return None
    return binding


def rule_at(program: Program, step: dict[str, Any]) -> Rule:
    """The rule a step names by its text and line."""
    (rule, *_) = [
        r
        for r in program.rules
        if str(r.origin) == f"{step['file']}:{step['line']}" and _text(r) == step["rule"]
    ]
    return rule


def _text(rule: Rule) -> str:
    from tidelog.language.printer import print_rule

    return print_rule(rule)


def check(program: Program, facts: set[Fact], goal: Fact, proof: dict[str, Any]) -> int:
    """Check every step of a proof given as JSON; its size, counted anew."""
    steps = proof["steps"]
    assert as_fact(steps[0]["fact"]) == goal
    names: list[Fact | Stretch] = [as_fact(step["fact"]) for step in steps]
    for i, step in enumerate(steps):
        if "from" in step["fact"]:
            said = step["fact"]
            counted = [names[p] for p in step["premises"]]
            assert len(counted) == said["at_least"] <= said["ticks"]
            facts_ = tuple(fact for fact in counted if not isinstance(fact, Stretch))
            names[i] = Stretch(said["predicate"], said["from"], said["to"], facts_)
    assert len(set(names)) == len(names), "each fact is proved once"
    used = {0}
    sizes: dict[int, int] = {}
    visiting: set[int] = set()

    def size(i: int) -> int:
        assert i not in visiting, "a fact is used in its own proof"
        if i not in sizes:
            visiting.add(i)
            own = not isinstance(names[i], Stretch)
            sizes[i] = own + sum(size(p) for p in steps[i]["premises"])
            visiting.discard(i)
        return sizes[i]

    for step, fact in zip(steps, names, strict=True):
        if isinstance(fact, Stretch):
            used.update(step["premises"])
            continue
        if step["rule"] is None:
            assert fact in facts, "an input fact that was not given"
            assert step["premises"] == []
            continue
        rule = rule_at(program, step)
        premises = [names[p] for p in step["premises"]]
        assert applies(rule, fact, premises) is not None, (step, premises)
        used.update(step["premises"])
    assert used == set(range(len(steps))), "a step that nothing uses"
    assert size(0) == proof["size"]
    return size(0)


def smallest(program: Program, facts: set[Fact], model: set[Fact], goal: Fact) -> int:
    """The least size of a proof, by trying every rule on every tuple of true facts, round by round.

    Sizes go down until nothing changes any more: slow, and straight from the definition.
    """
    sizes: dict[Fact, float] = dict.fromkeys(facts, 1)
    by_name: dict[str, list[Fact]] = {}
    for fact in model | facts:
        by_name.setdefault(fact[0], []).append(fact)
    instances: list[tuple[Fact, list[Fact]]] = []
    for rule in program.rules:
        partial: list[tuple[dict[str, Any], list[Fact]]] = [({}, [])]
        for atom in rule.positive:
            following = []
            for binding, chosen in partial:
                for fact in by_name.get(atom.predicate, ()):
                    extended = dict(binding)
                    if unify(atom, fact, extended):
                        following.append((extended, [*chosen, fact]))
            partial = following
        for head in by_name.get(rule.head.predicate, ()):
            instances += [
                (head, chosen)
                for binding, chosen in partial
                if unify(rule.head, head, dict(binding)) and applies(rule, head, chosen) is not None
            ]
    changed = True
    while changed:
        changed = False
        for head, premises in instances:
            total = 1 + sum(sizes.get(p, float("inf")) for p in premises)
            if total < sizes.get(head, float("inf")):
                sizes[head] = total
                changed = True
    return int(sizes[goal])
