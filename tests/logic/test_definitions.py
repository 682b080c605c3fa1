"""The kind of a definition is asked for by an exhaustive match.

So a new kind is a type error wherever it would be overlooked.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import tidelog
from tidelog.logic.clause import Extent
from tidelog.logic.core import Core, Definition

SOURCE = Path(tidelog.__file__).parent
# A union of one is that one.
EXTENTS = get_args(Extent) or (Extent,)
MEMBERS = {member.__name__ for member in (*get_args(Definition), *EXTENTS)}


def names_of(node: ast.AST) -> set[str]:
    """The members of the two unions that a piece of code names."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & MEMBERS


def is_exhaustive(match: ast.Match) -> bool:
    """Whether the last case takes what is left, and does nothing but `assert_never`."""
    last = match.cases[-1]
    default = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
    (does, *more) = last.body
    call = does.value if isinstance(does, ast.Expr) else None
    never = isinstance(call, ast.Call) and ast.unparse(call.func) == "assert_never"
    return default and never and not more


def overlooked(tree: ast.AST, *, in_logic: bool) -> Iterator[str]:
    """The places of a module where a new kind of definition would be overlooked."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Match):
            cases = node.cases
            if any(names_of(case.pattern) for case in cases) and not is_exhaustive(node):
                yield f"line {node.lineno}: a match without assert_never"
        if in_logic or not isinstance(node, ast.Call):
            continue
        if ast.unparse(node.func) == "isinstance" and names_of(node.args[1]):
            yield f"line {node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.name))
def test_no_kind_of_definition_is_overlooked(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert not list(overlooked(tree, in_logic=path.parent.name == "logic"))


def test_what_overlooks_a_kind_is_found() -> None:
    assert sorted(MEMBERS) == ["AggregateOf", "External", "LastTicks", "RuleSet", "WindowOf"]
    short = "match x:\n    case WindowOf(): pass"
    silent = "match x:\n    case RuleSet(): pass\n    case _: pass"
    asked = "isinstance(x, AggregateOf | RuleSet)"
    whole = "match x:\n    case WindowOf(): pass\n    case _:\n        assert_never(x)"
    found = [list(overlooked(ast.parse(text), in_logic=False)) for text in (short, silent, asked)]
    assert all(found)
    assert not list(overlooked(ast.parse(whole), in_logic=False))
    assert not list(overlooked(ast.parse(asked), in_logic=True))


def test_no_list_of_clauses_leaves_windows_and_aggregates_out() -> None:
    assert not hasattr(Core, "clauses")
