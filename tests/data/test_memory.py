"""Facts in memory: Python rows, Arrow tables, data frames."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
from support.facts import COLUMNS, DECLARED, ROWS, TYPED, arrow, ask, in_order, refused

from tidelog.data.ticks import NEEDS_TICK


def test_python_rows_and_tables() -> None:
    wanted = in_order(ROWS)
    assert ask(DECLARED, {"E": ROWS}) == wanted
    assert ask(DECLARED, {"E": (list(row) for row in ROWS)}) == wanted
    table = arrow(COLUMNS, ROWS)
    assert ask(DECLARED, {"E": table}) == wanted
    assert ask(DECLARED, {"E": table.to_reader()}) == wanted
    coded = table.set_column(0, "name", table["name"].dictionary_encode())
    narrow = coded.set_column(4, "at", coded["at"].cast(pa.int16()))
    assert ask(DECLARED, {"E": narrow}) == wanted


def test_a_data_frame() -> None:
    """Anything with Arrow's stream protocol, as pandas and polars have."""

    class Frame:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return arrow(COLUMNS, ROWS).__arrow_c_stream__(requested_schema)

    assert ask(DECLARED, {"E": Frame()}) == in_order(ROWS)


def test_bad_python_rows() -> None:
    good = (1, 1.5, True, "a", 0)
    for i, value, problem in [
        (0, 2**63, "9223372036854775808 does not fit 64 bits"),
        (0, True, "True is not int"),
        (0, 1.0, "1.0 is not int; declare the column `float`, or write whole numbers"),
        (1, "1", "'1' is not float"),
        (2, 1, "1 is not bool; write `true` or `false`"),
        (3, b"a", "b'a' is not text"),
        (4, 2**62, "time 4611686018427387904 does not fit 62 bits"),
        (4, datetime(2014, 1, 1), f"`2014-01-01 00:00:00` {NEEDS_TICK}"),
    ]:
        bad = (*good[:i], value, *good[i + 1 :])
        name = ("n", "x", "ok", "s", "at")[i]
        wanted = [f"facts of `E`, row 2: column `{name}`: {problem}"]
        assert refused(TYPED, {"E": [good, bad]}) == wanted
    assert refused(TYPED, {"E": "a.csv"}) == ["a.csv: no such file or folder"]
    assert refused(TYPED, {"E": b"a"}) == ["facts of `E`: rows are tuples or a table, not text"]
