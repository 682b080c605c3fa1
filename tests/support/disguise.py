"""The same rules in disguise: in another order, with other names of variables."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from random import Random
from typing import Any

from tidelog.language.program import Clock, Program, Rule, Variable


def disguised(program: Program, random: Random) -> Program:
    """A program that means the same and looks different."""
    kept = [s for s in program.statements if not isinstance(s, (Clock, Rule))]
    moved: list[Clock | Rule] = [
        *program.clocks.values(),
        *(_renamed(rule, random) for rule in program.rules),
    ]
    random.shuffle(moved)
    return replace(program, statements=(*kept, *moved))


def _renamed(rule: Rule, random: Random) -> Rule:
    names = sorted({v.name for part in (rule.head, *rule.body) for v in part.variables})
    new = [f"V{i}" for i in range(len(names))]
    random.shuffle(new)
    known = {
        name: name if name.startswith("_#") else to for name, to in zip(names, new, strict=True)
    }
    renamed: Rule = _under(rule, known)
    return renamed


def _under(part: Any, names: dict[str, str]) -> Any:
    if isinstance(part, Variable):
        return replace(part, name=names.setdefault(part.name, f"W{len(names)}"))
    if isinstance(part, tuple):
        return tuple(_under(one, names) for one in part)
    if is_dataclass(part) and not isinstance(part, type):
        values = {f.name: _under(getattr(part, f.name), names) for f in fields(part)}
        return replace(part, **values)
    return part
