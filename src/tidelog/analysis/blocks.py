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
from tidelog.language.printer import print_aggregate, print_literal
from tidelog.language.program import Aggregated, Atom, Measure, Type, Variable
from tidelog.logic.clause import ONE_TICK, PART_COLUMNS, Clause, Gathering, Head, Parts, Premise
from tidelog.logic.core import Core, Predicate, Role
from tidelog.logic.gathering import gathered_pattern, measured_type
from tidelog.logic.windows import quantified


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
    made = replace(core, clauses=tuple(clauses), predicates=predicates)
    return dependencies(made, deps.queries)


def blocks_kept(deps: Dependencies) -> list[str]:
    """The blocks that a stream keeps, as rules say them; none of what may block."""
    if deps.cls is Class.BLOCKING:
        return []
    made = in_blocks(deps).core
    return [rule_text(made, p) for p in made.predicates.values() if p.role is Role.BLOCK]


def rule_text(core: Core, predicate: Predicate) -> str:
    """The name of a predicate for people: of a window or an aggregate, what rules say for it.

    >>> from tidelog.logic.normalise import core
    >>> from tidelog.language.checks import check
    >>> rules = "P(N) @ T :- some E(_) @ [T-1, T], N = count(E(_) @ [T-9, T])."
    >>> deps = in_blocks(dependencies(core(check(rules).program), ["P"]))
    >>> roles = Role.WINDOW, Role.GATHERED, Role.BLOCK
    >>> made = [p for p in deps.core.predicates.values() if p.role in roles]
    >>> for text in sorted({rule_text(deps.core, p) for p in made}): print(text)
    count(E(_) @ T)
    count(E(_) @ [T-9, T])
    some E(_) @ [T-1, T]
    some E(_) @ [T-9, T]
    """
    if predicate.role is Role.BEGUN:
        return f"{predicate.base} begins"
    window = core.window_of.get(predicate.name)
    if window is not None:
        of, ticks = window.of, window.over.ticks
        of_tick = core.window_of.get(of.predicate)
        of = of if of_tick is None else of_tick.of
        below = rule_text(core, core.predicates[of.predicate])
        atom = print_literal(Atom(below, of.args))
        if ticks == 1:
            return f"{atom} @ T"
        return f"{quantified(window.over)} {atom} @ [T-{ticks - 1}, T]"
    made = core.clauses_for.get(predicate.name, ())
    premise = made[0].gathered if made else None
    if premise is None or premise.gathers is None:
        return predicate.name
    aggregated = replace(made[0], premises=(_without_blocks(core, premise),)).as_rule.body[0]
    assert isinstance(aggregated, Aggregated), "what is gathered is an aggregate in the language"
    return print_aggregate(aggregated.aggregate)


def _without_blocks(core: Core, premise: Premise) -> Premise:
    """What an aggregate is of, as if there were no blocks; a sum for blocks of an average too."""
    gathers, over = premise.gathers, None if premise.over == ONE_TICK else premise.over
    assert gathers is not None, "what is gathered is made something of"
    below = core.clauses_for.get(premise.predicate, ())
    block = below[0].gathered if below else None
    if block is None or core.predicates[premise.predicate].role is not Role.BLOCK:
        measure = Measure.SUM if gathers.parts else gathers.measure
        return replace(premise, over=over, gathers=replace(gathers, measure=measure))
    assert block.gathers is not None, "what is gathered is made something of"
    measure = gathers.measure if gathers.parts else block.gathers.measure
    gathers = replace(block.gathers, measure=measure)
    return replace(block, over=over, when=premise.when, gathers=gathers)


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
