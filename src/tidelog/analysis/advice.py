"""What to change so that a blocking query becomes one whose answers can be waited for.

Each kind of deciding rule has its small changes. They change what the rules say, a little and on
purpose: usually from "some time" to "up to now". A suggestion is made only if the changed program
is accepted and the query is then in class 1 or 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple, assert_never

from tidelog.analysis.dependencies import Class, Dependencies
from tidelog.analysis.passes import Passes
from tidelog.language.checks import check
from tidelog.language.printer import print_program, print_time
from tidelog.language.program import (
    Aggregated,
    Atom,
    Comparison,
    Interval,
    Literal,
    Negated,
    Program,
    Rule,
    Statement,
    Time,
    TimeOffset,
    TimePoint,
    Variable,
    atom_of,
    ends,
    time_variable_of,
)
from tidelog.logic.clause import over_of
from tidelog.logic.normalise import clause_of

# How far ahead the unrolled variant of a rule looks that looks ahead without end.
STEPS_AHEAD = 2
# So many changes together are still a small change.
MOST_CHANGES = 3


@dataclass(frozen=True)
class Suggestion:
    """A change of some rules, what it means, and the class the query is in then."""

    text: str
    before: tuple[Rule, ...]
    after: tuple[Rule, ...]
    cls: Class


class _Change(NamedTuple):
    text: str
    program: Program


def advice(program: Program, query: str) -> list[Suggestion]:
    """Small changes after which a blocking query is no longer blocking.

    >>> from tidelog.language.printer import print_rule
    >>> program = check("Late @ T :- Alarm @ T. Late @ T :- Late @ T+1.").accepted()
    >>> forward, ahead = advice(program, "Late")
    >>> [print_rule(rule) for rule in forward.after]
    ['Late @ T+1 :- Late @ T.']
    >>> [print_rule(rule) for rule in ahead.after]
    ['Late @ T :- Alarm @ T+1.', 'Late @ T :- Alarm @ T+2.']
    """
    if _class(program, query) is not Class.BLOCKING:
        return []
    suggestions: list[Suggestion] = []
    for change in _changes(program, query):
        repaired = _repaired(change, query, MOST_CHANGES - 1)
        if repaired is not None:
            text, changed, cls = repaired
            before = tuple(r for r in program.rules if r not in changed.rules)
            after = tuple(r for r in changed.rules if r not in program.rules)
            suggestions.append(Suggestion(text, before, after, cls))
    return suggestions


def _repaired(change: _Change, query: str, more: int) -> tuple[str, Program, Class] | None:
    """The changed program once nothing blocks any more, with further changes if need be."""
    if check(print_program(change.program)).errors:
        return None
    cls = _class(change.program, query)
    if cls is not Class.BLOCKING:
        return change.text, change.program, cls
    if more:
        for further in _changes(change.program, query):
            both = further._replace(text=f"{change.text}; {further.text}")
            repaired = _repaired(both, query, more - 1)
            if repaired is not None:
                return repaired
    return None


def _class(program: Program, query: str) -> Class:
    return _dependencies(program, query).cls


def _dependencies(program: Program, query: str) -> Dependencies:
    return Passes(program, (query,)).dependencies


def _changes(program: Program, query: str) -> Iterator[_Change]:
    """Changes of the rule that decides, if one alone does."""
    deciding = _dependencies(program, query).reason.clauses
    if len(deciding) != 1 or deciding[0].written is None:
        return
    clause, rule = deciding[0], deciding[0].written
    if clause.connected:
        yield from _carried_forward(program, rule)
        yield from _unrolled(program, rule)
    elif len(_time_variables(rule)) > 1:
        yield _seen_before(program, rule)
    elif rule.head.time is None:
        yield from _with_a_time(program, rule.head.predicate)
    else:
        yield _at_its_time(program, rule)


# Looking ahead without end


def _carried_forward(program: Program, rule: Rule) -> Iterator[_Change]:
    """`P @ T :- P @ T+k.` becomes `P @ T+k :- P @ T.`; the rest stays at the head's time."""
    own = _looked_ahead_at(rule)
    if own is None:
        return
    head, looked_at, ahead = rule.head.time, own.literal.time, own.ticks
    assert isinstance(head, TimeOffset)
    assert isinstance(looked_at, TimeOffset)
    by = ahead - head.offset
    body = tuple(_moved(x, -looked_at.offset if x is own.literal else by) for x in rule.body)
    turned = replace(rule, head=replace(rule.head, time=replace(head, offset=ahead)), body=body)
    name = rule.head.predicate
    text = f"carry {name} forward, not back: it then holds after what starts it, not before"
    yield _Change(text, _with_rules(program, {id(rule): (turned,)}))


def _unrolled(program: Program, rule: Rule) -> Iterator[_Change]:
    """`P @ T :- P @ T+k.` becomes `P @ T :- E @ T+k.` and so on, for each `P @ T :- E @ T.`"""
    own = _looked_ahead_at(rule)
    args = rule.head.args
    if own is None or rule.body != (own.literal,) or own.literal.args != args:
        return
    if len(set(args)) < len(args) or not all(isinstance(term, Variable) for term in args):
        return
    name = rule.head.predicate
    others = [r for r in program.rules if r.head.predicate == name and r is not rule]
    starts = [r for r in others if name not in _used(r)]
    timed = all(isinstance(r.head.time, TimeOffset) for r in starts)
    if not starts or not timed or name in program.declarations:
        return
    added = tuple(
        replace(start, body=tuple(_moved(x, n * own.ticks) for x in start.body))
        for start in starts
        for n in range(1, STEPS_AHEAD + 1)
    )
    text = f"look ahead a fixed number of ticks, here {STEPS_AHEAD * own.ticks}"
    yield _Change(text, _with_rules(program, {id(rule): added}))


class _Ahead(NamedTuple):
    """An atom of a body, and how far it lies ahead of the head."""

    literal: Atom
    ticks: int


def _looked_ahead_at(rule: Rule) -> _Ahead | None:
    """The use of the head's own predicate, if there is one and it lies ahead."""
    clause = clause_of(rule)
    own = [p for p in clause.premises if p.predicate == rule.head.predicate]
    if len(own) != 1 or (own[0].offset or 0) <= 0:
        return None
    literal = clause.literal(own[0])
    if over_of(own[0]) is not None or isinstance(rule.head.time, Interval):
        return None
    return _Ahead(literal, own[0].offset or 0) if isinstance(literal, Atom) else None


# Times that the head does not share


def _seen_before(program: Program, rule: Rule) -> _Change:
    """What happens at another time is remembered, and joined at the head's time."""
    kept = _variable(rule.head) or _time_variables(rule)[0]
    other = next(name for name in _time_variables(rule) if name != kept)
    group = [x for x in rule.body if _variable(x) == other]
    rest = [x for x in rule.body if _variable(x) != other]
    wanted = {v.name for x in (rule.head, *rest) for v in x.variables}
    atoms = [x for x in group if isinstance(x, Atom)]
    args = tuple(dict.fromkeys(v for a in atoms for v in a.variables if v.name in wanted))
    one = len(group) == 1
    seen = _fresh(program, f"Seen{atoms[0].predicate if one else rule.head.predicate}")
    clock = _unused(rule)
    remembered = Rule(
        Atom(seen, args, _latest(group, clock)), tuple(_timed(a, clock) for a in group)
    )
    # Without a time of its own the head will be at the latest of its body.
    own = clock if Variable(kept).anonymous else Variable(kept)
    rest = [_timed(x, own) if _variable(x) == kept else x for x in rest]
    time = rule.head.time
    if not isinstance(time, TimeOffset):
        time = _latest(rest, own)
    joined = replace(rule, body=(*rest, Atom(seen, args, time)))
    what = atoms[0].predicate if one else "what happens at another time"
    text = f"remember {what} from when it is seen: only what came up to then counts"
    changed = (remembered, _carried(seen, args), joined)
    return _Change(text, _with_rules(program, {id(rule): changed}))


def _with_a_time(program: Program, predicate: str) -> Iterator[_Change]:
    """A rigid predicate gets a time: from when it is known on. So do rigid ones that need it."""
    timed = {predicate}
    grew = True
    while grew:
        above = {
            rule.head.predicate
            for rule in program.rules
            if rule.head.time is None and timed & _used(rule)
        }
        grew = not above <= timed
        timed |= above
    if timed & set(program.declarations):
        return
    # What was once derived from an absence would stay when what was absent comes.
    rigid = (r for r in program.rules if r.head.predicate in timed)
    if any(atom.predicate in timed for r in rigid for atom in r.negative):
        return
    changed: dict[int, tuple[Rule, ...]] = {}
    last: dict[str, Rule] = {}
    for rule in program.rules:
        if rule.head.predicate in timed or timed & _used(rule):
            given = _given_times(rule, timed)
            if given is None:
                return
            changed[id(rule)] = (given,)
            if rule.head.predicate in timed and _time_variables(rule):
                last[rule.head.predicate] = rule
    # What is derived from carried facts alone is carried with them.
    for name, rule in last.items():
        args = tuple(Variable(f"X{i}") for i in range(1, len(rule.head.args) + 1))
        own = tuple(rule.head.variables)
        if len({v.name for v in own}) == len(args):  # the rule's own names read better
            args = own
        changed[id(rule)] = (*changed[id(rule)], _carried(name, args))
    one = len(timed) == 1
    then = "it then holds from when it is known on" if one else "from when they are known on"
    text = f"give {', '.join(sorted(timed))} a time: {then}"
    yield _Change(text, _with_rules(program, changed))


def _given_times(rule: Rule, timed: set[str]) -> Rule | None:
    """The rule with times for some predicates; None where it has none to give."""
    variables = _time_variables(rule)
    if len(variables) > 1:
        return None
    clock = Variable(variables[0]) if variables else _unused(rule)
    if clock.anonymous:
        clock = _unused(rule)
    body = [_timed(x, clock) for x in rule.body]
    time = rule.head.time
    if rule.head.predicate in timed:
        if not _used(rule) or not (variables or timed & _used(rule)):
            return None
        time = _latest(body, clock) if variables else TimeOffset(clock)
    return replace(
        rule,
        head=replace(rule.head, time=time),
        body=tuple(_at(x, time) if _predicate(x) in timed else x for x in body),
    )


def _at_its_time(program: Program, rule: Rule) -> _Change:
    """`P @ 5 :- E @ T.` becomes `P @ T :- E @ T.`"""
    assert rule.head.time is not None
    clock = Variable(_time_variables(rule)[0])
    if clock.anonymous:
        clock = _unused(rule)
    body = tuple(_timed(x, clock) for x in rule.body)
    changed = replace(rule, head=replace(rule.head, time=_latest(body, clock)), body=body)
    text = f"let {rule.head.predicate} hold when it happens, not at {print_time(rule.head.time)}"
    return _Change(text, _with_rules(program, {id(rule): (changed,)}))


# Parts of rules


def _used(rule: Rule) -> set[str]:
    return {premise.predicate for premise in clause_of(rule).premises}


def _time_variables(rule: Rule) -> list[str]:
    names = (_variable(literal) for literal in (rule.head, *rule.body))
    return list(dict.fromkeys(name for name in names if name is not None))


def _time(literal: Literal) -> Time | None:
    atom = atom_of(literal)
    return None if atom is None else atom.time


def _predicate(literal: Literal) -> str | None:
    atom = atom_of(literal)
    return None if atom is None else atom.predicate


def _variable(literal: Literal) -> str | None:
    time = _time(literal)
    variable = time_variable_of(time)
    return None if variable is None else variable.name


def _unused(rule: Rule) -> Variable:
    """A name for a time variable: T, unless an object goes by it."""
    taken = {v.name for x in (rule.head, *rule.body) for v in x.variables}
    return Variable(next(n for n in _numbered("T") if n not in taken))


def _timed(literal: Literal, variable: Variable) -> Literal:
    """The literal with another time variable, where it has one."""
    return _changed_time(literal, lambda time: TimeOffset(variable, time.offset))


def _moved(literal: Literal, by: int) -> Literal:
    return _changed_time(literal, lambda time: replace(time, offset=time.offset + by))


def _changed_time(literal: Literal, change: Callable[[TimeOffset], TimeOffset]) -> Literal:
    time = _time(literal)
    match time:
        case Interval(TimeOffset() as low, TimeOffset() as high):
            return _at(literal, replace(time, low=change(low), high=change(high)))
        case TimeOffset():
            return _at(literal, change(time))
        case TimePoint() | Interval() | None:
            return literal
        case _:
            assert_never(time)


def _at(literal: Literal, time: Time | None) -> Literal:
    """The literal at another time."""
    match literal:
        case Atom():
            return replace(literal, time=time)
        case Negated(atom):
            return replace(literal, atom=replace(atom, time=time))
        case Aggregated(aggregate):
            moved = replace(aggregate, atom=replace(aggregate.atom, time=time))
            return replace(literal, aggregate=moved)
        case Comparison():
            return literal
        case _:
            assert_never(literal)


def _latest(literals: Iterable[Literal], variable: Variable) -> TimeOffset:
    times = (end for literal in literals for end in ends(_time(literal)))
    return TimeOffset(variable, max(t.offset for t in times if isinstance(t, TimeOffset)))


def _carried(name: str, args: tuple[Variable, ...]) -> Rule:
    """`P(X) @ T+1 :- P(X) @ T.`"""
    clock = _unused(Rule(Atom(name, args)))
    return Rule(Atom(name, args, TimeOffset(clock, 1)), (Atom(name, args, TimeOffset(clock)),))


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}{n}" for n in count(2))


def _fresh(program: Program, name: str) -> str:
    taken = {*program.heads, *program.inputs}
    return next(n for n in _numbered(name) if n not in taken)


def _with_rules(program: Program, changed: dict[int, tuple[Rule, ...]]) -> Program:
    """The program with some rules, by identity, replaced by others."""
    statements: list[Statement] = []
    for statement in program.statements:
        statements += changed.get(id(statement), (statement,))
    return Program(tuple(statements))
