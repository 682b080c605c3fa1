"""Aggregates on an engine: the SQL of what facts come to, after a look at how many there are."""

from __future__ import annotations

from dataclasses import replace

from tidelog.data.aggregate_words import one_a_tick_sql
from tidelog.data.aggregates import WHOLE, Limbs
from tidelog.data.packed import COUNT
from tidelog.errors import DataError
from tidelog.evaluation.engine import Feature, SqlEngine
from tidelog.evaluation.plan import Gather
from tidelog.evaluation.sql import Writer
from tidelog.language.program import Measure
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
    ((one_a_tick,),) = engine.all(one_a_tick_sql(table))
    return table if one_a_tick else None
