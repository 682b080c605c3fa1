"""Aggregates on an engine: the SQL of what facts come to, after a look at how many there are."""

from __future__ import annotations

from tidelog.data.aggregate_words import one_a_tick_sql
from tidelog.data.aggregates import WHOLE, Limbs
from tidelog.errors import DataError
from tidelog.evaluation.engine import Feature, SqlEngine
from tidelog.evaluation.plan import Gather
from tidelog.evaluation.sql import Writer
from tidelog.logic.clause import Parts

# Rows of facts from which on an aggregate is made of words: their SQL takes longer to plan.
MANY_ROWS = 50_000


def gathered(engine: SqlEngine, step: Gather, writer: Writer) -> str:
    """What the facts that are there now come to, as a select."""
    reason = engine.limits.get(Feature.AGGREGATES)
    if reason is not None:
        raise DataError(f"`{step.predicate.name}` is an aggregate: {reason}")
    limbs = WHOLE
    if step.adds_floats:
        (told,) = engine.all(writer.exponents(step))
        limbs = Limbs.of_parts(*told) if step.parts is Parts.READ else Limbs.of(*told)
    if step.predicate.temporal:
        writer.unmerged.add(step.table)
    return writer.gather(step, limbs, _words(engine, step, limbs, writer))


def _words(engine: SqlEngine, step: Gather, limbs: Limbs, writer: Writer) -> str | None:
    """A table of the words of an aggregate's facts, if there are many, of one a tick."""
    words = writer.gathered_words(step, limbs)
    if words is None or engine.rows_of(step.join.operands[0].table) < MANY_ROWS:
        return None
    table = f"{step.table}_words"
    engine.table(table, words)
    ((one_a_tick,),) = engine.all(one_a_tick_sql(table))
    return table if one_a_tick else None
