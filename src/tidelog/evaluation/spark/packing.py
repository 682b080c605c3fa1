"""Facts selected, projected and packed in Catalyst: the row format that every stage takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias, assert_never

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidelog.data.packed import bit_sql, place_sql
from tidelog.data.ticks import EMPTY
from tidelog.data.types import SQL_TYPES
from tidelog.evaluation.arithmetic_sql import calculation_sql, checks_sql
from tidelog.evaluation.layout import Layout
from tidelog.evaluation.plan import Scan, Selection
from tidelog.evaluation.rows import NEW
from tidelog.evaluation.spark.sources import Inputs, arrow_struct
from tidelog.language.program import (
    Calculation,
    Comparison,
    Constant,
    Expression,
    Operator,
    Term,
    Value,
    Variable,
)


@dataclass(frozen=True)
class Packing:
    """What the scans of a layout make of the rows of its inputs."""

    layout: Layout
    inputs: Inputs

    def packed(self, facts: DataFrame, scans: Iterable[str], part: int = NEW) -> DataFrame:
        """Facts packed for every scan of some that wants them, in one pass."""
        schema = self.layout.schema
        taken = [
            step
            for step in self.layout.plan.steps
            if isinstance(step, Scan)
            and step.name in set(scans)
            and step.predicate.base in self.inputs.schemas  # a clock has no rows
        ]
        wanted = [self._wanted(scan) for scan in taken]
        if not wanted:
            return facts.sparkSession.createDataFrame([], arrow_struct(schema))
        chosen = facts.where(reduce(Column.__or__, (condition for condition, _ in wanted)))
        names = [f.name for f in schema if f.name not in ("part", "c", "b")]
        alike = len({str([row[name] for name in names if name != "tab"]) for _, row in wanted}) == 1
        place = place_sql(below_zero=self._may_be_below_zero(taken))
        way = _grouped_once if alike else _a_row_each
        rows = way(chosen, wanted, names, place)
        return rows.withColumn("part", F.lit(part)).select(*schema.names)

    def _may_be_below_zero(self, scans: Iterable[Scan]) -> bool:
        """Whether ticks may be; of facts that are not all there yet this is not known."""
        ranges = (self.layout.plan.ranges.get(scan.predicate.name) for scan in scans)
        return any(range_ is None or range_.low < 0 for range_ in ranges)

    def _wanted(self, scan: Scan) -> Wanted:
        """When a row is one for a scan, and what the scan makes of it."""
        name = scan.predicate.base
        slots = self.inputs.slots(name)
        condition = F.col("tag") == self.inputs.tag(name)
        range_ = self.layout.plan.ranges.get(scan.predicate.name)  # of finite facts
        if self.layout.plan.data.get(scan.predicate.name) == EMPTY:
            # There was no fact: one that is there now is met, and told of (`snapshot.py`).
            condition = condition & F.col("t").isNull()
        elif range_ is not None and range_.empty:
            condition = F.lit(False)
        elif range_ is not None:
            condition = condition & (F.col("t") >= range_.low) & (F.col("t") <= range_.high)
        ways = (_selected(selection, slots) for selection in scan.selections)
        condition = condition & reduce(Column.__or__, ways)
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


# When a row is one for a scan, and what the scan makes of it.
Wanted: TypeAlias = tuple[Column, dict[str, Column]]


def _selected(selection: Selection, slots: list[str]) -> Column:
    """When a row of an input is taken."""
    bound: dict[str, str] = {}
    condition = F.lit(True)
    for term, slot in zip(selection.premise.args, slots, strict=True):
        if isinstance(term, Constant):
            condition = condition & (F.col(slot) == _literal(term.value))
        elif term.name in bound:
            condition = condition & (F.col(slot) == F.col(bound[term.name]))
        else:
            bound[term.name] = slot
    for comparison in selection.tests:
        for side in (comparison.left, comparison.right):
            for check in checks_sql(side, lambda term: _number_sql(term, bound)):
                condition = condition & F.expr(check)
        condition = condition & _compared(comparison, bound)
    return condition


def _grouped_once(rows: DataFrame, wanted: list[Wanted], names: list[str], place: str) -> DataFrame:
    """Facts packed for scans that keep the same columns: bits of each, by one grouping.

    A `place` is where in its chunk a tick lies.
    """
    kept = [name for name in names if name != "tab"]
    first = wanted[0][1]
    ways = [condition.alias(f"way{i}") for i, (condition, _) in enumerate(wanted)]
    plain = rows.select("t", *(first[name].alias(name) for name in kept), *ways)
    bits = [
        F.expr(f"bit_or(CASE WHEN way{i} THEN {bit_sql(place)} END) AS b{i}")
        for i in range(len(wanted))
    ]
    packed = plain.groupBy(*kept, F.expr(f"t - {place} AS c")).agg(*bits)
    each = [
        F.struct(row["tab"].alias("tab"), F.col(f"b{i}").alias("b"))
        for i, (_, row) in enumerate(wanted)
    ]
    if len(each) == 1:
        return packed.select(*kept, "c", first["tab"].alias("tab"), F.col("b0").alias("b"))
    return packed.select(*kept, "c", F.inline(F.array(*each))).where("b IS NOT NULL")


def _a_row_each(rows: DataFrame, wanted: list[Wanted], names: list[str], place: str) -> DataFrame:
    """Facts packed for scans that keep different columns: a row for each scan that wants it."""
    conditions, made = zip(*wanted, strict=True)
    numbers = F.array(*(F.lit(i) for i in range(len(wanted))))  # lambdas would not be compiled
    chosen = rows.select("*", F.explode(numbers).alias("scan"))
    which = F.col("scan")
    chosen = chosen.where(_chosen(which, list(conditions)))
    values = [_chosen(which, [row[name] for row in made]).alias(name) for name in names]
    bits = F.expr(f"bit_or({bit_sql(place)}) AS b")
    chunk = F.expr(f"t - {place} AS c")
    return chosen.select("t", *values).groupBy(*names, chunk).agg(bits)


def _chosen(which: Column, values: list[Column]) -> Column:
    """The value for a scan: one for all, or by its number."""
    if len({str(value) for value in values}) == 1:
        return values[0]
    chosen: Column | None = None
    for i, value in enumerate(values):
        chosen = F.when(which == i, value) if chosen is None else chosen.when(which == i, value)
    assert chosen is not None
    return chosen


def _literal(value: Value) -> Column:
    return F.lit(value).cast("bigint") if type(value) is int else F.lit(value)


def _side(expression: Expression, bound: Mapping[str, str]) -> Column:
    match expression:
        case Variable(name):
            return F.col(bound[name])
        case Constant(value):
            return _literal(value)
        case Calculation():
            return F.expr(calculation_sql(expression, lambda term: _number_sql(term, bound)))
        case _:
            assert_never(expression)


def _number_sql(term: Term, bound: Mapping[str, str]) -> str:
    """A number of a calculation, as Spark reads it."""
    if isinstance(term, Variable):
        return f"`{bound[term.name]}`"
    return f"CAST('{term.value!r}' AS {SQL_TYPES[term.type]})"


def _compared(comparison: Comparison, bound: Mapping[str, str]) -> Column:
    left, right = _side(comparison.left, bound), _side(comparison.right, bound)
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
