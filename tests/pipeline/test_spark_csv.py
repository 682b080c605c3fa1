"""CSV on Spark is read as `tidelog query` reads it; a bad row is put aside, not its file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tidelog
from tidelog.evaluation.duckdb import Engine
from tidelog.spark import stream

pytestmark = pytest.mark.xdist_group("spark")

RULES = tidelog.parse(
    "input E(x: text, y: text, v: int, w: float, b: bool) @ time.\n"
    "P(X, Y, V, W, B) @ T :- E(X, Y, V, W, B) @ T."
)
HEAD = b"x,y,v,w,b,time\n"
GOOD = {
    "plain": HEAD + b"a,b,1,1.5,true,0\n",
    "quoted empty": HEAD + b'"",b,1,1,true,0\n"","",1,1,true,1\n',
    "empty": HEAD + b",b,1,1,true,0\na,,1,1,true,1\na,b,1,1,true,2\n",
    "empty numbers": HEAD + b'a,b,"",1,true,0\na,b,,1,true,1\na,b,1,"",true,2\na,b,1,,true,3\n'
    b'a,b,1,1,"",4\na,b,1,1,,5\na,b,1,1,true,""\na,b,1,1,true,\n',
    "spaces": HEAD + b' a , b,1, 2.5 , true , 0\n" ", ,1,1,true,1\n\ta\t,b,1,1,\tfalse,2\n',
    "quoted numbers": HEAD + b'a,b,"1","1.5","true","0"\n',
    "quotes inside": HEAD + b'"a""b",c"d,1,1,true,0\n"","""",1,1,true,1\n"a,b","c\nd",1,1,true,2\n',
    "quotes and spaces": HEAD + b'"a" ,c,1,1,true,0\n "a",c,1,1,true,1\n',
    "backslashes": HEAD + b'a\\,b,1,1,true,0\n"a\\",b,1,1,true,1\n"a\\""b",c\\"d,1,1,true,2\n',
    "crlf": b'x,y,v,w,b,time\r\na,b,1,1,true,0\r\n"a\r\nb",c,1,1,true,1\r\n',
    "mixed ends": b"x,y,v,w,b,time\r\na,b,1,1,true,0\nc,d,1,1,true,1\r\n",
    "cr": b"x,y,v,w,b,time\ra,b,1,1,true,0\rc,d,1,1,true,1\r",
    "cr inside": HEAD + b'"a\rb",c,1,1,true,0\na,b,1,1,true,1\n',
    "mark": b"\xef\xbb\xbf" + HEAD + b"a,b,1,1,true,0\n",
    "mark and quote": b'\xef\xbb\xbf"x",y,v,w,b,time\na,b,1,1,true,0\n',
    "no end": HEAD + b"a,b,1,1,true,0",
    "blank lines": HEAD + b"\na,b,1,1,true,0\n\n\nc,d,1,1,true,1\n\n",
    "comma at the end": HEAD + b"a,b,1,1,true,0,\na,b,1,1,true,1\n",
    "words for nothing": HEAD + b"NULL,null,1,1,true,0\nNaN,\\N,1,1,true,1\nnan,inf,1,1,true,2\n",
    "numbers": HEAD + b"a,b,+1,1e3,TRUE,+0\na,b,007,.5,False,1\na,b,-5,5.,true,-2\n",
    "not finite": HEAD + b"a,b,1,nan,true,0\na,b,1,inf,true,1\na,b,1,-Infinity,true,2\n",
    "comments": HEAD + b"#a,b,1,1,true,0\n;c,d,1,1,true,1\n",
    "nul": HEAD + b"a\x00b,b,1,1,true,0\n\x00a,b,1,1,true,1\n",
    "unicode": HEAD + "ü,\u2028,1,1,true,0\n\u00a0,\u3000,1,1,true,1\n".encode(),
    "a%20b [1]#2": HEAD + b"z,z,1,1,true,0\nz,,1,1,true,0\n",
    "only the header": HEAD,
    "header of two lines": b'x,y,v,w,b,time,"more\nlines"\na,b,1,1,true,0,z\n',
    "swapped": b"time,b,w,v,y,x\n0,true,1,1,b,a\n",
    "more columns": b'x,y,z,v,w,b,time\na,b,,1,1,true,0\na,b,"q",1,1,true,1\n',
    "long": HEAD + b"a" * 2_500_000 + b",b,1,1,true,0\n",
}
BAD = {
    "few": (b"a,b,1,1,true\n", "line 2: the row has too many or too few values: `a,b,1,1,true`"),
    "many": (b"a,b,1,1,true,0,z\n", "line 2: the row has too many or too few values"),
    "spaces only": (b"  \n", "line 2: the row has too many or too few values"),
    "not utf-8": (b"\xff,b,1,1,true,0\n", "line 2: not UTF-8 text"),
    "text after": (b'"a"b,c,1,1,true,0\n', "line 2: a quote is not closed, or text follows it"),
    "int": (b"a,b,1.0,1,true,0\n", "column `v`: `1.0` is not int"),
    "blank": (b"a,b, ,1,true,0\n", "column `v`: ` ` is not int"),
    "wide": (b"a,b,9223372036854775808,1,true,1\n", "`9223372036854775808` is not int"),
    "float": (b"a,b,1,1e400,true,0\n", "column `w`: `1e400` is not float"),
    "bool": (b"a,b,1,1,1,0\n", "column `b`: `1` is not bool"),
    "time": (b"a,b,1,1,true, \n", "column `time`: ` ` is not int"),
    "far": (b"a,b,1,1,true,4611686018427387904\n", "does not fit 62 bits"),
}


def queried(folder: Path) -> tuple[list[str], int]:
    """Facts, and rows that are none, as the engine in process sees them."""
    with Engine(RULES, folder) as engine:
        answers = engine.query(["P"])["P"].to_pylist()
        return sorted(map(repr, answers)), sum(engine.nulls.values())


def streamed(spark: SparkSession, folder: Path, checkpoint: Path) -> tuple[list[str], list[Any]]:
    running = stream(
        spark, RULES, inputs=folder, checkpoint=checkpoint, trigger={"availableNow": True}
    )
    running.awaitTermination()
    running.close()
    letters = [
        json.loads(line)
        for path in checkpoint.glob("dead_letters/*/*.json")
        for line in path.read_text().splitlines()
    ]
    return sorted(map(repr, running.answers["P"].to_pylist())), letters


def test_both_engines_read_the_same(spark: SparkSession, tmp_path: Path) -> None:
    for name, data in GOOD.items():
        path = tmp_path / "facts" / "E" / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        # Names tell the files apart, so that no fact hides another one.
        path.write_bytes(data.replace(b"a,", name.encode() + b","))
    want, nulls = queried(tmp_path / "facts")
    got, letters = streamed(spark, tmp_path / "facts", tmp_path / "checkpoint")
    assert got == want
    assert len(letters) == nulls == 12
    files = {Path(letter["file"].removeprefix("file:")) for letter in letters}
    assert all(file.exists() for file in files)
    assert {file.stem for file in files} == {"empty", "empty numbers", "not finite", "a%20b [1]#2"}


def test_a_bad_row_is_put_aside_and_the_rest_is_read(spark: SparkSession, tmp_path: Path) -> None:
    for name, (row, _) in BAD.items():
        for folder, lines in (("good", b""), ("facts", row)):
            path = tmp_path / folder / "E" / f"{name}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(HEAD + lines + f'{name},"",1,1,true,1\n'.encode())
    want, _ = queried(tmp_path / "good")
    got, letters = streamed(spark, tmp_path / "facts", tmp_path / "checkpoint")
    assert got == want
    reasons = {Path(letter["file"]).stem: letter["reason"] for letter in letters}
    assert len(letters) == len(BAD)
    for name, (_, reason) in BAD.items():
        assert reason in reasons[name]


def test_a_quote_that_is_never_closed_takes_the_rest_of_its_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "E.csv").write_bytes(
        HEAD + b'a,b,1,1,true,0\n"a,b,1,1,true,1\nc,d,1,1,true,2\n'
    )
    got, (letter,) = streamed(spark, tmp_path / "facts", tmp_path / "checkpoint")
    assert len(got) == 1
    assert letter["reason"].startswith("line 3: a quote is not closed")
