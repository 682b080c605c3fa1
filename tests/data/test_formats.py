"""Every format gives the same facts, and says the same of what is missing or does not fit."""

from __future__ import annotations

import math
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.facts import (
    DECLARED,
    ROWS,
    TYPED,
    WRITERS,
    Writer,
    arrow,
    ask,
    in_order,
    refused,
    write_csv,
    write_json,
    write_parquet,
)

import tidelog
from tidelog.evaluation.duckdb import Engine


@pytest.mark.parametrize("write", WRITERS)
def test_declared_columns_go_by_name(tmp_path: Path, write: Writer) -> None:
    """In any order, with others between them that are not looked at."""
    columns = ("at", "extra", "ok", "name", "N", "x", "n")
    rows = [(t, "?", ok, name, 99, x, n) for name, n, x, ok, t in ROWS]
    assert ask(DECLARED, write(tmp_path, "E", columns, rows)) == in_order(ROWS)
    assert ask(DECLARED, {"E": arrow(columns, rows)}) == in_order(ROWS)


@pytest.mark.parametrize("write", WRITERS)
def test_undeclared_columns_go_by_position(tmp_path: Path, write: Writer) -> None:
    rules = "P(X, Y) @ T :- E(X, Y) @ T, X != Y."
    rows = [("a", "b", 3), ("c", "c", 4), ("b", "a", 3)]
    path = write(tmp_path, "E", ("to", "from", "time"), rows)
    assert ask(rules, path) == [("a", "b", 3), ("b", "a", 3)]


def test_types_that_only_the_data_knows(tmp_path: Path) -> None:
    """Undeclared and used nowhere in particular: Parquet and JSON bring their types, CSV text."""
    rules = "P(X) @ T :- E(X) @ T."
    for write, values in (
        (write_parquet, [10, 9]),
        (write_json, [10, 9]),
        (write_csv, ["10", "9"]),
    ):
        path = write(tmp_path, "E", ("x", "time"), [(10, 0), (9, 0)])
        assert [row[0] for row in ask(rules, path)] == sorted(values)


def test_rigid_and_empty_inputs(tmp_path: Path) -> None:
    rules = "input Near(a: text, b: text). input On. P(X) :- Near(X, _), On."
    (tmp_path / "Near.csv").write_text("a,b\nx,y\nx,z\n")
    assert ask(rules, tmp_path) == []
    (tmp_path / "On.csv").write_text("any\n1\n")
    assert ask(rules, tmp_path) == [("x",)]
    assert ask(rules, {"Near": [("x", "y")], "On": [()]}) == [("x",)]
    assert ask(rules, {"Near": [("x", "y")], "On": pa.table({"z": [1, 2]})}) == [("x",)]
    assert ask(rules, {"Near": [("x", "y")], "On": []}) == []


def nulls(rules: str, facts: Any) -> dict[str, int]:
    with Engine(tidelog.parse(rules), facts) as engine:
        return engine.nulls


NULLS = "input E(name: text, v: float) @ at. P(X, V) @ T :- E(X, V) @ T."


def test_missing_values_in_csv(tmp_path: Path) -> None:
    """Nothing between commas is missing; in quotes it is an empty text, and no number."""
    path = tmp_path / "E.csv"
    path.write_text('name,v,at,extra\na,1,0,\n,2,1,\n"",3,2,\nb,,3,\nc,4,,\nd,nan,5,\ne,"",6,\n')
    assert ask(NULLS, path) == [("a", 1.0, 0), ("", 3.0, 2)]
    assert nulls(NULLS, path) == {"E": 5}


HOLES = [("a", 1.0, 0), (None, 2.0, 1), ("b", None, 3), ("c", 4.0, None), ("d", math.nan, 5)]


def test_missing_values_elsewhere(tmp_path: Path) -> None:
    columns = ("name", "v", "at")
    sources: list[Any] = [{"E": HOLES}, {"E": arrow(columns, HOLES)}]
    sources += [write(tmp_path, "E", columns, HOLES) for write in (write_parquet, write_json)]
    for source in sources:
        assert ask(NULLS, source) == [("a", 1.0, 0)], source
        assert nulls(NULLS, source) == {"E": 4}, source


def test_missing_values_in_one_parquet_file_of_two(tmp_path: Path) -> None:
    """Also where a file's statistics are missing, or its column has a dot in its name."""
    rules = 'input E("a.b": text) @ at. P(X) @ T :- E(X) @ T.'
    (tmp_path / "E").mkdir()
    for i, values in enumerate((["x", "y"], ["z", None])):
        table = pa.table({"a.b": pa.array(values, pa.string()), "at": [2 * i, 2 * i + 1]})
        pq.write_table(table, tmp_path / "E" / f"{i}.parquet", write_statistics=bool(i))
    assert ask(rules, tmp_path) == [("x", 0), ("y", 1), ("z", 2)]
    assert nulls(rules, tmp_path) == {"E": 1}


def test_columns_that_are_missing_elsewhere(tmp_path: Path) -> None:
    columns, rows = ("n", "at"), [(1, 2)]
    path = write_parquet(tmp_path, "E", columns, rows)
    assert refused(TYPED, path) == [f"{path}: no column `x`, which `E` declares; there are n, at"]
    path = write_json(tmp_path, "E", columns, rows)
    assert refused(TYPED, path) == [f"{path}: no column `x`, which `E` declares; there are n, at"]
    assert refused(TYPED, {"E": arrow(columns, rows)}) == [
        "facts of `E`: no column `x`, which `E` declares; there are n, at"
    ]
    assert refused(TYPED, {"E": [(1, 1.5, True, "a", 0), (1, 2)]}) == [
        "facts of `E`, row 2: 2 values for 5 columns (n, x, ok, s, at)"
    ]


def test_the_wrong_number_of_undeclared_columns(tmp_path: Path) -> None:
    rules = "P(X) @ T :- E(X) @ T."
    for write in (write_csv, write_parquet):
        path = write(tmp_path, "E", ("a", "b", "c"), [(1, 2, 3)])
        (message,) = refused(rules, path)
        assert "3 columns for the 2 of `E`" in message
        assert "declare the input" in message
        assert message.startswith(str(path))
    path = tmp_path / "E.jsonl"
    path.write_text('{"x": "a", "time": 0}\n{"x": "a"}\n')
    assert nulls(rules, path) == {"E": 1}
    path.write_text('{"x": "a", "y": "b", "time": 0}\n')
    assert refused(rules, path)[0].startswith(f"{path}:1: `E` has 1 column")


def test_not_utf_8(tmp_path: Path) -> None:
    rules = "P(X) @ T :- E(X) @ T."
    path = tmp_path / "E.csv"
    path.write_bytes(b"x,time\na,0\n" + b"b,1\n" * 100_000 + "caf\u00e9,2\n".encode("latin-1"))
    assert refused(rules, path) == [f"{path}:100003: not UTF-8 text"]
    path.write_bytes("caf\u00e9,time\na,0\n".encode("latin-1"))
    assert refused(rules, path) == [f"{path}:1: not UTF-8 text"]
    path = tmp_path / "E.jsonl"
    path.write_bytes(b'{"x": "a", "time": 0}\n{"x": "caf\xe9", "time": 0}\n')
    assert refused(rules, path) == [f"{path}:2: not UTF-8 text"]


@pytest.mark.parametrize(
    ("column", "values", "problem"),
    [
        ("n", pa.array([1.5]), "column `n` is DOUBLE, and the rules need int"),
        ("n", pa.array(["1"]), "column `n` is VARCHAR, and the rules need int"),
        ("n", pa.array([2**63], pa.uint64()), "9223372036854775808"),
        ("x", pa.array(["1"]), "column `x` is VARCHAR, and the rules need float"),
        ("ok", pa.array([1]), "column `ok` is BIGINT, and the rules need bool"),
        ("s", pa.array([1]), "column `s` is BIGINT, and the rules need text"),
        ("s", pa.array([b"a"]), "column `s` is BLOB, and the rules need text"),
        ("s", pa.array([["a"]]), "column `s` is VARCHAR[], and the rules need text"),
        ("at", pa.array([0.0]), "time column `at` is DOUBLE; times are whole numbers of ticks"),
        ("at", pa.array([-(2**62)]), "time -4611686018427387904 does not fit 62 bits"),
        ("at", pa.array([datetime(2014, 1, 1)]), "give the length of a tick"),
    ],
)
def test_parquet_and_arrow_of_other_types(
    tmp_path: Path, column: str, values: pa.Array, problem: str
) -> None:
    table = arrow(("n", "x", "ok", "s", "at"), [(1, 1.5, True, "a", 0)])
    table = table.set_column(table.column_names.index(column), column, values)
    path = tmp_path / "E.parquet"
    pq.write_table(table, path)
    for facts, where in ((path, str(path)), ({"E": table}, "facts of `E`")):
        messages = refused(TYPED, facts)
        assert messages[0].startswith(where)
        assert problem in messages[0]


def test_types_of_data_that_do_not_fit_the_rules(tmp_path: Path) -> None:
    """Each file fits what the rules say of it alone; together they do not."""
    write_parquet(tmp_path, "E", ("x", "time"), [(1, 0)])
    write_parquet(tmp_path, "F", ("x", "time"), [("a", 0)])
    messages = refused("P(X) @ T :- E(X) @ T, F(X) @ T.", tmp_path)
    assert messages
    assert all(line.startswith("the data's types do not fit the rules: ") for line in messages)
