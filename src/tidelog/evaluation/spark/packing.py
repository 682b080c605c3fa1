"""Facts selected, projected and packed in Catalyst: the row format that every stage takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidelog.data.packed import bit_sql, place_sql
from tidelog.evaluation.layout import Layout
from tidelog.evaluation.plan import Scan
from tidelog.evaluation.rows import NEW
from tidelog.evaluation.spark.sources import Inputs, arrow_struct
from tidelog.language.program import Comparison, Constant, Operator, Term, Value, Variable


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
            if isinstance(step, Scan)
            and step.name in set(scans)
            and step.predicate.base in self.inputs.schemas  # a clock has no rows
        ]
        if not wanted:
            return facts.sparkSession.createDataFrame([], arrow_struct(schema))
        chosen = facts.where(reduce(Column.__or__, (condition for condition, _ in wanted)))
        which: Column | None = None
        if len(wanted) > 1:  # a row for each scan that wants it; lambdas would not be compiled
            numbers = F.array(*(F.lit(i) for i in range(len(wanted))))
            chosen = chosen.select("*", F.explode(numbers).alias("scan"))
            which = F.col("scan")
            chosen = chosen.where(_chosen(which, [condition for condition, _ in wanted]))
        rows = [row for _, row in wanted]
        values = [_chosen(which, [row[name] for row in rows]).alias(name) for name in rows[0]]
        chosen = chosen.select("t", *values)
        names = [f.name for f in schema if f.name not in ("part", "c", "b")]
        bits = F.expr(f"bit_or({bit_sql(place_sql())}) AS b")
        packed = chosen.groupBy(*names, F.expr(f"t - {place_sql()} AS c")).agg(bits)
        return packed.withColumn("part", F.lit(part)).select(*schema.names)

    def _wanted(self, scan: Scan) -> tuple[Column, dict[str, Column]]:
        """When a row is one for a scan, and what the scan makes of it."""
        name = scan.predicate.base
        slots = self.inputs.slots(name)
        bound: dict[str, Column] = {}
        condition = F.col("tag") == self.inputs.tag(name)
        for term, slot in zip(scan.premise.args, slots, strict=True):
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
        for comparison in scan.tests:
            condition = condition & _compared(comparison, bound)
        relation = self.layout.scans[scan.name]
        kept = {
            to: F.col(slots[position])
            for to, position in zip(relation.slots, scan.columns, strict=True)
        }
        types = {f.name: f.dataType for f in arrow_struct(self.layout.schema)}
        values = {"tab": F.lit(relation.number).cast("int")}
        for name in self.layout.schema.names:
            if name not in ("tab", "part", "c", "b"):
                values[name] = kept.get(name, F.lit(None)).cast(types[name])
        return condition, values


def _chosen(which: Column | None, values: list[Column]) -> Column:
    """The value for a scan: one for all, or by its number."""
    if which is None or len({str(value) for value in values}) == 1:
        return values[0]
    chosen: Column | None = None
    for i, value in enumerate(values):
        chosen = F.when(which == i, value) if chosen is None else chosen.when(which == i, value)
    assert chosen is not None
    return chosen


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
