"""Facts selected, projected and packed in Catalyst: the row format that every stage takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidelog.evaluation.plan import Scan
from tidelog.evaluation.sql import CHUNK
from tidelog.language.program import Comparison, Constant, Operator, Term, Value, Variable
from tidelog.streaming.layout import NEW, Layout
from tidelog.streaming.spark.sources import Inputs, arrow_struct


@dataclass(frozen=True)
class Packing:
    """What the scans of a layout make of the rows of its inputs."""

    layout: Layout
    inputs: Inputs

    def packed(self, facts: DataFrame, scans: Iterable[str], part: int = NEW) -> DataFrame:
        """Facts packed for every scan of some that wants them, in one pass."""
        schema = self.layout.schema
        wanted = [
            self._wanted(step)
            for step in self.layout.plan.steps
            if isinstance(step, Scan) and step.name in set(scans)
        ]
        if len(wanted) == 1:
            ((condition, row),) = wanted
            found = facts.where(condition).select("t", row.alias("row")).select("t", "row.*")
        else:
            some = F.array(*(F.when(condition, row) for condition, row in wanted))
            found = facts.select("t", F.inline(F.filter(some, lambda x: x.isNotNull())))
        names = [f.name for f in schema if f.name not in ("part", "c", "b")]
        bit = f"bit_or(shiftleft(1L, CAST(pmod(t, {CHUNK}) AS INT))) AS b"
        rows = found.groupBy(*names, F.expr(f"t - pmod(t, {CHUNK}) AS c")).agg(F.expr(bit))
        return rows.withColumn("part", F.lit(part)).select(*schema.names)

    def _wanted(self, scan: Scan) -> tuple[Column, Column]:
        """When a row is one for a scan, and what the scan makes of it."""
        name = scan.predicate.source
        slots = self.inputs.slots(name)
        bound: dict[str, Column] = {}
        condition = F.col("tag") == self.inputs.tag(name)
        for term, slot in zip(scan.atom.args, slots, strict=True):
            if isinstance(term, Constant):
                condition = condition & (F.col(slot) == _literal(term.value))
            elif term.name in bound:
                condition = condition & (F.col(slot) == bound[term.name])
            else:
                bound[term.name] = F.col(slot)
        range_ = self.layout.plan.ranges.get(scan.predicate.name)  # of finite facts
        if range_ is not None and range_.empty:
            condition = F.lit(False)
        elif range_ is not None:
            condition = condition & (F.col("t") >= range_.low) & (F.col("t") <= range_.high)
        for comparison in scan.comparisons:
            condition = condition & _compared(comparison, bound)
        relation = self.layout.scans[scan.name]
        kept = {
            to: F.col(slots[position])
            for to, position in zip(relation.slots, scan.columns, strict=True)
        }
        values = [F.lit(relation.number).cast("int").alias("tab")]
        types = {f.name: f.dataType for f in arrow_struct(self.layout.schema)}
        values += [
            kept.get(f.name, F.lit(None)).cast(types[f.name]).alias(f.name)
            for f in self.layout.schema
            if f.name not in ("tab", "part", "c", "b")
        ]
        return condition, F.struct(*values)


def _literal(value: Value) -> Column:
    return F.lit(value).cast("bigint") if type(value) is int else F.lit(value)


def _compared(comparison: Comparison, bound: dict[str, Column]) -> Column:
    def column(term: Term) -> Column:
        return bound[term.name] if isinstance(term, Variable) else _literal(term.value)

    left, right = column(comparison.left), column(comparison.right)
    match comparison.operator:
        case Operator.EQ:
            return left == right
        case Operator.NE:
            return left != right
        case Operator.LT:
            return left < right
        case Operator.LE:
            return left <= right
        case Operator.GT:
            return left > right
        case Operator.GE:
            return left >= right
