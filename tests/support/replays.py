"""Two updates that an analysis says to differ, tried by brute force."""

from __future__ import annotations

from support import brute
from support.brute import Fact
from support.programs import Case
from tidelog.analysis.definitive import Awaited, Definitive
from tidelog.language.program import Type, Value


def fresh(type_: Type | None) -> Value:
    values: dict[Type | None, Value] = {Type.INT: 77, Type.FLOAT: 77.5, Type.BOOL: True}
    return values.get(type_, "fresh")


def fact(case: Case, awaited: Awaited) -> Fact:
    """One fresh object for every arbitrary value."""
    types = brute.Shapes.of(case.program).types[awaited.predicate]
    args = (fresh(t) if a is None else a for a, t in zip(awaited.args, types, strict=True))
    return Fact(awaited.predicate, tuple(args), awaited.time)


def updates_replay(case: Case, known: set[Fact], verdict: Definitive, tin: int) -> None:
    """After one update the answer is there, after the other it is not."""
    assert verdict.updates is not None
    answer = fact(case, verdict.updates.answer)
    assert answer.time is not None
    for update, holds in (
        (verdict.updates.with_it, True),
        (verdict.updates.without_it, False),
    ):
        facts = {fact(case, f) for f in update}
        assert all(f.time is not None and f.time > tin for f in facts)
        rows = brute.answers_at(case.program, case.query, known | facts, answer.time)
        assert (answer.args in rows) == holds
