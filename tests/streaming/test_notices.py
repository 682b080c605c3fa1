"""Warnings about rows that a stream does not use: when they come, and whether they are true."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from support.deep import examples

from tidelog.cli import cli
from tidelog.data.ticks import Ticks
from tidelog.streaming.notices import Notices, UnusedRows, length_text
from tidelog.streaming.options import StreamOptions

LATE = {"predicate": "E", "reason": "late: tick 3 came", "file": "a.csv", "row": {"x": 1}}


class _Said:
    """Notices whose clock is set by hand, with what they have said."""

    def __init__(self, **options: Any) -> None:
        self.time, self.texts = 0.0, list[str]()
        made = StreamOptions.of(options.pop("tick", None), None, **options)
        self.notices = Notices(made, lambda: "c/dead_letters", lambda: self.time, self.texts.append)

    def add(self, count: int, needed: int | None = None, **more: Any) -> None:
        self.notices.add([UnusedRows("E", more.pop("kind", "late"), count, needed, **more)])

    def new(self) -> list[str]:
        texts = self.texts[:]
        self.texts.clear()
        return texts


def test_the_first_at_once_then_one_a_minute_and_the_rest_at_the_end() -> None:
    said = _Said()
    said.add(1, 3, first=LATE)
    assert said.new() == [
        "input `E`: 1 row came too late, at most by 3 ticks; --lateness 3 would do; the first:"
        ' a.csv: late: tick 3 came: {"x": 1}; all are in c/dead_letters'
    ]
    for said.time in (10.0, 30.0, 59.0):
        said.add(10, 7 if said.time == 30.0 else 2)
    assert said.new() == []
    assert said.notices.wait() == 1.0
    said.time = 60.0
    said.notices.tell_due()
    (text,) = said.new()
    assert text.startswith(
        "input `E`: 30 more rows came too late, 31 by now, at most by 7 ticks; --lateness 7"
    )
    said.time = 61.0
    said.add(1, 1)
    assert (said.new(), said.notices.wait()) == ([], 59.0)
    said.notices.finish()
    (text,) = said.new()
    assert text.startswith("input `E`: 1 more row came too late, 32 by now")
    said.notices.finish()
    assert (said.new(), said.notices.wait()) == ([], None)


def test_kinds_and_inputs_have_warnings_of_their_own() -> None:
    said = _Said(tick="1m", lateness="2m", sparse=("E",))
    said.add(2, 7)
    said.add(1, 90, kind="ahead")
    said.add(4, kind="unreadable")
    said.notices.add([UnusedRows(None, "unreadable", 1)])
    said.add(3, 9, changed=("P", "Q"), cause="a heartbeat said so")
    late, ahead, unreadable, unknown = (
        text.removesuffix("; all are in c/dead_letters") for text in said.new()
    )
    assert late == (
        "input `E`: 2 rows came too late, at most by 5m; --lateness 7m would do, and so would no"
        " --sparse E"
    )
    assert ahead == (
        "input `E`: 1 row could not be used, since its time lies too far ahead; where times are"
        " right, --max-jump 90m takes them"
    )
    assert unreadable == "input `E`: 4 rows could not be used"
    assert unknown == "1 row could not be used"
    said.notices.finish()
    (text,) = said.new()
    assert "a heartbeat said so; answers of P, Q could have been other ones" in text


@pytest.mark.parametrize(
    ("count", "tick", "text"), [(90, "1s", "90s"), (120, "1s", "2m"), (10**15, "1d", str(10**15))]
)
def test_lengths_are_as_options_take_them(count: int, tick: str, text: str) -> None:
    assert length_text(count, Ticks.of(tick)) == text


RULES = "input E(x: int) @ time.  input F(x: int) @ time.  P(X) @ T :- E(X) @ T, F(X) @ T."
ROWS = st.lists(st.tuples(st.sampled_from("EF"), st.integers(0, 12)), min_size=1, max_size=25)


def _late(rows: list[tuple[str, int]], lateness: int) -> dict[str, int]:
    """How many rows come too late, by input: the definition, a row at a time."""
    seen: dict[str, int] = {}
    late = {"E": 0, "F": 0}
    for name, time in rows:
        if len(seen) == 2 and time <= min(seen.values()) - 1 - lateness:
            late[name] += 1
        seen[name] = max(time, seen.get(name, time))
    return {name: count for name, count in late.items() if count}


def test_rows_late_by_a_million_ticks_name_what_moved_time() -> None:
    said = _Said()
    said.add(1, 3_999_999_999)
    (text,) = said.new()
    assert "; a time far ahead has moved the stream on: --max-jump N puts such rows aside" in text
    assert "--lateness" not in text
    said = _Said(max_jump=10_000_000)
    said.add(1, 3_999_999)
    (text,) = said.new()
    assert "--lateness 3999999 would do" in text


@given(rows=ROWS, lateness=st.integers(0, 3))
@examples(15)
def test_the_counts_are_right_and_the_lateness_named_would_do(
    rows: list[tuple[str, int]], lateness: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("rules") / "r.tdl"
    path.write_text(RULES)
    lines = [json.dumps({"predicate": name, "x": 1, "time": time}) + "\n" for name, time in rows]
    words = ["run", str(path), "--facts", "-", "--lateness"]

    def warned(lateness: int) -> tuple[dict[str, int], int]:
        done = CliRunner().invoke(cli, [*words, str(lateness)], input="".join(lines))
        assert done.exit_code == 0, done.output
        counts: dict[str, int] = {}
        for name, count in re.findall(r"`(.)`: (\d+)(?: more)? rows? came", done.stderr):
            counts[name] = counts.get(name, 0) + int(count)
        wanted = [int(n) for n in re.findall(r"--lateness (\d+) would do", done.stderr)]
        return counts, max(wanted, default=lateness)

    counts, wanted = warned(lateness)
    assert counts == _late(rows, lateness)
    assert _late(rows, wanted) == {}
    assert wanted == lateness or _late(rows, wanted - 1) != {}
    assert warned(wanted) == ({}, wanted)
