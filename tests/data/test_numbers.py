"""Integers and decimals in float columns, in process; `test_spark_types.py` has those of Spark."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog
from tidelog.errors import DataError, TidelogWarning

PROGRAM = tidelog.parse("input a(v: float) @ t. O(V) @ T :- a(V) @ T.")
EDGES = [2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**62 + 1, 2**63 - 1, 2**63 - 512, 2**63 - 1024]


def table(value: object, kind: pa.DataType) -> pa.Table:
    return pa.table({"v": pa.array([value], kind), "t": [1]})


@pytest.mark.parametrize("value", [*EDGES, *(-edge for edge in EDGES), -(2**63)])
def test_an_integer_is_itself_or_refused(tmp_path: Path, value: int) -> None:
    facts = table(value, pa.int64())
    pq.write_table(facts, tmp_path / "a.parquet")
    for given in (facts, facts.to_pandas(), [(value, 1)], str(tmp_path / "a.parquet")):
        if int(float(value)) == value:
            assert PROGRAM.query("O", {"a": given}).to_pylist() == [{"v": float(value), "time": 1}]
        else:
            with pytest.raises(DataError, match=f"column `v`: `{value}` is not float"):
                PROGRAM.query("O", {"a": given})


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.uint64(), pa.uint8()])
def test_a_stream_takes_integers_alike(kind: pa.DataType) -> None:
    low, high = {8: (0, 2**8 - 1), 32: (-(2**31), 2**31 - 1)}.get(kind.bit_width, (0, 2**63))
    signed = kind == pa.int64()
    for value in (low, high, *([*EDGES, *(-edge for edge in EDGES)] if signed else [2**60])):
        if not (-(2**63) <= value < 2**63 if signed else 0 <= value < 2**kind.bit_width):
            continue
        facts = table(value, kind)
        for given in (facts, facts.to_pandas(), [(value, 1)]):
            stream = tidelog.Stream(PROGRAM)
            if int(float(value)) == value:
                answers = stream.push(1, {"a": given}).answers["O"]
                assert answers.to_pylist() == [{"v": float(value), "time": 1}]
            else:
                with pytest.raises(DataError, match=f"column `v`: `{value}` is not float"):
                    stream.push(1, {"a": given})


def test_unsigned_integers() -> None:
    assert PROGRAM.query("O", {"a": table(2**63, pa.uint64())}).to_pylist()[0]["v"] == 2.0**63
    with pytest.raises(DataError, match=f"`{2**64 - 1}` is not float"):
        PROGRAM.query("O", {"a": table(2**64 - 1, pa.uint64())})


@pytest.mark.parametrize("text", ["0.100000000000000001", "90071992547409.93", "-1E-18", "0.1"])
def test_a_decimal_is_the_nearest_float(text: str) -> None:
    facts = table(Decimal(text), pa.decimal128(38, 18))
    with pytest.warns(TidelogWarning, match=r"column `v` of a is decimal\(38,18\)"):
        answers = PROGRAM.query("O", {"a": facts})
    assert answers.to_pylist() == [{"v": float(Decimal(text)), "time": 1}]


def test_a_decimal_of_15_digits_needs_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    facts = table(Decimal("9999999999999.99"), pa.decimal128(15, 2))
    assert PROGRAM.query("O", {"a": facts}).to_pylist()[0]["v"] == 9999999999999.99
    assert not [one for one in recwarn if issubclass(one.category, TidelogWarning)]
