"""Names and values are users' data: carried exactly, and never part of a SQL text."""

from __future__ import annotations

import csv
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.deep import examples
from support.strategies import any_name

import tidelog
from tidelog.language.printer import print_program
from tidelog.language.program import (
    Atom,
    Column,
    Constant,
    Input,
    Output,
    Outputs,
    Program,
    Rule,
    TimeOffset,
    Type,
    Variable,
)

ODD = [
    "",
    "'",
    '"',
    "'); DROP TABLE facts1; --",
    '"; SELECT 1; --',
    "/*",
    "--",
    "\\",
    "\\'",
    "$1",
    "?",
    "${env:HOME}",
    "${x}",
    "{0}%s",
    "a,b",
    "\n",
    "\r\n",
    "\t",
    "\x00",
    "nul\x00inside",
    "select",
    "NULL",
    "\U0001f30a",
    "\u202e",
    "\ufeff",
    "\u2028",
    " ",
    "x" * 10_000,
    "'" * 5_000,
]
texts = st.sampled_from(ODD) | st.text(st.characters(codec="utf-8"), max_size=8)
names = st.sampled_from(
    ["select", "SELECT", "Select", "table", "temp", "Group", "c", "b", "\u00dcber"]
) | any_name.filter(lambda name: len(name.encode()) < 50 and name[0] not in "._")
# Marks by which a text would be known again inside SQL.
VALUE, COLUMN, CONSTANT = "vqxq", "cqxq", "kqxq"


class World(NamedTuple):
    """Two inputs, a query over both, and its rows and right answers."""

    program: tidelog.Program
    columns: dict[str, tuple[str, ...]]
    rows: dict[str, list[tuple[Any, ...]]]
    query: str
    answer_column: str
    answers: list[tuple[str, int]]
    texts: set[str]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    first, second, query = draw(st.lists(names, min_size=3, max_size=3, unique=True))
    odd = draw(st.lists(texts, min_size=4, max_size=4, unique=True))
    columns = [COLUMN + text for text in odd]
    # Names that differ in case only.
    columns[1:2] = [columns[0].upper()] if columns[0].upper() not in columns else columns[1:2]
    shown = draw(texts.filter(lambda text: text != "time"))  # that name is taken
    constant = CONSTANT + draw(texts)
    values = [VALUE + text for text in draw(st.lists(texts, min_size=1, max_size=4, unique=True))]
    time = TimeOffset(Variable("T"))
    x = Variable("X")
    rule = Rule(
        Atom(query, (x,), time),
        (Atom(first, (x, Constant.of(constant)), time), Atom(second, (x,), time)),
    )
    text = Type.TEXT
    statements = (
        Input(first, (Column(columns[0], text), Column(columns[1], text)), columns[2]),
        Input(second, (Column(columns[0], text),), columns[3]),
        Outputs((Output(query, (shown,)),)),
        rule,
    )
    rows: dict[str, list[tuple[Any, ...]]] = {first: [], second: []}
    for i, value in enumerate(values):
        rows[first] += [(value, constant, i), (value, constant + "'", i + 1)]
        rows[second] += [(value, i), (value, i + 1), (value + " ", i + 2)]
    return World(
        tidelog.parse(print_program(Program(statements))),
        {first: tuple(columns[:3]), second: (columns[0], columns[3])},
        rows,
        query,
        shown,
        [(value, i) for i, value in enumerate(values)],
        {*columns, *values, constant},
    )


class Recorder:
    """A connection that remembers every SQL text."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, said: list[str]) -> None:
        self.connection, self.said = connection, said

    def execute(self, sql: str, *values: Any) -> Any:
        self.said.append(sql)
        return self.connection.execute(sql, *values)

    def sql(self, sql: str) -> Any:
        self.said.append(sql)
        return self.connection.sql(sql)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


@contextmanager
def recorded() -> Iterator[list[str]]:
    said: list[str] = []
    connect = duckdb.connect
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb, "connect", lambda **how: Recorder(connect(**how), said))
        yield said


def carried(world: World, facts: Any) -> None:
    with recorded() as said:
        table = world.program.query(world.query, facts, from_=-10, to=10)
    assert table.column_names == [world.answer_column, "time"]
    assert list(zip(*(c.to_pylist() for c in table.columns), strict=True)) == world.answers
    assert said
    for sql in said:
        assert VALUE not in sql
        assert COLUMN.casefold() not in sql.casefold()
        assert "DROP" not in sql.replace("DROP TABLE facts1; --'", "'")
        for rest in sql.split(CONSTANT)[1:]:
            # Only what is printable, short and without quotes may stand in a literal.
            literal = rest.split("'")[0]
            assert CONSTANT + literal in world.texts
            assert literal.isprintable()
            assert "\\" not in literal
            assert "$" not in literal


@contextmanager
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="tidelog-"))
    try:
        yield made
    finally:
        shutil.rmtree(made)


@given(worlds())
@examples(5, deep=200)
def test_rows_and_tables(world: World) -> None:
    carried(world, world.rows)
    carried(world, {name: table(world, name) for name in world.rows})


@given(worlds())
@examples(5, deep=200)
def test_parquet(world: World) -> None:
    with folder() as place:
        for name in world.rows:
            pq.write_table(table(world, name), place / f"{name}.parquet")
        carried(world, place)


@given(worlds())
@examples(5, deep=200)
def test_json_lines(world: World) -> None:
    with folder() as place:
        for name, rows in world.rows.items():
            records = (dict(zip(world.columns[name], row, strict=True)) for row in rows)
            lines = (json.dumps({"predicate": name, **record}) for record in records)
            (place / f"{name}.jsonl").write_text("\n".join(lines))
        carried(world, place)


@given(worlds())
@examples(5, deep=200)
def test_csv(world: World) -> None:
    with folder() as place:
        for name, rows in world.rows.items():
            with (place / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, quoting=csv.QUOTE_ALL)
                writer.writerows([world.columns[name], *rows])
        carried(world, place)


@given(worlds())
@examples(4, deep=300)
def test_facts_in_the_language(world: World) -> None:
    facts = [
        Rule(Atom(name, tuple(map(Constant.of, row[:-1])), time))
        for name, rows in world.rows.items()
        for row in rows
        for time in [tidelog.parse(f"P @ {row[-1]}.").rules[0].head.time]
    ]
    with folder() as place:
        path = place / "facts.tdl"
        path.write_text(print_program(Program(tuple(facts))), encoding="utf-8", newline="")
        carried(world, path)


def table(world: World, name: str) -> pa.Table:
    arrays = [pa.array(values) for values in zip(*world.rows[name], strict=True)]
    return pa.table(arrays, names=list(world.columns[name]))


def test_the_recorder_sees_what_reaches_the_engine() -> None:
    """A constant that may stand in a literal does, so that its absence elsewhere says something."""
    with recorded() as said:
        tidelog.parse('P @ T :- E(plain) @ T, E("it\'s") @ T.').query("P", {"E": []}, from_=0, to=9)
    with recorded() as more:
        facts = {"E": [("plain", 0), ("it's", 0)]}
        answers = tidelog.parse('P @ T :- E(plain) @ T, E("it\'s") @ T.').query("P", facts)
    assert answers.num_rows == 1
    assert any("'plain'" in sql for sql in more)
    assert not any("it's" in sql or "it''s" in sql for sql in [*said, *more])
