"""Any generated program several times over: many tables of state, and nothing new to say."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from oracle.generate import Case
from tidelog.language.checks import check
from tidelog.language.printer import print_program
from tidelog.language.program import Atom, Program, Rule, Statement


def wide(case: Case, copies: int = 4) -> Case:
    """The case with copies of all that is derived, under names of their own; all are asked for."""
    derived = [name for name in case.program.heads if name not in case.program.inputs]
    statements: list[Statement] = list(case.program.statements)
    queries = list(case.queries)
    for number in range(copies):
        names = {name: f"{name}_copy{number}" for name in derived}
        statements += [renamed(s, names) for s in case.program.statements if isinstance(s, Rule)]
        queries += [names[query] for query in case.queries if query in names]
    text = print_program(Program(tuple(statements)))
    return case._replace(text=text, program=check(text).accepted(), queries=tuple(queries))


def renamed(part: Any, names: dict[str, str]) -> Any:
    """A part of a program with other names for predicates."""
    if isinstance(part, tuple):
        return tuple(renamed(each, names) for each in part)
    if not is_dataclass(part) or isinstance(part, type):
        return part
    changed = {f.name: renamed(getattr(part, f.name), names) for f in fields(part) if f.init}
    if isinstance(part, Atom):
        changed["predicate"] = names.get(part.predicate, part.predicate)
    return replace(part, **changed)
