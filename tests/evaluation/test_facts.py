"""Facts in: every format gives the same facts, and whatever is wrong is said with its place."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.deep import examples

import tidelog
from tidelog.data.ticks import Ticks
from tidelog.errors import DataError
from tidelog.evaluation.duckdb import Engine

DECLARED = (
    "input E(name: text, n: int, x: float, ok: bool) @ at. P(A, B, C, D) @ T :- E(A, B, C, D) @ T."
)
COLUMNS = ("name", "n", "x", "ok", "at")
ROWS = [
    ("a", 1, 0.5, True, 0),
    ("", -3, -1e300, False, -61),
    ("two\nlines", 2**63 - 1, 0.1, True, 60),
    ('say "hi", it\'s', -(2**63), 5e-324, False, 59),
    ("\u00fc \U0001f30a", 0, 2.0, True, -1),
    (" padded ", 7, math.inf, False, 7),
]


def ask(rules: str, facts: Any, **options: Any) -> list[tuple[Any, ...]]:
    table = tidelog.parse(rules).query("P", facts, **options)
    return list(zip(*(c.to_pylist() for c in table.columns), strict=True))


def in_order(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(set(rows), key=lambda row: (row[-1], row[:-1]))


def text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# Writers: one per format, each with what Python or Arrow offers, none of it ours


def write_csv(folder: Path, name: str, columns: Iterable[str], rows: Iterable[Any]) -> Path:
    path = folder / f"{name}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(columns)
        writer.writerows([text(v) for v in row] for row in rows)
    return path


def write_parquet(folder: Path, name: str, columns: Iterable[str], rows: Iterable[Any]) -> Path:
    path = folder / f"{name}.parquet"
    pq.write_table(arrow(columns, rows), path)
    return path


def write_json(folder: Path, name: str, columns: Iterable[str], rows: Iterable[Any]) -> Path:
    path = folder / f"{name}.jsonl"
    records = ({"predicate": name, **dict(zip(columns, row, strict=True))} for row in rows)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def arrow(columns: Iterable[str], rows: Iterable[Any]) -> pa.Table:
    arrays = [pa.array(values) for values in zip(*rows, strict=True)]
    return pa.table(arrays, names=list(columns))


WRITERS = (write_csv, write_parquet, write_json)
Writer = Callable[[Path, str, Iterable[str], Iterable[Any]], Path]


@pytest.mark.parametrize("write", WRITERS)
def test_files_and_folders(tmp_path: Path, write: Writer) -> None:
    path = write(tmp_path, "E", COLUMNS, ROWS)
    assert ask(DECLARED, path) == in_order(ROWS)
    assert ask(DECLARED, str(tmp_path)) == in_order(ROWS)


@pytest.mark.parametrize("write", WRITERS)
def test_a_subfolder_of_files(tmp_path: Path, write: Writer) -> None:
    """All files below it, those beginning with . or _ left out, as Spark leaves them behind."""
    folder = tmp_path / "E"
    (folder / "deep[1]" / "time=5").mkdir(parents=True)
    write(folder, "E", COLUMNS, ROWS[:2]).rename(folder / f"part 1{write.__name__[-3:]}")
    for place, rows in ((folder, ROWS[:2]), (folder / "deep[1]" / "time=5", ROWS[2:])):
        written = write(place, "E", COLUMNS, rows)
        written.rename(written.with_stem("part-*'1"))
    (folder / "_SUCCESS").write_text("")
    (folder / "_broken.csv").write_text("nothing")
    (folder / ".hidden.parquet").write_text("nothing")
    assert ask(DECLARED, tmp_path) == in_order(ROWS)


@pytest.mark.parametrize("name", ["E.CSV", "E.json", "E.csv.gz", "E"])
def test_a_file_that_would_be_overlooked(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("not about an input")
    (tmp_path / name).write_text("")
    with pytest.raises(DataError, match=r"facts in a folder end in \.csv, \.parquet, \.jsonl"):
        ask(DECLARED, tmp_path)


def test_a_subfolder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patched, since root may read everything."""
    write_csv(tmp_path, "E", COLUMNS, ROWS)
    locked = tmp_path / "E" / "locked"
    locked.mkdir(parents=True)
    real = Path.iterdir

    def refuse(path: Path) -> Iterable[Path]:
        if path == locked:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(DataError, match="locked: Permission denied"):
        ask(DECLARED, tmp_path)


def test_all_formats_together(tmp_path: Path) -> None:
    folder = tmp_path / "E"
    folder.mkdir()
    for i, write in enumerate(WRITERS):
        write(folder, "E", COLUMNS, ROWS[2 * i : 2 * i + 2])
    write_csv(tmp_path, "E", COLUMNS, ROWS[:3])  # duplicates: facts are sets
    assert ask(DECLARED, tmp_path) == in_order(ROWS)


def test_a_file_of_facts_in_the_language(tmp_path: Path) -> None:
    (tmp_path / "facts.tdl").write_text(
        '% readings\nE(a, 1, 0.5, true) @ 0.\nE("it\'s", -3, 2, false) @ -61.\n'
    )
    assert ask(DECLARED, tmp_path / "facts.tdl") == [
        ("it's", -3, 2.0, False, -61),
        ("a", 1, 0.5, True, 0),
    ]


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


# CSV as others write it


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_csv_dialects(tmp_path: Path, ending: str, start: str) -> None:
    lines = ["name,at", "a,1", "", '"b""c, d",2', "e,3", "", ""]
    path = tmp_path / "E.csv"
    path.write_bytes((start + ending.join(lines)).encode())
    rules = "input E(name: text) @ at. P(X) @ T :- E(X) @ T."
    assert ask(rules, path) == [("a", 1), ('b"c, d', 2), ("e", 3)]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("inside", ["\n", "\r\n", "\r"])
def test_newlines_in_quotes(tmp_path: Path, ending: str, inside: str) -> None:
    """In the names of columns too, whichever way the lines of the file end."""
    path = tmp_path / "E.csv"
    rows = [[f"co{inside}lumn", "at"], [f"a{inside}b", "1"], ["c", "2"]]
    written = io.StringIO()
    csv.writer(written, lineterminator=ending, quoting=csv.QUOTE_ALL).writerows(rows)
    path.write_bytes(written.getvalue().encode())
    assert ask("P(X) @ T :- E(X) @ T.", path) == [(f"a{inside}b", 1), ("c", 2)]


def test_lines_that_end_in_different_ways(tmp_path: Path) -> None:
    path = tmp_path / "E.csv"
    path.write_bytes(b"x,time\r\na,1\nb,2\r\nc,3")
    assert ask("P(X) @ T :- E(X) @ T.", path) == [("a", 1), ("b", 2), ("c", 3)]


def test_a_very_long_value(tmp_path: Path) -> None:
    long = "y" * 3_000_000
    path = write_csv(tmp_path, "E", ("x", "time"), [(long, 1), ("z", 2)])
    assert ask("P(X) @ T :- E(X) @ T.", path) == [(long, 1), ("z", 2)]


def test_one_column(tmp_path: Path) -> None:
    """A blank line in a file of one column is no row; quoted, it is an empty text."""
    path = tmp_path / "E.csv"
    path.write_text('x\na\n\n""\nb\n\n')
    with Engine(tidelog.parse("P(X) :- E(X)."), path) as engine:
        assert engine.query(["P"])["P"]["x"].to_pylist() == ["", "a", "b"]
        assert engine.nulls == {}


@given(st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=6), st.integers(-9, 9))))
@examples(50)
def test_what_pythons_csv_writes(rows: list[tuple[str, int]]) -> None:
    written = io.StringIO()
    csv.writer(written, quoting=csv.QUOTE_NONNUMERIC).writerows([("x", "time"), *rows])
    path = scratch("E.csv")
    path.write_bytes(written.getvalue().encode())
    assert ask("P(X) @ T :- E(X) @ T.", path, from_=-9, to=9) == in_order(rows)


def scratch(name: str) -> Path:
    """A file for one example of a generated test, which cannot use a fixture's folder."""
    import tempfile

    folder = Path(tempfile.gettempdir()) / "tidelog-tests"
    folder.mkdir(exist_ok=True)
    return Path(tempfile.mkdtemp(dir=folder)) / name


# What is not a fact


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


# What is wrong, and where


def refused(rules: str, facts: Any, **options: Any) -> list[str]:
    with pytest.raises(DataError) as error:
        ask(rules, facts, **options)
    return list(error.value.problems)


TYPED = "input E(n: int, x: float, ok: bool, s: text) @ at. P @ T :- E(_, _, _, _) @ T."


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("one,1.5,true,a,0", "column `n`: `one` is not int"),
        ("1.0,1.5,true,a,0", "column `n`: `1.0` is not int"),
        ("1_000,1.5,true,a,0", "column `n`: `1_000` is not int"),
        ("0x10,1.5,true,a,0", "column `n`: `0x10` is not int"),
        ("9223372036854775808,1,true,a,0", "column `n`: 9223372036854775808 does not fit 64 bits"),
        ("1,wet,true,a,0", "column `x`: `wet` is not float"),
        ("1,1e400,true,a,0", "column `x`: `1e400` does not fit a float"),
        ("1,-1e400,true,a,0", "column `x`: `-1e400` does not fit a float"),
        ("1,1.5,yes,a,0", "column `ok`: `yes` is not bool"),
        ("1,1.5,1,a,0", "column `ok`: `1` is not bool"),
        ("1,1.5,true,a,noon", "column `at`: `noon` is not int"),
        ("1,1.5,true,a,0.0", "column `at`: `0.0` is not int"),
        ("1,1.5,true,a,4611686018427387904", "time 4611686018427387904 does not fit 62 bits"),
        ("1,1.5,true,a,2014-01-01T00:00:00Z", "`2014-01-01T00:00:00Z` is not int"),
        ("1,1.5,true,a", "4 values for 5 columns"),
        ("1,1.5,true,a,0,9", "6 values for 5 columns"),
        ('1,1.5,true,"a"b,0', "not CSV"),
        ('1,1.5,true,"a,0', "not CSV"),
    ],
)
def test_a_bad_value_in_csv_has_a_line(tmp_path: Path, row: str, problem: str) -> None:
    path = tmp_path / "E.csv"
    path.write_text(f'n,x,ok,s,at\n1,2,true,"two\nlines",0\n\n{row}\n', newline="\r\n")
    (found,) = refused(TYPED, path)
    assert found.startswith(f"{path}:5: ")
    assert problem in found


def test_what_csv_may_write(tmp_path: Path) -> None:
    """Signs, exponents, spaces and capitals: what Python's own readers accept too."""
    path = tmp_path / "E.csv"
    values = ["+1", " 1.5 ", ".5", "5.", "1E5", "-1e-3", "inf", "-Infinity", "1e-400"]
    path.write_text("x,ok,at\n" + "".join(f"{v},TRUE, +{i}\t\n" for i, v in enumerate(values)))
    found = ask("input E(x: float, ok: bool) @ at. P(X, B) @ T :- E(X, B) @ T.", path)
    assert found == [(float(v), True, i) for i, v in enumerate(values)]


def test_several_bad_values_at_once(tmp_path: Path) -> None:
    path = tmp_path / "E.csv"
    path.write_text("n,x,ok,s,at\na,b,c,d,e\n" + "1,1,true,x,0\n" * 3 + "1,1,maybe,x,0\n")
    found = refused(TYPED, path)
    assert [line.split(": ")[0] for line in found] == [f"{path}:2"] * 4 + [f"{path}:6"]


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ("n,x,ok,at", ":1: no column `s`, which `E` declares; there are n, x, ok, at"),
        ("n,x,ok,S,at", ":1: no column `s`"),
        ("n,x,ok,s,s,at", ":1: more than one column `s`"),
        ("", ":1: the file is empty"),
    ],
)
def test_a_bad_header(tmp_path: Path, header: str, problem: str) -> None:
    path = tmp_path / "E.csv"
    path.write_text(header and f"{header}\n")
    (found,) = refused(TYPED, path)
    assert found.startswith(f"{path}{problem}")


def test_columns_that_are_missing_elsewhere(tmp_path: Path) -> None:
    columns, rows = ("n", "at"), [(1, 2)]
    path = write_parquet(tmp_path, "E", columns, rows)
    assert refused(TYPED, path) == [f"{path}: no column `x`, which `E` declares; there are n, at"]
    path = write_json(tmp_path, "E", columns, rows)
    assert refused(TYPED, path) == [f"{path}:1: no column `x`, which `E` declares"]
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
        (found,) = refused(rules, path)
        assert "3 columns for the 2 of `E`" in found
        assert "declare the input" in found
        assert found.startswith(str(path))
    path = tmp_path / "E.jsonl"
    path.write_text('{"x": "a", "time": 0}\n{"x": "a"}\n')
    assert refused(rules, path)[0].startswith(f"{path}:2: no `time`")
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
    assert refused(rules, path)[0].startswith(f"{path}:2: not JSON: ")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"x": "a", "time": 0', "not JSON"),
        ("E,a,0", "not JSON"),
        ("[1, 2]", "a line is an object"),
        ("[" * 100_000, "recursion"),
        ('{"predicate": "F", "x": 1.5, "time": 0}', "`F` in a file of `E` facts"),
        ('{"predicate": 7, "x": 1.5, "time": 0}', 'no "predicate" says'),
        ('{"x": "a", "time": 0}', "column `x`: 'a' is not float"),
        ('{"x": true, "time": 0}', "column `x`: True is not float"),
        ('{"x": {}, "time": 0}', "column `x`: {} is not float"),
        ('{"x": 1e400, "time": 0}', "`1e400` does not fit a float"),
        (f'{{"x": 1{"0" * 400}, "time": 0}}', "column `x`: an integer too large for a float"),
        ('{"x": 1, "time": 0.5}', "column `time`: 0.5 is not int"),
        ('{"x": 1, "time": "0"}', "column `time`: '0' is not int"),
        ('{"x": 1, "time": 4611686018427387904}', "does not fit 62 bits"),
        ('{"x": 1}', "no column `time`"),
    ],
)
def test_a_bad_json_line(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "E.jsonl"
    path.write_text(f'{{"x": 1, "time": 0}}\n\n{line}\n')
    (found,) = refused("input E(x: float) @ time. P(X) @ T :- E(X) @ T.", path)
    assert found.startswith(f"{path}:3: ")
    assert problem in found


def test_half_a_surrogate_pair(tmp_path: Path) -> None:
    path = tmp_path / "E.jsonl"
    path.write_text('{"x": "\\ud83c\\udf0a", "time": 0}\n{"x": "\\ud83c", "time": 0}\n')
    (found,) = refused("P(X) @ T :- E(X) @ T.", path)
    assert found == f"{path}:2: column `arg1`: '\\ud83c' has half a surrogate pair"


def test_bad_python_rows() -> None:
    good = (1, 1.5, True, "a", 0)
    for i, value, problem in [
        (0, 2**63, "9223372036854775808 does not fit 64 bits"),
        (0, True, "True is not int"),
        (0, 1.0, "1.0 is not int"),
        (1, "1", "'1' is not float"),
        (2, 1, "1 is not bool"),
        (3, b"a", "b'a' is not text"),
        (4, 2**62, "time 4611686018427387904 does not fit 62 bits"),
        (4, datetime(2014, 1, 1), "datetime.datetime(2014, 1, 1, 0, 0) is not int"),
    ]:
        bad = (*good[:i], value, *good[i + 1 :])
        name = ("n", "x", "ok", "s", "at")[i]
        wanted = [f"facts of `E`, row 2: column `{name}`: {problem}"]
        assert refused(TYPED, {"E": [good, bad]}) == wanted
    assert refused(TYPED, {"E": "a.csv"}) == ["facts of `E`: rows are tuples or a table, not text"]


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
        found = refused(TYPED, facts)
        assert found[0].startswith(where)
        assert problem in found[0]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    rules = "P(X) @ T :- E(X) @ T."
    for name in ("E.csv", "E.parquet", "E.jsonl", "facts.tdl", "nowhere"):
        path = tmp_path / name
        assert refused(rules, path) == [f"{path}: no such file or folder"]
    path = tmp_path / "E.parquet"
    path.write_bytes(b"PAR1 and then nothing")
    assert refused(rules, path)[0].startswith(f"{path}: not Parquet")
    whole = write_parquet(tmp_path, "E", ("x", "time"), [("a", i) for i in range(1000)])
    raw = bytearray(whole.read_bytes())
    raw[4:200] = b"\xff" * 196
    path.write_bytes(raw)
    assert refused(rules, path)[0].startswith(str(path))
    path.unlink()
    path.symlink_to(tmp_path / "gone.parquet")
    assert refused(rules, tmp_path) == [f"{path}: No such file or directory"]
    path.unlink()
    path = tmp_path / "E.csv"
    path.symlink_to(tmp_path / "gone.csv")
    assert refused(rules, tmp_path) == [f"{path}: No such file or directory"]
    (tmp_path / "E.txt").write_text("")
    assert refused(rules, tmp_path / "E.txt")[0].startswith(f"{tmp_path / 'E.txt'}: facts are")


def test_facts_of_something_else(tmp_path: Path) -> None:
    rules = "input Temp(x: text) @ t. P(X) @ T :- Temp(X) @ T."
    for make in (
        lambda name: {name: [("a", 0)]},
        lambda name: write_csv(tmp_path, name, ("x", "t"), [("a", 0)]),
        lambda name: write_parquet(tmp_path, name, ("x", "t"), [("a", 0)]),
        lambda name: write_json(tmp_path, name, ("x", "t"), [("a", 0)]),
    ):
        (found,) = refused(rules, make("Tmep"))
        assert found.endswith("no input is called `Tmep`; did you mean `Temp`?")
        (found,) = refused(rules, make("Zebra"))
        assert found.endswith("no input is called `Zebra`; the inputs are Temp")
        (found,) = refused(rules, make("P"))
        assert found.endswith("`P` is derived by rules; declare it as an input to give it facts")
    (found,) = refused(rules, tmp_path)
    assert found.startswith(str(tmp_path / "P."))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("P(X) @ T :- Temp(X) @ T.", "a file of facts holds facts only"),
        ("input Temp(x: text) @ t.", "a file of facts holds facts only"),
        ("Temp(a).", "`Temp` has 1 arguments and a time in the rules"),
        ("Temp(a, b) @ 0.", "`Temp` has 1 arguments and a time in the rules"),
        ("Temp(X) @ 0.", "a fact has no variables"),
        ("Temp(a) @ T.", "a fact has no variables"),
        ("Temp(7) @ 0.", "column `x`: 7 is not text"),
        ("Tmep(a) @ 0.", "did you mean `Temp`?"),
    ],
)
def test_a_bad_file_of_facts(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "facts.tdl"
    path.write_text(f"Temp(a) @ 0.\n\n{line}\n")
    (found,) = refused("input Temp(x: text) @ t. P(X) @ T :- Temp(X) @ T.", path)
    assert found.startswith(f"{path}:3: ")
    assert problem in found


def test_types_of_data_that_do_not_fit_the_rules(tmp_path: Path) -> None:
    """Each file fits what the rules say of it alone; together they do not."""
    write_parquet(tmp_path, "E", ("x", "time"), [(1, 0)])
    write_parquet(tmp_path, "F", ("x", "time"), [("a", 0)])
    found = refused("P(X) @ T :- E(X) @ T, F(X) @ T.", tmp_path)
    assert found
    assert all(line.startswith("the data's types do not fit the rules: ") for line in found)


# Timestamps

ZONED = "input E(name: text) @ at. P(X) @ T :- E(X) @ T."
ORIGIN = "2014-01-01T00:00:00+01:00"
STAMPS = [
    "2013-12-31T23:00:00Z",
    "2013-12-31T22:59:59.999999Z",
    "2014-01-01 00:25:00+01:00",
    "2014-01-01T00:25+0100",
    "2014-01-01T05:00:00.5-05:30",
    "2014-01-01",
    "1969-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59+14",
]


def python_tick(stamp: str, length: timedelta, origin: str) -> int:
    """By Python's own arithmetic, which rounds down."""
    moments = [datetime.fromisoformat(s) for s in (stamp, origin)]
    at, start = (m if m.tzinfo else m.replace(tzinfo=UTC) for m in moments)
    return (at - start) // length


@pytest.mark.parametrize(
    ("tick", "length"),
    [
        ("10m", timedelta(minutes=10)),
        ("1us", timedelta(microseconds=1)),
        ("7 ms", timedelta(milliseconds=7)),
        ("1d", timedelta(days=1)),
        ("3h", timedelta(hours=3)),
        ("90s", timedelta(seconds=90)),
    ],
)
def test_timestamps_become_ticks(tmp_path: Path, tick: str, length: timedelta) -> None:
    """In every format, before 1970 and before the origin too."""
    rows = [(f"x{i}", stamp) for i, stamp in enumerate(STAMPS)]
    wanted = in_order((name, python_tick(stamp, length, ORIGIN)) for name, stamp in rows)
    moments = [(name, datetime.fromisoformat(stamp)) for name, stamp in rows]
    moments = [(n, m if m.tzinfo else m.replace(tzinfo=UTC)) for n, m in moments]
    utc = [(name, moment.astimezone(UTC)) for name, moment in moments[:-2]]
    sources: list[tuple[Any, int]] = [
        (write_csv(tmp_path, "E", ("name", "at"), rows), 0),
        (write_json(tmp_path, "E", ("name", "at"), rows), 0),
        ({"E": moments}, 0),
        (write_parquet(tmp_path, "E", ("name", "at"), utc), 2),
        ({"E": arrow(("name", "at"), utc)}, 2),
    ]
    program = tidelog.parse(ZONED)
    for source, fewer in sources:
        kept = [row for row in wanted if not fewer or row[0] not in ("x7", "x8")]
        with Engine(program, source, Ticks.of(tick, ORIGIN), timestamps=False) as engine:
            table = engine.query(["P"])["P"]
        assert list(zip(*(c.to_pylist() for c in table.columns), strict=True)) == kept, source


def test_nanoseconds_round_down_too() -> None:
    table = pa.table({"name": ["a", "b"], "at": pa.array([-1, 999], pa.timestamp("ns"))})
    with Engine(tidelog.parse(ZONED), {"E": table}, Ticks.of("1us"), timestamps=False) as engine:
        assert engine.query(["P"])["P"]["time"].to_pylist() == [-1, 0]


def test_timestamps_come_out() -> None:
    """The start of each tick; the range asked for is in timestamps or in ticks."""
    facts = {"E": [("a", "2014-01-01T00:07:00Z"), ("b", datetime(2014, 1, 1, 0, 59, 59))]}
    program = tidelog.parse(ZONED)
    found = program.query("P", facts, tick="10m", origin="2014-01-01").to_pylist()
    midnight = datetime(2014, 1, 1, tzinfo=UTC)
    assert [row["time"] for row in found] == [midnight, midnight + timedelta(minutes=50)]
    for from_ in (1, "2014-01-01T00:10Z", "2014-01-01T01:19:59+01:00", midnight.replace(minute=19)):
        found = program.query("P", facts, tick="10m", origin="2014-01-01", from_=from_).to_pylist()
        assert [row["x"] for row in found] == ["b"]


def test_a_tick_too_far_for_a_timestamp() -> None:
    rules = "P @ T :- E @ T. P @ T+1000000000000 :- E @ T."
    facts = {"E": [("2014-01-01",)]}
    assert refused(rules, facts, tick="1h", to=10**15) == [
        "tick 1000000385704 is no timestamp between the years 1 and 9999; ask for whole ticks"
    ]


@pytest.mark.parametrize(
    "stamp",
    [
        "noon",
        "epoch",
        "infinity",
        "2014-1-1",
        "2014-02-30",
        "20140101T000000",
        "2014-W01-1",
        "2014-01-01T24:00:00",
        "2014-01-01T00:00:60",
        "2014-01-01 00:00 Europe/Paris",
        "1388534400",
    ],
)
def test_bad_timestamps(tmp_path: Path, stamp: str) -> None:
    """What one reader takes and another does not is not a timestamp."""
    rows = [("a", "2014-01-01"), ("b", stamp)]
    path = write_csv(tmp_path, "E", ("name", "at"), rows)
    problem = f"column `at`: `{stamp}` is not a timestamp such as 2014-01-01T00:10:00Z"
    assert refused(ZONED, path, tick="1h") == [f"{path}:3: {problem}"]
    path = write_json(tmp_path, "E", ("name", "at"), rows)
    assert refused(ZONED, path, tick="1h") == [f"{path}:2: {problem}"]


def test_numbers_where_timestamps_are_due(tmp_path: Path) -> None:
    path = write_parquet(tmp_path, "E", ("name", "at"), [("a", 5)])
    found = [f"{path}: time column `at` is BIGINT; times are timestamps"]
    assert refused(ZONED, path, tick="1h") == found
    assert refused(ZONED, {"E": [("a", 5)]}, tick="1h") == [
        "facts of `E`, row 1: column `at`: 5 is not a timestamp"
    ]


@pytest.mark.parametrize("tick", ["", "10", "m", "0m", "-1m", "1.5h", "1w", "10 minutes"])
def test_bad_tick_lengths(tick: str) -> None:
    with pytest.raises(ValueError, match="is not a tick length"):
        Ticks.of(tick)


# Places with awkward names

PLACES = [
    "a*b?",
    "[c]",
    "{d,e}",
    "it's",
    'q"q',
    "semi;--",
    "back\\slash",
    "~",
    "n\u00f6 \U0001f30a",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("write", WRITERS)
def test_awkward_places(tmp_path: Path, place: str, write: Writer) -> None:
    """Nothing in a path is a pattern: files beside it are not read."""
    for i, name in enumerate((place, "aXbY", "c", "d")):
        folder = tmp_path / name
        folder.mkdir()
        write(folder, "E", ("x", "time"), [(name, i)])
    assert ask("P(X) @ T :- E(X) @ T.", tmp_path / place) == [(place, 0)]


def test_a_folder_that_looks_like_a_column(tmp_path: Path) -> None:
    folder = tmp_path / "time=99"
    folder.mkdir()
    write_parquet(folder, "E", ("x", "time"), [("a", 1)])
    assert ask("P(X) @ T :- E(X) @ T.", folder) == [("a", 1)]
