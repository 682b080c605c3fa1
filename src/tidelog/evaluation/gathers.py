"""Aggregates on an engine: the SQL of what facts come to, after a look at how many there are."""

from __future__ import annotations

import math
from dataclasses import replace

from tidelog.data.aggregate_words import one_a_tick_sql
from tidelog.data.aggregates import WHOLE, Limbs
from tidelog.data.packed import COUNT
from tidelog.errors import DataError
from tidelog.evaluation.engine import Feature, SqlEngine
from tidelog.evaluation.plan import Gather, Scan
from tidelog.evaluation.sql import Projection, Writer
from tidelog.language.program import Measure, Type
from tidelog.logic.clause import Parts
from tidelog.logic.core import Role

# Rows of facts from which on an aggregate is made of words: their SQL takes longer to plan.
MANY_ROWS = 50_000


def gathered(engine: SqlEngine, step: Gather, writer: Writer) -> str:
    """What the facts that are there now come to, as a select."""
    reason = engine.limits.get(Feature.AGGREGATES)
    if reason is not None:
        raise DataError(f"`{step.predicate.name}` is an aggregate: {reason}")
    step = _as_count(engine, step)
    limbs = WHOLE
    if step.adds_floats:
        (told,) = engine.all(writer.exponents(step))
        limbs = Limbs.of_parts(*told) if step.parts is Parts.READ else Limbs.of(*told)
    if step.predicate.temporal:
        writer.unmerged.add(step.table)
    return writer.gather(step, limbs, _words(engine, step, limbs, writer))


def is_small(step: Gather) -> bool:
    """Whether an aggregate has far fewer rows than facts: one for a group at a tick.

    The facts with the greatest value are then asked for, most often, and they are few.
    """
    compares = step.measure in (Measure.MIN, Measure.MAX)
    return compares and step.predicate.temporal and step.ticks == 1


def extent(engine: SqlEngine, step: Gather) -> dict[str, tuple[int | float, int | float]]:
    """Between which numbers the values of an aggregate lie, by its table; nothing if not told."""
    if step.predicate.types[-1] not in (Type.INT, Type.FLOAT):
        return {}
    value = f"a{len(step.predicate.types)}"
    ((low, high),) = engine.all(f"SELECT min({value}), max({value}) FROM {step.table}")
    return {} if low is None or not math.isfinite(low + high) else {step.table: (low, high)}


def _as_count(engine: SqlEngine, step: Gather) -> Gather:
    """A sum of the facts of ticks, where no tick has several, as their number."""
    if step.facts.role is not Role.BLOCK or step.of is None or step.measure is not Measure.SUM:
        return step
    ((most,),) = engine.all(f"SELECT max(a{step.of + 1}) FROM {step.join.operands[0].table}")
    return replace(step, measure=Measure.COUNT, of=None) if most == 1 else step


def _facts(engine: SqlEngine, step: Gather) -> int:
    """How many facts an aggregate is made of, at least; blocks are packed well."""
    table = step.join.operands[0].table
    if step.facts.role is not Role.BLOCK:
        return engine.rows_of(table)
    ((ticks,),) = engine.all(f"SELECT {COUNT} FROM {table} AS q")
    return int(ticks)


def _words(engine: SqlEngine, step: Gather, limbs: Limbs, writer: Writer) -> str | None:
    """A table of the words of an aggregate's facts, if there are many, of one a tick."""
    words = writer.gathered_words(step, limbs)
    if words is None or _facts(engine, step) < MANY_ROWS:
        return None
    table = f"{step.table}_words"
    engine.table(table, words)
    writer.packed |= _projected(step, table, writer)
    ((one_a_tick,),) = engine.all(one_a_tick_sql(table))
    return table if one_a_tick else None


def _projected(step: Gather, words: str, writer: Writer) -> dict[Projection, str]:
    """What words say of the input that an aggregate is of: when there are facts of each group.

    Nothing, where they are not of all facts that the rules look at.
    """
    table = step.join.operands[0].table
    scan = next((s for s in writer.plan.steps if isinstance(s, Scan) and s.name == table), None)
    if scan is None or not writer.selects_all(scan) or not writer.gathers_all(step):
        return {}
    places = tuple(scan.columns[i] for i in step.groups)
    groups = [f"a{g + 1} AS a{i}" for i, g in enumerate(step.groups, 1)]
    columns = ", ".join([*groups, "c", "b"])
    return {(scan.predicate.name, places): f"SELECT {columns} FROM {words}"}
