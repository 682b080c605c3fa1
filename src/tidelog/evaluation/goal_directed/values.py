"""Which values the arguments of each predicate can have in a proof of one fact."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from tidelog.analysis.containment import Ground
from tidelog.data.packed import columns
from tidelog.evaluation.duckdb import Engine
from tidelog.language.program import Constant, Value, Variable
from tidelog.logic.clause import Clause, Head
from tidelog.logic.core import Core

# The values an argument may have; None for any.
Values: TypeAlias = frozenset[Value] | None

# More values than these are not told apart.
MOST_VALUES = 200


def needed_values(core: Core, goal: Ground, joined: Engine | None) -> dict[str, tuple[Values, ...]]:
    """Per predicate below a goal, the values each of its arguments can have in a proof.

    With an engine, values are followed through the facts of rigid inputs too. Without, every
    match of a clause's head is covered, whichever of its premises hold, and input facts that differ
    from them in what a clause fixes.
    """
    needed: dict[str, tuple[Values, ...]] = {
        goal.predicate: tuple(frozenset([value]) for value in goal.args)
    }
    todo = [goal.predicate]
    while todo:
        name = todo.pop()
        for clause in core.uses_for[name]:
            known = _known(clause.head, needed[name])
            if known is None:
                continue
            if joined is not None:
                _through_rigid(core, clause, known, joined)
            # Of a negated premise too: that it does not hold must be known for the same values.
            for premise in clause.premises:
                if joined is None and clause.copies_input:
                    here: tuple[Values, ...] = tuple(None for _ in premise.args)
                else:
                    any_constant = joined is None and core.predicates[premise.predicate].input
                    here = tuple(
                        known.get(term.name)
                        if isinstance(term, Variable)
                        else None
                        if any_constant
                        else frozenset([term.value])
                        for term in premise.args
                    )
                before = needed.get(premise.predicate)
                after = here if before is None else tuple(map(_either, before, here))
                if after != before:
                    needed[premise.predicate] = after
                    todo.append(premise.predicate)
    return needed


def _known(head: Head, needed: tuple[Values, ...]) -> dict[str, Values] | None:
    """The values of a clause's variables, given those of its head; None if it cannot fire."""
    known: dict[str, Values] = {}
    for term, values in zip(head.args, needed, strict=True):
        if values is None:
            continue
        if isinstance(term, Constant):
            if term.value not in values:
                return None
        else:
            before = known.get(term.name)
            known[term.name] = values if before is None else before & values
    return known


def _through_rigid(core: Core, clause: Clause, known: dict[str, Values], engine: Engine) -> None:
    for premise in clause.positive:
        predicate = core.predicates[premise.predicate]
        if not predicate.input or predicate.temporal:
            continue
        where, bound = conditions(
            frozenset([t.value]) if isinstance(t, Constant) else known.get(t.name)
            for t in premise.args
        )
        if not where:
            continue
        view = engine.loaded[predicate.base].view
        for name, term in zip(columns(len(premise.args)), premise.args, strict=True):
            if isinstance(term, Variable) and known.get(term.name) is None:
                rows = engine.connection.execute(
                    f"SELECT DISTINCT {name} FROM {view} WHERE {' AND '.join(where)}"
                    f" LIMIT {MOST_VALUES + 1}",
                    bound,
                ).fetchall()
                if len(rows) <= MOST_VALUES:
                    known[term.name] = frozenset(value for (value,) in rows)


def _either(one: Values, other: Values) -> Values:
    if one is None or other is None:
        return None
    both = one | other
    return both if len(both) <= MOST_VALUES else None


def conditions(args: Iterable[Values]) -> tuple[list[str], list[Value]]:
    """Conditions on columns a1, a2, .. and the values that stand for their question marks."""
    where: list[str] = []
    bound: list[Value] = []
    for i, values in enumerate(args, 1):
        if values is not None:
            marks = ", ".join("?" for _ in values)
            where.append(f"a{i} IN ({marks})" if values else "FALSE")
            bound += sorted(values, key=str)
    return where, bound
