"""Aggregates over a window in two steps, for streams: first of each tick, then of the ticks.

A stream keeps what rules still look at. Of an aggregate over a window that would be all facts of
the window. So the facts of each tick become a block once the tick has settled: how many there are,
the least or the greatest value, or an exact sum. The window is made of blocks, and they are what is
kept, however many facts a tick had. No step rounds, so that the answers are the same to the bit.
"""

from __future__ import annotations

from dataclasses import replace

from tidelog.analysis.dependencies import Class, Dependencies, dependencies
from tidelog.language.printer import print_aggregate, print_literal
from tidelog.language.program import Aggregated, Atom, Measure, Type, Variable
from tidelog.logic.clause import (
    AT_HEAD,
    ITS_TICK,
    PART_COLUMNS,
    RIGID,
    AggregateOf,
    Clause,
    Head,
    Parts,
)
from tidelog.logic.core import Core, Operation, Predicate, Role
from tidelog.logic.gathering import Aggregates, aggregate_pattern, measured_type
from tidelog.logic.windows import as_asked, quantified


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
    made = Aggregates(dict(core.predicates), core.aggregates)
    for name, aggregate in core.aggregates.items():
        if name not in deps.recursive and _pays(aggregate):
            made.aggregates[name] = _of_blocks(aggregate, made)
    if len(made.predicates) == len(core.predicates):
        return deps
    operations: dict[str, Operation] = {**core.windows, **made.aggregates}
    return dependencies(core.rewritten(None, made.predicates, operations), deps.queries)


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
    aggregate = core.aggregate_of.get(predicate.name)
    if aggregate is None:
        return predicate.name
    asked = as_asked(_without_blocks(core, aggregate))
    if aggregate.ticks == 1:
        asked = replace(asked, over=None)
    head = Head(predicate.name, when=AT_HEAD if predicate.temporal else RIGID)
    literal = Clause(head, (asked,)).as_rule.body[0]
    assert isinstance(literal, Aggregated), "an aggregate is one in the language"
    or_zero = " or 0" if predicate.role is Role.TOTAL else ""
    return f"{print_aggregate(literal.aggregate)}{or_zero}"


def _without_blocks(core: Core, aggregate: AggregateOf) -> AggregateOf:
    """What an aggregate is of, as if there were no blocks; a sum for blocks of an average too."""
    block = core.aggregates.get(aggregate.of.predicate)
    if block is None or core.predicates[aggregate.of.predicate].role is not Role.BLOCK:
        measure = Measure.SUM if aggregate.parts else aggregate.measure
        return replace(aggregate, measure=measure, parts=None)
    measure = aggregate.measure if aggregate.parts else block.measure
    return replace(block, extent=aggregate.extent, measure=measure, parts=None)


def _pays(aggregate: AggregateOf) -> bool:
    """Whether a group may have several facts at a tick, so that a block takes less than they do.

    An exact sum takes more than a number. Where facts are a group and the number to add up, there
    is most often one of them a tick, and they are kept as they are.
    """
    if aggregate.parts is not None or not aggregate.of.temporal or aggregate.ticks == 1:
        return False
    more = {*aggregate.of.variables} - {*aggregate.groups}
    return bool(more - {aggregate.variable} if aggregate.adds else more)


def _of_blocks(aggregate: AggregateOf, made: Aggregates) -> AggregateOf:
    """The aggregate as that of the window of its blocks, which are added if they are new."""
    adds = aggregate.adds
    tick = replace(aggregate, extent=ITS_TICK, parts=Parts.MADE if adds else None)
    block = _block(aggregate, made.predicates)
    if block.name not in made.predicates:
        made.predicates[block.name] = block
        made.aggregates[block.name] = tick
    groups = aggregate.groups
    columns = PART_COLUMNS if adds else ("block",)
    values = tuple(Variable(f"_#{name}") for name in columns)
    of = replace(aggregate.of, predicate=block.name, args=(*groups, *values))
    if adds:
        return replace(aggregate, of=of, variable=None, parts=Parts.READ)
    counts = aggregate.measure is Measure.COUNT
    measure = Measure.SUM if counts else aggregate.measure
    return replace(aggregate, of=of, measure=measure, variable=values[0])


def _block(aggregate: AggregateOf, predicates: dict[str, Predicate]) -> Predicate:
    """The predicate of blocks; a sum and an average, and windows of any length, have the same."""
    of, below = aggregate.of, predicates[aggregate.of.predicate]
    columns = dict(zip(of.args, below.types, strict=True))
    value = measured_type(aggregate.measure, aggregate.variable, of.args, below.types)
    made = [Type.INT for _ in PART_COLUMNS] if aggregate.adds else [value]
    measure = Measure.SUM if aggregate.adds else aggregate.measure
    label = f"{measure}: {aggregate_pattern(aggregate)}"
    return below.made(Role.BLOCK, label, (*(columns[v] for v in aggregate.groups), *made))
