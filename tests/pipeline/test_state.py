"""What is read of a state file: all rows that a batch looks at, and not all others."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.deep import examples

from tidelog.pipeline.state import Chunks, rows_about

chunk = st.integers(-5, 30)
asked = st.dictionaries(st.integers(0, 3), st.lists(st.tuples(chunk, chunk), max_size=2))


def state(rows: list[tuple[int, int]], group: int, *, statistics: bool = True) -> pq.ParquetFile:
    tabs, chunks = zip(*sorted(rows), strict=True)
    table = pa.table({"tab": pa.array(tabs, pa.int32()), "c": pa.array(chunks, pa.int64())})
    file = pa.BufferOutputStream()
    pq.write_table(table, file, row_group_size=group, write_statistics=statistics)
    return pq.ParquetFile(pa.BufferReader(file.getvalue()))


def read(file: pq.ParquetFile, wanted: Chunks) -> list[tuple[int, int]]:
    return [(row["tab"], row["c"]) for row in rows_about(file, wanted).to_pylist()]


@examples(100, deep=500)
@given(
    st.lists(st.tuples(st.integers(0, 3), chunk), min_size=1, max_size=30),
    st.integers(1, 8),
    asked,
    st.booleans(),
)
def test_nothing_that_is_looked_at_is_left_out(
    rows: list[tuple[int, int]],
    group: int,
    wanted: dict[int, list[tuple[int, int]]],
    statistics: bool,
) -> None:
    looked_at = [
        (tab, c)
        for tab, c in sorted(rows)
        if any(low <= c <= high for low, high in wanted.get(tab, ()))
    ]
    some = read(state(rows, group, statistics=statistics), wanted)
    assert [row for row in some if row in looked_at] == looked_at


@pytest.mark.parametrize(("low", "high", "number"), [(3, 3, 10), (9, 11, 20), (50, 90, 0)])
def test_what_nothing_looks_at_is_not_read(low: int, high: int, number: int) -> None:
    file = state([(1, c) for c in range(40)], 10)
    assert len(read(file, {1: [(low, high)]})) == number
    assert read(file, {2: [(low, high)]}) == []
