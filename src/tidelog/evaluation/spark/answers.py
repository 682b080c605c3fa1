"""Answers out of Spark: packed rows as a DataFrame of users' columns."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidelog.data.packed import CHUNK, HAS_PLACE
from tidelog.data.ticks import Ticks
from tidelog.data.writers import NO_STAMP
from tidelog.evaluation.rows import DONE, Relation
from tidelog.language.program import TIME_COLUMN


def unpacked(
    rows: DataFrame, relation: Relation, names: Sequence[str], ticks: Ticks | None
) -> DataFrame:
    """Packed answers a row each, under the names and with the times users asked for."""
    packed = rows.where((F.col("tab") == relation.number) & (F.col("part") == DONE))
    if not relation.temporal:
        if not names:
            return packed.select(F.lit(True).alias("holds"))
        return packed.select(*relation.slots).toDF(*names)
    places = F.array(*(F.lit(i) for i in range(CHUNK)))
    time = F.col("c") + F.col("i")
    if ticks is not None:
        stamp = F.timestamp_micros(time * ticks.length + ticks.origin)
        stamped = time.between(ticks.stamped.low, ticks.stamped.high)
        refused = F.concat(F.lit("tick "), time.cast("string"), F.lit(f" {NO_STAMP}"))
        time = F.when(stamped, stamp).otherwise(F.raise_error(refused).cast("timestamp"))
    plain = packed.select(*relation.slots, "c", "b", F.explode(places).alias("i")).where(HAS_PLACE)
    return plain.select(*relation.slots, time.alias("t")).toDF(*names, TIME_COLUMN)
