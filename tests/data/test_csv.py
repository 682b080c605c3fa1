"""CSV as others write it, and the line of whatever is wrong in it."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.deep import examples
from support.facts import TYPED, ask, in_order, refused, write_csv

import tidelog
from tidelog.data.loader import Loader
from tidelog.data.readers.csv import facts_of_texts, read_header, read_texts
from tidelog.data.schema import schemas
from tidelog.errors import DataError
from tidelog.evaluation.duckdb import Engine


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


@pytest.mark.parametrize(
    "content",
    [
        b"x,time\na,0\nb,1\r\nc,2,9\nd,3\n",
        b"x,time\r\na,0\r\nb,1\nc,2,9\r\nd,3\r\n",
        b"x,time\na,0\nb,1\rc,2,9\nd,3",
        b'x,time\na,0\r\n"b",1\r\nc\nd,3\n',
        b'x,time\na,0\r\n"b",1\n"c"d,2\r\nd,3\n',
        b'x,time\r\na,0\n"b",1\r\n\xff,2\nd,3\r',
    ],
)
def test_ends_of_line_that_differ_hide_no_bad_row(tmp_path: Path, content: bytes) -> None:
    """The one bad row is put aside by a stream, and the other three are facts."""
    path = tmp_path / "E.csv"
    path.write_bytes(content)
    header = read_header(path, schemas(tidelog.parse("P(X) @ T :- E(X) @ T."))["E"])
    with duckdb.connect() as connection:
        broken = read_texts(connection, "texts", path, 2, header.ending)
        assert sorted(connection.execute("FROM texts").fetchall()) == [
            ("a", "0"),
            ("b", "1"),
            ("d", "3"),
        ]
    ((problem, _),) = broken
    assert problem.startswith("line 4: ")
    (message,) = refused("P(X) @ T :- E(X) @ T.", path)[:1]
    assert message.startswith(f"{path}:4: ")


def test_ends_of_line_in_quotes_stay(tmp_path: Path) -> None:
    path = tmp_path / "E.csv"
    path.write_bytes(b'x,time\n"a\r\nb\r""c\n",1\r\n"d,\r",2\re"f,3\n')
    rules = "P(X) @ T :- E(X) @ T."
    assert ask(rules, path) == [('a\r\nb\r"c\n', 1), ("d,\r", 2), ('e"f', 3)]


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
@examples(7, deep=500)
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
    (message,) = refused(TYPED, path)
    assert message.startswith(f"{path}:5: ")
    assert problem in message


def test_what_csv_may_write(tmp_path: Path) -> None:
    """Signs, exponents, spaces and capitals: what Python's own readers accept too."""
    path = tmp_path / "E.csv"
    values = ["+1", " 1.5 ", ".5", "5.", "1E5", "-1e-3", "inf", "-Infinity", "1e-400"]
    path.write_text("x,ok,at\n" + "".join(f"{v},TRUE, +{i}\t\n" for i, v in enumerate(values)))
    answers = ask("input E(x: float, ok: bool) @ at. P(X, B) @ T :- E(X, B) @ T.", path)
    assert answers == [(float(v), True, i) for i, v in enumerate(values)]


def test_several_bad_values_at_once(tmp_path: Path) -> None:
    path = tmp_path / "E.csv"
    path.write_text("n,x,ok,s,at\na,b,c,d,e\n" + "1,1,true,x,0\n" * 3 + "1,1,maybe,x,0\n")
    messages = refused(TYPED, path)
    assert [line.split(": ")[0] for line in messages] == [f"{path}:2"] * 4 + [f"{path}:6"]


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
    (message,) = refused(TYPED, path)
    assert message.startswith(f"{path}{problem}")


PIECES = ["", '""', "1", " 7 ", "-1.5", "1e999", "nan", "-inf", "TRUE", "no", "9223372036854775808"]
PIECES += [
    "4611686018427387904",
    "-4611686018427387905",
    '"a, ""b"""',
    "1970-01-01",
    "\u00fc\u2028",
]


@given(st.lists(st.lists(st.sampled_from(PIECES), min_size=5, max_size=5), max_size=12))
@examples(4, deep=250)
def test_texts_are_typed_as_a_query_types_them(rows: list[list[str]]) -> None:
    """Bad rows are put aside one by one; what is left is what a query reads."""
    program = tidelog.parse(f"{TYPED} All(N, X, B, S) @ T :- E(N, X, B, S) @ T.")
    schema = schemas(program)["E"]
    head = "n,x,ok,s,at"
    path = scratch("E.csv")
    path.write_text("\n".join([head, *map(",".join, rows), ""]), encoding="utf-8")
    with duckdb.connect() as connection:
        assert read_texts(connection, "texts", path, 5, "\n") == []
        select = facts_of_texts("texts", schema, range(5), None)
        read = connection.execute(select).fetchall()
    assert len(read) == len(rows)
    for row, (*values, problem) in zip(rows, read, strict=True):
        path.write_text(f"{head}\n{','.join(row)}\n", encoding="utf-8")
        with duckdb.connect() as connection:
            try:
                facts = Loader(connection, None).load(program, path, None, lambda _: None)["E"]
                known = connection.execute(f"SELECT * FROM {facts.view}").fetchall()
            except DataError:
                known = []
        assert known == ([] if problem else [tuple(values)])
