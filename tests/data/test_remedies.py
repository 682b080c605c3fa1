"""Values that do not fit are refused with a remedy; what can be taken is."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog
from tidelog.data.readers.csv import PATTERNS
from tidelog.data.remedies import REMEDIES, remedied
from tidelog.errors import DataError, TidelogWarning

RULES = """input E(x: text, n: int, v: float, b: bool) @ time.
Q(X, N, V, B) @ T :- E(X, N, V, B) @ T."""
GOOD: dict[str, Any] = {"x": ["a", "c"], "n": [1, 2], "v": [1.0, 2.0], "b": [True, False]}
STAMPS = ["2024-01-01T00:00:00Z", "2024-01-01 01:00:00+02"]


def ask(facts: Any, **how: Any) -> list[dict[str, Any]]:
    return list(tidelog.parse(RULES).query("Q", facts, **how).to_pylist())


def refused(facts: Any, **how: Any) -> str:
    with pytest.raises(DataError) as error:
        ask(facts, **how)
    return str(error.value)


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({**GOOD, "time": [0, 1], "unused": [1j, 2j], **columns})


@pytest.mark.parametrize(
    ("row", "tick", "said"),
    [
        ("a,NULL,1,true,0", None, "`NULL` is not int; leave a missing value empty"),
        ("a,1,NA,true,0", None, "`NA` is not float; leave a missing value empty"),
        ("a,5.0,1,true,0", None, "`5.0` is not int; declare the column `float`, or write whole"),
        ("a,5,1,yes,0", None, "`yes` is not bool; write `true` or `false`"),
        ('a,5,"1,5",true,0', None, "`1,5` is not float; write a point for the comma"),
        ("a,5,1,true,5.0", None, "`5.0` is not int; a tick is a whole number"),
        ("a,5,1,true,1700000000", "1m", "it looks like seconds since 1970"),
        ("a,5,1,true,1700000000000", "1m", "it looks like milliseconds since 1970"),
    ],
)
def test_texts_of_csv(tmp_path: Path, row: str, tick: str | None, said: str) -> None:
    (tmp_path / "E.csv").write_text(f"x,n,v,b,time\n{row}\n")
    assert said in refused(tmp_path / "E.csv", tick=tick)


def test_python_and_sql_agree_on_remedies() -> None:
    """Streams and Spark choose the remedy in SQL."""
    texts = [
        "NULL",
        "n/a",
        "-",
        "?",
        "5.0",
        "1,000",
        "1,5",
        "yes",
        "0",
        "1700000000",
        "-3",
        "x",
        "",
    ]
    assert all(pattern for pattern, _, _ in REMEDIES)
    assert PATTERNS
    for pattern, kinds, text in REMEDIES:
        for value in texts:
            row = duckdb.execute("SELECT regexp_full_match(?, ?)", [value, pattern]).fetchone()
            assert row is not None
            mine = [p for p, k, _ in REMEDIES if set(k) & set(kinds)]
            if mine.index(pattern) == 0:
                assert row[0] is remedied("", value, kinds[0]).endswith(text)


def test_what_pandas_makes_of_gaps_is_taken() -> None:
    assert [row["n"] for row in ask({"E": frame(n=[5.0, 6.0])})] == [5, 6]
    assert [row["n"] for row in ask({"E": frame(n=[5, None])})] == [5]
    assert [row["time"] for row in ask({"E": frame(time=[3.0, None])})] == [3]
    assert [row["n"] for row in ask({"E": frame(n=pd.Series([5, None], dtype=object))})] == [5]
    rows = [("a", pd.NA, 1.0, True, 0), ("b", 5, 1.0, True, 1)]
    assert [row["x"] for row in ask({"E": rows})] == ["b"]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"n": [1.5, 2]}, "row 1: column `n`: 1.5 is not int; declare the column `float`"),
        ({"n": [1.0, 1e300]}, "row 2: column `n`: 1000000000000000052504760255204420248..."),
        ({"n": [1, "x"]}, "row 2: column `n`: 'x' is not int"),
        ({"n": [None, 1.5]}, "row 2: column `n`: 1.5 is not int; declare the column `float`"),
        ({"n": [1.0, float("inf")]}, "row 2: column `n`: inf is not int"),
        ({"x": ["a", 2]}, "row 2: column `x`: 2 is not text"),
        ({"v": [1j, 2j]}, "row 1: column `v`: 1j is not float"),
        (
            {"n": ["1", "2"]},
            "column `n` is VARCHAR, and the rules need int: convert it, or declare",
        ),
        (
            {"time": ["0", "1"]},
            "times are whole numbers of ticks; if they are timestamps, give the",
        ),
    ],
)
def test_what_does_not_fit_in_pandas(columns: dict[str, Any], said: str) -> None:
    assert said in refused({"E": frame(**columns)})


def test_a_type_that_duckdb_has_not() -> None:
    halves = pa.array([1.0, 2.0], pa.float16())
    table = pa.table({**GOOD, "v": halves, "time": [0, 1]})
    assert refused({"E": table}) == (
        "facts of `E`: column `v` is halffloat, which cannot be read: convert it"
    )


def test_texts_are_times_as_in_csv(tmp_path: Path) -> None:
    table = pa.table({**GOOD, "time": STAMPS})
    pq.write_table(table, tmp_path / "E.parquet")
    days = [datetime(2024, 1, 1, tzinfo=UTC), datetime(2023, 12, 31, 23, tzinfo=UTC)]
    for facts in (tmp_path / "E.parquet", {"E": table}, {"E": table.to_pandas()}):
        assert sorted(row["time"] for row in ask(facts, tick="1m")) == sorted(days)
    pq.write_table(table.set_column(4, "time", [["2024-01-01", "noon"]]), tmp_path / "E.parquet")
    assert refused(tmp_path / "E.parquet", tick="1m") == (
        f"{tmp_path}/E.parquet: column `time`: `noon` is not a timestamp such as"
        " 2014-01-01T00:10:00Z"
    )
    assert refused({"E": frame(time=["2024-01-01", "noon"])}, tick="1m") == (
        "facts of `E`, row 2: column `time`: `noon` is not a timestamp such as 2014-01-01T00:10:00Z"
    )


def test_a_capital_letter_in_a_question() -> None:
    program = tidelog.parse("A(X) @ T :- E(X) @ T.")
    with pytest.raises(ValueError, match='text with a capital letter stands in quotes: "Checkout"'):
        program.why("A(Checkout) @ 3", {"E": [("Checkout", 3)]})
    with pytest.raises(ValueError, match="text is written in double quotes"):
        program.why("A('Checkout') @ 3", {"E": [("Checkout", 3)]})


def test_a_question_that_is_no_fact() -> None:
    program = tidelog.parse("A(X) @ T :- E(X) @ T.")
    with pytest.raises(ValueError, match=r"`A\(_\) @ 3` is not a fact: it has variables"):
        program.why("A(_) @ 3", {"E": [("c", 3)]})
    with pytest.raises(ValueError, match=r"A has a time in the rules; write `A\(..\) @ TIME`"):
        program.why("A(c)", {"E": [("c", 3)]})


def test_standard_input_is_no_file() -> None:
    assert refused({"E": "-"}).startswith("-: standard input is for `tidelog run`, and alone")


def test_a_key_that_a_dict_lacks_is_a_missing_value() -> None:
    whole = {"x": "a", "n": 1, "v": 1.0, "b": True, "time": 0}
    gap = {name: value for name, value in whole.items() if name != "n"} | {"x": "b"}
    with pytest.warns(TidelogWarning, match="1 row of E left out: NULL or NaN in column"):
        assert [row["x"] for row in ask({"E": [whole, gap]})] == ["a"]
    assert "row 1: no key `n`; there are x, v, b, time" in refused({"E": [gap, gap]})


def test_a_file_that_is_named_after_nothing(tmp_path: Path) -> None:
    (tmp_path / "m13.csv").write_text("x,n,v,b,time\n")
    path = tmp_path / "m13.csv"
    assert refused(path).endswith(f"; to give it to one, write E={path}")


def test_a_hundred_calculations() -> None:
    made = ", ".join(f"V{i} = X * {i}" for i in range(120))
    program = tidelog.parse(f"input E(x: int) @ t. P(V119) @ T :- E(X) @ T, {made}.")
    step = tidelog.Stream(program).push(0, {"E": [(3,)]})
    assert step.answers["P"].to_pylist() == [{"v119": 357, "time": 0}]


def test_a_decimal_and_a_list_of_paths_name_the_remedy(tmp_path: Path) -> None:
    row = ("a", 1, Decimal("1.5"), True, 0)
    assert refused({"E": [row]}).endswith("Decimal('1.5') is not float; convert it: float(..)")
    for path in ("a.csv", tmp_path / "a.csv"):
        said = refused({"E": [path]})
        assert said.endswith("; for a file or folder give its path alone, in no list")
