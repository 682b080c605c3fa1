"""Any generated program, given a key: one more argument that every temporal atom shares."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import assert_never

from oracle.generate import Case
from tidelog.language.checks import check
from tidelog.language.printer import print_program
from tidelog.language.program import (
    Aggregated,
    Atom,
    Column,
    Comparison,
    Constant,
    Input,
    Literal,
    Negated,
    Outputs,
    Program,
    Rule,
    Statement,
    Term,
    Type,
    Variable,
)

KEYS: dict[Type, tuple[str | int | float | bool, ...]] = {
    Type.TEXT: ("k1", "k2", "it's \\ a key", "\u00fcml\u00e4ut", ""),
    Type.INT: (0, 1, -7, 2**62),
    Type.FLOAT: (0.5, -0.5, 1e300, -3.0),
    Type.BOOL: (True, False),
}


def keyed(case: Case, random: Random) -> Case:
    """The case with a key at a random place of every temporal predicate."""
    type_ = random.choice(list(KEYS))
    values = KEYS[type_]
    places: dict[str, int] = {}

    def place(name: str, arity: int) -> int:
        return places.setdefault(name, random.randint(0, arity))

    def atom(a: Atom, key: Term) -> Atom:
        if a.time is None or a.predicate in case.program.clocks:
            return a
        i = place(a.predicate, len(a.args))
        return replace(a, args=(*a.args[:i], key, *a.args[i:]))

    def literal(part: Literal, key: Term) -> Literal:
        match part:
            case Atom():
                return atom(part, key)
            case Negated():
                # At times no object at all may have it, whatever its key.
                any_ = isinstance(key, Variable) and random.random() < 0.1
                return Negated(atom(part.atom, Variable("_#0") if any_ else key))
            case Aggregated(aggregate):
                any_ = isinstance(key, Variable) and random.random() < 0.3
                own = atom(aggregate.atom, Variable("_#0") if any_ else key)
                return replace(part, aggregate=replace(aggregate, atom=own))
            case Comparison():
                return part
            case _:
                assert_never(part)

    statements: list[Statement] = []
    for statement in case.program.statements:
        match statement:
            case Rule():
                clocks = case.program.clocks
                timed = any(a.time and a.predicate not in clocks for a in statement.positive)
                fixed = random.random() < 0.2 or not timed
                key: Term = Constant(random.choice(values), type_) if fixed else Variable("Key")
                body = tuple(literal(part, key) for part in statement.body)
                statements.append(replace(statement, head=atom(statement.head, key), body=body))
            case Input() if statement.time is not None:
                i = place(statement.predicate, len(statement.columns))
                columns = (
                    *statement.columns[:i],
                    Column("the_key", type_),
                    *statement.columns[i:],
                )
                statements.append(replace(statement, columns=columns))
            case Outputs():
                names = tuple(replace(o, columns=None) for o in statement.items)
                statements.append(replace(statement, items=names))
            case _:
                statements.append(statement)
    text = print_program(Program(tuple(statements)))
    facts = {
        name: [
            (*row[: places[name]], random.choice(values), *row[places[name] :])
            if name in places
            else row
            for row in rows
        ]
        for name, rows in case.facts.items()
    }
    return case._replace(text=text, program=check(text).accepted(), facts=facts)
