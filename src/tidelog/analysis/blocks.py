"""Aggregates over a window in two steps, for streams: first of each tick, then of the ticks.

A stream keeps what rules still look at. Of an aggregate over a window that would be all facts of
the window. So the facts of each tick become a block once the tick has settled: how many there are,
the least or the greatest value, or an exact sum. The window is made of blocks, and they are what is
kept, however many facts a tick had. No step rounds, so that the answers are the same to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tidelog.analysis.dependencies import Class, Dependencies, dependencies
from tidelog.language.program import Measure, Type, Variable
from tidelog.logic.clause import ONE_TICK, PART_COLUMNS, Clause, Gathering, Head, Parts, Premise
from tidelog.logic.core import Core, Predicate, Role
from tidelog.logic.gathering import gathered_pattern, measured_type


def in_blocks(deps: Dependencies) -> Dependencies:
    """The dependencies with aggregates over windows made of blocks, where that pays.

    An aggregate of facts that hang on it in a cycle of rules is left as it is.

    >>> from tidelog.logic.normalise import core
    >>> from tidelog.language.checks import check
    >>> rules = "input E(x: int) @ t. P(N) @ T :- E(_) @ T, N = count(E(_) @ [T-9, T])."
    >>> deps = in_blocks(dependencies(core(check(rules).program), ["P"]))
    >>> [n for n, p in deps.core.predicates.items() if p.role is Role.BLOCK]
    ["E(a tick's count: _1)"]
    """
    core = deps.core
    predicates = dict(core.predicates)
    clauses: list[Clause] = []
    for clause in core.clauses:
        if clause.head.predicate not in deps.recursive and _pays(clause):
            clauses += _two_steps(clause, predicates)
        else:
            clauses.append(clause)
    if len(predicates) == len(core.predicates):
        return deps
    return dependencies(Core(core.program, tuple(clauses), predicates), deps.queries)


def blocks_kept(deps: Dependencies) -> list[str]:
    """The blocks that a stream keeps, by the names that people read; none of what may block."""
    if deps.cls is Class.BLOCKING:
        return []
    return [p.shown for p in in_blocks(deps).core.predicates.values() if p.role is Role.BLOCK]


def _pays(clause: Clause) -> bool:
    """Whether a group may have several facts at a tick, so that a block takes less than they do.

    An exact sum takes more than a number. Where facts are a group and the number to add up, there
    is most often one of them a tick, and they are kept as they are.
    """
    premise = clause.gathered
    if premise is None or premise.gathers is None or premise.gathers.parts is not None:
        return False
    if premise.over is None or premise.over.ticks == 1:
        return False
    more = {*premise.variables} - {*clause.head.args}
    return bool(more - {premise.gathers.of} if _adds(premise.gathers) else more)


def _adds(gathers: Gathering) -> bool:
    return gathers.measure in (Measure.SUM, Measure.AVG)


def _two_steps(clause: Clause, predicates: dict[str, Predicate]) -> Iterator[Clause]:
    """The clause of an aggregate as that of the window of its blocks, and theirs if it is new."""
    premise = clause.gathered
    assert premise is not None
    assert premise.gathers is not None, "what is gathered is made something of"
    gathers, adds = premise.gathers, _adds(premise.gathers)
    groups = tuple(v for v in clause.head.args[:-1] if isinstance(v, Variable))
    block = _block(premise, groups, predicates)
    made = tuple(Variable(f"_#{name}") for name in (PART_COLUMNS if adds else ("block",)))
    head = Head(block.name, (*groups, *made), clause.head.when)
    if block.name not in predicates:
        predicates[block.name] = block
        tick = replace(gathers, value=made[0], parts=Parts.MADE if adds else None)
        one = replace(premise, over=ONE_TICK, gathers=tick)
        yield Clause(head, (one,), origin=clause.origin, made=True)
    if adds:
        of_blocks = replace(gathers, of=None, parts=Parts.READ)
    else:
        counts = gathers.measure is Measure.COUNT
        of_blocks = replace(gathers, measure=Measure.SUM if counts else gathers.measure, of=made[0])
    window = replace(premise, predicate=block.name, args=head.args, gathers=of_blocks)
    yield replace(clause, premises=(window,))


def _block(
    premise: Premise, groups: tuple[Variable, ...], predicates: dict[str, Predicate]
) -> Predicate:
    """The predicate of blocks; a sum and an average, and windows of any length, have the same."""
    gathers, below = premise.gathers, predicates[premise.predicate]
    assert gathers is not None, "what is gathered is made something of"
    columns = dict(zip(premise.args, below.types, strict=True))
    value = measured_type(gathers, premise.args, below.types)
    made = [Type.INT for _ in PART_COLUMNS] if _adds(gathers) else [value]
    measure = Measure.SUM if _adds(gathers) else gathers.measure
    label = f"{measure}: {gathered_pattern(premise, groups)}"
    return below.made(Role.BLOCK, label, (*(columns[v] for v in groups), *made))
