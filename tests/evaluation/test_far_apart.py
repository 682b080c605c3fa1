"""Facts far apart: what would take too many ticks is refused before it takes memory."""

from __future__ import annotations

import subprocess
import sys
import time
from unittest.mock import patch

import duckdb
import pytest

import tidelog
from tidelog import Stream
from tidelog.causes import Cause
from tidelog.errors import DataError
from tidelog.evaluation import extents
from tidelog.evaluation.database import Database

START = "input Read(x: text, v: int) @ t.\nLevel(X, V) @ T :- Read(X, V) @ T.\n"
FAR = 2_999_999_998
FACTS = {"Read": [("a", 1, 1), ("b", 1, FAR)]}
RULES = {
    "for ever": "Level(X, V) @ T+1 :- Level(X, V) @ T.",
    "until a fact": "Level(X, V) @ T+1 :- Level(X, V) @ T, not Read(X, _) @ T+1.",
    "two ticks at once": "Level(X, V) @ T+2 :- Level(X, V) @ T, not Read(X, _) @ T+2.",
    "backwards": "Level(X, V) @ T-1 :- Level(X, V) @ T, not Read(X, _) @ T-1.",
}
QUERY = """
import resource, sys, tidelog
from tidelog.errors import DataError

resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
rules, facts = {!r}, {!r}
try:
    tidelog.parse(rules).query("Level", facts)
except DataError as error:
    print(error)
"""


@pytest.mark.parametrize("name", ["for ever", "until a fact"])
def test_a_far_fact_is_refused_before_it_takes_memory(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", QUERY.format(START + RULES[name], FACTS)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "`Level` may hold at each of 29999999" in done.stdout, done.stderr
    assert "shorter range (--from, --to; from_, to in Python)" in done.stdout
    assert not done.stderr


@pytest.mark.parametrize("name", ["two ticks at once", "backwards"])
def test_strides_that_double_are_bounded_too(name: str) -> None:
    program = tidelog.parse(START + RULES[name])
    facts = {"Read": [("a", 1, 1), ("b", 1, 100_000)]}
    assert program.query("Level", facts, intervals=True).num_rows >= 2
    with (
        patch.object(extents, "MOST_TICKS", 10_000),
        patch("tidelog.evaluation.recursion.MOST_TICKS", 10_000),
        pytest.raises(DataError, match="`Level` may hold at each of 99"),
    ):
        program.query("Level", facts)


def test_a_shorter_range_is_answered() -> None:
    for rule in ("for ever", "until a fact", "two ticks at once"):
        program = tidelog.parse(START + RULES[rule])
        assert program.query("Level", FACTS, from_=1, to=100).num_rows in (50, 100)


def test_all_facts_together_are_bounded_too() -> None:
    facts = {"Read": [(f"x{n}", 1, 0) for n in range(20)] + [("y", 1, 6000)]}
    for rule in RULES:
        if rule == "backwards":
            continue
        program = tidelog.parse(START + RULES[rule])
        assert program.query("Level", facts).num_rows > 20 * 3000
        with (
            patch.object(extents, "MOST_ROWS", 1000),
            patch("tidelog.evaluation.recursion.MOST_ROWS", 1000),
            pytest.raises(DataError, match="facts of `Level` may hold at"),
        ):
            program.query("Level", facts)


def test_a_stream_names_max_jump() -> None:
    for rule in ("for ever", "until a fact"):
        stream = Stream(tidelog.parse(START + RULES[rule]), ["Level"])
        stream.push(1, {"Read": [("a", 1)]})
        with pytest.raises(DataError, match=r"--max-jump N \(max_jump in Python\) puts such facts"):
            stream.push(FAR, {"Read": [("b", 1)]})


def test_many_starts_before_one_far_stop_are_written_out_once() -> None:
    """Each of 3000 words leads to the same far end; together they are 50,000 rows, not 10^8."""
    program = tidelog.parse(
        "input Read(x: int) @ t. input Off(x: int) @ t. On(X) @ T :- Read(X) @ T."
        "On(X) @ T+1 :- On(X) @ T, not Off(X) @ T+1."
    )
    end = 3_000_000
    facts = {"Read": [(1, 60 * n) for n in range(3000)], "Off": [(1, end)]}
    began = time.process_time()
    answers = program.query("On", facts, intervals=True)
    assert answers.num_rows == 1
    assert answers.to_pylist()[0]["x"] == 1
    assert time.process_time() - began < 20


# Without memory


def _no_memory(*_: object) -> None:
    raise duckdb.OutOfMemoryException("Out of Memory Error: failed to pin block\n\n* a hint")


@pytest.mark.parametrize("method", ["table", "arrow"])
def test_without_memory_a_query_says_what_to_do(method: str) -> None:
    program = tidelog.parse(START)
    with patch.object(Database, method, _no_memory), pytest.raises(DataError) as said:
        program.query("Level", {"Read": [("a", 1, 1)]})
    assert str(said.value) == (
        "the memory of this machine is not enough for these facts and rules: ask for a shorter"
        " range or for fewer queries, or give the process more memory"
    )


def test_without_memory_a_stream_says_what_to_do() -> None:
    program = tidelog.parse(START + RULES["until a fact"])
    stream = Stream(program, ["Level"])
    stream.push(1, {"Read": [("a", 1)]})
    with patch.object(Database, "table", _no_memory), pytest.raises(DataError) as said:
        stream.push(10**6, {"Read": [("a", 1)]})
    assert "the memory of this machine is not enough" in str(said.value)
    assert said.value.code is Cause.MEMORY


def test_another_error_of_duckdb_is_a_sentence() -> None:
    def fails(*_: object) -> None:
        raise duckdb.IOException("IO Error: could not write\nmore")

    with patch.object(Database, "arrow", fails), pytest.raises(DataError, match="IO Error") as said:
        tidelog.parse(START).query("Level", {"Read": [("a", 1, 1)]})
    assert "more" not in str(said.value).replace("more memory", "")
