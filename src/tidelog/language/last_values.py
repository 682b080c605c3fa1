"""Last values: what a rule carries on until the next fact of the same key.

A tick has no order. With `Last(X, V) @ T+1 :- Last(X, V) @ T, not Read(X, _) @ T+1.` two readings
of X in one tick are both its last value. A note says so, unless a rule chooses one of them: a
literal beside `Read(X, V)` then asks something else of the tick about V.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tidelog.language.diagnostics import Code, Diagnostic, Note
from tidelog.language.printer import print_rule
from tidelog.language.program import (
    Aggregate,
    Aggregated,
    Atom,
    Comparison,
    Constant,
    Literal,
    Measure,
    Negated,
    Operator,
    Program,
    Rule,
    Type,
    Variable,
    atom_of,
    variable_names,
)
from tidelog.language.types import Types

Heads: TypeAlias = Mapping[str, Sequence[Rule]]

# Other predicates that a note names.
_SHOWN = 3


@dataclass(frozen=True)
class LastValue:
    """A rule that carries facts on, and the input that can have two of them for a key in a tick.

    Facts of the input agree in the columns `keys`, and each of `values` is carried on, as one of
    the `arguments` of the rule. It is `direct` if every fact is that has the constants, if any.
    """

    rule: Rule
    arguments: tuple[int, ...]
    begins: Rule
    input: str
    keys: tuple[int, ...]
    values: tuple[int, ...]
    direct: bool


@dataclass(frozen=True)
class _Source:
    """An atom whose facts a rule hands on, with the columns of their keys and values."""

    atom: Atom
    keys: tuple[int, ...]
    values: tuple[int, ...]


def last_values(rules: Sequence[Rule], heads: Heads) -> Iterator[LastValue]:
    """The last values that some rules carry on, of all rules by the predicates of their heads."""
    seen: set[object] = set()
    for rule in rules:
        for ended in _ended(rule):
            arguments = range(len(rule.head.args))
            keys = tuple(i for i in arguments if rule.head.args[i] in ended.args)
            values = tuple(i for i in arguments if i not in keys)
            columns = tuple(ended.args.index(rule.head.args[i]) for i in keys)
            constants = tuple((i, t) for i, t in enumerate(ended.args) if isinstance(t, Constant))
            like = (rule.head.predicate, keys, ended.predicate, columns, constants)
            if like in seen:
                continue
            seen.add(like)
            ends = [
                _Source(ended, columns, ()),
                *_projected(ended.predicate, columns, heads, set()),
            ]
            for begins in heads[rule.head.predicate]:
                for source in _sources(begins, keys, values):
                    found = _input(source, heads, ends, set())
                    if found is not None:
                        yield _last_value(rule, values, begins, found, ended)


def _last_value(
    rule: Rule, arguments: tuple[int, ...], begins: Rule, source: _Source, ended: Atom
) -> LastValue:
    name, variables = source.atom.predicate, list(source.atom.variables)
    direct = begins.body == (source.atom,) and name == ended.predicate
    direct = direct and len(set(variables)) == len(variables)
    constants = (i for i, t in enumerate(source.atom.args) if direct and isinstance(t, Constant))
    keys = tuple(sorted({*source.keys, *constants}))
    return LastValue(rule, arguments, begins, name, keys, source.values, direct)


def _ended(rule: Rule) -> Iterator[Atom]:
    """The absent atoms of a rule that carries its head on: a fact of its keys ends it."""
    head = rule.head
    before = [a for a in rule.positive if a.predicate == head.predicate and a.args == head.args]
    if not before or head.time in (None, *(atom.time for atom in before)):
        return
    for atom in rule.negative:
        named = [t for t in atom.args if isinstance(t, Variable) and not t.anonymous]
        if atom.time == head.time and all(t in head.args for t in named):
            others = {v.name for v in head.variables} - {t.name for t in named}
            if others and not _chosen(rule, before[0], others):
                yield atom


def _sources(rule: Rule, keys: tuple[int, ...], values: tuple[int, ...]) -> Iterator[_Source]:
    """The atoms of the head's tick of which a rule hands on the keys, and each of the values."""
    head = rule.head
    shared = [head.args[i] for i in keys]
    wanted = {t.name for t in (head.args[i] for i in values) if isinstance(t, Variable)}
    for atom in rule.positive:
        if atom.time is None or atom.time != head.time or any(t not in atom.args for t in shared):
            continue
        own = {v.name: i for i, v in enumerate(atom.args) if isinstance(v, Variable)}
        own = {name: i for name, i in own.items() if Variable(name) not in shared}
        handed_on = tuple(i for name, i in own.items() if _made_of(rule, name) & wanted)
        if handed_on and not _chosen(rule, atom, set(own)):
            yield _Source(atom, tuple(atom.args.index(t) for t in shared), handed_on)


def _made_of(rule: Rule, name: str) -> set[str]:
    """A variable, and those that get their values from it."""
    made = {name}
    for definition in rule.definitions:
        if made & variable_names(definition.right):
            made |= variable_names(definition.left)
    return made


def _chosen(rule: Rule, atom: Atom, names: set[str]) -> bool:
    """Whether something of a tick, beside the atom itself, is asked about variables of its own."""
    given = {v.name for v in atom.variables}
    linked, before = set(names), 0
    while len(linked) > before:
        before = len(linked)
        for literal in rule.body:
            rigid = isinstance(literal, Atom) and literal.time is None
            here = {v.name for v in literal.variables}
            if (rigid or isinstance(literal, Comparison)) and here & linked:
                linked |= here - (given - names)
    return any(
        {v.name for v in literal.variables} & linked
        for literal in rule.body
        if literal is not atom and (a := atom_of(literal)) is not None and a.time is not None
    )


def _projected(
    name: str, columns: tuple[int, ...], heads: Heads, seen: set[object]
) -> Iterator[_Source]:
    """What a predicate holds of whenever some fact is there: `Any(X) @ T :- Read(X, _) @ T.`"""
    if (name, columns) in seen:
        return
    seen.add((name, columns))
    for rule in heads.get(name, ()):
        match rule.body:
            case (Atom(of, args, time) as atom,) if time == rule.head.time:
                kept = [rule.head.args[i] for i in columns]
                if all(t in args for t in kept) and len(set(args)) == len(args):
                    below = tuple(args.index(t) for t in kept)
                    yield _Source(atom, below, ())
                    yield from _projected(of, below, heads, seen)


def _input(
    source: _Source, heads: Heads, ends: Sequence[_Source], seen: set[object]
) -> _Source | None:
    """The input whose facts come to a source one by one, if some of these ends are met before."""
    name = source.atom.predicate
    ends = () if any(_meets(source, end) for end in ends) else ends
    if name not in heads:
        return None if ends else source
    state = (name, source.keys, source.values, bool(ends))
    if state in seen:
        return None
    seen.add(state)
    below = (s for rule in heads[name] for s in _sources(rule, source.keys, source.values))
    found = (_input(each, heads, ends, seen) for each in below)
    return next((each for each in found if each is not None), None)


def _meets(source: _Source, end: _Source) -> bool:
    """Whether every fact of a source is one that ends what is carried on of its keys."""
    if (source.atom.predicate, source.keys) != (end.atom.predicate, end.keys):
        return False
    pairs = zip(source.atom.args, end.atom.args, strict=False)
    return all(own == asked for own, asked in pairs if isinstance(asked, Constant))


def check_last_values(
    program: Program, rules: Sequence[Rule], types: Types
) -> Iterator[Diagnostic]:
    """One note for a program, however many last values a tick can have two of."""
    heads: dict[str, list[Rule]] = {}
    uses: dict[str, list[Literal]] = {}
    for rule in rules:
        heads.setdefault(rule.head.predicate, []).append(rule)
        for literal in rule.body:
            atom = atom_of(literal)
            if atom is not None and atom.predicate != rule.head.predicate:
                uses.setdefault(atom.predicate, []).append(literal)
    first: dict[str, LastValue] = {}
    for found in last_values(rules, heads):
        name = found.rule.head.predicate
        told_apart = any(_tells_apart(literal, found) for literal in uses.get(name, ()))
        if told_apart or name in program.outputs:
            first.setdefault(name, found)
    if not first:
        return
    (name, one), *others = first.items()
    tick = "" if program.tick is None else f" ({program.tick})"
    notes = [Note("here both are carried on", one.rule.head.origin)]
    if others:
        more = [f"{len(others) - _SHOWN} more"] if len(others) > _SHOWN else []
        names = [f"`{other}`" for other, _ in others[:_SHOWN]]
        notes.append(Note(f"the same is true of {', '.join(names + more)}"))
    yield Diagnostic(
        Code.NO_ORDER,
        f"facts of one tick{tick} have no order: `{name}` carries on both of two"
        f" `{one.input}`{_of_key(one, program)}",
        one.begins.origin,
        tuple(notes),
        "take ticks so short that each has one of them, or let the rule choose"
        + _choice(one, types),
    )


def _of_key(one: LastValue, program: Program) -> str:
    declared = program.declarations.get(one.input)
    if declared is None or not one.keys:
        return " of one key" if one.keys else ""
    return f" of one {' and '.join(f'`{declared.columns[i].name}`' for i in one.keys)}"


def _tells_apart(use: Literal, one: LastValue) -> bool:
    """Whether a use of last values asks for more than the greatest or the least of them."""
    match use:
        case Aggregated(Aggregate(measure)):
            return measure not in (Measure.MIN, Measure.MAX)
        case Atom(_, args) | Negated(Atom(_, args)):
            values = (t for i, t in enumerate(args) if i in one.arguments)
            return not all(isinstance(t, Variable) and t.anonymous for t in values)
        case Comparison():
            return False


def _choice(one: LastValue, types: Types) -> str:
    """How one of the facts of a tick is chosen: the greatest, where that is a number."""
    match one.begins.body, one.values:
        case (Atom(args=args) as atom,), (column,) if atom.predicate == one.input:
            value, keys = args[column], {t for i, t in enumerate(args) if i in one.keys}
            if types.columns[one.input][column] in (Type.INT, Type.FLOAT):
                each, some = "W", Variable("_#0")
                while Variable(each) in {*keys, value}:
                    each += "W"
                rest = [t if t in keys or isinstance(t, Constant) else some for t in args]
                there = replace(atom, args=tuple(rest))
                rest[column] = Variable(each)
                most = Aggregate(Measure.MAX, Variable(each), replace(atom, args=tuple(rest)))
                chosen = Aggregated(most, Operator.EQ, value)
                return f": `{print_rule(replace(one.begins, body=(there, chosen)))}`"
    return " by the `max` of a number that says which came last"
