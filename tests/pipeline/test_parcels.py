"""Rows in parcels: every row arrives once, at its home."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.deep import examples

from tidelog.evaluation.database import Database
from tidelog.evaluation.rows import home, partition
from tidelog.evaluation.spark import parcels
from tidelog.evaluation.spark.parcels import Sending, opened
from tidelog.language.program import Type

KEYS = [*(f"key {i}" for i in range(50)), "", "ü\n'", "\0"]


def in_batches(rows: list[tuple[str, int | None]], random: Random) -> Iterator[pa.RecordBatch]:
    """The rows in batches of any size, also of none."""
    while rows:
        size = random.choice((0, 1, 7, 3_000))
        some, rows = rows[:size], rows[size:]
        keys, values = ([row[i] for row in some] for i in range(2))
        yield pa.RecordBatch.from_arrays(
            [pa.array(keys, pa.string()), pa.array(values, pa.int64())], ["k", "v"]
        )


def in_another_order(database: Database, select: str) -> pa.Table:
    """DuckDB has been seen to read the batches of a large table in another order."""
    table = database.connection.sql(select).to_arrow_table()
    return table.take(pa.array(range(table.num_rows - 1, -1, -1), pa.int64()))


@examples(4, deep=300)
@given(
    st.integers(0, 9_000),
    st.integers(1, 5),
    st.sampled_from((1, 1_000, 1 << 26)),
    st.sampled_from((1, 500, 1 << 22)),
    st.randoms(use_true_random=False),
)
def test_every_row_arrives_once_at_its_home(
    count: int, partitions: int, sorted_: int, parcel: int, random: Random
) -> None:
    count = count if parcel > 1 else count // 100  # a parcel for each row
    rows = [(random.choice(KEYS), random.choice((None, i))) for i in range(count)]
    sending = Sending(partition("k", Type.TEXT, partitions, spark=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parcels, "_SORTED", sorted_)
        patch.setattr(parcels, "_PARCEL", parcel)
        patch.setattr(parcels.Database, "arrow", in_another_order)
        sent = list(sending.parcels(in_batches(rows, random)))
    arrived: Counter[tuple[str, int | None]] = Counter()
    for batch in sent:
        (number,) = batch.column("home").to_pylist()
        for opened_ in opened([batch]):
            keys, values = (opened_.column(i).to_pylist() for i in range(2))
            assert {home(key, partitions) for key in keys} == {number}
            arrived.update(zip(keys, values, strict=True))
    assert arrived == Counter(rows)


def test_large_tables_come_in_parcels_that_the_jvm_has_room_for() -> None:
    texts = pa.array(["x" * 1_000] * 20_000)
    batch = pa.RecordBatch.from_arrays([texts], ["k"])
    sizes = [len(b.column("rows")[0].as_py()) for b in Sending("0").parcels([batch])]
    assert len(sizes) > 1
    assert max(sizes) < 2 * parcels._PARCEL
