"""Dead letters: whatever a message holds, it becomes a line, and little of it is quoted."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from support.deep import examples
from support.hostile import FACTS, HOSTILE

from tidelog.data.letters import DeadLetter, excerpt, letter_text
from tidelog.data.readers.json import line_as_json, parse_line
from tidelog.data.sealed import sealed, unsealed
from tidelog.data.secrets import without_secrets
from tidelog.data.ticks import Ticks, fitting_tick
from tidelog.evaluation.spark.failures import clear
from tidelog.evaluation.spark.kafka import _csv_values
from tidelog.evaluation.spark.remote import as_addressed
from tidelog.pipeline.commit import Commit
from tidelog.streaming.clock import Clock

# Of what one message holds, a commit and a warning quote no more than so many characters.
MOST = 4000
MESSAGES = [message for message in (*HOSTILE.values(), *FACTS.values()) if message is not None]


def _commit_of(message: bytes) -> Commit:
    """A commit with this message among its dead letters, written and read again."""
    reason = "no reason"
    try:
        parse_line(message)
    except ValueError as error:
        reason = str(error)
    letter = DeadLetter("E", reason, "kafka:t/0/1", line_as_json(message))
    line = json.loads(letter.line())
    assert line == letter.as_json()
    commit = Commit(1, Clock(), None, unused=(excerpt(line),))
    written = sealed(commit.as_json())
    assert len(written) < MOST
    assert len(letter_text(line)) < MOST
    return Commit.of(unsealed(written, "here"))


@pytest.mark.parametrize("name", [name for name, value in HOSTILE.items() if value is not None])
def test_a_hostile_message_in_a_commit(name: str) -> None:
    message = HOSTILE[name]
    assert message is not None
    (letter,) = _commit_of(message).unused
    assert (letter["topic"], letter["offset"]) == ("t", 1)


@given(st.recursive(st.none() | st.floats() | st.integers() | st.text(), st.lists, max_leaves=8))
@examples(30)
def test_any_message_in_a_commit(value: object) -> None:
    _commit_of(json.dumps(value).encode())
    _commit_of(repr(value).encode(errors="replace"))


@pytest.mark.parametrize("depth", [64, 65, 400, 950, 990, 1000, 100_000])
def test_nesting_is_bounded_where_lines_are_read(depth: int) -> None:
    """The same depth, however deep the stack is at that moment."""
    line = b'{"a": ' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"
    if depth <= 64:
        assert parse_line(line)
        return
    with pytest.raises(ValueError, match="nested deeper than 64 levels"):
        parse_line(line)


def test_brackets_in_texts_are_no_nesting() -> None:
    line = json.dumps({"a": "[{" * 500, "b": [[]] * 500})
    assert len(parse_line(line)["b"]) == 500


def test_a_row_is_whole_in_its_letter_and_short_in_the_commit() -> None:
    """A dead letter can be sent again; what a commit shows of it is a beginning."""
    row = {"x": "long" * 5000, "time": 2}
    letter = DeadLetter("E", "late", "a.csv", json.dumps(row)).as_json()
    assert letter["row"] == row
    shown = excerpt(letter)
    assert shown["row"] is None
    assert json.dumps(row).startswith(shown["text"].removesuffix("..."))
    assert excerpt({**letter, "row": {"x": 1}})["row"] == {"x": 1}


def test_a_letter_that_is_nested_without_end_is_a_text() -> None:
    """Such a row may come from a column of a Parquet file, which no reader of ours bounds."""
    came = '{"x": ' + "[" * 3000 + "]" * 3000 + "}"
    letter = DeadLetter("E", "late", "a.parquet", came).as_json()
    assert (letter["row"], letter["text"]) == (None, came)


# Small pieces of which a long text is made; a pattern that starts anew at each would not end.
PIECES = [
    *("a.", "a", "a-", "://", "a://", "a://b:c/", "a://b:", "a://b@", "token", "token=", "?token="),
    *('token="', "token='", "a-token-", "&sig", "file:/", "file:/a.", "/tidelog-copies-a/", "/a"),
    *(
        "SQLSTATE: a ",
        "[STREAM_FAILED] ",
        "a.Error: ",
        "Caused by: a",
        "Some data ",
        "-1",
        "kafka:/1",
    ),
    *("2024-01-01", "1", " ", '"', '""', "\\", "[", "{"),
]


@contextmanager
def _bounded_work(seconds: int) -> Iterator[None]:
    """Fails after so much CPU time of this process: a thousand times what is needed."""

    def fail(*_: object) -> None:
        raise AssertionError("more work than in proportion to the text")

    before = signal.signal(signal.SIGVTALRM, fail)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize("piece", PIECES)
def test_a_long_text_is_gone_through_once(piece: str) -> None:
    text = piece * (100_000 // len(piece))
    with _bounded_work(10):
        without_secrets(text)
        as_addressed(text)
        clear(
            PySparkException(f"KAFKA_DATA_LOSS FAILED_READ_FILE Some data may have been lost{text}")
        )
        clear(PySparkException(f"[STREAM_FAILED] Query [{text}] terminated with exception: {text}"))
        letter_text(DeadLetter(text, text, f"kafka:{text}", line_as_json(text)).as_json())
        for ticks in (None, Ticks(1)):
            with suppress(ValueError):
                fitting_tick(text, ticks)
        with suppress(ValueError):
            _csv_values(text.encode())
